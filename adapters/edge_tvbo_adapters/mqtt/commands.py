"""Commands: `cmd/<verb>` in, `response/<verb>` out.

A retained command is ignored, because it would be carried out again at every start. Commands that
come too fast are counted and not answered, so that a flood of commands causes no flood of answers.
MQTT 3.1.1 has no correlation data; a client that needs to match answers sends a `transaction`.
"""

import logging
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, get_args

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.documents import Request, Response, Transaction, Verb
from edge_tvbo.messages.events import Unreadable
from edge_tvbo_adapters.mqtt.subscriber import MAX_DETAIL, TokenBucket, topic_of

log = logging.getLogger(__name__)

VERBS: tuple[Verb, ...] = get_args(Verb)
MAX_RATE = 2.0  # commands a second; those of ten seconds may come at once
MAX_REQUEST = 4096  # bytes
FORM = '{}, or {"field": "...", "sensor": "...", "transaction": "..."}'
UNKNOWN_VERB = "unknown"  # in the topic of the answer
UNANSWERED = ("retained", "flooding", "bad-topic")


class Rejection(NamedTuple):
    """An invalid command, and the answer to its sender, if it gets one."""

    verb: str
    why: Unreadable
    response: Response | None


class Traced(msgspec.Struct, frozen=True):
    """The part of a request that matches it with its answer."""

    transaction: Transaction = None


class Commands:
    """Reads commands as they come, and keeps them until they are taken.

    Parameters
    ----------
    base : str
        The beginning of the daemon's topics: ``edge_tvbo/<instance>``.
    """

    def __init__(self, base: str) -> None:
        self.filter = f"{base}/cmd/+"
        self._prefix = f"{base}/cmd/"
        self._allowance = TokenBucket(MAX_RATE)
        self._waiting: deque[tuple[Verb, Request] | Rejection] = deque()  # of one turn of the loop
        self._logged: set[str] = set()

    def put(self, message: MQTTMessage, now: float) -> bool:
        """Keep the command in a message; return whether the message is one."""
        topic, is_valid = topic_of(message)
        if not topic.startswith(self._prefix):
            return False
        payload = bytes(message.payload)
        if not payload:
            return True  # a retained command was cleared
        verb = topic.removeprefix(self._prefix) if is_valid else ""
        try:
            self._waiting.append(self._read(verb, message, now))
        except PayloadError as error:
            self._waiting.append(self._reject(verb, topic[:MAX_DETAIL], error, payload))
        return True

    def take(self) -> Iterator[tuple[Verb, Request] | Rejection]:
        """Yield what is kept, oldest first."""
        while self._waiting:
            yield self._waiting.popleft()

    def _read(self, word: str, message: MQTTMessage, now: float) -> tuple[Verb, Request]:
        if message.retain:
            clear = f"mosquitto_pub -n -r -t {self._prefix}{word[:MAX_DETAIL]}"
            raise PayloadError("retained", f"the broker retained it; clear it:  {clear}")
        if not self._allowance.allows(now):
            raise PayloadError("flooding", f"more than {MAX_RATE:g} a second came")
        verb = next((each for each in VERBS if each == word), None)
        if verb is None:
            raise PayloadError("unknown-verb", f"the verbs are {', '.join(VERBS)}")
        return verb, parse_request(bytes(message.payload))

    def _reject(self, word: str, topic: str, error: PayloadError, payload: bytes) -> Rejection:
        if error.reason not in self._logged:
            self._logged.add(error.reason)
            form = "the command on %r is rejected as %s: %s; further ones are only counted"
            log.warning(form, topic, error.reason, error)
        why = Unreadable(error.reason, topic, str(error))
        if error.reason in UNANSWERED:
            return Rejection(word, why, None)
        response = Response("error", error=str(error), transaction=transaction_of(payload))
        return Rejection(word if word in VERBS else UNKNOWN_VERB, why, response)


def parse_request(payload: bytes) -> Request:
    """Return the request in a payload; raises `PayloadError`, whatever the bytes are.

    >>> parse_request(b'{"field": "heat"}').field, parse_request(b"{}") == Request()
    ('heat', True)
    """
    if len(payload) > MAX_REQUEST:
        raise PayloadError("too-large", f"it has over {MAX_REQUEST} bytes; allowed: {FORM}")
    try:
        return msgspec.json.decode(payload, type=Request)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PayloadError("bad-request", f"{str(error)[:MAX_DETAIL]}; allowed: {FORM}") from None


def transaction_of(payload: bytes) -> Transaction:
    """Return the transaction of an otherwise invalid request, if it has one."""
    try:
        return msgspec.json.decode(payload[:MAX_REQUEST], type=Traced).transaction
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
