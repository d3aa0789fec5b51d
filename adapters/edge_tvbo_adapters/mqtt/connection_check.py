"""Connection check: `check --connect` tries each step of the daemon's connection to its broker."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from statistics import median
from typing import NamedTuple

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.mqtt_settings import Mqtt, Tls
from edge_tvbo.errors import Code, LinkError
from edge_tvbo.messages.events import BatteryReported, Reading, Unreadable
from edge_tvbo.messages.formatting import listed, named, significant
from edge_tvbo_adapters.mqtt import tls
from edge_tvbo_adapters.mqtt.client import Will
from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S, open_socket
from edge_tvbo_adapters.mqtt.connection_problems import link_error, not_connected, unusable_files
from edge_tvbo_adapters.mqtt.message_router import Route, matching, routes
from edge_tvbo_adapters.mqtt.read_retained import QUIET_S, read_retained
from edge_tvbo_adapters.mqtt.short_session import ShortSession
from edge_tvbo_adapters.mqtt.topics import topic_of

READ_TIMEOUT_S = 10.0  # longest wait for the retained documents of a running daemon
ECHO_TIMEOUT_S = 1.0  # longest wait until a published message comes back
ROUND_TRIPS = 5
DELAYED_ACK_S = (0.035, 0.06)  # range of a round trip with TCP's delayed acknowledgement (40 ms)
MAX_UNKNOWN_SENSORS = 1000  # largest number of names of unknown sensors that are stored
MAX_NAME_LENGTH = 64  # characters of the name of an unknown sensor; the rest is cut off
MAX_NAMES = 12  # largest number of names in a line; more topics or complete sources share one line


class CheckResult(msgspec.Struct, frozen=True):
    """Result of one step of the connection check."""

    good: bool
    text: str  # the result, followed by advice if `good` is false
    code: str | None = None  # the error code of docs/errors.md, if `good` is false

    @property
    def label(self) -> str:
        """The first word of the line that shows this result of the check."""
        return "good" if self.good else "BAD "


class NoReading(CheckResult, frozen=True):
    """Check result: no new reading from a source, or no battery charge; the check does not fail."""

    @property
    def label(self) -> str:
        """The first word of the line that shows this result of the check."""
        return "none"


class DiscoveryTopics(NamedTuple):
    """Topics of Home Assistant: of the daemon's discovery message, and of the birth message."""

    message: str
    birth: str


def check_connection(
    mqtt: Mqtt,
    instance: str,
    fields: Mapping[str, FieldSettings],
    seconds: float,
    discovery: DiscoveryTopics | None = None,
) -> Iterator[CheckResult]:
    """Yield the result of each step of the connection check, up to the first fatal problem.

    The check waits `seconds` for readings, or until Ctrl-C. It publishes no retained message and
    activates no sensor. The topics in `discovery` are tested, too.

    If there is a read-only login, the check first uses it to read the daemon's status. If the
    daemon is online, the check ends without using the daemon's login, because some brokers use the
    login as the client id: such a broker would end the daemon's session.
    """
    try:
        yield from _connect(mqtt)
        if mqtt.readonly is not None:
            retained = read_retained(mqtt.for_readers(), instance, (), READ_TIMEOUT_S)
            yield _accepted(mqtt.for_readers())
            if retained.status == "online":
                yield _login_in_use(mqtt, instance)
                return
        observed = Observed(instance, fields, discovery)
        # The connection has a will, like the daemon's connection; an empty will changes nothing.
        will = Will(observed.echo_topic, b"")
        with closing(ShortSession(mqtt, instance, observed.take, will=will)) as session:
            yield _accepted(mqtt)
            yield from _subscribe(session, observed)
            yield from _publish(session, observed)
            if discovery is not None:
                yield _publish_discovery(session, discovery.message, observed)
            start = time.monotonic()
            with suppress(KeyboardInterrupt):
                session.listen(start + seconds)
            listened = min(seconds, round(time.monotonic() - start, 1))
        yield from observed.results(listened)
    except LinkError as error:
        yield CheckResult(False, str(error), error.code)


