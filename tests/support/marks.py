"""Marks of the tests: assigned by their fixtures and by their files.

A test is `broker`, `browser` or `real` by its fixtures; a test that starts a broker without them is
marked in its file. It is `slow` if it starts processes; a test that computes for seconds is marked
in its file. Every other test is `unit`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import isclass, isfunction, ismethod
from types import CodeType

import pytest

BY_FIXTURE = {
    "broker_directory": "broker",
    "certs": "slow",  # starts openssl
    "chromium": "browser",
    "recordings": "real",
}
KINDS = ("browser", "slow", "broker", "real", "soak")  # the longest first
SLOW = (  # places of tests whose processes are started by what they test, and of the fault tests
    "tests/adapters/test_cluster.py",
    "tests/benchmarks/",
    "tests/deploy/",
    "tests/docs/",
    "tests/faults/",
    "tests/research/experiments/test_runner.py",
    "tests/research/test_benchmark.py::test_results_are_the_same_bytes",
    "tests/research/test_executors.py",
)
FIRST = (  # places of slow tests that take longest, most of it waiting
    "tests/broker/test_replay_over_mqtt.py",
    "tests/faults/test_year.py",
    "tests/faults/test_advise.py",
    "tests/broker/test_other_brokers.py",
    "tests/docs/test_tutorial.py",
    "tests/deploy/test_wheel.py",
    "tests/deploy/test_install.py",
)
LAST = (  # places of tests that compute longest: the first process begins with them
    "tests/config/test_config.py",
    "tests/models/posteriors/",
    "tests/policy/",
    "tests/research/experiments/test_",
    "tests/theory/",
    "tests/training/",
)
STARTS = {"subprocess.Popen", "os.fork", "os.posix_spawn"}  # audit events
FONTS = ("fc-list",)  # matplotlib starts it where it has never listed the fonts of the machine
_harmless: set[object] = set()  # functions that start no process, nor do their helpers
_unit_tests: list[str] = []  # the one that runs now


def assign_marks(items: list[pytest.Item]) -> None:
    """Add marks to collected tests, and move those that wait longest to the front."""
    ranks = {}
    for item in items:
        marks = {each.name for each in item.iter_markers()}  # once: walking its parents takes time
        fixtures = getattr(item, "fixturenames", ())
        added = [mark for fixture, mark in BY_FIXTURE.items() if fixture in fixtures]
        if item.nodeid.startswith(SLOW) or _starts_processes(item):
            added.append("slow")
        if not marks.union(added).intersection(KINDS):
            added.append("unit")
        for each in added:
            item.add_marker(each)
        marks.discard("slow")  # without a process, it computes, and others can wait meanwhile
        ranks[item] = _rank(item, marks.union(added))
    items.sort(key=ranks.__getitem__)


def _rank(item: pytest.Item, marks: set[str]) -> tuple[bool, int, bool]:
    kind = next((i for i, kind in enumerate(KINDS) if kind in marks), len(KINDS))
    is_last = item.nodeid.startswith(LAST) and "slow" not in marks
    return is_last, kind, not item.nodeid.startswith(FIRST)


# --- processes ------------------------------------------------------------------------------------


def _starts_processes(item: pytest.Item) -> bool:
    """Return whether a test, its fixtures or their helpers name what starts a process."""
    function = getattr(item, "function", None)
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    fixtures = getattr(item, "_fixtureinfo", None)
    definitions = fixtures.name2fixturedefs.values() if fixtures else ()
    return any(_starts(each) for each in (function, *(d[-1].func for d in definitions)))


@cache  # hundreds of cases share a function
def _starts(function: object) -> bool:
    seen: set[object] = set()
    starts = _reaches(function, seen)
    if not starts:
        _harmless.update(seen)
    return starts


def _reaches(value: object, seen: set[object]) -> bool:
    if isclass(value):
        return any(_reaches(each, seen) for each in vars(value).values() if isfunction(each))
    function = value.__func__ if ismethod(value) else value
    if not isfunction(function) or not _is_of_the_tests(function):
        return False
    if function in seen or function in _harmless:
        return False
    seen.add(function)
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    if names & {"fork", "forkpty", "subprocess"}:
        return True
    return any(_reaches(function.__globals__.get(name), seen) for name in names)


def _is_of_the_tests(function: object) -> bool:
    return "/tests/" in function.__code__.co_filename


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


@contextmanager
def without_processes(item: pytest.Item) -> Iterator[None]:
    """Make a unit test fail that starts a process."""
    if item.get_closest_marker("unit"):
        _watch_processes()
        _unit_tests.append(item.nodeid)
    yield
    _unit_tests.clear()


@cache  # once, and after the collection: its events are so many that the calls take time
def _watch_processes() -> None:
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _unit_tests and event in STARTS and arguments[:1] != FONTS:
        raise RuntimeError(f"{_unit_tests[0]} starts a process: add it to SLOW in {__file__}")
