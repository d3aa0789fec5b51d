"""Announced units: discovery messages for Home Assistant, Homie, and JSON with a unit."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edge_tvbo.setup import announced_units
from edge_tvbo.setup.announced_units import EVERY_VALUE, AnnouncedUnits

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
        ("unit", "F"),
        ("temperature_unit", "F"),
        ("TempUnit", "F"),
        ("unit_of_measurement", "F"),
        ("community", None),
        ("unit_id", None),
    ],
)
def test_json_may_state_the_unit_of_its_values(key, unit):
    units = units_of("home/hall", {"temperature": 71, key: "F"})
    assert units.unit_at("home/hall", EVERY_VALUE) == unit


def test_units_of_several_values_are_not_those_of_every_value():
    several = {"temperature": 71, "temperature_unit": "F", "pressure_unit": "hPa"}
    assert units_of("home/hall", several).unit_at("home/hall", EVERY_VALUE) is None


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
    assert found == ["F", "K", "K", None, None]
    assert units_of(f"{'x' * 500}/$unit", b"K").unit_at("x" * 500, None) == "K"
    assert units_of(f"{'x' * 501}/$unit", b"K").unit_at("x" * 501, None) is None


@given(
    st.sampled_from(["homeassistant/sensor/a/config", "homie/5/a/$description", "a/$unit", "a"]),
    st.binary() | objects.map(lambda each: json.dumps(each).encode()),
)
@example("homeassistant/sensor/a/config", b"[]")
def test_no_message_raises_an_exception(topic, body):
    assert units_of(topic, body).unit_at("nowhere", None) is None
