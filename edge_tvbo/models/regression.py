"""Gaussian-process regression on a set of readings, factored at once: for any kernel whatever.

Slower than the engines of `posterior`, which it needs where the kernel is not known beforehand:
fitted parameters, unknown length scales, points of a box.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import MissingExtra

Array = NDArray[np.float64]
JITTER = 1e-10  # of the largest variance, so that repeated places leave the factor real


class Regression:
    """The posterior given n readings (Rasmussen & Williams, algorithm 2.1).

    Parameters
    ----------
    K : (n, n) array
        Prior covariance of what was read, in model units².
    noise : (n,) array
        Variance of each reading's noise, in model units², > 0.
    y : (n,) array
        Readings, in model units.

    Raises
    ------
    MissingExtra
        Without scipy.
    numpy.linalg.LinAlgError
        Where K is no covariance.
    """

    def __init__(self, K: Array, noise: Array, y: Array) -> None:
        self._lapack = _lapack()
        self._empty = len(y) == 0
        if self._empty:
            return
        A = np.array(K, order="F")
        A.reshape(-1, order="A")[:: len(y) + 1] += noise + JITTER * float(K.max())
        self._L, failed = self._lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError(f"minor {failed} of the covariance is not positive")
        self._z = self._solve(y)

    def predict(self, k: Array, prior: Array) -> tuple[Array, Array]:
        """Give mean and variance (m,) where the readings' covariance is `k` (n, m).

        `prior` (m,) is the variance before any reading. Costs n²m.
        """
        if self._empty:
            return np.zeros(len(prior)), np.array(prior)
        V = self._solve(k)
        return V.T @ self._z, np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0)

    def precision(self) -> Array:
        """Give the inverse (n, n) of the readings' covariance, noise included."""
        if self._empty:
            return np.zeros((0, 0))
        half = self._solve(np.eye(len(self._z)))
        return np.asarray(half.T @ half)

    def log_likelihood(self) -> float:
        """Give ln p(y) (Rasmussen & Williams eq. 2.30)."""
        if self._empty:
            return 0.0
        z, n = self._z, len(self._z)
        return float(-0.5 * z @ z - np.log(np.diag(self._L)).sum() - 0.5 * n * np.log(2 * np.pi))

    def _solve(self, b: Array) -> Array:
        solved: Array = self._lapack.dtrtrs(self._L, b, lower=1)[0]
        return solved


def _lapack() -> Any:
    try:
        from scipy.linalg import lapack  # bare: scipy's own checks take longer than 20 readings
    except ImportError:
        raise MissingExtra("scipy, which fitted kernels and box domains need,", "science") from None
    return lapack
