"""Dashboard state: any message updates it or is counted, and its size is bounded."""

import json
from itertools import product
from typing import NamedTuple

import msgspec
import pytest
from edge_tvbo_adapters.dashboard.day import MAX_CELLS, MAX_ENTRIES, recorded_day
from edge_tvbo_adapters.dashboard.field_state import MAX_FRAMES, MAX_NOTICES, MAX_SELECTIONS
from edge_tvbo_adapters.dashboard.frames import DashboardField, frames_of
from edge_tvbo_adapters.dashboard.state import DashboardState
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Ending, Record
from edge_tvbo.messages.documents import (
    Alert,
    Decision,
    Hotspot,
    ModelState,
    Notice,
    PublishedPosterior,
    Reason,
)
from edge_tvbo.messages.history import (
    EarlierActivation,
    HistoryEntry,
    PosteriorSnapshot,
    QuantizedArray,
)

SENSORS = ("a", "b", "c")
BASE = "edge_tvbo/lab"
LEVELS = ("selected", "posterior", "hotspot", "alert", "event")


FIELD = DashboardField(SENSORS, "°C", "max", 1.0, None)


def of_sensors(*sensors):
    return msgspec.structs.replace(FIELD, sensors=sensors)


def new_state():
    return DashboardState("lab", {"heat": FIELD})


def decision(interval, sensor="a", *, resets=0, day=1):
    at = f"2026-11-{day:02}T00:{interval // 60:02}:{interval % 60:02}Z"
    return Decision(
        interval, at, at, sensor, "et-gp-ucb", 20.0, 1.0, 22.0, "°C", Reason.EXPLORE, [], "text",
        ModelState(1, resets),
    )  # fmt: skip


def posterior(interval, ending=None, value=None):
    return PublishedPosterior(
        interval, "2026-11-01T00:00:00Z", ending, "°C", SENSORS,
        mean=[20.0, 21.0, 22.0], std=[1.0] * 3, last=[value, None, None], age_s=[0.0, None, None],
    )  # fmt: skip


def process(state, level, document):
    """Return the events for a message on a topic of the field `heat`."""
    return state.process(f"{BASE}/heat/{level}", msgspec.json.encode(document))


topics = st.sampled_from(
    [f"{BASE}/{each}" for each in ("status", "health", "event", "", "x/y/z", "cold/selected")]
    + [f"{BASE}/heat/{level}" for level in LEVELS]
)
documents = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
).map(lambda each: json.dumps(each).encode())


@given(st.lists(st.tuples(topics, st.binary() | documents), max_size=8))
def test_any_message_leaves_a_state_that_can_be_encoded(messages):
    state = new_state()
    for topic, payload in messages:
        for _, document in state.process(topic, payload):
            msgspec.json.encode(document)
    msgspec.json.encode(state.view())


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, "answered", "missed"]))))
def test_posterior_changes_only_its_own_interval(posteriors):
    state = new_state()
    process(state, "selected", decision(1))
    process(state, "selected", decision(2, "b"))
    for interval, ending in posteriors:
        process(state, "posterior", posterior(interval, ending, 20.5))
    for selection in state.view().fields["heat"].selections:
        endings = [ending for interval, ending in posteriors if interval == selection.interval]
        assert selection.ending == (endings[-1] if endings else None)


def test_reply_is_stored_with_its_value():
    state = new_state()
    process(state, "selected", decision(1))
    ((_, change),) = process(state, "posterior", posterior(1, "answered", 20.5))
    assert (change["selection"].ending, change["selection"].value) == ("answered", 20.5)
    process(state, "selected", decision(1))  # retained, received again after a reconnection
    assert state.view().fields["heat"].selections[-1].value == 20.5


def test_reply_that_begins_the_next_interval_is_shown_in_its_own():
    """With ``interval = "on-reading"``, the next decision arrives before the posterior."""
    state = new_state()
    process(state, "selected", decision(1))
    process(state, "posterior", posterior(1))
    process(state, "selected", decision(2, "b"))
    ((_, change),) = process(state, "posterior", posterior(1, "answered", 20.5))
    assert (change["selection"].interval, change["selection"].ending) == (1, "answered")
    process(state, "posterior", posterior(2))
    shown = state.view().fields["heat"].selections
    ended = [(each.interval, each.ending, each.value) for each in shown]
    assert ended == [(1, "answered", 20.5), (2, None, None)]


