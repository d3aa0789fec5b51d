"""Device presets: sensors are recognised by topic and payload, and their values decode."""

import json

import pytest
from edge_tvbo_adapters.mqtt.topics import Template
from edge_tvbo_adapters.payloads.formats import all_presets, make_codec
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import MESSAGES

from edge_tvbo.errors import PayloadError

PRESETS = all_presets()
DECODED = [
    each for each in MESSAGES if isinstance(each.expected, tuple) and each.payload in PRESETS
]


@given(st.text(), st.binary())
def test_any_message_is_recognised_or_ignored(topic, payload):
    for preset in PRESETS.values():
        detected = preset.recognise(topic, payload)
        assert detected is None or Template(detected.topic).sensor(topic) == detected.sensor


@pytest.mark.parametrize("message", DECODED, ids=lambda each: f"{each.payload}: {each.topic}")
def test_recorded_message_is_recognised_by_one_preset(message):
    detected = {name: each.recognise(message.topic, message.body) for name, each in PRESETS.items()}
    assert [name for name, each in detected.items() if each is not None] == [message.payload]


@pytest.mark.parametrize("message", DECODED, ids=lambda each: f"{each.payload}: {each.topic}")
def test_every_listed_value_can_be_decoded(message):
    detected = PRESETS[message.payload].recognise(message.topic, message.body)
    assert Template(detected.topic).sensor(message.topic) == detected.sensor
    for settings in [{"value": each} for each in detected.values] or [{}]:
        value, _ = make_codec(message.payload, settings)(message.body)
        assert isinstance(value, float)


def test_activation_topic_has_the_words_of_the_reading_topic():
    topic = "v3/app1@ttn/devices/node-7/up"
    body = b'{"uplink_message": {"decoded_payload": {"temperature": 23.2}}}'
    detected = PRESETS["the-things-stack"].recognise(topic, body)
    assert detected.topic == "v3/app1@ttn/devices/{sensor}/up"
    assert detected.activate.topic == "v3/app1@ttn/devices/{sensor}/down/replace"
    assert detected.values == ("temperature",)


@pytest.mark.parametrize("version", ["", "5/"])
def test_the_sensor_of_a_homie_topic_is_the_device(version):
    """`homie/<device>/<node>/<property>` up to Homie 4, `homie/5/<device>/...` in Homie 5."""
    detected = PRESETS["homie"].recognise(f"homie/{version}hall/climate/temperature", b"21.5")

    assert detected.sensor == "hall"
    assert detected.topic == f"homie/{version}{{sensor}}/climate/temperature"


def test_values_of_a_shelly_status_leave_out_numbers_that_measure_nothing():
    message = next(each for each in MESSAGES if each.topic.endswith("/status/temperature:0"))
    assert PRESETS["shelly"].recognise(message.topic, message.body).values == ("tC",)
    message = next(each for each in MESSAGES if each.payload == "shelly")
    values = PRESETS["shelly"].recognise(message.topic, message.body).values
    assert {"temperature:0.tC", "humidity:0.rh", "devicepower:0.battery.percent"} <= set(values)
    assert not [each for each in values if each.split(".")[-1] in ("id", "tF", "ts")]


PLUG = b'{"id": 0, "apower": 47.1, "temperature": {"tC": 47.5, "tF": 117.5}}'
NSPANEL = b'{"ANALOG": {"Temperature1": 27.4}, "ESP32": {"Temperature": 37.8}, "TempUnit": "C"}'


def test_the_temperature_inside_a_device_is_not_listed():
    plug = PRESETS["shelly"].recognise("plug-1/status/switch:0", PLUG)
    assert plug.values == ("apower",)
    panel = PRESETS["tasmota"].recognise("tele/bed/SENSOR", NSPANEL)
    assert panel.values == ("ANALOG.Temperature1",)


def test_the_temperature_inside_a_device_is_read_only_if_it_is_named():
    read = make_codec("shelly", {"value": "switch:0.temperature.tC"})
    assert read(PLUG) == (47.5, None)
    with pytest.raises(PayloadError, match="Temperature"):
        make_codec("tasmota", {})(NSPANEL)
    assert make_codec("tasmota", {"value": "ESP32.Temperature"})(NSPANEL) == (37.8, None)


@pytest.mark.parametrize(
    "value", ["battery.percent", "devicepower:0.battery.percent", "percent.of", "missing"]
)
def test_a_nested_value_of_a_shelly_status_topic_is_read(value):
    body = b'{"id": 0, "battery": {"V": 5.8, "percent": 82}, "of": 7}'
    codec = make_codec("shelly", {"value": value})
    if "battery" in value:
        assert codec(body) == (82.0, None)
    elif value == "percent.of":
        assert codec(body) == (7.0, None)  # a component without a number, such as wifi
    else:
        with pytest.raises(PayloadError, match="'missing' is missing"):
            codec(body)


@pytest.mark.parametrize(
    ("value", "celsius"),
    [
        ("DS18B20.Temperature", 20.0),
        ("ANALOG.Temperature1", 21.0),
        ("MAX31855.ProbeTemperature", 100.0),
        ("SHT3X.DewPoint", 10.0),
        ("SHT3X.HeatIndex", 30.0),  # CalcTemHumToHeatIndex in Tasmota's support.ino is in TempUnit
        ("SHT3X.Humidity", 50.0),
    ],
)
def test_every_temperature_of_tasmota_is_converted(value, celsius):
    body = (
        b'{"DS18B20": {"Temperature": 68}, "ANALOG": {"Temperature1": 69.8}, "TempUnit": "F",'
        b' "MAX31855": {"ProbeTemperature": 212},'
        b' "SHT3X": {"DewPoint": 50, "HeatIndex": 86, "Humidity": 50}}'
    )
    assert make_codec("tasmota", {"value": value})(body) == (celsius, None)


