"""Field state: everything that the controller of one field stores, except the model."""

from hashlib import sha256
from math import nan
from typing import Any, Protocol

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.activations import Activations
from edge_tvbo.control.alert_notices import AlertNotices, LocalTime
from edge_tvbo.control.alerts import announced_alert
from edge_tvbo.control.checked_policy import checked
from edge_tvbo.control.controller_state import MAX_REASONS, SNAPSHOT_KIND, ControllerState
from edge_tvbo.control.energy_budget import EnergyBudget
from edge_tvbo.control.fault_detection import FaultDetector
from edge_tvbo.control.field_snapshot import StoredField, read_text
from edge_tvbo.control.hotspots import HotspotFinder
from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.implausible_readings import ImplausibleReadings
from edge_tvbo.control.live_state import LiveField
from edge_tvbo.control.notice_text import ADVICE_NOTICES, NOTICES, notice_text
from edge_tvbo.control.quantities import Quantities
from edge_tvbo.control.reading_filter import ReadingFilter, plausible_range
from edge_tvbo.control.refused_activations import RefusedActivations
from edge_tvbo.control.report_times import ReportTimes
from edge_tvbo.control.sensor_health import SensorHealth
from edge_tvbo.control.sensor_rows import SensorRows
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Command, Notify, Reject
from edge_tvbo.messages.documents import Notice, NoticeKind
from edge_tvbo.messages.formatting import may_be_same_unit, rfc3339
from edge_tvbo.models.fingerprint import Fingerprint
from edge_tvbo.models.snapshot import (
    MAX_COUNT,
    decode_snapshot,
    encode_snapshot,
    encode_struct,
    read_names,
)
from edge_tvbo.policy.base import Policy

_NO_FINGERPRINT = Fingerprint("", "")


class Stored(Protocol):
    """A part of the field's state that a snapshot contains."""

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `state` is valid for this part of the field state."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Restore this part of the field state from a `state` that `check` accepts."""
        ...


