"""Hot spots: which sensor of a field has the highest estimate, and whether an alert is active."""

from collections.abc import Mapping, Sequence
from heapq import nlargest
from math import floor, inf

import numpy as np

from edge_tvbo.control.alerts import AlertMonitor
from edge_tvbo.control.fault_detection import FaultDetector
from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.quantities import Quantities
from edge_tvbo.messages.documents import Alert, Hotspot
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.base import Choice, Policy
from edge_tvbo.policy.model_free import ModelFreePolicy

MAX_READINGS = 5  # readings named in the text of an alert; further readings are only counted
MAX_PUBLISHED_READINGS = 100  # readings in an alert's document, which must fit in one message


class HotspotFinder:
    """Finder of the hot spot of one field; it also builds the documents about the hot spot.

    Parameters
    ----------
    policy : Policy
        The policy with the field's posterior.
    faults : FaultDetector
        The fault detector of the field. Excluded sensors are never the hot spot.
    ignored : IgnoredSensors
        The ignored sensors of the field, which are never the hot spot either.
    """

    def __init__(self, policy: Policy, faults: FaultDetector, ignored: IgnoredSensors) -> None:
        self._policy = policy
        self._field = policy.field
        self._faults = faults
        self._ignored = ignored
        self._quantities = Quantities(policy.field)

    def highest(self, mean: Array) -> int:
        """Return the arm with the highest estimate among the sensors that may be the hot spot."""
        if not self._ignored.count and not self._faults.affects_selection:
            return int(mean.argmax())
        hidden = self.hidden()
        hidden = self._ignored.mask if hidden.all() else hidden
        return int(np.where(hidden, -inf, mean).argmax())

    def hidden(self) -> Mask:
        """Return a mask, (M,), of the sensors that cannot be the hot spot: ignored or excluded."""
        if not self._faults.affects_selection:
            return self._ignored.mask
        return self._ignored.mask | self._faults.excluded

    def argmax_mean(self, before: int) -> Choice:
        """Return the hot spot as a `Choice`.

        `before` is the arm that was selected last, or -1. Among several arms with the highest
        estimate, `before` is preferred, unless it is ignored or excluded.
        """
        mean, std = self._policy.posterior()
        arm = self.highest(mean)
        if before >= 0 and mean[before] == mean[arm] and not self.hidden()[before]:
            arm = before
        highest = float(mean[arm])
        return Choice(arm, self._field.sensors[arm], highest, float(std[arm]), highest)

    def hottest(self) -> Choice | None:
        """Return the hot spot as a `Choice`, in model units; None before the first reading."""
        mean, std = self._policy.posterior()
        arm = self.highest(mean)
        highest = float(mean[arm])
        if highest == 0.0 and not mean.any() and not self._has_readings():
            return None
        return Choice(arm, self._field.sensors[arm], highest, float(std[arm]), highest)

    def _has_readings(self) -> bool:
        return not isinstance(self._policy, ModelFreePolicy) and self._policy.observations > 0

    def hotspot(self, at: float, last: Sequence[float]) -> Hotspot | None:
        """Return the hot spot as a document for users; None before the first reading.

        `at` is the present time, in s since 1970. `last` contains the arrival time of each sensor's
        last reading; -inf for a sensor without readings.
        """
        hottest = self.hottest()
        if hottest is None:
            return None
        figures = self._quantities.figures(hottest.mean, hottest.std)
        since = last[hottest.arm]
        return Hotspot(
            at=rfc3339(at),
            sensor=hottest.sensor,
            value=figures.mean,
            std=figures.std,
            unit=self._field.unit,
            age_s=max(0, round(at - since)) if since > -inf else None,
        )

    def alert(
        self, monitor: AlertMonitor, at: float, values: Sequence[float], names: Mapping[str, str]
    ) -> Alert | None:
        """Return the alert and its hot spot as a document for users.

        If the model has no readings yet, the result depends on the alert. If the alert is active,
        the result contains the hot spot of the prior; otherwise, the result is None.

        `at` is the present time, in s since 1970. `values` contains the last reading of each
        sensor. `names` maps the ids of sensors to their display names, if these differ from the
        ids.
        """
        hottest = self.hottest()
        if hottest is None:
            if not monitor.active:
                return None
            hottest = self.argmax_mean(-1)
        quantities = self._quantities
        figures = quantities.figures(hottest.mean, hottest.std)
        probability = monitor.probability(hottest.mean, hottest.std)
        return Alert(
            at=rfc3339(at),
            active=monitor.active,
            since=rfc3339(monitor.since) if monitor.since else None,
            threshold=monitor.threshold,
            release=round(monitor.release, quantities.digits),
            sensor=hottest.sensor,
            value=figures.mean,
            std=figures.std,
            probability=round(probability, 3),
            readings=self._most_extreme(self._readings(monitor, values)),
            unit=self._field.unit,
            text=self.alert_text(monitor, values, names),
        )

    def alert_text(
        self, monitor: AlertMonitor, values: Sequence[float], names: Mapping[str, str]
    ) -> str:
        """Return the text of the alert: whether there is an alert, and why.

        `values` and `names` are the same as in the method `alert`.
        """
        quantities, hottest = self._quantities, self.hottest()
        side = "above" if self._field.objective == "max" else "below"
        unit = f" {self._field.unit}" if self._field.unit else ""
        limit = f"for values {side} {monitor.threshold:.12g}{unit}"
        hotspot = "no hot spot is estimated before the next reading"
        probable = ""
        if hottest is not None:
            name = names.get(hottest.sensor, hottest.sensor)
            figures = quantities.figures(hottest.mean, hottest.std)
            percent = min(99, floor(100.0 * monitor.probability(hottest.mean, hottest.std)))
            hotspot = f"{name} is estimated at {quantities.estimate(figures)}"
            probable = f", {side} the threshold with {percent} % probability"
        if not monitor.active:
            return f"No alert {limit}; {hotspot}"
        until = quantities.text(round(monitor.release, quantities.digits))
        sent = [
            f"{names.get(sensor, sensor)} sent {quantities.text(value)}"
            for sensor, value in self._readings(monitor, values).items()
        ]
        if len(sent) > MAX_READINGS:
            sent = [*sent[:MAX_READINGS], f"{len(sent) - MAX_READINGS} more sensors"]
        return f"Alert {limit}, until {until}: {', '.join(sent) or hotspot + probable}"

    def _readings(self, monitor: AlertMonitor, values: Sequence[float]) -> dict[str, float]:
        """Return the last readings of the sensors that cause the alert, rounded.

        Ignored sensors, and sensors whose readings are not used, are left out, even if `monitor`
        still counts them among the causes of the alert.
        """
        sensors, digits, hidden = self._field.sensors, self._quantities.digits, self.hidden()
        beyond = [arm for arm in monitor.arms_beyond() if not hidden[arm]]
        arms = [arm for arm in beyond if not self._faults.is_unused(arm)]
        return {sensors[arm]: round(values[arm], digits) + 0.0 for arm in arms}  # no minus zero

    def _most_extreme(self, readings: dict[str, float]) -> dict[str, float]:
        """Return the most extreme of the readings that cause an alert.

        At most `MAX_PUBLISHED_READINGS` are returned.
        """
        if len(readings) <= MAX_PUBLISHED_READINGS:
            return readings
        sign = 1.0 if self._field.objective == "max" else -1.0
        sensors = nlargest(MAX_PUBLISHED_READINGS, readings, key=lambda each: sign * readings[each])
        return {sensor: readings[sensor] for sensor in sensors}
