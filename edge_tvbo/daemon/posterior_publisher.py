"""Posterior publisher: publishes the posterior of all sensors when an interval begins or ends."""

from collections.abc import Callable, Mapping
from math import inf, nan

import numpy as np

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.quantities import decimals
from edge_tvbo.messages.commands import Command, Ending, PublishState, Record
from edge_tvbo.messages.documents import LastReading, PublishedPosterior
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.numerics.types import Array

NEVER = LastReading(value=nan, received=nan)


class PosteriorPublisher:
    """Observer and service of the loop that publishes the posteriors of fields over MQTT.

    The posterior of a field is published at the end of a turn of the loop, at most once, so that no
    decision waits for it.

    Parameters
    ----------
    publish : callable
        Function of ``(field, posterior)`` that publishes a posterior.
    controllers : mapping
        The controller of each field whose posterior is published.
    wall : callable
        Returns the wall time, in seconds since 1970.
    """

    def __init__(
        self,
        publish: Callable[[str, PublishedPosterior], None],
        controllers: Mapping[str, Controller],
        wall: Callable[[], float],
    ) -> None:
        self._publish = publish
        self._controllers = controllers
        self._wall = wall
        self._last: dict[str, tuple[str, Ending | None]] = {}  # sensor selected last, by field
        self._due: dict[str, int] = {}  # the interval of each field whose posterior is published

    def __call__(self, field: str, command: Command) -> None:
        """Note that a decision or the end of an activation has changed the posterior of `field`.

        The published ending belongs to the sensor that was selected last.
        """
        match command:
            case PublishState(decision=decision):
                self._last[field] = decision.sensor, None
                self._due[field] = decision.interval
            case Record(sensor=sensor, interval=interval, ending=ending):
                last, _ = self._last.setdefault(field, (sensor, None))
                if sensor == last:
                    self._last[field] = last, ending
                self._due[field] = interval
            case _:
                pass

    def fileno(self) -> int:
        """Return -1: the service waits for no descriptor."""
        return -1

    def wake_at(self) -> float:
        """Return infinity: the service has work only after a command."""
        return inf

    def service(self, now: float) -> None:
        """Publish the posteriors that have changed in this turn of the loop."""
        for field, interval in self._due.items():
            if controller := self._controllers.get(field):
                _, ending = self._last[field]
                at = round(self._wall(), 3)
                self._publish(field, posterior(controller, interval, ending, at))
        self._due.clear()

    def close(self) -> None:
        """Do nothing: the service has no descriptor."""


def posterior(
    controller: Controller, interval: int, ending: Ending | None, at: float
) -> PublishedPosterior:
    """Return the posterior of every sensor as a document, rounded to the field's `decimals`."""
    field = controller.policy.field
    digits = decimals(field)
    mean, std = controller.policy.posterior()
    known = controller.last_readings()
    last = [known.get(sensor, NEVER) for sensor in field.sensors]
    ages = at - np.array([each.received for each in last])
    return PublishedPosterior(
        interval=interval,
        at=rfc3339(at),
        ending=None if ending is None else ending.value,
        unit=field.unit,
        sensors=field.sensors,
        mean=(field.to_unit(mean).round(digits) + 0.0).tolist(),  # no minus zero
        std=field.std_to_unit(mean, std).round(digits).tolist(),
        last=_or_none(np.array([each.value for each in last]).round(digits)),
        age_s=_or_none(np.maximum(ages.round(1), 0.0) + 0.0),
    )


def _or_none(values: Array) -> list[float | None]:
    """Return `values` as a list, with None in place of NaN."""
    return [None if value != value else value for value in values.tolist()]
