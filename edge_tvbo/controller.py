"""The interval as a state machine: events in, commands out. No input, no output, no clock.

An interval begins with `IntervalElapsed`: the policy chooses, and the sensor is activated. Then

    waiting ──(its reading)──────────────▶ answered
       └──(DeadlineElapsed, or the next interval)──▶ missed: the sensor is a suspect and backs off,
                                                     unless the broker was away meanwhile

Readings of other sensors are free information. Whatever cannot be used is counted by its reason
and touches nothing else.

A restored controller goes on with the interval that was running: its sensor is not asked again,
and is not blamed if its answer was lost with the process. The next interval has a higher number.
"""

from math import inf, isfinite, isnan, nan, sqrt
from typing import Literal, assert_never

import msgspec

from edge_tvbo.errors import SnapshotError
from edge_tvbo.explanation import Narrator, rfc3339
from edge_tvbo.messages import (
    Activate,
    Command,
    DeadlineElapsed,
    Ending,
    Event,
    FieldHealth,
    IntervalElapsed,
    Kind,
    Latest,
    LinkLost,
    LinkRestored,
    Model,
    Notice,
    Notify,
    PublishState,
    Reading,
    Record,
    Unreadable,
)
from edge_tvbo.model.snapshot import inner, seal, unseal
from edge_tvbo.policies.policy import Outcome, Policy
from edge_tvbo.suspicion import Suspicion

SAME_VALUE = 2.0  # s; an unstamped reading repeated within it is a second delivery
MOST_REASONS = 32  # reasons counted by name; the rest are "other"
MOST = 2**53  # of anything counted
LONGEST = 64  # characters of a time
_KIND = "controller"


class Rules(msgspec.Struct, frozen=True):
    """What an interval allows."""

    reply_timeout: float  # s an activated sensor has to answer
    max_age: float  # s; a reading older than this when it arrives is late
    max_future: float = 60.0  # s a reading may be ahead of our clock
    max_backoff: int = 64  # intervals a silent sensor is left alone, at the most
    learn_from: Literal["all", "activated"] = "all"
    on_reading: bool = False  # the next interval begins with the answer to this one
    plausible: float = 20.0  # prior standard deviations that a reading may be off the mean


