"""Sensor health: which sensors are unresponsive, and how long each is backed off.

Messages are lost at random, so a time-out alone does not show that a sensor has failed. For each
sensor, the replies and the lost replies are counted. Let q be the probability that a reply of the
sensor is lost, estimated by its posterior mean under the prior
Beta(`PRIOR_LOSSES`, `PRIOR_REPLIES`). A sensor is unresponsive

- after n time-outs in a row, if n is at least 2 and qⁿ is below `MIN_PROBABILITY`; or
- after one time-out, if the sensor's last reply was implausible; or
- after `MAX_TIMEOUTS` time-outs in a row.

So a sensor that always replied is unresponsive after two time-outs, and a new sensor after three.
Time-outs of a sensor that is already unresponsive do not change q. Old counts fade: the
counts of replies and of lost replies add up to at most `REMEMBERED_REPLIES`.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.sensor_arrays import arrays_of, load_arrays
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import check_arrays, read_count
from edge_tvbo.numerics.types import Mask

MIN_PROBABILITY = 0.01  # if n lost replies in a row are less probable, the sensor is unresponsive
MAX_TIMEOUTS = 8  # after this many time-outs in a row, any sensor is unresponsive
PRIOR_REPLIES, PRIOR_LOSSES = 4.0, 1.0
ROUNDING = 1e-9  # largest rounding error of the length of a back-off, in intervals
REMEMBERED_REPLIES = 50.0  # approximate limit of the sum of `replies` and `losses`
LATER = ("timeouts", "replies", "losses", "implausible_reply")  # not stored by old versions


@dataclass(slots=True)
class SensorRecord:
    """Health record of one sensor: its time-outs, replies and back-off.

    A snapshot contains each attribute under its name.
    """

    misses: int = 0  # back-offs in a row
    retry: int = 0  # first interval in which the sensor is eligible again
    timeouts: int = 0  # time-outs in a row; no longer counted while the sensor is unresponsive
    replies: float = 0.0  # old replies fade
    losses: float = 0.0
    implausible_reply: bool = False  # whether its last reply was implausible


class SensorHealth:
    """Time-outs of each sensor, and how long the sensor is backed off.

    A sensor is backed off when it becomes unresponsive: it is ineligible for 1 interval. If it
    times out again after this interval, it is ineligible for 2 intervals, the next time for 4, 8,
    and so on, but for at most `max_backoff` intervals. After each back-off, the sensor is eligible
    again. A reading of the sensor ends the back-off. If all sensors were unresponsive, the first
    reading also shortens the back-offs of the other sensors.

    Parameters
    ----------
    ignored : IgnoredSensors
        The ignored sensors of the field, which has M sensors. Ignored sensors are not eligible, and
        never count as unresponsive.
    max_backoff : int
        Maximum number of intervals for which a sensor is backed off.

    Examples
    --------
    >>> health = SensorHealth(IgnoredSensors(("hall", "attic")), max_backoff=64)
    >>> for interval in (8, 9, 10):
    ...     health.mark_timed_out(0, interval)
    >>> [health.eligible(interval).tolist() for interval in (11, 12)]
    [[False, True], [True, True]]
    """

    def __init__(self, ignored: IgnoredSensors, max_backoff: int) -> None:
        self._ignored = ignored
        self._max_backoff = max_backoff
        self._sensors = [SensorRecord() for _ in ignored.mask]
        self._count = 0  # number of unresponsive sensors
        self._turn = -1  # the sensor that was probed last

    def mark_timed_out(self, arm: int, interval: int) -> None:
        """Count a time-out of the sensor `arm`; back `arm` off if it is unresponsive."""
        sensor = self._sensors[arm]
        if not sensor.misses:
            sensor.timeouts += 1
            if _is_chance(sensor):
                return
        self.back_off(arm, interval)

    def back_off(self, arm: int, interval: int) -> None:
        """Mark `arm` as unresponsive; its back-off begins after `interval`."""
        sensor = self._sensors[arm]
        self._count += sensor.misses == 0
        pause = min(2 ** min(sensor.misses, 62), self._max_backoff)
        sensor.misses += 1
        sensor.retry = interval + 1 + pause

    def mark_replied(self, arm: int) -> None:
        """Count a reply of the sensor `arm`; the time-outs before it count as lost replies."""
        sensor = self._sensors[arm]
        fade = (1.0 - 1.0 / REMEMBERED_REPLIES) ** (sensor.timeouts + 1)
        sensor.replies = fade * sensor.replies + 1.0
        sensor.losses = fade * sensor.losses + sensor.timeouts
        sensor.timeouts = 0

    def mark_responsive(self, arm: int) -> bool:
        """Reset the time-outs of `arm` after a reading; return whether `arm` was unresponsive."""
        sensor = self._sensors[arm]
        sensor.implausible_reply = False
        sensor.timeouts = 0
        if not sensor.misses:
            return False
        sensor.misses = sensor.retry = 0
        self._count -= 1
        return True

    def shorten_back_offs(self, interval: int) -> None:
        """End the back-off of each unresponsive sensor after `interval`, unless it ends earlier.

        If all sensors were unresponsive, their failures probably had a common cause, such as a
        broken gateway. The first reading shows that this cause is over. The shortened back-off
        counts as the first back-off of the sensor: after another time-out, the sensor is backed off
        for only 2 intervals.
        """
        for sensor in self._sensors:
            if sensor.misses:
                sensor.misses, sensor.retry = 1, min(sensor.retry, interval + 1)

    def mark_implausible(self, arm: int) -> None:
        """Record that the last reply of `arm` was implausible.

        Until the next plausible reply, one time-out is enough to make `arm` unresponsive, and an
        unsolicited reading does not reset its time-outs.
        """
        self._sensors[arm].implausible_reply = True

    def is_implausible(self, arm: int) -> bool:
        """Return whether the last reply of `arm` was implausible."""
        return self._sensors[arm].implausible_reply

    def is_unresponsive(self, arm: int) -> bool:
        """Return whether `arm` is unresponsive: it timed out too often in a row, or is silent."""
        return self._sensors[arm].misses > 0

    @property
    def any_unresponsive(self) -> bool:
        """Whether at least one sensor is unresponsive."""
        return self._count > 0

    @property
    def all_unresponsive(self) -> bool:
        """Whether every sensor that is not ignored is unresponsive."""
        return self._count >= len(self._sensors) - self._ignored.count

    @property
    def only_one_responsive(self) -> bool:
        """Whether exactly one sensor is responsive, apart from the ignored sensors."""
        return self._count == len(self._sensors) - self._ignored.count - 1

    def retry_interval(self, arm: int) -> int:
        """Return the first interval in which the sensor `arm` is no longer backed off."""
        return self._sensors[arm].retry

    def eligible(self, interval: int) -> Mask:
        """Return a mask (M,) of the sensors that are neither backed off nor ignored in `interval`.

        If all sensors are unresponsive, the mask contains all sensors that are not ignored.
        """
        if self.all_unresponsive:
            return ~self._ignored.mask
        return np.array([each.retry <= interval for each in self._sensors]) & ~self._ignored.mask

    def next_in_turn(self, eligible: Mask) -> int:
        """Return the unresponsive sensor to probe next, which is one of the `eligible` sensors.

        While all sensors are unresponsive, the controller probes them one after the other, in a
        fixed order.
        """
        later = np.roll(eligible, -(self._turn + 1))
        return int(self._turn + 1 + later.argmax()) % len(eligible)

    def mark_probed(self, arm: int) -> None:
        """Record that the unresponsive sensor `arm` was probed; probing continues after `arm`."""
        self._turn = arm

    def unresponsive(self, sensors: tuple[str, ...]) -> list[str]:
        """Return the names of the unresponsive sensors; `sensors` names all sensors."""
        return [name for name, each in zip(sensors, self._sensors, strict=True) if each.misses]

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the sensors' health for a snapshot."""
        arrays = arrays_of("", self._sensors)
        if not arrays["implausible_reply"].any():
            del arrays["implausible_reply"]
        return {"turn": self._turn + 1, **arrays}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `state` is a valid state of the sensors' health."""
        state = self._completed(state)
        check_arrays(arrays_of("", self._sensors), state)
        misses, retry = state["misses"], state["retry"]
        if (misses < 0).any() or (retry < 0).any() or retry[misses == 0].any():
            raise SnapshotError("The snapshot's counts of time-outs are invalid.")
        if any((state[name] < 0).any() for name in LATER):
            raise SnapshotError("The snapshot's counts of replies are invalid.")
        if read_count(state, "turn") > len(self._sensors):
            raise SnapshotError("The snapshot's 'turn' refers to an unknown sensor.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the health of all sensors from a `state` that `check` accepts."""
        load_arrays("", self._sensors, self._completed(state))
        for sensor in self._sensors:
            sensor.timeouts = min(sensor.timeouts, MAX_TIMEOUTS)
        self._count = sum(each.misses > 0 for each in self._sensors)
        self._turn = int(state["turn"]) - 1

    def continue_backoff(self, before: int, interval: int, ratio: float) -> None:
        """Continue the back-offs of unresponsive sensors; for the parameters, see `retry_after`."""
        for sensor in self._sensors:
            sensor.retry = retry_after(before, interval, sensor.retry, ratio, self._max_backoff)

    def _completed(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of `state` in which arrays that old versions did not store are zeros."""
        zeros = arrays_of("", [SensorRecord()] * len(self._sensors))
        return {name: zeros[name] for name in LATER} | state


def retry_after(before: int, interval: int, retry: int, ratio: float, max_backoff: int) -> int:
    """Return the first interval after a back-off that was running at a restart or reload.

    The back-off ends at the same time as without the restart, rounded up to whole intervals.
    However, it lasts for at most `max_backoff` more intervals.

    Parameters
    ----------
    before : int
        Number of the last interval before the restart.
    interval : int
        The highest of the next numbers, which are skipped; `before` if none is skipped.
    retry : int
        The first interval after the back-off, without the restart.
    ratio : float
        Length of an interval before the restart, divided by its present length.
    max_backoff : int
        Maximum number of further intervals.

    Examples
    --------
    >>> retry_after(99, 99, 103, ratio=10.0, max_backoff=64)
    130
    >>> retry_after(99, 107, 130, ratio=0.1, max_backoff=64)
    111
    """
    left = retry - (before + 1)
    if left <= 0:
        return retry
    return interval + 1 + ceil(min(left * ratio - ROUNDING, max_backoff))


def _is_chance(sensor: SensorRecord) -> bool:
    """Return whether lost messages alone can explain the successive time-outs of a sensor."""
    if sensor.implausible_reply or sensor.timeouts >= MAX_TIMEOUTS:
        return False
    losses = PRIOR_LOSSES + sensor.losses
    lost_share = losses / (losses + PRIOR_REPLIES + sensor.replies)
    return sensor.timeouts == 1 or lost_share**sensor.timeouts >= MIN_PROBABILITY
