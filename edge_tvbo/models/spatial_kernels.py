"""Spatial kernels: how alike two places are. Places in, covariance out, of variance 1.

Formulas: Rasmussen & Williams, *Gaussian Processes for Machine Learning*, chapter 4.
"""

import math

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from edge_tvbo.errors import ConfigError, MissingExtra

Array = NDArray[np.float64]
SMOOTHEST = 100.0
SMALLEST, LARGEST = 1e-50, 1e50  # of a scale or a variance: beyond, squares are 0 or infinite
BETWEEN = f"above 0: {SMALLEST:g} to {LARGEST:g}"


class SpatialKernel(msgspec.Struct, frozen=True):
    """A stationary covariance between any two places: shape, length scale, variance.

    Parameters
    ----------
    nu : float
        Smoothness of a Matérn kernel, > 0; above 100, and at infinity, the squared exponential.
    length_scale : float or tuple of float
        In the places' unit, > 0; one for each dimension where there are several.
    variance : float
        Of the field at any place, in model units², > 0.

    Examples
    --------
    >>> SpatialKernel(math.inf, 0.2)([[0.0], [0.2]], [[0.0]]).round(3).tolist()
    [[1.0], [0.607]]
    """

    nu: float = math.inf
    length_scale: float | tuple[float, ...] = 1.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.variance) and self.variance > 0):
            raise ConfigError(f"variance is {self.variance}; it must be above 0.")

    def __call__(self, A: ArrayLike, B: ArrayLike) -> Array:
        """Give the covariance (a, b) of places A (a, d) with places B (b, d)."""
        return self.variance * matern(A, self.length_scale, self.nu, others=B)

    def at(self, length_scale: float) -> "SpatialKernel":
        """Give the same kernel with another length scale."""
        return replace(self, length_scale=length_scale)


def squared_exponential(X: ArrayLike, length_scale: ArrayLike) -> Array:
    """Give exp(-r²/2) for all pairs of places; see `distances` for the arguments."""
    return np.asarray(np.exp(-0.5 * distances(X, length_scale) ** 2))


def matern(
    X: ArrayLike, length_scale: ArrayLike, nu: float, *, others: ArrayLike | None = None
) -> Array:
    """Give the Matérn covariance of all pairs of places, of smoothness `nu` > 0.

    Closed forms for ½, 3/2 and 5/2; any other `nu` through scipy's Bessel function K_ν
    (Rasmussen & Williams eq. 4.14). Above 100 it is the squared exponential, not .01 away.
    See `distances` for the other arguments.

    Raises
    ------
    MissingExtra
        For another `nu`, where scipy is not installed.
    """
    r = distances(X, length_scale, others=others)
    if nu == 0.5:
        return np.asarray(np.exp(-r))
    if nu == 1.5:
        s = math.sqrt(3.0) * r
        return np.asarray((1.0 + s) * np.exp(-s))
    if nu == 2.5:
        s = math.sqrt(5.0) * r
        return np.asarray((1.0 + s + s * s / 3.0) * np.exp(-s))
    if not nu > 0:
        raise ConfigError(f"nu is {nu}; a Matérn kernel's smoothness must be above 0.")
    if nu > SMOOTHEST:
        return np.asarray(np.exp(-0.5 * r**2))
    return _matern_of_any(nu, r)


def linear(X: ArrayLike) -> Array:
    """Give x · x' for all pairs of places, scaled so that the largest variance is 1."""
    X = _places(X)
    K = X @ X.T
    largest = float(np.max(np.diag(K), initial=0.0))
    if largest == 0.0:
        raise ConfigError("A linear kernel needs a place other than the origin.")
    return np.asarray(K / largest)


