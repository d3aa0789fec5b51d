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
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.numerics import acquisition, jit

K = 0.5 + 0.5 * np.eye(3)
PLAIN = SensorField(("a", "b", "c"), K, 0.01)
STRUCTURED = SensorField(("a", "b", "c"), K, 0.01, structure=prior_structure(K, 600.0))

def run(name, field=PLAIN, intervals=12, **parameters):
    policy = make_policy(name, field, seed=3, **parameters)
    sensors = []
    for t in range(intervals):
        choice = policy.select()
        sensors.append(choice.sensor)
        policy.observe(choice.arm, (0.5, -0.5, 0.25, 3.0)[t % 4])
        policy.advance()
    return sensors, np.array(policy.posterior()).tolist()

total = jit.kernel("f8(f8[::1])")(lambda x: x[0] + x[1])
print(json.dumps({
    "compilation": jit.COMPILATION,
    "is_function": type(acquisition.draw).__name__ == "function",
    "sum": type(total(np.ones(2))).__name__,
    "draws": [int(acquisition.draw(2**62 - 1, counter, 46)) for counter in range(-1000, 9)],
    "negative_seed": acquisition.draw(-5, -(2**63), 46),
    "negative counters": [run(name, intervals=40, horizon=200) for name in COUNTING],
    "structure": run("auto", STRUCTURED),
    **{name: run(name) for name in NAMES},
}))
"""
COUNTING = ("master-gp-ucb", "ada-opkb")  # draw with negative counters
NAMES = ("auto", "et-gp-ucb", "glr-gp-ucb", "mtv-gp-ucb", "sw-gp-ucb", "w-gp-ucb")
SELECT = "tests/models/posteriors/test_select.py"
SMALL_TESTS = (
    "tests/numerics/test_acquisition.py",
    "tests/numerics/test_change_point.py",
    f"{SELECT}::test_a_window_limits_the_readings_held",
    f"{SELECT}::test_a_window_that_holds_all_readings_is_exact",
    f"{SELECT}::test_a_window_drops_exactly_the_readings_beyond_it",
)


def run(arguments, disabled):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )


def test_interpreted_kernels_give_the_same_numbers_as_compiled():
    """A numpy scalar in the state of a model could not be stored in a snapshot."""
    code = f"NAMES, COUNTING = {NAMES}, {COUNTING}\n{NUMBERS}"
    runs = [run(["-W", "error", "-c", code], disabled) for disabled in "10"]
    assert [each.stderr for each in runs] == ["", ""]
    interpreted, compiled_ = (json.loads(each.stdout) for each in runs)
    assert interpreted.pop("compilation") == "not compiled"
    assert interpreted.pop("is_function")
    assert compiled_.pop("compilation") != "not compiled"
    compiled_.pop("is_function")
    assert interpreted["sum"] == "float"
    assert interpreted == compiled_


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


def test_tests_of_kernels_pass_without_compiling():
    options = ["-q", "-p", "no:cacheprovider", "--hypothesis-profile=repeatable"]
    tests = ["-m", "pytest", *options, *SMALL_TESTS]
    done = run(tests, "1")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
