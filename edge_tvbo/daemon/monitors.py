"""Everybody who watches the daemon, from its start to its end, whatever is reloaded meanwhile."""

import logging
from collections.abc import Callable, Mapping
from math import inf

from edge_tvbo.config.settings import Settings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon import build_mqtt
from edge_tvbo.daemon.clock import Clock
from edge_tvbo.daemon.status import StatusCollector
from edge_tvbo.daemon.watchdog import Watchdog
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.commands import Command
from edge_tvbo.plugins import load
from edge_tvbo.ports import Link, LoopService, Notifier

log = logging.getLogger(__name__)


class Monitors:
    """One attendant that stands for systemd and for whoever reads `/metrics` and `/healthz`.

    It is the loop's `watch` too, and is told what to look at by `follow`: at the start and after
    each reload.
    """

    def __init__(self, notifier: Notifier | None = None) -> None:
        self._notifier: Notifier = notifier or load("notifiers", "systemd")()
        self._overview: StatusCollector | None = None
        self._watchdog: Watchdog | None = None
        self._monitor: LoopService | None = None
        self._where: tuple[str, int | None] = ("", None)

    def follow(
        self,
        settings: Settings,
        controllers: Mapping[str, Controller],
        link: Link,
        clock: Clock,
        written: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Look at these from now on; the counts go on, and a reload is over.

        `written` gives the bytes of state written so far, None where none is kept.
        """
        intervals = build_mqtt.intervals(settings)
        if self._overview is None:
            self._overview = StatusCollector(controllers, link, intervals, clock, written)
        else:
            self._overview.follow(controllers, link, intervals, written)
        self._watchdog = Watchdog(self._notifier, link, self._overview.text)
        where = (settings.metrics.host, settings.metrics.port)
        if where != self._where:
            self._listen(self._overview, *where)

    def reloading(self) -> None:
        """Say that the configuration is read again; `follow` ends it, whatever came of it."""
        self._notifier.reloading()

    def _listen(self, overview: StatusCollector, host: str, port: int | None) -> None:
        """Serve metrics there, and no longer where they were; what fails stops no decision."""
        if self._monitor:
            self._monitor.close()
        self._monitor, self._where = None, (host, port)
        if port is None:
            return
        try:
            self._monitor = load("monitors", "prometheus")(host, port, overview.status)
        except EdgeTvboError as error:
            log.error("metrics: %s It goes on without them; SIGHUP tries again.", error)
            self._where = ("", None)

    # --- what the loop calls ------------------------------------------------------------------

    def __call__(self, field: str, command: Command) -> None:
        """Count `command`."""
        if self._overview:
            self._overview(field, command)

    def fileno(self) -> int:
        """Give what is readable when somebody asks for metrics."""
        return self._monitor.fileno() if self._monitor else -1

    def wake_at(self) -> float:
        """Give when the first of them wants to be served."""
        return min((each.wake_at() for each in self._attendants()), default=inf)

    def service(self, now: float) -> None:
        """Serve each of them."""
        for each in self._attendants():
            each.service(now)

    def close(self) -> None:
        """Say that the end has begun, and stop listening."""
        for each in self._attendants():
            each.close()
        self._monitor = None

    def _attendants(self) -> list[LoopService]:
        every = (self._overview, self._watchdog, self._monitor)
        return [each for each in every if each is not None]
