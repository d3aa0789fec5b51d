"""Home Assistant discovery: the message by the rules of version 2026.11, and its schedule."""

import json
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import get_args

import msgspec
import pytest
from edge_tvbo_adapters.homeassistant.described_field import DiscoveryField, labels_of
from edge_tvbo_adapters.homeassistant.device_classes import UNITS as DEVICE_CLASS_UNITS
from edge_tvbo_adapters.homeassistant.device_classes import device_class
from edge_tvbo_adapters.homeassistant.discovery import (
    BIRTH_DELAY_S,
    COPY_TIMEOUT_S,
    MAX_MESSAGE,
    MAX_REMOVALS,
    SETTLE_S,
    Discovery,
    obsolete_entities,
    payload,
    topic_for,
    with_removals,
)
from edge_tvbo_adapters.homeassistant.entities import MAX_SENSORS
from edge_tvbo_adapters.mqtt.publisher import DOCUMENTS
from edge_tvbo_adapters.mqtt.request_queue import parse_request
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment
from support.examples import max_examples
from support.ha_schema import check_message

from edge_tvbo.config.settings import HomeAssistant
from edge_tvbo.messages.documents import NoticeKind, Reason

IDS = st.from_regex(r"[a-z0-9_-]{1,64}", fullmatch=True)
NAMES = st.text(
    st.characters(exclude_characters="/+#", exclude_categories=("C",)), min_size=1, max_size=64
)
SENSORS = st.lists(
    st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True), min_size=1, max_size=8, unique=True
).map(tuple)
UNITS = st.sampled_from(["", "°C", "%", "lx", "dB", "dBA", "K", "km/h", "ppm"]) | st.text(
    max_size=32
).filter(lambda text: not text or text.strip())


@st.composite
def described_fields(draw):
    """Draw a field with a device class that fits its unit."""
    sensors, unit = draw(SENSORS), draw(UNITS)
    named = draw(st.lists(st.sampled_from(sensors), unique=True))
    kinds = [None, *(kind for kind, units in DEVICE_CLASS_UNITS.items() if unit in units)]
    return DiscoveryField(
        sensors=sensors,
        unit=unit,
        decimals=draw(st.integers(0, 12)),
        names={sensor: draw(NAMES) for sensor in named},
        objective=draw(st.sampled_from(("max", "min"))),
        device_class=draw(st.sampled_from(kinds)),
        spread_class="temperature_delta" if unit == "°C" else None,
        has_model=draw(st.booleans()),
        has_posterior=draw(st.booleans()),
        thresholds=draw(st.sampled_from([None, (-40.0, 60.5)])),
        energy_unit=draw(st.sampled_from([None, "", "J", "mAh"])),
        has_batteries=draw(st.booleans()),
    )


FIELDS = described_fields()


def message_for(fields, instance="lab", *, commands=True, **settings):
    return payload(instance, HomeAssistant(**settings), fields, "0.1.0", commands=commands)


def removing(message, copy):
    """Return the messages that replace `copy`, which the broker retains."""
    return with_removals(message, *obsolete_entities(message, copy))


def heat(*sensors, **settings):
    settings = {"unit": "°C", "device_class": "temperature"} | settings
    return {"heat": DiscoveryField(sensors=sensors or ("a", "b"), **settings)}


def components_of(fields, **options):
    return message_for(fields, **options)["components"]


# --- the message --------------------------------------------------------------------------------


@pytest.mark.acceptance(15)
@given(IDS, st.dictionaries(IDS, FIELDS, max_size=3), st.booleans())
def test_message_follows_the_schema_for_any_configuration(instance, fields, commands):
    message = check_message(msgspec.json.encode(message_for(fields, instance, commands=commands)))

    events = {"events", *(f"{name}_events" for name in fields)}
    assert events <= message["components"].keys()


@pytest.mark.acceptance(15)
@given(st.dictionaries(IDS, FIELDS, min_size=1, max_size=2), st.data())
def test_options_contain_every_published_word(fields, data):
    field = data.draw(st.sampled_from(sorted(fields)))
    components = components_of(fields)

    assert set(components[f"{field}_reason"]["options"]) == {each.value for each in Reason}
    assert set(components[f"{field}_events"]["event_types"]) == set(get_args(NoticeKind))


