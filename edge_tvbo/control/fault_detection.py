"""Fault detection: sensors that repeat one value, drift, have spikes, or use another unit.

Each accepted reading is compared with the model's estimate before the reading, and with the
previous reading of the same sensor. The error is the reading minus the estimate; it is standardised
by the standard deviation of the prediction. Each of four tests sums the evidence for one kind of
fault, in nats (Page 1954, CUSUM):

- *stuck*: a reading that is identical to the previous one adds ln(1/p), where p is the
  probability that a working sensor repeats its reading. This probability is learned from all
  sensors. It is high if the resolution is coarse, or if the field does not change. A different
  reading sets the sum to 0. A sensor is stuck only if the reading of another sensor has changed
  since the first repetition.
- *drift*: there is one sum for each direction. A reading adds x - 1/2 to the sum for upwards, and
  -x - 1/2 to the sum for downwards, where x is the standardised error, limited to ±1. The limit
  means that large errors, such as those near a fire or an oven, weigh no more than small errors. So
  at the default interval of 10 min, a drift is found after at least 25 readings with errors in the
  same direction. Successive errors of a working sensor may be similar, for example while the sun
  shines. Therefore the number that a reading adds is multiplied by (1 - ρ)/(1 + ρ), the number of
  independent errors per reading (Bayley & Hammersley 1946). Here ρ is the autocorrelation of a
  sensor's errors, averaged over all sensors. A drift is not reported in its first six hours, nor
  while another sensor drifts in the same direction. It is not reported either while the readings of
  the sensor stand still: after a jump, the estimate may differ slightly from a constant reading for
  hours.
- *spikes*: a reading adds the log-likelihood ratio of two hypotheses. The first is that 20 % of the
  sensor's readings are spikes; the second is that the sensor has the usual share of spikes of the
  field's sensors. A spike is an error of more than four standard deviations, unless the sensor's
  previous error was also that large and in the same direction. So a jump to a new level counts as
  one spike.
- *unit*: a reading adds two nats if three conditions hold: the reading contradicts the estimate;
  the reading is outside the range of all sensors' earlier readings; and the reading would agree
  with the estimate if its unit were another one, such as °F. A reading for which a condition does
  not hold subtracts two nats. Readings of sensors with evidence of another unit do not extend the
  range.

A sensor is faulty if one of these sums reaches ln(4 n), where 4 is the number of tests, and n is
the number of intervals in a year. If the errors are independent, a CUSUM test with the threshold h
has on average at most one false alarm in e^h readings (Lorden 1971). So with four tests, a
sensor with one reading in each interval has at most one false alarm in a year.
"""

from dataclasses import dataclass, field
from math import log, sqrt
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.control.facts import Compared, Excluded, Fault, FaultKind
from edge_tvbo.control.fault_evidence import PRIOR_SQUARES, FaultEvidence, PredictedReading
from edge_tvbo.control.fault_statistics import FaultStatistics
from edge_tvbo.control.mistaken_units import OTHER_UNITS
from edge_tvbo.control.sensor_arrays import arrays_of, load_arrays
from edge_tvbo.control.sensor_health import retry_after
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import check_arrays
from edge_tvbo.numerics.types import Mask

YEAR_S = 365.25 * 86_400.0
DEFAULT_INTERVAL_S = 600.0  # assumed if the field has interval = "on-reading"
TEST_COUNT = 4
AGREEING_STDS: dict[FaultKind, float] = {"stuck": 3.0, "drift": 1.0, "spikes": 3.0, "unit": 3.0}
AGREEING: dict[FaultKind, int] = {"stuck": 3, "drift": 3, "spikes": 10, "unit": 3}
FIRST_RETRY_INTERVALS = 16  # intervals until a faulty sensor is tried again
MAX_FAULTY_SHARE = 1 / 3  # with more faulty sensors, the model would be wrong, not the sensors
MIN_SENSORS = 3  # with fewer sensors, there is nothing to compare with
KINDS: tuple[FaultKind, ...] = ("stuck", "drift", "spikes", "unit")
BY_DIRECTION = (  # (2, M) in snapshots
    "fault_drift",
    "fault_drift_since",
    "fault_drift_count",
    "fault_line_count",
    "fault_line_mean",
    "fault_line_squares",
    "fault_line_products",
)


