"""Bug report: it has what a developer needs, and no secret, host, name or path."""

import getpass
import os
import re
import socket
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.storage.history_db import HistoryDatabase
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from edge_tvbo_adapters.storage.state_files import FileStore
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.controllers import controller_settings
from support.history import history_entry

from edge_tvbo.cli import main
from edge_tvbo.config.introspection import settings_of
from edge_tvbo.config.settings import Settings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.checkpoint_document import (
    Anchor,
    Document,
    FieldCheckpoint,
    decode,
    encode,
)
from edge_tvbo.daemon.crash_log import crash_logging
from edge_tvbo.daemon.decision_log import DecisionLog
from edge_tvbo.messages.commands import Activate, Ending, PublishState, Record
from edge_tvbo.messages.declared_types import is_struct
from edge_tvbo.messages.events import (
    ActivationUndelivered,
    DeadlineElapsed,
    IntervalElapsed,
    Reading,
    ResetRequested,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy
from edge_tvbo.setup import bug_report, redaction
from edge_tvbo.setup.bug_report import PACKAGES


def report(path, check):
    """Return the report that `edge-tvbo report` prints."""
    return bug_report.report(path, check, FileStore, HistoryReader)


CONFIG = """\
instance = "lab"
[mqtt]
host = "broker.smith-family.example"
username = "bob.smith"
password_file = "secrets/mqtt.pw"
client_id = "bobs-gateway"
[metrics]
port = 9464
[fields.heat]
unit = "°C"
interval = "10min"
sensors = ["hall", "attic"]
reading = { topic = "home/{sensor}/t", payload = "json", value = "t" }
policy = { name = "et-gp-ucb", delta_b = 0.1 }
kernel = { name = "se", length_scale = 6, variance = 12.0, noise_variance = 0.05, mean = 21 }
positions = { hall = [0, 0], attic = [1, 2.5] }
"""
SECRETS = (
    "broker.smith-family.example",
    "smith",
    "bob",
    "hunter2-from-the-file",
    "mqtt.pw",
)


def made(tmp_path, text=CONFIG, password="hunter2-from-the-file\n"):
    directory = tmp_path / "home-of-bob"
    (directory / "secrets").mkdir(parents=True)
    (directory / "secrets" / "mqtt.pw").write_text(password)
    path = directory / "edge.toml"
    path.write_text(text)
    result = CliRunner().invoke(main, ["report", str(path)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_report_has_versions_settings_findings_and_files(tmp_path):
    text = made(tmp_path)

    for package in PACKAGES:
        assert f"    {package} " in text
    assert "Python 3." in text
    assert 'fields.heat.sensors = ["hall","attic"]' in text
    assert 'fields.heat.reading.topic = "home/{sensor}/t"' in text
    assert "fields.heat.policy.delta_b = 0.1" in text
    assert 'fields.heat.positions = {"hall":[0,0],"attic":[1,2.5]}' in text
    assert "metrics.port = 9464" in text
    assert "none: the configuration is valid" in text
    assert "mqtt.password_file: a file, readable, writable" in text
    assert "mqtt.password_file = ***" in text


def test_the_report_contains_no_secret_host_user_or_directory(tmp_path):
    text = made(tmp_path)

    for secret in (*SECRETS, str(tmp_path), "home-of-bob"):
        assert secret not in text, secret
    for name in (socket.gethostname(), getpass.getuser()):
        assert not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), name
    assert "mqtt.host = ***" in text


def test_a_login_under_a_deprecated_name_is_kept_too(tmp_path):
    login = '[mqtt.visitor]\nusername = "watcher-of-bob"\npassword_file = "secrets/mqtt.pw"\n'
    text = made(tmp_path, CONFIG.replace("[metrics]", login + "[metrics]"))

    for secret in (*SECRETS, "watcher-of-bob"):
        assert secret not in text, secret
    assert "mqtt.readonly.password_file: a file, readable, writable" in text


BROKEN = [
    ('passwd = "hunter2"', "mqtt.passwd is not a setting"),
    ('password = "hunter2"', "password"),
    ('port = "hunter2"', "mqtt.port is"),
    ("password = 987654321", "mqtt.password"),
    ('host = "mqtt://alice:hunter2@broker.lan:1883"', "mqtt.host is"),
    ('tls = { ca = "/home/alice/hunter2.pem", server_name = "broker.lan" }', "tls"),
    ('hunter2 = { deep = ["alice", { x = "broker.lan" }] }', "is not a setting"),
    ('keepalive = "hunter2"', "mqtt.keepalive is"),
    ('reconnect = { min = "hunter2" }', "mqtt.reconnect.min is"),
    ('reconnect = "hunter2"', "mqtt.reconnect is"),
]


@pytest.mark.parametrize(("line", "says"), BROKEN)
def test_a_secret_in_an_invalid_setting_is_redacted(tmp_path, line, says):
    name = line.partition(" = ")[0]
    kept = [each for each in CONFIG.splitlines() if not each.startswith(name + " =")]
    at = kept.index("[mqtt]") + 1
    text = made(tmp_path, "\n".join([*kept[:at], line, *kept[at:]]))

    assert says in text
    for secret in ('"hunter2', "hunter2@", "alice", "broker.lan", "987654321", *SECRETS):
        assert secret not in text, (secret, text)


KEY = "k3y/AbC" * 13  # longer than an error message shows


@pytest.mark.parametrize(
    ("table", "setting", "secret"),
    [
        ("mqtt", f'password_file = "{KEY}"', KEY[:20]),
        ("mqtt", f'version = "{KEY}"', "AbC"),
        ("metrics", f'token_file = "{KEY}"', KEY[:20]),
        ("mqtt", "password_file = 'pa\\ss\"wd'", "pa\\"),
        ("mqtt", "version = 'pa\\ss\"wd'", "pa\\"),
        ("mqtt", "password_file = 987654321", "987654321"),
        ("mqtt", "username = 4711", "4711"),
    ],
)
def test_a_secret_that_an_error_message_shortens_or_escapes_is_redacted(
    tmp_path, monkeypatch, table, setting, secret
):
    monkeypatch.chdir(tmp_path)
    name = setting.partition(" = ")[0]
    kept = [each for each in CONFIG.splitlines() if not each.startswith(name + " =")]
    at = kept.index(f"[{table}]") + 1
    text = made(Path(), "\n".join([*kept[:at], setting, *kept[at:]]))

    assert f"{table}.{name}" in text
    assert secret not in text


def test_a_password_file_with_a_byte_order_mark_is_redacted(tmp_path):
    text = made(tmp_path, CONFIG.replace("[0, 0]", '"hunter3"'), "\ufeffhunter3\n")

    assert "fields.heat.positions" in text
    assert "hunter3" not in text


def test_a_hidden_number_of_any_size_can_be_reported(tmp_path):
    text = made(tmp_path, CONFIG.replace('username = "bob.smith"', f"username = 0x{'f' * 9000}"))

    assert "mqtt.username is ***" in text


@pytest.mark.parametrize(
    "text",
    [
        '[mqtt]\npassword = "hunter2\nhost = "broker.lan"\n',
        "[mqtt]\npassword = hunter2\n",
        "hunter2\n",
        'x = "hunter2"\nx = "hunter2"\n',
        "a = " + "[" * 5000,
        "\x00\x01hunter2",
    ],
)
def test_a_file_that_is_not_toml_is_not_shown(tmp_path, text):
    said = made(tmp_path, text)

    assert "is not valid TOML" in said
    assert "hunter2" not in said
    assert "broker.lan" not in said


PRIVATE_LINES = [
    (
        'activate = { mode = "live", topic = "home/{sensor}/go", payload = "Bearer s3cr3t" }',
        "fields.heat.activate.payload",
        ("Bearer", "s3cr3t"),
    ),
    (
        'names = { hall = "Alice Smith bedroom" }',
        "fields.heat.names",
        ("Alice", "Smith", "bedroom"),
    ),
    (
        'energy.battery = { topic = "b/{sensor}", payload = "json", api = "s3cr3t" }',
        "fields.heat.energy.battery.api",
        ("s3cr3t",),
    ),
]


@pytest.mark.parametrize(("line", "key", "secrets"), PRIVATE_LINES)
def test_a_setting_that_is_not_listed_as_public_is_redacted(tmp_path, line, key, secrets):
    text = made(tmp_path, CONFIG.replace('unit = "°C"', f'unit = "°C"\n{line}'))

    assert f"{key} = ***" in text
    for secret in secrets:
        assert secret not in text, secret
    assert 'fields.heat.sensors = ["hall","attic"]' in text


def test_an_unknown_option_of_a_payload_is_redacted(tmp_path):
    text = made(tmp_path, CONFIG.replace('value = "t" }', 'value = "t", api_key = "s3cr3t" }'))

    assert "fields.heat.reading.api_key = ***" in text
    assert 'fields.heat.reading.value = "t"' in text
    assert "s3cr3t" not in text


def test_a_hidden_value_that_occurs_everywhere_leaves_the_report_readable(tmp_path):
    go = 'activate = { mode = "live", topic = "home/{sensor}/go", payload = "1 heat hall topic" }'
    text = made(tmp_path, CONFIG.replace('unit = "°C"', f'unit = "°C"\n{go}'))

    assert 'fields.heat.activate.topic = "home/{sensor}/go"' in text
    assert "fields.heat.policy.delta_b = 0.1" in text
    assert 'fields.heat.positions = {"hall":[0,0],"attic":[1,2.5]}' in text


def test_every_public_setting_exists():
    """A renamed setting must not stay in the list of what a report shows."""
    shown = set(redaction.PUBLIC_TEXTS)

    def keys(kind):
        for name, setting in settings_of(kind).items():
            yield f"{kind.__name__}.{name}"
            if inner := setting.named[1] if setting.named else setting.table:
                yield from keys(inner)
            if is_struct(setting.items):
                yield from keys(setting.items)

    assert shown <= set(keys(Settings))


def test_a_value_is_checked_as_often_with_many_texts_as_with_one(monkeypatch):
    checked = []
    is_valid = redaction._is_valid

    def counted(setting, value):
        checked.append(setting.name)
        return is_valid(setting, value)

    monkeypatch.setattr(redaction, "_is_valid", counted)

    def checks(count):
        checked.clear()
        names = {f"s{index}": f"Küche {index}" for index in range(count)}
        words = redaction.private_values({"fields": {"heat": {"names": names}}}, Path("/etc"))
        assert set(names.values()) <= set(words)
        return len(checked)

    assert checks(1) == checks(50) > 0


private_words = st.sampled_from(["ab", "b.a", "é", "a\\", "a-b"])
texts = st.lists(private_words | st.sampled_from(["-", " ", "b", "_"])).map("".join)


@given(texts, st.lists(private_words))
def test_a_word_is_redacted_where_no_letter_or_hyphen_adjoins_it(text, words):
    expected = text
    for word in sorted(set(words), key=len, reverse=True):
        expected = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", redaction.HIDDEN, expected)

    assert redaction.redact(text, words) == expected


@pytest.mark.parametrize("depth", [100, 300, 480])
def test_a_deeply_nested_value_is_redacted(tmp_path, depth):
    said = made(tmp_path, "a = " + depth * "[" + '"hunter2"' + depth * "]")

    assert "## Last crash" in said
    assert "hunter2" not in said


def test_a_missing_file_is_reported(tmp_path):
    text = CliRunner().invoke(main, ["report", str(tmp_path / "none.toml")]).output

    assert "there is no such file" in text
    assert "the configuration: does not exist" in text


def test_an_exception_in_check_is_reported_by_module_and_line_without_its_path(tmp_path):
    path = tmp_path / "edge.toml"
    path.write_text(CONFIG)

    def broken(path):
        raise RuntimeError(f"cannot log in as bob.smith at {path}")

    text = report(path, broken)

    assert "RuntimeError: cannot log in as ***" in text
    assert "at test_bug_report.py:" in text
    assert "bob.smith" not in text
    assert str(tmp_path) not in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_the_report_shows_a_file_without_write_permission(tmp_path):
    path = tmp_path / "edge.toml"
    path.write_text(CONFIG)
    path.chmod(0o400)

    assert "the configuration: a file, readable, not writable" in report(path, lambda path: None)


# --- stored state ---------------------------------------------------------------------------------

STATEFUL = CONFIG.replace("[metrics]", '[state]\ndir = "state"\n[metrics]')
KEPT_AT = 1_795_248_000.0  # 2026-11-21T08:00:00Z


def kept(directory, name="edge", *, intervals=3, damage=None, fields=("heat",), undelivered=False):
    """Store the state of a daemon after a time-out, a late reading and a reset."""
    field = SensorField(("hall", "attic"), np.eye(2), 0.01, unit="°C", center=20.0, scale=2.0)
    controller = Controller(
        make_policy("et-gp-ucb", field), controller_settings(reply_timeout=20.0, max_age=60)
    )
    for number in range(intervals):
        at = KEPT_AT + 600.0 * number
        chosen = next(
            each.sensor
            for each in controller.handle(IntervalElapsed(at))
            if isinstance(each, Activate)
        )
        if number == 1:
            if undelivered:
                controller.handle(ActivationUndelivered(chosen, number, left=True))
            controller.handle(DeadlineElapsed(number, at + 20.0))
        else:
            controller.handle(Reading(chosen, 20.0, at + 1.0, at + 1.0))
    controller.handle(Reading("hall", 20.0, KEPT_AT - 9000.0, KEPT_AT))
    for _ in range(2):
        controller.handle(Reading("cellar", 20.0, KEPT_AT, KEPT_AT))
    controller.handle(ResetRequested(KEPT_AT))
    one = FieldCheckpoint(controller.snapshot(), intervals - 1, 9, every=600.0, next_in=0.0)
    anchor = Anchor(KEPT_AT, 1.0, "")
    data = encode(Document(anchor, final=False, fields=dict.fromkeys(fields, one)))
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.state").write_bytes(damage(data) if damage else data)


COUNTED = (
    "    heat: interval 2; 2 replies, 1 timed out; 1 reset, "
    "the last reset at 2026-11-21T08:00:00Z; rejected: 2 unknown-sensor, 1 late\n"
)


@pytest.fixture
def stateful(tmp_path):
    """Return the path of a configuration that stores state."""
    path = tmp_path / "edge.toml"
    path.write_text(STATEFUL.replace('instance = "lab"\n', ""))
    return path


def part(path, title):
    """Return one part of the report."""
    found = re.search(
        rf"^## {title}\n\n((?s:.*?))\n(?=## |\Z)", report(path, lambda path: None), re.M
    )
    return found[1].rstrip("\n") + "\n"


def test_counters_are_read_from_the_stored_state(stateful):
    kept(stateful.parent / "state")

    assert (
        part(stateful, "Counters")
        == "    stored at 2026-11-21T08:00:00Z, while the daemon ran\n" + COUNTED
    )


def test_activations_that_were_not_delivered_are_counted(stateful):
    kept(stateful.parent / "state", undelivered=True)

    assert COUNTED.replace("1 timed out", "0 timed out, 1 not delivered") in part(
        stateful, "Counters"
    )


def test_a_field_without_state_and_a_state_without_field_are_reported(stateful):
    kept(stateful.parent / "state", fields=("hot",))

    said = part(stateful, "Counters")

    assert "    heat: no stored state\n" in said
    assert COUNTED.replace("heat:", "hot (not in the configuration):") in said


def test_counters_without_a_stored_state_say_why(stateful, tmp_path):
    assert "no readable stored state was found" in part(stateful, "Counters")
    stateless = tmp_path / "other.toml"
    stateless.write_text(CONFIG)
    assert "no stored state is known: [state] dir is not set" in part(stateless, "Counters")
    stateless.write_text(f'{CONFIG}\n[state]\ndir = "state')  # without the closing quote
    assert "the configuration contains no readable setting" in part(stateless, "Counters")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:40], "less than a header"),
        (lambda data: data[:-9] + b"hunter2!!", "the checksum does not match"),
        (lambda data: b"", "0 bytes"),
    ],
)
def test_a_damaged_state_is_reported_and_the_previous_one_read(stateful, damage, words):
    state = stateful.parent / "state"
    kept(state)
    (state / "edge.state").rename(state / "edge.state.previous")
    kept(state, intervals=9, damage=damage)

    said = part(stateful, "Counters")

    assert words in said.splitlines()[0]
    assert "edge.state cannot be read" in said.splitlines()[0]
    assert COUNTED in said


