"""Structural posterior: a field with a course, a season and parts that change at different rates.

`StructuralPosterior` is a Kalman filter over the components of a `StructuralModel`. While readings
arrive, it also learns the common factor σ² of all variances, the liveliness of the field in each
part of the season, and the width of predictive intervals.
"""

import re
from math import exp, log, pi, sqrt
from statistics import NormalDist

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.formatting import season_text
from edge_tvbo.models.facts import Fact, LearnedVariation, SeasonAndRates
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import FiniteArmsMixin
from edge_tvbo.models.posteriors.component_covariance import make_covariance
from edge_tvbo.models.posteriors.select import MAX_EXACT_SENSORS
from edge_tvbo.models.snapshot import (
    AnyArray,
    State,
    check_arrays,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
    read_names,
    read_number,
    snapshot_kind,
)
from edge_tvbo.models.structure import (
    DAY,
    LIVELINESS_BINS,
    StructuralModel,
    component_table,
    harmonics_for,
    part_of,
    phase_of,
)
from edge_tvbo.numerics import structural
from edge_tvbo.numerics.structural import MAX_ERROR_STDS
from edge_tvbo.numerics.types import Array

MAX_COUNT = 300.0  # largest weight of σ², in readings; beyond it, older readings lose weight
PRIOR_COUNT, TRAINED_COUNT = 10.0, 50.0  # weight of the first σ² in readings: untrained, trained
MIN_SCALE, MIN_TRAINED_SCALE = 1e-6, 0.01  # of σ², which constant readings would lower for ever
BIN_COUNT = 6.0  # weight of the previous liveliness of a part of the season, in readings
MIN_LIVELINESS, MAX_LIVELINESS = 0.15, 3.0
FIRST_SEASON_PARTS = 6  # the liveliness is adapted after each sixth of the first season
COVERAGE = 0.9  # share of the readings that the learned predictive interval has to contain
COVERED_STDS = NormalDist().inv_cdf((1.0 + COVERAGE) / 2.0)
COVERAGE_STEP = 0.2  # step size of the changes of ln(interval factor) (docs/auto-tried.md)
MAX_INTERVAL_FACTOR = 10.0
CLEAR_FACTOR = 1.2  # of the standard deviation of a trained field; a smaller change is no fact
CLEAR_RATIO = 4.0  # of the liveliness in two hours; a smaller difference is no fact
SNAPSHOT_KIND = re.compile(r"structural ([0-9]{1,9}\.[0-9]{1,9})")  # with the season in s
NUMBERS = ("at", "seen", "scale", "weight")  # in snapshots; the attributes begin with "_"
INTERVAL_FACTOR = "interval_factor"  # in snapshots, except in old ones
NO_TIME = -1.0  # before the first `set_time`; other negative numbers are times before 1970
SAME_TIME = 0.5  # share of an interval; a smaller difference of two times counts as 0


