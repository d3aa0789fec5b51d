"""Sender: publishes the messages of the outbox in a session."""

import logging
import selectors
import time
from collections.abc import Iterator
from contextlib import closing
from math import inf
from typing import NamedTuple

from paho.mqtt.client import MQTTMessage

from edge_tvbo.messages.formatting import listed
from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.publication import Publication
from edge_tvbo_adapters.mqtt.session import Session

# The limit after a message was too large, as a share of the size of this message. The share is
# below 1, because documents vary in size.
LEARNED_SHARE = 0.9
MAX_USUAL_MESSAGE = 60_000  # bytes; the shipped mosquitto.conf accepts packets of 65536 bytes
MIN_REPEAT_S = 600.0  # shortest time between two warnings about one topic


class Refusal(NamedTuple):
    """A refused message that the sender has logged, and the text of the warning."""

    publication: Publication
    text: str


class Sender:
    """Publishes the messages of an outbox, and logs a warning if the broker refuses one.

    Messages above the broker's limit for the size of packets are not sent. In MQTT 5, the broker
    states the limit. In MQTT 3.1.1, the broker states no limit; it ends the session if a message is
    too large, or if its topic is not allowed. After such sessions, the caller sets a limit with
    `leave_out`.

    Parameters
    ----------
    outbox : Outbox
        The messages, the most urgent first.
    log : Logger
        The logger that receives the warnings.

    Attributes
    ----------
    left_out : dict of str to int
        Topics whose newest retained message is left out, with the size of the message in bytes.
    """

    def __init__(self, outbox: Outbox, log: logging.Logger) -> None:
        self._outbox = outbox
        self._log = log
        # Refused messages since the last accepted one: the topic, and whether they are empty.
        self._refused: set[tuple[str, bool]] = set()
        self._logged_at: dict[tuple[str, bool], float] = {}  # monotonic time of the last warning
        self._documents: dict[str, str] = {}  # topics of refused documents, and the broker's reason
        self._new: list[Refusal] = []
        self._max_size = inf  # limit on all topics, in bytes of a packet, for all sessions
        self._max_sizes: dict[str, int] = {}  # topic: the limit on this topic
        self.left_out: dict[str, int] = {}

    def leave_out(self, publication: Publication) -> None:
        """Make the sender leave out messages that are about as large as `publication` or larger.

        At first, only messages on the same topic are left out, because the reason may be that the
        broker forbids this topic. Large messages on all topics are left out if `publication` is
        larger than `MAX_USUAL_MESSAGE`, or if messages on another topic are left out already.
        """
        topic, limit = publication.topic, int(LEARNED_SHARE * publication.size)
        if publication.size > MAX_USUAL_MESSAGE or self._max_sizes.keys() - {topic}:
            self._max_size = limit
        else:
            self._max_sizes[topic] = limit
        if publication.retained:
            self.left_out[publication.topic] = publication.size

    def leave_nothing_out(self) -> None:
        """Send messages of any size again, up to the limit that the broker states."""
        self._max_size = inf
        self._max_sizes.clear()
        self.left_out.clear()

    def send(self, session: Session) -> None:
        """Send the messages in the outbox, until the socket is full or too many are in flight."""
        if not session.can_send:
            return
        limit = min(session.max_size, self._max_size)
        for each in self._outbox.pop_ready():
            max_size = min(limit, self._max_sizes.get(each.topic, inf))
            if each.size > max_size:
                self._refuse(each, max_size)
                continue
            self.left_out.pop(each.topic, None)
            sent = session.publish(
                each.topic,
                each.payload,
                qos=each.qos,
                retain=each.retained,
                expires_in=each.until - time.monotonic(),
            )
            self._outbox.mark_sent(sent, each)
            self._log.debug("published on %s: %d bytes", each.topic, len(each.payload))
            if not session.can_send:
                return

    def _refuse(self, publication: Publication, max_size: float) -> None:
        """Count a message that the sender cannot send, and log it.

        No further refusal is logged for a topic in `left_out`. `send` removes the topic from
        `left_out` when it sends a smaller message on this topic.
        """
        topic, size = publication.topic, publication.size
        self._outbox.refuse(publication)
        if topic not in self.left_out:
            self._announce(publication, f"{size} bytes; the limit is {max_size:.0f}")
        if publication.retained:
            self.left_out[topic] = size

    def note_refusal(self, publication: Publication, why: str) -> None:
        """Log that the broker has refused a sent message, unless this was logged already."""
        self._announce(publication, why)
        if publication.payload and not publication.activates:
            self._documents[publication.topic] = why

    def note_acceptance(self, topic: str) -> None:
        """Log that the broker has accepted a sent message, if it has refused messages on `topic`.

        A later refusal is logged again, at the earliest `MIN_REPEAT_S` after the last warning.
        """
        if refused := self._refused & {(topic, False), (topic, True)}:
            self._refused -= refused
            self._documents.pop(topic, None)
            self._log.info("the broker accepts messages on %s again", topic)

    def take_new(self) -> list[Refusal]:
        """Return the refusals that the sender has logged since the last call.

        Refusals of empty messages are left out; an empty message clears a retained message.
        """
        taken, self._new = self._new, []
        return taken

    @property
    def problem(self) -> str:
        """Text about the documents that the broker has refused; "" if there are none."""
        topics = listed((f"{topic} ({why})" for topic, why in self._documents.items()), 3)
        return topics and (
            f"the broker refuses messages on {topics}; allow the daemon's login (mqtt.username)"
            " to write to these topics in the broker's ACL, and reload the daemon"
        )

    def _announce(self, publication: Publication, why: str) -> None:
        about, now = (publication.topic, not publication.payload), time.monotonic()
        is_recent = now - self._logged_at.get(about, -inf) < MIN_REPEAT_S
        is_repeat = about in self._refused or is_recent
        self._refused.add(about)
        if is_repeat:
            return
        self._logged_at[about] = now
        text = (
            f"the broker refuses messages on {publication.topic} ({why}); allow the daemon's login"
            " (mqtt.username) to write to this topic in the broker's ACL, or raise its limits"
        )
        self._log.warning(text)
        if publication.payload:
            self._new.append(Refusal(publication, text))

    def drain(self, session: Session, deadline: float) -> Iterator[MQTTMessage]:
        """Send the messages in the outbox until the broker has acknowledged all of them.

        Yields the messages that arrive meanwhile. Returns at the monotonic time `deadline` at the
        latest.
        """
        with closing(selectors.DefaultSelector()) as selector:
            while not self._outbox.empty and session.problem is None:
                left = deadline - time.monotonic()
                interest = session.interest()
                if left <= 0.0 or interest is None:
                    return
                selector.register(*interest)
                mask = sum(mask for _, mask in selector.select(left))
                selector.unregister(interest[0])
                yield from session.service(mask, time.monotonic())
                for identifier in session.take_acknowledged():
                    self._outbox.mark_acked(identifier)
                self.send(session)
