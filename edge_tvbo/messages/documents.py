"""Documents: the JSON on the wire, field for field; frozen, and checked where they are decoded."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec


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


class LastReading(msgspec.Struct, frozen=True):
    """The last accepted reading of a sensor."""

    value: float  # in the field's unit
    received: float  # s since 1970


class FieldStatus(msgspec.Struct, frozen=True):
    """Status of one field: its health, and what `/metrics` shows beside it."""

    health: FieldHealth
    sensors: int
    decisions: int  # since the daemon started, as activations
    activations: int
    resets: int  # of the model, those before a restart included
    last_readings: dict[str, LastReading]  # by sensor; a silent sensor is not in it


class Status(msgspec.Struct, frozen=True):
    """Status of the daemon, from which `health`, `/metrics` and `/healthz` are made."""

    health: Health
    at: float  # s since 1970
    uptime: float  # s
    healthy: bool
    reason: str  # why it is not healthy, or a summary, in one line
    online: bool  # whether the broker has accepted the connection and the subscriptions
    away: float  # s since the broker was lost; 0 while it is connected
    reconnects: int
    fields: dict[str, FieldStatus]
    written: int | None = None  # bytes of state written since the start
    resident: int | None = None  # bytes of memory; None where the system does not report it


class RetainedState(msgspec.Struct, frozen=True):
    """What a broker has of a daemon, as far as it can be read."""

    status: str | None  # "online", "offline"
    health: Health | None
    selected: dict[str, Decision]  # by field
