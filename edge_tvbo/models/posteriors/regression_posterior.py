"""Regression posterior: a regression on the last W readings, for any temporal model.

The field can be a sensor field or a box field.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.arm_space import Arm, Field, arm_space
from edge_tvbo.models.likelihood import fit_temporal_model
from edge_tvbo.models.parameter_checks import check_count, check_share
from edge_tvbo.models.posteriors.base import CandidatesMixin, Prediction
from edge_tvbo.models.regression import Regression
from edge_tvbo.models.snapshot import (
    AnyArray,
    State,
    check_arrays,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
    read_number,
)
from edge_tvbo.models.temporal_models import FittableModel, TemporalModel
from edge_tvbo.numerics.types import Array

MAX_LOG_NOISE = log(1e12)  # log of the largest factor that multiplies the noise of a reading


class RegressionPosterior(CandidatesMixin):
    """The posterior of a field with covariance k(x, x') d(t, t'), by regression on W readings.

    Parameters
    ----------
    field : SensorField or BoxField
        Arms, spatial prior and noise variance.
    temporal : TemporalModel
        Temporal model with kernel d(t, t').
    window : int
        W, largest number of readings held, 1 or more. A full window drops its oldest reading.
    gamma : float
        Factor that multiplies the weight of a reading in each interval, above 0 and at most 1.

    Raises
    ------
    ConfigError
        If `window` or `gamma` is out of range.

    Notes
    -----
    An interval costs O(W³ + W²M). In a box, M is the number of candidates, and each further point
    that the search evaluates costs O(W²). If the temporal model has a recursive posterior, that
    posterior is faster by orders of magnitude.
    """

    def __init__(
        self, field: Field, temporal: TemporalModel, window: int, *, gamma: float = 1.0
    ) -> None:
        check_count(window=window)
        check_share(gamma=gamma)
        self._field = field
        self._space = arm_space(field)
        self._temporal = temporal
        self._gamma = gamma
        self._noise_variance = field.noise_variance
        self._places = np.zeros((window, self._space.candidates.shape[1]))
        self._y = np.zeros(window)
        self._times = np.zeros(window)
        self._time = 0.0  # in intervals; not always whole
        self.observations = 0
        self._factor: _Factor | None = None  # None while it has to be recomputed
        self._present: tuple[Array, float] | None = None  # see `_temporal_part`; None if outdated
        self._prediction: tuple[Array, Array] | None = None  # mean, variance; None if outdated

    def at(self, arm: Arm) -> Prediction:
        """Return the regression's prediction of `arm`, a sensor or any point of a box."""
        index = self._space.candidate(arm)
        if index is None:
            (mean,), (variance,) = self._predict(self._space.place(arm)[None, :])
        else:
            mean, variance = self.mean[index], self.variance[index]
        return Prediction(arm, float(mean), float(variance) ** 0.5)

    def prior_std(self, arm: Arm) -> float:
        """Return the regression's prior standard deviation of `arm` in the current interval."""
        variance = float(self._space.variance(self._space.place(arm)[None, :])[0])
        return sqrt(variance * float(self._temporal.variance(np.array([self._time]))[0]))

    def observe(self, arm: Arm, y: float) -> None:
        """Add a reading of `arm` to the regression posterior; a full window first drops a reading.

        This method does not check `arm`. Policies check it before the call.
        """
        place = self._space.place(arm)
        if self.observations == len(self._y):
            self.remove(self._dispensable())
        n = self.observations
        self._places[n], self._y[n], self._times[n] = place, y, self._time
        self.observations = n + 1
        self._invalidate()

    def advance(self) -> None:
        """Advance the regression posterior by one interval."""
        self.advance_by(1.0)

    def advance_by(self, dt: float) -> None:
        """Advance the regression posterior by `dt` intervals, a number above 0."""
        self._time += dt
        self._present = self._prediction = None
        if self._gamma < 1.0:
            self._factor = None

    def skip(self, intervals: int) -> None:
        """Advance the regression posterior by several intervals without readings, at once."""
        self.advance_by(float(intervals))

    def reset(self) -> None:
        """Reset the regression posterior to the current interval's prior: drop all readings."""
        self.observations = 0
        self._invalidate()

    def remove(self, index: int) -> None:
        """Remove the reading with this index from the regression posterior; 0 is the oldest."""
        n = self.observations
        for array in (self._places, self._y, self._times):
            array[index : n - 1] = array[index + 1 : n]
        self.observations = n - 1
        self._invalidate()

    def snapshot(self) -> bytes:
        """Return the state of the regression posterior as bytes, for `restore`."""
        return encode_snapshot(self._kind(), self._field.fingerprint(), self._state())

    def restore(self, blob: bytes) -> None:
        """Load the state of a regression posterior, or raise `SnapshotError` and change nothing."""
        self._load(decode_snapshot(self._kind(), self._field.fingerprint(), blob))

    def _dispensable(self) -> int:
        """Return the index of the reading that a full regression window drops: the oldest one."""
        return 0

    def _state(self) -> State:
        """Return the regression's state for a snapshot.

        If all times are whole numbers, they are stored as int, as in old snapshots.
        """
        held = {"time": self._time, "observations": self.observations, **self._arrays()}
        if self._time == int(self._time) and (self._times == np.floor(self._times)).all():
            held |= {"time": int(self._time), "times": self._times.astype(np.int64)}
        return held

    def _load(self, state: State) -> None:
        time, observations = read_number(state, "time"), read_count(state, "observations")
        if isinstance(times := state.get("times"), np.ndarray):
            state = {**state, "times": times.astype(np.float64)}
        if time < 0.0:
            raise SnapshotError("The snapshot's 'time' is negative.")
        if observations > len(self._y):
            raise SnapshotError(
                f"The snapshot has {observations} readings; allowed: at most {len(self._y)}."
            )
        check_arrays(self._arrays(), state)
        if (state["times"][:observations] > time).any() or (state["times"] < 0).any():
            raise SnapshotError("The snapshot holds readings with impossible times.")
        if not self._field.contains(state["places"][:observations]):
            raise SnapshotError("The snapshot's 'places' names an arm that does not exist.")
        copy_arrays(self._arrays(), state)
        self._time, self.observations = time, observations
        self._invalidate()

    def _arrays(self) -> dict[str, AnyArray]:
        return {"places": self._places, "y": self._y, "times": self._times}

    def _kind(self) -> str:
        return f"kernel {self._temporal.snapshot_key} {len(self._y)} {self._gamma!r}"

    def _invalidate(self) -> None:
        """Mark the regression and its predictions as out of date; the next use recomputes them."""
        self._factor = self._present = self._prediction = None

    def _candidate_prediction(self) -> tuple[Array, Array]:
        """Return the regression posterior's mean and variance of every candidate, both (M,)."""
        if self._prediction is None:
            self._prediction = self._predict(self._space.candidates)
        return self._prediction

    def _predict(self, P: Array) -> tuple[Array, Array]:
        """Return the regression posterior's mean and variance at places P (p, d), both (p,)."""
        factor, (decay, variance) = self._current_factor(), self._temporal_part()
        k = self._space.covariance(factor.places, P) * decay
        return factor.regression.predict(k, self._space.variance(P) * variance)

    def _temporal_part(self) -> tuple[Array, float]:
        """Return the temporal covariance of each reading with now, (n, 1), and the variance now.

        Both are computed once in an interval, because a search in a box predicts many places.
        """
        if self._present is None:
            now = np.array([self._time])
            decay = self._temporal.kernel(self._times[: self.observations], now)
            self._present = decay, float(self._temporal.variance(now)[0])
        return self._present

    def _current_factor(self) -> "_Factor":
        if self._factor is not None:
            return self._factor
        n = self.observations
        places, times = self._places[:n], self._times[:n].copy()
        log_noise = np.minimum(-log(self._gamma) * (self._time - times), MAX_LOG_NOISE)
        noise = self._noise_variance * np.exp(log_noise)
        K = self._space.covariance(places, places) * self._temporal.kernel(times, times)
        self._factor = _Factor(Regression(K, noise, self._residuals()), places, times)
        return self._factor

    def _residuals(self) -> Array:
        """Return the readings in the regression window minus their prior means, (n,)."""
        return self._y[: self.observations]


class _Factor(NamedTuple):
    """The regression on the readings in the window, with the places and times of these readings."""

    regression: Regression
    places: Array
    times: Array


class FittedPosterior(RegressionPosterior):
    """A `RegressionPosterior` that fits its temporal model to the readings.

    A fit runs at the end of each interval in which a reading arrived, and maximises the likelihood.
    The first search starts from the parameters of the previous fit; each further search starts from
    parameters that are drawn at random. For n readings, the number of searches is the smaller of
    `restarts` and 200/n, but at least 1.

    Parameters
    ----------
    field, window
        As for `RegressionPosterior`.
    temporal : FittableModel
        Temporal model from which the first fit starts.
    restarts : int
        Largest number of starts of a fit, including the start from the previous parameters.
    seed : int
        Seed of the random starts.

    References
    ----------
    [M24] algorithm 3, with the number of starts in chapter 10. Algorithm 3 also fits the parameters
    of the spatial kernel and the noise variance, which are given here. For ε of the TV model: [B16]
    appendix B.
    """

    def __init__(
        self,
        field: Field,
        temporal: FittableModel,
        window: int,
        *,
        restarts: int = 10,
        seed: int = 0,
    ) -> None:
        self._restarts = restarts
        self._seed = seed
        super().__init__(field, temporal, window)
        self._fresh = False  # whether a reading arrived since the last fit

    @property
    def temporal(self) -> FittableModel:
        """The temporal model of the regression, with the parameters of the last fit."""
        return self._temporal  # type: ignore[return-value]  # `__init__` takes a FittableModel

    def observe(self, arm: Arm, y: float) -> None:
        """Add the reading `y` of `arm` to the regression, without fitting the temporal model."""
        super().observe(arm, y)
        self._fresh = True

    def advance_by(self, dt: float) -> None:
        """Fit the temporal model if a reading arrived; advance the regression by `dt` intervals.

        Some temporal models can only be fitted to whole times. For such a model, `ValueError` is
        raised if `dt` is not a whole number.
        """
        if dt != int(dt) and not self.temporal.FITS_FRACTIONS:
            raise ValueError(
                f"dt is {dt}; this model can fit its rates only if all lengths of intervals are "
                "whole numbers. Pass a whole number, or set the rates instead of fitting them."
            )
        if self._fresh and self.observations:
            self._fit()
        super().advance_by(dt)

    def _fit(self) -> None:
        n = self.observations
        places = self._places[:n]
        self._temporal = fit_temporal_model(
            self.temporal,
            self._space.covariance(places, places),
            self._times[:n].copy(),
            self._y[:n],
            self._field.noise_variance,
            restarts=max(min(self._restarts, 200 // n) - 1, 0),
            rng=np.random.default_rng((self._seed, int(self._time))),
        )
        self._fresh = False
        self._invalidate()

    def _state(self) -> State:
        parameters, fresh = self.temporal.parameters, int(self._fresh)
        return {**super()._state(), "temporal": parameters, "fresh": fresh}

    def _load(self, state: State) -> None:
        check_arrays({"temporal": self.temporal.parameters}, state)
        fresh, before = read_count(state, "fresh"), self._temporal
        try:
            self._temporal = self.temporal.with_parameters(state["temporal"])
            super()._load(state)
        except (ConfigError, SnapshotError) as error:
            self._temporal = before
            raise SnapshotError(str(error)) from error
        self._fresh = bool(fresh)

    def _kind(self) -> str:
        settings = f"{len(self._y)} {self._restarts} {self._seed}"
        return f"fitted {self._temporal.SNAPSHOT_NAME} {settings}"
