"""Loop: one thread waits for input, deadlines and signals, and handles the resulting events."""

import logging
import os
import select
import selectors
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Protocol

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import MAX_SYNC_WAIT_S, Clock
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.messages.commands import Command, Reject
from edge_tvbo.messages.documents import Alert, Hotspot, Notice, NoticeKind, Request, Response, Verb
from edge_tvbo.messages.events import (
    ActivationUndelivered,
    ClockStepped,
    ClockSyncChanged,
    ClockUnset,
    Event,
    IntervalElapsed,
    LinkLost,
    LinkRestored,
    QuietHoursEnded,
    Reading,
    Unreadable,
)
from edge_tvbo.messages.formatting import rfc3339

log = logging.getLogger(__name__)

MAX_SLEEP_S = 1.0  # so that a lost wake-up delays events by at most this time
Observer = Callable[[str, Command], None]


class Link(Protocol):
    """The connection to the broker, as the loop uses it.

    The methods of the link neither block nor raise network errors: while the broker is unreachable,
    `online` is False. Every `now` is in seconds of the monotonic clock.
    """

    @property
    def online(self) -> bool:
        """Whether the broker has accepted the connection and subscriptions of the loop's link."""
        ...

    def interest(self) -> tuple[int, int] | None:
        """Return the descriptor of the loop's link, and the `selectors` mask to wait for.

        Returns None if the link has no socket.
        """
        ...

    def wake_at(self) -> float:
        """Return the latest monotonic time for the next call of `service` of the loop's link."""
        ...

    def service(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        """Do the network I/O of the loop's link; yield ``(field, event)``, the oldest first.

        The loop handles each event before it takes the next event. After the last event, the link
        acknowledges the messages.
        """
        ...

    def recall(self, field: str) -> Iterable[ActivationUndelivered]:
        """Withdraw the unconfirmed activations of `field` from the loop's link.

        Return an event for each of these activations. An activation is unconfirmed if the broker
        has not acknowledged it.
        """
        ...

    def requests(self) -> Iterable[tuple[Verb, Request] | Unreadable]:
        """Return the users' requests that the loop's link has received since the last call."""
        ...

    def respond(self, verb: Verb, response: Response) -> None:
        """Publish the response to a user's request over the loop's link."""
        ...

    def send(self, field: str, command: Command) -> None:
        """Carry out a `command` that the loop received from the controller of `field`."""
        ...

    def show(self, field: str, document: Hotspot | Alert) -> None:
        """Publish the hot spot of `field`, or the state of its alert, over the loop's link."""
        ...

    def announce(self, notice: Notice) -> None:
        """Publish a notice about the whole daemon over the loop's link."""
        ...

    def expect_readings(self, fields: Collection[str]) -> None:
        """Set from which `fields` the loop's link expects readings; see `expecting_readings`.

        If readings are expected, and no sensor sends a message for a long time, the link
        reconnects.
        """
        ...


class LoopService(Protocol):
    """Object that the loop calls in every turn; its methods neither block nor raise exceptions."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when the loop's service has work; -1 if none."""
        return -1

    def wake_at(self) -> float:
        """Return the latest monotonic time for the loop's next call of `service`."""
        ...

    def service(self, now: float) -> None:
        """Do the work that is due; the loop calls this method after the controllers."""
        ...

    def close(self) -> None:
        """Release the resources of the loop's service; by default, do nothing."""
        return


class Loop:
    """Event loop: passes events to the controllers, and their commands to the link.

    Parameters
    ----------
    link : Link
        The connection to the broker, for all fields.
    controllers : mapping
        The controller of each field.
    scheduler, clock
        The scheduler and the clock, which determine when intervals begin and replies time out.
    handler : CommandHandler, optional
        Processes the requests of users. If it is None, requests are ignored.
    observers : sequence of callable
        Functions that are called with ``(field, command)`` after each command was sent.
    services : sequence of LoopService
        Services that are called in every turn, after the controllers. The caller closes them.
    on_reading : callable, optional
        Function that is called with ``(field, reading)`` after each accepted reading.
    on_event : callable, optional
        Function that is called with ``(field, event, seconds)`` after each event that a controller
        has handled; `seconds` is the time that the controller took.
    on_change : callable
        Function that is called after each request and after each step of the clock. Both
        change the daemon's health.
    """

    def __init__(
        self,
        link: Link,
        controllers: Mapping[str, Controller],
        scheduler: Scheduler,
        clock: Clock,
        *,
        handler: CommandHandler | None = None,
        observers: Sequence[Observer] = (),
        services: Sequence[LoopService] = (),
        on_reading: Callable[[str, Reading], None] | None = None,
        on_event: Callable[[str, Event, float], None] | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._link = link
        self._controllers = controllers
        self._scheduler = scheduler
        self._clock = clock
        self._handler = handler
        self._observers = observers
        self._services = services
        self._on_reading = on_reading
        self._on_event = on_event
        self._on_change = on_change
        self._changed: dict[str, None] = {}  # fields whose hot spot and alert are due
        self._alerts = {  # by field with a threshold: whether its alert was active
            name: False for name, each in controllers.items() if each.settings.alert
        }
        # the state of the link and of the clock that was last reported to the controllers
        self._online = True
        self._clock_was_set = True
        self._clock_was_synced = True  # whether the clock counted as synchronised

    def run(self, stop: Callable[[], bool], wakeup: int | None = None) -> None:
        """Run the loop until `stop` returns True; input on the descriptor `wakeup` ends a wait."""
        while not stop():
            self.turn(sleep(self._link, self._timeout(), self._services, wakeup))
        self._handle_clock()  # before the last checkpoint

    def turn(self, mask: int) -> None:
        """Run one turn of the loop: first handle received messages, then events that are due.

        `mask` contains the operations for which the link's socket is ready.
        """
        self._handle_clock()
        for field, event in self._link.service(mask, time.monotonic()):
            self._handle(field, event)
        for field, event in self._link_events():
            self._handle(field, event)
        for field, event in self._quiet_hours_events():
            self._handle(field, event)
        if self._link.online:
            self._scheduler.start()
        self._handle_due()
        self._publish_hotspots()
        if self._handler is not None:
            self._process_requests(self._handler)
            self._publish_hotspots()
        for service in self._services:
            service.service(time.monotonic())

    def _handle_clock(self) -> None:
        for field, event in self._clock_events():
            self._handle(field, event)

    def _handle_due(self) -> None:
        """Handle the events of the schedule that are due.

        If an interval has begun, the energy that is left for activations may have changed. So also
        update from which fields the link expects readings.
        """
        has_begun = False
        for field, event in self._scheduler.due():
            for undelivered in self._link.recall(field):
                self._handle(field, undelivered)
            self._handle(field, event)
            has_begun |= isinstance(event, IntervalElapsed)
        if has_begun:
            self._link.expect_readings(expecting_readings(self._controllers))

    def _handle(self, field: str, event: Event) -> None:
        began = time.perf_counter()
        commands = self._controllers[field].handle(event)
        seconds = time.perf_counter() - began
        accepted = event if isinstance(event, Reading) else None
        for command in commands:
            self._link.send(field, command)
        for command in commands:  # observers run after all commands are sent
            self._scheduler.note(field, command)
            for observe in self._observers:
                observe(field, command)
            if isinstance(command, Reject):
                accepted = None
            else:
                self._changed[field] = None
        if self._alert_changed(field) or isinstance(event, (IntervalElapsed, LinkRestored)):
            self._changed[field] = None
        if accepted and self._on_reading:
            self._on_reading(field, accepted)
        if self._on_event:
            self._on_event(field, event, seconds)

    def _alert_changed(self, field: str) -> bool:
        """Return whether the alert of `field` has begun or ended since the loop's last event.

        In quiet hours, the controller returns no command that reports this change.
        """
        if field not in self._alerts:
            return False
        before, now = self._alerts[field], self._controllers[field].alert_is_active
        self._alerts[field] = now
        return now is not before

    def _publish_hotspots(self) -> None:
        """Publish the hot spot and the alert of each field whose state may have changed.

        In each turn of the loop, this method is called twice. The first call is after the
        decisions, so that no decision is delayed. The second call is after the requests of users,
        because a request may reset a model.
        """
        for field in self._changed:
            if hotspot := self._controllers[field].hotspot(self._now()):
                self._link.show(field, hotspot)
            if alert := self._controllers[field].alert(self._now()):
                self._link.show(field, alert)
        self._changed.clear()

    def _process_requests(self, handler: CommandHandler) -> None:
        for request in self._link.requests():
            if isinstance(request, Unreadable):
                handler.reject(request)
            else:
                response = handler.process(*request, self._now(), self._handle)
                self._link.respond(request[0], response)
                self._link.expect_readings(expecting_readings(self._controllers))
            self._on_change()

    def _link_events(self) -> Iterator[tuple[str, Event]]:
        online = self._link.online
        if online is not self._online:
            self._online = online
            for field in self._controllers:
                yield field, LinkRestored(self._now()) if online else LinkLost()

    def _quiet_hours_events(self) -> Iterator[tuple[str, Event]]:
        for field in self._alerts:
            at = self._now()
            if self._controllers[field].alert_notice_is_overdue(at):
                yield field, QuietHoursEnded(at)

    def _clock_events(self) -> Iterator[tuple[str, Event]]:
        was_set = self._clock.is_set
        by = self._clock.resync()
        if by:
            at = self._now()
            is_first = not was_set and self._clock.is_set
            self._announce_step("clock-synced" if is_first else "clock-step", by, at)
            self._clock_was_set = True
            yield from ((field, ClockStepped(by, at)) for field in self._controllers)
        if self._clock_was_set and not self._clock.is_set:
            self._clock_was_set = False
            log.warning(
                "the wall clock is not set; until it is set, readings are dated by their arrival"
            )
            yield from ((field, ClockUnset()) for field in self._controllers)
        if self._clock_was_synced is not self._clock.counts_as_synced:
            yield from self._sync_events()

    def _sync_events(self) -> Iterator[tuple[str, Event]]:
        synced = self._clock_was_synced = not self._clock_was_synced
        if self._clock.is_synced:
            log.info("the wall clock is synchronised")
        elif synced and self._clock.is_set:
            log.warning(
                "the wall clock is still not synchronised after %g min; from now on, readings that "
                "are dated in the future are rejected; check the time server of this machine",
                MAX_SYNC_WAIT_S / 60.0,
            )
        elif self._clock.is_set:
            log.info(
                "the wall clock is not synchronised and may be behind; until it is synchronised, "
                "but for at most %g min, a reading that is dated in the future counts as measured "
                "on arrival",
                MAX_SYNC_WAIT_S / 60.0,
            )
        self._on_change()
        yield from ((field, ClockSyncChanged(synced)) for field in self._controllers)

    def _announce_step(self, event: NoticeKind, by: float, at: float) -> None:
        direction = "forward" if by > 0 else "back"
        text = f"The wall clock was set {direction} by {abs(by):.1f} s; intervals are unaffected"
        log.warning("%s: %s", event, text)
        self._link.announce(Notice(event, rfc3339(at), text))
        self._on_change()

    def _now(self) -> float:
        return round(self._clock.wall(self._clock.elapsed()), 3)

    def _timeout(self) -> float:
        until_due = (self._scheduler.next_due() - self._clock.elapsed()) / self._clock.speed
        wake_at = min((each.wake_at() for each in self._services), default=inf)
        wake_at = min(wake_at, self._link.wake_at())
        return min(until_due, wake_at - time.monotonic(), MAX_SLEEP_S)


def expecting_readings(controllers: Mapping[str, Controller]) -> list[str]:
    """Return the names of the fields whose controllers expect readings, for the loop's link."""
    return [field for field, each in controllers.items() if each.expects_readings]


def sleep(
    link: Link,
    timeout: float,
    services: Sequence[LoopService] = (),
    wakeup: int | None = None,
) -> int:
    """Let the loop wait for the link, a service or a wake-up, at most `timeout` seconds.

    `wakeup` is the descriptor that is readable after a wake-up. Returns the `selectors` mask of the
    operations for which the link's socket is ready.
    """
    poll = select.poll()  # unlike epoll, poll needs no descriptor
    descriptor, wanted = link.interest() or (-1, 0)
    if wanted:
        reads, writes = wanted & selectors.EVENT_READ, wanted & selectors.EVENT_WRITE
        poll.register(descriptor, (reads and select.POLLIN) | (writes and select.POLLOUT))
    for each in services:
        if (of_service := each.fileno()) >= 0:
            poll.register(of_service, select.POLLIN)
    if wakeup is not None:
        poll.register(wakeup, select.POLLIN)
    of_link = 0
    for ready, events in poll.poll(ceil(1e3 * max(0.0, timeout))):
        if ready == descriptor:  # an error makes the socket ready for all operations
            reads = selectors.EVENT_READ if events & ~select.POLLOUT else 0
            writes = selectors.EVENT_WRITE if events & ~select.POLLIN else 0
            of_link = (reads | writes) & wanted
        elif ready == wakeup:
            os.read(wakeup, 64)
    return of_link
