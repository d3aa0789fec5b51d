"""ADA-OPKB against the formulas on the whole history: estimates, designs and detected changes."""

import math

import numpy as np
import pytest
from support.naive import se

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.optimal_design import optimal_design
from edge_tvbo.numerics.acquisition import draw
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.change_detection_settings import AdaOpkbSettings
from edge_tvbo.policy.opkb import Opkb, Tuning

M = 5
K = se(np.random.default_rng(3).uniform(0, 1, (M, 2)), 0.4)
FIELD = SensorField(tuple("abcde"), K / 9, 0.01)  # rewards are readings
HORIZON = 3000
TUNING = Tuning(j_star=1, epsilon_scale=0.01)


class NaiveAdaOpkb:
    """Hong, Li & Tewari 2023 with importance-weighted estimates from the whole history."""

    def __init__(self, seed):
        T, self.seed = HORIZON, seed
        self.ridge = TUNING.gamma / T
        self.features = np.linalg.cholesky(K)
        self.pi = optimal_design(K, np.zeros(M), self.ridge)
        inner = self.features.T @ np.diag(self.pi) @ self.features
        self.gamma_T = np.linalg.slogdet(np.eye(M) + inner / self.ridge)[1] / 2
        union = math.log(8 * M * T * math.log2(T) / TUNING.tol)
        self.alpha = TUNING.gamma / (4 * union)
        self.E = math.ceil(4 * self.gamma_T * union * TUNING.e_scale)
        self.t = 0
        self.restart()

    def restart(self):
        self.began = self.t
        self.history, self.designs, self.gaps = [], [self.pi], []

    @property
    def m(self):
        return len(self.designs) - 1

    def scheduled(self, j, t):
        """Return whether the part of order j that contains t is a replay, as the policy draws."""
        start = self.began + (t - self.began) // (self.E * 2**j) * self.E * 2**j
        u = draw(self.seed, -1 - (start * 64 + j), 2**53) / 2**53
        return u < math.sqrt(2.0 ** (j - self.m))

    def active(self, t):
        replays = [j for j in range(TUNING.j_star, self.m) if self.scheduled(j, t)]
        return replays[0] if replays else self.m

    def estimate(self, history):
        theta = np.zeros(M)
        for _, design, arm, reward in history:
            S = self.features.T @ np.diag(self.designs[design]) @ self.features
            inverse = np.linalg.inv(S + self.ridge * np.eye(M))
            theta += inverse @ self.features[arm] * reward
        means = self.features @ theta / len(history)
        return means.max() - means

    def epsilon(self, m):
        return (40 + 16 * math.sqrt(self.alpha)) * 0.5 * math.sqrt(1 / 2**m)

    def step(self, arm, reward):
        """Return whether the policy resets after this reading."""
        self.history.append((self.t, self.active(self.t), arm, reward))
        end = self.t + 1 - self.began
        ending = [
            j
            for j in range(TUNING.j_star, self.m)
            if end % (self.E * 2**j) == 0 and self.scheduled(j, self.t)
        ]
        self.t += 1
        for j in ending:
            replay = [each for each in self.history if each[0] >= self.t - self.E * 2**j]
            measured = self.estimate(replay)
            for k in range(TUNING.j_star, self.m):
                epsilon = (self.epsilon(k) + self.epsilon(j)) / 2
                apart = max(
                    (self.gaps[k] - 4 * measured).max(), (measured - 4 * self.gaps[k]).max()
                )
                if apart / (4 * epsilon * TUNING.epsilon_scale) > 1:
                    self.restart()
                    return True
        if end >= self.E * 2**self.m:
            self.end_block()
        return False

    def end_block(self):
        gaps, m = self.estimate(self.history), self.m + 1
        self.gaps.append(gaps)
        beta = 2 * self.gamma_T / self.epsilon(m) * TUNING.beta_scale
        mu = 0.5 * math.sqrt(1 / 2**m) * TUNING.mu_scale
        x = optimal_design(K, gaps * beta / 2, self.ridge)
        good = 2 * self.alpha * self.gamma_T / beta * TUNING.beta_scale * TUNING.g_scale
        among, kept = np.zeros(M), gaps <= good
        among[kept] = optimal_design(
            np.ascontiguousarray(K[kept][:, kept]), np.zeros(kept.sum()), self.ridge
        )
        mixture = TUNING.mixture_probability
        p = (1 - mu) * (x * (1 - mixture) + among * mixture) + mu * self.pi
        self.designs.append(p)
        self.began = self.t


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_designs_and_detected_changes_are_those_of_its_twin(seed):
    policy = Opkb(AdaOpkbSettings(horizon=HORIZON, seed=seed), FIELD, TUNING)
    twin = NaiveAdaOpkb(seed)
    rng = np.random.default_rng(seed)
    values = np.array([0.8, 0.3, -0.2, 0.1, -0.6])
    resets = 0
    for t in range(500):
        if t == 250:
            values = -values
        assert policy._active() == twin.active(t)
        arm = policy.select().arm
        y = float(np.clip(values[arm] + rng.normal(0, 0.1), -1, 1))
        policy.observe(arm, y)
        policy.advance()
        assert twin.step(arm, y) == (policy.resets > resets)
        resets = policy.resets
        np.testing.assert_allclose(policy._designs[twin.m], twin.designs[-1], atol=0.02)
        if twin.gaps:
            np.testing.assert_allclose(policy._gaps[twin.m - 1], twin.gaps[-1], atol=0.02)
    assert policy.resets >= 1


