"""Cost of an interval of `auto`, by the number of sensors and of earlier intervals."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from benchmarks import bare_memory
from benchmarks.bare_memory import field_of, policy_of, status_mib
from benchmarks.rounds import in_turns, ratios, spread

from edge_tvbo.training import model_file
from edge_tvbo.training.covariance import train, with_structure

MAX_COST_S = {46: 0.2e-3, 500: 10e-3, 2000: 50e-3}  # s an interval; issue 15 names them
MAX_MIB = 200  # of a process whose kernels are compiled, with 2000 sensors


def living(policy, intervals):
    """Return a function that runs so many intervals, for `in_turns`."""

    def live():
        for t in range(intervals):
            policy.set_time(600.0 * t)
            policy.observe(policy.select().arm, 0.1)
            policy.advance()
        return intervals

    return live


@pytest.mark.parametrize("M", MAX_COST_S)
def test_an_interval_of_auto_stays_within_its_budget(M, bench):
    (took,) = in_turns(living(policy_of(M), max(10, 5000 // M)), rounds=7, clock=time.process_time)
    bench(
        f"an interval of auto, M={M}",
        f"{MAX_COST_S[M] * 1e3:g} ms",
        [each / MAX_COST_S[M] for each in took],
        most=1,
        detail=f"{spread(took, 1e3)} ms of the processor; {status_mib('VmRSS'):.0f} MiB resident",
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The directory of compiled kernels; a process that uses them does not load numba."""
    directory = tmp_path_factory.mktemp("kernels")
    command = [sys.executable, "-m", "edge_tvbo.numerics.compile", str(directory)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return directory


def test_2000_sensors_fit_in_200_mib(library, bench):
    check_memory("memory of auto, M=2000", [], library, bench)


def test_2000_sensors_of_a_model_file_fit_in_200_mib(library, tmp_path, bench):
    field, rng = field_of(2000), np.random.default_rng(0)
    root = np.linalg.cholesky(field.kernel + 1e-6 * np.eye(2000))
    readings = np.sin(np.arange(324) / 8)[:, None] + rng.normal(size=(324, 2000)) @ root.T
    path = tmp_path / "many.model.json"
    model_file.write(path, with_structure(train(readings, field.sensors), readings, 1800.0, 0.0))
    check_memory("memory of auto with a model file, M=2000", [str(path)], library, bench)


def check_memory(what, arguments, library, bench):
    """Check the most memory that `bare_memory` needs, in a process of its own, as on a gateway."""
    done = subprocess.run(
        [sys.executable, bare_memory.__file__, *arguments],
        env={**os.environ, "EDGE_TVBO_KERNELS": str(library)},
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    assert not found["numba"]
    bench(
        what,
        f"{MAX_MIB} MiB",
        [found["most"] / MAX_MIB],
        most=1,
        detail=f"{found['resident']:.0f} MiB resident, at most {found['most']:.0f} MiB while "
        f"starting; a snapshot has {found['snapshot']:.1f} MiB",
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
