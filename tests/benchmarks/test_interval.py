"""One interval through the public API, beside a bare fused kernel that does the same arithmetic.

Run with ``make bench``. Both are timed in alternating rounds of one run, so that what matters,
their ratio, does not depend on the machine; medians of the rounds are compared.
"""

import resource
import time
from statistics import median

import numba
import numpy as np
import pytest

from edge_tvbo import ConstantBeta, SensorField, make_policy

M = 46
ROUNDS = 15
INTERVALS = 2000


@numba.njit("i8(f8[::1], f8[:, ::1], f8[:, ::1], f8[::1], i8, f8, f8, f8, f8, f8)")
def fused(m, C, K, g, arm, y, noise_variance, retain, inject, width):
    """Condition on one reading, move on one interval, and give the arm with the highest bound."""
    n = m.shape[0]
    scale = 1.0 / np.sqrt(C[arm, arm] + noise_variance)
    surprise = (y - m[arm]) * scale
    for i in range(n):
        g[i] = C[arm, i] * scale
    shrink = np.sqrt(retain)
    best = 0
    highest = -np.inf
    for i in range(n):
        gi = g[i]
        m[i] = shrink * (m[i] + gi * surprise)
        for j in range(n):
            C[i, j] = retain * (C[i, j] - gi * g[j]) + inject * K[i, j]
        bound = m[i] + width * np.sqrt(max(C[i, i], 0.0))
        if bound > highest:
            highest = bound
            best = i
    return best


class Bare:
    """The fused kernel in a loop, with nothing around it."""

    def __init__(self, field, epsilon, width):
        self.m, self.C, self.K = np.zeros(len(field)), field.kernel.copy(), field.kernel
        self.g, self.arm = np.empty(len(field)), 0
        self.settings = (field.noise_variance, 1.0 - epsilon, epsilon, width)

    def intervals(self, readings):
        noise, retain, inject, width = self.settings
        for y in readings:
            self.arm = fused(
                self.m, self.C, self.K, self.g, self.arm, y, noise, retain, inject, width
            )


class Api:
    """The same through select, observe and advance."""

    def __init__(self, field, name, **settings):
        self.policy = make_policy(name, field, **settings)

    def intervals(self, readings):
        policy = self.policy
        for y in readings:
            policy.observe(policy.select().arm, y)
            policy.advance()


@pytest.fixture
def field():
    places = np.random.default_rng(0).uniform(0, 30, (M, 2))
    squared = ((places[:, None] - places) ** 2).sum(axis=2)
    return SensorField([f"s{i}" for i in range(M)], np.exp(-squared / 72), noise_variance=0.01)


def microseconds(runner, readings):
    begin = time.perf_counter()
    runner.intervals(readings)
    return (time.perf_counter() - begin) / len(readings) * 1e6


def in_turns(*runners):
    """Time the runners in alternating rounds and give the median of each, in µs an interval."""
    readings = np.random.default_rng(1).standard_normal(INTERVALS).tolist()
    rounds = [[microseconds(runner, readings) for runner in runners] for _ in range(ROUNDS)]
    return [median(column) for column in zip(*rounds, strict=True)]


@pytest.mark.parametrize(
    ("name", "settings"),
    [("tv-gp-ucb", {"epsilon": 0.03}), ("ui-tvbo", {}), ("et-gp-ucb", {}), ("gp-ucb", {})],
)
def test_an_interval_costs_at_most_fifteen_bare_kernels(field, name, settings):
    bare = Bare(field, epsilon=0.03, width=2**0.5)
    api = Api(field, name, beta=ConstantBeta(2.0), **settings)
    kernel_us, api_us = in_turns(bare, api)

    print(f"\n{name}: {api_us:.2f} µs, bare kernel {kernel_us:.2f} µs: {api_us / kernel_us:.1f} x")
    assert api_us <= 15 * kernel_us


def test_the_millionth_interval_costs_what_the_hundredth_did_and_no_memory(field):
    young = Api(field, "tv-gp-ucb", epsilon=0.03)
    old = Api(field, "tv-gp-ucb", epsilon=0.03)
    readings = np.random.default_rng(2).standard_normal(10_000).tolist()
    young.intervals(readings[:100])
    old.intervals(readings)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(99):
        old.intervals(readings)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    young_us, old_us = in_turns(young, old)
    print(f"\n10²: {young_us:.2f} µs, 10⁶: {old_us:.2f} µs; grown by {grown} KiB")
    assert old_us <= 1.1 * young_us
    assert grown <= 1024
