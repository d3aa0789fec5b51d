"""Auto policy: each model of the mixture agrees with a plain twin, and the weights are Bayes'."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.controllers import controller_settings
from support.naive import NaivePosterior, se, temporal

from edge_tvbo.control.controller import Controller
from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.messages.commands import PublishState
from edge_tvbo.messages.events import IntervalElapsed, Reading
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.daily_profile import DAY, DailyProfile
from edge_tvbo.models.facts import RateOfChange
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors import mixture
from edge_tvbo.models.posteriors.mixture import (
    DISCOUNT,
    MIN_LOG_WEIGHT,
    Member,
    MixturePosterior,
)
from edge_tvbo.models.posteriors.two_component import TwoComponentPosterior
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import Momentum
from edge_tvbo.policy import make_policy

PLACES = np.array([[0.0, 0.0], [0.3, 0.1], [0.9, 0.4], [0.2, 0.8]])
K = se(PLACES, 0.4)
M, P = len(K), 6
NOISE = 0.05
RNG = np.random.default_rng(0)
RHYTHM = DailyProfile(
    mean=RNG.normal(size=(P, M)),
    scale=np.array([0.2, 0.4, 1.0, 1.5, 0.8, 0.3]),
    kernel=se(PLACES, 0.6),
    days=3.0,
    exploration=0.4,
    noise_variance=0.02,
)
NAMES = ("a", "b", "c", "d")
PLAIN = SensorField(NAMES, K, NOISE, positions=PLACES)
DAILY = SensorField(NAMES, K, NOISE, positions=PLACES, daily_profile=RHYTHM)
histories = st.lists(st.tuples(st.integers(0, M - 1), st.floats(-3, 3)) | st.none(), max_size=25)


def use_members(monkeypatch, *members):
    monkeypatch.setattr(mixture, "default_members", lambda field: members)


@pytest.mark.parametrize("rate", [0.01, 0.3])
@given(history=histories)
@settings(max_examples=30)
def test_mixture_of_one_plain_model_is_that_model(rate, history):
    with pytest.MonkeyPatch.context() as patch:
        use_members(patch, Member("tv", False, epsilon=rate), Member("tv", False, epsilon=rate))
        posterior = MixturePosterior(PLAIN)
    posterior._trigger.n_lower = 10**9  # the first member never resets here
    twin = NaivePosterior(K, NOISE, temporal("tv", rate))
    for step in history:
        if step is None:
            posterior.advance()
            twin.advance()
        else:
            mean, std = twin.mean_std()
            arm, y = step
            spread = math.sqrt(std[arm] ** 2 + NOISE)
            y = float(np.clip(y, mean[arm] - 3 * spread, mean[arm] + 3 * spread))
            posterior.observe(arm, y)  # within the distance that has its full weight
            twin.observe(arm, y)
    mean, std = twin.mean_std()
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-9)
    np.testing.assert_allclose(np.sqrt(posterior.variance), std, atol=1e-7)


@given(history=histories)
@settings(max_examples=30)
def test_daily_model_is_two_components_on_the_residuals(history):
    with pytest.MonkeyPatch.context() as patch:
        use_members(
            patch, Member("static", False, epsilon=0.0), Member("m", True, None, (0.95, 0.9), 1)
        )
        posterior = MixturePosterior(DAILY)
    posterior.set_time(2 * DAY / P)
    posterior._rate = 0.0  # the daily mean stays as it was learned
    posterior._trigger.n_lower = 10**9
    phase = 2
    unscaled = SensorField(NAMES, RHYTHM.kernel, 1.0)
    twin = TwoComponentPosterior(unscaled, Momentum(0.95, 0.9).transition())
    for step in history:
        if step is None:
            posterior.advance()
            twin.advance()
            phase = (phase + 1) % P
            continue
        arm, y = step
        scale = RHYTHM.scale[phase]
        unscaled.noise_variance = RHYTHM.noise_variance / scale**2
        spread = math.sqrt(twin.variance[arm] + unscaled.noise_variance)
        u = (y - RHYTHM.mean[phase, arm]) / scale
        u = float(np.clip(u, twin.mean[arm] - 3 * spread, twin.mean[arm] + 3 * spread))
        posterior.observe(arm, RHYTHM.mean[phase, arm] + scale * u)
        twin.observe(arm, u)
    mean, variance = posterior._m2[0, :M], np.diag(posterior._C2[0])[:M]
    np.testing.assert_allclose(mean, twin.mean, atol=1e-8)
    np.testing.assert_allclose(variance, twin.variance, atol=1e-8)


@pytest.mark.parametrize("field", [PLAIN, DAILY], ids=["plain", "daily"])
@given(history=histories)
@settings(max_examples=30)
def test_weights_are_discounted_likelihoods_of_the_models(field, history):
    posterior = MixturePosterior(field)
    expected = np.zeros(len(posterior.members))
    for step in history:
        if step is None:
            expected *= DISCOUNT
            posterior.advance()
            continue
        arm, y = step
        posterior._trigger.n_lower = 10**9
        before = [moments_of(posterior, k, arm) for k in range(len(expected))]
        noise = NOISE if field is PLAIN else RHYTHM.noise_variance
        log = [huber(y - m, v + noise) for m, v in before]
        density = math.log(
            sum(w * math.exp(d) for w, d in zip(posterior.weights, log, strict=True))
        )
        posterior.observe(arm, y)
        assert posterior.log_density == pytest.approx(density, abs=1e-9)
        expected = expected + log
        expected = np.maximum(expected - expected.max(), MIN_LOG_WEIGHT)
    np.testing.assert_allclose(posterior.log_weights, expected, atol=1e-8)
    for arm in range(M):
        moments = np.array([moments_of(posterior, k, arm) for k in range(len(expected))])
        mean = posterior.weights @ moments[:, 0]
        square = posterior.weights @ (moments[:, 1] + moments[:, 0] ** 2)
        assert posterior.mean[arm] == pytest.approx(mean, abs=1e-9)
        assert posterior.variance[arm] == pytest.approx(square - mean**2, abs=1e-9)


def huber(error, variance):
    z = abs(error) / math.sqrt(variance)
    loss = z**2 if z <= 3 else 3 * (2 * z - 3)
    return -0.5 * (math.log(2 * math.pi * variance) + loss)


def moments_of(posterior, k, arm):
    shift, scale = posterior._shifts(arm)[k], posterior._scaling()[k]
    n = posterior._split
    m, C = (
        (posterior._m[k], posterior._C[k])
        if k < n
        else (posterior._m2[k - n], posterior._C2[k - n])
    )
    return shift + scale * m[arm], scale**2 * C[arm, arm]


def test_absurd_reading_counts_like_one_at_three_deviations():
    far, near = MixturePosterior(PLAIN), MixturePosterior(PLAIN)
    for posterior in (far, near):
        posterior._trigger.n_lower = 10**9
    far.observe(0, 1e6)
    near.observe(0, 3.0 * math.sqrt(K[0, 0] + NOISE))
    np.testing.assert_allclose(far._m, near._m, atol=1e-3)
    assert np.ptp(far.log_weights) <= -MIN_LOG_WEIGHT


def test_quantile_is_that_of_a_sample_of_the_mixture():
    posterior = MixturePosterior(DAILY)
    posterior.observe(1, 0.7)
    draws = []
    rng = np.random.default_rng(1)
    for k in rng.choice(len(posterior.members), 200_000, p=posterior.weights):
        draws.append(moments_of(posterior, k, 2))
    draws = np.array(draws)
    sample = draws[:, 0] + np.sqrt(draws[:, 1] + RHYTHM.noise_variance) * rng.normal(
        size=len(draws)
    )
    for share in (0.05, 0.5, 0.95):
        assert np.mean(sample < posterior.quantile(2, share)) == pytest.approx(share, abs=0.004)


def test_daily_mean_follows_repeated_readings():
    policy = make_policy("auto", DAILY, seed=0)
    before = policy._mixture._daily_mean.copy()
    for t in range(40 * P):
        policy.set_time(t * DAY / P)
        for arm in range(M):
            policy.observe(arm, 2.0 + arm)
        policy.advance()
    after = policy._mixture._daily_mean
    assert np.abs(before - [2.0, 3.0, 4.0, 5.0]).mean() > 1.0
    np.testing.assert_allclose(after, np.tile([2.0, 3.0, 4.0, 5.0], (P, 1)), atol=0.1)


def test_estimated_rate_follows_the_change_of_the_field():
    rng = np.random.default_rng(3)
    L = np.linalg.cholesky(K + 1e-9 * np.eye(M))
    rates = {}
    for rate in (0.003, 0.1):
        policy, f = make_policy("auto", PLAIN, seed=0), L @ rng.normal(size=M)
        for _ in range(600):
            arm = int(rng.integers(M))
            policy.observe(arm, float(f[arm] + rng.normal() * NOISE**0.5))
            policy.advance()
            f = math.sqrt(1 - rate) * f + math.sqrt(rate) * L @ rng.normal(size=M)
        rates[rate] = policy._mixture.rate
    assert rates[0.003] < 0.02 < rates[0.1]
    model, change = policy.facts()
    assert (model.epsilon, model.daily, model.momentum) == (0.1, False, None)
    assert change == RateOfChange(policy._mixture.rate)


def test_fitting_length_scale_has_the_largest_weight():
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(30, 2))
    smooth = SpatialKernel(2.5, 1.0)(X, X)
    f = np.linalg.cholesky(smooth + 1e-9 * np.eye(30)) @ rng.normal(size=30)
    field = SensorField([f"s{i}" for i in range(30)], np.eye(30), 0.01, positions=X)
    policy = make_policy("auto", field, length_scale="learned", seed=0)
    for i in range(200):
        policy.observe(i % 30, float(f[i % 30] + 0.1 * rng.normal()))
        policy.advance()
    weights = policy._mixture.weights
    by_scale = {}
    for member, weight in zip(policy._mixture.members, weights, strict=True):
        by_scale[member.kernel] = by_scale.get(member.kernel, 0.0) + weight
    assert max(by_scale, key=by_scale.get) == 1  # the longest, which is about 1


@given(history=histories, cut=st.integers(0, 25))
@settings(max_examples=40)
def test_restored_it_continues_bit_for_bit_with_its_daily_mean(history, cut):
    def run(policy, steps):
        trace = []
        for step in steps:
            choice = policy.select()
            if step is None:
                policy.advance()
            else:
                policy.observe(*step)
            trace.append((choice, policy.posterior()[0].tobytes()))
        return trace

    policy, other = make_policy("auto", DAILY, seed=1), make_policy("auto", DAILY, seed=1)
    policy.set_time(3 * DAY / P)
    run(policy, history[:cut])
    other.restore(policy.snapshot())
    assert run(other, history[cut:]) == run(policy, history[cut:])
    assert other.snapshot() == policy.snapshot()


def test_snapshot_of_another_daily_profile_is_rejected():
    other = SensorField(NAMES, K, NOISE, positions=PLACES)
    with pytest.raises(SnapshotError, match="with other sensors"):
        make_policy("auto", DAILY).restore(make_policy("auto", other).snapshot())


def test_field_that_it_cannot_work_on_is_rejected():
    bare = SensorField(NAMES, K, NOISE)
    with pytest.raises(ConfigError, match="needs sensor positions"):
        make_policy("auto", bare, length_scale="learned")
    with pytest.raises(ConfigError, match='length_scale is 3.0; allowed: "learned"'):
        make_policy("auto", PLAIN, length_scale=3.0)
    with pytest.raises(ConfigError, match="needs sensors or a grid"):
        make_policy("auto", BoxField([0.0], [1.0], SpatialKernel(), 0.1))


def test_phase_is_the_interval_of_the_day():
    assert [RHYTHM.phase(at) for at in (0.0, DAY / P - 1, DAY / P, 2.5 * DAY, 3 * DAY - 1e-9)] == [
        0, 0, 1, 3, 0,
    ]  # fmt: skip


def test_decision_names_the_most_probable_model():
    controller = Controller(
        make_policy("auto", DAILY, seed=0), controller_settings(reply_timeout=60.0, max_age=600.0)
    )
    decision = None
    for t in range(4):
        at = t * DAY / P
        for command in controller.handle(IntervalElapsed(at)):
            if isinstance(command, PublishState):
                decision = command.decision
        controller.handle(Reading(decision.sensor, 0.5 * t, at=at, received=at))
    assert any(each.startswith("the likeliest model (") for each in decision.factors)
    assert any("is new each interval" in each for each in decision.factors)
