"""Simulated sensors: they replay a recording over MQTT, and reply when they are activated.

Each sensor has its own connection. If there are more than `MAX_CONNECTIONS` sensors, they share
`MAX_CONNECTIONS` connections.
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
from edge_tvbo_adapters.mqtt.session import Session, SessionState
from edge_tvbo_adapters.mqtt.topics import Template

log = logging.getLogger(__name__)

FIELD = "{field}"
MAX_CONNECTIONS = 64
MAX_PACKET = 65_536  # bytes
CHECK_S = 0.2  # time between two checks of the keep-alives and of `stop`
RETRY_S = 0.2  # average wait until a lost session is started again


class ActivationPayload(msgspec.Struct):
    """The part of an activation's payload that a simulated sensor reads."""

    at: float  # s since 1970; the reply is the value of the interval that contains this time


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
    """Simulate every sensor of every field until `stop()` returns True.

    `ready` is called once all sensors have subscribed.

    A sensor that receives ``{"at": ...}`` replies ``{"t": value, "ts": at}`` with the value of the
    interval that contains the time `at`. The sensor does not reply if the recording has a gap at
    this time, or if the recording is over. If there are several fields, the recording repeats, and
    field k of n (k = 0, 1, ...) begins after the fraction k/n of the recording. ``{field}`` in a
    topic stands for the field's name.
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
    """Return the simulated sensors of all fields, as a dict by activation topic.

    Raises `ConfigError` if a topic is invalid, or if several fields would share a topic.
    """
    for topic in (reading_topic, activate_topic):
        Template(topic)  # raises `ConfigError` if the topic is invalid
        if len(fields) > 1 and FIELD not in topic:
            raise ConfigError(
                f"{topic!r}: {len(fields)} fields would use this topic; write {FIELD} where the "
                f"field's name belongs, such as in '{FIELD}/{topic}'."
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
    """One simulated sensor, which replays its column of a recording."""

    recording: Recording
    arm: int
    ahead: int | None  # first interval of a repeating recording; None if it does not repeat
    reading_topic: str

    def measured(self, at: float) -> float | None:
        """Return the simulated sensor's recorded value at the time `at`, s since 1970.

        Returns None in a gap, before the start of the recording, and after its end. A recording
        that repeats has no start and no end.
        """
        recording, rows = self.recording, len(self.recording.values)
        elapsed = (at - recording.start) / recording.interval + recording.rounding
        if self.ahead is not None:
            elapsed = (elapsed + self.ahead) % rows
        if not 0 <= elapsed < rows or not recording.replies_in(int(elapsed), self.arm):
            return None
        return float(recording.values[int(elapsed), self.arm])


class SensorConnection:
    """MQTT connection of one or more simulated sensors, which is restored after a loss.

    Parameters
    ----------
    sensors : mapping
        The sensors by their activation topics.
    mqtt : Mqtt
        The broker and the login.
    number : int
        Number of this connection in the simulation; it is part of the client id.
    """

    def __init__(self, sensors: Mapping[str, VirtualSensor], mqtt: Mqtt, number: int) -> None:
        self._sensors = sensors
        self._mqtt = mqtt
        self._client_id = f"edge-tvbo-simulate-{os.getpid()}-{number}"
        self._retry_at = 0.0
        self._rng = Random(number)
        self._session: Session | None = None
        self._has_subscribed = False
        self._has_ever_connected = False
        self._number, self._logged = number, ""
        self._registered: tuple[int, int] | None = None

    @property
    def subscribed(self) -> bool:
        """Whether the broker has confirmed all subscriptions of the simulated sensors."""
        return self._session is not None and self._session.granted is not None

    def keep_connected(self, selector: selectors.BaseSelector) -> None:
        """Start a session of the simulated sensors if there is none; send a due keep-alive."""
        now = time.monotonic()
        if self._session is None and now >= self._retry_at:
            self._retry_at = now + RETRY_S * self._rng.uniform(0.5, 1.5)
            self._has_subscribed = False
            self._session = Session(self._mqtt, self._client_id, now, max_packet=MAX_PACKET)
        self.service(0, selector)

    def service(self, mask: int, selector: selectors.BaseSelector) -> None:
        """Read and write the sensors' session, and reply to activations.

        A closed socket is removed from the selector immediately, because a new socket can get the
        same file descriptor.
        """
        session = self._session
        if session is None:
            return
        for message in session.service(mask, time.monotonic()):
            self._answer(session, message)
        if session.state is SessionState.CONNECTED and not self._has_subscribed:
            self._has_subscribed = self._has_ever_connected = True
            session.subscribe(list(self._sensors))
        if session.problem is not None:
            self._log(session.problem.text)
            self._session = None
        self._register(selector)

    def disconnect(self) -> None:
        """Disconnect the simulated sensors from the broker."""
        if self._session is not None:
            self._session.disconnect()
        self._session = None

    def _log(self, problem: str) -> None:
        """Log a connection problem of the simulated sensors.

        The log line is a warning only before the first connection, because a later interruption is
        normal.
        """
        is_new = not self._has_ever_connected and problem != self._logged
        level = logging.WARNING if is_new and self._number == 0 else logging.DEBUG
        log.log(level, "broker %s: %s", self._mqtt.address, problem)
        self._logged = problem

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
            at = msgspec.json.decode(message.payload, type=ActivationPayload).at
        except (ValueError, RecursionError) as error:
            log.warning("%s: invalid activation: %s", message.topic, error)
            return
        sensor = self._sensors[message.topic]
        value = sensor.measured(at)
        if value is not None:
            session.publish(sensor.reading_topic, msgspec.json.encode({"t": value, "ts": at}))
