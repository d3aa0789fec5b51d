"""The one loop: it sleeps in one selector until the socket, a signal or the clock has news."""

import os
import selectors
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf

from edge_tvbo import __version__
from edge_tvbo.controller import Controller
from edge_tvbo.explanation import rfc3339
from edge_tvbo.messages import Command, Event, Health, LinkLost, LinkRestored
from edge_tvbo.ports import Attendant, Link
from edge_tvbo.runtime.clock import Clock
from edge_tvbo.runtime.schedule import Schedule

LONGEST_SLEEP = 1.0  # s; nothing is due for longer, so that a lost wake-up costs little


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
    """

    def __init__(
        self,
        link: Link,
        controllers: Mapping[str, Controller],
        schedule: Schedule,
        clock: Clock,
        *,
        health_every: float = 60.0,
        watch: Callable[[str, Command], None] = lambda field, command: None,
        attendants: Sequence[Attendant] = (),
    ) -> None:
        self._link = link
        self._controllers = controllers
        self._schedule = schedule
        self._clock = clock
        self._health_every = health_every
        self._health_due = time.monotonic()
        self._began = time.monotonic()
        self._watch = watch
        self._attendants = attendants
        self._selector = selectors.DefaultSelector()  # now: later there may be no descriptors left
        self._online = True  # what the controllers believe

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
        for field, event in chain(received, self._link_news(), self._schedule.due()):
            for command in self._controllers[field].handle(event):
                self._schedule.note(field, command)
                self._link.send(field, command)
                self._watch(field, command)
        if now >= self._health_due:
            self._health_due = now + self._health_every
            self._link.report(self.health())
        for attendant in self._attendants:
            attendant.service(time.monotonic())

    def _link_news(self) -> Iterator[tuple[str, Event]]:
        online = self._link.online
        if online is not self._online:
            self._online = online
            for field in self._controllers:
                yield field, LinkRestored() if online else LinkLost()

    def health(self) -> Health:
        """Give how the daemon is doing."""
        return Health(
            at=rfc3339(round(self._clock.wall(self._clock.elapsed()), 3)),
            uptime_s=int(time.monotonic() - self._began),
            version=__version__,
            fields={name: each.health() for name, each in self._controllers.items()},
        )

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
    attendants: Sequence[Attendant] = (),
) -> int:
    """Wait for the link, a wake-up or `timeout` seconds; give what the socket is ready for.

    An attendant whose descriptor is readable ends the sleep too.
    """
    interest = link.interest()
    waiting = [each.fileno() for each in attendants if each.fileno() >= 0]
    if interest is not None:
        selector.register(*interest)
    for descriptor in waiting:
        selector.register(descriptor, selectors.EVENT_READ, "attendant")
    ready = selector.select(max(0.0, timeout))
    for descriptor in (*waiting, *([] if interest is None else [interest[0]])):
        selector.unregister(descriptor)
    for key, _ in ready:
        if key.data == "wakeup":
            os.read(key.fd, 64)
    return sum(mask for key, mask in ready if key.data is None)
