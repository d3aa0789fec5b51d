"""Optimal designs: no design that scipy finds is better, and extreme kernels and costs work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.naive import se

from edge_tvbo.models.optimal_design import TOLERANCE, information, optimal_design, response


def objective(kernel, p, cost, ridge):
    """Return ln det(Σ p φ φᵀ + λ I) - p·cost with features that are the rows of a factor."""
    factor = np.linalg.cholesky(kernel + 1e-10 * np.eye(len(p)))
    inner = factor.T @ np.diag(p) @ factor + ridge * np.eye(len(p))
    return np.linalg.slogdet(inner)[1] - p @ cost


@given(seed=st.integers(0, 2**32 - 1), M=st.integers(1, 6), ridge=st.sampled_from([0.01, 1.0]))
@max_examples(25)
def test_scipy_finds_no_better_design(seed, M, ridge):
    from scipy.optimize import minimize  # its import takes a quarter of a second

    rng = np.random.default_rng(seed)
    kernel = se(rng.uniform(0, 1, (M, 2)), rng.choice([0.1, 0.5, 2.0]))
    cost = rng.choice([0.0, 1.0, 30.0]) * rng.random(M)
    p = optimal_design(kernel, cost, ridge)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    found = minimize(
        lambda x: -objective(kernel, np.abs(x) / np.abs(x).sum(), cost, ridge),
        rng.dirichlet(np.ones(M)),
        bounds=[(1e-9, 1)] * M,
    )
    assert objective(kernel, p, cost, ridge) >= -found.fun - 2 * TOLERANCE


def test_response_and_information_are_those_of_the_features():
    kernel = se(np.random.default_rng(1).uniform(0, 1, (5, 2)), 0.3)
    p, ridge = np.array([0.4, 0.3, 0.3, 0.0, 0.0]), 0.05
    factor = np.linalg.cholesky(kernel)
    inner = factor.T @ np.diag(p) @ factor
    expected = factor @ np.linalg.inv(inner + ridge * np.eye(5)) @ factor.T
    np.testing.assert_allclose(response(kernel, p, ridge), expected, rtol=1e-8, atol=1e-8)
    log_det = np.linalg.slogdet(np.eye(5) + inner / ridge)[1]
    assert information(kernel, p, ridge) == pytest.approx(log_det / 2)


def test_unrelated_equal_arms_are_equally_probable_and_equal_arms_share():
    np.testing.assert_allclose(optimal_design(np.eye(4), np.zeros(4), 0.01), 0.25)
    np.testing.assert_allclose(optimal_design(np.ones((3, 3)), np.zeros(3), 0.01), 1 / 3)


def test_an_expensive_arm_is_left_out():
    p = optimal_design(np.eye(3), np.array([0.0, 1.0, 1e6]), 0.01)
    assert p[2] == 0.0
    assert p[0] > p[1] > 0.0