SHORT = st.from_regex(r"[ab_-]{1,4}|hotspot|last|x_last|poll|estimate_a|ignore", fullmatch=True)
SHORT_SENSORS = st.lists(
    st.from_regex(r"[ab_.-]{1,3}|a_selected", fullmatch=True), min_size=1, max_size=3, unique=True
).map(tuple)


def entities(instance, fields):
    described = {
        name: DiscoveryField(
            sensors=sensors, thresholds=(0.0, 9.0), energy_unit="J", has_batteries=True
        )
        for name, sensors in fields.items()
    }
    components = components_of(described, instance=instance).items()
    return {(instance, key): each["unique_id"] for key, each in components}


@given(st.dictionaries(SHORT, st.dictionaries(SHORT, SHORT_SENSORS, max_size=3), max_size=4))
@example({"a": {"b_c": ("s",)}, "a_b": {"c": ("s",)}})
@example({"a": {"b": ("s",)}, "a_b": {}})  # the events of field b, and those of daemon a_b
@example({"a": {"b": ("c_selected", "c.d", "c_d"), "b_estimate_c": ("s",)}})
def test_unique_ids_differ_for_any_names(daemons):
    ids, expected = {}, 0
    for instance, fields in daemons.items():
        ids |= entities(instance, fields)
        expected += 4 + sum(15 + 2 * len(sensors) for sensors in fields.values())

    assert len(set(ids.values())) == len(ids) == expected


def test_unique_ids_stay_the_same():
    ids = entities("pi-1", {"b_c": ("s",)})

    assert ids["pi-1", "b_c_hotspot_sd"] == "edge_tvbo_pi-1_b_c_hotspot_sd"
    assert entities("pi_1", {})["pi_1", "reset"] == "edge_tvbo_piU1_reset"


# An entity with `expire_after` is unavailable after each change of the message, until its next
# state; and a state that is not one of the options of a changed entity is an error.
def test_no_state_expires_and_no_sensor_is_an_option_of_a_state():
    components = components_of(heat())

    assert not [key for key, each in components.items() if "expire_after" in each]
    assert (
        "options"
        not in components["heat_selected"].keys() | components["heat_hotspot_sensor"].keys()
    )


def test_selected_sensor_is_unavailable_while_its_field_is_paused():
    status, health = components_of(heat())["heat_selected"]["availability"]

    assert status == {"topic": "edge_tvbo/lab/status"}
    for paused, shown in ((True, "offline"), (False, "online")):
        document = {"fields": {"heat": {"paused": paused}}}
        assert rendered(health["value_template"], document) == shown


@pytest.mark.parametrize(
    ("name", "unit", "kind"),
    [
        ("heat", "°C", "temperature"),
        ("wind", "m/s", "wind_speed"),
        ("x", "m/s", "speed"),
        ("humidity", "%", "humidity"),
        ("soil-moisture", "%", "moisture"),
        ("co2", "ppm", "carbon_dioxide"),
        ("voc", "ppm", "volatile_organic_compounds_parts"),
        ("pm2_5", "µg/m³", "pm25"),
        ("fill-level", "%", None),
        ("humidity", "g", None),
        ("x", "ppm", None),
        ("x", "", None),
    ],
)
def test_device_class_follows_from_the_name_and_the_unit(name, unit, kind):
    assert device_class(name, unit) == kind


def test_every_device_class_allows_its_units():
    for kind, units in DEVICE_CLASS_UNITS.items():
        for unit in units:
            field = DiscoveryField(sensors=("a",), unit=unit, device_class=kind)
            check_message(msgspec.json.encode(message_for({"x": field})))


def test_field_with_objective_min_has_a_coldest_spot():
    components = components_of(heat(objective="min"))

    assert components["heat_hotspot"]["name"] == "Heat coldest spot"
    assert components["heat_hotspot_sensor"]["name"] == "Heat coldest spot sensor"
    assert components["heat_hotspot_sd"]["name"] == "Heat coldest spot uncertainty"


