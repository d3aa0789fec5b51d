"""Work on a Dask cluster: behind a scheduler that runs somewhere, or on workers started here.

A worker is made use of only where it gives what this machine would give, to the last bit: it has
the same versions and computes one item at a time, with one thread. Scheduler and workers carry out
whatever reaches them, so they are trusted as this machine is; TLS is set up by Dask's own
configuration, and for workers started here by a certificate that lives as long as they do.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from edge_tvbo.errors import ClusterError, Code, DataError, MissingExtra
from edge_tvbo.ports import Each

if TYPE_CHECKING:
    from distributed import Client, Future

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

log = logging.getLogger(__name__)

LOCAL = "local"
PATIENCE = 10.0  # s a scheduler has to answer, and its first worker to be there
DECISIVE = ("edge_tvbo", "numpy", "numba", "scipy")  # packages that last digits depend on
DASKS_LOGS = ("distributed", "distributed.client")  # as Dask's own configuration parts them
START = "dask worker {address} --nthreads 1 --nworkers -1"


@contextmanager
def connect(address: str, workers: int) -> Iterator[Each]:
    """Give an `Each` over a cluster; see `edge_tvbo.ports.Cluster`."""
    try:
        import cryptography  # noqa: F401 - local workers want it, and Dask says so only then
        from dask import config
        from distributed import Client
    except ImportError:
        raise MissingExtra(
            "A package that --cluster wants, distributed or cryptography,", "cluster"
        ) from None
    for name in DASKS_LOGS:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # we say it in a line of our own
    chosen = _started(workers) if address == LOCAL else nullcontext(_found(address))
    with (
        config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}),  # a recording
        chosen as scheduler,
        Client(scheduler, timeout=PATIENCE, set_as_default=False) as client,
    ):
        _check(client)
        yield partial(_as_completed, client)


@contextmanager
def _started(workers: int) -> Iterator[Any]:
    """Give a cluster of processes on this machine, which nobody else can talk to."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=None,
        dashboard_address="127.0.0.1:0",  # which it has whether or not one looks
        security=True,
        silence_logs=logging.CRITICAL,
        preload=[__name__],
    ) as cluster:
        yield cluster


def _found(address: str) -> str:
    """Give `address` if a scheduler answers there; a `Client` that cannot connect ends noisily."""
    try:
        answer = asyncio.run(_identity(address))
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"scheduler {address}: {_reason(error)}; is `dask scheduler` running there? "
            "Or work on this machine:  --cluster local"
        ) from error
    if answer["type"] != "Scheduler":
        raise ClusterError(f"{address} is a {answer['type'].lower()}; name its scheduler.")
    return address


def _reason(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "no answer"
        case OSError():
            return "what answers speaks no Dask, or speaks it with TLS (tls://...)"
        case TypeError():
            return "TLS wants certificates; Dask's configuration distributed.comm.tls names them"
        case _:
            return str(error)


async def _identity(address: str) -> dict[str, Any]:
    from distributed import rpc
    from distributed.security import Security

    arguments = Security().get_connection_args("client")
    async with asyncio.timeout(PATIENCE), rpc(address, connection_args=arguments) as scheduler:
        answer: dict[str, Any] = await scheduler.identity()
    return answer


def _check(client: "Client") -> None:
    """Raise `ClusterError` unless there are workers, and they give what this machine gives."""
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        start = START.format(address=address)
        raise ClusterError(
            f"scheduler {address} has no workers; start some:  {start}", Code.WORKERS
        ) from None
    found = client.get_versions(packages=list(DECISIVE))
    for where, theirs in {f"scheduler {address}": found["scheduler"], **found["workers"]}.items():
        _refuse_others(where, _software(), _decisive(theirs["packages"]))
    others = {each for each in client.run(_processor).values() if each != _processor()}
    if others:
        log.warning(
            "Workers have other processors (%s; here %s): last digits may differ from a run here.",
            ", ".join(sorted(others)),
            _processor(),
        )


def _as_completed(
    client: "Client", function: Callable[[Item], Outcome], items: Sequence[Item]
) -> Iterator[tuple[int, Outcome]]:
    from distributed import as_completed

    ours = _software()
    # A task, which is done again where its worker dies: what is scattered dies with it.
    sent = client.submit(_itself, function, pure=False)
    numbers = {
        client.submit(_carried_out, sent, item, ours, pure=False): number
        for number, item in enumerate(items)
    }
    for future in as_completed(list(numbers), loop=client.loop):
        number = numbers.pop(future)  # so that its worker may forget it
        yield number, _outcome(future, client.scheduler.address)


def _outcome(future: "Future", address: str) -> Any:
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        return future.result()
    except (CancelledError, CommClosedError):
        raise ClusterError(
            f"scheduler {address}: it is gone. Start it and its workers, and type the same again."
        ) from None
    except KilledWorker as error:
        raise ClusterError(
            f"Workers died again and again at the same task, the last {error.last_worker.address}; "
            "its log, or the kernel's where memory ran out, says why.",
            Code.WORKERS,
        ) from None
    except (DataError, MissingExtra) as error:
        raise ClusterError(
            f"A worker says: {error}\n"
            "What --data-dir names is wanted at the same path on each worker's machine.",
            Code.WORKERS,
        ) from None


# --- on a worker --------------------------------------------------------------------------------


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C to whoever started the workers; Dask calls it where this is preloaded."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _itself(function: Callable[[Item], Outcome]) -> Callable[[Item], Outcome]:
    return function


def _carried_out(
    function: Callable[[Item], Outcome], item: Item, ours: Mapping[str, str]
) -> Outcome:
    """Give what `function` gives; raises `ClusterError` where it might not be the same here.

    Workers come and go while there is work, so each task looks again.
    """
    from distributed import get_worker

    worker = get_worker()
    _refuse_others(worker.address, ours, _software())
    threads = worker.state.nthreads
    if threads > 1 or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        start = START.format(address=worker.scheduler.address)
        raise ClusterError(
            f"worker {worker.address} computes with several threads; start it with:  {start}",
            Code.WORKERS,
        )
    return function(item)


def _processor() -> str:
    from llvmlite.binding import get_host_cpu_name

    return str(get_host_cpu_name())


# --- on both sides ------------------------------------------------------------------------------


@cache
def _software() -> Mapping[str, str]:
    from distributed.versions import get_versions

    return _decisive(get_versions(packages=list(DECISIVE))["packages"])


def _decisive(packages: Mapping[str, str | None]) -> Mapping[str, str]:
    """Give the versions that results depend on: of Python the first two numbers, the rest whole."""
    python = ".".join(str(packages["python"]).split(".")[:2])
    return {"Python": python} | {name: packages[name] or "none" for name in DECISIVE}


def _refuse_others(where: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    others = [
        f"{name} {theirs[name]}, here {ours[name]}" for name in ours if theirs[name] != ours[name]
    ]
    if others:
        raise ClusterError(
            f"{where} has {'; '.join(others)}. Install there what is here:  "
            f"pip install edge-tvbo=={ours['edge_tvbo']} numpy=={ours['numpy']}",
            Code.WORKERS,
        )
