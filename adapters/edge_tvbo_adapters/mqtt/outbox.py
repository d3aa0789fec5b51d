"""What is to be published, in order, and never more of it than fits.

Of a state only the newest counts: it takes the place of an older one on its topic that has not
left yet, and it is told again after every reconnect, for a broker may forget what it retained. What
a sleeping node is to do is a state, and so is that it is to do nothing: an empty one.
Each notice counts: it is kept until the broker has acknowledged it, and told again where the
connection broke in between, so that it may arrive twice. A command counts now or never: it waits
for its turn, and neither for a broker that is away nor beyond its own time.

At most `WINDOW` publications are with the broker at any time. The rest waits here, where the newer
can still replace the older; in paho's own queue both would be sent.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count
from math import inf
from typing import NamedTuple

WINDOW = 20  # publications that the broker has not acknowledged; paho's default, mosquitto's too
NOTICES = 100  # kept at most; the oldest goes first
ATTEMPTS = 3  # a notice with which the connection broke so often may be why it broke


class Publication(NamedTuple):
    """One message on its way out."""

    topic: str
    payload: bytes
    kept: bool = False  # the broker is to retain it: a state
    qos: int = 1  # 0 for what is told once, and forgotten
    until: float = inf  # monotonic: how long a command is worth sending
    notice: int | None = None  # its number
    attempts: int = 0  # times that it was with the broker when the connection broke


Key = str | int  # of what the newer replaces: a topic; a notice's number, which nothing does


class Outbox:
    """Holds publications until the broker has them.

    Parameters
    ----------
    now : callable
        Gives the monotonic time; a wall clock may be set in between.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._states: dict[Key, Publication] = {}  # the newest on each topic
        self._waiting: dict[Key, Publication] = {}  # in the order in which they are to leave
        self._flying: dict[int, Publication] = {}  # by the id that the broker acknowledges
        self._numbers = count()
        self.open = False  # whether there is a session: from `begin` until it is `broken`
        self.lost = 0  # commands and notices, since this was last set to 0

    def state(self, topic: str, payload: bytes) -> None:
        """Take a state in, for this session and those that `begin` later."""
        self._states[topic] = Publication(topic, payload, kept=True)
        self._wait(topic, self._states[topic])

    def description(self, topic: str, payload: bytes) -> None:
        """Take in what the broker is to retain; who gave it sees to it in the next session."""
        self._wait(topic, Publication(topic, payload, kept=True))

    def notice(self, topic: str, payload: bytes) -> None:
        """Take in what is to be told once."""
        number = next(self._numbers)
        self._wait(number, Publication(topic, payload, notice=number))
        notices = [key for key in self._waiting if isinstance(key, int)]
        if len(notices) > NOTICES:
            del self._waiting[notices[0]]
            self.lost += 1

    def command(self, topic: str, payload: bytes, worth: float, qos: int = 1) -> None:
        """Take a command in, which is worth sending for so many seconds."""
        self._wait(topic, Publication(topic, payload, qos=qos, until=self._now() + worth))

    def begin(self) -> None:
        """Have every state told again, before what waits already: a new session has begun."""
        self.open = True
        self._waiting = self._states | self._waiting

    def due(self) -> Iterator[Publication]:
        """Yield what is to leave now; the caller says of each that it `left`, or stops."""
        while self._waiting and len(self._flying) < WINDOW:
            key, publication = next(iter(self._waiting.items()))
            del self._waiting[key]
            if publication.until < self._now():
                self.lost += 1
                continue
            yield publication

    def left(self, mid: int, publication: Publication) -> None:
        """Note under which id a publication is with the broker, if that is to acknowledge it."""
        if publication.qos > 0:
            self._flying[mid] = publication

    def settled(self, mid: int) -> None:
        """Note that the broker has acknowledged a publication."""
        self._flying.pop(mid, None)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._flying)

    @property
    def empty(self) -> bool:
        """Whether the broker has everything."""
        return len(self) == 0

    def broken(self) -> None:
        """Note that the connection broke: notices are kept, commands are not."""
        self.open = False
        flown = [each._replace(attempts=each.attempts + 1) for each in self._flying.values()]
        ours = [each for each in (*flown, *self._waiting.values()) if not each.kept]
        self._flying.clear()
        self._waiting = {
            each.notice: each
            for each in ours
            if each.notice is not None and each.attempts < ATTEMPTS
        }
        self.lost += len(ours) - len(self._waiting)

    def _wait(self, key: Key, publication: Publication) -> None:
        self._waiting.pop(key, None)  # the newer one waits at the end
        self._waiting[key] = publication
