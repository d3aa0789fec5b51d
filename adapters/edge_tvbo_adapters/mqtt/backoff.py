"""Backoff: how long to wait before the next attempt to connect."""

from random import Random

STABLE_SESSION_S = 60.0  # a session that lasts so long resets the waits
SHORT_SESSION_S = 10.0  # a session that the broker ends sooner hints at a second client with our id
MIN_SHORT_SESSIONS = 3  # such sessions in a row, until a second client is assumed
DUPLICATE_ID_WAIT_S = 60.0  # between two attempts while it is assumed


class Backoff:
    """Waits whose bound doubles, with full jitter, and that a stable session resets.

    Full jitter is a uniform draw from 0 to the bound: gateways that lost a broker together come
    back spread over the whole wait, and not all towards its end.

    A CONNACK does not reset the waits: a broker lets two clients with one id in, in turns.

    Parameters
    ----------
    shortest, longest : float
        The bound of the first wait and of every wait, s.
    rng : Random
        Draws the waits, so that a fleet spreads.
    """

    def __init__(self, shortest: float, longest: float, rng: Random) -> None:
        self._shortest = shortest
        self._longest = longest
        self._rng = rng
        self._attempts = 0
        self.short_sessions = 0  # in a row

    def wait(self) -> float:
        """Return the seconds until the next attempt, and count it."""
        bound = min(self._longest, self._shortest * 2.0 ** min(self._attempts, 32))
        self._attempts += 1
        if self.duplicate_client_id:
            return max(DUPLICATE_ID_WAIT_S, self._longest)
        return self._rng.uniform(0.0, bound)

    def ended(self, lasted: float, *, by_broker: bool = True) -> None:
        """Note that a session ended after so many seconds, and which side ended it."""
        if lasted >= STABLE_SESSION_S:
            self._attempts = 0
        short = by_broker and lasted < SHORT_SESSION_S
        self.short_sessions = self.short_sessions + 1 if short else 0

    def clear(self) -> None:
        """Note that no second client is involved: the broker itself is away."""
        self.short_sessions = 0

    @property
    def duplicate_client_id(self) -> bool:
        """Whether another client seems to take our place again and again."""
        return self.short_sessions >= MIN_SHORT_SESSIONS
