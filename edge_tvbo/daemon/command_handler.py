"""Where requests are taken in: they become events of the fields they name, and are answered."""

from collections.abc import Callable, Mapping

from edge_tvbo.control.controller import Controller
from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.commands import Command, PublishState
from edge_tvbo.messages.documents import Decision, Health, Report, Request, Response, Verb
from edge_tvbo.messages.events import (
    ActivationRequested,
    Event,
    PauseRequested,
    ResetRequested,
    ResumeRequested,
    Unreadable,
)
from edge_tvbo.ports import Link


class CommandHandler:
    """Serves whoever asks something of the daemon over its link.

    Parameters
    ----------
    link : Link
        Where requests come from and answers go.
    controllers : mapping
        One for each field.
    handle : callable
        Is given ``(field, event)`` for all that follows from a request.
    health : callable
        Gives how the daemon is doing.
    """

    def __init__(
        self,
        link: Link,
        controllers: Mapping[str, Controller],
        handle: Callable[[str, Event], None],
        health: Callable[[], Health],
    ) -> None:
        self._link = link
        self._controllers = controllers
        self._handle = handle
        self._health = health
        self._selected: dict[str, Decision] = {}
        self.refused: dict[str, int] = {}  # requests, by reason

    def note(self, field: str, command: Command) -> None:
        """Remember what was decided, for whoever asks."""
        if isinstance(command, PublishState):
            self._selected[field] = command.decision

    def succeed(self, before: "CommandHandler") -> None:
        """Go on from what the desk before this one knew."""
        kept = before._selected.items()
        self._selected = {field: each for field, each in kept if field in self._controllers}
        self.refused = before.refused

    def serve(self, at: float) -> bool:
        """Carry out and answer what was asked for, and say whether there was anything."""
        served = False
        for asked in self._link.requests():
            served = True
            if isinstance(asked, Unreadable):
                self._count(asked.reason)
            else:
                self._link.respond(asked[0], self._response(*asked, at))
        return served

    def _response(self, verb: Verb, request: Request, at: float) -> Response:
        try:
            for field, event in self._events(verb, request, at):
                self._handle(field, event)
        except PayloadError as error:
            self._count(error.reason)
            return Response("error", error=str(error), transaction=request.transaction)
        report = Report(self._health(), self._selected) if verb == "status" else None
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
                return [self._activation(fields, request.sensor, at)]
            case "status":
                return []

    def _fields(self, request: Request) -> list[str]:
        """Give the fields that a request is about; raises `PayloadError`."""
        if request.field is None:
            return list(self._controllers)
        if request.field not in self._controllers:
            known = ", ".join(self._controllers)
            raise PayloadError("unknown-field", f"There is no such field; there are: {known}.")
        return [request.field]

    def _activation(
        self, fields: list[str], sensor: str | None, at: float
    ) -> tuple[str, ActivationRequested]:
        """Give the event that activates `sensor`; raises `PayloadError` where that cannot be."""
        if sensor is None:
            raise PayloadError("missing-sensor", 'Say which one: {"sensor": "..."}.')
        having = [each for each in fields if sensor in self._controllers[each].policy.field.sensors]
        if not having:
            raise PayloadError(
                "unknown-sensor", f"No such sensor in {', '.join(fields)}; see the configuration."
            )
        if len(having) > 1:
            raise PayloadError(
                "ambiguous-field",
                f'That sensor is in {", ".join(having)}; say which: {{"field": "..."}}.',
            )
        (field,) = having
        if self._controllers[field].health().paused:
            raise PayloadError("paused", f"{field} is paused; resume it first.")
        if not self._controllers[field].affords(sensor):
            raise PayloadError("no-energy", f"{sensor} has no energy left that it may spend.")
        if not self._controllers[field].begun:
            raise PayloadError("too-early", "No interval has begun yet; try again.")
        return field, ActivationRequested(sensor, at)

    def _count(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1
