"""Command handler: turns the requests that users send to `cmd/<verb>` into events and responses."""

from collections import Counter
from collections.abc import Callable, Mapping
from math import ceil

from msgspec.structs import replace

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.message_size import bounded_reply
from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.documents import Decision, Health, Request, Response, StatusReply, Verb
from edge_tvbo.messages.events import (
    ActivationRequested,
    Event,
    IgnoreRequested,
    PauseRequested,
    ResetRequested,
    ResumeRequested,
    ThresholdRequested,
    Unreadable,
)
from edge_tvbo.messages.formatting import listed, rfc3339


class CommandHandler:
    """Handler of requests to the daemon; it also counts the rejected requests.

    Parameters
    ----------
    controllers : mapping
        The controller of each field.
    health : callable
        Returns the daemon's health, for the command `status`.
    decisions : callable
        Returns the last decision of each field, for the command `status`.
    next_interval : callable
        Returns when the next interval of a field begins; see `Scheduler.next_interval`.

    Attributes
    ----------
    rejected : Counter of str
        Number of rejected requests for each reason.
    """

    def __init__(
        self,
        controllers: Mapping[str, Controller],
        health: Callable[[], Health],
        decisions: Callable[[], dict[str, Decision]],
        next_interval: Callable[[str], tuple[float | None, float]],
    ) -> None:
        self._controllers = controllers
        self._health = health
        self._decisions = decisions
        self._next_interval = next_interval
        self.rejected: Counter[str] = Counter()

    def reject(self, request: Unreadable) -> None:
        """Count an invalid request of a user."""
        self.rejected[request.reason] += 1

    def process(
        self, verb: Verb, request: Request, at: float, handle: Callable[[str, Event], None]
    ) -> Response:
        """Process a user's command: call ``handle(field, event)`` for each event of the command.

        Return the response to the command.
        """
        try:
            for field, event in self._events(verb, request, at):
                handle(field, event)
            report = self._status(request) if verb == "status" else None
        except PayloadError as error:
            self.rejected[error.reason] += 1
            return Response("error", error=str(error), transaction=request.transaction)
        return Response("ok", report, transaction=request.transaction)

    def _events(self, verb: Verb, request: Request, at: float) -> list[tuple[str, Event]]:
        fields = self._fields(request)
        match verb:
            case "pause" if request.paused:
                return [(field, PauseRequested(at)) for field in fields]
            case "pause" | "resume":
                return [(field, ResumeRequested(at)) for field in fields]
            case "reset":
                return [(field, ResetRequested(at)) for field in fields]
            case "activate":
                return [self._activation(fields, request, at)]
            case "ignore":
                return self._ignoring(fields, request, at)
            case "threshold":
                return self._thresholds(fields, request, at)
            case "status":
                return []

    def _status(self, request: Request) -> StatusReply:
        """Return the health and the last decisions of the fields that a user requests.

        Raises `PayloadError` if they are too large for one message.
        """
        health, decisions, names = self._health(), self._decisions(), self._fields(request)
        fields = {name: health.fields[name] for name in names if name in health.fields}
        selected = {name: decisions[name] for name in names if name in decisions}
        return bounded_reply(StatusReply(replace(health, fields=fields), selected))

    def _fields(self, request: Request) -> list[str]:
        """Return the fields of a user's request; raises `PayloadError` for an unknown field."""
        if request.field is None:
            return list(self._controllers)
        if request.field not in self._controllers:
            known = ", ".join(self._controllers)
            raise PayloadError(
                "unknown-field", f"There is no field of this name; the fields are {known}."
            )
        return [request.field]

    def _activation(
        self, fields: list[str], request: Request, at: float
    ) -> tuple[str, ActivationRequested]:
        """Return ``(field, event)``: the event that activates a sensor of the field.

        If the request names no sensor, the event is for the sensor that the field selected last.
        Raises `PayloadError` if the sensor cannot be activated now.
        """
        sensor = request.sensor
        if sensor is None and len(fields) == 1:
            sensor = self._controllers[fields[0]].health().selected
        sensor, having = self._fields_with(fields, sensor)
        if len(having) > 1:
            raise PayloadError(
                "ambiguous-field",
                f'Several fields have this sensor: {", ".join(having)}. Add {{"field": "<name>"}}.',
            )
        (field,) = having
        if self._controllers[field].health().paused:
            raise PayloadError("paused", f"The field {field} is paused; send cmd/resume first.")
        if self._controllers[field].is_ignored(sensor):
            raise PayloadError(
                "ignored",
                f'{sensor} is ignored; send cmd/ignore with "ignored": false first.',
            )
        if shortage := self._controllers[field].energy_shortage(sensor):
            raise PayloadError("no-energy", f"{shortage}, so it cannot be activated now.")
        if not self._controllers[field].begun:
            interval, begins_in = self._next_interval(field)
            begins = rfc3339(ceil(at + max(0.0, begins_in)))
            when = "" if interval is None else f", at {begins}"
            raise PayloadError(
                "too-early",
                f"No interval of {field} is running yet; send the command again after the next "
                f"interval begins{when}.",
            )
        return field, ActivationRequested(sensor, at)

    def _ignoring(self, fields: list[str], request: Request, at: float) -> list[tuple[str, Event]]:
        """Return the events of the command to ignore a sensor: ``(field, IgnoreRequested)``.

        The result contains an event for each field that has the sensor. Raises `PayloadError` if
        the sensor is unknown, or if the command would make a field ignore all its sensors.
        """
        sensor, having = self._fields_with(fields, request.sensor)
        for field in having:
            if request.ignored and self._controllers[field].is_last_in_use(sensor):
                raise PayloadError(
                    "last-sensor",
                    f"{sensor} is the last sensor of {field} that is not ignored; send cmd/pause "
                    "to stop the field.",
                )
        return [(field, IgnoreRequested(sensor, request.ignored, at)) for field in having]

    def _thresholds(
        self, fields: list[str], request: Request, at: float
    ) -> list[tuple[str, Event]]:
        """Return the event of a user's command to set an alert's threshold.

        The result is ``[(field, ThresholdRequested)]`` for the field that has an alert. Raises
        `PayloadError` if the threshold is invalid, or if none or several of the `fields` have an
        alert.
        """
        threshold = request.threshold
        if threshold is None:
            raise PayloadError(
                "missing-threshold", 'The request has no threshold; add {"threshold": 27.5}.'
            )
        having = [each for each in fields if self._controllers[each].settings.alert]
        if not having:
            raise PayloadError(
                "no-alert",
                f"No alert is configured for {', '.join(fields)}; add alert = {{ threshold = ... }}"
                " to the field.",
            )
        if len(having) > 1:
            raise PayloadError(
                "ambiguous-field",
                f'Several fields have an alert: {", ".join(having)}. Add {{"field": "<name>"}}.',
            )
        (field,) = having
        try:
            self._controllers[field].check_threshold(threshold)
        except ConfigError as error:
            raise PayloadError("implausible-threshold", f"{field}: {error}") from error
        return [(field, ThresholdRequested(threshold, at))]

    def _fields_with(self, fields: list[str], sensor: str | None) -> tuple[str, list[str]]:
        """Return the sensor of a user's request, and the fields that have this sensor.

        Raises `PayloadError` if the request names no sensor, or a sensor that no field has.
        """
        if sensor is None:
            raise PayloadError(
                "missing-sensor", 'The request names no sensor; add {"sensor": "<id>"}.'
            )
        having = [each for each in fields if sensor in self._controllers[each].policy.field.sensors]
        if not having:
            known = dict.fromkeys(
                sensor for each in fields for sensor in self._controllers[each].policy.field.sensors
            )
            raise PayloadError(
                "unknown-sensor",
                f"There is no sensor of this id in {', '.join(fields)}; the ids are "
                f"{listed(known, 20)}.",
            )
        return sensor, having
