"""Late readings: whether newer readings overtook a reading, or its sensor's clock was set back.

A reading is late if it was measured before the last accepted reading of its sensor. Usually it was
overtaken: it comes from a queue, from the memory of the sensor, or over a slower way. But if the
clock of the sensor was set back, all its readings seem to be late, until the clock shows the former
time again. Only the readings of a sensor with such a clock have both of these properties:

- The times between their arrivals are equal to the times between their measurements. A queue or a
  memory sends its readings faster.
- No other reading of the sensor is accepted between them.
"""

from dataclasses import dataclass
from typing import Any

from edge_tvbo.control.sensor_arrays import arrays_of, load_arrays
from edge_tvbo.messages.events import Reading
from edge_tvbo.models.snapshot import check_arrays

MIN_SPAN_S = 10.0  # minimum time between two late readings that are compared
# The time between two arrivals may differ from the time between the two measurements by this share:
MAX_DEVIATION = 0.1


@dataclass(slots=True)
class LateRecord:
    """The first late reading of one sensor; a snapshot contains each attribute under its name."""

    measured: float = 0.0  # s since 1970, by the sensor's clock
    received: float = 0.0  # s since 1970; 0: no late reading


class LateReadings:
    """The first late reading of each sensor since its last accepted reading.

    Parameters
    ----------
    sensors : int
        The number of sensors, M.

    Examples
    --------
    >>> late = LateReadings(1)
    >>> late.was_set_back(0, Reading("a", 20.0, at=1000.0, received=8200.0))
    False
    >>> late.was_set_back(0, Reading("a", 20.0, at=1600.0, received=8800.5))
    True
    """

    def __init__(self, sensors: int) -> None:
        self._sensors = [LateRecord() for _ in range(sensors)]

    def was_set_back(self, arm: int, reading: Reading) -> bool:
        """Note a late `reading` of `arm`; return whether the clock of the sensor was set back."""
        first = self._sensors[arm]
        span, wait = reading.at - first.measured, reading.received - first.received
        is_regular = abs(wait - span) <= MAX_DEVIATION * max(span, MIN_SPAN_S)
        if first.received and is_regular and span >= 0.0:
            return span >= MIN_SPAN_S
        first.measured, first.received = reading.at, reading.received
        return False

    def clear(self, arm: int) -> None:
        """Forget the late reading of `arm`, because another reading is accepted."""
        first = self._sensors[arm]
        first.measured = first.received = 0.0

    def clear_all(self) -> None:
        """Forget all late readings, because the clock of this machine was set."""
        self._sensors = [LateRecord() for _ in self._sensors]

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the late readings for a snapshot.

        It is empty without a late reading, and in the snapshots of old versions.
        """
        is_noted = any(each.received for each in self._sensors)
        return arrays_of("late_", self._sensors) if is_noted else {}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` is not a valid state of the late readings."""
        if "late_received" in state or "late_measured" in state:
            check_arrays(arrays_of("late_", self._sensors), state)

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the late readings from a `state` that `check` accepts."""
        self.clear_all()
        if "late_received" in state:
            load_arrays("late_", self._sensors, state)
