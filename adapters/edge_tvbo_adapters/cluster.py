"""Executor on a Dask cluster that is already running, or that is started on this machine.

The results of a worker must equal the results of this machine, to the last bit. Therefore a worker
must have the same versions of the computing packages, and run one job at a time with one thread.

The scheduler and the workers run any code that is sent to them, so a cluster must be trusted as
much as this machine. Local workers use TLS with a temporary certificate. For a running cluster, the
user sets up TLS in Dask's own configuration.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from edge_tvbo.errors import ClusterError, Code, DataError, MissingExtra

if TYPE_CHECKING:
    from distributed import Client

Outcome = TypeVar("Outcome")

log = logging.getLogger(__name__)

LOCAL = "local"
CONNECT_TIMEOUT_S = 10.0  # longest wait for the scheduler's reply, and then for its first worker
CONNECT_ATTEMPTS = 5
REPEAT_S = 0.01  # delay before an ignored SIGINT is sent again
COMPUTING_PACKAGES = ("edge_tvbo", "numpy", "numba", "scipy")  # with an effect on the results
DASK_LOGGERS = ("distributed", "distributed.client")


@contextmanager
def connect(address: str, workers: int) -> Iterator[Executor]:
    """Provide an executor over the Dask cluster whose scheduler is at `address`.

    Parameters
    ----------
    address : str
        The address of a Dask scheduler, or "local" to start workers on this machine. The local
        workers stop when the context ends.
    workers : int
        Number of local workers; ignored if `address` is the address of a scheduler.

    Raises
    ------
    ClusterError
        If no scheduler replies, if the scheduler has no workers, if the workers' results could
        differ from the results of this machine, or if the cluster fails while the context is open.
    MissingExtra
        If Dask is not installed.
    """
    try:
        # Local workers need cryptography. Without this import, Dask would report late that the
        # package is missing.
        import cryptography  # noqa: F401
        from dask import config
        from distributed import KilledWorker
        from distributed.comm import CommClosedError
    except ImportError:
        raise MissingExtra(
            "A package that --cluster needs (distributed or cryptography)", "cluster"
        ) from None
    for name in DASK_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # failures are raised as ClusterError
    chosen = _local_cluster(workers) if address == LOCAL else nullcontext(_checked_address(address))
    with (
        config.set(
            {"distributed.admin.large-graph-warning-threshold": "1 TB"}
        ),  # recordings are large
        _repeated_interrupts(),
        chosen as scheduler,
        _client(scheduler) as client,
    ):
        where = client.scheduler.address
        _check_workers(client)
        try:
            yield ClusterExecutor(client)
        except (CancelledError, CommClosedError):
            raise ClusterError(
                f"scheduler {where}: the connection was lost. Start the scheduler and its workers, "
                "and run the same command again."
            ) from None
        except KilledWorker as error:
            raise ClusterError(
                "Several workers died in the same job; the last one was "
                f"{error.last_worker.address}. The log of that worker names the cause. If the "
                "worker's machine ran out of memory, the kernel log of that machine says so.",
                Code.WORKERS,
            ) from None


def _client(scheduler: Any) -> "Client":
    """Return a client that is connected to the Dask `scheduler`.

    If a worker joins or leaves at this moment, the scheduler may send a message about the worker
    together with its first reply. Then Dask's client raises `AssertionError`, and has to connect
    again.
    """
    from distributed import Client

    class ClosedOnFailure(Client):  # type: ignore[misc]  # Dask has no types
        def __init__(self) -> None:
            try:
                super().__init__(scheduler, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
            except AssertionError:
                self.close()  # if garbage collection closed it, this could block the next client
                raise

    for _ in range(CONNECT_ATTEMPTS):
        with suppress(AssertionError):
            return ClosedOnFailure()
    address = getattr(scheduler, "scheduler_address", scheduler)
    raise ClusterError(
        f"scheduler {address}: no connection in {CONNECT_ATTEMPTS} attempts, probably because "
        "workers joined or left at the same moments. Run the same command again."
    )


class ClusterExecutor(Executor):
    """Executor for jobs on Dask workers; each worker is checked again before each of its jobs.

    Checking all workers at the start would not be enough, because other workers can join while jobs
    are running.
    """

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._function: Callable[..., object] | None = None
        self._sent: Any = None

    def submit(self, fn: Callable[..., Outcome], /, *args: Any, **kwargs: Any) -> "Future[Outcome]":
        """Send a job to a Dask worker.

        If successive jobs call the same function, the function itself is sent only once.
        """
        if fn is not self._function:
            # The function is sent as a separate job, which Dask repeats if the worker that stores
            # the function dies.
            self._function, self._sent = fn, self._client.submit(_unchanged, fn, pure=False)
        job = partial(_run_checked, _versions(), kwargs)
        sent = self._client.submit(job, self._sent, *args, pure=False)
        future: Future[Outcome] = Future()

        def cancel_sent(done: "Future[Outcome]") -> None:
            if done.cancelled() and not sent.cancelled():
                sent.cancel()

        future.add_done_callback(cancel_sent)
        self._client.loop.add_callback(_forward, self._client, sent, future)
        return future


async def _forward(client: "Client", sent: Any, future: "Future[Any]") -> None:
    """Copy the outcome of a cluster job from `sent` to `future`.

    The executor of Dask copies outcomes, too, but has a fault: if the connection is lost while a
    result is transferred, the future stays pending for ever.
    """
    try:
        outcome = await client.gather(sent, asynchronous=True)
    except (asyncio.CancelledError, CancelledError):
        future.cancel()
        future.set_running_or_notify_cancel()
    except Exception as error:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(outcome)


@contextmanager
def _repeated_interrupts() -> Iterator[None]:
    """Make Ctrl-C stop a cluster's jobs even if SIGINT arrives during a `__del__` method.

    Python ignores a SIGINT during a `__del__` method, and Dask's futures have such a method. While
    this context is open, an ignored SIGINT is sent again.
    """
    report = sys.unraisablehook
    main = threading.main_thread().ident

    def repeat(ignored: "sys.UnraisableHookArgs") -> None:
        if main is None or not issubclass(ignored.exc_type, KeyboardInterrupt):
            report(ignored)
        else:
            # Send SIGINT after a delay: an exception in this function would be ignored, too.
            threading.Timer(REPEAT_S, signal.pthread_kill, (main, signal.SIGINT)).start()

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        sys.unraisablehook = report


@contextmanager
def _local_cluster(workers: int) -> Iterator[Any]:
    """Yield a Dask cluster of local processes; no other client can connect to the cluster."""
    import dask
    from distributed import LocalCluster

    # Dask's value of this variable makes a worker return the memory of each freed array to the
    # system, and then request it again.
    keep_memory = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}
    with (
        dask.config.set(keep_memory),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=None,
            dashboard_address="127.0.0.1:0",  # Dask always starts a web server
            security=True,
            silence_logs=logging.CRITICAL,
            preload=[__name__],
        ) as cluster,
    ):
        yield cluster


def _checked_address(address: str) -> str:
    """Return `address` if a Dask scheduler replies there; otherwise raise `ClusterError`.

    Without this check, Dask's `Client` would write a long log before it fails.
    """
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
            return "the program at this address does not use Dask's protocol, or expects TLS (tls://...)"
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
    """Check the workers of the Dask cluster, before any job is sent to them.

    Raises `ClusterError` if there is no worker, or if the package versions of the scheduler or of a
    worker differ from the versions on this machine. Logs a warning if the processor of a worker is
    of another type.
    """
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
    except TimeoutError:
        command = worker_command(address)
        raise ClusterError(
            f"scheduler {address} has no workers; start some:  {command}", Code.WORKERS
        ) from None
    found = client.get_versions(packages=list(COMPUTING_PACKAGES))
    for where, theirs in {f"scheduler {address}": found["scheduler"], **found["workers"]}.items():
        _check_versions(where, _versions(), _deciding_versions(theirs["packages"]))
    others = {each for each in client.run(_processor).values() if each != _processor()}
    if others:
        log.warning(
            "The processors of workers (%s) differ from the processor of this machine (%s): the "
            "workers' results may differ in the last digits from results of this machine.",
            ", ".join(sorted(others)),
            _processor(),
        )


# --- on a worker --------------------------------------------------------------------------------


def dask_setup(worker: object) -> None:
    """Let a local Dask worker ignore Ctrl-C, which the main process handles.

    Dask calls this function when it starts the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _unchanged(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
    return function


def _run_checked(
    versions: Mapping[str, str],
    keywords: Mapping[str, Any],
    function: Callable[..., Outcome],
    *arguments: Any,
) -> Outcome:
    """Call `function` on this Dask worker and return its result.

    Raises `ClusterError` if the main process could compute another result, or if this worker lacks
    data or a package.
    """
    from distributed import get_worker

    worker = get_worker()
    _check_versions(worker.address, versions, _versions())
    threads = worker.state.nthreads
    if threads > 1 or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        command = worker_command(worker.scheduler.address)
        raise ClusterError(
            f"worker {worker.address} computes with several threads; start it with:  {command}",
            Code.WORKERS,
        )
    try:
        return function(*arguments, **keywords)
    except (DataError, MissingExtra) as error:
        advice = "\nThe directory of --data-dir must be at the same path on every worker's machine."
        raise ClusterError(
            f"worker {worker.address}: {error}{advice if isinstance(error, DataError) else ''}",
            Code.WORKERS,
        ) from None


def _processor() -> str:
    from llvmlite.binding import get_host_cpu_name

    return str(get_host_cpu_name())


# --- on both sides ------------------------------------------------------------------------------


def worker_command(address: str) -> str:
    """Return the shell command that connects a worker to the Dask scheduler at `address`."""
    return f"dask worker {quote(address)} --nthreads 1 --nworkers -1"


@cache
def _versions() -> Mapping[str, str]:
    from distributed.versions import get_versions

    return _deciding_versions(get_versions(packages=list(COMPUTING_PACKAGES))["packages"])


def _deciding_versions(packages: Mapping[str, str | None]) -> Mapping[str, str]:
    """Return the versions of Python (X.Y) and of packages that influence a cluster's results.

    The keys are "Python" and the names of the packages.
    """
    python = ".".join(str(packages["python"]).split(".")[:2])
    return {"Python": python} | {name: packages[name] or "none" for name in COMPUTING_PACKAGES}


def _check_versions(where: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    others = [
        f"{name} {theirs[name]} (this machine: {ours[name]})"
        for name in ours
        if theirs[name] != ours[name]
    ]
    if others:
        raise ClusterError(
            f"{where} has {'; '.join(others)}. On that machine, install the versions "
            f"of this machine:  pip install edge-tvbo=={ours['edge_tvbo']} numpy=={ours['numpy']}",
            Code.WORKERS,
        )
