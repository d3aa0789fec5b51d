"""What happened (events), what to do about it (commands), and what the world is told (documents).

Events and commands are what the controller takes and returns; documents are the JSON on the
wire, field for field. All of them are frozen, and each is checked once, where it is decoded.
Times are seconds since 1970-01-01 UTC unless a name says otherwise.
"""

from enum import StrEnum
from typing import Literal

import msgspec

# --- events: facts, in the past tense or as nouns -------------------------------------------


class Reading(msgspec.Struct, frozen=True):
    """One value that one sensor measured."""

    sensor: str
    value: float  # in the field's unit
    at: float  # when it was measured; `received` where the payload has no time
    received: float  # when it reached this process
    stamped: bool = True  # the payload itself said `at`
    retained: bool = False  # the broker had kept it from before we subscribed


class Unreadable(msgspec.Struct, frozen=True):
    """A message on one of our topics that no reading could be made of."""

    reason: str  # the word it is counted under: "not-a-number", "too-large", ...
    topic: str
    detail: str


class IntervalElapsed(msgspec.Struct, frozen=True):
    """A new interval begins; the first one begins the run."""

    at: float
    intervals: int = 1  # how many have gone by since the last such event


class DeadlineElapsed(msgspec.Struct, frozen=True):
    """The time that interval number `interval` gave its sensor to answer is over."""

    interval: int
    at: float


class LinkLost(msgspec.Struct, frozen=True):
    """The broker is out of reach: nobody can be asked."""


class LinkRestored(msgspec.Struct, frozen=True):
    """The broker is back, and our subscriptions with it."""


Event = Reading | Unreadable | IntervalElapsed | DeadlineElapsed | LinkLost | LinkRestored

# --- documents: what is published, as JSON ----------------------------------------------------


class Reason(StrEnum):
    """Why a sensor was chosen."""

    WARMUP = "warmup"  # nothing is known since the start or a reset: a seeded draw
    EXPLOIT = "exploit"  # it is believed to be the hottest
    EXPLORE = "explore"  # it is not, but it is uncertain enough to be
    SCHEDULED = "scheduled"  # the policy follows no model
    PROBE = "probe"  # every sensor is suspect: each is asked in turn


class Model(msgspec.Struct, frozen=True):
    """How much the decision rests on."""

    observations: int  # taken into the model since its last reset
    resets: int  # since the controller started
    last_reset: str | None = None  # RFC 3339, UTC


class Decision(msgspec.Struct, frozen=True):
    """The sensor to activate in one interval, with the reason: topic `<field>/selected`."""

    interval: int
    at: str  # RFC 3339, UTC: the interval's start
    expires_at: str  # RFC 3339, UTC: no answer is waited for after it
    sensor: str
    policy: str
    mean: float  # posterior of that sensor, in `unit`
    std: float
    ucb: float  # what was compared: the optimistic bound, below the mean for the objective "min"
    unit: str
    reason: Reason
    factors: list[str]  # short statements, the weightiest first
    text: str  # one sentence for a person
    model: Model


Kind = Literal[
    "model-reset",
    "sensor-lost",
    "sensor-back",
    "all-suspect",
    "some-back",
    "inputs-silent",
]


class Notice(msgspec.Struct, frozen=True):
    """Something a person may want to know, once: topic `<field>/event`."""

    event: Kind
    at: str  # RFC 3339, UTC
    text: str
    sensor: str | None = None


class FieldHealth(msgspec.Struct, frozen=True):
    """How one field is doing."""

    interval: int
    selected: str | None
    answered: int  # intervals, since the controller started
    missed: int
    suspects: list[str]  # sensors that did not answer when they were last asked
    refused: dict[str, int]  # readings and messages not used, by reason


class Health(msgspec.Struct, frozen=True):
    """How the daemon is doing: topic `health`."""

    at: str  # RFC 3339, UTC
    uptime_s: int
    version: str
    fields: dict[str, FieldHealth]


class Latest(msgspec.Struct, frozen=True):
    """The last reading of a sensor that was accepted."""

    value: float  # in the field's unit
    received: float  # s since 1970


class Tally(msgspec.Struct):
    """What one field has done since the daemon started."""

    decisions: int = 0
    activations: int = 0
    answered: int = 0
    missed: int = 0
    resets: int = 0  # of the model, those before a restart included


class FieldStatus(msgspec.Struct, frozen=True):
    """How one field is doing, for whoever measures it."""

    tally: Tally
    refused: dict[str, int]  # readings and messages not used, by reason
    sensors: int
    suspects: int
    selected: str | None
    latest: dict[str, Latest]  # by sensor; one that is silent is not in it


class Status(msgspec.Struct, frozen=True):
    """How the daemon is doing, for whoever measures it: `/metrics` and `/healthz`."""

    at: float  # s since 1970
    uptime: float  # s
    version: str
    healthy: bool
    reason: str  # why it is not healthy, or how it does, in one line
    online: bool  # whether the broker has let us in
    away: float  # s since the broker was lost; 0 while it is here
    reconnects: int
    fields: dict[str, FieldStatus]
    written: int | None = None  # bytes of state written since the start


# --- commands: imperative -----------------------------------------------------------------------


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
