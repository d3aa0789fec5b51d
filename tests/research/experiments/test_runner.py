"""Runner of experiments: the same rows for any number of workers and interruptions.

The files of a report are a function of the rows.
"""

import json

import numpy as np
import pytest
from edge_tvbo_adapters import datasets
from support import tiny_experiment
from support.tiny_experiment import TinyExperiment

from edge_tvbo.errors import ConfigError, DataError
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy
from edge_tvbo.research.executors import SerialExecutor, process_pool
from edge_tvbo.research.experiments import experiment_report, runner
from edge_tvbo.research.experiments.base import policy_seed
from edge_tvbo.research.resumable_jobs import RESULTS_DIRECTORY
from edge_tvbo.simulation.dataset_lookup import DataSource

FILES = ("runs.csv", "summary.json", "figure.png", "figure.svg")


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(runner, "load", tiny_experiment.load)
    monkeypatch.setattr(runner, "measure_runs", tiny_experiment.measure_runs)


def run_tiny(directory, *, runs=6, seed=3, executor=None, **keywords):
    return runner.run_experiment(
        "tiny",
        directory,
        runs=runs,
        seed=seed,
        executor=executor or SerialExecutor(),
        data=DataSource(datasets.find),
        **keywords,
    )


def written_files(directory, rows):
    pytest.importorskip("matplotlib")
    experiment_report.write_report(TinyExperiment(), rows, directory)
    return {name: (directory / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Rows and files of six runs in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "load", tiny_experiment.load)
        patch.setattr(runner, "measure_runs", tiny_experiment.measure_runs)
        directory = tmp_path_factory.mktemp("expected")
        rows = run_tiny(directory)
    return rows, written_files(directory, rows)


def result_files(directory):
    return sorted((directory / RESULTS_DIRECTORY).iterdir())


@pytest.mark.parametrize("jobs", [1, 2])
def test_process_pool_measures_the_same_rows(expected, tmp_path, jobs):
    with process_pool(jobs) as pool:
        rows = run_tiny(tmp_path, executor=pool)

    assert repr(rows) == repr(expected[0])  # the order of the columns counts, too


def test_writing_twice_gives_the_same_bytes(expected, tmp_path):
    assert written_files(tmp_path, expected[0]) == expected[1]


def test_rows_do_not_depend_on_the_blocks_of_runs(expected):
    assert expected[0] == TinyExperiment().measure(range(6), 3)
    assert [row.run for row in expected[0]] == [run for run in range(6) for _ in range(2)]


def test_missing_results_are_measured_again(expected, tmp_path):
    run_tiny(tmp_path)
    missing, kept, *_ = result_files(tmp_path)
    missing.unlink()
    before = kept.stat().st_mtime_ns
    seen = []

    rows = run_tiny(tmp_path, progress=lambda done, total: seen.append((done, total)))

    assert seen == [(2, 3), (3, 3)]
    assert kept.stat().st_mtime_ns == before
    assert repr(rows) == repr(expected[0])  # the order of the columns counts, too


def test_interrupted_pool_continues_with_the_rest(expected, tmp_path):
    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), process_pool(2) as pool:
        run_tiny(tmp_path, executor=pool, progress=stop)
    assert result_files(tmp_path)
    assert runner.elapsed_seconds(tmp_path) >= 0.0

    with process_pool(2) as pool:
        rows = run_tiny(tmp_path, executor=pool)

    assert repr(rows) == repr(expected[0])  # the order of the columns counts, too


def test_more_runs_reuse_results_and_fewer_measure_nothing(expected, tmp_path):
    seen = []
    run_tiny(tmp_path, runs=2)
    first = result_files(tmp_path)[0].stat().st_mtime_ns

    rows = run_tiny(tmp_path, progress=lambda done, total: seen.append((done, total)))

    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert result_files(tmp_path)[0].stat().st_mtime_ns == first
    assert repr(rows) == repr(expected[0])  # the order of the columns counts, too
    assert run_tiny(tmp_path, runs=3) == [row for row in rows if row.run < 3]


