"""Whether a broker is as the configuration has it: one step after the other, as the link goes."""

import os
import ssl
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from statistics import median

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code, LinkError
from edge_tvbo.messages.events import Reading, Unreadable
from edge_tvbo_adapters.mqtt.codec import Message
from edge_tvbo_adapters.mqtt.short_session import ShortSession, dial
from edge_tvbo_adapters.mqtt.subscriber import ReceivedMessage, routes, topic_of

ECHO = 1.0  # s until what we published has come back
ROUNDS = 5  # round trips
DELAYED = (0.035, 0.06)  # s: what a delayed acknowledgement of TCP, 40 ms, makes of a round trip
MOST = 5  # sensors that are named


class CheckResult(msgspec.Struct, frozen=True):
    """Result of one step of the check."""

    good: bool
    text: str  # where it is not good, with what would help
    code: str | None = None  # in docs/errors.md, where it is not good


def probe(
    mqtt: Mqtt, instance: str, fields: Mapping[str, FieldSettings], seconds: float
) -> Iterator[CheckResult]:
    """Try what the daemon `instance` needs, and end with the first that fails for good.

    `seconds` is how long sensors are listened to. Nothing is retained, and no sensor is asked.
    """
    try:
        yield from _reached(mqtt)
        heard = Observed(instance, fields)
        with closing(ShortSession(mqtt, instance, dial(mqtt), heard.take)) as visit:
            yield _let_in(mqtt, visit)
            yield from _subscribed(visit, heard)
            yield from _published(visit, heard)
            visit.listen(time.monotonic() + seconds)
        yield from heard.fields(seconds)
    except LinkError as error:
        yield CheckResult(False, str(error), error.code)


class Observed:
    """What came, by what it is for."""

    def __init__(self, instance: str, fields: Mapping[str, FieldSettings]) -> None:
        base = f"edge_tvbo/{instance}"
        self.instance = instance
        self.status_topic, self.echo_topic = f"{base}/status", f"{base}/response/check"
        self.status: str | None = None
        self.echoes: set[bytes] = set()
        self._ears = [ObservedField(name, field) for name, field in fields.items()]
        self.filters = list(dict.fromkeys(each for ear in self._ears for each in ear.filters))

    def take(self, message: MQTTMessage) -> None:
        """Note a message."""
        topic, _ = topic_of(message)
        if topic == self.status_topic:
            self.status = message.payload.decode(errors="replace")[:20]
        elif topic == self.echo_topic:
            self.echoes = {bytes(message.payload)}
        for ear in self._ears:
            ear.take(topic, message)

    def fields(self, seconds: float) -> Iterator[CheckResult]:
        """Say of each field who was heard."""
        for ear in self._ears:
            yield ear.said(seconds)


class ObservedField:
    """What was heard for one field."""

    def __init__(self, name: str, field: FieldSettings) -> None:
        self._name, self._sensors = name, field.sensors
        self._route, *others = routes(name, field)
        self.filters = [each.template.filter for each in (self._route, *others)]
        self._heard: set[str] = set()
        self._strangers = 0
        self._refused: Counter[str] = Counter()

    def take(self, topic: str, message: MQTTMessage) -> None:
        """Note a message, if it is for this field."""
        sensor = self._route.sensor(topic)
        if sensor is None:
            return
        came = Message(topic.encode(), bytes(message.payload), retain=message.retain)
        match self._route.event(
            sensor, topic, ReceivedMessage(came, time.time(), time.monotonic())
        ):
            case Unreadable(reason=reason):
                self._refused[reason] += 1
            case Reading(sensor=sensor) if sensor in self._sensors:
                self._heard.add(sensor)
            case Reading():
                self._strangers += 1
            case _:
                pass

    def said(self, seconds: float) -> CheckResult:
        """Sum up."""
        silent = [each for each in self._sensors if each not in self._heard]
        text = f"{self._name}: {len(self._heard)} of {len(self._sensors)} sensors in {seconds:g} s"
        if silent and self._heard:
            text += f"; not {_listed(silent)}"
        if self._strangers:
            text += f"; {self._strangers} messages of sensors that are not in the configuration"
        if self._refused:
            counted = ", ".join(f"{count} {reason}" for reason, count in self._refused.items())
            text += f"; refused: {counted}; see payload and value under reading"
        elif not self._heard:
            text += "; sensors that seldom speak want longer, or its ACL hides them from us"
        return CheckResult(bool(self._heard) or not self._refused, text)


def _reached(mqtt: Mqtt) -> Iterator[CheckResult]:
    began = time.monotonic()
    with dial(mqtt, plain=True) as connected:
        took, peer = time.monotonic() - began, connected.getpeername()
    address = "" if peer[0] == mqtt.host else f" ({peer[0]})"
    text = f"{mqtt.host}{address}, port {peer[1]}, answers in {1e3 * took:.1f} ms"
    yield CheckResult(True, text)
    if mqtt.tls is None:
        return
    with dial(mqtt) as secured:
        assert isinstance(secured, ssl.SSLSocket)
        certificate = secured.getpeercert() or {}
        until = str(certificate.get("notAfter", "?"))
        names = [str(name[1]) for name in certificate.get("subjectAltName", ())]
        yield CheckResult(
            True,
            f"{secured.version()}; the broker's certificate is for {_listed(names)}, until {until}",
        )


def _let_in(mqtt: Mqtt, visit: ShortSession) -> CheckResult:
    visit.greet()
    who = "without a login" if mqtt.username is None else f"as {mqtt.username}"
    return CheckResult(True, f"the broker lets us in, {who}")


def _subscribed(visit: ShortSession, heard: Observed) -> Iterator[CheckResult]:
    for topic, granted in zip(heard.filters, visit.subscribe(heard.filters), strict=False):
        if granted:
            yield CheckResult(True, f"subscribed to {topic}")
        else:
            text = f"the broker refuses us {topic}; allow it in its ACL"
            yield CheckResult(False, text, Code.FORBIDDEN)


def _published(visit: ShortSession, heard: Observed) -> Iterator[CheckResult]:
    """Publish what nobody takes for a decision, and see whether it comes back."""
    visit.subscribe([heard.status_topic, heard.echo_topic])
    took = []
    for index in range(ROUNDS):
        payload = f"check {os.getpid()} {index}".encode()
        took.append(visit.publish(heard.echo_topic, payload))
        visit.listen(time.monotonic() + ECHO, lambda: payload in heard.echoes)  # noqa: B023 - at once
        if payload not in heard.echoes:
            break
    trip = median(took)
    slow = DELAYED[0] <= trip <= DELAYED[1]
    hint = "; the broker holds small packets back: `set_tcp_nodelay true` in its configuration"
    yield CheckResult(
        True, f"a round trip at QoS 1 takes {1e3 * trip:.1f} ms{hint if slow else ''}"
    )
    if payload in heard.echoes:
        yield CheckResult(True, f"what we publish under edge_tvbo/{heard.instance}/ arrives")
    else:
        yield CheckResult(
            False,
            f"what we publish on {heard.echo_topic} does not come back; allow `topic readwrite"
            f" edge_tvbo/{heard.instance}/#` in the broker's ACL",
            Code.FORBIDDEN,
        )
    if heard.status == "online":
        text = f"a daemon of the instance {heard.instance} is online there; a second one would"
        yield CheckResult(True, f"{text} want an instance of its own")


def _listed(words: Sequence[str]) -> str:
    rest = f" and {len(words) - MOST} more" if len(words) > MOST else ""
    return ", ".join(words[:MOST]) + rest
