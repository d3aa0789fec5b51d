"""Pruned posterior of a box: it fits the kernel, the rate of change and the noise.

This is the model of the program that the authors of [W24] published (wdbo-algo 1.0.7 on PyPI). The
program allows several temporal kernels; this module uses the Matérn kernel with smoothness 1/2.
"""

from math import log1p

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.arm_space import BoxSpace
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.posteriors.base import Prediction
from edge_tvbo.models.posteriors.pruned import MIN_READINGS, PrunedPosterior
from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior
from edge_tvbo.models.regression import Regression
from edge_tvbo.models.snapshot import State, check_arrays, read_count
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.numerics.acquisition import draw
from edge_tvbo.numerics.types import Array, Mask

FIRST_FIT_READINGS = 15  # as in wdbo-algo, no reading is removed before the first fit
MAX_STEPS = 8  # steps of L-BFGS-B in a fit; the next fit starts from the result
BOUNDS = np.log(  # bounds of the four fitted parameters
    [
        (0.05, 20.0),  # factor of the given length scales
        (0.5, 1e4),  # time scale, in intervals
        (1e-2, 1e2),  # variance of the field, in units of the variance of the readings
        (1e-4, 1.0),  # noise variance, in the same unit
    ]
)
MIN_DEVIATION = 1e-9  # smallest standard deviation of the readings
MIN_EPSILON = 1e-6  # smallest rate of change from which the first fit starts


