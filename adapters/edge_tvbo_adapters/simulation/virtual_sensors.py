"""Simulated sensors of one network or of many: each answers when it is activated.

A small network has one connection for each sensor; the sensors of a fleet share `MAX_CONNECTIONS`.
"""

import logging
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import ConfigError
from edge_tvbo.simulation.recording import Recording
from edge_tvbo_adapters.mqtt.session import Session, State
from edge_tvbo_adapters.mqtt.topics import Template

log = logging.getLogger(__name__)

FIELD = "{field}"
MAX_CONNECTIONS = 64
MAX_PACKET = 65_536  # bytes
CHECK_S = 0.2  # between two looks at keep-alives and `stop`
ROUNDING = 1e-6  # of an interval: the error of a time that was written as text
RETRY_S = 0.2  # until a lost connection is tried again, on average


class Activation(msgspec.Struct):
    """The part of an activation that a sensor reads."""

    at: float  # s since 1970: the interval that it is about


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
    """Simulate every sensor of every field until `stop()`; call `ready` once all are subscribed.

    A sensor that receives ``{"at": ...}`` answers ``{"t": value, "ts": at}`` for the interval that
    contains that time, and does not answer where the recording has a gap or is over. Of n fields,
    number k starts k/n of the recording's length later and continues at its beginning.
    ``{field}`` in a topic is the field's name.
    """
    sensors = network(recording, fields, reading_topic, activate_topic)
    topics = list(sensors)
    connections = [
        SensorConnection(
            {topic: sensors[topic] for topic in topics[first::MAX_CONNECTIONS]}, mqtt, first
        )
        for first in range(min(len(topics), MAX_CONNECTIONS))
    ]
    announced, check_at = False, 0.0
    with selectors.DefaultSelector() as selector:
        while not stop():
            if (now := time.monotonic()) >= check_at:
                check_at = now + CHECK_S
                for connection in connections:
                    connection.keep_connected(selector)
            for key, mask in selector.select(check_at - now):
                key.data.service(mask, selector)
            if not announced and all(connection.subscribed for connection in connections):
                announced = True
                ready()
        for connection in connections:
            connection.disconnect()


def network(
    recording: Recording, fields: Sequence[str], reading_topic: str, activate_topic: str
) -> "dict[str, VirtualSensor]":
    """Return every sensor of every field, by the topic that activates it.

    Raises `ConfigError` for an invalid topic, and for one that several fields would share.
    """
    for topic in (reading_topic, activate_topic):
        Template(topic)  # raises if it is invalid
        if len(fields) > 1 and FIELD not in topic:
            raise ConfigError(
                f"{topic!r}: {len(fields)} fields would share it; {FIELD} stands for the field, "
                f"as in '{FIELD}/{topic}'."
            )
    rows = len(recording.values)
    sensors = {}
    for number, field in enumerate(fields):
        ahead = number * rows // len(fields) if len(fields) > 1 else None
        for arm, sensor in enumerate(recording.sensors):
            activation, reading = (
                topic.replace(FIELD, field).replace("{sensor}", sensor)
                for topic in (activate_topic, reading_topic)
            )
            sensors[activation] = VirtualSensor(recording, arm, ahead, reading)
    return sensors


class VirtualSensor(msgspec.Struct, frozen=True):
    """One sensor."""

    recording: Recording
    arm: int
    ahead: int | None  # intervals, of a recording that repeats; None for one that ends
    reading_topic: str

    def measured(self, at: float) -> float | None:
        """Return the value at `at`, s since 1970; None in a gap and outside the recording."""
        recording, rows = self.recording, len(self.recording.values)
        elapsed = (at - recording.start) / recording.interval + ROUNDING
        if self.ahead is not None:
            elapsed = (elapsed + self.ahead) % rows
        if not 0 <= elapsed < rows or not recording.observed[int(elapsed), self.arm]:
            return None
        return float(recording.values[int(elapsed), self.arm])


class SensorConnection:
    """One session, shared by some sensors; it reconnects when it ends.

    Parameters
    ----------
    sensors : mapping
        The sensors by the topic that activates them.
    mqtt : Mqtt
        The broker.
    number : int
        Tells the connections of one simulation apart.
    """

    def __init__(self, sensors: Mapping[str, VirtualSensor], mqtt: Mqtt, number: int) -> None:
        self._sensors = sensors
        self._mqtt = mqtt
        self._client_id = f"edge-tvbo-simulate-{os.getpid()}-{number}"
        self._retry_at = 0.0
        self._rng = Random(number)
        self._session: Session | None = None
        self._has_subscribed = False
        self._registered: tuple[int, int] | None = None

    @property
    def subscribed(self) -> bool:
        """Whether the broker has confirmed every subscription."""
        return self._session is not None and self._session.granted is not None

    def keep_connected(self, selector: selectors.BaseSelector) -> None:
        """Start a session if there is none; keep alive the one there is."""
        now = time.monotonic()
        if self._session is None and now >= self._retry_at:
            self._retry_at = now + RETRY_S * self._rng.uniform(0.5, 1.5)
            self._has_subscribed = False
            self._session = Session(self._mqtt, self._client_id, now, max_packet=MAX_PACKET)
        self.service(0, selector)

    def service(self, mask: int, selector: selectors.BaseSelector) -> None:
        """Read and write what the socket is ready for; answer activations.

        A closed socket is unregistered here: the next connection may get its descriptor.
        """
        session = self._session
        if session is None:
            return
        messages = session.service(mask, time.monotonic())
        if session.state is State.CONNECTED and not self._has_subscribed:
            self._has_subscribed = True
            session.subscribe(list(self._sensors))
        for message in messages:
            self._answer(session, message)
        session.acknowledge(messages)
        if session.problem is not None:
            log.debug("simulated sensors: %s", session.problem.text)
            self._session = None
        self._register(selector)

    def disconnect(self) -> None:
        """Disconnect."""
        if self._session is not None:
            self._session.disconnect()
        self._session = None

    def _register(self, selector: selectors.BaseSelector) -> None:
        interest = self._session.interest() if self._session else None
        if interest == self._registered:
            return
        if self._registered is not None:
            selector.unregister(self._registered[0])
        if interest is not None:
            selector.register(*interest, self)
        self._registered = interest

    def _answer(self, session: Session, message: MQTTMessage) -> None:
        try:
            at = msgspec.json.decode(message.payload, type=Activation).at
        except (ValueError, RecursionError) as error:
            log.warning("%s: invalid activation: %s", message.topic, error)
            return
        sensor = self._sensors[message.topic]
        value = sensor.measured(at)
        if value is not None:
            session.publish(sensor.reading_topic, msgspec.json.encode({"t": value, "ts": at}))
