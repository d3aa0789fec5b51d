"""Cost of an interval of `auto`, by the number of sensors and of earlier intervals."""

import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.rounds import in_turns, ratios, spread

from edge_tvbo import SensorField, make_policy
from edge_tvbo.models.structure import prior_structure

MAX_COST_S = {46: 0.2e-3, 500: 10e-3}  # s an interval; issue 15 names them


def policy_of(M):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((M, M))
    K = A @ A.T / M
    structure = prior_structure(K, 600.0)
    field = SensorField([f"s{i}" for i in range(M)], K, 0.01, structure=structure)
    return make_policy("auto", field, seed=0)


def living(policy, intervals):
    """Return a function that runs so many intervals, for `in_turns`."""

    def live():
        for t in range(intervals):
            policy.set_time(600.0 * t)
            policy.observe(policy.select().arm, 0.1)
            policy.advance()
        return intervals

    return live


def resident():
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.parametrize("M", MAX_COST_S)
def test_an_interval_of_auto_stays_within_its_budget(M, bench):
    (took,) = in_turns(living(policy_of(M), 5000 // M), rounds=7, clock=time.process_time)
    bench(
        f"an interval of auto, M={M}",
        f"{MAX_COST_S[M] * 1e3:g} ms",
        [each / MAX_COST_S[M] for each in took],
        most=1,
        detail=f"{spread(took, 1e3)} ms of the processor; {resident():.0f} MiB resident",
    )


def test_an_interval_of_auto_costs_the_same_after_twenty_thousand(bench):
    young, old = policy_of(46), policy_of(46)
    for t in range(20_000):
        old.observe(t % 46, 0.1)
        old.advance()
    late, early = in_turns(living(old, 200), living(young, 200), rounds=9)
    bench(
        "an interval of auto after 20 000, M=46",
        "itself at first",
        ratios(late, early),
        most=1.5,
        detail=f"{spread(late, 1e3)} ms, it {spread(early, 1e3)} ms",
    )
