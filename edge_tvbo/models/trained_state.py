"""Trained state: the state of a structural model after its training rows."""

import msgspec
import numpy as np

from edge_tvbo.numerics.types import Array

ROUNDING = 1e-6  # the share of variance that factors explain may exceed 1 by this much


class LowRankState(msgspec.Struct, frozen=True, eq=False):
    """Covariances of n components for each of very many sensors, in terms of R factors.

    `models.posteriors.low_rank_covariance` explains the factors.

    Parameters
    ----------
    factors : (R, M) array
        Weight of each factor for each sensor. The first factor has the weight 1 for each sensor.
    factor_covariance : (n R, n R) array
        Covariance of the factors' components. Component k of factor r has the index k R + r.
    cross : (M, n, n) array
        Covariances between each sensor's components and the parts of these components that the
        factors explain.
    covariance : (M, n, n) array
        Covariances of each sensor's components.
    """

    factors: Array
    factor_covariance: Array
    cross: Array
    covariance: Array

    def arrays(self) -> tuple[Array, ...]:
        """Return all arrays of the low-rank state, in the order of the attributes."""
        return (self.factors, self.factor_covariance, self.cross, self.covariance)

    def matches(self, components: int, sensors: int) -> bool:
        """Return whether the arrays of the low-rank state have the right shapes."""
        R = len(self.factors)
        own = (sensors, components, components)
        shapes = ((R, sensors), (components * R, components * R), own, own)
        return R > 0 and tuple(array.shape for array in self.arrays()) == shapes

    def is_possible(self) -> bool:
        """Return whether the low-rank factors and covariances are possible, up to rounding."""
        possible = are_factors(self.factors) and _are_covariances(self.factor_covariance)
        return possible and _are_covariances(self.covariance)


class TrainedState(msgspec.Struct, frozen=True, eq=False):
    """The state of a structural model of n components and M sensors, after its training rows.

    Parameters
    ----------
    end : float
        Time at which the interval after the last training row would begin, in s since 1970, UTC.
    mean : (n, M) array
        Mean of the state.
    covariances : (M, n, n) array or LowRankState
        Covariances of the components along each eigenvector of the correlation. The first
        eigenvector has the smallest eigenvalue. A `LowRankState`, for very many sensors, does not
        need the eigenvectors, which would take long to compute.
    """

    end: float
    mean: Array
    covariances: Array | LowRankState

    def arrays(self) -> tuple[Array, ...]:
        """Return all arrays of the trained state."""
        both = self.covariances
        return (self.mean, *(both.arrays() if isinstance(both, LowRankState) else (both,)))

    def matches(self, components: int, sensors: int) -> bool:
        """Return whether the arrays of the trained state have the right shapes."""
        both = self.covariances
        if self.mean.shape != (components, sensors):
            return False
        if isinstance(both, LowRankState):
            return both.matches(components, sensors)
        return both.shape == (sensors, components, components)

    def is_possible(self) -> bool:
        """Return whether the trained state's matrices are covariances, up to rounding errors."""
        both = self.covariances
        return both.is_possible() if isinstance(both, LowRankState) else _are_covariances(both)


def are_factors(factors: Array) -> bool:
    """Return False if low-rank factors explain more than the whole variance of a sensor.

    The result is also False if the first factor has another weight than 1 for a sensor.
    """
    explained = (factors[1:] ** 2).sum(axis=0)
    return bool((factors[0] == 1.0).all() and (explained <= 1.0 + ROUNDING).all())


def _are_covariances(matrices: Array) -> bool:
    """Return whether matrices (..., n, n) of a structural model are covariances, up to rounding."""
    if not np.allclose(matrices, np.swapaxes(matrices, -1, -2), rtol=1e-6, atol=1e-12):
        return False
    lowest = np.linalg.eigvalsh(matrices)[..., 0]
    return bool((lowest >= -1e-6 * np.abs(matrices).max(initial=1e-300)).all())