class FieldState:
    """State of one field: the running interval, counters, and what is known of each sensor.

    Parameters
    ----------
    policy : Policy
        The policy of the field.
    settings : ControllerSettings
        Intervals, timeouts and limits.
    local_time : callable
        Returns the local time of a time in s since 1970, for the quiet hours of the alert.
    """

    def __init__(self, policy: Policy, settings: ControllerSettings, local_time: LocalTime) -> None:
        field = policy.field
        M = len(field)
        self.policy = policy
        self.checked_policy = checked(policy)
        self.settings = settings
        self.sensors = field.sensors
        self.arms = {sensor: arm for arm, sensor in enumerate(field.sensors)}
        self.recommends = not settings.sends_commands
        self.quantities = Quantities(field)
        self.ignored = IgnoredSensors(field.sensors)
        self.faults = FaultDetector(
            field, settings.interval_s, settings.max_backoff, settings.faults
        )
        self.hotspots = HotspotFinder(policy, self.faults, self.ignored)
        self.health = SensorHealth(self.ignored, settings.max_backoff)
        self.refusals = RefusedActivations(self.ignored, settings.max_backoff)
        self.reports = ReportTimes(M, settings.interval_s or settings.reply_timeout)
        self.energy = EnergyBudget.from_settings(settings, field.sensors)
        self.implausible = ImplausibleReadings(M)
        self.plausible = plausible_range(field, settings)
        self.filter = ReadingFilter(M, self.plausible, settings.max_age, settings.max_future)
        self.alerts = (
            AlertNotices(
                settings.alert,
                field,
                self.hotspots,
                self.faults,
                self.filter,
                settings.sensor_names,
                local_time,
            )
            if settings.alert
            else None
        )
        # Whether the process before a restart charged its activations to the energy budget:
        self.charged_before = settings.sends_commands
        self._removed_alert: dict[str, Any] = {}  # its end is not announced yet
        self.activations = Activations(settings)
        self.interval = -1
        self.used = -1  # the highest interval number that was skipped or may have been used
        self.skipped = 0  # numbers up to `used` that were skipped because of a downtime
        self.began = 0.0
        self.selected = -1
        self.model_time: float | None = None  # time up to which time has passed for the model
        self.clock_set_forward = False  # whether it was, since the model's time was set
        self.paused = False
        self.online = True
        self.timeout_counts = True  # whether a time-out counts as a failure of its sensor
        self.replies = 0
        self.timeouts = 0
        self.undelivered = 0
        self.last_reset: str | None = None
        self.rejected: dict[str, int] = {}
        self.former_unit = ""  # the unit that retained documents on the broker may still have
        self._used_before: int | None = None  # `used` in the restored snapshot; None if unknown
        self._backoff_ratio = 1.0  # former interval / present interval, after a restore
        self._unit = field.unit  # unit of the stored values; "" if no unit was ever configured

    @property
    def begun(self) -> bool:
        """Whether an interval of the field is running.

        If an interval is running, its number `interval` is equal to `used`, the highest used
        number.
        """
        return 0 <= self.interval == self.used

    def name(self, sensor: str) -> str:
        """Return the display name of a sensor in this field state."""
        return self.settings.sensor_names.get(sensor, sensor)

    def was_refused(self, arm: int) -> bool:
        """Return whether the broker has refused the activation of the awaited sensor `arm`.

        An activation ends the back-off of `arm`. So if `arm` is backed off because of a refusal
        now, the broker has refused this activation.
        """
        return self.refusals.retry_interval(arm) > self.interval

    def notice(
        self, kind: NoticeKind, at: float, sensor: str | None = None, percent: float = 0.0
    ) -> Notify:
        """Return the command that publishes a notice about this field state or one `sensor`."""
        name = None if sensor is None else self.name(sensor)
        texts = ADVICE_NOTICES if self.recommends else NOTICES
        return Notify(Notice(kind, rfc3339(at), notice_text(kind, name, percent, texts), sensor))

    def reject(self, reason: str, source: str, detail: str = "") -> list[Command]:
        """Count a rejected message in the field's state; return the command that logs it."""
        if reason not in self.rejected and len(self.rejected) >= MAX_REASONS:
            reason = "other"
        self.rejected[reason] = self.rejected.get(reason, 0) + 1
        return [Reject(reason, source, detail)]

    def update_alert(self, at: float) -> list[Command]:
        """Update the alert in the field's state; return a notice if the alert begins or ends.

        An alert also ends if the user removes it from the configuration.
        """
        notice = self.alerts.update(at) if self.alerts else None
        if self._removed_alert:
            text = "The alert is over, because it was removed from the configuration"
            notice, self._removed_alert = Notice("alert-over", rfc3339(at), text), {}
        return [Notify(notice)] if notice else []

    def shift_timestamps(self, by: float, at: float) -> None:
        """Add `by` seconds to all times in the field state: the clock was stepped at time `at`."""
        self.began += by
        self.activations.at += by
        if self.model_time is not None:
            self.model_time += by
        self.filter.shift_timestamps(by, at)
        self.reports.shift_timestamps(by)
        self.faults.shift_timestamps(by)
        if self.alerts:
            self.alerts.monitor.shift_timestamps(by)
        self.timeout_counts = False  # a later reply may still contain a time of the old clock

    # --- snapshots ------------------------------------------------------------------------------

    def live(self) -> LiveField:
        """Return the live state of the field, which `snapshot` leaves out."""
        return LiveField(
            used=self.used,
            online=self.online,
            timeout_counts=self.timeout_counts,
            clock_is_set=self.filter.clock_is_set,
            clock_is_synced=self.filter.clock_is_synced,
            alert_is_delayed=self.alerts is not None and self.alerts.is_delayed,
            undelivered=list(self.activations.undelivered),
            resumed=list(self.activations.resumed),
            reports=self.reports.live(),
        )

    def restore_live(self, live: LiveField) -> None:
        """Restore the live state of the field; call `restore` first."""
        self.used = live.used
        self.online, self.timeout_counts = live.online, live.timeout_counts
        self.filter.clock_is_set = live.clock_is_set
        self.filter.clock_is_synced = live.clock_is_synced
        if self.alerts:
            self.alerts.is_delayed = live.alert_is_delayed
        self.activations.undelivered = list(live.undelivered)
        self.activations.resumed = list(live.resumed)
        self.reports.restore_live(live.reports)

    def digest(self) -> bytes:
        """Return a checksum of the field's state and of its posterior.

        Unlike a snapshot, the checksum is computed in a short time even if the model is large.
        """
        digest = sha256(encode_snapshot(SNAPSHOT_KIND, _NO_FINGERPRINT, self._own_state()))
        digest.update(encode_struct(self.live()))
        digest.update(str(self.policy.observations).encode())
        for moments in self.policy.posterior():
            digest.update(moments.tobytes())
        return digest.digest()

    def snapshot(self) -> bytes:
        """Return the snapshot of this `FieldState`, including the policy's snapshot, as bytes."""
        state = {"policy": self.checked_policy.snapshot(), **self._own_state()}
        return encode_snapshot(SNAPSHOT_KIND, self.policy.field.fingerprint(), state)

    def _own_state(self) -> dict[str, Any]:
        """Return the state of the field for a snapshot, without the policy's snapshot."""
        state: dict[str, Any] = {
            "progress": encode_struct(self._progress()),
            "activations": encode_struct(self.activations.state()),
            "resets": self.policy.resets,  # `counters` reads it without building a policy
            **self.health.snapshot(),
            **self.refusals.snapshot(),
            **(self.reports.snapshot() if self.recommends else {}),
            **self.faults.snapshot(),
            **(self.alerts.monitor.snapshot() if self.alerts else self._removed_alert),
            **self.implausible.snapshot(),
            **self.filter.late.snapshot(),
            **self.ignored.snapshot(),
        }
        if self.model_time is not None:
            state["model_time"] = self.model_time
        if self.clock_set_forward:
            state["clock_set_forward"] = 1
        if self.skipped:
            state["skipped"] = self.skipped
        if self.used != self.interval + self.skipped:  # numbers were reserved
            state["used"] = self.used
        if self.undelivered:
            state["undelivered"] = self.undelivered
        if self.activations.awaited:
            state["recalled"] = [self.sensors[arm] for arm in self._undelivered_after_restart()]
        if self.energy:
            state |= self.energy.snapshot()
        if self.settings.interval_s:
            state["interval_s"] = self.settings.interval_s
        if self._unit:
            state["unit"] = self._unit
        if self.former_unit:
            state["former_unit"] = self.former_unit
        state["sensors"] = list(self.sensors)  # for `restore_partial`
        return state

    def restore(self, blob: bytes) -> None:
        """Restore the field state from a snapshot.

        An invalid snapshot raises `SnapshotError` and changes nothing.
        """
        if former := self._former_unit(decode_snapshot(SNAPSHOT_KIND, None, blob)):
            raise SnapshotError(
                f"The readings in the snapshot are in {former}, and the unit of the field is "
                f"{self._unit} now."
            )
        state = decode_snapshot(SNAPSHOT_KIND, self.policy.field.fingerprint(), blob)
        stored = StoredField.decode(state, len(self.sensors))
        held = stored.held
        removed_alert = self._alert_removed_since(state)
        self.filter.check(held)
        parts = self._parts(state)
        parts += [self.energy] if self.energy and "energy" in state else []
        for part in parts:
            part.check(state)
        self.checked_policy.restore(stored.policy)
        self.policy.resets = max(stored.resets, self.policy.resets)  # not every policy stores them
        for part in parts:
            part.restore(state)
        self._restore_readings(held)
        self.interval, self.began, self.selected = held.interval, held.began, held.selected
        self.used = held.interval + stored.skipped if stored.used is None else stored.used
        self.timeout_counts = False  # a reply may have been lost
        self.activations.restore(stored.activations)
        self._restore_whole(stored, removed_alert)
        if not self.recommends and "own_count" in state:
            self.activations.end_all()  # in the mode "advise", these sensors were only recommended
        if stored.recalled is not None:
            self.activations.undelivered = [
                self.arms[name] for name in stored.recalled if name in self.arms
            ]
        else:  # the snapshot is of an old version, or no reply is awaited
            self.activations.undelivered = self._undelivered_after_restart()
        self.activations.resumed = list(self.activations.arms)
        self._unit = self._unit or stored.unit

    def restore_partial(self, blob: bytes) -> int:
        """Restore the field state partly, from a snapshot of another model or other sensors.

        See `Controller.restore_partial`. If the unit of the field has changed, neither values of
        readings nor estimates are restored.

        A snapshot of an old version does not contain the ids of all sensors. From such a snapshot,
        nothing about single sensors is restored, except which sensors are ignored.
        """
        state = decode_snapshot(SNAPSHOT_KIND, None, blob)
        stored = StoredField.decode(state, MAX_COUNT)
        removed_alert = self._alert_removed_since(state)
        changed_from = self._former_unit(state)
        parts: list[Stored] = [self.ignored]
        own, held = state, stored.held
        if "sensors" in state:
            rows = SensorRows(read_names(state, "sensors"), self.sensors)
            own, held = rows.pick(state), rows.pick_readings(held)
            if changed_from:
                own, held = _without_values(own), held.without_readings()
            parts = self._parts(own)
            self.filter.check(held)
        for part in parts:
            part.check(own)
        if self.energy and "energy" in state:
            self.energy.restore_partial(state, self.sensors)
        for part in parts:
            part.restore(own)
        if "sensors" in state:
            self._restore_readings(held)
        self.activations.begun = stored.activations.begun
        self._restore_whole(stored, removed_alert)
        self.policy.resets = stored.resets
        if changed_from:
            self.former_unit = changed_from
            if self.alerts:
                self.alerts.monitor.forget_values()
            return 0
        self._unit = self._unit or stored.unit
        return self.checked_policy.restore_sensors(stored.policy)

    def reserve_numbers(self, interval: int, passed: int = 0) -> None:
        """Treat all interval numbers up to `interval` as used, and continue the back-offs.

        The first call after `restore` postpones the end of each back-off by the number of skipped
        numbers, because no time passed in the skipped intervals. However, the first `passed`
        skipped numbers count like intervals that passed. The back-offs are also converted to the
        present length of an interval, and limited.
        """
        self.used = max(self.used, interval)
        before = self.used if self._used_before is None else self._used_before + passed
        before = min(before, self.used)
        self.health.continue_backoff(before, self.used, self._backoff_ratio)
        self.refusals.continue_backoff(before, self.used, self._backoff_ratio)
        self.faults.continue_backoff(before, self.used, self._backoff_ratio)
        self._used_before, self._backoff_ratio = None, 1.0

    def _undelivered_after_restart(self) -> list[int]:
        """Return the awaited sensors whose activations count as undelivered after a restart.

        The sensors depend on the setting `activate.mode`, which a reload may change. Therefore a
        snapshot contains these sensors. If several restarts or reloads follow each other in one
        interval, the setting before the first restart or reload counts.
        """
        activations = self.activations
        if not self.settings.restart_withdraws:
            return list(activations.undelivered)
        return [
            arm
            for arm in activations.awaited
            if arm in activations.undelivered or arm not in activations.resumed
        ]

    def _restore_whole(self, stored: StoredField, removed_alert: dict[str, Any]) -> None:
        """Restore the values of the whole field, once its activations and energy are restored."""
        held = stored.held
        self.paused, self.last_reset, self.rejected = held.paused, held.last_reset, held.refused
        self.replies, self.timeouts = held.answered, held.missed
        self.undelivered, self.skipped = stored.undelivered, stored.skipped
        self.model_time, self.clock_set_forward = stored.model_time, stored.clock_set_forward
        self.former_unit, self.charged_before = stored.former_unit, stored.charges_energy
        self._used_before, self._removed_alert = stored.used, removed_alert
        self._scale_intervals(stored.interval_s)

    def _scale_intervals(self, former: float | None) -> None:
        """Convert restored numbers of intervals to the field's present interval length.

        `former` is the stored length in s. If one of the lengths is unknown, nothing changes. The
        back-offs are converted later, by `reserve_numbers`.
        """
        now = self.settings.interval_s
        ratio = self._backoff_ratio = former / now if former and now else 1.0
        if ratio == 1.0:
            return
        self.activations.scale_begun(ratio)
        if self.energy:
            self.energy.scale_ages(ratio)

    def _former_unit(self, state: dict[str, Any]) -> str:
        """Return the unit of the values in `state`, or "" if the field has the same unit."""
        former = read_text(state, "unit")
        return "" if may_be_same_unit(former, self._unit) else former

    def _parts(self, state: dict[str, Any]) -> list[Stored]:
        """Return the field state's parts that `state` can restore, except the energy budget."""
        parts: list[Stored] = [self.health, self.faults, self.implausible, self.ignored]
        parts += [self.filter.late]
        parts += [self.alerts.monitor] if self.alerts else []
        parts += [self.reports] if self.recommends and "own_count" in state else []
        parts += [self.refusals] if not self.recommends else []
        return parts

    def _progress(self) -> ControllerState:
        return ControllerState(
            interval=self.interval,
            began=self.began,
            selected=self.selected,
            waiting=bool(self.activations.awaited),
            answered=self.replies,
            missed=self.timeouts,
            last_reset=self.last_reset,
            refused=self.rejected,
            last_at=self.filter.measured,
            last_received=self.filter.received,
            last_value=self.filter.values,
            stepped=self.filter.stepped,
            paused=self.paused,
        )

    def used_values(self) -> list[float]:
        """Return the last readings in the field state; NaN for a reading that is not used."""
        values = enumerate(self.filter.values)
        return [nan if self.faults.is_unused(arm) else value for arm, value in values]

    def _restore_readings(self, held: ControllerState) -> None:
        """Restore the last readings in the field state."""
        self.filter.restore(held)
        self.implausible.apply_range(*self.plausible)
        if self.alerts:
            self.alerts.monitor.apply_settings(self.used_values(), self.plausible)

    def _alert_removed_since(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the announced alert in `state` if the field has no alert settings any more."""
        return {} if self.alerts else announced_alert(state, len(self.sensors))


def _without_values(state: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a field's state without the sensors' faults and implausible readings."""
    names = ("fault_", "implausible_")
    return {name: value for name, value in state.items() if not name.startswith(names)}
