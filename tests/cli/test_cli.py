"""Command line: help, errors, output for programs, completion and manual pages."""

import errno
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import DEPLOY

from edge_tvbo.cli import main
from edge_tvbo.cli.demo import _decision_printer
from edge_tvbo.cli.settings import compilation_announced
from edge_tvbo.numerics import jit
from edge_tvbo.policy.built_in import DEFAULT_POLICY

MISTAKES = """\
instance = "lab"
[mqtt]
hots = "127.0.0.1"
[fields.temperature]
interval = "10 parsecs"
sensors = ["a", "b"]
reading = { topic = "lab/+/t", payload = "number" }
policy = { name = "et-gp-ubc" }
kernel = { name = "se", length_scale = 5, variance = 1, noise_variance = 0.1, mean = 20 }
positions = { a = [0, 0], b = [1, 0] }
"""


def run(*arguments):
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def document(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["check"], ["schema"]])
def test_help_and_a_faulty_configuration_import_no_heavy_library(arguments, tmp_path):
    """Their times are measured in `tests/benchmarks/test_start.py`."""
    heavy = {"numpy", "numba", "scipy", "paho", "asyncio", "sqlite3", "ssl"}
    if arguments == ["--help"]:  # imports no library but click
        heavy |= {"msgspec", "concurrent.futures"}
    if arguments == ["check"]:
        path = tmp_path / "lab.toml"
        path.write_text(MISTAKES)
        arguments = ["check", str(path)]
    script = (
        "import sys\nfrom edge_tvbo.cli import main\n"
        f"try: main({arguments!r})\n"
        f"finally: print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_mistyped_command_is_rejected_with_a_similar_name():
    result = run("statu")

    assert result.exit_code == 2
    assert "Did you mean 'status'?" in result.stderr


@pytest.mark.parametrize("command", main.list_commands(None))
def test_every_command_has_a_help_text(command):
    result = run(command, "--help")

    assert result.exit_code == 0
    assert main.get_command(None, command).help


def test_check_reports_all_mistakes_with_lines_and_exits_with_status_2(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(MISTAKES)

    result = run("check", str(path))

    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    places = ["3:1", "5:1", "7:13", "8:12"]
    assert [line.split(": ")[0] for line in lines[:4]] == [f"{path}:{place}" for place in places]
    assert [line[-6:] for line in lines[:4]] == ["[E103]", "[E105]", "[E105]", "[E109]"]
    assert 'did you mean "host"?' in lines[0]
    assert 'did you mean "et-gp-ucb"?' in lines[3]


def test_check_with_json_prints_the_findings_as_json(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(MISTAKES)

    result = run("check", "--json", str(path))

    assert result.exit_code == 2
    findings = json.loads(result.stdout)["findings"]
    assert [finding["line"] for finding in findings] == [3, 5, 7, 8]


def test_check_with_json_prints_the_warnings_as_json_and_to_stderr(tmp_path, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a process of its own
    path = tmp_path / "lab.toml"
    run("init", str(path), "--sensor", "a", "--sensor", "b")
    lines = path.read_text().splitlines()
    number = lines.index("[fields.temperature]") + 2
    lines.insert(number - 1, 'next_activation = "at-once"')
    path.write_text("\n".join(lines))

    result = run("check", "--json", str(path))

    assert result.exit_code == 0
    (warning,) = json.loads(result.stdout)["warnings"]
    message = warning.pop("message")
    key = "fields.temperature.next_activation"
    assert warning == {"file": str(path), "line": number, "column": 1, "key": key}
    assert message == f"{key} has no effect, because only one sensor is activated in each interval"
    assert result.stderr == f"{path}:{number}:1: {message}\n"


def test_check_with_json_prints_the_warnings_of_an_invalid_file(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(MISTAKES.replace("hots", "visitor.username"))

    result = run("check", "--json", str(path))

    document = json.loads(result.stdout)
    assert [finding["line"] for finding in document["findings"]] == [5, 7, 8]
    assert [(each["line"], each["key"]) for each in document["warnings"]] == [(3, "mqtt.visitor")]


def test_the_compilation_of_kernels_is_announced_once_and_before_it_begins(monkeypatch, capsys):
    numba = pytest.importorskip("numba")
    if numba.config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    monkeypatch.setattr(jit, "COMPILATION", "just in time")
    compile_one = numba.njit("f8(f8)")

    with compilation_announced():
        assert capsys.readouterr().err == ""
        with pytest.raises(numba.TypingError):
            compile_one(lambda number: number.unknown)
        assert capsys.readouterr().err.startswith("compiling the kernels, which takes a few")
        compile_one(lambda number: number + 1.0)
    compile_one(lambda number: number + 2.0)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("compilation", ["ahead of time", "not compiled"])
def test_no_compilation_is_announced_if_no_kernel_is_compiled(monkeypatch, capsys, compilation):
    monkeypatch.setattr(jit, "COMPILATION", compilation)
    monkeypatch.setitem(sys.modules, "numba.core", None)  # it may not be installed

    with compilation_announced():
        pass

    assert capsys.readouterr().err == ""


def test_check_with_json_names_the_file_in_a_warning_of_the_daemon(tmp_path):
    path = tmp_path / "lab.toml"
    field = """
[fields.room-%d]
interval = "10min"
sensors = ["a", "b"]
reading = { topic = "room-%d/{sensor}" }
kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }
"""
    path.write_text("[homeassistant]\n" + "".join(field % (n, n) for n in range(20)))

    (warning,) = document("check", "--json", str(path))["warnings"]

    assert (warning["file"], warning["line"], warning["key"]) == (str(path), 0, "")
    assert warning["message"].startswith("homeassistant: the discovery message describes")


@pytest.mark.parametrize(("command", "status"), [("run", 78), ("check", 2)])
def test_a_missing_configuration_is_reported_without_a_traceback(command, status, tmp_path):
    result = run(command, str(tmp_path / "none.toml"))

    assert result.exit_code == status
    assert "there is no such file" in result.stderr


SIGNALLED = """\
import os, signal, sys
from edge_tvbo.cli import main

class Sender:
    def find_spec(name, path, target=None):
        if name == "edge_tvbo.daemon.app":
            for number in (signal.SIGHUP, signal.SIGUSR1):
                os.kill(os.getpid(), number)

sys.meta_path.insert(0, Sender)
main()
"""


def test_signals_during_the_imports_of_the_daemon_do_not_end_it(tmp_path):
    command = [sys.executable, "-c", SIGNALLED, "run", str(tmp_path / "none.toml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "there is no such file" in done.stderr) == (78, True)


def test_init_writes_a_valid_configuration_and_overwrites_no_file(tmp_path):
    path = tmp_path / "new.toml"

    assert run("init", str(path), "--sensor", "hall", "--sensor", "attic").exit_code == 0
    checked = document("check", "--json", str(path))
    assert checked == {"ok": True, "fields": 1, "sensors": 2, "warnings": []}
    again = run("init", str(path), "--sensor", "hall")
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def test_replay_with_json_prints_the_documented_keys():
    options = ["--policy", "et-gp-ucb", "--seeds", "2", "--set", "delta_b=0.05"]
    printed = document("replay", "--dataset", "lab-sample", *options, "--json")

    assert printed["unit"] == "training sd"
    (result,) = printed["results"]
    assert result["policy"] == "et-gp-ucb"
    assert result["settings"]["delta_b"] == 0.05
    assert len(result["regret_per_interval"]["seeds"]) == 2
    assert result["activations"] == 288


def test_all_commands_have_the_same_default_policy():
    defaults = {
        name: option.default
        for name in ("replay", "dashboard")
        for option in main.get_command(None, name).params
        if option.name == "policy"
    }

    assert defaults == dict.fromkeys(("replay", "dashboard"), DEFAULT_POLICY.name)


def test_bound_computes_for_the_norm_of_its_option_and_states_it():
    lines = document("bound", "--variation", "10", "--horizon", "50", "--norm", "8", "--json")
    meanings = {line["name"]: line["meaning"] for line in lines}
    assert meanings["BR-GP-UCB"].startswith("for a field whose norm is at most 8: upper bound")


@pytest.mark.slow
def test_compare_writes_the_same_bytes_with_any_number_of_jobs():
    command = ["compare", "--policies", "et-gp-ucb,random", "--seeds", "2", "--json"]
    alone, two = (run(*command, "--jobs", jobs).stdout for jobs in ("1", "2"))
    assert alone == two


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--policy", "et-gp-ubc"], "Did you mean 'et-gp-ucb'?"),
        (["--dataset", "intel-lap"], "Did you mean 'intel-lab'?"),
        (["--set", "epsilon"], "--set epsilon=0.03"),
        (["--set", "beta=log"], """a text needs quotes:  --set 'beta="log"'"""),
        (["--set", "sensor=living room"], """a text needs quotes:  --set 'sensor="living room"'"""),
        (["--set", "sensor=lab/s3"], """a text needs quotes:  --set 'sensor="lab/s3"'"""),
        (["--set", "keep_last=True"], "write  --set epsilon=0.03"),
        (["--set", "epsilon=0.03"], "et-gp-ucb has no parameter 'epsilon'"),
        (["--set", "delta_b=2"], "delta_b is 2"),
        (["--train", "yesterday"], "is not a range of days, such as 2004-03-01:2004-03-06"),
        (["--test", "2004-03-01:2004-03-02"], "contains only the days"),
        (["--train", ""], "is not a range of days, such as 2004-03-01:2004-03-06"),
        (["--train", "2026-03-02:2026-03-09"], "No test day is left"),
        (["--test", "2026-03-02"], "there is no day before the test days"),
        (["--train", "2026-03-02:2026-03-08", "--test", "2026-03-08"], "overlap"),
        (["--data-dir", "no-such-place"], "no such file or directory"),
        (["--policy", "nope"], "allowed: auto, kalman-ucb, "),
        (["--policy", "oracle"], "its regret is always 0"),
        (["--set", "field=1"], "has no parameter 'field'"),
        (["--set", "keep_last=3"], "true or false"),
        (["--via", "mqtt", "--port", "1"], "is a broker running there?"),
        (["--via", "mqtt", "--seeds", "2"], "remove --seeds"),
        (["--via", "mqtt", "--speed", "0"], "--speed"),
    ],
)
def test_an_invalid_argument_is_rejected_with_a_hint(arguments, expected):
    policy = () if "--policy" in arguments else ("--policy", "et-gp-ucb")
    result = run("replay", "--dataset", "lab-sample", *policy, *arguments)

    assert result.exit_code == 2
    assert expected in result.stderr


@pytest.mark.parametrize("command", [("simulate",), ("replay", "--via", "mqtt")])
def test_a_url_as_host_is_rejected_and_a_password_in_it_is_not_printed(command):
    result = run(*command, "--host", "mqtt://me:geheim@lan")
    assert result.exit_code == 2
    assert "write only the host name" in result.stderr
    assert "geheim" not in result.output


def test_compare_rejects_an_unknown_policy_before_it_fits_a_model(monkeypatch):
    monkeypatch.delattr("edge_tvbo.simulation.backtest.Backtest.fit_structure")
    result = run("compare", "--policies", "auto,nope", "--jobs", "1")
    assert result.exit_code == 2
    assert "There is no policy 'nope'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", "foo=1"], "auto has no parameter 'foo'"),
        (["--set", "delta_b=2"], "delta_b is 2"),
        (["--policy", "nope"], "There is no policy 'nope'"),
        (["--policy", "et-gp-ucb", "--set", "n_lower=20"], "n_upper"),
        (["--set", "seed=5", "--seeds", "3"], "gives each of the 3 replays the same seed"),
    ],
)
def test_replay_rejects_a_setting_before_it_reads_the_recording(monkeypatch, arguments, expected):
    monkeypatch.delattr("edge_tvbo.simulation.dataset_lookup.DataSource.load")
    result = run("replay", *arguments)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_replay_warns_of_a_setting_that_has_no_effect():
    policy = ("replay", "--policy", "et-gp-ucb", "--seeds", "1", "--set")

    assert run(*policy, "noise_cap=5").stderr == ""
    unused = run(*policy, "noise_cap=50")

    assert unused.exit_code == 0
    text = "warning: noise_cap has no effect, because the model is reset after n_upper ("
    assert unused.stderr.startswith(text)


def test_compare_replays_the_textbook_baseline_once():
    command = ("compare", "--policies", "kalman-ucb,random", "--seeds", "1", "--json")
    results = document(*command)["results"]
    assert [each["policy"] for each in results] == ["kalman-ucb", "random", "oracle"]


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--policies", "random", "--seeds", "1", "--jobs", "1"),
        ("replay", "--policy", "random"),
        ("demo", "--policy", "random", "--dataset", "lab-sample"),
    ],
    ids=lambda words: words[0],
)
def test_a_report_is_written_even_if_the_output_is_closed(tmp_path, monkeypatch, words):
    def broken(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def replay_without_broker(backtest, policy, *_):
        return backtest.run(policy, {}, 1)

    monkeypatch.setattr("edge_tvbo.cli.demo._replay_on_own_broker", replay_without_broker)
    monkeypatch.setattr("edge_tvbo.cli.demo.SEEDS", 1)
    monkeypatch.setattr("edge_tvbo.simulation.backtest.results_table", broken)

    assert run(*words, "--out", str(tmp_path)).exit_code == 2
    assert {each.name for each in tmp_path.iterdir()} == {
        "picks.csv",
        "report.html",
        "results.csv",
        "results.md",
    }


def test_compare_continues_if_the_report_cannot_be_written(tmp_path):
    words = ("--policies", "random", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path))
    (tmp_path / "report.html").mkdir()

    assert run("compare", *words).exit_code == 2
    assert len([*(tmp_path / "unfinished" / "parts").iterdir()]) == 2  # with the baseline


