"""Controller of one field: a state machine that handles events and returns commands.

The controller performs no I/O and has no clock. `IntervalElapsed` begins an interval: the policy
selects a sensor, and the controller activates this sensor. Then the controller waits for a reading
of the sensor:

    waiting ──(its reading)────────────────────────▶ answered
       └──(DeadlineElapsed, or the next interval)──▶ missed: the sensor timed out; it is backed
                                                     off if it is unresponsive (see
                                                     `sensor_health`), unless the broker was away

If the field has the setting `per_interval` or a survey, several different sensors are activated in
an interval. With ``next_activation = "after-reply"``, each is selected after the one before has
replied or timed out; sensor number j has to reply by j reply timeouts after the interval's start.
With ``next_activation = "at-once"``, all are selected and activated when the interval begins.

`ActivationRequested` activates another sensor in the running interval, and is the last activation
of this interval. The controller then no longer waits for replies of sensors that were activated
before. After `PauseRequested`, no sensor is activated until `ResumeRequested`. `IgnoreRequested`
takes one sensor out of use (see `ignored_sensors`), or uses it again.

If the settings say that no commands are sent (the mode "advise"), the selected sensor is only
recommended. Then no sensor can time out, and no energy is charged, because the controller cannot
know whether other software polls the sensor. A reading of the recommended sensor before the next
interval still counts as answered. A sensor is unresponsive if it is silent for several times the
usual time between its readings (see `report_times`).

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
snapshot was made. The sensors of this interval are not activated again. If one of them times out,
it is not backed off, because its reply may have been lost when the process ended. The next interval
gets a number that was not used before. After a kill, the restored interval has no more activations,
because the killed process may have made them already.
"""

from math import copysign, inf, sqrt
from typing import assert_never

