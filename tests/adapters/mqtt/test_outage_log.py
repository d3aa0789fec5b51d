"""Outage log: each problem once, short outages as warnings."""

import logging

import pytest
from edge_tvbo_adapters.mqtt.connection_problems import ConnectionProblem
from edge_tvbo_adapters.mqtt.outage_log import MAX_PROBLEMS, SHORT_WAIT_S, OutageLog

from edge_tvbo.daemon.log_format import RepeatFilter

LOST, REFUSED = ConnectionProblem("the connection was lost"), ConnectionProblem("refused")
WRONG = ConnectionProblem("wrong password", lasting=True)


def lines(caplog):
    return [(each.levelname, each.getMessage()) for each in caplog.records]


def outage(caplog):
    caplog.set_level(logging.INFO)
    return OutageLog(logging.getLogger("test"), "broker")


def test_passing_problems_of_one_outage_are_one_error(caplog):
    log = outage(caplog)
    for problem in (REFUSED, LOST, ConnectionProblem("no route"), REFUSED):
        log.failed(problem, 0.0)
    log.over(9.0)
    assert lines(caplog) == [("ERROR", "broker: refused [E400]"), ("INFO", "broker: connected")]


def test_of_many_lasting_problems_only_the_newest_are_remembered(caplog):
    """A broker can describe its reason in other words each time, in an outage without end."""
    log = outage(caplog)
    problems = [ConnectionProblem(f"quota {n} exceeded", lasting=True) for n in range(100)]
    for problem in problems + problems[-MAX_PROBLEMS:] + problems[:1]:
        log.failed(problem, 0.0)
    assert [text for _, text in lines(caplog)] == [
        f"broker: {problem.text} [E400]" for problem in problems + problems[:1]
    ]


def test_a_problem_of_three_attempts_in_a_row_is_logged_after_another_one(caplog):
    """For example, the broker is restarted, and its port expects TLS from then on."""
    log = outage(caplog)
    no_tls = ConnectionProblem("no MQTT packet; add [mqtt.tls]")
    for problem in (REFUSED, no_tls, LOST, no_tls, no_tls):
        log.attempt_failed(problem, 0.0)
    assert lines(caplog) == [("ERROR", "broker: refused [E400]")]
    for _ in range(3):
        log.attempt_failed(no_tls, 0.0)
    assert lines(caplog)[1:] == [("ERROR", "broker: no MQTT packet; add [mqtt.tls] [E400]")]


def test_a_lasting_problem_is_logged_after_a_passing_one(caplog):
    log = outage(caplog)
    for problem in (REFUSED, WRONG, REFUSED, WRONG):
        log.failed(problem, 0.0)
    assert lines(caplog) == [
        ("ERROR", "broker: refused [E400]"),
        ("ERROR", "broker: wrong password [E400]"),
    ]


def test_a_short_outage_is_a_warning(caplog):
    log = outage(caplog)
    log.lost(LOST, 10.0)
    log.waits(SHORT_WAIT_S / 2, 10.0)
    log.over(11.5, "; 1 lost")
    text = "broker: the connection was lost; connected again after 1.5 s; 1 lost"
    assert lines(caplog) == [("WARNING", text)]


def test_a_longer_outage_is_an_error_before_the_wait(caplog):
    log = outage(caplog)
    log.lost(LOST, 10.0)
    log.waits(SHORT_WAIT_S * 2, 10.0)
    assert lines(caplog) == [("ERROR", "broker: the connection was lost [E400]")]


def test_repeated_short_outages_are_counted(caplog):
    log = outage(caplog)
    for now in range(0, 66, 6):
        log.lost(LOST, now)
        log.over(now + 1.0)
    assert len(lines(caplog)) == 2
    assert "10 times since" in lines(caplog)[1][1]


def test_the_first_connection_is_not_logged(caplog):
    outage(caplog).over(1.0)
    assert lines(caplog) == []


def test_at_debug_level_each_problem_and_each_wait_is_logged(caplog):
    log = outage(caplog)
    caplog.set_level(logging.DEBUG)
    log.lost(LOST, 10.0)
    for problem in (REFUSED, REFUSED):
        log.failed(problem, 0.0)
        log.waits(1.25, 10.0)
    wait = ("DEBUG", "broker: the next attempt to connect is in 1.2 s")
    assert lines(caplog) == [
        ("DEBUG", "broker: the connection was lost"),
        ("ERROR", "broker: refused [E400]"),
        wait,
        ("DEBUG", "broker: refused"),
        wait,
    ]


@pytest.mark.parametrize("lasting", [False, True])
def test_a_second_outage_with_the_same_problem_is_logged_within_a_minute_if_it_lasts(
    caplog, lasting
):
    """The filter of the daemon's log passes a text once a minute: the second error was left out."""
    log, now = outage(caplog), [0.0]
    problem = REFUSED._replace(lasting=lasting)
    with caplog.filtering(RepeatFilter(clock=lambda: now[0])):
        log.attempt_failed(problem, 0.0)
        now[0] = 10.0
        log.over(10.0)
        log.lost(LOST, 30.0)
        for now[0] in range(31, 600, 5):
            log.attempt_failed(problem, now[0])
    assert lines(caplog)[:2] == [("ERROR", "broker: refused [E400]"), ("INFO", "broker: connected")]
    assert lines(caplog)[2:] == [("ERROR", "broker: refused [E400]")]


def test_a_broker_that_is_lost_again_and_again_causes_few_lines(caplog):
    log = outage(caplog)
    for now in range(0, 3600, 20):
        log.lost(LOST, now)
        log.waits(SHORT_WAIT_S * 2, now)
        for late in (10, 12, 14):
            log.attempt_failed(REFUSED, now + late)
        log.over(now + 15.0, f"; lost activations and notices: {now}")
    assert len(lines(caplog)) <= 3 * 60  # of 180 outages, in an hour
