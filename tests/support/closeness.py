"""Comparison of arrays in loops, in a tenth of the time of ``numpy.testing.assert_allclose``."""

import numpy as np


def assert_close(actual, expected, rtol=1e-7, atol=0.0):
    """Check as `assert_allclose`, which explains the difference if there is one."""
    if actual.shape != expected.shape or not _is_close(actual, expected, rtol, atol):
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def _is_close(actual, expected, rtol, atol):
    return bool((abs(actual - expected) <= atol + rtol * abs(expected)).all())
