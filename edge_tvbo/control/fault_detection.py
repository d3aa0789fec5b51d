"""Fault detection: which sensors are stuck, drift, spike, or report in another unit.

Each accepted reading is compared with the model's estimate before the reading, and with the last
reading of the same sensor. Four tests add up evidence, in nats (Page 1954, CUSUM):

- *stuck*: ln(1/p) for each reading that is identical with the last one, where p is the probability
  that a working sensor repeats itself. p is learned from all sensors, and is high where the
  resolution is coarse or the field stands still. A different reading sets the sum to 0. In
  addition, another sensor must have changed since the first repetition.
- *drift*: ±x - 1/2 with x = the standardised error, limited to ±1, for each direction. So a few
  large errors, such as those of a fire or an oven, weigh no more than small ones; 25 readings on
  the same side are needed. A drift is not reported in its first six hours, nor while another sensor
  drifts to the same side.
- *spikes*: the log-likelihood ratio of 20 % spikes to the share of spikes that is usual in the
  field. A spike is an error of more than four standard deviations that does not continue an earlier
  error in the same direction. So a jump to a new level counts once.
- *unit*: two nats for each reading that no sensor has reported before, contradicts the estimate,
  and agrees with the estimate in another unit, such as °F; minus two for any other reading.

A sensor is faulty if a sum reaches ln(4 n), where n is the number of intervals of a year. If the
errors are independent, the mean time between false alarms of a CUSUM is at least e to the power of
its threshold (Lorden 1971), in readings. So a sensor with one reading in each interval has at most
one false alarm in a year.
"""

from math import exp, log, pi, sqrt
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.control.facts import Compared, Excluded, Fault, FaultKind
from edge_tvbo.control.fault_statistics import FaultStatistics
from edge_tvbo.control.units import OTHER_UNITS
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import check_arrays, copy_arrays
from edge_tvbo.numerics.types import Mask

YEAR_S = 365.25 * 86_400.0
DEFAULT_INTERVAL_S = 600.0  # of a field whose intervals follow the readings
TESTS = 4
MIN_DRIFT_S = 6 * 3600.0  # the sun, or an oven, moves a sensor for a shorter time
SPIKE_STDS = 4.0
MIN_REPEATS = 4  # identical readings after the first, at least, of a stuck sensor
UNIT_EVIDENCE = 2.0  # nats; one reading alone decides nothing
MAX_SQUARE = 25.0  # of a standardised error; larger errors are not more unlikely
FITTING_STDS = 3.0  # largest error of a reading that fits an estimate in another unit
AGREEING_STDS: dict[FaultKind, float] = {"stuck": 3.0, "drift": 1.0, "spikes": 3.0, "unit": 3.0}
AGREEING: dict[FaultKind, int] = {"stuck": 3, "drift": 3, "spikes": 10, "unit": 3}
FIRST_RETRY = 16  # intervals until a faulty sensor is tried again
MAX_FAULTY_SHARE = 1 / 3  # with more faulty sensors, the model would be wrong, not the sensors
MIN_SENSORS = 3  # with fewer sensors, there is nothing to compare with
KINDS: tuple[FaultKind, ...] = ("stuck", "drift", "spikes", "unit")
MAX_UNITS = 3


class Prediction(msgspec.Struct, frozen=True):
    """Mean and standard deviation of a reading before it arrived, in the field's unit.

    `informed` is False if the policy does not learn how fast the field changes, or has no readings.
    """

    mean: float
    std: float
    informed: bool


class Outcome(msgspec.Struct, frozen=True):
    """Result of the tests of one reading."""

    usable: bool  # whether the model may learn from the reading
    event: Literal["sensor-faulty", "sensor-agrees"] | None = None


