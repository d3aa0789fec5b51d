"""Request queue: users' commands on the topics `cmd/<verb>`, answered on `response/<verb>`.

A retained command is rejected, because the broker would deliver it again at every connection.
Commands above the allowed rate are counted but not answered, so that a flood of commands causes no
flood of responses. MQTT 3.1.1 has no correlation data: a client that has to match responses with
its requests puts a `transaction` into each request.
"""

import logging
from collections import deque
from collections.abc import Iterator
from shlex import join
from typing import NamedTuple, get_args

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.documents import Request, Response, Transaction, Verb
from edge_tvbo.messages.events import Unreadable
from edge_tvbo_adapters.mqtt.message_router import MAX_DETAIL
from edge_tvbo_adapters.mqtt.rate_limits import SenderLimits
from edge_tvbo_adapters.mqtt.topics import topic_of

log = logging.getLogger(__name__)

VERBS: tuple[Verb, ...] = get_args(Verb)
MAX_RATE = 2.0  # commands per second, on average over 10 s
MAX_REQUEST = 4096  # bytes
FORM = (
    '{}, or {"field": "...", "sensor": "...", "paused": true, "ignored": true, "threshold": 27.5, '
    '"transaction": "..."}'
)
UNKNOWN_VERB = "unknown"  # in the topic of the response to an unknown verb
UNANSWERED = ("retained", "flooding", "bad-topic")  # reasons of rejections without a response


class Rejection(NamedTuple):
    """An invalid command and the response to it; `response` is None if no response is sent."""

    verb: str
    why: Unreadable
    response: Response | None


class Traced(msgspec.Struct, frozen=True):
    """The `transaction` of a request, by which the sender recognises the response."""

    transaction: Transaction = None


class RequestQueue:
    """Queue of the commands that users sent to the daemon over MQTT.

    Parameters
    ----------
    base : str
        The beginning of the daemon's topics: ``edge_tvbo/<instance>``.
    """

    def __init__(self, base: str) -> None:
        self.filter = f"{base}/cmd/+"
        self._prefix = f"{base}/cmd/"
        self._limits = SenderLimits(MAX_RATE)
        self._waiting: deque[tuple[Verb, Request] | Rejection] = deque()
        self._logged: set[str] = set()

    def put(self, message: MQTTMessage, now: float) -> bool:
        """Add the command in an MQTT message to the queue.

        Returns False if the message is not a command.
        """
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
        """Remove and yield the queued user commands and the rejections, the oldest first."""
        while self._waiting:
            yield self._waiting.popleft()

    def take_over(self, before: "RequestQueue") -> None:
        """Queue the commands of the queue `before` if both queues are for the same instance."""
        if before.filter == self.filter:
            self._waiting.extend(before.take())

    def _read(self, word: str, message: MQTTMessage, now: float) -> tuple[Verb, Request]:
        if message.retain:
            clear = join(["mosquitto_pub", "-n", "-r", "-t", self._prefix + word[:MAX_DETAIL]])
            raise PayloadError("retained", f"the broker retained the command; clear it:  {clear}")
        if not self._limits.allows(now):
            raise PayloadError("flooding", f"more than {MAX_RATE:g} commands per second arrived")
        verb = next((each for each in VERBS if each == word), None)
        if verb is None:
            raise PayloadError("unknown-verb", f"the verbs are {', '.join(VERBS)}")
        return verb, parse_request(bytes(message.payload))

    def _reject(self, word: str, topic: str, error: PayloadError, payload: bytes) -> Rejection:
        if error.reason not in self._logged:
            self._logged.add(error.reason)
            form = (
                "the command on %r is rejected as %s: %s; further commands like it are only counted"
            )
            log.warning(form, topic, error.reason, error)
        why = Unreadable(error.reason, topic, str(error))
        if error.reason in UNANSWERED:
            return Rejection(word, why, None)
        response = Response("error", error=str(error), transaction=transaction_of(payload))
        return Rejection(word if word in VERBS else UNKNOWN_VERB, why, response)


def parse_request(payload: bytes) -> Request:
    """Return the request in a user's MQTT command; raises `PayloadError` if it is invalid.

    >>> parse_request(b'{"field": "heat"}').field, parse_request(b"{}") == Request()
    ('heat', True)
    """
    if len(payload) > MAX_REQUEST:
        raise PayloadError(
            "too-large", f"the request has more than {MAX_REQUEST} bytes; allowed: {FORM}"
        )
    try:
        return msgspec.json.decode(payload, type=Request)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PayloadError("bad-request", f"{str(error)[:MAX_DETAIL]}; allowed: {FORM}") from None


def transaction_of(payload: bytes) -> Transaction:
    """Return the `transaction` of a user's invalid command, to repeat it in the response.

    Returns None if the request has no readable transaction.
    """
    try:
        return msgspec.json.decode(payload[:MAX_REQUEST], type=Traced).transaction
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
