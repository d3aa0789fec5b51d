"""Reconnection: why a broker ends each session soon after its beginning."""

import logging
import socket
from random import Random

import pytest
from edge_tvbo_adapters.mqtt import reconnection
from edge_tvbo_adapters.mqtt.backoff import MIN_SHORT_SESSIONS, SHORT_SESSION_S
from edge_tvbo_adapters.mqtt.connection_problems import ConnectionProblem, ended_by_broker
from edge_tvbo_adapters.mqtt.outage_log import OutageLog
from edge_tvbo_adapters.mqtt.publication import Publication
from edge_tvbo_adapters.mqtt.reconnection import MIN_LARGE_MESSAGE, Reconnection
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.mqtt_settings import Mqtt

LARGE = Publication("posterior", b"a" * 70_000, retained=True)
OTHER = Publication("discovery", b"a" * 80_000, retained=True)
SMALL = Publication("selected", b"a", retained=True)


class Sender:
    """The topics that the reconnection leaves out."""

    def __init__(self):
        self.left_out = []

    def leave_out(self, publication):
        self.left_out.append(publication.topic)

    def leave_nothing_out(self):
        self.left_out.clear()


class Probe:
    """A probe of a broker that accepts, or does not accept, the connection."""

    outcome = None

    def __init__(self, start, discard):
        pass

    def result(self):
        return self.outcome or socket.socket()


class Sessions:
    """Sessions that end one after the other."""

    def __init__(self):
        self.sender = Sender()
        outage = OutageLog(logging.getLogger("edge_tvbo"), "broker")
        self.reconnection = Reconnection(Mqtt(), "id", Random(0), outage, self.sender)

    def end(self, *unacknowledged, lasted=1.0, by_broker=True, problem=ConnectionProblem("closed")):
        self.reconnection.session_ended(problem, lasted, 0.0, unacknowledged, by_broker=by_broker)
        self.reconnection.is_due(0.0)

    def end_early(self, *unacknowledged):
        for _ in range(MIN_SHORT_SESSIONS):
            self.end(*unacknowledged)


@pytest.fixture
def sessions(monkeypatch):
    monkeypatch.setattr(reconnection, "Attempt", Probe)
    return Sessions()


def codes(caplog):
    return [line[line.rindex("[") :] for line in caplog.messages if "ends every session" in line]


def test_a_large_message_that_ends_each_session_is_left_out(sessions, caplog):
    sessions.end_early(SMALL, LARGE)
    assert sessions.sender.left_out == ["posterior"]
    assert codes(caplog) == ["[E400]"]
    sessions.end(lasted=SHORT_SESSION_S)
    assert sessions.sender.left_out == ["posterior"]


@pytest.mark.parametrize("size", [MIN_LARGE_MESSAGE, 20_000])
def test_a_message_below_the_usual_limits_that_ends_each_session_is_left_out(
    sessions, caplog, size
):
    medium = Publication("posterior", b"a" * size, retained=True)
    sessions.end_early(SMALL, medium)
    assert sessions.sender.left_out == ["posterior"]
    assert codes(caplog) == ["[E400]"]
    (line,) = [each for each in caplog.messages if "ends every session" in each]
    assert "max_packet_size" in line and "allow the topic in its ACL" in line


def test_a_small_message_that_ends_each_session_is_named_beside_a_second_client(sessions, caplog):
    """It cannot be too large, but its topic may be forbidden."""
    sessions.end_early(SMALL)
    assert sessions.sender.left_out == []
    assert codes(caplog) == ["[E405]"]
    assert "the message on selected, which the broker did not acknowledge in any" in caplog.text


def test_without_such_a_message_only_a_second_client_is_named(sessions, caplog):
    sessions.end(SMALL)
    sessions.end()
    sessions.end(SMALL)
    assert codes(caplog) == ["[E405]"]
    assert "did not acknowledge" not in caplog.text


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Administrative action", "[E400]"),
        ("Not authorized", "[E413]"),
        ("Session taken over", "[E405]"),
        ("Unspecified error", "[E405]"),
    ],
)
def test_a_reason_that_the_broker_states_is_logged_instead_of_a_second_client(
    sessions, caplog, reason, code
):
    stated = ReasonCode(PacketTypes.DISCONNECT, reason)
    problem = ended_by_broker(stated, reason, "id")
    for _ in range(MIN_SHORT_SESSIONS):
        sessions.end(SMALL, problem=problem)
    (line,) = [each for each in caplog.messages if "ends every session" in each]
    assert line.endswith(code)
    assert (reason in line) is (code != "[E405]")


def test_after_a_short_session_messages_are_sent_one_at_a_time(sessions):
    assert not sessions.reconnection.sends_singly
    assert list(sessions.reconnection.suspected_topics) == []
    sessions.end(SMALL, LARGE)
    assert sessions.reconnection.sends_singly
    assert set(sessions.reconnection.suspected_topics) == {SMALL.topic, LARGE.topic}
    sessions.end(LARGE, lasted=SHORT_SESSION_S)
    assert not sessions.reconnection.sends_singly
    assert list(sessions.reconnection.suspected_topics) == []


def test_a_large_message_that_was_acknowledged_in_a_short_session_is_not_left_out(sessions, caplog):
    sessions.end(SMALL, LARGE)
    sessions.end(SMALL, OTHER)
    sessions.end(SMALL, LARGE)
    assert sessions.sender.left_out == []
    assert codes(caplog) == ["[E405]"]


@pytest.mark.parametrize("end", ["lasts", "cut", "broker stops", "broker stops at once"])
def test_a_message_left_out_without_success_is_published_when_no_session_ends_early_any_more(
    sessions, caplog, monkeypatch, end
):
    sessions.end_early(SMALL, LARGE)
    sessions.end_early(SMALL)
    assert codes(caplog) == ["[E400]", "[E405]"]
    assert sessions.sender.left_out == ["posterior"]  # so that it is not the cause later

    if end == "lasts":
        assert sessions.reconnection.confirm_client_id(SHORT_SESSION_S)
    elif end == "cut":
        sessions.end(by_broker=False)
    elif end == "broker stops":
        refused = ConnectionProblem("refused")
        sessions.reconnection.attempt_failed(refused, 0.0, was_reached=False)
    else:
        monkeypatch.setattr(Probe, "outcome", ConnectionRefusedError())
        sessions.end(SMALL)
    assert sessions.sender.left_out == []


def test_a_message_that_is_too_large_is_left_out_again_after_another_cause(sessions):
    for _ in range(2):
        sessions.end_early(LARGE)
        sessions.end_early(SMALL)
        assert sessions.reconnection.confirm_client_id(SHORT_SESSION_S)
        assert sessions.sender.left_out == []
        sessions.end(LARGE, lasted=SHORT_SESSION_S)
        sessions.end_early(LARGE)
        sessions.end(lasted=SHORT_SESSION_S)
        assert sessions.sender.left_out == ["posterior"]
