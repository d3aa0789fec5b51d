"""MQTT link: the daemon's permanent connection to its broker.

    DISCONNECTED ──(the wait is over)──▶ a `Session`: CONNECTING ─▶ AWAITING_CONNACK ─▶ CONNECTED

When a session fails or ends, the link is DISCONNECTED again.

Every attempt to connect starts a new, clean session. So the broker queues no messages while the
daemon is disconnected: queued readings would be too old to use, and a command that arrives late is
worse than a command that is lost.

A reading is acknowledged only after the daemon's loop has handled it. So the broker does not send
readings faster than the daemon handles them.
"""

import logging
import selectors
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Set
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
    LinkStatus,
    Notice,
    PublishedPosterior,
    Request,
    Response,
    Verb,
)
from edge_tvbo.messages.events import (
    ActivationUndelivered,
    DocumentsCleared,
    Event,
    Unreadable,
)
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo_adapters.mqtt.backoff import SHORT_SESSION_S
from edge_tvbo_adapters.mqtt.client import Will
from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S
from edge_tvbo_adapters.mqtt.connection_problems import (
    ConnectionProblem,
    no_acknowledgement,
    no_subscription_answer,
)
from edge_tvbo_adapters.mqtt.former_documents import FormerDocuments
from edge_tvbo_adapters.mqtt.input_silence import InputSilence
from edge_tvbo_adapters.mqtt.message_router import MAX_DETAIL, MessageRouter
from edge_tvbo_adapters.mqtt.outage_log import OutageLog
from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.publisher import DOCUMENTS, Publisher
from edge_tvbo_adapters.mqtt.reconnection import Reconnection
from edge_tvbo_adapters.mqtt.request_queue import Rejection, RequestQueue
from edge_tvbo_adapters.mqtt.second_daemon import MAX_DOCUMENT, SecondDaemon
from edge_tvbo_adapters.mqtt.sender import Sender
from edge_tvbo_adapters.mqtt.session import Session, SessionState
from edge_tvbo_adapters.mqtt.session_starter import SessionStarter
from edge_tvbo_adapters.mqtt.subscription import Refused, Subscription
from edge_tvbo_adapters.mqtt.topics import default_client_id, topic_of

if TYPE_CHECKING:
    from edge_tvbo_adapters.homeassistant.discovery import Discovery

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 1.0  # longest time for sending the last messages
STATUS_PERIOD_S = 600.0  # time between two publications of ``online``
MAX_REQUEST_DELAY_S = 10.0  # longest delay of a user's command that arrived during a reload


