"""Events: what happened, as the controller takes it in; checked once, where they are decoded.

Times are seconds since 1970-01-01 UTC unless a name says otherwise.
"""

import msgspec


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


class PauseRequested(msgspec.Struct, frozen=True):
    """Somebody wants no sensor to be asked any more."""

    at: float


class ResumeRequested(msgspec.Struct, frozen=True):
    """Somebody wants it to go on."""

    at: float


class ResetRequested(msgspec.Struct, frozen=True):
    """Somebody wants the model to begin anew."""

    at: float


class ActivationRequested(msgspec.Struct, frozen=True):
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
    | PauseRequested
    | ResumeRequested
    | ResetRequested
    | ActivationRequested
)
