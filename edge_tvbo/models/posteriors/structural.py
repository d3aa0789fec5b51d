"""Structural posterior: a field with a course, a season and parts that change at different rates.

`StructuralPosterior` is a Kalman filter over the components of a `StructuralModel`. From the
readings, a `VariationLearner` learns three things: the common factor σ² of all variances, the
liveliness of the field in each part of the season, and the width of predictive intervals.
"""

import re
from math import log, pi, sqrt
from statistics import NormalDist

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.formatting import season_text
from edge_tvbo.models.facts import Fact, LearnedVariation, SeasonAndRates
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.fingerprint import agree, kinds_agree
from edge_tvbo.models.posteriors.base import FiniteArmsMixin
from edge_tvbo.models.posteriors.component_covariance import make_covariance
from edge_tvbo.models.posteriors.season_clock import NO_TIME, SeasonClock
from edge_tvbo.models.posteriors.select import MAX_EXACT_SENSORS
from edge_tvbo.models.posteriors.variation_learner import VariationLearner
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
from edge_tvbo.models.structural_model import (
    DAY,
    LIVELINESS_BINS,
    StructuralModel,
    component_table,
    harmonics_for,
    part_of,
)
from edge_tvbo.numerics import structural
from edge_tvbo.numerics.structural import MAX_ERROR_STDS
from edge_tvbo.numerics.types import Array

