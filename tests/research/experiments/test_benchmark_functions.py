"""Benchmark functions, compared with brute force and their known maxima."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.research.experiments.benchmark_functions import (
    BERKENKAMP,
    LENGTH_SCALE,
    MICHALEWICZ,
    abrupt,
    berkenkamp,
    michalewicz,
    random_function,
    slow,
)

LANDSCAPES = [BERKENKAMP, MICHALEWICZ]
ARMS = np.linspace(0.0, 1.0, 100)
seeds = st.integers(0, 2**32)


@pytest.mark.parametrize("landscape", LANDSCAPES)
def test_maximum_is_the_value_at_the_argmax(landscape):
    assert float(landscape.evaluate(landscape.argmax)) == pytest.approx(
        landscape.maximum, abs=1e-14
    )
    assert ((landscape.lower <= landscape.argmax) & (landscape.argmax <= landscape.upper)).all()


@pytest.mark.parametrize("landscape", LANDSCAPES)
def test_no_other_place_is_better_than_the_argmax(landscape):
    rng = np.random.default_rng(0)
    d = len(landscape.lower)
    far = rng.uniform(landscape.lower, landscape.upper, (20_000, d))
    near = np.clip(
        landscape.argmax + rng.normal(0.0, 1e-3, (2000, d)), landscape.lower, landscape.upper
    )
    assert landscape.evaluate(far).max() <= landscape.maximum
    assert landscape.evaluate(near).max() <= landscape.maximum + 1e-14


def test_maximum_of_michalewicz_is_the_published_one():
    assert MICHALEWICZ.maximum == pytest.approx(4.687658, abs=5e-7)


def test_argmax_of_michalewicz_is_optimal_in_each_coordinate():
    t = np.linspace(0.0, math.pi, 400_001)
    total = 0.0
    for i in range(1, 6):
        values = [math.sin(a) * math.sin(i * a * a / math.pi) ** 20 for a in t[::40]]
        coarse = t[::40][int(np.argmax(values))]
        assert coarse == pytest.approx(MICHALEWICZ.argmax[i - 1], abs=4e-4)
        total += max(values)
    assert total == pytest.approx(MICHALEWICZ.maximum, abs=1e-4)


@given(st.lists(st.floats(0.0, math.pi), min_size=5, max_size=5))
def test_michalewicz_equals_its_written_sum(x):
    naive = sum(math.sin(a) * math.sin(i * a * a / math.pi) ** 20 for i, a in enumerate(x, start=1))
    assert float(michalewicz(x)) == pytest.approx(naive, abs=1e-12)


@given(st.floats(0.0, 1.0))
def test_berkenkamp_is_a_line_plus_a_normal_density(x):
    naive = 0.6 * x + statistics.NormalDist(0.2, 0.08).pdf(x) / 8
    assert float(berkenkamp([x])) == pytest.approx(naive, abs=1e-14)


def test_berkenkamp_has_a_peak_and_a_lower_local_maximum():
    f = berkenkamp(np.linspace(0.0, 1.0, 1001)[:, None])
    inside = np.flatnonzero((f[1:-1] > f[:-2]) & (f[1:-1] > f[2:])) + 1
    assert inside.tolist() == [206]
    assert f[-1] == pytest.approx(0.6)
    assert f[-1] > f[-2]  # the end of the slope is a local maximum
    steepest = np.abs(np.diff(f))
    assert steepest[:400].max() > 5 * steepest[600:].max()


def test_arrays_of_places_are_evaluated_at_once():
    x = np.random.default_rng(3).random((4, 7, 5))
    assert michalewicz(x).shape == (4, 7)
    assert michalewicz(x)[2, 3] == michalewicz(x[2, 3])
    assert berkenkamp(x[..., :1]).shape == (4, 7)


@given(seeds)
def test_random_function_has_unit_norm_and_is_smooth(seed):
    f = random_function(ARMS, seed, 0)
    assert np.mean(f**2) == pytest.approx(1.0)
    K = np.exp(-((ARMS[:, None] - ARMS) ** 2) / (2 * LENGTH_SCALE**2))
    w, V = np.linalg.eigh(K)
    rough = V[:, w < 1e-9 * w[-1]].T @ f  # 0 for members of the RKHS
    assert np.abs(rough).max() < 1e-4


@given(seeds)
def test_abrupt_function_is_replaced_at_100_and_200_only(seed):
    values = abrupt(seed)
    changed = np.flatnonzero((values[1:] != values[:-1]).any(axis=1)) + 1
    assert changed.tolist() == [100, 200]
    assert values.shape == (500, 100)


@given(seeds)
def test_slow_function_changes_in_equal_small_steps(seed):
    values = slow(seed)
    np.testing.assert_allclose(values[0], random_function(ARMS, seed, 0), atol=1e-12)
    np.testing.assert_allclose(values[-1], random_function(ARMS, seed, 1), atol=1e-12)
    size = np.sqrt(np.mean(np.diff(values, axis=0) ** 2, axis=1))
    assert size.min() > 0.0
    assert size.max() < 0.5 * math.pi / 499 * math.sqrt(2.0)


@pytest.mark.parametrize("make", [abrupt, slow])
def test_functions_are_reproducible_and_differ_between_seeds(make):
    np.testing.assert_array_equal(make(7), make(7))
    assert (make(7) != make(8)).any()


def test_keeping_the_first_best_arm_costs_more_on_abrupt_functions():
    def regret_of_first_best(values):
        return (values.max(axis=1) - values[:, values[0].argmax()]).sum()

    abrupt_regret = np.mean([regret_of_first_best(abrupt(seed)) for seed in range(100)])
    slow_regret = np.mean([regret_of_first_best(slow(seed)) for seed in range(100)])
    assert abrupt_regret > 1.5 * slow_regret > 150.0
