"""What somebody asks of the daemon: `cmd/<verb>` in, `response/<verb>` out.

A command counts when it comes. One that the broker kept from before is ignored: it would be
carried out again at every start. What comes too fast is counted and not answered, so that a flood
of commands makes no flood of answers. MQTT 3.1.1 has no correlation data; whoever wants to tell
answers apart sends a `transaction`.
"""

import logging
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, get_args

import msgspec

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.documents import Request, Response, Transaction, Verb
from edge_tvbo.messages.events import Unreadable
from edge_tvbo_adapters.mqtt.codec import Message
from edge_tvbo_adapters.mqtt.subscriber import SHOWN, TokenBucket, topic_of

log = logging.getLogger(__name__)

VERBS: tuple[Verb, ...] = get_args(Verb)
RATE = 2.0  # commands a second; ten seconds' worth may come at once
LARGEST = 4096  # bytes
LIKE = '{}, or {"field": "...", "sensor": "...", "transaction": "..."}'
UNKNOWN = "unknown"  # stands for a verb that there is not, in the topic of the answer
UNANSWERED = ("retained", "flooding", "bad-topic")


class Refusal(NamedTuple):
    """A message that no request could be made of, and what to say to whoever sent it, if at all."""

    verb: str
    why: Unreadable
    response: Response | None


class Traced(msgspec.Struct, frozen=True):
    """The part of a request that tells answers apart."""

    transaction: Transaction = None


class Commands:
    """Reads commands as they come, and keeps them until they are taken.

    Parameters
    ----------
    base : str
        What our topics begin with: ``edge_tvbo/<instance>``.
    """

    def __init__(self, base: str) -> None:
        self.filter = f"{base}/cmd/+"
        self._prefix = f"{base}/cmd/"
        self._allowance = TokenBucket(RATE)
        self._waiting: deque[tuple[Verb, Request] | Refusal] = deque()  # of one turn of the loop
        self._said: set[str] = set()

    def put(self, message: Message, now: float) -> bool:
        """Keep what a message says, if it is a command, and say whether it is."""
        topic, readable = topic_of(message)
        if not topic.startswith(self._prefix):
            return False
        if not message.payload:
            return True  # what the broker kept was cleared
        verb = topic.removeprefix(self._prefix) if readable else ""
        try:
            self._waiting.append(self._read(verb, message, now))
        except PayloadError as error:
            self._waiting.append(self._refused(verb, topic[:SHOWN], error, message.payload))
        return True

    def take(self) -> Iterator[tuple[Verb, Request] | Refusal]:
        """Yield what is kept, oldest first."""
        while self._waiting:
            yield self._waiting.popleft()

    def _read(self, word: str, message: Message, now: float) -> tuple[Verb, Request]:
        if message.retain:
            clear = f"mosquitto_pub -n -r -t {self._prefix}{word[:SHOWN]}"
            raise PayloadError("retained", f"the broker kept it from before; clear it:  {clear}")
        if not self._allowance.allows(now):
            raise PayloadError("flooding", f"more than {RATE:g} a second came")
        verb = next((each for each in VERBS if each == word), None)
        if verb is None:
            raise PayloadError("unknown-verb", f"the verbs are {', '.join(VERBS)}")
        return verb, request_of(message.payload)

    def _refused(self, word: str, topic: str, error: PayloadError, payload: bytes) -> Refusal:
        if error.reason not in self._said:
            self._said.add(error.reason)
            form = "the command on %r is refused as %s: %s; further ones are only counted"
            log.warning(form, topic, error.reason, error)
        why = Unreadable(error.reason, topic, str(error))
        if error.reason in UNANSWERED:
            return Refusal(word, why, None)
        response = Response("error", error=str(error), transaction=transaction_of(payload))
        return Refusal(word if word in VERBS else UNKNOWN, why, response)


def request_of(payload: bytes) -> Request:
    """Read what is asked; raises `PayloadError`, whatever the bytes are.

    >>> request_of(b'{"field": "heat"}').field, request_of(b"{}") == Request()
    ('heat', True)
    """
    if len(payload) > LARGEST:
        raise PayloadError("too-large", f"it has over {LARGEST} bytes; it can be {LIKE}")
    try:
        return msgspec.json.decode(payload, type=Request)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PayloadError("bad-request", f"{str(error)[:SHOWN]}; it can be {LIKE}") from None


def transaction_of(payload: bytes) -> Transaction:
    """Give the transaction of a request that is no good otherwise, if it can be found."""
    try:
        return msgspec.json.decode(payload[:LARGEST], type=Traced).transaction
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
