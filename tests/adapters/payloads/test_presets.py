"""Device presets: sensors are recognised by topic and payload, and their values decode."""

import pytest
from edge_tvbo_adapters.mqtt.topics import Template
from edge_tvbo_adapters.payloads import all_presets, make_codec
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import MESSAGES

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


def test_values_of_a_shelly_status_leave_out_numbers_that_measure_nothing():
    message = next(each for each in MESSAGES if each.topic.endswith("/status/temperature:0"))
    assert PRESETS["shelly"].recognise(message.topic, message.body).values == ("tC",)
    message = next(each for each in MESSAGES if each.payload == "shelly")
    values = PRESETS["shelly"].recognise(message.topic, message.body).values
    assert {"temperature:0.tC", "humidity:0.rh", "devicepower:0.battery.percent"} <= set(values)
    assert not [each for each in values if each.split(".")[-1] in ("id", "tF", "ts")]


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
        ("chirpstack", "application/1/device/2/event/join", b'{"object": {"t": 1}}'),
    ],
)
def test_other_messages_of_an_integration_are_not_recognised(preset, topic, body):
    assert PRESETS[preset].recognise(topic, body) is None
