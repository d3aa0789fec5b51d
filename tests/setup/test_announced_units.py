"""Announced units: discovery messages for Home Assistant, Homie, and JSON with a unit."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edge_tvbo.setup import announced_units
from edge_tvbo.setup.announced_units import AnnouncedUnits

UNIT = {"unit_of_measurement": "°F"}
COMPONENTS = {
    "t": {"value_template": "{{ value_json.temperature }}", **UNIT},
    "h": {"value_template": "{{ value_json.humidity }}", "unit_of_measurement": "%"},
    "bad": 1,
}
HOMIE = {"nodes": {"room": {"properties": {"temperature": {"unit": "°F"}, "x": 1}}, "y": 2}}


def units_of(topic, body):
    units = AnnouncedUnits()
    units.add_message(topic, body if isinstance(body, bytes) else json.dumps(body).encode())
    return units


@pytest.mark.parametrize(
    ("template", "value"),
    [
        (None, None),
        ("{{ value }}", None),
        ("{{ value_json.temperature }}", "temperature"),
        ("{{ value_json['temperature'] }}", "temperature"),
        ("{{ value_json.BME280.Temperature | float | round(1) }}", "BME280.Temperature"),
        ("{{value_json.tempc|is_defined}}", "tempc"),
    ],
)
def test_the_unit_of_a_discovery_message_is_that_of_its_topic_and_value(template, value):
    entity = {"state_topic": "home/hall", **UNIT}
    entity |= {} if template is None else {"value_template": template}

    units = units_of("homeassistant/sensor/hall/temperature/config", entity)

    assert units.unit_at("home/hall", value) == "°F"
    assert units.unit_at("home/hall", "other") is None
    assert units.unit_at("home/attic", value) is None


@pytest.mark.parametrize(
    "template", ["{{ value_json.t * 1.8 + 32 }}", "{{ states('sensor.hall') }}", "{% if a %}", 3]
)
def test_a_template_that_may_change_the_number_states_no_unit(template):
    entity = {"state_topic": "home/hall", "value_template": template, **UNIT}
    assert units_of("homeassistant/sensor/hall/config", entity).unit_at("home/hall", "t") is None


def test_short_keys_of_discovery_messages_are_read():
    entity = {"~": "hall/sensor/heat", "stat_t": "~/state", "unit_of_meas": "°F"}
    units = units_of("homeassistant/sensor/hall/heat/config", entity)
    assert units.unit_at("hall/sensor/heat/state", None) == "°F"


@pytest.mark.parametrize("key", ["components", "cmps"])
def test_a_discovery_message_may_describe_a_whole_device(key):
    units = units_of("homeassistant/device/x/config", {"state_topic": "z/x", key: COMPONENTS})
    assert units.unit_at("z/x", "temperature") == "°F"
    assert units.unit_at("z/x", "humidity") == "%"


def test_the_units_of_homie_are_read():
    assert units_of("homie/h/room/temperature/$unit", "°F".encode()).unit_at(
        "homie/h/room/temperature", None
    ) == ("°F")
    units = units_of("homie/5/h/$description", HOMIE)
    assert units.unit_at("homie/5/h/room/temperature", None) == "°F"


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("unit", "°F"),
        ("temperature_unit", "°F"),
        ("TempUnit", "°F"),
        ("unit_of_measurement", "°F"),
        ("community", None),
        ("unit_id", None),
        ("display_unit", None),
        ("temperature_display_unit", None),
        ("setpoint_unit", None),
        ("displayUnit", None),
        ("pressure_unit", None),
    ],
)
def test_json_may_state_the_unit_of_its_values(key, unit):
    units = units_of("home/hall", {"temperature": 71, "setpoint": 71, key: "F"})
    assert units.unit_beside("home/hall", "temperature") == unit
    assert units.unit_beside("home/hall", "setpoint") is None
    assert units.unit_at("home/hall", "temperature") is None


@pytest.mark.parametrize("order", [1, -1])
def test_json_may_state_a_unit_for_each_of_its_values(order):
    several = {"temp": 71, "temperature_unit": "F", "pressure": 1, "pressureUnit": "hPa"}
    units = units_of(
        "home/hall", dict(list({**several, "unit": "%", "humidity": 1}.items())[::order])
    )
    found = [units.unit_beside("home/hall", each) for each in ("temp", "pressure", "humidity")]
    assert found == ["°F", "hPa", "%"]


def test_a_nested_object_may_state_the_unit_of_its_values():
    body = {
        "temperature": {"value": 71, "unit": "F"},
        "outside": {"temp": 60, "pressure": 30, "pressure_unit": "inHg"},
        "humidity": 40,
        "unit": "%",
    }
    units = units_of("home/hall", body)
    paths = ("temperature.value", "outside.temp", "outside.pressure", "humidity")
    found = [units.unit_beside("home/hall", each) for each in paths]
    assert found == ["°F", None, "inHg", "%"]


def test_each_message_of_a_topic_may_state_the_unit_of_another_value():
    units = AnnouncedUnits()
    for body in ({"temperature": 71, "unit": "F"}, {"humidity": 40, "unit": "%"}):
        units.add_message("home/hall", json.dumps(body).encode())
    found = [units.unit_beside("home/hall", each) for each in ("temperature", "humidity")]
    assert found == ["°F", "%"]


@pytest.mark.parametrize(
    ("announced", "unit"),
    [
        *((each, "°C") for each in ("C", "°C", "°c", "degC", "deg C", "Celsius", "degrees C", "℃")),
        *((each, "°F") for each in ("F", "°f", "degF", "fahrenheit", "Degrees Fahrenheit")),
        *(("kelvin", "K"), ("K", "K"), ("%RH", "%"), ("% r.h.", "%"), ("mW", "mW"), ("", "")),
    ],
)
def test_units_are_read_in_every_spelling(announced, unit):
    units = units_of("home/hall/heat/$unit", announced.encode())
    assert units.unit_at("home/hall/heat", None) == unit


def test_messages_that_contradict_each_other_announce_no_unit():
    """An old message, for an entity that does not exist any more, may be retained."""
    units, entity = AnnouncedUnits(), {"state_topic": "home/hall"}

    def announce(name, unit):
        body = json.dumps(entity | {"unit_of_measurement": unit}).encode()
        units.add_message(f"homeassistant/sensor/{name}/config", body)
        return units.unit_at("home/hall", None)

    assert [announce("old", "°F"), announce("new", "°C"), announce("old", "°C")] == [
        "°F",
        None,
        "°C",
    ]


def test_two_entities_of_a_device_may_contradict_each_other():
    parts = {"a": {**UNIT}, "b": {"unit_of_measurement": "°C"}}
    units = units_of(
        "homeassistant/device/x/config", {"state_topic": "home/hall", "components": parts}
    )
    assert units.unit_at("home/hall", None) is None


objects = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.dictionaries(
        st.sampled_from(["nodes", "properties", "unit", "components", "state_topic", "~", "a"]),
        inner,
    ),
)


def test_the_memory_for_units_is_bounded(monkeypatch):
    monkeypatch.setattr(announced_units, "MAX_UNITS", 3)
    units = AnnouncedUnits()
    for number in range(5):
        units.add_message(f"homie/{number}/$unit", b"K")
    units.add_message("homie/0/$unit", b"F")  # a known topic changes its unit
    found = [units.unit_at(f"homie/{number}", None) for number in range(5)]
    assert found == ["°F", "K", "K", None, None]
    assert units_of(f"{'x' * 500}/$unit", b"K").unit_at("x" * 500, None) == "K"
    assert units_of(f"{'x' * 501}/$unit", b"K").unit_at("x" * 501, None) is None


@given(
    st.sampled_from(["homeassistant/sensor/a/config", "homie/5/a/$description", "a/$unit", "a"]),
    st.binary() | objects.map(lambda each: json.dumps(each).encode()),
)
@example("homeassistant/sensor/a/config", b"[]")
def test_no_message_raises_an_exception(topic, body):
    assert units_of(topic, body).unit_at("nowhere", None) is None
