"""Spatial kernels: the covariance between places, from positions or from training data.

The kernels `squared_exponential`, `matern` and `exchangeable` have variance 1. The formulas are
from Rasmussen & Williams, *Gaussian Processes for Machine Learning*, chapter 4.
"""

import math

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.parameter_checks import check_positive, check_range
from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module

MAX_MATERN_NU = 100.0  # smoothness above which the squared exponential is used
MIN_NUMBER, MAX_NUMBER = 1e-50, 1e50  # range of scales and variances; their squares are finite
MIN_PAIRWISE_DIMENSIONS = 8  # if a row has 8 numbers or more, numpy adds the numbers in pairs
ALLOWED_RANGE = f"{MIN_NUMBER:g} to {MAX_NUMBER:g}"


class SpatialKernel(msgspec.Struct, frozen=True):
    """A stationary covariance function of places: a Matérn or squared exponential kernel.

    Parameters
    ----------
    nu : float
        Smoothness of the Matérn kernel, > 0. If it is above 100, or infinite, the squared
        exponential kernel is used.
    length_scale : float or tuple of float
        Length scale in the unit of the places, > 0: one number, or one number per dimension.
    variance : float
        Variance of the field at any place, in model units², > 0.

    Examples
    --------
    >>> SpatialKernel(math.inf, 0.2)([[0.0], [0.2]], [[0.0]]).round(3).tolist()
    [[1.0], [0.607]]
    """

    nu: float = math.inf
    length_scale: float | tuple[float, ...] = 1.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        check_positive(variance=self.variance)

    def __call__(self, A: ArrayLike, B: ArrayLike) -> Array:
        """Return the spatial covariance (a, b) of places A (a, d) and B (b, d), in model units²."""
        return self.variance * matern(A, self.length_scale, self.nu, others=B)


def squared_exponential(X: ArrayLike, length_scale: ArrayLike) -> Array:
    r"""Return the squared exponential kernel of all pairs of places, (M, M).

    .. math:: k = \exp(-r^2 / 2)

    The arguments are those of `distances`, which computes r.
    """
    return np.asarray(np.exp(-0.5 * distances(X, length_scale) ** 2))


def matern(
    X: ArrayLike, length_scale: ArrayLike, nu: float, *, others: ArrayLike | None = None
) -> Array:
    r"""Return the Matérn kernel of all pairs of places.

    .. math:: k = \frac{2^{1-ν}}{Γ(ν)} \left( \sqrt{2ν} \, r \right)^ν K_ν(\sqrt{2ν} \, r)

    `distances` computes r.

    Parameters
    ----------
    X, length_scale, others
        As for `distances`.
    nu : float
        Smoothness, > 0. For ½, 3/2 and 5/2 there are closed forms. Above 100 the squared
        exponential is used, which differs from the Matérn kernel by less than 0.01. For any other
        value, scipy's Bessel function K_ν is used.

    Returns
    -------
    (M, N) array
        Covariances, at most 1.

    Raises
    ------
    ConfigError
        If `nu` is not above 0, or an argument of `distances` is out of range.
    MissingExtra
        If `nu` has no closed form and scipy is not installed.

    References
    ----------
    Rasmussen & Williams eq. 4.14 and 4.16-4.17.
    """
    return matern_of_distances(distances(X, length_scale, others=others), nu)


def matern_of_distances(r: Array, nu: float) -> Array:
    """Return the kernel that `matern` describes, for the distances `r` in length scales."""
    if nu == 0.5:
        return np.asarray(np.exp(-r))
    if nu == 1.5:
        s = math.sqrt(3.0) * r
        return np.asarray((1.0 + s) * np.exp(-s))
    if nu == 2.5:
        s = math.sqrt(5.0) * r
        return np.asarray((1.0 + s + s * s / 3.0) * np.exp(-s))
    if not nu > 0:
        raise ConfigError(f"nu is {nu}; the smoothness of a Matérn kernel must be above 0.")
    if nu > MAX_MATERN_NU:
        return np.asarray(np.exp(-0.5 * r**2))
    return _matern_by_bessel(nu, r)


def linear(X: ArrayLike) -> Array:
    """Return the linear kernel of all pairs of places, (M, M): their scalar products.

    The kernel is scaled so that the largest variance is 1. Raises `ConfigError` if all places are
    the origin.
    """
    X = _checked_places(X)
    K = X @ X.T
    largest = float(np.max(np.diag(K), initial=0.0))
    if largest == 0.0:
        raise ConfigError("A linear kernel needs at least one place that is not the origin.")
    return np.asarray(K / largest)


