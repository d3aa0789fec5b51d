"""Work is the same whoever carries it out, in whatever order, and however often it was stopped."""

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import chores

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.research.executors import in_order, one_by_one, processes
from edge_tvbo.research.resumable_jobs import ResumableJobs
from edge_tvbo.simulation import dataset_lookup

numbers = st.lists(st.integers(-9, 9), max_size=8)


def shuffled(random, stop_after=None):
    """Give an `Each` that is done with items in any order, or stopped on the way."""

    def each(function, items):
        order = list(range(len(items)))
        random.shuffle(order)
        for done, number in enumerate(order):
            if done == stop_after:
                raise KeyboardInterrupt
            yield number, function(items[number])

    return each


@given(numbers, st.randoms(use_true_random=False))
def test_results_stand_in_the_order_of_the_items(items, random):
    told = []

    found = in_order(shuffled(random), chores.square, items, lambda *step: told.append(step))

    assert found == [item * item for item in items]
    assert told == [(done, len(items)) for done in range(1, len(items) + 1)]


@given(numbers, st.randoms(use_true_random=False), st.integers(0, 8))
def test_parts_that_were_done_are_not_done_again(items, random, stop_after):
    named = {f"{number:03}": item for number, item in enumerate(items)}
    asked = []

    def square(item):
        asked.append(item)
        return chores.square(item)

    with tempfile.TemporaryDirectory() as directory:
        for each in (shuffled(random, stop_after), shuffled(random)):
            parts = ResumableJobs(Path(directory), {"work": 1})
            try:
                parts.carry_out(each, square, named, lambda done, total: None)
            except KeyboardInterrupt:
                assert len(asked) == stop_after
        found = [parts.read(name, int) for name in named]

    assert found == [item * item for item in items]
    assert sorted(asked) == sorted(items)


def test_parts_of_other_work_are_refused_with_the_way_out(tmp_path):
    ResumableJobs(tmp_path, {"work": 1})

    with pytest.raises(ConfigError, match=r"'work': 1.*'work': 2(.|\n)*--out"):
        ResumableJobs(tmp_path, {"work": 2})


def test_a_damaged_manifest_is_named(tmp_path):
    ResumableJobs(tmp_path, {"work": 1})
    (tmp_path / "manifest.json").write_text("{")

    with pytest.raises(ConfigError, match=r"manifest.json: .* Delete it and run again"):
        ResumableJobs(tmp_path, {"work": 1})


def test_processes_do_what_this_one_does():
    with processes(2) as each:
        found = dict(each(chores.square, range(20)))

    assert found == dict(one_by_one(chores.square, range(20)))


def test_an_error_of_another_process_arrives_with_its_text():
    with processes(1) as each, pytest.raises(MissingExtra, match=r"scipy.*\n.*\[science\]"):
        list(each(chores.package_is_missing, [1]))


def test_a_recording_whose_gaps_are_filled_travels():
    there = dataset_lookup.recording("lab-sample", gaps="filled")

    here = pickle.loads(pickle.dumps(there))

    assert here.observed.all()
    assert (here.values == there.values).all()
    assert here.sensors == there.sensors


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every worker is spawned")
def test_where_nobody_else_runs_workers_are_forked():
    """What a process was given on its command line can be found again in a forked worker alone."""
    script = """
from edge_tvbo.research.executors import in_order, processes

def square(item):
    return item * item

with processes(2) as each:
    print(in_order(each, square, [3, -2, 5], lambda done, total: None))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[9, 4, 25]\n", done.stderr[-500:]
