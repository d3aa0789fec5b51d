"""Messages that came in, and what they say: readings, or why they could not be read."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.events import BatteryReported, Event, Reading, Unreadable
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.mqtt.codec import Message
from edge_tvbo_adapters.mqtt.topics import Template
from edge_tvbo_adapters.payloads.decode import finite
from edge_tvbo_adapters.payloads.of_field import battery_codec, reading_codec

SHOWN = 200  # characters of a topic or an error that are kept
BURST = 10.0  # s; what a sensor may send in so long, it may send at once
STRANGERS = ""  # who share one allowance: sensors that the field does not have


class Subscriber:
    """Decodes messages by the field whose topic they came on.

    Parameters
    ----------
    fields : mapping
        The settings of each field.
    wall : callable
        Gives the time, in s since 1970, at which a message is received.
    """

    def __init__(self, fields: Mapping[str, FieldSettings], wall: Callable[[], float]) -> None:
        self._routes = [route for name, each in fields.items() for route in routes(name, each)]
        self._wall = wall
        self._messages: deque[ReceivedMessage] = deque()
        self._known: dict[bytes, list[Match]] = {}  # by topics of sensors that fields have
        self.largest = max((each.max_payload for each in fields.values()), default=0)

    def __len__(self) -> int:
        return len(self._messages)

    def filters(self) -> list[str]:
        """Give what to subscribe to, each once."""
        return list(dict.fromkeys(route.template.filter for route in self._routes))

    def put(self, message: Message, now: float) -> None:
        """Keep a message, which came at monotonic `now`, until it is taken."""
        self._messages.append(ReceivedMessage(message, self._wall(), now))

    def take(self, most: int) -> "list[ReceivedMessage]":
        """Give the oldest messages that are kept."""
        return [self._messages.popleft() for _ in range(min(most, len(self._messages)))]

    def events(self, arrival: "ReceivedMessage") -> Iterator[tuple[str, Event]]:
        """Yield ``(field, event)`` for every field that the message is for."""
        known = self._known.get(arrival.message.name)
        for route, sensor, topic, readable in known or self._destinations(arrival.message):
            if readable:
                event = route.event(sensor, topic, arrival)
            else:
                event = Unreadable("bad-topic", topic, "it is not UTF-8")
            if event is None:
                continue
            yield route.name, event

    def _destinations(self, message: Message) -> "list[Match]":
        """Give for whom messages on a topic are; that of sensors which a field has is kept."""
        topic, readable = topic_of(message)
        found = [
            Match(route, sensor, topic[:SHOWN], readable)
            for route in self._routes
            if (sensor := route.sensor(topic)) is not None
        ]
        if readable and any(route.knows(sensor) for route, sensor, _, _ in found):
            self._known[message.name] = found
        return found


class ReceivedMessage(NamedTuple):
    """A message, and when it came."""

    message: Message
    received: float  # s since 1970
    now: float  # monotonic


class Route:
    """Decoder of the messages on one topic of a field.

    Parameters
    ----------
    name : str
        The field's name.
    field : FieldSettings
        Its sensors, their names in topics, and its limits.
    topic : str
        Topic of the messages, with ``{sensor}`` in one level.
    codec : PayloadCodec
        Decodes a payload.
    scale, offset : float
        A reading is ``scale`` times the decoded value plus ``offset``.
    """

    def __init__(
        self,
        name: str,
        field: FieldSettings,
        topic: str,
        codec: PayloadCodec,
        scale: float = 1.0,
        offset: float = 0.0,
    ) -> None:
        self.name = name
        self.template = Template(topic)
        self._codec, self._scale, self._offset = codec, scale, offset
        self._max_payload, self._max_rate = field.max_payload, field.max_rate
        self._renamed = frozenset(field.names)
        self._ids = {name: sensor for sensor, name in field.names.items()}
        senders = (*field.sensors, STRANGERS)
        self._allowances = {each: TokenBucket(field.max_rate) for each in senders}

    def sensor(self, topic: str) -> str | None:
        """Give the sensor that a message on `topic` is from; None where it is for another field."""
        name = self.template.sensor(topic)
        if name in self._renamed and name not in self._ids:
            return STRANGERS
        return name if name is None else self._ids.get(name, name)

    def knows(self, sensor: str) -> bool:
        """Say whether the field has this sensor."""
        return sensor != STRANGERS and sensor in self._allowances

    def event(self, sensor: str, topic: str, arrival: ReceivedMessage) -> Event | None:
        """Give the reading in a message, or why there is none; whatever the bytes are."""
        payload = arrival.message.payload
        allowance = self._allowances.get(sensor) or self._allowances[STRANGERS]
        if not allowance.allows(arrival.now):
            return Unreadable("flooding", topic, f"more than {self._max_rate:g} a second")
        if len(payload) > self._max_payload:
            return Unreadable("too-large", topic, f"over {self._max_payload} bytes")
        try:
            value, measured = self._codec(payload)
            value = finite(value * self._scale + self._offset)
        except PayloadError as error:
            return Unreadable(error.reason, topic, str(error)[:SHOWN])
        except Exception as error:
            return Unreadable("codec-failed", topic, repr(error)[:SHOWN])
        return Reading(
            sensor,
            value,
            at=moment(measured, arrival.received),
            received=arrival.received,
            stamped=isinstance(measured, float),
            retained=arrival.message.retain,
        )


class BatteryRoute(Route):
    """What becomes of the messages that say how full batteries are.

    Where readings come on the same topic, what is no charge is theirs to remark on. One that the
    broker kept is of any age, and says nothing.
    """

    def __init__(self, name: str, field: FieldSettings, topic: str, codec: PayloadCodec) -> None:
        super().__init__(name, field, topic, codec)
        self._is_shared = topic == field.reading.topic

    def event(self, sensor: str, topic: str, arrival: ReceivedMessage) -> Event | None:
        """Give the charge in a message, or why there is none."""
        match super().event(sensor, topic, arrival):
            case Reading() if self._is_shared and not self.knows(sensor):
                return None
            case Reading(value=percent, received=received, retained=False):
                return BatteryReported(sensor, percent, received)
            case Unreadable() as unreadable if not self._is_shared:
                return unreadable
            case _:
                return None


def routes(name: str, field: FieldSettings) -> list[Route]:
    """Return the route of a field's readings and, where there is one, that of its batteries."""
    reading = field.reading
    found = [
        Route(name, field, reading.topic, reading_codec(name, field), reading.scale, reading.offset)
    ]
    battery, codec = field.energy and field.energy.battery, battery_codec(name, field)
    if battery and codec:
        found.append(BatteryRoute(name, field, battery.topic, codec))
    return found