def test_stored_runs_end_before_the_first_missing_run(tmp_path):
    run_tiny(tmp_path)
    experiment = TinyExperiment()
    assert runner.stored_runs(experiment, tmp_path) == 6

    result_files(tmp_path)[1].unlink()

    assert runner.stored_runs(experiment, tmp_path) == 2


def test_seconds_per_run_are_those_of_all_stored_runs(tmp_path):
    run_tiny(tmp_path)
    (tmp_path / "timing.json").write_text('{"seconds": 60}')

    assert runner.seconds_per_run(TinyExperiment(), tmp_path) == 10.0


def test_every_seed_of_an_experiment_gives_seeds_that_policies_accept():
    field = SensorField(("a", "b"), np.eye(2), 0.01)
    for seed in (0, 1_764_536_400_123_456_789, 10**23):  # such as the time in ns
        make_policy("tv-gp-ucb", field, seed=policy_seed(seed, 3))
    assert policy_seed(9 * 10**12, 3) == 9 * 10**12 * 1_000_003 + 3


def test_other_seed_in_the_same_directory_is_rejected(tmp_path):
    run_tiny(tmp_path, runs=2)

    with pytest.raises(ConfigError, match=r"'seed': 3.*'seed': 4(.|\n)*--out"):
        run_tiny(tmp_path, runs=2, seed=4)


def test_runs_of_an_older_revision_are_rejected(tmp_path, monkeypatch):
    run_tiny(tmp_path, runs=2)
    monkeypatch.setattr(TinyExperiment, "revision", 2)

    with pytest.raises(ConfigError, match=r"(.|\n)*--out"):
        run_tiny(tmp_path, runs=2)


def test_runs_of_another_version_are_rejected(tmp_path, monkeypatch):
    run_tiny(tmp_path, runs=2)
    monkeypatch.setattr(runner, "__version__", "9.9")

    with pytest.raises(ConfigError, match=r"instead of \{'edge_tvbo': '9\.9'\}\.(.|\n)*--out"):
        run_tiny(tmp_path, runs=2)


def test_runs_on_other_data_are_rejected(tmp_path, monkeypatch):
    run_tiny(tmp_path, runs=2)
    monkeypatch.setattr(TinyExperiment, "data_fingerprints", lambda self: {"own": "cd34"})

    with pytest.raises(ConfigError, match=r"'data': \{'own': 'cd34'\}\}\.(.|\n)*--out"):
        run_tiny(tmp_path, runs=2)


def test_worker_with_other_data_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(TinyExperiment, "data_fingerprints", lambda self: {"own": "cd34"})
    data = DataSource(datasets.find, (str(tmp_path),))

    with pytest.raises(DataError, match="own: the data differ"):
        tiny_experiment.measure_runs("tiny", 3, data, (("own", "ab12"),), range(2))
    assert tiny_experiment.measure_runs("tiny", 3, data, (("own", "cd34"),), range(2))


def test_damaged_result_file_is_named_with_the_fix(tmp_path):
    run_tiny(tmp_path, runs=2)
    result_files(tmp_path)[0].write_text("[{")

    with pytest.raises(ConfigError, match=r"000000\.json.*Delete this file"):
        run_tiny(tmp_path, runs=2)


def test_summary_file_has_published_values_and_claims(expected):
    document = json.loads(expected[1]["summary.json"])

    assert document["experiment"] == "E99"
    assert document["claims"] == [{"text": "the mean is near 0", "holds": True, "test": ""}]
    cell, other = document["cells"]
    assert cell["printed"] == {"mean": 0.0, "sd": 0.5, "runs": 10}
    assert (cell["runs"], other["case"]) == (6, {"sd": "2"})
    assert "printed" not in other


def test_a_claim_is_open_in_the_summary_file_if_there_are_too_few_runs(expected, tmp_path):
    written_files(tmp_path, expected[0][:4])
    document = json.loads((tmp_path / "summary.json").read_bytes())

    reason = "too few runs: 2; 6 are needed"
    assert document["claims"] == [{"text": "the mean is near 0", "holds": None, "test": reason}]
