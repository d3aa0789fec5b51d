"""MQTT link: the daemon's permanent connection to its broker.

    DISCONNECTED ──(the wait is over)──▶ a `Session`: CONNECTING ─▶ AWAITING_CONNACK ─▶ CONNECTED

When a session fails or ends, the link is DISCONNECTED again. Every attempt to connect starts a new,
clean session, so the broker queues nothing for the daemon while it is disconnected: queued readings
would be too old to use, and a command that arrives late is worse than a command that is lost. A
reading is acknowledged only after the daemon's loop has handled it, so that the broker does not
send readings faster than the daemon handles them.
"""

import logging
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from math import inf
from random import Random
from typing import TYPE_CHECKING

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.field_types import is_loopback
from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.documents import (
    Alert,
    Health,
    Hotspot,
    Notice,
    PublishedPosterior,
    Request,
    Response,
    Verb,
)
from edge_tvbo.messages.events import ActivationUndelivered, Event, Unreadable
from edge_tvbo_adapters.mqtt.backoff import SHORT_SESSION_S, Backoff
from edge_tvbo_adapters.mqtt.commands import Commands, Rejection
from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S, Attempt, open_socket
from edge_tvbo_adapters.mqtt.outage_log import OutageLog
from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.problems import ConnectionProblem, no_acknowledgement, not_connected
from edge_tvbo_adapters.mqtt.publisher import DOCUMENTS, Publisher
from edge_tvbo_adapters.mqtt.session import Session, State
from edge_tvbo_adapters.mqtt.subscriber import Subscriber
from edge_tvbo_adapters.mqtt.topics import MAX_TOPIC_LENGTH, default_client_id

if TYPE_CHECKING:
    from edge_tvbo_adapters.homeassistant.discovery import Discovery

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 1.0  # to send the last messages
MAX_SILENCE_FACTOR = 8  # limit of silence / mqtt.silence; it doubles after each useless reconnect
SUBSCRIBE_AGAIN_S = 60.0  # from a refused subscription to the next attempt
PACKET_OVERHEAD = 16  # bytes of a PUBLISH packet in addition to its topic and payload


def connect(
    mqtt: Mqtt,
    instance: str,
    fields: Mapping[str, FieldSettings],
    *,
    commands: bool = False,
    discovery: "Discovery | None" = None,
    former: Mapping[str, FieldSettings] | None = None,
    seed: int | None = None,
    wall: Callable[[], float] = time.time,
) -> "MqttLink":
    """Return the MQTT link of `fields`; it connects when `service` is first called.

    Parameters
    ----------
    mqtt : Mqtt
        The broker and the login.
    instance : str
        The daemon's name, which is part of its topics.
    fields : mapping
        The settings of each field.
    commands : bool
        Whether the link subscribes to ``cmd/<verb>``.
    discovery : Discovery, optional
        Schedules the discovery message of Home Assistant; None to publish none.
    former : mapping, optional
        The fields of the earlier link, which this link replaces after a reload.
    seed : int, optional
        The seed of the random waits between attempts. By default, each gateway draws its own seed,
        so that the gateways of a fleet do not reconnect at the same moment.
    wall : callable
        Returns the present time, s since 1970; it is the time of arrival of a reading.
    """
    if mqtt.password is not None and mqtt.tls is None and not is_loopback(mqtt.host):
        log.warning(
            "broker %s:%d: the password is sent over the network unencrypted; add [mqtt.tls]",
            mqtt.host,
            mqtt.port,
        )
    return MqttLink(
        mqtt,
        instance,
        fields,
        Random(int.from_bytes(os.urandom(8)) if seed is None else seed),
        wall,
        Commands(f"edge_tvbo/{instance}") if commands else None,
        discovery,
        former or {},
    )


