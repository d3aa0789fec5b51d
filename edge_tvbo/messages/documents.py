"""Documents: the JSON messages over MQTT, which are validated when they are decoded."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

import msgspec


class Reason(StrEnum):
    """Reason for the selection of a sensor in a decision."""

    WARMUP = "warmup"  # the model has no reading since the start or a reset: selected at random
    EXPLOIT = "exploit"  # the sensor's estimated value is the highest
    EXPLORE = "explore"  # another sensor's estimate is higher, but this sensor's is more uncertain
    SCHEDULED = "scheduled"  # the policy uses no model
    PROBE = "probe"  # all sensors are unresponsive, so they are selected in turn
    ASKED = "asked"  # requested by `cmd/activate`
    SAVED = "saved"  # no sensor is selected, to save energy; `sensor` has the highest estimate


class ModelState(msgspec.Struct, frozen=True):
    """State of the model at the time of a decision."""

    observations: int  # readings in the model since its last reset
    resets: int  # number of resets since the controller started
    last_reset: str | None = None  # RFC 3339, UTC


class Decision(msgspec.Struct, frozen=True):
    """The sensor selected last in an interval, with the reason: topic `<field>/selected`."""

    interval: int
    at: str  # RFC 3339, UTC: the interval's start
    expires_at: str  # RFC 3339, UTC: a later reply does not count
    sensor: str
    policy: str
    mean: float  # estimated value of the selected sensor, in `unit`
    std: float  # standard deviation of the estimate
    ucb: float  # the sensor's confidence bound; for the objective "min" it is below the mean
    unit: str
    reason: Reason
    factors: list[str]  # short statements, the most important first
    text: str  # one sentence for the user
    model: ModelState
    recommended: bool = False  # mode advise: the sensor is only recommended, no command was sent
    earlier: list[str] = []  # sensors that were activated before in the same interval


NoticeKind = Literal[
    "alert",
    "alert-over",
    "model-reset",
    "sensor-lost",
    "sensor-back",
    "sensor-faulty",
    "sensor-agrees",
    "sensor-ignored",
    "sensor-implausible",
    "sensor-used",
    "threshold-set",
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
    """A notice, published once: topic `<field>/event`, or `event` if it is about the daemon."""

    event: NoticeKind
    at: str  # RFC 3339, UTC
    text: str
    sensor: str | None = None


class Hotspot(msgspec.Struct, frozen=True):
    """The sensor with the highest estimate now (lowest for "min"): topic `<field>/hotspot`."""

    at: str  # RFC 3339, UTC
    sensor: str
    value: float  # the sensor's estimated value, in `unit`
    std: float  # standard deviation of the estimate
    unit: str
    age_s: int | None  # seconds since the sensor's last reading; None before the first


class Alert(msgspec.Struct, frozen=True):
    """State of an alert: whether the hot spot is beyond the threshold. Topic: `<field>/alert`."""

    at: str  # RFC 3339, UTC
    active: bool
    since: str | None  # RFC 3339, UTC: when the alert began or ended; None before the first alert
    threshold: float  # in `unit`; for "min" the alert is about values below it
    release: float  # in `unit`: the level at which the alert is over
    sensor: str  # the hot spot
    value: float  # the hot spot's estimated value (the median), in `unit`
    std: float  # standard deviation of the estimate
    probability: float  # probability that the hot spot is beyond the threshold
    readings: dict[str, float]  # last readings of the sensors whose readings cause the alert
    unit: str
    text: str  # one sentence for the user


class PublishedPosterior(msgspec.Struct, frozen=True):
    """Estimates of every sensor, in `unit`: topic `<field>/posterior`."""

    interval: int
    at: str  # RFC 3339, UTC
    ending: (
        Literal["answered", "missed", "undelivered"] | None
    )  # of the last activation; None while it runs
    unit: str
    sensors: tuple[str, ...]
    mean: list[float]  # one value for each sensor, in the order of `sensors`
    std: list[float]
    last: list[float | None]  # the last reading; None before the first
    age_s: list[float | None]  # seconds since the last reading


class EnergyState(msgspec.Struct, frozen=True):
    """Energy spent on the activations of one field."""

    unit: str
    spent: float  # in the last period, in `unit`
    left: float | None  # what is left of the field's budget; None if the field has no budget
    saved: int  # intervals in which no sensor was activated
    exhausted: int  # sensors whose own budget does not allow another activation
    low_battery: list[str]  # sensors that are not activated because of their batteries


class FieldHealth(msgspec.Struct, frozen=True):
    """Health of one field."""

    interval: int
    selected: str | None
    answered: int  # activations whose sensor replied in time, since the first start
    missed: int  # activations whose sensor timed out; in mode advise, no sensor times out
    suspects: list[str]  # unresponsive sensors; in mode advise, silent sensors
    refused: dict[str, int]  # rejected readings and messages, by reason
    paused: bool = False  # whether a command has paused the field: no sensor is activated
    energy: EnergyState | None = None  # None if no energy is counted
    recommends: bool = False  # mode advise: sensors are only recommended, no command is sent
    model: str = ""  # facts about the model in words: its season, its rates, its scale
    survey: int = 0  # intervals of the survey that have not begun
    faulty: dict[str, str] = {}  # sensors whose readings are wrong, with the reason in words
    implausible: dict[str, str] = {}  # sensors whose last reading is implausible: value and range
    alert: str | None = None  # the alert in words; None if there is no alert
    ignored: list[str] = []  # sensors that a command has taken out of use
    undelivered: int = 0  # activations that the broker did not confirm before their deadline


class Health(msgspec.Struct, frozen=True):
    """Health of the daemon: topic `health`."""

    at: str  # RFC 3339, UTC
    uptime_s: int
    version: str
    fields: dict[str, FieldHealth]
    clock_synced: bool = True  # whether the wall clock was set since the machine started
    paused: bool = False  # whether every field is paused
    problem: str | None = None  # a problem that needs attention, in words
    refused: dict[str, int] = {}  # rejected commands, by reason
    kernels: str = ""  # compiled "ahead of time" or "just in time"
    unacknowledged_s: float = 0.0  # how long the oldest unacknowledged publication has waited


Verb = Literal["pause", "resume", "reset", "activate", "ignore", "threshold", "status"]
Transaction = (
    Annotated[str, msgspec.Meta(max_length=64)]
    | Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
    | None
)


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command to the daemon: topic `cmd/<verb>`."""

    field: str | None = None  # None for all fields
    sensor: str | None = None  # for `activate` (null: the sensor selected last) and `ignore`
    paused: bool = True  # for `pause`: False resumes, so that a switch needs only one topic
    ignored: bool = True  # for `ignore`: False uses the sensor again
    threshold: float | None = None  # for `threshold`: the alert's threshold, in the field's unit
    transaction: Transaction = None  # returned with the response


