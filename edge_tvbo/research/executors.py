"""Executors for research jobs: this process, or a pool of processes on this machine.

Each executor is a subclass of `concurrent.futures.Executor`. The package `edge_tvbo_adapters`
contains another executor, for a Dask cluster.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar

from edge_tvbo.errors import EdgeTvboError

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
        """Call `fn` immediately, in this process, and return a finished future.

        An exception of `fn` is stored in the future, but `KeyboardInterrupt` (Ctrl-C) is raised
        from this call.
        """
        future: Future[Outcome] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class StoredFunctionExecutor(Executor):
    """An executor over a `pool` of processes; it stores the function of the jobs in a file.

    The function may contain a recording. Therefore the function is pickled only once, and the jobs
    in the pool's queue stay small. Before Python 3.11.6, large jobs can prevent Python from exiting
    (gh-94777). This happens if a job does not fit into the queue's pipe, and if the workers are
    terminated while the job is being written to the pipe.

    Parameters
    ----------
    pool : ProcessPoolExecutor
        Pool that runs the jobs. The caller shuts the pool down.
    directory : Path
        Existing directory for the file; it must not be removed before all jobs are finished.
    """

    def __init__(self, pool: ProcessPoolExecutor, directory: Path) -> None:
        self._pool = pool
        self._directory = directory
        self._function: Callable[..., object] | None = None
        self._files = 0

    def submit(
        self,
        fn: Callable[Arguments, Outcome],
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Future[Outcome]:
        """Call `fn` in a worker of the executor's pool.

        If the previous job called another function, `fn` is first written to a file. The first
        call starts the workers.
        """
        if fn is not self._function:
            self._files += 1
            self._file.write_bytes(pickle.dumps(fn))
            self._function = fn
        with _delayed_ctrl_c():
            return self._pool.submit(_call_stored, self._file, args, kwargs)

    @property
    def _file(self) -> Path:
        return self._directory / str(self._files)


@contextmanager
def _delayed_ctrl_c() -> Iterator[None]:
    """Delay Ctrl-C until the end of the `with` block, in which this process may fork.

    `KeyboardInterrupt` is raised after the block. Otherwise, the exception could be lost: before
    and after a fork, Python calls functions of modules such as `logging`, and ignores all
    exceptions in these functions.
    """
    if sys.platform == "win32":  # Windows has neither forks nor signal masks
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _call_stored(file: Path, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _stored(file)(*args, **kwargs)


@lru_cache(maxsize=1)
def _stored(file: Path) -> Callable[..., Any]:
    function: Callable[..., Any] = pickle.loads(file.read_bytes())
    return function


@contextmanager
def process_pool(workers: int) -> Iterator[Executor]:
    """Provide an executor: a pool of `workers` processes.

    - Start: the workers are spawned, and each worker takes one second to import its modules. On
      Linux, the workers are forked instead if this process has only one thread.
    - Threads: the environment variables `THREAD_COUNT_VARIABLES` limit each worker to one thread.
      numpy reads these variables only when it is loaded. If numpy was loaded before the fork, a
      worker uses as many threads as this process.
    - Exceptions: if the context ends with an exception, such as `KeyboardInterrupt` (Ctrl-C), the
      workers are terminated in the middle of their jobs. All other child processes that were
      started in the context are terminated, too.

    Raises
    ------
    EdgeTvboError
        If a worker was killed, for example because the memory was used up.
    """
    can_fork = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    others = multiprocessing.active_children()
    with (
        _single_threaded_workers(),
        TemporaryDirectory() as directory,
        ProcessPoolExecutor(
            workers,
            context,
            initializer=_leave_signals_to_the_main_process,
        ) as pool,
    ):
        try:
            yield StoredFunctionExecutor(pool, Path(directory))
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                if child not in others:
                    child.terminate()
            if isinstance(error, BrokenProcessPool):
                raise EdgeTvboError(
                    f"One of {workers} processes was killed, perhaps because the memory was used "
                    "up.\nRun the same command again with fewer processes; stored runs are not "
                    f"repeated:  --jobs {workers // 2 or 1}"
                ) from None
            raise


def _leave_signals_to_the_main_process() -> None:
    """Make a worker of the executor ignore SIGINT (Ctrl-C), and end at once on SIGTERM.

    Otherwise, a forked worker would use the signal handlers of the main process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


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
