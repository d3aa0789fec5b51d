"""Mode advise: nothing is sent, so no sensor times out, is charged, or is blamed without reason."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings, energy_settings
from support.examples import max_examples

from edge_tvbo.control import history_text
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.energy_budget import BudgetSettings
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.messages.commands import (
    Activate,
    Ending,
    Notify,
    PublishState,
    Recommend,
    Record,
)
from edge_tvbo.messages.documents import Reason
from edge_tvbo.messages.events import (
    ActivationRequested,
    BatteryReported,
    ClockStepped,
    DeadlineElapsed,
    IntervalElapsed,
    LinkLost,
    LinkRestored,
    PauseRequested,
    Reading,
    ResumeRequested,
)
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

NAMES = ("attic", "bedroom", "hall", "kitchen")
INTERVAL = 60.0  # s
BUDGETS = BudgetSettings(
    costs=(1.0,) * 4, each=(2.0,) * 4, period=100, least_battery=10.0, battery_age=50
)


def controller_of(name="tv-gp-ucb", *, budgets=None, **changes):
    field = SensorField(NAMES, np.eye(4) + 0.5, 0.01, unit="°C", center=20.0, scale=2.0)
    energy = energy_settings(budgets, NAMES)
    limits = controller_settings(12.0, 1e9, recommends=True, energy=energy, **changes)
    return Controller(make_policy(name, field, seed=1), limits)


def of(kind, commands):
    return [command for command in commands if isinstance(command, kind)]


def notices(commands):
    return [(each.notice.event, each.notice.sensor) for each in of(Notify, commands)]


def live(controller, intervals, *, period, begin=0, quiet=(), jitter=0.0):
    """Run intervals in which each sensor reports by itself every `period` intervals.

    Return all commands. The sensors in `quiet` do not report.
    """
    generator, commands = np.random.default_rng(begin), []
    events = [(INTERVAL * n, IntervalElapsed(INTERVAL * n)) for n in range(begin, intervals)]
    for arm, sensor in enumerate(NAMES):
        at = INTERVAL * (begin + period * arm / len(NAMES)) + 0.5
        while at < INTERVAL * intervals and sensor not in quiet:
            value = 20.0 + arm + 0.1 * generator.standard_normal()
            events.append((at, Reading(sensor, value, at, at)))
            at += INTERVAL * period * (1.0 + jitter * generator.uniform(-1.0, 1.0))
    for _, event in sorted(events, key=lambda each: each[0]):
        commands += controller.handle(event)
    return commands


# --- any events -----------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["interval"] * 6
            + ["reading"] * 8
            + ["deadline", "request", "lost", "restored", "step", "pause", "resume", "battery"]
        ),
        st.sampled_from(NAMES),
        st.floats(0.0, 100.0),
    ),
    max_size=60,
)


def played(controller, events):
    """Apply drawn events; return the commands, and the largest silence of each sensor."""
    now, commands = 1e6, []
    for kind, sensor, number in events:
        now += number
        match kind:
            case "interval":
                event = IntervalElapsed(now)
            case "reading":
                event = Reading(sensor, 15.0 + number / 10.0, now, now)
            case "deadline":
                event = DeadlineElapsed(controller.interval, now)
            case "request":
                event = ActivationRequested(sensor, now)
            case "lost":
                event = LinkLost()
            case "restored":
                event = LinkRestored(now)
            case "step":
                event, now = ClockStepped(number - 50.0, now + number - 50.0), now + number - 50.0
            case "pause":
                event = PauseRequested(now)
            case "resume":
                event = ResumeRequested(now)
            case "battery":
                event = BatteryReported(sensor, number, now)
        commands += controller.handle(event)
    return commands


@given(EVENTS, st.sampled_from(["tv-gp-ucb", "round-robin", "et-gp-ucb"]), st.booleans())
@max_examples(200)
def test_nothing_is_activated_charged_or_timed_out_after_any_events(events, name, on_reading):
    budgets = None if on_reading else BUDGETS
    controller = controller_of(name, budgets=budgets, on_reading=on_reading)
    controller.reserve_numbers(5, 3)
    commands = played(controller, events)
    assert of(Activate, commands) == []
    assert {record.ending for record in of(Record, commands)} <= {Ending.ANSWERED}
    health = controller.health()
    assert health.missed == 0 and health.recommends
    assert health.answered == len(of(Record, commands))
    assert budgets is None or health.energy.spent == 0.0
    lost = Counter(sensor for event, sensor in notices(commands) if event == "sensor-lost")
    back = Counter(sensor for event, sensor in notices(commands) if event == "sensor-back")
    for sensor in NAMES:
        assert lost[sensor] - back[sensor] == (sensor in health.suspects)


@given(EVENTS, st.sampled_from(["tv-gp-ucb", "round-robin"]), st.sampled_from(Reason))
@max_examples(100)
def test_no_text_says_that_a_sensor_was_activated(events, name, reason):
    controller = controller_of(name, budgets=BUDGETS)
    commands = played(controller, events)
    texts = [each.notice.text for each in of(Notify, commands)]
    for state in of(PublishState, commands):
        decision = state.decision
        assert decision.recommended
        texts += [decision.text, *decision.factors]
        texts += history_text.describe(HistoryEntry("heat", decision), 0.0)
    texts += [history_text.REASONS[reason].format(activated="recommended")]
    texts += [history_text.replies(controller.health())]
    for text in texts:
        for word in ("activate", "asked", "polled", "timed out", "did not reply", "waits for"):
            assert word not in text.replace("cmd/activate", "").replace("an activation", ""), text


@given(
    st.integers(1, 12),
    st.floats(0.0, 0.5),
    st.sampled_from(["tv-gp-ucb", "et-gp-ucb", "round-robin"]),
)
@max_examples(40)
def test_sensors_that_report_by_themselves_are_never_unresponsive(period, jitter, name):
    controller = controller_of(name)
    commands = live(controller, 40 * period, period=period, jitter=jitter)
    assert of(Notify, commands) == []
    decisions = [each.decision for each in of(PublishState, commands)]
    assert not any("backed off" in factor for each in decisions for factor in each.factors)
    selected = Counter(each.sensor for each in decisions)
    assert name == "round-robin" or selected["kitchen"] > len(decisions) / 2  # it is the hottest


# --- silence --------------------------------------------------------------------------------------


def test_sensor_that_stops_is_named_once_skipped_and_named_when_it_is_back():
    controller = controller_of()
    live(controller, 40, period=4)
    commands = live(controller, 140, begin=40, period=4, quiet=("kitchen",))
    assert notices(commands) == [("sensor-lost", "kitchen")]
    (notice,) = (each.notice for each in of(Notify, commands))
    assert "it usually sends one within 3.9 min" in notice.text
    assert controller.health().suspects == ["kitchen"]
    at = next(n for n, each in enumerate(commands) if isinstance(each, Notify))
    later = [each.sensor for each in of(Recommend, commands[at:])]
    assert 60 < len(later) < 100
    assert later.count("kitchen") <= 6  # once after 1, 2, 4, 8, 16, 32 intervals
    back = controller.handle(Reading("kitchen", 23.0, 140 * INTERVAL, 140 * INTERVAL))
    assert ("sensor-back", "kitchen") in notices(back)
    assert controller.health().suspects == []


def test_reports_that_the_model_does_not_use_show_that_a_sensor_is_alive():
    controller = controller_of(learn_from="activated")
    commands = live(controller, 60, period=4)
    assert of(Notify, commands) == []
    assert controller.health().refused["unsolicited"] > 10
    commands = live(controller, 120, begin=60, period=4, quiet=("attic",))
    assert notices(commands) == [("sensor-lost", "attic")]
    back = controller.handle(Reading("attic", 20.0, 120.5 * INTERVAL, 120.5 * INTERVAL))
    assert notices(back) == [("sensor-back", "attic")]


def test_when_no_sensor_reports_each_is_recommended_in_turn():
    controller = controller_of()
    live(controller, 40, period=2)
    commands = live(controller, 80, begin=40, period=2, quiet=NAMES)
    kinds = Counter(event for event, _ in notices(commands))
    assert kinds == {"sensor-lost": 4, "all-suspect": 1}
    last = [each.decision for each in of(PublishState, commands)][-8:]
    assert [each.reason for each in last] == [Reason.PROBE] * 8
    assert Counter(each.sensor for each in last) == dict.fromkeys(NAMES, 2)
    assert "recommended in turn" in last[-1].text


def polled(controller, intervals, *, begin=0, dead=(), hottest="hall"):
    """Run intervals in which other software polls the recommended sensor; return all commands."""
    commands = []
    for n in range(begin, intervals):
        at = INTERVAL * n
        commands += controller.handle(IntervalElapsed(at))
        sensor = controller.health().selected
        if sensor not in dead:
            value = 24.0 if sensor == hottest else 16.0
            commands += controller.handle(Reading(sensor, value, at + 3.0, at + 3.0))
    return commands


def test_sensors_that_only_reply_to_other_software_may_be_quiet():
    """Only the hottest is recommended most of the time; then another one is the hottest."""
    controller = controller_of("tv-gp-ucb")
    commands = polled(controller, 600)
    commands += polled(controller, 800, begin=600, hottest="attic")
    assert of(Notify, commands) == []
    assert controller.health().missed == 0
    assert controller.health().answered == 800


def test_polled_sensor_that_fails_is_named_once_and_no_longer_recommended_every_time():
    controller = controller_of("tv-gp-ucb")
    polled(controller, 60)
    commands = polled(controller, 160, begin=60, dead=("hall",))
    assert notices(commands) == [("sensor-lost", "hall")]
    (notice,) = (each.notice for each in of(Notify, commands))
    assert "for which it was recommended; it usually sends one within 60 s" in notice.text
    recommended = [each.sensor for each in of(Recommend, commands)]
    assert recommended.count("hall") <= 14
    back = polled(controller, 400, begin=160)
    assert notices(back) == [("sensor-back", "hall")]


@pytest.mark.parametrize("period", [1, 4])
@pytest.mark.parametrize("dead", [("attic",), ("attic", "bedroom")])
def test_sensors_that_never_reported_are_named_once_and_hardly_recommended(dead, period):
    controller = controller_of()
    before = live(controller, 60, period=period, quiet=dead)
    commands = before + live(controller, 240, begin=60, period=period, quiet=dead)
    assert sorted(notices(before)) == [("sensor-lost", name) for name in dead]
    assert notices(commands) == notices(before)
    assert controller.health().suspects == list(dead)
    for notice in (each.notice for each in of(Notify, commands)):
        assert "no usable reading since the daemon began to listen" in notice.text
        assert "the other sensors usually send one every" in notice.text
    recommended = Counter(each.sensor for each in of(Recommend, commands[len(before) :]))
    assert recommended["kitchen"] > 120  # it is the hottest
    assert all(recommended[name] <= 8 for name in dead)
    back = controller.handle(Reading("attic", 19.0, 240.5 * INTERVAL, 240.5 * INTERVAL))
    assert ("sensor-back", "attic") in notices(back)
    other = controller_of()
    other.restore(controller.snapshot())
    assert other.health().suspects == controller.health().suspects


@pytest.mark.parametrize("every", [1, 5])
def test_a_connection_that_is_often_lost_does_not_hide_sensors_that_are_silent(every):
    controller = controller_of()
    commands = live(controller, 10, period=1, quiet=("attic",))
    for begin in range(10, 110, every):
        controller.handle(LinkLost())
        controller.handle(LinkRestored(begin * INTERVAL))
        end = begin + every
        commands += live(controller, end, begin=begin, period=1, quiet=("attic", "bedroom"))
    assert sorted(notices(commands)) == [("sensor-lost", "attic"), ("sensor-lost", "bedroom")]


def test_polled_sensors_are_not_blamed_for_being_recommended_without_a_connection():
    controller = controller_of()
    polled(controller, 200)
    controller.handle(LinkLost())
    commands = []
    for n in range(200, 400):
        commands += controller.handle(IntervalElapsed(INTERVAL * n))
    controller.handle(LinkRestored(400 * INTERVAL))
    for n in range(400, 402):  # then the other software polls again
        commands += controller.handle(IntervalElapsed(INTERVAL * n))
    commands += polled(controller, 500, begin=402)
    assert notices(commands) == []


@pytest.mark.parametrize(
    ("events", "backed_off"),
    [
        ([], True),
        ([LinkLost()], False),
        ([LinkLost(), LinkRestored(60.5 * INTERVAL)], False),
        ([ClockStepped(30.0, 60.5 * INTERVAL)], False),
        ([PauseRequested(60.5 * INTERVAL), ResumeRequested(60.6 * INTERVAL)], False),
    ],
    ids=["nothing", "link", "short", "clock", "pause"],
)
def test_a_silent_sensor_is_backed_off_further_if_its_reading_cannot_have_been_lost(
    events, backed_off
):
    controller = controller_of()
    live(controller, 60, period=1, quiet=("attic",))
    controller.handle(IntervalElapsed(60 * INTERVAL))
    controller.handle(ActivationRequested("attic", 60.1 * INTERVAL))
    health = controller._state.health
    before = health.retry_interval(0)
    for event in events:
        controller.handle(event)
    controller.handle(IntervalElapsed(61 * INTERVAL))
    assert (health.retry_interval(0) > before) is backed_off


def test_sensor_that_reported_once_and_then_stopped_is_named():
    controller = controller_of()
    controller.handle(Reading("kitchen", 25.0, 1.0, 1.0))
    commands = live(controller, 100, period=2, quiet=("kitchen",))
    assert notices(commands) == [("sensor-lost", "kitchen")]
    (notice,) = (each.notice for each in of(Notify, commands))
    assert "kitchen has sent no usable reading for " in notice.text
    assert "; the other sensors usually send one every 2 min" in notice.text


def test_sensor_that_never_replied_to_other_software_is_named():
    controller = controller_of()
    commands = polled(controller, 200, dead=("attic",))
    assert notices(commands) == [("sensor-lost", "attic")]
    (notice,) = (each.notice for each in of(Notify, commands))
    assert "the other sensors usually send one within 60 s if they are recommended" in notice.text
    recommended = [each.sensor for each in of(Recommend, commands)]
    assert recommended.count("attic") <= 20


def test_no_sensor_is_named_before_another_one_has_shown_how_often_sensors_report():
    controller = controller_of()
    assert notices(live(controller, 100, period=1, quiet=NAMES)) == []


@pytest.mark.parametrize("away", ["link", "restart", "clock"])
def test_time_in_which_no_reading_can_arrive_is_no_silence(away):
    controller = controller_of()
    live(controller, 40, period=2)
    later = 40 * INTERVAL
    match away:
        case "link":
            controller.handle(LinkLost())
            for n in range(40, 80):
                assert of(Notify, controller.handle(IntervalElapsed(n * INTERVAL))) == []
            controller.handle(LinkRestored(80 * INTERVAL))
            later = 80 * INTERVAL
        case "restart":
            other = controller_of()
            other.restore(controller.snapshot())
            assert other.snapshot() == controller.snapshot()
            controller, later = other, 1000 * INTERVAL
        case "clock":
            controller.handle(ClockStepped(1e8, 1e8 + later))
            later += 1e8
    assert of(Notify, controller.handle(IntervalElapsed(later))) == []
    assert of(Notify, controller.handle(IntervalElapsed(later + INTERVAL))) == []
    commands = [controller.handle(IntervalElapsed(later + n * INTERVAL)) for n in range(2, 20)]
    assert Counter(event for each in commands for event, _ in notices(each)) == {
        "sensor-lost": 4,
        "all-suspect": 1,
    }


def test_snapshot_of_another_mode_is_restored():
    limits = controller_settings(12.0)
    field = SensorField(NAMES, np.eye(4) + 0.5, 0.01, unit="°C", center=20.0, scale=2.0)
    commanding = Controller(make_policy("tv-gp-ucb", field, seed=1), limits)
    live(commanding, 10, period=2)
    assert "attic" in commanding.health().suspects or commanding.health().missed
    recommending = controller_of()
    recommending.restore(commanding.snapshot())
    commanding.restore(recommending.snapshot())
    assert recommending.health().missed == commanding.health().missed


# --- what is published and counted ----------------------------------------------------------------


def test_sensor_that_was_only_recommended_does_not_time_out_after_a_change_to_live():
    before = controller_of()
    before.handle(IntervalElapsed(0.0))
    field = before.policy.field
    after = Controller(make_policy("tv-gp-ucb", field, seed=1), controller_settings(12.0))
    after.restore(before.snapshot())
    commands = after.handle(IntervalElapsed(INTERVAL))
    assert of(Record, commands) == []
    assert len(of(Activate, commands)) == 1
    assert after.health().missed == 0


def test_recommended_sensor_is_published_without_a_command():
    controller = controller_of("round-robin")
    recommend, state = controller.handle(IntervalElapsed(0.0))
    sensor = recommend.sensor
    assert recommend == Recommend(sensor, 0, 0.0, 12.0)
    assert (state.decision.sensor, state.decision.recommended) == (sensor, True)
    answered = controller.handle(Reading(sensor, 21.0, 40.0, 40.0))
    assert [record.ending for record in of(Record, answered)] == [Ending.ANSWERED]
    assert of(Record, controller.handle(IntervalElapsed(60.0))) == []


def test_intervals_that_follow_the_readings_continue_after_the_reply_timeout():
    controller = controller_of("round-robin", on_reading=True)
    first, _ = controller.handle(IntervalElapsed(0.0))
    commands = controller.handle(DeadlineElapsed(0, 12.0))
    assert [type(each) for each in commands] == [Recommend, PublishState]
    assert commands[0].sensor != first.sensor
    commands = controller.handle(Reading(commands[0].sensor, 21.0, 14.0, 14.0))
    assert [type(each) for each in commands] == [Record, Recommend, PublishState]


def test_sensor_with_a_low_battery_is_not_recommended():
    controller = controller_of("round-robin", budgets=BUDGETS)
    (low,) = controller.handle(BatteryReported("attic", 5.0, 0.0))
    assert low.notice.text == "attic has 5 % battery left; this sensor is not recommended"
    selected = [of(Recommend, controller.handle(IntervalElapsed(60.0 * n))) for n in range(20)]
    assert Counter(each.sensor for (each,) in selected)["attic"] == 0


def test_implausible_readings_of_a_recommended_sensor_end_in_silence_not_in_a_timeout():
    controller = controller_of("round-robin")
    live(controller, 40, period=2)
    for n in range(40, 43):
        controller.handle(IntervalElapsed(INTERVAL * n))
        controller.handle(Reading("attic", 1e6, INTERVAL * n + 1, INTERVAL * n + 1))
        controller.handle(IntervalElapsed(INTERVAL * n + 30))
    assert controller.health().suspects == []


def test_dead_sensor_is_found_although_the_daemon_restarts_every_three_intervals():
    controller, commands = controller_of(), []
    for begin in range(0, 240, 3):
        commands += live(controller, begin + 3, period=1, begin=begin, quiet=("attic",))
        before, controller = controller, controller_of()
        controller.restore(before.snapshot())
    assert notices(commands) == [("sensor-lost", "attic")]
    recommended = Counter(each.sensor for each in of(Recommend, commands))
    assert recommended["attic"] < 40


def test_sensor_that_reports_as_often_as_the_daemon_restarts_is_not_lost_and_back_each_time():
    """A sensor reports once in 100 intervals, and the other sensors in every interval."""
    controller, later = controller_of(), []
    for begin in range(0, 1200, 100):
        commands = live(controller, begin + 50, period=1, begin=begin, quiet=("attic",))
        at = (begin + 50) * INTERVAL - 1.0
        commands += controller.handle(Reading("attic", 20.0 + begin % 700 / 1e4, at, at))
        commands += live(controller, begin + 100, period=1, begin=begin + 50, quiet=("attic",))
        before, controller = controller, controller_of()
        controller.restore(before.snapshot())
        later += notices(commands) if begin >= 600 else []
    assert later == []


# --- several recommendations in an interval -------------------------------------------------------


class Minutes:
    """A clock that stands still until it is moved, in s since 1970."""

    speed, min_reply_time, now = 1.0, 0.0, 0.0

    def elapsed(self):
        return self.now

    def wall(self, elapsed):
        return elapsed

    def catch_up(self, due, interval):
        return 1


def recommended(readings, *, until=INTERVAL, per_interval=3):
    """Return ``(time, sensor)`` of all recommendations of an interval, and the controller.

    `readings` maps times to the index of the recommendation whose sensor then sends a reading.
    """
    controller, clock = controller_of(per_interval=per_interval), Minutes()
    schedule, found = Scheduler({"t": INTERVAL}, clock, first=0.0), []
    for second in range(int(until)):
        clock.now = float(second)
        events = [event for _, event in schedule.due()]
        if second in readings:
            sensor = found[readings[second]][1]
            events.append(Reading(sensor, 20.5, clock.now, clock.now))
        for event in events:
            for command in controller.handle(event):
                schedule.note("t", command)
                if isinstance(command, Recommend):
                    found.append((second, command.sensor))
    return found, controller


def test_the_next_sensor_is_recommended_if_no_reading_of_the_previous_one_arrives():
    """The reply timeout is 12 s; what polls the sensors may get no reply of one of them."""
    found, controller = recommended({})
    assert [at for at, _ in found] == [0, 12, 24]
    assert len({sensor for _, sensor in found}) == 3
    health = controller.health()
    assert (health.answered, health.missed, health.suspects) == (0, 0, [])


def test_each_reply_is_followed_by_the_next_recommendation():
    found, controller = recommended({3: 0, 5: 1, 9: 2})
    assert [at for at, _ in found] == [0, 3, 5]
    assert controller.health().answered == 3


def test_a_late_reading_of_a_recommended_sensor_counts_and_hurries_no_other_sensor():
    found, controller = recommended({14: 0, 40: 1})
    assert [at for at, _ in found] == [0, 12, 24]
    assert controller.health().answered == 2
