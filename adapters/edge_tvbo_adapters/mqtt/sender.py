"""Sender: publishes the messages of the outbox in a session."""

import logging
import selectors
import time
from contextlib import closing

from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.session import Session

PACKET_OVERHEAD = 16  # bytes of a PUBLISH packet in addition to its topic and payload


class Sender:
    """Publishes the messages of an outbox, and logs a warning if the broker refuses one.

    Parameters
    ----------
    outbox : Outbox
        The messages, the most urgent first.
    log : Logger
        The logger that receives the warnings.
    """

    def __init__(self, outbox: Outbox, log: logging.Logger) -> None:
        self._outbox = outbox
        self._log = log
        self._refused_topics: set[str] = set()  # topics whose refusal was logged in this session

    def begin(self) -> None:
        """Begin a session, in which the sender logs refused messages only once for each topic."""
        self._refused_topics.clear()

    def send(self, session: Session) -> None:
        """Send the messages in the outbox, until the socket or the in-flight window is full."""
        if not session.can_send:
            return
        for each in self._outbox.pop_ready():
            size = PACKET_OVERHEAD + len(each.topic.encode()) + len(each.payload)
            if size > session.max_size:
                self._outbox.refuse(each)
                self.warn_of_refusal(each.topic, f"{size} of {session.max_size:.0f} bytes")
                continue
            sent = session.publish(
                each.topic,
                each.payload,
                qos=each.qos,
                retain=each.retained,
                expires_in=each.until - time.monotonic(),
            )
            self._outbox.mark_sent(sent, each)
            if not session.can_send:
                return

    def warn_of_refusal(self, topic: str, why: str) -> None:
        """Log, once for each topic in a session, that the sender's messages are refused."""
        if topic not in self._refused_topics:
            self._refused_topics.add(topic)
            text = "the broker refuses messages on %s (%s); allow them in its ACL or its limits"
            self._log.warning(text, topic, why)

    def drain(self, session: Session, deadline: float) -> None:
        """Send the messages in the outbox until the broker has acknowledged all of them.

        Returns at the monotonic time `deadline` at the latest.
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
                for _ in session.service(mask, time.monotonic()):
                    pass  # it is too late to handle a reading
                for identifier in session.take_acknowledged():
                    self._outbox.mark_acked(identifier)
                self.send(session)
