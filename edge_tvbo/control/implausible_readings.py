"""Implausible readings: the sensors whose last reading is implausible, and these readings."""

from dataclasses import dataclass
from typing import Any

from edge_tvbo.control.sensor_arrays import arrays_of, load_arrays
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import MAX_NUMBER, check_arrays


@dataclass(slots=True)
class ImplausibleRecord:
    """Implausible readings of one sensor; a snapshot contains each attribute under its name."""

    value: float = 0.0  # of the newest implausible reading, in the field's unit
    last: bool = False  # whether it is the sensor's last reading
    noticed: int = 0  # 2 + interval of the last notice; 0: never


class ImplausibleReadings:
    """The sensors whose last reading is outside the plausible range, and these readings.

    Parameters
    ----------
    sensors : int
        The number of sensors, M.

    Examples
    --------
    >>> implausible = ImplausibleReadings(2)
    >>> [implausible.note(1, value, interval=7) for value in (85.0, -127.0)]
    [True, False]
    >>> implausible.values()
    {1: -127.0}
    """

    def __init__(self, sensors: int) -> None:
        self._sensors = [ImplausibleRecord() for _ in range(sensors)]

    def note(self, arm: int, value: float, interval: int) -> bool:
        """Record that `arm` sent the implausible `value`; return whether a notice is due.

        A notice is due if the sensor's previous reading was plausible, and no notice about the
        sensor was due earlier in the interval.
        """
        sensor = self._sensors[arm]
        is_due = not sensor.last and sensor.noticed != interval + 2
        sensor.value = min(max(value, -MAX_NUMBER), MAX_NUMBER)
        sensor.last = True
        if is_due:
            sensor.noticed = interval + 2
        return is_due

    def clear(self, arm: int) -> None:
        """Record that the last reading of `arm` is plausible."""
        self._sensors[arm].last = False

    def apply_range(self, lowest: float, highest: float) -> None:
        """Clear the restored readings that are within the present plausible range."""
        for arm, value in self.values().items():
            if lowest <= value <= highest:
                self.clear(arm)

    def values(self) -> dict[int, float]:
        """Return a dict that maps arms to implausible last readings, in the field's unit."""
        return {arm: each.value for arm, each in enumerate(self._sensors) if each.last}

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the implausible readings for a snapshot.

        It is empty before the first implausible reading, and in the snapshots of old versions.
        """
        is_noted = any(each.noticed for each in self._sensors)
        return arrays_of("implausible_", self._sensors) if is_noted else {}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` is not a valid state of the implausible readings."""
        if "implausible_value" not in state:
            return
        check_arrays(arrays_of("implausible_", self._sensors), state)
        if (state["implausible_noticed"] < 0).any():
            raise SnapshotError("The snapshot's table of implausible readings is invalid.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the implausible readings from a `state` that `check` accepts."""
        self._sensors = [ImplausibleRecord() for _ in self._sensors]
        if "implausible_value" in state:
            load_arrays("implausible_", self._sensors, state)
