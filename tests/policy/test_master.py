"""MASTER over GP-UCB against the paper's procedure on the whole history, and its thresholds."""

import math

import numpy as np
import pytest
from support.naive import NaivePosterior, log_beta, se, temporal, ucb

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.optimal_design import information
from edge_tvbo.numerics.acquisition import draw
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.master import RegretRate

M = 4
K = se(np.array([[0.0, 0.0], [0.4, 0.1], [0.9, 0.4], [0.2, 0.8]]), 0.4)
NOISE_VARIANCE = 0.04
FIELD = SensorField(tuple("abcd"), K, NOISE_VARIANCE)
HORIZON = 64
BETA = {"c1": 0.8, "c2": 4.0}


class NaiveMaster:
    """Algorithm 3 of Wei & Luo 2021; instances are (order, first interval, posterior)."""

    def __init__(self, seed, scale, rate):
        self.seed, self.rate = seed, rate
        self.factor = scale * 6 * (math.log2(HORIZON) + 1) * math.log(HORIZON / (1 / HORIZON))
        self.t = 0
        self.start(0)

    def start(self, n):
        """Run procedure 1 for a block of 2^n intervals."""
        self.n, self.began, self.history = n, self.t, []
        self.instances = []
        for tau in range(2**n):
            for m in range(n, -1, -1):
                if tau % 2**m == 0:
                    u = draw(self.seed, -1 - ((self.t + tau) * 64 + m), 2**53) / 2**53
                    if m == n or u < self.rate(2**n) / self.rate(2**m):
                        posterior = NaivePosterior(K, NOISE_VARIANCE, temporal("static"))
                        self.instances.append((m, tau, posterior))

    def active(self):
        tau = self.t - self.began
        covering = [each for each in self.instances if each[1] <= tau < each[1] + 2 ** each[0]]
        return min(covering, key=lambda each: each[0])[2]

    def step(self, arm, y, bound):
        """Return whether a test fails after this interval."""
        self.active().observe(arm, y)
        rewards = [min(max((value + 3) / 6, 0), 1) for value in (y, bound)]
        self.history.append(rewards)
        tau, lowest = len(self.history) - 1, min(g for _, g in self.history)
        self.t += 1
        failed = np.mean([g - r for r, g in self.history]) >= 3 * self.factor * self.rate(tau + 1)
        for m, s, _ in self.instances:
            if s + 2**m - 1 == tau:
                mean = np.mean([r for r, _ in self.history[s:]])
                failed |= mean >= lowest + 9 * self.factor * self.rate(2**m)
        if failed:
            self.start(0)
        elif tau + 1 == 2**self.n:
            self.start(min(self.n + 1, int(math.log2(HORIZON))))
        return failed


@pytest.mark.parametrize(("seed", "scale"), [(0, 1.0), (1, 3e-4), (2, 3e-4), (3, 1e-3)])
def test_it_selects_and_restarts_as_its_twin(seed, scale):
    policy = make_policy(
        "master-gp-ucb", FIELD, horizon=HORIZON, threshold_scale=scale, beta=BETA, seed=seed
    )
    twin = NaiveMaster(seed, scale, policy._rate)
    rng = np.random.default_rng(seed)
    values, resets = rng.normal(0, 1, M), 0
    for t in range(300):
        values = rng.normal(0, 1, M) if t % 60 == 0 else values
        posterior = twin.active()
        width = math.sqrt(log_beta(**BETA, t=len(posterior.history) + 1))
        choice = policy.select()
        mean, std = posterior.mean_std()
        assert choice.arm in ucb(mean, std, width)
        assert choice.ucb == pytest.approx(mean[choice.arm] + width * std[choice.arm], abs=1e-8)
        y = float(values[choice.arm] + rng.normal(0, 0.2))
        policy.observe(choice.arm, y)
        policy.advance()
        assert twin.step(choice.arm, y, choice.ucb) == (policy.resets > resets)
        resets = policy.resets
    assert (resets > 0) == (scale < 1.0)


