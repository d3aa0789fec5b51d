"""Message router: turns an MQTT message into readings of fields, or into reasons to reject it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from math import isfinite
from typing import NamedTuple

from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.events import BatteryReported, Event, Reading, Unreadable
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.mqtt.rate_limits import MAX_DECODING_SHARE, SenderLimits
from edge_tvbo_adapters.mqtt.topics import Template, topic_of
from edge_tvbo_adapters.payloads.field_payloads import battery_codec, reading_codec

MAX_DETAIL = 200  # characters of a topic or an error text; the rest is cut off
UNKNOWN_SENSORS = ""  # stands for all sensors outside the field, which share one rate limit
Receiver = Callable[[MQTTMessage, float], bool]


class MessageRouter:
    """Router that decodes each MQTT message for the fields with a matching topic.

    Parameters
    ----------
    fields : mapping
        The settings of each field.
    others : sequence of callable
        Receivers of the messages on other topics, such as commands and the birth message of Home
        Assistant. Each receiver is called with a message and the monotonic time, and returns
        whether it has processed the message.

    Attributes
    ----------
    filters : list of str
        The topic filters of all fields, without duplicates.
    max_payload : int
        Size of the largest payload that any field accepts, in bytes.
    """

    def __init__(
        self, fields: Mapping[str, FieldSettings], others: Sequence[Receiver] = ()
    ) -> None:
        self._routes = [route for name, each in fields.items() for route in routes(name, each)]
        self._others = others
        self._matches: dict[str, Sequence[Match]] = {}  # by topic, for known sensors
        self.filters = list(dict.fromkeys(route.template.filter for route in self._routes))
        self.max_payload = max((each.max_payload for each in fields.values()), default=0)

    def events(
        self, message: MQTTMessage, received: float, now: float
    ) -> Sequence[tuple[str, Event]]:
        """Return a pair ``(field, event)`` for each field with a route that matches the message.

        `received` is the wall time, s since 1970, and `now` the monotonic time, s.
        """
        try:
            matches = self._matches.get(message.topic)
        except UnicodeDecodeError:
            return self._unreadable_topic(message, now)
        if matches is None:
            matches = self._look_up(message, now)
        events = []
        for route, sensor in matches:
            event = route.event(sensor, message, received, now)
            if event is not None:  # None if the route ignores the message
                events.append((route.name, event))
        return events

    def _look_up(self, message: MQTTMessage, now: float) -> Sequence["Match"]:
        """Return the router's matches for a message whose topic has no stored matches.

        If the sensor in the topic is known, the matches are stored for the next message. If a
        receiver in `others` has processed the message, there are no matches.
        """
        if any(receive(message, now) for receive in self._others):
            return ()
        matches = matching(self._routes, message.topic)
        if any(route.has_sensor(sensor) for route, sensor in matches):
            self._matches[message.topic] = matches
        return matches

    def _unreadable_topic(self, message: MQTTMessage, now: float) -> Sequence[tuple[str, Event]]:
        if any(receive(message, now) for receive in self._others):
            return ()
        topic, _ = topic_of(message)
        why = Unreadable("bad-topic", topic[:MAX_DETAIL], "the topic is not UTF-8")
        return [(route.name, why) for route, _ in matching(self._routes, topic)]


class Route:
    """Decoder of the messages on one topic of a field: readings, or charges of batteries.

    Parameters
    ----------
    name : str
        The field's name.
    field : FieldSettings
        The field's sensors, the names of the sensors in topics, and the limits of messages.
    topic : str
        The topic of the messages, with ``{sensor}`` in one level.
    codec : PayloadCodec
        Decodes a payload.
    quantity : tuple
        What the codec decodes; see `ReadingSettings.quantity`.
    sensors : iterable of str
        The field's sensors whose messages arrive on this topic.
    scale, offset : float
        A reading is ``scale`` times the decoded value plus ``offset``.
    """

    def __init__(
        self,
        name: str,
        field: FieldSettings,
        topic: str,
        codec: PayloadCodec,
        quantity: tuple[object, ...],
        sensors: Iterable[str],
        scale: float = 1.0,
        offset: float = 0.0,
    ) -> None:
        self.name = name
        self.decodes = (topic, *quantity)
        self.template = Template(topic)
        self._codec, self._scale, self._offset = codec, scale, offset
        self._max_payload, self._max_rate = field.max_payload, field.max_rate
        self.sensors = tuple(sensors)
        self._ids = {field.names.get(each, each): each for each in self.sensors}
        self._others = {each: field.names.get(each, each) for each in field.sensors}
        senders = (*self.sensors, UNKNOWN_SENSORS)
        self._limits = {each: SenderLimits(field.max_rate) for each in senders}

    def sensor(self, topic: str) -> str | None:
        """Return the id of the sensor in `topic`; None if the route does not match it.

        The topic contains the name of the sensor, which can differ from the sensor's id.

        - If the route knows the name, the id of the sensor is returned.
        - If the name is unknown, but is equal to the id of a sensor of the field, the result is
          `UNKNOWN_SENSORS`: the message must not count as a message of that sensor.
        - Any other name is returned unchanged.
        """
        name = self.template.sensor(topic)
        if name is None or name in self._ids:
            return name and self._ids[name]
        return UNKNOWN_SENSORS if name in self._others else name

    def has_sensor(self, sensor: str) -> bool:
        """Return whether the route receives messages of `sensor`."""
        return sensor != UNKNOWN_SENSORS and sensor in self._limits

    def event(self, sensor: str, message: MQTTMessage, received: float, now: float) -> Event | None:
        """Return the reading in a message on the route, or the reason to reject the message."""
        limits = self._limits.get(sensor) or self._limits[UNKNOWN_SENSORS]
        if not limits.allows(now):
            text = f"more than {self._max_rate:g} messages per second"
            return _unreadable(message, "flooding", text)
        payload = bytes(message.payload)  # already bytes, in spite of paho's annotation
        if len(payload) > self._max_payload:
            return _unreadable(message, "too-large", f"over {self._max_payload} bytes")
        if limits.is_decoding_spent():
            text = f"decoding takes more than {MAX_DECODING_SHARE:.0%} of the processor time"
            return _unreadable(message, "too-costly", text)
        clock = limits.clock
        began = clock()
        try:
            value, measured = self._codec(payload)
            value = value * self._scale + self._offset
            is_finite = isfinite(value)
        except PayloadError as error:
            reason = error.reason if self.has_sensor(sensor) else "unknown-sensor"
            return _unreadable(message, reason, str(error))
        except Exception as error:
            return _unreadable(message, "codec-failed", repr(error))
        finally:
            limits.spend(clock() - began)
        if not is_finite:
            return _unreadable(message, "non-finite", f"the value is {value}")
        if sensor == UNKNOWN_SENSORS:
            return _unreadable(message, "unknown-sensor", self._why_unknown(message.topic))
        if measured is None:
            return Reading(
                sensor, value, received, received, stamped=False, retained=message.retain
            )
        if isinstance(measured, timedelta):
            at = received + measured.total_seconds()
            return Reading(sensor, value, at, received, stamped=False, retained=message.retain)
        return Reading(sensor, value, measured, received, retained=message.retain)

    def _why_unknown(self, topic: str) -> str:
        """Return why the route does not know the sensor's name in `topic`, as a text."""
        sensor = self.template.sensor(topic)
        if not sensor:
            return "the name of the sensor is empty"
        name = self._others[sensor]
        if name != sensor:
            return f"the sensor with the id {sensor} has the name {name!r}"
        return f"the sensor {sensor} belongs to another source of the field"


