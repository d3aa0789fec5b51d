"""Baselines without a model: RExp3 and D-UCB agree with their papers, and the oracle."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.policy_snapshots import resealed

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import decode_snapshot
from edge_tvbo.policy import make_policy

STD = np.array([1.0, 2.0, 0.5, 1.0])
FIELD = SensorField(("a", "b", "c", "d"), np.diag(STD**2), 0.05)
NO_ARM = np.zeros(4, np.bool_)


class NaiveRExp3:
    """Algorithm 1 of Besbes, Gur & Zeevi 2014, given the drawn arm and its reward in [0, 1].

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
    """Return the reading as a share of the range from -3 to 3 prior standard deviations."""
    return min(max((y / STD[arm] + 3) / 6, 0.0), 1.0)


def state_of(policy, period, gamma):
    return decode_snapshot(f"rexp3 {period} {gamma!r}", FIELD.fingerprint(), policy.snapshot())


@given(
    readings=st.lists(st.floats(-10, 10), max_size=40),
    period=st.integers(1, 12),
    gamma=st.sampled_from([0.05, 0.3, 1.0]),
    seed=st.integers(0, 10**6),
)
@max_examples(60)
def test_rexp3_weights_and_probabilities_are_those_of_the_paper(readings, period, gamma, seed):
    policy = make_policy("rexp3", FIELD, period=period, gamma=gamma, seed=seed)
    twin = NaiveRExp3(4, period, gamma)
    for t, y in enumerate(readings):
        arm = policy.select().arm
        state = state_of(policy, period, gamma)
        expected = np.array(twin.w) / max(twin.w)
        np.testing.assert_allclose(state["weights"] / state["weights"].max(), expected, rtol=1e-9)
        assert state["chances"][arm] == pytest.approx(twin.probabilities()[arm], rel=1e-9)
        assert np.count_nonzero(state["chances"]) == 1
        assert policy.observations == t % period
        policy.observe(arm, y)
        twin.step(arm, reward_of(arm, y))
        policy.advance()
        assert policy.resets == (t + 1) // period


def test_rexp3_draws_arms_with_their_probabilities():
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
    assert p[2] > 0.4  # otherwise the weights would not show
    np.testing.assert_allclose(counts / 2000, p, atol=4 * np.sqrt(0.25 / 2000))


@pytest.mark.parametrize("period", [1, 4, 100, 10_000])
def test_rexp3_default_gamma_is_that_of_theorem_2(period):
    policy = make_policy("rexp3", FIELD, period=period)
    gamma = min(1.0, math.sqrt(4 * math.log(4) / ((math.e - 1) * period)))
    assert state_of(policy, period, gamma)["resets"] == 0  # its key has γ to the last bit


def test_rexp3_weights_are_equal_again_after_each_period():
    policy = make_policy("rexp3", FIELD, period=5, gamma=0.3)
    for t in range(12):
        weights = state_of(policy, 5, 0.3)["weights"]
        assert (t % 5 == 0) == bool((weights == 1.0).all())
        policy.observe(policy.select().arm, 1.0)
        policy.advance()
    assert policy.resets == 2


def test_rexp3_ignores_unsolicited_and_second_readings():
    policy = make_policy("rexp3", FIELD, gamma=0.3)
    policy.observe(1, 3.0)
    assert (state_of(policy, 100, 0.3)["weights"] == 1.0).all()
    arm = policy.select().arm
    policy.observe((arm + 1) % 4, 3.0)
    assert (state_of(policy, 100, 0.3)["weights"] == 1.0).all()
    policy.observe(arm, 3.0)
    once = state_of(policy, 100, 0.3)["weights"]
    assert once.argmax() == arm
    assert (once < 1.0).sum() == 3
    policy.observe(arm, 3.0)
    assert np.array_equal(state_of(policy, 100, 0.3)["weights"], once)
    assert policy.observations == 1


@pytest.mark.parametrize("name", ["rexp3", "ada-opkb"])
def test_rejected_selection_expects_no_reply(name):
    for reject in (lambda policy: policy.select(NO_ARM), lambda policy: policy.select_many(0)):
        policy = make_policy(name, FIELD)
        initial = policy.snapshot()
        policy.select()
        with pytest.raises(ValueError, match="no arm is eligible|k is 0"):
            reject(policy)
        assert policy.snapshot() == initial


