"""What an interval of `auto` costs, by the number of sensors and after how long; ``make bench``."""

import time
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from edge_tvbo import SensorField, make_policy
from edge_tvbo.model.rhythm import Rhythm

MOST = {46: 0.5e-3, 200: 10e-3, 500: 100e-3}  # s an interval; issue 4 names the first two


def policy_of(M):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((M, M))
    K = A @ A.T / M
    rhythm = Rhythm(rng.normal(size=(144, M)), np.ones(144), K.copy(), 6.0, 0.4, 0.01)
    field = SensorField([f"s{i}" for i in range(M)], K, 0.01, rhythm=rhythm)
    return make_policy("auto", field, seed=0)


def per_interval(policy, intervals):
    rounds = []
    for _ in range(7):
        began = time.perf_counter()
        for t in range(intervals):
            policy.align(600.0 * t)
            policy.observe(policy.select().arm, 0.1)
            policy.advance()
        rounds.append((time.perf_counter() - began) / intervals)
    return median(rounds)


@pytest.mark.parametrize("M", MOST)
def test_an_interval_of_auto_stays_within_its_budget(M, capsys):
    took = per_interval(policy_of(M), 20)
    resident = next(
        int(line.split()[1]) / 1024
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    with capsys.disabled():
        print(f"\nauto, M={M}: {took * 1e3:.3f} ms an interval; {resident:.0f} MiB resident")
    assert took < MOST[M]


def test_an_interval_of_auto_costs_the_same_after_twenty_thousand(capsys):
    policy = policy_of(46)
    early = per_interval(policy, 200)
    for t in range(20_000):
        policy.observe(t % 46, 0.1)
        policy.advance()
    late = per_interval(policy, 200)
    with capsys.disabled():
        print(f"\nauto, M=46: {early * 1e3:.3f} ms early, {late * 1e3:.3f} ms late")
    assert late < 1.5 * early
