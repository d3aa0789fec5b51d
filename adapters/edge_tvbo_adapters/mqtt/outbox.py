"""Outbox: what is to be published, in order and within bounds.

Of a state only the newest counts. It replaces an older one on its topic that is not sent yet, and
it is published again after every reconnect, because a broker may lose what it retained. The
command of a sleeping sensor is a state, and so is its absence: an empty one.
Each notice counts. It is kept until the broker has acknowledged it, and sent again if the
connection breaks first, so that it may arrive twice. A command counts only in its own time: it is
dropped when that is over, and when there is no session.

At most `MAX_IN_FLIGHT` publications wait for the broker's acknowledgement. The others wait here,
where a newer one can still replace an older one; paho's own queue would send both.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count
from math import inf
from typing import NamedTuple

MAX_IN_FLIGHT = 20  # publications that are not acknowledged; the default of paho and of mosquitto
MAX_NOTICES = 100  # that wait; the oldest is dropped first
MAX_ATTEMPTS = 3  # to send a notice; one that was in flight at so many breaks may cause them


class Publication(NamedTuple):
    """One outgoing message."""

    topic: str
    payload: bytes
    retained: bool = False
    qos: int = 1
    until: float = inf  # monotonic: the end of a command's own time
    notice: int | None = None  # its number, if it is a notice
    attempts: int = 0  # times that it was in flight when the connection broke


Key = str | int  # a newer publication replaces one of the same key: a topic, or a notice's number


class Outbox:
    """Holds publications until the broker has acknowledged them.

    Parameters
    ----------
    now : callable
        Returns the monotonic time, s.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._states: dict[Key, Publication] = {}  # the newest on each topic
        self._waiting: dict[Key, Publication] = {}  # in the order of sending
        self._in_flight: dict[int, Publication] = {}  # by packet id
        self._numbers = count()
        self.open = False  # whether there is a session
        self.lost = 0  # commands and notices, since this was last set to 0

    def state(self, topic: str, payload: bytes) -> None:
        """Publish a state, in this session and again in each later one."""
        self._states[topic] = Publication(topic, payload, retained=True)
        self._append(topic, self._states[topic])

    def description(self, topic: str, payload: bytes) -> None:
        """Publish a retained message in this session only."""
        self._append(topic, Publication(topic, payload, retained=True))

    def notice(self, topic: str, payload: bytes) -> None:
        """Publish a message once."""
        number = next(self._numbers)
        self._append(number, Publication(topic, payload, notice=number))
        notices = [key for key in self._waiting if isinstance(key, int)]
        if len(notices) > MAX_NOTICES:
            del self._waiting[notices[0]]
            self.lost += 1

    def command(self, topic: str, payload: bytes, valid_s: float, qos: int = 1) -> None:
        """Publish a command, unless `valid_s` seconds pass before it can be sent."""
        self._append(topic, Publication(topic, payload, qos=qos, until=self._now() + valid_s))

    def begin(self) -> None:
        """Note a new session: every state is sent again, before what waits already."""
        self.open = True
        self._waiting = self._states | self._waiting

    def pop_ready(self) -> Iterator[Publication]:
        """Yield what can be sent now; the caller calls `mark_sent` for each."""
        while self._waiting and len(self._in_flight) < MAX_IN_FLIGHT:
            key, publication = next(iter(self._waiting.items()))
            del self._waiting[key]
            if publication.until < self._now():
                self.lost += 1
                continue
            yield publication

    def mark_sent(self, packet_id: int, publication: Publication) -> None:
        """Note the packet id of a publication, if the broker is to acknowledge it."""
        if publication.qos > 0:
            self._in_flight[packet_id] = publication

    def mark_acked(self, packet_id: int) -> None:
        """Note that the broker has acknowledged a publication."""
        self._in_flight.pop(packet_id, None)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def empty(self) -> bool:
        """Whether the broker has acknowledged everything."""
        return len(self) == 0

    def connection_lost(self) -> None:
        """Note that the session ended: notices are kept, commands are dropped."""
        self.open = False
        in_flight = [each._replace(attempts=each.attempts + 1) for each in self._in_flight.values()]
        single = [each for each in (*in_flight, *self._waiting.values()) if not each.retained]
        self._in_flight.clear()
        self._waiting = {
            each.notice: each
            for each in single
            if each.notice is not None and each.attempts < MAX_ATTEMPTS
        }
        self.lost += len(single) - len(self._waiting)

    def _append(self, key: Key, publication: Publication) -> None:
        self._waiting.pop(key, None)
        self._waiting[key] = publication
