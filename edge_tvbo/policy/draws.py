"""Random numbers for policies; a seed and a counter determine each number."""

import numpy as np

from edge_tvbo.numerics.acquisition import draw
from edge_tvbo.numerics.types import Array

DRAW_RESOLUTION = 2**53  # number of different values of a uniform draw


def uniform(seed: int, counter: int) -> float:
    """Return a uniform random number, at least 0 and below 1, for a policy's random choice.

    Equal pairs of `seed` and `counter` give equal numbers. The numbers of different counters are
    independent.

    >>> 0.0 <= uniform(7, 1) == uniform(7, 1) < 1.0, uniform(7, 1) == uniform(7, 2)
    (True, False)
    """
    return draw(seed, counter, DRAW_RESOLUTION) / DRAW_RESOLUTION


def index_at(weights: Array, u: float) -> int:
    """Return a random index, chosen with probabilities in proportion to the `weights`.

    The random number `u` determines the choice: `u` is uniform, at least 0 and below the sum of the
    weights.

    >>> [index_at(np.array([0.2, 0.0, 0.8]), u) for u in (0.1, 0.2, 0.9)]
    [0, 2, 2]
    """
    return min(int(np.searchsorted(np.cumsum(weights), u, side="right")), len(weights) - 1)


def index_of_highest(values: Array, seed: int, counter: int) -> int:
    """Return the index of the highest of the `values`; a random draw breaks ties."""
    highest = np.flatnonzero(values == values.max())
    return int(highest[draw(seed, counter, len(highest))])
