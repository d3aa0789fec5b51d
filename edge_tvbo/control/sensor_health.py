"""Sensor health: which sensors are unresponsive, and how long each is backed off.

Messages are lost at random, so a time-out alone does not show that a sensor has failed. For each
sensor, the replies and the lost replies are counted. They give the posterior mean of the share q of
replies that are lost, with the prior Beta(`PRIOR_LOSSES`, `PRIOR_REPLIES`). A sensor is
unresponsive after n time-outs in a row if their probability qⁿ is below `MIN_PROBABILITY`. One
time-out is not enough, unless the last reply was implausible; `MAX_TIMEOUTS` are always enough. So
a sensor that always replied is unresponsive after two time-outs, and an unknown sensor after three.
Time-outs of a sensor that is already unresponsive do not change q. Old counts fade: together they
weigh at most `MEMORY`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import check_arrays, copy_arrays, read_count
from edge_tvbo.numerics.types import Mask

MIN_PROBABILITY = 0.01  # of the time-outs in a row of a sensor that is not unresponsive
MAX_TIMEOUTS = 8  # in a row; after them, a sensor is unresponsive even if it rarely replies
PRIOR_REPLIES, PRIOR_LOSSES = 4.0, 1.0
MEMORY = 50.0  # replies and lost replies


class SensorHealth:
    """Time-outs of each sensor, and how long the sensor is backed off.

    A sensor is backed off when it becomes unresponsive: it is ineligible for 1 interval. If it then
    times out again, it is ineligible for 2 intervals; then for 4, 8, and so on, but at most for
    `max_backoff`. After each back-off time, the sensor is eligible again. A reading of the sensor
    ends the back-off.

    Parameters
    ----------
    sensors : int
        The number of sensors, M.
    max_backoff : int
        Maximum number of intervals for which a sensor is backed off.
    ignored : IgnoredSensors, optional
        The ignored sensors, which are not eligible. None of them is unresponsive.

    Examples
    --------
    >>> health = SensorHealth(2, max_backoff=64)
    >>> for interval in (8, 9, 10):
    ...     health.mark_timed_out(0, interval)
    >>> [health.eligible(interval).tolist() for interval in (11, 12)]
    [[False, True], [True, True]]
    """

    def __init__(
        self, sensors: int, max_backoff: int, ignored: IgnoredSensors | None = None
    ) -> None:
        self._ignored = ignored or IgnoredSensors(("",) * sensors)
        self._max_backoff = max_backoff
        self._timeouts = np.zeros(sensors, np.int64)  # in a row, until it is unresponsive
        self._replies = np.zeros(sensors)  # faded counts
        self._losses = np.zeros(sensors)
        self._misses = np.zeros(sensors, np.int64)  # times in a row that it was backed off
        self._retry = np.zeros(sensors, np.int64)  # first interval in which it may be selected
        self._implausible = np.zeros(sensors, np.bool_)  # whether its last reply was implausible
        self._count = 0  # number of unresponsive sensors
        self._turn = -1  # the sensor that was probed last

    def mark_timed_out(self, arm: int, interval: int) -> None:
        """Count a time-out of `arm` in `interval`; back `arm` off if it is unresponsive."""
        if not self.is_unresponsive(arm):
            self._timeouts[arm] += 1
            if self._is_chance(arm):
                return
        self.back_off(arm, interval)

    def back_off(self, arm: int, interval: int) -> None:
        """Mark `arm` as unresponsive, and back it off after `interval`.

        The arm is not eligible until its back-off time is over.
        """
        self._count += int(self._misses[arm] == 0)
        pause = min(2 ** int(min(self._misses[arm], 62)), self._max_backoff)
        self._misses[arm] += 1
        self._retry[arm] = interval + 1 + pause

    def mark_replied(self, arm: int) -> None:
        """Count a reply of `arm`, and count the time-outs in a row before it as lost replies."""
        lost = int(self._timeouts[arm])
        fade = (1.0 - 1.0 / MEMORY) ** (lost + 1)
        self._replies[arm] = fade * self._replies[arm] + 1.0
        self._losses[arm] = fade * self._losses[arm] + lost
        self._timeouts[arm] = 0

    def mark_responsive(self, arm: int) -> bool:
        """Reset the time-outs of `arm` to 0 after a reading; return whether it was unresponsive."""
        self._implausible[arm] = False
        self._timeouts[arm] = 0
        if not self._misses[arm]:
            return False
        self._misses[arm] = 0
        self._retry[arm] = 0
        self._count -= 1
        return True

    def mark_implausible(self, arm: int) -> None:
        """Record in the sensor's health that `arm` sent an implausible reply.

        From then on, time-outs of `arm` are not explained by lost messages, and only a plausible
        reply to an activation resets them to 0.
        """
        self._implausible[arm] = True

    def is_implausible(self, arm: int) -> bool:
        """Return whether the last reply of the sensor `arm` was implausible."""
        return bool(self._implausible[arm])

    def is_unresponsive(self, arm: int) -> bool:
        """Return whether `arm` is silent, or timed out more often in a row than chance explains."""
        return bool(self._misses[arm])

    @property
    def any_unresponsive(self) -> bool:
        """Whether at least one sensor is unresponsive."""
        return self._count > 0

    @property
    def all_unresponsive(self) -> bool:
        """Whether every sensor that is not ignored is unresponsive."""
        return self._count >= len(self._misses) - self._ignored.count

    @property
    def only_one_responsive(self) -> bool:
        """Whether all but one of the sensors that are not ignored are unresponsive."""
        return self._count == len(self._misses) - self._ignored.count - 1

    def retry_interval(self, arm: int) -> int:
        """Return the first interval in which the sensor `arm` is eligible again."""
        return int(self._retry[arm])

    def eligible(self, interval: int) -> Mask:
        """Return a mask (M,) of the sensors that are neither backed off nor ignored in `interval`.

        If all sensors are unresponsive, all sensors that are not ignored are eligible.
        """
        return ((self._retry <= interval) | self.all_unresponsive) & ~self._ignored.mask

    def next_in_turn(self, eligible: Mask) -> int:
        """Return the next eligible sensor to probe, in a fixed order.

        Sensors are probed in turn if all of them are unresponsive.
        """
        later = np.roll(eligible, -(self._turn + 1))
        return int(self._turn + 1 + later.argmax()) % len(eligible)

    def mark_probed(self, arm: int) -> None:
        """Record that the unresponsive sensor `arm` was probed; probing continues after `arm`."""
        self._turn = arm

    def unresponsive(self, sensors: tuple[str, ...]) -> list[str]:
        """Return the names of the unresponsive sensors."""
        return [sensors[arm] for arm in np.flatnonzero(self._misses)]

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the sensors' health, for `check` and `restore`."""
        return {"turn": self._turn + 1, **self._arrays()}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `state` is a valid state of the sensors' health."""
        check_arrays(self._arrays(), self._with_counts(state))
        misses, retry = state["misses"], state["retry"]
        if (misses < 0).any() or (retry < 0).any() or retry[misses == 0].any():
            raise SnapshotError("The snapshot's counts of time-outs are invalid.")
        if any((self._with_counts(state)[name] < 0).any() for name in self._counts()):
            raise SnapshotError("The snapshot's counts of replies are invalid.")
        if read_count(state, "turn") > len(self._misses):
            raise SnapshotError("The snapshot's 'turn' refers to an unknown sensor.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the health of all sensors from a checked state."""
        copy_arrays(self._arrays(), self._with_counts(state))
        np.minimum(self._timeouts, MAX_TIMEOUTS, out=self._timeouts)
        self._count = int(np.count_nonzero(self._misses))
        self._turn = int(state["turn"]) - 1

    def limit_backoff(self, interval: int) -> None:
        """Limit each back-off time: it ends at most `max_backoff` intervals after `interval`."""
        np.minimum(self._retry, interval + 1 + self._max_backoff, out=self._retry)

    def _is_chance(self, arm: int) -> bool:
        """Return whether lost messages explain the consecutive time-outs of `arm`."""
        timeouts = int(self._timeouts[arm])
        if self._implausible[arm] or timeouts >= MAX_TIMEOUTS:
            return False
        losses = PRIOR_LOSSES + self._losses[arm]
        lost_share = losses / (losses + PRIOR_REPLIES + self._replies[arm])
        return timeouts == 1 or bool(lost_share**timeouts >= MIN_PROBABILITY)

    def _with_counts(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the health in `state`, with 0 for each missing count.

        Earlier versions did not count replies.
        """
        return {name: np.zeros_like(array) for name, array in self._counts().items()} | state

    def _counts(self) -> dict[str, NDArray[Any]]:
        return {"timeouts": self._timeouts, "replies": self._replies, "losses": self._losses}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"misses": self._misses, "retry": self._retry, **self._counts()}