class _Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a snapshot holds of a controller beside its policy and the suspects."""

    interval: int
    began: float
    selected: int
    waiting: bool
    answered: int
    missed: int
    last_reset: str | None
    refused: dict[str, int]
    last_at: list[float]
    last_received: list[float]
    last_value: list[float]


class Controller:
    """Runs one field: chooses sensors, learns from readings, keeps count of what it refuses.

    Parameters
    ----------
    policy : Policy
        Owned from now on.
    rules : Rules
        What an interval allows.
    """

    def __init__(self, policy: Policy, rules: Rules) -> None:
        M = len(policy.field)
        self.policy = policy
        self.rules = rules
        self._narrator = Narrator(policy)
        self._suspicion = Suspicion(M, rules.max_backoff)
        self._farthest = rules.plausible * sqrt(policy.field.kernel.diagonal().max())  # model units
        self._arms = {sensor: arm for arm, sensor in enumerate(policy.field.sensors)}
        self._last_at = [-inf] * M  # measured, of the last reading accepted
        self._last_received = [-inf] * M
        self._last_value = [nan] * M
        self._interval = -1
        self._began = 0.0
        self._selected = -1
        self._waiting = False
        self._linked = True
        self._reachable = True  # whether the broker was there all through the interval
        self._answered = 0
        self._missed = 0
        self._last_reset: str | None = None
        self._refused: dict[str, int] = {}

    def handle(self, event: Event) -> list[Command]:
        """Take in what happened, and give what to do about it, in order."""
        match event:
            case Reading():
                return self._reading(event)
            case IntervalElapsed(at=at, intervals=intervals):
                return self._elapsed(at, intervals)
            case DeadlineElapsed(interval=interval, at=at):
                if not self._waiting or interval != self._interval:
                    return []
                return [*self._miss(at), *self._follow(at)]
            case Unreadable(reason=reason):
                return self._refuse(reason)
            case LinkLost():
                self._linked = self._reachable = False
                return []
            case LinkRestored():
                self._linked = True
                return []
            case _:
                assert_never(event)

    def health(self) -> FieldHealth:
        """Give how the field is doing."""
        sensors = self.policy.field.sensors
        return FieldHealth(
            interval=self._interval,
            selected=sensors[self._selected] if self._selected >= 0 else None,
            answered=self._answered,
            missed=self._missed,
            suspects=self._suspicion.names(sensors),
            refused=dict(self._refused),
        )

    def latest(self) -> dict[str, Latest]:
        """Give the last reading accepted of each sensor that has had one."""
        last = zip(self._last_value, self._last_received, strict=True)
        return {
            sensor: Latest(value, received)
            for sensor, (value, received) in zip(self.policy.field.sensors, last, strict=True)
            if received > -inf
        }

    # --- over a restart -----------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Give the state as bytes: the policy's, the suspects, the counters, the last readings."""
        progress = _Progress(
            interval=self._interval,
            began=self._began,
            selected=self._selected,
            waiting=self._waiting,
            answered=self._answered,
            missed=self._missed,
            last_reset=self._last_reset,
            refused=self._refused,
            last_at=self._last_at,
            last_received=self._last_received,
            last_value=self._last_value,
        )
        state = {
            "policy": self.policy.snapshot(),
            "progress": msgspec.msgpack.encode(progress),
            **self._suspicion.state(),
        }
        return seal(_KIND, self.policy.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = unseal(_KIND, self.policy.field.fingerprint(), blob)
        progress = _progress(inner(state, "progress"), len(self.policy.field))
        self._suspicion.check(state)
        self.policy.restore(inner(state, "policy"))
        self._suspicion.resume(state, progress.interval)
        self._interval, self._began = progress.interval, progress.began
        self._selected, self._waiting = progress.selected, progress.waiting
        self._reachable = False  # an answer may have been lost
        self._answered, self._missed = progress.answered, progress.missed
        self._last_reset, self._refused = progress.last_reset, dict(progress.refused)
        self._last_at = progress.last_at
        self._last_received = progress.last_received
        self._last_value = progress.last_value

    @property
    def interval(self) -> int:
        """Number of the interval that began last; -1 before the first."""
        return self._interval

    def skip_to(self, interval: int) -> None:
        """Take all numbers up to `interval` for used: those of intervals that are forgotten."""
        self._interval = max(self._interval, interval)

    # --- the interval -------------------------------------------------------------------------

    def _elapsed(self, at: float, intervals: int) -> list[Command]:
        commands = self._miss(at) if self._waiting else []
        resets = self.policy.resets
        if self._selected >= 0:
            for _ in range(intervals):
                self.policy.advance()
        self._interval += intervals
        if self.policy.resets != resets:
            self._last_reset = rfc3339(at)
        return [*commands, *self._begin(at)]

    def _begin(self, at: float) -> list[Command]:
        probing = self._suspicion.everyone
        eligible = self._suspicion.eligible(self._interval) if self._suspicion.anyone else None
        if probing and eligible is not None:
            eligible[:] = False
            eligible[self._suspicion.next_in_turn()] = True
        self.policy.align(at)
        choice = self.policy.select(eligible)
        self._selected, self._waiting, self._began = choice.arm, True, at
        self._reachable = self._linked
        expires_at = at + self.rules.reply_timeout
        decision = self._narrator.decision(
            choice,
            eligible,
            probing=probing,
            interval=self._interval,
            at=at,
            expires_at=expires_at,
            model=Model(self.policy.observations, self.policy.resets, self._last_reset),
        )
        activate = Activate(choice.sensor, self._interval, at, expires_at)
        return [activate, PublishState(decision)]

    def _follow(self, at: float) -> list[Command]:
        """Begin the next interval at once where no clock does."""
        return self._elapsed(at, 1) if self.rules.on_reading else []

    def _miss(self, at: float) -> list[Command]:
        arm = self._selected
        sensor = self.policy.field.sensors[arm]
        self._waiting = False
        self._missed += 1
        record = Record(self._interval, self._began, sensor, Ending.MISSED, None, None, None, False)
        return [record, *self._suspect(arm, sensor, at)] if self._reachable else [record]

    def _suspect(self, arm: int, sensor: str, at: float) -> list[Command]:
        relied_on = not self._suspicion.suspects(arm)
        answering = not self._suspicion.everyone
        self._suspicion.missed(arm, self._interval)
        commands: list[Command] = []
        if relied_on:
            text = f"{sensor} did not answer; it is left alone for a while and then asked again"
            commands.append(self._notice("sensor-lost", at, text, sensor))
        if answering and self._suspicion.everyone:
            text = "No sensor answers: the model waits, and each is asked in turn"
            commands.append(self._notice("all-suspect", at, text))
        return commands

    # --- readings -----------------------------------------------------------------------------

    def _reading(self, reading: Reading) -> list[Command]:
        arm = self._arms.get(reading.sensor, -1)
        reason = "unknown-sensor" if arm < 0 else self._objection(arm, reading)
        if reason:
            return self._refuse(reason)
        self._last_at[arm] = reading.at
        self._last_received[arm] = reading.received
        self._last_value[arm] = reading.value
        is_answer = self._waiting and arm == self._selected
        outcome = self.policy.observe(arm, self.policy.field.to_model(reading.value))
        commands = self._welcome(arm, reading.received)
        if outcome.reset:
            commands.append(self._begun_anew(reading))
        if is_answer:
            commands += self._answer(reading, outcome)
        return commands

    def _objection(self, arm: int, reading: Reading) -> str | None:
        if reading.retained:
            return "retained"
        if not isfinite(reading.value) or not isfinite(reading.at):
            return "non-finite"
        if abs(self.policy.field.to_model(reading.value)) > self._farthest:
            return "implausible"
        if self._is_repeated(arm, reading):
            return "duplicate"
        if reading.at - reading.received > self.rules.max_future:
            return "future-dated"
        overtaken = reading.stamped and reading.at < self._last_at[arm]
        if overtaken or reading.received - reading.at > self.rules.max_age:
            return "late"
        if self.rules.learn_from == "activated" and not (self._waiting and arm == self._selected):
            return "late" if arm == self._selected else "unsolicited"
        return None

    def _is_repeated(self, arm: int, reading: Reading) -> bool:
        if reading.stamped:
            return reading.at == self._last_at[arm]
        asked_since = self._waiting and arm == self._selected
        if asked_since and self._last_received[arm] <= self._began:
            return False
        since = reading.received - self._last_received[arm]
        return reading.value == self._last_value[arm] and since < SAME_VALUE

    def _begun_anew(self, reading: Reading) -> Notify:
        self._last_reset = rfc3339(self._began)
        text = f"{reading.sensor} contradicts the model, which begins anew"
        return self._notice("model-reset", reading.received, text, reading.sensor)

    def _answer(self, reading: Reading, outcome: Outcome) -> list[Command]:
        scale = self.policy.field.scale
        self._waiting = False
        self._answered += 1
        record = Record(
            self._interval,
            self._began,
            reading.sensor,
            Ending.ANSWERED,
            reading.value,
            outcome.surprise * scale,
            None if outcome.threshold is None else outcome.threshold * scale,
            outcome.reset,
        )
        return [record, *self._follow(reading.received)]

    def _welcome(self, arm: int, at: float) -> list[Command]:
        silence = self._suspicion.everyone
        if not self._suspicion.answered(arm):
            return []
        sensor = self.policy.field.sensors[arm]
        commands: list[Command] = [
            self._notice("sensor-back", at, f"{sensor} answers again", sensor)
        ]
        if silence:
            commands.append(self._notice("some-back", at, "The policy chooses again"))
        return commands

    def _refuse(self, reason: str) -> list[Command]:
        if reason not in self._refused and len(self._refused) >= MOST_REASONS:
            reason = "other"
        self._refused[reason] = self._refused.get(reason, 0) + 1
        return []

    def _notice(self, kind: Kind, at: float, text: str, sensor: str | None = None) -> Notify:
        return Notify(Notice(kind, rfc3339(at), text, sensor))


def _progress(blob: bytes, sensors: int) -> _Progress:
    """Give what `blob` holds, which fits a field of so many sensors; raises `SnapshotError`."""
    try:
        progress = msgspec.msgpack.decode(blob, type=_Progress)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SnapshotError(f"The controller's snapshot does not decode: {error}.") from error
    counts = (progress.answered, progress.missed, *progress.refused.values())
    sound = (
        -1 <= progress.selected < sensors
        and min(progress.selected, 0) <= progress.interval <= MOST
        and not (progress.waiting and progress.selected < 0)
        and isfinite(progress.began)
        and len(progress.last_reset or "") <= LONGEST
        and len(progress.refused) <= MOST_REASONS + 1
        and all(0 <= count <= MOST for count in counts)
    )
    if not sound:
        raise SnapshotError("The controller's snapshot holds what cannot be.")
    _check_column(progress.last_value, sensors, nan)
    for column in (progress.last_at, progress.last_received):
        _check_column(column, sensors, -inf)
    return progress


def _check_column(column: list[float], sensors: int, never: float) -> None:
    """Raise `SnapshotError` unless there is a number, or `never`, for each sensor."""
    known = [each for each in column if not (isnan(each) if isnan(never) else each == never)]
    if len(column) != sensors or not all(map(isfinite, known)):
        raise SnapshotError("The controller's snapshot holds readings that cannot be.")
