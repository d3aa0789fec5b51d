"""Carries an experiment out: units of work, each kept in a file when it is done."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from edge_tvbo.ports import Each
from edge_tvbo.research.experiments import load
from edge_tvbo.research.experiments.base import Row
from edge_tvbo.research.resumable_jobs import ResumableJobs, write


def carry_out(
    name: str,
    directory: Path,
    *,
    runs: int,
    seed: int,
    each: Each,
    data_dirs: tuple[str, ...] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Give the rows of `runs` runs, doing what `directory` does not hold yet.

    What a unit gives depends on the seed and its number alone: rows are the same to the last bit,
    whoever works for `each`, with one thread each, and however often it was stopped.

    Raises
    ------
    ConfigError
        Where `directory` holds another seed's or another experiment's runs.
    """
    experiment = load(name, data_dirs)
    manifest = {"experiment": experiment.name, "seed": seed, "block": experiment.block}
    parts = ResumableJobs(directory, manifest)
    units = {f"{unit.start:06}": unit for unit in _units(runs, experiment.block)}
    begun = time.monotonic()
    try:
        parts.carry_out(each, partial(measure, name, seed, data_dirs), units, progress)
    finally:
        _add_time(directory, time.monotonic() - begun)
    return [row for unit in units for row in parts.read(unit, list[Row]) if row.run < runs]


def seconds(directory: Path) -> float:
    """Give how long the runs in `directory` took so far, by the clock on the wall."""
    return float(json.loads((directory / "timing.json").read_text())["seconds"])


def measure(name: str, seed: int, data_dirs: tuple[str, ...], runs: range) -> list[Row]:
    """Carry one unit out: what a worker does."""
    rows: list[Row] = load(name, data_dirs).measure(runs, seed)
    return rows


def _units(runs: int, block: int) -> Iterator[range]:
    for first in range(0, runs, block):
        yield range(first, first + block)


def _add_time(directory: Path, elapsed: float) -> None:
    path = directory / "timing.json"
    before = seconds(directory) if path.exists() else 0.0
    write(path, msgspec.json.encode({"seconds": round(before + elapsed, 1)}))