def exchangeable(M: int, correlation: float) -> Array:
    """Return the exchangeable kernel (M, M): all pairs of M sensors have the same correlation.

    Each sensor has variance 1. No positions are needed. Raises `ConfigError` unless `correlation`
    is 0 or more and below 1.

    >>> exchangeable(2, 0.5).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    if not 0.0 <= correlation < 1.0:
        raise ConfigError(f"correlation is {correlation}; allowed: at least 0, below 1.")
    return np.asarray(correlation + (1.0 - correlation) * np.eye(M))


def distances(X: ArrayLike, length_scale: ArrayLike, *, others: ArrayLike | None = None) -> Array:
    """Return the distances of all pairs of places, in length scales.

    Parameters
    ----------
    X : (M, d) or (M,) array
        Places, in any unit of length.
    length_scale : float or (d,) array
        Length scale in the same unit, > 0: one number, or one number per dimension.
    others : (N, d) array
        Second place of each pair; by default, the places of `X`.

    Returns
    -------
    (M, N) array
        Distances. Without `others` the matrix is symmetric to the last bit, and its diagonal is 0.

    Notes
    -----
    In few dimensions, this function adds whole matrices, one for each dimension. The result is
    equal to numpy's sums over rows, and takes a fraction of their time. In
    `MIN_PAIRWISE_DIMENSIONS` dimensions or more, the two results would differ in the last bit,
    because numpy adds long rows in pairs. This function then uses numpy's sums over rows.

    Raises
    ------
    ConfigError
        If a place is not finite, or a length scale is not above 0. Also if the numbers of
        dimensions differ.
    """
    X = _checked_places(X)
    Y = X if others is None else _checked_places(others)
    scale = np.asarray(length_scale, np.float64)
    if not all(0.0 < each < math.inf for each in scale.flat):
        raise ConfigError(f"length_scale is {scale}; it must be finite and above 0.")
    _check_dimensions(X.shape[1], Y.shape[1], scale.size)
    if X.shape[1] >= MIN_PAIRWISE_DIMENSIONS:
        return np.asarray(np.sqrt(np.sum(((X[:, None, :] - Y) / scale) ** 2, axis=2)))
    squares = np.ascontiguousarray(X.T)[:, :, None] - np.ascontiguousarray(Y.T)[:, None, :]
    squares /= scale.reshape(-1, 1, 1)
    squares *= squares
    return np.asarray(np.sqrt(np.add.reduce(squares, axis=0)))


def empirical_covariance(
    readings: ArrayLike, *, shrinkage: float = 0.0, jitter: float = 1e-6
) -> Array:
    """Return a spatial kernel: the empirical covariance of training data, made positive definite.

    Parameters
    ----------
    readings : (T, M) array
        Readings of M sensors in T intervals, in model units, without gaps; T is at least 2. The
        mean of each sensor is subtracted.
    shrinkage : float
        Share, 0 to 1, by which each correlation is moved towards 0. The variances do not change.
    jitter : float
        Variance added to the diagonal, in model units², > 0. This variance is multiplied by 10
        until the Cholesky factorisation succeeds.

    Returns
    -------
    (M, M) array
        Covariance in model units².

    Raises
    ------
    ConfigError
        If the data have gaps, or if the matrix is not positive definite even with 1 % of the
        largest variance added.

    References
    ----------
    [B16] section 5 and [ET] section 6 use this covariance as the kernel.
    """
    Y = np.asarray(readings, np.float64)
    if Y.ndim != 2 or Y.shape[0] < 2 or not np.isfinite(Y).all():
        raise ConfigError("An empirical covariance needs two or more rows of finite readings.")
    check_positive(jitter=jitter)
    check_range(0, 1, shrinkage=shrinkage)
    centred = Y - Y.mean(axis=0)
    K = centred.T @ centred / (Y.shape[0] - 1)
    K = (1.0 - shrinkage) * (K + K.T) / 2 + shrinkage * np.diag(np.diag(K))
    return positive_definite(K, jitter)


def positive_definite(K: Array, jitter: float) -> Array:
    """Return the spatial covariance K with just enough diagonal jitter to be positive definite.

    The variances `jitter`, 10 `jitter`, ... are tried, up to 1 % of the largest variance, until the
    Cholesky factorisation succeeds. Raises `ConfigError` if no variance is sufficient.
    """
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
        "The covariance of these readings is not positive definite, even with 1 % of the largest "
        "variance added to its diagonal; more training data may help."
    )


def _matern_by_bessel(nu: float, r: Array) -> Array:
    what = "scipy, which a Matérn kernel of this smoothness needs,"
    special = optional_module("scipy.special", what, "science")
    gammaln, kv = special.gammaln, special.kv
    s = math.sqrt(2.0 * nu) * np.maximum(r, 1e-12)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        bessel = kv(nu, s)
        K = np.exp((1.0 - nu) * math.log(2.0) - gammaln(nu) + nu * np.log(s)) * bessel
    K[bessel == 0.0] = 0.0  # far places, where the power of s can be infinite
    K[r < 1e-12] = 1.0
    return np.asarray(np.nan_to_num(K, nan=1.0, posinf=1.0))


def _check_dimensions(d: int, others: int, scales: int) -> None:
    """Raise `ConfigError` unless places, other places and length scales agree in dimension.

    Without this check, numpy would repeat the single coordinate of one array for each coordinate of
    the other array.
    """
    if d != others:
        raise ConfigError(
            f"Some places have {d} coordinates, and others {others}; the numbers must be equal."
        )
    if scales not in (1, d):
        raise ConfigError(
            f"length_scale has {scales} numbers; it can be one number, or one number for each of "
            f"the {d} dimensions of the places."
        )


def _checked_places(X: ArrayLike) -> Array:
    places = np.asarray(X, np.float64)
    if places.ndim == 1:
        places = places[:, None]
    if places.ndim != 2 or not np.isfinite(places).all():
        raise ConfigError("Places must be an (M, d) array of finite numbers.")
    return places