def test_frame_contains_the_posterior_before_the_reply():
    state = new_state()
    process(state, "selected", decision(1))
    process(state, "posterior", posterior(1))
    after = msgspec.structs.replace(posterior(1, "answered", 20.5), mean=[20.5, 20.5, 20.5])
    process(state, "posterior", after)
    assert state.fields["heat"].frames[-1].mean == [20.0, 21.0, 22.0]
    view = state.view().fields["heat"]
    assert (view.prediction.ending, view.posterior.ending) == (None, "answered")


def test_retained_messages_can_arrive_in_any_order():
    forward, backward = new_state(), new_state()
    messages = [("selected", decision(7)), ("posterior", posterior(7, "answered", 20.5))]
    for level, document in messages:
        process(forward, level, document)
    for level, document in reversed(messages):
        process(backward, level, document)
    assert forward.view().fields == backward.view().fields


def test_second_decision_of_an_interval_replaces_the_first():
    state = new_state()
    for sensor in ("a", "c"):
        process(state, "selected", decision(1, sensor))
    assert [each.sensor for each in state.view().fields["heat"].selections] == ["c"]


def test_state_has_a_bounded_size():
    state = new_state()
    for interval in range(3000):
        process(state, "selected", decision(interval))
        notice = {"event": "reload", "at": "2026-11-01T00:00:00Z", "text": "t"}
        process(state, "event", notice)
    view = state.view().fields["heat"]
    assert len(view.selections) == MAX_SELECTIONS and len(view.notices) == MAX_NOTICES
    assert len(state.fields["heat"].frames) <= MAX_FRAMES


@pytest.mark.parametrize(
    "level, payload",
    [
        ("selected", b'"' + b"x" * 2**15 + b'"'),
        ("selected", msgspec.json.encode(replace(decision(1), at="yesterday"))),
        ("posterior", msgspec.json.encode(posterior(1)).replace(b"[1.0,1.0,1.0]", b"[1.0]")),
        ("event", b"\xff"),
    ],
)
def test_large_or_invalid_message_is_counted(level, payload):
    state = new_state()
    process(state, "posterior", posterior(1))
    assert state.process(f"{BASE}/heat/{level}", payload) == []
    assert state.unreadable.total() == 1 and state.view().fields["heat"].selections == []


def test_message_that_cannot_be_read_is_logged_once_for_each_topic(caplog):
    state, unknown = new_state(), msgspec.to_builtins(decision(1)) | {"reason": "later"}
    for _ in range(3):
        process(state, "selected", unknown)
    process(state, "alert", {})
    assert state.unreadable == {f"{BASE}/heat/selected": 3, f"{BASE}/heat/alert": 1}
    first, second = caplog.messages
    assert first.startswith(f"{BASE}/heat/selected: a message cannot be read: Invalid enum value")
    assert second.startswith(f"{BASE}/heat/alert: a message cannot be read: ")


def test_decision_of_more_than_16_kib_is_shown():
    """The ids of 50 ineligible sensors and the texts of a decision can be long."""
    state, long = new_state(), replace(decision(1), text="x" * 2**14)
    process(state, "selected", long)
    assert state.view().fields["heat"].decision == long


def test_log_of_a_message_that_is_too_large_states_its_size(caplog):
    assert new_state().process(f"{BASE}/heat/event", b" " * 4097) == []
    assert caplog.messages == [
        f"{BASE}/heat/event: a message cannot be read: its 4097 bytes are more than "
        "the limit of 4096 bytes"
    ]


def test_text_of_a_message_is_short_and_printable_in_the_log(caplog):
    process(new_state(), "selected", decision(1, "new\n\x1b[2J" + 9999 * "x"))
    (message,) = caplog.messages
    assert message.isprintable() and len(message) < 400


