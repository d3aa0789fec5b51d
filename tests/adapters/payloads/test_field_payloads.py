"""Examples of docs/sensors.md: each is a valid configuration and does what the page says."""

import inspect
import json
import re
import tomllib

import pytest
from edge_tvbo_adapters.mqtt.publisher import activations
from edge_tvbo_adapters.mqtt.topics import Template, activation_payload
from edge_tvbo_adapters.payloads import formats as payloads
from edge_tvbo_adapters.payloads.decode import check_settings
from edge_tvbo_adapters.payloads.field_payloads import activation, reading_codec
from edge_tvbo_adapters.payloads.formats import FORMATS, all_presets, make_codec
from support.paths import DOCS
from support.recorded import MESSAGES

from edge_tvbo.config import loader
from edge_tvbo.config.field_settings import DEFAULT_VALUES
from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.commands import Activate

PAGE = (DOCS / "sensors.md").read_text("utf-8")
LINES = [tomllib.loads(each) for each in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)]
LINES = [each.get("fields", {}).get("temperature", each) for each in LINES]  # or a field's lines
FIELD = {
    "interval": "30min",
    "kernel": {"name": "se", "length_scale": 6, "variance": 4, "noise_variance": 0.04, "mean": 20},
    "positions": {"hall": [0, 0], "attic": [5, 0]},
    "sensors": ["hall", "attic"],
    "reading": {"topic": "lab/{sensor}/t"},
}


def toml(value):
    """Return a value as TOML, on one line."""
    match value:
        case dict():
            pairs = (f"{json.dumps(key)} = {toml(each)}" for key, each in value.items())
            return f"{{ {', '.join(pairs)} }}"
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case _:
            return json.dumps(value)


def loaded(directory, *fields):
    """Return the settings of fields, each of which is `FIELD` with changes."""
    tables = {f"f{i}": FIELD | each for i, each in enumerate(fields)}
    for table in tables.values():
        if "readings" in table:
            del table["reading"]
    path = directory / "edge.toml"
    path.write_text(f"fields = {toml(tables)}")
    return list(loader.load(path, FORMATS).fields.values())


@pytest.mark.parametrize("lines", LINES, ids=lambda each: str(each)[:70])
def test_each_example_of_the_page_is_a_valid_configuration(tmp_path, lines):
    (field,) = loaded(tmp_path, lines)
    advises = lines.get("activate", {}).get("mode", "advise") == "advise"
    for index, source in enumerate(field.sources):
        name = field.names.get(source.sensors[0], source.sensors[0])
        assert Template(source.topic).sensor(source.topic.replace("{sensor}", name)) == name
        assert (activation(field, index) is None) == advises


def test_the_page_says_of_each_integration_what_can_be_polled():
    table = re.search(r"^\| integration \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)[0]
    named = table.lower().replace(" ", "-").replace("-", "")

    assert [each for each in all_presets() if each.replace("-", "") not in named] == []


def test_a_shelly_replies_to_the_recipe_on_the_topic_of_its_readings(tmp_path):
    (recipe,) = (each for each in LINES if "Temperature.GetStatus" in str(each))
    (field,) = loaded(tmp_path, recipe)

    sent = activation_payload(field, field.activate.payload, Activate("hall", 7, 600.0, 660.0))

    request = json.loads(sent)
    assert Template(field.reading.topic).sensor(f"{request['src']}/rpc") == "hall"
    reply = {"id": 1, "src": "shelly", "dst": request["src"], "result": {"id": 0, "tC": 21.5}}
    assert reading_codec(field)(json.dumps(reply).encode()) == (21.5, None)


def test_the_page_names_every_payload():
    assert [each for each in FORMATS if each not in PAGE] == []
    assert [each for each in all_presets() if f'payload = "{each}"' not in PAGE] == []


def test_a_recorded_message_is_read_by_a_configuration_for_it(tmp_path):
    readings = [
        {"topic": f"x/{{sensor}}/{i}", "payload": each.payload, **each.settings}
        for i, each in enumerate(MESSAGES)
    ]
    found = loaded(tmp_path, *({"reading": each} for each in readings))
    for field, message in zip(found, MESSAGES, strict=True):
        if isinstance(message.expected, tuple):
            assert reading_codec(field)(message.body) == message.expected


@pytest.mark.parametrize(
    ("mode", "payload", "expected"),
    [
        ("live", "number", "1"),
        ("sleepy", "number", '{"seq": 7, "expires_at": 660}'),
        (
            "lorawan",
            "the-things-stack",
            '{"downlinks": [{"f_port": 1, "frm_payload": "AQ==", "priority": "NORMAL"}]}',
        ),
        (
            "lorawan",
            "chirpstack",
            '{"devEui": "hall", "confirmed": false, "fPort": 1, "data": "AQ=="}',
        ),
    ],
)
def test_each_activation_mode_has_its_own_command(tmp_path, mode, payload, expected):
    (field,) = loaded(
        tmp_path,
        {
            "reading": {"topic": "up/{sensor}", "payload": payload},
            "activate": {"mode": mode, "topic": "to/{sensor}"},
        },
    )
    usual = activation(field)
    assert usual.mode == mode
    assert activations("f0", field)["hall"].topic == "to/hall"
    sent = activation_payload(field, usual.payload, Activate("hall", 7, 600.0, 660.0))
    assert sent == expected


def test_a_configured_payload_is_preferred_to_the_preset(tmp_path):
    activate = {"mode": "lorawan", "topic": "to/{sensor}", "payload": '{"id": "{sensor}"}'}
    for payload in ("number", "the-things-stack"):
        (field,) = loaded(
            tmp_path,
            {"reading": {"topic": "up/{sensor}", "payload": payload}, "activate": activate},
        )
        assert activation(field).payload == '{"id": "{sensor}"}'


def test_lorawan_mode_without_a_downlink_payload_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match=r"fields\.f0\.activate\.payload is missing"):
        loaded(tmp_path, {"activate": {"mode": "lorawan", "topic": "to/{sensor}"}})