class MqttLink:
    """The daemon's link to one broker; it connects when `service` is first called.

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
        Schedules the discovery message of Home Assistant; None if no such message is published.
    former : mapping, optional
        `MqttLink.former` of the link that this link replaces after a reload.
    without_model : collection of str
        The fields whose policies have no model, and so no hot spot.
    detector : SecondDaemon, optional
        Detects a second daemon of the instance. If it is None, no second daemon is detected.
    seed : int, optional
        The seed of the random waits between attempts. By default, each gateway draws its own seed,
        so that the gateways of a fleet do not reconnect at the same moment.
    wall : callable
        Returns the present time, s since 1970, which becomes the arrival time of a reading.

    Attributes
    ----------
    detector : SecondDaemon or None
        The parameter `detector`.
    """

    def __init__(
        self,
        mqtt: Mqtt,
        instance: str,
        fields: Mapping[str, FieldSettings],
        *,
        commands: bool = False,
        discovery: "Discovery | None" = None,
        former: Mapping[str, Set[str]] | None = None,
        without_model: Collection[str] = (),
        detector: SecondDaemon | None = None,
        seed: int | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._name = f"broker {mqtt.address}"
        if mqtt.password is not None and mqtt.tls is None and not is_loopback(mqtt.host):
            text = "the password is sent over the network unencrypted; add [mqtt.tls]"
            log.warning("%s: %s", self._name, text)
        self._mqtt = mqtt
        self._fields = dict(fields)
        self._wall = wall
        self._base = f"edge_tvbo/{instance}"
        client_id = mqtt.client_id or default_client_id(instance)
        requests = self._requests = RequestQueue(self._base) if commands else None
        self._discovery = discovery
        self.detector = detector
        receivers = (requests, discovery, detector)
        others = [each.put for each in receivers if each is not None]
        self._router = MessageRouter(fields, others)
        documents = {f"{self._base}/{field}/{level}" for field in fields for level in DOCUMENTS}
        self._outbox = Outbox(described=documents)
        self._publisher = Publisher(self._base, fields, self._outbox)
        self._sender = Sender(self._outbox, log)
        self._outage = OutageLog(log, self._name)
        self._reconnection = Reconnection(mqtt, client_id, Random(seed), self._outage, self._sender)
        health = detector.topic if detector else None
        optional = [requests.filter] if requests else []
        optional += discovery.filters if discovery else ()
        self._subscription = Subscription(self._router.filters, optional, health)
        self._silence = InputSilence(mqtt.silence, fields)
        will = Will(f"{self._base}/status", b"offline")
        self._starter = SessionStarter(mqtt, client_id, will, log)
        self._session: Session | None = None
        self._begun_at: float | None = None  # monotonic time when the broker accepted the session
        self._online = False  # whether the broker has granted the subscriptions
        self._requests_due = 0.0  # monotonic time from which users' commands are handled
        self._singly_until = inf  # monotonic time until which one message is sent at a time
        self._last_packet_at = 0.0  # monotonic time of the last packet of any kind
        self._status_due = 0.0  # monotonic time of the next publication of the status
        self._logged_lost = 0  # number of lost messages that were already logged
        self._publisher.status(b"online")
        self._former = FormerDocuments(
            former or {}, without_model, discovery, self._publisher, self._outbox
        )

    # --- what the loop calls ------------------------------------------------------------------

    @property
    def online(self) -> bool:
        """Whether the broker has accepted the MQTT link's session and subscriptions."""
        return self._online

    @property
    def former(self) -> Mapping[str, Set[str]]:
        """The fields and topics that the next MQTT link clears, except those that it uses itself.

        See `FormerDocuments.topics`.
        """
        return self._former.topics

    @property
    def removals(self) -> Mapping[str, dict[str, str]]:
        """Pending removals of Home Assistant entities; each key is the key of an entity."""
        return self._discovery.removals if self._discovery else {}

    def status(self) -> LinkStatus:
        """Return the status of the MQTT link, for the daemon's status."""
        return LinkStatus(
            activations=self._outbox.activated,
            lost=self._outbox.lost,
            queued=len(self._outbox),
            unacknowledged_s=self._outbox.unacknowledged_s(),
            left_out=self._sender.left_out,
            refused=self._sender.problem,
            inputs_silent=self._silence.persists,
            second_daemon=self.detector.text if self.detector else "",
        )

    def alive(self, now: float) -> bool:
        """Return False if the link hangs; an unreachable broker does not count as a hang.

        In a session, the broker must have sent a packet within the last two keep-alives. Without a
        session, the next attempt to connect must not be overdue.
        """
        session = self._session
        if session is not None and self._begun_at is not None:
            return now - self._last_packet_at <= 2 * session.keepalive + CONNECT_TIMEOUT_S
        due = session.deadline if session else self._reconnection.at
        return now <= due + CONNECT_TIMEOUT_S

    def interest(self) -> tuple[int, int] | None:
        """Return the link's descriptor and the events to wait for, or None if it has no socket."""
        return (self._session or self._reconnection).interest()

    def wake_at(self) -> float:
        """Return the monotonic time by which the MQTT link's `service` must be called again."""
        if self._session is not None:
            described_at = self._former.wake_at() if self._begun_at is not None else inf
            return min(self._session.wake_at(), described_at)
        return self._reconnection.wake_at()

    def service(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        """Do the link's work: read, write, keep the session alive, reconnect.

        Yields ``(field, event)``

        - for each message that a sensor sent, the oldest first;
        - for each activation that the broker has refused;
        - for each field whose withdrawn documents the broker has cleared.

        The caller takes all events, and handles an event before it takes the next event.
        """
        session = self._session
        if session is None:
            if self._reconnection.is_due(now):
                self._start_session(now)
            return
        received = self._wall()
        is_debugged = log.isEnabledFor(logging.DEBUG)
        for message in session.service(mask, now):
            if is_debugged:
                topic, _ = topic_of(message)
                log.debug("received on %s: %d bytes", topic[:MAX_DETAIL], len(message.payload))
            for event in self._router.events(message, received, now):
                if not message.retain:
                    self._silence.end(now)
                yield event
        self._keep_up(session, mask, now)
        for each in self._outbox.take_refused():
            yield each.field, ActivationUndelivered(each.sensor, each.interval, False, True)
        for field in self._publisher.take_cleared():
            yield field, DocumentsCleared()

    def recall(self, field: str) -> Iterator[ActivationUndelivered]:
        """Drop and yield the MQTT link's activations of `field` that the broker did not confirm."""
        for each, left, refused in self._outbox.recall(field):
            yield ActivationUndelivered(each.sensor, each.interval, left, refused)

    def requests(self) -> Iterator[tuple[Verb, Request] | Unreadable]:
        """Yield the users' commands that the MQTT link has queued, and the reasons for rejections.

        The link publishes the responses to the rejected commands. After `take_over`, all commands
        wait until the link is online, because a command may activate a sensor. They wait at most
        `MAX_REQUEST_DELAY_S` seconds.
        """
        is_due = time.monotonic() >= self._requests_due
        for each in self._requests.take() if self._requests and is_due else ():
            if not isinstance(each, Rejection):
                yield each
                continue
            if each.response is not None:
                self.respond(each.verb, each.response)
            yield each.why

    def respond(self, verb: str, response: Response) -> None:
        """Publish the response to a user's command over the link; the message is not retained."""
        self._publisher.respond(verb, response)
        self._send_outbox()

    def send(self, field: str, command: Command) -> None:
        """Carry out a controller's command over the MQTT link: for example, activate a sensor."""
        self._publisher.send(field, command)
        self._send_outbox()

    def show(self, field: str, document: Hotspot | Alert | PublishedPosterior) -> None:
        """Publish a retained message over the link: hot spot, alert or posterior of `field`."""
        self._publisher.show(field, document)
        self._send_outbox()

    def clear_removed(self, fields: Set[str]) -> None:
        """Clear the retained documents of `fields`, the fields removed while there was no link."""
        self._former.add_removed(fields)

    def withdraw(self, field: str) -> None:
        """Clear the retained documents of `field` over the MQTT link; new documents may follow.

        When the broker has acknowledged the empty messages, `service` yields `DocumentsCleared`.
        """
        self._publisher.withdraw_documents(field)
        self._send_outbox()

    def take_over(self, before: "MqttLink") -> None:
        """Publish over the MQTT link the notices that the closed link `before` did not deliver.

        Also queue the users' commands that `before` did not handle. Notices of removed fields are
        left out. If `before` belongs to another instance, nothing is taken over.
        """
        self._publisher.take_over(before._outbox)
        if self._requests and before._requests:
            self._requests.take_over(before._requests)
            self._requests_due = time.monotonic() + MAX_REQUEST_DELAY_S
        self._send_outbox()

    def announce(self, notice: Notice) -> None:
        """Publish a notice of the daemon over the MQTT link; the message is not retained."""
        self._publisher.event(notice)
        self._send_outbox()

    def report(self, health: Health) -> None:
        """Send the daemon's health over the MQTT link, as a retained message."""
        self._publisher.report(health)
        self._send_outbox()

    def expect_readings(self, fields: Collection[str]) -> None:
        """Set the fields whose readings the MQTT link expects.

        While the link expects no readings, it does not reconnect if all sensors are silent. If no
        limit for the silence is configured, the link expects readings only from fields that
        activate a sensor in each interval.
        """
        self._silence.expect_readings(fields)

    def close(self) -> None:
        """Publish ``offline`` and the documents that the link has held back, and disconnect.

        The activations of sleepy sensors are withdrawn. The downlinks of LoRaWAN devices are not
        withdrawn, because the daemon still waits for the replies after a reload or restart.

        The link waits up to `SHUTDOWN_TIMEOUT_S` until the broker has acknowledged the messages. If
        the broker does not acknowledge them, the link sends no DISCONNECT. Then the broker
        publishes the link's will, which also says ``offline``. Users' commands that arrive
        meanwhile are queued for the next link; see `take_over`.
        """
        for field, settings in self._fields.items():
            if settings.restart_withdraws:
                self._publisher.cancel_commands(field)
        session = self._session
        if session is not None and session.state is SessionState.CONNECTED:
            self._publisher.status(b"offline")
            if self._outbox.holds:
                self._outbox.release()  # the next link or process does not know these documents
            self._send_outbox()
            for message in self._sender.drain(session, time.monotonic() + SHUTDOWN_TIMEOUT_S):
                if self._requests:  # a reading that arrives now is not handled any more
                    self._requests.put(message, time.monotonic())
            if self._outbox.empty:
                session.disconnect()
        self._hang_up()
        self._outbox.close()

    # --- a session ----------------------------------------------------------------------------

    def _keep_up(self, session: Session, mask: int, now: float) -> None:
        """Process the link's acknowledgements and timeouts; end the session after a problem."""
        if mask & selectors.EVENT_READ:
            self._last_packet_at = now
        for identifier, why in session.take_refused().items():
            if publication := self._outbox.mark_refused(identifier):
                self._sender.note_refusal(publication, why)
        for identifier in session.take_acknowledged():
            if publication := self._outbox.mark_acked(identifier):
                self._sender.note_acceptance(publication.topic)
        self._report_refusals()
        if (refused := self._subscription.take_answer(session, now)) is not None:
            why = f" ({session.why_not_granted})" if session.why_not_granted else ""
            self._check_granted(refused, why, now)
        if session.state is SessionState.CONNECTED:
            self._serve_connected(session, now)
        if session.delay is not None:
            self._outage.failed(session.delay, now)
        if problem := session.problem or self._overdue(now):
            self._end_session(session, problem, now)

    def _serve_connected(self, session: Session, now: float) -> None:
        if self._begun_at is None:
            self._begin(session, now)
        if self._subscription.is_due_again(now):
            self._subscribe(session, now)
        if now >= self._status_due:
            # Another daemon of the instance may have published offline when it stopped.
            self._publisher.status(b"online")
            self._status_due = now + STATUS_PERIOD_S
        if self._reconnection.sessions_end_early and self._online:
            self._confirm_client_id(now)
        if now >= self._singly_until:
            self._singly_until = inf
            self._outbox.set_max_in_flight(session.max_in_flight)
        if self.detector:
            self._subscription.follow_health(session, now)
            self._report_second_daemon(self.detector, now)
        self._former.service(now)
        self._send_outbox()

    def _report_second_daemon(self, second: SecondDaemon, now: float) -> None:
        """Log that a second daemon of the link's instance is running, or that it has stopped.

        If it is running, the link also publishes a notice.
        """
        if not second.take_change(now):
            return
        if not second.text:
            log.info("%s: the other daemon of this instance has stopped", self._name)
            return
        log.error("%s: %s [%s]", self._name, second.text, Code.SECOND_DAEMON)
        self._publisher.event(Notice("second-daemon", self._at(), second.text))

    def _report_refusals(self) -> None:
        """Publish a notice about each topic on which the broker newly refuses the link's messages.

        If the message activates a sensor, the notice is about this sensor. No notice is published
        if the broker refuses the daemon's notices themselves.
        """
        for publication, text in self._sender.take_new():
            if publication.topic == f"{self._base}/event":
                continue
            activation = publication.activates
            sensor, field = (activation.sensor, activation.field) if activation else (None, None)
            notice = Notice("message-refused", self._at(), text, sensor)
            self._publisher.event(notice, field)

    def _begin(self, session: Session, now: float) -> None:
        self._begun_at = self._last_packet_at = now
        self._status_due = now + STATUS_PERIOD_S  # at the start, all retained states are sent
        self._silence.begin(now)
        if self.detector:
            self.detector.begin(now)
        self._starter.note_begun(session)
        self._former.begin(now)
        sends_singly = self._reconnection.sends_singly
        self._singly_until = now + SHORT_SESSION_S if sends_singly else inf
        self._outbox.begin(
            1 if sends_singly else session.max_in_flight, self._reconnection.suspected_topics
        )
        self._subscribe(session, now)

    def _subscribe(self, session: Session, now: float) -> None:
        if not self._subscription.begin(session, now):
            self._set_online(now)

    def _check_granted(self, refused: Refused, why: str, now: float) -> None:
        if refused.readings:
            self._online = False
            names = ", ".join(refused.readings) + why
            text = f"the broker refuses the readings on {names}; allow them in the broker's ACL"
            self._outage.failed(ConnectionProblem(text, Code.FORBIDDEN, lasting=True), now)
            return
        if refused.optional:
            names = ", ".join(refused.optional) + why
            log.warning(
                "the broker refuses subscriptions to %s; allow them in the broker's ACL", names
            )
        log.debug("%s: the subscription is granted", self._name)
        self._set_online(now)

    def _set_online(self, now: float) -> None:
        """Store that the link can receive readings now, and log the end of the outage.

        If earlier sessions ended early, nothing is logged yet: this session may also end early.
        """
        self._online, self._requests_due = True, 0.0
        if self._reconnection.sessions_end_early:
            return
        lost = self._outbox.lost - self._logged_lost
        self._logged_lost += lost
        self._outage.over(now, f"; lost activations and notices: {lost}" if lost else "")

    def _confirm_client_id(self, now: float) -> None:
        """Confirm, after a long session, that no other client uses the link's client id."""
        if self._begun_at is not None and self._reconnection.confirm_client_id(
            now - self._begun_at
        ):
            self._set_online(now)

    def _overdue(self, now: float) -> ConnectionProblem | None:
        """Return the link's problem if a message is overdue, otherwise None.

        These messages can be overdue: SUBACK and PUBACK of the broker, and readings of the sensors.
        """
        if self._subscription.is_overdue(now):
            return no_subscription_answer(CONNECT_TIMEOUT_S)
        if self._outbox.unacknowledged_s() > 2 * self._mqtt.keepalive:
            return no_acknowledgement(self._mqtt)
        if not self._silence.is_too_long(now) or not self._online:
            return None
        text = f"no message from any sensor for {self._silence.extend():.0f} s; reconnecting"
        for field in self._fields:
            self._publisher.event(Notice("inputs-silent", self._at(), text), field)
        return ConnectionProblem(text, Code.NO_ANSWER, lasting=True)

    def _at(self) -> str:
        """Return the present time for a notice of the link."""
        return rfc3339(int(self._wall()))

    def _start_session(self, now: float) -> None:
        max_payload = max(
            self._router.max_payload,
            self._discovery.max_size if self._discovery else 0,
            MAX_DOCUMENT if self.detector else 0,
        )
        self._session = self._starter.start(max_payload, now)

    def _end_session(self, session: Session, problem: ConnectionProblem, now: float) -> None:
        """Close the session; the link connects again later.

        Some brokers, such as RabbitMQ, end a session after they refused a subscription. Such an end
        does not count as a sign that another client has the same id.
        """
        by_broker = session.closed_by_broker and not self._subscription.was_refused
        begun = self._begun_at
        self._hang_up()
        if begun is None:
            self._reconnection.attempt_failed(problem, now, was_reached=session.was_reached)
            return
        unacknowledged = self._outbox.unacknowledged()
        self._outbox.connection_lost()
        self._reconnection.session_ended(
            problem, now - begun, now, unacknowledged, by_broker=by_broker
        )

    def _hang_up(self) -> None:
        """Close the sockets of the link's session and of the probe that checks the broker."""
        self._reconnection.abandon_probe()
        if self._session is not None:
            self._session.close()
        self._session = None
        self._begun_at, self._online = None, False
        self._subscription.end()

    def _send_outbox(self) -> None:
        if self._outbox.waits and self._session is not None and self._begun_at is not None:
            self._sender.send(self._session)