def test_a_damaged_snapshot_of_one_field_leaves_the_others_readable(stateful):
    kept(stateful.parent / "state", fields=("cold", "heat"))
    path = stateful.parent / "state" / "edge.state"
    document = decode(path.read_bytes())
    fields = {**document.fields, "cold": replace(document.fields["cold"], controller=b"\xc1")}
    path.write_bytes(encode(replace(document, fields=fields)))

    said = part(stateful, "Counters")

    assert re.search(
        r"cold .*: the stored state cannot be read: The snapshot cannot be decoded", said
    )
    assert COUNTED in said


def test_a_state_without_a_reset_count_is_read(stateful):
    kept(stateful.parent / "state")
    path = stateful.parent / "state" / "edge.state"
    document = decode(path.read_bytes())
    blob = msgspec.msgpack.decode(document.fields["heat"].controller)
    del blob[3]["resets"]
    old = replace(document.fields["heat"], controller=msgspec.msgpack.encode(blob))
    path.write_bytes(encode(replace(document, fields={"heat": old})))

    assert "1 timed out; resets not counted, the last reset at" in part(stateful, "Counters")


def test_environment_variables_decide_where_the_state_is_read(stateful, monkeypatch):
    kept(stateful.parent / "elsewhere", "k")
    monkeypatch.setenv("EDGE_TVBO__STATE__DIR", "elsewhere")
    monkeypatch.setenv("EDGE_TVBO__INSTANCE", "k")
    monkeypatch.setenv("EDGE_TVBO__MQTT__PASSWORD", "correct-horse")
    (stateful.parent / "elsewhere" / "k.last-crash.txt").write_text("ValueError: correct-horse\n")

    assert COUNTED in part(stateful, "Counters")
    assert part(stateful, "Last crash") == "    ValueError: ***\n"
    assert "state.dir: a directory, readable, writable\n" in part(stateful, "Files")
    names = "EDGE_TVBO__INSTANCE, EDGE_TVBO__MQTT__PASSWORD, EDGE_TVBO__STATE__DIR"
    assert f"settings from the environment: {names}\n" in part(stateful, "Environment")


