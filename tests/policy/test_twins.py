"""Policies against the papers' formulas over the whole history: the twins of ``naive.py``.

Choices are compared as sets: a fast policy may take any arm whose bound ties with the twin's.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import (
    NaiveEventTriggered,
    NaivePosterior,
    agnostic_width,
    log_beta,
    se,
    temporal,
    ucb,
)
from numpy.testing import assert_allclose

from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
BETA = {"c1": 0.8, "c2": 4.0}


def field_of(K, noise_variance):
    return SensorField(tuple(f"n{i}" for i in range(len(K))), K, noise_variance)


@st.composite
def fields(draw):
    M = draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K = se(rng.uniform(0, 1, (M, 2)), draw(st.floats(0.05, 1.0)))
    return K, 10.0 ** draw(st.floats(-2, 0))


@st.composite
def abrupt(draw, M, length=60):
    """Readings of a field that is drawn anew at a few moments; (length, M)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([0.1, 1.0, 10.0]))
    moments = set(draw(st.lists(st.integers(1, length - 1), max_size=3)))
    values, f = np.empty((length, M)), rng.normal(0, size, M)
    for t in range(length):
        if t in moments:
            f = rng.normal(0, size, M)
        values[t] = f + rng.normal(0, 0.1, M)
    return values


def assert_belief(policy, posterior):
    mean, std = policy.posterior()
    naive_mean, naive_std = posterior.mean_std()
    assert_allclose(mean, naive_mean, **CLOSE)
    assert_allclose(std**2, naive_std**2, **CLOSE)


# --- the event trigger --------------------------------------------------------------------------


def assert_follows_the_event_triggered_twin(K, noise_variance, values, settings):
    policy = make_policy("et-gp-ucb", field_of(K, noise_variance), beta=BETA, seed=1, **settings)
    twin = NaiveEventTriggered(K, noise_variance, **settings)
    resets = 0
    for t, row in enumerate(values):
        choice = policy.select()
        mean, std = twin.posterior.mean_std()
        assert choice.arm in ucb(mean, std, math.sqrt(log_beta(**BETA, t=t + 1)))
        reset, surprise, threshold, age = twin.step(choice.arm, row[choice.arm])
        outcome = policy.observe(choice.arm, float(row[choice.arm]))
        assert (outcome.reset, outcome.age) == (reset, age)
        assert outcome.surprise == pytest.approx(surprise, rel=1e-9, abs=1e-9)
        assert outcome.threshold == pytest.approx(threshold, rel=1e-9, abs=1e-9)
        assert_belief(policy, twin.posterior)
        resets += reset
        assert policy.resets == resets
        assert policy.observations == len(twin.posterior.history)
        policy.advance()
        twin.advance()
    return resets


