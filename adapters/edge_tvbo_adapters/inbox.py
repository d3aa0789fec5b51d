"""Messages that came in, and what they say: readings, or why they could not be read."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from paho.mqtt.client import MQTTMessage

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages import Event, Reading, Unreadable
from edge_tvbo.ports import Wiring
from edge_tvbo_adapters.refusals import Refusals
from edge_tvbo_adapters.topics import Template

SHOWN = 200  # characters of a topic or an error that are kept
BURST = 10.0  # s; what a sensor may send in so long, it may send at once
STRANGERS = ""  # who share one allowance: sensors that the field does not have


class Inbox:
    """Decodes messages by the field whose topic they came on.

    Parameters
    ----------
    fields : mapping
        The wiring of each field.
    wall : callable
        Gives the time, in s since 1970, at which a message is received.
    refusals : Refusals
        Is told of every message that is of no use.
    """

    def __init__(
        self, fields: Mapping[str, Wiring], wall: Callable[[], float], refusals: Refusals
    ) -> None:
        self._refusals = refusals
        self._routes = [Route(name, wiring) for name, wiring in fields.items()]
        self._wall = wall
        self._messages: deque[Arrival] = deque()
        self.largest = max((each.max_payload for each in fields.values()), default=0)

    def __len__(self) -> int:
        return len(self._messages)

    def filters(self) -> list[str]:
        """Give what to subscribe to, each once."""
        return list(dict.fromkeys(route.template.filter for route in self._routes))

    def put(self, message: MQTTMessage, now: float) -> None:
        """Keep a message, which came at monotonic `now`, until it is taken."""
        self._messages.append(Arrival(message, self._wall(), now))

    def take(self) -> "Arrival | None":
        """Give the oldest message that is kept."""
        return self._messages.popleft() if self._messages else None

    def events(self, arrival: "Arrival") -> Iterator[tuple[str, Event]]:
        """Yield ``(field, event)`` for every field that the message is for."""
        topic, readable = topic_of(arrival.message)
        for route in self._routes:
            sensor = route.template.sensor(topic)
            if sensor is None:
                continue
            if readable:
                event = route.event(sensor, topic, arrival)
            else:
                event = Unreadable("bad-topic", topic[:SHOWN], "it is not UTF-8")
            self._remark(route, sensor, topic[:SHOWN], event)
            yield route.name, event

    def _remark(self, route: "Route", sensor: str, topic: str, event: Event) -> None:
        match event:
            case Unreadable(reason=reason, detail=detail):
                self._refusals.note(route.name, reason, topic, detail)
            case Reading() if not route.knows(sensor):
                self._refusals.note(route.name, "unknown-sensor", topic)
            case Reading(retained=True):
                self._refusals.note(route.name, "retained", topic)
            case _:
                pass


class Arrival(NamedTuple):
    """A message, and when it came."""

    message: MQTTMessage
    received: float  # s since 1970
    now: float  # monotonic


class Route:
    """What becomes of the messages for one field."""

    def __init__(self, name: str, wiring: Wiring) -> None:
        self.name = name
        self.template = Template(wiring.reading_topic)
        self._wiring = wiring
        senders = (*wiring.sensors, STRANGERS)
        self._allowances = {each: Allowance(wiring.max_rate) for each in senders}

    def knows(self, sensor: str) -> bool:
        """Say whether the field has this sensor."""
        return sensor != STRANGERS and sensor in self._allowances

    def event(self, sensor: str, topic: str, arrival: Arrival) -> Event:
        """Give the reading in a message, or why there is none; whatever the bytes are."""
        payload, topic = arrival.message.payload, topic[:SHOWN]
        allowance = self._allowances.get(sensor) or self._allowances[STRANGERS]
        if not allowance.allows(arrival.now):
            return Unreadable("flooding", topic, f"more than {self._wiring.max_rate:g} a second")
        if len(payload) > self._wiring.max_payload:
            return Unreadable("too-large", topic, f"over {self._wiring.max_payload} bytes")
        try:
            value, at = self._wiring.codec(bytes(payload))
        except PayloadError as error:
            return Unreadable(error.reason, topic, str(error)[:SHOWN])
        except Exception as error:
            return Unreadable("codec-failed", topic, repr(error)[:SHOWN])
        return Reading(
            sensor,
            value,
            at=arrival.received if at is None else at,
            received=arrival.received,
            stamped=at is not None,
            retained=bool(arrival.message.retain),
        )


class Allowance:
    """How many messages a sensor may still send: `rate` a second, saved up for `BURST` seconds.

    >>> allowance = Allowance(0.1)
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


def topic_of(message: MQTTMessage) -> tuple[str, bool]:
    """Give a message's topic, and whether that is what it says: a stray byte becomes U+FFFD."""
    try:
        return message.topic, True
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace"), False
