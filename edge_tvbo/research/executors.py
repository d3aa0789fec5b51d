"""Who carries work out: this process, or several on this machine. A cluster is an adapter's."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from edge_tvbo.ports import Each

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def one_by_one(
    function: Callable[[Item], Outcome], items: Sequence[Item]
) -> Iterator[tuple[int, Outcome]]:
    """Be an `Each` in this process.

    >>> list(one_by_one(abs, [-3, 2]))
    [(0, 3), (1, 2)]
    """
    for number, item in enumerate(items):
        yield number, function(item)


@contextmanager
def processes(jobs: int) -> Iterator[Each]:
    """Give an `Each` over `jobs` processes, which compute with one thread each.

    They are forked where that is safe, since what is imported takes each a second to import anew.
    """
    alone = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if alone else "spawn")
    with _one_thread_each(), ProcessPoolExecutor(jobs, mp_context=context) as pool:
        try:
            yield partial(_as_completed, pool)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()  # in the middle of an item, of which nothing is given yet
            raise


def in_order(
    each: Each,
    function: Callable[[Item], Outcome],
    items: Sequence[Item],
    progress: Callable[[int, int], None],
) -> list[Outcome]:
    """Give what `function` gives for each item, in their order; `progress` is told after each.

    >>> in_order(one_by_one, abs, [-3, 2], lambda done, total: None)
    [3, 2]
    """
    found: dict[int, Outcome] = {}
    for number, outcome in each(function, items):
        found[number] = outcome
        progress(len(found), len(items))
    return [found[number] for number in range(len(items))]


def _as_completed(
    pool: ProcessPoolExecutor, function: Callable[[Item], Outcome], items: Sequence[Item]
) -> Iterator[tuple[int, Outcome]]:
    numbers = {pool.submit(function, item): number for number, item in enumerate(items)}
    for future in as_completed(numbers):
        yield numbers[future], future.result()


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
