"""Posterior publisher: publishes the posterior after a decision, and when an activation ends."""

from collections.abc import Callable, Mapping
from math import isfinite

import numpy as np

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.quantities import field_decimals
from edge_tvbo.messages.commands import Command, Ending, PublishState, Record
from edge_tvbo.messages.documents import PublishedPosterior
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo.numerics.types import Array


class PosteriorPublisher:
    """Observer of the daemon's loop; it publishes the posteriors of fields over MQTT.

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
        # For each field, the sensor of the last decision, and how its activation ended:
        self._last: dict[str, tuple[str, Ending | None]] = {}

    def __call__(self, field: str, command: Command) -> None:
        """Publish the posterior of `field` after a decision, and after the end of an activation.

        If the latest activation has ended, the published document also says how it ended.
        """
        match command:
            case PublishState(decision=decision):
                self._last[field] = decision.sensor, None
                self._update(field, decision.interval, None)
            case Record(sensor=sensor, interval=interval, ending=ending):
                last, last_ending = self._last.get(field, (sensor, None))
                if sensor == last:
                    self._last[field] = last, (last_ending := ending)
                self._update(field, interval, last_ending)
            case _:
                pass

    def restore(self, entry: HistoryEntry) -> None:
        """Publish the posterior of a field after a restart or a reload.

        `entry` is the last history entry of the field. If the activation of this entry ends later,
        its end is published as if there had been no restart.
        """
        ending = None if entry.record is None else entry.record.ending
        self._last[entry.field] = entry.decision.sensor, ending
        self._update(entry.field, entry.decision.interval, ending)

    def _update(self, field: str, interval: int, ending: Ending | None) -> None:
        if controller := self._controllers.get(field):
            at = round(self._wall(), 3)
            self._publish(field, posterior(controller, interval, ending, at))


def posterior(
    controller: Controller, interval: int, ending: Ending | None, at: float
) -> PublishedPosterior:
    """Return the posterior of every sensor as the document that is published.

    The values are rounded to as many decimals as `field_decimals` returns.
    """
    field = controller.policy.field
    digits = field_decimals(field)
    mean, std = controller.policy.posterior()
    values, received = controller.last_received()
    ages = at - np.array(received)
    return PublishedPosterior(
        interval=interval,
        at=rfc3339(at),
        ending=None if ending is None else ending.value,
        unit=field.unit,
        sensors=field.sensors,
        mean=(field.to_unit(mean).round(digits) + 0.0).tolist(),  # no minus zero
        std=field.std_to_unit(mean, std).round(digits).tolist(),
        last=_or_none(np.array(values).round(digits)),
        age_s=_or_none(np.maximum(ages.round(1), 0.0) + 0.0),
    )


def _or_none(values: Array) -> list[float | None]:
    """Return the `values` of a posterior as a list; None for a sensor without readings."""
    return [value if isfinite(value) else None for value in values.tolist()]
