"""Recordings as problems of the benchmark: trained on the first quarters, played on the last."""

from datetime import UTC, datetime, timedelta
from unittest.mock import Mock, call

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from edge_tvbo.cli import main
from edge_tvbo.cli.backtest_options import backtest_of
from edge_tvbo.cli.benchmark import _recordings
from edge_tvbo.research import Problem
from edge_tvbo.research.benchmark import BenchmarkRun, Player, play, run_benchmark
from edge_tvbo.research.executors import SerialExecutor
from edge_tvbo.research.problems.recorded_fields import RecordedField
from edge_tvbo.simulation.recording import Recording

T, M = 192, 4
HOUR = 3600.0


def recording(objective="max", seed=0):
    """Return two days of readings, every quarter of an hour; one row has none."""
    rng = np.random.default_rng(seed)
    course = np.sin(2 * np.pi * np.arange(T) / 96)[:, None]
    values = 20.0 + np.arange(M) + course + 0.3 * rng.standard_normal((T, M)).cumsum(axis=0)
    observed = np.ones((T, M), np.bool_)
    observed[150] = False
    return Recording(
        name="shed",
        unit="°C",
        objective=objective,
        sensors=tuple(f"s{arm}" for arm in range(M)),
        start=1e9,
        interval=HOUR / 4,
        values=values,
        observed=observed,
        source="drawn for this test",
    )


@pytest.mark.parametrize("objective", ["max", "min"])
def test_the_truth_is_the_last_quarter(objective):
    played = recording(objective)
    problem = RecordedField(played)
    truth, rows = problem.truth(np.random.default_rng(0)), np.delete(np.arange(144, T), 150 - 144)
    sign = 1.0 if objective == "max" else -1.0
    values, learned = sign * played.values[rows], int((sign * played.values[:144]).mean(0).argmax())
    regret = (values.max(axis=1) - values[:, learned]) / problem.field.scale

    assert isinstance(problem, Problem)
    assert problem.horizon == len(rows) == 47
    assert [truth.value(t, 2) for t in range(47)] == played.values[rows, 2].tolist()
    assert [sign * truth.best(t) for t in range(47)] == values.max(axis=1).tolist()
    assert [problem.start_of(t) for t in (5, 6)] == [1e9 + 149 * HOUR / 4, 1e9 + 151 * HOUR / 4]
    run = play(BenchmarkRun("shed", "static", 0, 0), {"shed": problem})
    assert run.numbers["R_T/T"] == pytest.approx(regret.mean())


def test_policies_learn_from_the_training_rows_alone():
    played = recording()
    problem = RecordedField(played)
    other = played.values.copy()
    other[144:] += 1.0
    later = RecordedField(replace(played, values=other))

    assert Player("auto", problem, 0).policy.field.structure is not None
    assert Player("kalman-ucb", problem, 0).policy.field.structure is not None
    averages = played.values[:144].mean(axis=0)
    assert Player("static", problem, 0).select(0) == int(averages.argmax())
    assert later.field.fingerprint() == problem.field.fingerprint()
    assert later.fingerprint() != problem.fingerprint()


def test_a_policy_gets_readings_on_its_own_scale():
    """The model of `auto` has a log scale if this fits the readings better."""
    rng = np.random.default_rng(0)
    values = np.zeros((400, M))
    for row in range(1, 400):
        values[row] = 0.9 * values[row - 1] + 0.5 * rng.standard_normal()
    skewed = np.exp(1.0 + values + 0.3 * rng.standard_normal((400, M)))
    observed = np.ones((400, M), np.bool_)
    problem = RecordedField(
        replace(recording(), interval=24 * HOUR, values=skewed, observed=observed)
    )
    player = Player("auto", problem, 0)
    own = player.policy.field
    player.policy = Mock(field=own)
    player.observe(1, problem.field.to_model(7.0))

    assert problem.field.log1p_scale is None
    assert own.log1p_scale is not None
    (arm, reading), _ = player.policy.observe.call_args
    assert (arm, reading) == (1, pytest.approx(own.to_model(7.0)))


def test_time_passes_in_intervals_without_readings():
    played = recording()
    played.observed[160:172] = False
    problem = RecordedField(played)
    player = Player("tv-gp-ucb", problem, 0)
    player.policy = Mock()
    passed = []
    for t in range(problem.horizon):
        player.policy.reset_mock()
        player.advance(t)
        passed.append(player.policy.advance.call_count)
        assert player.policy.mock_calls == [call.advance()] * passed[-1]

    assert problem.start_of(0) + sum(passed) * HOUR / 4 == 1e9 + T * HOUR / 4
    assert sorted(passed) == [1] * (problem.horizon - 2) + [2, 13]


def write_csv(path, values):
    begin = datetime(2024, 5, 1, tzinfo=UTC)
    lines = ["time," + ",".join(f"s{arm}" for arm in range(values.shape[1]))]
    for row, each in enumerate(values):
        at = (begin + timedelta(minutes=15 * row)).isoformat()
        lines.append(at + "," + ",".join(f"{value:.4f}".replace("nan", "") for value in each))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_csv_file_is_trained_on_as_in_compare(tmp_path, capsys):
    """A long gap, incomplete rows, and a sensor that appears after the training days."""
    values = recording().values.copy()
    values[40:130, 2] = np.nan
    values[100:105, 1] = values[180:183, :2] = np.nan
    values[:150, 3] = np.nan
    path = tmp_path / "shed.csv"
    write_csv(path, values)
    (problem,) = _recordings([str(path)], ()).values()
    printed = capsys.readouterr().err
    compared = backtest_of("csv", [str(path)], None, None, 0.01, "filled")

    assert "Sensors without a reading on the training days are left out: s3" in printed
    assert problem.field.sensors == ("s0", "s1", "s2")
    assert problem.field.fingerprint() == compared.field.fingerprint()
    assert problem.fingerprint() == compared.fingerprint()
    assert "left out: 8 intervals in which fewer than half of the sensors were read" in printed
    assert problem.horizon == T - 144 - 3


