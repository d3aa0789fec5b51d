"""What the log says of an outage: enough, and once."""

import logging

from edge_tvbo_adapters.mqtt.outage_log import AT_ONCE, ConnectionProblem, Outage

LOST, REFUSED = ConnectionProblem("the connection was lost"), ConnectionProblem("refused")
WRONG = ConnectionProblem("wrong password", lasting=True)


def lines(caplog):
    return [(each.levelname, each.getMessage()) for each in caplog.records]


def outage(caplog):
    caplog.set_level(logging.INFO)
    return Outage(logging.getLogger("test"), "broker")


def test_what_may_pass_is_one_error_however_it_changes(caplog):
    said = outage(caplog)
    for trouble in (REFUSED, LOST, ConnectionProblem("no route"), REFUSED):
        said.failed(trouble)
    said.over(9.0)
    assert lines(caplog) == [("ERROR", "broker: refused [E400]"), ("INFO", "broker: connected")]


def test_what_somebody_must_mend_is_said_though_something_was_said_before(caplog):
    said = outage(caplog)
    for trouble in (REFUSED, WRONG, REFUSED, WRONG):
        said.failed(trouble)
    assert lines(caplog) == [
        ("ERROR", "broker: refused [E400]"),
        ("ERROR", "broker: wrong password [E400]"),
    ]


def test_a_loss_that_is_made_good_at_once_is_a_warning(caplog):
    said = outage(caplog)
    said.lost(LOST, 10.0)
    said.waits(AT_ONCE / 2)
    said.over(11.5, "; 1 lost")
    text = "broker: the connection was lost; connected again after 1.5 s; 1 lost"
    assert lines(caplog) == [("WARNING", text)]


def test_a_loss_that_is_not_is_said_before_the_wait(caplog):
    said = outage(caplog)
    said.lost(LOST, 10.0)
    said.waits(AT_ONCE * 2)
    assert lines(caplog) == [("ERROR", "broker: the connection was lost [E400]")]


def test_losses_in_a_row_are_counted(caplog):
    said = outage(caplog)
    for now in range(0, 66, 6):
        said.lost(LOST, now)
        said.over(now + 1.0)
    assert len(lines(caplog)) == 2
    assert "10 times since" in lines(caplog)[1][1]


def test_coming_for_the_first_time_is_no_news(caplog):
    outage(caplog).over(1.0)
    assert lines(caplog) == []