def test_message_about_an_unknown_sensor_says_that_the_dashboard_is_outdated(caplog):
    state = new_state()
    known, unknown = decision(0, "c"), decision(1, "new")
    process(state, "selected", known)
    assert not state.connections().outdated
    estimates = replace(posterior(1), sensors=["new", "a", "b"])
    for level, document in (("selected", unknown), ("posterior", estimates)):
        ((event, connections),) = process(state, level, document)
        assert (event, connections.outdated) == ("connections", True)
    assert len(state.fields["heat"].frames) == 1
    assert state.fields["heat"].posterior is None
    assert [each.message for each in caplog.records] == [
        f"{BASE}/heat/selected: new is not a sensor of the field; restart the dashboard to load the"
        " configuration"
    ]


@pytest.mark.parametrize("level", ["selected", "posterior"])
def test_retained_message_about_a_removed_sensor_does_not_make_the_dashboard_outdated(level):
    """After a sensor was removed, the broker retains a message about it until the next interval."""
    state = new_state()
    old = decision(1, "gone") if level == "selected" else replace(posterior(1), sensors=("gone",))
    ((_, connections),) = state.process(
        f"{BASE}/heat/{level}", msgspec.json.encode(old), retained=True
    )
    assert connections.outdated
    new = decision(2) if level == "selected" else posterior(2)
    *_, (event, connections) = process(state, level, new)
    assert (event, connections.outdated) == ("connections", False)


@given(st.lists(st.sets(st.sampled_from(["heat", "noise", "light"])), min_size=1), st.booleans())
def test_dashboard_is_outdated_if_the_daemon_lacks_or_adds_a_field(reports, retained):
    """The dashboard may show fewer fields than the daemon has, on purpose."""
    state = new_state()
    for fields in reports:
        events = state.process(f"{BASE}/health", health_of(fields), retained=retained)
        event, connections = events[-1]
        assert connections.outdated == ("heat" not in fields or not fields <= reports[0] | {"heat"})
        assert (event, connections.health.fields.keys()) == ("connections", fields)


def test_log_names_the_other_fields_of_the_daemon_once(caplog):
    state = new_state()
    for fields in (["heat", "light"], ["heat", "light", "noise"], ["heat", "light", "noise"]):
        state.process(f"{BASE}/health", health_of(fields))
    assert [each.message for each in caplog.records] == [
        f"{BASE}/health: the daemon and the dashboard have different fields: only one of them has"
        " noise; restart the dashboard if the configuration has changed"
    ]


def health_of(fields):
    """Return the payload of the health of a daemon that has the `fields`."""
    of_field = {"interval": 0, "selected": "a", "answered": 0, "missed": 0, "suspects": []}
    document = {"at": "2026-11-01T00:00:00Z", "uptime_s": 9, "version": "0.2.0"}
    document["fields"] = dict.fromkeys(fields, of_field | {"refused": {}})
    return json.dumps(document).encode()


def test_second_connection_problem_keeps_the_first_time_and_reason():
    state = new_state()
    state.broker_connected()
    (_, first), (_, second) = state.broker_lost("gone")[0], state.broker_lost("rejected")[0]
    assert not first.broker.online
    assert (second.broker.since, second.broker.reason) == (first.broker.since, "gone")


def test_end_of_the_live_messages_keeps_the_time_of_the_first_problem_but_not_its_reason():
    state = new_state()
    ((_, lost),) = state.broker_lost("gone")
    ((_, ended),) = state.ended("a bug")
    assert (ended.broker.online, ended.broker.since) == (False, lost.broker.since)
    assert ended.broker.reason == "a bug"


def test_first_failed_connection_has_its_reason():
    state = new_state()
    ((_, connections),) = state.broker_lost("out of reach")
    assert (connections.broker.online, connections.broker.reason) == (False, "out of reach")


# --- the course over time -------------------------------------------------------------------------


def course(state, sensor=None):
    """Return the hot spot, its reading and the reading of `sensor` in each interval."""
    return [
        (each.hotspot, each.hottest and each.hottest.reading, each.chosen and each.chosen.reading)
        for each in state.fields["heat"].course(sensor)
    ]


def hotspot(sensor):
    return Hotspot("2026-11-01T00:00:00Z", sensor, 22.0, 1.0, "°C", None)