class Observed:
    """Messages that the connection check received: readings, test messages, a daemon's status."""

    def __init__(
        self,
        instance: str,
        fields: Mapping[str, FieldSettings],
        discovery: DiscoveryTopics | None = None,
    ) -> None:
        base = f"edge_tvbo/{instance}"
        self.instance = instance
        self.status_topic, self.echo_topic = f"{base}/status", f"{base}/response/check"
        self.status: str | None = None
        self.echoes: set[bytes] = set()
        self.discovery_topic = discovery.message if discovery else None
        self.discovery_copy: bytes | None = None  # the discovery message that the broker retains
        self.discovery_echo: bytes | None = None
        self._sources: dict[Route, ObservedSource | ObservedBatteries] = {}
        self._by_field: dict[str, list[ObservedSource]] = {}
        self._batteries: dict[str, ObservedBatteries] = {}
        filters = []
        for name, field in fields.items():
            every = routes(name, field)
            filters += [route.template.filter for route in every]
            if batteries := every[len(field.sources) :]:
                self._batteries[name] = ObservedBatteries(name, field.sensors)
                self._sources |= dict.fromkeys(batteries, self._batteries[name])
            for route, source in zip(every, field.sources, strict=False):
                text = name if field.reading else f"{name}, {source.topic}"
                same_topic = [each for each in field.sources if each.topic == source.topic]
                if len(same_topic) > 1:
                    value = source.settings.get("value")
                    text += f", {value}" if value else ""
                    if sum(each.settings.get("value") == value for each in same_topic) > 1:
                        names = named(route.sensors, field.sensor_names)
                        text += f" ({listed(names, MAX_NAMES)})"
                observed = ObservedSource(route.sensors, text, field.sensor_names)
                self._sources[route] = observed
                self._by_field.setdefault(name, []).append(observed)
        filters += [discovery.birth] if discovery else []
        self.filters = list(dict.fromkeys(filters))

    def take(self, message: MQTTMessage) -> None:
        """Take one message of the connection check: store or count it, according to its topic."""
        topic, _ = topic_of(message)
        if topic == self.status_topic:
            self.status = message.payload.decode(errors="replace")[:20]
        elif topic == self.echo_topic:
            self.echoes = {bytes(message.payload)}
        elif topic == self.discovery_topic and message.retain:
            self.discovery_copy = bytes(message.payload)
        elif topic == self.discovery_topic:
            self.discovery_echo = bytes(message.payload)
        for route, sensor in matching(self._sources, topic):
            self._sources[route].take(route, sensor, message)

    def results(self, seconds: float) -> Iterator[CheckResult]:
        """Yield the check result of each source of each field, after `seconds` of listening.

        A source is complete if all its sensors reported. Many complete sources of a field share one
        result.
        """
        for field, sources in self._by_field.items():
            complete = [each for each in sources if each.is_complete]
            if len(complete) <= MAX_NAMES:
                complete = []
            else:
                text = f"all sensors of {len(complete)} sources sent a reading"
                yield CheckResult(True, f"{field}: {text} within {seconds:g} s")
            yield from (each.result(seconds) for each in sources if each not in complete)
            if field in self._batteries:
                yield self._batteries[field].result(seconds)


class ObservedSource:
    """Counts the messages that the connection check receives from one source of a field."""

    def __init__(self, sensors: Sequence[str], name: str, sensor_names: Mapping[str, str]) -> None:
        self._name, self._sensors = name, sensors
        self._sensor_names = sensor_names
        self._sensors_seen: set[str] = set()
        self._sensors_retained: set[str] = set()
        self._unknown_messages = 0
        self._unknown_sensors: dict[str, None] = {}  # names, in order of the first reading
        self._rejected: Counter[str] = Counter()
        self._causes: dict[str, str] = {}  # reason: detail of the first rejected message

    def take(self, route: Route, sensor: str, message: MQTTMessage) -> None:
        """Count one message from `sensor` for the connection check of this source."""
        match route.event(sensor, message, time.time(), time.monotonic()):
            case Unreadable(reason="unknown-sensor"):
                self._unknown_messages += 1
            case Unreadable(reason=reason, detail=detail):
                self._rejected[reason] += 1
                self._causes.setdefault(reason, detail)
            case Reading(sensor=sensor) if sensor not in self._sensors:
                self._unknown_messages += 1
                if len(self._unknown_sensors) < MAX_UNKNOWN_SENSORS:
                    self._unknown_sensors[sensor[:MAX_NAME_LENGTH]] = None
            case Reading(sensor=sensor, retained=True):
                self._sensors_retained.add(sensor)
            case Reading(sensor=sensor):
                self._sensors_seen.add(sensor)
            case _:
                pass

    @property
    def is_complete(self) -> bool:
        """Whether the check received a reading of each sensor, and no unusable message."""
        is_clean = not self._unknown_messages and not self._rejected
        return is_clean and self._sensors_seen.issuperset(self._sensors)

    def result(self, seconds: float) -> CheckResult:
        """Return the check result of a source: which sensors reported, and what was rejected.

        The check fails only if messages were rejected, and neither a new nor a retained reading
        arrived. A retained reading shows that its format is right, although its sensor may have
        stopped reporting since. If nothing arrived at all, the text says what the user can try.
        """
        seen = self._sensors_seen
        retained = [each for each in self._sensors if each in self._sensors_retained - seen]
        silent = [each for each in self._sensors if each not in {*seen, *retained}]
        text = (
            f"{self._name}: {len(seen)} of {len(self._sensors)} sensors sent a reading within "
            f"{seconds:g} s"
        )
        if retained:
            names = listed(named(retained, self._sensor_names), MAX_NAMES)
            text += (
                "; sensors with only a retained message (the daemon ignores retained messages): "
                f"{names}"
            )
        if silent:
            names = listed(named(silent, self._sensor_names), MAX_NAMES)
            text += f"; sensors without a reading: {names}"
        if self._unknown_messages:
            text += f"; messages of sensors that are not configured: {self._unknown_messages}"
        if self._unknown_sensors:
            text += f" (with a reading: {listed(self._unknown_sensors, MAX_NAMES)})"
        if self._rejected:
            counted = ", ".join(
                f"{count} {reason} ({self._causes[reason]})"
                for reason, count in self._rejected.items()
            )
            text += f"; rejected: {counted}; check reading.payload and reading.value"
        elif not seen:
            text += "; if the sensors report rarely, listen for longer, such as --listen 10min"
            if not retained:
                text += (
                    "; otherwise check the topic, and whether the broker's ACL allows this login "
                    "to read the topic"
                )
        if not seen and not retained and self._rejected:
            return CheckResult(False, text)
        return CheckResult(True, text) if seen else NoReading(True, text)


