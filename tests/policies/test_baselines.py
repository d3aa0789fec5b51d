"""Policies without a model: RExp3 against Besbes, Gur & Zeevi 2014, and the oracle."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_tvbo.model.field import SensorField
from edge_tvbo.model.snapshot import unseal
from edge_tvbo.policies import make_policy

STD = np.array([1.0, 2.0, 0.5, 1.0])
FIELD = SensorField(("a", "b", "c", "d"), np.diag(STD**2), 0.05)


class NaiveRExp3:
    """Algorithm 1 of Besbes, Gur & Zeevi 2014, told which arm was drawn and its reward in [0, 1].

    Batches of `delta` draws. At the start of each, w_k = 1; then p_k = (1-γ) w_k / Σw + γ/K, and
    the drawn arm's X̂ = X/p, all others' 0, make w_k ← w_k exp(γ X̂_k / K).
    """

    def __init__(self, K, delta, gamma):
        self.K, self.delta, self.gamma = K, delta, gamma
        self.drawn = 0
        self.w = [1.0] * K

    def probabilities(self):
        return [(1 - self.gamma) * w / sum(self.w) + self.gamma / self.K for w in self.w]

    def step(self, arm, reward):
        estimate = reward / self.probabilities()[arm]
        self.w[arm] *= math.exp(self.gamma * estimate / self.K)
        self.drawn += 1
        if self.drawn % self.delta == 0:
            self.w = [1.0] * self.K


def reward_of(arm, y):
    """The reading as a share of the way from three prior deviations below 0 to three above."""
    return min(max((y / STD[arm] + 3) / 6, 0.0), 1.0)


def saved(policy, period, gamma):
    return unseal(f"rexp3 {period} {gamma!r}", FIELD.fingerprint(), policy.snapshot())


@given(
    readings=st.lists(st.floats(-10, 10), max_size=40),
    period=st.integers(1, 12),
    gamma=st.sampled_from([0.05, 0.3, 1.0]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60)
def test_weights_and_probabilities_are_the_papers(readings, period, gamma, seed):
    policy = make_policy("rexp3", FIELD, period=period, gamma=gamma, seed=seed)
    twin = NaiveRExp3(4, period, gamma)
    for t, y in enumerate(readings):
        arm = policy.select().arm
        state = saved(policy, period, gamma)
        expected = np.array(twin.w) / max(twin.w)
        np.testing.assert_allclose(state["weights"] / state["weights"].max(), expected, rtol=1e-9)
        assert state["chances"][arm] == pytest.approx(twin.probabilities()[arm], rel=1e-9)
        assert np.count_nonzero(state["chances"]) == 1
        assert policy.observations == t % period
        policy.observe(arm, y)
        twin.step(arm, reward_of(arm, y))
        policy.advance()
        assert policy.resets == (t + 1) // period


def test_arms_are_drawn_as_often_as_their_probabilities_say():
    learned = make_policy("rexp3", FIELD, period=50, gamma=0.2)
    twin = NaiveRExp3(4, 50, 0.2)
    for _ in range(30):
        arm = learned.select().arm
        y = 2.0 * STD[arm] if arm == 2 else -STD[arm]
        learned.observe(arm, y)
        twin.step(arm, reward_of(arm, y))
        learned.advance()
    blob, counts = learned.snapshot(), np.zeros(4)
    for seed in range(2000):
        policy = make_policy("rexp3", FIELD, period=50, gamma=0.2, seed=seed)
        policy.restore(blob)
        counts[policy.select().arm] += 1
    p = np.array(twin.probabilities())
    assert p[2] > 0.4  # else there is nothing learned to be seen
    np.testing.assert_allclose(counts / 2000, p, atol=4 * np.sqrt(0.25 / 2000))


@pytest.mark.parametrize("period", [1, 4, 100, 10_000])
def test_without_a_gamma_it_is_theorem_2s(period):
    policy = make_policy("rexp3", FIELD, period=period)
    gamma = min(1.0, math.sqrt(4 * math.log(4) / ((math.e - 1) * period)))
    assert saved(policy, period, gamma)["resets"] == 0  # opens only by the same γ, to the last bit


def test_every_period_it_begins_anew():
    policy = make_policy("rexp3", FIELD, period=5, gamma=0.3)
    for t in range(12):
        weights = saved(policy, 5, 0.3)["weights"]
        assert (t % 5 == 0) == bool((weights == 1.0).all())
        policy.observe(policy.select().arm, 1.0)
        policy.advance()
    assert policy.resets == 2


def test_readings_nobody_asked_for_weigh_nothing_and_a_second_answer_neither():
    policy = make_policy("rexp3", FIELD, gamma=0.3)
    policy.observe(1, 3.0)
    assert (saved(policy, 100, 0.3)["weights"] == 1.0).all()
    arm = policy.select().arm
    policy.observe((arm + 1) % 4, 3.0)
    assert (saved(policy, 100, 0.3)["weights"] == 1.0).all()
    policy.observe(arm, 3.0)
    once = saved(policy, 100, 0.3)["weights"]
    assert once.argmax() == arm
    assert (once < 1.0).sum() == 3
    policy.observe(arm, 3.0)
    assert np.array_equal(saved(policy, 100, 0.3)["weights"], once)
    assert policy.observations == 1


def test_where_some_are_not_eligible_the_others_share_their_chance():
    policy = make_policy("rexp3", FIELD, gamma=0.3)
    arm = policy.select(np.array([True, False, True, False])).arm
    assert saved(policy, 100, 0.3)["chances"][arm] == pytest.approx(0.5)


def test_it_finds_the_best_of_a_field_that_stands_still():
    rng = np.random.default_rng(0)
    policy = make_policy("rexp3", FIELD, period=1000, seed=1)
    picks = []
    for _ in range(1000):
        arm = policy.select().arm
        policy.observe(arm, (2.0 if arm == 1 else -1.0) * STD[arm] + 0.1 * rng.normal())
        policy.advance()
        picks.append(arm)
    assert picks[-300:].count(1) > 150


# --- the oracle ---------------------------------------------------------------------------------


def fields(length, seed):
    return np.cumsum(np.random.default_rng(seed).normal(size=(length, 4)), axis=0)


@given(seed=st.integers(0, 2**32), length=st.integers(1, 30))
def test_told_every_reading_before_it_chooses_an_oracle_has_no_regret(seed, length):
    policy = make_policy("oracle", FIELD)
    for row in fields(length, seed):
        for arm in range(4):
            policy.observe(arm, float(row[arm]))
        assert row[policy.select().arm] == row.max()
        assert row[[c.arm for c in policy.select_many(4)]].tolist() == sorted(row, reverse=True)
        policy.advance()
    assert policy.observations == 4 * length


def test_told_late_it_follows_the_interval_before():
    policy = make_policy("oracle", FIELD)
    before = None
    for row in fields(30, seed=3):
        arm = policy.select().arm
        assert before is None or arm == before
        for each in range(4):
            policy.observe(each, float(row[each]))
        policy.advance()
        before = int(row.argmax())


def test_what_never_read_is_worse_than_the_coldest():
    policy = make_policy("oracle", FIELD)
    policy.observe(2, -1e6)
    assert policy.select().arm == 2
