"""Arm spaces: one interface for the arms of both kinds of field: sensors, and points of a box."""

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
    """Protocol of an arm space: the places of a field's arms, and the prior covariance of places.

    A place is an array of d numbers. An arm space has M candidates. For a field of sensors, they
    are the places of all sensors. For a box, they are a sample of its points, and a search for the
    best arm starts at the candidate that has the highest score.
    """

    candidates: Array  # (M, d) places that are compared with each other
    prior: Array  # (M,) prior variance of the candidates, in model units²

    def place(self, arm: Arm) -> Array:
        """Return the place of `arm` in the arm space, an array of shape (d,)."""
        ...

    def covariance(self, P: Array, Q: Array) -> Array:
        """Return the prior covariance (p, q) between the places P (p, d) and Q (q, d)."""
        ...

    def variance(self, P: Array) -> Array:
        """Return the prior variances, of shape (p,), of places P (p, d) in the arm space."""
        ...

    def candidate(self, arm: Arm) -> int | None:
        """Return the index of `arm` among the arm space's candidates; None in a box."""
        ...

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> Arm:
        """Return the arm with the highest score in the arm space.

        `index` is the index of the best candidate, and `scores`, of shape (M,), holds the scores of
        all candidates. The function `score` maps places of shape (p, d) to scores of shape (p,).
        """
        ...


class SensorSpace:
    """The arm space of a `SensorField`; the place of an arm is an array with the arm's index."""

    def __init__(self, field: SensorField) -> None:
        self._kernel = field.kernel
        self.candidates = np.arange(len(field), dtype=np.float64)[:, None]
        self.prior = np.diag(field.kernel).copy()

    def place(self, arm: int) -> Array:
        """Return the place of a sensor in the arm space: its index, an array of shape (1,)."""
        return np.array([float(arm)])

    def covariance(self, P: Array, Q: Array) -> Array:
        """Return the prior covariance (p, q) of sensors with the indices P (p, 1) and Q (q, 1)."""
        return self._kernel[P.astype(np.intp), Q[:, 0].astype(np.intp)]

    def variance(self, P: Array) -> Array:
        """Return the prior variances (p,) of sensors with the indices P (p, 1)."""
        return self.prior[P[:, 0].astype(np.intp)]

    def candidate(self, arm: int) -> int:
        """Return `arm`: in the arm space of sensors, candidate i is the sensor with the index i."""
        return arm

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> int:
        """Return `index`: in the arm space of sensors, the best candidate is the best arm."""
        return index


class BoxSpace:
    """The arm space of a `BoxField`; a place is an array of the arm's d coordinates."""

    def __init__(self, field: BoxField) -> None:
        self._field = field
        self.kernel = field.spatial
        self.candidates = field.positions
        self.prior = self.variance(self.candidates)

    def place(self, arm: Point) -> Array:
        """Return the place of a point in the arm space of the box, an array of shape (d,)."""
        return np.array(arm, np.float64)

    def covariance(self, P: Array, Q: Array) -> Array:
        """Return the prior covariance (p, q) between the points P (p, d) and Q (q, d) of a box."""
        return self.kernel(P, Q)

    def variance(self, P: Array) -> Array:
        """Return the prior variances (p,) of points of a box; all of them are equal."""
        return np.full(len(P), self.kernel.variance)

    def candidate(self, arm: Point) -> None:
        """Return None instead of an index: most points of a box are not among its candidates."""
        return None  # noqa: RET501 - the protocol requires a value

    def best(self, index: int, score: Callable[[Array], Array], scores: Array) -> Point:
        """Search the box's arm space, and return the point with the highest score found."""
        return self._field.local_search(score, index, scores)


def arm_space(field: Field) -> ArmSpace:
    """Return the arm space of a field: a `BoxSpace` for a box, otherwise a `SensorSpace`."""
    return BoxSpace(field) if isinstance(field, BoxField) else SensorSpace(field)


def arm_state(arm: Arm) -> Any:
    """Return `arm` as a snapshot stores it: an int for a sensor, a list for a point of a box."""
    return list(arm) if isinstance(arm, tuple) else arm


def arms_from_state(field: Field, states: Any) -> tuple[Arm, ...]:
    """Convert `states`, the list of arms in a snapshot, to arms: the inverse of `arm_state`.

    Raises `SnapshotError` if the list is invalid.
    """
    if not isinstance(states, list):
        raise SnapshotError("The snapshot's selected arms ('asked') are not a list.")
    return tuple(_arm_from_state(field, state) for state in states)


def _arm_from_state(field: Field, state: Any) -> Arm:
    if isinstance(field, BoxField):
        is_point = isinstance(state, list) and len(state) == len(field.lower)
        if is_point and all(isinstance(x, float) for x in state):
            return tuple(state)
    elif type(state) is int and 0 <= state < len(field):
        return state
    raise SnapshotError("The snapshot's selected arms ('asked') include an unknown arm.")
