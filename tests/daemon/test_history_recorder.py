"""Decision log and history recorder: entries from commands, written in batches."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.batch_recorder import MAX_RETRY_DELAY_S
from edge_tvbo.daemon.decision_log import DecisionLog
from edge_tvbo.daemon.history_recorder import (
    MAX_BATCH,
    MAX_PENDING,
    HistoryRecorder,
    posterior_snapshot,
    quantize,
)
from edge_tvbo.messages.commands import Activate, Ending, Notify, PublishState, Record
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

EVERY = 900.0


class Memory:
    """A history without a disk, which may be full."""

    def __init__(self):
        self.entries = {}
        self.calls = 0
        self.full = False
        self.written = 0
        self.closed = False

    def store(self, entries):
        self.calls += 1
        if not self.full:
            self.entries |= {(each.field, each.decision.interval): each for each in entries}
        return not self.full

    def latest(self, field):
        ours = [each for (name, _), each in self.entries.items() if name == field]
        return ours[-1] if ours else None

    def close(self):
        self.closed = True


class Field:
    """A controller whose commands are logged and recorded."""

    def __init__(self, history):
        field = SensorField(("a", "b"), np.eye(2), 0.01, unit="°C", center=20.0, scale=2.0)
        policy = make_policy("et-gp-ucb", field)
        self.controller = Controller(policy, controller_settings(reply_timeout=20.0, max_age=1e9))
        self.decisions, self.recorder = DecisionLog(), HistoryRecorder(history, EVERY)
        self.decisions.posterior = lambda field: posterior_snapshot(self.controller)
        if entry := self.recorder.latest("lab"):
            self.decisions.restore(entry)
        self.commands = []

    def handle(self, event):
        commands = self.controller.handle(event)
        for command in commands:
            self.record(command)
        self.commands += commands
        return commands

    def record(self, command):
        if entry := self.decisions.update("lab", command):
            self.recorder.add(entry)

    def interval(self, number, value):
        """Live through an interval; the sensor answers `value`, or nothing."""
        at = 100.0 * number
        (activation,) = (
            each for each in self.handle(IntervalElapsed(at)) if isinstance(each, Activate)
        )
        if value is None:
            self.handle(DeadlineElapsed(activation.interval, at + 20.0))
        else:
            self.handle(Reading(activation.sensor, value, at + 1.0, at + 1.0))


answers = st.lists(st.none() | st.floats(10.0, 30.0), min_size=1, max_size=30)


@given(answers, st.integers(1, 7))
def test_every_command_is_in_the_entry_of_its_interval(values, each_so_many):
    history = Memory()
    field = Field(history)
    for number, value in enumerate(values):
        field.interval(number, value)
        if number % each_so_many == 0:
            field.recorder.save()
    field.recorder.close()
    assert history.closed
    kept = list(history.entries.values())
    said = {PublishState: [], Record: [], Notify: []}
    for command in field.commands:
        if type(command) in said:
            said[type(command)].append(command)
    assert [each.decision for each in kept] == [each.decision for each in said[PublishState]]
    assert [each.record for each in kept] == said[Record]
    assert [n for each in kept for n in each.notices] == [each.notice for each in said[Notify]]


def test_the_stored_posterior_is_that_of_the_decision():
    history = Memory()
    field = Field(history)
    field.interval(0, 22.0)
    field.handle(IntervalElapsed(100.0))
    field.recorder.close()
    decision, beliefs = history.latest("lab").decision, history.latest("lab").posterior
    arm = beliefs.sensors.index(decision.sensor)
    assert beliefs.mean.values()[arm] == pytest.approx(decision.mean, abs=0.02)
    assert beliefs.std.values()[arm] == pytest.approx(decision.std, abs=0.02)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60))
def test_quantized_values_are_within_half_a_step(values):
    made = quantize(np.array(values))
    bound = (max(values) - min(values)) / 510
    assert np.abs(np.array(made.values()) - values).max() <= bound * 1.001 + 1e-6
    assert len(made.steps) == len(values)


def test_an_interval_that_ends_after_a_restart_completes_its_entry():
    history = Memory()
    before = Field(history)
    before.handle(IntervalElapsed(0.0))
    before.recorder.close()
    assert history.latest("lab").record is None
    after = Field(history)
    after.controller.restore(before.controller.snapshot())
    sensor = history.latest("lab").decision.sensor
    after.handle(Reading(sensor, 21.0, 5.0, 5.0))
    after.recorder.close()
    assert len(history.entries) == 1
    assert history.latest("lab").record.ending is Ending.ANSWERED
    assert history.latest("lab").posterior is not None


def test_entries_are_written_when_they_are_due():
    history = Memory()
    field = Field(history)
    field.recorder.service(0.0)
    for number in range(10):
        field.interval(number, 20.0)
        field.recorder.service(100.0 * number)
        assert len(history.entries) == (10 if number == 9 else 0)
    assert field.recorder.wake_at() == 2 * EVERY


def test_many_entries_are_written_at_once_and_a_full_disk_retried_once_a_minute():
    history = Memory()
    field = Field(history)
    for number in range(MAX_PENDING):
        field.recorder.service(0.0)
        assert not history.entries
        field.interval(number, 20.0)
    field.recorder.service(0.0)
    assert len(history.entries) == MAX_PENDING
    assert history.calls == MAX_PENDING // MAX_BATCH
    history.calls, history.full = 0, True
    for number in range(MAX_PENDING, 4 * MAX_PENDING):
        field.interval(number, 20.0)
        field.recorder.service(1.0)
    assert history.calls == 1
    field.recorder.service(1.0 + MAX_RETRY_DELAY_S)
    assert history.calls == 2
    history.full = False
    field.recorder.service(1.0 + 2 * MAX_RETRY_DELAY_S)
    numbers = [number for _, number in history.entries]
    assert numbers == [
        *range(MAX_PENDING),
        *range(2 * MAX_PENDING, 4 * MAX_PENDING),
    ]  # the oldest were dropped


def test_a_second_decision_in_an_interval_replaces_the_first():
    history = Memory()
    field = Field(history)
    field.handle(IntervalElapsed(0.0))
    first = history_of(field, history).decision
    again = msgspec.structs.replace(first, sensor="b" if first.sensor == "a" else "a")
    field.record(PublishState(again))
    assert history_of(field, history).decision == again
    assert len(history.entries) == 1


def history_of(field, history):
    field.recorder.save()
    return history.latest("lab")


@pytest.mark.parametrize("order", ["after-reply", "at-once"])
def test_entry_holds_all_activations_of_its_interval_with_their_ends(order):
    field = Field(Memory())
    limits = controller_settings(20.0, 1e9, per_interval=2, next_activation=order)
    field.controller = Controller(field.controller.policy, limits)
    (first, *_) = field.handle(IntervalElapsed(0.0))
    field.handle(Reading(first.sensor, 21.0, 5.0, 5.0))
    field.handle(DeadlineElapsed(0, 45.0))
    entry = field.decisions.newest("lab")
    (before,) = entry.earlier
    assert (before.decision.sensor, before.record.ending) == (first.sensor, Ending.ANSWERED)
    assert (entry.decision.earlier, entry.record.ending) == ([first.sensor], Ending.MISSED)
    assert entry.record.sensor == entry.decision.sensor != first.sensor
    assert msgspec.json.decode(msgspec.json.encode(entry), type=type(entry)) == entry
