"""Decision history in memory: the same entries as a daemon stores."""

import pytest
from support.recordings import data_source

from edge_tvbo.messages.commands import PublishState, Record
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.memory_history import replay_to_history
from edge_tvbo.simulation.replay import replay
from edge_tvbo.simulation.row_range import RowRange


@pytest.fixture(scope="module")
def backtest():
    recording = data_source().load("lab-sample")
    return Backtest(recording, RowRange(0, 432), RowRange(432, 1032))  # more than one write


def test_history_has_the_decisions_of_the_replay(backtest):
    decisions, records = [], []

    def watch(command):
        match command:
            case PublishState(decision=decision):
                decisions.append(decision)
            case Record():
                records.append(command)

    replay(backtest.recording, backtest.test_span, backtest.controller("et-gp-ucb", {}, 0), watch)
    history = replay_to_history(backtest, "et-gp-ucb")
    entries = history.newest("lab-sample", 10_000)[::-1]

    assert [each.decision for each in entries] == decisions
    assert [each.record for each in entries] == records
    assert all(each.posterior.sensors == tuple(backtest.recording.sensors) for each in entries)


def test_history_is_read_from_the_end(backtest):
    history = replay_to_history(backtest, "round-robin")

    assert [each.decision.interval for each in history.newest("lab-sample", 2)] == [599, 598]
    every = [each.decision.interval for each in history.newest("lab-sample", 10_000)]
    assert every == list(range(599, -1, -1))
