"""Commands: what the controller asks the daemon to do; frozen.

Times are seconds since 1970-01-01 UTC unless a name says otherwise.
"""

from enum import StrEnum

import msgspec

from edge_tvbo.messages.documents import Decision, Notice


class Activate(msgspec.Struct, frozen=True):
    """Ask `sensor` for a reading now."""

    sensor: str
    interval: int
    at: float
    expires_at: float


class PublishState(msgspec.Struct, frozen=True):
    """Tell the world which sensor is selected, and why."""

    decision: Decision


class Notify(msgspec.Struct, frozen=True):
    """Tell the world that something happened."""

    notice: Notice


class Ending(StrEnum):
    """How an interval ended."""

    ANSWERED = "answered"
    MISSED = "missed"


class Record(msgspec.Struct, frozen=True):
    """Keep what became of one interval."""

    interval: int
    at: float  # the interval's start
    sensor: str
    ending: Ending
    value: float | None  # what the sensor answered, in the field's unit
    surprise: float | None  # |answer - mean|, in the field's unit
    threshold: float | None  # what the event trigger allowed; None where there is no trigger
    reset: bool


Command = Activate | PublishState | Notify | Record
