"""Refused activations: the sensors whose activations the broker refuses, and their back-offs.

A refusal says nothing about the sensor, because the sensor did not receive the command. So a
refusal is no part of the sensor's health (see `sensor_health`), and a reading of the sensor does
not end the back-off.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.sensor_health import retry_after
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import MAX_COUNT, check_arrays
from edge_tvbo.numerics.types import Mask

MAX_REFUSALS = 32  # in a row; further refusals do not make the back-off longer


class RefusedActivations:
    """Number of successive refusals of each sensor's activations, and the back-offs.

    After a refusal, the sensor is ineligible for 1 interval. If the broker refuses the next
    activation, too, the sensor is ineligible for 2 intervals, then for 4, 8, and so on, but for at
    most `max_backoff` intervals. An accepted activation ends the series of refusals. If the
    activations of all sensors were refused before, the broker's rules have probably changed for all
    sensors. So the accepted activation then ends the back-offs of the other sensors, too. However,
    a sensor whose activation was refused in the same interval stays backed off.

    Parameters
    ----------
    ignored : IgnoredSensors
        The ignored sensors of the field, which has M sensors. No activation of an ignored sensor
        counts as refused.
    max_backoff : int
        Maximum number of intervals for which a sensor is backed off.

    Attributes
    ----------
    count : int
        Number of sensors whose last activation was refused.

    Examples
    --------
    >>> refusals = RefusedActivations(IgnoredSensors(("hall", "attic")), max_backoff=64)
    >>> refusals.mark_refused(0, interval=8)
    >>> refusals.count, [refusals.eligible(interval).tolist() for interval in (9, 10)]
    (1, [[False, True], [True, True]])
    """

    def __init__(self, ignored: IgnoredSensors, max_backoff: int) -> None:
        self._ignored = ignored
        self._max_backoff = max_backoff
        M = len(ignored.mask)
        self._refusals = np.zeros(M, np.int64)  # in a row
        self._retry = np.zeros(M, np.int64)  # first interval in which the sensor is eligible again
        self.count = 0

    def mark_activated(self, arm: int, interval: int) -> None:
        """End the back-off of `arm`, which is activated in `interval`.

        Earlier refusals of its activations still count.
        """
        self._retry[arm] = min(self.retry_interval(arm), interval)

    def mark_refused(self, arm: int, interval: int) -> None:
        """Count a refusal of the activation of `arm`; the back-off begins after `interval`."""
        refusals = int(self._refusals[arm])
        self.count += refusals == 0
        self._refusals[arm] = min(refusals + 1, MAX_REFUSALS)
        self._retry[arm] = interval + 1 + min(2**refusals, self._max_backoff)

    def mark_accepted(self, arms: Collection[int], undelivered: Collection[int]) -> None:
        """End the refusals of the sensors `arms`: the broker has accepted their activations.

        If the activations of all sensors were refused, also end the refusals of the other sensors,
        except for the sensors `undelivered`, whose activations were not accepted in this interval.
        """
        if not any(self._refusals[arm] for arm in arms):
            return
        if self.count == len(self._refusals) - self._ignored.count:
            arms = set(range(len(self._refusals))).difference(undelivered)
        for arm in arms:
            self.forget(arm)

    def forget(self, arm: int) -> None:
        """Forget the refusals of `arm`."""
        self._refusals[arm] = self._retry[arm] = 0
        self.count = int(np.count_nonzero(self._refusals))

    def retry_interval(self, arm: int) -> int:
        """Return the first interval in which the refusals of `arm` no longer back it off."""
        return int(self._retry[arm])

    def names(self, sensors: Sequence[str]) -> list[str]:
        """Return the names of the sensors whose last activation the broker refused.

        `sensors` contains the names of all sensors.
        """
        return [sensors[arm] for arm in np.flatnonzero(self._refusals).tolist()]

    def eligible(self, interval: int) -> Mask:
        """Return a mask (M,) of the sensors that no refusal backs off in `interval`."""
        return self._retry <= interval

    def snapshot(self) -> dict[str, Any]:
        """Return the refusals as a state for a snapshot; {} if there are none."""
        return self._arrays() if self.count else {}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` contains invalid refusals."""
        arrays = self._arrays()
        if not arrays.keys() & state.keys():
            return
        check_arrays(arrays, state)
        refusals, retry = (state[name] for name in arrays)
        limits = (refusals, MAX_REFUSALS), (retry, 2 * MAX_COUNT)
        is_valid = all((array >= 0).all() and (array <= limit).all() for array, limit in limits)
        if not is_valid or retry[refusals == 0].any():
            raise SnapshotError("The snapshot's counts of refused activations are invalid.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the refusals from a `state` that `check` accepts."""
        for name, array in self._arrays().items():
            array[:] = state.get(name, 0)
        self.count = int(np.count_nonzero(self._refusals))

    def continue_backoff(self, before: int, interval: int, ratio: float) -> None:
        """Continue the back-offs due to refusals; `retry_after` describes the parameters."""
        for arm, retry in enumerate(self._retry.tolist()):
            self._retry[arm] = retry_after(before, interval, retry, ratio, self._max_backoff)

    def _arrays(self) -> dict[str, Any]:
        """Return the arrays of the refusals, (M,) each, by their names in a snapshot."""
        return {"refusals": self._refusals, "refusals_retry": self._retry}
