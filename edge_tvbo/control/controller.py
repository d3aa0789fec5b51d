"""Controller of one field: a state machine that handles events and returns commands.

The controller performs no I/O and has no clock. `IntervalElapsed` begins an interval: the policy
selects a sensor, and the controller activates this sensor. Then the controller waits for a reading
of the sensor:

    waiting ──(its reading)────────────────────────▶ answered
       └──(DeadlineElapsed, or the next interval)──▶ missed: the sensor timed out; it is backed
                                                     off, unless the broker was away

`ActivationRequested` activates another sensor in the running interval. The controller then no
longer waits for the reply of the sensor that was activated before. After `PauseRequested`, no
sensor is activated until `ResumeRequested`.

If the field has an energy budget, an interval may have no activation, because no sensor has enough
energy, or because an activation of the selected sensor is not worth its price (see
`energy_budget`). The decision of such an interval names the sensor with the highest estimate.

Unsolicited readings also update the model, unless `learn_from` is "activated". A rejected reading
is counted under the reason for its rejection, and does not update the model.

All times are times of the wall clock. When this clock is stepped (`ClockStepped`), the controller
shifts the stored times that the clock gave, and a time-out in the running interval does not back
the sensor off. While the clock is not set (`ClockUnset`), the age of a reading and the time of day
are unknown, and each reading is treated as if it was measured on arrival.

A controller that is restored from a snapshot continues the interval that was running when the
snapshot was made. The sensor of this interval is not activated again. If the sensor times out, it
is not backed off, because its reply may have been lost when the process ended. The next interval
gets a number that was not used before.
"""

from math import inf, sqrt
from typing import assert_never

import numpy as np

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.controller_state import KIND, MAX_REASONS, ControllerState
from edge_tvbo.control.decision_text import DecisionBuilder, notice_text
from edge_tvbo.control.energy_budget import EnergyBudget
from edge_tvbo.control.facts import BackedOff, Ineligible
from edge_tvbo.control.fault_detection import FaultDetector, Prediction
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
from edge_tvbo.messages.formatting import rfc3339
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

MIN_REPLY_SHARE = 0.5  # share of the reply timeout; with less time, a sensor is not backed off


