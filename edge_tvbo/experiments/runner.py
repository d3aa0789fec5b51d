"""Carries an experiment out: units of work in processes, each kept in a file when it is done."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

import msgspec

from edge_tvbo.errors import ConfigError
from edge_tvbo.experiments import load
from edge_tvbo.experiments.experiment import Row

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
PARTS = "parts"


def carry_out(
    name: str,
    directory: Path,
    *,
    runs: int,
    seed: int,
    jobs: int,
    data_dirs: tuple[str, ...] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Give the rows of `runs` runs, doing what `directory` does not hold yet.

    Each worker computes with one thread, and what a unit gives depends on the seed and its number
    alone: rows are the same to the last bit, whatever `jobs` is and however often it was stopped.

    Raises
    ------
    ConfigError
        Where `directory` holds another seed's or another experiment's runs.
    """
    experiment = load(name, data_dirs)
    _claim(directory, {"experiment": experiment.name, "seed": seed, "block": experiment.block})
    begun = time.monotonic()
    units = list(_units(runs, experiment.block))
    missing = [unit for unit in units if not _part(directory, unit).exists()]
    progress(len(units) - len(missing), len(units))
    try:
        with _one_thread_each():
            _carry_out(name, directory, missing, seed, jobs, data_dirs, len(units), progress)
    finally:
        _add_time(directory, time.monotonic() - begun, jobs)
    return [row for unit in units for row in _rows(_part(directory, unit)) if row.run < runs]


def seconds(directory: Path) -> float:
    """Give how long the runs in `directory` took so far, by the clock on the wall."""
    return float(json.loads((directory / "timing.json").read_text())["seconds"])


def measure(name: str, part: str, runs: range, seed: int, data_dirs: tuple[str, ...]) -> None:
    """Carry one unit out and write its rows: what a worker does."""
    rows = load(name, data_dirs).measure(runs, seed)
    _write(Path(part), msgspec.json.encode(rows))


def _carry_out(
    name: str,
    directory: Path,
    missing: list[range],
    seed: int,
    jobs: int,
    data_dirs: tuple[str, ...],
    total: int,
    progress: Callable[[int, int], None],
) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, max(len(missing), 1)), mp_context=context) as pool:
        try:
            futures = [
                pool.submit(measure, name, str(_part(directory, unit)), unit, seed, data_dirs)
                for unit in missing
            ]
            for done, future in enumerate(as_completed(futures), total - len(missing) + 1):
                future.result()
                progress(done, total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()  # in the middle of a unit, of which nothing is written yet
            raise


def _units(runs: int, block: int) -> Iterator[range]:
    for first in range(0, runs, block):
        yield range(first, first + block)


def _part(directory: Path, unit: range) -> Path:
    return directory / PARTS / f"{unit.start:06}.json"


def _rows(part: Path) -> list[Row]:
    try:
        return msgspec.json.decode(part.read_bytes(), type=list[Row])
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{part}: {error}. Delete it and run again.") from error


def _claim(directory: Path, manifest: dict[str, object]) -> None:
    path = directory / "manifest.json"
    (directory / PARTS).mkdir(parents=True, exist_ok=True)
    if not path.exists():
        _write(path, msgspec.json.encode(manifest))
        return
    found = json.loads(path.read_text())
    if found != manifest:
        raise ConfigError(
            f"{directory} holds {found}, not {manifest}.\nName another directory with  --out"
        )


def _write(path: Path, text: bytes) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(text)
    beside.replace(path)


def _add_time(directory: Path, elapsed: float, jobs: int) -> None:
    path = directory / "timing.json"
    before = seconds(directory) if path.exists() else 0.0
    _write(path, msgspec.json.encode({"seconds": round(before + elapsed, 1), "jobs": jobs}))


@contextmanager
def _one_thread_each() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
