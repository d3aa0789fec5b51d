"""How the daemon does, for whoever watches it: systemd, Prometheus, a health check."""

import time
from collections.abc import Callable, Mapping
from math import inf

from edge_tvbo import __version__
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import Clock
from edge_tvbo.messages.commands import Activate, Command, Ending, PublishState, Record
from edge_tvbo.messages.documents import FieldStatus, Status, Tally
from edge_tvbo.ports import Link

AWAY_INTERVALS = 3  # that the broker may be away before that is worth an alarm
AWAY_LEAST = 60.0  # s; the same for short intervals, and those that follow the readings
SILENT = 3600.0  # s, or as many intervals, after which a sensor's last reading is history


class StatusCollector:
    """Counts commands as the loop's `watch` and, as its attendant, notes what the link does.

    Parameters
    ----------
    controllers : mapping
        One for each field.
    link : Link
        The network of every field.
    intervals : mapping
        Seconds for each field, None for one whose intervals follow its readings.
    clock : Clock
        What time it is.
    written : callable
        Gives the bytes of state written so far, None where none is kept.
    """

    def __init__(
        self,
        controllers: Mapping[str, Controller],
        link: Link,
        intervals: Mapping[str, float | None],
        clock: Clock,
        written: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._began = self._lost = time.monotonic()
        self._online = False
        self._connections = 0
        self._tallies: dict[str, Tally] = {}
        self.follow(controllers, link, intervals, written)

    def follow(
        self,
        controllers: Mapping[str, Controller],
        link: Link,
        intervals: Mapping[str, float | None],
        written: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Look at these from now on; fields that stay keep their counts."""
        self._controllers = controllers
        self._link = link
        self._intervals = intervals
        self._written = written
        self._tallies = {name: self._tallies.get(name, Tally()) for name in controllers}

    # --- what it sees -------------------------------------------------------------------------

    def __call__(self, field: str, command: Command) -> None:
        """Count what `command` stands for."""
        tally = self._tallies[field]
        match command:
            case PublishState(decision=decision):
                tally.decisions += 1
                tally.resets = decision.model.resets
            case Activate():
                tally.activations += 1
            case Record(ending=ending):
                tally.answered += ending is Ending.ANSWERED
                tally.missed += ending is Ending.MISSED
            case _:
                pass

    def fileno(self) -> int:
        """Give no descriptor: the link's own news comes through the loop."""
        return -1

    def wake_at(self) -> float:
        """Never wake the loop."""
        return inf

    def service(self, now: float) -> None:
        """Note whether the broker came or went."""
        if self._link.online is self._online:
            return
        self._online = self._link.online
        if self._online:
            self._connections += 1
        else:
            self._lost = now

    def close(self) -> None:
        """Hold nothing."""

    # --- what it says -------------------------------------------------------------------------

    def status(self) -> Status:
        """Give how the daemon does now."""
        now = time.monotonic()
        at = self._clock.wall(self._clock.elapsed())
        away = 0.0 if self._online else now - self._lost
        trouble = self._trouble(now, away)
        return Status(
            at=at,
            uptime=now - self._began,
            version=__version__,
            healthy=not trouble,
            reason=trouble or self.text(),
            online=self._online,
            away=away,
            reconnects=max(0, self._connections - 1),
            fields={name: self._field(name, at) for name in self._controllers},
            written=self._written(),
        )

    def text(self) -> str:
        """Say in one line what is selected and who answers."""
        parts = []
        for name, controller in self._controllers.items():
            health = controller.health()
            sensors = len(controller.policy.field)
            answering = sensors - len(health.suspects)
            parts.append(f"{name}: {health.selected or 'none'} ({answering}/{sensors} answer)")
        return ", ".join(parts) + ("" if self._online else "; the broker is away")

    def _trouble(self, now: float, away: float) -> str:
        if not self._link.alive(now):
            return "the link stands still"
        shortest = min(each or 0.0 for each in self._intervals.values())
        if away > max(AWAY_LEAST, AWAY_INTERVALS * shortest):
            return f"the broker has been away for {away:.0f} s"
        return ""

    def _field(self, name: str, at: float) -> FieldStatus:
        controller = self._controllers[name]
        health = controller.health()
        silent = max(SILENT, AWAY_INTERVALS * (self._intervals[name] or 0.0))
        suspects = set(health.suspects)
        return FieldStatus(
            tally=self._tallies[name],
            refused=health.refused,
            sensors=len(controller.policy.field),
            suspects=len(suspects),
            selected=health.selected,
            latest={
                sensor: latest
                for sensor, latest in controller.latest().items()
                if sensor not in suspects and at - latest.received <= silent
            },
            energy=health.energy,
        )
