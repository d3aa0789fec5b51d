"""Whole runs of seconds to hours: replays of all policies, and a paper's Monte Carlo."""

import os
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from benchmarks.rounds import in_turns, spread
from edge_tvbo_adapters import datasets

from edge_tvbo.research.executors import process_pool
from edge_tvbo.research.experiments.runner import measure_runs
from edge_tvbo.simulation.dataset_lookup import DataSource

LAB = Path(os.environ.get("EDGE_TVBO_LAB", "/work/shared/data"))  # as `edge-tvbo fetch` keeps it
SEEDS = 20
LAST_DAYS = ()  # as `compare` does by itself: six days to learn from, two to be tried on
SEVEN_DAYS = ("--train", "2004-03-01", "--test", "2004-03-02:2004-03-08")
CLUSTER = 3 * 24 * 3600.0  # s, [ET] section 5
RUNS = 30_000
EACH = 20  # runs that a process does in a round


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("days", "tried"), [(2, LAST_DAYS), (7, SEVEN_DAYS)], ids=["2", "7"])
def test_all_policies_are_replayed_in_twenty_seconds(bench, days, tried):
    """All but the few that want positions; by the clock, on all processors."""
    what = f"compare: {days} days of 46 sensors, {SEEDS} seeds, all policies"
    if not LAB.is_dir():
        bench.absent(what, "20 s", f"no data in {LAB}; EDGE_TVBO_LAB names another folder")
        pytest.skip(f"no data in {LAB}")
    command = [sys.executable, "-m", "edge_tvbo", "compare", "--dataset", "intel-lab", "--json"]
    command += ["--data-dir", str(LAB), "--seeds", str(SEEDS), *tried]
    took, used = [], []
    for _ in range(3):
        began, before = time.perf_counter(), processor_seconds()
        subprocess.run(command, check=True, capture_output=True)
        took.append(time.perf_counter() - began)
        used.append(processor_seconds() - before)
    detail = f"{spread(took)} s; {spread(used)} s of processors"
    bench(what, "20 s", [each / 20.0 for each in took], most=1, detail=detail)


@pytest.mark.timeout(600)
def test_e3_takes_minutes_instead_of_three_days_on_a_cluster(bench):
    cores = os.cpu_count() or 1
    with process_pool(cores) as pool:
        do = partial(measure_runs, "E3", 0, DataSource(datasets.find), ())

        def runs():
            parts = [range(i * EACH, (i + 1) * EACH) for i in range(cores)]
            assert len(list(pool.map(do, parts))) == cores
            return EACH * cores

        runs()  # the processes start
        (seconds,) = in_turns(runs, rounds=3)
    whole = [each * RUNS for each in seconds]
    bench(
        f"E3, {RUNS} runs, 8 windows, 2 ε: reckoned from {3 * EACH * cores} of them",
        "[ET]: three days on a cluster",
        [each / CLUSTER for each in whole],
        most=0.05,
        detail=f"{spread(whole, 1 / 60)} min on {cores} processors",
    )
