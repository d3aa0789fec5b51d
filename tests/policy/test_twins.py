"""Policies against the papers' formulas on the whole history: the plain twins in ``naive.py``.

Choices are compared as sets: a policy may select any arm whose bound ties with the twin's.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.closeness import assert_close
from support.examples import max_examples, naming
from support.naive import (
    NaiveEventTriggered,
    NaivePosterior,
    agnostic_width,
    log_beta,
    se,
    temporal,
    ucb,
)

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
def abrupt_readings(draw, M, length=60):
    """Return readings (length, M) of a field that is drawn again at a few moments."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([0.1, 1.0, 10.0]))
    moments = set(draw(st.lists(st.integers(1, length - 1), max_size=3)))
    values, f = np.empty((length, M)), rng.normal(0, size, M)
    for t in range(length):
        if t in moments:
            f = rng.normal(0, size, M)
        values[t] = f + rng.normal(0, 0.1, M)
    return values


def assert_same_posterior(policy, posterior):
    mean, std = policy.posterior()
    naive_mean, naive_std = posterior.mean_std()
    assert_close(mean, naive_mean, **CLOSE)
    assert_close(std**2, naive_std**2, **CLOSE)


# --- the event trigger --------------------------------------------------------------------------


def assert_agrees_with_event_triggered_twin(K, noise_variance, values, settings):
    policy = make_policy("et-gp-ucb", field_of(K, noise_variance), beta=BETA, seed=1, **settings)
    twin = NaiveEventTriggered(K, noise_variance, **settings)
    resets = 0
    for t, row in enumerate(values):
        choice = policy.select()
        mean, std = twin.posterior.mean_std()
        assert choice.arm in ucb(mean, std, math.sqrt(log_beta(**BETA, t=t + 1)))
        reset, error, threshold, age = twin.step(choice.arm, row[choice.arm])
        result = policy.observe(choice.arm, float(row[choice.arm]))
        assert (result.reset, result.age) == (reset, age)
        assert result.abs_error == pytest.approx(error, rel=1e-9, abs=1e-9)
        assert result.threshold == pytest.approx(threshold, rel=1e-9, abs=1e-9)
        assert_same_posterior(policy, twin.posterior)
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


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_et_resets_when_its_twin_does_at_abrupt_changes(seed, variant):
    rng = np.random.default_rng(seed)
    K = se(rng.uniform(0, 1, (6, 2)), 0.4)
    levels = rng.normal(0, 4, (4, 6)).repeat(20, axis=0)
    values = levels + rng.normal(0, 0.1, levels.shape)
    settings = {"delta_b": 0.1, **variant}
    resets = assert_agrees_with_event_triggered_twin(K, 0.01, values, settings)
    assert resets > 0  # else this compares nothing but the posterior


@pytest.mark.slow
@given(data=st.data(), field=fields())
@max_examples(60)
def test_et_resets_when_its_twin_does_on_random_fields(field, data):
    K, noise_variance = field
    n_lower = data.draw(st.integers(1, 12), label="n_lower")
    variant = {
        "delta_b": data.draw(st.sampled_from([0.01, 0.1, 0.9]), label="delta_b"),
        "n_lower": n_lower,
        "n_upper": data.draw(st.none() | st.integers(n_lower, 30), label="n_upper"),
        "keep_last": data.draw(st.booleans(), label="keep_last"),
        "noise_cap": data.draw(st.none() | st.integers(1, 20), label="noise_cap"),
    }
    values = data.draw(abrupt_readings(len(K)), label="values")
    assert_agrees_with_event_triggered_twin(K, noise_variance, values, variant)


@pytest.mark.slow
@given(data=st.data(), field=fields(), delta_b=st.sampled_from([0.1, 0.9]), keep=st.booleans())
@max_examples(40)
def test_likelihood_ratio_resets_where_the_prior_is_likelier(field, data, delta_b, keep):
    K, noise_variance = field
    policy = make_policy(
        "et-gp-ucb",
        field_of(K, noise_variance),
        trigger="likelihood-ratio",
        delta_b=delta_b,
        keep_last=keep,
    )
    plain, age = NaivePosterior(K, noise_variance, temporal("static")), 0
    for row in data.draw(abrupt_readings(len(K)), label="values"):
        arm = policy.select().arm
        y, age = float(row[arm]), age + 1
        mean, std = plain.mean_std()

        def log_density(error, variance):
            return -0.5 * math.log(2 * math.pi * variance) - error**2 / (2 * variance)

        fresh = log_density(y, K[arm, arm] + noise_variance)
        known = log_density(y - mean[arm], std[arm] ** 2 + noise_variance)
        evidence, allowed = fresh - known, math.log(math.pi**2 * age**2 / (3 * delta_b))
        result = policy.observe(arm, y)
        assert result.age == age
        if abs(evidence - allowed) > 1e-6:
            assert result.reset == (evidence > allowed)
        if result.reset:
            plain.reset()
            age = 0
        if keep or not result.reset:
            plain.observe(arm, y)
        assert_same_posterior(policy, plain)
        policy.advance()


