"""`init`: finds sensors on a broker and writes a configuration that runs unedited."""

import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.payloads import formats
from edge_tvbo_adapters.payloads.field_payloads import reading_codec
from edge_tvbo_adapters.payloads.formats import FORMATS, all_presets, make_codec
from hypothesis import given
from hypothesis import strategies as st
from support.mosquitto import TIMEOUT_S
from support.ports import free_port
from support.recorded import MESSAGES

from edge_tvbo.cli import init, init_fields, main
from edge_tvbo.cli.settings import settings_of
from edge_tvbo.config import loader
from edge_tvbo.errors import ConfigError, EdgeTvboError, LinkError
from edge_tvbo.messages import sensor_ids
from edge_tvbo.messages.payloads import DetectedSensor
from edge_tvbo.messages.sensor_ids import MAX_NAME_LENGTH, is_displayable
from edge_tvbo.setup import sensor_discovery, sensor_groups
from edge_tvbo.setup.config_template import FieldValues, SourceValues, TemplateValues, render_config
from edge_tvbo.setup.home_assistant_states import sign_of_base
from edge_tvbo.setup.known_quantities import quantity_of

PRESETS = all_presets()
NODES = {"hall": 21.0, "attic": 24.5, "Living room": 20.0, "Küche": 22.0}


def discovery():
    return sensor_discovery.SensorDiscovery(PRESETS, lambda make, given: make_codec(make, given))


def run(*arguments, typed=None):
    return CliRunner().invoke(main, arguments, input=typed, catch_exceptions=False)


def document(temperature):
    values = {"temperature": temperature, "humidity": 50, "battery": 80, "linkquality": 99}
    return json.dumps(values).encode()


# --- discovery ----------------------------------------------------------------------------------

names = st.text(max_size=70) | st.sampled_from([*NODES, "a/b", "{sensor}", "x" * 64, "$SYS"])
bodies = (
    st.binary() | st.floats(-1e300, 1e300).map(document) | st.sampled_from([b"21.3", b"nan", b"{}"])
)
templates = st.sampled_from(
    [
        "zigbee2mqtt/{}",
        "tele/{}/SENSOR",
        "{}/sensor/heat/state",
        "homie/5/{}/a/b",
        "{}",
        "edge_tvbo/{}",
        "{}/temperature",
        "h/{}/co2",
        "homeassistant/sensor/{}/config",
        "/home/{}/co2",
        "home//{}",
    ]
)


@given(st.lists(st.tuples(templates, names, bodies), max_size=20))
def test_a_configuration_of_random_messages_is_valid(tmp_path_factory, messages):
    found = discovery()
    for template, name, body in messages:
        found.add_message(template.format(name), body)

    path = tmp_path_factory.getbasetemp() / "found.toml"
    for group in found.groups():
        sensors = sensor_ids.ids(group.readings)
        path.write_text(render_config(start(group, sensors)), "utf-8")
        field = loader.load(path, FORMATS).fields.popitem()[1]
        assert {field.names.get(one, one) for one in field.sensors} == set(group.readings)
        assert is_displayable(group.describe())


def start(group, sensors):
    field = FieldValues(
        name=group.quantity.name,
        unit=group.quantity.unit,
        sources=(
            SourceValues(
                sensors=sensors,
                topic=group.topic,
                payload=group.integration,
                value=group.value,
                activate=group.activate,
            ),
        ),
        mean=group.center,
        spread=group.spread,
    )
    return TemplateValues(fields=(field,), host="127.0.0.1", port=1883, interval="10min", live=True)


def test_memory_for_a_flood_of_messages_is_bounded():
    found = discovery()
    for index in range(sensor_discovery.MAX_SENSORS + 50):
        found.add_message(f"zigbee2mqtt/{index}", b'{"temperature": 20}')
    for index in range(sensor_discovery.MAX_GROUPS + 50):
        found.add_message("tele/a/SENSOR", json.dumps({f"v{index}": 1}).encode())
        found.add_message(f"noise/{index}", b"?")

    groups = found.groups()
    assert len(groups) == sensor_discovery.MAX_GROUPS
    assert max(len(each.readings) for each in groups) == sensor_discovery.MAX_SENSORS
    assert found.is_full
    assert len(found.unknown) == sensor_discovery.LISTED_NAMES


def test_memory_for_a_flood_of_sensors_in_many_groups_is_bounded(monkeypatch):
    monkeypatch.setattr(sensor_discovery, "MAX_READINGS", 100)
    found = discovery()
    for index in range(200):
        found.add_message(f"zigbee2mqtt/{index}", document(20))
    found.add_message("tele/a/SENSOR", b'{"v1": 1}')  # would be a new group

    assert sum(len(each.readings) for each in found.groups()) == 100
    assert found.is_full


def test_all_sensors_of_hundreds_of_devices_are_found():
    """Each ESPHome device that is named after its room has topics of its own."""
    found, quantities = discovery(), ("wifi_signal", "uptime", "humidity", "temperature")
    for room in range(500):
        for each in quantities:
            found.add_message(f"esp-{room}/sensor/room_{room}_{each}/state", b"21.3")

    groups = found.groups()
    assert len(groups) == 500 * len(quantities)
    assert not found.is_full
    rooms = [name for each in sensor_groups.companions(groups[0], groups) for name in each.readings]
    assert rooms == [f"esp-{room}" for room in range(500)]


@pytest.mark.parametrize("topic", ["tele/bus/SENSOR", "home/bus"])
def test_the_probes_of_one_device_are_found_in_the_order_of_their_numbers(topic):
    found, probes = discovery(), range(1, 301)
    body = {f"Temperature{probe}": 20 + probe / 100 for probe in probes}
    found.add_message(topic, json.dumps(body | {"Time": "2026-03-02T09:20:00"}).encode())

    groups = found.groups()
    assert [each.value for each in groups] == [f"Temperature{probe}" for probe in probes]
    assert len(sensor_groups.companions(groups[0], groups)) == 300
    assert ": temperature (Temperature12), 20.12 to 20.12 °C in" in groups[11].describe()


def test_readings_with_a_large_offset_are_listed_with_the_digits_of_their_range():
    found = discovery()
    for name, value in (("hall", 101_210.0), ("attic", 101_440.0)):
        found.add_message(f"house/{name}/pressure", json.dumps(value).encode())

    text = found.groups()[0].describe()

    assert "101210 to 101440" in text
    assert text.endswith(": attic 101440, hall 101210")


def test_known_quantities_are_listed_before_unknown_ones():
    found = discovery()
    for name, value in NODES.items():
        found.add_message(f"zigbee2mqtt/{name}", document(value))

    first, second, *rest = found.groups()
    assert (first.quantity.name, second.quantity.name) == ("temperature", "humidity")
    assert {each.value for each in rest} == {"battery", "linkquality"}
    assert first.readings == NODES


def test_sensors_of_an_unknown_integration_are_found_by_the_name_of_a_quantity():
    found = discovery()
    for name in ("hall", "attic"):
        found.add_message(f"home/{name}/temperature", b"21.3")
        found.add_message(f"lab/{name}", b'{"Humidity": 40, "door": 1}')
        found.add_message(f"lab/{name}/door", b"1")

    found = [
        (each.integration, each.topic, each.value, len(each.readings)) for each in found.groups()
    ]
    assert found == [
        ("number", "home/{sensor}/temperature", None, 2),
        ("json", "lab/{sensor}", "Humidity", 2),
    ]


def test_short_names_of_quantities_are_recognised():
    found = discovery()
    found.add_message("garden/esp", b'{"temp": 19.5, "hum": 60}')
    found.add_message("rtl_433/pi/Acurite/12", b'{"id": 12, "temperature_C": 4.5}')
    found.add_message("home/hall/temp", b"21.0")

    quantities = {(each.topic, each.value): each.quantity.name for each in found.groups()}
    assert quantities == {
        ("garden/{sensor}", "temp"): "temperature",
        ("garden/{sensor}", "hum"): "humidity",
        ("rtl_433/pi/Acurite/{sensor}", "temperature_C"): "temperature",
        ("home/{sensor}/temp", None): "temperature",
    }


def test_a_topic_with_the_events_of_several_sensors_is_not_a_sensor():
    """rtl_433 publishes the readings of all sensors on one topic, and again on a topic for each."""
    found = discovery()
    for sensor, value in ((12, 4.5), (13, 9.5)):
        event = {"model": "Acurite", "id": sensor, "temperature_C": value}
        found.add_message("rtl_433/pi/events", json.dumps(event).encode())
        topic = f"rtl_433/pi/devices/Acurite/{sensor}/temperature_C"
        found.add_message(topic, str(value).encode())

    (group,) = found.groups()
    assert group.readings == {"12": 4.5, "13": 9.5}


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("stat/plug/STATUS10", '{"StatusSNS": {"DS18B20": {"Temperature": 68}, "TempUnit": "F"}}'),
        ("plug/stat/RESULT", '{"StatusSNS": {"DS18B20": {"Temperature": 68}, "TempUnit": "F"}}'),
        ("home/gateway/SYStoMQTT", '{"uptime": 12, "tempc": 44.2}'),
        ("shellies/shelly1pm-84CCA8/temperature", "51.2"),
    ],
)
def test_the_reply_of_a_device_to_a_command_and_the_temperature_inside_a_device_are_no_sensors(
    topic, payload
):
    found = discovery()
    found.add_message(topic, payload.encode())
    found.add_message("home/gateway/BTtoMQTT/A4C138000001", b'{"tempc": 20.4}')
    (group,) = found.groups()
    assert list(group.readings) == ["A4C138000001"]


def test_states_of_home_assistant_are_not_taken_for_a_node_of_esphome():
    """Home Assistant's statestream publishes all of its sensors below one prefix."""
    found = discovery()
    unknown = ("homeassistant/sensor/temperature/state", "ha/homeassistant/sensor/t/state")
    for topic in ("homeassistant/sensor/hall_temperature/state", *unknown):
        found.add_message(topic, b"21.3")
    (group,) = found.groups()
    assert (group.integration, list(found.unknown)) == ("number", [*unknown])


def test_states_of_home_assistant_are_sensors_of_the_quantity_that_their_names_end_with():
    found = discovery()
    for name, value in (
        ("hall_temperature", b"21.3"),
        ("attic_temperature", b"17.9"),
        ("hall_humidity", b"48"),
        ("cpu_temperature", b"61"),
        ("system_monitor_processor_temperature", b"61"),
        ("plug_device_temperature", b"41"),
        ("hall_target_temperature", b"19"),
        ("porch_temperature", b"unavailable"),
        ("hall_battery", b"97"),
        ("", b"3"),
        ("_temperature", b"21.0"),
    ):
        found.add_message(f"homeassistant/sensor/{name}/state", value)
        found.add_message(f"homeassistant/sensor/{name}/friendly_name", b'"Hall"')

    temperature, humidity = found.groups()
    assert temperature.topic == "homeassistant/sensor/{sensor}_temperature/state"
    assert temperature.readings == {"attic": 17.9, "hall": 21.3}
    assert temperature.quantity.name == "temperature"
    assert humidity.topic == "homeassistant/sensor/{sensor}_humidity/state"
    assert humidity.readings == {"hall": 48.0}


@pytest.mark.parametrize(
    "name, quantity", [("office_carbon_dioxide", "co2"), ("office_pm2_5", "pm25")]
)
def test_the_names_that_home_assistant_gives_to_quantities_are_known(name, quantity):
    found = discovery()
    found.add_message(f"homeassistant/sensor/{name}/state", b"415")
    (group,) = found.groups()
    assert (group.quantity.name, list(group.readings)) == (quantity, ["office"])


def entities(base, *names):
    found = discovery()
    for name in names:
        found.add_message(f"{base}/sensor/{name}_temperature/state", b"21.3")
    found.add_message(f"{base}/sensor/power/state", b"300")
    return found


