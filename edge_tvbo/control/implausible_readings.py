"""Implausible readings: the sensors whose last reading is implausible, and these readings."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import MAX_NUMBER, check_arrays


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
        self._value = [0.0] * sensors  # in the field's unit
        self._is_last = [0] * sensors  # 1 if the last reading was implausible
        self._noticed = [0] * sensors  # 2 + interval of the last notice; 0: never

    def note(self, arm: int, value: float, interval: int) -> bool:
        """Record that `arm` sent the implausible `value`; return whether a notice is due.

        A notice is due if the sensor's previous reading was plausible, and no notice about the
        sensor was due earlier in the interval.
        """
        is_due = not self._is_last[arm] and self._noticed[arm] != interval + 2
        self._value[arm] = min(max(value, -MAX_NUMBER), MAX_NUMBER)
        self._is_last[arm] = 1
        if is_due:
            self._noticed[arm] = interval + 2
        return is_due

    def clear(self, arm: int) -> None:
        """Record that the last reading of `arm` is plausible."""
        self._is_last[arm] = 0

    def apply_range(self, lowest: float, highest: float) -> None:
        """After `restore`, clear the implausible readings that are within the present range."""
        for arm, value in self.values().items():
            if lowest <= value <= highest:
                self.clear(arm)

    def values(self) -> dict[int, float]:
        """Return the implausible last readings, in the field's unit, by the sensor's arm number."""
        return {arm: self._value[arm] for arm, is_last in enumerate(self._is_last) if is_last}

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the implausible readings, for `check` and `restore`.

        It is empty before the first implausible reading, and in the snapshots of old versions.
        """
        return self._arrays() if any(self._noticed) else {}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` is not a valid state of the implausible readings."""
        if "implausible_value" not in state:
            return
        check_arrays(self._arrays(), state)
        if (state["implausible_noticed"] < 0).any():
            raise SnapshotError("The snapshot's table of implausible readings is invalid.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the implausible readings from a checked state."""
        none = ImplausibleReadings(len(self._value))
        known = state if "implausible_value" in state else none._arrays()
        self._value = known["implausible_value"].tolist()
        self._is_last = known["implausible_last"].tolist()
        self._noticed = known["implausible_noticed"].tolist()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "implausible_value": np.array(self._value, np.float64),
            "implausible_last": np.array(self._is_last, np.int64),
            "implausible_noticed": np.array(self._noticed, np.int64),
        }