class FaultDetector:
    """Tests of one field's readings for faulty sensors, with a state of fixed size.

    A faulty sensor is tried again after 16 intervals. Each time that it still disagrees, the number
    of intervals doubles. It is no longer faulty after 3 readings that agree (10 after spikes).

    Parameters
    ----------
    field : SensorField
        M sensors.
    interval : float, optional
        Length of an interval in s; None if intervals follow the readings.
    max_backoff : int
        Maximum number of intervals until a faulty sensor is tried again.
    mode : str
        Whether faulty sensors are excluded, are only reported, or are not looked for.
    """

    def __init__(
        self,
        field: SensorField,
        interval: float | None,
        max_backoff: int,
        mode: Literal["exclude", "report", "off"] = "exclude",
    ) -> None:
        M = len(field)
        self._mode = mode
        self._compares = mode != "off" and M >= MIN_SENSORS
        self._excludes = mode == "exclude" and self._compares
        self._max_backoff = max_backoff
        self._threshold = log(TESTS * max(YEAR_S / (interval or DEFAULT_INTERVAL_S), 1.0))
        self._units = OTHER_UNITS.get(field.unit, ())
        self._last = np.zeros(M)  # last reading
        self._known = np.zeros(M, np.int64)  # 1 if there was a reading
        self._repeats = np.zeros(M, np.int64)  # identical readings after the first of a run
        self._stuck = np.zeros(M)
        self._changes_before = np.zeros(M)  # `changes` at the first repetition
        self._drift = np.zeros((2, M))  # upwards, downwards
        self._drift_since = np.zeros((2, M))  # s since 1970
        self._drift_count = np.zeros((2, M), np.int64)
        self._read_at = np.zeros(M)  # s since 1970
        self._spikes = np.zeros(M)
        self._spike_count = np.zeros(M, np.int64)
        self._spike_side = np.zeros(M, np.int64)  # ±1 if the last reading was a spike, or 0
        self._unit = np.zeros((M, MAX_UNITS))
        self._unit_count = np.zeros(M, np.int64)
        self._kind = np.zeros(M, np.int64)  # 1 + index in KINDS of a faulty sensor, or 0
        self._detail = np.zeros((M, 4))  # of the fault: value, expected, count, unit or direction
        self._retry = np.zeros(M, np.int64)  # first interval in which it is tried again
        self._tries = np.zeros(M, np.int64)  # failed tries; kept after the sensor has agreed
        self._agreed = np.zeros(M, np.int64)
        self._usual = FaultStatistics(field.center)
        self._newest = np.zeros(M, np.int64)  # 1 for the sensor of the last reading
        self._initial = {name: array.copy() for name, array in self._state().items()}
        self._any_suspected = False  # whether a sensor is faulty, or repeats itself

    # --- what is known of the sensors -----------------------------------------------------------

    @property
    def affects_selection(self) -> bool:
        """Whether a sensor may be ineligible, because it is faulty or may be stuck."""
        return self._compares and self._any_suspected

    @property
    def excluded(self) -> Mask:
        """Mask of the faulty sensors whose readings the model does not use, (M,)."""
        return (self._kind > 0) & self._excludes

    def eligible(self, interval: int, others: Mask | None) -> Mask | None:
        """Return a mask, (M,), of the sensors that may be selected in `interval` despite faults.

        `others` is the mask of the sensors that all other rules allow; None for all. If no sensor
        would be left, `others` is returned unchanged. A sensor that may be stuck waits for one
        interval, in which another sensor is read for comparison.
        """
        mask = (~self.excluded | (self._retry <= interval)) & ~self._wants_comparison()
        if others is not None:
            mask &= others
        return mask if mask.any() else others

    def ineligible_reason(self, arm: int, interval: int) -> Excluded | Compared | None:
        """Return the reason why a fault of `arm` makes it ineligible; None if there is none."""
        fault = self.fault(arm)
        if fault and self._excludes and self._retry[arm] > interval:
            return Excluded(int(self._retry[arm]), fault)
        return Compared() if self._wants_comparison()[arm] else None

    def retry_interval(self, arm: int) -> int:
        """Return the first interval in which the faulty sensor `arm` is tried again."""
        return int(self._retry[arm])

    def fault(self, arm: int) -> Fault | None:
        """Return the fault of the sensor `arm`; None if it is not faulty."""
        if not self._kind[arm]:
            return None
        value, expected, count, extra = self._detail[arm]
        kind = KINDS[int(self._kind[arm]) - 1]
        known = kind == "unit" and 0 <= int(extra) < len(self._units)
        unit = self._units[int(extra)][0] if known else ""
        return Fault(kind, float(value), float(expected), int(count), unit)

    def faults(self) -> dict[int, Fault]:
        """Return a dict that maps each faulty sensor to its fault."""
        return {
            int(arm): fault for arm in np.flatnonzero(self._kind) if (fault := self.fault(int(arm)))
        }

    def forget(self, arm: int) -> None:
        """Forget the fault of `arm`, and the evidence for a fault."""
        self._clear(arm)
        self._agreed[arm] = 0
        self._look_for_suspects()

    # --- readings -------------------------------------------------------------------------------

    def test(
        self, arm: int, value: float, prediction: Prediction, at: float, interval: int
    ) -> Outcome:
        """Test a reading of `arm` for faults, and return the result of the tests.

        Parameters
        ----------
        arm : int
            The sensor.
        value : float
            The reading, in the field's unit.
        prediction : Prediction
            The model's prediction of the reading.
        at : float
            Time of the reading, in s since 1970.
        interval : int
            Number of the current interval.
        """
        if self._mode == "off":
            return Outcome(usable=True)
        outcome = self._run_tests(arm, value, prediction, at, interval)
        if self._any_suspected or self._kind[arm] or self._stuck[arm]:
            self._look_for_suspects()
        return outcome

    def _look_for_suspects(self) -> None:
        self._any_suspected = bool(self._kind.any() or self._stuck.any())

    def _run_tests(
        self, arm: int, value: float, prediction: Prediction, at: float, interval: int
    ) -> Outcome:
        error = (value - prediction.mean) / prediction.std if prediction.informed else 0.0
        z = error / sqrt(self._usual.square)
        if self._kind[arm]:
            return self._try_again(arm, value, z, interval)
        kind = self._test_repetition(arm, value, z, prediction)
        if prediction.informed:
            kind = self._test_drift(arm, z, at) or kind
            kind = self._test_spikes(arm, z) or kind
            kind = self._test_units(arm, value, z, prediction) or kind
            self._usual.learn_square(error)
        self._last[arm], self._known[arm], self._read_at[arm] = value, 1, at
        self._newest[:] = 0
        self._newest[arm] = 1
        if kind and (self._kind > 0).sum() < MAX_FAULTY_SHARE * len(self._kind):
            self._exclude(arm, kind, value, prediction.mean, interval)
            return Outcome(not self._excludes, "sensor-faulty")
        if kind:
            self._clear(arm)
        doubtful = self._unit_count[arm] > 0 or self._may_be_stuck(arm)
        return Outcome(not (self._excludes and doubtful))

    def _exclude(
        self, arm: int, kind: FaultKind, value: float, expected: float, interval: int
    ) -> None:
        counts = {
            "stuck": self._repeats[arm] + 1,
            "drift": self._drift_count[:, arm].max(),
            "spikes": self._spike_count[arm],
            "unit": self._unit_count[arm],
        }
        unit = int(self._unit[arm].argmax())
        self._usual.remove_repetitions(int(self._repeats[arm]))
        self._kind[arm] = 1 + KINDS.index(kind)
        self._detail[arm] = value, expected, counts[kind], unit
        self._agreed[arm] = self._repeats[arm] = 0
        self._postpone(arm, interval)

    def _postpone(self, arm: int, interval: int) -> None:
        pause = min(FIRST_RETRY * 2 ** int(min(self._tries[arm], 32)), self._max_backoff)
        self._tries[arm] += 1
        self._retry[arm] = interval + 1 + pause

    def _try_again(self, arm: int, value: float, z: float, interval: int) -> Outcome:
        """Compare a faulty sensor's reading with the estimate, if the sensor is to be retried."""
        kind = KINDS[int(self._kind[arm]) - 1]
        repeats = value == self._last[arm]
        self._last[arm] = value
        if interval < self._retry[arm]:
            return Outcome(not self._excludes)
        if abs(z) > AGREEING_STDS[kind] or (kind == "stuck" and repeats):
            self._agreed[arm] = 0
            self._postpone(arm, interval)
            return Outcome(not self._excludes)
        self._agreed[arm] += 1
        if self._agreed[arm] < AGREEING[kind]:
            return Outcome(not self._excludes)
        self._clear(arm)
        return Outcome(usable=True, event="sensor-agrees")

    def _clear(self, arm: int) -> None:
        self._kind[arm] = self._repeats[arm] = self._spike_count[arm] = self._unit_count[arm] = 0
        self._stuck[arm] = self._spikes[arm] = self._unit[arm] = 0.0
        self._drift[:, arm] = 0.0

    # --- the tests ------------------------------------------------------------------------------

    def _test_repetition(
        self, arm: int, value: float, z: float, prediction: Prediction
    ) -> FaultKind | None:
        if not self._known[arm]:
            return None
        repeats = int(self._repeats[arm])
        if value != self._last[arm]:
            self._usual.add_change(abs(value - float(self._last[arm])), repeats)
            self._repeats[arm], self._stuck[arm] = 0, 0.0
            return None
        self._usual.add_repetition(repeats)
        if repeats == 0:
            self._changes_before[arm] = self._usual.changes
        self._repeats[arm] += 1
        self._stuck[arm] = self._repetition_evidence(arm, z, prediction)
        enough = self._repeats[arm] >= MIN_REPEATS and self._stuck[arm] >= self._threshold
        return "stuck" if enough and self._may_be_stuck(arm) else None

    def _may_be_stuck(self, arm: int) -> bool:
        """Return whether `arm` is probably stuck.

        This is the case if there is half of the necessary evidence, and if another sensor has
        changed since the first repetition.
        """
        suspected = self._stuck[arm] >= self._threshold / 2
        return bool(suspected and self._usual.changes > self._changes_before[arm])

    def _repetition_evidence(self, arm: int, z: float, prediction: Prediction) -> float:
        """Return ln(1/p), where p is the chance that a working sensor repeats itself like `arm`.

        p is the chance according to the other sensors or the model, whichever is higher.
        """
        std = prediction.std * sqrt(self._usual.square)
        density = exp(-0.5 * min(z * z, MAX_SQUARE)) / (std * sqrt(2.0 * pi))
        expected = self._usual.resolution * density if prediction.informed else 0.0
        return self._usual.repetition_evidence(float(self._repeats[arm]), expected)

    def _wants_comparison(self) -> Mask:
        """Return a mask of sensors that may be stuck; they wait until another sensor is read."""
        waits = (self._stuck >= self._threshold / 2) & (self._stuck < self._threshold)
        waits &= (self._changes_before >= self._usual.changes) & (self._kind == 0)
        return waits & (self._newest > 0)

    def _test_drift(self, arm: int, z: float, at: float) -> FaultKind | None:
        x = min(max(z, -1.0), 1.0)
        found = False
        for side, sign in enumerate((1.0, -1.0)):
            if self._drift[side, arm] == 0.0:
                self._drift_since[side, arm], self._drift_count[side, arm] = at, 0
            total = max(0.0, self._drift[side, arm] + sign * x - 0.5)
            self._drift[side, arm] = total
            self._drift_count[side, arm] += 1
            since = self._drift_since[side, arm]
            if total >= self._threshold and at - since >= MIN_DRIFT_S:
                found = found or not self._others_move(arm, side, since)
        return "drift" if found else None

    def _others_move(self, arm: int, side: int, since: float) -> bool:
        """Return whether another sensor, read after `since`, drifts to the same side."""
        moves = (self._drift[side] >= self._threshold / 2) & (self._read_at >= since)
        moves[arm] = False
        return bool((moves & (self._kind == 0)).any())

    def _test_spikes(self, arm: int, z: float) -> FaultKind | None:
        side = int(np.sign(z)) if abs(z) > SPIKE_STDS else 0
        is_spike = side != 0 and side != self._spike_side[arm]
        self._spike_side[arm] = side
        evidence = self._usual.spike_evidence(is_spike=is_spike)
        self._spikes[arm] = max(0.0, self._spikes[arm] + evidence)
        self._spike_count[arm] = self._spike_count[arm] + is_spike if self._spikes[arm] else 0
        is_trusted = bool(self._spikes[arm] < self._threshold / 2)
        self._usual.add_reading(is_spike=is_spike and is_trusted)
        return "spikes" if self._spikes[arm] >= self._threshold else None

    def _test_units(
        self, arm: int, value: float, z: float, prediction: Prediction
    ) -> FaultKind | None:
        std = prediction.std * sqrt(self._usual.square)
        is_unseen = not self._usual.lowest <= value <= self._usual.highest
        for n, (_, factor, offset) in enumerate(self._units):
            other = (value - factor * prediction.mean - offset) / (factor * std)
            fits = is_unseen and abs(other) <= FITTING_STDS < abs(z)
            gain = UNIT_EVIDENCE if fits else -UNIT_EVIDENCE
            self._unit[arm, n] = max(0.0, self._unit[arm, n] + gain)
        most = self._unit[arm].max()
        self._unit_count[arm] = self._unit_count[arm] + 1 if most else 0
        if not most:
            self._usual.learn_range(value)
        return "unit" if most >= self._threshold else None

    # --- snapshots ------------------------------------------------------------------------------

    def shift_timestamps(self, by: float) -> None:
        """Add `by` seconds to the stored times of the fault tests, because the clock was set."""
        self._drift_since += by
        self._read_at += by

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the fault detector, for `check` and `restore`.

        Before the first reading, the state is empty, as in the snapshots of old versions.
        """
        if not self._known.any():
            return {}
        return self._state()

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` contains invalid faults; old versions stored none."""
        if "fault_kind" not in state:
            return
        check_arrays(self._state(), state)
        kind = state["fault_kind"]
        if (kind < 0).any() or (kind > len(KINDS)).any() or (state["fault_tries"] < 0).any():
            raise SnapshotError("The snapshot's faults of sensors are invalid.")
        FaultStatistics.check(state["fault_pool"], int(state["fault_repeats"].max(initial=0)))

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the fault detector from a checked state."""
        known = state if "fault_kind" in state else self._initial
        copy_arrays(self._arrays(), known)
        self._usual.restore(known["fault_pool"])
        self._look_for_suspects()

    def limit_backoff(self, interval: int) -> None:
        """Try each faulty sensor again at the latest `max_backoff` intervals after `interval`."""
        np.minimum(self._retry, interval + 1 + self._max_backoff, out=self._retry)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {name: each for name, each in vars(self).items() if isinstance(each, np.ndarray)}
        return {f"fault{name}": each for name, each in arrays.items()}

    def _state(self) -> dict[str, NDArray[Any]]:
        return {**self._arrays(), "fault_pool": self._usual.array()}
