"""What Home Assistant is told, by the rules of its version 2026.11, and when it is told."""

import json
from random import Random
from types import SimpleNamespace
from typing import get_args

import msgspec
import pytest
from edge_tvbo_adapters.homeassistant.discovery import (
    CLASSES,
    JITTER,
    MOST_OPTIONS,
    SETTLE,
    Discovery,
    payload,
    topic_for,
    with_removals,
)
from hypothesis import example, given
from hypothesis import strategies as st
from support.ha_schema import check_message

from edge_tvbo.messages.documents import Kind, Reason
from edge_tvbo.ports import HomeAssistant, Shown

IDS = st.from_regex(r"[a-z0-9_-]{1,64}", fullmatch=True)
SENSORS = st.lists(
    st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True), min_size=1, max_size=8, unique=True
).map(tuple)
UNITS = st.sampled_from(["", "°C", "%", "lx", "dB", "dBA", "K", "km/h", "ppm"]) | st.text(
    max_size=32
).filter(lambda text: not text or text.strip())
SHOWN = st.builds(
    Shown, SENSORS, UNITS, st.integers(0, 12), st.none() | st.floats(0.01, 366 * 86400.0)
)


def told(fields, prefix="homeassistant", birth="homeassistant/status"):
    return HomeAssistant(prefix, birth, "0.1.0", fields)


def heat(*sensors, interval=600.0, unit="°C"):
    return {"heat": Shown(sensors or ("a", "b"), unit, 2, interval)}


# --- what ---------------------------------------------------------------------------------------


@pytest.mark.acceptance(15)
@given(IDS, st.dictionaries(IDS, SHOWN, max_size=3))
def test_whatever_is_configured_home_assistant_takes_the_message(instance, fields):
    message = check_message(msgspec.json.encode(payload(instance, told(fields))))

    assert len(message["components"]) == 4 + 7 * len(fields)


@pytest.mark.acceptance(15)
@given(st.dictionaries(IDS, SHOWN, min_size=1, max_size=2), st.data())
def test_what_is_published_is_among_the_options(fields, data):
    field = data.draw(st.sampled_from(sorted(fields)))
    components = payload("lab", told(fields))["components"]

    assert set(components[f"{field}_selected"]["options"]) == set(fields[field].sensors)
    assert set(components[f"{field}_reason"]["options"]) == {each.value for each in Reason}
    assert set(components[f"{field}_events"]["event_types"]) == set(get_args(Kind))


SHORT = st.from_regex(r"[ab_-]{1,4}|hotspot|last|x_last", fullmatch=True)


def entities(instance, fields):
    shown = dict.fromkeys(fields, Shown(("s",), "", 2, None))
    components = payload(instance, told(shown))["components"].items()
    return {(instance, key): each["unique_id"] for key, each in components}


@given(st.dictionaries(SHORT, st.sets(SHORT, max_size=3), max_size=4))
@example({"a": {"b_c"}, "a_b": {"c"}})
@example({"a": {"b"}, "a_b": set()})  # the events of field b, and those of daemon a_b
def test_no_two_entities_are_the_same_whatever_daemons_and_fields_are_called(daemons):
    every = {}
    for instance, fields in daemons.items():
        every |= entities(instance, fields)

    assert len(set(every.values())) == len(every) == sum(4 + 7 * len(f) for f in daemons.values())


def test_an_entity_keeps_the_id_by_which_home_assistant_knows_it():
    assert entities("pi-1", ["b_c"])["pi-1", "b_c_hotspot_sd"] == "edge_tvbo_pi-1_b_c_hotspot_sd"
    assert entities("pi_1", [])["pi_1", "reset"] == "edge_tvbo_piU1_reset"


@pytest.mark.parametrize("unit", CLASSES)
def test_every_unit_in_the_table_is_one_that_its_class_has(unit):
    check_message(msgspec.json.encode(payload("lab", told(heat(unit=unit)))))


def test_a_state_is_not_known_any_more_after_three_intervals():
    fixed = payload("lab", told(heat(interval=600.0)))["components"]
    following = payload("lab", told(heat(interval=None)))["components"]

    assert {key for key, each in fixed.items() if each.get("expire_after") == 1800} == {
        "heat_selected",
        "heat_hotspot",
        "heat_hotspot_sd",
    }
    assert not [each for each in following.values() if "expire_after" in each]


@pytest.mark.parametrize(("unit", "kind"), [("°C", "temperature"), ("lx", "illuminance")])
def test_a_unit_that_says_what_is_measured_gives_a_device_class(unit, kind):
    hotspot = payload("lab", told(heat(unit=unit)))["components"]["heat_hotspot"]

    assert (hotspot["device_class"], hotspot["unit_of_measurement"]) == (kind, unit)


@pytest.mark.parametrize("unit", ["%", "ppm", "µg/m³", ""])
def test_a_unit_that_many_things_have_gives_none(unit):
    assert "device_class" not in payload("lab", told(heat(unit=unit)))["components"]["heat_hotspot"]


