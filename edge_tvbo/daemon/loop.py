"""The one loop: it sleeps in one selector until the socket, a signal or the clock has news."""

import logging
import os
import selectors
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf

from edge_tvbo import __version__
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import Clock
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.documents import FieldHealth, Health, Notice
from edge_tvbo.messages.events import (
    ClockStepped,
    ClockUnset,
    Event,
    IntervalElapsed,
    LinkLost,
    LinkRestored,
)
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.numerics.jit import COMPILATION
from edge_tvbo.ports import Link, LoopService

log = logging.getLogger(__name__)

LONGEST_SLEEP = 1.0  # s; nothing is due for longer, so that a lost wake-up costs little
HEALTH_APART = 1.0  # s, at the least, between two health reports that requests call for


class Loop:
    """Carries events from link and clock to the controllers, and their commands back.

    Parameters
    ----------
    link : Link
        The network of every field.
    controllers : mapping
        One for each field.
    schedule, clock
        What is due when.
    health_every : float
        Real seconds between two health reports.
    watch : callable
        Is shown ``(field, command)`` for each command, after it was sent.
    attendants : sequence of Attendant
        Are served in every turn, after the controllers; whoever made them closes them.
    before : Loop or None
        Whose place this one takes.
    troubles : callable
        Gives in words what somebody should look after beside the sensors; health says it.
    """

    def __init__(
        self,
        link: Link,
        controllers: Mapping[str, Controller],
        schedule: Scheduler,
        clock: Clock,
        *,
        health_every: float = 60.0,
        watch: Callable[[str, Command], None] = lambda field, command: None,
        attendants: Sequence[LoopService] = (),
        before: "Loop | None" = None,
        troubles: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._link = link
        self._controllers = controllers
        self._schedule = schedule
        self._clock = clock
        self._health_every = health_every
        self._health_due = time.monotonic()
        self._reported = -inf  # monotonic
        self._began: float = before._began if before else time.monotonic()
        self._watch = watch
        self._attendants = attendants
        self._troubles = troubles
        self._selector = selectors.PollSelector()  # it needs no descriptor of its own
        self._online = True  # what the controllers believe
        self._dated = True  # likewise: that the wall clock is set
        self._desk = CommandHandler(link, controllers, self._handle, self.health)
        if before:
            self._desk.succeed(before._desk)

    def run(self, stop: Callable[[], bool], wakeup: int | None = None) -> None:
        """Go round until `stop` says so; `wakeup` is a descriptor that ends a sleep."""
        if wakeup is not None:
            self._selector.register(wakeup, selectors.EVENT_READ, "wakeup")
        while not stop():
            timeout = self._sleep_for()
            self.turn(sleep(self._selector, self._link, timeout, self._attendants))
        if wakeup is not None:
            self._selector.unregister(wakeup)

    def close(self) -> None:
        """Let go of what `run` sleeps in."""
        self._selector.close()

    def turn(self, mask: int) -> None:
        """Handle what came in, then what is due."""
        now = time.monotonic()
        received = self._link.service(mask, now)
        news = chain(self._clock_news(), received, self._link_news())
        for field, event in chain(news, self._schedule.due()):
            self._handle(field, event)
        if self._desk.serve(self._now()):  # health says what is paused, and what was refused
            self._health_due = min(self._health_due, self._reported + HEALTH_APART)
        if now >= self._health_due:
            self._reported, self._health_due = now, now + self._health_every
            self._link.report(self.health())
        for attendant in self._attendants:
            attendant.service(time.monotonic())

    def _handle(self, field: str, event: Event) -> None:
        commands = self._controllers[field].handle(event)
        for command in commands:
            self._link.send(field, command)
        for command in commands:  # nobody waits for these
            self._schedule.note(field, command)
            self._watch(field, command)
            self._desk.note(field, command)
        if commands or isinstance(event, IntervalElapsed):
            self._show(field)

    def _show(self, field: str) -> None:
        if hotspot := self._controllers[field].hotspot(self._now()):
            self._link.show(field, hotspot)

    def _link_news(self) -> Iterator[tuple[str, Event]]:
        online = self._link.online
        if online is not self._online:
            self._online = online
            for field in self._controllers:
                yield field, LinkRestored() if online else LinkLost()

    def _clock_news(self) -> Iterator[tuple[str, Event]]:
        was_set = self._clock.is_set
        by = self._clock.follow()
        if by:
            at = self._now()
            self._announce_step(by, at, first=not was_set and self._clock.is_set)
            self._dated = True
            yield from ((field, ClockStepped(by, at)) for field in self._controllers)
        if self._dated and not self._clock.is_set:
            self._dated = False
            log.warning("the wall clock was not set yet; until it is, readings date from arrival")
            yield from ((field, ClockUnset()) for field in self._controllers)

    def _announce_step(self, by: float, at: float, *, first: bool) -> None:
        way = "ahead" if by > 0 else "back"
        text = f"The wall clock was set {way} by {abs(by):.1f} s; intervals go on as they were"
        notice = Notice("clock-synced" if first else "clock-step", rfc3339(at), text)
        log.warning("%s: %s", notice.event, text)
        self._link.announce(notice)
        self._health_due = 0.0  # it says whether the clock is set

    def _now(self) -> float:
        return round(self._clock.wall(self._clock.elapsed()), 3)

    def health(self) -> Health:
        """Give how the daemon is doing."""
        fields = {name: each.health() for name, each in self._controllers.items()}
        return Health(
            at=rfc3339(self._now()),
            uptime_s=int(time.monotonic() - self._began),
            version=__version__,
            fields=fields,
            clock_synced=self._clock.is_set,
            paused=all(each.paused for each in fields.values()),
            problem=self._problem(fields),
            refused=dict(self._desk.refused),
            kernels=COMPILATION,
        )

    def _problem(self, fields: Mapping[str, FieldHealth]) -> str | None:
        sensors = {name: len(each.policy.field) for name, each in self._controllers.items()}
        silent = [name for name, each in fields.items() if len(each.suspects) == sensors[name]]
        answers = [f"no sensor of {', '.join(silent)} answers"] if silent else []
        return "; ".join([*answers, *self._troubles()]) or None

    def _sleep_for(self) -> float:
        now = time.monotonic()
        until_due = (self._schedule.next_due() - self._clock.elapsed()) / self._clock.speed
        wake_at = min((each.wake_at() for each in self._attendants), default=inf)
        wake_at = min(wake_at, self._link.wake_at(), self._health_due)
        return min(until_due, wake_at - now, LONGEST_SLEEP)


def sleep(
    selector: selectors.BaseSelector,
    link: Link,
    timeout: float,
    attendants: Sequence[LoopService] = (),
) -> int:
    """Wait for the link, a wake-up or `timeout` seconds; give what the socket is ready for.

    An attendant whose descriptor is readable ends the sleep too.
    """
    for key in list(selector.get_map().values()):  # now, and not when somebody waits for an answer
        if key.data != "wakeup":
            selector.unregister(key.fd)
    if interest := link.interest():
        selector.register(*interest)
    for each in attendants:
        if (descriptor := each.fileno()) >= 0:
            selector.register(descriptor, selectors.EVENT_READ, "attendant")
    ready = selector.select(max(0.0, timeout))
    for key, _ in ready:
        if key.data == "wakeup":
            os.read(key.fd, 64)
    return sum(mask for key, mask in ready if key.data is None)
