"""A make is known by its topic and its payload, and what is proposed for it can be read."""

import pytest
from edge_tvbo_adapters.mqtt.topics import Template
from edge_tvbo_adapters.payloads import all_presets, make_codec
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import MESSAGES

PRESETS = all_presets()
READ = [each for each in MESSAGES if isinstance(each.expected, tuple) and each.payload in PRESETS]


@given(st.text(), st.binary())
def test_no_message_hurts_whoever_looks_for_makes(topic, payload):
    for preset in PRESETS.values():
        sighting = preset.recognise(topic, payload)
        assert sighting is None or Template(sighting.topic).sensor(topic) == sighting.sensor


@pytest.mark.parametrize("message", READ, ids=lambda each: f"{each.payload}: {each.topic}")
def test_a_recorded_message_is_recognised_as_its_makes_and_no_others(message):
    seen = {name: each.recognise(message.topic, message.body) for name, each in PRESETS.items()}
    assert [name for name, each in seen.items() if each is not None] == [message.payload]


@pytest.mark.parametrize("message", READ, ids=lambda each: f"{each.payload}: {each.topic}")
def test_every_value_that_is_proposed_can_be_read(message):
    sighting = PRESETS[message.payload].recognise(message.topic, message.body)
    assert Template(sighting.topic).sensor(message.topic) == sighting.sensor
    for settings in [{"value": each} for each in sighting.values] or [{}]:
        value, _ = make_codec(message.payload, settings)(message.body)
        assert isinstance(value, float)


def test_what_a_make_is_asked_with_has_its_owners_words_in_it():
    topic = "v3/app1@ttn/devices/node-7/up"
    body = b'{"uplink_message": {"decoded_payload": {"temperature": 23.2}}}'
    sighting = PRESETS["the-things-stack"].recognise(topic, body)
    assert sighting.topic == "v3/app1@ttn/devices/{sensor}/up"
    assert sighting.activate.topic == "v3/app1@ttn/devices/{sensor}/down/replace"
    assert sighting.values == ("temperature",)


@pytest.mark.parametrize(
    ("make", "topic", "body"),
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
def test_what_is_no_reading_of_a_make_is_not_recognised(make, topic, body):
    assert PRESETS[make].recognise(topic, body) is None
