"""Auto policy: each model of the mixture agrees with a plain twin, and the weights are Bayes'."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings
from support.examples import max_examples
from support.naive import NaivePosterior, se, temporal

from edge_tvbo.control import history_text
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.fact_text import turn_text
from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.messages.commands import PublishState
from edge_tvbo.messages.documents import Reason
from edge_tvbo.messages.events import IntervalElapsed, Reading
from edge_tvbo.messages.formatting import counted
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.facts import LeastKnown, RateOfChange
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors import mixture
from edge_tvbo.models.posteriors.mixture import (
    DISCOUNT,
    MIN_LOG_WEIGHT,
    Member,
    MixturePosterior,
)
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.auto import MAX_TURNS, NEXT_WIDTH, UNREAD_WIDTH

PLACES = np.array([[0.0, 0.0], [0.3, 0.1], [0.9, 0.4], [0.2, 0.8]])
K = se(PLACES, 0.4)
M = len(K)
NOISE = 0.05
DAY, HOUR = 86_400.0, 3600.0
NAMES = ("a", "b", "c", "d")
PLAIN = SensorField(NAMES, K, NOISE, positions=PLACES)
LEARNING = SensorField(NAMES, K, NOISE, positions=PLACES, structure=prior_structure(K, HOUR))
TURN = turn_text(LeastKnown())
histories = st.lists(st.tuples(st.integers(0, M - 1), st.floats(-3, 3)) | st.none(), max_size=25)


def use_members(monkeypatch, *members):
    monkeypatch.setattr(mixture, "default_members", lambda: members)


@pytest.mark.parametrize("rate", [0.01, 0.3])
@given(history=histories)
@max_examples(30)
def test_mixture_of_one_plain_model_is_that_model(rate, history):
    with pytest.MonkeyPatch.context() as patch:
        use_members(patch, Member("tv", epsilon=rate), Member("tv", epsilon=rate))
        posterior = MixturePosterior(PLAIN)
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
@max_examples(30)
def test_weights_are_discounted_likelihoods_of_the_models(history):
    posterior = MixturePosterior(PLAIN)
    expected = np.zeros(len(posterior.members))
    for step in history:
        if step is None:
            expected *= DISCOUNT
            posterior.advance()
            continue
        arm, y = step
        posterior._triggers[0].n_lower = 10**9
        before = [moments_of(posterior, k, arm) for k in range(len(expected))]
        log = [huber(y - m, v + NOISE) for m, v in before]
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
    n = posterior._split
    m, C = (
        (posterior._m[k], posterior._C[k])
        if k < n
        else (posterior._m2[k - n], posterior._C2[k - n])
    )
    return m[arm], C[arm, arm]


def test_absurd_reading_counts_like_one_at_three_deviations():
    far, near = MixturePosterior(PLAIN), MixturePosterior(PLAIN)
    for posterior in (far, near):
        posterior._triggers[0].n_lower = 10**9
    far.observe(0, 1e6)
    near.observe(0, 3.0 * math.sqrt(K[0, 0] + NOISE))
    np.testing.assert_allclose(far._m, near._m, atol=1e-3)
    assert np.ptp(far.log_weights) <= -MIN_LOG_WEIGHT


def test_quantile_is_that_of_a_sample_of_the_mixture():
    posterior = MixturePosterior(PLAIN)
    posterior.observe(1, 0.7)
    rng = np.random.default_rng(1)
    models = range(len(posterior.members))
    moments = np.array([moments_of(posterior, k, 2) for k in models])
    draws = moments[rng.choice(models, 200_000, p=posterior.weights)]
    sample = draws[:, 0] + np.sqrt(draws[:, 1] + NOISE) * rng.normal(size=len(draws))
    for share in (0.05, 0.5, 0.95):
        assert np.mean(sample < posterior.quantile(2, share)) == pytest.approx(share, abs=0.004)


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
        rates[rate] = policy._posterior.rate
    assert rates[0.003] < 0.02 < rates[0.1]
    model, change = policy.facts()
    assert (model.epsilon, model.momentum) == (0.1, None)
    assert change == RateOfChange(policy._posterior.rate)


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
    weights = policy._posterior.weights
    by_scale = {}
    for member, weight in zip(policy._posterior.members, weights, strict=True):
        by_scale[member.kernel] = by_scale.get(member.kernel, 0.0) + weight
    assert max(by_scale, key=by_scale.get) == 1  # the longest, which is about 1


def learned_scales():
    return MixturePosterior(PLAIN, scales=(1.0, 0.5, 0.25, 0.125))


def test_a_jump_resets_each_static_model_that_it_contradicts():
    """Only the model of the longest length scale was reset."""
    posterior = learned_scales()
    for t in range(40):
        posterior.observe(t % M, 0.0)
        posterior.advance()
    assert posterior.resets == 0
    posterior.observe(0, 3.0)
    assert posterior.resets == 4
    assert [trigger.age for trigger in posterior._triggers.values()] == [0] * 4
    np.testing.assert_allclose(posterior._m[:4, 0], 3.0 * 1.0 / (1.0 + NOISE), rtol=1e-3)


def test_ages_of_the_triggers_are_in_the_snapshot_and_may_be_a_single_age():
    posterior, other = learned_scales(), learned_scales()
    for y in (0.0, 0.0, 2.0):
        posterior.observe(0, y)
    posterior._triggers[2].age = 7
    blob = posterior.snapshot()
    other.restore(blob)
    ages = [trigger.age for trigger in posterior._triggers.values()]
    assert [trigger.age for trigger in other._triggers.values()] == ages
    assert other.snapshot() == blob
    state = decode_snapshot(posterior._kind(), PLAIN.fingerprint(), blob)
    del state["ages"]
    other.restore(encode_snapshot(posterior._kind(), PLAIN.fingerprint(), {**state, "age": 5}))
    assert [trigger.age for trigger in other._triggers.values()] == [5] * 4
    for wrong in (np.array([1, 2, 3, -1]), np.arange(3), 5):
        damaged = encode_snapshot(posterior._kind(), PLAIN.fingerprint(), {**state, "ages": wrong})
        with pytest.raises(SnapshotError, match="ages"):
            other.restore(damaged)


@given(history=histories, cut=st.integers(0, 25))
@max_examples(40)
def test_restored_it_continues_bit_for_bit(history, cut):
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

    policy, other = (make_policy("auto", LEARNING, seed=1) for _ in range(2))
    policy.set_time(3 * HOUR)
    run(policy, history[:cut])
    other.restore(policy.snapshot())
    assert run(other, history[cut:]) == run(policy, history[cut:])
    assert other.snapshot() == policy.snapshot()


def test_snapshot_of_another_kind_of_model_is_rejected():
    with pytest.raises(SnapshotError, match="mixture"):
        make_policy("auto", LEARNING).restore(make_policy("auto", PLAIN).snapshot())


def cold(sensors=NAMES, interval=HOUR):
    kernel = 0.5 * np.eye(len(sensors)) + 0.5
    structure = prior_structure(kernel, interval)
    return make_policy("auto", SensorField(sensors, kernel, NOISE, structure=structure), seed=0)


def play(policy, values, first, rows, interval=HOUR):
    """Return the arms that were selected in `rows` intervals from `first` on."""
    chosen = []
    for t in range(first, first + rows):
        policy.set_time(t * interval)
        chosen.append(policy.select().arm)
        policy.observe(chosen[-1], values[chosen[-1]])
        policy.advance()
    return chosen


def on_reading(name):
    """Return a policy on sensors whose intervals have different lengths."""
    return make_policy(name, SensorField(NAMES, K, 0.01, structure=prior_structure(K, None)))


@pytest.mark.parametrize("number", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("name", ["auto", "kalman-ucb"])
def test_numbers_of_numpy_are_times_like_python_numbers(name, number):
    """The snapshot could not be encoded afterwards, so `select_many` failed, too."""
    policy, same = on_reading(name), on_reading(name)
    for each, kind in ((policy, number), (same, float)):
        each.set_time(kind(2**30))
        each.observe(1, 0.5)
        each.set_time(None)
        each.pass_time(kind(60))
    assert policy.snapshot() == same.snapshot()
    assert policy.select_many(2) == same.select_many(2)


@pytest.mark.parametrize("name", ["auto", "kalman-ucb"])
def test_an_impossible_time_is_rejected_and_changes_nothing(name):
    """A duration that was NaN made the posterior of `auto` NaN."""
    policy = on_reading(name)
    policy.set_time(DAY)
    before = policy.snapshot()
    for at in (math.nan, math.inf, -1e300, "08:00", True):
        with pytest.raises(ValueError, match=r"since 1970, from -1e\+50 to 1e\+50, or None"):
            policy.set_time(at)
    for seconds in (math.nan, math.inf, 1e300, -5.0, None, True):
        with pytest.raises(ValueError, match=r"finite number, 0 or more, at most 1e\+50"):
            policy.pass_time(seconds)
    assert policy.snapshot() == before


def test_sensors_take_turns_in_the_first_half_day():
    policy = cold()
    chosen = play(policy, (0.0, 5.0, 0.0, 0.0), 0, 3 * M)
    assert sorted(chosen[:M]) == [0, 1, 2, 3]
    assert {chosen.count(arm) for arm in range(M)} == {3}
    assert policy.select().arm == 1


def test_with_intervals_of_a_day_each_sensor_is_read_soon_and_the_best_one_often():
    chosen = play(cold(interval=24 * HOUR), (0.0, 1.0, 0.0, 0.0), 0, 10 * M, 24 * HOUR)
    assert set(chosen[: 2 * M]) == {0, 1, 2, 3}
    assert chosen[2 * M :].count(1) > 6 * M


def test_a_sensor_that_was_never_read_is_selected_though_all_others_are_alike():
    """A narrow bound would never show that this sensor is far above all others."""
    policy = cold()
    known = np.array([True, True, True, False])
    for t in range(60):
        policy.set_time(t * HOUR)
        policy.observe(policy.select(known).arm, 0.5)
        policy.advance()
    choice = policy.select()
    assert (choice.arm, choice.unread) == (3, True)
    assert choice.width >= UNREAD_WIDTH > policy.select(known).width
    assert not policy.select(known).unread
    assert policy.select(known).same_width and not choice.same_width


def test_a_sensor_that_was_never_read_is_compared_with_another_width_than_the_selected_one():
    policy = cold()
    known = np.array([True, True, True, False])
    for t in range(60):
        policy.set_time(t * HOUR)
        arm = policy.select(known).arm
        policy.observe(arm, 20.0 if arm == 0 else 0.5)
        policy.advance()
    choice = policy.select()
    assert (choice.arm, choice.unread, choice.same_width) == (0, False, False)


def test_a_snapshot_says_which_sensors_were_never_read():
    policy, other = cold(), cold()
    play(policy, (0.0, 1.0, 0.0, 0.0), 0, 2)
    other.restore(policy.snapshot())
    assert play(other, (0.0,) * M, 2, 9) == play(policy, (0.0,) * M, 2, 9)
    policy.reset()
    other.restore(policy.snapshot())
    assert other.snapshot() == policy.snapshot()


def test_a_state_keeps_which_sensors_were_never_read_when_beta_is_set_or_removed():
    field = lab("abcd")
    learned, constant = make_policy("auto", field), make_policy("auto", field, beta=4.0)
    for t in range(60):
        learned.set_time(t * HOUR)
        learned.observe(t % 3, 0.5)
        learned.advance()
    constant.restore(learned.snapshot())
    choice = constant.select()
    assert (choice.width, choice.same_width, choice.unread) == (2.0, True, False)
    back = make_policy("auto", field)
    back.restore(constant.snapshot())
    assert back.select().unread
    constant.reset()
    constant.observe(0, 0.5)
    back.restore(constant.snapshot())
    learned.reset()
    learned.observe(0, 0.5)
    assert back._read.tolist() == learned._read.tolist() == [True, False, False, False]


def test_an_added_sensor_counts_as_never_read():
    policy, wider = cold(), cold((*NAMES, "new"))
    play(policy, (0.0,) * M, 0, 60)
    assert wider.restore_sensors(policy.snapshot()) == M
    wider.set_time(60 * HOUR)
    choice = wider.select()
    assert (choice.sensor, choice.unread) == ("new", True)


def test_it_learns_when_each_sensor_is_hot():
    """Each sensor is hot at its own time; single readings show it, which no rate of change can."""
    kernel, regrets = 0.5 * np.eye(M) + 0.5, {}
    for structure in (None, prior_structure(kernel, HOUR)):
        field = SensorField(NAMES, kernel, NOISE, structure=structure)
        policy, rng, regret = make_policy("auto", field, seed=0), np.random.default_rng(0), 0.0
        for t in range(8 * 24):
            policy.set_time(t * HOUR)
            values = 2 * np.cos(2 * np.pi * (t / 24 - np.arange(M) / M))
            values += 0.1 * rng.standard_normal(M)
            arm = policy.select().arm
            policy.observe(arm, float(values[arm]))
            policy.advance()
            regret += float(values.max() - values[arm]) * (t >= 2 * 24)
        regrets[structure is None] = regret
    assert regrets[False] < 0.5 * regrets[True]


def test_field_that_it_cannot_work_on_is_rejected():
    bare = SensorField(NAMES, K, NOISE)
    with pytest.raises(ConfigError, match="needs sensor positions"):
        make_policy("auto", bare, length_scale="learned")
    with pytest.raises(ConfigError, match='length_scale is 3.0; allowed: "learned"'):
        make_policy("auto", PLAIN, length_scale=3.0)
    with pytest.raises(ConfigError, match="needs a field of sensors or of a grid"):
        make_policy("auto", BoxField([0.0], [1.0], SpatialKernel(), 0.1))


def decisions_of(field, hours):
    """Return the decisions of one interval an hour; the replies are 0, 0.5, ..., 2, 0, 0.5, ..."""
    controller = Controller(
        make_policy("auto", field, seed=0), controller_settings(reply_timeout=60.0, max_age=600.0)
    )
    decisions = []
    for t in range(hours):
        at = t * HOUR
        for command in controller.handle(IntervalElapsed(at)):
            if isinstance(command, PublishState):
                decisions.append(command.decision)
        controller.handle(Reading(decisions[-1].sensor, 0.5 * (t % 5), at=at, received=at))
    return decisions


def test_decision_says_what_is_assumed_and_what_was_learned():
    """Without recorded days, only the variation is learned, and not the season or the rates."""
    learned = set()
    for decision in decisions_of(LEARNING, 3 * 24)[1:]:
        count = counted(decision.model.observations, "reading")
        (fact,) = [each for each in decision.factors if each.startswith(f"after {count}: ")]
        assert "the season is" not in fact and "changes take" not in fact
        learned.add(fact.partition(": ")[2])
        assert (
            "not fitted: the season is a day; fast changes take 2.2 h, slow changes take 24 h"
        ) in decision.factors
    assert len(learned) > 3
    assert all(each.startswith("the field varies ") for each in learned)


def test_in_the_turns_at_the_start_no_text_is_about_bounds():
    warmup, *decisions = decisions_of(LEARNING, 20)
    assert warmup.reason == Reason.WARMUP
    for decision in decisions:
        lines = "\n".join(history_text.describe(HistoryEntry("lab", decision), 0.0))
        is_turn = decision.model.observations < MAX_TURNS * M
        assert (TURN in decision.factors) is is_turn
        assert ("in turn, so their bounds were not compared" in lines) is is_turn
        assert ("its bound is" in lines) is not is_turn
        assert ("xplo" in lines) is not is_turn  # exploitation, exploration


def test_decision_about_very_many_sensors_says_how_exact_their_model_is():
    kernel, names = 0.5 * np.eye(501) + 0.5, [f"s{arm}" for arm in range(501)]
    field = SensorField(names, kernel, NOISE, structure=prior_structure(kernel, HOUR))
    text = (
        "the model of the 501 sensors has low rank (factors: 1); the correlation of two sensors "
        "has an error of at most 0.001"
    )
    assert text in decisions_of(field, 2)[-1].factors


def test_many_sensors_share_their_course():
    """Most sensors are never read; the course that all share says when they are hot."""
    kernel, M = 0.5 * np.eye(600) + 0.5, 600
    field = SensorField(
        tuple(map(str, range(M))), kernel, NOISE, structure=prior_structure(kernel, HOUR)
    )
    policy, rng = make_policy("auto", field, seed=0), np.random.default_rng(0)
    for t in range(6 * 24):
        policy.set_time(t * HOUR)
        arm = policy.select().arm
        policy.observe(arm, float(2 * np.cos(2 * np.pi * t / 24) + 0.1 * rng.normal()))
        policy.advance()
    unread = np.flatnonzero(policy.posterior()[1] > np.quantile(policy.posterior()[1], 0.5))
    means = []
    for _ in range(24):
        policy.set_time((t := t + 1) * HOUR)
        means.append(policy.posterior()[0][unread].mean())
        policy.advance()
    wanted = 2 * np.cos(2 * np.pi * np.arange(24) / 24)
    assert np.corrcoef(means, wanted)[0, 1] > 0.9


def test_decision_names_the_most_probable_model():
    decision = decisions_of(PLAIN, 4)[-1]
    assert any(each.startswith("the likeliest model (") for each in decision.factors)
    assert any("is new each interval" in each for each in decision.factors)


# --- other sensors --------------------------------------------------------------------------------


def lab(names, **more):
    kernel = 0.5 * np.eye(len(names)) + 0.5
    structure = prior_structure(kernel, HOUR)
    return SensorField(tuple(names), kernel, NOISE, structure=structure, **more)


def lived(policy, intervals=60):
    rng = np.random.default_rng(5)
    for t in range(intervals):
        policy.set_time(t * HOUR)
        policy.observe(t % len(policy.field), float(rng.normal() + t % len(policy.field)))
        policy.advance()
    policy.set_time(intervals * HOUR)
    return policy


def test_a_hallucinated_reading_leaves_the_weights_of_the_mixture():
    real, hallucinated = MixturePosterior(PLAIN), MixturePosterior(PLAIN)
    for posterior in (real, hallucinated):
        posterior.observe(0, 2.0)
        posterior.advance()
    before = hallucinated.weights.copy()
    real.observe(0, 0.0)
    hallucinated.hallucinate(0, 0.0)
    assert (real.weights != before).any()
    np.testing.assert_array_equal(hallucinated.weights, before)
    assert hallucinated.variance[0] < 0.5 * K[0, 0]


def test_length_scale_is_learned_for_at_most_500_sensors():
    sensors = [f"s{i}" for i in range(501)]
    places = np.arange(501.0)[:, None]
    field = SensorField(sensors, np.eye(501), NOISE, positions=places)
    with pytest.raises(ConfigError, match="accepts at most 500 sensors; this field has 501"):
        make_policy("auto", field, length_scale="learned")
    make_policy(
        "auto",
        SensorField(sensors[:9], np.eye(9), NOISE, positions=places[:9]),
        length_scale="learned",
    )


SKIPPING = {
    "structural": (LEARNING, {}),
    "length scale": (PLAIN, {"length_scale": "learned"}),
    "no times": (PLAIN, {}),
    "on reading": (SensorField(NAMES, K, NOISE, structure=prior_structure(K, None)), {}),
}


@pytest.mark.parametrize("case", SKIPPING)
@given(history=histories, intervals=st.integers(1, 300))
@max_examples(15)
def test_skipped_intervals_have_the_effect_of_single_intervals(case, history, intervals):
    field, parameters = SKIPPING[case]
    skips, advances = (make_policy("auto", field, **parameters) for _ in range(2))
    for policy in (skips, advances):
        policy.set_time(30 * DAY)
        for step in history:
            if step is None:
                policy.advance()
            else:
                policy.observe(*step)
    skips.skip(intervals)
    for _ in range(intervals):
        advances.advance()
    np.testing.assert_allclose(skips.posterior(), advances.posterior(), rtol=1e-6, atol=1e-9)
    for policy in (skips, advances):
        policy.set_time(30 * DAY + 900 * HOUR)
    np.testing.assert_allclose(skips.posterior(), advances.posterior(), rtol=1e-6, atol=1e-9)
    assert skips.select().width == advances.select().width
    assert (skips._time, skips._events) == (advances._time, advances._events)


def test_a_controller_does_not_end_thousands_of_intervals_one_by_one():
    """After a long downtime, ending each of 10,000 intervals took minutes with many sensors."""
    controller = Controller(make_policy("auto", LEARNING), controller_settings())
    controller.handle(IntervalElapsed(30 * DAY, 1))
    advance, calls = controller.policy.advance, []
    controller.policy.advance = lambda: (calls.append(1), advance())
    controller.handle(IntervalElapsed(60 * DAY, 10_000))
    assert len(calls) == 1
    controller.handle(IntervalElapsed(60 * DAY, 3))
    assert len(calls) == 1 + 3


def test_further_sensors_of_an_interval_are_selected_with_a_wide_bound():
    policy = lived(make_policy("auto", lab("abcd")), 200)
    first, *others = policy.select_many(3)
    assert first == policy.select()
    assert first.width < NEXT_WIDTH
    assert [choice.width for choice in others] == [NEXT_WIDTH, NEXT_WIDTH]
    policy.observe(first.arm, first.mean)
    left = np.arange(M) != first.arm
    resumed = make_policy("auto", lab("abcd"))
    resumed.restore(policy.snapshot())
    assert resumed.select(left) == policy.select(left)
    assert policy.select(left).width == NEXT_WIDTH
    policy.advance()
    assert policy.select().width < NEXT_WIDTH


@pytest.mark.parametrize("names", ["abd", "abcde", "dcba", "xbyd", "bd"])
def test_what_is_known_of_sensors_is_kept_when_others_come_and_go(names):
    old = lived(make_policy("auto", lab("abcd")))
    new = make_policy("auto", lab(names))
    assert new.restore_sensors(old.snapshot()) == len(set(names) & set("abcd"))
    before, after = (
        dict(zip(p.field.sensors, np.transpose(p.posterior()), strict=True)) for p in (old, new)
    )
    for name in names:
        if name in "abcd":
            assert after[name] == pytest.approx(before[name], rel=1e-12)
        else:
            assert after[name][1] > max(std for _, std in before.values())
    lived(new, 30)
    assert np.isfinite(new.posterior()).all()


@pytest.mark.parametrize("beta", [4.0, {"c1": 0.8, "c2": 0.4}])
@given(names=st.sets(st.sampled_from("abcdxyz"), min_size=1), intervals=st.integers(1, 30))
@max_examples(10)
def test_width_of_a_given_beta_continues_when_sensors_come_and_go(beta, names, intervals):
    old = lived(make_policy("auto", lab("abcd"), beta=beta), intervals)
    new = make_policy("auto", lab(sorted(names)), beta=beta)
    first = new.select().width
    known = new.restore_sensors(old.snapshot())
    assert new.select().width == (old.select().width if known else first)


@pytest.mark.parametrize(("before", "after"), [(64, 65), (65, 64), (200, 201), (201, 200)])
def test_what_is_known_of_sensors_is_kept_with_other_harmonics(before, after):
    """The number of harmonics depends on the number of sensors; they keep what both have."""
    names = [f"s{i}" for i in range(max(before, after))]
    old = lived(make_policy("auto", lab(names[:before])), 30)
    new = make_policy("auto", lab(names[:after]))
    known = min(before, after)
    assert new.restore_sensors(old.snapshot()) == known
    (was, _), (now, std) = old.posterior(), new.posterior()
    assert np.corrcoef(was[:30], now[:30])[0, 1] > 0.9
    assert std[:30].max() < std[-30:].min()  # the last sensors have no reading
    new.restore(new.snapshot())
    lived(new, 5)
    assert np.isfinite(new.posterior()).all()


def test_an_added_sensor_starts_from_what_all_have_in_common():
    """The prior mean is 0, and the readings of all sensors are about 3."""
    old = make_policy("auto", lab("abcd"))
    for t in range(80):
        old.set_time(t * HOUR)
        old.observe(t % M, 3.0)
        old.advance()
    new = make_policy("auto", lab("abcde"))
    new.restore_sensors(old.snapshot())
    assert new.posterior()[0][4] == pytest.approx(3.0, abs=1.0)


@pytest.mark.parametrize("field", [lab("abx", center=3.0), lab("abx", objective="min"), lab("xyz")])
def test_nothing_is_kept_of_other_sensors_or_if_readings_mean_something_else(field):
    old, new = lived(make_policy("auto", lab("abcd"))), make_policy("auto", field)
    before = new.snapshot()
    assert new.restore_sensors(old.snapshot()) == 0
    assert new.snapshot() == before


def test_a_damaged_snapshot_of_other_sensors_changes_nothing():
    old, new = lived(make_policy("auto", lab("abcd"))), make_policy("auto", lab("abx"))
    blob, before = old.snapshot(), new.snapshot()
    with pytest.raises(SnapshotError):
        new.restore_sensors(blob[:-20])
    with pytest.raises(SnapshotError):
        new.restore_sensors(make_policy("tv-gp-ucb", PLAIN).snapshot())
    assert new.snapshot() == before


def test_a_controller_keeps_what_it_knows_when_a_sensor_is_added():
    rules = controller_settings(reply_timeout=60.0, max_age=600.0)
    old = Controller(lived(make_policy("auto", lab("abcd"))), rules)
    new = Controller(make_policy("auto", lab("abcde")), rules)
    assert new.restore_partial(old.snapshot()) == 4
    assert new.policy.posterior()[0][:4] == pytest.approx(old.policy.posterior()[0])