class BatteryRoute(Route):
    """Decoder of the messages that report the charge of a sensor's battery.

    `sharing` contains the sensors whose readings arrive on the same topic as the charges. If
    `sharing` is not empty, the route has only these sensors, and ignores messages without a charge
    instead of rejecting them. A retained charge is ignored, because its age is unknown.
    """

    def __init__(
        self,
        name: str,
        field: FieldSettings,
        topic: str,
        codec: PayloadCodec,
        sharing: Sequence[str],
    ) -> None:
        super().__init__(name, field, topic, codec, ("battery",), sharing or field.sensors)
        self._is_shared = bool(sharing)

    def event(self, sensor: str, message: MQTTMessage, received: float, now: float) -> Event | None:
        """Return the battery charge in a message on this route, or the reason to reject it."""
        match super().event(sensor, message, received, now):
            case Reading() if self._is_shared and not self.has_sensor(sensor):
                return None
            case Reading(value=percent, received=received, retained=False):
                return BatteryReported(sensor, percent, received)
            case Unreadable() as unreadable if not self._is_shared:
                return unreadable
            case _:
                return None


class Match(NamedTuple):
    """A route of the message router that matches a topic, and the sensor in that topic."""

    route: Route
    sensor: str


def routes(name: str, field: FieldSettings) -> list[Route]:
    """Return the routes of a field for the message router.

    Each source of readings has one route. If the field has a topic for the charges of batteries,
    more routes follow:

    - one route for all batteries, if no source uses this topic;
    - otherwise one route for each source that uses this topic. Each of these routes has only the
      sensors of its source: two sensors in different sources, such as two probes of one device, can
      have the same name in the topic.
    """
    found = [
        Route(
            name,
            field,
            source.topic,
            reading_codec(field, index),
            source.quantity,
            source.sensors,
            source.scale,
            source.offset,
        )
        for index, source in enumerate(field.sources)
    ]
    battery, codec = field.energy and field.energy.battery, battery_codec(field)
    if battery and codec:
        sharing = [each.sensors for each in field.sources if each.topic == battery.topic]
        found += [BatteryRoute(name, field, battery.topic, codec, each) for each in sharing or [()]]
    return found


def matching(routes: Iterable[Route], topic: str) -> list[Match]:
    """Return the routes that match a topic, each with the sensor in the topic.

    Several routes can match the same topic, for example one for sensors on batteries, and one for
    sensors on mains power. If only some of the matching routes have the sensor in the topic, a
    route without the sensor is left out in two cases:

    - The route belongs to the same field as a route with the sensor.
    - The route decodes the same value of the message as a route with the sensor.
    """
    matches = [
        Match(route, sensor) for route in routes if (sensor := route.sensor(topic)) is not None
    ]
    owners = [route for route, sensor in matches if route.has_sensor(sensor)]
    fields = {route.name for route in owners}
    decoded = {route.decodes for route in owners}
    return [
        Match(route, sensor)
        for route, sensor in matches
        if route.has_sensor(sensor) or (route.name not in fields and route.decodes not in decoded)
    ]


def _unreadable(message: MQTTMessage, reason: str, detail: str) -> Unreadable:
    return Unreadable(reason, message.topic[:MAX_DETAIL], detail[:MAX_DETAIL])
