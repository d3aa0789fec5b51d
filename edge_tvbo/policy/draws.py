"""Random draws of policies: uniform numbers, which a seed and a counter determine."""

from edge_tvbo.numerics.acquisition import draw

DRAW_RESOLUTION = 2**53  # number of different values of a uniform draw


def uniform(seed: int, counter: int) -> float:
    """Return a uniform random number, at least 0 and below 1, for a random choice of a policy.

    Equal pairs of `seed` and `counter` give equal numbers. The numbers of different counters are
    independent.

    >>> 0.0 <= uniform(7, 1) == uniform(7, 1) < 1.0, uniform(7, 1) == uniform(7, 2)
    (True, False)
    """
    return draw(seed, counter, DRAW_RESOLUTION) / DRAW_RESOLUTION
