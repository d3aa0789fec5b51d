"""Two-component posteriors against the textbook formula with the temporal kernels of [M24]."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.naive import NaivePosterior

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.posteriors.two_component import TwoComponentPosterior
from edge_tvbo.models.sigmoid import Sigmoid

RATES = st.floats(0.0, 0.99)


def momentum_kernel(epsilon, alpha):
    """[M24] lemma 8.2, eq. 8.9, and its limit for alpha = epsilon."""

    def d(s, t):
        k = abs(t - s)
        if alpha == epsilon:
            return epsilon**k * (1 + k * (1 - epsilon**2) / (1 + epsilon**2))
        fast, slow = (epsilon**2 - 1) * alpha ** (k + 1), (1 - alpha**2) * epsilon ** (k + 1)
        return (fast + slow) / ((epsilon - alpha) * (epsilon * alpha + 1))

    return d


def sigmoid_kernel(tau, rho):
    """[M24] section 9.2: d(t, t') = 2 s(t) s(t') - s(t) - s(t') + 1."""

    def share(t):
        return 1 / (1 + np.exp((tau - t) / rho))

    return lambda s, t: 2 * share(s) * share(t) - share(s) - share(t) + 1


def field_of(M, seed):
    places = np.random.default_rng(seed).uniform(0, 1, (M, 2))
    squared = ((places[:, None] - places) ** 2).sum(axis=2)
    return SensorField([f"s{i}" for i in range(M)], np.exp(-squared / 0.08), noise_variance=0.05)


def assert_equals_twin(model, d, seed, length, M=6):
    field = field_of(M, seed)
    posterior = TwoComponentPosterior(field, model.transition())
    twin = NaivePosterior(field.kernel, field.noise_variance, d)
    rng = np.random.default_rng(seed)
    for _ in range(length):
        match rng.choice(["observe", "advance", "reset"], p=[0.6, 0.39, 0.01]):
            case "observe":
                arm, y = int(rng.integers(M)), float(rng.normal())
                posterior.observe(arm, y)
                twin.observe(arm, y)
            case "advance":
                posterior.advance()
                twin.advance()
            case "reset":
                posterior.reset()
                twin.reset()
    (mean, std), (expected, spread) = posterior.mean_std(), twin.mean_std()
    np.testing.assert_allclose(mean, expected, atol=1e-9)
    np.testing.assert_allclose(std**2, spread**2, atol=1e-9)
    np.testing.assert_array_equal(posterior._C, posterior._C.T)


@given(RATES, RATES, st.integers(0, 2**32), st.integers(0, 150))
def test_momentum_posterior_equals_formula_with_eq_8_9(one, other, seed, length):
    alpha, epsilon = sorted((round(one, 2), round(other, 2)))
    assert_equals_twin(Momentum(epsilon, alpha), momentum_kernel(epsilon, alpha), seed, length)


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.99])
def test_momentum_with_equal_rates_is_no_special_case(rate):
    assert_equals_twin(Momentum(rate, rate), momentum_kernel(rate, rate), seed=1, length=120)


def test_nearly_equal_rates_are_as_exact_as_equal_ones():
    near, equal = Momentum(0.9, 0.9 - 1e-12).transition(), Momentum(0.9, 0.9).transition()

    np.testing.assert_allclose(near.innovation, equal.innovation, rtol=1e-9)
    np.testing.assert_allclose(near.prior, equal.prior, rtol=1e-9)


@given(st.floats(-50, 150), st.floats(0.5, 50), st.integers(0, 2**32), st.integers(0, 150))
def test_sigmoid_posterior_equals_formula_with_its_kernel(tau, rho, seed, length):
    assert_equals_twin(Sigmoid(tau, rho), sigmoid_kernel(tau, rho), seed, length)


def test_prior_variance_of_momentum_is_stationary():
    field = field_of(4, seed=0)
    posterior = TwoComponentPosterior(field, Momentum(0.97, 0.9).transition())
    for _ in range(10_000):
        posterior.advance()

    np.testing.assert_allclose(posterior.variance, np.diag(field.kernel), rtol=1e-9)