def test_course_contains_the_hot_spot_before_the_reply_and_its_reading():
    state = new_state()
    process(state, "selected", decision(0, "c"))
    process(state, "posterior", posterior(0))
    process(state, "hotspot", hotspot("c"))
    process(state, "posterior", with_reading(posterior(0, "answered"), "c", 21.5, age=0.0))
    process(state, "hotspot", hotspot("b"))  # after the reply
    assert course(state, "a") == [("c", 21.5, None)]
    (point,) = state.fields["heat"].course(None)
    assert (point.hottest.mean, point.hottest.std, point.chosen) == (22.0, 1.0, None)


def with_reading(document, sensor, value, age):
    k = SENSORS.index(sensor)
    last, age_s = list(document.last), list(document.age_s)
    last[k], age_s[k] = value, age
    return msgspec.structs.replace(document, last=last, age_s=age_s)


def test_reading_is_in_one_interval_of_the_course():
    state = new_state()
    first = with_reading(posterior(0), "b", 20.5, age=300.0)  # from before the dashboard started
    process(state, "selected", decision(0))
    process(state, "posterior", first)
    assert course(state, "b") == [(None, None, None)]
    reported = with_reading(posterior(0, "missed"), "b", 20.7, age=0.02)
    process(state, "posterior", reported)
    process(state, "selected", decision(1))
    later = msgspec.structs.replace(reported, interval=1, at="2026-11-01T00:00:01Z", ending=None)
    process(state, "posterior", with_reading(later, "b", 20.7, age=1.0))
    assert course(state, "b") == [(None, None, 20.7), (None, None, None)]


def test_readings_of_all_activations_of_an_interval_are_kept():
    state = new_state()
    for sensor, value in (("a", 20.1), ("c", 22.2)):
        process(state, "selected", decision(0, sensor))
        process(state, "posterior", with_reading(posterior(0, "answered"), sensor, value, age=0.0))
    assert state.fields["heat"].frames[-1].readings == {"a": 20.1, "c": 22.2}


def test_course_has_a_bounded_size():
    state = new_state()
    for interval in range(MAX_FRAMES + 10):
        process(state, "selected", decision(interval % 86_000))
    assert len(course(state, "a")) == MAX_FRAMES


def test_course_of_an_unknown_sensor_is_an_error():
    with pytest.raises(LookupError):
        new_state().fields["heat"].course("unlisted")


def test_alert_is_shown_and_an_invalid_one_is_counted():
    state = new_state()
    alert = Alert(
        "2026-11-01T00:00:00Z", True, "2026-11-01T00:00:00Z", 25.0, 24.5, "c", 26.0, 0.5, 0.97,
        {"c": 26.1}, "°C", "Alert for values above 25 °C",
    )  # fmt: skip
    ((_, change),) = process(state, "alert", alert)
    assert change["alert"] == alert == state.view().fields["heat"].alert
    assert process(state, "alert", {"active": True}) == [] and state.unreadable.total() == 1


def test_document_that_the_daemon_clears_disappears():
    state = new_state()
    field = state.fields["heat"]
    alert = Alert(
        "2026-11-01T00:00:00Z", True, "2026-11-01T00:00:00Z", 25.0, 24.5, "c", 26.0, 0.5, 0.97,
        {"c": 26.1}, "°C", "Alert for values above 25 °C",
    )  # fmt: skip
    process(state, "selected", decision(1))
    for level, document in (
        ("alert", alert),
        ("hotspot", hotspot("c")),
        ("posterior", posterior(1)),
    ):
        process(state, level, document)
        assert getattr(state.view().fields["heat"], level) == document
        ((event, change),) = state.process(f"{BASE}/heat/{level}", b"")
        assert (event, change[level]) == ("field", None)
    assert (field.alert, field.hotspot, field.posterior, field.prediction) == (None,) * 4
    state.process(f"{BASE}/health", health_of(["heat"]))
    ((_, connections),) = state.process(f"{BASE}/health", b"")
    assert connections.health is None
    state.process(f"{BASE}/heat/selected", b"")
    assert state.view().fields["heat"].decision == decision(1)  # it is history
    assert not state.unreadable