def exchangeable(M: int, correlation: float) -> Array:
    """Give the covariance (M, M) of sensors any two of which are equally alike.

    A part that all share, of variance `correlation`, 0 to below 1, and one of each sensor's own;
    it needs no places.

    >>> exchangeable(2, 0.5).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    if not 0.0 <= correlation < 1.0:
        raise ConfigError(f"correlation is {correlation}; it can be 0 to below 1.")
    return np.asarray(correlation + (1.0 - correlation) * np.eye(M))


def distances(X: ArrayLike, length_scale: ArrayLike, *, others: ArrayLike | None = None) -> Array:
    """Give the distances of all pairs of places in length scales.

    Parameters
    ----------
    X : (M, d) or (M,) array
        Places, in any unit of length.
    length_scale : float or (d,) array
        In the same unit, > 0; one for each dimension where there are several.
    others : (N, d) array
        The second place of each pair; X again where they are left out.

    Returns
    -------
    (M, N) array; of X with itself symmetric to the last bit, 0 on the diagonal.
    """
    X = _places(X)
    Y = X if others is None else _places(others)
    scale = np.asarray(length_scale, np.float64)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise ConfigError(f"length_scale is {scale}; it must be above 0.")
    difference = (X[:, None, :] - Y[None, :, :]) / scale
    return np.asarray(np.sqrt(np.sum(difference**2, axis=2)))


def empirical_covariance(
    readings: ArrayLike, *, shrinkage: float = 0.0, jitter: float = 1e-6
) -> Array:
    """Give the covariance of training data, made positive definite.

    Parameters
    ----------
    readings : (T, M) array
        T intervals of M sensors in model units, without gaps, T ≥ 2. The mean of each sensor is
        taken off; [B16] section 5 and [ET] section 6 use this as the kernel.
    shrinkage : float
        0 to 1: how far the correlations are pulled to 0. Variances stay as they are.
    jitter : float
        Above 0, added to the diagonal, in model units²; multiplied by 10 until Cholesky
        succeeds. Apart from it the scale of the data is kept.

    Raises
    ------
    ConfigError
        If the data hold gaps, or not even 1 % of the largest variance makes Cholesky succeed.
    """
    Y = np.asarray(readings, np.float64)
    if Y.ndim != 2 or Y.shape[0] < 2 or not np.isfinite(Y).all():
        raise ConfigError("An empirical covariance needs two or more rows of finite readings.")
    if not jitter > 0.0:
        raise ConfigError(f"jitter is {jitter}; it must be above 0.")
    if not 0.0 <= shrinkage <= 1.0:
        raise ConfigError(f"shrinkage is {shrinkage}; it can be 0 to 1.")
    centred = Y - Y.mean(axis=0)
    K = centred.T @ centred / (Y.shape[0] - 1)
    K = (1.0 - shrinkage) * (K + K.T) / 2 + shrinkage * np.diag(np.diag(K))
    return positive_definite(K, jitter)


def positive_definite(K: Array, jitter: float) -> Array:
    """Give K plus the smallest of `jitter`, 10 `jitter`, ... times I that Cholesky accepts."""
    largest = float(np.max(np.diag(K)))
    step = jitter
    while step <= max(0.01 * largest, jitter):
        lifted = K + step * np.eye(len(K))
        try:
            np.linalg.cholesky(lifted)
        except np.linalg.LinAlgError:
            step *= 10.0
        else:
            return lifted
    raise ConfigError(
        "These readings give no usable covariance: 1 % of their variance does not make it definite."
    )


def _matern_of_any(nu: float, r: Array) -> Array:
    try:
        from scipy.special import gammaln, kv
    except ImportError:
        raise MissingExtra(
            "scipy, which a Matérn kernel of this smoothness needs,", "science"
        ) from None
    s = math.sqrt(2.0 * nu) * np.maximum(r, 1e-12)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        K = np.exp((1.0 - nu) * math.log(2.0) - gammaln(nu) + nu * np.log(s)) * kv(nu, s)
    K[r < 1e-12] = 1.0
    return np.asarray(np.nan_to_num(K, nan=1.0, posinf=1.0))


def _places(X: ArrayLike) -> Array:
    places = np.asarray(X, np.float64)
    if places.ndim == 1:
        places = places[:, None]
    if places.ndim != 2 or not np.isfinite(places).all():
        raise ConfigError("Places must be an (M, d) array of finite numbers.")
    return places