def test_a_sparse_csv_file_is_refused_with_what_to_do(tmp_path):
    values = np.full((T, M), np.nan)
    values[np.arange(T), np.arange(T) % M] = 20.0 + np.arange(T) % 7
    write_csv(tmp_path / "shed.csv", values)
    refused = benchmark("--problems", tmp_path / "shed.csv", "--policies", "random")

    assert refused.exit_code == 2
    assert "only 0 of 192 intervals of 15 min have readings" in refused.output
    assert "The command `benchmark` has no --interval. Use the command `compare`" in refused.output
    assert "--data-dir" not in refused.output


def benchmark(*arguments):
    return CliRunner().invoke(main, ["benchmark", *map(str, arguments)])


def test_the_runs_of_a_file_do_not_depend_on_how_its_path_is_written(tmp_path):
    problem, spellings = RecordedField(recording()), ["shed.csv", "./shed.csv", "/data/shed.csv"]

    def regrets(names, directory):
        rows = run_benchmark(
            names,
            ["random", "gp-ucb"],
            tmp_path / directory,
            runs=2,
            seed=0,
            executor=SerialExecutor(),
            recorded=dict.fromkeys(names, problem),
        )
        assert [row.case["problem"] for row in rows] == [name for name in names for _ in range(4)]
        return [row.numbers for row in rows]

    first = regrets(spellings[:1], "first")
    assert regrets(spellings[2:], "other") == first
    assert regrets(spellings[1:2], "first") == first
    assert regrets(spellings, "first") == 3 * first


@pytest.mark.slow
def test_a_csv_file_is_played_and_other_readings_are_not_mixed_with_it(tmp_path):
    write_csv(tmp_path / "shed.csv", recording().values)
    command = ["--policies", "kalman-ucb,random", "--runs", 2, "--jobs", 1, "--data-dir", tmp_path]
    command += ["--out", tmp_path / "out", "--problems", "shed.csv,static"]
    first, second = benchmark(*command), benchmark(*command)
    write_csv(tmp_path / "shed.csv", recording(seed=1).values)
    path = tmp_path / "shed.csv"
    third = benchmark(*command[:-1], f"{path},static")

    assert first.exit_code == 0, first.output
    assert "Friedman's test over 2 problems" in first.output
    runs = sorted(each.name for each in (tmp_path / "out" / "parts").iterdir())
    assert second.exit_code == third.exit_code == 0
    assert len(runs) == 4 + 4 + 4  # of static, and of two files of the same name


@pytest.mark.slow
def test_pictures_of_ranks_are_removed_if_a_later_command_has_a_single_problem(tmp_path):
    write_csv(tmp_path / "shed.csv", recording().values)
    command = ["--policies", "static,random", "--runs", 1, "--jobs", 1, "--out", tmp_path / "out"]
    first = benchmark(*command, "--problems", f"{tmp_path / 'shed.csv'},static")
    assert first.exit_code == 0, first.output
    assert {*(tmp_path / "out").glob("ranks.*")}

    later = benchmark(*command, "--problems", tmp_path / "shed.csv")

    assert later.exit_code == 0, later.output
    assert not {*(tmp_path / "out").glob("ranks.*")}
    assert "2 runs; the results are in" in later.output
    assert "All runs that are stored in this directory took" in later.output


def test_a_single_run_has_no_standard_error(tmp_path):
    write_csv(tmp_path / "shed.csv", recording().values)
    command = ["--policies", "random", "--problems", tmp_path / "shed.csv", "--jobs", 1]
    done = benchmark(*command, "--runs", 1, "--out", tmp_path / "out")
    *_, line = (tmp_path / "out" / "comparisons.csv").read_text().splitlines()

    assert done.exit_code == 0, done.output
    assert line.split(",")[3:] == ["", "1", "1"]
    assert any(each.endswith(" -") for each in done.output.splitlines()), done.output


def test_a_recording_that_is_not_here_is_named_with_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EDGE_TVBO_DATA", raising=False)
    listed = benchmark("--list")
    absent = benchmark("--problems", "metr-la")
    unknown = benchmark("--problems", "metr-ls")
    file = benchmark("--problems", "my shed.csv", "--data-dir", tmp_path)

    assert "metr-la      recorded; needs --data-dir" in listed.output
    assert "lab-sample   46 sensors, 288 intervals, recorded" in listed.output
    assert absent.exit_code == file.exit_code == 2
    assert "Give the directory of the file with --data-dir" in absent.output
    assert "--problems 'my shed.csv' --data-dir DIR" in file.output
    assert "Did you mean 'metr-la'" in unknown.output
    assert "There is no file my shed.csv here or in a directory of --data-dir" in file.output
    assert "there is no such file or directory" in benchmark("--list", "--data-dir", "no").output


def test_error_of_a_file_that_was_found_does_not_ask_for_its_directory(tmp_path):
    (tmp_path / "bad.csv").write_text("time,a,b\n2024-05-01T00:00:00Z,1,2,3,4\n")

    done = benchmark("--problems", tmp_path / "bad.csv")

    assert done.exit_code == 2
    assert "bad.csv" in done.output and "[E200]" in done.output
    assert "--data-dir" not in done.output
