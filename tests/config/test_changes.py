"""Changes of a configuration: a reload names the changed settings and sensors, without values."""

import pytest

from edge_tvbo.cli.settings import settings_of
from edge_tvbo.config.changes import changes

CONFIG = """\
instance = "lab"
[mqtt]
host = "127.0.0.1"
username = "edge"
password = "secret"
[fields.lab]
interval = "10min"
reply_timeout = "1min"
kernel = { name = "se", length_scale = 6.0, variance = 4.0, noise_variance = 0.04, mean = 20 }
names = { a = "Hall" }
sensors = ["a", "b"]
positions = { a = [0, 0], b = [1, 1] }
policy = { name = "et-gp-ucb", delta_b = 0.1 }
reading = { topic = "lab/{sensor}/t", payload = "json", value = "t" }
activate = { topic = "lab/{sensor}/go" }
"""


@pytest.fixture
def changed(tmp_path):
    """Return a function that replaces texts in a configuration, and returns the changes."""

    def change(*replacements):
        text, settings = CONFIG, []
        for old, new in (("", ""), *replacements):
            assert old in text
            text = text.replace(old, new, 1)
        for index, each in enumerate((CONFIG, text)):
            path = tmp_path / f"{index}.toml"
            path.write_text(each)
            settings.append(settings_of(path))
        return list(changes(*settings))

    return change


def test_an_unchanged_configuration_has_no_changes(changed):
    assert changed() == []


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"10min"', '"20min"', "changed settings: interval, max_age"),  # its default
        ("delta_b = 0.1", "delta_b = 0.2", "changed settings: policy.delta_b"),
        ('"et-gp-ucb", delta_b = 0.1', '"auto"', "changed settings: policy"),
        ('value = "t"', 'value = "u"', "changed settings: reading.value"),
        ('"a", "b"', '"b", "a"', "changed settings: sensors"),
        ('"Hall"', '"Attic"', "renamed sensors: Hall to Attic"),
        ('names = { a = "Hall" }\n', "", "renamed sensors: Hall to a"),
    ],
)
def test_a_change_of_a_field_is_named(old, new, text, changed):
    assert changed((old, new)) == [f"the field lab: {text}"]


def test_added_and_removed_sensors_are_named(changed):
    replaced = changed(('"b"]', '"c"]'), ("b = [1, 1]", "c = [1, 1]"))
    text = "changed settings: positions; added sensors: c; removed sensors: b"
    assert replaced == [f"the field lab: {text}"]


def test_changes_of_the_daemon_are_named_without_secrets(changed):
    (text,) = changed(("127.0.0.1", "127.0.0.2"), ("secret", "other"))
    assert text == "changed settings of the daemon: mqtt.host, mqtt.password"


def test_changes_of_an_added_field_have_no_text(changed):
    start = CONFIG.index("[fields.lab]")
    field = CONFIG[start:].replace("fields.lab", "fields.hall").replace("lab/", "hall/")
    assert changed((CONFIG[start:], CONFIG[start:] + field)) == []
