"""The messages that docs/errors.md quotes are those that the program prints."""

import re

import pytest
from click.testing import CliRunner
from support.pages import FENCED, sections
from support.paths import DOCS

from edge_tvbo.cli import main

QUOTES = {
    heading[:4]: FENCED.search(body)[2].strip()
    for heading, body in sections((DOCS / "errors.md").read_text("utf-8"), 2).items()
}
GOOD = """\
[mqtt]
host = "broker.lan"
[fields.hall]
interval = "10min"
kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }
sensors = ["a", "b"]
reading = { topic = "hall/{sensor}" }
"""
WRONG = {  # what is replaced in the valid configuration
    "E102": ('interval = "10min"', "interval = ten"),
    "E103": ('host = "broker.lan"', 'passwd = "x"'),
    "E104": ('interval = "10min"\n', ""),
    "E105": ("hall/{sensor}", "#/x"),
    "E106": ('host = "broker.lan"', 'password_file = "secret"\npassword = "x"'),
    "E107": (re.search("kernel.*", GOOD)[0], 'model = "lab.model.json"'),
    "E108": ('["a", "b"]', '["a", "a"]'),
    "E109": ("kernel", 'policy = { name = "et-gp-ubc" }\nkernel'),
    "E110": ('host = "broker.lan"', 'password = "${MQTT_PASSWORD}"'),
}


def printed_by(*arguments):
    """Return what a command prints, on both streams."""
    return CliRunner().invoke(main, arguments).output


def pattern_of(quote):
    """Return the pattern of a quoted message, in which "..." and positions may differ."""
    pattern = re.escape(quote).replace(re.escape("..."), ".*")
    return re.sub(r":\d+:\d+:", r":\\d+:\\d+:", pattern)


@pytest.mark.parametrize("code", WRONG)
def test_a_quoted_message_about_a_configuration_is_printed(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MQTT_PASSWORD", raising=False)
    before, after = WRONG[code]
    assert before in GOOD
    (tmp_path / "secret").write_text("x")
    (tmp_path / "my.toml").write_text(GOOD.replace(before, after, 1))

    printed = printed_by("check", "my.toml")

    assert re.search(pattern_of(QUOTES[code]), printed), printed


def test_the_quoted_message_about_a_missing_configuration_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert QUOTES["E101"] in printed_by("check", "my.toml")


def test_the_quoted_message_about_an_existing_file_is_printed(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(GOOD)
    options = ["--sensor", "a", "--topic", "hall/{sensor}"]

    printed = printed_by("init", str(path), *options)

    assert QUOTES["E100"].replace("/home/me/my.toml", str(path)) in printed


def test_the_quoted_message_about_missing_days_is_printed():
    days = "2026-03-02:2026-03-09"

    assert QUOTES["E200"] in printed_by("replay", "--train", days)
