"""Comparison of policies on one recording, with the same test days and seeds for all policies."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

from edge_tvbo import __version__
from edge_tvbo.research.resumable_jobs import MANIFEST, RESULTS_DIRECTORY, ResumableJobs
from edge_tvbo.simulation.backtest import Backtest, ReplayJob, Result
from edge_tvbo.simulation.replay import STEP_DTYPE, Run


def compare_policies(
    backtest: Backtest,
    policies: Sequence[str],
    seeds: int,
    executor: Executor,
    directory: Path,
    progress: Callable[[int, int], None],
) -> list[Result]:
    """Replay a backtest with each of `policies` and each seed below `seeds`; return the results.

    Finished replays are stored in `directory`, and replays that `directory` already contains are
    not repeated. The results do not depend on the executor that runs the replays.

    Raises
    ------
    ConfigError
        If `directory` holds replays of another backtest.
    """
    manifest = {
        "edge_tvbo": __version__,
        "backtest": backtest.fingerprint(),
        "columns": list(STEP_DTYPE.names or ()),
    }
    finished = ResumableJobs(directory, manifest)
    jobs = {
        f"{policy}-{seed:06}": ReplayJob(policy, seed)
        for policy in policies
        for seed in range(seeds)
    }
    finished.run(executor, backtest.run_job, jobs, progress)
    runs: dict[str, list[Run]] = {policy: [] for policy in policies}
    for name, job in jobs.items():
        runs[job.policy].append(finished.read(name, Run))
    return [backtest.result(policy, {}, found) for policy, found in runs.items()]


def remove_replays(directory: Path) -> None:
    """Remove the replays that `compare_policies` stored in `directory`.

    The directory is removed too, unless it contains other files.
    """
    replays = directory / RESULTS_DIRECTORY
    # The manifest is removed last: any backtest would use replays that have no manifest.
    for path in (*replays.glob(f"*-{'[0-9]' * 6}.*"), directory / MANIFEST):
        path.unlink(missing_ok=True)
    for each in (replays, directory):
        with suppress(OSError):  # it contains other files
            each.rmdir()
