"""Fault evidence: the four tests of one sensor's readings, which `fault_detection` describes."""

from dataclasses import dataclass, field
from math import copysign, exp, expm1, pi, sqrt

import msgspec

from edge_tvbo.control.fault_statistics import MAX_REPEAT_CHANCE, FaultStatistics

MIN_DRIFT_S = 6 * 3600.0  # the sun or an oven heats a sensor for a shorter time
SPIKE_STDS = 4.0
MAX_LAST_Z = 2.0 * SPIKE_STDS  # limit of `last_z`, so that its decline after a jump is no jump
MIN_REPEATS = 4  # a stuck sensor has repeated its reading at least this often
MIN_CHANGES = 1.0 - MAX_REPEAT_CHANCE  # share; with fewer changes, the evidence is overestimated
UNIT_EVIDENCE = 2.0  # nats for each reading in another unit; one reading is not enough
MAX_SQUARE = 25.0  # larger squares of standardised errors are reduced to this value
FITTING_STDS = 3.0  # largest standardised error of a reading that agrees in another unit
MAX_UNITS = 3
AVERAGED_ERRORS = 300.0  # readings over which the autocorrelation of the errors is averaged
MAX_LINE_VALUE = 1e50  # limit of a reading, so that sums of squares are finite
PRIOR_SQUARES = 25.0  # prior sum of squares: 50 uncorrelated errors with a square of .5
DIRECTIONS = ((0, 1.0), (1, -1.0))  # directions of a drift: (index, sign)

Units = tuple[tuple[str, float, float], ...]  # other units: name, factor, offset


class PredictedReading(msgspec.Struct, frozen=True, gc=False):
    """The model's prediction of a reading: mean and standard deviation, in the field's unit.

    `informed` is False if the prediction says little. In this case, only the test for repeated
    readings is run. The prediction says little in three cases:

    - The policy does not learn how fast the field changes.
    - The policy has no readings.
    - The season of the model is fitted, but the clock is not set.
    """

    mean: float
    std: float
    informed: bool


