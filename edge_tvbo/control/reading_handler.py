"""Reading handler: checks the readings of one field, learns from them, and detects faults."""

from math import copysign, sqrt, ulp

import msgspec

from edge_tvbo.control.facts import Deviation
from edge_tvbo.control.fault_evidence import PredictedReading
from edge_tvbo.control.fault_text import fault_notice
from edge_tvbo.control.field_state import FieldState
from edge_tvbo.control.notice_text import reset_text
from edge_tvbo.messages.commands import Command, Ending, Notify, Record, Unused
from edge_tvbo.messages.documents import Notice
from edge_tvbo.messages.events import BatteryReported, Reading
from edge_tvbo.messages.formatting import duration, rfc3339
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import Prediction
from edge_tvbo.policy.base import ObserveResult


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A reply of an awaited sensor, the estimate before it, and the result of the update."""

    arm: int
    reading: Reading
    estimate: float  # the mean before the reading, in model units
    result: ObserveResult
    unused: Unused | None = None  # why the model did not learn from the reading; None if it did


def reply_record(reply: Reply, state: FieldState) -> Record:
    """Return the record of `reply`, which a sensor has sent in the interval."""
    result, reading = reply.result, reply.reading
    distance, limit = _distances(state.policy.field, reading, reply.estimate, result)
    return Record(
        state.interval,
        state.began,
        reading.sensor,
        Ending.ANSWERED,
        reading.value,
        distance,
        limit,
        result.reset,
        reply.unused,
    )


def _distances(
    field: SensorField, reading: Reading, estimate: float, result: ObserveResult
) -> tuple[float, float | None]:
    """Return the distance of a handled reading from `estimate`, and the limit of this distance.

    `estimate` is in model units, and the results are in the field's unit. The event trigger sets
    the limit; None if the trigger has no limit.
    """
    side = copysign(1.0, field.to_model(reading.value) - estimate)
    threshold = result.threshold
    return (
        field.distance_to_unit(estimate, side * result.abs_error),
        None if threshold is None else field.distance_to_unit(estimate, side * threshold),
    )


def _rejected_text(reason: str, reading: Reading, max_age: float, last: float) -> str:
    """Return, as text, the value of a reading that the handler rejects.

    If the reading is rejected because of its time, the text also contains the time. `last` is the
    time of the sensor's last reading, in s since 1970.

    >>> late = Reading("a", 21.5, at=1000.0, received=1180.0)
    >>> _rejected_text("late", late, max_age=60.0, last=1010.0)
    '21.5, measured 3 min before it arrived'
    >>> _rejected_text("late", late, max_age=600.0, last=1010.0)
    '21.5, measured 10 s before the last reading of the sensor'
    """
    value = f"{reading.value:g}"
    age = reading.received - reading.at
    if reason == "late" and age > max_age:
        return f"{value}, measured {duration(age)} before it arrived"
    if reason == "late":
        before = duration(last - reading.at)
        return f"{value}, measured {before} before the last reading of the sensor"
    if reason == "future-dated":
        return f"{value}, dated {duration(-age)} after it arrived"
    return value


class ReadingHandler:
    """Handler of the readings of one field.

    Parameters
    ----------
    state : FieldState
        The state of the field, which the handler updates.
    """

    def __init__(self, state: FieldState) -> None:
        self._state = state

    def handle(self, reading: Reading) -> tuple[list[Command], Reply | None]:
        """Handle a reading: learn from it, or reject it.

        Return the commands to carry out, and a `Reply`. In place of the `Reply`, return None if the
        reading is rejected or is not the reply of an awaited sensor. If the broker has refused the
        activation of the sensor, the sensor reports by itself, so its reading is no reply.
        """
        state, policy = self._state, self._state.policy
        arm = state.arms.get(reading.sensor, -1)
        is_awaited = arm in state.activations.awaited
        is_reply = is_awaited and not (state.refusals.count and state.was_refused(arm))
        if rejected := self._reject(arm, reading, is_reply=is_reply):
            return rejected, None
        commands = self._note_report(arm, reading, is_reply=is_reply) if state.recommends else []
        if not is_reply and state.settings.learn_from == "activated":
            reason = "late" if arm in state.activations.arms else "unsolicited"
            return commands + state.reject(reason, reading.sensor, f"{reading.value:g}"), None
        state.filter.accept(arm, reading)
        y, prior = policy.field.to_model(reading.value), policy.prediction(arm)
        unused, findings = self._detect_faults(arm, reading, prior)
        if unused:
            result = ObserveResult(False, abs(y - prior.mean), None, policy.observations)
        else:
            result = policy.observe(arm, y)
        if is_reply:
            state.health.mark_replied(arm)
        if not state.recommends and (is_reply or not state.health.is_implausible(arm)):
            commands += self._sensor_recovered(arm, reading.received)
        commands += findings
        if result.reset:
            state.last_reset = rfc3339(state.began)
            commands.append(self._reset_notice(reading, prior, result))
        if state.alerts:
            if not unused:
                state.alerts.monitor.observe(arm, y)
            commands += state.update_alert(reading.received)
        return commands, Reply(arm, reading, prior.mean, result, unused) if is_reply else None

    def _reset_notice(self, reading: Reading, prior: Prediction, result: ObserveResult) -> Notify:
        """Return the notice that a reading has reset the handler's model.

        `prior` is the posterior of the sensor before the reading, in model units.
        """
        state, field = self._state, self._state.policy.field
        distance, limit = _distances(field, reading, prior.mean, result)
        stds = result.abs_error / sqrt(prior.std**2 + field.noise_variance)
        deviation = Deviation(reading.value, field.to_unit(prior.mean), distance, stds, limit)
        text = reset_text(state.name(reading.sensor), deviation, state.quantities)
        return Notify(Notice("model-reset", rfc3339(reading.received), text, reading.sensor))

    def handle_battery(self, report: BatteryReported) -> list[Command]:
        """Handle a battery reading: store the sensor's charge; return a notice if it is too low."""
        state = self._state
        arm = state.arms.get(report.sensor, -1)
        if arm < 0:
            return state.reject("unknown-sensor", report.sensor)
        if not 0 <= report.percent <= 100:
            detail = f"a battery charge of {report.percent:g} %"
            return state.reject("implausible", report.sensor, detail)
        if state.energy is None or not state.energy.update_battery(arm, report.percent):
            return []
        return [state.notice("battery-low", report.received, report.sensor, report.percent)]

    def _knows_course(self) -> bool:
        """Return whether the handler's model can compute the phase of its fitted season.

        The result is False only if there is a fitted season and the clock is not set.
        """
        structure = self._state.policy.field.structure
        is_seasonal = structure is not None and structure.rows > 0 and structure.period > 0.0
        return self._state.filter.clock_is_set or not is_seasonal

    def _detect_faults(
        self, arm: int, reading: Reading, prior: Prediction
    ) -> tuple[Unused | None, list[Command]]:
        """Compare an accepted reading with `prior`, the posterior of its sensor in model units.

        Return the reason why the handler must not update the model with the reading, or None if
        there is no such reason. Also return the commands to carry out.
        """
        state = self._state
        outcome = state.faults.test(
            arm, reading.value, self._predicted_reading(prior), reading.received, state.used
        )
        commands: list[Command] = []
        if outcome.event:
            name = state.name(reading.sensor)
            text = fault_notice(name, arm, state.faults, state.quantities)
            notice = Notice(outcome.event, rfc3339(reading.received), text, reading.sensor)
            commands.append(Notify(notice))
        if outcome.usable:
            return None, commands
        reason: Unused = "faulty" if state.faults.fault(arm) else "doubtful"
        return reason, commands + state.reject(reason, reading.sensor, f"{reading.value:g}")

    def _predicted_reading(self, prior: Prediction) -> PredictedReading:
        """Return the reading that the handler's model predicts, in the field's unit."""
        policy, field = self._state.policy, self._state.policy.field
        mean, std = prior.mean, sqrt(prior.std**2 + field.noise_variance)
        has_readings = mean != 0.0 or policy.observations > 0
        informed = policy.learns_rates and has_readings and self._knows_course()
        expected = field.to_unit(mean)
        possible = mean if expected != 0.0 else field.to_model(0.0)  # a log scale begins at 0
        resolution = ulp(max(expected, field.scale))  # at the upper end of a log scale, std is 0
        return PredictedReading(
            expected, max(field.std_to_unit(possible, std), resolution), informed
        )

    def _reject(self, arm: int, reading: Reading, *, is_reply: bool) -> list[Command]:
        """Return the commands that reject a reading; [] if the handler may use the reading."""
        state = self._state
        reason = self._reject_reason(arm, reading, is_reply=is_reply)
        if reason is None:
            state.implausible.clear(arm)
            return []
        if reason != "implausible":
            last = state.filter.measured[arm]
            text = _rejected_text(reason, reading, state.settings.max_age, last)
            return state.reject(reason, reading.sensor, text)
        detail = state.quantities.implausible(reading.value, state.plausible)
        commands = state.reject(reason, reading.sensor, detail)
        return commands + self._note_implausible(arm, reading, detail, is_reply=is_reply)

    def _reject_reason(self, arm: int, reading: Reading, *, is_reply: bool) -> str | None:
        if arm < 0:
            return "unknown-sensor"
        if self._state.ignored.count and self._state.ignored.mask[arm]:
            return "ignored"
        activated_at = self._state.activations.at if is_reply else None
        return self._state.filter.reject_reason(arm, reading, activated_at)

    def _note_implausible(
        self, arm: int, reading: Reading, detail: str, *, is_reply: bool
    ) -> list[Command]:
        """Handle an implausible reading: record it, and return a notice if one is due.

        `detail` is a text with the value of the reading and the plausible range.
        """
        state = self._state
        if is_reply and not state.recommends:
            state.health.mark_implausible(arm)
        if not state.implausible.note(arm, reading.value, state.used):
            return []
        text = (
            f"{state.name(reading.sensor)} sent {detail}. The reading is not used; check the"
            " sensor, its unit and the setting plausible"
        )
        notice = Notice("sensor-implausible", rfc3339(reading.received), text, reading.sensor)
        return [Notify(notice)]

    def _note_report(self, arm: int, reading: Reading, *, is_reply: bool) -> list[Command]:
        """Handle a reading in `advise` mode: update the report times of `arm`.

        The report times are updated even if the model does not use the reading. A reading that
        arrives within `reply_timeout` after the recommendation may be a reply to other software
        that polls the sensor.
        """
        state = self._state
        since = reading.received - state.activations.at
        prompt = is_reply and since <= state.settings.reply_timeout
        state.reports.observe(arm, reading.received, prompt=prompt)
        return self._sensor_recovered(arm, reading.received)

    def _sensor_recovered(self, arm: int, at: float) -> list[Command]:
        state = self._state
        if not state.health.mark_responsive(arm):
            return []
        commands: list[Command] = [state.notice("sensor-back", at, state.sensors[arm])]
        if state.health.only_one_responsive:
            state.health.shorten_back_offs(state.used)
            commands.append(state.notice("some-back", at))
        return commands