def test_policy_without_a_model_has_no_entities_of_a_model():
    missing = components_of(heat()).keys() - components_of(heat(has_model=False)).keys()
    of_the_hotspot = {"heat_hotspot", "heat_hotspot_sensor", "heat_hotspot_sd"}

    assert missing == of_the_hotspot | {
        *("heat_resets", "heat_last_reset", "heat_estimate_a", "heat_estimate_b")
    }


def test_daemon_without_commands_has_no_controls():
    components = components_of(heat(), commands=False)
    platforms = {each["platform"] for each in components.values()}

    assert platforms == {"sensor", "binary_sensor", "event"}


@given(FIELDS, FIELDS, st.booleans())
def test_platform_of_a_key_never_changes(before, after, commands):
    earlier = components_of({"heat": before})
    later = components_of({"heat": after}, commands=commands)

    for key in earlier.keys() & later.keys():
        assert earlier[key]["platform"] == later[key]["platform"]


def test_number_of_resets_may_fall():
    assert components_of(heat())["heat_resets"]["state_class"] == "total"


def test_sensors_are_disabled_at_first_and_absent_if_there_are_many():
    components = components_of(heat(*(f"s{n}" for n in range(9))))
    of_sensors = [key for key in components if key.startswith(("heat_estimate_", "heat_ignore_"))]
    many = tuple(f"s{n}" for n in range(MAX_SENSORS))
    listed = components_of(heat(*many)).keys() - components_of(heat(*many, "one-more")).keys()

    assert len(of_sensors) == 2 * 9
    assert not any(components[key]["enabled_by_default"] for key in of_sensors)
    assert "heat_poll" in listed


def test_device_and_origin_have_the_configured_links():
    links = {"dashboard_url": "http://pi:8080/", "support_url": "https://wiki/pi"}
    message = message_for(heat(), **links)

    assert message["device"]["configuration_url"] == links["dashboard_url"]
    assert message["origin"]["support_url"] == links["support_url"]
    assert "configuration_url" not in message_for(heat())["device"]


# --- templates and commands -----------------------------------------------------------------------

ENVIRONMENT = ImmutableSandboxedEnvironment()  # as in Home Assistant
ENVIRONMENT.filters["tojson"] = json.dumps
ENVIRONMENT.globals["zip"] = zip
compiled = cache(ENVIRONMENT.from_string)


def rendered(template, document=None, **variables):
    known = {} if document is None else {"value": json.dumps(document), "value_json": document}
    return compiled(template).render(known | variables)


@given(SENSORS, st.data())
def test_names_and_ids_are_translated_in_both_directions(sensors, data):
    names = {sensor: data.draw(NAMES) for sensor in sensors if data.draw(st.booleans())}
    sensor = data.draw(st.sampled_from(sensors))
    components = components_of(heat(*sensors, names=names))
    poll, selected = components["heat_poll"], components["heat_selected"]
    shown = rendered(poll["value_template"], {"sensor": sensor})
    request = json.loads(rendered(poll["command_template"], value=shown))

    assert shown in poll["options"] and len(set(poll["options"])) == len(sensors)
    assert request == {"field": "heat", "sensor": sensor}
    for component in (selected, components["heat_hotspot_sensor"]):
        assert rendered(component["value_template"], {"sensor": sensor}) == shown


@given(FIELDS, st.booleans())
def test_entities_keep_nothing_of_a_cleared_document(field, commands):
    components = components_of({"heat": field}, commands=commands).values()
    topics = {f"edge_tvbo/lab/heat/{each}" for each in DOCUMENTS}
    for component in (each for each in components if each.get("state_topic") in topics):
        cleared = "" if component["platform"] == "text" else "None"  # the state of a text is a text
        assert rendered(component["value_template"], value="") == cleared
        if "json_attributes_topic" in component:
            assert json.loads(rendered(component["json_attributes_template"], value="")) == {}


@pytest.mark.parametrize(
    ("decimals", "commands", "key", "platform"),
    [
        (4, True, "heat_alert_threshold", "number"),
        (5, True, "heat_threshold_text", "text"),
        (8, True, "heat_threshold_text", "text"),
        (8, False, "heat_threshold", "sensor"),
    ],
)
def test_a_threshold_that_needs_small_steps_is_a_text(decimals, commands, key, platform):
    """A number of Home Assistant has steps of at least 0.001 (number.py, MIN_STEP)."""
    fields = heat(decimals=decimals, thresholds=(-2e-5, 2e-5), unit="W", device_class="power")
    (threshold,) = [
        (name, each)
        for name, each in components_of(fields, commands=commands).items()
        if "threshold" in name
    ]
    assert (threshold[0], threshold[1]["platform"]) == (key, platform)


