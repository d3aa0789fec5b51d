"""Documents: the JSON messages over MQTT, which are validated when they are decoded."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

import msgspec


class Reason(StrEnum):
    """Reason for the selection of a sensor in a decision.

    The policies `rexp3`, `d-ucb`, `ada-opkb` and `oracle` use readings, but no model, so they
    estimate no values. Their reason is `warmup` before the first reading of the field, and
    `exploit` after it. The `text` of their decisions is "selected without a model".

    If the key `in_turn` of a decision is true, the sensor was selected in turn, whatever its
    estimate. In this case, the reason is `exploit` if its estimate is the highest, and `explore` if
    another estimate is higher.
    """

    # The reasons of policies without a model stay as they are: `decisions_sha256` contains them.
    WARMUP = "warmup"  # no reading since the start or a reset; the sensor has the highest bound
    EXPLOIT = "exploit"  # the sensor has the highest estimate, if the policy has a model
    EXPLORE = "explore"  # another estimate is higher, but this sensor's estimate is more uncertain
    SCHEDULED = "scheduled"  # the policy uses no readings: `random`, `round-robin`, `static`
    PROBE = "probe"  # all sensors are unresponsive, so they are selected in turn
    ASKED = "asked"  # the command `cmd/activate` has requested the sensor
    SAVED = "saved"  # no sensor is activated, to save energy; `sensor` has the highest estimate


class Ineligibility(StrEnum):
    """The reason why a sensor could not be selected in a decision."""

    IGNORED = "ignored"  # a command has taken the sensor out of use
    BACKED_OFF = "backed-off"  # the sensor is unresponsive, and its next activation is not due yet
    FAULTY = "faulty"  # the sensor is faulty, and its next trial is not due yet
    COMPARED = "compared"  # the sensor repeats one value; another sensor is read for comparison
    LOW_BATTERY = "low-battery"  # the battery of the sensor is too low for an activation
    REFUSED = "refused"  # the broker refuses activations of the sensor; the next one is not due yet
    NO_ENERGY = "no-energy"  # an activation costs more energy than is left
    ACTIVATED = "activated"  # the sensor was already activated in this interval


class ModelState(msgspec.Struct, frozen=True):
    """State of the model at the time of a decision."""

    observations: int  # readings in the model since its last reset
    resets: int  # number of resets since the first start
    last_reset: str | None = None  # time of the last reset (RFC 3339, UTC); None before the first


class Decision(msgspec.Struct, frozen=True):
    """The sensor that was selected last, with the reason: topic `<field>/selected`.

    The keys `width`, `runner_up` and `runner_up_ucb` are `null` if the policy did not compare the
    bounds of sensors. These keys are also `null` if the policy does not use the same number of
    standard deviations in the bounds of all sensors.

    `ineligible` contains the sensors that could not be selected, or only the 50 sensors with the
    highest bounds if there are more. If a command or the daemon selected the sensor, and not the
    policy, `ineligible` is empty.
    """

    interval: int  # number of the interval
    at: str  # start of the interval, or time of the `cmd/activate` (RFC 3339, UTC)
    expires_at: str  # deadline of the reply (RFC 3339, UTC); not enforced in the mode `advise`
    sensor: str  # id of the selected sensor
    policy: str  # name of the policy, such as "auto"
    mean: float  # estimated value of the selected sensor, in `unit`
    std: float  # standard deviation of the estimate
    ucb: float  # upper confidence bound of the sensor, in `unit`; for "min", the lower bound
    unit: str  # the field's unit
    reason: Reason  # why the sensor was selected
    factors: list[str]  # reasons for the selection, the most important first
    text: str  # one sentence for the user
    model: ModelState  # state of the model when the sensor was selected
    recommended: bool = False  # whether the mode is `advise`: no command was sent to the sensor
    earlier: list[str] = []  # sensors that were activated earlier in the same interval
    width: float | None = None  # number of standard deviations in each of the compared bounds
    runner_up: str | None = None  # id of the sensor with the next-highest bound
    runner_up_ucb: float | None = None  # bound of the sensor `runner_up`, in `unit`
    in_turn: bool = False  # whether the policy selected the sensor in turn, not by its bound
    ineligible: dict[str, Ineligibility] = {}  # sensors that could not be selected, and why


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
    "message-refused",
    "second-daemon",
    "state-removed",
    "clock-step",
    "clock-synced",
    "reload",
    "paused",
    "resumed",
    "battery-low",
]


class Notice(msgspec.Struct, frozen=True):
    """A notice, published once: topic `<field>/event`, or `event` if it is about the daemon."""

    event: NoticeKind  # kind of the event; see the table in the section Events
    at: str  # time of the event (RFC 3339, UTC)
    text: str  # one sentence for the user
    sensor: str | None = None  # id of the sensor; None if the notice is not about one sensor


class Hotspot(msgspec.Struct, frozen=True):
    """The hot spot of a field: topic `<field>/hotspot`.

    The hot spot is the sensor with the highest estimate at present. If the objective is "min", the
    hot spot is the sensor with the lowest estimate.
    """

    at: str  # time of the estimate (RFC 3339, UTC)
    sensor: str  # id of the sensor
    value: float  # the sensor's estimated value, in `unit`
    std: float  # standard deviation of the estimate
    unit: str  # the field's unit
    age_s: int | None  # seconds since the sensor's last reading; None before the first


class Alert(msgspec.Struct, frozen=True):
    """State of an alert: whether the hot spot is beyond the threshold. Topic: `<field>/alert`."""

    at: str  # time of this state (RFC 3339, UTC)
    active: bool  # whether there is an alert now
    since: str | None  # when the last alert began or ended (RFC 3339, UTC); None before the first
    threshold: float  # threshold, in `unit`; for "min", values below it cause an alert
    release: float  # the alert ends below this value (for "min", above it), in `unit`
    sensor: str  # sensor with the highest estimate (for "min", the lowest), even without a reading
    value: float  # the sensor's estimated value (the median), in `unit`
    std: float  # standard deviation of the estimate
    probability: float  # probability that the hot spot is beyond the threshold
    readings: dict[str, float]  # last readings that cause the alert; at most 100, the most extreme
    unit: str  # the field's unit
    text: str  # one sentence for the user


class PublishedPosterior(msgspec.Struct, frozen=True):
    """Estimates of every sensor, in `unit`: topic `<field>/posterior`."""

    interval: int  # number of the interval
    at: str  # time of the estimates (RFC 3339, UTC)
    ending: (
        Literal["answered", "missed", "undelivered"] | None
    )  # result of the last activation ("missed": timed out); None while a reply can arrive
    unit: str  # the field's unit
    sensors: tuple[str, ...]  # ids of the sensors; the other arrays have the same order
    mean: list[float]  # estimated value of each sensor
    std: list[float]  # standard deviation of each estimate
    last: list[float | None]  # last reading of each sensor; None before the first reading
    age_s: list[float | None]  # seconds since each sensor's last reading; None before the first


class EnergyState(msgspec.Struct, frozen=True):
    """Energy spent on the activations of one field."""

    unit: str  # unit of the energy, such as "J"
    spent: float  # energy spent in the last period, in `unit`
    left: float | None  # rest of the field's budget, in `unit`; None without budget or in `advise`
    saved: int  # number of intervals in which no sensor was activated, to save energy
    exhausted: int  # number of sensors whose own budget does not allow another activation
    low_battery: list[str]  # sensors that are not activated because of their batteries


class FieldHealth(msgspec.Struct, frozen=True):
    """Health of one field.

    The document on the topic `health` must fit in one message. If the document is too large, the
    values of `suspects`, `faulty`, `implausible`, `refused_activations` and `low_battery` lack some
    sensors. If it is still too large, the value of `ignored` lacks some sensors, too. The key
    `problem` of the document counts the sensors that are left out.

    The key `refused` counts what the daemon rejects. The key `refused_activations` has another
    meaning: it names the sensors whose activations the broker rejects. While such a sensor is
    backed off, the key `ineligible` of a decision contains the sensor with the word `refused`.
    """

    interval: int | None  # number of the current interval; None before the first
    selected: str | None  # the sensor that was selected last; None before the first decision
    answered: int  # number of activations whose sensor replied in time, since the first start
    missed: int  # number of activations that timed out; in `advise` mode, none times out
    suspects: list[str]  # unresponsive sensors; in `advise` mode, silent sensors
    refused: dict[str, int]  # readings and messages that the daemon has rejected, by reason
    paused: bool = False  # whether a command has paused the field: no sensor is activated
    energy: EnergyState | None = None  # energy spent and left; None without the setting `energy`
    recommends: bool = False  # whether the mode is `advise`: no command is sent to a sensor
    model: str = ""  # facts about the model in words: season, variation, log scale, ...
    survey: int = 0  # number of survey intervals that have not begun; 0 without a survey
    faulty: dict[str, str] = {}  # faulty sensors, with the reason in words
    implausible: dict[str, str] = {}  # sensors whose last reading is implausible; value and range
    alert: str | None = None  # the alert in words; None if there is no alert
    ignored: list[str] = []  # sensors that a command has taken out of use
    undelivered: int = 0  # activations that were refused, unconfirmed, or withdrawn by a restart
    refused_activations: list[str] = []  # sensors whose last activation the broker has refused


class Health(msgspec.Struct, frozen=True):
    """Health of the daemon: topic `health`.

    `clock_synced` is false while the wall clock shows a time before 2026, and while
    systemd-timesyncd is running but has not synchronised the wall clock yet. On many machines
    without a real-time clock, the wall clock starts at the time of the last shutdown, and the
    network corrects it later. On a network without a time server, `clock_synced` stays false, even
    if a real-time clock keeps the wall clock right.

    In the first hour after the start of the daemon, a reading that is dated in the future is
    accepted while `clock_synced` is false. A reading without a time is recorded with a wrong date
    until the wall clock is right.

    If systemd-timesyncd is not running (for example, in a container, or if chrony is used), the
    daemon does not know whether the wall clock is synchronised. So `clock_synced` can be true while
    the wall clock is behind. In this case, new readings seem to be dated in the future, and are
    rejected as `future-dated`.
    """

    at: str  # time of the document (RFC 3339, UTC)
    uptime_s: int  # seconds since the daemon started
    version: str  # version of edge_tvbo
    fields: dict[str, FieldHealth]  # health of each field, by the name of the field
    clock_synced: bool = True  # False while the wall clock is not set, or not synchronised
    paused: bool = False  # whether every field is paused
    problem: str | None = None  # a problem that needs attention, in words; None if there is none
    refused: dict[str, int] = {}  # rejected commands, by reason
    kernels: str = ""  # when the kernels were compiled: "ahead of time" or "just in time"
    unacknowledged_s: float = 0.0  # age of the oldest publication without acknowledgement, in s
    process: str = ""  # random id of the process, drawn at its start


Verb = Literal["pause", "resume", "reset", "activate", "ignore", "threshold", "status"]
Transaction = (
    Annotated[str, msgspec.Meta(max_length=64)]
    | Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
    | None
)


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command to the daemon: topic `cmd/<verb>`."""

    field: str | None = None  # name of a field; None for all fields
    sensor: str | None = None  # for `ignore`, `activate`; None activates the sensor selected last
    paused: bool = True  # for `pause`: True pauses the field, False resumes it
    ignored: bool = True  # for `ignore`: True takes the sensor out of use, False uses it again
    threshold: float | None = None  # for `threshold`: the alert's threshold, in the field's unit
    transaction: Transaction = None  # a text or number of your choice; the response contains it


