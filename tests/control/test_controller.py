"""Controller: any sequence of events, and each rule on its own.

The field has center 20 and scale 2, so a value that was not converted from model units shows.
"""

import json
import math
from collections import Counter
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.controllers import controller_settings
from support.examples import max_examples
from support.naive import se

from edge_tvbo.config.energy_settings import EnergySettings
from edge_tvbo.control import history_text
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.controller_state import MAX_REASONS
from edge_tvbo.control.sensor_health import MAX_TIMEOUTS
from edge_tvbo.messages.commands import Activate, Ending, Notify, PublishState, Record, Reject
from edge_tvbo.messages.documents import Reason
from edge_tvbo.messages.events import (
    ActivationRequested,
    ActivationUndelivered,
    ClockStepped,
    ClockUnset,
    DeadlineElapsed,
    DowntimeElapsed,
    IntervalElapsed,
    LinkLost,
    LinkRestored,
    PauseRequested,
    Reading,
    ResetRequested,
    Unreadable,
)
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import decode_snapshot, snapshot_kind
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy, policies
from edge_tvbo.policy.model_free import ModelFreePolicy

NAMES = ("a", "b", "c", "d")
K = se(np.array([[0.0], [0.3], [0.5], [1.0]]), 0.3)
STEP = 100.0  # s, an interval


def field_of(names=NAMES, **changes):
    M = len(names)
    places = np.array([[0.0], [0.3], [0.5], [1.0]])[:M]
    settings = {"unit": "°C", "center": 20.0, "scale": 2.0, "positions": places, **changes}
    return SensorField(names, K[:M, :M], 0.01, **settings)


def controller_of(name="et-gp-ucb", field=None, policy=None, **changes):
    limits = controller_settings(**{"reply_timeout": 20.0, "max_age": 150.0, **changes})
    return Controller(make_policy(name, field or field_of(), **(policy or {})), limits)


def of(kind, commands):
    return [command for command in commands if isinstance(command, kind)]


def begin(controller, at, intervals=1):
    """Begin an interval; return its decision."""
    return of(PublishState, controller.handle(IntervalElapsed(at, intervals)))[0].decision


def reading(sensor, value, at, **more):
    return Reading(sensor, value, at=at, received=more.pop("received", at), **more)


@pytest.mark.parametrize(("name", "aged"), [("d-ucb", 10_000), ("gp-ucb", 10**9), ("auto", 10**9)])
def test_a_long_downtime_counts_completely_except_for_the_age_of_some_models(name, aged):
    """Ending so many intervals one by one would block the daemon for hours."""
    energy = EnergySettings(cost=1.0, field_budget=2.0, period=86_400.0)
    field = field_of(structure=prior_structure(K, 60.0) if name == "auto" else None)
    controller = controller_of(name, field, interval=60.0, energy=energy)
    begin(controller, 0.0)
    assert controller.health().energy.left == 1.0
    controller.handle(DowntimeElapsed(6e10, 10**9))
    snapshot = controller.policy.snapshot()
    assert decode_snapshot(snapshot_kind(snapshot), None, snapshot)["time"] == aged
    assert controller.health().energy.left == 2.0
    assert controller.used == 10**9


def test_between_a_downtime_and_the_next_interval_no_interval_is_running():
    controller = controller_of()
    begin(controller, 0.0)
    assert controller.handle(DowntimeElapsed(5 * STEP, 5)) == []
    assert (controller.interval, controller.newest, controller.used) == (0, 0, 5)
    assert not controller.begun
    assert of(Record, controller.handle(DeadlineElapsed(0, 5 * STEP + 1)))[0].interval == 0
    assert begin(controller, 6 * STEP).interval == 6
    assert (controller.newest, controller.begun) == (6, True)


def miss(controller, at):
    """Let the interval's deadline pass; return the commands."""
    return controller.handle(DeadlineElapsed(controller.health().interval, at))


def lose(controller, sensor, at):
    """Request `sensor`, which does not reply, until it is unresponsive; return the commands."""
    commands = []
    for _ in range(MAX_TIMEOUTS):
        controller.handle(ActivationRequested(sensor, at))
        commands += miss(controller, at + 20)
        if sensor in controller.health().suspects:
            return commands
    raise AssertionError(f"{sensor} is not unresponsive")


def notices(commands):
    return [(command.notice.event, command.notice.sensor) for command in of(Notify, commands)]


# --- any sequence of events -----------------------------------------------------------------------

VALUES = st.floats(-50, 90) | st.sampled_from([20.0, math.nan, math.inf, -math.inf])
STEPS = st.one_of(
    st.tuples(st.just("interval"), st.sampled_from([1, 1, 1, 2, 5])),
    st.tuples(st.just("deadline"), st.sampled_from([0, 0, 0, -1, 1])),
    st.tuples(st.just("answer"), VALUES),
    st.tuples(
        st.just("reading"),
        st.fixed_dictionaries(
            {
                "sensor": st.sampled_from([*NAMES, "unlisted", ""]),
                "value": VALUES,
                "lag": st.sampled_from([0.0, 0.0, 0.0, 1.0, 140.0, 1e4, -59.0, -1e4, math.nan]),
                "stamped": st.booleans(),
                "retained": st.sampled_from([False, False, False, True]),
            }
        ),
    ),
    st.just(("again",)),
    st.tuples(st.just("unreadable"), st.sampled_from(["not-a-number", "too-large"])),
    st.tuples(st.just("link"), st.sampled_from([LinkLost(), LinkRestored(0.0)])),
)


@st.composite
def event_lists(draw):
    """Draw events in order of time; replies are of the sensor that round-robin activates."""
    now, events, interval = 1000.0, [], -1
    for step in draw(st.lists(STEPS, max_size=40)):
        now += draw(st.sampled_from([0.0, 0.5, 1.0, 30.0]))
        match step:
            case ("interval", intervals):
                interval += intervals
                now += STEP
                events.append(IntervalElapsed(now, intervals))
            case ("deadline", off):
                events.append(DeadlineElapsed(interval + off, now))
            case ("answer", value):
                sensor = NAMES[max(interval, 0) % len(NAMES)]
                events.append(reading(sensor, value, now))
            case ("reading", r):
                events.append(
                    Reading(
                        r["sensor"], r["value"], now - r["lag"], now, r["stamped"], r["retained"]
                    )
                )
            case ("again",):
                readings = [event for event in events if isinstance(event, Reading)]
                events += readings[-1:]
            case ("link", news):
                events.append(news)
            case ("unreadable", reason):
                events.append(Unreadable(reason, "topic", "detail"))
    return events