def test_compare_removes_only_the_replays_that_it_stored(tmp_path):
    """A policy that an interrupted command with more seeds replayed is removed too."""
    kept = tmp_path / "unfinished" / "novel.txt", tmp_path / "unfinished" / "parts" / "one.json"
    stored = tmp_path / "unfinished" / "parts" / "random-000031.json"
    stored.parent.mkdir(parents=True)
    for each in (*kept, stored):
        each.write_text("chapter 3")
    words = ("--policies", "random", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path))

    assert run("compare", *words).exit_code == 0
    left = {path for path in (tmp_path / "unfinished").rglob("*") if path.is_file()}
    assert left == set(kept)

    for each in kept:
        each.unlink()
    assert run("compare", *words).exit_code == 0
    assert not (tmp_path / "unfinished").exists()


@pytest.fixture
def own_sigterm_handler():
    """Set a handler of SIGTERM that does nothing, so that a failing test does not end pytest."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


def test_sigterm_ends_compare_as_ctrl_c_does(monkeypatch, own_sigterm_handler):
    """After Ctrl-C, the workers of the command end, too."""

    def work(*_):
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("the command continues")

    monkeypatch.setattr("edge_tvbo.research.comparison.compare_policies", work)

    assert run("compare", "--policies", "random", "--jobs", "1").exit_code == 130


def test_the_oracle_alone_cannot_be_compared():
    result = run("compare", "--policies", "oracle")
    assert result.exit_code == 2
    assert "always prints the result of the oracle. Name another policy." in result.stderr


def test_a_policy_is_trained_on_the_days_before_the_test_days():
    command = ("replay", "--policy", "kalman-ucb", "--json", "--test", "2026-03-04:2026-03-05")
    alone, named = (
        run(*command, *more).stdout for more in ((), ("--train", "2026-03-02:2026-03-03"))
    )
    assert alone == named


def test_fit_needs_no_day_after_its_training_days(tmp_path):
    fitted = run("fit", "--train", "2026-03-08:2026-03-09", "-o", str(tmp_path / "m.json"))
    assert fitted.exit_code == 0, fitted.output


def test_datasets_are_listed_and_described():
    names = [each["name"] for each in document("data", "list", "--json")]
    facts = document("data", "info", "lab-sample", "--json")

    assert {"csv", "intel-lab", "lab-sample", "metr-la"} <= set(names)
    assert facts["sensors"] == 46
    assert "synthetic" in facts["source"].lower()


@pytest.mark.parametrize(
    ("dataset", "says"), [("intel-lba", "Did you mean 'intel-lab'?"), ("metr-la", "metr-la")]
)
def test_a_download_that_fails_leaves_no_directory(tmp_path, dataset, says):
    result = run("data", "fetch", dataset, "--to", str(tmp_path / "new"))

    assert (result.exit_code, says in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_fit_without_arguments_replaces_no_model_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "model.json"
    model.write_text("the owner's")

    done = run("fit")

    assert done.exit_code == 2
    assert "model.json exists, and may be the model of another field" in done.stderr
    assert model.read_text() == "the owner's"


@pytest.mark.slow
def test_fit_writes_a_model_file_with_a_kernel_of_all_sensors(tmp_path):
    model = tmp_path / "lab.model.json"

    said = run("fit", "--dataset", "lab-sample", "-o", str(model))

    assert said.exit_code == 0
    assert f"Wrote {model}, trained on the dataset lab-sample:\n" in said.stdout
    learned = json.loads(model.read_text())

    assert len(learned["sensors"]) == len(learned["kernel"]) == 46


@pytest.mark.slow
@pytest.mark.parametrize("sensors", [3, 20])
def test_the_plot_of_fit_names_the_sensors_in_a_legend(tmp_path, monkeypatch, sensors):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")  # letters, and not outlines
    names = [f"room-{number}" for number in range(sensors)]
    generator = np.random.default_rng(0)
    swing = 3 * np.linspace(0.5, 1.5, sensors)
    course = 20 + np.arange(sensors) + swing * np.sin(np.arange(192) * np.pi / 12)[:, None]
    readings = course + 0.3 * generator.standard_normal(course.shape)
    rows = [
        f"{1_078_099_200 + 3600 * t}," + ",".join(map(str, row)) for t, row in enumerate(readings)
    ]
    rows.insert(0, ",".join(["time", *names]))
    (tmp_path / "own.csv").write_text("\n".join(rows))
    plot = tmp_path / "own.svg"
    options = ["--dataset", "csv", "--data-dir", str(tmp_path / "own.csv"), "--plot", str(plot)]

    result = run("fit", *options, "-o", str(tmp_path / "own.model.json"))

    assert result.exit_code == 0, result.output
    text = plot.read_text("utf-8")
    assert all(f">{name}<" in text for name in names)
    assert text.count(f">{names[-1]}<") == (3 if sensors == 3 else 2)  # two axes, and the legend
    assert (f">highest: {names[-1]}<" in text) == (sensors > 3)


def test_fit_with_plot_fails_before_training_without_matplotlib(tmp_path, monkeypatch):
    """matplotlib is hidden, because the test environment has it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    model = tmp_path / "lab.model.json"

    result = run("fit", "-o", str(model), "--plot", str(tmp_path / "lab.png"))

    assert (result.exit_code, model.exists()) == (2, False)
    assert "edge-tvbo[plots]" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["init", "/nonexist/x.toml", "--sensor", "a"], "the directory /nonexist does not exist"),
        (["fit", "-o", "/nonexist/m.json"], "the directory /nonexist does not exist; create it"),
        (["data", "fetch", "intel-lab", "--to", "/proc/x"], "/proc/x: "),
        (["fit", "--plot", "/nonexist/x.png"], "the directory /nonexist does not exist"),
        (["fit", "--plot", "picture"], "the name of a plot must end in"),
        (["compare", "--policies", "random,,x"], "There is no policy ''"),
        (["demo", "--speed", "0"], "--speed"),
        (["dashboard", "x.toml", "--policy", "random"], "--policy is for --dataset, and not for"),
        (
            ["dashboard", "x.toml", "--data-dir", ".", "--policy", "random"],
            "--policy is for --dataset, and not for",
        ),
        (
            ["dashboard", "x.toml", "--allow-host", "gateway.lan:8787"],
            "'gateway.lan:8787' is not a host name; write the name without http:// and without",
        ),
        (["simulate", "--reading-topic", "foo"], "{sensor} must be in the topic"),
        (["simulate", "--activate-topic", "a/#/{sensor}"], "wildcards"),
        (
            ["simulate", "--fields", "2", "--reading-topic", "lab/{sensor}/t"],
            "'{field}/lab/{sensor}/t'",
        ),
        (
            ["simulate", "--fields", "2", "--activate-topic", "{sensor}/go"],
            "2 fields would use this topic",
        ),
        (["simulate", "--fields", "0"], "--fields"),
        (["simulate", "--host", "lan:1884"], "'--host': the host is invalid; allowed: a host name"),
    ],
)
def test_an_impossible_command_fails_at_once_without_a_traceback(arguments, expected):
    result = run(*arguments)

    assert result.exit_code == 2
    assert expected in result.stderr