class StatusReply(msgspec.Struct, frozen=True):
    """The data in the response to the command `status`: about one field, or about all fields.

    If the data would have more than 60 kB, the values of `factors` and `ineligible` are empty. If
    the data is still too large, the response is an error that says to request a single field.
    """

    health: Health  # the document of the topic `health`, but only with the requested fields
    selected: dict[str, Decision]  # the last decision of each requested field


class Response(msgspec.Struct, frozen=True):
    """The response to a command: topic `response/<verb>`."""

    status: Literal["ok", "error"]  # whether the command was executed
    data: StatusReply | None = None  # None unless the command is `status`
    error: str | None = None  # why the command was rejected; None if `status` is "ok"
    transaction: Transaction = None  # the value of `transaction` in the command


class LastReading(msgspec.Struct, frozen=True):
    """The last accepted reading of a sensor."""

    value: float  # in the field's unit
    received: float  # s since 1970


class FieldStatus(msgspec.Struct, frozen=True):
    """Status of one field: its health, and the other values that `/metrics` shows."""

    health: FieldHealth
    sensors: int  # number of sensors
    decisions: int  # number of decisions since the daemon started
    activations: int  # number of activations sent since the daemon started
    resets: int  # number of resets of the model since the daemon started
    last_readings: dict[str, LastReading]  # by sensor; without old readings and ignored sensors
    endings: Mapping[str, int] = {}  # activations since the daemon started, by ending
    refused: Mapping[str, int] = {}  # messages rejected since the daemon started, by reason
    names: Mapping[str, str] = {}  # display names of sensors, if they differ from the ids


