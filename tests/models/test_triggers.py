"""Reset triggers: lemma 3 of [ET], the likelihood ratio, block lengths, rejections."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.naive import event_threshold

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.triggers import (
    BlockBounds,
    ErrorBound,
    EveryPeriod,
    LikelihoodRatio,
    Never,
    TriggerInput,
    TriggerResult,
)


@given(
    st.integers(1, 10**6),
    st.floats(1e-6, 0.999),
    st.floats(1e-9, 1e3),
    st.floats(0, 1e3),
    st.none() | st.integers(1, 1000),
)
def test_threshold_equals_lemma_3(age, delta_b, noise_variance, std, cap):
    trigger = ErrorBound(noise_variance, delta_b, noise_cap=cap)
    expected = event_threshold(age, delta_b, noise_variance, std, cap)
    assert trigger.threshold(age, std) == pytest.approx(expected, rel=1e-10)


def test_only_an_error_above_the_threshold_fires():
    trigger = ErrorBound(0.01)
    at = trigger.threshold(1, 0.5)
    assert trigger.check(TriggerInput(at, 0.0, 0.5, 1.0)) == TriggerResult(False, at, 1)
    trigger.clear()
    assert trigger.check(TriggerInput(at * (1 + 1e-12), 0.0, 0.5, 1.0)) == TriggerResult(
        True, at, 1
    )
    trigger.clear()
    assert trigger.check(TriggerInput(-2.0 - at * (1 + 1e-12), -2.0, 0.5, 9.0)) == TriggerResult(
        True, at, 1
    )


@pytest.mark.parametrize("kind", [ErrorBound, LikelihoodRatio])
@given(st.integers(1, 20), st.integers(0, 20), st.lists(st.booleans(), max_size=60))
def test_resets_stay_within_the_block_bounds(kind, n_lower, more, jumps):
    n_upper = n_lower + more
    trigger, age = kind(0.01, 0.1, n_lower, n_upper), 0
    for jump in jumps:
        age += 1
        result = trigger.check(TriggerInput(1e3 if jump else 0.0, 0.0, 1.0, 2.0))
        assert result.age == age
        assert result.stale == ((jump and age >= n_lower) or age == n_upper)
        if result.stale:
            trigger.clear()
            age = 0
        assert trigger.age == age


@pytest.mark.parametrize("kind", [ErrorBound, LikelihoodRatio])
def test_an_age_above_n_upper_resets(kind):
    """A state file of a configuration with a larger `n_upper` restores such an age."""
    trigger = kind(0.01, 0.1, 1, 10)
    trigger.age = 40
    assert trigger.check(TriggerInput(0.0, 0.0, 1.0, 2.0)).stale


@given(st.integers(1, 50), st.integers(0, 500), st.integers(0, 500))
def test_a_periodic_trigger_is_due_at_multiples_but_0(period, t, n):
    resets = range(period, 1001, period)
    assert EveryPeriod(period).due_times(t, t + n) == sum(t < each <= t + n for each in resets)


@pytest.mark.parametrize("trigger", [Never(), EveryPeriod(3)])
def test_triggers_by_schedule_only_count_replies(trigger):
    reply = TriggerInput(1e9, 0.0, 0.0, 1.0)
    results = [trigger.check(reply) for _ in range(3)]
    assert results == [TriggerResult(False, None, n) for n in (1, 2, 3)]
    trigger.clear()
    assert trigger.age == 0


@given(st.integers(0, 10**6))
def test_event_triggers_are_never_due_by_schedule(t):
    assert not Never().due_times(0, t)
    assert not ErrorBound(0.01).due_times(0, t)
    assert not LikelihoodRatio(0.01).due_times(0, t)


# --- the likelihood ratio -----------------------------------------------------------------------


def normal(y, mean, variance):
    return math.exp(-((y - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


@given(
    age=st.integers(1, 1000),
    delta_b=st.floats(1e-3, 0.999),
    noise_variance=st.floats(0.01, 10),
    y=st.floats(-5, 5),
    mean=st.floats(-5, 5),
    prior_std=st.floats(0, 5),
    share=st.floats(0, 1),
)
def test_likelihood_ratio_fires_above_the_union_bound(
    age, delta_b, noise_variance, y, mean, prior_std, share
):
    std = share * prior_std
    trigger = LikelihoodRatio(noise_variance, delta_b)
    trigger.age = age - 1
    result = trigger.check(TriggerInput(y, mean, std, prior_std))
    fresh = normal(y, 0.0, prior_std**2 + noise_variance)
    known = normal(y, mean, std**2 + noise_variance)
    allowed = 2 * (math.pi**2 * age**2 / 6) / delta_b
    assert (result.threshold, result.age, trigger.age) == (None, age, age)
    if not math.isclose(fresh, allowed * known, rel_tol=1e-9):
        assert result.stale == (fresh > allowed * known)


def replies(rng, intervals, jump=None, noise=0.3):
    """Replies of one arm with prior variance 1, and the prediction before each of them."""
    f, precision, weighted = rng.normal(), 1.0, 0.0
    for t in range(intervals):
        if t == jump:
            f += 4.0
        y = f + noise * rng.normal()
        yield TriggerInput(y, weighted / precision, precision**-0.5, 1.0)
        precision, weighted = precision + noise**-2, weighted + y * noise**-2


def fires(trigger, stream):
    """Interval in which the trigger first fires, or None."""
    return next((t for t, reply in enumerate(stream) if trigger.check(reply).stale), None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ErrorBound, LikelihoodRatio])
@pytest.mark.parametrize("delta_b", [0.1, 0.5])
def test_a_static_field_rarely_fires(kind, delta_b):
    rng = np.random.default_rng(1)
    runs = [fires(kind(0.09, delta_b), replies(rng, 60)) for _ in range(1500)]
    alarms = sum(run is not None for run in runs)
    assert alarms / len(runs) < delta_b / 2  # by Markov's inequality, by the lemma's two halves


def test_without_the_union_bound_a_static_field_fires_often():
    """The test above can fail: without the union bound over ages it would."""

    class Bare(LikelihoodRatio):
        def check(self, reply):
            self.age = 0
            return super().check(reply)

    rng = np.random.default_rng(1)
    runs = [fires(Bare(0.09, 0.999), replies(rng, 60)) for _ in range(300)]
    assert sum(run is not None for run in runs) / len(runs) > 0.05


@pytest.mark.parametrize("kind", [ErrorBound, LikelihoodRatio])
def test_a_jump_of_four_deviations_fires_at_once(kind):
    rng = np.random.default_rng(2)
    runs = [fires(kind(0.09), replies(rng, 40, jump=20)) for _ in range(200)]
    assert sum(run == 20 for run in runs) > 170


# --- block lengths ------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "N"), [(0.01, 38), (0.03, 29), (0.05, 26)])
def test_block_length_of_r_gp_ucb_equals_the_paper(epsilon, N):
    """[ET] section 6: R-GP-UCB's reset time for three rates of change."""
    assert BlockBounds.from_rates(epsilon, epsilon, horizon=400) == BlockBounds(N, N)


