"""Variation learner: learns, from the errors of readings, how much a structural field varies.

The learned quantities are a common factor of all variances, the liveliness in each part of the
season, and the width of predictive intervals.
"""

from math import exp
from statistics import NormalDist

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import AnyArray, State, copy_arrays, read_number
from edge_tvbo.models.structural_model import DAY, LIVELINESS_BINS, StructuralModel
from edge_tvbo.numerics.types import Array

MAX_COUNT = 300.0  # largest weight of σ², in readings; beyond it, older readings lose weight
# weights of the first σ², in readings: without training rows, and with training rows
PRIOR_COUNT, TRAINED_COUNT = 10.0, 50.0
MIN_SCALE, MIN_TRAINED_SCALE = 1e-6, 0.01  # lower limits of σ², for constant readings
BIN_COUNT = 6.0  # weight of the previous liveliness of a part of the season, in readings
MIN_LIVELINESS, MAX_LIVELINESS = 0.15, 3.0
FIRST_SEASON_PARTS = 6  # the liveliness is adapted after each sixth of the first season
COVERAGE = 0.9  # share of the readings that the learned predictive interval has to contain
COVERED_STDS = NormalDist().inv_cdf((1.0 + COVERAGE) / 2.0)
COVERAGE_STEP = 0.2  # step size of the changes of ln(interval factor) (docs/auto-tried.md)
MAX_INTERVAL_FACTOR = 10.0
CLEAR_RATIO = 4.0  # smallest ratio of the liveliness of two hours that is reported
INTERVAL_FACTOR = "interval_factor"  # key in snapshots, except in old snapshots


