"""Input silence: whether no sensor has sent a message for too long."""

from math import inf

MAX_SILENCE_FACTOR = 8  # highest limit divided by the configured limit


class InputSilence:
    """Compares the time since the last message of any sensor with a limit.

    When the limit is reached, the link reconnects, and the limit doubles, up to
    `MAX_SILENCE_FACTOR` times the configured limit. A message of any sensor restores the configured
    limit.

    Parameters
    ----------
    configured : float, optional
        The limit of the first silence, in s; None for no limit.
    """

    def __init__(self, configured: float | None) -> None:
        self._configured = configured or inf
        self._limit = self._configured
        self._since = 0.0  # monotonic
        self.expects_readings = True

    @property
    def persists(self) -> bool:
        """Whether the link has reconnected because of the silence, and the silence continues."""
        return self.expects_readings and self._limit > self._configured

    def begin(self, now: float) -> None:
        """Measure the silence of the sensors from `now`, the beginning of a session."""
        self._since = now

    def end(self, now: float) -> None:
        """End the silence, because a sensor has sent a message; restore the configured limit."""
        self._since, self._limit = now, self._configured

    def is_too_long(self, now: float) -> bool:
        """Return whether the silence has reached its limit; False if no readings are expected."""
        if not self.expects_readings:
            self._since = now
        return now - self._since >= self._limit

    def extend(self) -> float:
        """Return the limit that the silence has reached, in s, and double the limit."""
        limit = self._limit
        self._limit = min(2.0 * limit, MAX_SILENCE_FACTOR * self._configured)
        return limit
