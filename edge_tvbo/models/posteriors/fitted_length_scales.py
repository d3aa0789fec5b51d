"""Box posterior that fits one length scale per dimension to the readings.

The length scales of a squared exponential kernel have Gamma priors. As readings arrive, a fit finds
the length scales with the highest posterior density ([ET] sections 6 and 7, table 7). Two other
modules fit other parameters: `models.likelihood` fits temporal models, and
`policy.unknown_length_scale` fits a single length scale of a static field.
"""

from collections.abc import Sequence

import numpy as np

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.arm_space import Arm, BoxSpace
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior
from edge_tvbo.models.snapshot import State, check_arrays, read_count
from edge_tvbo.models.spatial_kernels import MAX_MATERN_NU
from edge_tvbo.models.temporal_models import TemporalModel
from edge_tvbo.numerics.types import Array

MIN_LENGTH_SCALE, MAX_LENGTH_SCALE = 0.5, 12.0  # bounds of a fitted length scale, in `units`
EAGER_READINGS = 30  # with fewer readings, a fit runs in every interval
FIT_EVERY = 5  # intervals between two fits, with `EAGER_READINGS` readings or more
MAX_STEPS = 8  # steps of L-BFGS-B in a fit; the next fit continues from its result


class ArdMapPosterior(RegressionPosterior):
    """A `RegressionPosterior` over a box; it fits the length scale of each dimension.

    A fit maximises the posterior density with at most `MAX_STEPS` steps of L-BFGS-B. The fit starts
    from the length scales of the last fit and stays between `MIN_LENGTH_SCALE` and
    `MAX_LENGTH_SCALE`. A reset drops the readings and keeps the length scales until the next fit.

    - While there are fewer than `EAGER_READINGS` readings, a fit runs at the end of every interval.
    - With `EAGER_READINGS` readings or more, a fit runs when the time reaches or passes a multiple
      of `FIT_EVERY`.
    - No fit runs if no reading arrived since the previous fit.

    Parameters
    ----------
    field : BoxField
        The box field. Its kernel is a squared exponential. The variance of the kernel is not
        fitted.
    temporal, window
        As for `RegressionPosterior`.
    units : sequence of d float
        For each dimension, the length that counts as a length scale of 1, in the unit of the box.
    shape, rate : float
        Shape (above 1) and rate (above 0) of the Gamma prior of each length scale. Here, length
        scales are measured in `units`. The first fit starts from the mode of this prior.

    Raises
    ------
    ConfigError
        If the kernel is not a squared exponential, or a number is out of range.
    MissingExtra
        If scipy is not installed.

    Notes
    -----
    Each step of a fit to n readings costs n³ + 4 d n² multiply-adds. Source: Rasmussen & Williams
    eq. 5.8-5.9.
    """

    def __init__(
        self,
        field: BoxField,
        temporal: TemporalModel,
        window: int,
        *,
        units: Sequence[float],
        shape: float,
        rate: float,
    ) -> None:
        super().__init__(field, temporal, window)
        self._units = np.array(units, np.float64)
        if field.spatial.nu <= MAX_MATERN_NU:
            raise ConfigError(
                f"nu is {field.spatial.nu}; length scales can be fitted for nu = infinity only."
            )
        if self._units.shape != field.lower.shape or not (self._units > 0).all():
            raise ConfigError(f"units is {units}; it needs one number above 0 per dimension.")
        if not (shape > 1.0 and rate > 0.0):
            raise ConfigError(
                f"shape is {shape}, rate is {rate}; required: shape > 1 and rate > 0."
            )
        self._prior = (shape, rate)
        self._space = self._box = _ScaledBoxSpace(field)
        mode = np.clip((shape - 1.0) / rate, MIN_LENGTH_SCALE, MAX_LENGTH_SCALE)
        self._scales = np.full(len(self._units), mode)
        self._fresh = False  # whether a reading arrived since the last fit
        self._apply_scales()

    @property
    def length_scales(self) -> Array:
        """The length scale of each dimension of the box, (d,), from the last fit."""
        return self._scales * self._units

    def observe(self, arm: Arm, y: float) -> None:
        """Add a reading `y` of `arm`; the length scales are not fitted until `advance`."""
        super().observe(arm, y)
        self._fresh = True

    def advance_by(self, dt: float) -> None:
        """Fit the length scales if a fit is due, and advance the posterior by `dt` intervals."""
        passed = self._time // FIT_EVERY < (self._time + dt) // FIT_EVERY
        due = self.observations < EAGER_READINGS or passed
        if self._fresh and due and self.observations:
            self._fit()
        super().advance_by(dt)

    def _fit(self) -> None:
        n = self.observations
        places, times = self._places[:n] / self._units, self._times[:n]
        apart = (places.T[:, :, None] - places.T[:, None, :]) ** 2
        height = self._box.height * self._temporal.kernel(times, times)
        noise = self._field.noise_variance
        density = _Density(apart, height, noise, self._y[:n].copy(), self._prior)
        self._scales[:] = density.peak(self._scales)
        self._fresh = False
        self._apply_scales()

    def _apply_scales(self) -> None:
        self._box.length_scales = self.length_scales
        self._invalidate()

    def _state(self) -> State:
        return {**super()._state(), "scales": self._scales, "fresh": int(self._fresh)}

    def _load(self, state: State) -> None:
        check_arrays({"scales": self._scales}, state)
        fresh, scales = read_count(state, "fresh"), state["scales"]
        if not ((scales >= MIN_LENGTH_SCALE) & (scales <= MAX_LENGTH_SCALE)).all():
            raise SnapshotError("The snapshot's 'scales' holds an invalid length scale.")
        super()._load(state)
        self._scales[:], self._fresh = scales, bool(fresh)
        self._apply_scales()

    def _kind(self) -> str:
        held = f"{self._temporal.snapshot_key} {len(self._y)}"
        return f"scaled {held} {self._prior!r} {self._units.tolist()!r}"