class LinkStatus(msgspec.Struct, frozen=True):
    """Status of the daemon's link to the broker."""

    activations: Mapping[str, int] = {}  # number of activations that the link has sent, by field
    lost: int = 0  # activations, notices and responses that the link has dropped
    queued: int = 0  # messages that wait to be sent or acknowledged
    unacknowledged_s: float = 0.0  # how long the oldest unacknowledged publication has waited, s
    left_out: Mapping[str, int] = {}  # topic -> bytes of a message that the broker does not accept
    refused: str = ""  # text about the documents that the broker refuses; "" if there are none
    inputs_silent: bool = False  # whether all sensors are silent, also after a reconnection
    second_daemon: str = ""  # text about a second daemon of this instance; "" if none is running


class Status(msgspec.Struct, frozen=True):
    """Status of the daemon: the content of `health`, `/metrics` and `/healthz`."""

    health: Health
    at: float  # s since 1970
    uptime: float  # s
    healthy: bool
    reason: str  # one line: why the daemon is not healthy; for a healthy daemon, a summary
    online: bool  # whether the broker has accepted the connection and the subscriptions
    away: float  # s since the connection to the broker was lost; 0 while connected
    reconnects: int
    lost: int  # activations, notices and responses dropped since the start
    queued: int  # messages that wait to be sent or acknowledged
    fields: dict[str, FieldStatus]
    written: int | None = None  # bytes of state written since the start; None if none is stored
    resident: int | None = None  # bytes of memory; None if the system does not report it
    second_daemon: bool = False  # whether another daemon of the instance publishes to the broker


class RetainedState(msgspec.Struct, frozen=True):
    """The retained documents of a daemon, read from the broker; an invalid document is None."""

    status: str | None  # "online", "offline"
    health: Health | None
    selected: dict[str, Decision]  # by field
