"""The link over MQTT 3.1.1, on paho-mqtt: no thread, and only name resolution can block.

A connection goes through four states, each left for `AWAY` when something fails:

    AWAY ──(wait is over)──▶ DIALLING ──(TCP is up)──▶ GREETING ──(CONNACK)──▶ HERE

Every attempt has a paho client of its own, so that nothing unacknowledged is carried over: a
command that arrives late is worse than none.
"""

import logging
import os
import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from errno import EINPROGRESS
from hashlib import sha256
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.messages import (
    Activate,
    Command,
    Event,
    Health,
    Notify,
    PublishState,
    Record,
)
from edge_tvbo.ports import Broker, Wiring
from edge_tvbo_adapters.backoff import Backoff
from edge_tvbo_adapters.inbox import Inbox
from edge_tvbo_adapters.topics import publishable

log = logging.getLogger(__name__)

PATIENCE = 10.0  # s for TCP, again for CONNACK, and again for SUBACK
GOOD_BYE = 1.0  # s to get the last messages out
TICK = 1.0  # s between two looks at the keep-alive
BATCH = 256  # messages read before the clock is looked at again
QUEUED = 1000  # publications that paho may hold for a slow broker
EVENTS = 100  # notices kept while the broker is away


class State(Enum):
    """How far the connection is."""

    AWAY = "away"
    DIALLING = "dialling"
    GREETING = "greeting"
    HERE = "here"


class _Dialled(Client):
    """A paho client over a socket that is connected already."""

    dialled: socket.socket

    def _create_socket_connection(self) -> socket.socket:
        return self.dialled


def connect(
    broker: Broker,
    fields: Mapping[str, Wiring],
    *,
    seed: int = 0,
    wall: Callable[[], float] = time.time,
) -> "MqttLink":
    """Give a link to `broker` that carries `fields`; it dials when it is first serviced.

    `wall` says when a reading was received, `seed` spreads the waits between attempts.
    """
    return MqttLink(broker, fields, Random(seed), wall)