def test_block_bounds_of_et_gp_ucb_equal_the_paper():
    """[ET] section 6: rates within [0.001, 0.1]."""
    assert BlockBounds.from_rates(0.001, 0.1, horizon=400) == BlockBounds(22, 68)


@given(st.floats(1e-9, 1), st.floats(1e-9, 1), st.integers(1, 1000))
def test_a_faster_change_gives_shorter_blocks(a, b, horizon):
    slow, fast = sorted((a, b))
    bounds = BlockBounds.from_rates(slow, fast, horizon=horizon)
    assert 1 <= bounds.n_lower <= bounds.n_upper <= horizon


def test_a_rate_of_0_gives_blocks_as_long_as_the_horizon():
    assert BlockBounds.from_rates(0.0, 0.1, horizon=300) == BlockBounds(22, 300)


def test_a_horizon_without_intervals_is_rejected():
    with pytest.raises(ConfigError, match="horizon is 0; it must be a whole number, 1 or more"):
        BlockBounds.from_rates(0.0, 0.1, horizon=0)


def test_parameters_out_of_range_are_rejected():
    for wrong in (
        {"delta_b": 0.0},
        {"delta_b": 1.0},
        {"delta_b": float("nan")},
        {"n_lower": 0},
        {"n_lower": 3, "n_upper": 2},
        {"noise_cap": 0},
    ):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            ErrorBound(0.01, **wrong)
        if "noise_cap" not in wrong:
            with pytest.raises(ConfigError, match=next(iter(wrong))):
                LikelihoodRatio(0.01, **wrong)


def test_a_period_below_one_interval_is_rejected():
    for period in (0, -1):
        with pytest.raises(ConfigError, match=f"period is {period}"):
            EveryPeriod(period)
