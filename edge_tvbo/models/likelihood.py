"""Marginal likelihood of temporal models: its value, its gradient, and its maximum.

The parameters of the temporal model are fitted to readings ([M24] chapter 7, [B16] appendix B). The
spatial kernel and the noise variance are known and stay fixed.
"""

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.parameter_checks import check_not_negative
from edge_tvbo.models.temporal_models import FittableModel
from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module

if TYPE_CHECKING:
    from numpy.random import Generator  # at run time, the import would take 3 MiB

Fittable = TypeVar("Fittable", bound=FittableModel)

NEEDS_SCIPY = "scipy, which is needed to fit a temporal model,"
MAX_STEPS = 30  # steps of L-BFGS-B from each start
MIN_GAIN = 1e-6  # the optimiser stops after a step with a smaller relative gain
MAX_COST = 1e10  # replaces -log p = inf, which the optimiser cannot handle
BOX_SIDE = 10.0  # side of the searched box; the optimiser's first step has length 1


def log_likelihood(
    model: FittableModel, K: Array, times: Array, y: Array, noise_variance: float
) -> tuple[float, Array]:
    """Return the log marginal likelihood of readings, and its gradient, under a temporal model.

    Parameters
    ----------
    model : FittableModel
        Temporal model with kernel d(t, t') and p parameters.
    K : (n, n) array
        Spatial prior covariance of the arms that were read, one row for each reading, in model
        units²; symmetric. Arms may repeat.
    times : (n,) array
        Time of each reading, in intervals.
    y : (n,) array
        Readings, in model units.
    noise_variance : float
        σ², noise variance of a reading, in model units².

    Returns
    -------
    (float, (p,) array)
        log p(y), and its derivative with respect to each parameter. Let D be the matrix of all
        d(t, t'). If K∘D + σ²I is not positive definite at float64 precision, log p(y) is -inf and
        all derivatives are 0.

    Raises
    ------
    MissingExtra
        If scipy is not installed.

    Notes
    -----
    Sources: [M24] eq. 7.1; [B16] eq. 24-25; Rasmussen & Williams eq. 5.8-5.9. The Cholesky factor
    and its inverse take n³ multiply-adds, and each derivative takes n² more.
    """
    linalg = optional_module("scipy.linalg", NEEDS_SCIPY, "science")
    blas, lapack = linalg.blas, linalg.lapack
    y = np.ascontiguousarray(y, np.float64)
    n = len(y)
    if n == 0:
        return 0.0, np.zeros(len(model.parameters))
    A = model.kernel(times, times)
    A *= K
    A.flat[:: n + 1] += noise_variance
    L, failed = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return -np.inf, np.zeros(len(model.parameters))
    weights, _ = lapack.dpotrs(L, y, lower=1)  # (K∘D + σ²I)⁻¹ y
    value = -0.5 * (y @ weights) - np.log(L.diagonal()).sum() - 0.5 * n * np.log(2 * np.pi)
    if not np.isfinite(value):
        return -np.inf, np.zeros(len(model.parameters))
    inverse, _ = lapack.dpotri(L, lower=1, overwrite_c=1)  # only the lower triangle
    # the next line computes one triangle of (K∘D + σ²I)⁻¹ - weights weightsᵀ
    excess = blas.dsyr(-1.0, weights, a=inverse, lower=1, overwrite_a=1).T
    excess.flat[:: n + 1] *= 0.5  # sums over the triangle are then half of those over the matrix
    excess *= K
    slopes = model.kernel_gradient(times, times).reshape(-1, n * n)
    return float(value), np.asarray(-(slopes @ excess.ravel()))  # R & W eq. 5.9


def fit_temporal_model(
    start: Fittable,
    K: Array,
    times: Array,
    y: Array,
    noise_variance: float,
    *,
    restarts: int,
    rng: "Generator",
) -> Fittable:
    """Return the most likely temporal model of the same class as `start`, given readings.

    L-BFGS-B searches from `start`, and from `restarts` models that are drawn with `rng`. The result
    has the highest marginal likelihood of all models that the searches evaluate, so it is at least
    as likely as `start`. Equal arguments give equal results.

    Parameters
    ----------
    start : FittableModel
        Model from which the first search starts.
    K, times, y, noise_variance
        As for `log_likelihood`.
    restarts : int
        Number of further starts, 0 or more. In interval t, [M24] has min(10, 200/t) starts in
        total: algorithm 3 calls this number n_restarts, and chapter 10 states the value.
    rng : numpy.random.Generator
        Generator from which the further starts are drawn.

    Raises
    ------
    ConfigError
        If the shapes do not match, a number is not finite, or `noise_variance` or `restarts` is
        negative.
    MissingExtra
        If scipy is not installed.
    """
    _check(K, times, y, noise_variance, restarts)
    if len(y) == 0:
        return start
    horizon = float(np.max(times))
    search = _Search(start, K, times, y, noise_variance)
    search.climb(start, horizon)
    for _ in range(restarts):
        search.climb(start.random(rng, horizon), horizon)
    return search.best


class _Search(Generic[Fittable]):
    """A search for the most likely temporal model.

    `best` is the most likely of all models that the search has evaluated.
    """

    def __init__(
        self, start: Fittable, K: Array, times: Array, y: Array, noise_variance: float
    ) -> None:
        self._data = (K, times, y, noise_variance)
        self.best = start
        self._value, _ = log_likelihood(start, *self._data)

    def climb(self, start: Fittable, horizon: float) -> None:
        """Maximise the likelihood with L-BFGS-B, from `start` moved into the bounds."""
        optimize = optional_module("scipy.optimize", NEEDS_SCIPY, "science")
        corners = [
            start.with_parameters(corner).coordinates() for corner in start.bounds(horizon).T
        ]
        low, high = np.minimum(*corners), np.maximum(*corners)
        unit = (high - low) / BOX_SIDE

        def cost(place: Array) -> tuple[float, Array]:
            model = start.at_coordinates(np.clip(low + unit * place, low, high))
            value, slope = self._evaluate(model)
            return -value, -(slope @ model.jacobian()) * unit

        optimize.fmin_l_bfgs_b(
            cost,
            np.clip((start.coordinates() - low) / unit, 0.0, BOX_SIDE),
            bounds=[(0.0, BOX_SIDE)] * len(unit),
            factr=MIN_GAIN / np.finfo(np.float64).eps,
            pgtol=1e-3,
            maxiter=MAX_STEPS,
            maxfun=2 * MAX_STEPS,
        )

    def _evaluate(self, model: Fittable) -> tuple[float, Array]:
        value, slope = log_likelihood(model, *self._data)
        if value > self._value:
            self.best, self._value = model, value
        return max(value, -MAX_COST), slope


def _check(K: Array, times: Array, y: Array, noise_variance: float, restarts: int) -> None:
    n = len(y)
    if np.shape(K) != (n, n) or np.shape(times) != (n,) or np.shape(y) != (n,):
        raise ConfigError(
            f"K has shape {np.shape(K)}, times {np.shape(times)} and y {np.shape(y)}; "
            "the shapes must be (n, n), (n,) and (n,)."
        )
    if not (np.isfinite(K).all() and np.isfinite(times).all() and np.isfinite(y).all()):
        raise ConfigError("K, times and y must be finite to fit a temporal model to them.")
    check_not_negative(noise_variance=noise_variance, restarts=restarts)
