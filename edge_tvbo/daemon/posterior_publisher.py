"""What is believed of every sensor, published when one is chosen and when its interval ends."""

from collections.abc import Callable, Mapping

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.decision_text import decimals
from edge_tvbo.messages.commands import Command, Ending, PublishState, Record
from edge_tvbo.messages.documents import Posterior
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.ports import Link


class PosteriorPublisher:
    """Has posteriors published, as the loop's `watch`.

    Parameters
    ----------
    link : Link
        Who publishes them.
    controllers : mapping
        Of each field whose posterior is to be seen.
    wall : callable
        Gives the seconds since 1970.
    """

    def __init__(
        self, link: Link, controllers: Mapping[str, Controller], wall: Callable[[], float]
    ) -> None:
        self._link = link
        self._controllers = controllers
        self._wall = wall

    def __call__(self, field: str, command: Command) -> None:
        """Publish what is believed of `field`, if `command` is worth that."""
        match command:
            case PublishState(decision=decision):
                self._show(field, decision.interval, None)
            case Record(interval=interval, ending=ending):
                self._show(field, interval, ending)
            case _:
                pass

    def _show(self, field: str, interval: int, ending: Ending | None) -> None:
        if controller := self._controllers.get(field):
            self._link.show(field, posterior(controller, interval, ending, round(self._wall(), 3)))


def posterior(controller: Controller, interval: int, ending: Ending | None, at: float) -> Posterior:
    """Give what `controller` believes of every sensor, rounded to what means anything."""
    field = controller.policy.field
    digits = decimals(field)
    mean, std = controller.policy.posterior()
    known = controller.latest()
    latest = [known.get(sensor) for sensor in field.sensors]
    return Posterior(
        interval=interval,
        at=rfc3339(at),
        ending=None if ending is None else ending.value,
        unit=field.unit,
        sensors=field.sensors,
        mean=(field.to_unit(mean).round(digits) + 0.0).tolist(),  # no minus zero
        std=(std * field.scale).round(digits).tolist(),
        last=[None if each is None else round(each.value, digits) for each in latest],
        age_s=[None if each is None else max(0.0, round(at - each.received, 1)) for each in latest],
    )