@dataclass(slots=True)
class FaultEvidence:
    """The evidence that one sensor is faulty, in nats.

    The object also holds the values with which the sensor's next reading is compared. A snapshot
    contains each attribute under its name.
    """

    last: float = 0.0  # last reading that was tested for repetition, in the field's unit
    known: int = 0  # 1 if the sensor has sent a reading
    tested_in: int = 0  # the interval of the reading `last`
    repeats: int = 0  # how often in a row the last reading was repeated
    stuck: float = 0.0
    changes_before: float = 0.0  # `changes` of the statistics at the first repetition
    readings_before: float = 0.0  # `readings` of the statistics at the first repetition
    drift: list[float] = field(default_factory=lambda: [0.0, 0.0])  # upwards, downwards
    drift_since: list[float] = field(default_factory=lambda: [0.0, 0.0])  # s since 1970
    drift_count: list[int] = field(default_factory=lambda: [0, 0])
    last_z: float = 0.0  # last standardised error, limited to ±`MAX_LAST_Z`
    line_count: list[int] = field(default_factory=lambda: [0, 0])  # readings in a line
    line_mean: list[float] = field(default_factory=lambda: [0.0, 0.0])  # mean reading
    line_squares: list[float] = field(default_factory=lambda: [0.0, 0.0])  # sum of squares
    line_products: list[float] = field(default_factory=lambda: [0.0, 0.0])  # sum; see `_moves`
    error: float = 0.0  # last standardised error, limited to ±1
    error_squares: float = 0.0  # sum of squared errors; old ones are forgotten
    error_products: float = 0.0  # sum of products of successive errors; old ones are forgotten
    read_at: float = 0.0  # s since 1970
    spikes: float = 0.0
    spike_count: int = 0
    spike_side: int = 0  # ±1 if the last reading was a spike, or 0
    unit: list[float] = field(default_factory=lambda: [0.0] * MAX_UNITS)
    unit_count: int = 0

    def clear(self) -> None:
        """Discard the evidence for all faults, but not the last reading."""
        self.repeats = self.spike_count = self.unit_count = 0
        self.stuck = self.spikes = 0.0
        self.drift, self.unit = [0.0, 0.0], [0.0] * MAX_UNITS

    # --- stuck ----------------------------------------------------------------------------------

    def test_repetition(
        self,
        value: float,
        z: float,
        prediction: PredictedReading,
        usual: FaultStatistics,
        threshold: float,
    ) -> bool:
        """Add a reading to the evidence for a stuck sensor; return whether the sensor is stuck.

        `z` is the standardised error of the reading.
        """
        if not self.known:
            return False
        if value != self.last:
            usual.add_change(abs(value - self.last), self.repeats)
            self.repeats, self.stuck = 0, 0.0
            return False
        usual.add_repetition(self.repeats)
        if self.repeats == 0:
            self.changes_before, self.readings_before = usual.changes, usual.readings
        self.repeats += 1
        self.stuck = self._repetition_evidence(z, prediction, usual)
        enough = self.repeats >= MIN_REPEATS and self.stuck >= threshold
        return enough and self.may_be_stuck(usual, threshold)

    def may_be_stuck(self, usual: FaultStatistics, threshold: float) -> bool:
        """Return whether the sensor is probably stuck.

        The evidence must be at least half of `threshold`, and the readings of the other sensors
        must have changed since the first repetition.
        """
        return self.stuck >= threshold / 2 and self._others_change(usual)

    def wants_comparison(self, usual: FaultStatistics, threshold: float) -> bool:
        """Return whether another sensor should be read to check whether this sensor is stuck.

        If the reading of the other sensor has changed, this sensor is probably stuck.
        """
        return threshold / 2 <= self.stuck < threshold and not self._others_change(usual)

    def _others_change(self, usual: FaultStatistics) -> bool:
        """Return whether the readings of the other sensors have changed since the first repetition.

        Of their readings since then, more than the share `MIN_CHANGES` must be changes: in a field
        that hardly changes, a sensor that never changes is usual.
        """
        others = usual.readings - self.readings_before - (self.repeats - 1)
        return usual.changes - self.changes_before > MIN_CHANGES * max(0.0, others)

    def _repetition_evidence(
        self, z: float, prediction: PredictedReading, usual: FaultStatistics
    ) -> float:
        """Return ln(1/p); p is the chance of so many repetitions if the sensor works.

        The chance of one repetition is estimated from the readings of the other sensors, and also
        from the model. The higher estimate is used.
        """
        std = prediction.std * sqrt(usual.square)
        density = exp(-0.5 * min(z * z, MAX_SQUARE)) / (std * sqrt(2.0 * pi))
        expected = usual.resolution * density if prediction.informed else 0.0
        return usual.repetition_evidence(float(self.repeats), expected)

    # --- drift, spikes, unit --------------------------------------------------------------------

    def add_error(self, z: float) -> None:
        """Add a standardised error, limited to ±1, to the sums that `autocorrelation` uses."""
        x = min(max(z, -1.0), 1.0)
        self.error_squares += x * x - self.error_squares / AVERAGED_ERRORS
        self.error_products += x * self.error - self.error_products / AVERAGED_ERRORS
        self.error = x

    @property
    def autocorrelation(self) -> float:
        """Autocorrelation of successive errors in a sensor's evidence; near 0 for few readings."""
        return self.error_products / (self.error_squares + PRIOR_SQUARES)

    def add_to_lines(self, value: float, z: float) -> None:
        """Add a reading to the lines that show whether the sensor still moves.

        There is a line for each direction of a drift: the readings since the drift may have begun.
        A line begins again at each reading without evidence of a drift in its direction, and at
        each jump. At a jump, the standardised error of the reading, `z`, differs from the previous
        error by more than four standard deviations of such a difference. For this comparison, both
        errors are limited to ±`MAX_LAST_Z`.
        """
        before = self.last_z
        self.last_z = min(max(z, -MAX_LAST_Z), MAX_LAST_Z)
        is_jump = abs(self.last_z - before) > sqrt(2.0) * SPIKE_STDS
        limited = min(max(value, -MAX_LINE_VALUE), MAX_LINE_VALUE)
        for side, _ in DIRECTIONS:
            if is_jump or self.drift[side] == 0.0:
                self._begin_line(side)
            self._extend_line(side, limited)

    def _begin_line(self, side: int) -> None:
        self.line_count[side] = 0
        self.line_mean[side] = self.line_squares[side] = self.line_products[side] = 0.0

    def _extend_line(self, side: int, value: float) -> None:
        """Add `value` to the sums of the line for the direction `side`, without loss of digits."""
        n = self.line_count[side] = self.line_count[side] + 1
        before = value - self.line_mean[side]
        self.line_mean[side] += before / n
        after = value - self.line_mean[side]
        self.line_squares[side] += before * after
        self.line_products[side] += 0.5 * n * after

    def test_drift(self, weight: float, at: float, threshold: float) -> list[int]:
        """Add the last error to the evidence for a drift; return the directions of a drift.

        The error, which `add_error` has stored, counts as `weight` independent errors. The result
        contains indices of `DIRECTIONS`. While the readings do not move in a direction, the
        evidence for this direction is limited to `threshold`, and no drift is found.
        """
        found = []
        for side, sign in DIRECTIONS:
            if self.drift[side] == 0.0:
                self.drift_since[side], self.drift_count[side] = at, 0
            step = weight * (sign * self.error - 0.5)
            self.drift[side] = max(0.0, self.drift[side] + step)
            self.drift_count[side] += 1
            if self.drift[side] < threshold:
                continue
            if not self._moves(side, threshold):
                self.drift[side] = threshold
            elif at - self.drift_since[side] >= MIN_DRIFT_S:
                found.append(side)
        return found

    def _moves(self, side: int, threshold: float) -> bool:
        """Return whether the readings still move in the direction `side`.

        The readings of a line move if the correlation r between the n readings and their numbers,
        1 to n, is high. For readings that vary independently around a constant level, the
        probability of such a high r is below p = (1 - r²)^(n/2 - 1). The readings move if -ln(p) is
        at least `threshold`.
        """
        n, (_, sign) = self.line_count[side], DIRECTIONS[side]
        products = sign * self.line_products[side]
        if n <= 2 or products <= 0.0:
            return False
        explained = 12.0 * products * products / (n * (n * n - 1.0))  # r² · squares
        return explained >= -expm1(-2.0 * threshold / (n - 2)) * self.line_squares[side]

    def drifts(self, side: int, since: float, threshold: float) -> bool:
        """Return whether the sensor probably drifts in the direction `side`.

        The evidence must be at least half of `threshold`, and the sensor must have been read at the
        time `since` or later. If the evidence reaches `threshold`, the readings must also move.
        """
        if self.drift[side] < threshold / 2 or self.read_at < since:
            return False
        return self.drift[side] < threshold or self._moves(side, threshold)

    def test_spikes(self, z: float, usual: FaultStatistics, threshold: float) -> bool:
        """Add a reading to the evidence for spikes; return whether there are too many spikes.

        `z` is the standardised error of the reading.
        """
        side = int(copysign(1.0, z)) if abs(z) > SPIKE_STDS else 0
        is_spike = side not in (0, self.spike_side)
        self.spike_side = side
        self.spikes = max(0.0, self.spikes + usual.spike_evidence(is_spike=is_spike))
        self.spike_count = self.spike_count + is_spike if self.spikes else 0
        usual.add_reading(is_spike=is_spike and self.spikes < threshold / 2)
        return self.spikes >= threshold

    def test_units(
        self,
        value: float,
        z: float,
        prediction: PredictedReading,
        units: Units,
        usual: FaultStatistics,
        threshold: float,
    ) -> bool:
        """Add a reading to the evidence for a wrong unit; return whether the unit is wrong.

        `units` contains the units in which the sensor may report by mistake.
        """
        std = prediction.std * sqrt(usual.square)
        is_unseen = not usual.lowest <= value <= usual.highest
        for n, (_, factor, offset) in enumerate(units):
            other = (value - factor * prediction.mean - offset) / (factor * std)
            fits = is_unseen and abs(other) <= FITTING_STDS < abs(z)
            self.unit[n] = max(0.0, self.unit[n] + (UNIT_EVIDENCE if fits else -UNIT_EVIDENCE))
        most = max(self.unit)
        self.unit_count = self.unit_count + 1 if most else 0
        if not most:
            usual.learn_range(value)
        return most >= threshold
