"""Home Assistant discovery: the message by the rules of version 2026.11, and its schedule."""

import json
from random import Random
from types import SimpleNamespace
from typing import get_args

import msgspec
import pytest
from edge_tvbo_adapters.homeassistant.discovery import (
    BIRTH_DELAY_S,
    COPY_TIMEOUT_S,
    DEVICE_CLASSES,
    MAX_OPTIONS,
    Discovery,
    DiscoveryField,
    payload,
    topic_for,
    with_removals,
)
from hypothesis import example, given
from hypothesis import strategies as st
from support.ha_schema import check_message

from edge_tvbo.config.settings import HomeAssistant
from edge_tvbo.messages.documents import NoticeKind, Reason

IDS = st.from_regex(r"[a-z0-9_-]{1,64}", fullmatch=True)
SENSORS = st.lists(
    st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True), min_size=1, max_size=8, unique=True
).map(tuple)
UNITS = st.sampled_from(["", "°C", "%", "lx", "dB", "dBA", "K", "km/h", "ppm"]) | st.text(
    max_size=32
).filter(lambda text: not text or text.strip())
FIELDS = st.builds(
    DiscoveryField,
    SENSORS,
    UNITS,
    st.integers(0, 12),
    st.none() | st.floats(0.01, 366 * 86400.0),
    has_alert=st.booleans(),
)


def message_for(fields, instance="lab"):
    return payload(instance, fields, "0.1.0")


def heat(*sensors, interval=600.0, unit="°C"):
    return {"heat": DiscoveryField(sensors or ("a", "b"), unit, 2, interval)}


# --- the message --------------------------------------------------------------------------------


@pytest.mark.acceptance(15)
@given(IDS, st.dictionaries(IDS, FIELDS, max_size=3))
def test_message_follows_the_schema_for_any_configuration(instance, fields):
    message = check_message(msgspec.json.encode(message_for(fields, instance)))

    expected = 4 + sum(7 + field.has_alert for field in fields.values())
    assert len(message["components"]) == expected


@pytest.mark.acceptance(15)
@given(st.dictionaries(IDS, FIELDS, min_size=1, max_size=2), st.data())
def test_options_contain_every_published_state(fields, data):
    field = data.draw(st.sampled_from(sorted(fields)))
    components = message_for(fields)["components"]

    assert set(components[f"{field}_selected"]["options"]) == set(fields[field].sensors)
    assert set(components[f"{field}_reason"]["options"]) == {each.value for each in Reason}
    assert set(components[f"{field}_events"]["event_types"]) == set(get_args(NoticeKind))


SHORT = st.from_regex(r"[ab_-]{1,4}|hotspot|last|x_last", fullmatch=True)


def entities(instance, fields):
    described = dict.fromkeys(fields, DiscoveryField(("s",), "", 2, None))
    components = message_for(described, instance)["components"].items()
    return {(instance, key): each["unique_id"] for key, each in components}


@given(st.dictionaries(SHORT, st.sets(SHORT, max_size=3), max_size=4))
@example({"a": {"b_c"}, "a_b": {"c"}})
@example({"a": {"b"}, "a_b": set()})  # the events of field b, and those of daemon a_b
def test_unique_ids_differ_for_any_names(daemons):
    ids = {}
    for instance, fields in daemons.items():
        ids |= entities(instance, fields)

    assert len(set(ids.values())) == len(ids) == sum(4 + 7 * len(f) for f in daemons.values())


def test_unique_ids_stay_the_same():
    assert entities("pi-1", ["b_c"])["pi-1", "b_c_hotspot_sd"] == "edge_tvbo_pi-1_b_c_hotspot_sd"
    assert entities("pi_1", [])["pi_1", "reset"] == "edge_tvbo_piU1_reset"


@pytest.mark.parametrize("unit", DEVICE_CLASSES)
def test_every_unit_is_allowed_for_its_device_class(unit):
    check_message(msgspec.json.encode(message_for(heat(unit=unit))))


def test_states_expire_after_three_intervals():
    fixed = message_for(heat(interval=600.0))["components"]
    following = message_for(heat(interval=None))["components"]

    assert {key for key, each in fixed.items() if each.get("expire_after") == 1800} == {
        "heat_selected",
        "heat_hotspot",
        "heat_hotspot_sd",
    }
    assert not [each for each in following.values() if "expire_after" in each]


@pytest.mark.parametrize(("unit", "kind"), [("°C", "temperature"), ("lx", "illuminance")])
def test_specific_unit_has_a_device_class(unit, kind):
    hotspot = message_for(heat(unit=unit))["components"]["heat_hotspot"]

    assert (hotspot["device_class"], hotspot["unit_of_measurement"]) == (kind, unit)


