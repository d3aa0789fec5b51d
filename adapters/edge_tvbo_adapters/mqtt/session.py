"""One MQTT session, on paho's public API, driven by the caller's loop.

    CONNECTING ──(TCP, TLS)──▶ AWAITING_CONNACK ──(CONNACK)──▶ CONNECTED ──▶ CLOSED
        ◀──(no MQTT 5: again with 3.1.1)──┘

The caller's loop waits for the descriptor that `interest` returns, at most until the time that
`wake_at` returns. Then the loop calls `service`, which reads, writes, sends keep-alives and yields
the messages that arrived. No method blocks, and none raises an error because of the network. The
session calls no functions of the caller: the broker's answers are stored in attributes, which the
caller reads.
"""

import selectors
import socket
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from math import inf
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.mqtt_settings import Mqtt, Tls
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt import tls
from edge_tvbo_adapters.mqtt.client import (
    Will,
    close_socket,
    connect_client,
    detach_callbacks,
    make_client,
)
from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S, Attempt
from edge_tvbo_adapters.mqtt.connection_problems import (
    ConnectionProblem,
    closed_before_connack,
    connection_refused,
    ended_by_broker,
    no_connection_yet,
    no_handshake,
    not_connected,
    not_mqtt,
    silent_server,
    unusable_files,
)
from edge_tvbo_adapters.mqtt.versions import (
    NEW,
    OLD,
    connect_properties,
    largest_packet,
    most_in_flight,
    publish_properties,
    reason_text,
)

MAX_BATCH = 64  # messages that one call of `service` reads; a flood must not delay intervals
MAX_FILTERS = 256  # in one SUBSCRIBE, because brokers limit the size of a packet
KEEPALIVE_CHECK_S = 1.0
CONNACK_5_TIMEOUT_S = 3.0  # longest usual wait for a CONNACK of MQTT 5; then 3.1.1 is tried


class SessionState(Enum):
    """State of an MQTT session."""

    CONNECTING = "connecting"
    AWAITING_CONNACK = "awaiting CONNACK"
    CONNECTED = "connected"
    CLOSED = "closed"


