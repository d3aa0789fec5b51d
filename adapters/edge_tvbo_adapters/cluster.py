"""Dask cluster as an executor: a scheduler that is already running, or workers started here.

A worker is used only if it returns what this machine would return, to the last bit: it must have
the same versions of the packages that compute, and run one job at a time with one thread. Scheduler
and workers run any code that is sent to them, so they must be as trusted as this machine is. TLS is
set up in Dask's own configuration; workers started here use a certificate that exists as long as
they do.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from edge_tvbo.errors import ClusterError, Code, DataError, MissingExtra

if TYPE_CHECKING:
    from distributed import Client

Outcome = TypeVar("Outcome")

log = logging.getLogger(__name__)

LOCAL = "local"
CONNECT_TIMEOUT_S = 10.0  # for the scheduler's reply, and for its first worker
COMPUTING_PACKAGES = ("edge_tvbo", "numpy", "numba", "scipy")  # last digits depend on them
DASK_LOGGERS = ("distributed", "distributed.client")
WORKER_COMMAND = "dask worker {address} --nthreads 1 --nworkers -1"


@contextmanager
def connect(address: str, workers: int) -> Iterator[Executor]:
    """Return an executor over the cluster whose scheduler is at `address`.

    Parameters
    ----------
    address : str
        Of a Dask scheduler; "local" starts `workers` workers on this machine, which end with the
        context.
    workers : int
        How many workers to start; unused for a scheduler that is already running.

    Raises
    ------
    ClusterError
        If there is no scheduler, if its workers would not return what this machine returns, or
        if the cluster fails while the context is open.
    MissingExtra
        If Dask is not installed.
    """
    try:
        import cryptography  # noqa: F401 - local workers need it, and Dask notices only then
        from dask import config
        from distributed import Client, KilledWorker
        from distributed.comm import CommClosedError
    except ImportError:
        raise MissingExtra(
            "A package that --cluster needs (distributed or cryptography)", "cluster"
        ) from None
    for name in DASK_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # failures are raised as ClusterError
    chosen = _local_cluster(workers) if address == LOCAL else nullcontext(_checked_address(address))
    with (
        config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}),  # a recording
        chosen as scheduler,
        Client(scheduler, timeout=CONNECT_TIMEOUT_S, set_as_default=False) as client,
    ):
        where = client.scheduler.address
        _check_workers(client)
        try:
            yield ClusterExecutor(client)
        except (CancelledError, CommClosedError):
            raise ClusterError(
                f"scheduler {where}: the connection is lost. Start the scheduler and its workers, "
                "and run the same command again."
            ) from None
        except KilledWorker as error:
            raise ClusterError(
                "Workers died again and again in the same job, the last one was "
                f"{error.last_worker.address}. Its log names the cause, or the kernel's log if "
                "memory ran out.",
                Code.WORKERS,
            ) from None


class ClusterExecutor(Executor):
    """An executor over Dask's workers, each of which is checked before every job.

    Workers join and leave while jobs are running, so a check at the start would not be enough.
    """

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._executor = client.get_executor(pure=False)
        self._function: Callable[..., object] | None = None
        self._sent: Any = None

    def submit(self, fn: Callable[..., Outcome], /, *args: Any, **kwargs: Any) -> "Future[Outcome]":
        """Send a job; a function that is submitted many times in a row is sent once."""
        if fn is not self._function:
            # Sent as a job of its own: Dask repeats it if the worker that holds the result dies.
            self._function, self._sent = fn, self._client.submit(_unchanged, fn, pure=False)
        job = partial(_run_checked, _versions(), kwargs)
        future: Future[Outcome] = self._executor.submit(job, self._sent, *args)
        return future


@contextmanager
def _local_cluster(workers: int) -> Iterator[Any]:
    """Return a cluster of processes on this machine, which accepts no other client."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=None,
        dashboard_address="127.0.0.1:0",  # Dask always starts it
        security=True,
        silence_logs=logging.CRITICAL,
        preload=[__name__],
    ) as cluster:
        yield cluster