class TokenBucket:
    """How many messages a sensor may still send: `rate` a second, saved up for `BURST` seconds.

    >>> allowance = TokenBucket(0.1)
    >>> [allowance.allows(now) for now in (0.0, 1.0, 11.0)]
    [True, False, True]
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = max(1.0, rate * BURST)
        self._left = self._most
        self._at = 0.0

    def allows(self, now: float) -> bool:
        """Take one message off, if there is one left."""
        saved = max(0.0, now - self._at) * self._rate
        self._left, self._at = min(self._most, self._left + saved), now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


def moment(measured: float | timedelta | None, received: float) -> float:
    """Give when a reading was measured, as its payload says it, in s since 1970.

    >>> moment(None, 600.0), moment(timedelta(seconds=-60), 600.0), moment(300.0, 600.0)
    (600.0, 540.0, 300.0)
    """
    if isinstance(measured, timedelta):
        return received + measured.total_seconds()
    return received if measured is None else measured


class Match(NamedTuple):
    """A field that messages on a topic are for."""

    route: Route
    sensor: str
    topic: str  # as far as it is shown
    readable: bool  # whether that is what it says


def topic_of(message: Message | MQTTMessage) -> tuple[str, bool]:
    """Give a message's topic, and whether that is what it says: a stray byte becomes U+FFFD."""
    try:
        return message.topic, True
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace"), False