@pytest.mark.parametrize(("old", "new"), [("nodes", "simulate"), ("warm", "precompile")])
def test_an_old_command_name_works_but_is_not_listed(old, new):
    assert run(old, "--help").output == run(new, "--help").output.replace(
        f"{new} [OPTIONS]", f"{old} [OPTIONS]"
    )
    listed = [
        line.split()[0] for line in run("--help").stdout.splitlines() if line.startswith("  ")
    ]
    assert new in listed and old not in listed


def test_check_warns_of_a_state_directory_that_this_user_may_not_write(
    tmp_path, monkeypatch, caplog
):
    path = tmp_path / "lab.toml"
    run("init", str(path), "--sensor", "a")
    monkeypatch.setenv("EDGE_TVBO__STATE__DIR", "closed/lab")
    (tmp_path / "closed").mkdir()
    can_access = os.access

    def is_allowed(each, mode):
        return (each != tmp_path / "closed" or mode == os.F_OK) and can_access(each, mode)

    monkeypatch.setattr(os, "access", is_allowed)

    result = run("check", "--json", str(path))

    assert result.exit_code == 0, result.stderr
    assert f"this user cannot write to {tmp_path}/closed. A daemon" in caplog.text
    (warning,) = json.loads(result.stdout)["warnings"]
    assert (warning["file"], warning["key"]) == ("$EDGE_TVBO__STATE__DIR", "state.dir")