@pytest.mark.parametrize("base", ["ha", "house/ha"])
@pytest.mark.parametrize("sign", ["friendly_name", "last_updated"])
def test_states_of_home_assistant_are_known_by_the_attributes_beside_them(base, sign):
    found = entities(base, "hall", "attic", "hall_target")
    found.add_message(f"{base}/sensor/power/{sign}", b'"Power"')
    found.add_message(f"{base}/status", b"online")

    (group,) = found.groups()

    assert (group.integration, group.topic, group.readings, group.messages, group.retained) == (
        "number",
        f"{base}/sensor/{{sensor}}_temperature/state",
        {"attic": 21.3, "hall": 21.3},
        2,
        (),
    )


def test_many_sensors_below_a_topic_without_a_status_are_states_of_home_assistant():
    found = entities("ha", "hall", "attic", "cellar", "porch")
    for node in ("bath", "shed"):
        found.add_message(f"{node}/sensor/porch_temperature/state", b"24")

    home, others = found.groups()

    assert (home.topic, list(home.readings), home.messages) == (
        "ha/sensor/{sensor}_temperature/state",
        ["attic", "cellar", "hall", "porch"],
        4,
    )
    assert (others.integration, others.readings) == ("esphome", {"bath": 24.0, "shed": 24.0})


@pytest.mark.parametrize(
    ("names", "status"), [(("air", "floor"), None), (("air", "floor", "pipe"), b"offline")]
)
def test_a_node_of_esphome_with_several_thermometers_is_not_taken_for_home_assistant(names, status):
    found = entities("bath", *names)
    if status:
        found.add_message("bath/status", status)
    groups = found.groups()
    assert {each.integration for each in groups} == {"esphome"}
    assert [each.readings for each in groups[:-1]] == [{"bath": 21.3}] * len(names)


@pytest.mark.parametrize("online", [[], ["attic", "hall"]])
def test_nodes_of_esphome_with_the_same_sensors_are_not_taken_for_home_assistant(online):
    """A node that sleeps often publishes no status, because it would be offline in between."""
    nodes, names = ["attic", "hall", "porch"], ["air", "floor", "pipe"]
    found = discovery()
    for node in nodes:
        for name in names:
            found.add_message(f"{node}/sensor/{name}_temperature/state", b"21.3")
    for node in online:
        found.add_message(f"{node}/status", b"online")
    assert [(each.topic, list(each.readings)) for each in found.groups()] == [
        (f"{{sensor}}/sensor/{name}_temperature/state", nodes) for name in names
    ]


@pytest.mark.parametrize("topic", ["{}/status", "{}/sensor/hall/friendly_name"])
def test_a_base_topic_that_is_too_long_for_a_node_is_not_stored(topic):
    node = "/".join(["n" * MAX_NAME_LENGTH] * 2)
    assert sign_of_base(topic.format(node), b"online")[0] == node
    assert sign_of_base(topic.format(node + "n"), b"online") is None


def test_a_state_of_home_assistant_without_a_name_is_not_a_sensor():
    found = entities("ha", "hall", "attic")
    found.add_message("ha/sensor/_temperature/state", b"21")
    found.add_message("ha/sensor/hall_temperature/friendly_name", b'"Hall"')
    (group,) = found.groups()
    assert list(group.readings) == ["attic", "hall"]


def test_a_node_of_esphome_may_have_a_prefix_of_two_levels():
    found = discovery()
    for node in ("hall", "attic"):
        found.add_message(f"house/{node}/sensor/temperature/state", b"21.3")

    (group,) = found.groups()
    assert (group.integration, group.topic) == (
        "esphome",
        "house/{sensor}/sensor/temperature/state",
    )
    assert set(group.readings) == {"hall", "attic"}


def test_friendly_names_with_a_slash_belong_to_zigbee2mqtt_and_to_one_field():
    found = discovery()
    for name in ("kitchen/window", "kitchen/door", "hall/window"):
        found.add_message(f"zigbee2mqtt/{name}", b'{"temperature": 21.0}')
        found.add_message(f"zigbee2mqtt/{name}/set", b'{"temperature": 30.0}')
    found.add_message("zigbee2mqtt/bath/get", b'{"temperature": 30.0}')
    found.add_message("zigbee2mqtt/bridge/health", b'{"os": {"load": 1}}')

    zigbee = found.groups()
    assert [(each.topic, list(each.readings)) for each in zigbee] == [
        ("zigbee2mqtt/kitchen/{sensor}", ["door", "window"]),
        ("zigbee2mqtt/hall/{sensor}", ["window"]),
    ]
    assert zigbee[0].activate.topic == "zigbee2mqtt/kitchen/{sensor}/get"
    assert sensor_groups.companions(zigbee[0], zigbee) == zigbee


def test_friendly_names_with_two_slashes_belong_to_zigbee2mqtt_and_to_one_field():
    found = discovery()
    for name in ("ground/kitchen/window", "ground/kitchen/door", "first/bath/window", "hall"):
        found.add_message(f"zigbee2mqtt/{name}", b'{"temperature": 21.0}')
        for last in ("get", "set", "availability"):
            found.add_message(f"zigbee2mqtt/{name}/{last}", b'{"temperature": 30.0}')
    found.add_message("zigbee2mqtt/hall/set/ramp", b'{"temperature": 30.0}')
    found.add_message("zigbee2mqtt/bridge/response/backup", b'{"temperature": 30.0}')

    zigbee = [each for each in found.groups() if each.integration == "zigbee2mqtt"]
    assert [(each.topic, list(each.readings)) for each in zigbee] == [
        ("zigbee2mqtt/ground/kitchen/{sensor}", ["door", "window"]),
        ("zigbee2mqtt/first/bath/{sensor}", ["window"]),
        ("zigbee2mqtt/{sensor}", ["hall"]),
    ]
    assert zigbee[0].activate.topic == "zigbee2mqtt/ground/kitchen/{sensor}/get"
    assert sensor_groups.companions(zigbee[0], zigbee) == zigbee


def test_friendly_names_with_three_slashes_belong_to_zigbee2mqtt():
    found = discovery()
    for last in ("", "/get", "/set", "/availability"):
        found.add_message(f"zigbee2mqtt/barn/ground/kitchen/door{last}", b'{"temperature": 21.0}')

    (group,) = [each for each in found.groups() if each.integration == "zigbee2mqtt"]
    assert (group.topic, list(group.readings)) == (
        "zigbee2mqtt/barn/ground/kitchen/{sensor}",
        ["door"],
    )
    assert group.activate.topic == "zigbee2mqtt/barn/ground/kitchen/{sensor}/get"


def test_one_faulty_sensor_hardly_changes_center_and_spread():
    found = discovery()
    for index in range(9):
        found.add_message(f"home/s{index}/temperature", b"2%d" % index)
    found.add_message("home/faulty/temperature", b"1e300")

    (group,) = found.groups()
    assert 23 <= group.center <= 25
    assert group.spread < 6


@pytest.mark.parametrize(
    "value, quantity",
    [
        ("temperature", "temperature"),
        ("SCD30.Temperature", "temperature"),
        ("temperature:0.tC", "temperature"),
        ("climate.temperature.value", "temperature"),
        ("temperature.1", "temperature"),
        ("ANALOG.Temperature1", "temperature"),
        ("temperature_1", "temperature"),  # of the CayenneLPP decoder
        ("SCD30.eCO2", "eco2"),
        ("scd30.co2", "co2"),
        ("temperature:0.id", "id"),
        ("temperature.battery", "battery"),
        ("17", "17"),
    ],
)
def test_the_last_word_of_a_path_names_the_quantity(value, quantity):
    group = sensor_groups.SensorGroup("any", "any/{sensor}", value, None, {"hall": 21.0}, 1)
    assert group.quantity.name == quantity


@pytest.mark.parametrize(
    "word",
    [
        *("temperature1", "temperature_1", "Temperature-1", "temperatureC", "temperature_c"),
        *("tempc", "temp_c", "tempC", "temp2"),
    ],
)
def test_the_word_of_a_temperature_may_have_a_number_or_a_unit(word):
    found = discovery()
    found.add_message("garden/esp", json.dumps({word: 21.3}).encode())
    found.add_message(f"home/hall/{word}", b"21.3")
    found.add_message(f"{word}/attic", b"21.3")

    groups = {(each.topic, each.value): each.quantity.name for each in found.groups()}
    assert groups == {
        ("garden/{sensor}", word): "temperature",
        (f"home/{{sensor}}/{word}", None): "temperature",
        (f"{word}/{{sensor}}", None): "temperature",
    }


def test_a_very_long_word_is_no_quantity():
    assert quantity_of("1" * 60_000 + "x") is None


def test_a_sensor_may_be_the_level_below_the_quantity():
    found = discovery()
    for topic in ("temperature/hall", "temperature/attic", "house/Humidity/hall"):
        found.add_message(topic, b"21.3")
    for last in ("set", "state", "target", "max", "$datatype"):
        found.add_message(f"home/hall/temperature/{last}", b"21.3")
    found.add_message("temperature/bath", b"on")

    groups = [(each.topic, each.quantity.name, list(each.readings)) for each in found.groups()]
    assert groups == [
        ("temperature/{sensor}", "temperature", ["attic", "hall"]),
        ("house/Humidity/{sensor}", "humidity", ["hall"]),
    ]


def test_a_topic_may_have_empty_levels_but_not_in_place_of_the_sensor():
    found = discovery()
    for name in ("hall", "attic"):
        found.add_message(f"/home/{name}/temperature", b"21.3")
        found.add_message(f"home//{name}", b'{"co2": 415}')
    for topic in ("/temperature", "home//temperature", "home/temperature/"):
        found.add_message(topic, b"21.3")

    groups = [(each.topic, list(each.readings)) for each in found.groups()]
    assert groups == [
        ("/home/{sensor}/temperature", ["attic", "hall"]),
        ("home//{sensor}", ["attic", "hall"]),
    ]
    assert list(found.unusable) == [""]


def test_a_level_called_sensor_is_not_the_name_of_a_sensor():
    found = discovery()
    for name in ("shellyht-1", "shellyht-2"):
        found.add_message(f"shellies/{name}/sensor/temperature", b"20.1")
    found.add_message("sensor/temperature", b"20.3")

    groups = [(each.topic, list(each.readings)) for each in found.groups()]
    assert groups == [
        ("shellies/{sensor}/sensor/temperature", ["shellyht-1", "shellyht-2"]),
        ("{sensor}/temperature", ["sensor"]),
    ]


def test_the_devices_of_esphome_that_are_named_after_their_rooms_are_one_field():
    found = discovery()
    for node, name in [
        ("attic", "attic_internal_temperature"),
        ("attic", "attic_temperature"),
        ("bath", "bath_soil_moisture"),
        ("cellar", "wine_cellar_temperature"),
        ("cellar", "floor_temperature"),
    ]:
        found.add_message(f"{node}/sensor/{name}/state", b"21.3")

    groups = found.groups()
    assert [each.quantity.name for each in groups] == [
        *["temperature"] * 3,
        "soil_moisture",
        "attic_internal_temperature",
    ]
    names = [each.topic.split("/")[2] for each in sensor_groups.companions(groups[0], groups)]
    assert names == ["attic_temperature", "floor_temperature"]

    found.add_message("zigbee2mqtt/attic", b'{"temperature": 21.0}')
    groups = found.groups()
    zigbee = next(each for each in groups if each.integration == "zigbee2mqtt")
    readings = [set(each.readings) for each in sensor_groups.companions(zigbee, groups)]
    assert readings == [{"attic"}, {"attic"}, {"cellar"}]


@pytest.mark.parametrize(
    ("messages", "probes"),
    [
        ({"zigbee2mqtt/a": b'{"temperature_1": 20, "temperature_2": 21}'}, 2),
        ({"tele/a/SENSOR": b'{"SHT3X-0x44": {"Humidity": 5}, "SHT3X-0x45": {"Humidity": 6}}'}, 2),
        ({f"p-1/status/temperature:{each}": b'{"tC": 21.3}' for each in (100, 101)}, 2),
        ({f"homie/5/a/pump-{each}/temperature": b"21.3" for each in (1, 2)}, 2),
        ({f"homie/5/a/{each}/temperature": b"21.3" for each in ("pump", "room")}, 1),
        ({"zigbee2mqtt/a": b'{"temperature": 20, "temperature_C": 20}'}, 1),
        ({"tele/a/SENSOR": b'{"SCD40": {"Temperature": 5}, "SHT30": {"Temperature": 6}}'}, 1),
    ],
)
def test_groups_that_differ_in_the_number_of_a_probe_are_one_field(messages, probes):
    found = discovery()
    for topic, body in messages.items():
        found.add_message(topic, body)

    groups = found.groups()
    assert len(groups) == 2
    assert len(sensor_groups.companions(groups[0], groups)) == probes
    left_out = [name for each in groups for name in sensor_groups.left_out(each, groups[:1])]
    assert len(left_out) == 1


