"""Injected faults: each system call of the state and history code, each allocation of a start.

The calls fail one after the other, in a separate process into which a C library is preloaded; see
support/injection, which checks the following:

- Everything that was reported as stored can be read; nothing else can.
- No operation is half done.
- The log says what failed, and the next write succeeds.
- No interval number is used twice, and no file stays open.
"""

import json
import platform
import subprocess
import sys

import pytest
from support.injection import shim
from support.paths import TESTS

SCENARIOS = {  # how many of the calls fail in `make test`: one of so many
    "checkpoints": 1,
    "start": 1,
    "lock": 1,
    "latest": 9,
    "history": 29,
    "readings": 29,
}


@pytest.fixture(scope="module")
def environment(fixtures_with_library, tmp_path_factory):
    """Return the environment of a process in which faults can be injected."""
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("faults are injected into the GNU C library")
    made = shim.environment(tmp_path_factory.mktemp("injection"))
    if made is None:
        pytest.skip("there is no C compiler")
    return made


def report(environment, module, *words, **variables):
    command = [sys.executable, "-m", f"support.injection.{module}", *map(str, words)]
    done = subprocess.run(
        command, env=environment | variables, cwd=TESTS, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def storage(environment, scenario, every):
    """Let calls of a scenario fail; return how many, and by the function."""
    found = report(environment, "storage", scenario, every)
    assert found["violations"] == []
    return sum(found["points"].values()), found["points"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_failed_system_call_loses_nothing(environment, scenario):
    points, _ = storage(environment, scenario, SCENARIOS[scenario])
    assert points >= 40


def memory(environment, policy, every):
    """Let allocations of a start fail, of Python's objects too; return the report."""
    return report(environment, "memory", policy, every, PYTHONMALLOC="malloc")


@pytest.mark.parametrize("policy", ["tv-gp-ucb", "auto"])
def test_a_start_without_memory_loses_nothing(environment, policy):
    found = memory(environment, policy, 50)
    assert found["violations"] == []
    assert found["endings"]["error"] >= 10


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_system_call_and_every_allocation_fails_once(environment, record_property):
    counts = {each: storage(environment, each, 1) for each in SCENARIOS}
    starts = {each: memory(environment, each, 1) for each in ("tv-gp-ucb", "auto")}
    calls = {name for _, points in counts.values() for name in points}
    texts = [f"{each} {points}" for each, (points, _) in counts.items()]
    endings = [f"{each} {found['endings']}" for each, found in starts.items()]
    record_property(
        "measured",
        f"{sum(points for points, _ in counts.values())} failed calls ({', '.join(texts)}) of "
        f"{len(calls)} functions, {len(shim.MODES)} modes; "
        f"failed allocations: {'; '.join(endings)}",
    )
    assert [each["violations"] for each in starts.values()] == [[], []]
