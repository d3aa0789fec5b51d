"""Ignored sensors: neither selected, nor learned from, nor the hot spot, until used again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.controller_state import counters
from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Activate, Notify, PublishState, Recommend, Reject
from edge_tvbo.messages.events import (
    ActivationRequested,
    DeadlineElapsed,
    IgnoreRequested,
    IntervalElapsed,
    Reading,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

NAMES = ("a", "b", "c")
STEP = 100.0
KINDS: tuple[dict, ...] = (
    {},
    {"recommends": True},
    {"per_interval": 3},
    {"per_interval": 3, "next_activation": "at-once"},
)
POLICIES = ("et-gp-ucb", "tv-gp-ucb", "auto", "random", "round-robin")


def controller_of(name="tv-gp-ucb", names=NAMES, **changes):
    M = len(names)
    positions = np.array([[0.0, 0.0], [5.0, 0.0], [9.0, 9.0], [3.0, 3.0]])[:M]
    field = SensorField(
        names, np.eye(M) + 0.5, 0.01, unit="°C", center=20.0, scale=2.0, positions=positions
    )
    limits = {"reply_timeout": 20.0, "max_age": 150.0, "max_backoff": 4, **changes}
    return Controller(make_policy(name, field), controller_settings(**limits))


def ignore(controller, sensor, at=0.0, *, ignored=True):
    return controller.handle(IgnoreRequested(sensor, ignored, at))


def selected(commands):
    return [each.sensor for each in commands if isinstance(each, Activate | Recommend)]


def events(commands):
    return [each.notice.event for each in commands if isinstance(each, Notify)]


def test_notice_says_that_no_sensor_replies_when_the_last_one_that_does_is_ignored():
    controller, n = controller_of("round-robin"), 0
    while len(controller.health().suspects) < 2:
        (activated,) = selected(controller.handle(IntervalElapsed(n * STEP)))
        if activated == "c":
            controller.handle(Reading("c", 21.0, n * STEP + 1, n * STEP + 1))
        controller.handle(DeadlineElapsed(n, n * STEP + 20))
        n += 1
    assert events(ignore(controller, "c", n * STEP)) == ["sensor-ignored", "all-suspect"]
    back = controller.handle(Reading("a", 21.0, n * STEP + 1, n * STEP + 1))
    assert events(back) == ["sensor-back", "some-back"]


def test_notice_says_that_sensors_are_selected_again_when_an_ignored_one_is_used_again():
    controller, at = controller_of(max_backoff=1), 0.0
    ignore(controller, "c")
    while len(controller.health().suspects) < 2:
        controller.handle(IntervalElapsed(at))
        at += STEP
    assert events(ignore(controller, "c", at, ignored=False)) == ["sensor-used", "some-back"]
    assert events(ignore(controller, "c", at)) == ["sensor-ignored", "all-suspect"]


@given(
    st.sampled_from(POLICIES),
    st.sampled_from(KINDS),
    st.lists(
        st.tuples(st.sampled_from(["ignore", "use", "reply", "silence"]), st.sampled_from(NAMES)),
        max_size=30,
    ),
)
def test_ignored_sensors_are_not_selected_and_the_others_are_in_any_sequence(name, kind, steps):
    controller, ignored = controller_of(name, **kind), set()
    for n, (step, sensor) in enumerate(steps):
        at = n * STEP
        match step:
            case "ignore":
                ignore(controller, sensor, at)
                ignored = ignored | {sensor} if len(ignored | {sensor}) < len(NAMES) else ignored
            case "use":
                ignore(controller, sensor, at, ignored=False)
                ignored = ignored - {sensor}
            case _:
                commands = controller.handle(IntervalElapsed(at))
                assert selected(commands)
                for _ in range(len(NAMES)):
                    assert not ignored & set(selected(commands))
                    if step == "silence":
                        interval = controller.interval
                        commands = controller.handle(DeadlineElapsed(interval, at + 20.0))
                    else:
                        replies = [Reading(s, 21.0 + n, at + 5, at + 5) for s in selected(commands)]
                        commands = [each for reply in replies for each in controller.handle(reply)]
        assert controller.health().ignored == sorted(ignored)
        assert not ignored & set(controller.health().suspects)
        hotspot = controller.hotspot(at)
        assert hotspot is None or hotspot.sensor not in ignored


def test_readings_of_an_ignored_sensor_do_not_change_the_model():
    controller = controller_of()
    controller.handle(IntervalElapsed(0.0))
    ignore(controller, "b", 1.0)
    before = controller.policy.snapshot()
    (rejected,) = controller.handle(Reading("b", 29.0, 5.0, 5.0))
    assert isinstance(rejected, Reject)
    assert rejected.reason == "ignored"
    assert controller.policy.snapshot() == before
    assert "b" not in controller.last_readings()


def test_the_hottest_sensor_is_the_hotspot_again_when_it_is_used_again():
    controller = controller_of()
    controller.handle(IntervalElapsed(0.0))
    for sensor, value in (("a", 20.0), ("b", 26.0), ("c", 22.0)):
        controller.handle(Reading(sensor, value, 5.0, 5.0))
    assert controller.hotspot(6.0).sensor == "b"
    assert events(ignore(controller, "b")) == ["sensor-ignored"]
    assert events(ignore(controller, "b")) == []
    assert controller.hotspot(6.0).sensor == "c"
    assert events(ignore(controller, "b", ignored=False)) == ["sensor-used"]
    assert controller.hotspot(6.0).sensor == "b"


def test_decision_says_that_a_sensor_is_ignored_and_how_it_is_used_again():
    controller = controller_of()
    controller.handle(IntervalElapsed(0.0))
    controller.handle(Reading("a", 21.0, 5.0, 5.0))
    ignore(controller, "b", 6.0)
    commands = controller.handle(IntervalElapsed(STEP))
    (decision,) = [each.decision for each in commands if isinstance(each, PublishState)]
    text = "b is ignored by command; to use it again, send the command ignore with ignored = false"
    assert text in decision.factors


def test_activation_of_an_ignored_sensor_is_rejected():
    controller = controller_of()
    controller.handle(IntervalElapsed(0.0))
    ignore(controller, "b", 1.0)
    (rejected,) = controller.handle(ActivationRequested("b", 2.0))
    assert rejected.reason == "ignored"


def test_sensor_that_is_ignored_while_it_is_awaited_is_not_blamed():
    """With intervals that follow the readings, its time-out begins the next interval."""
    controller = controller_of(on_reading=True)
    (activated, _) = controller.handle(IntervalElapsed(0.0))
    ignore(controller, activated.sensor, 1.0)
    commands = controller.handle(DeadlineElapsed(0, 20.0))
    assert selected(commands)[0] != activated.sensor
    assert controller.health().suspects == []


def test_unresponsive_sensor_is_no_longer_unresponsive_when_it_is_ignored():
    controller = controller_of("round-robin")
    for n in range(30):
        controller.handle(IntervalElapsed(n * STEP))
        controller.handle(DeadlineElapsed(n, n * STEP + 20.0))
    assert controller.health().suspects == ["a", "b", "c"]
    ignore(controller, "a", 3000.0)
    assert controller.health().suspects == ["b", "c"]
    assert set(selected(controller.handle(IntervalElapsed(3000.0)))) <= {"b", "c"}


def test_last_sensor_cannot_be_ignored():
    controller = controller_of()
    ignore(controller, "a")
    ignore(controller, "b")
    (rejected,) = ignore(controller, "c")
    assert rejected.reason == "last-sensor"
    assert controller.health().ignored == ["a", "b"]


@pytest.mark.parametrize("recommends", [False, True])
def test_ignored_sensors_survive_a_restart_and_a_change_of_the_sensors(recommends):
    controller = controller_of(recommends=recommends)
    controller.handle(IntervalElapsed(0.0))
    ignore(controller, "b", 1.0)
    blob = controller.snapshot()

    same = controller_of(recommends=recommends)
    same.restore(blob)
    assert same.health().ignored == ["b"]
    assert same.snapshot() == blob
    assert counters(blob).ignored == ["b"]

    other = controller_of(names=("b", "c", "d"))
    with pytest.raises(SnapshotError):
        other.restore(blob)
    other.restore_partial(blob)
    assert other.health().ignored == ["b"]

    only = controller_of(names=("b",))
    only.restore_partial(blob)
    assert only.health().ignored == []


def test_snapshot_without_ignored_sensors_is_that_of_a_version_without_the_command():
    controller = controller_of()
    ignore(controller, "b")
    before = controller.snapshot()
    ignore(controller, "b", ignored=False)
    assert b"ignored" in before
    assert b"ignored" not in controller.snapshot()
    controller.restore(before)
    controller.restore(controller_of().snapshot())
    assert controller.health().ignored == []


@pytest.mark.parametrize("names", ["b", [1], 3, {"b": 1}])
def test_invalid_ignored_sensors_are_an_invalid_snapshot(names):
    with pytest.raises(SnapshotError):
        IgnoredSensors.check({"ignored": names})


def test_silence_of_a_sensor_counts_from_when_it_is_used_again():
    """In the mode advise, a sensor is silent if it sends no reading for far longer than usual."""
    controller = controller_of(recommends=True)
    for n in range(20):
        controller.handle(IntervalElapsed(n * STEP))
        for sensor in NAMES:
            controller.handle(Reading(sensor, 20.0 + n / 8, n * STEP + 5, n * STEP + 5))
        if n == 5:
            ignore(controller, "b", n * STEP + 6)
    assert controller.health().suspects == []
    ignore(controller, "b", 2000.0, ignored=False)
    assert events(controller.handle(IntervalElapsed(2000.0))) == []
    assert controller.health().suspects == []