# --- last decisions -------------------------------------------------------------------------------


def decided(number, sensor="hall"):
    """Return the commands of an interval: its decision and its record."""
    decision = history_entry(number).decision
    decision = replace(decision, sensor=sensor, text=f"{sensor}: its turn")
    record = Record(number, 0.0, sensor, Ending.ANSWERED, 21.5, None, None, False)
    return PublishState(decision), record


def crash(directory, numbers, words="it broke", name="edge"):
    """Log decisions in these intervals, followed by a crash."""
    recent = DecisionLog()
    with pytest.raises(RuntimeError), crash_logging(str(directory), name, recent):
        for number in numbers:
            for command in decided(number):
                recent.update("heat", command)
        raise RuntimeError(words)


def test_without_a_history_the_decisions_before_the_last_crash_are_shown(stateful):
    crash(stateful.parent / "state", range(100, 170))

    said = part(stateful, "Last decisions").splitlines()

    assert "there is no history" in said[0]
    assert re.search(r"last decisions before the crash; the crash is shown below", "\n".join(said))
    decisions = [line for line in said if line.startswith("    heat ")]
    assert [int(line.split()[1]) for line in decisions] == list(range(120, 170))
    assert decisions[-1].endswith("hall: its turn; replied 21.5 °C")
    last = part(stateful, "Last crash")
    assert "RuntimeError: it broke" in last
    assert "its turn" not in last