class Session:
    """A clean MQTT session with one broker; the session begins to connect when it is created.

    Parameters
    ----------
    mqtt : Mqtt
        The broker and the login.
    client_id : str
        The id by which the broker distinguishes its clients.
    now : float
        Monotonic time, s.
    max_packet : int
        The largest packet, in bytes, that an MQTT 5 broker may send. MQTT 3.1.1 has no such limit.
    will : Will, optional
        The retained message that the broker publishes when the session breaks.
    address : str, optional
        The broker's last known IP address; it is used if the broker's name cannot be resolved.
    connack_5_timeout_s : float
        The longest wait for a CONNACK of MQTT 5, in s; then the session tries MQTT 3.1.1.
    """

    def __init__(
        self,
        mqtt: Mqtt,
        client_id: str,
        now: float,
        *,
        max_packet: int,
        will: Will | None = None,
        address: str | None = None,
        connack_5_timeout_s: float = CONNACK_5_TIMEOUT_S,
    ) -> None:
        self._mqtt = mqtt
        self._client_id = client_id
        self._max_packet = max_packet
        self._will = will
        self.state = SessionState.CONNECTING
        self.max_size = inf  # bytes of the largest packet that the broker accepts
        self.max_in_flight = 0  # unacknowledged messages that the broker accepts at the same time
        self.problem: ConnectionProblem | None = None  # why the session is closed
        self.delay: ConnectionProblem | None = None  # why the session is not connected yet
        self.address = address
        self._connack_5_timeout_s = connack_5_timeout_s
        self.granted: list[bool] | None = None  # for each filter; None until all have an answer
        self.why_not_granted = ""  # MQTT 5: the reason why the broker refused a subscription
        self._messages: list[MQTTMessage] = []
        self._acknowledged: list[int] = []
        self._refused: dict[int, str] = {}  # packet id of a publication -> the broker's reason
        self._connack_refused = False
        self._unanswered: dict[int, int] = {}  # packet id of SUBSCRIBE -> index of its first filter
        self._answers: list[bool] = []
        self.deadline = now + CONNECT_TIMEOUT_S  # monotonic: when the present state times out
        self._next_check = now
        self._timed_out = False  # whether no packet arrived for two keep-alives
        self.was_reached = False  # whether TCP and TLS were connected
        self.closed_by_broker = False
        self._client = self._make_client(mqtt.version)
        self._tls: tls.ServerNameContext | None = None
        self._attempt: Attempt[Client] | None = None
        self._start()

    # --- what the caller's loop waits for -----------------------------------------------------

    def interest(self) -> tuple[int, int] | None:
        """Return the session's file descriptor and the `selectors` events to wait for.

        Returns None if there is nothing to wait for: `service` can be called immediately.
        """
        if self._attempt is not None:
            return self._attempt.interest()
        sock: Any = self._client.socket()
        if sock is None or self.state is SessionState.CLOSED:
            return None
        write = selectors.EVENT_WRITE if self._client.want_write() else 0
        return sock.fileno(), selectors.EVENT_READ | write

    def wake_at(self) -> float:
        """Return the monotonic time by which the session's `service` has to be called again."""
        if self.interest() is None or self._pending():
            return 0.0
        if self.state is SessionState.CONNECTED:
            return self._next_check
        return self.deadline

    # --- in -----------------------------------------------------------------------------------

    def service(self, mask: int, now: float) -> Iterator[MQTTMessage]:
        """Read and write the session's packets; yield the received messages, the oldest first.

        The caller must take all messages, and must handle each message before it takes the next
        one. Afterwards, the session acknowledges the messages of QoS 1. `mask` holds the
        `selectors` events for which the descriptor is ready.
        """
        if self._attempt is not None:
            self._finish_connecting(self._attempt, now)
        elif self.state is SessionState.CONNECTING:
            self._start()
        elif self.state is not SessionState.CLOSED:
            try:
                if mask & selectors.EVENT_READ or self._pending():
                    # All messages are read before the first is handled: none of them can reply
                    # to an activation that one of them causes.
                    messages = self._read()
                    yield from messages
                    for message in messages:
                        if message.qos:
                            self._client.ack(message.mid, message.qos)
                self._write(mask, now)
            except Exception as error:  # paho does not catch the errors of its parser
                self.problem = not_mqtt(self._mqtt, repr(error))
            self._check(now)

    def take_acknowledged(self) -> Sequence[int]:
        """Return the packet ids that were acknowledged in the session since the last call."""
        taken, self._acknowledged = self._acknowledged, []
        return taken

    def take_refused(self) -> Mapping[int, str]:
        """Return the ids of packets that the broker newly refused in the session, with the reasons.

        Only the refusals since the last call are returned. `take_acknowledged` returns the same
        packet ids, too. In MQTT 3.1.1 a broker cannot refuse a publication.
        """
        taken, self._refused = self._refused, {}
        return taken

    # --- out ----------------------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        """Whether the session is connected and paho's queue is empty.

        paho's queue is unbounded. If a caller publishes only while `can_send` is True, the queue
        stays empty.
        """
        return self.state is SessionState.CONNECTED and not self._client.want_write()

    @property
    def keepalive(self) -> float:
        """Seconds without traffic after which the session sends a ping; inf for no pings.

        A keep-alive in the CONNACK of an MQTT 5 broker replaces the configured keep-alive.
        """
        return self._client.keepalive or inf

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 1,
        retain: bool = False,
        expires_in: float = inf,
    ) -> int:
        """Publish a message in the session; return the packet id.

        At QoS 1, the broker acknowledges this packet id. In MQTT 5, brokers delete the message
        after `expires_in` seconds.
        """
        properties = publish_properties(self.version, expires_in)
        return self._client.publish(topic, payload, qos, retain, properties).mid

    def subscribe(self, filters: Sequence[str], qos: int = 1) -> None:
        """Subscribe the session to topic filters.

        Once the broker has answered, `granted` says for each filter whether the broker allows it.
        """
        self.granted, self.why_not_granted = None, ""
        self._answers = [False] * len(filters)
        self._unanswered = {}
        for first in range(0, len(filters), MAX_FILTERS):
            part = [(each, qos) for each in filters[first : first + MAX_FILTERS]]
            _, identifier = self._client.subscribe(part)
            if identifier is not None:
                self._unanswered[identifier] = first

    # --- end ----------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """End the session with a DISCONNECT, so that the broker does not publish the will."""
        if self.state is SessionState.CONNECTED:
            self._client.disconnect()
        self.close()

    def close(self) -> None:
        """Close the session's socket in any state, without DISCONNECT."""
        self.state = SessionState.CLOSED
        if self._attempt is not None:
            self._attempt.abandon()
            self._attempt = None
        else:
            close_socket(self._client)
        detach_callbacks(self._client)

    # --- connecting ---------------------------------------------------------------------------

    def _start(self) -> None:
        """Begin to connect the session to the broker."""
        client, version, address = self._client, self.version, self.address

        def connect() -> Client:
            properties = connect_properties(version, self._max_packet)
            return connect_client(client, self._mqtt, address, properties)

        try:
            if self._mqtt.tls is not None:
                self._tls = tls.context(self._mqtt.tls, self._mqtt.host)
                self._client.tls_set_context(self._tls)
            self._attempt = Attempt(connect, close_socket)
        except OSError as error:
            self._end(unusable_files(error, self._mqtt.tls or Tls()))

    def _fall_back(self, now: float) -> None:
        """Connect the session again, with MQTT 3.1.1, in the next call of `service`.

        Until then `interest` returns None, so that the caller removes the closed socket from its
        selector before the new socket can get the same descriptor.
        """
        close_socket(self._client)
        self._client = self._make_client(OLD)
        self.state, self.deadline = SessionState.CONNECTING, now + CONNECT_TIMEOUT_S
        self.problem, self.closed_by_broker = None, False

    def _make_client(self, version: str) -> Client:
        self.version = version
        client = make_client(self._mqtt, version, self._client_id, self._will)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        return client

    def _finish_connecting(self, attempt: Attempt[Client], now: float) -> None:
        match attempt.result():
            case None if now >= self.deadline:
                self.deadline = now + CONNECT_TIMEOUT_S
                is_handshaking = self._tls is not None and self._tls.socket is not None
                self.delay = (
                    no_handshake(self._mqtt, CONNECT_TIMEOUT_S)
                    if is_handshaking
                    else no_connection_yet(CONNECT_TIMEOUT_S)
                )
            case None:
                pass
            case Exception() as error:
                self._attempt = None
                self._end(not_connected(error, self._mqtt, CONNECT_TIMEOUT_S))
            case _:
                self._attempt = None
                self._await_connack(now)

    def _await_connack(self, now: float) -> None:
        self.state, self.delay = SessionState.AWAITING_CONNACK, None
        timeout_s = self._connack_5_timeout_s if self.version == NEW else CONNECT_TIMEOUT_S
        self.deadline, self._next_check = now + timeout_s, now + KEEPALIVE_CHECK_S
        sock: Any = self._client.socket()
        self.was_reached = True
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.address = sock.getpeername()[0]
        except (AttributeError, OSError):
            self._end(self._closed())

    # --- connected ----------------------------------------------------------------------------

    def _write(self, mask: int, now: float) -> None:
        """Write packets of the session, and send a keep-alive if one is due.

        Before the CONNACK arrives, the keep-alive is not checked, because it can be shorter than
        the time that the broker has for the CONNACK.
        """
        if mask & selectors.EVENT_WRITE:
            self._client.loop_write()
        if now >= self._next_check and self.state is SessionState.CONNECTED:
            self._next_check = now + KEEPALIVE_CHECK_S
            self._client.loop_misc()

    def _read(self) -> list[MQTTMessage]:
        """Read packets of the session, and return the messages in them, at most `MAX_BATCH`.

        The method stops at a packet without a message.
        """
        messages = self._messages = []
        more = True
        while more and len(messages) < MAX_BATCH:
            before = len(messages)
            is_open = self._client.loop_read() == MQTTErrorCode.MQTT_ERR_SUCCESS
            more = is_open and (len(messages) > before or self._pending())
        return messages

    def _check(self, now: float) -> None:
        """End the MQTT session if there is a problem.

        If MQTT 3.1.1 may solve the problem, the session connects again with MQTT 3.1.1.
        """
        if self.problem is None and self._client.socket() is None:
            self.problem = self._closed()
        if (
            self.state is SessionState.AWAITING_CONNACK
            and now >= self.deadline
            and not self.problem
        ):
            self.problem = silent_server()
        if self.problem is not None and self._may_fall_back():
            self._fall_back(now)
        elif self.problem is not None:
            self.close()

    def _may_fall_back(self) -> bool:
        """Return whether this MQTT session may have failed because the broker speaks no MQTT 5.

        Such a broker refuses the version in its CONNACK, or closes the connection without a
        CONNACK. The broker amqtt misreads the CONNECT instead, and waits for more bytes.
        """
        secured = self._tls.socket if self._tls else None
        return (
            self.version == NEW
            and self.state is SessionState.AWAITING_CONNACK
            and not self._connack_refused
            and not (secured and secured.error)
        )

    def _pending(self) -> bool:
        """Return whether decrypted bytes of the session wait in the TLS layer.

        A selector cannot detect these bytes.
        """
        return self._tls is not None and self._tls.pending() > 0

    def _end(self, problem: ConnectionProblem) -> None:
        self.problem = problem
        self.close()

    def _closed(self) -> ConnectionProblem:
        """Return the connection problem that made paho close the session's socket."""
        self.closed_by_broker = not self._timed_out
        if self.state is SessionState.AWAITING_CONNACK:
            secured = self._tls.socket if self._tls else None
            return closed_before_connack(self._mqtt, secured.error if secured else None)
        if self._timed_out:
            return ConnectionProblem(
                "the broker sent no packet for two keep-alives; check the network between the "
                "broker and this machine",
                Code.NO_ANSWER,
            )
        return ConnectionProblem("the connection was lost")

    # --- callbacks of paho: each stores what arrived ------------------------------------------

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._connack_refused = str(reason) != "Unsupported protocol version"
            why = reason_text(reason, properties)
            self.problem = connection_refused(reason, self._mqtt, self._client_id, why)
        else:
            self.state, self.deadline = SessionState.CONNECTED, inf
            self.max_size = largest_packet(properties)
            self.max_in_flight = most_in_flight(properties)

    def _on_subscribe(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        first = self._unanswered.pop(mid, None)
        if first is None:
            return
        for index, reason in zip(range(first, len(self._answers)), reasons, strict=False):
            self._answers[index] = not reason.is_failure
            if reason.is_failure and self.version == NEW:
                self.why_not_granted = reason_text(reason, properties)
        if not self._unanswered:
            self.granted = self._answers

    def _on_publish(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self._acknowledged.append(mid)
        if reason.is_failure:
            self._refused[mid] = reason_text(reason, properties)

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        self._messages.append(message)

    def _on_disconnect(
        self,
        client: Client,
        userdata: Any,
        flags: DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if self.problem is not None:
            return  # after a refusal by an MQTT 5 CONNACK, paho also reports a protocol error
        if flags.is_disconnect_packet_from_server:
            self.problem = ended_by_broker(reason, reason_text(reason, properties), self._client_id)
            self.closed_by_broker = True
            return
        match str(reason):
            case "Keep alive timeout":
                self._timed_out = True
            case "Protocol error" | "Malformed packet":
                self.problem = not_mqtt(self._mqtt, "a malformed packet")