def _checked_address(address: str) -> str:
    """Return `address` if a scheduler replies there; a `Client` would fail with a long log."""
    try:
        identity = asyncio.run(_identity_at(address))
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"scheduler {address}: {_connect_problem(error)}; is `dask scheduler` running there? "
            "Or use workers on this machine:  --cluster local"
        ) from error
    if identity["type"] != "Scheduler":
        raise ClusterError(
            f"{address} is a {identity['type'].lower()}; give the address of its scheduler."
        )
    return address


def _connect_problem(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "no reply"
        case OSError():
            return "the program there does not use Dask's protocol, or expects TLS (tls://...)"
        case TypeError():
            return "TLS needs certificates; name them in Dask's setting distributed.comm.tls"
        case _:
            return str(error)


async def _identity_at(address: str) -> dict[str, Any]:
    from distributed import rpc
    from distributed.security import Security

    arguments = Security().get_connection_args("client")
    async with asyncio.timeout(CONNECT_TIMEOUT_S), rpc(address, connection_args=arguments) as peer:
        identity: dict[str, Any] = await peer.identity()
    return identity


def _check_workers(client: "Client") -> None:
    """Raise `ClusterError` unless there are workers, all with the versions of this machine."""
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
    except TimeoutError:
        command = WORKER_COMMAND.format(address=address)
        raise ClusterError(
            f"scheduler {address} has no workers; start some:  {command}", Code.WORKERS
        ) from None
    found = client.get_versions(packages=list(COMPUTING_PACKAGES))
    for where, theirs in {f"scheduler {address}": found["scheduler"], **found["workers"]}.items():
        _check_versions(where, _versions(), _deciding_versions(theirs["packages"]))
    others = {each for each in client.run(_processor).values() if each != _processor()}
    if others:
        log.warning(
            "Workers have other processors (%s; here %s): the last digits of results may differ "
            "from those of a run on this machine.",
            ", ".join(sorted(others)),
            _processor(),
        )


# --- on a worker --------------------------------------------------------------------------------


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C, which the main process handles; Dask calls this where it is preloaded."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _unchanged(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
    return function


def _run_checked(
    versions: Mapping[str, str],
    keywords: Mapping[str, Any],
    function: Callable[..., Outcome],
    *arguments: Any,
) -> Outcome:
    """Call `function` on this worker; raises `ClusterError` if its results could differ."""
    from distributed import get_worker

    worker = get_worker()
    _check_versions(worker.address, versions, _versions())
    threads = worker.state.nthreads
    if threads > 1 or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        command = WORKER_COMMAND.format(address=worker.scheduler.address)
        raise ClusterError(
            f"worker {worker.address} computes with several threads; start it with:  {command}",
            Code.WORKERS,
        )
    try:
        return function(*arguments, **keywords)
    except (DataError, MissingExtra) as error:
        advice = "\nWhat --data-dir names must be at the same path on the machine of every worker."
        raise ClusterError(
            f"worker {worker.address}: {error}{advice if isinstance(error, DataError) else ''}",
            Code.WORKERS,
        ) from None


def _processor() -> str:
    from llvmlite.binding import get_host_cpu_name

    return str(get_host_cpu_name())


# --- on both sides ------------------------------------------------------------------------------


@cache
def _versions() -> Mapping[str, str]:
    from distributed.versions import get_versions

    return _deciding_versions(get_versions(packages=list(COMPUTING_PACKAGES))["packages"])


def _deciding_versions(packages: Mapping[str, str | None]) -> Mapping[str, str]:
    """Return the versions that results depend on: Python's first two numbers, the rest in full."""
    python = ".".join(str(packages["python"]).split(".")[:2])
    return {"Python": python} | {name: packages[name] or "none" for name in COMPUTING_PACKAGES}


def _check_versions(where: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    others = [
        f"{name} {theirs[name]}, here {ours[name]}" for name in ours if theirs[name] != ours[name]
    ]
    if others:
        raise ClusterError(
            f"{where} has {'; '.join(others)}. Install the versions of this machine there:  "
            f"pip install edge-tvbo=={ours['edge_tvbo']} numpy=={ours['numpy']}",
            Code.WORKERS,
        )
