"""Events: the inputs of a controller, which are validated once, when they are decoded.

Times are seconds since 1970-01-01 UTC unless a name says otherwise.
"""

import msgspec


class _Event(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all events; an encoded event is an array that begins with the name of its class."""


class Reading(_Event, frozen=True, gc=False):
    """One measured value of one sensor."""

    sensor: str
    value: float  # in the field's unit
    at: float  # when it was measured; equal to `received` if the payload has no time
    received: float  # when it reached this process
    stamped: bool = True  # whether the payload itself contained `at`
    retained: bool = False  # whether the broker had stored it before the subscription


class BatteryReported(_Event, frozen=True):
    """A sensor's report of its battery charge."""

    sensor: str
    percent: float
    received: float  # when it reached this process


class Unreadable(_Event, frozen=True):
    """A message that could not be decoded."""

    reason: str  # the word under which it is counted: "not-a-number", "too-large", ...
    topic: str
    detail: str


class IntervalElapsed(_Event, frozen=True):
    """A new interval begins."""

    at: float
    intervals: int = 1  # number of intervals since the last such event; 1 for the first


class DowntimeElapsed(_Event, frozen=True):
    """The daemon was stopped or suspended for some time, in which no interval began."""

    at: float  # when the last of the `intervals` began; the present time if there are none
    intervals: int  # number of intervals that would have begun; 0 with interval = "on-reading"


class DeadlineElapsed(_Event, frozen=True):
    """The activated sensor of interval number `interval` did not reply in time."""

    interval: int
    at: float


class ActivationUndelivered(_Event, frozen=True):
    """The broker did not confirm an activation before the deadline of the reply, or refused it."""

    sensor: str
    interval: int
    left: bool  # whether the sensor may have received the activation: it was sent and not refused
    refused: bool = False  # whether rules or limits of the broker forbid it


class LinkLost(_Event, frozen=True):
    """The broker is unreachable: no sensor can be activated."""


class LinkRestored(_Event, frozen=True):
    """The broker is reachable again, and the subscriptions are in place."""

    at: float


class DocumentsCleared(_Event, frozen=True):
    """The broker no longer retains documents with values in the former unit of the field."""


class ClockStepped(_Event, frozen=True):
    """The wall clock was set: all times that were read before must be increased by `by` seconds."""

    by: float  # s; negative if the clock was set back
    at: float  # when the clock was set, in the new time of the clock


class ClockUnset(_Event, frozen=True):
    """The wall clock has not been set since the machine started, so the time is unknown."""


class ClockSyncChanged(_Event, frozen=True):
    """The wall clock now counts as synchronised, or no longer counts as synchronised.

    Until the first such event, the clock counts as synchronised. A wall clock that does not count
    as synchronised may show the time of the last shutdown. An hour after the start of the daemon,
    the clock counts as synchronised even if it is not synchronised.
    """

    synced: bool


class QuietHoursEnded(_Event, frozen=True):
    """The quiet hours, which delayed a notice about the alert of the field, are over."""

    at: float


class PauseRequested(_Event, frozen=True):
    """A user pauses the field: no sensor is activated."""

    at: float


class ResumeRequested(_Event, frozen=True):
    """A user ends the pause of the field: sensors are activated again."""

    at: float


class ResetRequested(_Event, frozen=True):
    """A user resets the model of the field."""

    at: float


class ActivationRequested(_Event, frozen=True):
    """A user requests that a sensor is activated now."""

    sensor: str
    at: float


class ThresholdRequested(_Event, frozen=True):
    """A user sets the threshold of the field's alert."""

    threshold: float  # in the field's unit
    at: float


class IgnoreRequested(_Event, frozen=True):
    """A user sets whether a sensor is ignored: neither selected nor used for the model."""

    sensor: str
    ignored: bool
    at: float


Event = (
    Reading
    | BatteryReported
    | Unreadable
    | IntervalElapsed
    | DowntimeElapsed
    | DeadlineElapsed
    | ActivationUndelivered
    | LinkLost
    | LinkRestored
    | DocumentsCleared
    | ClockStepped
    | ClockUnset
    | ClockSyncChanged
    | QuietHoursEnded
    | PauseRequested
    | ResumeRequested
    | ResetRequested
    | ActivationRequested
    | IgnoreRequested
    | ThresholdRequested
)
