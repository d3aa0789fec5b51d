"""A short visit to a broker beside the daemon's link: its login, an id that nobody else has."""

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.client import SocketClient, hung_up, no_mqtt, refused
from edge_tvbo_adapters.mqtt.connect import Dialler
from edge_tvbo_adapters.mqtt.outage_log import ConnectionProblem, out_of_reach
from edge_tvbo_adapters.mqtt.topics import default_client_id

PATIENCE = 10.0  # s to be connected, and for each answer of a broker
LARGEST = 65_536  # bytes of a message that are kept
TICK = 0.1  # s, at the most, between two looks at the time


def dial(mqtt: Mqtt, *, patience: float | None = None, plain: bool = False) -> socket.socket:
    """Give a socket that is connected; `plain` leaves TLS out. Raises `LinkError`."""
    until = time.monotonic() + (patience or PATIENCE)
    with closing(Dialler(mqtt)) as dialler, selectors.DefaultSelector() as selector:
        outcome = dialler.start(time.monotonic(), plain=plain)
        while outcome is None:
            mask = _mask(selector, dialler.interest(), TICK)
            now = time.monotonic()
            outcome = dialler.step(mask, now)
            if outcome is None and now >= until:
                text = "no answer; check mqtt.host, mqtt.port and firewalls"
                outcome = ConnectionProblem(text, Code.NO_ANSWER)
    if isinstance(outcome, ConnectionProblem):
        raise out_of_reach(mqtt, outcome)
    return outcome


class ShortSession:
    """One session over a socket that `dial` gave.

    Parameters
    ----------
    mqtt : Mqtt
        The broker, and the login.
    instance : str
        The client id derives from it.
    connected : socket
        Closed with the visit.
    take : callable
        Is given every message that comes; it must not raise.
    patience : float, optional
        Seconds for each answer of the broker; `PATIENCE` by default.
    keep : int
        Bytes of a message; what is beyond is forgotten.

    Raises
    ------
    LinkError
        From every method, where the broker does not let us in, is gone, or says nothing.
    """

    def __init__(
        self,
        mqtt: Mqtt,
        instance: str,
        connected: socket.socket,
        take: Callable[[MQTTMessage], None],
        *,
        patience: float | None = None,
        keep: int = LARGEST,
    ) -> None:
        self._mqtt = mqtt
        self._take = take
        self._patience = patience or PATIENCE
        self._trouble: ConnectionProblem | None = None
        self._let_in = False
        self._granted: list[ReasonCode] | None = None
        self._arrived: int | None = None  # the message that the broker took last
        self._client_id = f"{mqtt.client_id or default_client_id(instance)}-{os.getpid()}"
        self._client = client = SocketClient(
            CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            protocol=MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        client.dialled, client.keep = connected, keep
        if mqtt.username is not None:
            client.username_pw_set(*mqtt.login())
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        try:
            client.connect(mqtt.host, mqtt.port, keepalive=mqtt.keepalive)
        except OSError as error:
            raise out_of_reach(mqtt, ConnectionProblem(str(error))) from None

    def greet(self) -> None:
        """Wait until the broker has let us in."""
        self._answered(lambda: self._let_in)

    def subscribe(self, filters: Iterable[str]) -> list[bool]:
        """Ask for messages, and say which filters the broker grants."""
        self._granted = None
        self._client.subscribe([(each, 0) for each in filters])
        self._answered(lambda: self._granted is not None)
        granted: list[ReasonCode] = self._granted or []
        return [not reason.is_failure for reason in granted]

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> float:
        """Publish, QoS 1, and give the seconds until the broker had it."""
        began = time.monotonic()
        sent = self._client.publish(topic, payload, qos=1, retain=retain)
        self._answered(lambda: self._arrived == sent.mid)
        return time.monotonic() - began

    def listen(self, until: float, done: Callable[[], bool] = lambda: False) -> None:
        """Take messages until `done()`, or until monotonic `until`."""
        with selectors.DefaultSelector() as selector:
            while not done() and (left := until - time.monotonic()) > 0:
                noise = self._client.transfer(
                    _mask(selector, self._interest(), min(TICK, left)), ()
                )
                if noise:
                    self._trouble = no_mqtt(noise, self._mqtt)
                elif self._client.socket() is None and self._trouble is None:
                    self._trouble = hung_up(self._client, self._mqtt)
                if self._trouble:
                    raise out_of_reach(self._mqtt, self._trouble)

    def close(self) -> None:
        """Say good-bye."""
        self._client.disconnect()
        self._client.dialled.close()

    def _answered(self, done: Callable[[], bool]) -> None:
        self.listen(time.monotonic() + self._patience, done)
        if not done():
            text = "it takes the connection and says nothing"
            raise out_of_reach(self._mqtt, ConnectionProblem(text, Code.NO_ANSWER))

    def _interest(self) -> tuple[int, int] | None:
        sock: Any = self._client.socket()
        if sock is None or self._client.pending:
            return None
        write = selectors.EVENT_WRITE if self._client.want_write() else 0
        return sock.fileno(), selectors.EVENT_READ | write

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
            self._trouble = refused(reason, self._mqtt, self._client_id)
        self._let_in = not reason.is_failure

    def _on_subscribe(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self._granted = reasons

    def _on_publish(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reason: ReasonCode,
        properties: Properties,
    ) -> None:
        self._arrived = mid

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        self._take(message)


def _mask(
    selector: selectors.BaseSelector, interest: tuple[int, int] | None, longest: float
) -> int:
    """Wait a moment, and give what the socket is ready for."""
    if interest is None:
        return 0
    selector.register(*interest)
    ready = selector.select(longest)
    selector.unregister(interest[0])
    return sum(mask for _, mask in ready)