def test_document_in_another_unit_that_is_cleared_is_forgotten():
    state = new_state()
    process(state, "posterior", replace(posterior(1), unit="°F"))
    assert state.connections().outdated
    events = state.process(f"{BASE}/heat/posterior", b"")
    assert events[-1][0] == "connections" and not events[-1][1].outdated


@pytest.mark.parametrize("step", [3600, 0, -3600])
def test_step_of_the_clock_makes_no_reading_new(step):
    """The daemon shifts the times of its readings: their ages continue to grow."""
    state = new_state()
    for interval, minute in enumerate((0, 10, 20)):
        at = f"2026-11-01T{2 + (interval == 2) * step // 3600:02}:{minute:02}:00Z"
        ages = [300.0 + 60 * minute, None, 900.0 + 60 * minute]
        document = replace(posterior(interval), at=at, last=[20.5, None, 21.5], age_s=ages)
        process(state, "selected", replace(decision(interval), at=at))
        process(state, "posterior", document)
    assert [each.readings for each in state.fields["heat"].frames] == [{}, {}, {}]
    reported = replace(document, last=[20.5, None, 22.5], age_s=[1500.0, None, 0.0])
    process(state, "posterior", reported)
    assert state.fields["heat"].frames[-1].readings == {"c": 22.5}


def test_readings_of_the_same_value_at_the_same_time_are_new():
    """As of sensors of one gateway, which report every ten minutes."""
    state = new_state()
    for interval, minute in enumerate((0, 10)):
        at = f"2026-11-01T02:{minute:02}:00Z"
        process(state, "selected", replace(decision(interval), at=at))
        document = replace(posterior(interval), last=[20.5, None, 21.5], age_s=[0.0, None, 0.1])
        process(state, "posterior", replace(document, at=at))
    assert state.fields["heat"].frames[-1].readings == {"a": 20.5, "c": 21.5}


def test_interval_begins_with_its_first_decision():
    state = new_state()
    for second, earlier in enumerate(([], ["a"], ["a", "b"])):
        at = f"2026-11-01T02:00:0{second}Z"
        process(state, "selected", replace(decision(1), at=at, earlier=earlier))
    (selection,) = state.view().fields["heat"].selections
    assert (selection.begin, selection.at) == ("2026-11-01T02:00:00Z", "2026-11-01T02:00:02Z")
    process(state, "selected", decision(2))
    assert state.view().fields["heat"].selections[-1].begin == decision(2).at


def test_interval_in_which_a_command_followed_a_saved_activation_begins_with_its_start():
    state, at = new_state(), "2026-11-01T02:00:02Z"
    process(state, "selected", replace(decision(1), reason=Reason.SAVED))
    process(state, "selected", replace(decision(1), at=at, reason=Reason.ASKED))
    (selection,) = state.view().fields["heat"].selections
    assert (selection.begin, selection.at) == (decision(1).at, at)


@pytest.mark.parametrize("sensor", ["a", "b"])
def test_first_interval_after_a_restart_without_state_is_another_interval(sensor):
    """A daemon without `[state]` counts its intervals from 0 after each start."""
    state, at = new_state(), "2026-11-01T03:00:00Z"
    process(state, "selected", decision(0))
    process(state, "posterior", posterior(0))
    process(state, "posterior", posterior(0, "answered", 20.5))
    restarted = replace(decision(0, sensor), at=at)
    ((_, change),) = process(state, "selected", restarted)
    assert (change["selection"].ending, change["course"]["readings"]) == (None, {})
    assert change["posterior"] is None
    process(state, "posterior", replace(posterior(0), at=at, age_s=[None] * 3))
    shown = state.view().fields["heat"].selections
    ended = [(each.sensor, each.ending, each.value, each.begin) for each in shown]
    assert ended == [("a", "answered", 20.5, decision(0).at), (sensor, None, None, at)]


def test_sensor_that_a_command_activates_again_does_not_begin_an_interval():
    state, at = new_state(), "2026-11-01T02:00:02Z"
    process(state, "selected", decision(1))
    process(state, "selected", replace(decision(1), at=at, reason=Reason.ASKED))
    (selection,) = state.view().fields["heat"].selections
    assert (selection.begin, selection.at) == (decision(1).at, at)


