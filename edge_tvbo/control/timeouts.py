"""Timeouts: sensors of a field that do not reply in time, or that become silent."""

from edge_tvbo.control.field_state import FieldState
from edge_tvbo.control.notice_text import silence_text
from edge_tvbo.messages.commands import MIN_REPLY_SHARE, Command, Ending, Notify, Record
from edge_tvbo.messages.documents import Notice
from edge_tvbo.messages.events import ActivationUndelivered
from edge_tvbo.messages.formatting import rfc3339


class TimeoutHandler:
    """Handler of the time-outs of one field: records them, and backs off unresponsive sensors.

    Parameters
    ----------
    state : FieldState
        The state of the field, which the handler updates.
    """

    def __init__(self, state: FieldState) -> None:
        self._state = state

    def end_waiting(self, at: float) -> list[Command]:
        """Stop waiting for the awaited replies; return the commands that record the time-outs."""
        state = self._state
        arms = state.activations.end_all()
        if not state.recommends:
            return [each for arm in arms for each in self._time_out(arm, at)]
        for arm in arms:
            if state.timeout_counts and state.health.is_unresponsive(arm):
                state.health.back_off(arm, state.interval)  # the sensor is still silent
        return []

    def note_undelivered(self, event: ActivationUndelivered) -> None:
        """Mark an activation as undelivered, so that no time-out of its sensor is counted.

        If the activation was never sent, or the broker refused it, also refund its energy. If the
        broker refused it, also back the sensor off; this does not count against the sensor. A
        refusal can arrive in a later interval than the activation. Such a refusal does not back the
        sensor off in two cases: the sensor was activated again in the later interval, or another
        refusal has arrived since the activation.
        """
        state = self._state
        arm = state.arms[event.sensor]
        if state.energy and not event.left:
            state.energy.refund(arm, state.interval - event.interval)
        if event.interval == state.interval and arm in state.activations.arms:
            state.activations.undelivered.append(arm)
        is_again = arm in state.activations.arms
        first = state.interval if is_again else state.refusals.retry_interval(arm)
        counts = event.refused and not state.recommends and not state.ignored.mask[arm]
        if counts and event.interval >= first:
            state.refusals.mark_refused(arm, state.interval)

    def note_accepted(self) -> None:
        """End the refusals of the sensors whose activations the broker accepted in the interval.

        A sensor is left out if the connection or the process has ended since its activation,
        because it is unknown whether the broker accepted the activation.
        """
        state, activations = self._state, self._state.activations
        if not state.refusals.count:
            return
        unknown = {*activations.undelivered, *activations.resumed}
        accepted = set(activations.arms) - unknown
        state.refusals.mark_accepted(accepted, activations.undelivered)

    def back_off_silent(self, at: float) -> list[Command]:
        """Back off the silent sensors, like sensors that timed out; return the notices.

        This happens only in `advise` mode.
        """
        state = self._state
        if not state.recommends or not state.online:
            return []
        state.reports.listen(at)
        commands: list[Command] = []
        for arm in state.reports.silent(at):
            if not state.health.is_unresponsive(arm) and not state.ignored.mask[arm]:
                state.health.back_off(arm, state.interval)
                sensor = state.sensors[arm]
                text = silence_text(state.name(sensor), state.reports.silence(arm, at))
                commands.append(Notify(Notice("sensor-lost", rfc3339(at), text, sensor)))
                commands += self._all_unresponsive_notice(at)
        return commands

    def _time_out(self, arm: int, at: float) -> list[Command]:
        """Handle a time-out of the sensor `arm`: record and count it, and back the sensor off."""
        state = self._state
        delivered = arm not in state.activations.undelivered
        ending = Ending.MISSED if delivered else Ending.UNDELIVERED
        state.timeouts += delivered
        state.undelivered += not delivered
        sensor = state.sensors[arm]
        record = Record(state.interval, state.began, sensor, ending, None, None, None, False)
        had_time = at - state.activations.at >= MIN_REPLY_SHARE * state.settings.reply_timeout
        blamed = delivered and had_time and state.timeout_counts and not state.ignored.mask[arm]
        return [record, *(self._back_off(arm, at) if blamed else [])]

    def _back_off(self, arm: int, at: float) -> list[Command]:
        state = self._state
        was_unresponsive = state.health.is_unresponsive(arm)
        state.health.mark_timed_out(arm, state.interval)
        if was_unresponsive or not state.health.is_unresponsive(arm):
            return []
        lost = state.notice("sensor-lost", at, state.sensors[arm])
        return [lost, *self._all_unresponsive_notice(at)]

    def _all_unresponsive_notice(self, at: float) -> list[Command]:
        state = self._state
        return [state.notice("all-suspect", at)] if state.health.all_unresponsive else []