def test_repeated_crashes_keep_the_decisions_before_the_first(stateful):
    crash(stateful.parent / "state", range(10))
    crash(stateful.parent / "state", [])
    crash(stateful.parent / "state", [10], "it broke\n\nThe last decisions:\nheat 99 nothing")

    said = part(stateful, "Last decisions")

    assert [int(each) for each in re.findall(r"^    heat (\d+) ", said, re.M)] == list(range(11))
    assert "heat 99 nothing" in part(stateful, "Last crash")


def test_a_crash_file_that_cannot_be_read_is_not_taken_for_no_crash(stateful):
    (stateful.parent / "state" / "edge.last-crash.txt").mkdir(parents=True)

    assert "the crash file: a directory" in part(stateful, "Last crash")
    said = part(stateful, "Last decisions")
    assert "the crash file: a directory" in said
    assert "no decision and no crash is recorded" not in said


def test_decisions_are_read_from_the_history(stateful):
    state = stateful.parent / "state"
    crash(state, range(5))
    with closing(HistoryDatabase(str(state), "edge", 16 * 2**20)) as history:
        history.store([history_entry(number, "heat") for number in range(60)])

    said = part(stateful, "Last decisions")

    assert [int(each) for each in re.findall(r"^    heat (\d+) ", said, re.M)] == list(
        range(10, 60)
    )