class StructuralPosterior(FiniteArmsMixin):
    """The posterior of a field with a structural model.

    Parameters
    ----------
    field : SensorField
        M arms with a structural model. The model is learned from training readings, or it is a
        prior.

    Attributes
    ----------
    mean, variance : (M,) array
        Moments of the field in the current interval, in model units.
    """

    def __init__(self, field: SensorField) -> None:
        assert field.structure is not None, "the caller checks that the field has a structure"
        M = len(field)
        self._field = field
        self._model: StructuralModel = field.structure
        self._table = component_table(self._model.components, harmonics_for(M) or 0)
        self._noise = self._model.components.noise_variance
        self._mean_course: Array = self._model.course.mean(axis=0)
        self._retain = self._table.retain(self._model.interval)
        n = len(self._table.kind)
        self._load = np.zeros(n)
        self._state = np.zeros(n * M)
        self._covariance = make_covariance(self._model, self._table)
        self.liveliness = np.ones(LIVELINESS_BINS)
        self._squares = np.zeros(LIVELINESS_BINS)  # of standardised errors since the adaptation
        self._counts = np.zeros(LIVELINESS_BINS)
        self.mean = np.zeros(M)
        self.variance = np.zeros(M)
        self._at = NO_TIME  # s since 1970 at the last `set_time`
        self._is_unset = False  # whether the present is unknown, although `_at` is known
        self._waited = 0  # intervals that ended since `_at`
        self._seen = 0.0  # s that have passed since the first `set_time`
        self.log_density = 0.0  # ln p(y) of the last reading y before the update with it
        self.reset()
        self._load_training()

    @property
    def in_first_half_day(self) -> bool:
        """Whether an untrained structural model with a season has run for less than half a day."""
        return self._model.rows == 0 and self._seen < min(self._model.season_period, DAY) / 2

    def set_time(self, at: float | None) -> None:
        """Set the structural posterior's time: the start of the interval, in s since 1970, UTC.

        None means that the time is unknown. Until the next call, the mean of the course is used.
        The next call with a time counts the time that has passed since the last known time.

        If the first time is before the end of the training rows, the state is as uncertain as at
        the same distance after the end. The reason: the components are stationary, so they change
        in the same way backwards in time.
        """
        self._is_unset = at is None
        if at is None:
            self._refresh()
            return
        if self._at == NO_TIME:
            trained = self._model.state
            passed = 0.0 if trained is None else abs(at - trained.end)
        else:
            passed = at - self._at
            self._adapt_liveliness(at)
            self._seen += max(0.0, passed)
        passed -= self._waited * self._model.interval
        if passed > SAME_TIME * self._model.interval:
            self._covariance.evolve(self._state, self._table.retain(passed))
        self._at, self._waited = at, 0
        self._refresh()

    def prior_std(self, arm: int) -> float:
        """Return the prior standard deviation of a value of `arm` under the structural model.

        The standard deviation measures how far the value is from the course of `arm`, at the
        current phase of the season.
        """
        loads, table = self._load**2, self._table
        return float(self._spread[arm]) * sqrt(self._scale * float(loads @ table.variance))

    def observe(self, arm: int, y: float) -> None:
        """Update the structural posterior with a reading `y` of `arm`, in model units."""
        total = float(self.variance[arm]) + self._noise_of(arm)
        square = self._condition(arm, y)
        far = sqrt(square)
        loss = square if far <= MAX_ERROR_STDS else MAX_ERROR_STDS * (2.0 * far - MAX_ERROR_STDS)
        self.log_density = -0.5 * (log(2.0 * pi * total) + loss)
        unknown = total / (self.prior_std(arm) ** 2 + self._noise_of(arm))
        self._learn_scale(min(square, MAX_ERROR_STDS**2), unknown)
        self._learn_interval(far)
        self._refresh()

    def hallucinate(self, arm: int, y: float) -> None:
        """Update the structural state, but not σ² or liveliness, as if `arm` replied with y."""
        self._condition(arm, y)
        self._refresh()

    def _condition(self, arm: int, y: float) -> float:
        """Update the structural state with a reading.

        Return the squared standardised error of the reading.
        """
        shifted = (y - float(self._course()[arm])) / float(self._spread[arm])
        self.observations += 1
        return self._covariance.condition(
            self._state, self._load, arm, shifted, self._noise, self._scale
        )

    def advance(self) -> None:
        """Advance the structural posterior by one interval."""
        if self._model.interval:
            self._covariance.evolve(self._state, self._retain)
        self._waited += 1
        self._refresh()

    def reset(self) -> None:
        """Reset the structural posterior to the prior: discard all readings, but keep the time."""
        self._state[:] = 0.0
        self._covariance.reset()
        self.liveliness[:] = self._model.liveliness
        self._squares[:] = self._counts[:] = 0.0
        self._scale = 1.0  # σ²: true variances divided by those of the components
        self._weight = TRAINED_COUNT if self._model.rows else PRIOR_COUNT
        self._interval_factor = 1.0  # width of predictive intervals divided by the normal width
        self.observations = 0
        self._refresh()

    def facts(self) -> tuple[Fact, ...]:
        """Return facts that explain the predictions.

        The first fact is a `SeasonAndRates`: the season, the time constants of the components
        `fast` and `slow`, and the number of training rows. A `LearnedVariation` follows if there
        are readings; for a trained model, only if the variation has clearly changed. The last fact
        is the approximation, if any.
        """
        components, rows = self._model.components, self._model.rows
        period = self._model.period if self._has_time else 0.0
        shorter, longer = sorted((components.fast.time, components.slow.time))
        facts: list[Fact] = [SeasonAndRates(period, shorter, longer, rows)]
        factor = sqrt(self._scale)
        if self.observations and (not rows or max(factor, 1.0 / factor) >= CLEAR_FACTOR):
            facts.append(LearnedVariation(self.observations, factor, rows, self._extreme_hours()))
        return (*facts, *self._covariance.facts())

    def quantile(self, arm: int, share: float) -> float:
        """Return a quantile of the structural posterior of `arm`.

        A reading of `arm` is below the quantile with the probability `share`.
        """
        spread = sqrt(float(self.variance[arm]) + self._noise_of(arm))
        return NormalDist(float(self.mean[arm]), self._interval_factor * spread).inv_cdf(share)

    def snapshot(self) -> bytes:
        """Return the state of the structural posterior as bytes, for `restore`."""
        numbers: State = {name: getattr(self, f"_{name}") for name in NUMBERS}
        numbers[INTERVAL_FACTOR] = self._interval_factor
        counts = {"observations": self.observations, "waited": self._waited}
        state = {**numbers, **counts, **self._arrays(), **self._identity()}
        return encode_snapshot(self._kind(), self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load a structural posterior's state, or raise `SnapshotError` and change nothing."""
        state = decode_snapshot(self._kind(), self._field.fingerprint(), blob)
        self._check(state, self._arrays())
        copy_arrays(self._arrays(), state)
        self._limit_liveliness()
        self._covariance.follow_arrays()
        self._load_numbers(state)
        self._refresh()

    def restore_sensors(self, blob: bytes) -> list[int]:
        """Load the structural state of each sensor that both the snapshot and this field contain.

        Return the indices of these sensors in this field. Load nothing and return an empty list in
        these cases:

        - There is no such sensor.
        - The snapshot differs from this field in its model units or in its number of training rows.

        Raises `SnapshotError` in these cases:

        - The snapshot is invalid, or has another season.
        - Of this field and the field of the snapshot, only one has more than `MAX_EXACT_SENSORS`
          sensors. Fields with more sensors than this number have another kind of model.

        A sensor that the snapshot does not contain starts from the common part of each component:
        the mean of the sensors in the snapshot, times the share `common` of the component. A
        harmonic that the snapshot does not contain starts from its prior.
        """
        self._check_season(snapshot_kind(blob))
        state = decode_snapshot(self._kind(), None, blob)
        identity = self._identity()
        names = read_names(state, "sensors")
        n, M = len(self._table.kind), len(self._spread)
        saved = len(component_table(self._model.components, harmonics_for(len(names)) or 0).kind)
        if any(state.get(key) != value for key, value in identity.items() if key != "sensors"):
            return []
        before = {name: arm for arm, name in enumerate(names)}
        known = [arm for arm, name in enumerate(self._field.sensors) if name in before]
        if not known:
            return []
        if (len(names) > MAX_EXACT_SENSORS) is not (M > MAX_EXACT_SENSORS):
            raise SnapshotError(
                f"The snapshot is of {len(names)} sensors, and the field has {M} now; fields with "
                f"more than {MAX_EXACT_SENSORS} sensors have another model than smaller fields."
            )
        here = np.array(known, np.intp)
        there = np.array([before[self._field.sensors[arm]] for arm in known], np.intp)
        covariances = self._covariance.arrays_for(saved, len(names), state)
        self._check(state, {**self._arrays(), "state": np.zeros(saved * len(names)), **covariances})
        self.reset()
        parts = state["state"].reshape(saved, -1)[:n]
        both = len(parts)
        means = self._state.reshape(n, M)
        means[:both] = (self._table.common[:both] * parts.mean(axis=1))[:, None]
        means[:both, here] = parts[:, there]
        self._covariance.load_sensors(state, here, there, sensors=len(names))
        for name in ("liveliness", "squares", "counts"):
            self._arrays()[name][...] = state[name]
        self._limit_liveliness()
        self._load_numbers(state)
        self._refresh()
        return known

    # --- the present --------------------------------------------------------------------------

    @property
    def _spread(self) -> Array:
        return self._model.spread

    def _noise_of(self, arm: int) -> float:
        return float(self._spread[arm]) ** 2 * self._scale * self._noise

    @property
    def _has_time(self) -> bool:
        return self._at != NO_TIME and not self._is_unset

    def _phase(self) -> float:
        """Return the phase of the structural posterior's season; -1 without a season or a time."""
        return self._phase_of(self._model.season_period)

    def _phase_of(self, period: float) -> float:
        """Return the structural posterior's phase in `period`; -1 without a period or a time."""
        if not self._has_time:
            return -1.0
        return phase_of(self._at + self._waited * self._model.interval, period)

    def _bin(self) -> int:
        """Return the index of the structural posterior's current liveliness bin."""
        return part_of(self._phase(), LIVELINESS_BINS)

    def _course(self) -> Array:
        """Return the current structural course, (M,), or the mean course if the time is unknown."""
        course, phase = self._model.course, self._phase_of(self._model.period)
        if phase < 0.0:
            return self._mean_course
        row: Array = course[part_of(phase, len(course))]
        return row

    def _refresh(self) -> None:
        """Compute the structural posterior's `mean` and `variance` of the current interval."""
        phase = self._phase()
        liveliness = float(self.liveliness[self._bin()]) if phase >= 0.0 else 1.0
        table = self._table
        structural.loadings(table.harmonic, table.kind, phase, liveliness, self._load)
        self._covariance.moments(self._state, self._load, self.mean, self.variance)
        self.mean *= self._spread
        self.mean += self._course()
        self.variance *= self._scale * self._spread**2

    # --- learning -----------------------------------------------------------------------------

    def _learn_scale(self, square: float, unknown: float) -> None:
        """Update the structural posterior's σ² and the sums for its liveliness with a reading.

        `square` is the squared standardised error of the reading. `unknown` is the predicted
        variance of the reading, divided by the reading's variance under the prior.

        Without training rows, a reading has the weight `unknown` in σ². The reason: a sensor that
        is selected in every interval has many small errors. With equal weights, these errors would
        make σ² too small for the other sensors.
        """
        part = self._bin()
        self._squares[part] += square
        self._counts[part] += 1.0
        untrained = PRIOR_COUNT / (PRIOR_COUNT + self._model.rows)
        weight = 1.0 - untrained * (1.0 - unknown)
        scale = self._scale * (self._weight + weight * square) / (self._weight + weight)
        self._scale = max(scale, MIN_TRAINED_SCALE if self._model.rows else MIN_SCALE)
        self._weight = min(self._weight + weight, MAX_COUNT)

    def _learn_interval(self, error: float) -> None:
        """Adapt the structural posterior's predictive intervals to a reading's standardised error.

        The width decreases if the reading is inside its predictive interval, and increases
        otherwise. In the long run, the predictive intervals contain the share `COVERAGE` of the
        readings, for any distribution of the readings (adaptive conformal inference, Gibbs & Candès
        2021).
        """
        is_outside = error > COVERED_STDS * self._interval_factor
        factor = self._interval_factor * exp(COVERAGE_STEP * (is_outside - (1.0 - COVERAGE)))
        limited = max(1.0 / MAX_INTERVAL_FACTOR, min(factor, MAX_INTERVAL_FACTOR))
        self._interval_factor = limited

    def _adapt_liveliness(self, at: float) -> None:
        """Adapt the structural posterior's liveliness to the errors if a season has ended.

        A season has ended if its end lies between the previous call of `set_time` and `at`. In the
        first season of an untrained model, the liveliness is adapted after each sixth of the
        season. The season has `LIVELINESS_BINS` parts. A squared standardised error, multiplied by
        the squared liveliness, is an estimate of the true squared liveliness. The squared
        liveliness of a part moves towards the mean of the estimates in three parts: the part itself
        and its two neighbours.
        """
        period = self._model.season_period
        is_first = self._model.rows == 0 and self._seen < period
        length = period / (FIRST_SEASON_PARTS if is_first else 1)
        if not length or int(at // length) <= int(self._at // length):
            return
        before = self.liveliness**2
        squares = _sum_with_neighbours(before * self._squares)
        counts = _sum_with_neighbours(self._counts)
        adapted = (BIN_COUNT * before + squares) / (BIN_COUNT + counts)
        np.sqrt(np.maximum(adapted, MIN_LIVELINESS**2), out=self.liveliness)
        self._limit_liveliness()
        self._squares[:] = self._counts[:] = 0.0

    def _extreme_hours(self) -> tuple[int, int] | None:
        """Return the hours of the highest and of the lowest liveliness, in UTC.

        The result is None for a trained model, if the season is not a day, while the liveliness of
        any hour is still the assumed one, and if the liveliness does not differ clearly.
        """
        model, liveliness = self._model, self.liveliness
        if model.rows or model.season_period != DAY or (liveliness == model.liveliness).any():
            return None
        most, least = int(liveliness.argmax()), int(liveliness.argmin())
        return (most, least) if liveliness[most] >= CLEAR_RATIO * liveliness[least] else None

    def _limit_liveliness(self) -> None:
        """Limit the structural posterior's liveliness: in old snapshots, it can be too large."""
        np.minimum(self.liveliness, MAX_LIVELINESS, out=self.liveliness)

    def _load_training(self) -> None:
        """Start from the state after the training rows, if the structural model has one."""
        trained = self._model.state
        if trained is None:
            return
        self._state[:] = trained.mean.reshape(-1)
        self._covariance.load_training(trained.covariances)
        self._refresh()

    def _check(self, state: State, arrays: dict[str, AnyArray]) -> None:
        """Raise `SnapshotError` unless `state` is a valid structural state with these `arrays`."""
        for name in ("observations", "waited"):
            read_count(state, name)
        numbers = {name: read_number(state, name) for name in NUMBERS}
        factor = _interval_factor_of(state)
        check_arrays(arrays, state)
        self._covariance.check(state)
        if numbers["scale"] <= 0.0 or numbers["weight"] <= 0.0 or numbers["seen"] < 0.0:
            raise SnapshotError("The snapshot's 'scale', 'weight' or 'seen' is out of range.")
        if not 1.0 / MAX_INTERVAL_FACTOR <= factor <= MAX_INTERVAL_FACTOR:
            raise SnapshotError(f"The snapshot's {INTERVAL_FACTOR!r} is out of range.")
        if (state["liveliness"] <= 0.0).any() or (state["counts"] < 0.0).any():
            raise SnapshotError("The snapshot's 'liveliness' or 'counts' is out of range.")

    def _load_numbers(self, state: State) -> None:
        """Load the structural posterior's numbers from a checked state."""
        self.observations, self._waited = state["observations"], state["waited"]
        self._at, self._seen = float(state["at"]), float(state["seen"])
        self._scale, self._weight = float(state["scale"]), float(state["weight"])
        self._interval_factor = _interval_factor_of(state)

    def _identity(self) -> State:
        """Return the structural posterior's sensors, unit, and number of training rows.

        A field can load single sensors from a snapshot if the snapshot has the same unit and the
        same number of training rows as the field.
        """
        field = self._field
        logarithmic = [] if field.log1p_scale is None else [field.log1p_scale]
        return {
            "sensors": list(field.sensors),
            "unit": [field.center, field.scale, field.objective, *logarithmic],
            "rows": self._model.rows,
        }

    def _kind(self) -> str:
        return f"structural {self._model.period!r}"

    def _check_season(self, kind: str) -> None:
        """Raise `SnapshotError` if the `kind` of a structural snapshot names another season."""
        found = SNAPSHOT_KIND.fullmatch(kind)
        if found and kind != self._kind():
            raise SnapshotError(
                f"The season in the snapshot is {season_text(float(found[1]))}, and the season of "
                f"the field is {season_text(self._model.period)} now."
            )

    def _arrays(self) -> dict[str, AnyArray]:
        return {
            "state": self._state,
            **self._covariance.arrays(),
            "liveliness": self.liveliness,
            "squares": self._squares,
            "counts": self._counts,
        }


def _sum_with_neighbours(parts: Array) -> Array:
    """Return sums over the parts of a structural model's season: each entry plus its neighbours.

    The neighbours of an entry are the next and the previous entry; the first and the last entry are
    neighbours, too.
    """
    return np.roll(parts, -1) + parts + np.roll(parts, 1)


def _interval_factor_of(state: State) -> float:
    """Return the factor of the width of predictive intervals that a structural snapshot holds.

    For a snapshot of an old version, the factor is 1.
    """
    return read_number(state, INTERVAL_FACTOR) if INTERVAL_FACTOR in state else 1.0