def play(policy, first, last):
    picks = []
    for t in range(first, last):
        arm = policy.select().arm
        policy.observe(arm, math.sin(arm + 0.01 * t))
        policy.advance()
        picks.append(arm)
    return picks


@pytest.mark.parametrize("cut", [3, 40, 100])
def test_restored_in_any_block_it_continues_bit_for_bit(cut):
    policy, other = (make_policy("master-gp-ucb", FIELD, horizon=HORIZON) for _ in range(2))
    play(policy, 0, cut)
    play(other, 0, 33)
    other.restore(policy.snapshot())
    assert play(other, cut, 200) == play(policy, cut, 200)
    assert other.snapshot() == policy.snapshot()


def test_a_downtime_computes_no_regret_rates(monkeypatch):
    """There are many for each interval, so the intervals of a month took 2 s."""
    policy = make_policy("master-gp-ucb", FIELD, horizon=HORIZON)
    calls = []
    monkeypatch.setattr(RegretRate, "__call__", lambda self, t: calls.append(t))
    for _ in range(200):
        policy.advance()
    assert not calls


def test_rate_is_the_regret_bound_of_gp_ucb():
    rate = RegretRate(np.eye(3), 0.1, 4.0, 6)
    p = np.full(3, 1 / 3)
    for t in (1, 8, 64):
        bound = math.sqrt(8 / math.log(11) * 4 * information(np.eye(3), p, 0.1 / t) / t)
        assert rate(t) == pytest.approx(max(bound / 6, 1 / math.sqrt(t)), rel=1e-3)
    rates = [rate(t) for t in range(1, 65)]
    assert all(np.diff(rates) <= 0)  # the paper's assumption 1
    assert all(np.diff([t * each for t, each in enumerate(rates, 1)]) >= -1e-12)


def least_excess(horizon):
    """Return the bound above which test 2 fails after `horizon` intervals, at the lowest rate."""
    return 3 * 6 * (math.log2(horizon) + 1) * 2 * math.log(horizon) / math.sqrt(horizon)


def test_no_test_can_fail_in_fewer_than_400_million_intervals():
    """Rewards and bounds are between 0 and 1."""
    for horizon in (64, 10**4, 10**7):
        policy = make_policy("master-gp-ucb", FIELD, horizon=horizon)
        assert policy._rate(horizon) >= 1 / math.sqrt(horizon)
        excess = 3 * policy._threshold / math.sqrt(horizon)
        assert excess == pytest.approx(least_excess(horizon))
        assert excess > 1.0
    assert least_excess(4 * 10**8) > 1.0 > least_excess(5 * 10**8)


@pytest.mark.parametrize("noise_variance", [1e-9, 1e-15, 1e-50])
def test_sensors_at_one_place_may_have_nearly_no_noise(noise_variance):
    field = SensorField(("a", "b", "c"), np.ones((3, 3)), noise_variance)

    assert make_policy("master-gp-ucb", field).select().arm in range(3)


@pytest.mark.parametrize("noise_variance", [1e-9, 1e-15, 1e-50, 1e20, 1e50])
def test_with_extreme_noise_all_regret_rates_are_numbers(noise_variance):
    """The daemon ended with a ValueError in interval 62."""
    rate = RegretRate(np.ones((3, 3)), noise_variance, 16.0, 13)
    rates = [rate(1 << m) for m in range(14)]
    assert all(0.0 < each < math.inf for each in rates)
    assert rates == sorted(rates, reverse=True)


def test_a_field_of_very_many_sensors_is_rejected():
    many = SensorField(tuple(map(str, range(513))), np.eye(513), 0.1)
    for name in ("master-gp-ucb", "ada-opkb"):
        with pytest.raises(ConfigError, match="at most 512 arms"):
            make_policy(name, many)


def test_snapshot_with_impossible_orders_is_rejected():
    policy = make_policy("master-gp-ucb", FIELD, horizon=64)
    policy._order = 5
    with pytest.raises(SnapshotError):
        make_policy("master-gp-ucb", FIELD, horizon=64).restore(policy.snapshot())