def test_interval_of_the_history_begins_with_its_first_decision():
    first = EarlierActivation(decision(1, "b"), None)
    at = "2026-11-01T02:00:02Z"
    later = replace(entry(1), decision=replace(decision(1), at=at, earlier=["b"]), earlier=(first,))
    (frame,) = frames_of([later], FIELD)
    assert frame.begin == decision(1).at


@pytest.mark.parametrize("objective, hottest", [("max", ["c", "b", "c"]), ("min", ["a"] * 3)])
def test_ignored_sensor_is_not_the_hot_spot_of_a_recorded_day(objective, hottest):
    notices = [
        Notice(each, decision(0).at, "text", "c") for each in ("sensor-ignored", "sensor-used")
    ]
    entries = [
        msgspec.structs.replace(entry(n), notices=(notice,)) if n < 2 else entry(n)
        for n, notice in enumerate([*notices, None])
    ]
    frames = frames_of(entries, replace(FIELD, objective=objective))
    assert [each.hotspot for each in frames] == hottest


@pytest.mark.parametrize("means, hottest", [([0, 0, 0], None), ([0, 255, 0], "b")])
def test_frame_before_the_first_reading_has_a_hot_spot_only_if_the_prior_has_one(means, hottest):
    posterior = PosteriorSnapshot(
        SENSORS, QuantizedArray(20.0, 21.0, bytes(means)), QuantizedArray(1.0, 1.0, bytes(3))
    )
    unread = replace(decision(1), model=ModelState(0, 1))
    (frame,) = frames_of([replace(entry(1), posterior=posterior, decision=unread)], FIELD)
    assert frame.hotspot == hottest


def test_frame_of_the_history_contains_the_readings_of_earlier_activations():
    earlier = EarlierActivation(
        decision(1, "c"), Record(1, 0.0, "c", Ending.ANSWERED, 21.5, 0.1, None, False)
    )
    (frame,) = frames_of([msgspec.structs.replace(entry(1), earlier=(earlier,))], FIELD)
    assert frame.readings == {"c": 21.5, "a": 20.25}


def test_history_of_small_values_is_not_rounded_to_zero():
    """As of a current in A: the daemon rounds to 1/100 of a standard deviation of 0.0001 A."""
    posterior = PosteriorSnapshot(
        SENSORS,
        QuantizedArray(0.000101, 0.000356, bytes([0, 100, 255])),
        QuantizedArray(0.000002, 0.000093, bytes([0, 255, 255])),
    )
    record = Record(1, 0.0, "a", Ending.ANSWERED, 0.0001006, None, None, False)
    (frame,) = frames_of([replace(entry(1), posterior=posterior, record=record)], FIELD)
    assert frame.mean == pytest.approx([0.000101, 0.000201, 0.000356])
    assert frame.std == pytest.approx([0.000002, 0.000093, 0.000093])
    assert (frame.hotspot, frame.value, frame.readings) == ("c", 0.0001006, {"a": 0.0001006})


def test_messages_and_entries_in_another_unit_are_not_shown_in_the_unit_of_the_field(caplog):
    """After the unit was changed, the broker still has messages in the former unit."""
    state, fahrenheit = new_state(), DashboardState("lab", {"heat": replace(FIELD, unit="°F")})
    hotspot = Hotspot("2026-11-01T00:00:00Z", "c", 22.0, 1.0, "°C", 5)
    documents = (("hotspot", hotspot), ("selected", decision(1)), ("posterior", posterior(1)))
    for level, document in documents:
        process(state, level, document)
        ((event, connections),) = process(fahrenheit, level, document)
        assert (event, connections.outdated) == ("connections", True)
    assert not state.connections().outdated
    view = fahrenheit.view().fields["heat"]
    assert (view.selections, view.posterior, view.hotspot) == ([], None, None)
    assert "the message is in °C, and the unit of the field is °F" in caplog.messages[0]
    for level, document in documents:
        process(fahrenheit, level, replace(document, unit="°F"))
    assert not fahrenheit.connections().outdated
    assert [
        len(list(frames_of([entry(1)], replace(FIELD, unit=unit)))) for unit in ("°C", "°F")
    ] == [1, 0]