class FaultTestResult(msgspec.Struct, frozen=True):
    """Result of the fault tests of one reading."""

    usable: bool  # whether the model may learn from the reading
    event: Literal["sensor-faulty", "sensor-agrees"] | None = None


USABLE = FaultTestResult(usable=True)


@dataclass(slots=True)
class SensorFault:
    """State of one sensor in the fault detection: its fault, if any, and when it is tried again."""

    kind: int = 0  # 1 + index of the fault in KINDS; 0 for a sensor without a fault
    detail: list[float] = field(default_factory=lambda: [0.0] * 4)  # value, expected, count, unit
    retry: int = 0  # first interval in which it is tried again
    tries: int = 0  # failed tries; not reset when the sensor is no longer faulty
    agreed: int = 0  # consecutive readings that agree with the estimate


class FaultDetector:
    """Detector of one field's faulty sensors; its state has a fixed size.

    A faulty sensor is tried again after 16 intervals. If it still disagrees with the estimate, it
    is tried again after 32 intervals, then after 64, and so on. It is no longer faulty after 3
    consecutive readings that agree with the estimate (10 readings if its fault was spikes).

    Parameters
    ----------
    field : SensorField
        M sensors.
    interval : float, optional
        Length of an interval in s; None for ``interval = "on-reading"``.
    max_backoff : int
        Maximum number of intervals until a faulty sensor is tried again.
    mode : {"exclude", "report", "off"}
        "exclude": the model does not use faulty sensors; "report": they are only reported; "off":
        no reading is tested.
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
        self._threshold = log(TEST_COUNT * max(YEAR_S / (interval or DEFAULT_INTERVAL_S), 1.0))
        self._units = OTHER_UNITS.get(field.unit, ())
        self._unused = FaultTestResult(not self._excludes)
        self._sensors = range(M)
        self._evidence = [FaultEvidence() for _ in self._sensors]
        self._faults = [SensorFault() for _ in self._sensors]
        self._faulty: set[int] = set()  # sensors
        self._usual = FaultStatistics(field.center)
        self._autocorrelations = np.zeros(M)  # autocorrelation of each sensor's errors
        self._newest = -1  # the sensor of the last reading
        self._initial = self._state()

    # --- what is known about the sensors --------------------------------------------------------

    @property
    def affects_selection(self) -> bool:
        """Whether a sensor may be ineligible at present, because it is faulty or may be stuck."""
        return self._compares and (bool(self._faulty) or self._wants_comparison(self._newest))

    @property
    def excluded(self) -> Mask:
        """Mask of the faulty sensors whose readings the model does not use, (M,)."""
        mask = np.zeros(len(self._sensors), np.bool_)
        if self._excludes:
            mask[list(self._faulty)] = True
        return mask

    def eligible(self, interval: int, others: Mask | None) -> Mask | None:
        """Return a mask, (M,), of the sensors that the fault detector allows in `interval`.

        `others` is a mask of the sensors that all other rules allow; None if they allow every
        sensor. An excluded sensor is removed from this mask until its retry is due. The sensor of
        the last reading is also removed if it may be stuck, so that another sensor is read for
        comparison. If no sensor is left, the mask is returned unchanged.
        """
        mask = np.ones(len(self._sensors), np.bool_) if others is None else others.copy()
        for arm in self._faulty if self._excludes else ():
            mask[arm] &= self._faults[arm].retry <= interval
        if self._wants_comparison(self._newest):
            mask[self._newest] = False
        return mask if mask.any() else others

    def ineligible_reason(self, arm: int, interval: int) -> Excluded | Compared | None:
        """Return why the fault detector does not allow the sensor `arm`; None if it is allowed."""
        fault = self.fault(arm)
        if fault and self._excludes and self.retry_interval(arm) > interval:
            return Excluded(self.retry_interval(arm), fault)
        return Compared() if self._compares and self._wants_comparison(arm) else None

    def retry_interval(self, arm: int) -> int:
        """Return the first interval in which the faulty sensor `arm` is tried again."""
        return self._faults[arm].retry

    def fault(self, arm: int) -> Fault | None:
        """Return the fault of the sensor `arm`; None if it is not faulty."""
        stored = self._faults[arm]
        if not stored.kind:
            return None
        value, expected, count, extra = stored.detail
        kind = KINDS[stored.kind - 1]
        known = kind == "unit" and 0 <= int(extra) < len(self._units)
        unit = self._units[int(extra)][0] if known else ""
        return Fault(kind, value, expected, int(count), unit)

    def faults(self) -> dict[int, Fault]:
        """Return a dict that maps each faulty sensor to its fault."""
        return {arm: fault for arm in sorted(self._faulty) if (fault := self.fault(arm))}

    @property
    def limit_reached(self) -> bool:
        """Whether so many sensors are faulty that faults of further sensors are not reported."""
        number, M = len(self._faulty), len(self._sensors)
        return MAX_FAULTY_SHARE * M <= number < M

    def forget(self, arm: int) -> None:
        """Forget the fault of `arm`, and the evidence for a fault."""
        self._clear(arm)
        self._faults[arm].agreed = 0

    # --- readings -------------------------------------------------------------------------------

    def test(
        self, arm: int, value: float, prediction: PredictedReading, at: float, interval: int
    ) -> FaultTestResult:
        """Test a reading of `arm` for faults, and return the result of the tests.

        Parameters
        ----------
        arm : int
            The sensor.
        value : float
            The reading, in the field's unit.
        prediction : PredictedReading
            The model's prediction of the reading.
        at : float
            Time of the reading, in s since 1970.
        interval : int
            Number of the current interval.
        """
        if self._mode == "off":
            return USABLE
        usual, evidence = self._usual, self._evidence[arm]
        deviation = (value - prediction.mean) / prediction.std
        if self._faults[arm].kind:
            return self._try_again(arm, value, deviation / sqrt(usual.square), interval)
        error = deviation if prediction.informed else 0.0
        z = error / sqrt(usual.square)
        kind = self._find_fault(arm, value, z, prediction, at, interval)
        if prediction.informed:
            usual.learn_square(error)
        evidence.read_at = at
        self._newest = arm
        if kind and not self.limit_reached:
            self._exclude(arm, kind, value, prediction.mean, interval)
            return FaultTestResult(not self._excludes, "sensor-faulty")
        if kind:
            evidence.clear()
        return self._unused if self._is_doubtful(arm) else USABLE

    def is_unused(self, arm: int) -> bool:
        """Return whether the last reading of `arm` was left unused because `arm` may be faulty."""
        return self._excludes and (arm in self._faulty or self._is_doubtful(arm))

    def may_use_other_unit(self, arm: int) -> bool:
        """Return whether the last reading of `arm` was left unused because it fits another unit."""
        return self._excludes and self._evidence[arm].unit_count > 0

    def _is_doubtful(self, arm: int) -> bool:
        """Return whether there is some evidence that `arm` is stuck or sends another unit.

        This evidence need not be enough to report a fault.
        """
        evidence = self._evidence[arm]
        is_stuck = evidence.may_be_stuck(self._usual, self._stuck_threshold(arm))
        return evidence.unit_count > 0 or is_stuck

    def _stuck_threshold(self, arm: int) -> float:
        """Return how much evidence, in nats, the detector needs to report that `arm` is stuck.

        If the sensor was reported as faulty before, twice as much evidence is needed. The earlier
        report was probably wrong: the sensor repeats its readings more often than other sensors.
        """
        return self._threshold * (2.0 if self._faults[arm].tries else 1.0)

    def _find_fault(
        self,
        arm: int,
        value: float,
        z: float,
        prediction: PredictedReading,
        at: float,
        interval: int,
    ) -> FaultKind | None:
        """Return the kind of fault that the detector's tests find, if any.

        The test for "stuck" counts only the first reading of the sensor in each interval: with
        several readings in an interval, working sensors repeat their readings more often than the
        threshold assumes. Another value in the same interval ends the repetitions. If the
        prediction is not `informed`, only the test for "stuck" is run.
        """
        evidence, usual, enough = self._evidence[arm], self._usual, self._threshold
        kind: FaultKind | None = None
        if not evidence.known or evidence.tested_in != interval:
            threshold = self._stuck_threshold(arm)
            if evidence.test_repetition(value, z, prediction, usual, threshold):
                kind = "stuck"
            evidence.last, evidence.known, evidence.tested_in = value, 1, interval
        elif value != evidence.last:
            evidence.repeats, evidence.stuck = 0, 0.0
        if not prediction.informed:
            return kind
        evidence.add_to_lines(value, z)
        evidence.add_error(z)
        self._autocorrelations[arm] = evidence.autocorrelation
        drifts = evidence.test_drift(self._independent_share, at, enough)
        if drifts and not all(self._others_drift(arm, side) for side in drifts):
            kind = "drift"
        if evidence.test_spikes(z, usual, enough):
            kind = "spikes"
        if evidence.test_units(value, z, prediction, self._units, usual, enough):
            kind = "unit"
        return kind

    @property
    def _independent_share(self) -> float:
        """Weight of one error in the drift test, from 0 to 1; independent errors have the weight 1.

        The errors are modelled as an autoregression with the mean autocorrelation of all sensors.
        """
        total = float(np.add.reduce(self._autocorrelations))  # in less time than `sum` or `mean`
        rho = max(0.0, total / len(self._autocorrelations))
        return (1.0 - rho) / (1.0 + rho)

    def _others_drift(self, arm: int, side: int) -> bool:
        """Return whether another sensor probably drifts in the same direction as `arm`.

        `side` is the index of this direction. The other sensor counts only if it was read after
        `arm` began to drift.
        """
        since = self._evidence[arm].drift_since[side]
        return any(
            each.drifts(side, since, self._threshold)
            for other, each in enumerate(self._evidence)
            if other != arm and other not in self._faulty
        )

    def _wants_comparison(self, arm: int) -> bool:
        """Return whether the detector must read another sensor to decide whether `arm` is stuck."""
        if arm != self._newest or arm < 0 or arm in self._faulty:
            return False
        return self._evidence[arm].wants_comparison(self._usual, self._stuck_threshold(arm))

    # --- faulty sensors -------------------------------------------------------------------------

    def _exclude(
        self, arm: int, kind: FaultKind, value: float, expected: float, interval: int
    ) -> None:
        evidence, fault = self._evidence[arm], self._faults[arm]
        counts = {
            "stuck": evidence.repeats + 1,
            "drift": max(evidence.drift_count),
            "spikes": evidence.spike_count,
            "unit": evidence.unit_count,
        }
        unit = evidence.unit.index(max(evidence.unit))
        self._usual.remove_repetitions(evidence.repeats)
        fault.kind = 1 + KINDS.index(kind)
        fault.detail = [value, expected, float(counts[kind]), float(unit)]
        fault.agreed = evidence.repeats = 0
        self._faulty.add(arm)
        self._postpone(fault, interval)

    def _postpone(self, fault: SensorFault, interval: int) -> None:
        pause = min(FIRST_RETRY_INTERVALS * 2 ** min(fault.tries, 32), self._max_backoff)
        fault.tries += 1
        fault.retry = interval + 1 + pause

    def _try_again(self, arm: int, value: float, z: float, interval: int) -> FaultTestResult:
        """Compare a faulty sensor's reading with the estimate, if the sensor's retry is due."""
        evidence, fault = self._evidence[arm], self._faults[arm]
        kind = KINDS[fault.kind - 1]
        evidence.last, evidence.tested_in = value, interval
        if interval < fault.retry:
            return self._unused
        is_still_stuck = kind == "stuck" and value == fault.detail[0]
        if abs(z) > AGREEING_STDS[kind] or is_still_stuck:
            fault.agreed = 0
            self._postpone(fault, interval)
            return self._unused
        fault.agreed += 1
        if fault.agreed < AGREEING[kind]:
            return self._unused
        if kind == "stuck":
            self._usual.add_ended_repetitions(int(fault.detail[2]) - 1)
        self._clear(arm)
        return FaultTestResult(usable=True, event="sensor-agrees")

    def _clear(self, arm: int) -> None:
        self._evidence[arm].clear()
        self._faults[arm].kind = 0
        self._faulty.discard(arm)

    # --- snapshots ------------------------------------------------------------------------------

    def shift_timestamps(self, by: float) -> None:
        """Add `by` seconds to the stored times of the fault tests, because the clock was set."""
        for each in self._evidence:
            each.drift_since = [since + by for since in each.drift_since]
            each.read_at += by

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the fault detector for a snapshot.

        Before the first reading, the state is usually empty, as in the snapshots of old versions.
        It is complete if a reload has replaced all sensors, or if the clock was stepped.
        """
        state = self._state()
        is_initial = all(
            state[name].tobytes() == each.tobytes() for name, each in self._initial.items()
        )
        return {} if is_initial else state

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` contains invalid faults."""
        state = self._completed(state)
        check_arrays(self._initial, state)
        kind, squares = state["fault_kind"], state["fault_error_squares"]
        if (np.abs(state["fault_error_products"]) >= squares + PRIOR_SQUARES).any():
            raise SnapshotError("The snapshot's autocorrelation of errors is invalid.")
        if (kind < 0).any() or (kind > len(KINDS)).any() or (state["fault_tries"] < 0).any():
            raise SnapshotError("The sensor faults in the snapshot are invalid.")
        if (state["fault_line_count"] < 0).any():
            raise SnapshotError("The numbers of readings in the snapshot's drift test are invalid.")
        FaultStatistics.check(state["fault_pool"], int(state["fault_repeats"].max(initial=0)))

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the fault detector from a `state` that `check` accepts.

        In the mode "off", the stored faults and evidence are not restored.
        """
        known = self._completed(state)
        rows = known | {name: known[name].T for name in BY_DIRECTION}
        load_arrays("fault_", self._evidence, rows)
        load_arrays("fault_", self._faults, rows)
        self._autocorrelations = np.array([each.autocorrelation for each in self._evidence])
        self._usual.restore(known["fault_pool"])
        self._faulty = {arm for arm in self._sensors if self._faults[arm].kind}
        newest = known["fault_newest"]
        self._newest = int(newest.argmax()) if newest.any() else -1
        for arm in self._sensors if self._mode == "off" else ():
            self.forget(arm)

    def continue_backoff(self, before: int, interval: int, ratio: float) -> None:
        """Compute, after a restart or a reload, when each faulty sensor is tried again.

        The function `retry_after` describes the parameters.
        """
        for fault in self._faults:
            fault.retry = retry_after(before, interval, fault.retry, ratio, self._max_backoff)

    def _completed(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the faults in `state`, with initial values for the arrays that `state` lacks."""
        return {**self._initial, **state} if "fault_kind" in state else self._initial

    def _state(self) -> dict[str, NDArray[Any]]:
        newest = np.zeros(len(self._sensors), np.int64)
        if self._newest >= 0:
            newest[self._newest] = 1
        evidence = arrays_of("fault_", self._evidence)
        return {
            **evidence,
            **{name: evidence[name].T.copy() for name in BY_DIRECTION},
            **arrays_of("fault_", self._faults),
            "fault_newest": newest,
            "fault_pool": self._usual.array(),
        }
