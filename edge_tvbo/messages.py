"""What happened (events), what to do about it (commands), and what the world is told (documents).

Events and commands are what the controller takes and returns; documents are the JSON on the
wire, field for field. All of them are frozen, and each is checked once, where it is decoded.
Times are seconds since 1970-01-01 UTC unless a name says otherwise.
"""

from enum import StrEnum
from typing import Annotated, Literal

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


class BatteryReported(msgspec.Struct, frozen=True):
    """What a sensor said of its battery."""

    sensor: str
    percent: float
    received: float  # when it reached this process


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


class ClockStepped(msgspec.Struct, frozen=True):
    """The wall clock was set: what was dated by it before is dated `by` seconds too early."""

    by: float  # s; negative where it was set back
    at: float  # when, by the clock as it is now


class ClockUnset(msgspec.Struct, frozen=True):
    """The wall clock was not set since the machine started: its dates mean nothing yet."""


class PauseAsked(msgspec.Struct, frozen=True):
    """Somebody wants no sensor to be asked any more."""

    at: float


class ResumeAsked(msgspec.Struct, frozen=True):
    """Somebody wants it to go on."""

    at: float


class ResetAsked(msgspec.Struct, frozen=True):
    """Somebody wants the model to begin anew."""

    at: float


class SensorAsked(msgspec.Struct, frozen=True):
    """Somebody wants this sensor to be activated now."""

    sensor: str
    at: float


Event = (
    Reading
    | BatteryReported
    | Unreadable
    | IntervalElapsed
    | DeadlineElapsed
    | LinkLost
    | LinkRestored
    | ClockStepped
    | ClockUnset
    | PauseAsked
    | ResumeAsked
    | ResetAsked
    | SensorAsked
)

# --- documents: what is published, as JSON ----------------------------------------------------


class Reason(StrEnum):
    """Why a sensor was chosen."""

    WARMUP = "warmup"  # nothing is known since the start or a reset: a seeded draw
    EXPLOIT = "exploit"  # it is believed to be the hottest
    EXPLORE = "explore"  # it is not, but it is uncertain enough to be
    SCHEDULED = "scheduled"  # the policy follows no model
    PROBE = "probe"  # every sensor is suspect: each is asked in turn
    ASKED = "asked"  # somebody wanted it, by `cmd/activate`
    SAVED = "saved"  # it is believed to be the hottest, and nobody is asked, to save energy


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
    "clock-step",
    "clock-synced",
    "reload",
    "paused",
    "resumed",
    "battery-low",
]


class Notice(msgspec.Struct, frozen=True):
    """Something a person may want to know, once: topic `<field>/event`; `event` of the daemon."""

    event: Kind
    at: str  # RFC 3339, UTC
    text: str
    sensor: str | None = None


class Hotspot(msgspec.Struct, frozen=True):
    """Where the field is highest, or lowest, by what is believed now: topic `<field>/hotspot`."""

    at: str  # RFC 3339, UTC
    sensor: str
    value: float  # posterior mean of that sensor, in `unit`
    std: float
    unit: str
    age_s: int | None  # since its last reading; None before the first


class Posterior(msgspec.Struct, frozen=True):
    """What is believed of every sensor, in `unit`: topic `<field>/posterior`."""

    interval: int
    at: str  # RFC 3339, UTC
    ending: Literal["answered", "missed"] | None  # of the interval; None while it runs
    unit: str
    sensors: tuple[str, ...]
    mean: list[float]  # by sensor, as all below
    std: list[float]
    last: list[float | None]  # its last reading; None before the first
    age_s: list[float | None]  # of that


class EnergyState(msgspec.Struct, frozen=True):
    """What one field's activations came to."""

    unit: str
    spent: float  # in the last period, in `unit`
    left: float | None  # of the field's budget; None where only sensors have one
    saved: int  # intervals in which nobody was asked
    exhausted: int  # sensors whose own budget does not allow another activation
    low_battery: list[str]  # sensors that are not asked for their batteries' sake


class FieldHealth(msgspec.Struct, frozen=True):
    """How one field is doing."""

    interval: int
    selected: str | None
    answered: int  # intervals, since the controller started
    missed: int
    suspects: list[str]  # sensors that did not answer when they were last asked
    refused: dict[str, int]  # readings and messages not used, by reason
    paused: bool = False  # nobody is asked, because somebody wanted that
    energy: EnergyState | None = None  # None where none is counted


class Health(msgspec.Struct, frozen=True):
    """How the daemon is doing: topic `health`."""

    at: str  # RFC 3339, UTC
    uptime_s: int
    version: str
    fields: dict[str, FieldHealth]
    clock_synced: bool = True  # the wall clock was set since the machine started
    paused: bool = False  # every field is
    problem: str | None = None  # what somebody should look after
    refused: dict[str, int] = {}  # commands not carried out, by reason
    kernels: str = ""  # compiled "ahead of time" or "just in time"


Verb = Literal["pause", "resume", "reset", "activate", "status"]
Transaction = (
    Annotated[str, msgspec.Meta(max_length=64)]
    | Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
    | None
)


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody asks of the daemon: topic `cmd/<verb>`; the last level says the verb."""

    field: str | None = None  # None: each of them
    sensor: str | None = None  # activate: which one
    paused: bool = True  # pause: False resumes, so that one topic serves a switch
    transaction: Transaction = None  # comes back with the answer


class Report(msgspec.Struct, frozen=True):
    """What `status` is answered with."""

    health: Health
    selected: dict[str, Decision]  # by field


class Response(msgspec.Struct, frozen=True):
    """What became of a request: topic `response/<verb>`."""

    status: Literal["ok", "error"]
    data: Report | None = None
    error: str | None = None
    transaction: Transaction = None


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
    energy: EnergyState | None = None  # None where none is counted


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

# --- what the history keeps ---------------------------------------------------------------------


class Levels(msgspec.Struct, frozen=True):
    """One number for each sensor, to a 510th of their range: enough to draw them.

    >>> Levels(20.0, 30.5, bytes([0, 255, 102])).values()
    [20.0, 30.5, 24.2]
    """

    low: float
    high: float
    steps: bytes  # 0 for `low`, 255 for `high`

    def values(self) -> list[float]:
        """Give the numbers."""
        step = (self.high - self.low) / 255
        return [self.low + step * each for each in self.steps]


class Beliefs(msgspec.Struct, frozen=True):
    """What was believed of every sensor when one of them was chosen, in the field's unit."""

    sensors: tuple[str, ...]
    mean: Levels
    std: Levels


class Entry(msgspec.Struct, frozen=True):
    """One interval of one field: what was decided, and what became of it."""

    field: str
    decision: Decision
    record: Record | None = None  # None while it runs, and where the daemon did not live to see
    notices: tuple[Notice, ...] = ()  # those that came while it ran
    beliefs: Beliefs | None = None


class Heard(msgspec.Struct, frozen=True):
    """What a broker has of a daemon, as far as it can be read."""

    status: str | None  # "online", "offline"
    health: Health | None
    selected: dict[str, Decision]  # by field