def test_of_very_many_sensors_any_name_is_taken():
    few = tuple(f"s{n}" for n in range(MOST_OPTIONS))
    listed = payload("lab", told(heat(*few)))["components"]["heat_selected"]
    free = payload("lab", told(heat(*few, "one-more")))["components"]["heat_selected"]

    assert len(listed["options"]) == MOST_OPTIONS
    assert "options" not in free and "device_class" not in free


def test_the_switch_says_what_pause_understands():
    switch = payload("lab", told(heat()))["components"]["pause"]

    assert json.loads(switch["payload_on"]) == {"paused": True}
    assert json.loads(switch["payload_off"]) == {"paused": False}
    assert switch["retain"] is False  # a retained command would be carried out at every start


# --- when ---------------------------------------------------------------------------------------


def message(topic, content, *, retain=False):
    return SimpleNamespace(topic=topic, payload=content, retain=retain)


class Session:
    """A discovery whose time is moved by hand, and the broker's copy of its message."""

    def __init__(self, fields, copy=b"", seed=0):
        self.discovery = Discovery("lab", told(fields), Random(seed))
        self.copy, self.now, self.published = copy, 0.0, 0

    def connect(self):
        self.discovery.begin(self.now)
        if self.copy:
            self.discovery.put(message(self.discovery.topic, self.copy, retain=True), self.now)
        return self

    def birth(self, *, retain=False):
        self.discovery.put(message("homeassistant/status", b"online", retain=retain), self.now)

    def live(self, seconds):
        until = self.now + seconds
        while self.now < until:
            self.now += 0.5
            if (found := self.discovery.due(self.now)) is not None:
                self.copy, self.published = found, self.published + 1
        return self


@pytest.mark.acceptance(15)
def test_it_is_told_once_and_a_restart_of_ours_tells_nothing_new():
    first = Session(heat()).connect().live(60.0)
    second = Session(heat(), first.copy).connect().live(60.0)

    assert (first.published, second.published) == (1, 0)


def test_a_broker_that_forgot_it_is_told_again():
    session = Session(heat()).connect().live(10.0)
    session.copy = b""

    assert session.connect().live(10.0).published == 2


@given(st.lists(st.floats(0.0, 60.0), max_size=20), st.integers(0, 99), st.booleans())
def test_it_is_told_once_at_the_most_for_each_start_of_home_assistant(waits, seed, retained):
    session = Session(heat(), seed=seed).connect()
    for wait in waits:
        session.live(wait)
        session.birth(retain=retained)
    session.live(20.0)

    assert 1 <= session.published <= (1 if retained else 1 + len(waits))


@given(st.integers(0, 999))
def test_home_assistant_is_left_alone_for_one_to_ten_seconds_after_its_start(seed):
    session = Session(heat(), seed=seed).connect().live(SETTLE + 1)
    session.birth()
    least, most = JITTER

    assert session.live(least - 0.5).published == 1
    assert session.live(most - least + 1.0).published == 2


@pytest.mark.acceptance(16)
def test_a_field_that_was_taken_away_is_removed_and_stays_so():
    both = heat() | {"light": Shown(("x",), "lx", 0, None)}
    before = Session(both).connect().live(10.0)
    after = Session(heat(), before.copy).connect().live(10.0)
    again = Session(heat(), after.copy).connect().live(10.0)
    components = check_message(after.copy)["components"]

    assert components["light_hotspot"] == {"platform": "sensor"}
    assert components["light_events"] == {"platform": "event"}
    assert (after.published, again.published) == (1, 0)


@pytest.mark.acceptance(16)
def test_a_sensor_that_was_taken_away_is_no_option_any_more():
    before = Session(heat("a", "b", "c")).connect().live(10.0)
    after = Session(heat("a", "b"), before.copy).connect().live(10.0)

    assert after.published == 1
    assert check_message(after.copy)["components"]["heat_selected"]["options"] == ["a", "b"]


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ).map(lambda copy: json.dumps({"components": copy}).encode())
)
def test_whatever_the_broker_has_what_is_told_is_sound(copy):
    described = payload("lab", told(heat()))

    check_message(msgspec.json.encode(with_removals(described, copy)))


def test_of_the_brokers_copy_nothing_is_taken_but_keys_and_platforms():
    foreign = {"x": {"platform": "sensor", "state_topic": "a/b"}, "y/#": {"platform": "sensor"}}
    copy = json.dumps({"components": foreign | {"z": {"platform": "lock"}}}).encode()
    components = with_removals(payload("lab", told({})), copy)["components"]

    assert components["x"] == {"platform": "sensor"}
    assert not {"y/#", "z"} & components.keys()


def test_the_topic_is_of_one_device():
    assert topic_for("homeassistant", "pi1") == "homeassistant/device/edge_tvbo_pi1/config"
