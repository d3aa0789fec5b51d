"""When the model is stale: the paper's lemma, its block lengths, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import event_threshold

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.triggers import (
    Bounds,
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
def test_the_threshold_is_lemma_3(age, delta_b, noise_variance, std, cap):
    trigger = ErrorBound(noise_variance, delta_b, noise_cap=cap)
    expected = event_threshold(age, delta_b, noise_variance, std, cap)
    assert trigger.threshold(age, std) == pytest.approx(expected, rel=1e-10)


def test_a_surprise_at_the_threshold_passes_and_one_above_it_does_not():
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
def test_resets_come_only_between_the_bounds_and_always_at_the_upper(
    kind, n_lower, more, surprises
):
    n_upper = n_lower + more
    trigger, age = kind(0.01, 0.1, n_lower, n_upper), 0
    for surprised in surprises:
        age += 1
        verdict = trigger.check(TriggerInput(1e3 if surprised else 0.0, 0.0, 1.0, 2.0))
        assert verdict.age == age
        assert verdict.stale == ((surprised and age >= n_lower) or age == n_upper)
        if verdict.stale:
            trigger.clear()
            age = 0
        assert trigger.age == age


@given(st.integers(1, 50), st.integers(0, 500))
def test_a_periodic_model_expires_at_every_multiple_but_0(period, t):
    assert EveryPeriod(period).expires(t) == (t in range(period, 501, period))


@pytest.mark.parametrize("trigger", [Never(), EveryPeriod(3)])
def test_only_the_event_trigger_judges_and_all_count(trigger):
    answer = TriggerInput(1e9, 0.0, 0.0, 1.0)
    verdicts = [trigger.check(answer) for _ in range(3)]
    assert verdicts == [TriggerResult(False, None, n) for n in (1, 2, 3)]
    trigger.clear()
    assert trigger.age == 0


@given(st.integers(0, 10**6))
def test_neither_evidence_nor_never_expires_by_the_clock(t):
    assert not Never().expires(t)
    assert not ErrorBound(0.01).expires(t)
    assert not LikelihoodRatio(0.01).expires(t)


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
def test_it_fires_where_the_prior_is_likelier_by_more_than_the_union_allows(
    age, delta_b, noise_variance, y, mean, prior_std, share
):
    std = share * prior_std
    trigger = LikelihoodRatio(noise_variance, delta_b)
    trigger.age = age - 1
    verdict = trigger.check(TriggerInput(y, mean, std, prior_std))
    fresh = normal(y, 0.0, prior_std**2 + noise_variance)
    known = normal(y, mean, std**2 + noise_variance)
    allowed = 2 * (math.pi**2 * age**2 / 6) / delta_b
    assert (verdict.threshold, verdict.age, trigger.age) == (None, age, age)
    if not math.isclose(fresh, allowed * known, rel_tol=1e-9):
        assert verdict.stale == (fresh > allowed * known)


def answers(rng, intervals, jump=None, noise=0.3):
    """Answers of one arm with prior variance 1, and what is believed of it before each of them."""
    f, precision, weighted = rng.normal(), 1.0, 0.0
    for t in range(intervals):
        if t == jump:
            f += 4.0
        y = f + noise * rng.normal()
        yield TriggerInput(y, weighted / precision, precision**-0.5, 1.0)
        precision, weighted = precision + noise**-2, weighted + y * noise**-2


def fires(trigger, stream):
    """Give when the trigger first fires, or None."""
    return next((t for t, answer in enumerate(stream) if trigger.check(answer).stale), None)


@pytest.mark.parametrize("kind", [ErrorBound, LikelihoodRatio])
@pytest.mark.parametrize("delta_b", [0.1, 0.5])
def test_a_field_that_stands_still_seldom_alarms(kind, delta_b):
    rng = np.random.default_rng(1)
    runs = [fires(kind(0.09, delta_b), answers(rng, 60)) for _ in range(1500)]
    alarms = sum(run is not None for run in runs)
    assert alarms / len(runs) < delta_b / 2  # by Markov's inequality, by the lemma's two halves


def test_the_ratio_alone_would_alarm_by_chance():
    """What is tested above can fail: without the union bound over ages it would."""

    class Bare(LikelihoodRatio):
        def check(self, answer):
            self.age = 0
            return super().check(answer)

    rng = np.random.default_rng(1)
    runs = [fires(Bare(0.09, 0.999), answers(rng, 60)) for _ in range(300)]
    assert sum(run is not None for run in runs) / len(runs) > 0.05


@pytest.mark.parametrize("kind", [ErrorBound, LikelihoodRatio])
def test_a_jump_of_four_deviations_fires_at_once(kind):
    rng = np.random.default_rng(2)
    runs = [fires(kind(0.09), answers(rng, 40, jump=20)) for _ in range(200)]
    assert sum(run == 20 for run in runs) > 170


# --- block lengths ------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "N"), [(0.01, 38), (0.03, 29), (0.05, 26)])
def test_the_block_of_r_gp_ucb_is_the_papers(epsilon, N):
    """[ET] section 6: R-GP-UCB's reset time for three rates of change."""
    assert Bounds.of(epsilon, epsilon, horizon=400) == Bounds(N, N)


def test_the_bounds_of_et_gp_ucb_are_the_papers():
    """[ET] section 6: rates within [0.001, 0.1]."""
    assert Bounds.of(0.001, 0.1, horizon=400) == Bounds(22, 68)


@given(st.floats(1e-9, 1), st.floats(1e-9, 1), st.integers(1, 1000))
def test_a_faster_change_means_a_shorter_block_and_none_outlasts_the_run(a, b, horizon):
    slow, fast = sorted((a, b))
    bounds = Bounds.of(slow, fast, horizon=horizon)
    assert 1 <= bounds.n_lower <= bounds.n_upper <= horizon


def test_a_field_that_may_stand_still_has_blocks_as_long_as_the_run():
    assert Bounds.of(0.0, 0.1, horizon=300) == Bounds(22, 300)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta_b": 0.0},
        {"delta_b": 1.0},
        {"delta_b": float("nan")},
        {"n_lower": 0},
        {"n_lower": 3, "n_upper": 2},
        {"noise_cap": 0},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ErrorBound(0.01, **wrong)
    if "noise_cap" not in wrong:
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            LikelihoodRatio(0.01, **wrong)


@pytest.mark.parametrize("period", [0, -1])
def test_a_period_below_one_interval_is_refused(period):
    with pytest.raises(ConfigError, match="period"):
        EveryPeriod(period)
