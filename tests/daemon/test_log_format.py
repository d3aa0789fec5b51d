"""Log format: one line a record whatever it contains, repeats suppressed, text or JSON."""

import io
import json
import logging
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.daemon import log_format
from edge_tvbo.daemon.log_format import (
    MAX_TEXTS,
    REPEAT_PERIOD_S,
    JournaldFormatter,
    JsonFormatter,
    RepeatFilter,
    TextFormatter,
)


class Collector(logging.Handler):
    """Collects the texts that reach it."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


class Log:
    """A logger with a repeat filter, and a clock moved by hand."""

    def __init__(self):
        self.now = 0.0
        self.collector = Collector()
        self.filter = RepeatFilter(clock=lambda: self.now)
        self.collector.addFilter(self.filter)
        self.log = logging.Logger("test")
        self.log.addHandler(self.collector)

    @property
    def texts(self):
        return self.collector.texts


# --- repeats --------------------------------------------------------------------------------------


def test_a_repeated_text_is_logged_once_a_minute_with_the_count():
    log = Log()
    for i in range(38):
        log.now = i * 0.1
        log.log.error("the disk of %s is full", "lab")
    assert log.texts == ["the disk of lab is full"]

    log.now = REPEAT_PERIOD_S + 1
    log.log.error("the disk of %s is full", "lab")
    assert log.texts[1:] == ["the disk of lab is full (repeated 37 times)"]


def test_an_occasional_text_is_logged_each_time():
    log = Log()
    for i in range(10):
        log.now = i * REPEAT_PERIOD_S
        log.log.error("the disk is full")

    assert log.texts == ["the disk is full"] * 10


def test_two_alternating_texts_are_each_logged_once():
    log = Log()
    for i in range(1000):
        log.log.error("a" if i % 2 else "b")

    assert log.texts == ["b", "a"]


def test_the_same_text_at_another_level_is_logged():
    log = Log()
    log.log.error("x")
    log.log.warning("x")

    assert log.texts == ["x", "x"]


def test_each_change_of_decision_is_a_line():
    log = Log()
    for i in range(1000):
        log.now = i * 10.0
        log.log.info("%s: %s", "heat", f"mote-{i % 7}: {20 + i} °C")

    assert len(log.texts) == 1000


def test_the_number_of_remembered_texts_is_bounded():
    log = Log()
    for i in range(10 * MAX_TEXTS):
        log.log.warning(f"text {i}")

    assert len(log.filter._seen) == MAX_TEXTS
    assert len(log.texts) == 10 * MAX_TEXTS


# --- lines ----------------------------------------------------------------------------------------


def record(message, level=logging.WARNING, **more):
    made = logging.LogRecord("edge_tvbo.x", level, "", 0, message, (), None)
    made.created = 1078646400.25
    made.__dict__.update(more)
    return made


def test_text_has_time_level_and_message():
    assert TextFormatter().format(record("heat: a")) == "2004-03-07T08:00:00.250Z WARNING heat: a"


def test_journald_receives_the_urgency_and_not_the_time():
    assert JournaldFormatter().format(record("heat: a")) == "<4>heat: a"
    assert JournaldFormatter().format(record("heat: a", logging.ERROR)) == "<3>heat: a"


def test_json_has_the_same_and_the_traceback():
    try:
        raise ValueError("no")
    except ValueError:
        made = record("heat: a", exc_info=sys.exc_info())
    document = json.loads(JsonFormatter().format(made))

    assert document["at"] == "2004-03-07T08:00:00.250Z"
    assert (document["level"], document["logger"]) == ("warning", "edge_tvbo.x")
    assert document["message"] == "heat: a"
    assert document["error"].endswith("ValueError: no")


@given(st.text(st.characters()) | st.text("\x00\x1b[2J\r\n\u2028\ud800\x7f"))
def test_a_record_is_one_line_without_control_characters(message):
    for form in (TextFormatter(), JournaldFormatter(), JsonFormatter()):
        line = form.format(record(message))

        assert len(line.splitlines()) == 1
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in line)
    found = json.loads(JsonFormatter().format(record(message)))["message"]
    assert found == message.encode(errors="replace").decode()


def test_the_journal_is_known_by_its_device_and_inode(tmp_path):
    with (tmp_path / "x").open("w") as stream:
        found = os.fstat(stream.fileno())
        ours = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}

        assert isinstance(log_format.formatter("text", ours, stream), JournaldFormatter)
        assert isinstance(
            log_format.formatter("text", {"JOURNAL_STREAM": "8:9"}, stream), TextFormatter
        )
        assert isinstance(log_format.formatter("json", ours, stream), JsonFormatter)
    assert isinstance(log_format.formatter("text", ours, io.StringIO()), TextFormatter)


@pytest.fixture
def root():
    """Put the root logger back as it was in the end."""
    log = logging.getLogger()
    handlers, level = list(log.handlers), log.level
    yield log
    log.handlers[:] = handlers
    log.setLevel(level)


@pytest.mark.parametrize("verbose", [False, True])
def test_it_writes_to_the_stream_it_is_given(root, verbose):
    root.handlers[:] = []
    stream = io.StringIO()
    log_format.start("json", verbose=verbose, stream=stream)
    logging.getLogger("edge_tvbo.x").info("hello")
    logging.getLogger("edge_tvbo.x").debug("detail")

    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert messages == (["hello", "detail"] if verbose else ["hello"])
