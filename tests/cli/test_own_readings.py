"""Commands on the user's own readings: export, fit, compare and replay of a configuration."""

import gzip
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from html import escape
from pathlib import Path
from shlex import join

import numpy as np
import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.storage.history_db import HISTORY
from edge_tvbo_adapters.storage.reading_db import ReadingDatabase
from edge_tvbo_adapters.storage.state_files import FileStore
from support.paths import ROOT

from edge_tvbo.cli import main
from edge_tvbo.errors import DataError, install_command
from edge_tvbo.messages.readings import RecordedReading
from edge_tvbo.policy import needing_positions, policies

START = 1_772_430_000.0  # 2026-03-02 05:40, UTC
SENSORS = ("attic", "bath", "cellar")
CONFIG = """
instance = "home"
[mqtt]
host = "127.0.0.1"
[state]
dir = "state"
"""
FIELD = """
[fields.{name}]
unit = "°C"
objective = "{objective}"
interval = "10min"
kernel = {{ name = "exchangeable", variance = 4, noise_variance = 0.04, mean = 20 }}
sensors = ["attic", "bath", "cellar"]
reading = {{ topic = "{name}/{{sensor}}" }}
positions = {{ attic = [0, 0], bath = [3, 0], cellar = [0, 9] }}
"""


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)


def values(days):
    """Return readings of three sensors every 10 minutes, (T, 3)."""
    rng, hour = np.random.default_rng(0), np.arange(144 * days) / 6
    daily = np.sin((hour[:, None] + [0, 4, 8]) * np.pi / 12)
    return 20 + 2 * daily + rng.normal(0, 0.2, (len(hour), 3)).round(3)


def record(directory, field="temperature", days=4, kept=lambda row, arm: True, unit="°C"):
    with closing(ReadingDatabase(str(directory / "state"), "home", 2**26)) as database:
        assert database.store(
            [
                RecordedReading(field, sensor, START + 600 * row + 7 * arm, value, unit)
                for row, each in enumerate(values(days).tolist())
                for arm, (sensor, value) in enumerate(zip(SENSORS, each, strict=True))
                if kept(row, arm)
            ]
        )


def record_days(directory, *units):
    """Record a day of readings in each of the `units`."""
    for day, unit in enumerate(units):
        kept = range(144 * day, 144 * (day + 1))
        record(directory, days=len(units), kept=lambda row, _, kept=kept: row in kept, unit=unit)


def change_unit(config, unit):
    config.write_text(config.read_text().replace("°C", unit))


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "home.toml"
    path.write_text(CONFIG + FIELD.format(name="temperature", objective="max"))
    return path


@pytest.mark.slow
def test_export_fit_and_compare_give_the_same_from_the_record_and_the_csv(config, tmp_path):
    record(tmp_path)
    table, own, wide = (tmp_path / name for name in ("home.csv", "own.json", "wide.json"))
    csv = ("--dataset", "csv", "--data-dir", table)

    assert run("export", config, "-o", table).stdout == f"{table}: 1728 readings of temperature\n"
    fitted = run("fit", config, "-o", own)
    assert (
        "based on 1728 readings of 3 sensors (in 576 of 576 intervals of 10 min)" in fitted.stdout
    )
    assert run("fit", *csv, "-o", wide).exit_code == 0
    structures = [json.loads(path.read_text())["structure"] for path in (own, wide)]
    assert structures[0] == structures[1]
    words = ("--policies", "auto,random", "--seeds", 2, "--json", "--test", "2026-03-05:2026-03-06")
    results = [
        json.loads(run("compare", *arguments, *words).stdout)["results"]
        for arguments in ([config], csv)
    ]
    assert [each["regret_per_interval"] for each in results[0]] == [
        each["regret_per_interval"] for each in results[1]
    ]


def test_export_says_which_sensors_are_left_out_because_they_were_removed(config, tmp_path):
    record(tmp_path)
    text = config.read_text().replace('"bath", ', "").replace("bath = [3, 0], ", "")
    config.write_text(text)
    table = tmp_path / "home.csv"
    done = run("export", config, "-o", table)
    assert done.stdout == f"{table}: 1152 readings of temperature\n"
    assert done.stderr == (
        "Readings of sensors that `sensors` does not list are left out: bath. Files in the formats "
        "parquet and influxdb contain these readings, too.\n"
    )
    assert table.read_text().splitlines()[0] == "time,attic,cellar"
    done = run("export", config, "--format", "influxdb")
    assert (done.stdout.count("sensor=bath"), done.stderr) == (576, "")


