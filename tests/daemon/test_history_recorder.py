"""What the chronicle makes of commands, and when it has that kept."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.history_recorder import MOST, RETRY, HistoryRecorder, levels
from edge_tvbo.messages.commands import Activate, Ending, Notify, PublishState, Record
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

EVERY = 900.0


class Memory:
    """A history without a disk, which may be full."""

    def __init__(self):
        self.entries = {}
        self.asked = 0
        self.full = False
        self.written = 0
        self.closed = False

    def keep(self, entries):
        self.asked += 1
        if not self.full:
            self.entries |= {(each.field, each.decision.interval): each for each in entries}
        return not self.full

    def latest(self, field):
        ours = [each for (name, _), each in self.entries.items() if name == field]
        return ours[-1] if ours else None

    def close(self):
        self.closed = True


class Field:
    """A controller whose every command a chronicle sees."""

    def __init__(self, history):
        field = SensorField(("a", "b"), np.eye(2), 0.01, unit="°C", center=20.0, scale=2.0)
        policy = make_policy("et-gp-ucb", field)
        self.controller = Controller(policy, controller_settings(reply_timeout=20.0, max_age=1e9))
        self.chronicle = HistoryRecorder(history, EVERY, {"lab": self.controller})
        self.commands = []

    def handle(self, event):
        commands = self.controller.handle(event)
        for command in commands:
            self.chronicle("lab", command)
        self.commands += commands
        return commands

    def interval(self, number, value):
        """Live through an interval; the sensor answers `value`, or nothing."""
        at = 100.0 * number
        (asked,) = (each for each in self.handle(IntervalElapsed(at)) if isinstance(each, Activate))
        if value is None:
            self.handle(DeadlineElapsed(asked.interval, at + 20.0))
        else:
            self.handle(Reading(asked.sensor, value, at + 1.0, at + 1.0))


answers = st.lists(st.none() | st.floats(10.0, 30.0), min_size=1, max_size=30)


@given(answers, st.integers(1, 7))
def test_every_command_is_found_again_in_the_entry_of_its_interval(values, each_so_many):
    history = Memory()
    field = Field(history)
    for number, value in enumerate(values):
        field.interval(number, value)
        if number % each_so_many == 0:
            field.chronicle.save()
    field.chronicle.close()
    assert history.closed
    kept = list(history.entries.values())
    said = {PublishState: [], Record: [], Notify: []}
    for command in field.commands:
        if type(command) in said:
            said[type(command)].append(command)
    assert [each.decision for each in kept] == [each.decision for each in said[PublishState]]
    assert [each.record for each in kept] == said[Record]
    assert [n for each in kept for n in each.notices] == [each.notice for each in said[Notify]]


def test_the_beliefs_are_those_the_decision_was_made_by():
    history = Memory()
    field = Field(history)
    field.interval(0, 22.0)
    field.handle(IntervalElapsed(100.0))
    field.chronicle.close()
    decision, beliefs = history.latest("lab").decision, history.latest("lab").beliefs
    arm = beliefs.sensors.index(decision.sensor)
    assert beliefs.mean.values()[arm] == pytest.approx(decision.mean, abs=0.02)
    assert beliefs.std.values()[arm] == pytest.approx(decision.std, abs=0.02)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60))
def test_levels_are_off_by_a_510th_of_the_range_at_most(values):
    made = levels(np.array(values))
    bound = (max(values) - min(values)) / 510
    assert np.abs(np.array(made.values()) - values).max() <= bound * 1.001 + 1e-6
    assert len(made.steps) == len(values)


def test_what_ends_after_a_restart_is_put_to_the_entry_that_was_kept_before():
    history = Memory()
    before = Field(history)
    before.handle(IntervalElapsed(0.0))
    before.chronicle.close()
    assert history.latest("lab").record is None
    after = Field(history)
    after.controller.restore(before.controller.snapshot())
    sensor = history.latest("lab").decision.sensor
    after.handle(Reading(sensor, 21.0, 5.0, 5.0))
    after.chronicle.close()
    assert len(history.entries) == 1
    assert history.latest("lab").record.ending is Ending.ANSWERED
    assert history.latest("lab").beliefs is not None


def test_it_is_kept_when_that_is_due_and_not_before():
    history = Memory()
    field = Field(history)
    field.chronicle.service(0.0)
    for number in range(10):
        field.interval(number, 20.0)
        field.chronicle.service(100.0 * number)
        assert len(history.entries) == (10 if number == 9 else 0)
    assert field.chronicle.wake_at() == 2 * EVERY


def test_too_much_is_kept_at_once_and_a_full_disk_is_asked_once_a_minute():
    history = Memory()
    field = Field(history)
    for number in range(MOST):
        field.chronicle.service(0.0)
        assert not history.entries
        field.interval(number, 20.0)
    field.chronicle.service(0.0)
    assert len(history.entries) == MOST
    history.full = True
    for number in range(MOST, 4 * MOST):
        field.interval(number, 20.0)
        field.chronicle.service(1.0)
    assert history.asked == 2
    field.chronicle.service(1.0 + RETRY)
    assert history.asked == 3
    history.full = False
    field.chronicle.service(1.0 + 2 * RETRY)
    numbers = [number for _, number in history.entries]
    assert numbers == [*range(MOST), *range(2 * MOST, 4 * MOST)]  # the oldest were forgotten


def test_a_sensor_that_is_asked_for_takes_the_place_of_the_one_before():
    history = Memory()
    field = Field(history)
    field.handle(IntervalElapsed(0.0))
    first = history_of(field, history).decision
    again = msgspec.structs.replace(first, sensor="b" if first.sensor == "a" else "a")
    field.chronicle("lab", PublishState(again))
    assert history_of(field, history).decision == again
    assert len(history.entries) == 1


def history_of(field, history):
    field.chronicle.save()
    return history.latest("lab")
