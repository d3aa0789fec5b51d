"""Comparison of arrays in loops, in a tenth of the time of ``numpy.testing.assert_allclose``."""

import numpy as np


def assert_close(actual, expected, rtol=1e-7, atol=0.0):
    """Check arrays of floats as `assert_allclose` does, which explains a difference."""
    if actual.shape != expected.shape or not _is_close(actual, expected, rtol, atol):
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def _is_close(actual, expected, rtol, atol):
    difference = abs(actual - expected)
    is_close = difference <= atol + rtol * abs(expected)
    return bool((is_close & (difference < np.inf)).all())  # inf <= inf, if inf is expected