@pytest.mark.parametrize("kind", ["csv", "influxdb"])
@pytest.mark.parametrize("ending", ["gz", "GZ"])
def test_export_to_a_file_whose_name_ends_in_gz_is_compressed(config, tmp_path, kind, ending):
    record(tmp_path, days=1)
    plain, packed = tmp_path / "home.csv", tmp_path / f"home.csv.{ending}"

    for output in (plain, packed):
        assert run("export", config, "--format", kind, "-o", output).exit_code == 0

    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    name, end, _ = packed.read_bytes()[10:].partition(b"\0")  # as a program unpacks the file
    assert (name, end) == (b"home.csv", b"\0")
    if kind == "csv":
        assert run("replay", packed, "--policy", "random").exit_code == 0


def test_export_to_a_closed_output_is_an_error(config, tmp_path):
    record(tmp_path)
    command = join([sys.executable, "-m", "edge_tvbo", "export", str(config)])
    done = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == ("The standard output is closed; add  --output readings.csv [E100]\n")


def test_what_was_understood_is_said_before_anything_is_computed(config, tmp_path):
    record(tmp_path, kept=lambda row, arm: (row, arm) != (3, 1))
    done = run("replay", config, "--policy", "random")
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines()[:4] == [
        "1727 recorded readings of home.temperature.",
        "  sensors: 3 (attic, bath, cellar), 17.3 to 22.5 °C",
        "  intervals: 576 of 10 min, from 2026-03-02T05:40:07Z to 2026-03-06T05:30:07Z",
        "  gaps: 0.1 % of the readings are missing; the longest gap is 10 min, in the "
        "readings of bath",
    ]