def test_noise_cap_slows_the_growth_of_the_threshold():
    field = field_of(np.eye(1), 0.5)
    free, capped = (make_policy("et-gp-ucb", field, noise_cap=cap) for cap in (None, 2))
    for age in range(1, 6):
        a, b = (p.observe(p.select().arm, 0.0) for p in (free, capped))
        assert a.age == b.age == age
        assert (a.threshold > b.threshold) == (age > 2)


@given(data=st.data(), field=fields())
@max_examples(40)
def test_unsolicited_readings_update_the_model_without_a_test(field, data):
    K, noise_variance = field
    M = len(K)
    policy = make_policy("et-gp-ucb", field_of(K, noise_variance), delta_b=0.9)
    plain = NaivePosterior(K, noise_variance, temporal("static"))
    arms = st.integers(0, M - 1)
    for arm, y in data.draw(st.lists(st.tuples(arms, st.floats(-100, 100)), max_size=12)):
        selected = policy.select().arm
        if arm == selected:
            policy.advance()  # no arm is selected in the new interval: it is unsolicited, too
            plain.advance()
        result = policy.observe(arm, y)
        plain.observe(arm, y)
        assert (result.reset, result.threshold, result.age) == (False, None, 0)
        assert_same_posterior(policy, plain)
    assert policy.resets == 0
    assert policy.observations == len(plain.history)


def test_only_the_first_reading_of_the_selected_arm_is_tested():
    policy = make_policy("et-gp-ucb", field_of(np.eye(2), 0.01))
    selected = policy.select().arm
    assert policy.observe(1 - selected, 0.0).threshold is None
    assert policy.observe(selected, 0.0).threshold is not None
    again = policy.observe(selected, 1e3)
    assert (again.reset, again.threshold, again.age) == (False, None, 1)
    policy.select()
    policy.advance()
    assert policy.observe(selected, 0.0).threshold is None  # its interval is over


# --- scheduled resets -----------------------------------------------------------------------------


@pytest.mark.slow
@given(data=st.data(), field=fields(), period=st.integers(1, 9))
@max_examples(40)
def test_r_resets_before_the_choice_in_each_period(field, period, data):
    K, noise_variance = field
    policy = make_policy("r-gp-ucb", field_of(K, noise_variance), period=period, beta=BETA)
    plain = NaivePosterior(K, noise_variance, temporal("static"))
    for t, row in enumerate(data.draw(abrupt_readings(len(K), length=40))):
        if t and t % period == 0:
            plain.reset()
            assert policy.observations == 0
            assert_allclose(policy.posterior(), [np.zeros(len(K)), np.sqrt(np.diag(K))])
        assert policy.resets == t // period
        choice = policy.select()
        assert choice.arm in ucb(*plain.mean_std(), math.sqrt(log_beta(**BETA, t=t + 1)))
        result = policy.observe(choice.arm, float(row[choice.arm]))
        assert not result.reset
        plain.observe(choice.arm, row[choice.arm])
        assert_same_posterior(policy, plain)
        policy.advance()
        plain.advance()


# --- no resets ----------------------------------------------------------------------------------

NEVER_RESET = {
    "gp-ucb": ({}, ("static", None), None),
    "tv-gp-ucb": ({"epsilon": 0.07}, ("tv", 0.07), None),
    "ui-tvbo": ({"sigma_w2": 0.04}, ("ui", 0.04), None),
    "sw-gp-ucb": ({"window": 6}, ("static", None), 6),
    "gp-ucb with a window": ({"window": 6}, ("static", None), 6),
    "tv-gp-ucb with a window": ({"epsilon": 0.07, "window": 6}, ("tv", 0.07), 6),
    "ui-tvbo with a window": ({"sigma_w2": 0.04, "window": 6}, ("ui", 0.04), 6),
}


@given(data=st.data(), field=fields())
@max_examples(40)
def test_choice_has_the_highest_bound_of_the_plain_posterior(field, data):
    reading = st.tuples(st.integers(0, len(field[0]) - 1), st.floats(-3, 3))
    history = data.draw(st.lists(reading | st.none(), max_size=40), label="history")
    for name in NEVER_RESET:
        with naming(name):
            check_choices(name, field, history)


def check_choices(name, field, history):
    settings, model, window = NEVER_RESET[name]
    K, noise_variance = field
    policy = make_policy(name.split()[0], field_of(K, noise_variance), beta=BETA, **settings)
    plain = NaivePosterior(K, noise_variance, temporal(*model), window)
    t = 1
    for step in history:
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
    """Return half the log determinant of greedily chosen readings, from its definition."""
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


def test_agnostic_width_of_sw_has_the_greedy_information_gain():
    K, noise_variance, window = se(np.linspace(0, 1, 5)[:, None], 0.3), 0.04, 4
    policy = make_policy("sw-gp-ucb", field_of(K, noise_variance), window=window)
    for n in range(7):
        gain = greedy_gain(K, noise_variance, min(n, window))
        choice = policy.select()
        assert choice.width == pytest.approx(agnostic_width(1.0, 0.2, gain, 0.1), rel=1e-9)
        policy.observe(n % 5, 0.3)
        policy.advance()
