"""The library of kernels that all processes of the tests share."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from support.once import once

NEEDS = "no C compiler, or no headers of Python:  apt install gcc libc6-dev python3-dev"
VARIABLE = "EDGE_TVBO_KERNELS"
PLACES = (  # of tests that start programs; how kernels are compiled is no part of what they test
    "tests/adapters/",
    "tests/broker/",
    "tests/cli/",
    "tests/deploy/test_deploy.py::test_systemd_does_not_retry",
    "tests/deploy/test_requirements.py",
    "tests/deploy/test_wheel.py::test_a_demo_without_a_broker",
    "tests/deploy/test_wheel.py::test_a_missing_extra",
    "tests/deploy/test_wheel.py::test_check_and_the_daemon_name",
    "tests/docs/test_contributing.py",
    "tests/docs/test_docs.py::test_the_indented_commands",
    "tests/docs/test_docs.py::test_the_script",
    "tests/docs/test_site.py",
    "tests/docs/test_tutorial.py",
    "tests/faults/",
    "tests/policy/test_registry.py",
    "tests/research/",
    "tests/test_demonstrations.py",
)


def can_compile():
    """Return whether this machine can compile kernels ahead of time."""
    return bool(shutil.which("cc")) and Path(sysconfig.get_path("include"), "Python.h").exists()


def library(shared):
    """Return the folder of the library: of `make test`, or compiled in `shared` by one process."""
    made = os.environ.get("EDGE_TVBO_TEST_LIBRARY", "")
    if made and Path(made).is_dir():
        return Path(made)
    folder = shared / "library"
    with once(shared) as is_missing:
        if is_missing:
            command = [sys.executable, "-m", "edge_tvbo.numerics.compile", str(folder)]
            subprocess.run(command, check=True, capture_output=True)
    return folder


def starts_many_programs(item):
    """Return whether a test may start programs, and does not test how kernels are compiled."""
    return item.nodeid.startswith(PLACES) and not item.get_closest_marker("unit")
