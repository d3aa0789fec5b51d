"""Backoff: the waits between attempts to connect to a broker."""

from random import Random

STABLE_SESSION_S = 60.0  # a session that lasts this long resets the waits
SHORT_SESSION_S = 10.0  # a session that the broker ends within this time is short
MIN_SHORT_SESSIONS = 3  # after this many short sessions in a row, the backoff waits longer
EARLY_END_WAIT_S = 60.0  # shortest wait after `MIN_SHORT_SESSIONS` short sessions


class Backoff:
    """Exponential backoff with full jitter; a session of `STABLE_SESSION_S` seconds resets it.

    The bound of the waits doubles with each attempt. Each wait is drawn uniformly between 0 and the
    bound (full jitter). So gateways that lost their broker at the same time do not all reconnect at
    the same time.

    If two clients use the same client id, the broker accepts each connection of either client, and
    then ends the session of the other client. Therefore an accepted connection (CONNACK) alone does
    not reset the backoff.

    Parameters
    ----------
    shortest, longest : float
        The bound of the first wait, and the largest bound, s.
    rng : Random
        Draws the waits.
    """

    def __init__(self, shortest: float, longest: float, rng: Random) -> None:
        self._shortest = shortest
        self._longest = longest
        self._rng = rng
        self._attempts = 0
        self.short_sessions = 0  # number of sessions in a row that the broker ended soon

    def wait(self) -> float:
        """Draw the backoff's wait before the next attempt to connect, in s; count the attempt."""
        bound = min(self._longest, self._shortest * 2.0 ** min(self._attempts, 32))
        self._attempts += 1
        if self.sessions_end_early:
            return max(EARLY_END_WAIT_S, self._longest)
        return self._rng.uniform(0.0, bound)

    def ended(self, lasted: float, *, by_broker: bool = True) -> None:
        """Update the backoff when a session has ended.

        `lasted` is the length of the session in s. `by_broker` says whether the broker ended the
        session.
        """
        if lasted >= STABLE_SESSION_S:
            self._attempts = 0
        short = by_broker and lasted < SHORT_SESSION_S
        self.short_sessions = self.short_sessions + 1 if short else 0

    def clear(self) -> None:
        """Set the backoff's `short_sessions` to 0; these sessions no longer prolong the waits."""
        self.short_sessions = 0

    @property
    def sessions_end_early(self) -> bool:
        """Whether the last `MIN_SHORT_SESSIONS` sessions were short, so the backoff waits longer.

        If so, another client probably uses the same client id, or the broker does not accept a
        message.
        """
        return self.short_sessions >= MIN_SHORT_SESSIONS
