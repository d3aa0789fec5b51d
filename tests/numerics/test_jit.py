"""Compilation of kernels just in time."""

import os
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from edge_tvbo.numerics import jit

pytestmark = pytest.mark.skipif(
    jit.COMPILATION == "not compiled", reason="NUMBA_DISABLE_JIT is set"
)
MODULE = """
from edge_tvbo.numerics.jit import _just_in_time


def double(x):
    return 2.0 * x


kernel = _just_in_time("f8(f8)", double)
"""


def interrupt_in_callback(frame, event, _):
    """Send SIGINT to this process while LLVM calls back, which is when Ctrl-C usually arrives."""
    if event == "call" and frame.f_code.co_name == "_raw_object_cache_notify":
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def interrupted():
    """Let Ctrl-C arrive at the next callback of LLVM."""
    sys.setprofile(interrupt_in_callback)
    yield
    sys.setprofile(None)


def test_interrupt_during_compilation_ends_it(tmp_path, interrupted):
    """Python ignores exceptions in a callback, so numba once went on without a compiled kernel."""
    (tmp_path / "double.py").write_text(MODULE)
    spec = spec_from_file_location("double", tmp_path / "double.py")
    with pytest.raises(KeyboardInterrupt):
        spec.loader.exec_module(module_from_spec(spec))


def test_another_exception_during_compilation_is_reported_as_usual(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: reported.append(each.exc_type))

    class Failing:
        def __del__(self):
            raise ValueError

    with jit._ignored_ctrl_c_raised():
        Failing()
    assert reported == [ValueError]
