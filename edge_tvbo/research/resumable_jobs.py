"""Resumable jobs: each result is written to a file, so that an interrupted run can continue."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec

from edge_tvbo.errors import ConfigError, naming_file

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
RESULTS_DIRECTORY = "parts"
MANIFEST = "manifest.json"


class ResumableJobs:
    """A directory of job results: one JSON file per job, and a manifest that identifies the work.

    Parameters
    ----------
    directory : Path
        Directory of the results; it is created if it is missing.
    manifest : dict
        Values that identify the work; the dict must be encodable as JSON.

    Raises
    ------
    ConfigError
        If `directory` contains results of another run.
    """

    def __init__(self, directory: Path, manifest: dict[str, Any]) -> None:
        self._directory = directory / RESULTS_DIRECTORY
        self._directory.mkdir(parents=True, exist_ok=True)
        path = directory / MANIFEST
        if not path.exists():
            write_atomically(path, msgspec.json.encode(manifest))
        found = _decode(path, dict)
        if found != manifest:
            raise ConfigError(
                f"{directory} contains the results of another run: "
                f"{_without(found, manifest)} instead of {_without(manifest, found)}.\n"
                "Name another directory with  --out"
            )

    def run(
        self,
        executor: Executor,
        function: Callable[[Item], object],
        jobs: Mapping[str, Item],
        progress: Callable[[int, int], None],
    ) -> None:
        """Run the jobs that have no result file yet, and write the result of each finished job.

        Parameters
        ----------
        executor : Executor
            Executor that calls `function` once for each missing job.
        function : callable
            Function of one argument; its result must be encodable as JSON.
        jobs : mapping
            Maps the name of each job to the argument of `function`.
        progress : callable
            Called with the number of finished jobs and the number of all jobs, at the start and
            after each job.
        """
        missing = [name for name in jobs if not self._path(name).exists()]
        done = len(jobs) - len(missing)
        progress(done, len(jobs))

        def store(name: str, outcome: object) -> None:
            nonlocal done
            write_atomically(self._path(name), msgspec.json.encode(outcome))
            done += 1
            progress(done, len(jobs))

        pending: dict[Future[object], str] = {}
        finished: SimpleQueue[Future[object]] = SimpleQueue()
        for name in missing:
            future = executor.submit(function, jobs[name])
            if future.done():  # always true if the executor is serial
                store(name, future.result())
            else:
                pending[future] = name
                future.add_done_callback(finished.put)
        while pending:
            future = finished.get()
            store(pending.pop(future), future.result())

    def read(self, name: str, kind: type[Outcome]) -> Outcome:
        """Return the stored result of a job; raise `ConfigError` if its file is damaged."""
        return _decode(self._path(name), kind)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content`, the result of a job, to the file `path` in one step.

    The content is written to a new file, and this file is renamed to `path`. So the file `path` is
    never incomplete.
    """
    beside = path.with_suffix(".new")
    with naming_file(path):
        beside.write_bytes(content)
        beside.replace(path)


def _without(manifest: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the items of the jobs' `manifest` that the manifest `other` does not contain."""
    return {key: value for key, value in manifest.items() if (key, value) not in other.items()}


def _decode(path: Path, kind: type[Outcome]) -> Outcome:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}. Delete this file and run again.") from error
