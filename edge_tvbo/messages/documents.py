"""Documents: the JSON messages on the wire; validated when they are decoded."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec


class Reason(StrEnum):
    """Why a sensor was selected."""

    WARMUP = "warmup"  # the model has no reading since the start or a reset: selected at random
    EXPLOIT = "exploit"  # its estimated value is the highest
    EXPLORE = "explore"  # its estimate is not the highest, but uncertain enough that it could be
    SCHEDULED = "scheduled"  # the policy uses no model
    PROBE = "probe"  # every sensor is unresponsive: each is activated in turn
    ASKED = "asked"  # requested by `cmd/activate`
    SAVED = "saved"  # no sensor is activated, to save energy; this one is the estimated hottest


class ModelState(msgspec.Struct, frozen=True):
    """State of the model behind a decision."""

    observations: int  # readings in the model since its last reset
    resets: int  # since the controller started
    last_reset: str | None = None  # RFC 3339, UTC


class Decision(msgspec.Struct, frozen=True):
    """The sensor selected for one interval, with the reason: topic `<field>/selected`."""

    interval: int
    at: str  # RFC 3339, UTC: the interval's start
    expires_at: str  # RFC 3339, UTC: a later reply does not count
    sensor: str
    policy: str
    mean: float  # estimate of that sensor, in `unit`
    std: float  # standard deviation of the estimate
    ucb: float  # the bound that was compared; below the mean for the objective "min"
    unit: str
    reason: Reason
    factors: list[str]  # short statements, the most important first
    text: str  # one sentence for the user
    model: ModelState


NoticeKind = Literal[
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
    """A notice, published once: topic `<field>/event`, or `event` for the daemon."""

    event: NoticeKind
    at: str  # RFC 3339, UTC
    text: str
    sensor: str | None = None


class Hotspot(msgspec.Struct, frozen=True):
    """The sensor with the highest (or lowest) estimate now: topic `<field>/hotspot`."""

    at: str  # RFC 3339, UTC
    sensor: str
    value: float  # its estimated value, in `unit`
    std: float  # standard deviation of the estimate
    unit: str
    age_s: int | None  # since its last reading; None before the first


class PublishedPosterior(msgspec.Struct, frozen=True):
    """Estimates of every sensor, in `unit`: topic `<field>/posterior`."""

    interval: int
    at: str  # RFC 3339, UTC
    ending: Literal["answered", "missed"] | None  # how the interval ended; None while it runs
    unit: str
    sensors: tuple[str, ...]
    mean: list[float]  # one value for each sensor, as in the lists below
    std: list[float]
    last: list[float | None]  # the last reading; None before the first
    age_s: list[float | None]  # seconds since the last reading


class EnergyState(msgspec.Struct, frozen=True):
    """Energy spent on the activations of one field."""

    unit: str
    spent: float  # in the last period, in `unit`
    left: float | None  # of the field's budget; None where only sensors have one
    saved: int  # intervals in which no sensor was activated
    exhausted: int  # sensors whose own budget does not allow another activation
    low_battery: list[str]  # sensors that are not activated because of their batteries


class FieldHealth(msgspec.Struct, frozen=True):
    """Health of one field."""

    interval: int
    selected: str | None
    answered: int  # intervals whose sensor replied in time, since the first start
    missed: int  # intervals whose sensor timed out
    suspects: list[str]  # unresponsive sensors: they timed out when last activated
    refused: dict[str, int]  # rejected readings and messages, by reason
    paused: bool = False  # no sensor is activated, on command
    energy: EnergyState | None = None  # None where none is counted


class Health(msgspec.Struct, frozen=True):
    """Health of the daemon: topic `health`."""

    at: str  # RFC 3339, UTC
    uptime_s: int
    version: str
    fields: dict[str, FieldHealth]
    clock_synced: bool = True  # whether the wall clock was set since the machine started
    paused: bool = False  # whether every field is paused
    problem: str | None = None  # what needs attention
    refused: dict[str, int] = {}  # rejected commands, by reason
    kernels: str = ""  # compiled "ahead of time" or "just in time"


Verb = Literal["pause", "resume", "reset", "activate", "status"]
Transaction = (
    Annotated[str, msgspec.Meta(max_length=64)]
    | Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
    | None
)


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command to the daemon: topic `cmd/<verb>`."""

    field: str | None = None  # None for all fields
    sensor: str | None = None  # activate: the sensor
    paused: bool = True  # pause: False resumes, so that one topic serves a switch
    transaction: Transaction = None  # returned with the response


class StatusReply(msgspec.Struct, frozen=True):
    """The data in the response to `status`."""

    health: Health
    selected: dict[str, Decision]  # the last decision of each field


class Response(msgspec.Struct, frozen=True):
    """The response to a command: topic `response/<verb>`."""

    status: Literal["ok", "error"]
    data: StatusReply | None = None
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
    last_readings: dict[str, LastReading]  # by sensor; without old ones and unresponsive sensors


class Status(msgspec.Struct, frozen=True):
    """Status of the daemon: the content of `health`, `/metrics` and `/healthz`."""

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
    """What a broker has retained of a daemon, as far as it can be read."""

    status: str | None  # "online", "offline"
    health: Health | None
    selected: dict[str, Decision]  # by field
