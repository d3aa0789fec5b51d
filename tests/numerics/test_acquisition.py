"""Kernels of the acquisition, compared with numpy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edge_tvbo.numerics.acquisition import runner_up, standard_deviations

LEVELS = st.sampled_from([-1.5, 0.0, 0.25, 2.0])  # few, so that there are ties
VARIANCES = st.floats(0.0, 1e6)


@given(data=st.data(), M=st.integers(1, 6), width=st.sampled_from([0.0, 0.5, 3.0]))
def test_runner_up_is_the_first_with_the_highest_bound_among_the_other_eligible_arms(
    data, M, width
):
    mean, std = (data.draw(arrays(np.float64, M, elements=LEVELS)) for _ in range(2))
    eligible = data.draw(arrays(np.bool_, M))
    selected = data.draw(st.integers(0, M - 1))
    bounds = np.where(eligible, mean + width * std, -np.inf)
    bounds[selected] = -np.inf
    expected = -1 if np.isinf(bounds).all() else bounds.argmax()
    assert runner_up(mean, std, width, eligible, selected) == expected


@given(covariance=arrays(np.float64, (5, 5), elements=VARIANCES))
def test_standard_deviations_of_a_diagonal_are_those_of_numpy_to_the_last_bit(covariance):
    variance, std = covariance.reshape(-1)[::6], np.empty(5)
    standard_deviations(variance, std)
    assert (std == np.sqrt(variance)).all()
