"""Exploration schedules: widths against β of the papers, settings, rejections."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.naive import agnostic_width, log_beta, se

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import (
    AgnosticBeta,
    CompactBeta,
    ConstantBeta,
    FiniteBeta,
    LogBeta,
    beta_schedule,
)
from edge_tvbo.models.field import SensorField

TIMES = st.integers(1, 10**7)
FIELD = SensorField(("a", "b", "c"), se(np.array([[0.0], [0.4], [1.0]]), 0.5), 0.25)


@given(st.floats(0.01, 10), st.floats(0.01, 10), TIMES)
def test_log_width_is_the_root_of_beta_and_never_negative(c1, c2, t):
    width = LogBeta(c1, c2).width(t, 0)
    assert width >= 0
    assert width**2 == pytest.approx(log_beta(c1, c2, t), rel=1e-12, abs=1e-12)


@given(st.floats(0.01, 100), TIMES, st.integers(0, 1000))
def test_constant_width_is_the_root_of_beta(beta, t, observations):
    assert ConstantBeta(beta).width(t, observations) == math.sqrt(beta)


@given(st.integers(1, 1000), st.floats(0.001, 0.999), TIMES)
def test_finite_width_equals_srinivas_theorem_1(arms, delta, t):
    beta = 2 * math.log(arms * t**2 * math.pi**2 / (6 * delta))
    assert FiniteBeta(arms, delta).width(t, 0) == pytest.approx(math.sqrt(beta), rel=1e-12)


def test_compact_width_equals_theorem_4_2_by_hand():
    """D = 2, δ = 0.1, a₁ = b₁ = r = 1, t = 3."""
    inner = math.log(2 * 2 * math.pi**2 * 9 / 0.3)
    beta = 2 * math.log(2 * math.pi**2 * 9 / 0.3) + 4 * math.log(9 * 2 * math.sqrt(inner))
    assert CompactBeta(2).width(3, 0) == pytest.approx(math.sqrt(beta), rel=1e-12)


@given(st.integers(1, 10**5), st.sampled_from([LogBeta(), FiniteBeta(46), CompactBeta(2)]))
def test_widths_grow_with_time(t, schedule):
    assert schedule.width(t + 1, 0) >= schedule.width(t, 0)


# --- the agnostic width --------------------------------------------------------------------------


def greedy_gain(K, noise_variance, readings):
    """Greedy ½ ln det(I + K_A/σ²), by determinants."""
    chosen, gain = [], 0.0
    for _ in range(readings):
        options = []
        for arm in range(len(K)):
            arms = [*chosen, arm]
            A = np.eye(len(arms)) + K[np.ix_(arms, arms)] / noise_variance
            options.append(0.5 * np.linalg.slogdet(A)[1])
        chosen.append(int(np.argmax(options)))
        gain = max(options)
    return gain


def test_agnostic_width_equals_the_paper_up_to_the_horizon():
    schedule = AgnosticBeta(FIELD, bound=2.0, noise=0.5, delta=0.05, horizon=6)
    for observations in (0, 1, 2, 5, 6, 7, 100):
        gain = greedy_gain(FIELD.kernel, 0.25, min(observations, 6))
        for t in (1, 1000):
            width = schedule.width(t, observations)
            assert width == pytest.approx(agnostic_width(2.0, 0.5, gain, 0.05), rel=1e-10)


def test_an_agnostic_schedule_does_not_modify_the_field():
    before = FIELD.kernel.copy()
    AgnosticBeta(FIELD, horizon=9)
    assert np.array_equal(FIELD.kernel, before)


# --- settings -----------------------------------------------------------------------------------


def test_beta_is_a_schedule_a_number_or_two_constants():
    assert beta_schedule(2) == beta_schedule(2.0) == ConstantBeta(2.0)
    assert beta_schedule({"c1": 0.4, "c2": 4.0}) == LogBeta(0.4, 4.0)
    assert beta_schedule({"c2": 4.0}) == LogBeta(0.8, 4.0)
    assert beta_schedule(FiniteBeta(3)) == FiniteBeta(3)


def test_numbers_that_are_not_above_0_are_rejected():
    makers = [
        beta_schedule,
        lambda value: LogBeta(c1=value),
        lambda value: LogBeta(c2=value),
        lambda value: beta_schedule({"c1": value}),
        lambda value: FiniteBeta(value),
        lambda value: CompactBeta(value),
        lambda value: CompactBeta(2, a1=value),
        lambda value: CompactBeta(2, b1=value),
        lambda value: CompactBeta(2, r=value),
        lambda value: AgnosticBeta(FIELD, bound=value, horizon=3),
        lambda value: AgnosticBeta(FIELD, noise=value, horizon=3),
        lambda value: AgnosticBeta(FIELD, horizon=value),
    ]
    for value in (0.0, -1.0, math.nan, math.inf):
        for make in makers:
            with pytest.raises(ConfigError, match="must be above 0|a whole number, 1 or more"):
                make(value)


def test_probabilities_that_are_not_between_0_and_1_are_rejected():
    for delta in (0.0, 1.0, -0.1, 1.1, math.nan):
        for make in (
            lambda delta: FiniteBeta(3, delta),
            lambda delta: CompactBeta(3, delta),
            lambda delta: AgnosticBeta(FIELD, delta=delta, horizon=3),
        ):
            with pytest.raises(ConfigError, match="delta"):
                make(delta)


def test_an_unknown_constant_is_rejected():
    with pytest.raises(ConfigError, match="c3"):
        beta_schedule({"c1": 1.0, "c3": 1.0})