class FittedPrunedPosterior(PrunedPosterior):
    """A `PrunedPosterior` of a box that fits four parameters to its readings.

    A fit maximises the likelihood of the readings, which are first standardised to mean 0 and
    standard deviation 1. The four parameters are:

    - one factor for all length scales of the given kernel
    - the time scale l_t = -2 / ln(1-ε)
    - the variance of the field
    - the noise variance

    The first fit needs 15 readings. If `window` is smaller than 15, a full window is sufficient,
    but at least 2 readings are needed. Before the first fit, points are selected at random,
    predictions use the given parameters, and no reading is removed. After the first fit, each
    interval ends with two steps: if a reading arrived, the parameters are fitted; then readings
    that matter little are removed. Each fit starts from the result of the last fit. A reset drops
    the readings and keeps the parameters.

    Parameters
    ----------
    field : BoxField
        The box; its kernel and noise variance are used until the first fit.
    temporal : TimeVarying
        The rate of change until the first fit.
    window, alpha
        As for `PrunedPosterior`.

    Notes
    -----
    A fit to n readings takes up to 16 evaluations of the likelihood and its gradient. Each
    evaluation takes 5 Cholesky factors of order n. The authors' program also fits after each
    removal, and each of its fits takes 150 steps of the method Adam.
    """

    def __init__(
        self, field: BoxField, temporal: TimeVarying, window: int, *, alpha: float
    ) -> None:
        super().__init__(field, temporal, window, alpha=alpha)
        self._space = self._box = _FittedSpace(field)
        self._given = field.spatial, temporal, field.noise_variance
        time_scale = -2.0 / log1p(-max(temporal.epsilon, MIN_EPSILON))
        start = np.log([1.0, time_scale, field.spatial.variance, field.noise_variance])
        self._logs = np.clip(start, *BOUNDS.T)  # logarithms of the four parameters
        self._level = np.array([0.0, 1.0])  # mean and standard deviation of the readings
        self._fits = self._fresh = 0  # number of fits, and of readings since the last fit
        self._first_fit = max(MIN_READINGS, min(FIRST_FIT_READINGS, window))  # readings

    @property
    def length_scales(self) -> Array:
        """The pruned posterior's length scales from its last fit, (d,), one for each dimension.

        A length scale has the same unit as the box's corners in this dimension.
        """
        d = self._places.shape[1]
        return np.asarray(self._box.kernel.length_scale) * np.ones(d)

    def observe(self, arm: tuple[float, ...], y: float) -> None:
        """Add a reading `y` of `arm` to the pruned posterior; nothing is fitted until `advance`."""
        super().observe(arm, y)
        self._fresh += 1

    def advance_by(self, dt: float) -> None:
        """Fit the pruned posterior if a reading arrived, and advance it by `dt` intervals.

        Finally, readings that matter little are removed. Before the first fit, none is removed.
        """
        least = MIN_READINGS if self._fits else self._first_fit
        if self._fresh and self.observations >= least:
            self._fit()
        if self._fits:
            super().advance_by(dt)
        else:
            RegressionPosterior.advance_by(self, dt)

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Prediction | None:
        """Return the pruned posterior's prediction at the point with the highest bound in the box.

        Before the first fit, return the prediction at a random eligible candidate.
        """
        arms = np.flatnonzero(eligible)
        if self._fits or not len(arms):
            return super().highest(width, eligible, seed, counter)
        return self.at(self._field.arm(int(arms[draw(seed, counter, len(arms))])))

    def _fit(self) -> None:
        from scipy.optimize import minimize  # `make_pruned_posterior` has checked that scipy exists

        n = self.observations
        y = self._y[:n]
        deviation = max(float(y.std()), MIN_DEVIATION)
        standard = (y - y.mean()) / deviation
        places, times = self._places[:n], self._times[:n].copy()

        def cost(logs: Array) -> float:
            kernel, temporal = self._models(logs)
            K = kernel(places, places) * temporal.kernel(times, times)
            noise = np.full(n, float(np.exp(logs[3])))
            try:
                return -Regression(K, noise, standard).log_likelihood()
            except np.linalg.LinAlgError:
                return 1e10

        before = self._logs.copy()
        found = minimize(
            cost, before, method="L-BFGS-B", bounds=BOUNDS, options={"maxiter": MAX_STEPS}
        )
        self._logs[:] = np.clip(found.x, *BOUNDS.T) if found.fun < cost(before) else before
        self._level[:] = y.mean(), deviation
        self._fits, self._fresh = self._fits + 1, 0
        self._apply()

    def _models(self, logs: Array) -> tuple[SpatialKernel, TimeVarying]:
        """Return the pruned posterior's spatial kernel and temporal model with given parameters.

        `logs` are the logarithms of the four parameters, for standardised readings.
        """
        factor, time_scale, variance, _ = np.exp(logs).tolist()
        given = self._given[0]
        scales = np.asarray(given.length_scale, np.float64) * factor
        length_scale = float(scales) if scales.ndim == 0 else tuple(scales.tolist())
        kernel = SpatialKernel(given.nu, length_scale, variance)
        return kernel, TimeVarying(float(-np.expm1(-2.0 / time_scale)))

    def _apply(self) -> None:
        """Use the pruned posterior's last fit or, before the first fit, the given parameters."""
        kernel, temporal, noise_variance = self._given
        if self._fits:
            kernel, temporal = self._models(self._logs)
            square = float(self._level[1] ** 2)
            kernel = SpatialKernel(kernel.nu, kernel.length_scale, kernel.variance * square)
            noise_variance = float(np.exp(self._logs[3])) * square
        self._box.use(kernel)
        self._temporal, self._noise_variance = temporal, noise_variance
        self._budget.use_rate(temporal.epsilon, self._alpha)
        self._invalidate()

    def _residuals(self) -> Array:
        return np.asarray(self._y[: self.observations] - self._level[0])

    def _predict(self, P: Array) -> tuple[Array, Array]:
        mean, variance = super()._predict(P)
        return mean + self._level[0], variance

    def _state(self) -> State:
        fitted = {"logs": self._logs, "level": self._level}
        return {**super()._state(), **fitted, "fits": self._fits, "fresh": self._fresh}

    def _load(self, state: State) -> None:
        fits, fresh = read_count(state, "fits"), read_count(state, "fresh")
        check_arrays({"logs": self._logs, "level": self._level}, state)
        logs, level = state["logs"], state["level"]
        if not ((logs >= BOUNDS[:, 0]) & (logs <= BOUNDS[:, 1])).all():
            raise SnapshotError("The snapshot's 'logs' holds an invalid parameter.")
        if level[1] < MIN_DEVIATION:
            raise SnapshotError("The snapshot's 'level' holds an invalid standard deviation.")
        super()._load(state)
        self._logs[:], self._level[:], self._fits, self._fresh = logs, level, fits, fresh
        self._apply()

    def _kind(self) -> str:
        return f"fitted pruned {self._alpha!r} {self._given[1].snapshot_key} {len(self._y)}"


class _FittedSpace(BoxSpace):
    """The arm space of a box, for the pruned posterior: each fit replaces its kernel."""

    def use(self, kernel: SpatialKernel) -> None:
        """Replace the kernel of the pruned posterior's arm space by a newly fitted kernel."""
        self.kernel = kernel
        self.prior = self.variance(self.candidates)