@pytest.mark.parametrize("before", [(2, True), (8, True), (8, False)])
@pytest.mark.parametrize("after", [(2, True), (8, True), (8, False)])
def test_the_threshold_of_another_platform_replaces_the_old_one(before, after):
    old, new = (
        message_for(heat(decimals=decimals, thresholds=(-1, 1)), commands=commands)
        for decimals, commands in (before, after)
    )
    (message,) = removing(new, msgspec.json.encode(old))
    shown = {key: each for key, each in message["components"].items() if "threshold" in key}
    removed = [each for each in shown.values() if len(each) == 1]
    assert len(shown) == 1 + (before != after)
    assert len(removed) == (before != after)


@pytest.mark.parametrize("decimals", [2, 8])
def test_a_threshold_is_shown_and_sent_with_all_its_digits(decimals):
    components = components_of(heat(decimals=decimals, thresholds=(-2e-5, 2e-5)))
    (entity,) = [each for key, each in components.items() if "threshold" in key]
    shown = rendered(entity["value_template"], {"threshold": 1.5e-06})
    request = parse_request(rendered(entity["command_template"], value=shown).encode())
    assert (shown, request.field, request.threshold) == ("1.5e-06", "heat", 1.5e-06)


def test_hotspot_has_all_values_of_its_document_as_attributes():
    hotspot, document = components_of(heat())["heat_hotspot"], {"value": 21.5, "sensor": "a"}

    assert json.loads(rendered(hotspot["json_attributes_template"], document)) == document


def test_state_of_a_removed_sensor_is_unknown_for_the_select():
    poll = components_of(heat())["heat_poll"]

    assert rendered(poll["value_template"], {"sensor": "gone"}) == "None"


def test_estimate_is_found_by_the_name_of_the_sensor():
    estimate = components_of(heat("a", "b.c"))["heat_estimate_b_dc"]
    document = {"sensors": ["x", "b.c"], "mean": [1.0, 2.0], "std": [0.1, 0.2]}

    assert rendered(estimate["value_template"], document) == "2.0"
    attributes = json.loads(rendered(estimate["json_attributes_template"], document))
    assert attributes == {"std": 0.2}
    before = {"sensors": ["x"], "mean": [1.0], "std": [0.1]}  # before the sensor was added
    assert rendered(estimate["value_template"], before) == "None"


HEALTH = {
    "paused": True,
    "ignored": ["b"],
    "energy": {"left": 7.5, "low_battery": ["a"]},
}


@pytest.mark.parametrize(
    ("key", "state"),
    [
        ("heat_pause", "ON"),
        ("heat_energy_left", "7.5"),
        ("heat_low_battery", "ON"),
    ],
)
def test_states_of_a_field_are_those_of_its_health(key, state):
    component = components_of(heat(energy_unit="J", has_batteries=True))[key]
    template = component["value_template"]

    assert rendered(template, {"fields": {"heat": HEALTH}}) == state
    assert rendered(template, {"fields": {}}) == "None"  # before the field was added


def test_ignored_sensors_have_a_switch_each():
    components = components_of(heat())
    switch = components["heat_ignore_b"]

    for sensor, ignored in (("a", "false"), ("b", "true")):
        template = components[f"heat_ignore_{sensor}"]["value_template"]
        assert rendered(template, {"fields": {"heat": HEALTH}}) == ignored
    assert rendered(switch["value_template"], {"fields": {}}) == "false"
    request = json.loads(rendered(switch["command_template"], value=switch["payload_off"]))
    assert request == {"field": "heat", "sensor": "b", "ignored": False}