def test_each_source_has_the_downlink_of_its_own_network_server(tmp_path):
    sources = [
        {"topic": "a/{sensor}", "payload": "the-things-stack", "sensors": ["hall"]},
        {"topic": "b/{sensor}", "payload": "number"},
    ]
    activate = {"mode": "lorawan", "topic": "to/{sensor}"}
    with pytest.raises(ConfigError, match=r"readings\[1\]\.activate\.payload is missing"):
        loaded(tmp_path, {"readings": sources, "activate": activate})
    sources[1]["activate"] = {"topic": "down/{sensor}", "payload": "1"}

    (field,) = loaded(tmp_path, {"readings": sources, "activate": activate})

    assert "downlinks" in activation(field, 0).payload
    assert activation(field, 1).payload == "1"
    topics = [each.topic for each in activations("f0", field).values()]
    assert topics == ["to/hall", "down/attic"]


def test_every_invalid_source_is_reported(tmp_path):
    wrong = {"payload": "json", "valu": "t", "tim": "ts"}
    sources = [{"topic": "a/{sensor}", "sensors": ["hall"]} | wrong]
    sources.append({"topic": "b/{sensor}", "payload": "number", "value": "t"})

    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, {"readings": sources})

    keys = [each.key for each in raised.value.findings]
    path = "fields.f0.readings"
    assert sorted(keys) == [f"{path}[0].tim", f"{path}[0].valu", f"{path}[1].value"]


def test_an_invalid_value_does_not_make_its_unit_an_error():
    settings = {"valu": "BMP280.Pressure", "unit": "hPa"}

    assert [each.path for each in FORMATS.mistakes("tasmota", settings)] == [("valu",)]


def test_thousands_of_unknown_settings_are_checked_in_no_time():
    """A reload checks them too, and the daemon does nothing else meanwhile."""
    codecs = 0

    def codec(settings):
        nonlocal codecs
        codecs += 1
        check_settings(settings, (), "number")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payloads, "_maker", lambda name: codec)
        found = list(FORMATS.mistakes("number", {f"k{index}": "1" for index in range(10_000)}))

    assert len(found) == payloads.MAX_MISTAKES
    assert codecs < 1000


def test_a_format_that_cannot_be_loaded_is_one_mistake_in_the_mode_lorawan(tmp_path, monkeypatch):
    def fail(name):
        raise ConfigError(f"the payload format {name!r} cannot be loaded.")

    monkeypatch.setattr(payloads, "_maker", fail)
    activate = {"mode": "lorawan", "topic": "to/{sensor}"}

    with pytest.raises(loader.ConfigErrors) as raised:
        loaded(tmp_path, {"reading": {"topic": "up/{sensor}"}, "activate": activate})

    assert [each.key for each in raised.value.findings] == ["fields.f0.reading"]


def test_two_fields_with_one_sleepy_topic_are_a_configuration_error(tmp_path):
    sleepy = {"activate": {"mode": "sleepy", "topic": "to/{sensor}"}}
    other = {"reading": {"topic": "other/{sensor}"}}
    with pytest.raises(loader.ConfigErrors, match=r"fields\.f0 also sends commands to hall"):
        loaded(tmp_path, sleepy, sleepy | other)
    one = {"sensors": ["hall"], "positions": {"hall": [0, 0]}}
    two = {"sensors": ["attic"], "positions": {"attic": [5, 0]}}
    assert len(loaded(tmp_path, sleepy | one, sleepy | other | two)) == 2


def test_the_table_of_default_values_agrees_with_the_codecs():
    found = {}
    for name in FORMATS:
        source = inspect.getsource(inspect.getmodule(make_codec(name, {})))
        if default := re.search(r'settings.get."value", "([^"@]+)"', source):
            found[name] = default[1]

    assert found == DEFAULT_VALUES


@pytest.mark.parametrize(("payload", "value"), DEFAULT_VALUES.items())
def test_a_default_value_that_is_written_out_is_the_same_value(tmp_path, payload, value):
    usual = {"topic": "x/{sensor}", "payload": payload}
    written = usual | {"value": value}
    with pytest.raises(ConfigError, match="from which fields.f0 also reads"):
        loaded(tmp_path, {"reading": usual}, {"reading": written})
    with pytest.raises(ConfigError, match="would be the same value"):
        loaded(tmp_path, {"reading": usual, "energy": {"battery": written}})
    loaded(tmp_path, {"reading": usual}, {"reading": usual | {"value": "a.b"}})