VARIANTS = [
    {},
    {"keep_last": False},
    {"n_lower": 6},
    {"n_upper": 9},
    {"n_lower": 4, "n_upper": 11, "keep_last": False},
    {"n_lower": 5, "n_upper": 5},
    {"noise_cap": 3},
    {"noise_cap": 2, "n_upper": 20, "keep_last": False},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_et_resets_exactly_when_its_twin_does_at_abrupt_changes(seed, variant):
    rng = np.random.default_rng(seed)
    K = se(rng.uniform(0, 1, (6, 2)), 0.4)
    levels = rng.normal(0, 4, (4, 6)).repeat(20, axis=0)
    values = levels + rng.normal(0, 0.1, levels.shape)
    settings = {"delta_b": 0.1, **variant}
    resets = assert_follows_the_event_triggered_twin(K, 0.01, values, settings)
    assert resets > 0  # else this compares nothing but the posterior


@given(data=st.data(), field=fields())
@settings(max_examples=60)
def test_et_follows_its_twin_on_fields_nobody_chose(field, data):
    K, noise_variance = field
    n_lower = data.draw(st.integers(1, 12), label="n_lower")
    variant = {
        "delta_b": data.draw(st.sampled_from([0.01, 0.1, 0.9]), label="delta_b"),
        "n_lower": n_lower,
        "n_upper": data.draw(st.none() | st.integers(n_lower, 30), label="n_upper"),
        "keep_last": data.draw(st.booleans(), label="keep_last"),
        "noise_cap": data.draw(st.none() | st.integers(1, 20), label="noise_cap"),
    }
    values = data.draw(abrupt(len(K)), label="values")
    assert_follows_the_event_triggered_twin(K, noise_variance, values, variant)


@given(data=st.data(), field=fields(), delta_b=st.sampled_from([0.1, 0.9]), keep=st.booleans())
@settings(max_examples=40)
def test_et_with_the_likelihood_ratio_resets_exactly_when_the_prior_is_so_much_likelier(
    field, data, delta_b, keep
):
    K, noise_variance = field
    policy = make_policy(
        "et-gp-ucb",
        field_of(K, noise_variance),
        trigger="likelihood-ratio",
        delta_b=delta_b,
        keep_last=keep,
    )
    plain, age = NaivePosterior(K, noise_variance, temporal("static")), 0
    for row in data.draw(abrupt(len(K)), label="values"):
        arm = policy.select().arm
        y, age = float(row[arm]), age + 1
        mean, std = plain.mean_std()

        def log_density(error, variance):
            return -0.5 * math.log(2 * math.pi * variance) - error**2 / (2 * variance)

        fresh = log_density(y, K[arm, arm] + noise_variance)
        known = log_density(y - mean[arm], std[arm] ** 2 + noise_variance)
        evidence, allowed = fresh - known, math.log(math.pi**2 * age**2 / (3 * delta_b))
        outcome = policy.observe(arm, y)
        assert outcome.age == age
        if abs(evidence - allowed) > 1e-6:
            assert outcome.reset == (evidence > allowed)
        if outcome.reset:
            plain.reset()
            age = 0
        if keep or not outcome.reset:
            plain.observe(arm, y)
        assert_belief(policy, plain)
        policy.advance()


def test_a_threshold_grows_for_ever_without_a_cap_and_slower_with_one():
    field = field_of(np.eye(1), 0.5)
    free, capped = (make_policy("et-gp-ucb", field, noise_cap=cap) for cap in (None, 2))
    for age in range(1, 6):
        a, b = (p.observe(p.select().arm, 0.0) for p in (free, capped))
        assert a.age == b.age == age
        assert (a.threshold > b.threshold) == (age > 2)


@given(data=st.data(), field=fields())
@settings(max_examples=40)
def test_unsolicited_readings_are_learned_from_and_never_put_to_the_trigger(field, data):
    K, noise_variance = field
    M = len(K)
    policy = make_policy("et-gp-ucb", field_of(K, noise_variance), delta_b=0.9)
    plain = NaivePosterior(K, noise_variance, temporal("static"))
    arms = st.integers(0, M - 1)
    for arm, y in data.draw(st.lists(st.tuples(arms, st.floats(-100, 100)), max_size=12)):
        asked = policy.select().arm
        if arm == asked:
            policy.advance()  # nobody was asked in this interval: it is unsolicited, too
            plain.advance()
        outcome = policy.observe(arm, y)
        plain.observe(arm, y)
        assert (outcome.reset, outcome.threshold, outcome.age) == (False, None, 0)
        assert_belief(policy, plain)
    assert policy.resets == 0
    assert policy.observations == len(plain.history)


def test_only_the_first_reading_of_the_asked_arm_is_put_to_the_trigger():
    policy = make_policy("et-gp-ucb", field_of(np.eye(2), 0.01))
    asked = policy.select().arm
    assert policy.observe(1 - asked, 0.0).threshold is None
    assert policy.observe(asked, 0.0).threshold is not None
    again = policy.observe(asked, 1e3)
    assert (again.reset, again.threshold, again.age) == (False, None, 1)
    policy.select()
    policy.advance()
    assert policy.observe(asked, 0.0).threshold is None  # the interval it was asked in is over


# --- resets by the clock ------------------------------------------------------------------------


@given(data=st.data(), field=fields(), period=st.integers(1, 9))
@settings(max_examples=40)
def test_r_resets_before_the_choice_every_period(field, period, data):
    K, noise_variance = field
    policy = make_policy("r-gp-ucb", field_of(K, noise_variance), period=period, beta=BETA)
    plain = NaivePosterior(K, noise_variance, temporal("static"))
    for t, row in enumerate(data.draw(abrupt(len(K), length=40))):
        if t and t % period == 0:
            plain.reset()
            assert policy.observations == 0
            assert_allclose(policy.posterior(), [np.zeros(len(K)), np.sqrt(np.diag(K))])
        assert policy.resets == t // period
        choice = policy.select()
        assert choice.arm in ucb(*plain.mean_std(), math.sqrt(log_beta(**BETA, t=t + 1)))
        outcome = policy.observe(choice.arm, float(row[choice.arm]))
        assert not outcome.reset
        plain.observe(choice.arm, row[choice.arm])
        assert_belief(policy, plain)
        policy.advance()
        plain.advance()


# --- no resets ----------------------------------------------------------------------------------

UNRESET = {
    "gp-ucb": ({}, ("static", None), None),
    "tv-gp-ucb": ({"epsilon": 0.07}, ("tv", 0.07), None),
    "ui-tvbo": ({"sigma_w2": 0.04}, ("ui", 0.04), None),
    "sw-gp-ucb": ({"window": 6}, ("static", None), 6),
    "gp-ucb of a window": ({"window": 6}, ("static", None), 6),
    "tv-gp-ucb of a window": ({"epsilon": 0.07, "window": 6}, ("tv", 0.07), 6),
    "ui-tvbo of a window": ({"sigma_w2": 0.04, "window": 6}, ("ui", 0.04), 6),
}


@pytest.mark.parametrize("name", list(UNRESET))
@given(data=st.data(), field=fields())
@settings(max_examples=40)
def test_the_choice_has_the_highest_bound_of_the_plain_posterior(name, field, data):
    settings, model, window = UNRESET[name]
    K, noise_variance = field
    policy = make_policy(name.split()[0], field_of(K, noise_variance), beta=BETA, **settings)
    plain = NaivePosterior(K, noise_variance, temporal(*model), window)
    reading = st.tuples(st.integers(0, len(K) - 1), st.floats(-3, 3))
    t = 1
    for step in data.draw(st.lists(reading | st.none(), max_size=40), label="history"):
        if step is None:
            policy.advance()
            plain.advance()
            t += 1
        else:
            policy.observe(*step)
            plain.observe(*step)
        choice = policy.select()
        mean, std = plain.mean_std()
        width = math.sqrt(log_beta(**BETA, t=t))
        assert choice.arm in ucb(mean, std, width)
        assert choice.ucb == pytest.approx(np.max(mean + width * std), rel=1e-6, abs=1e-6)
    assert policy.resets == 0


def greedy_gain(K, noise_variance, readings):
    """Half the log determinant of greedily chosen readings, straight from the determinant."""
    chosen, gain = [], 0.0
    for _ in range(readings):

        def determinant(arm, chosen=chosen):
            arms = [*chosen, arm]
            A = np.eye(len(arms)) + K[np.ix_(arms, arms)] / noise_variance
            return 0.5 * np.linalg.slogdet(A)[1]

        gains = [determinant(arm) for arm in range(len(K))]
        chosen.append(int(np.argmax(gains)))
        gain = max(gains)
    return gain


def test_the_agnostic_width_of_sw_is_the_papers_with_the_greedy_gain():
    K, noise_variance, window = se(np.linspace(0, 1, 5)[:, None], 0.3), 0.04, 4
    policy = make_policy("sw-gp-ucb", field_of(K, noise_variance), window=window)
    for n in range(7):
        gain = greedy_gain(K, noise_variance, min(n, window))
        choice = policy.select()
        width = (choice.ucb - choice.mean) / choice.std
        assert width == pytest.approx(agnostic_width(1.0, 0.2, gain, 0.1), rel=1e-9)
        policy.observe(n % 5, 0.3)
        policy.advance()
