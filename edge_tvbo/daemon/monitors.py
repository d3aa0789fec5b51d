"""Monitors: systemd's watchdog and the metrics endpoint, across reloads of the configuration."""

import logging
from collections.abc import Callable
from math import inf

from edge_tvbo.daemon.loop import LoopService
from edge_tvbo.daemon.watchdog import Notifier, Watchdog
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.documents import Status

log = logging.getLogger(__name__)

OpenEndpoint = Callable[[str, int, Callable[[], Status]], LoopService]


class Monitors:
    """One service of the loop for everything that watches the daemon from outside.

    Parameters
    ----------
    notifier : Notifier
        The service manager that started the daemon.
    open_endpoint : callable
        Listens on ``(host, port)`` and serves the status; raises `EdgeTvboError`.
    """

    def __init__(self, notifier: Notifier, open_endpoint: OpenEndpoint) -> None:
        self._notifier = notifier
        self._open_endpoint = open_endpoint
        self._watchdog: Watchdog | None = None
        self._endpoint: LoopService | None = None
        self._address: tuple[str, int | None] = ("", None)

    def attach(self, link_alive: Callable[[float], bool], summary: Callable[[], str]) -> None:
        """Watch a new link from now on; the start, or a reload, is complete with its next turn."""
        self._watchdog = Watchdog(self._notifier, link_alive, summary)

    def reloading(self) -> None:
        """Report that the configuration is being read again; `attach` ends it."""
        self._notifier.reloading()

    def listen(self, host: str, port: int | None, status: Callable[[], Status]) -> None:
        """Serve metrics at this address, and no longer at an earlier one; no port closes it."""
        if (host, port) == self._address:
            return
        if self._endpoint:
            self._endpoint.close()
        self._endpoint, self._address = None, (host, port)
        if port is None:
            return
        try:
            self._endpoint = self._open_endpoint(host, port, status)
        except EdgeTvboError as error:
            log.error("metrics: %s The daemon continues without them; SIGHUP tries again.", error)
            self._address = ("", None)

    def fileno(self) -> int:
        """Return the descriptor that is readable when metrics are requested."""
        return self._endpoint.fileno() if self._endpoint else -1

    def wake_at(self) -> float:
        """Return when the first of the monitors is due."""
        return min((each.wake_at() for each in self._services()), default=inf)

    def service(self, now: float) -> None:
        """Serve each monitor."""
        for each in self._services():
            each.service(now)

    def close(self) -> None:
        """Report that the daemon is stopping, and stop listening."""
        for each in self._services():
            each.close()
        self._endpoint = None

    def _services(self) -> list[LoopService]:
        return [each for each in (self._watchdog, self._endpoint) if each is not None]
