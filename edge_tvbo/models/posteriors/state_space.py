"""State-space posterior: exact for any number of readings, in memory of fixed size.

`StateSpacePosterior` equals the textbook posterior (Rasmussen & Williams eq. 2.25-2.26) except for
rounding. An interval costs O(M²) for M arms, however long the history is. `StateSpaceBase` is the
base class of the posteriors of all one-component temporal models.
"""

from abc import ABC, abstractmethod
from math import sqrt
from typing import Any

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import FiniteArmsMixin
from edge_tvbo.models.regression import floored_noise
from edge_tvbo.models.snapshot import (
    AnyArray,
    State,
    check_arrays,
    check_covariances,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
    read_number,
)
from edge_tvbo.models.temporal_models import Transition
from edge_tvbo.numerics import state_space
from edge_tvbo.numerics.types import Array

ROUNDING_TOLERANCE = 1e-3  # allowed error of an array, as a share of its largest entry


class StateSpaceBase(FiniteArmsMixin, ABC):
    """Base class of the posteriors of one-component models; it implements prior and snapshots.

    Parameters
    ----------
    field : SensorField
        M arms, their prior covariance and noise variance.
    transition : Transition
        How the field changes in one interval.

    Notes
    -----
    The noise variance has a lower limit; see `floored_noise`.
    """

    def __init__(self, field: SensorField, transition: Transition) -> None:
        self._field = field
        self._kernel = field.kernel
        self._variances = np.diag(field.kernel).tolist()
        self._noise_variance = floored_noise(field.noise_variance, field.kernel)
        self._retain, self._inject = transition
        self._changes = transition != (1.0, 0.0)
        self.prior = 1.0  # scale of the kernel in the prior of the current interval
        self.observations = 0

    def prior_std(self, arm: int) -> float:
        """Return the state space's prior standard deviation of `arm` in the current interval."""
        return sqrt(self.prior * self._variances[arm])

    def snapshot(self) -> bytes:
        """Return the state of the state-space posterior as bytes, for `restore`."""
        held = {"prior": self.prior, "observations": self.observations}
        state = {**held, **self._counters(), **self._stored_arrays()}
        return encode_snapshot(self._kind(), self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load a state-space posterior's state, or raise `SnapshotError` and change nothing."""
        state = self._decoded(blob)
        prior = read_number(state, "prior")
        read_count(state, "observations")
        if prior < 0:
            raise SnapshotError("The snapshot's 'prior' is negative.")
        self._check(state, prior)
        self._take(state)

    def undo(self, before: bytes) -> None:
        """Load the snapshot `before`, an earlier state of this state space, without checks."""
        self._take(self._decoded(before))

    def _decoded(self, blob: bytes) -> State:
        state = decode_snapshot(self._kind(), self._field.fingerprint(), blob)
        return self._checked_arrays(state)

    def _take(self, state: State) -> None:
        self.prior, self.observations = float(state["prior"]), state["observations"]
        self._load(state)

    def _counters(self) -> State:
        """Return the numbers, by name, that a subclass adds to a state-space snapshot."""
        return {}

    def _stored_arrays(self) -> dict[str, AnyArray]:
        """Return the arrays that a snapshot of a state-space posterior contains, by name."""
        return self._arrays()

    def _checked_arrays(self, state: State) -> State:
        """Check the arrays in a state-space posterior's `state`; return the state for `_load`.

        A subclass may convert the arrays. Raises `SnapshotError` if an array is invalid.
        """
        check_arrays(self._arrays(), state)
        return state

    def _load(self, state: State) -> None:
        """Load `state`, which has been checked, into the state-space posterior."""
        copy_arrays(self._arrays(), state)

    @abstractmethod
    def _check(self, state: State, prior: float) -> None:
        """Raise `SnapshotError` unless `state` is valid for this state-space posterior.

        `prior` is the scale of the prior that `state` contains. The caller has checked that all
        numbers in `state` are finite.
        """

    @abstractmethod
    def _arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of a state-space posterior, by name."""

    @abstractmethod
    def _kind(self) -> str:
        """Return the text that identifies the state-space posterior's class and settings."""


class KalmanBase(StateSpaceBase):
    """Base class of the posteriors of fixed size that can advance by fractions of an interval."""

    def advance(self) -> None:
        """Advance the state-space posterior by one interval."""
        if self._changes:
            self._evolve(self._retain, self._inject)

    def advance_by(self, dt: float) -> None:
        """Advance the state-space posterior by `dt` intervals, a number above 0."""
        if self._changes:
            self._evolve(*Transition(self._retain, self._inject).over(dt))

    def skip(self, intervals: int) -> None:
        """Advance the state-space posterior by several intervals without readings, at once."""
        self.advance_by(float(intervals))

    @abstractmethod
    def _evolve(self, retain: float, inject: float) -> None:
        """Advance the state and its prior's scale; `retain` and `inject` are as in `Transition`."""


class StateSpacePosterior(KalmanBase):
    """The exact posterior of a state-space model, as the mean and covariance of all arms.

    Parameters
    ----------
    field, transition
        As for `StateSpaceBase`.

    Attributes
    ----------
    covariance : (M, M) array
        Posterior covariance in model units², symmetric to the last bit.
    """

    def __init__(self, field: SensorField, transition: Transition) -> None:
        super().__init__(field, transition)
        M = len(field)
        self._workspace = np.empty(M)
        self.mean = np.zeros(M)
        self.covariance = field.kernel.copy()
        self.variance = _diagonal(self.covariance)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Load the attributes of a copied or pickled state-space posterior."""
        self.__dict__.update(attributes)
        self.variance = _diagonal(self.covariance)  # in a copy, the view has become an array

    def observe(self, arm: int, y: float) -> None:
        """Update the state-space posterior with a reading `y` of `arm`, in model units."""
        state_space.condition(
            self.mean, self.covariance, arm, y, self._noise_variance, self._workspace
        )
        self.observations += 1

    def reset(self) -> None:
        """Reset the state-space posterior to the current interval's prior: drop all readings."""
        state_space.reset_to_prior(self.mean, self.covariance, self._kernel, self.prior)
        self.observations = 0

    def _evolve(self, retain: float, inject: float) -> None:
        state_space.evolve(self.mean, self.covariance, self._kernel, retain, inject)
        self.prior = retain * self.prior + inject

    def _check(self, state: State, prior: float) -> None:
        check_covariances("covariance", self._kernel, state)

    def _arrays(self) -> dict[str, Any]:
        return {"mean": self.mean, "covariance": self.covariance}

    def _kind(self) -> str:
        return f"state-space {self._retain!r} {self._inject!r}"


def _diagonal(C: Array) -> Array:
    """Return the diagonal of the state-space covariance `C` as a view: it changes with `C`."""
    return C.reshape(-1)[:: len(C) + 1]
