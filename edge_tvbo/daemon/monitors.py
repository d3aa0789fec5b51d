"""Monitors: systemd's watchdog and the metrics endpoint, which stay in use after a reload."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf

from edge_tvbo.config.settings import Metrics
from edge_tvbo.daemon.loop import LoopService
from edge_tvbo.daemon.watchdog import Notifier, Watchdog
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.documents import Status

log = logging.getLogger(__name__)

RETRY_DELAY_S = 60.0  # time between two attempts to open the metrics endpoint
OpenEndpoint = Callable[[Metrics, Callable[[], Status]], LoopService]


class Monitors(LoopService):
    """Loop service that notifies systemd's watchdog and serves the metrics endpoint.

    Parameters
    ----------
    notifier : Notifier
        The service manager that started the daemon.
    open_endpoint : callable
        Function of ``(settings, status)`` that opens and returns the metrics endpoint; it raises
        `EdgeTvboError`. The endpoint serves the result of ``status()``.
    """

    def __init__(self, notifier: Notifier, open_endpoint: OpenEndpoint) -> None:
        self._notifier = notifier
        self._open_endpoint = open_endpoint
        self._watchdog: Watchdog | None = None
        self._endpoint: LoopService | None = None
        self._settings = Metrics()
        self._retry_at = inf  # monotonic time of the next attempt to open the endpoint

    def attach(self, link_alive: Callable[[float], bool], summary: Callable[[], str]) -> None:
        """Monitor a new link; the next turn of the loop reports that the daemon is ready."""
        self._watchdog = Watchdog(self._notifier, link_alive, summary)

    def reloading(self) -> None:
        """Let the monitors report that a reload has begun; `attach` reports its end."""
        self._notifier.reloading()

    def listen(self, settings: Metrics, status: Callable[[], Status]) -> None:
        """Serve metrics according to `settings`; if they contain no port, serve no metrics.

        If the endpoint cannot be opened, `service` tries again later. For example, the network may
        not have assigned the configured address yet.
        """
        if settings == self._settings and self._retry_at == inf:
            return
        if self._endpoint:
            self._endpoint.close()
        self._endpoint, self._settings, self._retry_at = None, settings, inf
        if settings.port is None:
            return
        self._status = status
        try:
            self._open()
        except EdgeTvboError as error:
            log.error("metrics: %s The daemon continues without metrics, and retries.", error)

    def _open(self) -> None:
        self._retry_at = time.monotonic() + RETRY_DELAY_S
        self._endpoint = self._open_endpoint(self._settings, self._status)
        self._retry_at = inf

    def fileno(self) -> int:
        """Return the descriptor that is readable when metrics are requested; -1 without metrics."""
        return self._endpoint.fileno() if self._endpoint else -1

    def wake_at(self) -> float:
        """Return the monotonic time when the next monitor is due."""
        return min(self._retry_at, *(each.wake_at() for each in self._services()), inf)

    def service(self, now: float) -> None:
        """Open the metrics endpoint if an attempt is due; then call `service` of each monitor."""
        if now >= self._retry_at:
            with suppress(EdgeTvboError):
                self._open()
        for each in self._services():
            each.service(now)

    def close(self) -> None:
        """Let the monitors report that the daemon is stopping; close the metrics endpoint."""
        for each in self._services():
            each.close()
        self._endpoint = None

    def _services(self) -> list[LoopService]:
        return [each for each in (self._watchdog, self._endpoint) if each is not None]
