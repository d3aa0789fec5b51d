"""Kernels as plain Python: with ``NUMBA_DISABLE_JIT=1`` the same tests pass without compiling."""

import json
import os
import subprocess
import sys

from support.paths import ROOT

from edge_tvbo.numerics import compiled

NUMBERS = """
import json
import numpy as np
from edge_tvbo import SensorField, make_policy
from edge_tvbo.numerics import acquisition, jit

field = SensorField(("a", "b", "c"), 0.5 + 0.5 * np.eye(3), 0.01)
policy = make_policy("et-gp-ucb", field, seed=3)
for y in (0.5, -0.5, 0.25, 3.0):
    policy.observe(policy.select().arm, y)
    policy.advance()
print(json.dumps({
    "compilation": jit.COMPILATION,
    "is_function": type(acquisition.draw).__name__ == "function",
    "draws": [int(acquisition.draw(2**62 - 1, counter, 46)) for counter in range(-1000, 9)],
    "negative_seed": acquisition.draw(-5, -(2**63), 46),
    "prediction": np.array(policy.posterior()).tolist(),
}))
"""
NEGATIVE_COUNTERS = """
import numpy as np
from edge_tvbo import SensorField, make_policy

for name in ("master-gp-ucb", "ada-opkb"):
    field = SensorField(("a", "b"), 0.5 + 0.5 * np.eye(2), 0.01)
    policy = make_policy(name, field, horizon=200)
    for _ in range(40):
        print(policy.select().sensor)
        policy.observe(policy.select().arm, 0.1)
        policy.advance()
"""
FLOATS = """
import numpy as np
from edge_tvbo.numerics import jit

total = jit.kernel("f8(f8[::1])")(lambda x: x[0] + x[1])
print(type(total(np.ones(2))).__name__)
"""
SMALL_TESTS = "tests/models/posteriors/test_select.py", "tests/models/test_triggers.py"


def run(arguments, disabled):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_interpreted_kernels_give_the_same_numbers_as_compiled():
    interpreted, compiled_ = (
        json.loads(run(["-W", "error", "-c", NUMBERS], disabled).stdout) for disabled in "10"
    )
    assert interpreted.pop("compilation") == "not compiled"
    assert interpreted.pop("is_function")
    assert compiled_.pop("compilation") != "not compiled"
    compiled_.pop("is_function")
    assert interpreted == compiled_


def test_an_interpreted_kernel_returns_the_type_that_a_compiled_one_returns():
    """A numpy scalar in the state of a model could not be stored in a snapshot."""
    assert run(["-c", FLOATS], "1").stdout.strip() == "float"


def test_the_library_is_not_loaded_for_interpreted_kernels(library_folder):
    assert compiled.load_library(library_folder) is not None
    code = "from edge_tvbo.numerics import jit; print(jit.COMPILATION)"
    environment = {"NUMBA_DISABLE_JIT": "1", "EDGE_TVBO_KERNELS": str(library_folder)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "not compiled"


def test_policies_that_draw_with_negative_counters_run_interpreted():
    done = run(["-W", "error", "-c", NEGATIVE_COUNTERS], "1")
    assert done.stdout.split() == run(["-c", NEGATIVE_COUNTERS], "0").stdout.split()
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 80


def test_tests_of_kernels_pass_without_compiling():
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *SMALL_TESTS]
    done = run(tests, "1")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
