"""Pendulum, compared with scipy's integrator and the Riccati equation."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.research.experiments.pendulum import (
    FRICTION,
    LOWER,
    UPPER,
    WORN_FRICTION,
    friction_at,
    normalisation,
    optimum,
    reward,
    spread,
)
from edge_tvbo.research.experiments.pendulum_cost import MAX_COST, START, cost, cost_from, plant

FRICTIONS = [FRICTION, WORN_FRICTION]
cached_optimum = cache(optimum)  # some thousand simulations
controllers = st.tuples(*(st.floats(lo, hi) for lo, hi in zip(LOWER, UPPER, strict=True))).map(
    np.array
)


def derivatives(_t, x, u, friction):
    """Equations of motion in textbook form, the pole's about its lower end."""
    m, length, d, g = 0.0804, 0.147, 0.005, 9.81
    half = length / 2
    inertia = m * half**2 + m * length**2 / 12 + m * (d / 2) ** 2 / 4  # Steiner, solid cylinder
    acceleration = u - x[1]  # K = T1 = 1
    torque = m * g * half * x[2] - m * half * acceleration - friction * x[3]
    return [x[1], acceleration, x[3], torque / inertia]


@cache
def simulated_period(friction):
    """Return the twin of `plant`: an adaptive integrator, for each state and command of size 1."""
    integrate = pytest.importorskip("scipy.integrate")
    ends = [
        integrate.solve_ivp(
            derivatives,
            (0.0, 0.02),
            unit[:4],
            args=(unit[4], friction),
            method="DOP853",
            rtol=1e-9,
            atol=1e-12,
        ).y[:, -1]
        for unit in np.eye(5)
    ]
    return np.column_stack(ends)


def simulated_cost(gains, friction):
    """Return the twin of `cost` with the integrator; the equations are linear."""
    period = simulated_period(friction)
    x, total = np.array([4.0, 0.0, 0.1, -0.01]), 0.0
    for _ in range(1000):
        u = -float(gains @ x)
        total += 10.0 * float(x @ x) + u * u
        x = period @ np.append(x, u)
    return total / 1000


def lqr(friction):
    """Best controller over an infinite horizon, by the discrete Riccati equation."""
    linalg = pytest.importorskip("scipy.linalg")
    P = plant(friction)
    A, B = P[:4, :4], P[:4, 4:]
    X = linalg.solve_discrete_are(A, B, 10.0 * np.eye(4), np.eye(1))
    return np.linalg.solve(B.T @ X @ B + 1.0, B.T @ X @ A)[0]


@pytest.mark.parametrize("friction", FRICTIONS)
def test_cost_equals_that_of_an_adaptive_integrator(friction):
    for gains in (LOWER, spread(2)[1]):
        assert cost(gains, friction) == pytest.approx(simulated_cost(gains, friction), rel=1e-8)


@pytest.mark.parametrize("friction", FRICTIONS)
def test_one_period_is_the_matrix_exponential(friction):
    linalg = pytest.importorskip("scipy.linalg")
    A = np.zeros((5, 5))
    for i in range(5):
        unit = np.eye(5)[i]
        A[:4, i] = derivatives(0.0, unit[:4], unit[4], friction)
    np.testing.assert_allclose(plant(friction), linalg.expm(0.02 * A), rtol=0, atol=1e-13)


@given(controllers, st.sampled_from(FRICTIONS))
def test_every_controller_of_the_box_is_stable(gains, friction):
    P = plant(friction)
    closed = P[:4, :4] - np.outer(P[:4, 4], gains)
    assert np.abs(np.linalg.eigvals(closed)).max() < 1.0
    assert 14.0 < cost(gains, friction) < 25.0


@given(controllers, st.floats(0.01, 5.0))
def test_cost_grows_with_the_square_of_the_start(gains, factor):
    P = plant(FRICTION)
    once = cost_from(P, gains, START)
    assert once == cost(gains, FRICTION)
    assert cost_from(P, gains, -START) == once
    assert cost_from(P, gains, factor * START) == pytest.approx(factor**2 * once, rel=1e-12)


@pytest.mark.parametrize("gains", [-LOWER, np.zeros(4), np.full(4, 1e100), np.full(4, np.nan)])
def test_falling_pole_has_the_maximum_cost(gains):
    assert cost(gains, FRICTION) == MAX_COST


def test_rewards_of_random_controllers_have_mean_0_and_sd_1():
    drawn = np.random.default_rng(1).uniform(LOWER, UPPER, (1000, 4))
    rewards = [reward(gains, FRICTION) for gains in drawn]
    assert np.mean(rewards) == pytest.approx(0.0, abs=0.1)  # 3 standard errors
    assert np.std(rewards) == pytest.approx(1.0, abs=0.07)
    assert np.abs(rewards).max() < 5.0


def test_lower_cost_is_higher_reward():
    a, b = sorted(spread(2), key=lambda gains: cost(gains, FRICTION))
    assert reward(a, FRICTION) > reward(b, FRICTION)
    difference = (cost(b, FRICTION) - cost(a, FRICTION)) / normalisation().sd
    assert reward(a, FRICTION) - reward(b, FRICTION) == pytest.approx(difference)


def test_spread_controllers_are_even_and_reproducible():
    unit = (spread(1024) - LOWER) / (UPPER - LOWER)
    np.testing.assert_array_equal(spread(1024), spread(1024))
    cells = (unit * 4).astype(int) @ [64, 16, 4, 1]
    counts = np.bincount(cells, minlength=256)  # 4 expected
    assert counts.min() >= 1
    assert counts.max() <= 9
    np.testing.assert_allclose(unit.mean(axis=0), 0.5, atol=0.005)


@pytest.mark.parametrize("friction", FRICTIONS)
def test_no_random_controller_is_better_than_the_optimum(friction):
    gains, best = cached_optimum(friction)
    assert ((gains >= LOWER) & (gains <= UPPER)).all()
    assert best == reward(gains, friction)
    rng = np.random.default_rng(2)
    near = np.clip(gains + 0.02 * (UPPER - LOWER) * rng.standard_normal((200, 4)), LOWER, UPPER)
    for other in (*rng.uniform(LOWER, UPPER, (200, 4)), *near):
        assert reward(other, friction) <= best


@pytest.mark.parametrize("friction", FRICTIONS)
def test_optimum_is_the_linear_quadratic_regulator(friction):
    gains, best = cached_optimum(friction)
    expected = lqr(friction)
    np.testing.assert_allclose(gains, expected, atol=2e-3 * (UPPER - LOWER).min())
    assert best == pytest.approx(reward(expected, friction), abs=1e-9)


def test_optimum_is_the_same_at_each_call():
    first, again = cached_optimum(FRICTION), optimum(FRICTION)
    np.testing.assert_array_equal(first[0], again[0])
    assert first[1] == again[1]


def test_worn_bearing_moves_the_optimum_and_lowers_its_reward():
    new, before = cached_optimum(FRICTION)
    worn, after = cached_optimum(WORN_FRICTION)
    assert before - after > 1.0
    assert np.abs((worn - new) / (UPPER - LOWER)).max() > 0.1
    assert after - reward(new, WORN_FRICTION) > 0.02  # the cost of keeping the old optimum


def test_bearing_wears_at_interval_100():
    friction = [friction_at(t) for t in (1, 99, 100, 300)]
    assert friction == pytest.approx([2.2e-3, 2.2e-3, 5.5e-3, 5.5e-3])
