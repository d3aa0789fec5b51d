"""Watchdog: reports the daemon's status to systemd, and whether the daemon is ready and alive.

systemd restarts the daemon if the notifications stop. They stop in two cases: the loop is blocked
and does not call the watchdog; or the link is stalled. A stalled link has received no packet
recently and is not about to reconnect. An unreachable broker is no reason for a restart. The loop
sends the notifications, because a separate timer would report a hung daemon as alive.
"""

import logging
from collections.abc import Callable
from math import inf
from typing import Protocol

from edge_tvbo.daemon.loop import LoopService

log = logging.getLogger(__name__)

RETRY_DELAY_S = 1.0  # time until a stalled link is checked again, or a lost report is repeated
STATUS_PERIOD_S = 1.0  # between two status lines, so that a fast field does not flood the journal


class Notifier(Protocol):
    """Interface to the service manager of the daemon; the methods neither raise nor block."""

    @property
    def watchdog_timeout(self) -> float | None:
        """Seconds after which the service manager restarts the daemon if `alive` is not called.

        None if the service manager does not watch the daemon.
        """
        ...

    def ready(self, text: str) -> bool:
        """Report to the service manager that the start or a reload of the daemon is complete.

        Return False if the service manager did not receive the report.
        """
        ...

    def status(self, text: str) -> None:
        """Report the daemon's status to the service manager, in one line."""
        ...

    def alive(self) -> bool:
        """Report to the service manager that the daemon makes progress.

        Return False if the service manager did not receive the report.
        """
        ...

    def reloading(self) -> None:
        """Report to the service manager that a reload has begun; `ready` reports its end."""
        ...

    def stopping(self) -> None:
        """Report to the service manager that the daemon is stopping."""
        ...


class Watchdog(LoopService):
    """Loop service that reports the daemon's progress to the service manager.

    Parameters
    ----------
    notifier : Notifier
        The service manager.
    link_alive : callable
        Function of the monotonic time that returns whether the link makes progress.
    summary : callable
        Returns the daemon's status in one line.
    """

    def __init__(
        self, notifier: Notifier, link_alive: Callable[[float], bool], summary: Callable[[], str]
    ) -> None:
        self._notifier = notifier
        self._link_alive = link_alive
        self._summary = summary
        timeout = notifier.watchdog_timeout
        self._period = timeout / 2 if timeout else inf
        self._ready = False
        self._stalled = False
        self._alive_at = -inf
        self._status_at = -inf

    def wake_at(self) -> float:
        """Return the time when the watchdog's next report is due."""
        return self._alive_at

    def service(self, now: float) -> None:
        """Send systemd the reports that are due; each call shows that the loop makes progress."""
        if not self._ready:
            self._ready = self._notifier.ready(self._summary())
        elif now >= self._status_at:
            self._notifier.status(self._summary())
            self._status_at = now + STATUS_PERIOD_S
        if now >= self._alive_at:
            self._alive_at = now + (self._period if self._report(now) else RETRY_DELAY_S)

    def _report(self, now: float) -> bool:
        """Notify systemd's watchdog if the link makes progress.

        Return False if the link makes no progress, or if systemd did not receive the notification.
        """
        progress = self._link_alive(now)
        if not progress and not self._stalled:
            log.error(
                "the link to the broker makes no progress; systemd's watchdog is not notified "
                "until the link makes progress again"
            )
        self._stalled = not progress
        return progress and (self._period == inf or self._notifier.alive())

    def close(self) -> None:
        """Report, through the watchdog's notifier, that the daemon is stopping."""
        self._notifier.stopping()
