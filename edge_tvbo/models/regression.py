"""Gaussian-process regression on one set of readings, for any covariance matrix.

Regression is slower than the recursive posteriors. Regression is needed if the covariance of the
arms is not known beforehand: for fitted parameters, for unknown length scales and for points of a
box.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from edge_tvbo.errors import MissingExtra
from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module

NEEDS_SCIPY = "scipy, which is needed for fitted kernels and box domains,"
JITTER = 1e-10  # relative to the largest variance; it allows repeated readings of a place


def floored_noise(noise_variance: float, K: Array) -> float:
    """Return the noise variance of a reading, or the jitter if the jitter is larger.

    The jitter is `JITTER` times the largest variance in the prior covariance K. With less noise,
    repeated readings of an arm amplify rounding errors, until the mean of the field is infinite.
    """
    return max(noise_variance, JITTER * float(K.diagonal().max()))


class Regression:
    """The regression on n readings: a Cholesky factor, from which predictions are computed.

    Parameters
    ----------
    K : (n, n) array
        Prior covariance of the readings without noise, in model units².
    noise : (n,) array
        Noise variance of each reading, in model units², > 0.
    y : (n,) array
        Readings, in model units.

    Raises
    ------
    MissingExtra
        If scipy is not installed.
    numpy.linalg.LinAlgError
        If K + diag(noise) is not positive definite.

    References
    ----------
    Rasmussen & Williams, algorithm 2.1.
    """

    def __init__(self, K: Array, noise: Array, y: Array) -> None:
        self._empty = len(y) == 0
        if self._empty:
            return
        A = np.array(K, order="F")
        A.reshape(-1, order="A")[:: len(y) + 1] += noise + JITTER * float(K.max())
        self._L, failed = _lapack().dpotrf(A, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError(f"leading minor {failed} of the covariance is not above 0")
        self._z = self._solve(y)

    def predict(self, k: Array, prior: Array) -> tuple[Array, Array]:
        """Return the regression's mean and variance at m places, both (m,).

        Parameters
        ----------
        k : (n, m) array
            Prior covariance of each reading and each place, in model units².
        prior : (m,) array
            Prior variance of the places, in model units².

        Notes
        -----
        The prediction takes n²m multiply-adds.
        """
        if self._empty:
            return np.zeros(len(prior)), np.array(prior)
        V = self._solve(k)
        return V.T @ self._z, np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0)

    def precision(self) -> Array:
        """Return the inverse covariance (n, n) of the regression's readings, noise included."""
        if self._empty:
            return np.zeros((0, 0))
        half = self._solve(np.eye(len(self._z)))
        return np.asarray(half.T @ half)

    def log_likelihood(self) -> float:
        """Return the regression's log marginal likelihood (Rasmussen & Williams eq. 2.30)."""
        if self._empty:
            return 0.0
        z, n = self._z, len(self._z)
        return float(-0.5 * z @ z - np.log(np.diag(self._L)).sum() - 0.5 * n * np.log(2 * np.pi))

    def _solve(self, b: Array) -> Array:
        solved: Array = _lapack().dtrtrs(self._L, b, lower=1)[0]
        return solved


def require_scipy() -> None:
    """Raise `MissingExtra` if scipy, which regression needs, is not installed."""
    if find_spec("scipy") is None:
        raise MissingExtra(NEEDS_SCIPY, "science")


@cache  # a second import of the module takes longer than a regression on few readings
def _lapack() -> Any:
    # LAPACK itself: scipy.linalg checks its arguments, which takes longer than a small regression
    return optional_module("scipy.linalg", NEEDS_SCIPY, "science").lapack