def test_check_rejects_an_unknown_option_of_a_payload_format(tmp_path):
    path = tmp_path / "good.toml"
    run("init", str(path), "--sensor", "a")
    path.write_text(
        path.read_text().replace('payload = "number"', 'payload = "number", value = "t"')
    )

    result = run("check", str(path))

    assert result.exit_code == 2
    lines = path.read_text().splitlines()
    number = 1 + next(n for n, each in enumerate(lines) if each.startswith("reading = "))
    column = 1 + lines[number - 1].index("value = ")
    expected = f"good.toml:{number}:{column}: fields.temperature.reading.value is invalid: payload"
    assert expected in result.stderr
    (finding,) = json.loads(run("check", "--json", str(path)).stdout)["findings"]
    assert finding["message"] in result.stderr


def test_check_without_connect_rejects_a_time_to_listen(tmp_path):
    done = run("check", "--listen", "60s", str(tmp_path / "my.toml"))

    assert (done.exit_code, done.stderr) == (2, "--listen needs --connect; add  --connect [E100]\n")


@pytest.mark.parametrize("option", ["--test", "--gaps"])
def test_fit_has_no_option_that_does_not_change_its_model(option):
    done = run("fit", option, "silent")

    assert done.exit_code == 2
    assert "No such option" in done.stderr and option in done.stderr