class ObservedBatteries:
    """Sensors of one field that reported the charge of their battery to the connection check."""

    def __init__(self, field: str, sensors: Sequence[str]) -> None:
        self._field, self._sensors = field, sensors
        self._sensors_seen: set[str] = set()

    def take(self, route: Route, sensor: str, message: MQTTMessage) -> None:
        """Note whether a message from `sensor` reports a charge to the connection check."""
        match route.event(sensor, message, time.time(), time.monotonic()):
            case BatteryReported(sensor=sensor) if sensor in self._sensors:
                self._sensors_seen.add(sensor)

    def result(self, seconds: float) -> CheckResult:
        """Return the check result of the batteries: how many sensors of the field sent a charge.

        If no sensor sent a charge, the text contains advice. If only some sensors sent a charge,
        the text contains no advice, because sensors on mains power send no charge.
        """
        text = (
            f"{self._field}, energy.battery: {len(self._sensors_seen)} of {len(self._sensors)} "
            f"sensors sent a charge within {seconds:g} s"
        )
        if self._sensors_seen:
            return CheckResult(True, text)
        text += (
            "; if the sensors report rarely, listen for longer, such as --listen 10min; otherwise "
            "check topic, payload and value of energy.battery"
        )
        return NoReading(True, text)


def _connect(mqtt: Mqtt) -> Iterator[CheckResult]:
    start = time.monotonic()
    try:
        with open_socket(mqtt) as connected:
            took, peer = time.monotonic() - start, connected.getpeername()
        address = "" if peer[0] == mqtt.host else f" ({peer[0]})"
        text = f"{mqtt.host}{address}, port {peer[1]}, answers in {significant(1e3 * took, 2)} ms"
        yield CheckResult(True, text)
        if mqtt.tls is not None:
            yield _handshake(mqtt, mqtt.tls)
    except (OSError, UnicodeError) as error:
        raise link_error(mqtt, not_connected(error, mqtt, CONNECT_TIMEOUT_S)) from None


def _handshake(mqtt: Mqtt, settings: Tls) -> CheckResult:
    try:
        context = tls.context(settings, mqtt.host)
    except OSError as error:
        raise link_error(mqtt, unusable_files(error, settings)) from None
    with context.wrap_socket(open_socket(mqtt)) as secured:
        certificate = secured.getpeercert() or {}
        version = secured.version()
    until = str(certificate.get("notAfter", "?"))
    names = listed((str(name[1]) for name in certificate.get("subjectAltName", ())), MAX_NAMES)
    return CheckResult(
        True, f"{version}; the broker's certificate is for {names}, valid until {until}"
    )


def _accepted(mqtt: Mqtt) -> CheckResult:
    login = f"as {mqtt.username}" if mqtt.username else "without a login"
    return CheckResult(True, f"the broker accepts the connection, {login}")


def _login_in_use(mqtt: Mqtt, instance: str) -> CheckResult:
    text = (
        f"a daemon with instance = {instance!r} is online, so the connection was not tested "
        f"as {mqtt.username}: a broker that uses logins as client ids would end the session of the "
        "daemon; see `edge-tvbo status`, or stop the daemon for this test"
    )
    return CheckResult(True, text)


