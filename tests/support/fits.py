"""Fits of temporal models that tests make once, although they run several equal policies."""

from functools import cache

import numpy as np

from edge_tvbo.models.likelihood import fit_temporal_model
from edge_tvbo.models.posteriors import regression_posterior


class Arguments:
    """The arguments of a fit, which are equal to others only to the last bit."""

    def __init__(self, start, K, times, y, noise_variance, restarts, rng):
        self.passed = start, K, times, y, noise_variance
        self.options = {"restarts": restarts, "rng": rng}
        arrays = (start.parameters, K, times, y, np.array([noise_variance]))
        seen = tuple((each.shape, each.tobytes()) for each in arrays)
        self.bits = type(start), seen, restarts, str(rng.bit_generator.state)

    def __eq__(self, other):
        return self.bits == other.bits

    def __hash__(self):
        return hash(self.bits)


@cache
def _fit(arguments):
    return fit_temporal_model(*arguments.passed, **arguments.options)


def remember_fits(patch):
    """Make policies that have read the same share their fit, which takes longer than all else.

    Equal arguments give equal fits: tests/models/test_likelihood.py. A copied or restored policy
    that differs in one bit of one reading still fits its own model.
    """

    def fit(start, K, times, y, noise_variance, *, restarts, rng):
        return _fit(Arguments(start, K, times, y.copy(), noise_variance, restarts, rng))

    patch.setattr(regression_posterior, "fit_temporal_model", fit)
