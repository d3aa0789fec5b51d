"""How long to wait before the broker is tried again."""

from random import Random

STABLE = 60.0  # s a session must last before the waits begin anew
SHORT = 10.0  # s; a session that the broker ends sooner looks like a rival with our name
RIVAL = 3  # such sessions in a row
APART = 60.0  # s between two attempts while a rival is suspected


class Backoff:
    """Waits whose bound doubles, with full jitter, and begins anew only after a stable session.

    Full jitter is a draw from nothing to the bound: whoever lost a broker together with others
    comes back at any time of the wait, and not all towards its end.

    A CONNACK alone proves nothing: two clients with one id are both let in, in turns, for ever.

    Parameters
    ----------
    shortest, longest : float
        The first wait's and every wait's bound, in s.
    chance : Random
        Spreads the waits, so that a fleet does not come back all at once.
    """

    def __init__(self, shortest: float, longest: float, chance: Random) -> None:
        self._shortest = shortest
        self._longest = longest
        self._chance = chance
        self._attempt = 0
        self.short = 0  # sessions in a row that the broker ended soon

    def wait(self) -> float:
        """Give the seconds until the next attempt, and count it."""
        bound = min(self._longest, self._shortest * 2.0 ** min(self._attempt, 32))
        self._attempt += 1
        if self.duplicate_client_id:
            return max(APART, self._longest)
        return self._chance.uniform(0.0, bound)

    def ended(self, lasted: float, *, by_broker: bool = True) -> None:
        """Note that a session is over after so many seconds, and who ended it."""
        if lasted >= STABLE:
            self._attempt = 0
        self.short = self.short + 1 if by_broker and lasted < SHORT else 0

    def clear(self) -> None:
        """Note that there is no rival: a broker that is away has no other client either."""
        self.short = 0

    @property
    def duplicate_client_id(self) -> bool:
        """Whether another client seems to take our place again and again."""
        return self.short >= RIVAL