def test_ctrl_c_while_the_command_line_is_imported_prints_nothing(tmp_path):
    interrupt = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (tmp_path / "click.py").write_text(interrupt)

    result = subprocess.run(
        [sys.executable, "-m", "edge_tvbo", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, result.stderr) == (-signal.SIGINT, "")  # 130 in a shell


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt, 130), (EOFError, 1)], ids=["Ctrl-C", "Ctrl-D"]
)
@pytest.mark.parametrize("in_a_prompt", [True, False])
def test_ctrl_c_ends_a_command_and_a_prompt_with_the_status_of_a_shell(
    monkeypatch, capsys, error, status, in_a_prompt
):
    def interrupted(*_, **__):
        raise error

    def prompting(_):
        click.prompt("Broker")

    monkeypatch.setattr("click.termui.visible_prompt_func", interrupted)
    doing = prompting if in_a_prompt else interrupted
    monkeypatch.setattr("edge_tvbo.cli.check.buildable_settings_of", doing)
    with pytest.raises(SystemExit) as ended:
        main(["check", "lab.toml"])
    assert (ended.value.code, "Aborted" in capsys.readouterr().err) == (status, error is EOFError)


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ("stdin", "init lab.toml --sensor a"),
        ("stdout", "init lab.toml --sensor a"),
        ("stdout", "demo --policy random --dataset lab-sample"),
        ("stderr", "compare --policies random --seeds 1 --jobs 1"),
        ("stderr", "run lab.toml"),
    ],
)
def test_a_command_works_with_a_closed_stream(tmp_path, monkeypatch, stream, words):
    def replay_without_broker(backtest, policy, *_):
        _decision_printer()
        return backtest.run(policy, {}, 1)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edge_tvbo.cli.demo._replay_on_own_broker", replay_without_broker)
    monkeypatch.setattr("edge_tvbo.cli.demo.SEEDS", 1)
    monkeypatch.setattr("edge_tvbo.daemon.app.run", lambda *_: None)
    monkeypatch.setattr("faulthandler.enable", lambda *_, **__: None)
    monkeypatch.setattr(sys, stream, None)

    with pytest.raises(SystemExit) as ended:
        main(words.split())

    getattr(sys, stream).close()
    assert ended.value.code == 0