def test_message_is_small_enough_for_the_shipped_broker_configuration():
    sensors = tuple(f"mote-{n}" for n in range(1, 101))
    many = {name: heat(*sensors[:60])["heat"] for name in ("temperature", "humidity")}
    for fields in (heat(*sensors), many):
        old = {f"old_{n}": {"platform": "sensor"} for n in range(2000)}
        copy = json.dumps({"components": old}).encode()

        for message in removing(message_for(fields), copy):
            assert len(msgspec.json.encode(message)) <= MAX_MESSAGE
    lab = components_of({"temperature": heat(*sensors[:46])["heat"]})
    assert {"temperature_estimate_mote-46", "temperature_ignore_mote-46"} <= lab.keys()


@given(st.integers(1, 9), st.integers(1, 500), st.integers(1, 64), st.booleans())
@example(3, 500, 30, True)
@example(9, 100, 64, True)
@max_examples(20, deadline=None)
def test_message_for_large_networks_with_names_is_small_enough(fields, sensors, letters, commands):
    ids = tuple(f"s{n}" for n in range(sensors))
    names = {sensor: f"{sensor} in {'ü' * letters}"[:64] for sensor in ids}
    described = {f"field-{n}": heat(*ids, names=names)["heat"] for n in range(fields)}

    message = message_for(described, commands=commands)

    assert len(msgspec.json.encode(message)) <= MAX_MESSAGE
    for name in described:
        assert {f"{name}_selected", f"{name}_hotspot_sensor"} <= message["components"].keys()
    first = message["components"]["field-0_selected"]["value_template"]
    if sensors * (letters + 20) < 5000:
        assert rendered(first, {"sensor": "s0"}, value="{}") == names["s0"]


def test_the_first_fields_keep_their_names_and_options():
    sensors = tuple(f"s{n}" for n in range(100))
    names = {sensor: f"{sensor} on the ground floor" for sensor in sensors}
    fields = {each: heat(*sensors, names=names)["heat"] for each in "abcdefgh"}

    components = components_of(fields)

    selected = [components[f"{each}_selected"]["value_template"] for each in fields]
    has_names = ["ground floor" in each for each in selected]
    has_options = [f"{each}_poll" in components for each in fields]
    assert has_names == sorted(has_names, reverse=True)
    assert has_options == sorted(has_options, reverse=True)
    assert 0 < sum(has_options) < sum(has_names) < len(fields)


def test_a_message_that_is_too_large_for_many_brokers_is_logged(caplog):
    fields = {f"field-{n}": heat()["heat"] for n in range(40)}
    message = message_for(fields)

    Discovery("lab", HomeAssistant(), message, Random(0))

    (text,) = caplog.messages
    assert "mosquitto: max_packet_size" in text
    assert len(msgspec.json.encode(message)) > MAX_MESSAGE


def test_pause_is_shown_if_one_field_is_paused():
    pause = components_of(heat())["pause"]
    fields = {"heat": {"paused": False}, "light": {"paused": True}}

    assert rendered(pause["value_template"], {"fields": fields}) == "ON"
    fields["light"]["paused"] = False
    assert rendered(pause["value_template"], {"fields": fields}) == "OFF"


@pytest.mark.parametrize(
    ("key", "payload", "request_"),
    [
        ("pause", "payload_on", {"paused": True}),
        ("pause", "payload_off", {"paused": False}),
        ("heat_pause", "payload_on", {"field": "heat", "paused": True}),
        ("heat_poll_again", "payload_press", {"field": "heat"}),
        ("reset", "payload_press", {}),
    ],
)
def test_controls_publish_valid_commands(key, payload, request_):
    control = components_of(heat())[key]

    assert json.loads(control[payload]) == request_
    assert parse_request(control[payload].encode())
    assert control["retain"] is False  # a retained command would be carried out at every start


# --- the schedule -------------------------------------------------------------------------------


def message(topic, content, *, retain=False):
    return SimpleNamespace(topic=topic, payload=content, retain=retain)


