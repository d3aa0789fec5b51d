"""Problems whose fields are drawn from the models of the papers, on a grid of 10 x 10 places.

The prior is a squared exponential with the length scale 0.2 on [0, 1]², and the noise variance is
0.01, as in [B16] section 5. `research.random_fields` draws the fields.
"""

from collections.abc import Callable
from functools import cache
from math import inf

import numpy as np

from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.research import random_fields
from edge_tvbo.research.problems import GridTruth

SIDE, HORIZON, NOISE_VARIANCE = 10, 200, 0.01
SLOW, FAST = 0.01, 0.05  # ε of the TV model
INJECTED = 0.01  # σ_w², variance that each interval adds
MOMENTUM = (0.99, 0.98)  # ε and α, as in E10
PIECES = 3  # number of different fields in the problem "abrupt"

Law = Callable[[Array], Array]  # maps draws from the prior, (T + 1, M), to values, (T, M)


class SampledField:
    """A problem on a grid, whose fields are computed from independent draws of the prior.

    Parameters
    ----------
    law : function
        Maps T + 1 draws from the prior to the values in T intervals.
    """

    horizon = HORIZON
    noise_variance = NOISE_VARIANCE

    def __init__(self, law: Law) -> None:
        self.field = _grid()
        self._law = law

    def truth(self, generator: np.random.Generator) -> GridTruth:
        """Return the true values of one run, which `law` computes from random draws."""
        return GridTruth(self._law(random_fields.draws(_factor(), self.horizon + 1, generator)))


@cache
def _grid() -> SensorField:
    return grid(SIDE, SpatialKernel(inf, 0.2), NOISE_VARIANCE)


@cache
def _factor() -> Array:
    return random_fields.factor(_grid().kernel)


def static() -> SampledField:
    """Return the problem of a sampled field that does not change with time."""
    return SampledField(lambda g: np.repeat(g[:1], len(g) - 1, axis=0))


def tv_slow() -> SampledField:
    """Return the problem of a sampled field that changes slowly: the TV model with ε = 0.01."""
    return SampledField(lambda g: random_fields.drifting(g[1:], SLOW))


def tv_fast() -> SampledField:
    """Return the problem of a sampled field that changes fast: the TV model with ε = 0.05."""
    return SampledField(lambda g: random_fields.drifting(g[1:], FAST))


def injection() -> SampledField:
    """Return the problem of a sampled field whose variance grows by 0.01 in each interval.

    The field is a random walk.
    """

    def walk(g: Array) -> Array:
        return np.asarray(g[0] + np.sqrt(INJECTED) * np.cumsum(g[1:], axis=0))

    return SampledField(walk)


def momentum() -> SampledField:
    """Return the problem of a sampled field that changes with momentum (the MTV model)."""
    return SampledField(lambda g: random_fields.with_momentum(g, *MOMENTUM))


def transition() -> SampledField:
    """Return the problem of a sampled field that turns into another field (the TTV model)."""

    def turn(g: Array) -> Array:
        T = len(g) - 1
        return random_fields.turning(g, T, T / 2, T / 10)

    return SampledField(turn)


def abrupt() -> SampledField:
    """Return the problem of a sampled field that is replaced after each third of a run."""
    return SampledField(lambda g: g[np.arange(len(g) - 1) * PIECES // (len(g) - 1)])
