"""Inverse-gamma distribution of waiting times, fitted by scipy."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module


class InverseGamma(NamedTuple):
    """An inverse-gamma distribution fitted to counts of waiting times."""

    shape: float
    scale: float
    is_better_than_gamma: bool  # whether a gamma distribution has a lower likelihood

    def density(self, times: ArrayLike) -> Array:
        """Return the probability density of the inverse gamma at `times`."""
        from scipy.stats import invgamma

        return np.asarray(invgamma.pdf(times, self.shape, scale=self.scale))


def fit_inverse_gamma(counts: Array) -> InverseGamma:
    """Return the inverse-gamma distribution that fits counted waiting times best.

    `counts` states how often the waiting times 0, 1, ... occurred. At least two different
    waiting times must have occurred, and the waiting time 0 must not have occurred. The fit has
    the maximum likelihood. A gamma distribution is also fitted, and the likelihoods of both
    distributions are compared.

    Raises
    ------
    MissingExtra
        If scipy is not installed.
    """
    stats = optional_module("scipy.stats", "scipy, which fits distributions,", "science")
    gamma, invgamma = stats.gamma, stats.invgamma
    times = np.repeat(np.arange(len(counts), dtype=np.float64), counts.astype(np.int64))
    shape, _, inverse_scale = gamma.fit(
        1.0 / times, floc=0.0
    )  # if t is inverse gamma, 1/t is gamma
    inverse = invgamma.logpdf(times, shape, scale=1.0 / inverse_scale).mean()
    direct_shape, _, direct_scale = gamma.fit(times, floc=0.0)
    direct = gamma.logpdf(times, direct_shape, scale=direct_scale).mean()
    return InverseGamma(float(shape), float(1.0 / inverse_scale), bool(inverse > direct))
