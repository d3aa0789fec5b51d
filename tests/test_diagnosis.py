"""A report is fit for the public: it helps, and no secret, host, name or path is in it."""

import getpass
import os
import re
import socket

import pytest
from click.testing import CliRunner

from edge_tvbo.cli import main
from edge_tvbo.diagnosis import PACKAGES, report

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


def test_it_says_what_a_developer_asks_first(tmp_path):
    text = made(tmp_path)

    for package in PACKAGES:
        assert f"    {package} " in text
    assert "Python 3." in text
    assert 'fields.heat.sensors = ["hall","attic"]' in text
    assert 'fields.heat.reading.topic = "home/{sensor}/t"' in text
    assert "fields.heat.policy.delta_b = 0.1" in text
    assert 'fields.heat.positions = {"hall":[0,0],"attic":[1,2.5]}' in text
    assert "metrics.port = 9464" in text
    assert "none: the configuration is good" in text
    assert "mqtt.password_file: a file, readable, writable" in text
    assert "mqtt.password_file = ***" in text


def test_no_secret_host_user_or_directory_is_in_it(tmp_path):
    text = made(tmp_path)

    for secret in (*SECRETS, str(tmp_path), "home-of-bob"):
        assert secret not in text, secret
    for name in (socket.gethostname(), getpass.getuser()):
        assert not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), name
    assert "mqtt.host = ***" in text


BROKEN = [
    ('passwd = "hunter2"', "mqtt.passwd is not a setting"),
    ('password = "hunter2"', "password"),
    ('port = "hunter2"', "mqtt.port is"),
    ("password = 72", "mqtt.password"),
    ('host = "mqtt://alice:hunter2@broker.lan:1883"', "mqtt.host is"),
    ('tls = { ca = "/home/alice/hunter2.pem", server_name = "broker.lan" }', "tls"),
    ('hunter2 = { deep = ["alice", { x = "broker.lan" }] }', "is not a setting"),
    ('keepalive = "hunter2"', "mqtt.keepalive is"),
    ('reconnect = { min = "hunter2" }', "mqtt.reconnect.min is"),
    ('reconnect = "hunter2"', "mqtt.reconnect is"),
]


@pytest.mark.parametrize(("line", "says"), BROKEN)
def test_a_secret_in_the_wrong_place_is_kept_too(tmp_path, line, says):
    name = line.partition(" = ")[0]
    kept = [each for each in CONFIG.splitlines() if not each.startswith(name + " =")]
    at = kept.index("[mqtt]") + 1
    text = made(tmp_path, "\n".join([*kept[:at], line, *kept[at:]]))

    assert says in text
    for secret in ('"hunter2', "hunter2@", "alice", "broker.lan", " 72", *SECRETS):
        assert secret not in text, (secret, text)


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
def test_what_is_not_toml_is_not_shown_at_all(tmp_path, text):
    said = made(tmp_path, text)

    assert "cannot be read as TOML" in said
    assert "hunter2" not in said
    assert "broker.lan" not in said


def test_without_a_file_there_is_a_report_all_the_same(tmp_path):
    text = CliRunner().invoke(main, ["report", str(tmp_path / "none.toml")]).output

    assert "there is no such file" in text
    assert "the configuration: is not there" in text


def test_a_bug_while_checking_is_reported_by_its_place_and_not_by_its_path(tmp_path):
    path = tmp_path / "edge.toml"
    path.write_text(CONFIG)

    def broken(path):
        raise RuntimeError(f"cannot log in as bob.smith at {path}")

    text = report(path, broken)

    assert "RuntimeError: cannot log in as ***" in text
    assert "at test_diagnosis.py:" in text
    assert "bob.smith" not in text
    assert str(tmp_path) not in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_what_cannot_be_written_is_said(tmp_path):
    path = tmp_path / "edge.toml"
    path.write_text(CONFIG)
    path.chmod(0o400)

    assert "the configuration: a file, readable, not writable" in report(path, lambda path: None)