def command(*arguments, **environment):
    """Return the result of a command line in a process of its own, with bytes as its output."""
    return subprocess.run(
        [sys.executable, "-m", "edge_tvbo", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )


def test_the_name_of_a_file_may_have_bytes_that_are_not_utf_8(tmp_path):
    odd = os.fsencode(tmp_path) + b"/caf\xe9.toml"
    run("init", str(tmp_path / "lab.toml"), "--sensor", "a")
    (tmp_path / "lab.toml").rename(os.fsdecode(odd))

    good = command("check", odd, PYTHONIOENCODING="utf-8:strict")
    missing = command("check", "--json", odd + b"x", PYTHONIOENCODING="utf-8:strict")

    assert (good.returncode, b"caf\\udce9.toml: good: " in good.stdout) == (0, True), good.stderr
    assert missing.returncode == 2, missing.stderr
    (finding,) = json.loads(missing.stdout)["findings"]
    assert finding["file"] == os.fsdecode(odd + b"x")


def test_init_writes_no_text_that_is_not_utf_8(tmp_path):
    result = run("init", os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.toml"), "--sensor", "a")

    assert result.exit_code == 2
    assert (
        "'caf\\udce9-state' is not UTF-8; use a terminal with UTF-8, or another name."
        in result.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_a_character_that_the_terminal_does_not_have_is_escaped():
    explained = command("config", "explain", PYTHONIOENCODING="latin-1:strict")

    assert (explained.returncode, explained.stderr) == (0, b"")
    assert explained.stdout.decode("latin-1").count("\\u03c3") > 0


def test_json_is_valid_in_a_character_set_without_all_letters(tmp_path):
    path = tmp_path / "σ.toml"
    schema = command("schema", PYTHONIOENCODING="latin-1:strict")
    checked = command("check", "--json", path, PYTHONIOENCODING="latin-1:strict")

    assert "σ" in json.dumps(json.loads(schema.stdout), ensure_ascii=False)
    (finding,) = json.loads(checked.stdout)["findings"]
    assert finding["file"] == str(path)


@pytest.fixture
def homeless(monkeypatch):
    """Let the user of this test have no home directory, as in some containers."""

    def unknown(_):
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_a_user_may_have_no_home_directory(tmp_path):
    path = tmp_path / "lab.toml"
    run("init", str(path), "--sensor", "a")

    assert run("data", "info", "lab-sample").exit_code == 0
    fetched = run("data", "fetch", "intel-lab")
    assert fetched.exit_code == 2
    assert fetched.stderr.startswith("~/.cache: this home directory is unknown; ")
    reported = run("report", str(path))
    assert (reported.exit_code, "the package: a directory" in reported.stdout) == (0, True)


def test_the_home_directory_of_an_unknown_user_is_an_error():
    result = run("data", "info", "csv", "--data-dir", "~unknown-user/lab.csv")

    assert result.exit_code == 2
    assert result.stderr.startswith("~unknown-user/lab.csv: this home directory is unknown; write")


def test_check_with_json_and_explain_prints_one_document(tmp_path):
    path = tmp_path / "good.toml"
    run("init", str(path), "--sensor", "a")

    explained = document("check", "--json", "--explain", str(path))

    assert explained["ok"]
    assert any(each.endswith('instance = "edge"') for each in explained["origins"])
    assert "origins" not in document("check", "--json", str(path))
    assert "\n".join(explained["origins"]) in run("check", "--explain", str(path)).stdout


@pytest.mark.parametrize("source", ["reading", "readings[0]"])
@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ('value = "a..b"', "value is invalid: 'a..b' is not a path"),
        ('timezone = "Europe/Nowhere"', "timezone is invalid: "),
    ],
)
def test_check_names_the_line_of_a_bad_setting_of_a_payload(tmp_path, source, setting, text):
    path = tmp_path / "good.toml"
    run("init", str(path), "--sensor", "a")
    content, replaced = re.subn(r"reading = .*\n", "", path.read_text())
    assert replaced == 1
    header = "[[fields.temperature.readings]]" if "[" in source else "[fields.temperature.reading]"
    other = "timezone" if setting.startswith("value") else "value"
    lines = [header, 'topic = "s/{sensor}"', 'payload = "json"', 'time = "ts"', setting]
    lines.append('timezone = "UTC"' if other == "timezone" else 'value = "t"')
    path.write_text("\n".join([content, *lines, ""]))

    result = run("check", str(path))

    number = 1 + path.read_text().splitlines().index(setting)
    assert f"good.toml:{number}:1: fields.temperature.{source}.{text}" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sensor", "hall/way"],
        ["--sensor", "k+q"],
        ["--sensor", "a", "--topic", "foo"],
        ["--sensor", "a", "--interval", "5parsec"],
        ["--sensor", "a", "--spread", "-1"],
    ],
)
def test_init_writes_no_file_for_invalid_options(arguments, tmp_path):
    result = run("init", str(tmp_path / "new.toml"), *arguments)

    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_init_quotes_a_unit_with_quotation_marks(tmp_path):
    path = tmp_path / "new.toml"

    assert run("init", str(path), "--sensor", "a", "--unit", 'in "Hg"').exit_code == 0
    assert run("check", str(path)).exit_code == 0


