"""Runner of experiments: runs jobs in an executor, and stores their results in files."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path

import msgspec

from edge_tvbo import __version__
from edge_tvbo.errors import DataError
from edge_tvbo.research.experiments import load
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.result_table import Row
from edge_tvbo.research.resumable_jobs import RESULTS_DIRECTORY, ResumableJobs, write_atomically
from edge_tvbo.simulation.dataset_lookup import DataSource

Fingerprints = tuple[tuple[str, str], ...]  # names and fingerprints of an experiment's data


def run_experiment(
    name: str,
    directory: Path,
    *,
    runs: int,
    seed: int,
    executor: Executor,
    data: DataSource,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Return the rows of `runs` runs of an experiment; runs stored in `directory` are not repeated.

    A row depends only on the seed and the number of the run. Every executor whose workers use one
    thread returns the same rows to the last bit, even if the command was interrupted and continued.

    Raises
    ------
    ConfigError
        If the runs in `directory` have another version of edge_tvbo, another experiment, another
        revision of the experiment, another seed or other data.
    """
    experiment = load(name, data)
    fingerprints = experiment.data_fingerprints()
    manifest = {
        "edge_tvbo": __version__,
        "experiment": experiment.name,
        "revision": experiment.revision,
        "seed": seed,
        "block": experiment.block,
        "data": fingerprints,
    }
    finished = ResumableJobs(directory, manifest)
    jobs = {_job_name(job.start): job for job in _blocks(runs, experiment.block)}
    measure = partial(measure_runs, name, seed, data, tuple(fingerprints.items()))
    with measured_time(directory):
        finished.run(executor, measure, jobs, progress)
    return [row for job in jobs for row in finished.read(job, list[Row]) if row.run < runs]


def elapsed_seconds(directory: Path) -> float:
    """Return the wall-clock time in s that the runner has taken for the runs in `directory`."""
    return float(json.loads((directory / "timing.json").read_text())["seconds"])


def stored_runs(experiment: Experiment, directory: Path) -> int:
    """Return how many runs of an experiment `directory` contains before the first missing run."""
    stored = {path.stem for path in (directory / RESULTS_DIRECTORY).glob("*.json")}
    return next(run for run in count(0, experiment.block) if _job_name(run) not in stored)


def seconds_per_run(experiment: Experiment, directory: Path) -> float:
    """Return the mean wall-clock time in s of the experiment's runs in `directory`."""
    stored = len([*(directory / RESULTS_DIRECTORY).glob("*.json")]) * experiment.block
    return elapsed_seconds(directory) / stored


def measure_runs(
    name: str, seed: int, data: DataSource, fingerprints: Fingerprints, runs: range
) -> list[Row]:
    """Return the rows of some runs of an experiment; a worker calls this function as its job.

    Raises `DataError` if the fingerprints of the worker's data are not the given `fingerprints`.
    """
    _check_data(name, data, fingerprints)
    return load(name, data).measure(runs, seed)


@cache
def _check_data(name: str, data: DataSource, fingerprints: Fingerprints) -> None:
    """Raise `DataError` if the experiment's data on this worker differ from `fingerprints`.

    The data are not checked again if the arguments are the same as in an earlier call that found no
    difference.
    """
    here = load(name, data).data_fingerprints()
    if others := {each for each, _ in {*fingerprints} ^ {*here.items()}}:
        raise DataError(
            f"{', '.join(sorted(others))}: the data differ from those of the machine "
            "on which the command was started. Use the same data on all machines."
        )


def _job_name(first_run: int) -> str:
    return f"{first_run:06}"


def _blocks(runs: int, block: int) -> Iterator[range]:
    for first in range(0, runs, block):
        yield range(first, first + block)


@contextmanager
def measured_time(directory: Path) -> Iterator[None]:
    """Measure the time of the `with` block; add it to the time of the runs in `directory`."""
    start = time.monotonic()
    try:
        yield
    finally:
        path, elapsed = directory / "timing.json", time.monotonic() - start
        before = elapsed_seconds(directory) if path.exists() else 0.0
        write_atomically(path, msgspec.json.encode({"seconds": round(before + elapsed, 1)}))
