"""Controller of one field: a state machine that handles events and returns commands.

The controller performs no I/O and has no clock. `IntervalElapsed` begins an interval: the policy
selects a sensor, and the controller activates this sensor. Then the controller waits for a reading
of the sensor:

    waiting ──(its reading)────────────────────────▶ answered
       └──(DeadlineElapsed, or the next interval)──▶ missed: the sensor timed out

If a sensor that timed out is unresponsive (see `sensor_health`), it is backed off: it is not
selected for some intervals. A time-out does not count against the sensor if the link was
disconnected from the broker in the meantime.

If the field has the setting `per_interval` or a survey, several different sensors are activated in
an interval. With ``next_activation = "after-reply"``, each sensor is selected after the previous
sensor has replied or timed out; the reply of sensor number j has to arrive before j times
`reply_timeout` have passed since the interval began. With ``next_activation = "at-once"``, all
sensors are selected and activated when the interval begins.

`ActivationRequested` activates the requested sensor in the running interval. This is the last
activation of the interval, and the controller no longer waits for replies of sensors that were
activated before. After `PauseRequested`, no sensor is activated until `ResumeRequested`.
`IgnoreRequested` takes one sensor out of use (see `ignored_sensors`), or returns it to use.
`ThresholdRequested` sets the threshold of the alert.

If the settings say that no commands are sent (the mode "advise"), the selected sensor is only
recommended. In this mode, no sensor can time out, and no energy is charged, because the controller
cannot know whether other software polls the sensor. If another sensor is planned for the interval,
it is recommended at the time at which an activation of the previous sensor would time out. If the
recommended sensor sends a reading before the next interval, the recommendation counts as answered.
A sensor is unresponsive if its silence is several times as long as usual (see `report_times`).

If the field has an energy budget, an interval can pass without an activation: either no sensor has
enough energy, or an activation of the selected sensor is not worth its price (see `energy_budget`).
The decision of such an interval names the sensor with the highest estimate.

Unsolicited readings also update the model, unless `learn_from` is "activated". A rejected reading
is counted under the reason for its rejection, and does not update the model.

If the broker has not confirmed an activation when the reply is due, the controller receives
`ActivationUndelivered` before `DeadlineElapsed`. In this case, the sensor is neither counted as
timed out nor backed off. If the command was never sent, the energy of the activation is refunded.
If the broker refused the command, the sensor is not selected for some intervals (see
`refused_activations`). Refusals do not count against the sensor either.

All times are times of the wall clock. When this clock is stepped (`ClockStepped`), the controller
shifts the stored times by the same step, and a sensor that times out in the running interval is not
backed off. While the clock is not set (`ClockUnset`), the age of a reading and the time of day
are unknown, and each reading is treated as if it was measured on arrival. But the difference of
two times is known, so time passes for the model. While the clock is set but does not count as
synchronised (`ClockSyncChanged`), it may be days behind. Therefore a reading that is dated in the
future is also treated as if it was measured on arrival.

A controller that is restored from a snapshot continues the interval that was running when the
snapshot was made:

- The sensors that were activated in this interval are not activated again. If one of them times
  out, it is not backed off, because its reply may have been lost when the process ended.
- After a kill, no further sensor is activated in this interval, because the killed process may
  have activated sensors after the snapshot.
- The next interval gets a number that was not used before.
- `DowntimeElapsed` lets the time since the snapshot pass for the model and the energy budget.
  Without this event, a reading that arrives before the next interval would be treated as if it was
  measured at the time of the snapshot.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from msgspec.structs import replace

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.alert_notices import LocalTime, in_utc
from edge_tvbo.control.alerts import check_levels
from edge_tvbo.control.fact_text import ineligible_text
from edge_tvbo.control.fault_text import fault_limit_text, fault_text
from edge_tvbo.control.field_state import FieldState
from edge_tvbo.control.live_state import LiveState
from edge_tvbo.control.reading_handler import ReadingHandler, Reply, reply_record
from edge_tvbo.control.sensor_selection import SensorSelection
from edge_tvbo.control.timeouts import TimeoutHandler
from edge_tvbo.control.user_requests import RequestHandler
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.documents import Alert, FieldHealth, Hotspot, LastReading
from edge_tvbo.messages.events import (
    ActivationRequested,
    ActivationUndelivered,
    BatteryReported,
    ClockStepped,
    ClockSyncChanged,
    ClockUnset,
    DeadlineElapsed,
    DocumentsCleared,
    DowntimeElapsed,
    Event,
    IgnoreRequested,
    IntervalElapsed,
    LinkLost,
    LinkRestored,
    PauseRequested,
    QuietHoursEnded,
    Reading,
    ResetRequested,
    ResumeRequested,
    ThresholdRequested,
    Unreadable,
)
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.models.snapshot import decode_struct, encode_struct
from edge_tvbo.policy.base import Policy, SkippingPolicy

MAX_SINGLE_STEPS = 1000  # more intervals are skipped in one step, if the policy can skip
MAX_CATCH_UP = 10_000  # intervals of a downtime that pass for a policy that cannot skip


class Controller:
    """Controller of one field: selects sensors, updates the model, counts rejected messages.

    Parameters
    ----------
    policy : Policy
        The policy of the field. After the construction, only the controller may change the policy.
    settings : ControllerSettings
        Intervals, timeouts and limits.
    local_time : callable
        Converts a time in s since 1970 to local time, for the quiet hours of the alert. The
        controller does not read the setting `timezone` of the alert.
    with_text : bool
        Whether decisions contain factors, a text and a runner-up. Replays need none of these.
    """

    def __init__(
        self,
        policy: Policy,
        settings: ControllerSettings,
        *,
        local_time: LocalTime = in_utc,
        with_text: bool = True,
    ) -> None:
        self.policy = policy
        self.settings = settings
        self._state = FieldState(policy, settings, local_time)
        self._readings = ReadingHandler(self._state)
        self._timeouts = TimeoutHandler(self._state)
        self._selection = SensorSelection(self._state, with_text=with_text)
        self._requests = RequestHandler(self._state, self._selection)
        self._skipping = policy if isinstance(policy, SkippingPolicy) else None
        self._has_set_time = False  # whether this controller has set the policy's time
        self._time_is_unset = False  # whether the policy's time is unknown

    def handle(self, event: Event) -> list[Command]:
        """Update the controller after `event`; return the commands to carry out, in order."""
        state = self._state
        match event:
            case Reading():
                if state.paused and self.settings.follows_readings:
                    self._set_time(event.received)  # during a pause, no new interval sets the time
                elif state.clock_set_forward and state.model_time is not None:
                    self._set_time(state.model_time)  # a step after a boot may end a downtime
                commands, reply = self._readings.handle(event)
                return commands + self._handle_reply(reply) if reply else commands
            case IntervalElapsed(at=at, intervals=intervals):
                return self._next_interval(at, intervals)
            case DowntimeElapsed(at=at, intervals=intervals):
                self._pass_intervals(at, intervals, self._end_downtime)
                state.skipped += intervals
                if intervals:
                    state.activations.left = 0
                return []
            case DeadlineElapsed(interval=interval, at=at):
                if not state.activations.awaited or interval != state.interval:
                    return []
                if state.recommends and not self.settings.follows_readings:
                    return self._selection.activate_next(at)  # a late reading is still a reply
                return [*self._timeouts.end_waiting(at), *self._continue_interval(at)]
            case ActivationUndelivered():
                self._timeouts.note_undelivered(event)
                return []
            case Unreadable(reason=reason, topic=topic, detail=detail):
                return state.reject(reason, topic, detail)
            case LinkLost():
                state.online = state.timeout_counts = False
                state.reports.stop_listening()
                return []
            case LinkRestored(at=at):
                state.online = True
                return state.update_alert(at)  # a reload may have changed the threshold
            case QuietHoursEnded(at=at):
                return state.update_alert(at)
            case DocumentsCleared():
                state.former_unit = ""
                return []
            case ClockStepped(by=by, at=at):
                state.shift_timestamps(by, at)
                state.clock_set_forward |= by > 0.0
                return []
            case ClockUnset():
                state.filter.clock_is_set = False
                if not self._has_set_time:
                    self._unset_time()  # a restored model has the time of its snapshot
                return []
            case ClockSyncChanged(synced=synced):
                state.filter.clock_is_synced = synced
                return []
            case PauseRequested(at=at):
                return self._requests.pause(at)
            case ResumeRequested(at=at):
                return self._resume(at)
            case ResetRequested(at=at):
                return self._requests.reset_model(at)
            case ActivationRequested(sensor=sensor, at=at):
                return self._requests.activate(state.arms[sensor], at)
            case IgnoreRequested(sensor=sensor, ignored=ignored, at=at):
                return self._requests.set_ignored(state.arms[sensor], at, ignored=ignored)
            case ThresholdRequested(threshold=threshold, at=at):
                return self._requests.set_threshold(threshold, at)
            case BatteryReported():
                return self._readings.handle_battery(event)
            case _:
                assert_never(event)

    # --- properties -----------------------------------------------------------------------------

    def health(self) -> FieldHealth:
        """Return the health of the field that this controller runs."""
        state = self._state
        sensors, quantities, alerts = state.sensors, state.quantities, state.alerts
        return FieldHealth(
            interval=state.interval if state.interval >= 0 else None,
            selected=sensors[state.selected] if state.selected >= 0 else None,
            answered=state.replies,
            missed=state.timeouts,
            undelivered=state.undelivered,
            suspects=state.health.unresponsive(sensors),
            faulty={
                sensors[arm]: fault_text(fault, quantities)
                for arm, fault in state.faults.faults().items()
            },
            alert=alerts.text() if alerts and alerts.monitor.active else None,
            implausible={
                sensors[arm]: quantities.implausible(value, state.plausible)
                for arm, value in state.implausible.values().items()
            },
            ignored=state.ignored.names(),
            refused=dict(state.rejected),
            paused=state.paused,
            energy=state.energy.status(sensors) if state.energy else None,
            recommends=state.recommends,
            model="; ".join(self._selection.model_facts()),
            survey=state.activations.survey_left,
            refused_activations=state.refusals.names(state.sensors),
        )

    @property
    def interval(self) -> int:
        """Number of the controller's newest interval; -1 before the first interval."""
        return self._state.interval

    @property
    def used(self) -> int:
        """Highest interval number that may have been used; -1 if no number was used.

        This process or a killed process may have used the number. The numbers of intervals that
        passed during a downtime also count as used.
        """
        return self._state.used

    @property
    def newest(self) -> int:
        """Highest number of an interval that the controller has begun; -1 if there is none.

        After a kill, the result is the highest number that the killed process may have begun. The
        numbers of intervals that passed during a downtime of the daemon do not count.
        """
        return self._state.used - self._state.skipped

    @property
    def begun(self) -> bool:
        """Whether an interval of the controller is running.

        If `reserve_numbers` or `DowntimeElapsed` has increased `used` above `interval`, no interval
        is running until the next `IntervalElapsed`.
        """
        return self._state.begun

    @property
    def paused(self) -> bool:
        """Whether the controller is paused: no sensor is activated until `ResumeRequested`."""
        return self._state.paused

    @property
    def former_unit(self) -> str:
        """Former unit of the controller's field; "" if the unit has not changed.

        It is also "" after `DocumentsCleared`.
        """
        return self._state.former_unit

    @property
    def keeps_waiting(self) -> bool:
        """Whether the controller still waits for a reply that it awaited before a restart.

        With ``interval = "on-reading"``, it does not wait in two cases:

        - The restart has withdrawn the activation, so the reply may never arrive.
        - The sensor was only recommended, in `advise` mode, and the mode has changed since.
        """
        activations = self._state.activations
        return not self.settings.follows_readings or activations.awaits_delivered

    @property
    def fault_limit(self) -> str:
        """Why this controller reports no further faults, in words; "" if it reports faults."""
        return fault_limit_text(self._state.faults)

    def is_ignored(self, sensor: str) -> bool:
        """Return whether the controller ignores `sensor` because of a command."""
        return bool(self._state.ignored.mask[self._state.arms[sensor]])

    def is_last_in_use(self, sensor: str) -> bool:
        """Return whether the controller ignores all sensors except `sensor`."""
        return self._state.ignored.is_last(self._state.arms[sensor])

    @property
    def expects_readings(self) -> bool:
        """Whether the controller expects readings: it is not paused, and can activate a sensor.

        If the budgets and the batteries allow no sensor to be activated, the controller expects no
        readings. A controller that sends no commands ignores the budgets and the batteries.
        """
        state = self._state
        if state.paused or state.energy is None or not self.settings.sends_commands:
            return not state.paused
        return bool((state.energy.affordable() & ~state.ignored.mask).any())

    @property
    def charges_unknown(self) -> bool:
        """Whether the controller charges its energy for intervals that a killed process began.

        The result is False if there is no energy budget, or if the process that made the newest
        snapshot charged no activations.
        """
        return self._state.energy is not None and self._state.charged_before

    def energy_shortage(self, sensor: str) -> str | None:
        """Return, in words, why the controller cannot afford to activate `sensor`.

        Return None if the controller can afford to activate it.
        """
        energy, arm = self._state.energy, self._state.arms[sensor]
        shortage = energy.shortages([arm]).get(arm) if energy else None
        return ineligible_text(self._state.name(sensor), shortage) if shortage else None

    @property
    def plausible(self) -> tuple[float, float]:
        """The lowest and the highest plausible reading for the controller, in the field's unit."""
        return self._state.plausible

    def check_threshold(self, threshold: float) -> None:
        """Raise `ConfigError` if the alert could never begin or never end with this threshold."""
        if self.settings.alert:
            alert = replace(self.settings.alert, threshold=threshold)
            check_levels(self.policy.field, alert, self._state.plausible)

    @property
    def why_threshold_replaced(self) -> str:
        """Why a restored controller replaced a command's threshold by the configured threshold.

        The text is "" if no command had set a threshold, if the command's threshold is still used,
        or if it was replaced because the configured threshold has changed.
        """
        alerts = self._state.alerts
        return alerts.monitor.why_replaced if alerts else ""

    def hotspot(self, at: float) -> Hotspot | None:
        """Return the controller's hot spot at time `at`; None before the first reading."""
        return self._state.hotspots.hotspot(at, self._state.filter.received)

    @property
    def alert_is_active(self) -> bool:
        """Whether the controller's alert is active; False without a threshold."""
        alerts = self._state.alerts
        return alerts is not None and alerts.monitor.active

    def alert_notice_is_overdue(self, at: float) -> bool:
        """Return whether an alert notice that quiet hours have delayed is due at time `at`.

        If so, the controller must handle `QuietHoursEnded`.
        """
        alerts = self._state.alerts
        return alerts is not None and alerts.is_overdue(at)

    def alert(self, at: float) -> Alert | None:
        """Return the document about the controller's alert at time `at`; None without a threshold.

        The result is also None if the alert is not active and the model has no reading.
        """
        alerts = self._state.alerts
        return alerts.document(at) if alerts else None

    def last_readings(self) -> dict[str, LastReading]:
        """Return each sensor's last reading that the controller accepted, by the sensor's id."""
        sensors = self._state.sensors
        return {sensors[arm]: reading for arm, reading in self._state.filter.last_readings()}

    def last_received(self) -> tuple[Sequence[float], Sequence[float]]:
        """Return the value and the arrival time of each sensor's last accepted reading.

        The values are in the field's unit, and the times in s since 1970. For a sensor without
        readings, the value is NaN and the time is -inf.
        """
        return self._state.filter.values, self._state.filter.received

    # --- snapshots and restarts -----------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the snapshot of the controller and its policy as bytes."""
        return self._state.snapshot()

    def restore(self, blob: bytes) -> None:
        """Restore the controller from a snapshot.

        An invalid snapshot raises `SnapshotError` and changes nothing.
        """
        self._state.restore(blob)

    def live(self) -> bytes:
        """Return the live state of the controller, which `snapshot` leaves out, as bytes."""
        return encode_struct(LiveState(self._state.live(), self._has_set_time, self._time_is_unset))

    def restore_live(self, live: bytes) -> None:
        """Restore the live state; call `restore` first.

        Then the controller continues as if no process had ended.

        An invalid live state raises `SnapshotError`.
        """
        state = decode_struct("The controller's live state", LiveState, live)
        self._state.restore_live(state.field)
        if state.time_is_unset:
            self._unset_time()
        self._has_set_time = state.has_set_time

    def digest(self) -> bytes:
        """Return a checksum of the controller's state, to compare two controllers."""
        return self._state.digest()

    def restore_partial(self, blob: bytes) -> int:
        """Restore the controller partly, from a snapshot of another model or other sensors.

        These parts are restored:

        - of the field: its pause, age, counters and alert, and the statistics of fault detection;
        - of each sensor that is also in the snapshot: its last reading, whether this reading is
          implausible, its time-outs, refused activations, back-offs, report times and energy, its
          fault or the evidence for a fault, and whether the sensor is ignored;
        - of the policy: what it has learned about these sensors, if the snapshot is of the same
          policy and this policy can restore single sensors.

        The running interval is not restored. Return the number of sensors for which the policy
        has restored what it had learned. Raises `SnapshotError` for an invalid snapshot.
        """
        return self._state.restore_partial(blob)

    def assume_charges(self) -> None:
        """Assume that killed processes charged activations if the present settings do so.

        Call this method after the restoration of a snapshot that is not the newest, because a
        process with the present settings may have run since that snapshot.
        """
        self._state.charged_before |= self.settings.sends_commands

    def reserve_numbers(self, interval: int, unknown: int = 0, passed: int = 0) -> None:
        """Make the controller treat all interval numbers up to `interval` as used.

        A killed process may have begun intervals with these numbers after it made the snapshot. It
        may also have activated further sensors in the interval that the snapshot contains. If
        `charges_unknown` is true, the energy budget is charged for all these activations.

        Parameters
        ----------
        interval : int
            The highest number that may have been used.
        unknown : int
            In how many intervals, at most, the process activated sensors after the snapshot.
        passed : int
            How many of the skipped numbers count as intervals that passed for the back-offs. Each
            further skipped number postpones the end of the back-offs by an interval.
        """
        state = self._state
        state.reserve_numbers(interval, passed)
        if unknown:
            state.skipped = 0  # the process may have begun any interval up to `used`
        continued = not state.begun and state.activations.left > 0
        state.activations.left = state.activations.left if state.begun else 0
        if state.energy and self.charges_unknown:
            state.energy.add_unknown_spending(unknown + continued)

    # --- the interval ---------------------------------------------------------------------------

    def _next_interval(self, at: float, intervals: int) -> list[Command]:
        state = self._state
        commands = self._timeouts.end_waiting(at)
        self._timeouts.note_accepted()
        self._pass_intervals(at, intervals, self._end_intervals)
        state.interval, state.skipped = state.used, 0
        state.reports.recommend([], at)
        state.activations.begin_interval()
        commands += state.update_alert(at)
        return commands if state.paused else [*commands, *self._begin_interval(at)]

    def _pass_intervals(self, at: float, intervals: int, end: Callable[[int], None]) -> None:
        """Let `intervals` intervals pass for the controller's model and energy budgets.

        The last interval begins at time `at`. `end` is a function that lets a given number of
        intervals pass for the policy.
        """
        state = self._state
        resets = self.policy.resets
        if state.interval >= 0:
            end(intervals)
        self._set_time(at)
        state.used += intervals
        state.activations.begun += intervals
        if state.energy:
            state.energy.advance(intervals)
        if self.policy.resets != resets:
            state.last_reset = rfc3339(at)

    def _end_intervals(self, intervals: int) -> None:
        """Let intervals pass for the policy, one by one unless it has the flag `skips_gaps`.

        If a policy skips many intervals in one step, the last bits of its model differ from those
        of old versions, which let all intervals pass one by one. So the decisions after a gap in a
        recording may differ, too.
        """
        if self._skipping is not None and self._skipping.skips_gaps:
            self._end_downtime(intervals)
            return
        for _ in range(intervals):
            self.policy.advance()

    def _end_downtime(self, intervals: int) -> None:
        """Let intervals pass for the policy, in a short computing time even if there are many."""
        if intervals > MAX_SINGLE_STEPS and self._skipping is not None:
            self._skipping.skip(intervals)
            return
        for _ in range(min(intervals, MAX_CATCH_UP)):
            self.policy.advance()

    def _set_time(self, at: float) -> None:
        """Set the policy's time to `at`.

        While the clock is not set, `at` is not a valid date. In this case, only the time that has
        elapsed since the last call passes for the policy.
        """
        state = self._state
        if state.filter.clock_is_set:
            self._has_set_time, self._time_is_unset = True, False
            self.policy.set_time(at)
        elif state.model_time is not None:
            self.policy.pass_time(max(0.0, at - state.model_time))
        state.model_time = at
        state.clock_set_forward = False

    def _unset_time(self) -> None:
        self._time_is_unset = True
        self.policy.set_time(None)

    def _begin_interval(self, at: float) -> list[Command]:
        self._state.began = at
        return [*self._timeouts.back_off_silent(at), *self._selection.begin(at)]

    def _continue_interval(self, at: float) -> list[Command]:
        """Continue the controller's interval: activate the next sensor, if one is planned.

        With ``interval = "on-reading"``, begin the next interval instead.
        """
        if self.settings.follows_readings:
            return self._next_interval(at, 1)
        return self._selection.activate_next(at)

    def _handle_reply(self, reply: Reply) -> list[Command]:
        state = self._state
        state.activations.end(reply.arm)
        state.replies += 1
        record = reply_record(reply, state)
        if state.activations.awaits_latest:
            return [record]
        return [record, *self._continue_interval(reply.reading.received)]

    def _resume(self, at: float) -> list[Command]:
        resumed = self._requests.resume(at)
        waits = self._state.interval < 0 or self._state.activations.awaited
        if not resumed or not self.settings.follows_readings or waits:
            return resumed
        return [*resumed, *self._next_interval(at, 1)]