# --- editors, shells and manual pages -----------------------------------------------------------


def completing(words):
    """Return the environment variables with which bash lets the program complete these words."""
    given = {"COMP_WORDS": " ".join(["edge-tvbo", *words]), "COMP_CWORD": str(len(words))}
    return given | {"_EDGE_TVBO_COMPLETE": "bash_complete"}


def test_a_shell_starts_the_program_to_complete_a_command():
    code = "from edge_tvbo.cli import main; main(prog_name='edge-tvbo')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | completing(["comple"]),
        capture_output=True,
        text=True,
    )

    assert done.stdout == "plain,completion\n"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["replay", "--policy", "et-"], ["et-gp-ucb"]),
        (["compare", "--policies", "random,et-"], ["random,et-gp-ucb"]),
        (["data", "info", "intel"], ["intel-lab"]),
        (["init", "--mode", "l"], ["live"]),
    ],
)
def test_a_shell_completes_options_policies_and_datasets(words, completed):
    done = CliRunner().invoke(main, prog_name="edge-tvbo", env=completing(words))

    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == completed


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_each_shell_is_printed(shell):
    assert "_EDGE_TVBO_COMPLETE" in run("completion", shell).stdout


@pytest.fixture(scope="module")
def manual(tmp_path_factory):
    """Return the directory of the manual pages, as `make man` writes them."""
    directory = tmp_path_factory.mktemp("man")
    command = [sys.executable, str(DEPLOY / "man_pages.py"), str(directory)]
    subprocess.run(command, check=True)
    return directory


