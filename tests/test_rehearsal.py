"""A recorded day as the history that a daemon would have kept."""

import pytest

from edge_tvbo import datafiles
from edge_tvbo.backtest import Backtest
from edge_tvbo.messages import PublishState, Record
from edge_tvbo.rehearsal import rehearsed
from edge_tvbo.replay import Span, replay


@pytest.fixture(scope="module")
def backtest():
    recording = datafiles.recording("lab-sample", [], "silent")
    return Backtest(recording, Span(0, 432), Span(432, 1032))  # more than is kept at once


def test_it_is_what_the_replay_decides_interval_by_interval(backtest):
    decisions, records = [], []

    def watch(command):
        match command:
            case PublishState(decision=decision):
                decisions.append(decision)
            case Record():
                records.append(command)

    replay(backtest.recording, backtest.test_span, backtest.controller("et-gp-ucb", {}, 0), watch)
    past = rehearsed(backtest, "et-gp-ucb")
    entries = past.between("lab-sample", 0, 10_000)

    assert [each.decision for each in entries] == decisions
    assert [each.record for each in entries] == records
    assert all(each.beliefs.sensors == tuple(backtest.recording.sensors) for each in entries)


def test_it_is_looked_at_as_a_history_is(backtest):
    past = rehearsed(backtest, "round-robin")

    assert past.fields() == ["lab-sample"] and past.span("lab-sample") == (0, 599)
    assert [each.decision.interval for each in past.newest("lab-sample", 2)] == [599, 598]
    assert past.entry("lab-sample", 7).decision.interval == 7
    assert past.entry("lab-sample", 600) is None