@pytest.mark.slow
def test_what_people_read_has_the_names_of_the_sensors(config, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")  # letters, and not outlines
    names = 'names = { bath = "Bath room" }\n'
    config.write_text(config.read_text().replace("sensors = ", f"{names}sensors = "))
    record(tmp_path, kept=lambda row, arm: (row, arm) != (3, 1))
    plot, report = tmp_path / "own.svg", tmp_path / "report"

    fitted = run("fit", config, "-o", tmp_path / "own.json", "--plot", plot)
    compared = run("compare", config, "--policies", "static,random", "--seeds", 1, "--out", report)

    assert fitted.exit_code == compared.exit_code == 0, fitted.output + compared.output
    assert "sensors: 3 (attic, Bath room, cellar)" in fitted.stderr
    assert "the longest gap is 10 min, in the readings of Bath room" in fitted.stderr
    drawn = plot.read_text("utf-8")
    assert drawn.count(">Bath room<") == 3 and ">bath<" not in drawn  # two axes, and the legend
    assert "Bath room" in (report / "report.html").read_text("utf-8")
    assert json.loads((tmp_path / "own.json").read_text())["sensors"] == list(SENSORS)
    assert run("export", config).stdout.startswith("time,attic,bath,cellar\n")


def test_a_sensor_without_a_training_reading_is_left_out_by_name(config, tmp_path):
    record(tmp_path, kept=lambda row, arm: arm != 1 or row >= 432)
    done = run("compare", config, "--policies", "static", "--seeds", 1)
    assert done.exit_code == 0, done.output
    assert "Sensors without a reading on the training days are left out: bath" in done.stderr
    fitted = run("fit", config, "-o", tmp_path / "own.json")
    assert "Left out" not in fitted.stderr
    assert json.loads((tmp_path / "own.json").read_text())["sensors"] == list(SENSORS)


def test_fit_names_a_sensor_with_very_few_readings(config, tmp_path):
    record(tmp_path, kept=lambda row, arm: arm != 1 or row in (400, 401))
    fitted = run("fit", config, "-o", tmp_path / "own.json")
    assert fitted.exit_code == 0, fitted.output
    assert "- very few readings of bath (2): the model does not know the course" in fitted.stdout


def test_fit_without_scipy_reports_everything_but_the_rates_of_change(
    config, tmp_path, monkeypatch
):
    record(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    fitted = run("fit", config, "-o", tmp_path / "own.json")
    assert fitted.exit_code == 0, fitted.output
    assert f"Wrote {tmp_path / 'own.json'}:" in fitted.stdout
    assert (
        "- the report leaves out the rates of change: scipy, which fits the rates of change, is "
        f"not installed. Install it with: {install_command()} 'edge-tvbo[science]'\n"
    ) in fitted.stdout
    assert "epsilon" not in fitted.stdout
    assert "the course of a day explains" in fitted.stdout
    assert "To use the model" in fitted.stdout


def test_an_error_in_the_report_of_fit_replaces_no_model(config, tmp_path, monkeypatch):
    record(tmp_path)
    model = tmp_path / "own.json"
    model.write_text("the owner's")

    def fails(report):
        raise DataError("no report")

    monkeypatch.setattr("edge_tvbo.training.training_report.TrainingReport.lines", fails)
    failed = run("fit", config, "-o", model)

    assert (failed.exit_code, failed.stdout) == (2, "")
    assert "no report" in failed.stderr
    assert model.read_text() == "the owner's"


def test_rows_are_complete_without_the_sensors_that_are_left_out(config, tmp_path):
    """On the training days, `bath` is dead and `cellar` is read in every other interval.

    So intervals with readings of both other sensors are complete.
    """
    record(tmp_path, kept=lambda row, arm: row >= 432 or arm == 0 or (arm == 2 and row % 2))
    done = run("compare", config, "--policies", "static", "--seeds", 1)
    assert done.exit_code == 0, done.output
    assert "Sensors without a reading on the training days are left out: bath" in done.stderr
    assert "left out: 216 intervals in which only one of two sensors was read" in done.stderr


def test_fit_says_how_the_model_is_used_until_it_is(config, tmp_path):
    record(tmp_path, days=1)
    model = tmp_path / "own.json"
    first = run("fit", config, "-o", model).stdout
    assert (
        f'To use the model, set  model = "own.json"  in [fields.temperature] of {config}, and'
        " remove kernel and positions, which are in the model." in first
    )
    text = config.read_text()
    rest = [each for each in text.splitlines() if not each.startswith(("kernel", "positions"))]
    config.write_text("\n".join(rest).replace("sensors = ", 'model = "own.json"\nsensors = '))
    assert run("check", config).exit_code == 0
    again = run("fit", config, "-o", model).stdout
    assert "To use the model" not in again
    assert again.endswith(
        "A running daemon uses the new model after a reload (SIGHUP) or a restart.\n"
    )
    other = run("fit", config, "-o", tmp_path / "other.json").stdout
    assert other.endswith(
        f'To use the model, set  model = "other.json"  in [fields.temperature] of {config}.\n'
    )
    quoted = run("fit", config, "-o", tmp_path / 'the "new".json').stdout
    assert """set  model = 'the "new".json'  in [fields.temperature]""" in quoted


@pytest.mark.parametrize("output", ["own.json", "other.json"])
def test_fit_names_the_sensors_without_which_the_model_cannot_be_used(config, tmp_path, output):
    record(tmp_path, days=1)
    model = tmp_path / "own.json"
    run("fit", config, "-o", model)
    text = config.read_text()
    rest = [each for each in text.splitlines() if not each.startswith(("kernel", "positions"))]
    used = "\n".join(rest).replace("sensors = ", 'model = "own.json"\nsensors = ')
    config.write_text(used.replace('"cellar"]', '"cellar", "shed", "porch"]'))

    fitted = run("fit", config, "-o", tmp_path / output).stdout

    assert fitted.endswith(
        "The model does not contain these sensors, because they have no reading on the training "
        "days: shed, porch. To use the model, remove these sensors from `sensors` in "
        f"[fields.temperature] of {config}, and from the tables that name them, or fit the model "
        "again when the sensors have readings.\n"
    )
    config.write_text(used)
    assert run("check", config).exit_code == 0


def test_options_select_times_days_and_the_interval(config, tmp_path):
    record(tmp_path)
    day = run("export", config, "--from", "2026-03-03", "--to", "2026-03-03").stdout.splitlines()
    assert len(day) == 1 + 144
    assert day[1].startswith("2026-03-03T00:00:07Z,")
    hours = run("export", config, "--interval", "1h", "--to", "2026-03-02T17:40:00Z").stdout
    assert 13 <= len(hours.splitlines()) <= 14
    lines = run("export", config, "--format", "influxdb", "--to", "2026-03-02T05:41:00Z").stdout
    assert lines.splitlines()[1] == (
        f"temperature,sensor=bath value={values(1)[0, 1]!r} 1772430007000000000"
    ).replace("np.float64(", "").replace(") 1772", " 1772")
    coarse = run("fit", config, "--interval", "30min", "-o", tmp_path / "m.json")
    assert "intervals of 30 min" in coarse.stdout


def test_a_sparse_record_is_refused_with_a_count_and_what_helps(config, tmp_path):
    record(tmp_path, kept=lambda row, arm: row % 3 == arm)
    for command in ("fit", "compare", "replay"):
        done = run(command, config)
        assert done.exit_code == 2
        assert "(576 readings): only 0 of 576 intervals of 10 min have readings" in done.stderr
        assert "With --interval 20min, 288 of 288 intervals have readings of" in done.stderr
    done = run("fit", config, "--interval", "30min", "-o", tmp_path / "m.json")
    assert "based on 576 readings of 3 sensors (in 19" in done.stdout.replace("575", "576")


def test_several_fields_need_the_option_field(config, tmp_path):
    config.write_text(config.read_text() + FIELD.format(name="humidity", objective="min"))
    record(tmp_path, "humidity")
    assert "has the fields temperature, humidity; add  --field" in run("fit", config).stderr
    assert "no field 'wind'" in run("export", config, "--field", "wind").stderr
    done = run("replay", config, "--field", "humidity", "--policy", "static", "--json")
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["results"]
    assert result["settings"]["sensor"] in SENSORS


def test_a_renamed_field_without_readings_names_the_fields_that_have_some(config, tmp_path):
    record(tmp_path)
    config.write_text(config.read_text().replace("[fields.temperature", "[fields.heat"))

    done = run("export", config)

    assert done.exit_code == 2
    assert done.stderr == (
        "home.heat: no reading was recorded. [E200]\n"
        "There are readings of: temperature. If you renamed the field, give it its former name in "
        "a copy of the configuration, and use this copy.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "CONFIG"], "no recorded readings yet"),
        (["export", "CONFIG"], "no recorded readings yet"),
        (
            ["fit", "CONFIG", "--dataset", "csv"],
            "The argument names your own readings, but --dataset names other",
        ),
        (["fit", "--field", "lab"], "--field needs CONFIG"),
        (["fit", "--from", "2004-03-02"], "--from and --to need CONFIG"),
        (["replay", "home.csv", "--to", "2004-03-02"], "--from and --to need CONFIG"),
        (["compare", "CONFIG", "--from", "monday"], "is not a time such as 2026-03-02"),
        (["fit", "CONFIG", "--from", "2026-03-03", "--to", "2026-03-02"], "Exchange the two"),
        (["compare", "--interval", "1h"], "--interval is for CONFIG and for --dataset csv"),
        (["compare", "--interval", "soon"], "is not a duration"),
        (["export", "CONFIG", "--interval", "5 minutes"], '"1d" (did you mean "5min"?)'),
        (["compare", "--interval", "10"], '"1d" (did you mean "10s"?)'),
        (["replay", "CONFIG", "--via", "mqtt"], "no recorded readings yet"),
        (["export", "CONFIG", "--from", "monday"], "is not a time such as 2026-03-02"),
        (["export", "CONFIG", "--format", "parquet"], "add  --output readings.parquet"),
        (["export", "CONFIG", "-o", "a.parquet"], "a.parquet is the name of a Parquet file; add"),
        (["export", "CONFIG", "--format", "influxdb", "--interval", "1h"], "is for --format csv"),
        (["export", "CONFIG", "--to", "9999-12-31"], "'--to': '9999-12-31' is not a time"),
        (["export", "CONFIG", "--from", "2026-03-03", "--to", "2026-03-02"], "Exchange the two"),
        (["export", "CONFIG", "--interval", "0s"], "'--interval': 0s is too short; allowed: more"),
        (["fit", "CONFIG", "--interval", "0s"], "'--interval': 0s is too short; allowed: more"),
        (["fit", "--noise", "nan"], "'--noise': nan is invalid; allowed: a number, 1e-50 to"),
        (["fit", "--noise", "0"], "'--noise': 0"),
        (
            ["replay", "--budget", "nan"],
            "'--budget': nan is invalid; allowed: a number, at least 1",
        ),
        (
            ["compare", "--budget", "0.5"],
            "'--budget': 0.5 is invalid; allowed: a number, at least 1",
        ),
        (["compare", "--positions", "none.txt"], "'--positions': File 'none.txt' does not exist"),
        (["fit", "-o", "."], "'--output': . is a directory; name a file"),
        (["fit", "-o", "none/m.json"], "none/m.json: the directory none does not exist; create it"),
        (["export", "CONFIG", "-o", "none/r.csv"], "the directory none does not exist"),
        (["fit", "--train", "monday"], "--train 'monday' is not a range of days, such as"),
        (["replay", "--test", "2027-03-01"], "2027-03-01: lab-sample contains only the days"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(config, arguments, words):
    done = run(*(config if each == "CONFIG" else each for each in arguments))
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.slow
def test_each_of_several_fields_has_a_model_file_of_its_own(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config.write_text(config.read_text() + FIELD.format(name="humidity", objective="min"))
    for field in ("temperature", "humidity"):
        record(tmp_path, field, days=1)

    fitted = [run("fit", config, "--field", field) for field in ("temperature", "humidity")]

    assert [each.stdout.splitlines()[0] for each in fitted] == [
        "Wrote temperature.model.json:",
        "Wrote humidity.model.json:",
    ]
    assert 'set  model = "humidity.model.json"  in [fields.humidity]' in fitted[1].stdout
    assert not (tmp_path / "model.json").exists()
    config.write_text(f'{config.read_text()}\nmodel = "model.json"\n')  # of the last field
    again = run("fit", config, "--field", "humidity").stdout
    assert again.startswith(f"Wrote {tmp_path / 'model.json'}:")


@pytest.fixture
def no_training(monkeypatch):
    def trains(*_, **__):
        raise AssertionError("the training began")

    monkeypatch.setattr("edge_tvbo.simulation.backtest.Backtest.fit_structure", trains)


@pytest.mark.parametrize("kind", ["configuration", "CSV file", "dataset"])
def test_fit_replaces_no_model_that_the_command_does_not_name(
    config, tmp_path, monkeypatch, no_training, kind
):
    monkeypatch.chdir(tmp_path)
    record(tmp_path, days=1)
    run("export", config, "-o", "home.csv")
    (tmp_path / "model.json").write_text("the model of another field")
    words = {
        "configuration": ["home.toml"],
        "CSV file": ["home.csv"],
        "dataset": ["--dataset", "lab-sample"],
    }

    refused = run("fit", *words[kind])

    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[-1] == (
        "model.json exists, and may be the model of another field. To replace it, add  "
        "-o model.json [E100]"
    )
    assert (tmp_path / "model.json").read_text() == "the model of another field"


def test_fit_writes_the_model_that_the_configuration_names(config, tmp_path, monkeypatch):
    """The owner runs `fit` in another directory than that of the configuration."""
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    (other / "model.json").write_text("the model of another field")
    record(tmp_path, days=1)
    text = config.read_text().replace("kernel =", "# kernel =").replace("positions =", "# =")
    config.write_text(f'{text}model = "own.json"\n')
    (tmp_path / "own.json").write_text("an older model")

    fitted = run("fit", config)

    assert fitted.exit_code == 0, fitted.output
    assert fitted.stdout.startswith(f"Wrote {tmp_path / 'own.json'}:\n")
    assert json.loads((tmp_path / "own.json").read_text())["sensors"] == list(SENSORS)
    assert [each.name for each in other.iterdir()] == ["model.json"]
    assert (other / "model.json").read_text() == "the model of another field"


@pytest.mark.parametrize("prior", ["", 'model = "model.json"'], ids=["none", "no model file"])
def test_recorded_readings_are_read_without_a_prior(config, tmp_path, monkeypatch, prior):
    monkeypatch.chdir(tmp_path)
    record(tmp_path, days=2)
    lines = [each for each in config.read_text().splitlines() if not each.startswith("kernel")]
    config.write_text("\n".join([*lines, prior]))
    assert run("check", config).exit_code == 2

    exported = run("export", config)
    replayed = run("replay", config, "--policy", "random")
    fitted = run("fit", config)

    assert [each.exit_code for each in (exported, replayed, fitted)] == [0, 0, 0], fitted.output
    if prior:
        assert run("check", config).exit_code == 0


def test_without_a_state_directory_the_error_names_the_setting(config):
    config.write_text(config.read_text().replace('dir = "state"', ""))
    assert "because [state] has no dir" in run("export", config).stderr


@pytest.mark.parametrize(
    ("command", "policy", "settings"),
    [
        ("compare", "--policies", ["lb-gp-ucb"]),
        ("replay", "--policy", ["lb-gp-ucb"]),
        ("replay", "--policy", ["auto", "--set", 'length_scale = "learned"']),
    ],
)
def test_policy_that_needs_positions_is_answered_with_the_option_for_them(
    tmp_path, command, policy, settings
):
    table = tmp_path / "home.csv"
    table.write_text("time,a,b\n" + "".join(f"{t},{t % 3},{t % 5}\n" for t in range(40)))
    failed = run(command, table, policy, *settings)
    assert failed.exit_code == 2
    assert f"{settings[0]} learns how fast the field changes in space" in failed.stderr
    assert "add  --positions FILE , a file with a line `id x y` for each sensor" in failed.stderr


def test_objective_and_positions_are_options_of_a_csv_file(tmp_path):
    table, places = tmp_path / "a.csv", tmp_path / "places.txt"
    rows = "".join(f"{60 * t},{t % 7},{(t + 3) % 7}\n" for t in range(200))
    table.write_text("step,a,b\n" + rows)
    places.write_text("a 0 0\nb 4 1\n")
    csv = ("--dataset", "csv", "--data-dir", table)

    fitted = run("fit", *csv, "--objective", "min", "--positions", places, "-o", tmp_path / "m")
    assert fitted.exit_code == 0, fitted.output
    model = json.loads((tmp_path / "m").read_text())
    assert (model["objective"], model["positions"]) == ("min", [[0, 0], [4, 1]])
    places.write_text("a 0 0\n")
    missing = run("fit", *csv, "--positions", places)
    assert missing.exit_code == 2
    assert f"{places}: --positions has no position for b; each sensor needs" in missing.stderr


def test_a_file_with_another_ending_is_said_to_be_read_as_a_configuration(tmp_path):
    path = tmp_path / "readings.txt"
    path.write_text("time,a,b\n0,1,2\n")

    done = run("fit", path)

    assert done.exit_code == 2
    assert "because its name does not end in .csv or .csv.gz.\n" in done.stderr
    assert "this is not TOML" in done.stderr


@pytest.mark.parametrize("command", ["compare", "replay", "fit"])
def test_the_name_of_a_dataset_in_place_of_a_file_names_the_option_dataset(
    command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    done = run(command, "lab-sample")

    assert done.exit_code == 2
    assert done.stderr == (
        "lab-sample: there is no such file; to use the dataset of this name, write  "
        f"edge-tvbo {command} --dataset lab-sample [E101]\n"
    )


def test_export_which_reads_no_dataset_does_not_name_the_option_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    done = run("export", "lab-sample")

    assert done.exit_code == 2
    assert "lab-sample: there is no such file; `edge-tvbo init" in done.stderr
    assert "--dataset" not in done.stderr


def test_a_closed_working_directory_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edge_tvbo.cli.options.os.access", lambda path, _: path != Path())

    done = run("fit", "-o", "m.json")

    assert f"m.json: this user cannot write to {tmp_path}." in done.stderr.replace("\n", " ")


@pytest.mark.parametrize("exists", [False, True])
def test_fit_does_not_start_if_the_model_cannot_be_written(tmp_path, monkeypatch, exists):
    if exists:  # it is replaced, which changes the directory
        (tmp_path / "m.json").touch()
    monkeypatch.setattr("edge_tvbo.cli.options.os.access", lambda path, _: path != tmp_path)

    done = run("fit", "-o", tmp_path / "m.json")

    assert done.exit_code == 2
    assert f"m.json: this user cannot write to {tmp_path}" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("kept", "options", "said", "option"),
    [
        (
            lambda row, arm: arm == 0 or row >= 432,
            [],
            "0 of the 432 intervals of the training",
            "--train",
        ),
        (
            lambda row, arm: arm == 0 or row < 400,
            [],
            "0 of the 144 intervals of the test",
            "--test",
        ),
        (
            lambda row, arm: arm == 0 or row < 400,
            ["--test", "2026-03-06"],
            "0 of the 34 intervals of the test",
            "--test",
        ),
    ],
)
def test_days_on_which_most_sensors_were_silent_are_named(
    config, tmp_path, kept, options, said, option
):
    record(tmp_path, kept=kept)
    failed = run("compare", config, "--policies", "random", *options)
    assert failed.exit_code == 2
    assert f"home.temperature: {said} days can be used" in failed.stderr
    advice = f"In the other intervals, too few sensors were read. Select other days with {option},"
    assert advice in failed.stderr


def test_too_few_training_days_of_fit_are_selected_with_an_option_that_it_has(config, tmp_path):
    record(tmp_path, kept=lambda row, arm: row >= 109)  # the last interval of the first day
    failed = run("fit", config, "--train", "2026-03-02", "-o", tmp_path / "m.json")
    assert failed.exit_code == 2
    assert "1 of the 1 intervals of the training days can be used" in failed.stderr
    assert "Select more days with --train." in failed.stderr


@pytest.mark.parametrize(
    ("command", "intervals", "needed"),
    [
        ("fit", 1, "only 1 interval; at least 2 are needed"),
        ("compare", 2, "only 2 intervals; at least 3 are needed"),
        ("replay", 1, "only 1 interval; at least 3 are needed"),
    ],
)
def test_too_short_a_recording_is_not_answered_with_other_days(
    config, tmp_path, command, intervals, needed
):
    record(tmp_path, kept=lambda row, arm: row < intervals)
    failed = run(command, config, *(("-o", tmp_path / "m.json") if command == "fit" else ()))
    assert failed.exit_code == 2
    assert f"home.temperature: {needed}" in failed.stderr
    assert "Use a longer recording, or a shorter interval." in failed.stderr
    assert "--train" not in failed.stderr


def test_training_day_without_an_interval_is_not_a_mistake_of_the_test_days(tmp_path):
    rows = [f"2026-0{month}-{day:02},{day},{month}" for month in (1, 2) for day in (4, 11, 18, 25)]
    table = tmp_path / "weekly.csv"
    table.write_text("\n".join(["time,a,b", *rows]))
    failed = run("compare", table, "--train", "2026-01-06", "--policies", "random")
    assert failed.exit_code == 2
    assert "csv: 0 of the 0 intervals of the training days can be used" in failed.stderr
    assert "--test None" not in failed.stderr


@pytest.mark.parametrize("command", ["export", "fit"])
@pytest.mark.parametrize("is_linked", [False, True])
def test_output_does_not_replace_a_pipe_or_device(config, tmp_path, command, is_linked):
    record(tmp_path)
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    output = link if is_linked else pipe
    refused = run(command, config, "-o", output)
    assert refused.exit_code == 2
    assert f"{output} is a pipe or a device; name a file" in refused.stderr
    assert pipe.is_fifo()
    assert link.is_symlink()


@pytest.mark.parametrize("command", ["export", "fit"])
def test_output_to_a_dash_is_rejected_and_no_file_of_this_name_is_written(
    config, tmp_path, monkeypatch, command
):
    record(tmp_path)
    monkeypatch.chdir(tmp_path)
    refused = run(command, config, "-o", "-")
    assert refused.exit_code == 2
    assert "- does not stand for standard output; name a file, or leave out" in refused.stderr
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("command", ["export", "fit"])
def test_output_to_a_symbolic_link_replaces_the_file_that_it_names(config, tmp_path, command):
    record(tmp_path, days=1)
    target, link = tmp_path / "target", tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(target)
    for _ in ("new", "replaced"):
        done = run(command, config, "-o", link)
        assert done.exit_code == 0, done.output
        assert link.is_symlink()
        assert target.read_text("utf-8")
        target.write_text("")


def test_output_does_not_replace_what_the_command_reads(config, tmp_path):
    record(tmp_path)
    table = tmp_path / "home.csv"
    run("export", config, "-o", table)
    before = table.read_bytes(), config.read_bytes()
    by_data_dir = ("fit", "--dataset", "csv", "--data-dir", table, "-o", table)
    beside = tmp_path / "." / "home.toml"
    for words in (
        ("fit", table, "-o", table),
        by_data_dir,
        ("fit", config, "-o", beside),
        ("export", config, "-o", beside),
    ):
        refused = run(*words)
        assert refused.exit_code == 2
        assert "which the command reads; name another file." in refused.stderr
    assert (table.read_bytes(), config.read_bytes()) == before


def test_output_does_not_replace_the_stored_state_of_a_daemon(config, tmp_path):
    record(tmp_path)
    store = FileStore(tmp_path / "state", "home")
    assert store.save(b"1") and store.save(b"2")
    HISTORY.file(str(tmp_path / "state"), "home").write_bytes(b"SQLite format 3\0")
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "state" / "home.readings.db")
    names = ("home.readings.db", "home.history.db", "home.state", "home.state.previous")
    for output in (link, *(tmp_path / "state" / name for name in names)):
        before = output.read_bytes()
        for command in ("export", "fit"):
            refused = run(command, config, "-o", output)
            assert refused.exit_code == 2
            assert "is a file of a daemon's state; name another file." in refused.stderr
        assert output.read_bytes() == before


def test_output_to_a_loop_of_symbolic_links_is_an_error(config, tmp_path):
    link = tmp_path / "loop.csv"
    link.symlink_to(link)
    refused = run("export", config, "-o", link)
    assert refused.exit_code == 2
    assert "is a symbolic link that leads to itself; name another file." in refused.stderr


def test_fit_needs_no_test_day(config, tmp_path):
    record(tmp_path, days=1)
    every_day = "2026-03-02:2026-03-03"

    done = run("fit", config, "--train", every_day, "-o", tmp_path / "a.json")
    run("fit", config, "-o", tmp_path / "b.json")

    assert done.exit_code == 0, done.output
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


COMMANDS = (
    ("fit",),
    ("replay", "--policy", "static"),
    ("compare", "--policies", "static", "--seeds", 1),
    ("export",),
    ("export", "--format", "influxdb"),
)


@pytest.fixture
def refusal(config, tmp_path, monkeypatch):
    """Return a function of a command: its error if `units` were recorded, a day each, before °F."""

    def error(command, *units):
        monkeypatch.chdir(tmp_path)  # for the model of `fit`
        record_days(tmp_path, *units)
        change_unit(config, "°F")
        done = run(*command, config)
        assert done.exit_code == 2
        return done.stderr

    return error


@pytest.mark.parametrize("command", COMMANDS)
def test_readings_in_two_units_are_refused_with_the_time_since_the_present_one(
    config, refusal, command
):
    assert refusal(command, "°C", "°C", "°F", "°F") == (
        "home.temperature: readings in °C and in °F, the present unit, cannot be mixed. All "
        "readings from 2026-03-04T05:40:00Z on are in °F; add  --from 2026-03-04T05:40:00Z [E200]\n"
    )
    since = run(*command, config, "--from", "2026-03-04T05:40:00Z")
    assert since.exit_code == 0, since.output


def test_readings_with_the_times_of_a_wrong_clock_can_be_left_out(config, tmp_path):
    record(tmp_path, days=1)
    with closing(ReadingDatabase(str(tmp_path / "state"), "home", 2**26)) as database:
        assert database.store(
            [RecordedReading("temperature", "attic", 4_102_444_800.0, 21.0, "°C")]
        )
    done = run("export", config, "--interval", "1min")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        "The readings are from 2026-03-02T05:40:00Z to 2100-01-01T00:00:00Z. If the clock was "
        "wrong at one of these times, select a period with --from and --to; or choose a longer "
        "--interval."
    )
    done = run("export", config, "--interval", "1min", "--to", "2027-01-01")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_readings_in_another_unit_than_the_field_are_refused(refusal, command):
    assert refusal(command, "", "°C") == (
        "home.temperature: the selected readings were recorded in °C, but the unit of "
        'the field is °F. To use them, set  unit = "°C"  in a copy of the configuration in the '
        "same directory. [E200]\n"
    )


@pytest.mark.parametrize(
    ("units", "unit", "words"),
    [
        (
            ("°C", "°F"),
            "°C",
            "before 2026-03-03T05:40:00Z are in °C; add  --to 2026-03-03T05:40:00Z",
        ),
        (
            ("°C", "°F", "C", "", "K"),
            "°C",
            "from 2026-03-04T05:40:00Z on and before 2026-03-06T05:40:00Z are "
            "in °C; add  --from 2026-03-04T05:40:00Z --to 2026-03-06T05:40:00Z",
        ),
        (("", "°C", "°F"), "", "readings in °C and in °F, the present unit, cannot be mixed."),
        (("°C", "K", "°F"), "°F", "readings in K, °C and in °F, the present unit, cannot"),
    ],
)
def test_the_newest_readings_in_the_present_unit_are_proposed(config, tmp_path, units, unit, words):
    record_days(tmp_path, *units)
    change_unit(config, unit)

    done = run("export", config)

    assert done.exit_code == 2
    assert words in done.stderr
    proposed = done.stderr.rpartition("add  ")[2].split()[:-1]
    assert run("export", config, *proposed).exit_code == 0


def test_readings_of_the_same_second_in_two_units_are_left_out_of_the_proposed_time(
    config, tmp_path
):
    record_days(tmp_path, "°C", "°F")
    with closing(ReadingDatabase(str(tmp_path / "state"), "home", 2**26)) as database:
        late = RecordedReading("temperature", "bath", START + 86_400, 20.0, "°C")
        assert database.store([late])
    change_unit(config, "°F")

    done = run("export", config)

    assert "add  --from 2026-03-03T05:40:07Z [E200]\n" in done.stderr


@pytest.mark.parametrize("unit", ["°C", "C", ""])
def test_another_spelling_of_a_unit_and_no_unit_are_no_mix(config, tmp_path, unit):
    record_days(tmp_path, "", "° C", "C", "°C")
    change_unit(config, unit)

    assert len(run("export", config).stdout.splitlines()) == 1 + 4 * 144


def test_a_report_names_the_selected_time(config, tmp_path):
    record(tmp_path)
    selected = ("--from", "2026-03-03", "--to", "2026-03-05", "--interval", "20min")

    done = run("replay", config, "--policy", "static", *selected, "--out", tmp_path / "report")

    assert done.exit_code == 0, done.output
    assert "1296 recorded readings" in done.stderr
    report = (tmp_path / "report" / "report.html").read_text("utf-8")
    times = ("--from", "2026-03-03 00:00:00+00:00", "--to", "2026-03-06 00:00:00+00:00")
    same = (*times, "--interval", "20min")
    assert escape(join(same)) in report
    assert "1296 recorded readings" in run("replay", config, "--policy", "static", *same).stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_the_error_names_the_recorded_times_if_no_reading_is_in_the_wanted_time(
    config, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)  # for the model of `fit`
    record(tmp_path, days=1)

    done = run(*command, config, "--from", "2027-01-01")

    assert done.exit_code == 2
    assert "are from 2026-03-02T05:40:00Z to 2026-03-03T05:30:14Z. Change --" in done.stderr


@pytest.mark.parametrize("name", ["home.csv", "HOME.CSV", "HOME.CSV.GZ"])
def test_a_csv_file_can_be_the_argument(config, tmp_path, name):
    record(tmp_path)
    exported = tmp_path / "exported.csv"
    run("export", config, "-o", exported)
    table = tmp_path / name
    data = exported.read_bytes()
    table.write_bytes(gzip.compress(data) if name.endswith("GZ") else data)
    done = run("replay", table, "--policy", "random", "--json")
    assert done.exit_code == 0, done.output
    named = run("replay", "--dataset", "csv", "--data-dir", table, "--policy", "random", "--json")
    assert done.stdout == named.stdout


def test_compare_without_names_shows_every_policy_that_needs_no_positions(tmp_path):
    """The sensors have positions; some policies are without regret."""
    table, places = tmp_path / "a.csv", tmp_path / "places.txt"
    places.write_text("hot 0 0\ncold 4 1\n")
    rows = "".join(f"{t},{20 + t % 2},{10 + t % 2}\n" for t in range(200))
    table.write_text("step,hot,cold\n" + rows)
    done = run("compare", table, "--positions", places, "--seeds", 2)
    assert done.exit_code == 0, done.output
    replayed = [name for name in policies() if name not in (*needing_positions(), "oracle")]
    shown = re.findall(r"^(\S+) +[\d.]+ ", done.stdout, re.MULTILINE)
    assert shown == [*replayed, "oracle"]
