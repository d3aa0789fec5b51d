"""Fixtures: a library of kernels compiled ahead of time, and a broker."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory):
    """Return a folder with a library of kernels that was just compiled."""
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if not (shutil.which("cc") and headers.exists()):
        reason = "no C compiler, or no headers of Python:  apt install gcc libc6-dev python3-dev"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    folder = tmp_path_factory.mktemp("library")
    command = [sys.executable, "-m", "edge_tvbo.numerics.compile", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    return folder