def test_without_crash_and_history_the_setting_to_add_is_printed(stateful):
    said = part(stateful, "Last decisions")

    assert 'history = "64MiB"' in said
    assert "no decision and no crash is recorded" in said


@pytest.mark.acceptance(25)
def test_stored_state_and_crash_log_reveal_no_secret(tmp_path):
    directory = tmp_path / "home-of-bob"
    kept(tmp_path / "state", "lab")
    user, host = getpass.getuser(), socket.gethostname()
    said = f"{user} of {host} logs in as bob.smith with hunter2-from-the-file at {directory}"
    directory.mkdir()
    (tmp_path / "state").rename(directory / "state")
    crash(directory / "state", [1], said, "lab")

    text = made(tmp_path, STATEFUL)

    assert COUNTED in text
    assert "RuntimeError: *** of *** logs in as *** with *** at ***" in text
    for secret in (*SECRETS, str(tmp_path), "home-of-bob"):
        assert secret not in text, secret


def test_an_exception_in_one_part_leaves_the_other_parts(stateful, monkeypatch):
    def broken(data):
        raise ZeroDivisionError(f"in {stateful}")

    kept(stateful.parent / "state")
    monkeypatch.setattr("edge_tvbo.daemon.checkpoint_document.decode", broken)
    text = report(stateful, lambda path: None)

    assert "ZeroDivisionError: in ***" in text
    assert "at test_bug_report.py:" in text
    assert "## Last crash\n\n    none is recorded" in text
