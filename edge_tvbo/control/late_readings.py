"""Late readings: whether a late reading was overtaken, or its sensor's clock was set back.

A reading is late if it was measured before the last accepted reading of its sensor. Usually it was
overtaken: it comes from a queue, from the memory of the sensor, or over a slower way. But if the
clock of the sensor was set back, all its readings seem to be late, until the clock shows the former
time again. Only these readings have both of these properties:

- The times between their arrivals are the times between their measurements. A queue or a memory
  sends its readings faster.
- No other reading of the sensor is accepted in between.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.messages.events import Reading
from edge_tvbo.models.snapshot import check_arrays

MIN_SPAN_S = 10.0  # time between two late readings that are compared
MAX_DEVIATION = 0.1  # of the time between the arrivals, as a share of that between the measurements


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
        self._measured = [0.0] * sensors  # s since 1970, by the sensors' clocks
        self._received = [0.0] * sensors  # s since 1970; 0: no late reading

    def was_set_back(self, arm: int, reading: Reading) -> bool:
        """Note a late `reading` of `arm`; return whether the clock of the sensor was set back."""
        span = reading.at - self._measured[arm]
        wait = reading.received - self._received[arm]
        is_regular = abs(wait - span) <= MAX_DEVIATION * max(span, MIN_SPAN_S)
        if self._received[arm] and is_regular and span >= 0.0:
            return span >= MIN_SPAN_S
        self._measured[arm], self._received[arm] = reading.at, reading.received
        return False

    def clear(self, arm: int) -> None:
        """Forget the late reading of `arm`, because another reading is accepted."""
        self._measured[arm] = self._received[arm] = 0.0

    def clear_all(self) -> None:
        """Forget all late readings, because the clock of this machine was set."""
        self._measured = [0.0] * len(self._measured)
        self._received = [0.0] * len(self._received)

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the late readings, for `check` and `restore`.

        It is empty without a late reading, and in the snapshots of old versions.
        """
        return self._arrays() if any(self._received) else {}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` is not a valid state of the late readings."""
        if "late_received" in state or "late_measured" in state:
            check_arrays(self._arrays(), state)

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the late readings from a checked state."""
        known = state if "late_received" in state else LateReadings(len(self._received))._arrays()
        self._measured = known["late_measured"].tolist()
        self._received = known["late_received"].tolist()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "late_measured": np.array(self._measured, np.float64),
            "late_received": np.array(self._received, np.float64),
        }
