"""How probable readings are under a temporal kernel, and the kernel that makes them most so.

What belongs here: maximum marginal likelihood of the parameters of change, [M24] chapter 7 and
[B16] appendix B. The spatial kernel and the noise are known and stay as they are.
"""

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.temporal_models import FittableKernel

if TYPE_CHECKING:
    from numpy.random import Generator  # to import it takes 3 MiB, which a daemon does without

Array = NDArray[np.float64]
Kernel = TypeVar("Kernel", bound=FittableKernel)

STEPS = 30  # of L-BFGS-B from each start
IMPOSSIBLE = 1e10  # what -log p = inf is to the optimiser, which cannot count with infinity
LONGEST_SIDE = 10.0  # of the box the optimiser sees: its first step is 1 long


def log_likelihood(
    kernel: FittableKernel, K: Array, times: Array, y: Array, noise_variance: float
) -> tuple[float, Array]:
    """Give log p(y) and its derivative by each parameter of `kernel`, (p,).

    Parameters
    ----------
    kernel : FittableKernel
        d(t, t'), with p parameters.
    K : (n, n) array
        Prior covariance of the arms observed, one row for each reading (repeats are welcome), in
        model units²; symmetric.
    times : (n,) array
        When, in intervals.
    y : (n,) array
        What was read, in model units.
    noise_variance : float
        σ² of a reading, in model units².

    Returns
    -------
    (float, (p,) array)
        -inf and zeros where K∘D + σ²I is not positive definite at float64 precision.

    Raises
    ------
    MissingExtra
        Where scipy is not installed.

    Notes
    -----
    [M24] eq. 7.1; [B16] eq. 24-25; Rasmussen & Williams eq. 5.8-5.9. One Cholesky factor and
    one inverse from it, n³ multiply-adds; each derivative is n² more.
    """
    try:
        from scipy.linalg import blas, lapack
    except ImportError:
        raise MissingExtra("scipy, which learning a temporal model needs,", "science") from None
    y = np.ascontiguousarray(y, np.float64)
    n = len(y)
    if n == 0:
        return 0.0, np.zeros(len(kernel.values))
    A = kernel.matrix(times, times)
    A *= K
    A.flat[:: n + 1] += noise_variance
    L, failed = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return -np.inf, np.zeros(len(kernel.values))
    weights, _ = lapack.dpotrs(L, y, lower=1)  # (K∘D + σ²I)⁻¹ y
    value = -0.5 * (y @ weights) - np.log(L.diagonal()).sum() - 0.5 * n * np.log(2 * np.pi)
    if not np.isfinite(value):
        return -np.inf, np.zeros(len(kernel.values))
    inverse, _ = lapack.dpotri(L, lower=1, overwrite_c=1)  # its lower triangle, 0 above
    # what the data want more of, negated: (K∘D + σ²I)⁻¹ - weights weightsᵀ, one triangle of it
    excess = blas.dsyr(-1.0, weights, a=inverse, lower=1, overwrite_a=1).T
    excess.flat[:: n + 1] *= 0.5  # half a symmetric sum: one triangle, half the diagonal
    excess *= K
    slopes = kernel.gradient(times, times).reshape(-1, n * n)
    return float(value), np.asarray(-(slopes @ excess.ravel()))  # R & W eq. 5.9


def fit(
    start: Kernel,
    K: Array,
    times: Array,
    y: Array,
    noise_variance: float,
    *,
    restarts: int,
    rng: "Generator",
) -> Kernel:
    """Give the kernel of the kind of `start` under which `y` is most probable, as far as found.

    Searches from `start` and from `restarts` kernels drawn with `rng` ([M24] algorithm 3, which
    takes min(10, 200/t) starts) and keeps the best; never less probable than `start`. Equal
    arguments give equal kernels. See `log_likelihood` for the others.

    Raises
    ------
    ConfigError
        If shapes do not fit, a number is not finite, or `noise_variance` or `restarts` is
        below 0.
    MissingExtra
        Where scipy is not installed.
    """
    _check(K, times, y, noise_variance, restarts)
    if len(y) == 0:
        return start
    horizon = float(np.max(times))
    search = _Search(start, K, times, y, noise_variance)
    search.climb(start, horizon)
    for _ in range(restarts):
        search.climb(start.drawn(rng, horizon), horizon)
    return search.best


class _Search(Generic[Kernel]):
    """The best kernel seen, and how a climb finds a better one."""

    def __init__(
        self, start: Kernel, K: Array, times: Array, y: Array, noise_variance: float
    ) -> None:
        self._data = (K, times, y, noise_variance)
        self.best = start
        self._value, _ = log_likelihood(start, *self._data)

    def climb(self, start: Kernel, horizon: float) -> None:
        """Follow the gradient uphill from `start`, pulled into the bounds, by L-BFGS-B."""
        try:
            from scipy.optimize import minimize
        except ImportError:
            raise MissingExtra("scipy, which learning a temporal model needs,", "science") from None
        corners = [start.replaced(corner).coordinates() for corner in start.bounds(horizon).T]
        low, high = np.minimum(*corners), np.maximum(*corners)
        unit = (high - low) / LONGEST_SIDE

        def cost(place: Array) -> tuple[float, Array]:
            kernel = start.located(np.clip(low + unit * place, low, high))
            value, slope = self._judge(kernel)
            return -value, -(slope @ kernel.jacobian()) * unit

        minimize(
            cost,
            np.clip((start.coordinates() - low) / unit, 0.0, LONGEST_SIDE),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, LONGEST_SIDE)] * len(unit),
            options={"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 1e-6, "gtol": 1e-3},
        )

    def _judge(self, kernel: Kernel) -> tuple[float, Array]:
        value, slope = log_likelihood(kernel, *self._data)
        if value > self._value:
            self.best, self._value = kernel, value
        return max(value, -IMPOSSIBLE), slope


def _check(K: Array, times: Array, y: Array, noise_variance: float, restarts: int) -> None:
    n = len(y)
    if np.shape(K) != (n, n) or np.shape(times) != (n,) or np.shape(y) != (n,):
        raise ConfigError(
            f"K is {np.shape(K)}, times {np.shape(times)}, y {np.shape(y)}; "
            "they must be (n, n), (n,) and (n,)."
        )
    if not (np.isfinite(K).all() and np.isfinite(times).all() and np.isfinite(y).all()):
        raise ConfigError("K, times and y must be finite to fit a kernel to them.")
    if not 0.0 <= noise_variance < float("inf"):
        raise ConfigError(f"noise_variance is {noise_variance}; it can be 0 or more.")
    if restarts < 0:
        raise ConfigError(f"restarts is {restarts}; it can be 0 or more.")