# --- a recorded day -------------------------------------------------------------------------------


class InMemoryHistory:
    """A decision history in memory."""

    def __init__(self, entries):
        self.entries = entries

    def newest(self, field, count):
        return self.entries[::-1][:count]

    def close(self):
        pass


def entry(interval, day=1):
    record = Record(interval, 0.0, "a", Ending.ANSWERED, 20.25, 0.5, None, False)
    array = QuantizedArray(20.0, 22.0, bytes([0, 128, 255]))
    snapshot = PosteriorSnapshot(SENSORS, array, array)
    return HistoryEntry("heat", decision(interval, day=day), record, (), snapshot)


def test_recorded_day_merges_history_and_live_frames():
    state = new_state()
    for interval in (2, 3):
        process(state, "selected", decision(interval, "b", day=2))
    history = InMemoryHistory([entry(0), entry(1, day=2), entry(2, day=2)])
    live = state.fields["heat"].frames
    day = recorded_day("heat", FIELD, None, lambda: history, live, [])
    assert (day.days, day.day) == (["2026-11-01", "2026-11-02"], "2026-11-02")
    assert [each.decision.interval for each in day.frames] == [1, 2, 3]
    assert day.frames[0].mean == [20.0, 21.004, 22.0] and day.frames[0].value == 20.25
    earlier = recorded_day("heat", FIELD, "2026-11-01", lambda: history, [], [])
    assert earlier.frames[0].decision.interval == 0
    assert recorded_day("heat", FIELD, "1999-01-01", None, [], []).frames == []


class Interval(NamedTuple):
    """Interval with up to two activations, of which the history and the dashboard know some.

    The value of each known activation says whether its end is known, too.
    """

    stored: list[bool]  # by activation; the last checkpoint is before the other activations
    received: dict[int, bool]  # by number of the activation; the other decisions were missed

    def newest(self):
        """Return the number of the newest activation that is known."""
        return max(len(self.stored) - 1, *self.received, -1)

    def ending(self):
        """Return how the newest activation ended, if this is known."""
        newest = self.newest()
        is_stored = len(self.stored) > newest and self.stored[newest]
        return "answered" if is_stored or self.received.get(newest) else None


STORED = [[], [False], [True], [False, False], [False, True], [True, False], [True, True]]
RECEIVED = [
    {number: ended for number, ended in enumerate(each) if ended is not None}
    for each in product((None, False, True), repeat=2)
]


def activation(interval, number):
    """Return the decision of an activation: of sensor a, or of sensor b a moment later."""
    first = decision(3 * interval)
    later = {"at": decision(3 * interval + 1).at, "sensor": "b", "earlier": ["a"]}
    return replace(first, interval=interval, **later if number else {})


def history_of(known):
    """Return the history of these intervals."""
    entries = []
    for interval, each in enumerate(known):
        whole = entry(interval)
        activations = [
            EarlierActivation(activation(interval, number), whole.record if ended else None)
            for number, ended in enumerate(each.stored)
        ]
        if activations:
            *earlier, last = activations
            changes = {"decision": last.decision, "record": last.record, "earlier": tuple(earlier)}
            entries.append(replace(whole, **changes))
    return InMemoryHistory(entries)


def frames_received(known):
    """Return the frames of a dashboard that received these messages only."""
    state = new_state()
    for interval, each in enumerate(known):
        for number, ended in sorted(each.received.items()):
            process(state, "selected", activation(interval, number))
            if ended and number == each.newest():
                process(state, "posterior", posterior(interval, "answered", 20.25))
    return state.fields["heat"].frames


def test_recorded_day_has_each_interval_once_with_what_history_or_messages_say():
    known = [Interval(*each) for each in product(STORED, RECEIVED)]
    frames = recorded_day(
        "heat", FIELD, None, lambda: history_of(known), frames_received(known), []
    ).frames

    shown = [(each.decision, each.ending) for each in frames]
    assert shown == [
        (activation(interval, each.newest()), each.ending())
        for interval, each in enumerate(known)
        if each.newest() >= 0
    ]
    for frame in frames:
        each = known[frame.decision.interval]
        if len(each.stored) > each.newest():
            assert frame.mean is not None and frame.hotspot == "c"
        if any(each.stored):
            assert frame.readings


