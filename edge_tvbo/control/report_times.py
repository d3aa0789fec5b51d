"""Report times: how often each sensor usually reports, and which sensors are silent for longer.

In the mode "advise" the daemon sends no command, so no sensor can time out. In this mode, a sensor
is silent if it has not reported for `SEVERAL` times the longest time that is usual between its
readings: the mean plus `DEVIATIONS` mean deviations, as for the retransmission timer of TCP
(RFC 6298, section 2). Both are exponentially weighted.

Other software may poll the recommended sensor. A sensor that only replies to polls is quiet while
it is not recommended. Therefore two usual times are learned:

- the time between the readings that a sensor sends by itself, which are all readings except prompt
  readings of the recommended sensor;
- how long it is recommended between two of its readings. This time is used while the first time
  is not known.

Times without a connection do not count.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.control.facts import Silence
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import check_arrays
from edge_tvbo.numerics.types import Array

SEVERAL = 3.0  # usual times without a reading, after which a sensor is silent
DEVIATIONS = 4.0  # mean deviations above the mean that are still usual
MIN_TIMES = 4  # times between readings; with fewer, no time is usual
MEMORY = 32  # times between readings that the mean and the deviation remember


class UsualTimes:
    """Exponentially weighted mean, and mean deviation, of the times between a sensor's reports.

    Attributes
    ----------
    longest : array (M,)
        The times after which the sensors count as silent, in s; inf if unknown.

    Examples
    --------
    >>> times = UsualTimes(1)
    >>> for _ in range(MIN_TIMES):
    ...     times.learn(0, 8.0)
    >>> times.longest.tolist()
    [36.0]
    """

    def __init__(self, sensors: int) -> None:
        self._count = [0] * sensors  # times so far, up to `MEMORY`
        self._mean = [0.0] * sensors  # s
        self._deviation = [0.0] * sensors  # s
        self.longest = np.full(sensors, inf)

    def learn(self, arm: int, time: float) -> None:
        """Learn from one time between reports of `arm`, in s.

        If the time is so long that the sensor counted as silent, only the longest time without
        silence is learned. So one outage hardly changes the usual times.
        """
        count, mean, deviation = self._count[arm], self._mean[arm], self._deviation[arm]
        if count == 0:
            mean, deviation = time, time / 2.0
        else:
            error = min(time, SEVERAL * (mean + DEVIATIONS * deviation)) - mean
            weight = 1.0 / min(count + 1, MEMORY)
            mean += weight * error
            deviation += weight * (abs(error) - deviation)
        count = min(count + 1, MEMORY)
        self._count[arm], self._mean[arm], self._deviation[arm] = count, mean, deviation
        if count >= MIN_TIMES:
            self.longest[arm] = SEVERAL * (mean + DEVIATIONS * deviation)

    def mean(self, arm: int) -> float:
        """Return the mean time between reports of `arm`, in s."""
        return self._mean[arm]

    def is_known(self, arm: int) -> bool:
        """Return whether enough report times of `arm` are known to say what is usual."""
        return self._count[arm] >= MIN_TIMES

    def restore(self, name: str, state: dict[str, Any]) -> None:
        """Restore the usual times from a checked state that has the names of `arrays`."""
        count, mean, deviation = (state[each] for each in self.arrays(name))
        self._count, self._mean = count.tolist(), mean.tolist()
        self._deviation = deviation.tolist()
        limits = SEVERAL * (mean + DEVIATIONS * deviation)
        self.longest[:] = np.where(count >= MIN_TIMES, limits, inf)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return these times as arrays for a snapshot; the key of each array begins with `name`."""
        return {
            f"{name}_count": np.array(self._count, np.int64),
            f"{name}_mean": np.array(self._mean),
            f"{name}_deviation": np.array(self._deviation),
        }