def test_a_reading_that_a_shelly_publishes_twice_is_not_a_second_sensor():
    found = discovery()
    status = b'{"method": "NotifyStatus", "params": {"temperature:0": {"tC": 21.3}}}'
    found.add_message("p-1/events/rpc", status)
    found.add_message("p-1/status/temperature:0", b'{"tC": 21.3}')

    groups = found.groups()
    assert sensor_groups.companions(groups[0], groups) == groups[:1]
    assert sensor_groups.left_out(groups[1], groups[:1]) == []


def test_a_shelly_thermometer_joins_the_field_with_its_temperature_in_celsius():
    found = discovery()
    for name in ("attic", "hall"):
        found.add_message(f"zigbee2mqtt/{name}", b'{"temperature": 21.0}')
    status = next(each for each in MESSAGES if each.payload == "shelly" and each.settings == {})
    found.add_message(status.topic, status.body)

    groups = found.groups()
    fields = {
        first.quantity.name: [
            (each.integration, each.value) for each in sensor_groups.companions(first, groups)
        ]
        for first in reversed(groups)
    }
    assert fields["temperature"] == [("zigbee2mqtt", "temperature"), ("shelly", "temperature:0.tC")]
    assert fields["humidity"] == [("shelly", "humidity:0.rh")]


class Failing:
    """A preset and a codec of a third party, which raise these errors in turn."""

    topic, activate = "any/{sensor}", None

    def __init__(self, errors):
        self._errors = iter(errors)

    def fail(self, *arguments):
        if error := next(self._errors, None):
            raise error

    def recognise(self, topic, payload):
        self.fail()
        return DetectedSensor(topic, "any/{sensor}", ("value",))

    def codec(self, make, settings):
        self.fail()
        return lambda payload: self.fail() or (21.0, None)


errors = st.sampled_from(
    [ValueError(), OverflowError(), RecursionError(), KeyError(), ConfigError(), TypeError(), None]
)


@given(st.lists(errors))
def test_discovery_continues_after_a_third_party_format_fails(sequence):
    failing = Failing(sequence)
    found = sensor_discovery.SensorDiscovery({"any": failing}, failing.codec)

    for _ in range(len(sequence) + 1):
        found.add_message("hall", b"?")

    assert found.groups()[0].readings == {"hall": 21.0}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "21", None, 10**400])
def test_an_invalid_value_of_a_third_party_format_is_ignored(value):
    failing = Failing([])
    found = sensor_discovery.SensorDiscovery(
        {"any": failing}, lambda make, given: lambda payload: (value, None)
    )

    found.add_message("hall", b"?")

    assert found.groups() == []


# --- with a broker ------------------------------------------------------------------------------


@contextmanager
def traffic(sender):
    """Publish readings of all sensors five times a second, and other messages.

    The broker retains the first of each, so that a command that listens for a while receives them.
    """
    over = Event()
    messages = {f"zigbee2mqtt/{name}": document(value) for name, value in NODES.items()}
    messages["zigbee2mqtt/bridge/info"] = b'{"version": "2.6.1"}'
    messages["zigbee2mqtt/bad{name}"] = document(99.0)
    for topic, payload in messages.items():
        sender.publish(topic, payload, retain=True)

    def publish():
        while not over.wait(0.2):
            for topic, payload in messages.items():
                sender.client.publish(topic, payload)

    thread = Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_all_devices_of_a_quantity_are_found_if_each_has_a_topic_of_its_own(
    mosquitto, peer, tmp_path
):
    broker = mosquitto()
    broker.start()
    sender = peer(broker.port)
    rooms = [f"room-{number}" for number in range(10, 22)]
    for room in rooms:
        sender.publish(f"{room}/sensor/{room}_temperature/state", "21.5", retain=True)
        sender.publish(f"{room}/sensor/{room}_uptime/state", "60", retain=True)
    path = tmp_path / "my.toml"

    made = run("init", "--port", str(broker.port), "--listen", "2s", str(path))

    assert "temperature, mode advise: room-10, room-11, room-12" in made.stdout
    assert "uptime" not in made.stdout
    assert list(loader.load(path, FORMATS).fields["temperature"].sensors) == rooms


