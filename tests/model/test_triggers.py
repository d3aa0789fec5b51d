"""When the model is stale: the paper's lemma, its block lengths, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import event_threshold

from edge_tvbo.errors import ConfigError
from edge_tvbo.model.triggers import Bounds, ErrorBound, EveryPeriod, Never


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
    assert trigger.judge(at, 0.5) == (False, at, 1)
    trigger.clear()
    assert trigger.judge(at * (1 + 1e-12), 0.5) == (True, at * 1.0, 1)


@given(st.integers(1, 20), st.integers(0, 20), st.lists(st.booleans(), max_size=60))
def test_resets_come_only_between_the_bounds_and_always_at_the_upper(n_lower, more, surprises):
    n_upper = n_lower + more
    trigger, age = ErrorBound(0.01, 0.1, n_lower, n_upper), 0
    for surprised in surprises:
        age += 1
        verdict = trigger.judge(1e6 if surprised else 0.0, 1.0)
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
    assert [trigger.judge(1e9, 0.0) for _ in range(3)] == [(False, None, n) for n in (1, 2, 3)]
    trigger.clear()
    assert trigger.age == 0


@given(st.integers(0, 10**6))
def test_neither_evidence_nor_never_expires_by_the_clock(t):
    assert not Never().expires(t)
    assert not ErrorBound(0.01).expires(t)


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


@pytest.mark.parametrize("period", [0, -1])
def test_a_period_below_one_interval_is_refused(period):
    with pytest.raises(ConfigError, match="period"):
        EveryPeriod(period)
