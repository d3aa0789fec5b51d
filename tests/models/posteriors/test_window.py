"""Sliding-window posterior: rounding errors of readings that have left the window."""

import numpy as np
from support.naive import se

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.window import WindowPosterior
from edge_tvbo.models.temporal_models import Static, TimeVarying

K = se(np.linspace(0.0, 1.0, 5)[:, None], 0.2)


def window(noise_variance, scale=1.0, transition=Static().transition()):
    field = SensorField(tuple("abcde"), scale**2 * K, scale**2 * noise_variance)
    return WindowPosterior(field, transition, 8)


def test_the_unit_of_the_readings_makes_no_difference():
    """In a small unit, every reading was taken for a huge one, and each drop cost O(W³)."""
    unit = 2.0**40  # a power of 2 changes no rounding
    transition = TimeVarying(0.03).transition()
    usual, scaled = window(0.01, 1.0, transition), window(0.01, unit, transition)
    rng = np.random.default_rng(0)
    for _ in range(30):
        arm, y = int(rng.integers(5)), float(rng.normal())
        usual.observe(arm, y)
        scaled.observe(arm, unit * y)
        usual.advance()
        scaled.advance()
        np.testing.assert_array_equal(scaled.mean, unit * usual.mean)
        np.testing.assert_array_equal(scaled.variance, unit**2 * usual.variance)


def test_a_huge_reading_leaves_no_error_if_the_noise_is_low():
    """With low noise, the factor has numbers that are a hundred thousand times as large."""
    posterior, restored = window(1e-10), window(1e-10)
    for huge in (1e5, 1e6, 1e7, 1e8):
        for t in range(20):
            posterior.observe(t % 2, huge if t == 4 else 0.0)
            restored.restore(posterior.snapshot())
        np.testing.assert_allclose(posterior.mean, 0.0, atol=1e-9)