CLEAR_FACTOR = 1.2  # a trained field's standard deviation is reported if it changed by this factor
SNAPSHOT_KIND = re.compile(r"structural ([0-9]{1,9}\.[0-9]{1,9})")  # the number is the season in s
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
    variation : VariationLearner
        What was learned about the variation of the field.
    """

    def __init__(self, field: SensorField) -> None:
        assert field.structure is not None, "the caller checks that the field has a structure"
        M = len(field)
        self._field = field
        self._model: StructuralModel = field.structure
        self._table = component_table(self._model.components, harmonics_for(M) or 0)
        self._noise = self._model.components.noise_variance
        self._spread = self._model.spread
        self._squared_spread = self._spread**2
        self._mean_course: Array = self._model.course.mean(axis=0)
        self._retain = self._table.retain(self._model.interval)
        n = len(self._table.kind)
        self._load = np.zeros(n)
        self._prior_variance = 0.0  # of a value with the spread 1 and the scale 1, now
        self._bin = 0  # the part of the season that contains the current time
        self._course = self._mean_course  # of each sensor now
        self._state = np.zeros(n * M)
        self._covariance = make_covariance(self._model, self._table)
        self.variation = VariationLearner(self._model)
        self.mean = np.zeros(M)
        self.variance = np.zeros(M)
        self._clock = SeasonClock(self._model.interval)
        self._seen = 0.0  # s that have passed since the first `set_time`
        self.log_density = 0.0  # ln p(y) of the last reading y, before the update with y
        self.reset()
        self._load_training()

    @property
    def in_first_half_day(self) -> bool:
        """Whether an untrained structural model with a season has run for less than half a day."""
        return self._model.rows == 0 and self._seen < min(self._model.season_period, DAY) / 2

    def set_time(self, at: float | None) -> None:
        """Set the structural posterior's time: the start of the interval, in s since 1970, UTC.

        None means that the time is unknown. Until the next call, the mean of the course is used.
        The next call with a time takes into account all time since the last known time.

        The first time can be before the end of the training rows. The state is then as uncertain as
        at the same distance after the end. The reason: the components are stationary, so they
        change in the same way backwards in time.
        """
        if at is not None:
            self._advance_to(at)
        self._clock.set(at)
        self._refresh()

    def _advance_to(self, at: float) -> None:
        """Advance the structural posterior from the last known time to the time `at`."""
        before = self._clock.at
        if before == NO_TIME:
            trained = self._model.state
            passed = 0.0 if trained is None else abs(at - trained.end)
        else:
            passed = at - before
            self.variation.adapt_liveliness(before, at, self._seen)
            self._seen += max(0.0, passed)
        passed -= self._clock.elapsed
        if passed > SAME_TIME * self._model.interval:
            self._covariance.evolve(self._state, self._table.retain(passed))

    def pass_time(self, seconds: float) -> None:
        """Advance the structural posterior by `seconds` in which the time of day is unknown.

        If all intervals have the same length, the time does not matter: `advance` moves the
        posterior on by this length, and this method does nothing.
        """
        if self._model.interval:
            return
        self._covariance.evolve(self._state, self._table.retain(seconds))
        self._clock.unset_time += seconds
        self._refresh()

    def prior_std(self, arm: int) -> float:
        """Return the prior standard deviation of a value of `arm` under the structural model.

        The standard deviation measures how far the value is from the course of `arm`, at the
        current phase of the season.
        """
        return float(self._spread[arm]) * sqrt(self.variation.scale * self._prior_variance)

    def observe(self, arm: int, y: float) -> None:
        """Update the structural posterior with a reading `y` of `arm`, in model units."""
        noise = self._noise_of(arm)
        total = float(self.variance[arm]) + noise
        square = self._condition(arm, y)
        far = sqrt(square)
        loss = square if far <= MAX_ERROR_STDS else MAX_ERROR_STDS * (2.0 * far - MAX_ERROR_STDS)
        self.log_density = -0.5 * (log(2.0 * pi * total) + loss)
        unknown = total / (self.prior_std(arm) ** 2 + noise)
        self.variation.learn_scale(self._bin, min(square, MAX_ERROR_STDS**2), unknown)
        self.variation.learn_interval(far)
        self._compute_moments()

    def hallucinate(self, arm: int, y: float) -> None:
        """Update the structural state as if `arm` had replied y; learn no variation from y."""
        self._condition(arm, y)
        self._compute_moments()

    def _condition(self, arm: int, y: float) -> float:
        """Update the structural state with a reading.

        Return the squared standardised error of the reading.
        """
        shifted = (y - float(self._course[arm])) / float(self._spread[arm])
        self.observations += 1
        return self._covariance.condition(
            self._state, self._load, arm, shifted, self._noise, self.variation.scale
        )

    def advance(self) -> None:
        """Advance the structural posterior by one interval."""
        if self._model.interval:
            self._covariance.evolve(self._state, self._retain)
        self._clock.waited += 1
        self._refresh()

    def skip(self, intervals: int) -> None:
        """Advance the structural posterior by several intervals without readings, at once."""
        if self._model.interval:
            retain = self._table.retain(intervals * self._model.interval)
            self._covariance.evolve(self._state, retain)
        self._clock.waited += intervals
        self._refresh()

    def reset(self) -> None:
        """Reset the structural posterior to the prior: discard all readings, but keep the time."""
        self._state[:] = 0.0
        self._covariance.reset()
        self.variation.reset()
        self.observations = 0
        self._refresh()

    def facts(self) -> tuple[Fact, ...]:
        """Return facts that explain the predictions.

        The first fact is a `SeasonAndRates`: the season, the time constants of the components
        `fast` and `slow`, and the number of training rows. If there are readings, a
        `LearnedVariation` follows. For a trained model, the `LearnedVariation` is left out unless
        the variation has clearly changed. If the posterior is approximate, the last fact describes
        the approximation.
        """
        components, rows = self._model.components, self._model.rows
        period = self._model.period if self._clock.has_time else 0.0
        shorter, longer = sorted((components.fast.time, components.slow.time))
        facts: list[Fact] = [SeasonAndRates(period, shorter, longer, rows)]
        factor = sqrt(self.variation.scale)
        if self.observations and (not rows or max(factor, 1.0 / factor) >= CLEAR_FACTOR):
            hours = self.variation.extreme_hours()
            facts.append(LearnedVariation(self.observations, factor, rows, hours))
        return (*facts, *self._covariance.facts())

    def quantile(self, arm: int, share: float) -> float:
        """Return a quantile of the structural posterior for a reading of `arm`.

        A reading of `arm` is below the quantile with the probability `share`.
        """
        spread = sqrt(float(self.variance[arm]) + self._noise_of(arm))
        width = self.variation.interval_factor * spread
        return NormalDist(float(self.mean[arm]), width).inv_cdf(share)

    def snapshot(self) -> bytes:
        """Return the state of the structural posterior as bytes, for `restore`."""
        state: State = {
            "at": self._clock.at,
            "seen": self._seen,
            **self.variation.numbers(),
            "observations": self.observations,
            **self._clock.counters(),
            **self._arrays(),
            **self._identity(),
        }
        return encode_snapshot(self._kind(), self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load a structural posterior's state, or raise `SnapshotError` and change nothing."""
        state = decode_snapshot(self._kind(), self._field.fingerprint(), blob)
        arrays = self._arrays()
        self._check(state, arrays)
        copy_arrays(arrays, state)
        self._covariance.follow_arrays()
        self._load_rest(state)
        self._refresh()

    def restore_sensors(self, blob: bytes) -> list[int]:
        """Load the structural state of each sensor that both the snapshot and this field contain.

        Return the indices of these sensors in this field. Load nothing and return an empty list in
        these cases:

        - The snapshot and this field have no sensor in common.
        - The snapshot differs from this field in its model units or in its number of training rows.

        Raises `SnapshotError` in these cases:

        - The snapshot is invalid, or has another season.
        - Either this field or the field of the snapshot, but not both, has more than
          `MAX_EXACT_SENSORS` sensors. Fields with more sensors have another kind of model.

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
        if not all(agree(state.get(key), identity[key]) for key in ("unit", "rows")):
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
        self._load_rest(state)
        self._refresh()
        return known

    # --- the present --------------------------------------------------------------------------

    def _noise_of(self, arm: int) -> float:
        return float(self._spread[arm]) ** 2 * self.variation.scale * self._noise

    def _phase(self) -> float:
        """Return the phase of the structural posterior's season; -1 without a season or a time."""
        return self._clock.phase(self._model.season_period)

    def _refresh(self) -> None:
        """Recompute all that depends on the structural posterior's time or liveliness.

        If no time is known, the mean of the course is used.
        """
        phase, table, course = self._phase(), self._table, self._model.course
        self._bin = part_of(phase, LIVELINESS_BINS)
        liveliness = float(self.variation.liveliness[self._bin]) if phase >= 0.0 else 1.0
        structural.loadings(table.harmonic, table.kind, phase, liveliness, self._load)
        self._prior_variance = float(self._load**2 @ table.variance)
        course_phase = self._clock.phase(self._model.period)
        row = part_of(course_phase, len(course))
        self._course = course[row] if course_phase >= 0.0 else self._mean_course
        self._compute_moments()

    def _compute_moments(self) -> None:
        """Compute the structural posterior's `mean` and `variance` of the current interval."""
        self._covariance.moments(self._state, self._load, self.mean, self.variance)
        self.mean *= self._spread
        self.mean += self._course
        self.variance *= self.variation.scale * self._squared_spread

    def _load_training(self) -> None:
        """Load the structural state at the end of the training rows, if the model contains one."""
        trained = self._model.state
        if trained is None:
            return
        self._state[:] = trained.mean.reshape(-1)
        self._covariance.load_training(trained.covariances)
        self._refresh()

    def _check(self, state: State, arrays: dict[str, AnyArray]) -> None:
        """Raise `SnapshotError` unless `state` is a valid structural state with these `arrays`."""
        read_count(state, "observations")
        self._clock.check(state)
        seen = read_number(state, "seen")
        check_arrays(arrays, state)
        self._covariance.check(state)
        if seen < 0.0:
            raise SnapshotError("The snapshot's 'seen' is out of range.")
        self.variation.check(state)

    def _load_rest(self, state: State) -> None:
        """Load the structural posterior's numbers and learned variation from a checked state."""
        self.observations, self._seen = state["observations"], float(state["seen"])
        self._clock.load(state)
        self.variation.restore(state)

    def _identity(self) -> State:
        """Return the structural posterior's sensors, unit, and number of training rows.

        A field can load single sensors from a snapshot if both have the same unit and the same
        number of training rows.
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
        if found and not kinds_agree(kind, self._kind()):
            raise SnapshotError(
                f"The season in the snapshot is {season_text(float(found[1]))}, and the season of "
                f"the field is {season_text(self._model.period)} now."
            )

    def _arrays(self) -> dict[str, AnyArray]:
        return {
            "state": self._state,
            **self._covariance.arrays(),
            **self.variation.arrays(),
        }
