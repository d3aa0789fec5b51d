"""Arm spaces: arms as places with a prior covariance, alike for sensor fields and box fields."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.box import BoxField, Point
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array

Arm = Any  # an int for sensors and grids, a tuple of floats for a box
Field = SensorField | BoxField


class ArmSpace(Protocol):
    """The arms of a field as places, which are rows of numbers, with a prior over the places."""

    candidates: Array  # (M, d) places that are compared with each other
    prior: Array  # (M,) prior variance of the candidates, in model units²

    def contains(self, arm: Arm) -> bool:
        """Return whether the field has this arm."""
        ...

    def place(self, arm: Arm) -> Array:
        """Return the place of an arm, (d,)."""
        ...

    def covariance(self, P: Array, Q: Array) -> Array:
        """Return the prior covariance (p, q) of places P (p, d) with places Q (q, d)."""
        ...

    def variance(self, P: Array) -> Array:
        """Return the prior variance (p,) of places P (p, d)."""
        ...

    def candidate(self, arm: Arm) -> int | None:
        """Return the index of the candidate that is this arm; None for a point of a box."""
        ...

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> Arm:
        """Return the arm with the highest score.

        `index` is the best candidate, `scores` (M,) are those of all candidates, and `score` maps
        places (p, d) to scores (p,).
        """
        ...


class SensorSpace:
    """The arm space of a `SensorField`; the place of an arm is its number, (1,)."""

    def __init__(self, field: SensorField) -> None:
        self._kernel = field.kernel
        self.candidates = np.arange(len(field), dtype=np.float64)[:, None]
        self.prior = np.diag(field.kernel).copy()

    def contains(self, arm: int) -> bool:
        """Return whether the field has a sensor of this number."""
        return arm in range(len(self.prior))

    def place(self, arm: int) -> Array:
        """Return the number of the sensor as a place, (1,)."""
        return np.array([float(arm)])

    def covariance(self, P: Array, Q: Array) -> Array:
        """Return the prior covariance (p, q) of sensors, which is part of the field's matrix."""
        return self._kernel[P.astype(np.intp), Q[:, 0].astype(np.intp)]

    def variance(self, P: Array) -> Array:
        """Return the prior variance (p,) of sensors, from the diagonal of the field's matrix."""
        return self.prior[P[:, 0].astype(np.intp)]

    def candidate(self, arm: int) -> int:
        """Return the number of the sensor itself, because every sensor is a candidate."""
        return arm

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> int:
        """Return the best candidate, because a sensor field has no other arms."""
        return index


class BoxSpace:
    """The arm space of a `BoxField`; the place of an arm is the point itself, (d,)."""

    def __init__(self, field: BoxField) -> None:
        self._field = field
        self.candidates = field.positions
        self.prior = self.variance(self.candidates)
        self.covariance = field.spatial

    def contains(self, arm: Point) -> bool:
        """Return whether a point lies inside the box."""
        return self._field.contains(self.place(arm)[None, :])

    def place(self, arm: Point) -> Array:
        """Return the point as an array, (d,)."""
        return np.array(arm, np.float64)

    def variance(self, P: Array) -> Array:
        """Return the prior variance (p,), which is the same everywhere in the box."""
        return np.full(len(P), self._field.spatial.variance)

    def candidate(self, arm: Point) -> None:
        """Return None: most points of a box are not among its candidates."""
        return None  # noqa: RET501 - the protocol asks for a value

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> Point:
        """Return the point that a local search from the best candidates finds."""
        return self._field.local_search(score, index, scores)


def arm_space(field: Field) -> ArmSpace:
    """Return the arm space of a field."""
    return BoxSpace(field) if isinstance(field, BoxField) else SensorSpace(field)


def arm_state(arm: Arm) -> Any:
    """Return an arm in the form that a snapshot stores."""
    return list(arm) if isinstance(arm, tuple) else arm


def arms_from_state(field: Field, states: Any) -> tuple[Arm, ...]:
    """Return the arms of a list from a snapshot, the inverse of `arm_state`.

    Raises `SnapshotError` if the list is invalid.
    """
    if not isinstance(states, list):
        raise SnapshotError("The snapshot's 'asked' is not a list.")
    return tuple(_arm_from_state(field, state) for state in states)


def _arm_from_state(field: Field, state: Any) -> Arm:
    if isinstance(field, BoxField):
        is_point = isinstance(state, list) and len(state) == len(field.lower)
        if is_point and all(isinstance(x, float) for x in state):
            return tuple(state)
    elif type(state) is int and 0 <= state < len(field):
        return state
    raise SnapshotError("The snapshot's 'asked' names an arm that does not exist.")