def every_command(group=main, name="edge-tvbo"):
    for each in group.list_commands(None):
        command = group.get_command(None, each)
        if isinstance(command, click.Group):
            yield from every_command(command, f"{name}-{each}")
        else:
            yield f"{name}-{each}", command


def test_the_manual_has_a_page_for_every_command_with_all_its_options(manual):
    overview = (manual / "edge-tvbo.1").read_text("utf-8")
    for name, command in every_command():
        page = (manual / f"{name}.1").read_text("utf-8").replace("\\-", "-")
        assert name.split("-")[2] in overview
        assert "..." not in page.partition(".SH SYNOPSIS")[0], "the first sentence is cut off"
        for option in command.params:
            assert all(word in page for word in option.opts if word.startswith("--"))


def test_groff_renders_every_manual_page_without_a_warning(manual):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed: no page was rendered")
    pages = sorted(manual.iterdir())
    command = ["groff", "-man", "-Tutf8", "-P-cbou", "-k", "-ww", *map(str, pages)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall("^SYNOPSIS$", done.stdout, re.MULTILINE)) == len(pages)


def test_the_schema_is_printed_as_json_with_every_table():
    tables = json.loads(run("schema").stdout)["properties"]

    assert {"mqtt", "state", "fields"} <= set(tables)
    assert tables["mqtt"]["properties"]["port"]["maximum"] == 65535
