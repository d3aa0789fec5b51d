"""Second daemon: another process that publishes the health of the same instance."""

import json
from operator import itemgetter

import pytest
from edge_tvbo_adapters.mqtt.second_daemon import (
    GONE_PERIODS,
    MAX_DOCUMENT,
    MAX_PROCESSES,
    MIN_APART_S,
    MIN_GONE_S,
    TOLERANCE_S,
    ProcessKeys,
    SecondDaemon,
)
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import MQTTMessage

TOPIC = "edge_tvbo/lab/health"
OURS, OTHER = "0f0f0f0f", "12345678"
BEGAN = 1000.0  # monotonic


class Detector:
    """A detector of `OURS`, and the changes that it has reported."""

    def __init__(self, period=60.0):
        self.second = SecondDaemon("lab", OURS, period)
        self.second.begin(BEGAN)
        self.changes = []

    def receive(self, now, uptime_s, process=OTHER):
        self.turn(now)
        self.second.add(ProcessKeys(int(uptime_s), "0.2.0", process), now)
        self.turn(now)

    def turn(self, now):
        if self.second.take_change(now):
            self.changes.append(bool(self.second.text))


def message(document, topic=TOPIC, *, retained=False):
    made = MQTTMessage(topic=topic.encode() if isinstance(topic, str) else topic)
    made.payload = document if isinstance(document, bytes) else json.dumps(document).encode()
    made.retain = retained
    return made


def test_two_documents_of_another_process_at_its_pace_show_a_second_daemon():
    detector = Detector()
    detector.receive(BEGAN, 5000)
    assert detector.changes == []
    detector.receive(BEGAN + 60, 5060)
    assert detector.changes == [True]
    text = detector.second.text
    assert "'lab'" in text and "0.2.0" in text
    assert "stop one of the two daemons, or set another `instance`" in text


def test_own_documents_do_not_count_however_often_they_arrive():
    detector = Detector()
    for now in range(0, 600, 30):
        for _ in range(3):  # by a bridge that echoes
            detector.receive(BEGAN + now, now, OURS)
    assert detector.changes == []


def test_a_daemon_of_an_earlier_version_without_an_id_counts():
    detector = Detector()
    detector.receive(BEGAN, 5000, "")
    detector.receive(BEGAN + 60, 5060, "")
    assert detector.changes == [True]


def test_documents_that_follow_one_another_closely_do_not_count_yet():
    """The broker may deliver the last documents of the process before a restart."""
    detector = Detector()
    for second in range(int(MIN_APART_S)):
        detector.receive(BEGAN + second, 5000 + second)
    assert detector.changes == []
    detector.receive(BEGAN + MIN_APART_S, 5000 + MIN_APART_S)
    assert detector.changes == [True]


def test_a_document_that_the_broker_retained_does_not_count():
    detector = Detector()
    for now in (0.0, 60.0):
        document = {"uptime_s": int(now), "version": "0.2.0", "process": OTHER}
        assert detector.second.put(message(document, retained=True), BEGAN + now)
    detector.turn(BEGAN + 60)
    assert detector.changes == []


def test_a_message_on_another_topic_is_left_to_other_receivers():
    second = SecondDaemon("lab", OURS, 60.0)
    assert not second.put(message({}, "edge_tvbo/lab2/health"), BEGAN)
    assert not second.put(message({}, b"edge_tvbo/lab/\xff"), BEGAN)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"online",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"uptime_s": 1e400, "version": "0.2.0"}',
        b'{"uptime_s": -1, "version": "0.2.0"}',
        b'{"uptime_s": 1, "version": "\\u001b[2J"}',
        b'{"uptime_s": 1, "version": "0.2.0", "process": "' + b"a" * 100 + b'"}',
        b'{"uptime_s": 1, "version": "0.2.0"}' + b" " * MAX_DOCUMENT,
    ],
)
def test_a_message_that_is_no_health_document_is_ignored(payload):
    detector = Detector()
    assert detector.second.put(message(payload), BEGAN)
    assert detector.second._received == {}


def test_a_flood_of_processes_takes_bounded_memory():
    detector = Detector()
    for number in range(1000):
        detector.receive(BEGAN + number, 5000, str(number))
    assert len(detector.second._received) == MAX_PROCESSES
    assert detector.changes == []


@given(
    uptimes=st.lists(st.integers(0, 10**6), min_size=1, max_size=20).map(sorted),
    deliveries=st.lists(st.floats(0.0, 3600.0), min_size=1, max_size=20).map(sorted),
    duration=st.floats(0.0, MIN_APART_S - 1.0),
)
def test_old_documents_that_arrive_together_show_no_second_daemon(uptimes, deliveries, duration):
    """A bridge delivers what it stored of an earlier process, once or at each reconnection."""
    detector = Detector()
    for at in deliveries:
        for index, uptime in enumerate(uptimes):
            detector.receive(BEGAN + at + duration * index / len(uptimes), uptime)
    assert detector.changes == []


