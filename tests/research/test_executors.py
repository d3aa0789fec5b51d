"""Executors and resumable jobs: the same results in every executor and after interruptions."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import pytest
from edge_tvbo_adapters import datasets
from hypothesis import given
from hypothesis import strategies as st
from support import chores

from edge_tvbo.errors import ConfigError, EdgeTvboError, MissingExtra
from edge_tvbo.research.executors import (
    THREAD_COUNT_VARIABLES,
    SerialExecutor,
    process_pool,
)
from edge_tvbo.research.resumable_jobs import ResumableJobs
from edge_tvbo.simulation.dataset_lookup import DataSource

numbers = st.lists(st.integers(-9, 9), max_size=8)


class ShuffledExecutor(Executor):
    """An executor that finishes `count` jobs in a random order, some of them late."""

    def __init__(self, random, count):
        self._random, self._count = random, count
        self._waiting = []

    def submit(self, fn, /, *args):
        future = Future()
        self._waiting.append((future, fn, args))
        self._count -= 1
        run_now = len(self._waiting) if self._count == 0 else self._random.randint(0, 2)
        for _ in range(min(run_now, len(self._waiting))):
            done, function, arguments = self._waiting.pop(
                self._random.randrange(len(self._waiting))
            )
            done.set_result(function(*arguments))
        return future


@given(numbers, st.randoms(use_true_random=False))
def test_results_belong_to_their_jobs_in_any_order_of_completion(items, random):
    jobs = {f"{number:03}": item for number, item in enumerate(items)}
    progress = []

    with tempfile.TemporaryDirectory() as directory:
        finished = ResumableJobs(Path(directory), {"work": 1})
        executor = ShuffledExecutor(random, len(items))
        finished.run(executor, chores.square, jobs, lambda *step: progress.append(step))
        results = [finished.read(name, int) for name in jobs]

    assert results == [item * item for item in items]
    assert progress == [(done, len(items)) for done in range(len(items) + 1)]


@given(numbers, st.integers(0, 8))
def test_finished_jobs_are_not_repeated_after_an_interruption(items, stop_after):
    jobs = {f"{number:03}": item for number, item in enumerate(items)}
    done, interruptions = [], [stop_after]

    def square(item):
        if interruptions == [len(done)]:
            interruptions.clear()
            raise KeyboardInterrupt
        done.append(item)
        return chores.square(item)

    with tempfile.TemporaryDirectory() as directory:
        for _ in range(2):
            finished = ResumableJobs(Path(directory), {"work": 1})
            try:
                finished.run(SerialExecutor(), square, jobs, lambda done, total: None)
            except KeyboardInterrupt:
                assert len(done) == stop_after
        results = [finished.read(name, int) for name in jobs]

    assert results == [item * item for item in items]
    assert done == items


def test_results_of_other_work_are_rejected_with_the_fix(tmp_path):
    ResumableJobs(tmp_path, {"work": 1})

    with pytest.raises(ConfigError, match=r"'work': 1.*'work': 2(.|\n)*--out"):
        ResumableJobs(tmp_path, {"work": 2})


def test_damaged_manifest_is_named_in_the_error(tmp_path):
    ResumableJobs(tmp_path, {"work": 1})
    (tmp_path / "manifest.json").write_text("{")

    with pytest.raises(ConfigError, match=r"manifest.json: .* Delete this file and run again"):
        ResumableJobs(tmp_path, {"work": 1})


def test_process_pool_returns_what_the_serial_executor_returns():
    with process_pool(2) as pool:
        results = list(pool.map(chores.square, range(20)))

    assert results == list(SerialExecutor().map(chores.square, range(20)))


def test_workers_use_one_thread_and_the_environment_is_restored(monkeypatch):
    first, *others = THREAD_COUNT_VARIABLES
    monkeypatch.setenv(first, "7")
    for name in others:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)

    with process_pool(1) as pool:
        counts = list(pool.map(os.getenv, THREAD_COUNT_VARIABLES))

    assert counts == ["1"] * len(THREAD_COUNT_VARIABLES)
    assert dict(os.environ) == before


def test_function_with_a_recording_is_sent_to_the_workers_once():
    function = chores.AddWithRecording()

    with process_pool(2) as pool:
        results = list(pool.map(function, range(20)))

    assert results == [number + 10_000_000 for number in range(20)]
    assert function.pickled == 1


def test_each_function_is_called_with_its_own_jobs():
    function = chores.AddWithRecording()

    with process_pool(2) as pool:
        jobs = [pool.submit(each, 3) for each in (abs, function, chores.square, function)]
        results = [job.result() for job in jobs]

    assert results == [3, 10_000_003, 9, 10_000_003]


def test_other_processes_of_the_program_go_on_after_a_ctrl_c():
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), process_pool(1) as pool:
            pool.submit(chores.square, 3).result()
            raise KeyboardInterrupt

        other.join(0.2)
        assert other.is_alive()
    finally:
        other.kill()
        other.join()


def run_script(script, **options):
    """Run a Python script, which can import the support modules of the tests."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def test_killed_worker_is_an_error_that_keeps_the_finished_results(tmp_path):
    jobs = ResumableJobs(tmp_path, {})
    with process_pool(4) as pool:
        jobs.run(pool, chores.square, {"a": 3}, lambda done, total: None)

    with pytest.raises(EdgeTvboError, match=r"killed.*\n.*--jobs 2"), process_pool(4) as pool:
        jobs.run(pool, chores.die, {"a": 3, "b": 4}, lambda done, total: None)

    assert jobs.read("a", int) == 9