class MqttLink:
    """The daemon's link to one broker; `connect` describes the parameters."""

    def __init__(
        self,
        mqtt: Mqtt,
        instance: str,
        fields: Mapping[str, FieldSettings],
        rng: Random,
        wall: Callable[[], float],
        commands: Commands | None,
        discovery: "Discovery | None",
        former: Mapping[str, FieldSettings],
    ) -> None:
        self._mqtt = mqtt
        self._fields = dict(fields)
        self._wall = wall
        self._base = f"edge_tvbo/{instance}"
        self._client_id = mqtt.client_id or default_client_id(instance)
        self._commands = commands
        self._discovery = discovery
        others = [each.put for each in (commands, discovery) if each is not None]
        self._subscriber = Subscriber(fields, others)
        documents = {f"{self._base}/{field}/{level}" for field in fields for level in DOCUMENTS}
        self._outbox = Outbox(described=documents)
        self._publisher = Publisher(self._base, fields, self._outbox)
        self._backoff = Backoff(mqtt.reconnect.min, mqtt.reconnect.max, rng)
        self._outage = OutageLog(log, f"broker {mqtt.host}:{mqtt.port}")
        self._session: Session | None = None
        self._probe: Attempt[socket.socket] | None = (
            None  # tests if the broker still accepts TCP connections
        )
        self._address: str | None = None  # of the broker, when it was last reached
        self._version: str = mqtt.version  # of MQTT, in the last session
        self._refused_topics: set[str] = set()  # whose refusal this session has logged
        self._retry_at = 0.0  # all times are monotonic
        self._begun_at: float | None = None  # when the broker accepted the session
        self._online = False  # whether the broker has granted the subscriptions
        self._last_packet_at = 0.0  # time of the last packet of any kind, even a PINGRESP
        self._last_message_at = 0.0
        self._granted_by = inf  # when a SUBACK is overdue
        self._subscribe_at = inf  # when a refused subscription is tried again
        self._silence_limit = mqtt.silence or inf  # s without a message
        self._expects_readings = True
        self._publisher.status(b"online")
        self._publisher.clear_stale_commands(former)
        if discovery is None:
            self._publisher.clear_documents(former.keys() - fields.keys())

    # --- what the loop calls ------------------------------------------------------------------

    @property
    def online(self) -> bool:
        """Whether the broker has accepted the link's session and its subscriptions."""
        return self._online

    @property
    def activations(self) -> Mapping[str, int]:
        """Number of activations that were sent, by field."""
        return self._outbox.activated

    @property
    def unacknowledged_s(self) -> float:
        """How long the oldest publication has waited for the broker's acknowledgement, s."""
        return self._outbox.unacknowledged_s()

    @property
    def inputs_silent(self) -> bool:
        """Whether no sensor has sent a message since the link reconnected because of that."""
        return self._expects_readings and self._silence_limit > (self._mqtt.silence or inf)

    def alive(self, now: float) -> bool:
        """Return whether the link works as it should; the broker may be unreachable.

        In a session, the broker has to send a packet within two keep-alives. Without a session, the
        next attempt to connect must not be overdue.
        """
        if self._begun_at is not None:
            return now - self._last_packet_at <= 2 * self._mqtt.keepalive + CONNECT_TIMEOUT_S
        due = self._session.deadline if self._session else self._retry_at
        return now <= due + CONNECT_TIMEOUT_S

    def interest(self) -> tuple[int, int] | None:
        """Return the link's file descriptor and the events to wait for; None without a socket."""
        if self._probe is not None:
            return self._probe.interest()
        return self._session.interest() if self._session else None

    def wake_at(self) -> float:
        """Return the latest monotonic time at which the link's `service` has to be called."""
        if self._session is not None:
            described = self._discovery if self._begun_at is not None else None
            return min(self._session.wake_at(), described.wake_at() if described else inf)
        return 0.0 if self._probe and not self._probe.interest() else self._retry_at

    def service(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        """Do the link's work: read, write, keep the session alive, reconnect.

        Yields ``(field, event)`` for each message that a sensor sent, the oldest first. The caller
        takes all events, and handles each before it takes the next.
        """
        session = self._session
        if session is None:
            self._reconnect(now)
            return
        received = self._wall()
        for message in session.service(mask, now):
            self._last_message_at, self._silence_limit = now, self._mqtt.silence or inf
            yield from self._subscriber.events(message, received, now)
        self._keep_up(session, mask, now)

    def recall(self, field: str) -> Iterator[ActivationUndelivered]:
        """Yield each activation of `field` that the broker has not confirmed; send none of them."""
        for activation, left in self._outbox.recall(field):
            yield ActivationUndelivered(activation.sensor, activation.interval, left)

    def requests(self) -> Iterator[tuple[Verb, Request] | Unreadable]:
        """Yield each command that users sent to the daemon; answer the invalid ones."""
        for each in self._commands.take() if self._commands else ():
            if not isinstance(each, Rejection):
                yield each
                continue
            if each.response is not None:
                self.respond(each.verb, each.response)
            yield each.why

    def respond(self, verb: str, response: Response) -> None:
        """Publish the response to a user's command over the MQTT link, not retained."""
        self._publisher.respond(verb, response)
        self._send_outbox()

    def send(self, field: str, command: Command) -> None:
        """Carry out a controller's command over MQTT, such as the activation of a sensor."""
        self._publisher.send(field, command)
        self._send_outbox()

    def show(self, field: str, document: Hotspot | Alert | PublishedPosterior) -> None:
        """Publish the hot spot, the alert or the posterior of `field` as a retained message."""
        self._publisher.show(field, document)
        self._send_outbox()

    def announce(self, notice: Notice) -> None:
        """Publish a notice of the daemon; the message is not retained."""
        self._publisher.event(notice)
        self._send_outbox()

    def report(self, health: Health) -> None:
        """Publish the daemon's health as a retained message."""
        self._publisher.report(health)
        self._send_outbox()

    def expect_readings(self, expected: bool) -> None:
        """Set whether the link reconnects if no sensor sends a message for too long."""
        self._expects_readings = expected

    def close(self) -> None:
        """Publish ``offline``, wait up to `SHUTDOWN_TIMEOUT_S` until it is sent, and disconnect."""
        for field in self._fields:
            self._publisher.cancel_commands(field)
        session = self._session
        if session is not None and session.state is State.CONNECTED:
            self._publisher.status(b"offline")
            self._send_outbox()
            self._drain(session, time.monotonic() + SHUTDOWN_TIMEOUT_S)
            session.disconnect()
        self._hang_up()

    # --- a session ----------------------------------------------------------------------------

    def _keep_up(self, session: Session, mask: int, now: float) -> None:
        """Process the session's acknowledgements and timeouts; end the session after a problem."""
        if mask & selectors.EVENT_READ:
            self._last_packet_at = now
        for identifier, why in session.take_refused().items():
            self._warn_of_refusal(self._outbox.topic_of(identifier), why)
        for identifier in session.take_acknowledged():
            self._outbox.mark_acked(identifier)
        if self._granted_by < inf and session.granted is not None:
            why = f" ({session.why_not_granted})" if session.why_not_granted else ""
            self._check_granted(session.granted, why, now)
        if session.state is State.CONNECTED:
            self._serve_connected(session, now)
        if session.delay is not None:
            self._outage.failed(session.delay)
        if problem := session.problem or self._overdue(now):
            self._end_session(session, problem, now)

    def _serve_connected(self, session: Session, now: float) -> None:
        if self._begun_at is None:
            self._begin(session, now)
        if now >= self._subscribe_at:
            self._subscribe(session, now)
        if self._backoff.duplicate_client_id and self._online:
            self._confirm_client_id(now)
        if self._discovery:
            self._describe(self._discovery, now)
        self._send_outbox()

    def _describe(self, discovery: "Discovery", now: float) -> None:
        """Publish the discovery message if it is due, and then the states that it describes."""
        if (description := discovery.due(now)) is not None:
            self._outbox.description(discovery.topic, description)
        if discovery.settled(now):
            self._publisher.clear_documents(discovery.removed)
            self._outbox.release()

    def _begin(self, session: Session, now: float) -> None:
        self._begun_at = self._last_packet_at = self._last_message_at = now
        self._address = session.address
        self._refused_topics.clear()
        if session.version not in (self._mqtt.version, self._version):
            log.warning(
                "broker %s:%d: the broker does not seem to speak MQTT %s, so MQTT %s is used",
                self._mqtt.host,
                self._mqtt.port,
                self._mqtt.version,
                session.version,
            )
        self._version = session.version
        if self._discovery:
            self._outbox.hold()
        self._outbox.begin()
        self._subscribe(session, now)

    def _subscribe(self, session: Session, now: float) -> None:
        if self._discovery:
            self._discovery.begin(now)
        self._subscribe_at = inf
        filters = self._filters()
        if filters:
            session.subscribe(filters)
            self._granted_by = now + CONNECT_TIMEOUT_S
        else:
            self._set_online(now)

    def _filters(self) -> list[str]:
        return [*self._subscriber.filters(), *self._optional_filters()]

    def _optional_filters(self) -> list[str]:
        """Return the topic filters of commands and of Home Assistant.

        The daemon works even if the broker refuses them.
        """
        commands = [self._commands.filter] if self._commands else []
        return [*commands, *(self._discovery.filters if self._discovery else ())]

    def _check_granted(self, granted: Sequence[bool], why: str, now: float) -> None:
        self._granted_by = inf
        answers = zip(self._filters(), granted, strict=True)
        refused = [each for each, is_granted in answers if not is_granted]
        readings = [each for each in refused if each not in self._optional_filters()]
        if not readings:
            if refused:
                names = ", ".join(refused) + why
                log.warning(
                    "the broker refuses subscriptions to %s; allow them in the broker's ACL", names
                )
            self._set_online(now)
            return
        self._online, self._subscribe_at = False, now + SUBSCRIBE_AGAIN_S
        names = ", ".join(readings) + why
        text = f"the broker refuses the readings on {names}; allow them in the broker's ACL"
        self._outage.failed(ConnectionProblem(text, Code.FORBIDDEN, lasting=True))

    def _set_online(self, now: float) -> None:
        """Store that readings can arrive now, and log the end of the outage.

        Nothing is logged yet if another client with the same id may end this session soon.
        """
        self._online = True
        if self._backoff.duplicate_client_id:
            return
        lost, self._outbox.lost = self._outbox.lost, 0
        self._outage.over(now, f"; {lost} activations or notices were lost" if lost else "")

    def _confirm_client_id(self, now: float) -> None:
        """Decide that no other client uses the client id, if the session has lasted long enough."""
        if self._begun_at is not None and now - self._begun_at >= SHORT_SESSION_S:
            self._backoff.clear()
            self._set_online(now)

    def _overdue(self, now: float) -> ConnectionProblem | None:
        """Return a problem if the broker's SUBACK or PUBACK or a sensor's message is overdue."""
        if now >= self._granted_by:
            text = "the broker does not answer the subscription"
            return ConnectionProblem(text, Code.NO_ANSWER)
        if self.unacknowledged_s > 2 * self._mqtt.keepalive:
            return no_acknowledgement(self._mqtt)
        if not self._expects_readings:
            self._last_message_at = now
        if not self._online or now - self._last_message_at < self._silence_limit:
            return None
        text = f"no message from any sensor for {self._silence_limit:.0f} s; reconnecting"
        longest = MAX_SILENCE_FACTOR * (self._mqtt.silence or inf)
        self._silence_limit = min(2.0 * self._silence_limit, longest)
        at = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for field in self._fields:
            self._publisher.event(Notice("inputs-silent", at, text), field)
        return ConnectionProblem(text, Code.NO_ANSWER, lasting=True)

    # --- without a session --------------------------------------------------------------------

    def _reconnect(self, now: float) -> None:
        """Start a session when the wait is over.

        If the link is probing the broker, the result of the probe is awaited first.
        """
        if self._probe is not None:
            self._finish_probe(self._probe, now)
        elif now >= self._retry_at:
            self._start_session(now)

    def _start_session(self, now: float) -> None:
        max_payload = max(
            self._subscriber.max_payload, self._discovery.max_size if self._discovery else 0
        )
        self._session = Session(
            self._mqtt,
            self._client_id,
            now,
            max_packet=PACKET_OVERHEAD + MAX_TOPIC_LENGTH + max_payload,
            will=f"{self._base}/status",
            address=self._address,
        )

    def _end_session(self, session: Session, problem: ConnectionProblem, now: float) -> None:
        """Close the session, and set the time of the next attempt to connect.

        If the broker ended a session soon after its beginning, the link immediately probes the
        broker with a TCP connection. If the broker does not accept the connection, the broker was
        restarted. If it accepts the connection, another client with the same id may have replaced
        this client. Some brokers, such as RabbitMQ, end a session in which they refused a
        subscription; then no other client is suspected.
        """
        is_refused = session.granted is not None and not all(session.granted)
        closed_by_broker = session.closed_by_broker and not is_refused
        begun, self._begun_at, self._online = self._begun_at, None, False
        self._hang_up()
        if begun is None:
            if not session.was_reached:
                self._backoff.clear()
            self._outage.failed(problem)
            self._wait(now)
            return
        self._outage.lost(problem, now)
        self._outbox.connection_lost()
        self._backoff.ended(now - begun, by_broker=closed_by_broker)
        if closed_by_broker and now - begun < SHORT_SESSION_S:
            self._probe = Attempt(lambda: open_socket(self._mqtt), socket.socket.close)
            self._retry_at = now + CONNECT_TIMEOUT_S
            self._outage.waits(0.0)
        else:
            self._wait(now)

    def _finish_probe(self, probe: Attempt[socket.socket], now: float) -> None:
        result = probe.result()
        if result is None:
            self._retry_at = now + CONNECT_TIMEOUT_S
            return
        self._probe = None
        if isinstance(result, Exception):
            self._backoff.clear()
            self._outage.failed(not_connected(result, self._mqtt, CONNECT_TIMEOUT_S))
        else:
            result.close()
            if self._backoff.duplicate_client_id:
                self._outage.failed(self._duplicate_client_id())
        self._wait(now)

    def _duplicate_client_id(self) -> ConnectionProblem:
        return ConnectionProblem(
            f"another client seems to use the client id {self._client_id!r} too: the broker "
            "accepts connections, but ends every session within seconds; set mqtt.client_id to an "
            "id that no other client uses; if the broker uses logins as client ids, add a second "
            "login as [mqtt.readonly]",
            Code.CLIENT_ID,
            lasting=True,
        )

    def _wait(self, now: float) -> None:
        wait = self._backoff.wait()
        self._retry_at = now + wait
        self._outage.waits(wait)

    def _hang_up(self) -> None:
        """Close the sockets of the session and of the probe."""
        if self._probe is not None:
            self._probe.abandon()
        if self._session is not None:
            self._session.close()
        self._probe = self._session = None
        self._begun_at, self._online = None, False
        self._granted_by = self._subscribe_at = inf

    # --- publishing ---------------------------------------------------------------------------

    def _send_outbox(self) -> None:
        """Publish the messages in the outbox, until the socket or the in-flight window is full."""
        session = self._session
        if session is None or self._begun_at is None or not session.can_send:
            return
        for each in self._outbox.pop_ready():
            size = PACKET_OVERHEAD + len(each.topic.encode()) + len(each.payload)
            if size > session.max_size:
                self._warn_of_refusal(each.topic, f"{size} of {session.max_size:.0f} bytes")
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

    def _warn_of_refusal(self, topic: str, why: str) -> None:
        """Log once in a session that the broker does not take the messages on `topic`."""
        if topic not in self._refused_topics:
            self._refused_topics.add(topic)
            text = "the broker refuses messages on %s (%s); allow them in its ACL or its limits"
            log.warning(text, topic, why)

    def _drain(self, session: Session, deadline: float) -> None:
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
                self._send_outbox()
