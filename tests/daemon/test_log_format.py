"""Log format: one line a record whatever it contains, repeats suppressed, text or JSON."""

import io
import json
import logging
import os
import re
import sys
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.config.settings import LogLevels
from edge_tvbo.daemon import log_format
from edge_tvbo.daemon.log_format import (
    AREAS,
    MAX_TEXTS,
    PACKAGES,
    RECOVERIES,
    REPEAT_PERIOD_S,
    SIGNAL_REPLIES,
    JournaldFormatter,
    JsonFormatter,
    RepeatFilter,
    TextFormatter,
    set_levels,
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

    def __init__(self, name="test"):
        self.now = 0.0
        self.collector = Collector()
        self.filter = RepeatFilter(clock=lambda: self.now)
        self.collector.addFilter(self.filter)
        self.log = logging.Logger(name)
        self.log.addHandler(self.collector)

    @property
    def texts(self):
        return self.collector.texts


# --- repeats --------------------------------------------------------------------------------------


def test_the_end_of_a_problem_is_logged_after_each_logged_problem():
    log = Log("edge_tvbo_adapters.mqtt.link")
    for text in ("no reply", "connected", "no reply", "connected", "refused", "connected"):
        log.now += 5.0
        (log.log.info if text == "connected" else log.log.error)("%s", text)
    expected = ["no reply", "connected", "refused", "connected (repeated once)"]
    assert log.texts == expected


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


def test_each_debug_text_is_logged_and_replaces_no_remembered_text():
    log = Log()
    log.log.error("the disk is full")
    for i in range(10 * MAX_TEXTS):
        log.log.debug("received on lab/a: 2 bytes")
        log.log.debug("received on lab/b: %d bytes", i)
    log.log.error("the disk is full")

    assert log.texts.count("received on lab/a: 2 bytes") == 10 * MAX_TEXTS
    assert log.texts.count("the disk is full") == 1


# --- lines ----------------------------------------------------------------------------------------


def record(message, level=logging.WARNING, **more):
    made = logging.LogRecord("edge_tvbo.x", level, "", 0, message, (), None)
    made.created = 1078646400.25
    made.__dict__.update(more)
    return made


def test_text_has_time_level_and_message():
    assert TextFormatter().format(record("heat: a")) == "2004-03-07T08:00:00.250Z WARNING heat: a"


def test_a_time_of_a_whole_second_has_milliseconds_as_well():
    made = record("stopped")
    made.created = 1078646400.0001
    assert TextFormatter().format(made) == "2004-03-07T08:00:00.000Z WARNING stopped"
    assert json.loads(JsonFormatter().format(made))["at"] == "2004-03-07T08:00:00.000Z"


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
def logged(root):
    """Return a function that returns the texts that were logged since the log was started."""
    root.handlers[:] = []
    stream = io.StringIO()
    log_format.start("json", stream=stream)
    return lambda: [json.loads(line)["message"] for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("level", ["info", "debug"])
def test_it_writes_to_the_stream_it_is_given(logged, level):
    set_levels(LogLevels(level=level))
    logging.getLogger("edge_tvbo.x").info("hello")
    logging.getLogger("edge_tvbo.x").debug("detail")
    assert logged() == (["hello", "detail"] if level == "debug" else ["hello"])


# --- levels ---------------------------------------------------------------------------------------


def test_each_area_of_the_settings_has_existing_loggers():
    assert {"level", *AREAS} == set(LogLevels.__struct_fields__)
    for name in (*PACKAGES, *SIGNAL_REPLIES, *RECOVERIES, *chain(*AREAS.values())):
        assert find_spec(name), name


def test_all_texts_about_the_state_are_in_its_area():
    modules = Path(log_format.__file__).parent.glob("*.py")
    about = [each.stem for each in modules if re.search(r'log\.\w+\(\s*"state: ', each.read_text())]
    assert "checkpoints" in about
    assert {f"edge_tvbo.daemon.{each}" for each in about} <= {*AREAS["state"]}


@pytest.mark.parametrize("area", AREAS)
def test_an_area_has_its_own_level_and_the_others_have_the_common_one(logged, area):
    set_levels(LogLevels(level="error", **{area: "debug"}))
    for each, names in AREAS.items():
        for name in names:
            logging.getLogger(name).debug("%s: debug", name)
            logging.getLogger(f"{name}.part").info("%s: info", each)
            logging.getLogger(name).error("%s: error", name)
    logging.getLogger("edge_tvbo.daemon.app").info("stopped")
    own = AREAS[area]
    assert set(logged()) == {
        *(f"{name}: error" for name in chain(*AREAS.values())),
        *(f"{name}: debug" for name in own),
        f"{area}: info",
    }


def test_an_area_without_a_level_returns_to_the_common_one(logged):
    set_levels(LogLevels(mqtt="debug"))
    set_levels(LogLevels())
    link = logging.getLogger("edge_tvbo_adapters.mqtt.link")
    link.debug("detail")
    link.info("connected")
    assert logged() == ["connected"]


def test_replies_to_signals_are_logged_with_every_level(logged):
    for level in ("debug", "error"):
        set_levels(LogLevels(level=level))
        for name in SIGNAL_REPLIES:
            logging.getLogger(name).info("%s: %s", level, name)
            logging.getLogger(name).debug("%s: detail", level)
    assert logged() == [
        *chain.from_iterable((f"debug: {name}", "debug: detail") for name in SIGNAL_REPLIES),
        *(f"error: {name}" for name in SIGNAL_REPLIES),
    ]


def test_the_debug_level_does_not_show_the_debugging_of_other_packages(logged):
    """At debug level, numba logs dozens of lines for each kernel that it compiles."""
    set_levels(LogLevels(level="debug"))
    logging.getLogger("numba.core.ssa").debug("on stmt")
    assert logged() == []