@pytest.mark.parametrize("unit", ["%", "ppm", "µg/m³", ""])
def test_ambiguous_unit_has_no_device_class(unit):
    assert "device_class" not in message_for(heat(unit=unit))["components"]["heat_hotspot"]


def test_many_sensors_are_not_listed_as_options():
    few = tuple(f"s{n}" for n in range(MAX_OPTIONS))
    listed = message_for(heat(*few))["components"]["heat_selected"]
    free = message_for(heat(*few, "one-more"))["components"]["heat_selected"]

    assert len(listed["options"]) == MAX_OPTIONS
    assert "options" not in free and "device_class" not in free


def test_pause_switch_publishes_valid_commands():
    switch = message_for(heat())["components"]["pause"]

    assert json.loads(switch["payload_on"]) == {"paused": True}
    assert json.loads(switch["payload_off"]) == {"paused": False}
    assert switch["retain"] is False  # a retained command would be carried out at every start


# --- the schedule -------------------------------------------------------------------------------


def message(topic, content, *, retain=False):
    return SimpleNamespace(topic=topic, payload=content, retain=retain)


class Session:
    """A discovery schedule with a simulated clock, and the broker's copy of the message."""

    def __init__(self, fields, copy=b"", seed=0):
        self.discovery = Discovery("lab", HomeAssistant(), fields, "0.1.0", Random(seed))
        self.copy, self.now, self.published = copy, 0.0, 0

    def connect(self):
        self.discovery.begin(self.now)
        if self.copy:
            self.discovery.put(message(self.discovery.topic, self.copy, retain=True), self.now)
        return self

    def birth(self, *, retain=False):
        self.discovery.put(message("homeassistant/status", b"online", retain=retain), self.now)

    def run(self, seconds):
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            if (payload := self.discovery.due(self.now)) is not None:
                self.copy, self.published = payload, self.published + 1
        return self


@pytest.mark.acceptance(15)
def test_message_is_published_once_and_not_after_a_restart():
    first = Session(heat()).connect().run(60.0)
    second = Session(heat(), first.copy).connect().run(60.0)

    assert (first.published, second.published) == (1, 0)


def test_message_is_published_again_after_the_broker_lost_it():
    session = Session(heat()).connect().run(10.0)
    session.copy = b""

    assert session.connect().run(10.0).published == 2


@given(st.lists(st.floats(0.0, 60.0), max_size=20), st.integers(0, 99), st.booleans())
def test_message_is_published_at_most_once_for_each_birth(waits, seed, retained):
    session = Session(heat(), seed=seed).connect()
    for wait in waits:
        session.run(wait)
        session.birth(retain=retained)
    session.run(20.0)

    assert 1 <= session.published <= (1 if retained else 1 + len(waits))


@given(st.integers(0, 999))
def test_message_follows_a_birth_after_one_to_ten_seconds(seed):
    session = Session(heat(), seed=seed).connect().run(COPY_TIMEOUT_S + 1)
    session.birth()
    shortest, longest = BIRTH_DELAY_S

    assert session.run(shortest - 0.5).published == 1
    assert session.run(longest - shortest + 1.0).published == 2


@pytest.mark.acceptance(16)
def test_entities_of_a_removed_field_are_removed():
    both = heat() | {"light": DiscoveryField(("x",), "lx", 0, None)}
    before = Session(both).connect().run(10.0)
    after = Session(heat(), before.copy).connect().run(10.0)
    again = Session(heat(), after.copy).connect().run(10.0)
    components = check_message(after.copy)["components"]

    assert components["light_hotspot"] == {"platform": "sensor"}
    assert components["light_events"] == {"platform": "event"}
    assert (after.published, again.published) == (1, 0)


@pytest.mark.acceptance(16)
def test_removed_sensor_is_no_longer_an_option():
    before = Session(heat("a", "b", "c")).connect().run(10.0)
    after = Session(heat("a", "b"), before.copy).connect().run(10.0)

    assert after.published == 1
    assert check_message(after.copy)["components"]["heat_selected"]["options"] == ["a", "b"]


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ).map(lambda copy: json.dumps({"components": copy}).encode())
)
def test_message_follows_the_schema_for_any_copy(copy):
    check_message(msgspec.json.encode(with_removals(message_for(heat()), copy)))


def test_only_keys_and_platforms_of_the_copy_are_used():
    foreign = {"x": {"platform": "sensor", "state_topic": "a/b"}, "y/#": {"platform": "sensor"}}
    copy = json.dumps({"components": foreign | {"z": {"platform": "lock"}}}).encode()
    components = with_removals(message_for({}), copy)["components"]

    assert components["x"] == {"platform": "sensor"}
    assert not {"y/#", "z"} & components.keys()


def test_topic_describes_one_device():
    assert topic_for("homeassistant", "pi1") == "homeassistant/device/edge_tvbo_pi1/config"