def test_opkb_never_resets_before_its_horizon():
    policy = make_policy("ada-opkb", FIELD, horizon=200, detect_changes=False)
    resets = []
    for t in range(500):
        arm = policy.select().arm
        policy.observe(arm, (-1.0 if t % 100 < 50 else 1.0) * arm / 5)
        policy.advance()
        resets.append(policy.resets)
    assert resets[199] == 0
    assert resets[-1] >= 1


@pytest.mark.slow
def test_arms_are_drawn_with_the_probabilities_of_the_design():
    counts, policy = np.zeros(M), make_policy("ada-opkb", FIELD)
    for policy._seed in range(2000):
        counts[policy.select().arm] += 1
    p = policy._designs[0]
    np.testing.assert_allclose(counts / 2000, p, atol=4 * np.sqrt(0.25 / 2000))


def test_arms_without_probability_are_drawn_uniformly_and_their_replies_are_not_used():
    line = np.linspace(0, 1, 12)[:, None]
    policy = make_policy("ada-opkb", SensorField([f"s{i}" for i in range(12)], se(line, 2.0), 0.01))
    absent = policy._designs[0] == 0
    counts = np.zeros(12)
    for _ in range(600):
        arm = policy.select(absent).arm
        policy.observe(arm, 0.3)
        counts[arm] += 1
        policy.advance()
        policy.reset()
    assert absent.sum() >= 5
    assert not counts[~absent].any()
    np.testing.assert_allclose(counts[absent] / 600, 1 / absent.sum(), atol=0.07)
    policy.observe(policy.select(absent).arm, 0.3)
    assert policy.observations == 0


def play(policy, first, last):
    picks = []
    for t in range(first, last):
        arm = policy.select().arm
        policy.observe(arm, (1.0 if t < 150 else -1.0) * math.sin(arm + 0.01 * t))
        policy.advance()
        picks.append(arm)
    return picks


@pytest.mark.parametrize("cut", [5, 77, 160, 295])
def test_restored_in_any_block_it_continues_bit_for_bit(cut):
    settings = AdaOpkbSettings(horizon=HORIZON, seed=1)
    policy, other = Opkb(settings, FIELD, TUNING), Opkb(settings, FIELD, TUNING)
    play(policy, 0, cut)
    play(other, 0, 33)
    other.restore(policy.snapshot())
    assert play(other, cut, 300) == play(policy, cut, 300)
    assert other.snapshot() == policy.snapshot()
    assert policy._block > 1


def test_unsolicited_and_second_readings_are_ignored():
    policy = make_policy("ada-opkb", FIELD)
    policy.observe(1, 0.3)
    assert policy.observations == 0
    arm = policy.select().arm
    for count in (1, 1):
        policy.observe(arm, 0.3)
        assert policy.observations == count


def test_snapshot_with_an_impossible_block_is_rejected():
    policy = make_policy("ada-opkb", FIELD, horizon=200)
    longer = make_policy("ada-opkb", FIELD, horizon=300)
    with pytest.raises(SnapshotError, match="is of"):
        policy.restore(longer.snapshot())
    policy._block = 99
    with pytest.raises(SnapshotError, match="block"):
        make_policy("ada-opkb", FIELD, horizon=200).restore(policy.snapshot())
