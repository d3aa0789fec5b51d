"""Snapshots: a restored controller returns the same commands as the original."""

from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings
from support.examples import max_examples

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.controller_state import SNAPSHOT_KIND
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Activate, Ending, Notify, Record
from edge_tvbo.messages.events import (
    ActivationRequested,
    ActivationUndelivered,
    DeadlineElapsed,
    IntervalElapsed,
    Reading,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.policy import make_policy

NAMES = ("a", "b", "c")
STEP = 100.0


def controller_of(name="et-gp-ucb", scale=2.0, **changes):
    field = SensorField(NAMES, np.eye(3) + 0.5, 0.01, center=20.0, scale=scale)
    limits = controller_settings(
        **{"reply_timeout": 20.0, "max_age": 150.0, "max_backoff": 4, **changes}
    )
    return Controller(make_policy(name, field), limits)


def run(controller, steps, begin=0):
    """Run intervals with the readings of `steps`; return all commands."""
    commands = []
    for n, (value, other) in enumerate(steps, begin):
        at = n * STEP
        commands += controller.handle(IntervalElapsed(at))
        activated = controller.health().selected
        if other is not None:
            commands += controller.handle(Reading(NAMES[other], 21.0, at + 1, at + 1))
        if value is not None:
            commands += controller.handle(Reading(activated, value, at + 5, at + 5))
        commands += controller.handle(DeadlineElapsed(controller.interval, at + 20))
    return commands


STEPS = st.lists(
    st.tuples(st.none() | st.floats(10.0, 30.0), st.none() | st.integers(0, 2)), max_size=12
)


@given(STEPS, STEPS, st.sampled_from(["et-gp-ucb", "round-robin", "sw-gp-ucb"]))
@max_examples(100)
def test_controller_restored_between_intervals_returns_the_same_commands(before, after, name):
    one, other = controller_of(name), controller_of(name)
    run(one, before)
    run(other, after)
    other.restore(one.snapshot())
    assert other.snapshot() == one.snapshot()
    assert other.health() == one.health()
    begin = len(before)
    assert run(other, after, begin) == run(one, after, begin)


def test_controller_restored_within_an_interval_records_the_reply_without_a_second_activation():
    one, other = controller_of(), controller_of()
    one.handle(IntervalElapsed(0.0))
    other.restore(one.snapshot())
    activated = one.health().selected
    commands = other.handle(Reading(activated, 21.0, 5.0, 5.0))
    assert [type(each) for each in commands] == [Record]
    later = other.handle(IntervalElapsed(STEP))
    assert [each.interval for each in later if isinstance(each, Activate)] == [1]


@given(STEPS, st.sampled_from(NAMES), st.sampled_from([None, 21.0]), st.integers(1, 2))
def test_after_a_restart_a_request_names_what_was_activated_before(steps, sensor, reply, count):
    one, other = controller_of(per_interval=count), controller_of(per_interval=count)
    run(one, steps)
    one.handle(IntervalElapsed(at := STEP * len(steps)))
    if reply is not None:
        one.handle(Reading(one.health().selected, reply, at + 5, at + 5))
    else:
        one.handle(DeadlineElapsed(one.interval, at + 20))
    other.restore(one.snapshot())
    request = ActivationRequested(sensor, at + 30)
    assert other.handle(request) == one.handle(request)


@pytest.mark.usefixtures("first_timeout_counts")
def test_controller_restored_within_an_interval_backs_no_sensor_off_for_it():
    one, other = controller_of(), controller_of()
    one.handle(IntervalElapsed(0.0))
    other.restore(one.snapshot())
    commands = other.handle(IntervalElapsed(STEP))
    assert not [each for each in commands if isinstance(each, Notify)]
    assert other.health().suspects == []
    assert other.health().missed == 1


def intervals_until_selected(sensor, controller):
    """Run intervals in which no sensor but `sensor` is silent, until it is selected."""
    for n in range(1, 200):
        at = 600.0 * (controller.used + 1)
        controller.handle(IntervalElapsed(at))
        if controller.health().selected == sensor:
            return n
        controller.handle(Reading(controller.health().selected, 20.0, at + 5, at + 5))
    raise AssertionError("the sensor is not selected again")


@pytest.mark.usefixtures("first_timeout_counts")
@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
@pytest.mark.parametrize(
    ("before", "after", "times", "expected"),
    [
        (600.0, 600.0, 3, 5),
        (600.0, 60.0, 3, 41),
        (600.0, 60.0, 5, 65),  # limited by max_backoff
        (60.0, 600.0, 5, 3),  # 16 min
        (60.0, 600.0, 7, 8),  # 64 min
    ],
)
def test_a_backoff_lasts_as_long_after_a_change_of_the_interval(
    restore, before, after, times, expected
):
    stopped, controller = (
        controller_of("static", interval=interval, max_backoff=64) for interval in (before, after)
    )
    stopped.handle(IntervalElapsed(0.0))
    for _ in range(times - 1):
        stopped.handle(DeadlineElapsed(stopped.interval, 600.0 * stopped.used + 20))
        intervals_until_selected("a", stopped)
    stopped.handle(DeadlineElapsed(stopped.interval, 600.0 * stopped.used + 20))

    restore(controller, stopped.snapshot())
    controller.reserve_numbers(stopped.used)

    assert intervals_until_selected("a", controller) == expected


def test_activation_that_was_recalled_before_a_restart_is_no_time_out():
    stopped, controller = controller_of(), controller_of()
    stopped.handle(IntervalElapsed(0.0))
    sensor = stopped.health().selected
    stopped.handle(ActivationUndelivered(sensor, 0, left=False))
    controller.restore(stopped.snapshot())
    (record,) = controller.handle(DeadlineElapsed(0, 20.0))
    assert (record.sensor, record.ending) == (sensor, Ending.UNDELIVERED)
    assert (controller.health().missed, controller.health().undelivered) == (0, 1)


def test_reserved_numbers_are_skipped_and_never_reused():
    controller = controller_of()
    controller.reserve_numbers(41)
    (activated, _) = controller.handle(IntervalElapsed(0.0))
    controller.reserve_numbers(7)
    assert (activated.interval, controller.used) == (42, 42)


def test_reply_after_a_kill_is_recorded_with_the_number_of_its_interval():
    one, other = controller_of(), controller_of()
    one.handle(IntervalElapsed(0.0))
    other.restore(one.snapshot())
    other.reserve_numbers(9)
    assert not other.begun
    (record,) = other.handle(Reading(one.health().selected, 21.0, 5.0, 5.0))
    (activated, _) = other.handle(IntervalElapsed(STEP))
    assert (record.interval, activated.interval) == (0, 10)
    assert other.begun


def test_duplicate_is_rejected_after_a_restart():
    one, other = controller_of(), controller_of()
    reading = Reading("a", 21.0, 5.0, 5.0)
    one.handle(reading)
    other.restore(one.snapshot())
    other.handle(reading)
    assert other.health().refused == {"duplicate": 1}
    assert other.last_readings() == one.last_readings()


@pytest.mark.parametrize(
    "other", [controller_of(scale=3.0), controller_of("gp-ucb")], ids=["unit", "policy"]
)
def test_snapshot_of_another_field_or_policy_is_rejected(other):
    one = controller_of()
    run(one, [(21.0, 1)] * 3)
    before = other.snapshot()
    with pytest.raises(SnapshotError):
        other.restore(one.snapshot())
    assert other.snapshot() == before


@cache
def stored():
    """Return the snapshot of a controller after three intervals."""
    controller = controller_of()
    run(controller, [(21.0, 1), (None, 0), (23.0, None)])
    return controller.snapshot()


@given(st.data())
@max_examples(200)
def test_damaged_snapshot_changes_nothing_or_is_valid(data):
    other, blob = controller_of(), bytearray(stored())
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= 1 << data.draw(st.integers(0, 7))
    before = other.snapshot()
    try:
        other.restore(bytes(blob[: data.draw(st.integers(0, len(blob)))]))
    except SnapshotError:
        assert other.snapshot() == before
    msgspec.json.encode(other.health())


@pytest.mark.usefixtures("first_timeout_counts")
@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
@pytest.mark.parametrize("restarts", [1, 3])
@pytest.mark.parametrize("reserved", [8, 500])
def test_a_backoff_is_not_shortened_by_numbers_that_a_kill_skips(restore, restarts, reserved):
    """A killed process has reserved numbers, whose intervals did not pass."""
    stopped, going_on = (controller_of("static", max_backoff=64) for _ in range(2))
    for each in (stopped, going_on):
        each.handle(IntervalElapsed(0.0))
        for _ in range(6):
            each.handle(DeadlineElapsed(each.interval, 600.0 * each.used + 20))
            intervals_until_selected("a", each)
        each.handle(DeadlineElapsed(each.interval, 600.0 * each.used + 20))
    expected = intervals_until_selected("a", going_on)
    assert expected > 8

    controller = stopped
    for _ in range(restarts):  # no interval begins in between
        before, controller = controller, controller_of("static", max_backoff=64)
        restore(controller, before.snapshot())
        controller.reserve_numbers(before.used + reserved)

    assert intervals_until_selected("a", controller) == expected


def test_a_snapshot_whose_former_unit_is_no_text_changes_nothing():
    one, other = controller_of(), controller_of()
    run(one, [(21.0, None), (22.0, 1)])
    state = decode_snapshot(SNAPSHOT_KIND, None, one.snapshot())
    fingerprint = one.policy.field.fingerprint()
    invalid = encode_snapshot(SNAPSHOT_KIND, fingerprint, state | {"former_unit": 5})
    before = other.snapshot()
    with pytest.raises(SnapshotError, match="'former_unit' is not a text"):
        other.restore(invalid)
    assert other.snapshot() == before
