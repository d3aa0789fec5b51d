"""The likelihood against scipy's normal density, its gradient, and what fitting promises."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.likelihood import fit, log_likelihood
from edge_tvbo.models.spatial_kernels import squared_exponential
from edge_tvbo.models.temporal_models import MomentumKernel, SigmoidKernel, TimeVaryingKernel

NOISE = 0.05
STARTS = [TimeVaryingKernel(0.1), MomentumKernel(0.9, 0.5), SigmoidKernel(10.0, 3.0)]

TIME_VARYING = st.floats(0.01, 0.9).map(TimeVaryingKernel)
MOMENTUM = st.builds(
    lambda epsilon, apart: MomentumKernel(epsilon, epsilon * (1 - apart)),
    st.floats(0.05, 0.95),
    st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-15, 1e-9, 1e-5])),
)
SIGMOID = st.builds(SigmoidKernel, st.floats(-10, 30), st.floats(0.5, 20))
FITTABLE = st.one_of(TIME_VARYING, MOMENTUM, SIGMOID)


def observed(n, seed, arms=8, per_interval=1):
    """Give K of n readings of random arms, one row each, and their times."""
    rng = np.random.default_rng(seed)
    K = squared_exponential(rng.uniform(0, 1, (arms, 2)), 0.3)
    chosen = rng.integers(arms, size=n)
    return K[np.ix_(chosen, chosen)], np.floor(np.arange(n) / per_interval)


def simulated(kernel, n, seed, arms=8):
    """Give (K, times, y) of a field that changes as `kernel` says."""
    K, times = observed(n, seed, arms)
    covariance = K * kernel.matrix(times, times) + NOISE * np.eye(n)
    y = np.linalg.cholesky(covariance) @ np.random.default_rng([seed, 1]).normal(size=n)
    return K, times, y


def noisy(n, seed):
    return (*observed(n, seed), np.random.default_rng([seed, 2]).normal(size=n))


# --- the likelihood -----------------------------------------------------------------------------


@given(FITTABLE, st.integers(1, 25), st.integers(0, 2**32), st.floats(0.01, 3), st.integers(1, 3))
def test_the_likelihood_is_the_normal_density(kernel, n, seed, noise, per_interval):
    K, times = observed(n, seed, per_interval=per_interval)
    y = np.random.default_rng(seed).normal(size=n)
    covariance = K * kernel.matrix(times, times) + noise * np.eye(n)

    value, _ = log_likelihood(kernel, K, times, y, noise)

    assert value == pytest.approx(multivariate_normal.logpdf(y, cov=covariance), rel=1e-9, abs=1e-9)


@given(FITTABLE, st.integers(1, 20), st.integers(0, 2**32))
def test_the_gradient_is_the_difference_of_values(kernel, n, seed):
    K, times, y = noisy(n, seed)
    _, gradient = log_likelihood(kernel, K, times, y, NOISE)

    for p, step in enumerate(inward(kernel)):

        def along(distance, p=p, step=step):
            moved = kernel.values + distance * step * np.eye(len(kernel.values))[p]
            return log_likelihood(kernel.replaced(moved), K, times, y, NOISE)[0]

        slope = (-3 * along(0) + 4 * along(1) - along(2)) / (2 * step)
        assert gradient[p] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def inward(kernel):
    """Give a step of each parameter that stays where alpha <= epsilon."""
    match kernel:
        case MomentumKernel(epsilon, alpha):
            return [1e-6, 1e-6 if epsilon - alpha > alpha else -1e-6]
        case _:
            return [1e-6] * len(kernel.values)


@given(MOMENTUM, st.integers(2, 20), st.integers(0, 2**32))
def test_the_gradient_is_the_textbooks_trace(kernel, n, seed):
    K, times, y = noisy(n, seed)
    inverse = np.linalg.inv(K * kernel.matrix(times, times) + NOISE * np.eye(n))
    weights = inverse @ y
    inner = np.outer(weights, weights) - inverse
    expected = [0.5 * np.trace(inner @ (K * dD)) for dD in kernel.gradient(times, times)]

    _, gradient = log_likelihood(kernel, K, times, y, NOISE)

    np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-8)


def test_inputs_stay_as_they_are():
    K, times, y = noisy(10, seed=0)
    before = K.copy(), times.copy(), y.copy()
    log_likelihood(STARTS[0], K, times, y, NOISE)
    fit(STARTS[0], K, times, y, NOISE, restarts=1, rng=np.random.default_rng(0))

    for now, then in zip((K, times, y), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_covariance_that_is_none_is_impossible_rather_than_an_error():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    value, gradient = log_likelihood(TimeVaryingKernel(0.0), K, np.arange(2.0), np.ones(2), 0.1)

    assert value == -np.inf
    np.testing.assert_array_equal(gradient, [0.0])


# --- the fit ------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(FITTABLE, st.integers(0, 15), st.integers(0, 2**32), st.integers(0, 2))
def test_a_fit_is_never_less_probable_than_its_start(start, n, seed, restarts):
    data = noisy(n, seed)
    kernel = fit(start, *data, NOISE, restarts=restarts, rng=np.random.default_rng(seed))

    found, _ = log_likelihood(kernel, *data, NOISE)
    assert found >= log_likelihood(start, *data, NOISE)[0]
    assert type(kernel) is type(start)


@pytest.mark.parametrize(
    "start", [TimeVaryingKernel(0.0), TimeVaryingKernel(1.0), MomentumKernel(0.0, 0.0)], ids=repr
)
def test_a_start_at_the_edge_is_left_behind_where_data_say_so(start):
    data = simulated(TimeVaryingKernel(0.1), 60, seed=3)
    kernel = fit(start, *data, NOISE, restarts=2, rng=np.random.default_rng(0))

    assert log_likelihood(kernel, *data, NOISE)[0] > log_likelihood(start, *data, NOISE)[0] + 1


def test_a_start_outside_the_bounds_may_stay_the_best():
    K, times = np.ones((30, 30)), np.arange(30.0)
    start = TimeVaryingKernel(0.0)  # a field that never changed is the likeliest for a constant

    assert (
        fit(start, K, times, np.ones(30), NOISE, restarts=2, rng=np.random.default_rng(0)) == start
    )


def test_epsilon_is_recovered_within_a_factor_of_two():
    for truth in (0.01, 0.1):
        fits = [
            fit(
                TimeVaryingKernel(0.5),
                *simulated(TimeVaryingKernel(truth), 300, seed),
                NOISE,
                restarts=0,
                rng=np.random.default_rng(seed),
            ).epsilon
            for seed in range(6)
        ]
        assert truth / 2 < np.exp(np.mean(np.log(fits))) < truth * 2


def test_momentum_is_recovered_and_told_from_its_absence():
    rng = np.random.default_rng(0)
    start = MomentumKernel(0.5, 0.1)
    data = [simulated(MomentumKernel(0.97, 0.9), 200, seed) for seed in range(4)]
    fits = [fit(start, *each, NOISE, restarts=1, rng=rng).values for each in data]
    plain = [simulated(MomentumKernel(0.97, 0.0), 200, seed) for seed in range(4)]
    fits_of_plain = [fit(start, *each, NOISE, restarts=1, rng=rng).values for each in plain]

    np.testing.assert_allclose(np.mean(fits, axis=0), [0.97, 0.9], atol=0.06)
    assert np.mean(fits_of_plain, axis=0)[1] < 0.6


def test_a_transition_is_found_from_far_away_by_restarts():
    data = simulated(SigmoidKernel(70.0, 4.0), 120, seed=1)
    kernel = fit(SigmoidKernel(5.0, 1.0), *data, NOISE, restarts=5, rng=np.random.default_rng(0))

    assert kernel.tau == pytest.approx(70.0, abs=8.0)
    assert 1.0 < kernel.rho < 16.0


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_a_fit_is_a_maximum_that_no_neighbour_beats(start):
    data = simulated(start, 60, seed=5)
    kernel = fit(start, *data, NOISE, restarts=2, rng=np.random.default_rng(0))
    best, _ = log_likelihood(kernel, *data, NOISE)
    corners = [kernel.replaced(corner).coordinates() for corner in kernel.bounds(59.0).T]
    low, high = np.minimum(*corners), np.maximum(*corners)

    for nudge in np.random.default_rng(1).normal(size=(50, len(low))) * 0.02 * (high - low):
        neighbour = kernel.located(np.clip(kernel.coordinates() + nudge, low, high))
        assert log_likelihood(neighbour, *data, NOISE)[0] < best + 1e-2


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_equal_seeds_give_equal_fits_and_restarts_never_hurt(start):
    data = noisy(25, seed=4)

    def likeliest(restarts):
        kernel = fit(start, *data, NOISE, restarts=restarts, rng=np.random.default_rng(7))
        return kernel, log_likelihood(kernel, *data, NOISE)[0]

    assert likeliest(3) == likeliest(3)
    assert likeliest(0)[1] <= likeliest(1)[1] <= likeliest(4)[1]


@pytest.mark.parametrize("start", STARTS, ids=repr)
@pytest.mark.parametrize("n", [0, 1, 2, 12])
@pytest.mark.parametrize("level", [0.0, 1.0, 1e6])
def test_constant_and_few_readings_still_give_a_kernel(start, n, level):
    K, times = observed(n, seed=0)
    kernel = fit(
        start, K, times, np.full(n, level), NOISE, restarts=2, rng=np.random.default_rng(0)
    )

    assert np.isfinite(kernel.values).all()
    if n == 0:
        assert kernel == start


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_readings_long_after_the_first_interval_are_fitted_too(start):
    K, times, y = noisy(20, seed=0)
    kernel = fit(start, K, times + 1e6, y, NOISE, restarts=1, rng=np.random.default_rng(0))

    assert np.isfinite(log_likelihood(kernel, K, times + 1e6, y, NOISE)[0])


@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_where_nothing_is_possible_the_start_is_given_back(start):
    K = np.full((2, 2), -1.0)  # no covariance, whatever the kernel
    times, y = np.arange(2.0), np.ones(2)

    assert fit(start, K, times, y, NOISE, restarts=2, rng=np.random.default_rng(0)) == start


def test_a_restart_finds_its_way_out_of_where_nothing_is_possible():
    K = np.array([[1.0, 1.2], [1.2, 1.0]])  # with the noise, positive definite from ε = .29
    start, data = TimeVaryingKernel(0.01), (K, np.arange(2.0), np.array([1.0, -1.0]))
    assert log_likelihood(start, *data, 0.01)[0] == -np.inf

    kernel = fit(start, *data, 0.01, restarts=60, rng=np.random.default_rng(0))

    assert np.isfinite(log_likelihood(kernel, *data, 0.01)[0])


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"K": np.eye(2)}, r"K is \(2, 2\)"),
        ({"times": np.arange(4.0)}, r"times \(4,\)"),
        ({"y": np.array([1.0, np.nan, 1.0])}, "finite"),
        ({"noise_variance": -1.0}, "noise_variance is -1.0"),
        ({"restarts": -1}, "restarts is -1"),
    ],
)
def test_data_that_cannot_be_are_refused(change, named):
    arguments = {"K": np.eye(3), "times": np.arange(3.0), "y": np.ones(3)}
    arguments |= {"noise_variance": NOISE, "restarts": 0, "rng": np.random.default_rng(0)} | change

    with pytest.raises(ConfigError, match=named):
        fit(STARTS[0], **arguments)


@pytest.mark.parametrize("missing", ["scipy.linalg", "scipy.optimize"])
def test_without_scipy_the_extra_is_named(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtra, match=r"edge-tvbo\[science\]"):
        fit(STARTS[0], *noisy(3, seed=0), NOISE, restarts=0, rng=np.random.default_rng(0))
