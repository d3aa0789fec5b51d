"""Simulated sensors: each is an MQTT client that answers when it is activated."""

import logging
import selectors
import socket
import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.ports import Broker, Recording
from edge_tvbo_adapters.topics import Template

log = logging.getLogger(__name__)

TURN = 0.2  # s between two looks at keep-alives and `stop`
ROUNDING = 1e-6  # of an interval: what a time loses on its way
RETRY = 0.2  # s before a lost connection is tried again, on average


class Activation(msgspec.Struct):
    """What a node needs of an activation."""

    at: float  # s since 1970: the interval that is asked about


def simulate(
    recording: Recording,
    broker: Broker,
    reading_topic: str,
    activate_topic: str,
    *,
    ready: Callable[[], None],
    stop: Callable[[], bool],
) -> None:
    """Be every sensor of `recording` until `stop` says so; call `ready` once all are subscribed.

    A node that receives ``{"at": ...}`` answers ``{"t": value, "ts": at}`` for the interval that
    holds that moment, and keeps silent where the recording has a gap or is over.
    """
    for topic in (reading_topic, activate_topic):
        Template(topic)  # refuses what cannot be
    nodes = [
        Node(recording, arm, broker, reading_topic, activate_topic)
        for arm in range(len(recording.sensors))
    ]
    announced = False
    with selectors.DefaultSelector() as selector:
        while not stop():
            for node in nodes:
                node.keep_connected(selector)
            for key, mask in selector.select(TURN):
                key.data.exchange(mask, selector)
            if not announced and all(node.subscribed for node in nodes):
                announced = True
                ready()
        for node in nodes:
            node.client.disconnect()


class Node:
    """One sensor."""

    def __init__(
        self,
        recording: Recording,
        arm: int,
        broker: Broker,
        reading_topic: str,
        activate_topic: str,
    ) -> None:
        sensor = recording.sensors[arm]
        self.subscribed = False
        self._recording = recording
        self._arm = arm
        self._broker = broker
        self._reading_topic = reading_topic.replace("{sensor}", sensor)
        self._activate_topic = activate_topic.replace("{sensor}", sensor)
        self._retry_at = 0.0
        self._chance = Random(arm)
        self._registered: socket.socket | None = None
        self._mask = 0
        self.client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"node-{sensor}",
            protocol=MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        self.client.on_connect = self._on_connect
        self.client.on_subscribe = self._on_subscribe
        self.client.on_message = self._on_message

    def keep_connected(self, selector: selectors.BaseSelector) -> None:
        """Connect where there is no connection, and have the selector watch the socket there is."""
        self.client.loop_misc()
        self._watch(selector)
        now = time.monotonic()
        if self.client.socket() is None and now >= self._retry_at:
            self._retry_at = now + RETRY * self._chance.uniform(0.5, 1.5)
            self._connect()
        self._watch(selector)

    def exchange(self, mask: int, selector: selectors.BaseSelector) -> None:
        """Read and write what the socket is ready for.

        A socket that is closed here is forgotten here: another node may get its descriptor next.
        """
        if mask & selectors.EVENT_READ:
            self.client.loop_read()
        if mask & selectors.EVENT_WRITE:
            self.client.loop_write()
        self._watch(selector)

    def _connect(self) -> None:
        try:
            self.client.connect(self._broker.host, self._broker.port, self._broker.keepalive)
        except OSError as error:
            log.debug("node %s: %s", self._recording.sensors[self._arm], error)
            return
        sock: Any = self.client.socket()
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _watch(self, selector: selectors.BaseSelector) -> None:
        sock: Any = self.client.socket()
        write = selectors.EVENT_WRITE if sock is not None and self.client.want_write() else 0
        mask = selectors.EVENT_READ | write
        if sock is self._registered and mask == self._mask:
            return
        if self._registered is not None:
            selector.unregister(self._registered)
        self._registered, self._mask = sock, mask
        if sock is not None:
            selector.register(sock, mask, self)

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            log.error("node %s: %s", self._recording.sensors[self._arm], reason)
        else:
            client.subscribe(self._activate_topic, qos=1)

    def _on_subscribe(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self.subscribed = True

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        try:
            at = msgspec.json.decode(message.payload, type=Activation).at
        except (ValueError, RecursionError) as error:
            log.warning("%s: no activation: %s", self._activate_topic, error)
            return
        value = self._measured(at)
        if value is not None:
            client.publish(self._reading_topic, msgspec.json.encode({"t": value, "ts": at}), qos=1)

    def _measured(self, at: float) -> float | None:
        recording = self._recording
        elapsed = (at - recording.start) / recording.interval + ROUNDING
        if not 0 <= elapsed < len(recording.values):
            return None
        row = int(elapsed)
        if not recording.observed[row, self._arm]:
            return None
        return float(recording.values[row, self._arm])
