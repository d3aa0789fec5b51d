"""Simulated sensors, of one network or of many: each answers when it is activated.

They share a bounded number of connections, so that a fleet is no burden to the broker that no fleet
would be, and none to the one loop here; a network that is small enough has one for each sensor.
"""

import logging
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec
from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import ConfigError
from edge_tvbo.simulation.recording import Recording
from edge_tvbo_adapters.mqtt.topics import Template

log = logging.getLogger(__name__)

FIELD = "{field}"
CONNECTIONS = 64  # at the most
SUBSCRIBED = 256  # topics in one packet at the most: a broker refuses packets that are too large
TURN = 0.2  # s between two looks at keep-alives and `stop`
ROUNDING = 1e-6  # of an interval: what a time loses on its way
RETRY = 0.2  # s before a lost connection is tried again, on average


class Activation(msgspec.Struct):
    """What a node needs of an activation."""

    at: float  # s since 1970: the interval that is asked about


def simulate(
    recording: Recording,
    mqtt: Mqtt,
    fields: Sequence[str],
    reading_topic: str,
    activate_topic: str,
    *,
    ready: Callable[[], None],
    stop: Callable[[], bool],
) -> None:
    """Be every sensor of every field until `stop` says so; call `ready` once all are subscribed.

    A node that receives ``{"at": ...}`` answers ``{"t": value, "ts": at}`` for the interval that
    holds that moment, and keeps silent where the recording has a gap or is over. Of several fields,
    number k of n is the recording k/n of its length later, which begins anew where it ends.
    ``{field}`` in a topic is the field's name.
    """
    nodes = network(recording, fields, reading_topic, activate_topic)
    topics = list(nodes)
    radios = [
        SensorConnection({topic: nodes[topic] for topic in topics[first::CONNECTIONS]}, mqtt, first)
        for first in range(min(len(topics), CONNECTIONS))
    ]
    announced, look_at = False, 0.0
    with selectors.DefaultSelector() as selector:
        while not stop():
            if (now := time.monotonic()) >= look_at:
                look_at = now + TURN
                for radio in radios:
                    radio.keep_connected(selector)
            for key, mask in selector.select(look_at - now):
                key.data.exchange(mask, selector)
            if not announced and all(radio.subscribed for radio in radios):
                announced = True
                ready()
        for radio in radios:
            radio.client.disconnect()


def network(
    recording: Recording, fields: Sequence[str], reading_topic: str, activate_topic: str
) -> "dict[str, VirtualSensor]":
    """Give every sensor of every field, by the topic on which it is activated.

    Raises `ConfigError` for a topic that cannot be, or that several fields would share.
    """
    for topic in (reading_topic, activate_topic):
        Template(topic)  # refuses what cannot be
        if len(fields) > 1 and FIELD not in topic:
            raise ConfigError(
                f"{topic!r}: {len(fields)} fields would share it; {FIELD} stands for the field, "
                f"as in '{FIELD}/{topic}'."
            )
    rows = len(recording.values)
    nodes = {}
    for number, field in enumerate(fields):
        ahead = number * rows // len(fields) if len(fields) > 1 else None
        for arm, sensor in enumerate(recording.sensors):
            asked, answered = (
                topic.replace(FIELD, field).replace("{sensor}", sensor)
                for topic in (activate_topic, reading_topic)
            )
            nodes[asked] = VirtualSensor(recording, arm, ahead, answered)
    return nodes


class VirtualSensor(msgspec.Struct, frozen=True):
    """One sensor."""

    recording: Recording
    arm: int
    ahead: int | None  # intervals, of a recording that begins anew; None for one that ends
    reading_topic: str

    def measured(self, at: float) -> float | None:
        """Give what was measured at `at`, s since 1970; None in a gap, and beyond the recording."""
        recording, rows = self.recording, len(self.recording.values)
        elapsed = (at - recording.start) / recording.interval + ROUNDING
        if self.ahead is not None:
            elapsed = (elapsed + self.ahead) % rows
        if not 0 <= elapsed < rows or not recording.observed[int(elapsed), self.arm]:
            return None
        return float(recording.values[int(elapsed), self.arm])


class SensorConnection:
    """One connection, which speaks for some nodes: given by the topics that activate them."""

    def __init__(self, nodes: Mapping[str, VirtualSensor], mqtt: Mqtt, seed: int) -> None:
        self._nodes = nodes
        self._mqtt = mqtt
        self._retry_at = 0.0
        self._chance = Random(seed)
        self._registered: socket.socket | None = None
        self._mask = 0
        self._unconfirmed: set[int | None] = {None}  # subscriptions; None until they are sent
        self.client = Client(
            CallbackAPIVersion.VERSION2,
            protocol=MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        self.client.on_connect = self._on_connect
        self.client.on_subscribe = self._on_subscribe
        self.client.on_message = self._on_message

    @property
    def subscribed(self) -> bool:
        """Whether the broker has confirmed every subscription."""
        return not self._unconfirmed

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

        A socket that is closed here is forgotten here: another radio may get its descriptor next.
        """
        if mask & selectors.EVENT_READ:
            self.client.loop_read()
        if mask & selectors.EVENT_WRITE:
            self.client.loop_write()
        self._watch(selector)

    def _connect(self) -> None:
        try:
            self.client.connect(self._mqtt.host, self._mqtt.port, self._mqtt.keepalive)
        except OSError as error:
            log.debug("nodes: %s", error)
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
            log.error("nodes: %s", reason)
            return
        topics = list(self._nodes)
        self._unconfirmed = {
            client.subscribe([(topic, 1) for topic in topics[first : first + SUBSCRIBED]])[1]
            for first in range(0, len(topics), SUBSCRIBED)
        }

    def _on_subscribe(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self._unconfirmed.discard(mid)

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        try:
            at = msgspec.json.decode(message.payload, type=Activation).at
        except (ValueError, RecursionError) as error:
            log.warning("%s: no activation: %s", message.topic, error)
            return
        node = self._nodes[message.topic]
        value = node.measured(at)
        if value is not None:
            client.publish(node.reading_topic, msgspec.json.encode({"t": value, "ts": at}), qos=1)
