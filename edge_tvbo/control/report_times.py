"""Report times: how often each sensor usually reports, and which sensors are now silent.

In the mode "advise", the daemon sends no command, so no sensor can time out. In this mode, a sensor
is silent if it has not reported for `SILENT_FACTOR` times its longest usual time between two
reports. This longest usual time is the mean time between two reports plus `USUAL_DEVIATIONS` mean
deviations, as for the retransmission timer of TCP (RFC 6298, section 2). The mean and the mean
deviation are exponentially weighted.

Other software may poll the recommended sensor. A sensor that only replies to polls sends nothing
while it is not recommended. Therefore two kinds of times are learned for each sensor:

- `own`: the times between the readings that the sensor sends by itself. These are all readings
  except those that arrive promptly after a recommendation of the sensor.
- `recommended`: how long the sensor is recommended between two of its readings. These times are
  used while too few `own` times are known.

If neither kind has at least `MIN_TIMES` known times, the sensor is compared with the other sensors.
It is silent if both of these conditions hold:

- Since its last reading, the sensor was recommended for longer than `UNANSWERED_INTERVALS` times d,
  where d is the length of an interval, or the reply timeout if the interval is "on-reading".
  However, if other sensors report only while they are recommended, d is at least the median
  `recommended` time of these other sensors.
- The time since its last report is longer than `OVERDUE_FACTOR` times the median `own` time of the
  other sensors. It is also longer than the `limit` that follows from the few known `own` times
  of this sensor.

The median is used so that a few sensors that report rarely have no influence. A sensor that reports
once an hour is not silent if the interval is 10 min (the default), or if the other sensors report
every 5 min. A sensor that reports less often may count as silent until it has reported a few times.

Times without a connection, or without a running daemon, do not count. The time between two readings
is learned only if at most a tenth of it is left out for these reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.control.facts import Silence
from edge_tvbo.control.sensor_arrays import arrays_of, load_arrays
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import check_arrays

SILENT_FACTOR = 3.0  # a sensor is silent after this many times its longest usual time
USUAL_DEVIATIONS = 4.0  # a time is usual up to this many mean deviations above the mean
MIN_TIMES = 4  # times between readings that must be known before they are used
UNANSWERED_INTERVALS = 6.0  # recommended intervals before a sensor with few known times is silent
OVERDUE_FACTOR = 12.0  # its silence must also be this many usual times of the other sensors
MAX_AWAY_SHARE = 0.1  # largest share of a learned time that may be left out
REMEMBERED_TIMES = 32  # times between readings that the mean and the deviation remember


@dataclass(slots=True)
class UsualTime:
    """Exponentially weighted mean and mean deviation of the times between a sensor's reports.

    Attributes
    ----------
    count : int
        Number of known times between reports, at most `REMEMBERED_TIMES`.
    mean, deviation : float
        The mean time and its mean deviation, in s.

    Examples
    --------
    >>> usual = UsualTime()
    >>> for _ in range(MIN_TIMES):
    ...     usual.learn(8.0)
    >>> usual.longest, usual.max_silence
    (12.0, 36.0)
    """

    count: int = 0
    mean: float = 0.0
    deviation: float = 0.0

    @property
    def longest(self) -> float:
        """Longest usual time between two reports, in s; 0 if no report time is known."""
        return self.mean + USUAL_DEVIATIONS * self.deviation

    @property
    def limit(self) -> float:
        """Upper limit for one time between two reports, in s: `SILENT_FACTOR` times `longest`."""
        return SILENT_FACTOR * self.longest

    @property
    def max_silence(self) -> float:
        """Time without a report, in s, after which the sensor is silent; inf if not `is_known`."""
        return self.limit if self.is_known else inf

    @property
    def is_known(self) -> bool:
        """Whether at least `MIN_TIMES` report times are known."""
        return self.count >= MIN_TIMES

    def learn(self, time: float) -> None:
        """Update the mean and the mean deviation with one time between reports, in s.

        A `time` above `limit` counts as `limit`, so that one outage hardly changes the mean.
        """
        count = self.count = min(self.count + 1, REMEMBERED_TIMES)
        if count == 1:
            self.mean, self.deviation = time, time / 2.0
            return
        error = min(time, self.limit) - self.mean
        weight = 1.0 / count
        self.mean += weight * error
        self.deviation += weight * (abs(error) - self.deviation)


@dataclass(frozen=True, slots=True)
class UsualTimesOfOthers:
    """Medians of the usual times of the other sensors, for a sensor with too few known times.

    Attributes
    ----------
    own : float
        Median of the other sensors' mean `own` times, in s. Only sensors with enough `own` times
        count; 0 if there is no such sensor.
    recommended : float
        Median of the other sensors' mean `recommended` times, in s. Only sensors with enough
        `recommended` times and too few `own` times count; 0 if there is no such sensor.
    """

    own: float
    recommended: float

    @property
    def are_known(self) -> bool:
        """Whether the median of the `own` or of the `recommended` report times is known."""
        return self.own > 0.0 or self.recommended > 0.0


@dataclass(slots=True)
class SensorReports:
    """The usual report times of one sensor, and the numbers that measure its present silence."""

    own: UsualTime = field(default_factory=UsualTime)
    recommended: UsualTime = field(default_factory=UsualTime)
    # `since` and `last` are in s since 1970. Time that does not count is added to both.
    since: float = -inf  # when listening to the sensor began
    last: float = -inf  # when the last reading arrived
    away: float = 0.0  # the part of the time since the last reading that does not count, s
    unanswered: float = 0.0  # how long the sensor was recommended since the last reading, s

    @property
    def is_known(self) -> bool:
        """Whether enough report times of one kind are known: `own` or `recommended` times."""
        return self.own.is_known or self.recommended.is_known

    @property
    def has_reported(self) -> bool:
        """Whether the sensor has sent a reading since the daemon began to listen to it."""
        return self.last >= self.since

    def silence(self, at: float) -> float:
        """Return for how long the sensor has been silent at the time `at`, in s."""
        return at - (self.last if self.has_reported else self.since)

    def skip(self, away: float, at: float) -> None:
        """Do not count the last `away` seconds before the time `at` as silence of the sensor."""
        self.since, self.last = min(self.since + away, at), min(self.last + away, at)
        self.away += away

    def is_silent(self, silence: float, shortest: float) -> bool:
        """Return whether the sensor is silent, judged by the usual time between its readings.

        Call this only if `is_known` is true. `silence` is the time since the last reading, in s.
        """
        if self.own.is_known:
            return silence > self.own.max_silence
        return self.unanswered > max(self.recommended.max_silence, shortest)

    def is_overdue(self, silence: float, shortest: float, others: UsualTimesOfOthers) -> bool:
        """Return whether the sensor is silent, judged by the usual times of the other sensors.

        Call this only if `is_known` is false. `silence` is the time since the last reading, in s,
        and `others` contains the usual times.
        """
        return (
            others.are_known
            and self.unanswered > UNANSWERED_INTERVALS * max(shortest, others.recommended)
            and silence > max(OVERDUE_FACTOR * others.own, self.own.limit)
        )


class LiveReports(msgspec.Struct, frozen=True, array_like=True):
    """Live state of the report times: values that a snapshot leaves out or simplifies."""

    times: list[tuple[float, float, float, float]]  # of each sensor, as in `SensorReports`
    arms: list[int]
    since: float
    latest: float
    listening: bool


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
        self._sensors = [SensorReports() for _ in range(sensors)]
        self._arms: list[int] = []  # the recommended sensors
        self._since = 0.0  # start of the recommendation time not yet counted, s since 1970
        self._listening = False  # whether readings can arrive
        self._latest = -inf  # the latest time at which readings could arrive, s since 1970
        self._next_check = -inf  # s since 1970; before this time, no sensor can be silent

    def listen(self, at: float) -> None:
        """Start to count the time without reports at time `at`, if it is not counted yet.

        The silence of each sensor continues. The time since the call of `stop_listening`, or since
        the snapshot, does not count.
        """
        if self._listening:
            return
        for each in self._sensors:
            if each.since == -inf:
                each.since = at
            else:
                each.skip(max(0.0, at - self._latest), at)
        self._listening, self._next_check = True, -inf
        self._latest = self._since = at

    def stop_listening(self) -> None:
        """Stop counting the time without a report, because no readings arrive."""
        self.recommend([], self._latest)
        self._listening = False

    def recommend(self, arms: Sequence[int], at: float) -> None:
        """Record, for the report times, that only `arms` are recommended from time `at` on."""
        if self._listening:
            for arm in self._arms:
                self._sensors[arm].unanswered += max(0.0, at - self._since)
            self._latest = at
        self._arms, self._since = list(arms), at

    def shift_timestamps(self, by: float) -> None:
        """Add `by` seconds to the stored times of the reports, because the clock was set."""
        for each in self._sensors:
            each.last += by
            each.since += by
        self._since += by
        self._latest += by
        self._next_check = -inf

    def restart(self, arm: int, at: float) -> None:
        """Measure the silence of `arm` from time `at` on, as if a report had arrived at `at`."""
        sensor = self._sensors[arm]
        sensor.last, sensor.away, sensor.unanswered = at, 0.0, 0.0

    def observe(self, arm: int, at: float, *, prompt: bool) -> None:
        """Update the usual report times with a reading of `arm` that arrived at time `at`.

        `at` is in s since 1970. `prompt` says whether the reading arrived so soon after the
        recommendation that it may be a reply to other software.
        """
        if arm in self._arms:
            self.recommend(self._arms, at)
        sensor = self._sensors[arm]
        before, sensor.last = sensor.last, at
        away, sensor.away = sensor.away, 0.0
        unanswered, sensor.unanswered = sensor.unanswered, 0.0
        if not self._listening:
            return
        self._latest = at
        if not -inf < before < at or away > MAX_AWAY_SHARE * (at - before):
            return
        if unanswered > 0.0:
            sensor.recommended.learn(unanswered)
        if not prompt:
            sensor.own.learn(at - before)

    def silent(self, at: float) -> list[int]:
        """Return the arms that are silent at time `at`; call `recommend` first."""
        shortest = self._shortest
        if not self._listening or at < self._next_check:
            return []
        silences = [each.silence(at) for each in self._sensors]
        self._next_check = at - max(silences) + shortest  # later reports only postpone it
        others: UsualTimesOfOthers | None = None
        silent = []
        for arm, (each, silence) in enumerate(zip(self._sensors, silences, strict=True)):
            if silence <= shortest:
                continue
            if each.is_known:
                is_silent = each.is_silent(silence, shortest)
            else:
                others = others or self._others()
                is_silent = each.is_overdue(silence, shortest, others)
            if is_silent:
                silent.append(arm)
        return silent

    def silence(self, arm: int, at: float) -> Silence:
        """Return how long `arm` is silent at time `at`, and a usual time for comparison."""
        sensor = self._sensors[arm]
        time = sensor.silence(at) if self._listening else 0.0
        if sensor.own.is_known:
            return Silence(time, sensor.own.mean, while_recommended=False)
        if sensor.recommended.is_known:
            return Silence(sensor.unanswered, sensor.recommended.mean, while_recommended=True)
        others = self._others()
        return Silence(
            time,
            others.own or others.recommended,
            while_recommended=not others.own,
            of_others=True,
            has_reported=sensor.has_reported,
        )

    def _others(self) -> UsualTimesOfOthers:
        """Return the medians of the usual report times of all sensors with enough known times."""
        own = [each.own.mean for each in self._sensors if each.own.is_known]
        recommended = [
            each.recommended.mean
            for each in self._sensors
            if each.recommended.is_known and not each.own.is_known
        ]
        return UsualTimesOfOthers(_median(own), _median(recommended))

    # --- snapshots ------------------------------------------------------------------------------

    def live(self) -> LiveReports:
        """Return the live state: the exact silence of each sensor, and the recommended sensors."""
        times = [(each.since, each.last, each.away, each.unanswered) for each in self._sensors]
        return LiveReports(times, list(self._arms), self._since, self._latest, self._listening)

    def restore_live(self, live: LiveReports) -> None:
        """Restore how long each sensor has been silent; call `restore` first."""
        for each, times in zip(self._sensors, live.times, strict=True):
            each.since, each.last, each.away, each.unanswered = times
        self._arms, self._since = list(live.arms), live.since
        self._latest, self._listening = live.latest, live.listening
        self._next_check = -inf

    def snapshot(self) -> dict[str, Any]:
        """Return the usual report times and the silences of the sensors for a snapshot.

        Before the first interval, the snapshot contains no silences, like the snapshots of old
        versions.
        """
        if self._latest == -inf:
            return self._usual_times()
        return self._usual_times() | self._silences() | {"silence_at": np.array([self._latest])}

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `state` is a valid state of the report times."""
        arrays = self._usual_times()
        if "silence_at" in state:
            check_arrays({"silence_at": np.zeros(1)}, state)
            arrays |= self._silences()
        check_arrays(arrays, state)
        counts = (state["own_count"], state["recommended_count"])
        negative = any((state[name] < 0).any() for name in arrays)
        if negative or any((count > REMEMBERED_TIMES).any() for count in counts):
            raise SnapshotError("The snapshot's times between readings are invalid.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the usual report times and the silences from a `state` that `check` accepts."""
        self._arms, self._listening = [], False
        self._latest = float(state["silence_at"][0]) if "silence_at" in state else -inf
        load_arrays("own_", [each.own for each in self._sensors], state)
        load_arrays("recommended_", [each.recommended for each in self._sensors], state)
        for arm, each in enumerate(self._sensors):
            each.since = each.last = -inf
            each.away = each.unanswered = 0.0
            if "silence_at" in state:
                each.since = self._latest - float(state["silence"][arm])
                each.last = each.since if state["silence_heard"][arm] else -inf
                each.away = float(state["silence_away"][arm])
                each.unanswered = float(state["silence_unanswered"][arm])

    def _usual_times(self) -> dict[str, NDArray[Any]]:
        own = arrays_of("own_", [each.own for each in self._sensors])
        return own | arrays_of("recommended_", [each.recommended for each in self._sensors])

    def _silences(self) -> dict[str, NDArray[Any]]:
        """Return, for a snapshot, how long each sensor has been silent at the time `_latest`."""
        at, sensors = self._latest, self._sensors
        recommended = max(0.0, at - self._since) if self._listening else 0.0
        return {
            "silence": np.array([max(0.0, each.silence(at)) for each in sensors]),
            "silence_heard": np.array([each.has_reported for each in sensors], np.int64),
            "silence_away": np.array([each.away for each in sensors]),
            "silence_unanswered": np.array(
                [
                    each.unanswered + (recommended if arm in self._arms else 0.0)
                    for arm, each in enumerate(sensors)
                ]
            ),
        }


def _median(times: list[float]) -> float:
    """Return the median of report `times`, or the higher of two middle times; 0 without times."""
    return sorted(times)[len(times) // 2] if times else 0.0
