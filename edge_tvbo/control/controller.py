"""The interval as a state machine: events in, commands out. No input, no output, no clock.

An interval begins with `IntervalElapsed`: the policy chooses, and the sensor is activated. Then

    waiting ──(its reading)──────────────▶ answered
       └──(DeadlineElapsed, or the next interval)──▶ missed: the sensor is a suspect and backs off,
                                                     unless the broker was away meanwhile

`ActivationRequested` activates another sensor in the running interval; the reply of the sensor
activated before is no longer waited for. After `PauseRequested` no sensor is activated until
`ResumeRequested`.

Where energy is counted, an interval in which nobody can pay for an activation, or none is worth
its price, is saved: it names the sensor believed to be the hottest, and asks nobody.

Readings of other sensors are free information. Whatever cannot be used is counted by its reason
and touches nothing else.

All times are of the wall clock. Where it was set (`ClockStepped`), what is remembered is dated
anew, and nobody is blamed for the interval in which that happened; while it is not set
(`ClockUnset`), the age of a reading and the time of day cannot be told, and a reading counts as of
its arrival.

A restored controller goes on with the interval that was running: its sensor is not asked again,
and is not blamed if its answer was lost with the process. The next interval has a higher number.
"""

from math import inf, sqrt
from typing import assert_never

import numpy as np

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.controller_state import KIND, MOST_REASONS, ControllerState
from edge_tvbo.control.decision_text import DecisionBuilder
from edge_tvbo.control.energy_budget import EnergyBudget
from edge_tvbo.control.reading_filter import ReadingFilter
from edge_tvbo.control.sensor_health import SensorHealth
from edge_tvbo.messages.commands import (
    Activate,
    Command,
    Ending,
    Notify,
    PublishState,
    Record,
    Reject,
)
from edge_tvbo.messages.documents import (
    Decision,
    FieldHealth,
    Hotspot,
    LastReading,
    ModelState,
    Notice,
    NoticeKind,
    Reason,
)
from edge_tvbo.messages.events import (
    ActivationRequested,
    BatteryReported,
    ClockStepped,
    ClockUnset,
    DeadlineElapsed,
    Event,
    IntervalElapsed,
    LinkLost,
    LinkRestored,
    PauseRequested,
    Reading,
    ResetRequested,
    ResumeRequested,
    Unreadable,
)
from edge_tvbo.messages.formatting import duration, rfc3339
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import (
    MAX_COUNT,
    decode_snapshot,
    encode_snapshot,
    encode_struct,
    read_bytes,
)
from edge_tvbo.numerics.types import Mask
from edge_tvbo.policy.base import Choice, ObserveResult, Policy

MIN_REPLY_SHARE = 0.5  # of the reply timeout, without which nobody is blamed