import numpy as np

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.activations import MIN_REPLY_SHARE, Activations, ActivationsState
from edge_tvbo.control.alerts import AlertMonitor
from edge_tvbo.control.controller_state import KIND, MAX_REASONS, ControllerState
from edge_tvbo.control.decision_text import (
    ADVICE_NOTICES,
    NOTICES,
    DecisionBuilder,
    notice_text,
    silence_text,
)
from edge_tvbo.control.energy_budget import EnergyBudget
from edge_tvbo.control.facts import BackedOff, Ignored, Ineligible, WasActivated
from edge_tvbo.control.fault_detection import FaultDetector, Prediction
from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.implausible_readings import ImplausibleReadings
from edge_tvbo.control.reading_filter import ReadingFilter
from edge_tvbo.control.report_times import ReportTimes
from edge_tvbo.control.sensor_health import SensorHealth
from edge_tvbo.messages.commands import (
    Activate,
    Command,
    Ending,
    Notify,
    PublishState,
    Recommend,
    Record,
    Reject,
)
from edge_tvbo.messages.documents import (
    Alert,
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
    IgnoreRequested,
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
        self._recommends = not settings.sends_commands
        self._faults = FaultDetector(
            policy.field, settings.interval_s, settings.max_backoff, settings.faults
        )
        self._ignored = IgnoredSensors(policy.field.sensors)
        self._decisions = DecisionBuilder(
            policy,
            self._faults,
            self._ignored,
            with_text=with_text,
            recommends=self._recommends,
            names=settings.sensor_names,
        )
        self._health = SensorHealth(M, settings.max_backoff, self._ignored)
        self._reports = ReportTimes(M, settings.interval_s or settings.reply_timeout)
        self._energy = EnergyBudget.from_settings(settings, policy.field.sensors)
        self._alert = AlertMonitor(policy.field, settings.alert) if settings.alert else None
        self._implausible = ImplausibleReadings(M)
        self._plausible = plausible_range(policy.field, settings)
        self._filter = ReadingFilter(M, self._plausible, settings.max_age, settings.max_future)
        self._arms = {sensor: arm for arm, sensor in enumerate(policy.field.sensors)}
        self._interval = -1
        self._used = -1  # see `used`
        self._began = 0.0
        self._selected = -1
        self._activations = Activations(settings)
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
                if not self._activations.awaited or interval != self._interval:
                    return []
                return [*self._end_waiting(at), *self._continue_interval(at)]
            case Unreadable(reason=reason, topic=topic, detail=detail):
                return self._reject(reason, topic, detail)
            case LinkLost():
                self._online = self._timeout_counts = False
                self._reports.stop_listening()
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
            case IgnoreRequested(sensor=sensor, ignored=ignored, at=at):
                return self._set_ignored(self._arms[sensor], at, ignored=ignored)
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
            alert=self._alert_text(),
            implausible={
                sensors[arm]: self._decisions.implausible_text(value, self._plausible)
                for arm, value in self._implausible.values().items()
            },
            ignored=self._ignored.names(),
            refused=dict(self._rejected),
            paused=self._paused,
            energy=self._energy.status(sensors) if self._energy else None,
            recommends=self._recommends,
            model="; ".join(self._decisions.model_facts()),
            survey=self._activations.survey_left,
        )

    @property
    def paused(self) -> bool:
        """Whether the field is paused: no sensor is activated until `ResumeRequested`."""
        return self._paused

    def is_ignored(self, sensor: str) -> bool:
        """Return whether a command has taken `sensor` out of use."""
        return bool(self._ignored.mask[self._arms[sensor]])

    def is_last_in_use(self, sensor: str) -> bool:
        """Return whether all sensors but `sensor` are ignored."""
        return self._ignored.is_last(self._arms[sensor])

    def can_afford(self, sensor: str) -> bool:
        """Return whether `sensor` has the energy for one more activation."""
        return self._energy is None or bool(self._energy.affordable()[self._arms[sensor]])

    def hotspot(self, at: float) -> Hotspot | None:
        """Return the sensor with the highest estimate; None before the first reading."""
        return self._decisions.hotspot(at, self._filter.received)

    def alert(self, at: float) -> Alert | None:
        """Return the state of the alert; None without a threshold or before the first reading."""
        if self._alert is None:
            return None
        return self._decisions.alert(self._alert, at, self._filter.values)

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
            waiting=bool(self._activations.awaited),
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
            **(self._reports.snapshot() if self._recommends else {}),
            **self._faults.snapshot(),
            **(self._alert.snapshot() if self._alert else {}),
            **self._implausible.snapshot(),
            **self._ignored.snapshot(),
        }
        if self.settings.max_per_interval > 1:
            state["activations"] = encode_struct(self._activations.state())
        if self._energy:
            state |= self._energy.snapshot() | {"sensors": list(self.policy.field.sensors)}
        return encode_snapshot(KIND, self.policy.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Restore the controller from a snapshot.

        An invalid snapshot raises `SnapshotError` and changes nothing.
        """
        state = decode_snapshot(KIND, self.policy.field.fingerprint(), blob)
        held = ControllerState.decode(read_bytes(state, "progress"), len(self.policy.field))
        activations = ActivationsState.decode(state, held, len(self.policy.field))
        self._filter.check(*held.filter_state)
        self._health.check(state)
        self._faults.check_state(state)
        if self._alert:
            self._alert.check(state)
        self._implausible.check(state)
        self._ignored.check(state)
        energy = self._energy if "energy" in state else None  # absent if energy was not counted
        if energy:
            energy.check(state)
        knows_reports = self._recommends and "own_count" in state  # absent after other modes
        if knows_reports:
            self._reports.check(state)
        self.policy.restore(read_bytes(state, "policy"))
        if self._alert:
            self._alert.restore(state)
        self._implausible.restore(state)
        self._ignored.restore(state)
        self._health.restore(state, held.interval)
        self._faults.restore(state, held.interval)
        if energy:
            energy.restore(state)
        if knows_reports:
            self._reports.restore(state)
        self._interval = self._used = held.interval
        self._began = held.began
        self._selected = held.selected
        self._activations.restore(activations)
        self._timeout_counts = False  # a reply may have been lost
        self._replies, self._timeouts = held.answered, held.missed
        self._last_reset, self._rejected = held.last_reset, dict(held.refused)
        self._filter.restore(*held.filter_state)
        self._paused = held.paused

    def restore_partial(self, blob: bytes) -> int:
        """Restore what a snapshot of another model or other sensors has in common with the field.

        These are the pause, the age of the field, and of each sensor of the same name, its energy
        and whether it is ignored.
        If the policy is the same and can do so, what it knows of these sensors is restored too.
        Return the number of sensors of which the policy knows something. Raises `SnapshotError` for
        an invalid snapshot.
        """
        state = decode_snapshot(KIND, None, blob)
        held = ControllerState.decode(read_bytes(state, "progress"), MAX_COUNT)
        begun = ActivationsState.decode(state, held, MAX_COUNT).begun
        if self._energy and "sensors" in state:
            self._energy.restore_partial(state, self.policy.field.sensors)
        self._ignored.check(state)
        self._ignored.restore(state)
        self._paused = held.paused
        self._activations.begun = begun
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
        It activated sensors in at most `unknown` of these intervals, and may have continued the
        interval of the snapshot.
        """
        self._used = max(self._used, interval)
        continued = not self.begun and self._activations.left > 0
        self._activations.left = self._activations.left if self.begun else 0
        if self._energy and self.settings.sends_commands:
            self._energy.add_unknown_spending(unknown + continued)

    # --- the interval ---------------------------------------------------------------------------

    def _next_interval(self, at: float, intervals: int) -> list[Command]:
        commands = self._end_waiting(at)
        resets = self.policy.resets
        if self._selected >= 0:
            for _ in range(intervals):
                self.policy.advance()
        self._interval = self._used = self._used + intervals
        self._reports.recommend([], at)
        self._activations.begin_interval(intervals)
        if self._energy:
            self._energy.advance(intervals)
        if self.policy.resets != resets:
            self._last_reset = rfc3339(at)
        commands += self._update_alert(at)
        return commands if self._paused else [*commands, *self._begin_interval(at)]

    def _begin_interval(self, at: float) -> list[Command]:
        if self._filter.clock_is_set:
            self.policy.set_time(at)
        self._began = at
        return [*self._back_off_silent(at), *self._begin_activations(at)]

    def _begin_activations(self, at: float) -> list[Command]:
        """Activate the first sensor of the interval, or all its sensors if they are selected so."""
        sensors = self._activations.planned
        if sensors > 1 and self.settings.next_activation == "at-once":
            return self._activate_several(sensors, at) or self._skip_activation(at)
        activated = self._activate_one(at, at + self.settings.reply_timeout)
        self._activations.left = sensors - 1 if activated else 0
        return activated or self._skip_activation(at)

    def _continue_interval(self, at: float) -> list[Command]:
        """Activate the next sensor of the interval, if another one can be activated in it.

        With ``interval = "on-reading"``, begin the next interval instead.
        """
        if self.settings.follows_readings:
            return self._next_interval(at, 1)
        if not self._activations.left or self._paused or not self.begun:
            return []
        expires_at = self._activations.next_deadline(self._began, at)
        if expires_at is None:
            return []
        self._activations.left -= 1
        return self._activate_one(at, expires_at)

    def _activate_one(self, at: float, expires_at: float) -> list[Command]:
        """Activate the sensor that is selected next; do nothing if none is worth its energy."""
        eligible, because = self._eligible(), None
        if eligible is not None and not eligible.any():
            return []
        if eligible is not None and self._health.all_unresponsive:
            eligible = self._only(self._health.next_in_turn(eligible))
            because = Reason.PROBE
        choice = self.policy.select(eligible)
        if self._energy and not self._energy.is_worth_activating(choice.arm, choice.std):
            return []
        return self._activate(choice, eligible, because, at, expires_at)

    def _activate_several(self, sensors: int, at: float) -> list[Command]:
        """Select several sensors and activate them; leave out those not worth their energy."""
        expires_at = at + self.settings.reply_timeout
        if self._health.all_unresponsive:
            return [each for _ in range(sensors) for each in self._activate_one(at, expires_at)]
        eligible = self._eligible()
        if eligible is not None and not eligible.any():
            return []
        commands: list[Command] = []
        for choice in self.policy.select_many(sensors, eligible):
            left = self._eligible()
            if left is not None and not left[choice.arm]:  # the energy is spent
                continue
            if self._energy and not self._energy.is_worth_activating(choice.arm, choice.std):
                continue
            commands += self._activate(choice, left, None, at, expires_at)
        return commands

    def _eligible(self) -> Mask | None:
        """Return a mask of the sensors that can be activated, of shape (M,); None for all."""
        restricted = self._health.any_unresponsive or self._ignored.count
        eligible = self._health.eligible(self._interval) if restricted else None
        if self._faults.affects_selection:
            eligible = self._faults.eligible(self._interval, eligible)
        if self._energy:
            affordable = self._energy.affordable()
            eligible = affordable if eligible is None else eligible & affordable
        if self._activations.arms:
            eligible = np.ones(len(self.policy.field), np.bool_) if eligible is None else eligible
            eligible[self._activations.arms] = False
        return eligible

    def _activate(
        self,
        choice: Choice,
        eligible: Mask | None,
        because: Reason | None,
        at: float,
        expires_at: float,
    ) -> list[Command]:
        replaces = not self._activations.awaited
        self._activations.add(choice.arm, at)
        self._selected = choice.arm
        self._timeout_counts = self._online
        if because is Reason.PROBE:
            self._health.mark_probed(choice.arm)
        decision = PublishState(self._decision(choice, eligible, because, expires_at))
        if self._recommends:
            self._reports.recommend(self._activations.awaited, at)
            return [Recommend(choice.sensor, self._interval, at, expires_at), decision]
        if self._energy and (self._online or self.settings.commands_wait):
            self._energy.charge(choice.arm)
        return [Activate(choice.sensor, self._interval, at, expires_at, replaces), decision]

    def _skip_activation(self, at: float) -> list[Command]:
        assert self._energy
        self._energy.skip_interval()
        choice = self._decisions.argmax_mean(self._selected)
        self._selected = choice.arm
        expires_at = at + self.settings.reply_timeout
        return [PublishState(self._decision(choice, None, Reason.SAVED, expires_at))]

    def _decision(
        self,
        choice: Choice,
        eligible: Mask | None,
        because: Reason | None,
        expires_at: float,
    ) -> Decision:
        return self._decisions.decision(
            choice,
            eligible,
            because=because,
            interval=self._interval,
            at=self._began,
            expires_at=expires_at,
            model=ModelState(self.policy.observations, self.policy.resets, self._last_reset),
            ineligible_reason=self._ineligible_reason,
            energy=self._energy.fact() if self._energy else None,
            earlier=self._activations.arms[:-1],
        )

    def _ineligible_reason(self, arm: int) -> Ineligible:
        """Return the reason why the sensor `arm` cannot be activated now."""
        if arm in self._activations.arms:
            return WasActivated()
        if self._ignored.mask[arm]:
            return Ignored()
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

    def _end_waiting(self, at: float) -> list[Command]:
        """Stop waiting for readings of the selected sensors; return the records and notices."""
        arms = self._activations.end_all()
        if not self._recommends:
            return self._time_out(arms, at)
        for arm in arms:
            if self._health.is_unresponsive(arm):
                self._health.back_off(arm, self._interval)  # it is still silent
        return []

    def _time_out(self, arms: list[int], at: float) -> list[Command]:
        """Count, record and back off the sensors `arms`, which did not reply in time."""
        had_time = at - self._activations.at >= MIN_REPLY_SHARE * self.settings.reply_timeout
        unresponsive = had_time and self._timeout_counts
        commands: list[Command] = []
        for arm in arms:
            sensor = self.policy.field.sensors[arm]
            self._timeouts += 1
            commands.append(
                Record(self._interval, self._began, sensor, Ending.MISSED, None, None, None, False)
            )
            if unresponsive and not self._ignored.mask[arm]:
                commands += self._back_off(arm, sensor, at)
        return commands

    def _back_off(self, arm: int, sensor: str, at: float) -> list[Command]:
        was_unresponsive = self._health.is_unresponsive(arm)
        self._health.mark_timed_out(arm, self._interval)
        if was_unresponsive or not self._health.is_unresponsive(arm):
            return []
        return [self._notice("sensor-lost", at, sensor), *self._all_unresponsive_notice(at)]

    def _back_off_silent(self, at: float) -> list[Command]:
        """Back off the sensors that have become silent, if none is activated; return notices."""
        if not self._recommends or not self._online:
            return []
        self._reports.listen(at)
        commands: list[Command] = []
        for arm in self._reports.silent(at):
            if not self._health.is_unresponsive(arm) and not self._ignored.mask[arm]:
                self._health.back_off(arm, self._interval)
                sensor = self.policy.field.sensors[arm]
                text = silence_text(self._name(sensor), self._reports.silence(arm, at))
                commands.append(Notify(Notice("sensor-lost", rfc3339(at), text, sensor)))
                commands += self._all_unresponsive_notice(at)
        return commands

    def _all_unresponsive_notice(self, at: float) -> list[Command]:
        return [self._notice("all-suspect", at)] if self._health.all_unresponsive else []

    def _shift_timestamps(self, by: float, at: float) -> None:
        self._began += by
        self._activations.at += by
        self._filter.shift_timestamps(by, at)
        self._reports.shift_timestamps(by)
        self._faults.shift_timestamps(by)
        if self._alert:
            self._alert.shift_timestamps(by)
        self._timeout_counts = False  # a reply on its way may have a time of the old clock

    # --- commands of the user -------------------------------------------------------------------

    def _pause(self, at: float) -> list[Command]:
        if self._paused:
            return []
        self._paused = True
        self._timeout_counts = False  # the activated sensor may be the reason for the pause
        return [self._notice("paused", at)]

    def _resume(self, at: float) -> list[Command]:
        if not self._paused:
            return []
        self._paused = False
        resumed = self._notice("resumed", at)
        idle = self._interval >= 0 and not self._activations.awaited
        return [resumed, *(self._begin_if_on_reading(at) if idle else [])]

    def _force_sensor(self, arm: int, at: float) -> list[Command]:
        sensor = self.policy.field.sensors[arm]
        if self._ignored.mask[arm]:
            return self._reject("ignored", sensor)
        if not self.can_afford(sensor):
            return self._reject("no-energy", sensor)
        self._activations.end_all()
        self._activations.left = 0
        self._began = at
        only, expires_at = self._only(arm), at + self.settings.reply_timeout
        return self._activate(self.policy.select(only), only, Reason.ASKED, at, expires_at)

    def _set_ignored(self, arm: int, at: float, *, ignored: bool) -> list[Command]:
        """Take a sensor out of use, or use it again, as if it had no time-outs and no faults."""
        if ignored and self._ignored.is_last(arm):
            return self._reject("last-sensor", self.policy.field.sensors[arm])
        if not self._ignored.set(arm, ignored=ignored):
            return []
        self._health.mark_responsive(arm)
        self._faults.forget(arm)
        self._implausible.clear(arm)
        self._reports.restart(arm, at)
        kind: NoticeKind = "sensor-ignored" if ignored else "sensor-used"
        return [self._notice(kind, at, self.policy.field.sensors[arm]), *self._update_alert(at)]

    def _reset_model(self, at: float) -> list[Command]:
        self.policy.reset()
        self._last_reset = rfc3339(at)
        return [self._notice("model-reset", at)]

    # --- readings -------------------------------------------------------------------------------

    def _handle_reading(self, reading: Reading) -> list[Command]:
        arm = self._arms.get(reading.sensor, -1)
        is_reply = arm in self._activations.awaited
        if reason := self._reject_reason(arm, reading, is_reply=is_reply):
            rejected = self._reject(reason, reading.sensor, self._filter.detail(reason, reading))
            if reason == "implausible":
                return [*rejected, *self._note_implausible(arm, reading, is_reply=is_reply)]
            return rejected
        self._implausible.clear(arm)
        heard = self._note_report(arm, reading, is_reply=is_reply) if self._recommends else []
        if not is_reply and self.settings.learn_from == "activated":
            activated = arm == self._selected or arm in self._activations.arms
            reason = "late" if activated else "unsolicited"
            return [*heard, *self._reject(reason, reading.sensor, f"{reading.value:g}")]
        self._filter.accept(arm, reading)
        estimate, result, findings = self._learn_from(arm, reading)
        if is_reply:
            self._health.mark_replied(arm)
        recovers = is_reply or not self._health.is_implausible(arm)
        commands = [*heard, *(self._sensor_recovered(arm, reading.received) if recovers else [])]
        commands += findings
        if result.reset:
            commands.append(self._model_reset_notice(reading))
        commands += self._update_alert(reading.received)
        if is_reply:
            commands += self._handle_reply(arm, reading, result, estimate)
        return commands

    def _learn_from(self, arm: int, reading: Reading) -> tuple[float, ObserveResult, list[Command]]:
        """Update the model with a reading, unless its sensor is faulty or may be so.

        Return the estimate before the reading, in model units, the result, and notices.
        """
        field = self.policy.field
        y = field.to_model(reading.value)
        means, stds = self.policy.posterior()
        mean, std = float(means[arm]), sqrt(float(stds[arm]) ** 2 + field.noise_variance)
        informed = self.policy.learns_rates and bool(means.any())
        prediction = Prediction(field.to_unit(mean), field.std_to_unit(mean, std), informed)
        outcome = self._faults.check(
            arm, reading.value, prediction, reading.received, self._interval
        )
        commands: list[Command] = []
        if outcome.event:
            text = self._decisions.fault_notice(arm)
            notice = Notice(outcome.event, rfc3339(reading.received), text, reading.sensor)
            commands.append(Notify(notice))
        if outcome.usable:
            if self._alert:
                self._alert.observe(arm, y)
            return mean, self.policy.observe(arm, y), commands
        commands += self._reject("faulty", reading.sensor, f"{reading.value:g}")
        unused = ObserveResult(False, abs(y - mean), None, self.policy.observations)
        return mean, unused, commands

    def _update_alert(self, at: float) -> list[Command]:
        """Compare the hot spot with the threshold; return a notice if the alert begins or ends."""
        hottest = self._decisions.hottest() if self._alert else None
        if self._alert is None or hottest is None:
            return []
        event = self._alert.update(*hottest, self._decisions.hidden(), at)
        state = self.alert(at) if event else None
        if event is None or state is None:
            return []
        sensor = next(iter(state.readings), state.sensor)
        return [Notify(Notice(event, rfc3339(at), state.text, sensor))]

    def _alert_text(self) -> str | None:
        state = self.alert(self._began) if self._alert and self._alert.active else None
        return state.text if state else None

    def _reject_reason(self, arm: int, reading: Reading, *, is_reply: bool) -> str | None:
        if arm < 0:
            return "unknown-sensor"
        if self._ignored.mask[arm]:
            return "ignored"
        activated_at = self._activations.at if is_reply else None
        return self._filter.reject_reason(arm, reading, activated_at)

    def _note_implausible(self, arm: int, reading: Reading, *, is_reply: bool) -> list[Command]:
        """Record that a sensor sent an implausible reading; return a notice if it is new."""
        if is_reply and not self._recommends:
            self._health.mark_implausible(arm)
        if not self._implausible.note(arm, reading.value, self._interval):
            return []
        text = self._decisions.implausible_notice(arm, reading.value, self._plausible)
        notice = Notice("sensor-implausible", rfc3339(reading.received), text, reading.sensor)
        return [Notify(notice)]

    def _note_report(self, arm: int, reading: Reading, *, is_reply: bool) -> list[Command]:
        """Learn from the time of a reading in the mode advise, even if the model does not use it.

        A reading soon after the recommendation may be a reply to other software.
        """
        prompt = is_reply and reading.received - self._activations.at <= self.settings.reply_timeout
        self._reports.observe(arm, reading.received, prompt=prompt)
        return self._sensor_recovered(arm, reading.received)

    def _handle_battery(self, report: BatteryReported) -> list[Command]:
        arm = self._arms.get(report.sensor, -1)
        if arm < 0:
            return self._reject("unknown-sensor", report.sensor)
        if not 0 <= report.percent <= 100:
            return self._reject("implausible", report.sensor, f"{report.percent:g} %")
        if self._energy is None or not self._energy.update_battery(arm, report.percent):
            return []
        return [self._notice("battery-low", report.received, report.sensor, report.percent)]

    def _model_reset_notice(self, reading: Reading) -> Notify:
        self._last_reset = rfc3339(self._began)
        return self._notice("model-reset", reading.received, reading.sensor)

    def _handle_reply(
        self, arm: int, reading: Reading, result: ObserveResult, estimate: float
    ) -> list[Command]:
        """Handle a reply, of which the estimate was `estimate` in model units."""
        field, threshold = self.policy.field, result.threshold
        side = copysign(1.0, field.to_model(reading.value) - estimate)
        self._activations.end(arm)
        self._replies += 1
        record = Record(
            self._interval,
            self._began,
            reading.sensor,
            Ending.ANSWERED,
            reading.value,
            field.distance_to_unit(estimate, side * result.abs_error),
            None if threshold is None else field.distance_to_unit(estimate, side * threshold),
            result.reset,
        )
        return [record, *self._continue_interval(reading.received)]

    def _sensor_recovered(self, arm: int, at: float) -> list[Command]:
        all_were_unresponsive = self._health.all_unresponsive
        if not self._health.mark_responsive(arm):
            return []
        sensor = self.policy.field.sensors[arm]
        commands: list[Command] = [self._notice("sensor-back", at, sensor)]
        if all_were_unresponsive:
            commands.append(self._notice("some-back", at))
        return commands

    def _notice(
        self, kind: NoticeKind, at: float, sensor: str | None = None, percent: float = 0.0
    ) -> Notify:
        name = None if sensor is None else self._name(sensor)
        texts = ADVICE_NOTICES if self._recommends else NOTICES
        return Notify(Notice(kind, rfc3339(at), notice_text(kind, name, percent, texts), sensor))

    def _name(self, sensor: str) -> str:
        """Return the name of a sensor for people."""
        return self.settings.sensor_names.get(sensor, sensor)

    def _reject(self, reason: str, source: str, detail: str = "") -> list[Command]:
        if reason not in self._rejected and len(self._rejected) >= MAX_REASONS:
            reason = "other"
        self._rejected[reason] = self._rejected.get(reason, 0) + 1
        return [Reject(reason, source, detail)]


def plausible_range(field: SensorField, settings: ControllerSettings) -> tuple[float, float]:
    """Return the lowest and the highest plausible reading, in the field's unit."""
    if isinstance(settings.plausible, tuple):
        return settings.plausible
    farthest = settings.plausible * sqrt(field.kernel.diagonal().max())
    return field.bounds(farthest)
