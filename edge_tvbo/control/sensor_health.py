"""Which sensors can be relied on to answer: suspects back off and are tried again."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import check_arrays, copy_arrays, read_count
from edge_tvbo.numerics.types import Mask


class SensorHealth:
    """How often each of M sensors failed to answer in a row, and until when it is left alone.

    After its n-th miss in a row a sensor is passed over for 1, 2, 4, ... intervals, `longest` at
    the most; then it may be chosen again, and its next answer clears it.

    >>> suspicion = SensorHealth(2, longest=64)
    >>> suspicion.missed(0, interval=10)
    >>> [suspicion.eligible(interval).tolist() for interval in (11, 12)]
    [[False, True], [True, True]]
    """

    def __init__(self, sensors: int, longest: int) -> None:
        self._longest = longest
        self._misses = np.zeros(sensors, np.int64)
        self._retry = np.zeros(sensors, np.int64)  # the interval from which it may be chosen
        self._doubted = np.zeros(sensors, np.bool_)  # whether it answered with what cannot be
        self._count = 0
        self._turn = -1

    def missed(self, arm: int, interval: int) -> None:
        """Note that `arm` did not answer in `interval`."""
        self._count += int(self._misses[arm] == 0)
        pause = min(2 ** int(min(self._misses[arm], 62)), self._longest)
        self._misses[arm] += 1
        self._retry[arm] = interval + 1 + pause

    def answered(self, arm: int) -> bool:
        """Note that `arm` reported, and say whether it was a suspect."""
        was = self.suspects(arm)
        self._doubted[arm] = False
        if was:
            self._misses[arm] = 0
            self._retry[arm] = 0
            self._count -= 1
        return was

    def mark_implausible(self, arm: int) -> None:
        """Note that `arm` answered with what cannot be: what it says unasked clears nothing."""
        self._doubted[arm] = True

    def doubts(self, arm: int) -> bool:
        """Say whether only an answer clears `arm`."""
        return bool(self._doubted[arm])

    def suspects(self, arm: int) -> bool:
        """Say whether `arm` failed to answer when it was last asked."""
        return bool(self._misses[arm])

    def misses(self, arm: int) -> int:
        """Give how often in a row `arm` failed to answer."""
        return int(self._misses[arm])

    @property
    def anyone(self) -> bool:
        """Whether there is a suspect at all."""
        return self._count > 0

    @property
    def everyone(self) -> bool:
        """Whether all sensors are suspects."""
        return self._count == len(self._misses)

    def until(self, arm: int) -> int:
        """Give the interval from which `arm` may be chosen."""
        return int(self._retry[arm])

    def eligible(self, interval: int) -> Mask:
        """Give which sensors (bool[M]) may be chosen in `interval`: if all are suspects, all."""
        return (self._retry <= interval) | self.everyone

    def next_in_turn(self, eligible: Mask) -> int:
        """Give the sensor to probe when everyone is a suspect: each in turn that is eligible."""
        later = np.roll(eligible, -(self._turn + 1))
        return int(self._turn + 1 + later.argmax()) % len(eligible)

    def mark_probed(self, arm: int) -> None:
        """Note that `arm` had its turn."""
        self._turn = arm

    def names(self, sensors: tuple[str, ...]) -> list[str]:
        """Give the suspects' names."""
        return [sensors[arm] for arm in np.flatnonzero(self._misses)]

    def state(self) -> dict[str, Any]:
        """Give what a snapshot has to hold."""
        return {"turn": self._turn + 1, **self._arrays()}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `resume` can make sense of `state`."""
        check_arrays(self._arrays(), state)
        misses, retry = state["misses"], state["retry"]
        if (misses < 0).any() or (retry < 0).any() or retry[misses == 0].any():
            raise SnapshotError("The snapshot's suspects cannot be.")
        if read_count(state, "turn") > len(self._misses):
            raise SnapshotError("The snapshot's 'turn' is of a sensor that there is not.")

    def resume(self, state: dict[str, Any], interval: int) -> None:
        """Go on from `state`, which was checked, after `interval`."""
        copy_arrays(self._arrays(), state)
        np.minimum(self._retry, interval + 1 + self._longest, out=self._retry)
        self._count = int(np.count_nonzero(self._misses))
        self._turn = int(state["turn"]) - 1

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"misses": self._misses, "retry": self._retry}
