"""User requests: the commands of a user about one field."""

from edge_tvbo.control.field_state import FieldState
from edge_tvbo.control.sensor_selection import SensorSelection
from edge_tvbo.messages.commands import Command, Notify
from edge_tvbo.messages.documents import Notice, NoticeKind
from edge_tvbo.messages.formatting import rfc3339


class RequestHandler:
    """Handler of a user's requests about one field.

    Parameters
    ----------
    state : FieldState
        The state of the field, which the handler updates.
    selection : SensorSelection
        Activates the sensor that the user requests.
    """

    def __init__(self, state: FieldState, selection: SensorSelection) -> None:
        self._state = state
        self._selection = selection

    def pause(self, at: float) -> list[Command]:
        """Pause the field; return the notice, if the field was not paused before."""
        state = self._state
        if state.paused:
            return []
        state.paused = True
        state.timeout_counts = False  # the activated sensor may be the reason for the pause
        return [state.notice("paused", at)]

    def resume(self, at: float) -> list[Command]:
        """End the pause of the field; return the notice, if the field was paused."""
        state = self._state
        if not state.paused:
            return []
        state.paused = False
        return [state.notice("resumed", at)]

    def activate(self, arm: int, at: float) -> list[Command]:
        """Activate the requested sensor as the last one of the interval, or reject the request."""
        state = self._state
        if state.ignored.mask[arm]:
            return state.reject("ignored", state.sensors[arm])
        if state.energy and not state.energy.affordable()[arm]:
            return state.reject("no-energy", state.sensors[arm])
        state.activations.end_all()
        state.activations.left = 0
        state.began = at
        return self._selection.force(arm, at)

    def set_ignored(self, arm: int, at: float, *, ignored: bool) -> list[Command]:
        """Set whether the field ignores a sensor.

        Also forget the time-outs, the refused activations and the faults of the sensor.
        """
        state = self._state
        if ignored and state.ignored.is_last(arm):
            return state.reject("last-sensor", state.sensors[arm])
        probed_in_turn = state.health.all_unresponsive
        if not state.ignored.set(arm, ignored=ignored):
            return []
        state.health.mark_responsive(arm)
        state.refusals.forget(arm)
        state.faults.forget(arm)
        state.implausible.clear(arm)
        state.reports.restart(arm, at)
        kind: NoticeKind = "sensor-ignored" if ignored else "sensor-used"
        commands: list[Command] = [state.notice(kind, at, state.sensors[arm])]
        if state.health.all_unresponsive is not probed_in_turn:
            commands.append(state.notice("some-back" if probed_in_turn else "all-suspect", at))
        return commands + state.update_alert(at)

    def set_threshold(self, threshold: float, at: float) -> list[Command]:
        """Set the threshold of the field's alert, or reject the request if there is no alert."""
        state = self._state
        if state.alerts is None:
            return state.reject("no-alert", f"{threshold:g}")
        if not state.alerts.monitor.set_threshold(threshold, state.used_values()):
            return []
        unit = f" {state.policy.field.unit}" if state.policy.field.unit else ""
        text = f"A command set the threshold of the alert to {threshold:.12g}{unit}"
        return [Notify(Notice("threshold-set", rfc3339(at), text)), *state.update_alert(at)]

    def reset_model(self, at: float) -> list[Command]:
        """Reset the model of the field.

        If at least a third of the sensors seem to be faulty, the model was probably wrong. In this
        case, also forget the faults.
        """
        state = self._state
        state.policy.reset()
        if state.faults.limit_reached:
            for arm in range(len(state.sensors)):
                state.faults.forget(arm)
        state.last_reset = rfc3339(at)
        return [state.notice("model-reset", at), *state.update_alert(at)]
