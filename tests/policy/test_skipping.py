"""Intervals that are skipped at once have the effect of the same intervals one by one."""

import numpy as np
import pytest
from hypothesis import strategies as st
from support.controllers import controller_settings
from support.policy_cases import CASES, MADE, examples, histories, make, run

from edge_tvbo.control.controller import MAX_SINGLE_STEPS, Controller
from edge_tvbo.messages.events import DowntimeElapsed, IntervalElapsed
from edge_tvbo.models.structural_model import DAY
from edge_tvbo.policy.base import SkippingPolicy

SKIPPING = [case for case, policy in MADE.items() if isinstance(policy, SkippingPolicy)]
ONE_BY_ONE = {  # an interval without readings changes more than the age of the readings
    "w-dbo",  # each interval may remove readings
    "master-gp-ucb",  # each interval may begin instances, which are drawn
    "ada-opkb",  # each interval may end a block or a replay
    *("lb-gp-ucb", "lnb-gp-ucb", "a-gp-ucb", "mle-gp-ucb", "mcmc-gp-ucb"),  # the length scale moves
    *("random", "round-robin", "static", "oracle", "rexp3", "d-ucb"),  # these take microseconds
}


def test_all_policies_skip_but_those_of_which_each_interval_counts():
    assert {CASES[case][0] for case in MADE.keys() - set(SKIPPING)} == ONE_BY_ONE


@examples(30, SKIPPING, history=histories(), intervals=st.integers(1, 300))
def test_skipped_intervals_have_the_effect_of_single_intervals(case, history, intervals):
    skips, advances = make(case), make(case)
    for policy in (skips, advances):
        run(policy, history)
    skips.skip(intervals)
    for _ in range(intervals):
        advances.advance()

    assert skips.resets == advances.resets
    for policy in (skips, advances):
        policy.observe(2, 1.0)
    np.testing.assert_allclose(skips.posterior(), advances.posterior(), rtol=1e-6, atol=1e-9)
    assert (skips._time, skips._events) == (advances._time, advances._events)
    assert skips.select().width == pytest.approx(advances.select().width, rel=1e-6)
    other = make(case)
    other.restore(skips.snapshot())
    assert other.snapshot() == skips.snapshot()


@pytest.mark.parametrize("case", SKIPPING)
def test_a_very_long_skip_leaves_finite_predictions(case):
    policy = make(case)
    policy.observe(1, 1.0)
    policy.skip(10**15)

    assert np.isfinite(policy.posterior()).all()
    policy.observe(policy.select().arm, 0.5)
    assert np.isfinite(policy.posterior()).all()


def test_a_number_of_numpy_is_skipped_like_a_python_number():
    """The snapshot could not be encoded afterwards, so `select_many` failed, too."""
    for case in SKIPPING:
        policy, same = make(case), make(case)
        policy.skip(np.int64(3))
        same.skip(3)
        assert policy.snapshot() == same.snapshot(), case
        assert policy.select_many(2) == same.select_many(2), case


@pytest.mark.parametrize("intervals", [0, -3, 1.5, "2", 10**30])
def test_an_impossible_skip_is_rejected(intervals):
    """With a negative number, the time of the policy ran backwards."""
    policy = make("tv-gp-ucb")
    before = policy.snapshot()
    with pytest.raises(ValueError, match=f"intervals is {intervals!r}; it must be a whole number"):
        policy.skip(intervals)
    assert policy.snapshot() == before


@pytest.mark.parametrize("case", ["mtv-gp-ucb", "ui-tvbo", "kalman-ucb, trained"])
@pytest.mark.parametrize(
    ("event", "intervals"),
    [(DowntimeElapsed, MAX_SINGLE_STEPS), (IntervalElapsed, 3 * MAX_SINGLE_STEPS)],
)
def test_intervals_of_a_short_downtime_or_of_any_gap_end_one_by_one(case, event, intervals):
    """So their decisions are those of earlier versions, to the last bit."""
    skips, advances = make(case), make(case)
    controller = Controller(skips, controller_settings())
    controller.handle(IntervalElapsed(30 * DAY, 1))
    for policy in (skips, advances):
        policy.observe(1, 1.0)
    controller.handle(event(60 * DAY, intervals))
    for _ in range(intervals):
        advances.advance()
    advances.set_time(60 * DAY)
    np.testing.assert_array_equal(skips.posterior(), advances.posterior())


@pytest.mark.parametrize("case", SKIPPING)
def test_a_controller_does_not_end_thousands_of_intervals_one_by_one(case, monkeypatch):
    """After a long downtime, that took minutes with 2000 sensors, in one turn of the loop."""
    controller = Controller(make(case), controller_settings())
    controller.handle(IntervalElapsed(30 * DAY, 1))
    advance, calls = controller.policy.advance, []
    monkeypatch.setattr(controller.policy, "advance", lambda: (calls.append(1), advance()))
    controller.handle(DowntimeElapsed(60 * DAY, 10_000))
    assert len(calls) == 1