def test_rexp3_probabilities_are_shared_by_eligible_arms():
    policy = make_policy("rexp3", FIELD, gamma=0.3)
    arm = policy.select(np.array([True, False, True, False])).arm
    assert state_of(policy, 100, 0.3)["chances"][arm] == pytest.approx(0.5)


def test_rexp3_draws_arms_whose_weights_became_tiny():
    first = np.arange(4) == 0
    policy = make_policy("rexp3", FIELD, period=100_000, gamma=0.3)
    for _ in range(10_000):  # e^-750 is below the smallest number
        policy.observe(policy.select(first).arm, 3.0)
        policy.advance()
    assert_draws_the_others(policy)


def test_rexp3_draws_arms_whose_weights_are_zero_in_an_old_snapshot():
    policy = make_policy("rexp3", FIELD, gamma=0.3)
    policy.restore(resealed(policy.snapshot(), weights=np.array([1.0, 0.0, 0.0, 0.0])))
    assert_draws_the_others(policy)


def assert_draws_the_others(policy):
    """Check that the arms except the first are drawn uniformly, and that a snapshot is valid."""
    arm = policy.select(np.arange(4) > 0).arm
    chances = dict(policy._drawn)
    assert chances == {arm: pytest.approx(1 / 3)}
    policy.observe(arm, 3.0)
    assert (policy._weights > 0.0).all()
    other = make_policy("rexp3", FIELD, period=policy._period, gamma=0.3)
    other.restore(policy.snapshot())
    assert other.select() == policy.select()


def test_rexp3_finds_the_best_arm_of_a_constant_field():
    rng = np.random.default_rng(0)
    policy = make_policy("rexp3", FIELD, period=1000, seed=1)
    picks = []
    for _ in range(1000):
        arm = policy.select().arm
        policy.observe(arm, (2.0 if arm == 1 else -1.0) * STD[arm] + 0.1 * rng.normal())
        policy.advance()
        picks.append(arm)
    assert picks[-300:].count(1) > 150


# --- discounted UCB -----------------------------------------------------------------------------


class NaiveDiscountedUCB:
    """Garivier & Moulines 2011, algorithm 1, over all readings with their intervals.

    ``bounds`` are those of a choice in interval t: N_{t-1}(γ, i) = Σ γ^(t-1-s), X̄ the mean with
    the same weights, and c = 2 B √(ξ ln n / N) with n = Σ N; infinite for an arm never read.
    """

    def __init__(self, K, B, gamma, xi):
        self.K, self.B, self.gamma, self.xi = K, B, gamma, xi
        self.t, self.history = 0, []  # (s, arm, y)

    def bounds(self):
        weights = [self.gamma ** (self.t - 1 - s) for s, _, _ in self.history]
        of = [[i for i, (_, arm, _) in enumerate(self.history) if arm == k] for k in range(self.K)]
        N = [sum(weights[i] for i in mine) for mine in of]
        n = max(sum(N), 1.0)  # at least 1 in the paper, where each round has a reading
        return [
            sum(weights[i] * self.history[i][2] for i in mine) / N[k]
            + 2 * self.B * math.sqrt(self.xi * math.log(n) / N[k])
            if mine
            else math.inf
            for k, mine in enumerate(of)
        ]


STEP = st.tuples(st.integers(0, 3) | st.none(), st.floats(-10, 10)) | st.none()
SPAN = 6 * STD.max()  # B: three prior deviations of the widest arm, up and down


def run_both(policy, twin, history, check):
    """Pass the readings to both; the arm None is the selected one, and None ends an interval."""
    for step in history:
        check()
        if step is None:
            policy.advance()
            twin.t += 1
        else:
            arm = policy.select().arm if step[0] is None else step[0]
            policy.observe(arm, step[1])
            twin.history.append((twin.t, arm, step[1]))
    check()


