"""Sensor health: which sensors are unresponsive, and how long each is backed off."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import check_arrays, copy_arrays, read_count
from edge_tvbo.numerics.types import Mask


class SensorHealth:
    """Consecutive time-outs of each of M sensors, and the intervals for which it is backed off.

    After its consecutive time-outs, a sensor is not activated for 1, 2, 4, ... intervals, at most
    `max_backoff`. Then it may be selected again. A reading of the sensor clears its time-outs.

    Parameters
    ----------
    sensors : int
        The number of sensors, M.
    max_backoff : int
        Maximum number of intervals.

    Examples
    --------
    >>> health = SensorHealth(2, max_backoff=64)
    >>> health.mark_timed_out(0, interval=10)
    >>> [health.eligible(interval).tolist() for interval in (11, 12)]
    [[False, True], [True, True]]
    """

    def __init__(self, sensors: int, max_backoff: int) -> None:
        self._max_backoff = max_backoff
        self._misses = np.zeros(sensors, np.int64)  # consecutive time-outs
        self._retry = np.zeros(sensors, np.int64)  # first interval in which it may be selected
        self._implausible = np.zeros(sensors, np.bool_)  # whether its last reply was implausible
        self._count = 0  # number of unresponsive sensors
        self._turn = -1  # the sensor that was probed last

    def mark_timed_out(self, arm: int, interval: int) -> None:
        """Count a time-out of `arm` in `interval`, and back it off."""
        self._count += int(self._misses[arm] == 0)
        pause = min(2 ** int(min(self._misses[arm], 62)), self._max_backoff)
        self._misses[arm] += 1
        self._retry[arm] = interval + 1 + pause

    def mark_responsive(self, arm: int) -> bool:
        """Clear the time-outs of `arm` after a reading; return whether it was unresponsive."""
        was_unresponsive = self.is_unresponsive(arm)
        self._implausible[arm] = False
        if was_unresponsive:
            self._misses[arm] = 0
            self._retry[arm] = 0
            self._count -= 1
        return was_unresponsive

    def mark_implausible(self, arm: int) -> None:
        """Note an implausible reply of `arm`; then only a plausible reply clears its time-outs."""
        self._implausible[arm] = True

    def is_implausible(self, arm: int) -> bool:
        """Return whether the last reply of the sensor `arm` was implausible."""
        return bool(self._implausible[arm])

    def is_unresponsive(self, arm: int) -> bool:
        """Return whether `arm` timed out when it was last activated."""
        return bool(self._misses[arm])

    @property
    def any_unresponsive(self) -> bool:
        """Whether at least one sensor is unresponsive."""
        return self._count > 0

    @property
    def all_unresponsive(self) -> bool:
        """Whether every sensor is unresponsive."""
        return self._count == len(self._misses)

    def retry_interval(self, arm: int) -> int:
        """Return the first interval in which the sensor `arm` may be selected again."""
        return int(self._retry[arm])

    def eligible(self, interval: int) -> Mask:
        """Return a mask of the sensors that may be selected in `interval`, (M,).

        If all sensors are unresponsive, all may be selected.
        """
        return (self._retry <= interval) | self.all_unresponsive

    def next_in_turn(self, eligible: Mask) -> int:
        """Return the eligible sensor to probe next, while all sensors are unresponsive."""
        later = np.roll(eligible, -(self._turn + 1))
        return int(self._turn + 1 + later.argmax()) % len(eligible)

    def mark_probed(self, arm: int) -> None:
        """Note that the unresponsive sensor `arm` was probed, so that another one is next."""
        self._turn = arm

    def unresponsive(self, sensors: tuple[str, ...]) -> list[str]:
        """Return the names of the unresponsive sensors."""
        return [sensors[arm] for arm in np.flatnonzero(self._misses)]

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the sensors' health, for `check` and `restore`."""
        return {"turn": self._turn + 1, **self._arrays()}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `state` is a valid state of the sensors' health."""
        check_arrays(self._arrays(), state)
        misses, retry = state["misses"], state["retry"]
        if (misses < 0).any() or (retry < 0).any() or retry[misses == 0].any():
            raise SnapshotError("The snapshot's counts of time-outs are invalid.")
        if read_count(state, "turn") > len(self._misses):
            raise SnapshotError("The snapshot's 'turn' refers to an unknown sensor.")

    def restore(self, state: dict[str, Any], interval: int) -> None:
        """Restore the health of all sensors from a checked state.

        `interval` is the number of the last interval that began.
        """
        copy_arrays(self._arrays(), state)
        np.minimum(self._retry, interval + 1 + self._max_backoff, out=self._retry)
        self._count = int(np.count_nonzero(self._misses))
        self._turn = int(state["turn"]) - 1

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"misses": self._misses, "retry": self._retry}