class Controller:
    """Runs one field: chooses sensors, learns from readings, keeps count of what it refuses.

    Parameters
    ----------
    policy : Policy
        Owned from now on.
    settings : ControllerSettings
        Intervals, timeouts and limits.
    narrator : type
        Puts decisions into words: a `DecisionBuilder`, or what leaves them out.
    """

    def __init__(
        self,
        policy: Policy,
        settings: ControllerSettings,
        narrator: type[DecisionBuilder] = DecisionBuilder,
    ) -> None:
        M = len(policy.field)
        self.policy = policy
        self.settings = settings
        self._narrator = narrator(policy)
        self._suspicion = SensorHealth(M, settings.max_backoff)
        self._energy = EnergyBudget.of(settings, policy.field.sensors)
        self._screening = ReadingFilter(
            M, _plausible(policy.field, settings), settings.max_age, settings.max_future
        )
        self._arms = {sensor: arm for arm, sensor in enumerate(policy.field.sensors)}
        self._interval = -1
        self._used = -1  # the highest number that an interval may have had
        self._began = 0.0
        self._selected = -1
        self._waiting = False
        self._paused = False
        self._linked = True
        self._reachable = True  # whether the interval's answer had nothing in its way
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
            case Unreadable(reason=reason, topic=topic, detail=detail):
                return self._reject(reason, topic, detail)
            case LinkLost():
                self._linked = self._reachable = False
                return []
            case LinkRestored():
                self._linked = True
                return []
            case ClockStepped(by=by, at=at):
                self._shift_timestamps(by, at)
                return []
            case ClockUnset():
                self._screening.dated = False
                return []
            case PauseRequested(at=at):
                return self._pause(at)
            case ResumeRequested(at=at):
                return self._resume(at)
            case ResetRequested(at=at):
                return self._reset_model(at)
            case ActivationRequested(sensor=sensor, at=at):
                return self._force_sensor(self._arms[sensor], at)
            case BatteryReported():
                return self._battery(event)
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
            paused=self._paused,
            energy=self._energy.state(sensors) if self._energy else None,
        )

    @property
    def paused(self) -> bool:
        """Whether no sensor is activated until `ResumeRequested`."""
        return self._paused

    def can_afford(self, sensor: str) -> bool:
        """Say whether `sensor` has the energy for one more activation."""
        return self._energy is None or bool(self._energy.affordable()[self._arms[sensor]])

    def hotspot(self, at: float) -> Hotspot | None:
        """Give where the field is highest by now; None while nothing is believed of it."""
        return self._narrator.hotspot(at, self._screening.received)

    def last_readings(self) -> dict[str, LastReading]:
        """Give the last reading accepted of each sensor that has had one."""
        sensors = self.policy.field.sensors
        return {
            sensors[arm]: last_readings for arm, last_readings in self._screening.last_readings()
        }

    # --- over a restart -----------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Give the state as bytes: the policy's, the suspects, the counters, the last readings."""
        progress = ControllerState(
            interval=self._interval,
            began=self._began,
            selected=self._selected,
            waiting=self._waiting,
            answered=self._answered,
            missed=self._missed,
            last_reset=self._last_reset,
            refused=self._refused,
            last_at=self._screening.measured,
            last_received=self._screening.received,
            last_value=self._screening.values,
            stepped=self._screening.stepped,
            paused=self._paused,
        )
        state = {
            "policy": self.policy.snapshot(),
            "progress": encode_struct(progress),
            "resets": self.policy.resets,  # which the policy knows by itself; `counters` does not
            **self._suspicion.state(),
        }
        if self._energy:
            state |= self._energy.snapshot() | {"sensors": list(self.policy.field.sensors)}
        return encode_snapshot(KIND, self.policy.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = decode_snapshot(KIND, self.policy.field.fingerprint(), blob)
        progress = ControllerState.of(read_bytes(state, "progress"), len(self.policy.field))
        self._screening.check(*progress.remembered)
        self._suspicion.check(state)
        energy = self._energy if "energy" in state else None  # it may not have been counted
        if energy:
            energy.check(state)
        self.policy.restore(read_bytes(state, "policy"))
        self._suspicion.resume(state, progress.interval)
        if energy:
            energy.restore(state)
        self._interval = self._used = progress.interval
        self._began = progress.began
        self._selected, self._waiting = progress.selected, progress.waiting
        self._reachable = False  # an answer may have been lost
        self._answered, self._missed = progress.answered, progress.missed
        self._last_reset, self._refused = progress.last_reset, dict(progress.refused)
        self._screening.resume(*progress.remembered)
        self._paused = progress.paused

    def restore_partial(self, blob: bytes) -> None:
        """Take from a snapshot of other sensors or another model what holds of this field too.

        That is the pause, and what sensors of the same name have spent. Raises `SnapshotError`.
        """
        state = decode_snapshot(KIND, None, blob)
        progress = ControllerState.of(read_bytes(state, "progress"), MAX_COUNT)
        if self._energy and "sensors" in state:
            self._energy.restore_partial(state, self.policy.field.sensors)
        self._paused = progress.paused

    @property
    def interval(self) -> int:
        """Number of the interval that began last; -1 before the first."""
        return self._interval

    @property
    def used(self) -> int:
        """The highest number that an interval may have had; -1 before the first."""
        return self._used

    @property
    def begun(self) -> bool:
        """Whether an interval is running; not so from a killed process to the next interval."""
        return 0 <= self._interval == self._used

    def reserve_numbers(self, interval: int, forgotten: int = 0) -> None:
        """Take all numbers up to `interval` for used: those of intervals that are forgotten.

        In `forgotten` of them, at the most, somebody was asked.
        """
        self._used = max(self._used, interval)
        if self._energy:
            self._energy.add_unknown_spending(forgotten)

    # --- the interval -------------------------------------------------------------------------

    def _elapsed(self, at: float, intervals: int) -> list[Command]:
        commands = self._miss(at) if self._waiting else []
        resets = self.policy.resets
        if self._selected >= 0:
            for _ in range(intervals):
                self.policy.advance()
        self._interval = self._used = self._used + intervals
        if self._energy:
            self._energy.advance(intervals)
        if self.policy.resets != resets:
            self._last_reset = rfc3339(at)
        return commands if self._paused else [*commands, *self._begin(at)]

    def _begin(self, at: float) -> list[Command]:
        if self._screening.dated:
            self.policy.set_time(at)
        eligible, because = self._eligible(), None
        if eligible is not None and not eligible.any():
            return self._skip_activation(at)
        if eligible is not None and self._suspicion.everyone:
            eligible = self._only(self._suspicion.next_in_turn(eligible))
            because = Reason.PROBE
        choice = self.policy.select(eligible)
        if self._energy and not self._energy.is_worth_activating(choice.arm, choice.std):
            return self._skip_activation(at)
        return self._activate(choice, eligible, because, at)

    def _eligible(self) -> Mask | None:
        """Give who can be asked, None for everyone."""
        eligible = self._suspicion.eligible(self._interval) if self._suspicion.anyone else None
        if self._energy is None:
            return eligible
        affordable = self._energy.affordable()
        return affordable if eligible is None else eligible & affordable

    def _activate(
        self,
        choice: Choice,
        eligible: Mask | None,
        because: Reason | None,
        at: float,
    ) -> list[Command]:
        self._selected, self._waiting, self._began = choice.arm, True, at
        self._reachable = self._linked
        if because is Reason.PROBE:
            self._suspicion.mark_probed(choice.arm)
        if self._energy and (self._linked or self.settings.commands_wait):
            self._energy.charge(choice.arm)
        decision = self._decision(choice, eligible, because, at)
        activate = Activate(choice.sensor, self._interval, at, at + self.settings.reply_timeout)
        return [activate, PublishState(decision)]

    def _skip_activation(self, at: float) -> list[Command]:
        assert self._energy
        self._energy.skip_interval()
        choice = self._narrator.argmax_mean(self._selected)
        self._selected, self._began = choice.arm, at
        return [PublishState(self._decision(choice, None, Reason.SAVED, at))]

    def _decision(
        self,
        choice: Choice,
        eligible: Mask | None,
        because: Reason | None,
        at: float,
    ) -> Decision:
        return self._narrator.decision(
            choice,
            eligible,
            because=because,
            interval=self._interval,
            at=at,
            expires_at=at + self.settings.reply_timeout,
            model=ModelState(self.policy.observations, self.policy.resets, self._last_reset),
            ineligible_reason=self._ineligible_reason,
            also=(self._energy.account(),) if self._energy else (),
        )

    def _ineligible_reason(self, arm: int) -> str:
        """Say why `arm` cannot be asked in this interval."""
        until = self._suspicion.until(arm)
        if self._energy and until <= self._interval:
            return f"{self.policy.field.sensors[arm]} {self._energy.ineligible_reason(arm)}"
        received = self._screening.received[arm]
        heard = (
            f"silent for {duration(self._began - received)}" if received > -inf else "never heard"
        )
        return f"{self.policy.field.sensors[arm]} is left alone until interval {until}: {heard}"

    def _only(self, arm: int) -> Mask:
        eligible = np.zeros(len(self.policy.field), np.bool_)
        eligible[arm] = True
        return eligible

    def _follow(self, at: float) -> list[Command]:
        """Begin the next interval at once where no clock does."""
        return self._elapsed(at, 1) if self.settings.follows_readings else []

    def _miss(self, at: float) -> list[Command]:
        arm = self._selected
        sensor = self.policy.field.sensors[arm]
        self._waiting = False
        self._missed += 1
        record = Record(self._interval, self._began, sensor, Ending.MISSED, None, None, None, False)
        had_time = at - self._began >= MIN_REPLY_SHARE * self.settings.reply_timeout
        blamed = self._reachable and had_time
        return [record, *self._suspect(arm, sensor, at)] if blamed else [record]

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

    def _shift_timestamps(self, by: float, at: float) -> None:
        self._began += by
        self._screening.shift_timestamps(by, at)
        self._reachable = False  # an answer on its way may be dated by the clock as it was

    # --- what somebody asks for ---------------------------------------------------------------

    def _pause(self, at: float) -> list[Command]:
        if self._paused:
            return []
        self._paused = True
        self._reachable = False  # whoever is waited for may be what was to be left alone
        return [self._notice("paused", at, "Nobody is asked until it is resumed")]

    def _resume(self, at: float) -> list[Command]:
        if not self._paused:
            return []
        self._paused = False
        resumed = self._notice("resumed", at, "The next interval decides again")
        idle = self._interval >= 0 and not self._waiting
        return [resumed, *(self._follow(at) if idle else [])]

    def _force_sensor(self, arm: int, at: float) -> list[Command]:
        if not self.can_afford(self.policy.field.sensors[arm]):
            return self._reject("no-energy", self.policy.field.sensors[arm])
        only = self._only(arm)
        return self._activate(self.policy.select(only), only, Reason.ASKED, at)

    def _reset_model(self, at: float) -> list[Command]:
        self.policy.reset()
        self._last_reset = rfc3339(at)
        return [self._notice("model-reset", at, "The model begins anew, as somebody asked")]

    # --- readings -----------------------------------------------------------------------------

    def _reading(self, reading: Reading) -> list[Command]:
        arm = self._arms.get(reading.sensor, -1)
        is_answer = self._waiting and arm == self._selected
        if reason := self._objection(arm, reading, is_answer=is_answer):
            if is_answer and reason == "implausible":
                self._suspicion.mark_implausible(arm)
            return self._reject(reason, reading.sensor, f"{reading.value:g}")
        self._screening.accept(arm, reading)
        outcome = self.policy.observe(arm, self.policy.field.to_model(reading.value))
        believed = is_answer or not self._suspicion.doubts(arm)
        commands = self._sensor_recovered(arm, reading.received) if believed else []
        if outcome.reset:
            commands.append(self._model_reset_notice(reading))
        if is_answer:
            commands += self._answer(reading, outcome)
        return commands

    def _objection(self, arm: int, reading: Reading, *, is_answer: bool) -> str | None:
        if arm < 0:
            return "unknown-sensor"
        asked_at = self._began if is_answer else None
        if reason := self._screening.reject_reason(arm, reading, asked_at):
            return reason
        if self.settings.learn_from == "activated" and not is_answer:
            return "late" if arm == self._selected else "unsolicited"
        return None

    def _battery(self, report: BatteryReported) -> list[Command]:
        arm = self._arms.get(report.sensor, -1)
        if arm < 0:
            return self._reject("unknown-sensor", report.sensor)
        if not 0 <= report.percent <= 100:
            return self._reject("implausible", report.sensor, f"{report.percent:g} %")
        if self._energy is None or not self._energy.report(arm, report.percent):
            return []
        text = f"{report.sensor} has {report.percent:g} % of its battery left; it is not asked"
        return [self._notice("battery-low", report.received, text, report.sensor)]

    def _model_reset_notice(self, reading: Reading) -> Notify:
        self._last_reset = rfc3339(self._began)
        text = f"{reading.sensor} contradicts the model, which begins anew"
        return self._notice("model-reset", reading.received, text, reading.sensor)

    def _answer(self, reading: Reading, outcome: ObserveResult) -> list[Command]:
        scale = self.policy.field.scale
        self._waiting = False
        self._answered += 1
        record = Record(
            self._interval,
            self._began,
            reading.sensor,
            Ending.ANSWERED,
            reading.value,
            outcome.abs_error * scale,
            None if outcome.threshold is None else outcome.threshold * scale,
            outcome.reset,
        )
        return [record, *self._follow(reading.received)]

    def _sensor_recovered(self, arm: int, at: float) -> list[Command]:
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

    def _reject(self, reason: str, source: str, detail: str = "") -> list[Command]:
        if reason not in self._refused and len(self._refused) >= MOST_REASONS:
            reason = "other"
        self._refused[reason] = self._refused.get(reason, 0) + 1
        return [Reject(reason, source, detail)]

    def _notice(self, kind: NoticeKind, at: float, text: str, sensor: str | None = None) -> Notify:
        return Notify(Notice(kind, rfc3339(at), text, sensor))


def _plausible(field: SensorField, settings: ControllerSettings) -> tuple[float, float]:
    """Give the lowest and the highest value that can be believed, in the field's unit."""
    farthest = settings.plausible * sqrt(field.kernel.diagonal().max())
    bounds = field.to_unit(-farthest), field.to_unit(farthest)
    return min(bounds), max(bounds)