class ReportTimes:
    """The usual times between the readings of each sensor, and the present silence.

    Parameters
    ----------
    sensors : int
        The number of sensors, M.
    shortest : float
        A sensor that reported within the last `shortest` seconds is never silent.

    Examples
    --------
    >>> reports = ReportTimes(1, shortest=2.0)
    >>> reports.listen(at=0.0)
    >>> for at in (0.0, 8.0, 16.0, 24.0, 32.0):
    ...     reports.observe(0, at, prompt=False)
    >>> reports.silent(at=60.0), reports.silent(at=80.0)
    ([], [0])
    """

    def __init__(self, sensors: int, shortest: float) -> None:
        self._shortest = shortest
        self._own = UsualTimes(sensors)
        self._recommended = UsualTimes(sensors)
        self._unanswered = np.zeros(sensors)  # s for which it was recommended since its reading
        self._last = np.full(sensors, -inf)  # last readings since `listen`, s since 1970
        self._arms: list[int] = []  # the recommended sensors
        self._since = 0.0  # when they were recommended, or one of them sent a reading
        self._listening_since: float | None = None  # s since 1970; None without a connection

    def listen(self, at: float) -> None:
        """Start to count the time without a report at time `at`, unless it is counted already."""
        if self._listening_since is None:
            self._listening_since = at

    def stop_listening(self) -> None:
        """Stop counting the time without a report, because no readings arrive."""
        self._listening_since = None
        self._last[:] = -inf
        self._arms = []
        self._unanswered[:] = 0.0

    def recommend(self, arms: Sequence[int], at: float) -> None:
        """Start to count, at time `at`, how long the sensors `arms` are recommended."""
        for arm in self._arms:
            self._unanswered[arm] += max(0.0, at - self._since)
        self._arms, self._since = list(arms), at

    def shift_timestamps(self, by: float) -> None:
        """Add `by` seconds to the stored times of the reports, because the clock was set."""
        self._last += by
        self._since += by
        if self._listening_since is not None:
            self._listening_since += by

    def restart(self, arm: int, at: float) -> None:
        """Start to count the silence of `arm` at time `at`; its readings were not used before."""
        self._last[arm], self._unanswered[arm] = at, 0.0

    def observe(self, arm: int, at: float, *, prompt: bool) -> None:
        """Learn from a reading of `arm` that arrived at time `at`, in s since 1970.

        `prompt` tells whether the reading may be a reply to other software.
        """
        if arm in self._arms:
            self.recommend(self._arms, at)
        before, self._last[arm] = float(self._last[arm]), at
        unanswered, self._unanswered[arm] = float(self._unanswered[arm]), 0.0
        if self._listening_since is None or not self._listening_since <= before < at:
            return
        if unanswered > 0.0:
            self._recommended.learn(arm, unanswered)
        if not prompt:
            self._own.learn(arm, at - before)

    def silent(self, at: float) -> list[int]:
        """Return the arms that are silent at time `at`; call `recommend` first."""
        own, recommended = self._own.longest, self._recommended.longest
        is_silent = self._silence(at) > np.maximum(own, self._shortest)
        is_silent |= (own == inf) & (self._unanswered > np.maximum(recommended, self._shortest))
        arms: list[int] = is_silent.nonzero()[0].tolist()
        return arms

    def silence(self, arm: int, at: float) -> Silence:
        """Return how long `arm` has been silent at time `at`, and its usual report time."""
        if self._own.is_known(arm):
            time = float(self._silence(at)[arm])
            return Silence(time, self._own.mean(arm), while_recommended=False)
        unanswered = float(self._unanswered[arm])
        return Silence(unanswered, self._recommended.mean(arm), while_recommended=True)

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the usual report times of the sensors, for `check` and `restore`."""
        return self._arrays()

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `state` is a valid state of the report times."""
        check_arrays(self._arrays(), state)
        counts = (state["own_count"], state["recommended_count"])
        negative = any((state[name] < 0).any() for name in self._arrays())
        if negative or any((count > MEMORY).any() for count in counts):
            raise SnapshotError("The snapshot's times between readings are invalid.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the usual report times from a checked state; no silence is restored."""
        self._own.restore("own", state)
        self._recommended.restore("recommended", state)
        self.stop_listening()

    def _silence(self, at: float) -> Array:
        """Return the times since the last reading or `listen`, in s, (M,); 0 without either."""
        if self._listening_since is None:
            return np.zeros_like(self._last)
        silence: Array = at - np.maximum(self._last, self._listening_since)
        return silence

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return self._own.arrays("own") | self._recommended.arrays("recommended")
