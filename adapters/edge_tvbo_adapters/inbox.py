"""Messages that came in, and what they say: readings, or why they could not be read."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from paho.mqtt.client import MQTTMessage

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages import Event, Reading, Unreadable
from edge_tvbo.ports import PayloadCodec, Wiring
from edge_tvbo_adapters.topics import Template

LARGEST = 64 * 1024  # bytes of a payload
SHOWN = 200  # characters of a topic or an error that are kept


class Inbox:
    """Decodes messages by the field whose topic they came on.

    Parameters
    ----------
    fields : mapping
        The wiring of each field.
    wall : callable
        Gives the time, in s since 1970, at which a message is received.
    """

    def __init__(self, fields: Mapping[str, Wiring], wall: Callable[[], float]) -> None:
        self._routes = [
            (name, Template(wiring.reading_topic), wiring.codec) for name, wiring in fields.items()
        ]
        self._wall = wall
        self._messages: deque[tuple[MQTTMessage, float]] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def filters(self) -> list[str]:
        """Give what to subscribe to, each once."""
        return list(dict.fromkeys(template.filter for _, template, _ in self._routes))

    def put(self, message: MQTTMessage) -> None:
        """Keep a message until `events` is asked for."""
        self._messages.append((message, self._wall()))

    def events(self) -> Iterator[tuple[str, Event]]:
        """Yield ``(field, event)`` for every message kept, oldest first."""
        while self._messages:
            message, received = self._messages.popleft()
            try:
                topic = message.topic
            except UnicodeDecodeError:
                continue
            for field, template, codec in self._routes:
                sensor = template.sensor(topic)
                if sensor is not None:
                    yield field, decoded(sensor, codec, message, received)


def decoded(sensor: str, codec: PayloadCodec, message: MQTTMessage, received: float) -> Event:
    """Give the reading in `message`, or why there is none; whatever the bytes are."""
    if len(message.payload) > LARGEST:
        return Unreadable("too-large", message.topic[:SHOWN], f"{len(message.payload)} bytes")
    try:
        value, at = codec(bytes(message.payload))
    except PayloadError as error:
        return Unreadable(error.reason, message.topic[:SHOWN], str(error)[:SHOWN])
    except Exception as error:
        return Unreadable("codec-failed", message.topic[:SHOWN], repr(error)[:SHOWN])
    return Reading(
        sensor,
        value,
        at=received if at is None else at,
        received=received,
        stamped=at is not None,
        retained=bool(message.retain),
    )
