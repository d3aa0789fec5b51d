"""Hot spots: which sensor of a field has the highest estimate."""

from collections.abc import Sequence
from math import inf

import numpy as np

from edge_tvbo.control.fault_detection import FaultDetector
from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.quantities import Quantities
from edge_tvbo.messages.documents import Hotspot
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.base import Choice, Policy
from edge_tvbo.policy.model_free import ModelFreePolicy


class HotspotFinder:
    """Finder of the hot spot of one field; it also builds the document about the hot spot.

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
        """Return a mask, (M,), of the ignored and excluded sensors: they cannot be the hot spot."""
        if not self._faults.affects_selection:
            return self._ignored.mask
        return self._ignored.mask | self._faults.excluded

    def argmax_mean(self, before: int) -> Choice:
        """Return the hot spot as a `Choice`.

        `before` is the arm that was selected last, or -1 if there is none. If several arms have the
        highest estimate, `before` is preferred, unless this arm is ignored or excluded.
        """
        mean, std = self._policy.posterior()
        arm = self.highest(mean)
        if before >= 0 and mean[before] == mean[arm] and not self.hidden()[before]:
            arm = before
        return self._choice(arm, mean, std)

    def hottest(self) -> Choice | None:
        """Return the hot spot as a `Choice`, in model units; None before the first reading."""
        mean, std = self._policy.posterior()
        arm = self.highest(mean)
        if mean[arm] == 0.0 and not mean.any() and not self._has_readings():
            return None
        return self._choice(arm, mean, std)

    def _has_readings(self) -> bool:
        return not isinstance(self._policy, ModelFreePolicy) and self._policy.observations > 0

    def _choice(self, arm: int, mean: Array, std: Array) -> Choice:
        highest = float(mean[arm])
        return Choice(arm, self._field.sensors[arm], highest, float(std[arm]), highest)

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
