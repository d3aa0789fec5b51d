"""Input silence: the time without a message from any sensor, and the limit of this time."""

from collections.abc import Collection, Mapping
from math import inf

from edge_tvbo.config.field_settings import FieldSettings

MIN_DEFAULT_S = 60.0
DEFAULT_INTERVALS = 3  # the default limit, in intervals
MAX_SILENCE_FACTOR = 8  # highest limit divided by the configured limit


class InputSilence:
    """The time since the last message of any sensor, and the limit of this time.

    When the limit is reached, the link reconnects, and the limit doubles, up to
    `MAX_SILENCE_FACTOR` times the configured limit. A message of any sensor restores the configured
    limit.

    Parameters
    ----------
    configured : float or None
        The limit of the first silence, in s. If it is None, the limit is computed from the longest
        interval of the fields that activate a sensor in each interval. If there are no such fields,
        there is no limit.
    fields : mapping
        The settings of each field.
    """

    def __init__(self, configured: float | None, fields: Mapping[str, FieldSettings]) -> None:
        intervals = {name: each.activation_interval_s for name, each in fields.items()}
        known = {name: each for name, each in intervals.items() if each is not None}
        longest = max(known.values(), default=inf)
        default = max(DEFAULT_INTERVALS * longest, MIN_DEFAULT_S)
        self._configured = default if configured is None else configured
        self._counted = frozenset(known if configured is None else fields)
        self._limit = self._configured
        self._since = 0.0  # monotonic
        self._expects = True

    def expect_readings(self, fields: Collection[str]) -> None:
        """Set the fields whose readings are expected.

        If no readings are expected, the silence is never too long. If no limit is configured,
        readings are expected only from fields that activate a sensor in each interval.
        """
        self._expects = not self._counted.isdisjoint(fields)

    @property
    def persists(self) -> bool:
        """Whether all sensors are still silent after a reconnection because of their silence."""
        return self._expects and self._limit > self._configured

    def begin(self, now: float) -> None:
        """Measure the silence of the sensors from `now`, the beginning of a session."""
        self._since = now

    def end(self, now: float) -> None:
        """End the silence, because a sensor has sent a message; restore the configured limit."""
        self._since, self._limit = now, self._configured

    def is_too_long(self, now: float) -> bool:
        """Return whether the silence has reached its limit; False if no readings are expected."""
        if not self._expects:
            self._since = now
        return now - self._since >= self._limit

    def extend(self) -> float:
        """Return the limit that the silence has reached, in s, and double the limit."""
        limit = self._limit
        self._limit = min(2.0 * limit, MAX_SILENCE_FACTOR * self._configured)
        return limit
