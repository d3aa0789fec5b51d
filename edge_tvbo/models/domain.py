"""Where arms are: what a posterior for any kernel has to know of sensors, grids and boxes."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.box import BoxField, Point
from edge_tvbo.models.field import SensorField

Array = NDArray[np.float64]
Arm = Any  # an int among sensors and on a grid, a tuple of floats in a box
Field = SensorField | BoxField


class Domain(Protocol):
    """Arms as places, rows of numbers, and how places co-vary."""

    candidates: Array  # (M, d) places that are compared with each other
    prior: Array  # (M,) their prior variance

    def holds(self, arm: Arm) -> bool:
        """Say whether there is such an arm."""
        ...

    def place(self, arm: Arm) -> Array:
        """Give an arm's place (d,)."""
        ...

    def covariance(self, P: Array, Q: Array) -> Array:
        """Give the prior covariance (p, q) of places P (p, d) with places Q (q, d)."""
        ...

    def variance(self, P: Array) -> Array:
        """Give the prior variance (p,) of places P (p, d)."""
        ...

    def candidate(self, arm: Arm) -> int | None:
        """Give which candidate an arm is; None where arms are more than candidates."""
        ...

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> Arm:
        """Give the arm that scores highest, knowing the best candidate and all their scores."""
        ...


class Sensors:
    """The arms of a `SensorField`; a place is the arm's number."""

    def __init__(self, field: SensorField) -> None:
        self._kernel = field.kernel
        self.candidates = np.arange(len(field), dtype=np.float64)[:, None]
        self.prior = np.diag(field.kernel).copy()

    def holds(self, arm: int) -> bool:
        """Say whether there is a sensor of that number."""
        return arm in range(len(self.prior))

    def place(self, arm: int) -> Array:
        """Give the arm's number, (1,)."""
        return np.array([float(arm)])

    def covariance(self, P: Array, Q: Array) -> Array:
        """Look the covariance (p, q) up."""
        return self._kernel[P.astype(np.intp), Q[:, 0].astype(np.intp)]

    def variance(self, P: Array) -> Array:
        """Look the variance (p,) up."""
        return self.prior[P[:, 0].astype(np.intp)]

    def candidate(self, arm: int) -> int:
        """Give the arm: each is a candidate."""
        return arm

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> int:
        """Give the best candidate: there are no others."""
        return index


class Box:
    """The points of a `BoxField`."""

    def __init__(self, field: BoxField) -> None:
        self._field = field
        self.candidates = field.positions
        self.prior = self.variance(self.candidates)
        self.covariance = field.spatial

    def holds(self, arm: Point) -> bool:
        """Say whether the point is inside."""
        return self._field.holds(self.place(arm)[None, :])

    def place(self, arm: Point) -> Array:
        """Give the point, (d,)."""
        return np.array(arm, np.float64)

    def variance(self, P: Array) -> Array:
        """Give the variance, which is the same everywhere."""
        return np.full(len(P), self._field.spatial.variance)

    def candidate(self, arm: Point) -> None:
        """Give None: most points of a box are none."""
        return None  # noqa: RET501 - a protocol's answer

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> Point:
        """Give the point that a local search from the best candidates finds."""
        return self._field.climb(score, index, scores)


def over(field: Field) -> Domain:
    """Give the domain of a field."""
    return Box(field) if isinstance(field, BoxField) else Sensors(field)


def arm_state(arm: Arm) -> Any:
    """Give an arm as what a snapshot holds."""
    return list(arm) if isinstance(arm, tuple) else arm


def arms_of(field: Field, states: Any) -> tuple[Arm, ...]:
    """Give the arms that `arm_state` wrote one by one, or raise `SnapshotError`."""
    if not isinstance(states, list):
        raise SnapshotError("The snapshot's 'asked' is no list.")
    return tuple(_arm_of(field, state) for state in states)


def _arm_of(field: Field, state: Any) -> Arm:
    if isinstance(field, BoxField):
        known = isinstance(state, list) and len(state) == len(field.lower)
        if known and all(isinstance(x, float) for x in state):
            return tuple(state)
    elif type(state) is int and 0 <= state < len(field):
        return state
    raise SnapshotError("The snapshot's 'asked' holds what is no arm.")
