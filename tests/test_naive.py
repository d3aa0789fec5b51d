"""Slow twins, compared with sums by hand, with closed forms, and with a second computation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.naive import (
    NaiveEventTriggered,
    NaivePosterior,
    agnostic_width,
    distances,
    empirical,
    event_threshold,
    linear,
    log_beta,
    matern,
    se,
    temporal,
    ucb,
)

PLACES = np.array([[0.0, 0.0], [0.1, 0.2], [0.9, 0.4], [0.9, 0.4], [0.5, 1.0]])  # one repeated


def kalman(K, noise_variance, kind, parameter, events):
    """Return the posterior (mean, covariance) by a Kalman filter, for comparison."""
    m, C = np.zeros(len(K)), K.copy()
    for event in events:
        if event is None:  # an interval passes
            if kind == "tv":
                m, C = math.sqrt(1 - parameter) * m, (1 - parameter) * C + parameter * K
            elif kind == "ui":
                C = C + parameter * K
        else:
            arm, y = event
            gain = C[:, arm] / (C[arm, arm] + noise_variance)
            m, C = m + gain * (y - m[arm]), C - np.outer(gain, C[arm])
    return m, C


@given(
    st.sampled_from([("static", None), ("tv", 0.0), ("tv", 0.07), ("tv", 1.0), ("ui", 0.05)]),
    st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 4), st.floats(-3, 3))), max_size=40),
)
def test_product_kernel_formula_equals_a_kalman_filter(model, events):
    K = se(PLACES, 0.4)
    twin = NaivePosterior(K, 0.05, temporal(*model))
    for event in events:
        if event is None:
            twin.advance()
        else:
            twin.observe(*event)
    mean, std = twin.mean_std()
    m, C = kalman(K, 0.05, *model, events)
    assert_allclose(mean, m, rtol=1e-10, atol=1e-10)
    assert_allclose(std**2, np.diag(C), rtol=1e-10, atol=1e-10)


def test_posterior_after_one_observation_by_hand():
    twin = NaivePosterior([[1.0, 0.5], [0.5, 1.0]], 0.25, temporal("static"))
    twin.observe(0, 2.0)
    mean, std = twin.mean_std()
    assert_allclose(mean, [2 / 1.25, 1 / 1.25])
    assert_allclose(std**2, [1 - 1 / 1.25, 1 - 0.25 / 1.25])


def test_tv_covariance_with_the_next_interval_has_its_factor():
    """[B16] after eq. 8: after one interval the weight of a sample is √(1-ε)."""
    twin = NaivePosterior([[1.0]], 0.25, temporal("tv", 0.19))
    twin.observe(0, 2.0)
    twin.advance()
    mean, std = twin.mean_std()
    assert_allclose(mean, [0.9 * 2 / 1.25])
    assert_allclose(std**2, [1 - 0.81 / 1.25])


def test_without_observations_the_posterior_is_the_prior():
    K = 0.7 * np.eye(3)
    mean, std = NaivePosterior(K, 0.1, temporal("static")).mean_std()
    assert_allclose(mean, np.zeros(3))
    assert_allclose(std**2, np.full(3, 0.7))


def test_uncertainty_injection_adds_variance_each_interval():
    twin = NaivePosterior(np.eye(2), 0.1, temporal("ui", 0.03))
    for t in range(20):
        assert_allclose(twin.mean_std()[1] ** 2, np.full(2, 1 + 0.03 * t))
        twin.advance()


def test_a_reset_drops_observations_and_keeps_the_time():
    twin = NaivePosterior(np.eye(2), 0.1, temporal("ui", 0.5))
    twin.advance()
    twin.observe(0, 3.0)
    twin.advance()
    twin.reset()
    mean, std = twin.mean_std()
    assert twin.time == 2
    assert twin.history == []
    assert_allclose(mean, [0.0, 0.0])
    assert_allclose(std**2, [2.0, 2.0])


def test_mean_of_a_static_arm_converges_to_its_average():
    rng = np.random.default_rng(1)
    y = 0.6 + 0.3 * rng.standard_normal(500)
    twin = NaivePosterior(np.eye(2), 0.09, temporal("static"))
    for value in y:
        twin.observe(0, value)
    mean, std = twin.mean_std()
    assert_allclose(mean, [y.sum() / (500 + 0.09), 0.0])
    assert_allclose(std**2, [0.09 / (500 + 0.09), 1.0])


def test_a_window_ignores_older_observations():
    rng = np.random.default_rng(2)
    K = se(PLACES, 0.4)
    windowed = NaivePosterior(K, 0.1, temporal("tv", 0.1), window=4)
    fresh = NaivePosterior(K, 0.1, temporal("tv", 0.1))
    for i in range(10):
        arm, y = int(rng.integers(5)), rng.standard_normal()
        windowed.observe(arm, y)
        if i >= 6:
            fresh.observe(arm, y)
        windowed.advance()
        fresh.advance()
    assert len(windowed.history) == 10
    for a, b in zip(windowed.mean_std(), fresh.mean_std(), strict=True):
        assert np.array_equal(a, b)


def test_at_epsilon_1_an_observation_counts_in_its_interval():
    twin = NaivePosterior(np.eye(1), 0.25, temporal("tv", 1.0))
    twin.observe(0, 2.0)
    assert_allclose(twin.mean_std()[0], [1.6])
    twin.advance()
    assert_allclose(twin.mean_std(), [[0.0], [1.0]])


def test_an_unknown_temporal_kernel_is_rejected():
    with pytest.raises(ValueError, match="weekly"):
        temporal("weekly")


def test_log_beta_is_clipped_at_0():
    assert_allclose(log_beta(0.8, 4.0, 1), 0.8 * 1.3862943611198906)
    assert_allclose(log_beta(0.8, 0.4, 10), 0.8 * 1.3862943611198906)
    assert log_beta(0.8, 0.4, 1) == 0.0
    assert log_beta(0.8, 0.4, 2) == 0.0


def test_agnostic_width_by_hand():
    assert_allclose(agnostic_width(1.5, 2.0, 7.0, math.exp(-10.0)), 1.5 + 2.0 * 6.0)


def test_ucb_returns_all_tied_arms():
    assert ucb([1.0, 0.0, 0.5], [0.0, 1.0, 0.25], 1.0) == {0, 1}
    assert ucb([1.0, 0.0, 0.5], [0.0, 1.0, 0.25], 2.0) == {1}
    assert ucb([1.0, 1.0 - 1e-10, 1.0 - 1e-8], [0.0, 0.0, 0.0], 2.0) == {0, 1}


def test_event_threshold_by_hand():
    """At age 1 and δ_B = 0.1, ρ = 2 ln(20 π²/6) = 6.986865; at age 3 it is 4 ln 3 more."""
    assert_allclose(event_threshold(1, 0.1, 0.0, 1.0) ** 2, 6.986865, rtol=1e-6)
    assert_allclose(event_threshold(3, 0.1, 0.0, 1.0) ** 2, 6.986865 + 4 * math.log(3), rtol=1e-6)
    assert_allclose(event_threshold(1, 0.1, 0.04, 0.0), 0.2 * math.sqrt(6.986865), rtol=1e-6)
    assert_allclose(event_threshold(1, 0.1, 0.04, 0.5), 0.7 * math.sqrt(6.986865), rtol=1e-6)


def test_the_cap_applies_to_the_noise_bound_only():
    for age in range(1, 9):
        noise_only = event_threshold(age, 0.1, 0.04, 0.0, cap=5)
        assert noise_only == event_threshold(min(age, 5), 0.1, 0.04, 0.0)
        assert_allclose(
            event_threshold(age, 0.1, 0.04, 0.3, cap=5) - noise_only,
            event_threshold(age, 0.1, 0.0, 0.3),
        )


def test_a_jump_resets_and_its_observation_is_kept():
    trigger = NaiveEventTriggered(np.eye(2), 0.01, 0.1)
    tested = []
    for y in [0.5, 0.5, 0.5, 9.0, 9.0]:
        tested.append(trigger.step(0, y))
        trigger.advance()
    assert [reset for reset, *_ in tested] == [False, False, False, True, False]
    assert [age for *_, age in tested] == [1, 2, 3, 4, 1]
    assert trigger.age == 2
    assert [(arm, y) for _, arm, y in trigger.posterior.history] == [(0, 9.0), (0, 9.0)]


def test_the_trigger_uses_the_posterior_before_the_reading():
    trigger = NaiveEventTriggered(np.eye(1), 0.25, 0.1)
    _, error, threshold, _ = trigger.step(0, 2.0)
    assert error == 2.0
    assert threshold == event_threshold(1, 0.1, 0.25, 1.0)
    _, error, threshold, _ = trigger.step(0, 2.0)
    assert_allclose(error, 2.0 - 1.6)
    assert_allclose(threshold, event_threshold(2, 0.1, 0.25, math.sqrt(0.2)))


def test_without_keep_last_a_reset_drops_everything():
    trigger = NaiveEventTriggered(np.eye(2), 0.01, 0.1, keep_last=False)
    resets = [trigger.step(0, y)[0] for y in [0.5, 0.5, 9.0]]
    assert resets == [False, False, True]
    assert trigger.posterior.history == []
    assert trigger.age == 1
    assert_allclose(trigger.posterior.mean_std(), [[0.0, 0.0], [1.0, 1.0]])


def test_below_the_lower_bound_a_jump_does_not_reset():
    trigger = NaiveEventTriggered(np.eye(1), 0.01, 0.1, n_lower=3)
    jumps = [trigger.step(0, y) for y in [50.0, -50.0, 50.0]]
    assert all(error > threshold for _, error, threshold, _ in jumps)
    assert [reset for reset, *_ in jumps] == [False, False, True]


def test_at_the_upper_bound_the_trigger_always_resets():
    trigger = NaiveEventTriggered(np.eye(1), 0.01, 0.1, n_lower=2, n_upper=4)
    tested = [trigger.step(0, 0.0) for _ in range(9)]
    assert [reset for reset, *_ in tested] == [age == 4 for *_, age in tested]
    assert [age for *_, age in tested] == [1, 2, 3, 4, 1, 2, 3, 4, 1]


def test_a_static_field_has_fewer_alarms_than_delta_b():
    rng = np.random.default_rng(3)
    K = se(PLACES, 0.4)
    root = np.linalg.cholesky(K + 1e-9 * np.eye(5))
    alarmed = 0
    for _ in range(60):
        f = root @ rng.standard_normal(5)
        trigger = NaiveEventTriggered(K, 0.02, 0.3)
        arms = rng.integers(5, size=20)
        y = f[arms] + math.sqrt(0.02) * rng.standard_normal(20)
        alarmed += any(trigger.step(*pair)[0] for pair in zip(arms, y, strict=True))
    assert alarmed <= 0.3 * 60


def test_se_by_hand():
    K = se([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], 5.0)
    assert_allclose(K[0], [1.0, math.exp(-0.5), 1.0])
    assert np.array_equal(K, K.T)


def test_matern_equals_closed_forms_at_half_integers():
    pytest.importorskip("scipy")
    s = distances(PLACES) / 0.3
    assert_allclose(matern(PLACES, 0.3, 0.5), np.exp(-s), rtol=1e-12)
    s3, s5 = math.sqrt(3) * s, math.sqrt(5) * s
    assert_allclose(matern(PLACES, 0.3, 1.5), (1 + s3) * np.exp(-s3), rtol=1e-12)
    assert_allclose(matern(PLACES, 0.3, 2.5), (1 + s5 + s5**2 / 3) * np.exp(-s5), rtol=1e-12)


def test_a_smooth_matern_is_close_to_se():
    pytest.importorskip("scipy")
    assert_allclose(matern(PLACES, 0.7, 120.0), se(PLACES, 0.7), atol=5e-3)


def test_linear_is_the_inner_product():
    assert_allclose(linear([[1.0, 2.0], [3.0, -1.0]]), [[5.0, 1.0], [1.0, 10.0]])


def test_empirical_is_the_unbiased_covariance():
    X = np.random.default_rng(4).standard_normal((30, 4))
    assert_allclose(empirical(X), np.cov(X, rowvar=False))
    assert_allclose(empirical([[1.0, 0.0], [3.0, 0.0]]), [[2.0, 0.0], [0.0, 0.0]])
