"""Rejection log: one line for each field and reason, with what to check."""

import logging
import re
from pathlib import Path

from edge_tvbo_adapters import payloads

from edge_tvbo.control.reading_filter import ReadingFilter
from edge_tvbo.daemon.rejection_log import INFO_HINTS, WARN_HINTS, RejectionLog
from edge_tvbo.messages.commands import Record, Reject
from edge_tvbo.messages.events import Reading


def test_the_first_rejection_of_a_reason_is_logged_with_a_hint(caplog):
    log = RejectionLog()
    for _ in range(3):
        log("lab", Reject("flooding", "flood/a", "more than 2 a second"))
    log("hall", Reject("flooding", "x"))

    first, second = caplog.messages
    assert first.startswith("lab: a message from 'flood/a' is rejected as flooding (more than 2")
    assert "max_rate" in first
    assert second.startswith("hall: a message from 'x'")


def test_a_rejection_names_the_sensor_as_people_do(caplog):
    log = RejectionLog()
    log.names = {"hall": {"x": "Living room"}}
    log("hall", Reject("flooding", "x"))
    log("lab", Reject("flooding", "x"))

    assert caplog.messages[0].startswith("hall: a message from 'Living room' is rejected")
    assert caplog.messages[1].startswith("lab: a message from 'x' is rejected")


def test_what_needs_no_attention_is_logged_as_information(caplog):
    caplog.set_level(logging.INFO)
    log = RejectionLog()
    log("lab", Reject("duplicate", "a", "21.5"))
    log("lab", Reject("never-heard-of", "a"))

    assert [each.levelname for each in caplog.records] == ["INFO", "WARNING"]
    assert "or the sensor sent the same value again within 2 s" in caplog.messages[0]
    assert "the field's health contains the number of such messages" in caplog.messages[1]


def test_a_doubtful_reading_is_not_said_to_have_a_notice(caplog):
    log = RejectionLog()
    log("lab", Reject("doubtful", "a", "64.1"))
    log("lab", Reject("faulty", "a", "64.1"))

    doubtful, faulty = caplog.messages
    assert "rejected as doubtful (64.1): the sensor may be faulty" in doubtful
    assert "see its notice" not in doubtful
    assert "the sensor is faulty; see its notice" in faulty


def test_other_commands_are_ignored(caplog):
    RejectionLog()("lab", Record(1, 0.0, "a", "answered", 1.0, None, None, False))

    assert caplog.messages == []


def test_every_reason_of_the_reading_filter_has_a_hint(caplog):
    caplog.set_level(logging.INFO)
    reading_filter, log = (
        ReadingFilter(1, (0.0, 40.0), max_age=60.0, max_future=60.0),
        RejectionLog(),
    )
    reading_filter.accept(0, Reading("a", 20.0, 1000.0, 1000.0))
    readings = [
        Reading("a", 20.0, 1000.0, 1000.0),
        Reading("a", 20.0, 1000.0, 1000.0, retained=True),
        Reading("a", float("nan"), 1000.0, 1000.0),
        Reading("a", 99.0, 1000.0, 1000.0),
        Reading("a", 20.0, 2000.0, 1000.0),
        Reading("a", 20.0, 900.0, 1000.0),
    ]
    reasons = [reading_filter.reject_reason(0, each, None) for each in readings]
    for reason in reasons:
        log("lab", Reject(reason, "a"))

    assert len(caplog.messages) == len(set(reasons)) == 6
    assert not any("health contains the number" in line for line in caplog.messages)


def test_the_hint_of_a_late_reading_covers_a_second_reading_of_an_activated_sensor(caplog):
    RejectionLog()("lab", Reject("late", "a", "21.5"))
    (text,) = caplog.messages
    assert 'With learn_from = "activated", a reading that an activated' in text


def test_every_reason_of_the_payload_formats_has_a_hint():
    """docs/troubleshooting.md lists the reasons with a hint."""
    sources = [path.read_text("utf-8") for path in Path(payloads.__file__).parent.rglob("*.py")]
    reasons = {each for text in sources for each in re.findall(r'PayloadError\(\s*"(.*?)"', text)}

    assert {"missing-value", "wrong-unit"} <= reasons
    assert reasons <= {*WARN_HINTS, *INFO_HINTS}
