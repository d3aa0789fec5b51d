"""Reading filter: rejects readings that are implausible, duplicate, too old or in the future."""

from collections.abc import Iterator
from math import inf, isfinite, isnan, nan, sqrt

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.controller_state import ControllerState
from edge_tvbo.control.late_readings import LateReadings
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.documents import LastReading
from edge_tvbo.messages.events import Reading
from edge_tvbo.messages.formatting import YEAR_1, YEAR_9999
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy.argument_checks import MAX_READING

DUPLICATE_WINDOW_S = 2.0  # between the arrivals of two equal readings; see `_is_duplicate`


class ReadingFilter:
    """Filter of readings, which compares each reading with the last reading of the same sensor.

    Parameters
    ----------
    sensors : int
        The number of sensors, M.
    plausible : tuple of float
        The lowest and the highest plausible value, in the field's unit.
    max_age, max_future : float
        The time of a reading may be at most `max_age` s before the reading arrives, and at most
        `max_future` s after the reading arrives.
    """

    def __init__(
        self, sensors: int, plausible: tuple[float, float], max_age: float, max_future: float
    ) -> None:
        self._lowest, self._highest = plausible
        self._max_age = max_age
        self._max_future = max_future
        self.measured = [-inf] * sensors  # s since 1970, by the sensors' clocks
        self.received = [-inf] * sensors  # s since 1970, by this machine's clock
        self.values = [nan] * sensors
        self.late = LateReadings(sensors)
        self.stepped = -inf  # when this machine's clock was last set, s since 1970
        self.clock_is_set = True
        self.clock_is_synced = True

    def reject_reason(self, arm: int, reading: Reading, activated_at: float | None) -> str | None:
        """Return the reason to reject a reading of `arm`, in one word; None to accept the reading.

        `activated_at` is the time when `arm` was activated, in s since 1970; None if the controller
        does not wait for a reply of `arm`. A late reading is noted; see `LateReadings`.
        """
        if reading.retained:
            return "retained"
        if not isfinite(reading.value) or not isfinite(reading.at):
            return "non-finite"
        if not self._lowest <= reading.value <= self._highest:
            return "implausible"
        if self._is_duplicate(arm, reading, activated_at):
            return "duplicate"
        age = self._age(reading)
        if -age > self._max_future:
            return "future-dated"
        if age > self._max_age:
            return "late"
        if self._is_overtaken(arm, reading) and not self.late.was_set_back(arm, reading):
            return "late"
        return None

    def accept(self, arm: int, reading: Reading) -> None:
        """Store an accepted reading in the filter, as the last reading of `arm`."""
        self.measured[arm] = reading.at
        self.received[arm] = reading.received
        self.values[arm] = reading.value
        self.late.clear(arm)

    def last_readings(self) -> Iterator[tuple[int, LastReading]]:
        """Yield ``(arm, reading)`` for each sensor's last reading that the filter accepted."""
        for arm, received in enumerate(self.received):
            if received > -inf:
                yield arm, LastReading(self.values[arm], received)

    def shift_timestamps(self, by: float, at: float) -> None:
        """Add `by` seconds to the stored arrival times, because the clock was set at time `at`."""
        self.received = [received + by for received in self.received]
        self.late.clear_all()
        self.stepped, self.clock_is_set = at, True

    def restore(self, held: ControllerState) -> None:
        """Restore the last readings of all sensors from a controller state that `check` accepts."""
        self.measured, self.received = held.last_at, held.last_received
        self.values, self.stepped = held.last_value, held.stepped

    def check(self, held: ControllerState) -> None:
        """Raise `SnapshotError` unless the reading filter's stored last readings are valid."""
        columns = ((held.last_at, -inf), (held.last_received, -inf), (held.last_value, nan))
        whole = all(_is_column(column, len(self.values), never) for column, never in columns)
        if not whole or not (isfinite(held.stepped) or held.stepped == -inf):
            raise SnapshotError("The controller's snapshot contains invalid last readings.")

    def _age(self, reading: Reading) -> float:
        """Return the age of `reading` on its arrival, in s; 0 if the age is unknown.

        The age is unknown if the clock is not set. It is also unknown if the reading is dated in
        the future and the clock does not count as synchronised, because the clock may be days
        behind.
        """
        age = reading.received - reading.at
        is_known = self.clock_is_set and (self.clock_is_synced or -age <= self._max_future)
        return age if is_known or not YEAR_1 <= reading.at <= YEAR_9999 else 0.0

    def _is_overtaken(self, arm: int, reading: Reading) -> bool:
        """Return whether `reading` was measured before the last accepted reading of `arm`.

        Return False if the times of the two readings cannot be compared, for one of these reasons:

        - The clock of this machine was set after the last accepted reading arrived.
        - The last accepted reading was dated in the future.
        - The payload of `reading` contained no time.

        While the clock of this machine is not set, the first two reasons do not count. Instead,
        return False if the clock of the sensor does not seem to be set either. Also return False if
        the difference of the times is more than the maximum age, because the clock of the sensor
        was then probably corrected.
        """
        measured, received = self.measured[arm], self.received[arm]
        if not reading.stamped or reading.at >= measured:
            return False
        if not self.clock_is_set:
            sensor_is_set = reading.at - reading.received > self._max_future
            return sensor_is_set and measured - reading.at <= self._max_age
        return received > self.stepped and measured - received <= self._max_future

    def _is_duplicate(self, arm: int, reading: Reading, activated_at: float | None) -> bool:
        """Return whether `reading` repeats the last accepted reading of `arm`.

        Readings with the same time but different values are no duplicates, because many sensors
        report the time in whole seconds. The first reply to an activation is no duplicate in these
        cases:

        - Its payload contains no time.
        - Its time is in whole seconds, and the last reading arrived a short time ago. The sensor
          may have measured twice in the same second.

        If `reading` arrived at the time of the activation, it is no reply: it was received in the
        same batch as the reading after which the sensor was activated.
        """
        if reading.value != self.values[arm]:
            return False
        received = self.received[arm]
        is_soon = reading.received - received < DUPLICATE_WINDOW_S
        is_reply = activated_at is not None and received <= activated_at < reading.received
        if reading.stamped:
            may_be_new = is_reply and is_soon and reading.at.is_integer()
            return reading.at == self.measured[arm] and not may_be_new
        return is_soon and not is_reply


