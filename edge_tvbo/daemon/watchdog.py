"""Tells whoever started the daemon that it works, as long as it does.

A timer of its own would say so of a daemon that hangs. The watchdog is fed from the loop, and only
when both have moved since it was last fed: a turn of the loop was completed, and the link did its
part, which is to have heard the broker of late, or to be about to try it again. A broker that is
away is no reason to be started anew; a loop that blocks, or a link that sleeps, is.
"""

import logging
from collections.abc import Callable
from math import inf

from edge_tvbo.ports import Link, Notifier

log = logging.getLogger(__name__)

AGAIN = 1.0  # s until a link that stands still is looked at again
STATUS_EVERY = 1.0  # s between two statuses, so that a fast field does not flood the journal


class Watchdog:
    """An attendant of the loop: says ready, how it goes, and that it goes.

    Parameters
    ----------
    notifier : Notifier
        Whoever is told.
    link : Link
        What must move beside the loop.
    text : callable
        Says in one line how it goes.
    """

    def __init__(self, notifier: Notifier, link: Link, text: Callable[[], str]) -> None:
        self._notifier = notifier
        self._link = link
        self._text = text
        self._every = notifier.patience / 2 if notifier.patience else inf
        self._ready = False
        self._stuck = False
        self._feed_at = -inf
        self._status_at = -inf

    def fileno(self) -> int:
        """Give no descriptor: only the clock wakes a watchdog."""
        return -1

    def wake_at(self) -> float:
        """Give when it is to be fed next."""
        return self._feed_at

    def service(self, now: float) -> None:
        """Say what is due; that this is called proves that the loop has turned."""
        if not self._ready:
            self._ready = True
            self._notifier.ready(self._text())
        elif now >= self._status_at:
            self._notifier.status(self._text())
            self._status_at = now + STATUS_EVERY
        if now >= self._feed_at:
            self._feed_at = now + (self._every if self._feed(now) else AGAIN)

    def _feed(self, now: float) -> bool:
        moved = self._link.alive(now)
        if moved and self._every < inf:
            self._notifier.feed()
        if not moved and not self._stuck:
            log.error("the link stands still; the watchdog is not fed until it moves")
        self._stuck = not moved
        return moved

    def close(self) -> None:
        """Say that the end has begun."""
        self._notifier.stopping()
