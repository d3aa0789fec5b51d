"""Commands: frozen structs that a controller returns, and that the daemon carries out.

Times are seconds since 1970-01-01 UTC unless a name says otherwise.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from edge_tvbo.messages.documents import Decision, Notice

MIN_REPLY_SHARE = 0.5  # minimum share of the timeout that a sensor must have to reply


class Activate(msgspec.Struct, frozen=True):
    """Command to activate a sensor, so that it measures now and replies by `expires_at`."""

    sensor: str
    interval: int
    at: float
    expires_at: float
    replaces: bool = True  # whether the controller stops waiting for earlier activations

    @property
    def valid_s(self) -> float:
        """Time in which the command to activate the sensor can be sent, in s.

        If the command is sent later, too little time is left for the reply.
        """
        return (1.0 - MIN_REPLY_SHARE) * max(0.0, self.expires_at - self.at)


class Recommend(msgspec.Struct, frozen=True):
    """Command that recommends a sensor, which is not activated.

    The daemon waits for a reading of this sensor until `expires_at` in two cases: the field's
    interval is "on-reading", or another sensor of the interval is recommended afterwards (`more`).
    Otherwise, the daemon does not wait.
    """

    sensor: str
    interval: int
    at: float
    expires_at: float
    more: bool = False  # whether another sensor of the interval is recommended after this one


class PublishState(msgspec.Struct, frozen=True):
    """Command to publish a decision: the selected sensor, and the reason."""

    decision: Decision


class Notify(msgspec.Struct, frozen=True):
    """Command to publish a notice."""

    notice: Notice


class Ending(StrEnum):
    """Ending of an activation: a reply of the sensor, a time-out, or an undelivered command."""

    ANSWERED = "answered"  # the activated sensor replied in time
    MISSED = "missed"  # the activated sensor timed out
    UNDELIVERED = "undelivered"  # refused or not confirmed by the broker, or withdrawn


Unused = Literal["doubtful", "faulty"]  # "doubtful": the sensor may be faulty


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """Command to record how one activation ended."""

    interval: int
    at: float  # the interval's start
    sensor: str
    ending: Ending
    value: float | None  # the sensor's reply, in the field's unit
    abs_error: float | None = msgspec.field(name="surprise")  # |reply - mean|, in the field's unit
    threshold: float | None  # a larger `abs_error` fires the event trigger; None: no trigger
    reset: bool
    unused: Unused | None = None  # why the model did not use the reply; None if it did


class Reject(msgspec.Struct, frozen=True):
    """Command to log a rejected message, which the controller has already counted."""

    reason: str  # the word under which the message is counted: "late", "not-a-number", ...
    source: str  # the sensor, or the topic of an unreadable message
    detail: str = ""  # what the message contained


Command = Activate | Recommend | PublishState | Notify | Record | Reject
