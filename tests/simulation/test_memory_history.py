"""A recorded day as the history that a daemon would have kept."""

import pytest

from edge_tvbo.messages.commands import PublishState, Record
from edge_tvbo.simulation import dataset_lookup
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.memory_history import replay_to_history
from edge_tvbo.simulation.replay import RowRange, replay


@pytest.fixture(scope="module")
def backtest():
    recording = dataset_lookup.recording("lab-sample", [], "silent")
    return Backtest(recording, RowRange(0, 432), RowRange(432, 1032))  # more than is kept at once


def test_it_is_what_the_replay_decides_interval_by_interval(backtest):
    decisions, records = [], []

    def watch(command):
        match command:
            case PublishState(decision=decision):
                decisions.append(decision)
            case Record():
                records.append(command)

    replay(backtest.recording, backtest.test_span, backtest.controller("et-gp-ucb", {}, 0), watch)
    past = replay_to_history(backtest, "et-gp-ucb")
    entries = past.between("lab-sample", 0, 10_000)

    assert [each.decision for each in entries] == decisions
    assert [each.record for each in entries] == records
    assert all(each.posterior.sensors == tuple(backtest.recording.sensors) for each in entries)


def test_it_is_looked_at_as_a_history_is(backtest):
    past = replay_to_history(backtest, "round-robin")

    assert past.fields() == ["lab-sample"] and past.span("lab-sample") == (0, 599)
    assert [each.decision.interval for each in past.newest("lab-sample", 2)] == [599, 598]
    assert past.entry("lab-sample", 7).decision.interval == 7
    assert past.entry("lab-sample", 600) is None