def test_ctrl_c_ends_a_pool_that_is_sending_large_jobs():
    """Debian 12's Python 3.11.2 hung at exit if the workers were terminated during a transfer."""
    script = """
from support import chores
from edge_tvbo.research.executors import process_pool

function = chores.AddWithRecording()
with process_pool(2) as pool:
    jobs = [pool.submit(function, number) for number in range(1000)]
    jobs[0].result()
    raise KeyboardInterrupt
"""
    done = run_script(script)
    assert done.stderr.endswith("KeyboardInterrupt\n"), done.stderr[-500:]


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_a_ctrl_c_while_the_workers_start_ends_the_command():
    """Python ignores a KeyboardInterrupt that is raised in a function of `register_at_fork`."""
    script = """
import os, signal
from support import chores
from edge_tvbo.research.executors import process_pool

os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT))
try:
    with process_pool(2) as pool:
        list(pool.map(chores.square, range(4)))
        print("finished")
except KeyboardInterrupt:
    print("interrupted")
"""
    done = run_script(script)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups")
def test_workers_ignore_the_ctrl_c_of_a_terminal():
    """A terminal sends SIGINT to all processes of a command, which terminates its workers."""
    script = """
import os, signal
from support import chores
from edge_tvbo.research.executors import process_pool

with process_pool(2) as pool:
    list(pool.map(chores.square_after_a_while, range(2)))  # both workers run
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.killpg(0, signal.SIGINT)
    print(list(pool.map(chores.square, range(4))))
"""
    done = run_script(script, start_new_session=True)
    assert (done.stdout, done.stderr) == ("[0, 1, 4, 9]\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="workers are forked on Linux only")
def test_workers_end_at_once_though_the_main_process_handles_sigterm():
    """`experiment` and `benchmark` handle SIGTERM like Ctrl-C; a forked worker inherits that."""
    script = """
import signal
from support import chores
from edge_tvbo.research.executors import process_pool

signal.signal(signal.SIGTERM, signal.default_int_handler)
with process_pool(2) as pool:
    list(pool.map(chores.square_after_a_while, range(2)))  # both workers run
    jobs = [pool.submit(chores.never_return, number) for number in range(9)]
    raise KeyboardInterrupt
"""
    done = run_script(script)
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert done.stderr.endswith("KeyboardInterrupt\n")


def test_serial_executor_raises_errors_when_results_are_read():
    future = SerialExecutor().submit(chores.package_is_missing, 1)

    with pytest.raises(MissingExtra, match="scipy"):
        future.result()


def test_error_in_another_process_keeps_its_text():
    with process_pool(1) as pool, pytest.raises(MissingExtra, match=r"scipy.*\n.*\[science\]"):
        list(pool.map(chores.package_is_missing, [1]))


def test_recording_with_filled_gaps_can_be_pickled():
    original = DataSource(datasets.find).load("lab-sample", "filled")

    copy = pickle.loads(pickle.dumps(original))

    assert not copy.observed.all()
    assert (copy.replies == original.replies).all()
    np.testing.assert_array_equal(copy.values, original.values)
    assert copy.sensors == original.sensors


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_workers_of_a_single_threaded_process_are_forked():
    """Only a forked worker finds a function that was defined on the command line."""
    script = """
from edge_tvbo.research.executors import process_pool

def square(item):
    return item * item

with process_pool(2) as pool:
    print(list(pool.map(square, [3, -2, 5])))
"""
    done = run_script(script)
    assert done.stdout == "[9, 4, 25]\n", done.stderr[-500:]