def test_a_configuration_from_zigbee2mqtt_traffic_runs_with_no_edit(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    other = peer(broker.port)
    path = tmp_path / "my.toml"
    with traffic(other):
        options = ("--port", str(broker.port), "--listen", "2s", "--interval", "1s")
        made = run("init", str(path), *options)
        assert made.exit_code == 0, made.output
        assert "4 sensors of zigbee2mqtt: temperature, 20 to 24.5 °C" in made.stdout
        assert "bad{name}" in made.stderr
        checked = run("check", "--connect", "--listen", "2s", str(path))
        assert checked.exit_code == 0, checked.output
        assert "temperature: 4 of 4 sensors sent a reading within 2 s" in checked.stdout

        command = [sys.executable, "-m", "edge_tvbo", "run", str(path)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
            try:
                other.wait(lambda: decided(other), 2 * TIMEOUT_S)
            finally:
                daemon.terminate()
                log = daemon.communicate(timeout=TIMEOUT_S)[1]
    assert daemon.returncode == 0, log
    assert "ready: 4 sensors, fields temperature" in log


def decided(other):
    """Return whether the attic, by far the hottest, was selected after readings of all four."""
    chosen = [json.loads(each) for each in other.on("edge_tvbo/edge/temperature/selected")]
    return any(
        each["sensor"] == "attic" and each["model"]["observations"] >= len(NODES) for each in chosen
    )


def test_each_quantity_becomes_a_field_whose_command_asks_for_this_quantity(
    mosquitto, peer, tmp_path
):
    broker = mosquitto()
    broker.start()
    path = tmp_path / "my.toml"
    options = ["--port", str(broker.port), "--listen", "2s", "--mode", "live"]
    with traffic(peer(broker.port)):
        made = run(
            "init", str(path), *options, "--quantity", "humidity", "--quantity", "temperature"
        )
        absent = run("init", str(tmp_path / "no.toml"), *options, "--quantity", "co2")
    assert made.exit_code == 0, made.output

    fields = tomllib.loads(path.read_text())["fields"]

    payloads = {name: each["activate"]["payload"] for name, each in fields.items()}
    assert payloads == {"humidity": '{"humidity": ""}', "temperature": '{"temperature": ""}'}
    assert [each["reading"]["value"] for each in fields.values()] == list(payloads)
    assert run("check", str(path)).exit_code == 0
    assert absent.exit_code == 1 and "a reading of co2 in a format" in absent.stderr
    assert "Readings of other quantities: temperature, humidity, " in absent.stderr
    assert "battery: Küche, Living room, attic, hall. If they sleep" in made.stderr


def test_init_lists_the_received_topics_and_writes_no_file_if_it_recognises_no_sensor(
    mosquitto,
    peer,
    tmp_path,
):
    broker = mosquitto()
    broker.start()
    peer(broker.port).publish("cellar/door", b"open", retain=True)

    made = run("init", str(tmp_path / "a.toml"), "--port", str(broker.port), "--listen", "1s")

    assert made.exit_code == 1
    assert "Topics of other messages: cellar/door" in made.stderr
    assert "--sensor hall" in made.stderr
    assert list(tmp_path.iterdir()) == []


def test_in_live_mode_sensors_without_a_command_get_a_field_of_their_own(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    sender = peer(broker.port)
    sender.publish("zigbee2mqtt/hall", document(20.0), retain=True)
    for name in ("attic", "cellar"):
        sender.publish(f"home/{name}/temperature", "15.0", retain=True)
    options = ("--port", str(broker.port), "--listen", "1s", "--mode", "live")
    path = tmp_path / "my.toml"

    made = run("init", str(path), *options)

    assert made.exit_code == 0, made.output
    assert "There is no known command for sensors of plain numbers" in made.stderr
    assert "- temperature, mode live: hall\n- temperature-2, mode advise: attic, cellar\n" in (
        made.stdout
    )
    settings = tomllib.loads(path.read_text())
    modes = {name: each["activate"]["mode"] for name, each in settings["fields"].items()}
    assert modes == {"temperature": "live", "temperature-2": "advise"}
    assert settings["state"] == {"dir": "my-state", "history": "64MiB"}
    assert run("check", str(path)).exit_code == 0


def test_live_mode_is_refused_if_no_sensor_has_a_command(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    peer(broker.port).publish("home/attic/temperature", "15.0", retain=True)
    options = ("--port", str(broker.port), "--listen", "1s", "--mode", "live")

    made = run("init", str(tmp_path / "my.toml"), *options)

    assert made.exit_code == 2
    assert "--mode live needs sensors that reply to a command" in made.stderr
    assert "no known command for sensors of plain numbers; use --mode advise" in made.stderr


def test_a_broker_that_is_unreachable_or_silent_gives_the_exit_status_of_other_commands(
    mosquitto, tmp_path
):
    broker = mosquitto()
    broker.start()
    path = tmp_path / "my.toml"
    options = ("init", str(path), "--listen", "100ms", "--port")

    unreachable = run(*options, str(free_port()))
    silent = run(*options, str(broker.port))

    assert (unreachable.exit_code, silent.exit_code) == (1, 1)
    assert "[E402]" in unreachable.stderr
    assert silent.stderr.splitlines()[1].startswith("No message was received in 0.1 s: ")
    assert not path.exists()


def test_a_missing_directory_is_named_before_init_listens(tmp_path):
    path = tmp_path / "none" / "my.toml"

    made = run("init", str(path), "--listen", "1h", "--port", str(free_port()))

    assert made.exit_code == 2
    assert made.stderr.startswith(f"{path}: the directory {path.parent} does not exist; create it")


def test_a_closed_directory_is_named_before_init_listens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edge_tvbo.cli.init.os.access", lambda path, _: path != Path())

    made = run("init", "my.toml", "--listen", "1h", "--port", str(free_port()))

    assert made.exit_code == 2
    assert made.stderr.startswith(f"my.toml: this user cannot write to {tmp_path}; change")


def test_two_integrations_of_one_quantity_become_one_field(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    sender = peer(broker.port)
    for name, value in NODES.items():
        sender.publish(f"zigbee2mqtt/{name}", document(value), retain=True)
        sender.publish(f"zigbee2mqtt/{name}/temperature", str(value), retain=True)
    for name, value in {"hall": 30.0, "cellar": 15.0, "Living room": 19.0}.items():
        body = {"AM2301": {"Temperature": value, "Humidity": 50}, "TempUnit": "C"}
        sender.publish(f"tele/{name}/SENSOR", json.dumps(body), retain=True)
    options = ("--port", str(broker.port), "--listen", "1s")

    for mode in ("advise", "live"):
        path = tmp_path / f"{mode}.toml"
        made = run("init", str(path), *options, "--mode", mode)
        assert made.exit_code == 0, made.output
        assert run("check", str(path)).exit_code == 0

    assert '# activate = { topic = "cmnd/' in (tmp_path / "advise.toml").read_text()
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert field["names"] == {
        "Living-room": "Living room",
        "Kuche": "Küche",
        "hall-2": "hall",
        "Living-room-2": "Living room",
    }
    assert set(field["sensors"]) == {"hall", "attic", "cellar", *field["names"]}
    assert field["activate"] == {"mode": "live"}
    assert [(each["topic"], each["value"]) for each in field["readings"]] == [
        ("zigbee2mqtt/{sensor}", "temperature"),
        ("tele/{sensor}/SENSOR", "AM2301.Temperature"),
    ]
    assert field["readings"][1]["sensors"] == ["cellar", "Living-room-2", "hall-2"]
    assert field["readings"][1]["activate"]["topic"] == "cmnd/{sensor}/TelePeriod"


def test_sensors_that_no_field_uses_are_named(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    sender = peer(broker.port)
    for name, device in {"a": "DS18B20", "b": "DS18B20", "d": "AM2301"}.items():
        body = {device: {"Temperature": 20.0}, "TempUnit": "C"}
        sender.publish(f"tele/{name}/SENSOR", json.dumps(body), retain=True)
    path = tmp_path / "edge.toml"
    made = run("init", str(path), "--port", str(broker.port), "--listen", "1s")
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert field["sensors"] == ["a", "b"]
    assert "Sensors of group 2 are left out: d." in made.stderr


def test_sensors_with_only_a_retained_message_and_other_quantities_are_named(
    mosquitto, peer, tmp_path
):
    broker = mosquitto()
    broker.start()
    sender = peer(broker.port)
    sender.publish("zigbee2mqtt/porch", document(5.0), retain=True)
    path = tmp_path / "my.toml"
    with traffic(sender):
        made = run("init", str(path), "--port", str(broker.port), "--listen", "2s")

    assert "- temperature, mode advise: " in made.stdout and "porch" in made.stdout
    assert re.search(
        r"Only a retained message .* these sensors: porch\. .*remove it from the file\.\n",
        made.stderr,
    )
    assert "Only temperature becomes a field. Other quantities were found: humidity. " in (
        made.stderr
    )


def test_more_retained_messages_than_one_read_takes_are_received(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    sender = peer(broker.port)
    for n in range(100):
        sender.publish(f"home/room-{n}/temperature", "21.3", retain=True)
    path = tmp_path / "my.toml"
    made = run("init", str(path), "--port", str(broker.port), "--listen", "5s")
    assert made.exit_code == 0
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert sorted(field["sensors"]) == sorted(f"room-{n}" for n in range(100))


def test_after_ctrl_c_init_says_how_long_it_listened(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    sender = peer(broker.port)
    path = tmp_path / "my.toml"
    options = [str(path), "--port", str(broker.port), "--listen", "1h"]
    command = [sys.executable, "-m", "edge_tvbo", "init", *options]
    with traffic(sender), subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline().startswith("Listening to ")
        process.send_signal(signal.SIGINT)
        log = process.communicate(timeout=TIMEOUT_S)[1]

    assert re.search(r"Ended after \d+ s. Sensors that sent nothing in this time are missing.", log)


def test_after_ctrl_c_without_a_message_init_says_how_long_it_listened(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("edge_tvbo_adapters.mqtt.listen.listen", interrupted)

    made = run("init", str(tmp_path / "my.toml"), "--listen", "1h")

    assert made.exit_code == 1
    assert "Ended after 0 s." in made.stderr
    assert "No message was received in 0 s: no sensor reported, or" in made.stderr


def test_a_second_thermometer_of_a_node_that_no_field_uses_is_named(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    sender = peer(broker.port)
    for name in ("air_temperature", "floor_temperature"):
        sender.publish(f"bath/sensor/{name}/state", "21.5", retain=True)
    sender.publish("bath/temperature", "21.5", retain=True)  # the same reading as a plain number

    path = tmp_path / "edge.toml"
    made = run("init", str(path), "--port", str(broker.port), "--listen", "1s")

    assert "- temperature, mode advise: bath\n" in made.stdout
    assert re.findall(r"Sensors of group (\d) are left out: bath\.", made.stderr) == ["2"]
    assert "  2  1 sensor of esphome: temperature" in made.stdout


@pytest.fixture
def init_with(tmp_path, monkeypatch):
    """Return a function that runs `init` with retained messages, by their topics, and no broker.

    The function returns the result, and the path of the configuration.
    """

    def written(messages, *options):
        def listen(mqtt, instance, seconds, receive):
            for topic, body in messages.items():
                receive(topic, body if isinstance(body, bytes) else body.encode(), True)

        monkeypatch.setattr("edge_tvbo_adapters.mqtt.listen.listen", listen)
        path = tmp_path / "my.toml"
        return run("init", str(path), "--listen", "1s", *options), path

    return written


PROBES = {
    "tele/cellar/SENSOR": {
        "DS18B20-1": {"Id": "030EA2794B8A", "Temperature": 21.3},
        "DS18B20-2": {"Id": "0516A42B5DFF", "Temperature": 22.9},
        "TempUnit": "C",
    },
    "tele/attic/SENSOR": {"DS18B20": {"Temperature": 25.0}, "TempUnit": "C"},
}


@pytest.mark.parametrize("mode", ["advise", "live"])
def test_each_probe_of_a_device_becomes_a_sensor(init_with, mode):
    messages = {topic: json.dumps(body) for topic, body in PROBES.items()}

    made, path = init_with(messages, "--mode", mode)

    assert f"- temperature, mode {mode}: cellar, cellar-2, attic\n" in made.stdout
    assert "left out" not in made.stderr
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert field["names"] == {"cellar-2": "cellar"}
    assert [(each["value"], each["sensors"]) for each in field["readings"]] == [
        ("DS18B20-1.Temperature", ["cellar"]),
        ("DS18B20-2.Temperature", ["cellar-2"]),
        ("DS18B20.Temperature", ["attic"]),
    ]
    assert run("check", str(path)).exit_code == 0


PRESSURES = {
    "tele/hall/SENSOR": {"BME280": {"Pressure": 760.0}, "PressureUnit": "mmHg"},
    "tele/attic/SENSOR": {"BME280": {"Pressure": 29.92}, "PressureUnit": "inHg"},
    "tele/cellar/SENSOR": {"BME280": {"Pressure": 1013.2}, "PressureUnit": "hPa"},
}


@pytest.mark.parametrize(
    ("options", "unit", "mean", "spread"),
    [
        ((), "hPa", 1013.2, 10.0),
        (("--unit", "hPa"), "hPa", 1013.2, 10.0),
        (("--unit", "mmHg"), "mmHg", 760.0, 7.5),
        (("--unit", "inHg"), "inHg", 29.9, 0.295),
    ],
)
def test_pressures_of_tasmota_are_converted_to_the_unit_of_the_field(
    init_with, options, unit, mean, spread
):
    """They were taken for hPa, whatever the messages say."""
    messages = {topic: json.dumps(body) for topic, body in PRESSURES.items()}

    made, path = init_with(messages, *options)

    assert made.exit_code == 0
    assert re.search(rf"pressure, [\d.]+ to [\d.]+ {unit} in 3 messages", made.stdout)
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert (field["unit"], field["reading"]["unit"]) == (unit, unit)
    assert field["kernel"]["mean"] == pytest.approx(mean, abs=0.1)
    assert field["kernel"]["variance"] ** 0.5 == pytest.approx(spread, rel=0.01)
    (settings,) = settings_of(path).fields.values()
    codec = reading_codec(settings)
    values = [codec(each.encode())[0] for each in messages.values()]
    assert values == pytest.approx([mean] * 3, rel=0.001)


def test_the_spread_of_an_unknown_quantity_is_a_tenth_of_its_mean_in_any_unit(init_with):
    body = {"BME280": {"SeaPressure": 1013.25}, "PressureUnit": "hPa"}
    options = ("--quantity", "seapressure", "--unit", "inHg")

    made, path = init_with({"tele/hall/SENSOR": json.dumps(body)}, *options)

    assert made.exit_code == 0, made.output
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert field["kernel"]["mean"] == pytest.approx(29.92, abs=0.1)
    assert field["kernel"]["variance"] ** 0.5 == pytest.approx(2.992, rel=0.01)


@pytest.mark.parametrize(
    ("options", "unit", "setting", "mean"),
    [
        ((), "°C", None, 22.0),
        (("--unit", "°F"), "°F", "°F", 71.6),
        (("--unit", "F"), "F", "F", 71.6),
    ],
)
def test_temperatures_of_tasmota_are_converted_to_the_unit_of_the_field(
    init_with, options, unit, setting, mean
):
    body = {"DS18B20": {"Temperature": 71.6}, "TempUnit": "F"}

    made, path = init_with({"tele/hall/SENSOR": json.dumps(body)}, *options)

    assert made.exit_code == 0
    assert f"temperature, {mean:.4g} to {mean:.4g} {unit} in 1 message" in made.stdout
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert (field["unit"], field["reading"].get("unit")) == (unit, setting)
    assert field["kernel"]["mean"] == mean
    (settings,) = settings_of(path).fields.values()
    assert reading_codec(settings)(json.dumps(body).encode())[0] == mean


@pytest.mark.parametrize("order", [1, -1])
def test_sensors_whose_format_converts_nothing_are_converted_with_scale_and_offset(
    init_with, order
):
    """Tasmota's format converts to °F, and Zigbee2MQTT always sends °C."""
    bodies = {
        "tele/hall/SENSOR": {"DS18B20": {"Temperature": 71.6}, "TempUnit": "F"},
        "zigbee2mqtt/attic": {"temperature": 21.0},
        "zigbee2mqtt/porch": {"temperature": 25.0},
        "esp/sensor/room_temperature/state": 70.0,
    }
    messages = [(topic, json.dumps(body)) for topic, body in bodies.items()]

    made, path = init_with(dict(messages[::order]), "--unit", "°F")

    assert made.exit_code == 0
    assert "Sensors of zigbee2mqtt seem to send °C. scale and offset" in made.stderr
    assert "Sensors of esphome" not in made.stderr
    (field,) = settings_of(path).fields.values()
    sources = {each.payload: each for each in field.sources}
    assert {name: (each.scale, each.offset) for name, each in sources.items()} == {
        "tasmota": (1.0, 0.0),
        "zigbee2mqtt": (1.8, 32.0),
        "esphome": (1.0, 0.0),
    }
    assert (field.unit, field.kernel.mean) == ("°F", 70.8)


CELSIUS = (21.0, 22.0, 23.0)
ZIGBEE = {f"zigbee2mqtt/s{value:g}": json.dumps({"temperature": value}) for value in CELSIUS}


TWO_UNITS = pytest.mark.parametrize(
    ("unit", "of_zigbee", "of_plain"),
    [
        ("°C", ("°C", 1.0, 0.0), ("°F", 1.8, 32.0)),
        ("°C", ("°C", 1.0, 0.0), ("K", 1.0, 273.15)),
        ("°F", ("°C", 1 / 1.8, -32 / 1.8), ("°F", 1.0, 0.0)),
        ("°F", ("°F", 1.0, 0.0), ("K", 1 / 1.8, 273.15 - 32 / 1.8)),
        ("K", ("°C", 1.0, -273.15), ("K", 1.0, 0.0)),
        ("K", ("K", 1.0, 0.0), ("°F", 1.8, 32 - 1.8 * 273.15)),
    ],
)
FROM_CELSIUS = {"°C": (1.0, 0.0), "°F": (1.8, 32.0), "K": (1.0, 273.15)}  # scale and offset


def sent(celsius, unit):
    scale, offset = FROM_CELSIUS[unit]
    return round(scale * celsius + offset, 2)


def rooms(of_zigbee, of_plain):
    """Return messages from rooms with 20 to 24 °C; the arguments are the units of two sources."""
    return {
        f"zigbee2mqtt/s{each:g}": json.dumps({"temperature": sent(each, of_zigbee)})
        for each in CELSIUS
    } | {f"home/r{each:g}/temperature": str(sent(each + 1.0, of_plain)) for each in CELSIUS}


@pytest.mark.parametrize("order", [1, -1])
@TWO_UNITS
def test_an_integration_in_another_unit_is_named_with_the_settings_that_convert_it(
    init_with, unit, of_zigbee, of_plain, order
):
    messages = rooms(of_zigbee[0], of_plain[0])

    made, path = init_with(dict([*messages.items()][::order]), "--unit", unit)

    (name, (other, factor, shift)) = next(
        each
        for each in (("zigbee2mqtt", of_zigbee), ("plain numbers", of_plain))
        if each[1][0] != unit
    )
    (line,) = [each for each in made.stderr.splitlines() if f"Sensors of {name} seem" in each]
    assert f"seem to send {other}: " in line
    assert f"scale = {1 / factor:.5g} and offset = {-shift / factor:.5g}" in line
    (field,) = settings_of(path).fields.values()
    right = 23.0 if name == "zigbee2mqtt" else 22.0  # the mean of the sensors in the right unit
    assert field.kernel.mean == pytest.approx(sent(right, unit), abs=0.1)
    assert "The reading of " not in made.stderr  # no sensor is named a second time


@pytest.mark.parametrize("order", [1, -1])
@TWO_UNITS
def test_units_are_also_compared_between_the_fields_of_a_quantity(
    init_with, unit, of_zigbee, of_plain, order
):
    """In live mode, only the sensors of Zigbee2MQTT have a command, so there are two fields."""
    messages = dict([*rooms(of_zigbee[0], of_plain[0]).items()][::order])
    one_field, path = init_with(messages, "--unit", unit)
    (line,) = [each for each in one_field.stderr.splitlines() if "seem to send" in each]
    path.unlink()

    two_fields, path = init_with(messages, "--unit", unit, "--mode", "live")

    (same,) = [each for each in two_fields.stderr.splitlines() if "seem to send" in each]
    other, (name, value) = (
        (of_zigbee, ("temperature", 22.0))
        if "of zigbee2mqtt seem" in line
        else (of_plain, ("temperature-2", 23.0))
    )
    assert same == (
        f"{line.removesuffix('.')}, and set the mean of its field to {sent(value, unit):.4g}."
    )
    fields = settings_of(path).fields
    assert {each: fields[each].kernel.mean for each in fields} == {
        "temperature": pytest.approx(sent(22.0, of_zigbee[0]), abs=0.1),
        "temperature-2": pytest.approx(sent(23.0, of_plain[0]), abs=0.1),
    }
    assert sent(value, other[0]) == pytest.approx(fields[name].kernel.mean, abs=0.1)
    assert "The reading of " not in two_fields.stderr  # no sensor is named a second time


def announcing(messages, unit):
    """Return `messages` with a discovery message for Home Assistant for each temperature."""
    found = {}
    for number, (topic, body) in enumerate(messages.items()):
        path = ".temperature" if body.startswith("{") else ""
        template = f"{{{{ value{'_json' * bool(path)}{path} }}}}"
        entity = {"state_topic": topic, "unit_of_measurement": unit, "value_template": template}
        found[f"homeassistant/sensor/s{number}/t/config"] = json.dumps(entity)
    return found | messages


@pytest.mark.parametrize("mode", ["advise", "live"])
@pytest.mark.parametrize("unit", ["°F", "K"])
def test_the_unit_that_all_sensors_announce_is_the_unit_of_the_field(init_with, unit, mode):
    made, path = init_with(announcing(rooms(unit, unit), unit), "--mode", mode)

    assert f"{sent(21, unit):.4g} to {sent(23, unit):.4g} {unit} in 3 messages" in made.stdout
    assert (
        f"All sensors announce {unit}, so {unit} is the unit of temperature. To convert to °C,"
        " remove the file and repeat the command with  --unit '°C'\n"
    ) in made.stderr
    assert "send" not in made.stderr
    fields = settings_of(path).fields.values()
    assert {each.unit for each in fields} == {unit}
    assert all(each.scale == 1.0 for field in fields for each in field.sources)


def test_the_unit_that_json_states_beside_its_values_is_the_unit_of_the_field(init_with):
    body = {"temperature": 71.6, "humidity": 40, "unit": "F"}
    quantities = ("--quantity", "temperature", "--quantity", "humidity")

    _, path = init_with({"home/hall": json.dumps(body)}, *quantities)

    fields = settings_of(path).fields
    assert [fields[name].unit for name in ("temperature", "humidity")] == ["°F", "%"]


@pytest.mark.parametrize("mode", ["advise", "live"])
@pytest.mark.parametrize(("announced", "options"), [("°F", ()), ("°F", ("--unit", "°C"))])
def test_readings_in_another_announced_unit_are_converted(init_with, announced, options, mode):
    messages = rooms("°C", announced)
    plain = {topic: body for topic, body in messages.items() if topic.startswith("home/")}

    made, path = init_with(announcing(plain, announced) | messages, "--mode", mode, *options)

    assert (
        "Sensors of plain numbers announce °F. scale and offset in the file convert their readings"
        " to °C."
    ) in made.stderr
    assert "seem to send" not in made.stderr
    fields = settings_of(path).fields.values()
    sources = {each.payload: each for field in fields for each in field.sources}
    assert (sources["number"].scale, sources["number"].offset) == (0.555556, -17.7778)
    assert sources["zigbee2mqtt"].scale == 1.0
    assert {each.unit for each in fields} == {"°C"}
    assert all(each.kernel.mean == pytest.approx(22.5, abs=0.6) for each in fields)


def json_rooms(units):
    """Return JSON messages of rooms with 20, 21, ... °C, in `units`, each stated if not None."""
    return {
        f"home/r{number}": json.dumps(
            {"temperature": sent(20 + number, unit or "°C"), **({"unit": unit} if unit else {})}
        )
        for number, unit in enumerate(units)
    }


@pytest.mark.parametrize(
    "units", [("°C", "°F", "°C", "°F"), ("K", "°F", "°F"), (None, "°F"), ("°F", "K", "°C", None)]
)
@pytest.mark.parametrize("order", [1, -1])
def test_each_sensor_of_a_topic_may_announce_its_own_unit(init_with, units, order):
    messages = json_rooms(units)

    made, path = init_with(dict(list(messages.items())[::order]))

    assert "left out" not in made.stderr
    field = settings_of(path).fields["temperature"]
    found = {}
    for source in field.sources:
        for sensor in source.sensors:
            reading = json.loads(messages[f"home/{sensor}"])["temperature"]
            found[sensor] = source.scale * reading + source.offset
    assert found == pytest.approx({f"r{n}": 20 + n for n in range(len(units))}, abs=0.01)
    assert field.unit == "°C"
    assert field.kernel.mean == pytest.approx(20 + (len(units) - 1) / 2, abs=0.01)


def test_converted_sensors_of_an_integration_with_several_units_are_named(init_with):
    made, _ = init_with(json_rooms(["°C", "°F", "K", "°F"]))
    for unit, names in {"°F": "r1, r3", "K": "r2"}.items():
        assert f"Sensors of JSON ({names}) announce {unit}. scale and offset" in made.stderr


def test_sensors_that_announce_the_usual_unit_or_none_stay_in_one_source(init_with):
    _, path = init_with(json_rooms(["°C", None, "°C"]))
    assert len(settings_of(path).fields["temperature"].sources) == 1


@pytest.mark.parametrize("celsius", [71.0, 295.0])
def test_a_unit_that_one_message_states_is_not_called_unknown(init_with, celsius):
    states = {"home/a": {"unit": "degC"}, "home/b": {}}
    made, path = init_with(
        {topic: json.dumps({"temperature": celsius, **each}) for topic, each in states.items()}
    )
    assert "no message states" not in made.stderr
    assert settings_of(path).fields["temperature"].unit == "°C"


@pytest.mark.parametrize(
    ("announced", "options", "pressure"),
    [
        ("inHg", (), 29.92),
        ("mmHg", (), 760.0),
        ("hPa", ("--unit", "kPa"), 1013.25),
        ("kPa", ("--unit", "hPa"), 101.325),
        ("hPa", ("--unit", "mbar"), 1013.25),
        ("inHg", ("--unit", "Pa"), 29.92),
        ("Pa", (), 101325.0),
    ],
)
def test_announced_units_of_pressure_are_used(init_with, announced, options, pressure):
    body = json.dumps({"pressure": pressure, "unit": announced})

    _, path = init_with({"home/a": body, "home/b": body}, *options)

    field = settings_of(path).fields["pressure"]
    in_hpa = {"hPa": 1.0, "mbar": 1.0, "Pa": 100.0, "kPa": 0.1, "inHg": 0.02953, "mmHg": 0.750062}
    assert field.unit == (options[1] if options else announced)
    (source,) = field.sources
    mean = 1013.25 * in_hpa[field.unit]
    assert source.scale * pressure + source.offset == pytest.approx(mean, rel=1e-4)
    assert field.kernel.mean == pytest.approx(mean, rel=1e-3)
    assert field.kernel.variance == pytest.approx((10 * in_hpa[field.unit]) ** 2, rel=1e-4)


def test_messages_that_contradict_each_other_convert_nothing(init_with):
    rooms_in_celsius = {f"home/s{n}/temperature": str(20 + n) for n in range(3)}
    old = {
        f"{topic}/old/config": body
        for topic, body in announcing(rooms_in_celsius, "°F").items()
        if topic.startswith("homeassistant/")
    }

    _, path = init_with(old | ZIGBEE | announcing(rooms_in_celsius, "°C"))

    field = settings_of(path).fields["temperature"]
    assert field.unit == "°C"
    assert all(each.scale == 1.0 for each in field.sources)


def test_readings_whose_unit_is_announced_are_not_taken_for_another_unit(init_with):
    """A boiler with 70 °C, among rooms with 22 °C."""
    boiler = {"home/boiler/temperature": "70"}

    made, path = init_with(ZIGBEE | announcing(boiler, "°C"))

    assert not re.search("send|announce|count as", made.stderr)
    (field,) = settings_of(path).fields.values()
    assert all(each.scale == 1.0 for each in field.sources)


@pytest.mark.parametrize(
    ("value", "other", "usual"), [(71.0, "°F", "21.7"), (295.0, "K", "21.9"), (68.0, "°F", "20")]
)
def test_readings_that_are_usual_only_in_another_unit_are_named(init_with, value, other, usual):
    """The readings may also be those of a boiler, so the unit is only named as an assumption."""
    messages = {f"home/s{n}/temperature": str(value + n - 1) for n in range(3)}

    made, path = init_with(messages)

    (line,) = [each for each in made.stderr.splitlines() if "count as" in each]
    assert line == (
        f"The readings of temperature, with a median of {value:.4g}, count as °C, because no"
        f" message states their unit. {value:.4g} {other} are {usual} °C: if the sensors send"
        f' {other}, set  unit = "{other}"  in [fields.temperature]'
    )
    path.write_text(path.read_text().replace('unit = "°C"', f'unit = "{other}"'))
    assert run("check", str(path)).exit_code == 0


@pytest.mark.parametrize("value", [-40.0, -18.0, 5.0, 21.0, 30.0, 50.0, 56.0, 80.0, 120.0, 1100.0])
def test_readings_that_may_be_in_their_usual_unit_are_not_named(init_with, value):
    made, _ = init_with({f"home/s{n}/temperature": str(value + n) for n in range(3)})
    assert "count as" not in made.stderr


@pytest.mark.parametrize(
    "message",
    [
        ("zigbee2mqtt/boiler", '{"temperature": 70}'),
        ("tele/boiler/SENSOR", '{"DS18B20": {"Temperature": 70.0}, "TempUnit": "C"}'),
        ("home/boiler", '{"temperature_c": 70}'),
    ],
)
def test_a_boiler_is_not_named_if_its_format_has_only_one_unit(init_with, message):
    made, _ = init_with(dict([message]))
    assert "count as" not in made.stderr


BOTH = {f"zigbee2mqtt/s{n}": json.dumps({"temperature": 70 + n, "humidity": 40}) for n in (1, 2)}


@pytest.mark.parametrize("source", [("--sensor", "hall"), ("--listen", "1s")])
def test_the_option_unit_is_for_the_quantities_that_have_this_unit(init_with, tmp_path, source):
    quantities = ("--quantity", "temperature", "--quantity", "humidity")
    path = tmp_path / "my.toml"
    if source[0] == "--listen":
        made, path = init_with(BOTH, *quantities, "--unit", "°F")
    else:
        made = run("init", str(path), *source, *quantities, "--unit", "°F")
    assert made.exit_code == 0, made.output
    fields = settings_of(path).fields
    assert {name: each.unit for name, each in fields.items()} == {
        "temperature": "°F",
        "humidity": "%",
    }
    assert fields["humidity"].kernel.mean == pytest.approx(45, abs=5)


@pytest.mark.parametrize("options", [(), ("--quantity", "temperature")])
@pytest.mark.parametrize("source", [("--sensor", "hall"), ("--listen", "1s")])
def test_a_unit_of_another_quantity_is_an_error_of_its_option(init_with, tmp_path, options, source):
    path = tmp_path / "my.toml"
    if source[0] == "--listen":
        made, path = init_with(BOTH, *options, "--unit", "hPa")
    else:
        made = run("init", str(path), *source, *options, "--unit", "hPa")
    assert made.exit_code == 2
    assert made.stderr.splitlines()[-1] == (
        '--unit is "hPa", a unit of pressure; the units of temperature are °C, °F and K. [E100]'
    )
    assert not path.exists()


@pytest.mark.parametrize("mode", ["advise", "live"])
def test_a_sensor_in_another_unit_is_also_named_in_a_small_field(init_with, mode):
    """The two sensors of plain numbers, which have no command, are a field of their own."""
    messages = {**ZIGBEE, "home/hall/temperature": "21.5", "home/porch/temperature": "68"}

    made, _ = init_with(messages, "--mode", mode)

    (line,) = [each for each in made.stderr.splitlines() if each.startswith("The reading of")]
    assert line.startswith(
        "The reading of porch is 68. The median of all sensors is 22 °C, but 68 °F are 20 °C."
    )


def test_sensors_of_two_fields_are_converted_to_the_unit_of_tasmota(init_with):
    """The sensors of plain numbers have no command, and seem to send °C."""
    bodies = {
        "tele/hall/SENSOR": {"DS18B20": {"Temperature": 71.6}, "TempUnit": "F"},
        "home/attic/temperature": 21.0,
    }
    messages = {topic: json.dumps(body) for topic, body in bodies.items()}

    made, path = init_with(messages, "--unit", "°F", "--mode", "live")

    assert "Sensors of plain numbers seem to send °C. scale and offset" in made.stderr
    field = settings_of(path).fields["temperature-2"]
    ((source,), mean) = (field.sources, field.kernel.mean)
    assert (source.scale, source.offset, mean) == (1.8, 32.0, 69.8)


def test_a_given_mean_is_not_replaced_in_a_warning_about_units(init_with):
    messages = rooms("°C", "°F")
    made, _ = init_with(messages, "--mode", "live", "--mean", "21")
    assert "seem to send °F" in made.stderr
    assert "set the mean" not in made.stderr


def test_sensors_of_one_integration_in_two_units_are_named(init_with):
    """Each device of ESPHome has a source of its own, to which the settings must be added."""
    values = {"attic": 20.0, "hall": 69.8, "office": 22.0, "porch": 73.4, "shed": 24.0}
    messages = {f"{k}/sensor/{k}_temperature/state": str(value) for k, value in values.items()}

    made, path = init_with(messages)

    (line,) = [each for each in made.stderr.splitlines() if "seem to send" in each]
    assert line == (
        "Sensors of esphome (hall, porch) seem to send °F: their median is 71.6, and 71.6 °F are"
        " 22 °C. The median of esphome (attic) is 20 °C. If the sensors send °F, add"
        " scale = 0.55556 and offset = -17.778 to their source in the file."
    )
    (field,) = settings_of(path).fields.values()
    assert field.kernel.mean == 22.0


def test_settings_without_an_offset_have_the_offset_0(init_with):
    messages = {f"zigbee2mqtt/z{n}": json.dumps({"humidity": 50 + n}) for n in range(3)}
    messages |= {f"home/p{n}/humidity": str(0.5 + 0.01 * n) for n in range(3)}
    made, _ = init_with(messages, "--quantity", "humidity")
    assert "add scale = 100 and offset = 0 to their source" in made.stderr


def test_readings_in_a_unit_that_is_not_the_usual_one_are_named_as_not_converted(init_with):
    made, path = init_with(ZIGBEE, "--unit", "°F")
    (field,) = settings_of(path).fields.values()
    assert (field.unit, field.kernel.mean) == ("°F", 22.0)
    assert (
        "Readings of zigbee2mqtt count as °F and are not converted. If the sensors send °C, add"
        " scale = 1.8 and offset = 32 to their source in the file."
    ) in made.stderr


@pytest.mark.parametrize("options", [(), ("--unit", "°C"), ("--unit", "degrees")])
def test_readings_in_the_usual_unit_need_no_conversion(init_with, options):
    made, _ = init_with(ZIGBEE, *options)
    assert "convert" not in made.stderr


@pytest.mark.parametrize(
    "unit, scale, offset", [("°F", 1.8, 32.0), ("K", 1.0, 273.15), (None, 1.0, 100.0)]
)
def test_a_sensor_in_another_unit_is_named_with_the_settings_that_convert_it(
    init_with, unit, scale, offset
):
    values = [19.0, 20.0, 21.5, 22.0, 23.0, 20.5 * scale + offset]
    messages = {f"home/s{n}/temperature": str(value) for n, value in enumerate(values)}

    made, _ = init_with(messages)

    lines = [each for each in made.stderr.splitlines() if each.startswith("The reading of")]
    if unit is None:
        assert lines == []
        return
    assert lines == [
        f"The reading of s5 is {values[-1]:.4g}. The median of all sensors is 21.75 °C, but"
        f" {values[-1]:.4g} {unit} are 20.5 °C. If s5 sends {unit}, add a"
        " separate table [[fields.<name>.readings]] for s5, with"
        f" scale = {1 / scale:.5g} and offset = {-offset / scale:.5g}."
    ]


def test_a_converted_sensor_is_named_with_the_value_that_it_sent(init_with):
    bodies = {
        "tele/hall/SENSOR": {"DS18B20": {"Temperature": 71.6}, "TempUnit": "F"},
        **{f"zigbee2mqtt/s{n}": {"temperature": 20.0 + n} for n in range(5)},
        "zigbee2mqtt/porch": {"temperature": 70.0},
        "zigbee2mqtt/freezer": {"temperature": -5.5},
    }
    messages = {topic: json.dumps(body) for topic, body in bodies.items()}

    made, _ = init_with(messages, "--unit", "°F")

    (line,) = [each for each in made.stderr.splitlines() if each.startswith("The reading of")]
    assert line.startswith("The reading of porch is 70, which is converted to 158 °F.")
    assert line.endswith(
        "If porch sends °F, add a separate table [[fields.<name>.readings]] for porch, without"
        " scale and offset."
    )


@pytest.mark.parametrize(
    ("value", "options", "setting"),
    [
        ("BME280.Pressure", ("--quantity", "pressure"), "hPa"),
        ("BME280.Pressure", ("--quantity", "pressure", "--unit", "mmHg"), "mmHg"),
        ("BME280.Temperature", (), None),
        ("BME280.Temperature", ("--unit", "°F"), "°F"),
        ("BME280.Temperature", ("--unit", "F"), "F"),
        ("BME280.Humidity", ("--quantity", "humidity"), None),
        ("TX23.Speed.Act", ("--quantity", "wind", "--unit", "km/h"), "km/h"),
        (None, ("--unit", "°F"), "°F"),  # the format reads temperatures by default
    ],
)
def test_named_sensors_of_tasmota_are_converted_to_the_unit_of_the_field(
    value, options, setting, tmp_path
):
    path = tmp_path / "my.toml"
    of_value = () if value is None else ("--value", value)
    topic = ("--payload", "tasmota", "--topic", "tele/{sensor}/SENSOR")

    made = run("init", str(path), "--sensor", "a", *topic, *of_value, *options)

    assert made.exit_code == 0, made.output
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert field["reading"].get("unit") == setting


@pytest.mark.parametrize(("option", "given"), [("--payload", "tasmotta"), ("--value", "a..b[")])
def test_a_wrong_format_or_path_of_named_sensors_is_reported_with_its_option(
    option, given, tmp_path
):
    named = ("--sensor", "a", "--topic", "x/{sensor}", "--payload", "tasmota", option, given)

    made = run("init", str(tmp_path / "my.toml"), *named)

    assert made.exit_code == 2
    assert made.stderr.startswith(f"{option}: ")


UPLINK = {
    "received_at": "2021-12-02T09:34:06.596658678Z",
    "uplink_message": {"decoded_payload": {"temperature": 23.2}},
}


@pytest.mark.parametrize("sensors", [("cellar",), ("cellar", "attic")])
@pytest.mark.parametrize(("interval", "timeout"), [("30min", "30min"), ("on-reading", "1h")])
def test_a_lorawan_device_has_the_time_between_two_uplinks_to_reply(
    init_with, sensors, interval, timeout
):
    messages = {
        f"v3/app-{each}/devices/{each}/up": json.dumps(UPLINK) for each in sensors
    }  # two applications become two sources

    made, path = init_with(messages, "--mode", "live", "--interval", interval)

    assert "The interval and reply_timeout must be longer than the time between" in made.stderr
    assert "payload with the command in the manual of the device" in made.stderr
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert (field["activate"]["mode"], field["reply_timeout"]) == ("lorawan", timeout)
    assert '"lorawan" also activates' in path.read_text()
    assert run("check", str(path)).exit_code == 0


def test_a_comment_shows_the_reply_timeout_if_a_lorawan_device_is_not_activated(init_with):
    made, path = init_with({"v3/app/devices/cellar/up": json.dumps(UPLINK)})

    assert "reply_timeout" not in made.stderr
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert "reply_timeout" not in field
    live = re.sub("^# (activate|reply_timeout)", r"\1", path.read_text(), flags=re.MULTILINE)
    path.write_text(live.replace('activate = { mode = "advise" }\n', ""))
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert (field["activate"]["mode"], field["reply_timeout"]) == ("lorawan", "10min")
    assert run("check", str(path)).exit_code == 0


@pytest.mark.parametrize(("sensors", "published"), [(100, None), (101, 101), (501, None)])
def test_the_dashboard_shows_the_estimates_of_all_sensors_of_a_large_field(
    init_with, sensors, published
):
    messages = {f"home/room-{n}/temperature": "21.3" for n in range(sensors)}
    made, path = init_with(messages)

    assert made.exit_code == 0
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert len(field["sensors"]) == sensors
    assert field.get("publish_posterior") == published
    assert run("check", str(path)).exit_code == 0


@pytest.mark.parametrize(
    ("value", "unit", "mean"),
    [(21.3412345, "temperature", 21.34), (101347.216, "pressure", 101347.2)],
)
def test_the_mean_has_the_digits_that_the_spread_needs(init_with, value, unit, mean):
    made, path = init_with({f"home/hall/{unit}": str(value)})

    assert made.exit_code == 0
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert field["kernel"]["mean"] == mean


SPACED = [
    "居間\u3000北",
    "nb\u00a0sp",
    "نیم\u200cفاصله",
    "👩\u200d👧",
    "סלון\u200f",
    "e\u0301",
    "\u3000",
]
HIDDEN = ["zero\u200bwidth", "\u202ertl", "a\u2028b", "soft\u00adhyphen", "\ufeffbom", "x" * 65]


@pytest.mark.parametrize("mode", ["advise", "live"])
def test_names_of_all_scripts_are_sensors_and_no_hidden_name_is_lost_silently(init_with, mode):
    names = [*SPACED, *HIDDEN]
    messages = {f"zigbee2mqtt/{name}": document(20.0) for name in names}

    made, path = init_with(messages, "--mode", mode, "--quantity", "temperature")

    (field,) = tomllib.loads(path.read_text("utf-8"))["fields"].values()
    assert sorted(field["names"].values()) == sorted(SPACED)
    assert set(field["names"]) == set(field["sensors"])
    assert run("check", str(path)).exit_code == 0
    left_out = re.search("names that cannot be used are left out: (.*) and 1 more. A", made.stderr)
    assert set(left_out[1].split(", ")) < {repr(each) for each in HIDDEN[:-1]} | {"x" * 40}


def test_plain_numbers_on_a_topic_below_the_quantity_become_a_field(init_with):
    made, path = init_with({"temperature/hall": "21.3", "temperature/attic": "21.3"})

    assert "- temperature, mode advise: attic, hall\n" in made.stdout
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert field["reading"] == {"topic": "temperature/{sensor}", "payload": "number"}
    assert run("check", str(path)).exit_code == 0


@pytest.mark.parametrize(
    ("messages", "readings"),
    [
        (
            {"home/cellar": '{"temperature1": 21.3, "temperature2": 22.9}'},
            [("home/{sensor}", "temperature1"), ("home/{sensor}", "temperature2")],
        ),
        (
            {"home/cellar/temp_1": "21.3", "home/cellar/temp_2": "22.9"},
            [("home/{sensor}/temp_1", None), ("home/{sensor}/temp_2", None)],
        ),
    ],
)
def test_numbered_temperatures_of_a_device_without_an_integration_are_sensors(
    init_with, messages, readings
):
    made, path = init_with(messages)

    assert "- temperature, mode advise: cellar, cellar-2\n" in made.stdout
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert [(each["topic"], each.get("value")) for each in field["readings"]] == readings
    assert run("check", str(path)).exit_code == 0


@pytest.mark.parametrize("topic", ["garage/hall/temperature", "garage/hall"])
def test_another_device_with_the_name_of_a_chosen_sensor_is_named(init_with, topic):
    body = "5.0" if topic.endswith("temperature") else '{"temperature": 5.0}'
    messages = {f"zigbee2mqtt/{name}": document(20.0) for name in ("hall", "attic")}

    made, _ = init_with(messages | {topic: body}, "--quantity", "temperature")

    assert "- temperature, mode advise: attic, hall\n" in made.stdout
    assert (
        "Sensors of group 2 are left out, because they have the names of chosen sensors and are"
        " probably the same sensors: hall. If they are other sensors, run init in a terminal, and"
        " enter the numbers of the groups.\n"
    ) in made.stderr


def test_a_reading_that_zigbee2mqtt_publishes_twice_is_not_named(init_with):
    messages = {"zigbee2mqtt/hall": document(20.0), "zigbee2mqtt/hall/temperature": "20.0"}

    made, _ = init_with(messages, "--quantity", "temperature")

    assert "  2  1 sensor of plain numbers" in made.stdout
    assert "- temperature, mode advise: hall\n" in made.stdout
    assert "Sensors of group" not in made.stderr


ROOMS = {
    f"room-{n}/sensor/room-{n}_{quantity}/state": value
    for n in range(12)
    for quantity, value in (("temperature", "21.5"), ("humidity", "50"))
}


@pytest.mark.parametrize("key", ["temp", "Humidity", "CO2"])
def test_a_quantity_that_is_also_named_by_its_key_is_one_field(init_with, key):
    made, path = init_with(
        {f"home/{name}": f'{{"{key}": 19.5}}' for name in ("attic", "hall")},
        *("--quantity", quantity_of(key).name, "--quantity", key),
    )

    assert made.exit_code == 0, made.output
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert field["sensors"] == ["attic", "hall"]


def test_each_of_many_groups_of_the_wanted_quantities_becomes_a_source(init_with):
    made, path = init_with(ROOMS, "--quantity", "temperature", "--quantity", "humidity")

    assert made.exit_code == 0, made.output
    fields = tomllib.loads(path.read_text())["fields"]
    assert {name: len(field["sensors"]) for name, field in fields.items()} == {
        "temperature": 12,
        "humidity": 12,
    }
    assert run("check", str(path)).exit_code == 0


def test_the_quantities_of_groups_that_are_not_listed_are_named(init_with):
    made, _ = init_with(ROOMS)

    assert "\n 12  1 sensor of esphome: temperature" in made.stdout
    assert "\n     12 more groups of humidity; to list all groups" in made.stdout


@pytest.mark.parametrize("wanted", ["CO2", "co2", "CarbonDioxide", "SCD30.CarbonDioxide"])
def test_a_quantity_is_found_however_it_is_spelt(init_with, wanted):
    """As of named sensors."""
    body = {"SCD30": {"CarbonDioxide": 814, "Temperature": 22.0}}

    made, path = init_with({"tele/hall/SENSOR": json.dumps(body)}, "--quantity", wanted)

    assert made.exit_code == 0, made.output
    assert set(tomllib.loads(path.read_text())["fields"]) == {"co2"}


def test_friendly_names_with_two_slashes_can_be_activated(init_with):
    names = ("ground/kitchen/window", "first/bath/door")
    messages = {f"zigbee2mqtt/{name}": '{"temperature": 21.3}' for name in names}

    made, path = init_with(messages, "--mode", "live")

    assert "- temperature, mode live: door, window\n" in made.stdout, made.output
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert [each["activate"]["topic"] for each in field["readings"]] == [
        "zigbee2mqtt/first/bath/{sensor}/get",
        "zigbee2mqtt/ground/kitchen/{sensor}/get",
    ]
    assert run("check", str(path)).exit_code == 0


def test_a_value_that_two_integrations_recognise_is_one_sensor(init_with, monkeypatch):
    same = {"tasmota": PRESETS["tasmota"], "jmespath": PRESETS["tasmota"]}
    monkeypatch.setattr(formats, "all_presets", lambda: same)
    body = '{"AM2301": {"Temperature": 20.0}, "TempUnit": "C"}'

    made, _ = init_with({"tele/cellar/SENSOR": body})

    assert "  2  1 sensor of " in made.stdout
    assert "- temperature, mode advise: cellar\n" in made.stdout
    assert "left out" not in made.stderr


def test_another_thermometer_of_a_device_is_named_and_can_be_chosen(
    mosquitto, peer, tmp_path, monkeypatch
):
    """The terminal is simulated, because `CliRunner` has none."""
    broker = mosquitto()
    broker.start()
    body = {"AM2301": {"Temperature": 20.0}, "DS18B20": {"Temperature": 25.0}, "TempUnit": "C"}
    peer(broker.port).publish("tele/cellar/SENSOR", json.dumps(body), retain=True)
    options = ("--port", str(broker.port), "--listen", "1s", "--interval", "1min")
    path = tmp_path / "my.toml"

    made = run("init", str(tmp_path / "first.toml"), *options)
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    chosen = run("init", str(path), *options, typed="n\n1 2\n")

    assert (
        "Sensors of group 2 are left out: cellar. The name of their value is DS18B20.Temperature."
        in made.stderr
    )
    assert "- temperature, mode advise: cellar\n" in made.stdout
    assert "- temperature, mode advise: cellar, cellar-2\n" in chosen.stdout, chosen.output
    assert run("check", str(path)).exit_code == 0


# --- on a terminal ------------------------------------------------------------------------------


def test_on_a_terminal_init_prompts_and_stores_the_password_in_a_separate_file(
    tmp_path, monkeypatch
):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    path = tmp_path / "my.toml"

    made = run("init", str(path), typed="me@lan:1884\nn\nhall attic\n5min\nhunter2\n")

    assert made.exit_code == 0, made.output
    assert "hunter2" not in made.output + path.read_text()
    secret = tmp_path / "my.password"
    assert secret.read_text() == "hunter2\n"
    assert secret.stat().st_mode & 0o777 == 0o600
    mqtt = tomllib.loads(path.read_text())["mqtt"]
    assert mqtt == {
        "host": "lan", "port": 1884, "username": "me", "password_file": "my.password",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "is_asked"),
    [
        (("--port", "1884"), False),
        (("--host", "127.0.0.1"), False),
        (("--user", "me", "--password-file", "/dev/null"), True),
        (("--password-file", "/dev/null"), True),
    ],
)
def test_init_asks_for_the_broker_only_if_no_option_says_where_it_is(
    tmp_path, monkeypatch, options, is_asked
):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    path = tmp_path / "my.toml"
    typed = ["me@lan"] * is_asked + ["n", "hall", "5min", ""]

    made = run("init", str(path), *options, typed="\n".join(typed))

    assert ("Broker (" in made.output) == is_asked, made.output
    if options[0] == "--port":
        assert tomllib.loads(path.read_text())["mqtt"] == {"host": "127.0.0.1", "port": 1884}


def test_a_bad_answer_is_asked_again_and_no_answer_is_lost(tmp_path, monkeypatch):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    path = tmp_path / "my.toml"
    typed = [
        "mqtt://lan",
        "lan:port",
        "lan:1884",
        "n",
        "hall Küche",
        "",
        "hall, attic",
        "10m",
        "soon",
    ]

    made = run("init", str(path), typed="\n".join([*typed, "5min", ""]))

    assert made.exit_code == 0, made.output
    settings = tomllib.loads(path.read_text())
    field = settings["fields"]["temperature"]
    assert settings["mqtt"] == {"host": "lan", "port": 1884}
    assert (field["sensors"], field["interval"]) == (["hall", "attic"], "5min")
    assert '"on-reading" (did you mean "10min"?)' in made.output
    assert made.output.count("Broker (") == 3 and made.output.count("How often") == 3


def test_on_a_terminal_several_groups_are_chosen_after_a_wrong_number_and_a_wrong_broker(
    mosquitto, peer, tmp_path, monkeypatch
):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    broker = mosquitto()
    broker.start()
    path = tmp_path / "my.toml"
    answers = [f"127.0.0.1:{free_port()}", "n", f"127.0.0.1:{broker.port}", "0 7", "1 2"]
    with traffic(peer(broker.port)):
        options = ("--listen", "2s", "--interval", "1min")
        made = run("init", str(path), *options, typed="\n".join([*answers, ""]))

    assert made.exit_code == 0, made.output
    assert "[E402]" in made.stderr
    assert list(tomllib.loads(path.read_text())["fields"]) == ["temperature", "humidity"]


class FailsTwice:
    """Finds no broker at first, and then fails for another reason."""

    def __init__(self):
        self.hosts = []

    def __call__(self, answers, *_):
        self.hosts.append(answers.host)
        raise (LinkError if len(self.hosts) == 1 else EdgeTvboError)("this broker is ill")


def test_after_an_error_on_a_terminal_the_answers_are_printed_as_options(tmp_path, monkeypatch):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    (tmp_path / "my.password").write_text("")

    made = run("init", str(tmp_path / "my.toml"), typed="me@lan\nn\nhall\n5min\n")

    assert made.exit_code == 2
    assert "--host lan --port 1883 --user me --sensor hall --interval 5min" in made.stderr


def test_the_broker_that_is_the_default_of_the_prompt_can_be_accepted(tmp_path, monkeypatch):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    monkeypatch.setattr(init_fields, "make_fields", FailsTwice())
    options = ("--host", "fd00::1", "--port", "8883", "--listen", "12d", "--interval", "5min")

    made = run("init", str(tmp_path / "my.toml"), *options, "--mode", "advise", typed="\n\n")

    assert made.exit_code == 2
    assert "is not a host" not in made.output
    assert "--host fd00::1 --port 8883 --listen 12d" in made.stderr


def test_the_answers_printed_as_options_are_the_newest_and_keep_all_given_options(
    tmp_path, monkeypatch
):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    (tmp_path / "pass.word").write_text("secret\n")
    (tmp_path / "my.password").write_text("")
    options = ["--tls", "--user", "me", "--password-file", str(tmp_path / "pass.word")]
    options += ["--ca", str(tmp_path / "pass.word")]
    options += ["--listen", "90s", "--quantity", "humidity", "--unit", "%", "--interval", "5min"]
    options += ["--mode", "advise", "--mean", "-40.5", "--spread", "3.25"]
    monkeypatch.setattr(init_fields, "make_fields", fails_twice := FailsTwice())

    made = run("init", str(tmp_path / "my.toml"), *options, typed="lan\nwan:8883\n")

    assert made.exit_code == 2 and fails_twice.hosts == ["lan", "wan"]
    (command,) = re.findall("^    edge-tvbo (init .*)$", made.stderr, re.MULTILINE)
    words = shlex.split(command)[2:]
    assert words[:4] == ["--host", "wan", "--port", "8883"] and "--tls" in words
    assert sorted(words[4:]) == sorted(options)


@pytest.fixture
def tls_port(mosquitto, certs):
    """Return the port of a broker that uses TLS and has the certificate of a private CA."""
    files = f"cafile {certs}/ca.pem\ncertfile {certs}/server.pem\nkeyfile {certs}/server.key\n"
    broker = mosquitto(f"allow_anonymous true\n{files}")
    broker.start()
    return broker.port


def test_a_broker_with_a_private_ca_is_reached_with_the_ca_as_an_option(tls_port, certs, tmp_path):
    config = str(tmp_path / "my.toml")
    options = ("--port", str(tls_port), "--listen", "100ms")

    unknown = run("init", config, *options, "--tls")
    known = run("init", config, *options, "--ca", str(certs / "ca.pem"))

    assert unknown.exit_code == 1
    assert "set --ca to the certificate of the CA that signed it [E406]" in unknown.stderr
    assert known.exit_code == 1  # the broker has no sensor
    assert "No message was received" in known.stderr


def test_the_path_of_the_ca_is_written_as_an_absolute_path(certs, tmp_path, monkeypatch):
    (tmp_path / "my ca.pem").symlink_to(certs / "ca.pem")
    (tmp_path / "configs").mkdir()
    monkeypatch.chdir(tmp_path)

    made = run("init", "configs/my.toml", "--sensor", "hall", "--ca", "my ca.pem")

    assert made.exit_code == 0, made.output
    mqtt = tomllib.loads((tmp_path / "configs" / "my.toml").read_text())["mqtt"]
    assert mqtt["tls"] == {"ca": str(tmp_path / "my ca.pem")}


@pytest.mark.parametrize("option", ["--tls", "--ca"])
def test_a_connection_problem_names_options_in_place_of_the_settings_that_they_set(
    tmp_path, monkeypatch, option
):
    def listen(*_):
        raise LinkError("set mqtt.host, mqtt.tls.ca or mqtt.tls.certificate, or remove [mqtt.tls]")

    monkeypatch.setattr("edge_tvbo_adapters.mqtt.listen.listen", listen)
    (tmp_path / "ca.pem").write_text("")
    given = [option, str(tmp_path / "ca.pem")] if option == "--ca" else [option]

    made = run("init", str(tmp_path / "my.toml"), "--listen", "1s", *given)

    assert made.exit_code == 1
    assert f"set --host, --ca or mqtt.tls.certificate, or remove {option}" in made.stderr


@pytest.mark.parametrize(
    ("quantity", "unit", "reading"),
    [
        ("pressure", "hPa", 1013.2),
        ("pressure", "mbar", 1013.2),
        ("pressure", "kPa", 101.3),
        ("pressure", "bar", 1.013),
        ("pressure", "inHg", 29.9),
        ("pressure", "mmHg", 760.0),
        ("pressure", "psi", 14.7),
        ("humidity", "%", 64.0),
        ("temperature", "°F", 95.0),
        ("temperature", "K", 293.0),
    ],
)
def test_a_usual_reading_of_a_named_sensor_is_plausible(tmp_path, quantity, unit, reading):
    path = tmp_path / "my.toml"
    named = ("--sensor", "a", "--quantity", quantity, "--unit", unit)

    made = run("init", str(path), *named)

    assert made.exit_code == 0, made.output
    kernel = tomllib.loads(path.read_text())["fields"][quantity]["kernel"]
    assert abs(reading - kernel["mean"]) < 6 * kernel["variance"] ** 0.5


@pytest.mark.parametrize("source", [("--sensor", "hall"), ("--listen", "1s")])
@pytest.mark.parametrize("name", ["missing.pem", "text.pem", "."])
def test_a_ca_that_is_no_certificate_is_an_error_of_its_option(tmp_path, name, source):
    (tmp_path / "text.pem").write_text("no certificate")
    path = tmp_path / "my.toml"

    made = run("init", str(path), *source, "--ca", str(tmp_path / name))

    assert made.exit_code == 2, made.output
    assert "--ca" in made.stderr and "Traceback" not in made.stderr
    assert not path.exists()


def test_named_sensors_have_a_topic_and_a_unit_for_each_quantity(tmp_path):
    path = tmp_path / "my.toml"
    options = ("--sensor", "a", "--quantity", "humidity", "--quantity", "co2")

    assert run("init", str(path), *options).exit_code == 0

    fields = tomllib.loads(path.read_text())["fields"]
    assert {name: (each["unit"], each["reading"]["topic"]) for name, each in fields.items()} == {
        "humidity": ("%", "sensors/{sensor}/humidity"),
        "co2": ("ppm", "sensors/{sensor}/co2"),
    }
    same = run("init", str(tmp_path / "b.toml"), *options, "--topic", "x/{sensor}")
    assert same.exit_code == 2 and "--topic 'home/{sensor}/{quantity}'" in same.stderr


def test_a_quantity_and_a_sensor_that_are_named_twice_are_used_once(tmp_path):
    path = tmp_path / "my.toml"
    options = ("--quantity", "temperature") * 2 + ("--sensor", "Küche") * 2

    assert run("init", str(path), *options).exit_code == 0

    fields = tomllib.loads(path.read_text())["fields"]
    assert {name: each["sensors"] for name, each in fields.items()} == {"temperature": ["Kuche"]}


def test_the_mean_of_the_readings_is_written_with_all_its_digits(tmp_path):
    path = tmp_path / "my.toml"

    assert run("init", str(path), "--sensor", "a", "--mean", "1013.26").exit_code == 0

    assert tomllib.loads(path.read_text())["fields"]["temperature"]["kernel"]["mean"] == 1013.26


def test_a_quantity_of_named_sensors_may_be_no_name_of_a_field(tmp_path):
    path = tmp_path / "my.toml"
    options = ("--sensor", "a", "--quantity", "CO2", "--quantity", "Air quality")

    made = run("init", str(path), *options)

    assert made.exit_code == 0, made.output
    fields = tomllib.loads(path.read_text())["fields"]
    assert {name: (each["unit"], each["reading"]["topic"]) for name, each in fields.items()} == {
        "co2": ("ppm", "sensors/{sensor}/CO2"),
        "air-quality": ("", "sensors/{sensor}/Air quality"),
    }


def test_init_needs_a_user_for_a_password_and_listens_only_with_a_readable_one(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes("geheim-äöü\n".encode("latin-1"))
    options = ("--listen", "1h", "--port", str(free_port()), "--password-file", str(secret))

    alone = run("init", str(tmp_path / "my.toml"), *options)
    unreadable = run("init", str(tmp_path / "my.toml"), *options, "--user", "me")

    assert (alone.exit_code, unreadable.exit_code) == (2, 2)
    assert "--password-file needs a user name; add  --user NAME" in alone.stderr
    assert f"--password-file is {secret}, which is not a UTF-8 text file" in unreadable.stderr
    assert "geheim" not in unreadable.output


@pytest.mark.parametrize("more", [("--listen", "1h"), ("--sensor", "a")])
@pytest.mark.parametrize("host", ["mqtt://me:geheim@lan", "lan:1884", "two words"])
def test_an_invalid_host_is_rejected_before_listening_and_no_password_in_it_is_printed(
    tmp_path, host, more
):
    made = run("init", str(tmp_path / "my.toml"), "--host", host, *more)
    assert made.exit_code == 2
    assert "'--host': the host is invalid; allowed: a host name or an IP address" in made.stderr
    assert "geheim" not in made.output
    assert "Listening" not in made.output


@pytest.mark.parametrize("name", ["two words.toml", "it's.toml", "#1.toml"])
def test_the_printed_commands_name_the_file_as_a_shell_reads_it(tmp_path, name):
    path = str(tmp_path / name)

    made = run("init", path, "--sensor", "a")

    commands = [
        shlex.split(each, comments=True)
        for each in made.stdout.splitlines()
        if each.startswith("    edge-tvbo ")
    ]
    assert commands == [["edge-tvbo", "check", "--connect", path], ["edge-tvbo", "run", path]]


@pytest.mark.parametrize("where", ["my.toml.new", "my.password", "my.toml"])
def test_init_overwrites_no_file_and_leaves_none_after_a_failure(tmp_path, monkeypatch, where):
    """The terminal is simulated, and a file appears while init prompts."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    password = init._password

    def meanwhile(*arguments):
        given = password(*arguments)
        (tmp_path / where).write_text("mine\n")
        return given

    monkeypatch.setattr(init, "_password", meanwhile)
    options = ("--host", "lan", "--user", "me", "--sensor", "a", "--interval", "5min")

    made = run("init", str(tmp_path / "my.toml"), *options, typed="hunter2\n")

    assert (tmp_path / where).read_text() == "mine\n"
    if where == "my.toml.new":
        assert made.exit_code == 0, made.output
    else:
        assert "File exists" in made.stderr and made.exit_code == 2
        assert [each.name for each in tmp_path.iterdir()] == [where]


def test_the_option_for_an_existing_password_file_is_printed_as_a_shell_reads_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    secret = tmp_path / "two words.password"
    secret.write_text("mine\n")
    options = ("--host", "lan", "--user", "me", "--sensor", "a", "--interval", "5min")

    made = run("init", str(tmp_path / "two words.toml"), *options)

    assert made.exit_code == 2
    assert f"add  --password-file '{secret}' [" in made.stderr


def test_init_leaves_no_file_of_an_invalid_configuration(tmp_path, monkeypatch):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    options = ("--host", "lan", "--user", "me", "--sensor", "a", "--interval", "soon")

    made = run("init", str(tmp_path / "my.toml"), *options, typed="hunter2\n")

    assert made.exit_code == 2
    assert "interval" in made.stderr
    assert list(tmp_path.iterdir()) == []


def test_init_does_not_prompt_for_values_of_options(tmp_path, monkeypatch):
    """The terminal is simulated, because `CliRunner` has none."""
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    path = tmp_path / "my.toml"

    made = run("init", str(path), "--host", "lan", "--sensor", "a", "--interval", "1min", typed="")

    assert made.exit_code == 0, made.output


def test_named_sensors_have_the_ids_of_sensors_that_are_found(tmp_path):
    path = tmp_path / "my.toml"

    assert run("init", str(path), "--sensor", "Küche", "--sensor", "hall").exit_code == 0

    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert (field["sensors"], field["names"]) == (["hall", "Kuche"], {"Kuche": "Küche"})
    wrong = run("init", str(tmp_path / "b.toml"), "--sensor", "a/b")
    assert wrong.exit_code == 2 and "--sensor is 'a/b'; allowed:" in wrong.stderr


def test_init_either_listens_or_takes_the_named_sensors(tmp_path):
    path = tmp_path / "my.toml"

    made = run("init", str(path), "--sensor", "a", "--listen", "60s")

    assert (made.exit_code, path.exists()) == (2, False)
    assert "Remove one of the two options." in made.stderr


def test_without_a_terminal_and_sensors_init_prints_the_options_to_add(tmp_path):
    made = run("init", str(tmp_path / "my.toml"))

    assert made.exit_code == 2
    assert "--listen 60s" in made.stderr


def test_on_a_terminal_a_topic_is_for_sensors_that_the_user_names(tmp_path, monkeypatch):
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    answers = "\n".join(["", "hall attic", ""]) + "\n"
    path = tmp_path / "my.toml"

    made = CliRunner().invoke(main, ["init", str(path), "--topic", "x/{sensor}"], input=answers)

    assert made.exit_code == 0, made.output
    (field,) = tomllib.loads(path.read_text())["fields"].values()
    assert (field["sensors"], field["reading"]["topic"]) == (["hall", "attic"], "x/{sensor}")


@pytest.mark.parametrize("option", ["--topic", "--payload", "--value"])
def test_listening_rejects_the_options_of_named_sensors(tmp_path, option):
    done = run("init", str(tmp_path / "my.toml"), "--listen", "1h", option, "json")

    assert done.exit_code == 2
    assert f"remove {option}, which can only be used with --sensor" in done.stderr


def test_an_invalid_option_is_named_without_a_line_of_the_removed_file(tmp_path):
    path = tmp_path / "my.toml"

    done = run("init", str(path), "--sensor", "a", "--topic", "foo", "--spread", "1e200")

    assert (done.exit_code, path.exists()) == (2, False)
    said = done.stderr.splitlines()
    assert said[0].startswith('--topic: fields.temperature.reading.topic is "foo"; allowed: ')
    assert said[1].startswith("--spread: fields.temperature.kernel.variance is inf; allowed: ")


def test_each_of_several_fields_is_given_a_model_file_of_its_own(tmp_path):
    path = tmp_path / "my.toml"

    run("init", str(path), "--sensor", "a", "--quantity", "humidity", "--quantity", "co2")

    named = re.findall(r'^# model = "(.*)"', path.read_text(), re.MULTILINE)
    assert named == ["humidity.model.json", "co2.model.json"]