def _is_column(column: list[float], sensors: int, never: float) -> bool:
    """Return whether a column of the filter's last readings is valid.

    A valid column has one entry per sensor: a finite number, or the value `never`.
    """
    known = [each for each in column if not (isnan(each) if isnan(never) else each == never)]
    return len(column) == sensors and all(map(isfinite, known))


def plausible_range(field: SensorField, settings: ControllerSettings) -> tuple[float, float]:
    """Return the lowest and the highest plausible reading of a field, in the field's unit.

    If the settings do not contain the range, its width is a multiple of the field's standard
    deviation, which counts as at least one model unit. Without this minimum, the range of a trained
    field could exclude some sensors: the kernel of a trained field describes only the deviations
    from the sensors' means, which can be small, and not the differences between these means.

    A reading that is too large for every policy is implausible, whatever the settings are. On a log
    scale, so is a reading above the highest value that the scale can represent.
    """
    farthest = MAX_READING / 2.0  # half, because the conversion to model units has rounding errors
    if isinstance(settings.plausible, tuple):
        lowest, highest = settings.plausible
        least, most = field.bounds(farthest)
        is_linear = field.log1p_scale is None  # a log scale can represent every low reading
        return max(lowest, least) if is_linear else lowest, min(highest, most)
    std = max(1.0, sqrt(field.kernel.diagonal().max()))
    return field.bounds(min(settings.plausible * std, farthest))