RULES = st.fixed_dictionaries(
    {
        "learn_from": st.sampled_from(["all", "activated"]),
        "on_reading": st.booleans(),
        "max_backoff": st.sampled_from([1, 4, 64]),
    }
)
POLICY = st.sampled_from(["et-gp-ucb", "tv-gp-ucb", "sw-gp-ucb", "round-robin", "random"])


def strict(document):
    """Decode a document as strict JSON, without NaN and Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not valid JSON")

    return json.loads(msgspec.json.encode(document), parse_constant=refuse)


def assert_sound_decision(decision):
    document = strict(decision)
    for key in ("mean", "std", "ucb"):
        assert type(document[key]) in (int, float)
    assert document["std"] >= 0
    assert document["text"].startswith(decision.sensor)
    for text in (document["text"], *document["factors"]):
        assert "nan" not in text
        assert "inf" not in text


@given(event_lists(), POLICY, RULES)
@max_examples(300)
def test_intervals_and_records_are_in_order_after_any_events(events, name, limits):
    controller = controller_of(name, **limits)
    commands = [command for event in events for command in controller.handle(event)]
    activated = of(Activate, commands)
    assert [a.interval for a in activated] == sorted({a.interval for a in activated})
    assert [d.decision.interval for d in of(PublishState, commands)] == [
        a.interval for a in activated
    ]
    records = of(Record, commands)
    ended = [(r.interval, r.sensor, r.at) for r in records]
    began = [(a.interval, a.sensor, a.at) for a in activated]
    assert ended in (began, began[:-1])
    health = controller.health()
    endings = Counter(record.ending for record in records)
    assert (health.answered, health.missed) == (endings["answered"], endings["missed"])
    for record in records:
        assert (record.value is None) == (record.ending == Ending.MISSED)
        assert (record.abs_error is None) == (record.ending == Ending.MISSED)
    for decision in of(PublishState, commands):
        assert_sound_decision(decision.decision)
    for command in commands:
        strict(command)


@given(event_lists(), POLICY, RULES)
@max_examples(150)
def test_each_reading_is_observed_or_rejected_once_and_rejections_change_nothing(
    events, name, limits
):
    controller = controller_of(name, **limits)
    observed = []
    observe = controller.policy.observe
    controller.policy.observe = lambda arm, y: observed.append((arm, y)) or observe(arm, y)
    for event in events:
        before = controller.policy.snapshot()
        health, count = controller.health(), len(observed)
        commands = controller.handle(event)
        after = controller.health()
        refused = sum(after.refused.values()) - sum(health.refused.values())
        taken = len(observed) - count
        if isinstance(event, Reading | Unreadable):
            assert taken + refused == 1
        else:
            assert taken + refused == 0
        if refused:
            assert len(of(Reject, commands)) == 1
            assert {each.notice.event for each in of(Notify, commands)} <= {"sensor-implausible"}
            assert controller.policy.snapshot() == before
            counted = {"refused": {}, "implausible": {}}
            assert msgspec.structs.replace(after, **counted) == msgspec.structs.replace(
                health, **counted
            )
    assert all(math.isfinite(y) for _, y in observed)


@given(event_lists(), POLICY, RULES)
@max_examples(60)
def test_same_events_cause_the_same_commands(events, name, limits):
    one, two = (controller_of(name, policy={"seed": 5}, **limits) for _ in range(2))
    assert [one.handle(event) for event in events] == [two.handle(event) for event in events]
    assert one.health() == two.health()
    assert one.policy.snapshot() == two.policy.snapshot()


@given(event_lists(), POLICY, RULES)
@max_examples(60)
def test_readings_delivered_three_times_count_once(events, name, limits):
    once, thrice = controller_of(name, **limits), controller_of(name, **limits)
    for event in events:
        commands = once.handle(event)
        copies = 3 if isinstance(event, Reading) else 1
        first, *others = [thrice.handle(event) for _ in range(copies)]
        assert first == commands
        assert all([type(each) for each in other] == [Reject] for other in others)
    assert thrice.policy.snapshot() == once.policy.snapshot()
    assert (thrice.health().answered, thrice.health().missed) == (
        once.health().answered,
        once.health().missed,
    )


@given(event_lists(), st.data())
@max_examples(60)
def test_policy_restored_after_any_event_selects_the_same_sensor(events, data):
    cut = data.draw(st.integers(0, len(events)), label="cut")
    controller = controller_of("tv-gp-ucb")
    for event in events[:cut]:
        controller.handle(event)
    other = make_policy("tv-gp-ucb", field_of())
    other.restore(controller.policy.snapshot())
    assert other.select() == controller.policy.select()
    for event in events[cut:]:
        controller.handle(event)
    for y in (0.5, -0.5):
        other.observe(0, y)
        other.advance()
    assert np.isfinite(other.posterior()).all()


# --- rejected readings ----------------------------------------------------------------------------

NOW = 10_000.0


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (reading("unlisted", 20.0, NOW), "unknown-sensor"),
        (reading("a", 20.0, NOW, retained=True), "retained"),
        (reading("a", math.nan, NOW), "non-finite"),
        (reading("a", -math.inf, NOW), "non-finite"),
        (reading("a", 20.0, math.nan, received=NOW), "non-finite"),
        (reading("a", 20.0, NOW + 60.5, received=NOW), "future-dated"),
        (reading("a", 20.0, NOW - 150.5, received=NOW), "late"),
        (Unreadable("not-a-number", "t", "d"), "not-a-number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_rejection_is_counted_by_its_reason(refused, reason):
    controller = controller_of()
    begin(controller, NOW)
    (rejected,) = controller.handle(refused)
    assert isinstance(rejected, Reject)
    assert rejected.reason == reason
    assert controller.health().refused == {reason: 1}


@pytest.mark.parametrize(
    ("at", "detail"),
    [
        (NOW - 9000.0, "20, measured 2.5 h before it arrived"),
        (NOW + 90.0, "20, dated 90 s after it arrived"),
    ],
)
def test_the_log_line_of_a_late_or_future_reading_contains_its_age(at, detail):
    controller = controller_of()
    (rejected,) = controller.handle(reading("a", 20.0, at, received=NOW))
    assert rejected.detail == detail


@pytest.mark.parametrize("arrives", [NOW + 10.0, NOW - 30.0])
def test_the_log_line_of_an_overtaken_reading_names_the_last_reading(arrives):
    """Its age is allowed, so the age does not explain why it is rejected."""
    controller = controller_of()
    controller.handle(reading("a", 20.0, NOW, received=NOW))
    (rejected,) = controller.handle(reading("a", 21.0, NOW - 20.0, received=arrives))
    assert rejected.detail == "21, measured 20 s before the last reading of the sensor"


@pytest.mark.parametrize("at", [NOW + 60.0, NOW - 150.0])
def test_reading_at_the_limit_of_its_age_is_used(at):
    controller = controller_of()
    controller.handle(reading("a", 20.0, at, received=NOW))
    assert controller.policy.observations == 1


def test_reading_measured_before_the_last_accepted_one_is_late():
    controller = controller_of()
    controller.handle(reading("a", 20.0, NOW))
    controller.handle(reading("a", 21.0, NOW - 1, received=NOW + 1))
    controller.handle(reading("b", 21.0, NOW - 1, received=NOW + 1))
    assert controller.health().refused == {"late": 1}
    assert controller.policy.observations == 2


@pytest.mark.parametrize(
    ("value", "later", "stamped", "taken"),
    [(20.0, 1.9, False, 1), (20.0, 2.0, False, 2), (20.1, 0.5, False, 2), (20.0, 0.5, True, 2)],
)
def test_unstamped_reading_of_the_same_value_within_2_s_is_a_duplicate(
    value, later, stamped, taken
):
    controller = controller_of()
    controller.handle(reading("a", 20.0, NOW, stamped=stamped))
    controller.handle(reading("a", value, NOW + later, stamped=stamped))
    assert controller.policy.observations == taken
    assert controller.health().refused == ({"duplicate": 1} if taken == 1 else {})


def test_another_value_with_the_same_time_is_another_reading():
    """Many sensors send times in whole seconds."""
    controller = controller_of()
    for value in (20.0, 20.0, 20.5, 20.5):
        controller.handle(reading("a", value, NOW, received=NOW + 0.3))
    assert controller.policy.observations == 2
    assert controller.health().refused == {"duplicate": 2}
    assert controller.last_readings()["a"].value == 20.5


SENSOR_CLOCK = 1.8e9  # s since 1970, much later than an unset clock shows


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.data())
def test_an_older_copy_of_a_reading_is_rejected_although_the_clock_is_not_set(gaps, data):
    controller = controller_of()
    controller.handle(ClockUnset())
    times = np.cumsum(gaps)
    readings = [
        reading("a", 20.0 + 0.1 * n, SENSOR_CLOCK + at, received=float(at))
        for n, at in enumerate(times.tolist())
    ]
    for each in readings:
        controller.handle(each)
    copy = data.draw(st.sampled_from(readings))
    (rejected,) = controller.handle(replace(copy, received=times[-1] + 5.0))
    assert rejected.reason == ("duplicate" if copy == readings[-1] else "late")
    assert controller.policy.observations == len(readings)


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (SENSOR_CLOCK + 151.0, SENSOR_CLOCK),  # the sensor's clock was wrong, and was corrected
        (100.0, 5.0),  # the sensor's clock is not set either, and the sensor has restarted
    ],
)
def test_while_no_clock_is_reliable_an_earlier_time_is_no_reason_to_reject(before, then):
    controller = controller_of()
    controller.handle(ClockUnset())
    controller.handle(reading("a", 20.0, before, received=100.0))
    controller.handle(reading("a", 21.0, then, received=110.0))
    assert controller.policy.observations == 2


HOURS = {"max_age": 86_400.0}


def readings_of_a(begin, gaps, dated, delays):
    """Return readings with these gaps between their dates, which arrive at begin + delays."""
    return [
        reading("a", 20.0 + 0.1 * n, dated + at, received=begin + at + delay)
        for n, (at, delay) in enumerate(zip(np.cumsum(gaps).tolist(), delays, strict=True))
    ]


@given(
    st.floats(3600.0, 60_000.0),
    st.lists(st.floats(30.0, 3600.0), min_size=3, max_size=6),
    st.booleans(),
    st.data(),
)
def test_a_sensor_whose_clock_was_set_back_is_late_only_once(back, gaps, is_set, data):
    """All its readings were late until its clock reached the former time, often for hours."""
    back += sum(gaps)
    controller = controller_of(**HOURS)
    begin = SENSOR_CLOCK if is_set else 100.0
    if not is_set:
        controller.handle(ClockUnset())
    controller.handle(reading("a", 20.0, SENSOR_CLOCK, received=begin))
    delays = data.draw(st.lists(st.floats(0.0, 1.0), min_size=len(gaps), max_size=len(gaps)))
    restarts = data.draw(st.integers(0, len(gaps)))
    for n, each in enumerate(readings_of_a(begin, gaps, SENSOR_CLOCK - back, delays)):
        if n == restarts:
            live, snapshot = controller.live(), controller.snapshot()
            controller = controller_of(**HOURS)
            controller.restore(snapshot)
            controller.restore_live(live)
        controller.handle(each)
    assert controller.health().refused == {"late": 1}


@given(
    st.lists(st.floats(1.0, 3600.0), min_size=1, max_size=20),
    st.floats(0.0, 0.8),
    st.sampled_from(["after", "between"]),
)
def test_readings_from_a_memory_are_late_however_many_there_are(gaps, speed, fresh):
    """They arrive faster than they were measured, or between new readings."""
    controller = controller_of(**HOURS)
    begin = SENSOR_CLOCK + sum(gaps)
    controller.handle(reading("a", 20.0, begin))
    for n, gap in enumerate(np.cumsum(gaps).tolist()):
        at = begin + (gap if fresh == "between" else speed * gap)
        controller.handle(reading("a", 21.0 + n, SENSOR_CLOCK - 10_000.0 + gap, received=at))
        if fresh == "between":
            controller.handle(reading("a", 30.0 + n, at))
    assert controller.health().refused == {"late": len(gaps)}


def test_after_a_step_of_the_clock_a_late_reading_is_not_compared():
    controller = controller_of(**HOURS)
    controller.handle(ClockStepped(1.0, SENSOR_CLOCK - 1.0))
    controller.handle(reading("a", 20.0, SENSOR_CLOCK))
    controller.handle(reading("a", 21.0, SENSOR_CLOCK - 7200.0, received=SENSOR_CLOCK + 100.0))
    controller.handle(ClockStepped(0.0, SENSOR_CLOCK - 1.0))
    controller.handle(reading("a", 22.0, SENSOR_CLOCK - 7100.0, received=SENSOR_CLOCK + 200.0))
    assert controller.health().refused == {"late": 2}


def test_a_reply_in_the_second_of_an_earlier_reading_counts():
    controller = controller_of()
    begin(controller, NOW)
    controller.handle(reading("a", 20.0, NOW, received=NOW + 0.2))
    controller.handle(ActivationRequested("a", NOW + 0.4))
    (record,) = of(Record, controller.handle(reading("a", 20.5, NOW, received=NOW + 0.6)))
    assert (record.sensor, record.ending) == ("a", Ending.ANSWERED)


def test_reasons_above_the_limit_are_counted_as_other():
    controller = controller_of()
    for n in range(MAX_REASONS + 10):
        controller.handle(Unreadable(f"reason-{n}", "t", "d"))
    refused = controller.health().refused
    assert len(refused) == MAX_REASONS + 1
    assert refused["other"] == 10


HUGE = (-1e100, 1e100)  # the widest plausible range that a configuration can state


@pytest.mark.parametrize("values", [(1e100, -1e100, -1e100), (1e100,)])
def test_huge_values_leave_the_decisions_finite(values):
    controller = controller_of("gp-ucb", field_of(("a", "b"), scale=0.5), plausible=HUGE)
    begin(controller, 0.0)
    for n, value in enumerate(values):
        controller.handle(reading("ab"[n % 2], value, 1.0 + n))
    assert controller.policy.observations == len(values)
    assert_sound_decision(begin(controller, STEP))


@pytest.mark.parametrize("plausible", [HUGE, 1e290])
@pytest.mark.parametrize("objective", ["max", "min"])
def test_a_reading_too_large_for_every_policy_is_implausible(objective, plausible):
    """In model units, it is 1e140; its square is too large for some policies."""
    field = field_of(("a", "b"), scale=1e-40, objective=objective)
    controller = controller_of("gp-ucb", field, plausible=plausible)
    begin(controller, 0.0)
    for n, value in enumerate((1e100, -1e100)):
        controller.handle(reading("ab"[n], value, 1.0 + n))
    assert controller.health().refused == {"implausible": 2}
    for n, value in enumerate(controller.plausible):
        controller.handle(reading("ab"[n], value, 3.0 + n))
    assert controller.policy.observations == 2
    assert_sound_decision(begin(controller, STEP))


@pytest.mark.parametrize("objective", ["max", "min"])
def test_a_log_scale_accepts_the_readings_that_it_can_represent(objective):
    """The variance of b is four times that of a, so the estimate of b leaves the scale."""
    kernel = [[1.0, 1.8], [1.8, 4.0]]
    field = SensorField(
        ("a", "b"), kernel, 0.01, center=20.0, scale=2.0, log1p_scale=5.0, objective=objective
    )
    controller = controller_of("gp-ucb", field, plausible=HUGE)
    highest = controller.plausible[1]
    assert field.to_unit(field.to_model(highest)) == pytest.approx(highest) == 25.0 * math.e**100
    begin(controller, 0.0)
    for n, (sensor, value) in enumerate([("a", highest), ("a", highest), ("b", highest)]):
        controller.handle(reading(sensor, value, 1.0 + n))
    assert controller.policy.observations == 3
    controller.handle(reading("a", 2.0 * highest, 4.0))
    assert controller.health().refused == {"implausible": 1}
    assert_sound_decision(begin(controller, STEP))


# --- which readings are used ----------------------------------------------------------------------


@pytest.mark.parametrize(("learn_from", "taken"), [("all", 1), ("activated", 0)])
def test_reading_of_another_sensor_is_used_or_rejected_by_learn_from(learn_from, taken):
    controller = controller_of("gp-ucb", learn_from=learn_from)
    activated = begin(controller, NOW).sensor
    other = next(name for name in NAMES if name != activated)
    assert of(Record, controller.handle(reading(other, 25.0, NOW + 1))) == []
    assert controller.policy.observations == taken
    assert controller.health().refused == ({} if taken else {"unsolicited": 1})
    answer = of(Record, controller.handle(reading(activated, 22.0, NOW + 2)))
    assert [(r.sensor, r.value, r.ending) for r in answer] == [(activated, 22.0, Ending.ANSWERED)]


@pytest.mark.parametrize("learn_from", ["all", "activated"])
def test_reading_after_the_deadline_is_not_a_reply(learn_from):
    controller = controller_of("gp-ucb", learn_from=learn_from)
    activated = begin(controller, NOW).sensor
    assert notices(lose(controller, activated, NOW)) == [("sensor-lost", activated)]
    commands = controller.handle(reading(activated, 25.0, NOW + 30))
    assert of(Record, commands) == []
    assert controller.health().answered == 0
    if learn_from == "all":
        assert notices(commands) == [("sensor-back", activated)]
        assert controller.policy.observations == 1
    else:
        assert controller.health().refused == {"late": 1}
        assert controller.policy.observations == 0


def test_second_reading_of_the_activated_sensor_is_late_if_only_replies_are_used():
    controller = controller_of("gp-ucb", learn_from="activated")
    activated = begin(controller, NOW).sensor
    controller.handle(reading(activated, 25.0, NOW + 1))
    controller.handle(reading(activated, 26.0, NOW + 5))
    assert controller.health().refused == {"late": 1}


def test_reset_caused_by_a_late_reading_has_a_notice():
    controller = controller_of("et-gp-ucb", field_of(("a",)))
    seen = []
    for n in range(3):
        begin(controller, n * STEP)
        seen += controller.handle(reading("a", 20.0, n * STEP + 1))
    begin(controller, 3 * STEP)
    seen += miss(controller, 3 * STEP + 20)
    seen += controller.handle(reading("a", 55.0, 3 * STEP + 30))
    resets = [each for each in of(Notify, seen) if each.notice.event == "model-reset"]
    assert len(resets) == controller.policy.resets == 1


# --- replies --------------------------------------------------------------------------------------


def test_contradicting_reply_is_recorded_in_the_unit_and_has_a_notice():
    controller = controller_of("et-gp-ucb", field_of(("a",)))
    for n in range(2):
        begin(controller, n * STEP)
        controller.handle(reading("a", 20.0, n * STEP + 1))
    decision = begin(controller, 2 * STEP)
    commands = controller.handle(reading("a", 55.0, 2 * STEP + 1))
    record = of(Record, commands)[0]
    assert record.reset
    assert record.abs_error == pytest.approx(35.0, abs=0.01)
    assert 0 < record.threshold < 10
    assert record.at == 2 * STEP
    assert notices(commands) == [("model-reset", "a")]
    assert decision.model == msgspec.structs.replace(decision.model, observations=2, resets=0)
    after = begin(controller, 3 * STEP).model
    assert (after.observations, after.resets) == (1, 1)
    assert after.last_reset == "1970-01-01T00:03:20Z"


CONTRADICTION = (
    "a contradicts the model: it reported 55 °C, which is 35 °C (140 standard deviations) from the"
    " estimate of 20 °C; the limit is 1.15 °C. The model was reset"
)
TESTED = (
    "The model was reset after a reading of a: 55 °C, 35 °C (140 standard deviations) from the"
    " estimate of 20 °C"
)
OLD = (
    "The model was reset, because it had reached its largest number of replies (n_upper). a"
    " reported 20.1 °C, which is 0.1 °C (0.41 standard deviations) from the estimate of 20 °C; the"
    " limit is 1.15 °C"
)


@pytest.mark.parametrize(
    ("name", "policy", "last", "text"),
    [
        ("et-gp-ucb", {}, 55.0, CONTRADICTION),
        ("et-gp-ucb", {"n_upper": 3}, 20.1, OLD),
        ("et-gp-ucb", {"trigger": "likelihood-ratio"}, 55.0, TESTED),
        ("glr-gp-ucb", {}, 55.0, TESTED),
    ],
)
def test_notice_of_a_reset_compares_the_reading_with_the_estimate(name, policy, last, text):
    controller = controller_of(name, field_of(("a",)), policy)
    for n, value in enumerate((20.0, 20.0, last)):
        begin(controller, n * STEP)
        commands = controller.handle(reading("a", value, n * STEP + 1))
    (notify,) = of(Notify, commands)
    assert (notify.notice.event, notify.notice.text) == ("model-reset", text)


def test_periodic_reset_is_in_the_next_decision():
    controller = controller_of("r-gp-ucb", policy={"period": 2})
    models = [begin(controller, n * STEP).model for n in range(3)]
    assert [model.resets for model in models] == [0, 0, 1]
    assert models[2].last_reset == "1970-01-01T00:03:20Z"


def test_record_without_a_trigger_has_an_error_and_no_threshold():
    controller = controller_of("gp-ucb")
    activated = begin(controller, 0.0).sensor
    record = of(Record, controller.handle(reading(activated, 26.0, 1.0)))[0]
    assert (record.abs_error, record.threshold, record.reset) == (6.0, None, False)


def test_skipped_intervals_advance_the_model():
    jumped, walked = controller_of("ui-tvbo"), make_policy("ui-tvbo", field_of())
    begin(jumped, 0.0)
    begin(jumped, 5 * STEP, intervals=5)
    for _ in range(5):
        walked.advance()
    assert np.array_equal(jumped.policy.posterior(), walked.posterior())
    assert jumped.health().interval == 5


@pytest.mark.parametrize("interval", [-1, 1, 7])
def test_deadline_of_another_interval_is_ignored(interval):
    controller = controller_of()
    begin(controller, 0.0)
    assert controller.handle(DeadlineElapsed(interval, 20.0)) == []
    assert controller.health().missed == 0


def test_reply_begins_the_next_interval_if_intervals_follow_the_readings():
    controller = controller_of("round-robin", on_reading=True)
    assert begin(controller, 0.0).sensor == "a"
    commands = controller.handle(reading("a", 25.0, 3.0, received=4.0))
    assert [type(command) for command in commands] == [Record, Activate, PublishState]
    assert commands[1] == Activate("b", 1, 4.0, 24.0)
    assert controller.handle(reading("d", 25.0, 5.0)) == []
    commands = miss(controller, 24.0)
    assert of(Record, commands)[0].ending == Ending.MISSED
    assert of(Activate, commands) == [Activate("c", 2, 24.0, 44.0)]


# --- unresponsive sensors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("longest", "pauses"), [(64, [0, 0, 1, 2, 4, 8, 16, 32, 64, 64]), (3, [0, 0, 1, 2, 3, 3])]
)
def test_unresponsive_sensor_is_backed_off_for_1_2_4_intervals_up_to_the_limit(longest, pauses):
    """The policy selects "a" whenever it is eligible: the estimate of "b" is far lower.

    Two time-outs of an unknown sensor may be chance.
    """
    controller = controller_of("gp-ucb", field_of(("a", "b")), {"beta": 1.0}, max_backoff=longest)
    for n in range(20):
        controller.handle(reading("b", 0.0, float(n)))
        controller.handle(reading("a", 40.0, float(n)))
    activated_in = []
    for n in range(sum(pauses) + len(pauses) + 1):
        at = 100.0 + n * STEP
        if begin(controller, at).sensor == "a":
            activated_in.append(n)
            miss(controller, at + 20)
        else:
            controller.handle(reading("b", 0.0, at + 1))
    assert [later - sooner - 1 for sooner, later in pairwise(activated_in)] == pauses
    assert controller.health().suspects == ["a"]
    back = controller.handle(reading("a", 40.0, 100.0 + 1e6))
    assert notices(back) == [("sensor-back", "a")]
    assert controller.health().suspects == []
    assert begin(controller, 100.0 + 1e6).sensor == "a"


def test_sensor_has_one_notice_when_lost_and_one_when_back():
    controller = controller_of("round-robin", field_of(("a", "b")), max_backoff=1)
    seen = []
    for n in range(12):
        activated = begin(controller, n * STEP).sensor
        if activated == "a":
            seen += notices(miss(controller, n * STEP + 20))
        else:
            seen += notices(controller.handle(reading("b", 20.0, n * STEP + 1)))
    assert seen == [("sensor-lost", "a")]
    assert notices(controller.handle(reading("a", 20.0, 1e4))) == [("sensor-back", "a")]
    assert notices(controller.handle(reading("a", 20.0, 1e4 + 9))) == []


@pytest.mark.parametrize("name", policies())
def test_when_all_sensors_are_unresponsive_each_is_probed_in_turn_until_one_replies(name):
    controller = controller_of(name, max_backoff=64)
    seen, n = [], 0
    while len(controller.health().suspects) < len(NAMES):
        begin(controller, n * STEP)
        seen += notices(miss(controller, n * STEP + 20))
        n += 1
        assert n < 200
    assert seen[-1] == ("all-suspect", None)
    assert Counter(kind for kind, _ in seen) == {"sensor-lost": len(NAMES), "all-suspect": 1}
    probed = []
    for _ in range(8):
        decision = begin(controller, n * STEP)
        probed.append(decision.sensor)
        assert decision.reason == Reason.PROBE
        assert notices(miss(controller, n * STEP + 20)) == []
        n += 1
    assert probed == list(NAMES) * 2
    activated = begin(controller, n * STEP).sensor
    back = controller.handle(reading(activated, 20.0, n * STEP + 1))
    assert notices(back) == [("sensor-back", activated), ("some-back", None)]
    decision = begin(controller, (n + 1) * STEP)
    assert decision.reason != Reason.PROBE
    assert set(controller.health().suspects) == set(NAMES) - {activated}


def test_after_an_outage_of_all_sensors_each_is_eligible_in_the_interval_after_the_first_reply():
    """The sensor that replied first was polled alone for up to `max_backoff` intervals."""
    controller, n = controller_of("round-robin", max_backoff=64), 0
    for n in range(100):
        begin(controller, n * STEP)
        miss(controller, n * STEP + 20)
    (first,) = {begin(controller, 100 * STEP).sensor}
    controller.handle(reading(first, 20.0, 100 * STEP + 1))
    polled = []
    for n in range(101, 101 + len(NAMES)):
        polled.append(begin(controller, n * STEP).sensor)
        controller.handle(reading(polled[-1], 20.0, n * STEP + 1))
    assert sorted(polled) == sorted(NAMES)
    assert controller.health().suspects == []


def test_a_sensor_that_is_still_lost_after_an_outage_of_all_sensors_is_backed_off_again():
    """The policy selects the sensor a whenever it is eligible."""
    controller = controller_of("gp-ucb", field_of(("a", "b")), {"beta": 1.0}, max_backoff=64)
    for n in range(20):
        controller.handle(reading("b", 0.0, float(n)))
        controller.handle(reading("a", 40.0, float(n)))
    for n in range(1, 100):
        begin(controller, n * STEP)
        miss(controller, n * STEP + 20)
    controller.handle(reading("b", 0.0, 99 * STEP + 30))
    tried = []
    for n in range(100, 120):
        if begin(controller, n * STEP).sensor == "a":
            tried.append(n)
            miss(controller, n * STEP + 20)
        else:
            controller.handle(reading("b", 0.0, n * STEP + 1))
    assert tried == [100, 103, 108, 117]  # after back-offs of 2, 4 and 8 intervals


def test_unsolicited_reading_clears_an_unresponsive_sensor():
    controller = controller_of("round-robin")
    begin(controller, 0.0)
    lose(controller, "a", 0.0)
    assert controller.health().suspects == ["a"]
    assert notices(controller.handle(reading("a", 20.0, 50.0))) == [("sensor-back", "a")]
    assert controller.health().suspects == []


def test_sensor_with_an_implausible_reply_is_cleared_only_by_a_plausible_reply():
    controller = controller_of()
    activated, at = begin(controller, 0.0).sensor, 0.0
    controller.handle(reading(activated, 1e6, 1.0))
    miss(controller, 20.0)
    assert notices(controller.handle(reading(activated, 20.0, 30.0))) == []
    assert controller.health().suspects == [activated]
    while (chosen := begin(controller, at := at + 100.0).sensor) != activated:
        controller.handle(reading(chosen, 15.0, at + 1.0))
    assert notices(controller.handle(reading(activated, 20.5, at + 1.0))) == [
        ("sensor-back", activated)
    ]


def test_next_interval_times_out_a_sensor_whose_deadline_did_not_elapse():
    controller = controller_of("round-robin")
    begin(controller, 0.0)
    commands = controller.handle(IntervalElapsed(STEP))
    assert [type(c) for c in commands] == [Record, Activate, PublishState]
    assert (commands[0].interval, commands[0].ending, commands[0].at) == (0, Ending.MISSED, 0.0)


@pytest.mark.usefixtures("first_timeout_counts")
@pytest.mark.parametrize("restored", [True, False])
def test_timeout_while_the_broker_is_away_backs_no_sensor_off(restored):
    controller = controller_of("round-robin")
    begin(controller, 0.0)
    controller.handle(LinkLost())
    if restored:
        controller.handle(LinkRestored(10.0))
    commands = miss(controller, 20.0)
    assert [type(command) for command in commands] == [Record]
    assert commands[0].ending == Ending.MISSED
    begin(controller, STEP)
    assert notices(miss(controller, STEP + 20)) == ([("sensor-lost", "b")] if restored else [])
    assert controller.health().missed == 2


@pytest.mark.usefixtures("first_timeout_counts")
@pytest.mark.parametrize("left", [True, False])
def test_undelivered_activation_backs_no_sensor_off(left):
    controller = controller_of("round-robin")
    for interval in range(5):
        begin(controller, interval * STEP)
        sensor = controller.health().selected
        assert controller.handle(ActivationUndelivered(sensor, interval, left)) == []
        record, *others = miss(controller, interval * STEP + 20)
        assert (record.ending, record.sensor, others) == (Ending.UNDELIVERED, sensor, [])
    health = controller.health()
    assert (health.undelivered, health.missed, health.suspects) == (5, 0, [])


def test_activation_that_an_earlier_interval_failed_to_deliver_changes_nothing_now():
    controller = controller_of("round-robin")
    begin(controller, 0.0)
    begin(controller, STEP)
    controller.handle(ActivationUndelivered(controller.health().selected, 0, left=False))
    assert miss(controller, STEP + 20)[0].ending == Ending.MISSED


# --- decisions ------------------------------------------------------------------------------------


def test_first_decision_is_a_warmup_with_the_prior():
    decision = begin(controller_of("gp-ucb"), 1078646400.0)
    assert decision.reason == Reason.WARMUP
    assert (decision.at, decision.expires_at) == ("2004-03-07T08:00:00Z", "2004-03-07T08:00:20Z")
    assert (decision.mean, decision.std, decision.unit) == (20.0, 2.0, "°C")
    assert decision.factors == []
    assert decision.text.endswith(
        ": there was no reading since the start or a reset; the sensor was drawn from those with"
        " the highest bound"
    )


@pytest.mark.parametrize("name", ["round-robin", "rexp3", "d-ucb", "ada-opkb", "oracle"])
def test_text_of_a_policy_without_a_model_states_no_estimate(name):
    controller = controller_of(name)
    first = begin(controller, 0.0)
    controller.handle(reading(first.sensor, 20.0, 1.0))
    second = begin(controller, 60.0)
    for decision in (first, second):
        assert decision.text == f"{decision.sensor}: selected without a model"
        assert decision.factors == []
        lines = list(history_text.describe(HistoryEntry("lab", decision), now=60.0))
        assert lines[1] == "The policy uses no model."
    expected = (Reason.WARMUP, Reason.EXPLOIT)  # as in earlier versions, for `decisions_sha256`
    if name == "round-robin":
        expected = (Reason.SCHEDULED, Reason.SCHEDULED)
    assert (first.reason, second.reason) == expected
    (requested,) = of(PublishState, controller.handle(ActivationRequested("a", 70.0)))
    assert requested.decision.text == "a: requested by command"


def test_decision_of_a_policy_without_a_model_is_scheduled():
    controller = controller_of("round-robin")
    controller.handle(reading("b", 20.0, 0.0))
    assert begin(controller, 1.0).reason == Reason.SCHEDULED


@pytest.mark.parametrize(
    ("objective", "chosen", "word"), [("max", "b", "highest"), ("min", "a", "lowest")]
)
def test_decision_follows_the_objective_and_its_text_has_the_unit(objective, chosen, word):
    field = field_of(("a", "d"), objective=objective)
    controller = controller_of(
        "gp-ucb",
        SensorField(
            ("a", "b"), np.eye(2), 0.01, unit="°C", center=20.0, scale=2.0, objective=objective
        ),
        {"beta": 1.0},
    )
    assert field.objective == objective
    for n in range(30):
        controller.handle(reading("a", 16.0, float(n)))
        controller.handle(reading("b", 24.0, float(n)))
    decision = begin(controller, 50.0)
    level, sign = (24.0, 1) if objective == "max" else (16.0, -1)
    assert (decision.sensor, decision.reason) == (chosen, Reason.EXPLOIT)
    assert decision.mean == pytest.approx(level, abs=0.05)
    assert decision.std == pytest.approx(2 * math.sqrt(0.01 / 30), abs=0.01)
    assert decision.ucb == pytest.approx(decision.mean + sign * decision.std, abs=0.011)
    assert word in decision.text
    assert f"{decision.mean:g}" in decision.text
    assert "°C" in decision.text
    other = {"a": "b", "b": "a"}[chosen]
    assert any(factor.startswith(f"next is {other}") for factor in decision.factors)


def test_uncertain_sensor_is_explored_and_the_highest_estimate_is_a_factor():
    field = SensorField(("a", "b"), np.eye(2), 0.01, unit="°C", center=20.0, scale=2.0)
    controller = controller_of("gp-ucb", field, {"beta": 9.0})
    for n in range(10):
        controller.handle(reading("a", 21.0, float(n)))
    decision = begin(controller, 50.0)
    assert (decision.sensor, decision.reason, decision.ucb) == ("b", Reason.EXPLORE, 26.0)
    assert "its bound is 26.0 °C" in decision.text
    assert decision.factors[-1] == "a has the highest estimate, 21 °C"


def test_text_has_the_digits_of_the_published_value():
    field = SensorField(("a",), np.eye(1), 0.01, unit="Pa", center=101325.12, scale=1.0)
    controller = controller_of("gp-ucb", field)
    controller.handle(reading("a", 101325.12, 0.0))
    decision = begin(controller, 1.0)
    assert decision.mean == 101325.12
    assert "101325.12" in decision.text


def test_mean_that_rounds_to_zero_has_no_sign():
    field = SensorField(("a",), np.eye(1), 0.01, unit="°C")
    controller = controller_of("gp-ucb", field)
    controller.handle(reading("a", -0.001, 0.0))
    decision = begin(controller, 1.0)
    assert decision.mean == 0.0
    assert "-0" not in decision.text


def test_no_sensor_is_selected_before_the_first_interval():
    health = controller_of().health()
    assert (health.interval, health.selected, health.answered, health.missed) == (None, None, 0, 0)


def test_unstamped_readings_are_used_after_the_wall_clock_was_set_back():
    controller = controller_of("gp-ucb", field_of(("a",)))
    begin(controller, 10_000.0)
    for n, at in enumerate((10_010.0, 6_400.0, 6_410.0)):
        controller.handle(Reading("a", 20.0 + n, at, at, stamped=False))

    assert controller.health().refused == {}


def test_unstamped_reply_of_the_same_value_to_a_new_activation_is_used():
    controller = controller_of("gp-ucb", field_of(("a",)), on_reading=True)
    begin(controller, NOW)
    for n in range(1, 6):
        controller.handle(Reading("a", 18.0, NOW + 0.3 * n, NOW + 0.3 * n, stamped=False))

    assert controller.health().refused == {}
    assert controller.health().answered == 5


# --- a model on a log scale -----------------------------------------------------------------------

LOG_SCALE = {"unit": "µg/m³", "center": 20.0, "scale": 10.0, "log1p_scale": 10.0}


@pytest.mark.parametrize("objective", ["max", "min"])
@pytest.mark.parametrize("name", policies())
def test_all_that_leaves_a_model_on_a_log_scale_is_in_the_unit(name, objective):
    field, rng = field_of(**LOG_SCALE, objective=objective), np.random.default_rng(3)
    controller = controller_of(name, field)
    for t in range(12):
        decision = begin(controller, t * STEP)
        value = float(rng.lognormal(3.0, 1.0))
        assert decision.mean >= 0.0
        assert decision.std >= 0.0
        beyond = decision.ucb - decision.mean
        assert beyond >= 0.0 if objective == "max" else beyond <= 0.0
        (record,) = of(Record, controller.handle(reading(decision.sensor, value, t * STEP + 1.0)))
        assert record.value == value
        if name in ("gp-ucb", "auto"):
            assert record.abs_error == pytest.approx(abs(value - decision.mean), abs=0.051)
    hotspot = controller.hotspot(12 * STEP)
    assert hotspot is None or hotspot.value >= 0.0


def test_estimates_on_a_log_scale_are_the_medians():
    controller = controller_of("gp-ucb", field_of(**LOG_SCALE))
    decision = begin(controller, 0.0)
    assert decision.mean == 20.0
    mean, std = controller.policy.posterior()
    field = controller.policy.field
    low, high = field.to_unit(float(mean[0] - std[0])), field.to_unit(float(mean[0] + std[0]))
    assert decision.std == pytest.approx((high - low) / 2, abs=0.06)
    controller.handle(reading(decision.sensor, 30.0, 1.0))
    assert "estimates are medians" in begin(controller, STEP).factors[-1]
    assert "estimates are medians" in controller.health().model


def test_readings_below_0_count_as_0_on_a_log_scale_unless_they_are_far_below():
    controllers = [controller_of("round-robin", field_of(**LOG_SCALE)) for _ in range(2)]
    for each, value in zip(controllers, (-0.5, 0.0), strict=True):
        begin(each, 0.0)
        (record,) = of(Record, each.handle(reading("a", value, 1.0)))
        assert record.value == value
    one, other = controllers
    assert one.policy.snapshot() == other.policy.snapshot()
    begin(one, STEP)
    (rejected,) = of(Reject, one.handle(reading("b", -11.0, STEP + 1.0)))
    detail = "-11 µg/m³; plausible: -10 to 23563.2 µg/m³"
    assert (rejected.reason, rejected.detail) == ("implausible", detail)
    assert one.health().refused == {"implausible": 1}


@pytest.mark.parametrize("objective", ["max", "min"])
def test_readings_of_0_are_used_if_a_model_on_a_log_scale_predicts_less_than_0(objective):
    kernel = np.array([[1.0, 1.9, 0.5], [1.9, 4.0, 0.95], [0.5, 0.95, 1.0]])
    field = SensorField(NAMES[:3], kernel, 0.01, **LOG_SCALE, objective=objective)
    controller = controller_of("auto", field)
    begin(controller, 0.0)
    controller.handle(reading("a", 0.0, 1.0))
    low = controller.policy.prediction(1)
    assert field.std_to_unit(low.mean, low.std) == 0.0

    for t in range(3):
        begin(controller, (t + 1) * STEP)
        controller.handle(reading("b", 0.0, (t + 1) * STEP + 1.0))

    assert controller.policy.observations == 4
    assert controller.health().refused == {}


# --- the hot spot ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", policies())
def test_readings_that_equal_the_mean_of_the_field_have_a_hot_spot(name):
    """Rain gauges on a dry day: the mean of the field and all readings are 0."""
    controller = controller_of(name, field_of(unit="mm", center=0.0))
    assert controller.hotspot(0.0) is None
    begin(controller, 0.0)
    assert controller.hotspot(0.0) is None
    for n, sensor in enumerate(controller.policy.field.sensors):
        controller.handle(reading(sensor, 0.0, n))
    hotspot = controller.hotspot(STEP)
    if isinstance(controller.policy, ModelFreePolicy):
        assert hotspot is None
    else:
        assert hotspot.value == 0.0
    controller.handle(ResetRequested(STEP))
    assert controller.hotspot(STEP) is None


def test_time_passes_for_the_model_in_a_pause_of_a_field_whose_intervals_follow_the_readings():
    kernel = np.eye(4) + 0.5
    structure = prior_structure(kernel, None)
    field = SensorField(NAMES, kernel, 0.01, center=20.0, scale=2.0, structure=structure)
    controller = controller_of("auto", field, on_reading=True)
    begin(controller, 0.0)
    for n in range(1, 100):
        controller.handle(reading(controller.health().selected, 20.0 + n % 3 / 10, 60.0 * n))
    controller.handle(PauseRequested(5940.0))
    controller.handle(reading(controller.health().selected, 20.0, 6000.0))
    for n, sensor in enumerate(NAMES):
        controller.handle(reading(sensor, 24.0 + n / 10, 6000.0 + 3 * 86_400.0 + n))
    assert controller.hotspot(6010.0 + 3 * 86_400.0).value == pytest.approx(24.3, abs=0.5)
