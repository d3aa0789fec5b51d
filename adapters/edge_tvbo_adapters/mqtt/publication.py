"""Publication: one message that the daemon publishes, with what the outbox has to know about it."""

from math import inf
from typing import NamedTuple

import msgspec

PACKET_OVERHEAD = 16  # bytes of a PUBLISH packet in addition to its topic and payload


class ActivationId(NamedTuple):
    """Identity of one activation in the outbox: the field, the sensor and the interval."""

    field: str
    sensor: str
    interval: int


class Publication(msgspec.Struct, frozen=True):
    """One message in the outbox."""

    topic: str
    payload: bytes
    retained: bool = False
    qos: int = 1
    until: float = inf  # monotonic time at which a command, or a sleepy sensor's state, expires
    notice: int | None = None  # the number of a notice; None for other messages
    attempts: int = 0  # how often the connection broke while the message was in flight
    activates: ActivationId | None = None  # None: no activation, or already counted
    recalled: bool = False  # whether the activation was recalled, because it was unconfirmed

    @property
    def size(self) -> int:
        """Size of the publication's packet in bytes."""
        return PACKET_OVERHEAD + len(self.topic.encode()) + len(self.payload)
