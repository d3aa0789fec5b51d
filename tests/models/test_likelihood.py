"""Marginal likelihood of temporal models: its value, its gradient, and the fit."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.likelihood import fit_temporal_model, log_likelihood
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.sigmoid import Sigmoid
from edge_tvbo.models.spatial_kernels import squared_exponential
from edge_tvbo.models.temporal_models import TimeVarying

NOISE = 0.05
STARTS = [TimeVarying(0.1), Momentum(0.9, 0.5), Sigmoid(10.0, 3.0)]

TIME_VARYING = st.floats(0.01, 0.9).map(TimeVarying)
MOMENTUM = st.builds(
    lambda epsilon, apart: Momentum(epsilon, epsilon * (1 - apart)),
    st.floats(0.05, 0.95),
    st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-15, 1e-9, 1e-5])),
)
SIGMOID = st.builds(Sigmoid, st.floats(-10, 30), st.floats(0.5, 20))
FITTABLE = st.one_of(TIME_VARYING, MOMENTUM, SIGMOID)


def observed(n, seed, arms=8, per_interval=1):
    """Return K of n readings of random arms, one row each, and their times."""
    rng = np.random.default_rng(seed)
    K = squared_exponential(rng.uniform(0, 1, (arms, 2)), 0.3)
    chosen = rng.integers(arms, size=n)
    return K[np.ix_(chosen, chosen)], np.floor(np.arange(n) / per_interval)


def simulated(model, n, seed, arms=8):
    """Return (K, times, y) of a field drawn from a temporal model."""
    K, times = observed(n, seed, arms)
    covariance = K * model.kernel(times, times) + NOISE * np.eye(n)
    y = np.linalg.cholesky(covariance) @ np.random.default_rng([seed, 1]).normal(size=n)
    return K, times, y


def unrelated(n, seed):
    """Return (K, times, y) of independent readings."""
    return (*observed(n, seed), np.random.default_rng([seed, 2]).normal(size=n))


# --- the likelihood -----------------------------------------------------------------------------


@given(FITTABLE, st.integers(1, 25), st.integers(0, 2**32), st.floats(0.01, 3), st.integers(1, 3))
def test_likelihood_equals_the_normal_density(model, n, seed, noise, per_interval):
    from scipy.stats import multivariate_normal  # its import takes half a second

    K, times = observed(n, seed, per_interval=per_interval)
    y = np.random.default_rng(seed).normal(size=n)
    covariance = K * model.kernel(times, times) + noise * np.eye(n)

    value, _ = log_likelihood(model, K, times, y, noise)

    assert value == pytest.approx(multivariate_normal.logpdf(y, cov=covariance), rel=1e-9, abs=1e-9)


@given(FITTABLE, st.integers(1, 20), st.integers(0, 2**32))
def test_gradient_is_the_difference_of_values(model, n, seed):
    K, times, y = unrelated(n, seed)
    _, gradient = log_likelihood(model, K, times, y, NOISE)

    for p, step in enumerate(inward_steps(model)):

        def along(distance, p=p, step=step):
            moved = model.parameters + distance * step * np.eye(len(model.parameters))[p]
            return log_likelihood(model.with_parameters(moved), K, times, y, NOISE)[0]

        slope = (-3 * along(0) + 4 * along(1) - along(2)) / (2 * step)
        assert gradient[p] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def inward_steps(model):
    """Return a step of each parameter that keeps alpha <= epsilon."""
    match model:
        case Momentum(epsilon, alpha):
            return [1e-6, 1e-6 if epsilon - alpha > alpha else -1e-6]
        case _:
            return [1e-6] * len(model.parameters)


@given(MOMENTUM, st.integers(2, 20), st.integers(0, 2**32))
def test_gradient_equals_the_textbook_trace(model, n, seed):
    K, times, y = unrelated(n, seed)
    inverse = np.linalg.inv(K * model.kernel(times, times) + NOISE * np.eye(n))
    weights = inverse @ y
    inner = np.outer(weights, weights) - inverse
    expected = [0.5 * np.trace(inner @ (K * dD)) for dD in model.kernel_gradient(times, times)]

    _, gradient = log_likelihood(model, K, times, y, NOISE)

    np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-8)


def test_arguments_are_not_modified():
    K, times, y = unrelated(10, seed=0)
    before = K.copy(), times.copy(), y.copy()
    log_likelihood(STARTS[0], K, times, y, NOISE)
    fit_temporal_model(STARTS[0], K, times, y, NOISE, restarts=1, rng=np.random.default_rng(0))

    for now, then in zip((K, times, y), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_an_invalid_covariance_has_likelihood_0():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    value, gradient = log_likelihood(TimeVarying(0.0), K, np.arange(2.0), np.ones(2), 0.1)

    assert value == -np.inf
    np.testing.assert_array_equal(gradient, [0.0])


# --- the fit ------------------------------------------------------------------------------------


def fit(start, data, restarts=0, seed=0):
    """Fit a model to (K, times, y)."""
    rng = np.random.default_rng(seed)
    return fit_temporal_model(start, *data, NOISE, restarts=restarts, rng=rng)


def likelihood(model, data):
    return log_likelihood(model, *data, NOISE)[0]


@max_examples(60)
@given(FITTABLE, st.integers(0, 15), st.integers(0, 2**32), st.integers(0, 2))
def test_a_fit_is_never_less_likely_than_its_start(start, n, seed, restarts):
    data = unrelated(n, seed)
    model = fit(start, data, restarts=restarts, seed=seed)

    assert likelihood(model, data) >= likelihood(start, data)
    assert type(model) is type(start)


def test_a_start_at_a_bound_is_left_if_the_data_say_so():
    data = simulated(TimeVarying(0.1), 60, seed=3)
    for start in (TimeVarying(0.0), TimeVarying(1.0), Momentum(0.0, 0.0)):
        model = fit(start, data, restarts=2)

        assert likelihood(model, data) > likelihood(start, data) + 1


def test_a_start_outside_the_bounds_can_stay_the_best():
    data = np.ones((30, 30)), np.arange(30.0), np.ones(30)
    start = TimeVarying(0.0)  # a constant is most likely under a field that never changes

    assert fit(start, data, restarts=2) == start


def test_epsilon_is_recovered_within_a_factor_of_two():
    for truth in (0.01, 0.1):
        fits = [
            fit(TimeVarying(0.5), simulated(TimeVarying(truth), 300, seed), seed=seed).epsilon
            for seed in range(6)
        ]
        assert truth / 2 < np.exp(np.mean(np.log(fits))) < truth * 2


def test_momentum_and_its_absence_are_recovered():
    rng = np.random.default_rng(0)
    start = Momentum(0.5, 0.1)

    def mean_fit(truth):
        data = [simulated(truth, 200, seed) for seed in range(4)]
        fits = [fit_temporal_model(start, *each, NOISE, restarts=1, rng=rng) for each in data]
        return np.mean([model.parameters for model in fits], axis=0)

    np.testing.assert_allclose(mean_fit(Momentum(0.97, 0.9)), [0.97, 0.9], atol=0.06)
    assert mean_fit(Momentum(0.97, 0.0))[1] < 0.6


def test_restarts_find_a_distant_transition():
    data = simulated(Sigmoid(70.0, 4.0), 120, seed=1)
    model = fit(Sigmoid(5.0, 1.0), data, restarts=5)

    assert model.tau == pytest.approx(70.0, abs=8.0)
    assert 1.0 < model.rho < 16.0


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_no_neighbour_of_a_fit_is_more_likely(start):
    data = simulated(start, 60, seed=5)
    model = fit(start, data, restarts=2)
    best = likelihood(model, data)
    corners = [model.with_parameters(corner).coordinates() for corner in model.bounds(59.0).T]
    low, high = np.minimum(*corners), np.maximum(*corners)

    for nudge in np.random.default_rng(1).normal(size=(50, len(low))) * 0.02 * (high - low):
        neighbour = model.at_coordinates(np.clip(model.coordinates() + nudge, low, high))
        assert likelihood(neighbour, data) < best + 1e-2


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_equal_seeds_give_equal_fits_and_restarts_never_hurt(start):
    data = unrelated(25, seed=4)

    def fitted(restarts):
        model = fit(start, data, restarts=restarts, seed=7)
        return model, likelihood(model, data)

    assert fitted(3) == fitted(3)
    assert fitted(0)[1] <= fitted(1)[1] <= fitted(4)[1]


def test_constant_and_few_readings_give_a_model():
    for start in STARTS:
        for n in (0, 1, 2, 12):
            for level in (0.0, 1.0, 1e6):
                model = fit(start, (*observed(n, seed=0), np.full(n, level)), restarts=2)

                assert np.isfinite(model.parameters).all()
                assert n or model == start


def test_readings_long_after_the_first_interval_are_fitted():
    K, times, y = unrelated(20, seed=0)
    data = K, times + 1e6, y
    for start in STARTS:
        assert np.isfinite(likelihood(fit(start, data, restarts=1), data))


def test_without_any_possible_model_the_start_is_returned():
    data = np.full((2, 2), -1.0), np.arange(2.0), np.ones(2)  # not a covariance under any model
    for start in STARTS:
        assert fit(start, data, restarts=2) == start


def test_a_restart_leaves_a_region_of_likelihood_0():
    K = np.array([[1.0, 1.2], [1.2, 1.0]])  # with the noise, positive definite from ε = .29
    start, data = TimeVarying(0.01), (K, np.arange(2.0), np.array([1.0, -1.0]))
    assert log_likelihood(start, *data, 0.01)[0] == -np.inf

    rng = np.random.default_rng(0)
    model = fit_temporal_model(start, *data, 0.01, restarts=60, rng=rng)

    assert np.isfinite(log_likelihood(model, *data, 0.01)[0])


# --- rejections ---------------------------------------------------------------------------------


def test_invalid_data_are_rejected():
    for change, message in (
        ({"K": np.eye(2)}, r"K has shape \(2, 2\)"),
        ({"times": np.arange(4.0)}, r"times \(4,\)"),
        ({"y": np.array([1.0, np.nan, 1.0])}, "finite"),
        ({"noise_variance": -1.0}, "noise_variance is -1.0"),
        ({"restarts": -1}, "restarts is -1"),
    ):
        arguments = {"K": np.eye(3), "times": np.arange(3.0), "y": np.ones(3)}
        arguments |= {"noise_variance": NOISE, "restarts": 0, "rng": np.random.default_rng(0)}
        with pytest.raises(ConfigError, match=message):
            fit_temporal_model(STARTS[0], **{**arguments, **change})


@pytest.mark.parametrize("missing", ["scipy.linalg", "scipy.optimize"])
def test_without_scipy_the_extra_is_named(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtra, match=r"edge-tvbo\[science\]"):
        fit(STARTS[0], unrelated(3, seed=0))
