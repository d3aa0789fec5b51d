"""The library of kernels that all processes of the tests share."""

import fcntl
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

NEEDS = "no C compiler, or no headers of Python:  apt install gcc libc6-dev python3-dev"
VARIABLE = "EDGE_TVBO_KERNELS"
PLACES = (  # of tests that start programs; how kernels are compiled is no part of what they test
    "tests/adapters/",
    "tests/broker/",
    "tests/cli/",
    "tests/faults/",
    "tests/research/",
    "tests/test_demonstrations.py",
)


def can_compile():
    """Return whether this machine can compile kernels ahead of time."""
    return bool(shutil.which("cc")) and Path(sysconfig.get_path("include"), "Python.h").exists()


def library(shared):
    """Return the folder of the library, which the first process compiles in `shared`."""
    folder, done = shared / "library", shared / "compiled"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            command = [sys.executable, "-m", "edge_tvbo.numerics.compile", str(folder)]
            subprocess.run(command, check=True, capture_output=True, timeout=200)
            done.touch()
    return folder


def starts_many_programs(item):
    """Return whether a test may start programs, and does not test how kernels are compiled."""
    return item.nodeid.startswith(PLACES) and not item.get_closest_marker("unit")
