"""Resumable jobs: Ctrl-C is not lost."""

import os
import signal

import pytest

from edge_tvbo.research.executors import SerialExecutor
from edge_tvbo.research.resumable_jobs import ResumableJobs, kept_interrupts


class Interrupting:
    """An object in whose destructor Ctrl-C is pressed."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # Python handles the signal here
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_destructor_ends_the_run_at_the_next_result(tmp_path):
    def interrupted(number):
        if number == 3:
            Interrupting()
        return number

    jobs = {str(number): number for number in range(6)}
    with pytest.raises(KeyboardInterrupt):
        ResumableJobs(tmp_path, {}).run(SerialExecutor(), interrupted, jobs, lambda *_: None)
    assert len(list(tmp_path.rglob("[0-9].json"))) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_an_interrupt_the_handler_is_restored():
    with kept_interrupts() as check:
        check()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
