"""Which readings can be used: none that is impossible, repeated, or of another time."""

from collections.abc import Iterator
from math import inf, isfinite, isnan, nan

from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.documents import LastReading
from edge_tvbo.messages.events import Reading

SAME_VALUE = 2.0  # s; an unstamped reading repeated within it is a second delivery


class ReadingFilter:
    """Remembers the last reading accepted of each of M sensors, and judges the next by it.

    Parameters
    ----------
    sensors : int
        M.
    plausible : tuple of float
        The lowest and the highest value that is believed.
    max_age, max_future : float
        Seconds that a reading may be old when it arrives, and ahead of our clock.
    """

    def __init__(
        self, sensors: int, plausible: tuple[float, float], max_age: float, max_future: float
    ) -> None:
        self._lowest, self._highest = plausible
        self._max_age = max_age
        self._max_future = max_future
        self.measured = [-inf] * sensors  # by the sensors' clocks, s since 1970
        self.received = [-inf] * sensors  # by ours
        self.values = [nan] * sensors
        self.stepped = -inf  # when our clock was last set
        self.dated = True  # whether it is set at all

    def reject_reason(self, arm: int, reading: Reading, asked_at: float | None) -> str | None:
        """Say what is wrong with a reading of `arm`; `asked_at` while its answer is waited for."""
        if reading.retained:
            return "retained"
        if not isfinite(reading.value) or not isfinite(reading.at):
            return "non-finite"
        if not self._lowest <= reading.value <= self._highest:
            return "implausible"
        if self._is_repeated(arm, reading, asked_at):
            return "duplicate"
        age = reading.received - reading.at if self.dated else 0.0
        if -age > self._max_future:
            return "future-dated"
        if age > self._max_age or self._is_overtaken(arm, reading):
            return "late"
        return None

    def accept(self, arm: int, reading: Reading) -> None:
        """Remember a reading that is used."""
        self.measured[arm] = reading.at
        self.received[arm] = reading.received
        self.values[arm] = reading.value

    def last_readings(self) -> Iterator[tuple[int, LastReading]]:
        """Yield the last reading accepted of each sensor that has had one."""
        for arm, received in enumerate(self.received):
            if received > -inf:
                yield arm, LastReading(self.values[arm], received)

    def shift_timestamps(self, by: float, at: float) -> None:
        """Go by a clock that was set `by` seconds ahead, at `at`; the sensors' clocks were not."""
        self.received = [received + by for received in self.received]
        self.stepped, self.dated = at, True

    def resume(
        self, measured: list[float], received: list[float], values: list[float], stepped: float
    ) -> None:
        """Return to what was remembered; see `check`."""
        self.measured, self.received, self.values = measured, received, values
        self.stepped = stepped

    def check(
        self, measured: list[float], received: list[float], values: list[float], stepped: float
    ) -> None:
        """Raise `SnapshotError` for what cannot have been remembered."""
        sensors = len(self.values)
        never = (-inf, -inf, nan)
        columns = zip((measured, received, values), never, strict=True)
        whole = all(_is_column(column, sensors, missing) for column, missing in columns)
        if not whole or not (isfinite(stepped) or stepped == -inf):
            raise SnapshotError("The controller's snapshot holds readings that cannot be.")

    def _is_overtaken(self, arm: int, reading: Reading) -> bool:
        """Say whether a later reading came first; our clock is set, and was not in between."""
        comparable = self.dated and reading.stamped and self.received[arm] > self.stepped
        return comparable and reading.at < self.measured[arm]

    def _is_repeated(self, arm: int, reading: Reading, asked_at: float | None) -> bool:
        if reading.stamped:
            return reading.at == self.measured[arm]
        if asked_at is not None and self.received[arm] <= asked_at < reading.received:
            return False
        since = reading.received - self.received[arm]
        return reading.value == self.values[arm] and since < SAME_VALUE


def _is_column(column: list[float], sensors: int, never: float) -> bool:
    """Say whether there is a number, or `never`, for each sensor."""
    known = [each for each in column if not (isnan(each) if isnan(never) else each == never)]
    return len(column) == sensors and all(map(isfinite, known))