class Session:
    """A discovery schedule with a simulated clock, and the broker's copy of the message."""

    def __init__(self, fields, copy=b"", seed=0, removals=None):
        self.discovery = Discovery(
            "lab", HomeAssistant(), message_for(fields), Random(seed), removals
        )
        self.copy, self.now, self.published = copy, 0.0, 0
        self.removed = set()  # all entities that a published message removes
        self.acknowledged = True  # whether the broker acknowledges each message at once
        self.settled = []  # when the states could follow

    def connect(self):
        self.discovery.begin(self.now)
        if self.copy:
            self.receive_copy()
        return self

    def receive_copy(self):
        self.discovery.put(message(self.discovery.topic, self.copy, retain=True), self.now)

    def birth(self, *, retain=False):
        self.discovery.put(message("homeassistant/status", b"online", retain=retain), self.now)

    def run(self, seconds):
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            acknowledged = self.acknowledged
            payload = self.discovery.due(self.now, acknowledged=acknowledged)
            if payload is not None:
                self.copy, self.published = payload, self.published + 1
                components = json.loads(payload)["components"]
                self.removed |= {key for key, each in components.items() if len(each) == 1}
            if self.discovery.settled(self.now, acknowledged=acknowledged):
                self.settled.append(self.now)
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


def test_states_follow_the_message_after_a_second():
    first = Session(heat()).connect().run(10.0)
    second = Session(heat(), first.copy).connect().run(10.0)

    assert first.settled == [COPY_TIMEOUT_S + SETTLE_S]
    assert second.settled == [0.5]  # the broker's copy is up to date
    second.birth()
    second.run(20.0)
    assert len(second.settled) == 2 and second.published == 1


def test_a_repeated_copy_of_the_message_does_not_repeat_the_states():
    session = Session(heat()).connect().run(10.0)
    session.receive_copy()

    assert len(session.run(10.0).settled) == session.published == 1
    session.copy = b"{}"
    session.receive_copy()
    assert len(session.run(10.0).settled) == session.published == 2


@pytest.mark.acceptance(16)
def test_entities_of_a_removed_field_are_removed():
    light = DiscoveryField(
        sensors=("x",), unit="lx", thresholds=(0.0, 9.0), energy_unit="J", has_batteries=True
    )
    both = heat() | {"light": light}
    before = Session(both).connect().run(10.0)
    after = Session(heat(), before.copy).connect().run(10.0)
    again = Session(heat(), after.copy).connect().run(10.0)
    components = check_message(after.copy)["components"]

    for key in components_of(both).keys() - components_of(heat()).keys():
        assert components[key] == {"platform": components_of(both)[key]["platform"]}
    assert (after.published, again.published) == (1, 0)
    assert before.discovery.removed == set() and after.discovery.removed == {"light"}


@pytest.mark.acceptance(16)
def test_removed_sensor_is_no_longer_an_option():
    before = Session(heat("a", "b", "c")).connect().run(10.0)
    after = Session(heat("a", "b"), before.copy).connect().run(10.0)

    assert after.published == 1
    assert check_message(after.copy)["components"]["heat_poll"]["options"] == ["a", "b"]


def test_removals_that_do_not_fit_follow_in_further_messages():
    """The broker retains only the last message, so removals that are left out would be lost."""
    many = heat(*(f"mote-{n}" for n in range(100)))
    obsolete = {f"old_{n}": {"platform": "sensor", "name": "Old"} for n in range(5000)}
    done = {f"gone_{n}": {"platform": "sensor"} for n in range(5000)}
    copy = json.dumps({"components": done | obsolete}).encode()
    messages = removing(message_for(many), copy)
    removed = [set(each["components"]) - set(message_for(many)["components"]) for each in messages]

    assert set.union(*removed) >= set(obsolete)
    assert sum(map(len, removed)) < len(obsolete) + len(done)  # those that fit into the last one

    session = Session(many, copy).connect().run(COPY_TIMEOUT_S + 2.0 * len(messages))
    assert session.published == len(messages) > 1
    assert session.copy == msgspec.json.encode(messages[-1])
    assert session.settled == [session.settled[0]]
    assert Session(many, session.copy).connect().run(10.0).published == 0


MANY = heat(*(f"mote-{n}" for n in range(100)))
OBSOLETE = {f"old_{n}": {"platform": "sensor", "name": "Old"} for n in range(2000)}
OBSOLETE |= {"light_selected": {"platform": "sensor", "name": "Light"}}  # of a removed field
COPY = json.dumps({"components": OBSOLETE}).encode()
FIRST_MESSAGE_S = 1.0  # after a connection: the first message is published, the second is not


