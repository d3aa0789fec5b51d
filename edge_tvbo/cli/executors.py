"""Options --cluster and --jobs: the cluster or the local processes that work for a command."""

import os
import signal
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.options import WholeNumberRange
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from concurrent.futures import Executor


cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS|local",
    help="Run on a Dask cluster: the address of its scheduler, or `local` for workers on this"
    " machine.",
)
jobs_option = click.option(
    "--jobs",
    type=WholeNumberRange(1, example=2),
    help="Number of processes.  [default: one per core]",
)


def executor_of(cluster: str | None, jobs: int | None) -> "AbstractContextManager[Executor]":
    """Return the executor that the options --cluster and --jobs select.

    The executor is a cluster, or a pool of local processes: by default, one process for each core.
    With --jobs 1, the work is done in this process. After this call, SIGTERM ends the command in
    the same way as Ctrl-C, so that the command ends its workers.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    jobs_here = jobs or os.cpu_count() or 1
    if cluster is None:
        from edge_tvbo.research.executors import SerialExecutor, process_pool

        return SerialExecutor() if jobs_here == 1 else process_pool(jobs_here)
    if jobs and cluster != "local":
        raise ConfigError(
            "--jobs is for this machine, but a remote cluster uses all its workers. Remove --jobs."
        )
    from edge_tvbo_adapters.cluster import connect

    return connect(cluster, jobs_here)
