"""Topics: sensor ids in templates, topics that can be published, activation payloads."""

import pytest
from edge_tvbo_adapters.mqtt.topics import (
    MAX_TOPIC_LENGTH,
    SENSOR_PLACE,
    Template,
    default_client_id,
    fill_in,
    publishable,
)
from hypothesis import example, given
from hypothesis import strategies as st

from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.commands import Activate

levels = st.text(st.characters(exclude_characters="/+#\0", exclude_categories=["Cs"]), max_size=8)
ids = levels.filter(bool)
plain = levels.filter(lambda level: not set("{}") & set(level))


@st.composite
def templates(draw):
    """Draw the levels before and after the sensor's."""
    plain = levels.filter(lambda level: level != SENSOR_PLACE)
    return draw(st.lists(plain, max_size=3)), draw(st.lists(plain, max_size=3))


@given(templates(), ids)
@example(([], []), "mote-17")
@example((["lab"], ["temperature"]), SENSOR_PLACE)
@example((["lab"], []), "+17")
def test_the_sensor_in_a_topic_is_found_again(around, sensor):
    before, after = around
    template = Template("/".join([*before, SENSOR_PLACE, *after]))
    assert template.sensor("/".join([*before, sensor, *after])) == sensor
    assert template.filter.split("/") == [*before, "+", *after]


@given(templates(), plain, ids, plain)
@example(([], []), "a-", "a", "-a")
@example(([], []), "a", "x", "a")
def test_a_sensor_may_be_a_part_of_its_level(around, prefix, sensor, suffix):
    before, after = around
    template = Template("/".join([*before, prefix + SENSOR_PLACE + suffix, *after]))
    assert template.sensor("/".join([*before, prefix + sensor + suffix, *after])) == sensor
    assert template.filter.split("/") == [*before, "+", *after]
    if around_it := prefix + suffix:
        assert template.sensor("/".join([*before, around_it[1:], *after])) is None


@pytest.mark.parametrize(
    ("template", "topic", "sensor"),
    [
        ("zigbee2mqtt/{sensor}", "zigbee2mqtt/Living room", "Living room"),
        ("zigbee2mqtt/{sensor}", "zigbee2mqtt/kitchen/floor", None),
        ("zigbee2mqtt/{sensor}", "zigbee2mqtt/hall/availability", None),
        ("{sensor}/sensor/temperature/state", "attic/sensor/temperature/state", "attic"),
        ("tele/{sensor}/SENSOR", "tele/tasmota_4F2A1B/SENSOR", "tasmota_4F2A1B"),
        ("shellyht-{sensor}/status/temperature:0", "shellyht-08b6/status/temperature:0", "08b6"),
        ("shellyht-{sensor}/status/temperature:0", "shellyplug-08b6/status/temperature:0", None),
        ("shellyht-{sensor}/status/temperature:0", "shellyht/status/temperature:0", None),
        ("v3/app1@ttn/devices/{sensor}/up", "v3/app1@ttn/devices/dev1/up", "dev1"),
        ("v3/app1@ttn/devices/{sensor}/up", "v3/app2@ttn/devices/dev1/up", None),
        ("a-{sensor}-a", "a-a", None),
    ],
)
def test_topics_of_common_integrations_are_supported(template, topic, sensor):
    assert Template(template).sensor(topic) == sensor


@given(templates(), ids, ids)
def test_a_topic_with_another_number_of_levels_does_not_match(around, sensor, other):
    before, after = around
    template = Template("/".join([*before, SENSOR_PLACE, *after]))
    assert template.sensor("/".join([*before, sensor, *after, other])) is None
    assert template.sensor("/".join([*before, sensor, *after, ""])) is None
    if before or after:
        assert template.sensor("/".join([*before, *after])) is None


@given(templates(), ids)
def test_a_topic_with_another_fixed_level_does_not_match(around, sensor):
    before, after = around
    template = Template("/".join([*before, SENSOR_PLACE, *after]))
    for i in range(len(before)):
        changed = [*before[:i], before[i] + "x", *before[i + 1 :]]
        assert template.sensor("/".join([*changed, sensor, *after])) is None


@pytest.mark.parametrize(
    "text", ["lab/{sensor}/t\n", "lab/{sensor}.$", "lab/^{sensor}(?i)", "{sensor}"]
)
def test_a_topic_matches_literally(text):
    template = Template(text)
    assert template.sensor(text.replace(SENSOR_PLACE, "a\n$")) == "a\n$"
    assert template.sensor(text.replace(SENSOR_PLACE, "")) == ""
    for near in (f"{text}/", f"/{text}", text.replace(SENSOR_PLACE, "a/b")):
        assert template.sensor(near) is None


@pytest.mark.parametrize("text", ["", "lab", "{sensor}{sensor}", "{sensor}/{sensor}", "{Sensor}"])
def test_a_topic_that_does_not_name_the_sensor_once_is_a_configuration_error(text):
    with pytest.raises(ConfigError, match="in the topic exactly once"):
        Template(text)


@given(st.text(), st.sampled_from("+#\0"), st.text())
def test_a_topic_with_a_wildcard_or_nul_is_never_published(left, bad, right):
    assert not publishable(left + bad + right)


@given(st.text(st.characters()))
@example("\ud800")
@example("a\nb")
@example("é" * MAX_TOPIC_LENGTH)
def test_a_publishable_topic_is_short_utf8_without_control_characters(topic):
    if publishable(topic):
        encoded = topic.encode()
        assert 0 < len(encoded) <= MAX_TOPIC_LENGTH
        assert min(encoded) >= 0x20
        assert 0x7F not in encoded


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("lab/Büro 7/t", True),
        ("lab/居間\u3000北/t", True),
        ("lab/\u200b/t", False),
        ("a" * MAX_TOPIC_LENGTH, True),
        ("a" * (MAX_TOPIC_LENGTH + 1), False),
        ("é" * (MAX_TOPIC_LENGTH // 2 + 1), False),
        ("", False),
        ("lab/\x7f", False),
        ("lab/\ud800", False),
    ],
)
def test_examples_of_publishable_and_other_topics(topic, expected):
    assert publishable(topic) is expected


def test_placeholders_of_an_activation_are_replaced_and_other_braces_stay():
    activate = Activate("mote-17", 7, at=1078646400.0, expires_at=1078646460.5)
    template = (
        '{"id": "{sensor}", "n": {interval}, "at": {at}, "by": {expires_at}, "x": {}, {other}}'
    )
    assert fill_in(template, activate) == (
        '{"id": "mote-17", "n": 7, "at": 1078646400, "by": 1078646460.5, "x": {}, {other}}'
    )
    assert fill_in("1", activate) == "1"


def test_a_sensor_id_that_looks_like_a_placeholder_is_not_replaced():
    activate = Activate("{interval}", 7, at=0.0, expires_at=1.0)
    assert fill_in("{sensor} {interval}", activate) == "{interval} 7"


def test_the_default_client_id_is_stable_and_differs_between_instances():
    assert default_client_id("lab") == default_client_id("lab")
    assert default_client_id("lab") != default_client_id("roof")
