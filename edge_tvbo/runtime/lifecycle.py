"""How the daemon lives: it starts without a broker, runs until told to stop, says good-bye."""

import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from edge_tvbo.config import Settings
from edge_tvbo.messages import Command, Notify, PublishState
from edge_tvbo.plugins import load
from edge_tvbo.runtime import assembly, wiring
from edge_tvbo.runtime.clock import LiveClock
from edge_tvbo.runtime.loop import Loop
from edge_tvbo.runtime.schedule import Schedule

log = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Run every field of the configuration until SIGTERM or SIGINT; raises `ConfigError` early."""
    controllers = assembly.controllers(settings)
    clock = LiveClock()
    link = load("links", "mqtt")(wiring.broker(settings), wiring.wirings(settings))
    with closing(link), stopped_by_signal() as (stop, wakeup):
        schedule = Schedule(wiring.intervals(settings), clock, first=clock.elapsed())
        loop = Loop(
            link, controllers, schedule, clock, health_every=settings.health, watch=Journal()
        )
        sensors = sum(len(each.sensors) for each in settings.fields.values())
        log.info("ready: %d sensors, fields %s", sensors, ", ".join(settings.fields))
        loop.run(stop, wakeup)
        log.info("stopped")


@contextmanager
def stopped_by_signal() -> Iterator[tuple[Callable[[], bool], int]]:
    """Give whether SIGTERM or SIGINT has come, and a descriptor that either makes readable.

    Both do again what they did before when the context is left.
    """
    seen: list[int] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno())
        handlers = {
            number: signal.signal(number, lambda number, _: seen.append(number))
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield lambda: bool(seen), ours.fileno()
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)


class Journal:
    """Logs what a person wants to read later: each change of decision, each notice."""

    def __init__(self) -> None:
        self._selected: dict[str, str] = {}

    def __call__(self, field: str, command: Command) -> None:
        """Log `command` if it is news."""
        match command:
            case PublishState(decision=decision):
                if self._selected.get(field) != decision.sensor:
                    self._selected[field] = decision.sensor
                    log.info("%s: %s", field, decision.text)
            case Notify(notice=notice):
                log.warning("%s: %s: %s", field, notice.event, notice.text)
            case _:
                pass