def test_recorded_day_begins_with_the_last_notice_of_each_sensor_and_event():
    notices = [
        Notice("sensor-lost", "2026-11-01T08:00:00Z", "lost", "a"),
        Notice("sensor-back", "2026-11-01T09:00:00Z", "back", "a"),
        Notice("sensor-lost", "2026-11-01T10:00:00Z", "lost again", "a"),
        Notice("alert", "2026-11-01T11:00:00Z", "alert", "b"),
        Notice("sensor-back", "2026-11-02T08:00:00Z", "back again", "a"),
        Notice("alert-over", "2026-11-03T08:00:00Z", "over", "b"),
    ]
    history = InMemoryHistory([entry(0), entry(1, day=2)])
    day = recorded_day("heat", FIELD, "2026-11-02", lambda: history, [], notices)
    assert [each.text for each in day.before] == ["back", "lost again", "alert"]
    assert [each.text for each in day.notices] == ["back again"]


@pytest.mark.parametrize("selected, texts", [("a", []), ("b", ["low"])])
def test_low_battery_is_over_when_the_sensor_is_selected_before_the_recorded_day(selected, texts):
    notices = [Notice("battery-low", "2026-11-01T08:00:00Z", "low", "a")]
    between = replace(entry(1, day=2), decision=decision(1, selected, day=2))
    history = InMemoryHistory([entry(0), between, entry(2, day=3)])
    day = recorded_day("heat", FIELD, "2026-11-03", lambda: history, [], notices)
    assert [each.text for each in day.before] == texts


def test_recorded_day_is_in_the_order_of_time_also_within_a_second():
    state = new_state()
    for interval, at in enumerate(["2026-11-01T00:00:00Z", "2026-11-01T00:00:00.500Z"]):
        process(state, "selected", replace(decision(interval), at=at))
    notices = [
        Notice("sensor-back", "2026-11-01T00:00:00.500Z", "back", "a"),
        Notice("sensor-lost", "2026-11-01T00:00:00Z", "lost", "a"),
    ]
    day = recorded_day("heat", FIELD, None, None, state.fields["heat"].frames, notices)
    assert [each.decision.interval for each in day.frames] == [0, 1]
    assert [each.text for each in day.notices] == ["lost", "back"]


def test_old_retained_decision_changes_no_frame_of_newer_history():
    state = new_state()
    field = state.fields["heat"]
    field.load_history(InMemoryHistory([entry(interval) for interval in range(90, 101)]), "heat")
    frame = field.frames[5]
    for interval in (95, 101):
        process(state, "selected", decision(interval))
    assert [each.decision.interval for each in field.frames] == list(range(90, 102))
    assert field.frames[5] == frame and frame.mean is not None


def test_recorded_day_drops_removed_sensors_and_adds_new_ones():
    removed = msgspec.structs.replace(entry(1), decision=decision(1, "gone"))
    history = InMemoryHistory([entry(0), removed])
    (frame,) = recorded_day(
        "heat", of_sensors("c", "new", "a"), None, lambda: history, [], []
    ).frames
    assert msgspec.json.encode(frame.mean) == b"[22.0,null,20.0]"


@given(st.integers(1, 10_000))
def test_recorded_day_reads_fewer_entries_of_many_sensors(count):
    class CheckedHistory(InMemoryHistory):
        """A history that checks how many entries are requested."""

        def newest(self, field, requested):
            assert 1 <= requested <= MAX_ENTRIES
            assert requested * count <= max(MAX_CELLS, count)
            return super().newest(field, requested)

    history = CheckedHistory([entry(each) for each in range(3)])
    sensors = [str(each) for each in range(count)]
    assert recorded_day("heat", of_sensors(*sensors), None, lambda: history, [], []).complete


def test_unreadable_history_is_logged_with_its_path(caplog):
    def fail():
        raise DataError("/var/lib/lab.db: there is no history")

    day = recorded_day("heat", FIELD, None, fail, [], [])
    assert not day.complete and b"/var" not in msgspec.json.encode(day)
    assert "/var/lib/lab.db" in caplog.text