def test_removals_are_repeated_if_the_connection_is_lost_before_the_last_message():
    session = Session(MANY, COPY).connect().run(FIRST_MESSAGE_S)
    assert session.published == 1 and not session.removed >= OBSOLETE.keys()
    session.connect().run(30.0)

    assert session.removed == OBSOLETE.keys()
    assert session.discovery.removed == {"light"}
    assert session.discovery.removals == {}


def test_each_session_removes_more_entities_however_short_the_sessions_are():
    field_first = dict(reversed(OBSOLETE.items()))
    session = Session(MANY, json.dumps({"components": field_first}).encode())
    messages = removing(message_for(MANY), session.copy)
    for _ in messages:
        assert session.settled == []
        session.connect().run(FIRST_MESSAGE_S + SETTLE_S)

    assert len(messages) > 2
    assert session.removed == OBSOLETE.keys()
    assert session.discovery.removed == {"light"}
    assert len(session.settled) == 1


def test_removals_are_repeated_after_a_reload_before_the_last_message():
    before = Session(MANY, COPY).connect().run(FIRST_MESSAGE_S)
    kept = MANY | {"light": DiscoveryField(sensors=("x",), unit="lx")}
    after = Session(kept, before.copy, removals=before.discovery.removals).connect().run(30.0)

    assert before.removed | after.removed >= OBSOLETE.keys() - {"light_selected"}
    assert "light_selected" not in after.removed  # the reload has added the field again


def test_a_message_with_further_removals_waits_for_the_acknowledgement():
    session = Session(MANY, COPY).connect()
    session.acknowledged = False
    session.run(30.0)
    assert session.published == 1 and session.settled == []
    session.acknowledged = True
    session.run(30.0)

    assert session.removed == OBSOLETE.keys()
    assert len(session.settled) == 1


def test_a_start_of_home_assistant_does_not_shorten_the_time_for_the_removals():
    session = Session(MANY, COPY)
    session.birth()
    session.now = session.discovery.wake_at() - SETTLE_S / 4
    session.receive_copy()

    assert session.discovery.due(session.now)
    assert session.discovery.wake_at() == session.now + SETTLE_S


def test_the_number_of_remembered_removals_is_bounded():
    session = Session(heat())
    for number in range(4):
        obsolete = {f"old_{number}_{n}": {"platform": "sensor", "name": ""} for n in range(2000)}
        session.copy = json.dumps({"components": obsolete}).encode()
        session.connect().run(FIRST_MESSAGE_S)

    assert len(session.discovery.removals) == MAX_REMOVALS


def test_removals_for_which_no_message_has_room_are_logged(caplog, monkeypatch):
    monkeypatch.setattr("edge_tvbo_adapters.homeassistant.discovery.MAX_MESSAGE", 100)
    copy = json.dumps({"components": {"old": {"platform": "sensor", "name": "Old"}}}).encode()
    assert removing(message_for(heat()), copy) == [message_for(heat())]
    assert "has no room to remove 1 obsolete entities" in caplog.text


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ).map(lambda copy: json.dumps({"components": copy}).encode())
)
def test_message_follows_the_schema_for_any_copy(copy):
    for message in removing(message_for(heat()), copy):
        check_message(msgspec.json.encode(message))


def test_only_keys_and_platforms_of_the_copy_are_used():
    foreign = {"x": {"platform": "sensor", "state_topic": "a/b"}, "y/#": {"platform": "sensor"}}
    copy = json.dumps({"components": foreign | {"z": {"platform": "lock"}}}).encode()
    (message,) = removing(message_for({}), copy)
    components = message["components"]

    assert components["x"] == {"platform": "sensor"}
    assert not {"y/#", "z"} & components.keys()


def test_topic_describes_one_device():
    assert topic_for("homeassistant", "pi1") == "homeassistant/device/edge_tvbo_pi1/config"


def test_a_label_that_is_the_name_of_another_sensor_is_not_used_twice():
    names = {"a": "Hall", "b": "Hall", "c": "Hall (a)"}
    field = DiscoveryField(sensors=("a", "b", "c"), unit="°C", names=names)
    assert labels_of(field) == {"a": "Hall (a) (a)", "b": "Hall (b)", "c": "Hall (a) (c)"}
