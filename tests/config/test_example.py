"""The example configuration: each value that it shows is the default, except what it names."""

import re

import pytest
from support.paths import DEPLOY

from edge_tvbo.cli.settings import settings_of

LINES = (DEPLOY / "config.example.toml").read_text("utf-8").splitlines()
TABLE = re.compile(r"(?:# )?\[([a-z_.]+)\](?: +#|$)")
SETTING = re.compile(r"(?:# )?([a-z_]+) = ")
NO_DEFAULTS = {  # names, addresses and files, the description of the sensors, and marked lines
    "instance",
    "mqtt.username",
    "mqtt.password_file",
    "mqtt.readonly",
    "mqtt.silence",
    "mqtt.tls.ca",
    "mqtt.tls.certificate",
    "mqtt.tls.key",
    "state.history",
    "log.mqtt",
    "metrics.port",
    "metrics.allow_hosts",
    "metrics.token_file",
    "fields.temperature.unit",
    "fields.temperature.interval",
    "fields.temperature.kernel",
    "fields.temperature.sensors",
    "fields.temperature.reading",
    "fields.temperature.activate",
}
MARKED = {  # of these, the settings whose line names the default
    "instance",
    "mqtt.silence",
    "mqtt.tls.ca",
    "state.history",
    "log.mqtt",
    "metrics.port",
}


def lines_by_key():
    """Return the number of the line with each setting of the example, and that of its table."""
    found, table, table_at = {}, "", None
    for number, line in enumerate(LINES):
        if match := TABLE.match(line):
            table, table_at = f"{match[1]}.", number
        elif match := SETTING.match(line):
            found.setdefault(table + match[1], (number, table_at))  # later: an alternative
    return found


PLACES = lines_by_key()


def settings_with(lines, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("\n".join(lines), "utf-8")
    return settings_of(path)


@pytest.mark.parametrize("key", sorted(PLACES.keys() - NO_DEFAULTS))
def test_a_value_in_the_example_is_the_default(key, tmp_path):
    """A setting that is commented out is read as if it was not, together with its table."""
    number, table_at = PLACES[key]
    lines = list(LINES)
    for each in (number, table_at):
        if each is not None:
            lines[each] = lines[each].removeprefix("# ")
    shown = settings_with(lines, tmp_path)
    lines[number] = ""
    assert shown == settings_with(lines, tmp_path)


def test_a_value_that_could_be_mistaken_for_the_default_names_the_default():
    assert PLACES.keys() >= NO_DEFAULTS >= MARKED
    assert {key for key, (number, _) in PLACES.items() if "default: " in LINES[number]} == MARKED
