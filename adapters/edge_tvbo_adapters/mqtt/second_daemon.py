"""Second daemon: whether another daemon of the same instance publishes to the same broker.

If two daemons of an instance have the same client id, the broker ends the session of one daemon
when the other daemon connects, and `Reconnection` reports this. With different client ids, both
daemons stay connected and select sensors, and each daemon overwrites the retained documents of the
other. So the link subscribes to the daemon's own health document, which contains an id of the
process and the time since its start.

A single document of another process is not enough, because it can be an old one: the broker
retained it, a bridge delivers it late, or the daemon was restarted a moment ago. A second document
shows that the process is running, if the time since its start has grown by the time between the two
documents.
"""

from contextlib import suppress
from copy import copy
from typing import Annotated, NamedTuple, Self

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo_adapters.mqtt.topics import topic_of

TOLERANCE_S = 5.0  # of a start time: documents are delayed, and `uptime_s` is in whole seconds
MIN_APART_S = 20.0  # between documents; above TOLERANCE_S, so that repeated documents do not count
MIN_GONE_S = 180.0  # a second daemon counts as stopped after this time without a document
GONE_PERIODS = 3  # the same limit in periods; the longer of the two limits applies
MAX_PROCESSES = 8  # processes that are remembered
MAX_DOCUMENT = 65_536  # bytes; longer health documents are ignored


class ProcessKeys(msgspec.Struct, frozen=True):
    """The keys of a health document that show which process published it."""

    uptime_s: Annotated[int, msgspec.Meta(ge=0, le=10**10)]
    version: Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z.+-]{1,40}$")]
    process: Annotated[str, msgspec.Meta(max_length=40)] = ""  # versions before 0.2.0 have none


class ReceivedHealth(NamedTuple):
    """A health document that was received from another process."""

    at: float  # monotonic
    uptime: float  # how long the other process had run, s

    @property
    def started_at(self) -> float:
        """Monotonic time at which the process that published the document was started."""
        return self.at - self.uptime


class SecondDaemon:
    """Detector of a second daemon in the health documents of an instance.

    The caller calls `begin` when a session begins, and calls `take_change` only during a session.

    Parameters
    ----------
    instance : str
        The daemon's name.
    process : str
        The `process` in the health documents of this process.
    period : float
        The longest time between two health documents of this daemon, in s.

    Attributes
    ----------
    topic : str
        The topic of the health documents.
    period : float
        The parameter `period`.
    text : str
        What the user has to know about the second daemon; "" if none is running.
    """

    def __init__(self, instance: str, process: str, period: float) -> None:
        self.topic = f"edge_tvbo/{instance}/health"
        self.text = self._taken = ""
        self._instance = instance
        self._process = process
        self.period = period
        self._gap = 0.0  # s, between the last two documents of a running second daemon
        # The longest time that two successive gaps reached; a single long gap may be an outage:
        self._repeated_gap = 0.0
        self._received: dict[str, ReceivedHealth] = {}  # process: its last document that counts
        self._last_at = 0.0  # monotonic time of the last document of a running second daemon

    def with_period(self, period: float) -> Self:
        """Return a copy of the detector with another `period`, for the next link.

        The copy still knows the second daemon.
        """
        successor = copy(self)
        successor.period = period
        return successor

    def begin(self, now: float) -> None:
        """Begin a session: measure the time without a document of a second daemon from `now`."""
        self._last_at = now

    def put(self, message: MQTTMessage, now: float) -> bool:
        """Examine an MQTT message; return whether it is a health document of the instance."""
        topic, is_valid = topic_of(message)
        if not is_valid or topic != self.topic:
            return False
        payload = bytes(message.payload)
        if not message.retain and len(payload) <= MAX_DOCUMENT:
            with suppress(msgspec.MsgspecError, ValueError, RecursionError):
                self.add(msgspec.json.decode(payload, type=ProcessKeys), now)
        return True

    def add(self, keys: ProcessKeys, now: float) -> None:
        """Examine the keys of a health document that the broker did not retain."""
        if keys.process == self._process:
            return
        before = self._received.get(keys.process)
        received = ReceivedHealth(now, keys.uptime_s)
        if before is None or abs(received.started_at - before.started_at) > TOLERANCE_S:
            self._remember(keys.process, received)
        elif received.at - before.at >= MIN_APART_S:
            self._remember(keys.process, received)
            gap = received.at - max(before.at, self._last_at)
            self._repeated_gap = max(self._repeated_gap, min(gap, self._gap))
            self._gap = gap
            self._last_at = now
            self.text = self.text or problem_text(self._instance, keys.version)

    def take_change(self, now: float) -> bool:
        """Return whether a second daemon was found, or has stopped, since the last call."""
        period = max(self.period, self._repeated_gap)
        if now - self._last_at > max(MIN_GONE_S, GONE_PERIODS * period):
            self.text = ""
        has_changed = self.text != self._taken
        self._taken = self.text
        return has_changed

    def _remember(self, process: str, received: ReceivedHealth) -> None:
        self._received.pop(process, None)
        self._received[process] = received
        if len(self._received) > MAX_PROCESSES:
            del self._received[next(iter(self._received))]


def problem_text(instance: str, version: str) -> str:
    """Return what the user has to know about a second daemon of `instance`."""
    return (
        f"another daemon of the instance {instance!r} (version {version}) also publishes to this "
        "broker: both daemons select sensors, a sensor receives the commands of both, and each "
        "daemon overwrites the documents of the other; stop one of the two daemons, or set another "
        "`instance` for it"
    )
