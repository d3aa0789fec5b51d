"""GLR-GP-UCB against a plain twin: when it polls in turn, when it resets, and its false alarms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from support.examples import max_examples
from support.naive import NaivePosterior, log_beta, se, temporal, ucb

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.change_detector import ChangeDetector
from edge_tvbo.models.facts import PolledInTurn
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.change_point import largest_log_ratio
from edge_tvbo.policy import make_policy

M = 4
POSITIONS = np.array([[0.0, 0.0], [0.4, 0.1], [0.9, 0.4], [0.2, 0.8]])
K = se(POSITIONS, 0.4)
NOISE_VARIANCE = 0.04
STATIC = temporal("static")
FIELD = SensorField(tuple("abcd"), K, NOISE_VARIANCE)


class NaiveGlrGpUcb:
    """GLR-klUCB of Besson et al. 2022 with GP-UCB as its bandit, from the whole history."""

    def __init__(self, delta, exploration):
        self.delta = delta
        self.every = math.floor(M / exploration)
        self.posterior, self.seen = (
            NaivePosterior(K, NOISE_VARIANCE, STATIC),
            [[] for _ in range(M)],
        )

    def arms(self, t):
        """Return the arms that may be selected in interval t = 1, 2, ..."""
        place = (t - 1) % self.every
        if place >= self.every - M:
            return [place - (self.every - M)]
        return ucb(*self.posterior.mean_std(), math.sqrt(log_beta(0.8, 4.0, t)))

    def step(self, arm, y):
        """Return whether the reading of the selected arm shows a change; if so, forget all."""
        self.posterior.observe(arm, y)
        seen = self.seen[arm]
        seen.append(y)
        n = len(seen)
        for s in range(1, n):
            before, after, mean = np.mean(seen[:s]), np.mean(seen[s:]), np.mean(seen)
            ratio = s * (before - mean) ** 2 + (n - s) * (after - mean) ** 2
            if ratio / (2 * NOISE_VARIANCE) >= math.log(3 * n * math.sqrt(n) / self.delta):
                self.posterior = NaivePosterior(K, NOISE_VARIANCE, STATIC)
                self.seen = [[] for _ in range(M)]
                return True
        return False


@given(
    seed=st.integers(0, 2**32 - 1),
    delta=st.sampled_from([0.01, 0.3]),
    exploration=st.sampled_from([0.2, 0.35, 1.0]),
)
@max_examples(20)
def test_it_selects_and_resets_as_its_twin(seed, delta, exploration):
    rng = np.random.default_rng(seed)
    parameters = {"delta": delta, "exploration": exploration, "test_window": 100}
    policy = make_policy("glr-gp-ucb", FIELD, beta={"c1": 0.8, "c2": 4.0}, **parameters)
    twin = NaiveGlrGpUcb(delta, exploration)
    level = rng.normal(0, 1, M)
    for t in range(1, 81):
        if t % 27 == 0:
            level = rng.normal(0, 1, M)
        arm = policy.select().arm
        assert arm in twin.arms(t)
        y = float(level[arm] + rng.normal(0, NOISE_VARIANCE**0.5))
        assert policy.observe(arm, y).reset == twin.step(arm, y)
        np.testing.assert_allclose(policy.posterior()[0], twin.posterior.mean_std()[0], atol=1e-8)
        policy.advance()


def test_a_change_of_an_arm_that_is_polled_in_turn_resets_the_model():
    policy = make_policy("glr-gp-ucb", FIELD, exploration=0.5)
    resets = []
    for t in range(120):
        value = [1.0, 0.0, 0.0, 0.0 if t < 60 else 3.0]  # the last arm becomes the best
        choice = policy.select()
        in_turn = t % 8 >= 4
        assert choice.turn == (PolledInTurn(8) if in_turn else None)
        assert not in_turn or choice.arm == t % 8 - 4
        resets += [t] if policy.observe(choice.arm, value[choice.arm]).reset else []
        policy.advance()
    assert len(resets) == policy.resets == 1
    assert 60 <= resets[0] < 76  # the first two polls of this arm after the change
    assert choice.arm in (0, 3)


def test_ineligible_arm_is_not_polled_in_turn():
    policy = make_policy("glr-gp-ucb", FIELD, exploration=1.0)
    assert policy.select().arm == 0
    choice = policy.select(np.array([False, True, True, True]))
    assert choice.arm != 0
    assert choice.turn is None


def test_unsolicited_readings_are_not_tested():
    policy = make_policy("glr-gp-ucb", FIELD)
    for y in (0.0, 0.0, 0.0, 50.0, 50.0, 50.0):
        assert not policy.observe(2, y).reset
    assert policy.resets == 0


def test_false_alarms_are_as_rare_as_delta():
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(300):
        detector = ChangeDetector(1, 1.0, delta=0.1, window=200)
        alarms += any(detector.detects(0, y) for y in rng.normal(0, 1, 200))
    assert alarms / 300 < 0.1


@pytest.mark.slow
def test_false_alarms_accumulate_after_the_window_is_full():
    """The descriptions of `delta` state 5 % within 10,000 readings."""
    rng = np.random.default_rng(5)
    detector = ChangeDetector(1, 1.0, delta=0.01, window=128)
    thresholds = [detector.threshold(n) for n in range(1, 129)]

    def alarm(y, t):
        """Return whether the detector detects a change at the t-th of the readings `y`."""
        n = min(t, 128)
        return largest_log_ratio(y[t - n : t], n) >= thresholds[n - 1]

    y = np.repeat([0.0, 2.0], [300, 100]) + rng.normal(0, 1, 400)
    found = [alarm(y, t) for t in range(1, 401)]
    assert found == [detector.detects(0, each) for each in y]
    assert any(found[300:]) and not any(found[:300])

    def any_alarm(y):
        """Return whether `alarm` holds for any of the readings `y`."""
        full = sliding_window_view(y, 128, writeable=True)  # faster than a slice for each reading
        return any(alarm(y, t) for t in range(1, 128)) or any(
            largest_log_ratio(window, 128) >= thresholds[-1] for window in full
        )

    assert any_alarm(y) and not any_alarm(y[:300]) and any_alarm(y[: found.index(True) + 1])
    assert not any_alarm(y[: found.index(True)])
    alarms = sum(any_alarm(rng.normal(0, 1, 10_000)) for _ in range(200))
    assert 0.02 < alarms / 200 < 0.1


def test_detector_holds_the_newest_readings():
    detector = ChangeDetector(2, 1.0, delta=0.1, window=3)
    for y in (1.0, 2.0, 3.0, 4.0, 5.0):
        detector.detects(1, y)
    assert detector.held[1].tolist() == [3.0, 4.0, 5.0]
    assert detector.counts.tolist() == [0, 3]
    with pytest.raises(ConfigError, match="delta"):
        ChangeDetector(2, 1.0, delta=0.0, window=3)


def test_snapshot_with_impossible_counts_is_rejected():
    detector = ChangeDetector(2, 1.0, delta=0.1, window=3)
    with pytest.raises(SnapshotError, match="counts"):
        detector.check_state({"held": np.zeros((2, 3)), "counts": np.array([0, 4])})