WEATHER = (
    '{"BME280": {"Temperature": 50, "Pressure": 750.06376, "SeaPressure": 760.0},'
    ' "TX23": {"Speed": {"Act": 36.0, "Avg": 18.0}}, "TempUnit": "F", "PressureUnit": "mmHg",'
    ' "SpeedUnit": "km/h"}'
)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("Pressure", "hPa", 1000.0),
        ("BME280.Pressure", "inHg", 29.52998),
        ("BME280.Pressure", "mmHg", 750.06376),
        ("BME280.SeaPressure", "hPa", 1013.247194),
        ("TX23.Speed.Act", "m/s", 10.0),
        ("TX23.Speed.Avg", "kn", 9.71922),
        ("BME280.Pressure", None, 750.06376),  # without `unit`, the unit of the device
        ("BME280.Pressure", "C", 750.06376),  # the unit of temperatures only
        ("TX23.Speed.Act", None, 36.0),
    ],
)
def test_a_pressure_and_a_speed_of_tasmota_are_converted_to_the_unit(value, unit, expected):
    settings = {"value": value} | ({"unit": unit} if unit else {})
    assert make_codec("tasmota", settings)(WEATHER.encode()) == (expected, None)


def test_a_speed_of_tasmota_without_a_unit_is_in_metres_per_second():
    body = json.loads(WEATHER)
    del body["SpeedUnit"]
    codec = make_codec("tasmota", {"value": "TX23.Speed.Act", "unit": "km/h"})
    assert codec(json.dumps(body).encode()) == (129.6, None)


@pytest.mark.parametrize(
    ("value", "unit", "stated", "problem"),
    [
        ("BME280.Pressure", "hPa", "мм рт.ст.", "PressureUnit is 'мм рт.ст.', not hPa, mmHg or"),
        ("BME280.Pressure", "hPa", ["hPa"], "PressureUnit is \"['hPa']\", not hPa, mmHg or inHg"),
        ("TX23.Speed.Act", "m/s", None, "SpeedUnit is 'None', not m/s, km/h, kn, mph, ft/s or"),
        ("BME280.Temperature", "C", "K", "TempUnit is 'K', not C or F"),
    ],
)
def test_a_unit_of_tasmota_that_is_unknown_is_named(value, unit, stated, problem):
    body = json.loads(WEATHER) | dict.fromkeys(("TempUnit", "PressureUnit", "SpeedUnit"), stated)
    with pytest.raises(PayloadError) as error:
        make_codec("tasmota", {"value": value, "unit": unit})(json.dumps(body).encode())
    assert error.value.reason == "wrong-unit"
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("time", "at"), [("1970-01-01T00:04:13", None), ("2026-01-15T12:00:00", 1768474800.0)]
)
def test_a_tasmota_device_without_the_time_of_day_has_the_time_of_arrival(time, at):
    codec = make_codec("tasmota", {"timezone": "Europe/Berlin"})
    body = f'{{"Time": "{time}", "DS18B20": {{"Temperature": 21.3}}}}'.encode()
    assert codec(body) == (21.3, at)


@pytest.mark.parametrize(
    ("preset", "topic", "body"),
    [
        ("zigbee2mqtt", "zigbee2mqtt/bridge/state", b'{"state": "online", "n": 1}'),
        ("zigbee2mqtt", "zigbee2mqtt/bulb", b'{"state": "ON"}'),
        ("zigbee2mqtt", "zigbee2mqtt/hall", b"[1]"),
        ("tasmota", "tele/plug/STATE", b'{"UptimeSec": 5}'),
        ("esphome", "attic/sensor/name/state", b"dry"),
        ("homie", "homie/5/car/$state", b"1"),
        ("homie", "homie/5/$broadcast/alarm/level", b"1"),
        ("homie", "homie/5/car/engine", b"1"),
        ("homie", "homie/car/$stats/uptime", b"120"),
        ("homie", "homie/car/engine/$name", b"1"),
        ("chirpstack", "application/1/device/2/event/join", b'{"object": {"t": 1}}'),
    ],
)
def test_other_messages_of_an_integration_are_not_recognised(preset, topic, body):
    assert PRESETS[preset].recognise(topic, body) is None


@pytest.mark.parametrize("settings", [{}, {"timezone": "Europe/Berlin"}])
def test_a_tasmota_time_with_an_offset_from_utc_is_used(settings):
    body = b'{"Time": "2024-03-01T08:00:00-06:00", "AM2301": {"Temperature": 20.5}}'

    assert make_codec("tasmota", settings)(body) == (20.5, 1709301600.0)


@pytest.mark.parametrize(
    "value", ["Temperature", "AM2301.Temperature", "StatusSNS.AM2301.Temperature"]
)
def test_the_reply_of_tasmota_to_status_10_is_read(value):
    status = b'{"Time": "2024-03-01T08:00:00", "AM2301": {"Temperature": 68.9}, "TempUnit": "F"}'
    settings = {"value": value, "timezone": "UTC"}

    read = make_codec("tasmota", settings)(b'{"StatusSNS": %s}' % status)

    assert read == (20.5, 1709280000.0)
