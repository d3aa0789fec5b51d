"""Executors for research jobs: this process, or a pool of processes on this machine.

Each executor is a subclass of `concurrent.futures.Executor`. The package `edge_tvbo_adapters`
contains another executor, for a Dask cluster.
"""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Outcome = TypeVar("Outcome")

THREAD_COUNT_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class SerialExecutor(Executor):
    """An executor without workers: `submit` calls the function immediately, in this process.

    >>> list(SerialExecutor().map(abs, [-3, 2]))
    [3, 2]
    """

    def submit(
        self,
        fn: Callable[Arguments, Outcome],
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Future[Outcome]:
        """Call `fn` immediately and return a finished future.

        An exception of `fn` is stored in the future, but `KeyboardInterrupt` (Ctrl-C) is raised
        from this call.
        """
        future: Future[Outcome] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Provide a pool of `workers` processes, each of which computes with one thread.

    On Linux, the workers are forked if this process has only one thread, because a spawned worker
    would take one second to import its modules. If the context ends with an exception, such as
    `KeyboardInterrupt` (Ctrl-C), the workers are terminated in the middle of their jobs.
    """
    can_fork = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    with _single_threaded_workers(), ProcessPoolExecutor(workers, mp_context=context) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


@contextmanager
def _single_threaded_workers() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in THREAD_COUNT_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_COUNT_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