class Controller:
    """Controller of one field: selects sensors, updates the model, counts rejected messages.

    Parameters
    ----------
    policy : Policy
        The policy of the field. After the construction, only the controller may change the policy.
    settings : ControllerSettings
        Intervals, timeouts and limits.
    with_text : bool
        Whether decisions contain factors and a text. Replays need neither factors nor texts.
    """

    def __init__(
        self, policy: Policy, settings: ControllerSettings, *, with_text: bool = True
    ) -> None:
        M = len(policy.field)
        self.policy = policy
        self.settings = settings
        self._faults = FaultDetector(
            policy.field, settings.interval_s, settings.max_backoff, settings.faults
        )
        self._decisions = DecisionBuilder(policy, self._faults, with_text=with_text)
        self._health = SensorHealth(M, settings.max_backoff)
        self._energy = EnergyBudget.from_settings(settings, policy.field.sensors)
        plausible = _plausible_range(policy.field, settings)
        self._filter = ReadingFilter(M, plausible, settings.max_age, settings.max_future)
        self._arms = {sensor: arm for arm, sensor in enumerate(policy.field.sensors)}
        self._interval = -1
        self._used = -1  # see `used`
        self._began = 0.0
        self._selected = -1
        self._waiting = False
        self._paused = False
        self._online = True
        self._timeout_counts = True  # whether a time-out shows that the sensor is unresponsive
        self._replies = 0
        self._timeouts = 0
        self._last_reset: str | None = None
        self._rejected: dict[str, int] = {}

    def handle(self, event: Event) -> list[Command]:
        """Update the controller after `event`; return the commands to carry out, in order."""
        match event:
            case Reading():
                return self._handle_reading(event)
            case IntervalElapsed(at=at, intervals=intervals):
                return self._next_interval(at, intervals)
            case DeadlineElapsed(interval=interval, at=at):
                if not self._waiting or interval != self._interval:
                    return []
                return [*self._time_out(at), *self._begin_if_on_reading(at)]
            case Unreadable(reason=reason, topic=topic, detail=detail):
                return self._reject(reason, topic, detail)
            case LinkLost():
                self._online = self._timeout_counts = False
                return []
            case LinkRestored():
                self._online = True
                return []
            case ClockStepped(by=by, at=at):
                self._shift_timestamps(by, at)
                return []
            case ClockUnset():
                self._filter.clock_is_set = False
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
                return self._handle_battery(event)
            case _:
                assert_never(event)

    def health(self) -> FieldHealth:
        """Return the health of the field that this controller runs."""
        sensors = self.policy.field.sensors
        return FieldHealth(
            interval=self._interval,
            selected=sensors[self._selected] if self._selected >= 0 else None,
            answered=self._replies,
            missed=self._timeouts,
            suspects=self._health.unresponsive(sensors),
            faulty=self._decisions.faults(),
            refused=dict(self._rejected),
            paused=self._paused,
            energy=self._energy.status(sensors) if self._energy else None,
        )

    @property
    def paused(self) -> bool:
        """Whether the field is paused: no sensor is activated until `ResumeRequested`."""
        return self._paused

    def can_afford(self, sensor: str) -> bool:
        """Return whether `sensor` has the energy for one more activation."""
        return self._energy is None or bool(self._energy.affordable()[self._arms[sensor]])

    def hotspot(self, at: float) -> Hotspot | None:
        """Return the sensor with the highest estimate; None before the first reading."""
        return self._decisions.hotspot(at, self._filter.received)

    def last_readings(self) -> dict[str, LastReading]:
        """Return a dict that maps each sensor to its last accepted reading, if it has one."""
        sensors = self.policy.field.sensors
        return {sensors[arm]: reading for arm, reading in self._filter.last_readings()}

    # --- snapshots and restarts -----------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the snapshot of the controller and its policy as bytes."""
        held = ControllerState(
            interval=self._interval,
            began=self._began,
            selected=self._selected,
            waiting=self._waiting,
            answered=self._replies,
            missed=self._timeouts,
            last_reset=self._last_reset,
            refused=self._rejected,
            last_at=self._filter.measured,
            last_received=self._filter.received,
            last_value=self._filter.values,
            stepped=self._filter.stepped,
            paused=self._paused,
        )
        state = {
            "policy": self.policy.snapshot(),
            "progress": encode_struct(held),
            "resets": self.policy.resets,  # for `counters`, which builds no policy
            **self._health.snapshot(),
            **self._faults.snapshot(),
        }
        if self._energy:
            state |= self._energy.snapshot() | {"sensors": list(self.policy.field.sensors)}
        return encode_snapshot(KIND, self.policy.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Restore the controller from a snapshot.

        An invalid snapshot raises `SnapshotError` and changes nothing.
        """
        state = decode_snapshot(KIND, self.policy.field.fingerprint(), blob)
        held = ControllerState.decode(read_bytes(state, "progress"), len(self.policy.field))
        self._filter.check(*held.filter_state)
        self._health.check(state)
        self._faults.check_state(state)
        energy = self._energy if "energy" in state else None  # absent if energy was not counted
        if energy:
            energy.check(state)
        self.policy.restore(read_bytes(state, "policy"))
        self._health.restore(state, held.interval)
        self._faults.restore(state, held.interval)
        if energy:
            energy.restore(state)
        self._interval = self._used = held.interval
        self._began = held.began
        self._selected, self._waiting = held.selected, held.waiting
        self._timeout_counts = False  # a reply may have been lost
        self._replies, self._timeouts = held.answered, held.missed
        self._last_reset, self._rejected = held.last_reset, dict(held.refused)
        self._filter.restore(*held.filter_state)
        self._paused = held.paused

    def restore_partial(self, blob: bytes) -> int:
        """Restore what a snapshot of another model or other sensors has in common with the field.

        These are the pause, and the energy of each sensor of the same name. If the policy is the
        same and can do so, what it knows of these sensors is restored too. Return the number of
        sensors of which the policy knows something. Raises `SnapshotError` for an invalid snapshot.
        """
        state = decode_snapshot(KIND, None, blob)
        held = ControllerState.decode(read_bytes(state, "progress"), MAX_COUNT)
        if self._energy and "sensors" in state:
            self._energy.restore_partial(state, self.policy.field.sensors)
        self._paused = held.paused
        return self.policy.restore_sensors(read_bytes(state, "policy"))

    @property
    def interval(self) -> int:
        """Number of the interval that began last; -1 before the first interval."""
        return self._interval

    @property
    def used(self) -> int:
        """The highest interval number that may have been used; -1 before the first interval."""
        return self._used

    @property
    def begun(self) -> bool:
        """Whether an interval is running.

        After a restart with `reserve_numbers`, no interval is running until the next one begins.
        """
        return 0 <= self._interval == self._used

    def reserve_numbers(self, interval: int, unknown: int = 0) -> None:
        """Treat all interval numbers up to `interval` as used.

        An earlier process may have begun intervals with these numbers after the snapshot was made.
        It activated a sensor in at most `unknown` of these intervals.
        """
        self._used = max(self._used, interval)
        if self._energy:
            self._energy.add_unknown_spending(unknown)

    # --- the interval ---------------------------------------------------------------------------

    def _next_interval(self, at: float, intervals: int) -> list[Command]:
        commands = self._time_out(at) if self._waiting else []
        resets = self.policy.resets
        if self._selected >= 0:
            for _ in range(intervals):
                self.policy.advance()
        self._interval = self._used = self._used + intervals
        if self._energy:
            self._energy.advance(intervals)
        if self.policy.resets != resets:
            self._last_reset = rfc3339(at)
        return commands if self._paused else [*commands, *self._begin_interval(at)]

    def _begin_interval(self, at: float) -> list[Command]:
        if self._filter.clock_is_set:
            self.policy.set_time(at)
        eligible, because = self._eligible(), None
        if eligible is not None and not eligible.any():
            return self._skip_activation(at)
        if eligible is not None and self._health.all_unresponsive:
            eligible = self._only(self._health.next_in_turn(eligible))
            because = Reason.PROBE
        choice = self.policy.select(eligible)
        if self._energy and not self._energy.is_worth_activating(choice.arm, choice.std):
            return self._skip_activation(at)
        return self._activate(choice, eligible, because, at)

    def _eligible(self) -> Mask | None:
        """Return a mask of the sensors that can be activated, of shape (M,); None for all."""
        eligible = self._health.eligible(self._interval) if self._health.any_unresponsive else None
        if self._faults.affects_selection:
            eligible = self._faults.eligible(self._interval, eligible)
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
        self._timeout_counts = self._online
        if because is Reason.PROBE:
            self._health.mark_probed(choice.arm)
        if self._energy and (self._online or self.settings.commands_wait):
            self._energy.charge(choice.arm)
        decision = self._decision(choice, eligible, because, at)
        activate = Activate(choice.sensor, self._interval, at, at + self.settings.reply_timeout)
        return [activate, PublishState(decision)]

    def _skip_activation(self, at: float) -> list[Command]:
        assert self._energy
        self._energy.skip_interval()
        choice = self._decisions.argmax_mean(self._selected)
        self._selected, self._began = choice.arm, at
        return [PublishState(self._decision(choice, None, Reason.SAVED, at))]

    def _decision(
        self,
        choice: Choice,
        eligible: Mask | None,
        because: Reason | None,
        at: float,
    ) -> Decision:
        return self._decisions.decision(
            choice,
            eligible,
            because=because,
            interval=self._interval,
            at=at,
            expires_at=at + self.settings.reply_timeout,
            model=ModelState(self.policy.observations, self.policy.resets, self._last_reset),
            ineligible_reason=self._ineligible_reason,
            energy=self._energy.fact() if self._energy else None,
        )

    def _ineligible_reason(self, arm: int) -> Ineligible:
        """Return the reason why the sensor `arm` cannot be activated in this interval."""
        if fact := self._faults.ineligible_reason(arm, self._interval):
            return fact
        until = self._health.retry_interval(arm)
        if self._energy and until <= self._interval:
            return self._energy.ineligible_reason(arm)
        received = self._filter.received[arm]
        return BackedOff(until, self._began - received if received > -inf else None)

    def _only(self, arm: int) -> Mask:
        eligible = np.zeros(len(self.policy.field), np.bool_)
        eligible[arm] = True
        return eligible

    def _begin_if_on_reading(self, at: float) -> list[Command]:
        """Begin the next interval now if the field has the setting ``interval = "on-reading"``."""
        return self._next_interval(at, 1) if self.settings.follows_readings else []

    def _time_out(self, at: float) -> list[Command]:
        arm = self._selected
        sensor = self.policy.field.sensors[arm]
        self._waiting = False
        self._timeouts += 1
        record = Record(self._interval, self._began, sensor, Ending.MISSED, None, None, None, False)
        had_time = at - self._began >= MIN_REPLY_SHARE * self.settings.reply_timeout
        unresponsive = had_time and self._timeout_counts
        return [record, *self._back_off(arm, sensor, at)] if unresponsive else [record]

    def _back_off(self, arm: int, sensor: str, at: float) -> list[Command]:
        was_responsive = not self._health.is_unresponsive(arm)
        any_responsive = not self._health.all_unresponsive
        self._health.mark_timed_out(arm, self._interval)
        commands: list[Command] = []
        if was_responsive:
            commands.append(_notice("sensor-lost", at, sensor))
        if any_responsive and self._health.all_unresponsive:
            commands.append(_notice("all-suspect", at))
        return commands

    def _shift_timestamps(self, by: float, at: float) -> None:
        self._began += by
        self._filter.shift_timestamps(by, at)
        self._faults.shift_timestamps(by)
        self._timeout_counts = False  # a reply on its way may have a time of the old clock

    # --- commands of the user -------------------------------------------------------------------

    def _pause(self, at: float) -> list[Command]:
        if self._paused:
            return []
        self._paused = True
        self._timeout_counts = False  # the activated sensor may be the reason for the pause
        return [_notice("paused", at)]

    def _resume(self, at: float) -> list[Command]:
        if not self._paused:
            return []
        self._paused = False
        resumed = _notice("resumed", at)
        idle = self._interval >= 0 and not self._waiting
        return [resumed, *(self._begin_if_on_reading(at) if idle else [])]

    def _force_sensor(self, arm: int, at: float) -> list[Command]:
        if not self.can_afford(self.policy.field.sensors[arm]):
            return self._reject("no-energy", self.policy.field.sensors[arm])
        only = self._only(arm)
        return self._activate(self.policy.select(only), only, Reason.ASKED, at)

    def _reset_model(self, at: float) -> list[Command]:
        self.policy.reset()
        self._last_reset = rfc3339(at)
        return [_notice("model-reset", at)]

    # --- readings -------------------------------------------------------------------------------

    def _handle_reading(self, reading: Reading) -> list[Command]:
        arm = self._arms.get(reading.sensor, -1)
        is_reply = self._waiting and arm == self._selected
        if reason := self._reject_reason(arm, reading, is_reply=is_reply):
            if is_reply and reason == "implausible":
                self._health.mark_implausible(arm)
            return self._reject(reason, reading.sensor, self._filter.detail(reason, reading))
        self._filter.accept(arm, reading)
        result, findings = self._learn_from(arm, reading)
        recovers = is_reply or not self._health.is_implausible(arm)
        commands = self._sensor_recovered(arm, reading.received) if recovers else []
        commands += findings
        if result.reset:
            commands.append(self._model_reset_notice(reading))
        if is_reply:
            commands += self._handle_reply(reading, result)
        return commands

    def _learn_from(self, arm: int, reading: Reading) -> tuple[ObserveResult, list[Command]]:
        """Update the model with a reading, unless its sensor is faulty or may be so."""
        field = self.policy.field
        y = field.to_model(reading.value)
        mean, std = self.policy.posterior()
        prediction = Prediction(
            field.to_unit(float(mean[arm])),
            field.scale * sqrt(float(std[arm]) ** 2 + field.noise_variance),
            informed=bool(mean.any()),
        )
        outcome = self._faults.check(
            arm, reading.value, prediction, reading.received, self._interval
        )
        commands: list[Command] = []
        if outcome.event:
            text = self._decisions.fault_notice(arm)
            notice = Notice(outcome.event, rfc3339(reading.received), text, reading.sensor)
            commands.append(Notify(notice))
        if outcome.usable:
            return self.policy.observe(arm, y), commands
        commands += self._reject("faulty", reading.sensor, f"{reading.value:g}")
        error = abs(y - float(mean[arm]))
        return ObserveResult(False, error, None, self.policy.observations), commands

    def _reject_reason(self, arm: int, reading: Reading, *, is_reply: bool) -> str | None:
        if arm < 0:
            return "unknown-sensor"
        activated_at = self._began if is_reply else None
        if reason := self._filter.reject_reason(arm, reading, activated_at):
            return reason
        if self.settings.learn_from == "activated" and not is_reply:
            return "late" if arm == self._selected else "unsolicited"
        return None

    def _handle_battery(self, report: BatteryReported) -> list[Command]:
        arm = self._arms.get(report.sensor, -1)
        if arm < 0:
            return self._reject("unknown-sensor", report.sensor)
        if not 0 <= report.percent <= 100:
            return self._reject("implausible", report.sensor, f"{report.percent:g} %")
        if self._energy is None or not self._energy.update_battery(arm, report.percent):
            return []
        return [_notice("battery-low", report.received, report.sensor, report.percent)]

    def _model_reset_notice(self, reading: Reading) -> Notify:
        self._last_reset = rfc3339(self._began)
        return _notice("model-reset", reading.received, reading.sensor)

    def _handle_reply(self, reading: Reading, result: ObserveResult) -> list[Command]:
        scale = self.policy.field.scale
        self._waiting = False
        self._replies += 1
        record = Record(
            self._interval,
            self._began,
            reading.sensor,
            Ending.ANSWERED,
            reading.value,
            result.abs_error * scale,
            None if result.threshold is None else result.threshold * scale,
            result.reset,
        )
        return [record, *self._begin_if_on_reading(reading.received)]

    def _sensor_recovered(self, arm: int, at: float) -> list[Command]:
        all_were_unresponsive = self._health.all_unresponsive
        if not self._health.mark_responsive(arm):
            return []
        sensor = self.policy.field.sensors[arm]
        commands: list[Command] = [_notice("sensor-back", at, sensor)]
        if all_were_unresponsive:
            commands.append(_notice("some-back", at))
        return commands

    def _reject(self, reason: str, source: str, detail: str = "") -> list[Command]:
        if reason not in self._rejected and len(self._rejected) >= MAX_REASONS:
            reason = "other"
        self._rejected[reason] = self._rejected.get(reason, 0) + 1
        return [Reject(reason, source, detail)]


def _notice(kind: NoticeKind, at: float, sensor: str | None = None, percent: float = 0.0) -> Notify:
    return Notify(Notice(kind, rfc3339(at), notice_text(kind, sensor, percent), sensor))


def _plausible_range(field: SensorField, settings: ControllerSettings) -> tuple[float, float]:
    """Return the lowest and the highest plausible reading, in the field's unit."""
    farthest = settings.plausible * sqrt(field.kernel.diagonal().max())
    bounds = field.to_unit(-farthest), field.to_unit(farthest)
    return min(bounds), max(bounds)