class VariationLearner:
    """Learner of a structural field's variation, from the errors of readings.

    Parameters
    ----------
    model : StructuralModel
        The structural model, with the initial liveliness.

    Attributes
    ----------
    scale : float
        σ²: the true variances divided by the variances of the model's components.
    liveliness : array
        How much the field varies in each of the `LIVELINESS_BINS` parts of the season.
    interval_factor : float
        Width of predictive intervals, divided by the width for a normal distribution.
    """

    def __init__(self, model: StructuralModel) -> None:
        self._model = model
        self.liveliness = np.ones(LIVELINESS_BINS)
        # sums of the squared standardised errors since the last adaptation
        self._squares = np.zeros(LIVELINESS_BINS)
        self._counts = np.zeros(LIVELINESS_BINS)
        self.reset()

    def reset(self) -> None:
        """Discard what was learned, and return to the variation that the model assumes."""
        self.liveliness[:] = self._model.liveliness
        self._squares[:] = self._counts[:] = 0.0
        self.scale = 1.0
        self._weight = TRAINED_COUNT if self._model.rows else PRIOR_COUNT
        self.interval_factor = 1.0

    def learn_scale(self, part: int, square: float, unknown: float) -> None:
        """Update `scale`, and the liveliness sums of a `part` of the season, with a reading.

        `square` is the squared standardised error of the reading. `unknown` is the predicted
        variance of the reading, divided by the reading's variance under the prior.

        Without training rows, a reading has the weight `unknown` in `scale`. The reason: a sensor
        that is selected in every interval has many small errors. With equal weights, these errors
        would make `scale` too small for the other sensors.
        """
        self._squares[part] += square
        self._counts[part] += 1.0
        untrained = PRIOR_COUNT / (PRIOR_COUNT + self._model.rows)
        weight = 1.0 - untrained * (1.0 - unknown)
        scale = self.scale * (self._weight + weight * square) / (self._weight + weight)
        self.scale = max(scale, MIN_TRAINED_SCALE if self._model.rows else MIN_SCALE)
        self._weight = min(self._weight + weight, MAX_COUNT)

    def learn_interval(self, error: float) -> None:
        """Adapt the width of predictive intervals to the standardised error of a reading.

        The width decreases if the reading is inside its predictive interval, and increases
        otherwise. In the long run, the predictive intervals contain the share `COVERAGE` of the
        readings. This holds for any distribution of the readings (adaptive conformal inference,
        Gibbs & Candès 2021).
        """
        is_outside = error > COVERED_STDS * self.interval_factor
        factor = self.interval_factor * exp(COVERAGE_STEP * (is_outside - (1.0 - COVERAGE)))
        limited = max(1.0 / MAX_INTERVAL_FACTOR, min(factor, MAX_INTERVAL_FACTOR))
        self.interval_factor = limited

    def adapt_liveliness(self, before: float, now: float, seen: float) -> None:
        """Adapt the liveliness to the errors if a season has ended between two times.

        `before` and `now` are these times, in s since 1970. At the time `before`, the field had
        been observed for `seen` seconds. In the first season of an untrained model, the liveliness
        is adapted after each sixth of the season.

        The liveliness has one value for each of the `LIVELINESS_BINS` parts of the season. Each
        reading in a part gives an estimate of the squared value: the squared standardised error of
        the reading, multiplied by the present squared value. The squared value of a part moves
        towards the mean of the estimates in this part and its two neighbours.
        """
        period = self._model.season_period
        is_first = self._model.rows == 0 and seen < period
        length = period / (FIRST_SEASON_PARTS if is_first else 1)
        if not length or int(now // length) <= int(before // length):
            return
        assumed = self.liveliness**2
        squares = _sum_with_neighbours(assumed * self._squares)
        counts = _sum_with_neighbours(self._counts)
        adapted = (BIN_COUNT * assumed + squares) / (BIN_COUNT + counts)
        np.sqrt(np.maximum(adapted, MIN_LIVELINESS**2), out=self.liveliness)
        self._limit_liveliness()
        self._squares[:] = self._counts[:] = 0.0

    def extreme_hours(self) -> tuple[int, int] | None:
        """Return the hours of the highest and of the lowest liveliness, in UTC.

        The result is None in four cases: the model is trained; the season is not a day; some hour
        still has the assumed liveliness; or the two hours do not differ clearly.
        """
        model, liveliness = self._model, self.liveliness
        if model.rows or model.season_period != DAY or (liveliness == model.liveliness).any():
            return None
        most, least = int(liveliness.argmax()), int(liveliness.argmin())
        return (most, least) if liveliness[most] >= CLEAR_RATIO * liveliness[least] else None

    def numbers(self) -> State:
        """Return the numbers that a snapshot of the variation learner contains, by name."""
        return {
            "scale": self.scale,
            "weight": self._weight,
            INTERVAL_FACTOR: self.interval_factor,
        }

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays that a snapshot of the variation learner contains, by name."""
        return {"liveliness": self.liveliness, "squares": self._squares, "counts": self._counts}

    def check(self, state: State) -> None:
        """Raise `SnapshotError` if a learned number in `state` is out of range.

        The arrays in `state` must have been checked before.
        """
        if read_number(state, "scale") <= 0.0 or read_number(state, "weight") <= 0.0:
            raise SnapshotError("The snapshot's 'scale' or 'weight' is out of range.")
        factor = _interval_factor_of(state)
        if not 1.0 / MAX_INTERVAL_FACTOR <= factor <= MAX_INTERVAL_FACTOR:
            raise SnapshotError(f"The snapshot's {INTERVAL_FACTOR!r} is out of range.")
        if (state["liveliness"] <= 0.0).any() or (state["counts"] < 0.0).any():
            raise SnapshotError("The snapshot's 'liveliness' or 'counts' is out of range.")

    def restore(self, state: State) -> None:
        """Restore the variation learner from a checked state."""
        copy_arrays(self.arrays(), state)
        self._limit_liveliness()
        self.scale, self._weight = float(state["scale"]), float(state["weight"])
        self.interval_factor = _interval_factor_of(state)

    def _limit_liveliness(self) -> None:
        """Limit the liveliness: in old snapshots, it can be too large."""
        np.minimum(self.liveliness, MAX_LIVELINESS, out=self.liveliness)


def _sum_with_neighbours(parts: Array) -> Array:
    """Return each entry plus its two neighbours; the first and the last entry are neighbours."""
    return np.roll(parts, -1) + parts + np.roll(parts, 1)


def _interval_factor_of(state: State) -> float:
    """Return the `interval_factor` in a structural snapshot, for the width of predictive intervals.

    For a snapshot of an old version, the factor is 1.
    """
    return read_number(state, INTERVAL_FACTOR) if INTERVAL_FACTOR in state else 1.0
