"""The examples of docs/examples are run, each in a process of its own, and their length is held."""

import os
import resource
import subprocess
import sys

import pytest
from support.paths import DOCS, ROOT

EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
MAX_LINES = 60
MAX_CPU_S = 20


def test_there_are_eight_examples():
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs_without_a_warning_in_20_seconds(file):
    path = os.pathsep.join((str(ROOT), str(ROOT / "adapters")))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg", "DISPLAY": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < MAX_CPU_S


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short(file):
    assert len(file.read_text("utf-8").splitlines()) < MAX_LINES