class _ScaledBoxSpace(BoxSpace):
    """The arm space of a box field whose length scales can change.

    Distances are computed by a product of matrices, which is accurate to 1e-7 length scales. This
    is faster than `spatial_kernels.distances`, in which the search for the best arm would spend
    most of its time.
    """

    def __init__(self, field: BoxField) -> None:
        super().__init__(field)
        self._corner = field.lower
        self.height = field.spatial.variance
        self.length_scales = np.ones(len(field.lower))

    def covariance(self, P: Array, Q: Array) -> Array:
        """Return the covariance (p, q) of places P (p, d) and Q (q, d) for fitted length scales."""
        A, B = (P - self._corner) / self.length_scales, (Q - self._corner) / self.length_scales
        halves = A @ B.T
        halves -= 0.5 * (A * A).sum(axis=1)[:, None]
        halves -= 0.5 * (B * B).sum(axis=1)  # minus half the squared distances
        return np.asarray(self.height * np.exp(np.minimum(halves, 0.0)))


class _Density:
    """The posterior density of length scales: the likelihood of readings times the Gamma prior.

    Parameters
    ----------
    apart : (d, n, n) array
        Squared distances between the places that were read, one matrix for each dimension.
        Distances are measured in `units`.
    height : (n, n) array
        Prior covariance that the readings would have if all places were the same.
    noise : float
        Noise variance of a reading.
    y : (n,) array
        Readings.
    prior : (float, float)
        Shape and rate of the Gamma prior.
    """

    def __init__(
        self, apart: Array, height: Array, noise: float, y: Array, prior: tuple[float, float]
    ) -> None:
        self._apart = np.ascontiguousarray(apart.reshape(len(apart), -1))
        self._height = height
        self._noise = noise
        self._y = y
        self._prior = prior

    def peak(self, start: Array) -> Array:
        """Search from `start`; return the length scales (d,) with the highest posterior density."""
        from scipy.optimize import minimize  # `make_posterior` has checked that scipy exists

        low, high = float(np.log(MIN_LENGTH_SCALE)), float(np.log(MAX_LENGTH_SCALE))
        best, least = np.log(start), self.cost(np.log(start))[0]
        found = minimize(
            self.cost,
            best,
            jac=True,
            method="L-BFGS-B",
            bounds=[(low, high)] * len(start),
            options={"maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "gtol": 1e-2, "ftol": 1e-5},
        )
        if float(found.fun) < least:
            best = found.x
        return np.clip(np.exp(best), MIN_LENGTH_SCALE, MAX_LENGTH_SCALE)

    def cost(self, logs: Array) -> tuple[float, Array]:
        """Return the negative log density of the length scales exp(`logs`), and its gradient.

        The gradient (d,) is with respect to `logs`. A constant term of the log density is omitted.
        """
        from scipy.linalg import lapack

        n, squares = len(self._y), np.exp(-2.0 * logs)
        K = self._height * np.exp(-0.5 * (squares @ self._apart)).reshape(n, n)
        A = K.copy()
        A.flat[:: n + 1] += self._noise
        L, failed = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            return 1e10, np.zeros(len(logs))
        weights, _ = lapack.dpotrs(L, self._y, lower=1)
        value = -0.5 * (self._y @ weights) - np.log(L.diagonal()).sum()
        inverse, _ = lapack.dpotri(L, lower=1, overwrite_c=1)  # only the lower triangle
        inverse.flat[:: n + 1] *= 0.5  # the triangle then sums to half of the whole matrix
        pull = (0.5 * np.outer(weights, weights) - inverse.T) * K
        slope = squares * (self._apart @ pull.ravel())  # gradient for ln l (R & W eq. 5.9)
        shape, rate = self._prior
        scales = np.exp(logs)
        value += float(((shape - 1.0) * logs - rate * scales).sum())
        return -float(value), -(slope + (shape - 1.0) - rate * scales)
