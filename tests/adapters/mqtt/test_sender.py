"""Sender: which messages are left out because of their size, and which refusals are reported."""

import logging

from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.publication import Publication
from edge_tvbo_adapters.mqtt.sender import Sender


class AnySize:
    """A session with a broker that does not state its limit."""

    max_size, can_send = float("inf"), True

    def __init__(self):
        self.sizes = {}

    def publish(self, topic, payload, **settings):
        self.sizes[topic] = len(payload)
        return len(self.sizes)


def sizes_sent(outbox, sender, **sizes):
    """Return the documents that the sender sends, of those with the given sizes in bytes."""
    session = AnySize()
    for topic, size in sizes.items():
        outbox.state(topic, b"a" * size)
    sender.send(session)
    return session.sizes


def test_a_document_that_is_a_bit_smaller_than_the_one_that_ended_the_sessions_is_left_out():
    outbox = Outbox()
    sender = Sender(outbox, logging.getLogger())
    outbox.begin()
    outbox.state("posterior", b"a" * 70_000)
    (too_large,) = outbox.pop_ready()
    sender.leave_out(too_large)
    assert sizes_sent(outbox, sender, posterior=69_980, other=62_000) == {"other": 62_000}
    assert list(sender.left_out) == ["posterior"]

    sender.leave_nothing_out()
    assert sizes_sent(outbox, sender, posterior=69_980) == {"posterior": 69_980}
    assert sender.left_out == {}


def learned(sender, topic, size):
    """Let the sender leave out a message on `topic`, because of which the sessions end."""
    sender.leave_out(Publication(topic, b"a" * size, retained=True))


def test_a_topic_that_the_broker_forbids_does_not_stop_larger_messages_on_other_topics():
    outbox = Outbox()
    sender = Sender(outbox, logging.getLogger())
    outbox.begin()
    learned(sender, "posterior", 70_000)  # whatever the topic, this is too large for most brokers
    learned(sender, "profile", 1200)
    sizes = {"profile": 1200, "selected": 1300, "health": 3000}
    assert sizes_sent(outbox, sender, **sizes) == {"selected": 1300, "health": 3000}
    assert set(sender.left_out) == {"posterior", "profile"}
    learned(sender, "profile", 1050)  # a smaller document on the topic is forbidden, too
    assert sizes_sent(outbox, sender, profile=1000, selected=1300) == {"selected": 1300}

    sender.leave_nothing_out()
    assert sizes_sent(outbox, sender, profile=1200) == {"profile": 1200}


def test_the_size_is_the_limit_after_a_second_topic_has_ended_the_sessions():
    outbox = Outbox()
    sender = Sender(outbox, logging.getLogger())
    outbox.begin()
    learned(sender, "posterior", 12_000)
    learned(sender, "selected", 7000)
    sizes = {"hotspot": 6990, "alert": 6000, "posterior": 10_000}
    assert sizes_sent(outbox, sender, **sizes) == {"alert": 6000}
    assert set(sender.left_out) == {"posterior", "selected", "hotspot"}


def test_a_topic_that_is_refused_now_and_then_is_reported_once_in_some_time(monkeypatch, caplog):
    sender = Sender(Outbox(), logging.getLogger())
    refused = Publication("health", b"{}", retained=True)

    def number_of_reports():
        for _ in range(3):
            sender.note_refusal(refused, "Quota exceeded")
            assert "health (Quota exceeded)" in sender.problem
            sender.note_acceptance("health")
            assert sender.problem == ""
        reported, warnings = len(sender.take_new()), len(caplog.messages)
        caplog.clear()
        assert reported == warnings
        return reported

    assert (number_of_reports(), number_of_reports()) == (1, 0)
    monkeypatch.setattr("edge_tvbo_adapters.mqtt.sender.MIN_REPEAT_S", 0.0)
    assert number_of_reports() == 3


def test_each_sent_message_is_logged_at_debug_level_without_its_payload(caplog):
    outbox = Outbox()
    sender = Sender(outbox, logging.getLogger("test"))
    outbox.begin()
    caplog.set_level(logging.INFO)
    sizes_sent(outbox, sender, health=3)
    assert caplog.messages == []
    caplog.set_level(logging.DEBUG)
    sizes_sent(outbox, sender, posterior=20)
    assert caplog.messages == ["published on posterior: 20 bytes"]