def _subscribe(session: ShortSession, observed: Observed) -> Iterator[CheckResult]:
    granted = session.subscribe(observed.filters)
    every = list(zip(observed.filters, granted, strict=True))
    for topics in _in_lines(topic for topic, is_granted in every if is_granted):
        yield CheckResult(True, f"subscribed to {topics}")
    for topics in _in_lines(topic for topic, is_granted in every if not is_granted):
        text = f"the broker refuses a subscription to {topics}; allow it in the broker's ACL"
        yield CheckResult(False, text, Code.FORBIDDEN)


def _in_lines(topics: Iterable[str]) -> list[str]:
    """Return texts that list `topics`, for the lines of the connection check.

    There is one line for each topic, or a single line if there are more than `MAX_NAMES` topics.
    """
    every = list(topics)
    return [listed(every, MAX_NAMES)] if len(every) > MAX_NAMES else every


def _publish(session: ShortSession, observed: Observed) -> Iterator[CheckResult]:
    """Publish test messages; yield the results of the connection check.

    The first result is the median time until the broker acknowledges a message. The second result
    says whether the messages come back. If a daemon with this instance is online, a third result
    says so.
    """
    session.subscribe([observed.status_topic, observed.echo_topic])
    took = []
    for index in range(ROUND_TRIPS):
        payload = f"check {os.getpid()} {index}".encode()
        took.append(session.publish(observed.echo_topic, payload))
        until = time.monotonic() + ECHO_TIMEOUT_S
        session.listen(until, lambda: payload in observed.echoes)  # noqa: B023 - not called later
        if payload not in observed.echoes:
            break
    yield _round_trip(median(took))
    if payload in observed.echoes:
        yield CheckResult(True, f"messages under edge_tvbo/{observed.instance}/ arrive")
    else:
        yield CheckResult(
            False,
            f"a message on {observed.echo_topic} does not come back; allow `topic readwrite"
            f" edge_tvbo/{observed.instance}/#` in the broker's ACL",
            Code.FORBIDDEN,
        )
    if observed.status == "online":
        text = (
            f"a daemon with instance = {observed.instance!r} is connected to this broker; "
            "a second daemon needs another instance"
        )
        yield CheckResult(True, text)


def _publish_discovery(session: ShortSession, topic: str, observed: Observed) -> CheckResult:
    """Publish a message on the topic of the discovery message; return whether it is allowed.

    The message comes back only if the login can also read the topic. Otherwise, only an MQTT 5
    broker says whether it accepts the message.

    Home Assistant receives this message, too. If the broker retains a discovery message, the
    retained message is published again, because Home Assistant ignores a message that changes
    nothing. Otherwise, the message is a text that is not JSON, and Home Assistant logs a warning.
    The message is not empty, because an empty message would make Home Assistant remove the device.
    """
    session.subscribe([topic])
    session.listen(time.monotonic() + QUIET_S, lambda: observed.discovery_copy is not None)
    payload = observed.discovery_copy or f"edge-tvbo check {os.getpid()}".encode()
    session.publish(topic, payload)
    until = time.monotonic() + ECHO_TIMEOUT_S
    session.listen(until, lambda: observed.discovery_echo == payload)
    if observed.discovery_echo == payload:
        return CheckResult(True, f"messages on {topic} arrive")
    fix = f"allow `topic readwrite {topic}` in the broker's ACL"
    if session.reports_refusals and not session.why_refused:
        text = (
            f"the broker accepts messages on {topic}; this login cannot read the topic, so "
            f"obsolete entities may stay in Home Assistant; if they do, {fix}"
        )
        return CheckResult(True, text)
    fix += ", or delete [homeassistant] from the configuration"
    text = f"the broker refuses a message on {topic} ({session.why_refused}); {fix}"
    if not session.why_refused:
        text = (
            f"a message on {topic} does not come back: the broker refuses it, or this login cannot "
            f"read the topic; {fix}. To find out which of the two is the cause, repeat this check "
            "with EDGE_TVBO__MQTT__VERSION=5 if the broker supports MQTT 5"
        )
    return CheckResult(False, text, Code.FORBIDDEN)


def _round_trip(took: float) -> CheckResult:
    hint = "; the broker delays small packets: set `set_tcp_nodelay true` in its configuration"
    is_delayed = DELAYED_ACK_S[0] <= took <= DELAYED_ACK_S[1]
    text = (
        f"a round trip at QoS 1 takes {significant(1e3 * took, 2)} ms{hint if is_delayed else ''}"
    )
    return CheckResult(True, text)