class MqttLink:
    """A `Link` to one broker; see `connect`."""

    def __init__(
        self,
        broker: Broker,
        fields: Mapping[str, Wiring],
        chance: Random,
        wall: Callable[[], float],
    ) -> None:
        self._broker = broker
        self._fields = dict(fields)
        self._base = f"edge_tvbo/{broker.instance}"
        self._client_id = broker.client_id or default_client_id(broker.instance)
        self._inbox = Inbox(fields, wall)
        self._backoff = Backoff(broker.reconnect_min, broker.reconnect_max, chance)
        self._state = State.AWAY
        self._addresses: list[tuple[Any, ...]] = []
        self._socket: socket.socket | None = None
        self._client: _Dialled | None = None
        self._subscribed = False
        self._until = 0.0  # monotonic: when the wait, the dialling or the greeting is over
        self._since = 0.0  # monotonic: when the session began
        self._granted_by = inf  # monotonic: how long SUBACK is waited for
        self._refusal = ""  # why the broker did not let us in
        self._unsettled = 0  # publications that the broker has not acknowledged
        self._trouble = ""  # what was last said of the broker
        self._retained: dict[str, bytes] = {f"{self._base}/status": b"online"}
        self._notices: deque[tuple[str, bytes]] = deque(maxlen=EVENTS)
        self._dropped = 0

    # --- what the loop calls ------------------------------------------------------------------

    @property
    def online(self) -> bool:
        """Whether the broker has let us in and granted our subscriptions."""
        return self._state is State.HERE and self._subscribed

    def interest(self) -> tuple[int, int] | None:
        """Give the socket and what to wait for on it."""
        if self._state is State.DIALLING and self._socket is not None:
            return self._socket.fileno(), selectors.EVENT_WRITE
        sock = self._client.socket() if self._client else None
        if sock is None or self._client is None:
            return None
        write = selectors.EVENT_WRITE if self._client.want_write() else 0
        return sock.fileno(), selectors.EVENT_READ | write

    def wake_at(self) -> float:
        """Give when the wait or the patience is over, or the keep-alive wants a look."""
        lost = self._client is not None and self._client.socket() is None
        return 0.0 if lost else self._until

    def service(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        """Do what is due on the connection, and yield what came in."""
        match self._state:
            case State.AWAY if now >= self._until:
                self._dial(now)
            case State.DIALLING:
                self._dialling(mask, now)
            case State.GREETING | State.HERE:
                yield from self._exchange(mask, now)

    def send(self, field: str, command: Command) -> None:
        """Publish what `command` says."""
        match command:
            case Activate():
                self._activate(self._fields[field], command)
            case PublishState(decision=decision):
                self._retain(f"{self._base}/{field}/selected", decision)
            case Notify(notice=notice):
                topic, payload = f"{self._base}/{field}/event", msgspec.json.encode(notice)
                if not self._publish(topic, payload):
                    self._dropped += len(self._notices) == EVENTS
                    self._notices.append((topic, payload))
            case Record():
                pass

    def report(self, health: Health) -> None:
        """Publish the daemon's health, retained."""
        self._retain(f"{self._base}/health", health)

    def close(self) -> None:
        """Publish ``offline``, wait a moment for it to leave, and disconnect."""
        client = self._client
        if self._state is State.HERE and client is not None:
            self._publish(f"{self._base}/status", b"offline", retain=True)
            deadline = time.monotonic() + GOOD_BYE
            while client.socket() and self._unsettled and time.monotonic() < deadline:
                self._flush(client, deadline - time.monotonic())
            client.disconnect()
        self._hang_up()

    # --- connecting ---------------------------------------------------------------------------

    def _dial(self, now: float) -> None:
        if not self._addresses:
            try:
                self._addresses = socket.getaddrinfo(
                    self._broker.host, self._broker.port, type=socket.SOCK_STREAM
                )
            except (OSError, UnicodeError) as error:
                self._away(now, f"the name cannot be resolved ({error}); check mqtt.host")
                return
        family, kind, protocol, _, address = self._addresses.pop(0)
        self._state, self._until = State.DIALLING, now + PATIENCE
        try:
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            error_number = self._socket.connect_ex(address)
        except OSError as error:
            self._undialled(now, error)
            return
        if error_number not in (0, EINPROGRESS):
            self._undialled(now, OSError(error_number, os.strerror(error_number)))

    def _dialling(self, mask: int, now: float) -> None:
        if self._socket is None:
            return
        if mask:
            error_number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error_number:
                self._undialled(now, OSError(error_number, os.strerror(error_number)))
            else:
                self._greet(now)
        elif now >= self._until:
            self._undialled(now, TimeoutError("no answer"))

    def _undialled(self, now: float, error: OSError) -> None:
        """Try the next address at once, or wait where there is none."""
        if self._addresses:
            self._hang_up()
            self._state, self._until = State.AWAY, now
        elif isinstance(error, ConnectionRefusedError):
            self._away(now, "the connection is refused; is a broker running there?")
        else:
            self._away(now, f"{error.strerror or error}; check mqtt.host, mqtt.port and firewalls")

    def _greet(self, now: float) -> None:
        client = _Dialled(
            CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            clean_session=True,
            protocol=MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        assert self._socket is not None
        client.dialled, self._socket = self._socket, None
        client.max_queued_messages_set(QUEUED)
        client.will_set(f"{self._base}/status", b"offline", qos=1, retain=True)
        if self._broker.username is not None:
            client.username_pw_set(self._broker.username, self._broker.password)
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        self._client, self._state, self._until = client, State.GREETING, now + PATIENCE
        self._addresses = []
        try:
            client.connect(self._broker.host, self._broker.port, keepalive=self._broker.keepalive)
        except OSError as error:
            client.dialled.close()
            self._away(now, f"{error}")

    def _exchange(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        client = self._client
        if client is None:
            return
        broken = ""
        try:
            self._transfer(client, mask)
        except Exception as error:  # paho's, for bytes that are no MQTT
            broken = f"it does not speak MQTT 3.1.1 ({error!r}); check mqtt.host and mqtt.port"
        if broken or client.socket() is None or self._refusal:
            self._away(now, self._refusal or broken or "the connection was lost")
        elif self._state is State.GREETING and now >= self._until:
            self._away(now, "the broker took the connection and says nothing; is it MQTT?")
        elif self._state is State.HERE and now >= self._granted_by:
            self._away(now, "the broker does not answer our subscriptions")
        elif self._state is State.HERE:
            self._until = now + TICK
        yield from self._inbox.events()

    def _transfer(self, client: _Dialled, mask: int) -> None:
        """Read a batch of packets, write, and see to the keep-alive."""
        for _ in range(BATCH if mask & selectors.EVENT_READ else 0):
            waiting = len(self._inbox)
            client.loop_read()
            if len(self._inbox) == waiting or client.socket() is None:
                break
        if mask & selectors.EVENT_WRITE and client.socket() is not None:
            client.loop_write()
        client.loop_misc()

    def _away(self, now: float, trouble: str) -> None:
        if self._state is State.HERE:
            self._backoff.ended(now - self._since)
            if self._backoff.rivalled:
                trouble = (
                    f"the broker ends every session at once; does another client call itself "
                    f"{self._client_id!r}? Set mqtt.client_id"
                )
        if trouble != self._trouble:
            self._trouble = trouble
            log.error("broker %s:%d: %s", self._broker.host, self._broker.port, trouble)
        self._hang_up()
        self._state, self._until = State.AWAY, now + self._backoff.wait()

    def _hang_up(self) -> None:
        """Let go of whatever socket there is."""
        dialled = self._client.socket() if self._client else None
        for each in (dialled, self._socket):
            if each is not None:
                each.close()
        self._client = self._socket = None
        self._subscribed = False
        self._granted_by = inf
        self._refusal = ""
        self._unsettled = 0

    # --- what paho calls ----------------------------------------------------------------------

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._refusal = self._refused(reason)
            return
        self._state, self._since = State.HERE, time.monotonic()
        self._until = self._since + TICK
        filters = [(each, 1) for each in self._inbox.filters()]
        if filters:
            client.subscribe(filters)
            self._granted_by = self._since + PATIENCE
        self._subscribed = not filters
        for topic, payload in self._retained.items():
            self._publish(topic, payload, retain=True)
        while self._notices:
            self._publish(*self._notices.popleft())
        if self._backoff.rivalled:
            return  # said once; each session that follows would say it again
        if self._trouble:
            lost = f"; {self._dropped} activations or notices were lost" if self._dropped else ""
            log.info("broker %s:%d: connected%s", self._broker.host, self._broker.port, lost)
        self._trouble, self._dropped = "", 0

    def _on_subscribe(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        for each, reason in zip(self._inbox.filters(), reasons, strict=False):
            if reason.is_failure:
                log.error("the broker refuses readings on %s; check its ACL", each)
        self._subscribed = not any(reason.is_failure for reason in reasons)
        self._granted_by = inf

    def _on_publish(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reason: ReasonCode,
        properties: Properties,
    ) -> None:
        self._unsettled -= 1

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        self._inbox.put(message)

    def _refused(self, reason: ReasonCode) -> str:
        match str(reason):
            case "Bad user name or password":
                return "wrong user or password; check mqtt.username and mqtt.password_file"
            case "Not authorized":
                return "not authorised; check mqtt.username, the password and the broker's ACL"
            case "Client identifier not valid":
                return f"the client id {self._client_id!r} is refused; set mqtt.client_id"
            case other:
                return f"the broker refuses us: {other}"

    # --- publishing ---------------------------------------------------------------------------

    def _activate(self, wiring: Wiring, activate: Activate) -> None:
        if wiring.activate_topic is None or activate.sensor not in wiring.sensors:
            return
        topic = wiring.activate_topic.replace("{sensor}", activate.sensor)
        payload = filled(wiring.activate_payload, activate)
        self._dropped += not self._publish(topic, payload.encode())

    def _retain(self, topic: str, document: msgspec.Struct) -> None:
        self._retained[topic] = msgspec.json.encode(document)
        self._publish(topic, self._retained[topic], retain=True)

    def _publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Publish at QoS 1 if the broker is here, and say whether it was."""
        if self._state is not State.HERE or self._client is None or not publishable(topic):
            return False
        sent = self._client.publish(topic, payload, qos=1, retain=retain)
        accepted = sent.rc is MQTTErrorCode.MQTT_ERR_SUCCESS
        self._unsettled += accepted
        return accepted

    def _flush(self, client: Client, timeout: float) -> None:
        with selectors.DefaultSelector() as selector:
            interest = self.interest()
            if interest is None:
                return
            selector.register(*interest)
            ready = selector.select(max(0.0, timeout))
        for _, mask in ready:
            if mask & selectors.EVENT_READ:
                client.loop_read()
            if mask & selectors.EVENT_WRITE:
                client.loop_write()


def filled(template: str, activate: Activate) -> str:
    """Give an activation's payload, its places filled in; nothing else in it has a meaning.

    >>> filled('{"at": {at}}', Activate("a", 7, at=600.0, expires_at=720.5))
    '{"at": 600}'
    """
    values = {
        "{sensor}": activate.sensor,
        "{interval}": str(activate.interval),
        "{at}": _number(activate.at),
        "{expires_at}": _number(activate.expires_at),
    }
    return re.sub("|".join(values), lambda place: values[place[0]], template)


def default_client_id(instance: str) -> str:
    """Give a client id that differs between machines and between instances, and stays."""
    try:
        machine = Path("/etc/machine-id").read_bytes()
    except OSError:
        machine = socket.gethostname().encode()
    return f"edge-tvbo-{instance}-{sha256(machine).hexdigest()[:8]}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