@given(
    history=st.lists(STEP, max_size=60),
    gamma=st.sampled_from([0.5, 0.9, 1.0]),
    xi=st.sampled_from([0.001, 0.5, 2.0]),
    mask=st.lists(st.booleans(), min_size=4, max_size=4).filter(any),
)
@max_examples(100)
def test_d_ucb_choice_has_the_highest_bound_of_the_paper(history, gamma, xi, mask):
    policy = make_policy("d-ucb", FIELD, gamma=gamma, xi=xi)
    twin = NaiveDiscountedUCB(4, SPAN, gamma, xi)

    def check():
        bounds = np.array(twin.bounds())
        for eligible in (np.ones(4, np.bool_), np.array(mask)):
            highest = bounds[eligible].max()
            slack = 0.0 if math.isinf(highest) else 1e-9 * max(abs(highest), 1.0)
            assert bounds[policy.select(eligible).arm] >= highest - slack
            assert eligible[policy.select(eligible).arm]
        assert policy.observations == len(twin.history)

    run_both(policy, twin, history, check)


def test_d_ucb_reads_every_arm_in_the_first_intervals():
    policy = make_policy("d-ucb", FIELD, seed=2)
    picks = []
    for _ in range(4):
        picks.append(policy.select().arm)
        policy.observe(picks[-1], 5.0 - picks[-1])
        policy.advance()
    assert sorted(picks) == [0, 1, 2, 3]


def test_d_ucb_counts_unsolicited_readings_too():
    policy = make_policy("d-ucb", FIELD, xi=1e-6)
    for arm, y in ((0, 0.1), (1, 0.2), (2, 0.9), (3, 0.3), (2, 0.7)):
        assert policy.observe(arm, y).reset is False
    assert policy.observations == 5
    assert policy.select().arm == 2
    assert [choice.arm for choice in policy.select_many(4)] == [2, 3, 1, 0]


def test_d_ucb_follows_a_change_of_the_best_arm():
    rng = np.random.default_rng(4)
    policy = make_policy("d-ucb", FIELD, gamma=0.95, xi=0.002)
    picks = []
    for t in range(400):
        level = np.array([0.0, 2.0, 0.0, 0.0] if t < 200 else [0.0, -2.0, 0.0, 2.0])
        picks.append(policy.select().arm)
        policy.observe(picks[-1], float(level[picks[-1]] + 0.1 * rng.normal()))
        policy.advance()
    assert picks[100:200].count(1) > 60
    assert picks[300:].count(3) > 60


def test_d_ucb_state_has_a_fixed_size_and_forgets_old_readings():
    policy = make_policy("d-ucb", FIELD, gamma=0.5, xi=1e-6)
    size = len(policy.snapshot())
    for arm in range(4):
        policy.observe(arm, float(arm))
    assert policy.select().arm == 3
    for _ in range(3000):  # 0.5^3000 is 0
        policy.advance()
    policy.observe(0, -9.0)
    assert policy.select().arm != 0
    assert len(policy.snapshot()) - size <= 8


def test_d_ucb_forgets_every_reading_on_reset():
    policy = make_policy("d-ucb", FIELD)
    policy.observe(1, 3.0)
    policy.reset()
    assert (policy.observations, policy.resets) == (0, 1)
    seen = {make_policy("d-ucb", FIELD, seed=seed).select().arm for seed in range(40)}
    assert seen == {0, 1, 2, 3}


# --- the oracle ---------------------------------------------------------------------------------


def fields(length, seed):
    return np.cumsum(np.random.default_rng(seed).normal(size=(length, 4)), axis=0)


@given(seed=st.integers(0, 2**32), length=st.integers(1, 30))
def test_oracle_that_reads_all_arms_first_has_no_regret(seed, length):
    policy = make_policy("oracle", FIELD)
    for row in fields(length, seed):
        for arm in range(4):
            policy.observe(arm, float(row[arm]))
        assert row[policy.select().arm] == row.max()
        assert row[[c.arm for c in policy.select_many(4)]].tolist() == sorted(row, reverse=True)
        policy.advance()
    assert policy.observations == 4 * length


def test_oracle_that_reads_after_the_choice_is_one_interval_late():
    policy = make_policy("oracle", FIELD)
    before = None
    for row in fields(30, seed=3):
        arm = policy.select().arm
        assert before is None or arm == before
        for each in range(4):
            policy.observe(each, float(row[each]))
        policy.advance()
        before = int(row.argmax())


def test_oracle_prefers_the_lowest_reading_to_none():
    policy = make_policy("oracle", FIELD)
    policy.observe(2, -1e6)
    assert policy.select().arm == 2
