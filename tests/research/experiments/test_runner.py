"""Carrying experiments out: the same bytes, however many workers and however often stopped."""

import json

import pytest
from support import tiny_experiment
from support.tiny_experiment import Tiny

from edge_tvbo.errors import ConfigError
from edge_tvbo.research.executors import one_by_one, processes
from edge_tvbo.research.experiments import report, runner
from edge_tvbo.research.resumable_jobs import PARTS

FILES = ("runs.csv", "summary.json", "figure.png", "figure.svg")


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(runner, "load", tiny_experiment.load)
    monkeypatch.setattr(runner, "measure", tiny_experiment.measure)


def carry_out(directory, *, runs=6, seed=3, each=one_by_one, **keywords):
    return runner.carry_out("tiny", directory, runs=runs, seed=seed, each=each, **keywords)


def written(directory, rows):
    pytest.importorskip("matplotlib")
    report.write(Tiny(), rows, directory)
    return {name: (directory / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What six runs in this process come to: rows and files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "load", tiny_experiment.load)
        patch.setattr(runner, "measure", tiny_experiment.measure)
        directory = tmp_path_factory.mktemp("whole")
        rows = carry_out(directory)
    return rows, written(directory, rows)


def parts(directory):
    return sorted((directory / PARTS).iterdir())


@pytest.mark.parametrize("jobs", [1, 2])
def test_other_processes_give_the_bytes_of_this_one(whole, tmp_path, jobs):
    with processes(jobs) as each:
        rows = carry_out(tmp_path, each=each)

    assert rows == whole[0]
    assert written(tmp_path, rows) == whole[1]


def test_what_is_written_twice_is_the_same(whole, tmp_path):
    assert written(tmp_path, whole[0]) == whole[1]


def test_units_of_work_do_not_decide_what_comes_out(whole):
    assert whole[0] == Tiny().measure(range(6), 3)
    assert [row.run for row in whole[0]] == [run for run in range(6) for _ in range(2)]


def test_parts_that_went_missing_are_done_again(whole, tmp_path):
    carry_out(tmp_path)
    missing, kept, *_ = parts(tmp_path)
    missing.unlink()
    before = kept.stat().st_mtime_ns
    seen = []

    rows = carry_out(tmp_path, progress=lambda done, total: seen.append((done, total)))

    assert seen == [(2, 3), (3, 3)]
    assert kept.stat().st_mtime_ns == before
    assert written(tmp_path, rows) == whole[1]


def test_a_pool_that_was_stopped_goes_on_where_it_was(whole, tmp_path):
    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), processes(2) as each:
        carry_out(tmp_path, each=each, progress=stop)
    assert parts(tmp_path)
    assert runner.seconds(tmp_path) >= 0.0

    with processes(2) as each:
        rows = carry_out(tmp_path, each=each)

    assert written(tmp_path, rows) == whole[1]


def test_more_runs_than_before_reuse_the_parts_and_fewer_do_nothing(whole, tmp_path):
    seen = []
    carry_out(tmp_path, runs=2)
    first = parts(tmp_path)[0].stat().st_mtime_ns

    rows = carry_out(tmp_path, progress=lambda done, total: seen.append((done, total)))

    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert parts(tmp_path)[0].stat().st_mtime_ns == first
    assert written(tmp_path, rows) == whole[1]
    assert carry_out(tmp_path, runs=3) == [row for row in rows if row.run < 3]


def test_another_seed_in_the_same_directory_is_refused_with_the_way_out(tmp_path):
    carry_out(tmp_path, runs=2)

    with pytest.raises(ConfigError, match=r"'seed': 3.*'seed': 4(.|\n)*--out"):
        carry_out(tmp_path, runs=2, seed=4)


def test_a_broken_part_is_named_with_what_to_do(tmp_path):
    carry_out(tmp_path, runs=2)
    parts(tmp_path)[0].write_text("[{")

    with pytest.raises(ConfigError, match=r"000000\.json.*Delete it"):
        carry_out(tmp_path, runs=2)


def test_the_summary_holds_print_claims_and_cells(whole):
    document = json.loads(whole[1]["summary.json"])

    assert document["experiment"] == "E99"
    assert document["claims"] == [{"text": "the mean is near 0", "holds": True}]
    cell, other = document["cells"]
    assert cell["printed"] == {"mean": 0.0, "sd": 0.5, "runs": 10}
    assert (cell["runs"], other["case"]) == (6, {"sd": "2"})
    assert "printed" not in other
