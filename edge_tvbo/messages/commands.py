"""Commands: what the daemon has to do for a controller; frozen.

Times are seconds since 1970-01-01 UTC unless a name says otherwise.
"""

from enum import StrEnum

import msgspec

from edge_tvbo.messages.documents import Decision, Notice


class Activate(msgspec.Struct, frozen=True):
    """Send `sensor` the command to measure now."""

    sensor: str
    interval: int
    at: float
    expires_at: float


class PublishState(msgspec.Struct, frozen=True):
    """Publish which sensor is selected, and the reason."""

    decision: Decision


class Notify(msgspec.Struct, frozen=True):
    """Publish a notice."""

    notice: Notice


class Ending(StrEnum):
    """How an interval ended."""

    ANSWERED = "answered"  # the activated sensor replied in time
    MISSED = "missed"  # it timed out


class Record(msgspec.Struct, frozen=True):
    """Record how one interval ended."""

    interval: int
    at: float  # the interval's start
    sensor: str
    ending: Ending
    value: float | None  # the sensor's reply, in the field's unit
    abs_error: float | None = msgspec.field(name="surprise")  # |reply - mean|, in the field's unit
    threshold: float | None  # the event trigger's threshold for it; None without a trigger
    reset: bool


class Reject(msgspec.Struct, frozen=True):
    """Log a rejected message; the controller has counted it."""

    reason: str  # under which it is counted: "late", "not-a-number", ...
    source: str  # the sensor, or the topic of an unreadable message
    detail: str = ""  # what the message contained


Command = Activate | PublishState | Notify | Record | Reject