class StatusReply(msgspec.Struct, frozen=True):
    """The data in the response to the command `status`."""

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
    """Status of one field: its health, and the other values that `/metrics` shows."""

    health: FieldHealth
    sensors: int
    decisions: int  # since the daemon started
    activations: int  # that were sent since the daemon started
    resets: int  # of the model; includes resets before a restart
    last_readings: dict[str, LastReading]  # by sensor, without old readings and ignored sensors
    names: Mapping[str, str] = {}  # display names of sensors, if they differ from the ids


class Status(msgspec.Struct, frozen=True):
    """Status of the daemon: the content of `health`, `/metrics` and `/healthz`."""

    health: Health
    at: float  # s since 1970
    uptime: float  # s
    healthy: bool
    reason: str  # one line: why the daemon is not healthy, or a summary if it is
    online: bool  # whether the broker has accepted the connection and the subscriptions
    away: float  # s since the connection to the broker was lost; 0 while connected
    reconnects: int
    fields: dict[str, FieldStatus]
    written: int | None = None  # bytes of state written since the start
    resident: int | None = None  # bytes of memory; None if the system does not report it


class RetainedState(msgspec.Struct, frozen=True):
    """The documents of a daemon that the broker has retained; invalid documents are None."""

    status: str | None  # "online", "offline"
    health: Health | None
    selected: dict[str, Decision]  # by field