@given(
    period=st.floats(1.0, 300.0),
    decisions=st.lists(st.floats(0.0, 3600.0), max_size=60),
    delays=st.lists(st.floats(0.0, TOLERANCE_S - 1.0), min_size=1, max_size=10),
    uptime=st.floats(0.0, 1e6),
)
def test_a_second_daemon_is_found_once_and_clears_once(period, decisions, delays, uptime):
    """Its documents arrive in each period and after its decisions, each with a delay."""
    detector = Detector(period=300.0)
    sent = [*(period * number for number in range(int(3600 / period))), *decisions]
    arrivals = [(at + delays[index % len(delays)], at) for index, at in enumerate(sent)]
    turns = [(float(second), None) for second in range(0, 3600, 60)]
    for now, at in sorted(arrivals + turns, key=itemgetter(0)):
        if at is None:
            detector.turn(BEGAN + now)
        else:
            detector.receive(BEGAN + now, uptime + at)
    assert detector.changes == [True]
    detector.turn(BEGAN + 3600 + 2 * GONE_PERIODS * 300.0)
    assert detector.changes == [True, False]


def test_a_second_daemon_has_stopped_when_its_documents_are_missing():
    detector = Detector()
    for now in range(0, 600, 60):
        detector.receive(BEGAN + now, now)
    detector.turn(BEGAN + 540 + MIN_GONE_S)
    assert detector.changes == [True]
    detector.turn(BEGAN + 541 + MIN_GONE_S)
    assert detector.changes == [True, False]
    assert detector.second.text == ""


def test_a_repeated_document_does_not_hide_that_the_second_daemon_has_stopped():
    """A bridge repeats the last documents."""
    detector = Detector()
    for now in (0, 60, 120):
        detector.receive(BEGAN + now, now)
    for now in range(150, 600, 30):
        detector.receive(BEGAN + now, 60)
        detector.receive(BEGAN + now, 120)
    assert detector.changes == [True, False]


def test_rare_documents_of_the_second_daemon_do_not_change_the_report_again_and_again():
    """It publishes more rarely than this daemon, after a time with many decisions."""
    detector = Detector(period=60.0)
    for now in range(0, 300, 30):
        detector.receive(BEGAN + now, now)
    for now in range(1000, 100_000, 1000):
        detector.receive(BEGAN + now, now)
    assert detector.changes == [True, False, True, False, True]  # two gaps show that it is rare


def test_after_an_outage_of_the_second_daemon_its_end_is_noticed_as_soon_as_before():
    detector = Detector()
    outage_s = 36_000
    for now in (0, 60, 120, outage_s, outage_s + 60):
        detector.receive(BEGAN + now, now)
    assert detector.changes == [True, False, True]
    detector.turn(BEGAN + outage_s + 61 + MIN_GONE_S)
    assert detector.changes == [True, False, True, False]


def test_a_second_daemon_is_still_known_with_another_period_of_the_health():
    """A reload hands a copy of the detector over to the next link."""
    detector = Detector()
    for now in (0, 60):
        detector.receive(BEGAN + now, now)
    detector.turn(BEGAN + 60)
    detector.second = detector.second.with_period(300.0)
    detector.turn(BEGAN + 60 + GONE_PERIODS * 300.0)
    assert detector.changes == [True]
    detector.turn(BEGAN + 61 + GONE_PERIODS * 300.0)
    assert detector.changes == [True, False]


def test_what_a_lost_connection_hides_is_not_the_end_of_the_second_daemon():
    detector = Detector()
    detector.receive(BEGAN, 0)
    detector.receive(BEGAN + 60, 60)
    detector.second.begin(BEGAN + 5000)
    detector.turn(BEGAN + 5000)
    detector.receive(BEGAN + 5050, 5050)
    detector.receive(BEGAN + 5110, 5110)
    detector.turn(BEGAN + 5110 + MIN_GONE_S)
    assert detector.changes == [True]
    detector.turn(BEGAN + 5111 + MIN_GONE_S)
    assert detector.changes == [True, False]


def test_a_second_daemon_is_found_though_each_session_is_short():
    detector = Detector()
    for now in range(0, 300, 60):
        detector.second.begin(BEGAN + now)
        detector.receive(BEGAN + now + 1, now)
    assert detector.changes == [True]


def test_a_restart_of_the_second_daemon_is_not_its_end():
    detector = Detector()
    for now in (0, 60, 120):
        detector.receive(BEGAN + now, now, "first")
    for now in (150, 210, 270):
        detector.receive(BEGAN + now, now - 150, "again")
    assert detector.changes == [True]
