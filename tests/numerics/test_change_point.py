"""The change-point kernel is the likelihood ratio of two means to one, computed plainly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.numerics.change_point import largest_log_ratio


def log_likelihood(y, variance):
    """Return the log-likelihood of readings around their own mean, without its constant."""
    return -((y - y.mean()) ** 2).sum() / (2 * variance)


def naive_log_ratio(y, variance):
    one = log_likelihood(y, variance)
    two = [
        log_likelihood(y[:s], variance) + log_likelihood(y[s:], variance) for s in range(1, len(y))
    ]
    return max(two) - one


@given(
    readings=st.lists(st.floats(-100, 100), min_size=2, max_size=40), variance=st.floats(0.1, 10)
)
def test_it_is_the_log_ratio_of_the_best_change_to_no_change(readings, variance):
    y = np.array(readings)
    padded = np.append(y, 1e9)  # the kernel must not read beyond n
    np.testing.assert_allclose(
        largest_log_ratio(padded, len(y)) / variance,
        naive_log_ratio(y, variance),
        rtol=1e-7,
        atol=1e-6,
    )


def test_less_than_two_readings_show_no_change():
    y = np.array([5.0, 7.0])
    assert largest_log_ratio(y, 0) == largest_log_ratio(y, 1) == 0.0
    assert largest_log_ratio(y, 2) == 1.0  # 1 · 1 / (2 · 2) · 2²
