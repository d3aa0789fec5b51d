"""What is believed of every arm now: the protocol, and the engine that remembers every reading.

`StateSpacePosterior` is exact whatever the length of the history, at O(M²) an interval: the
textbook posterior (Rasmussen & Williams eq. 2.25-2.26) to rounding.
"""

from abc import ABC, abstractmethod
from math import sqrt
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.domain import Arm
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import (
    check_arrays,
    check_covariances,
    copy_arrays,
    number,
    seal,
    unseal,
    whole,
)
from edge_tvbo.models.transitions import Transition
from edge_tvbo.numerics import state_space
from edge_tvbo.numerics.acquisition import highest_bound

ROUNDED = 1e-3  # of the largest entry: what updates and one computation anew may differ by

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Belief(msgspec.Struct, frozen=True, gc=False):
    """What is believed of one arm, in model units."""

    arm: Arm
    mean: float
    std: float


class Posterior(Protocol):
    """Mean and variance of every arm at the current interval."""

    observations: int  # readings held since the last reset

    @property
    def mean(self) -> Array:
        """Mean of every arm, (M,), model units; a view, valid until the next call."""
        ...

    @property
    def variance(self) -> Array:
        """Variance of every arm, (M,), model units², >= 0; likewise."""
        ...

    def at(self, arm: Arm) -> Belief:
        """Give what is believed of `arm` at the current interval."""
        ...

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Belief | None:
        """Give the arm with the highest mean + width · std among the eligible (bool[M]).

        `seed` and `counter` decide between arms that tie; None where no arm is eligible.
        """
        ...

    def prior_std(self, arm: Arm) -> float:
        """Give the standard deviation of `arm` now, were nothing known of it."""
        ...

    def observe(self, arm: Arm, y: float) -> None:
        """Take in a reading of `arm`, in model units, at the current interval."""
        ...

    def advance(self) -> None:
        """Move on by one interval."""
        ...

    def reset(self) -> None:
        """Forget every reading, not the time: the prior of the current interval is left."""
        ...

    def mean_std(self) -> tuple[Array, Array]:
        """Give copies of the mean and the standard deviation of every arm."""
        ...

    def account(self) -> tuple[str, ...]:
        """Say what is taken for less than it is, in words; nothing where all is exact."""
        ...

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        ...

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        ...


class FiniteArmsMixin:
    """Looks up beliefs in the arrays `mean` and `variance` of a finite number of arms."""

    mean: Array
    variance: Array

    def at(self, arm: int) -> Belief:
        """Give what is believed of `arm` at the current interval."""
        return Belief(arm, float(self.mean[arm]), float(self.variance[arm]) ** 0.5)

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Belief | None:
        """Give the eligible arm with the highest mean + width · std."""
        arm = highest_bound(self.mean, self.variance, width, eligible, seed, counter)
        return None if arm < 0 else self.at(arm)

    def mean_std(self) -> tuple[Array, Array]:
        """Give copies of the mean and the standard deviation of every arm."""
        return self.mean.copy(), np.sqrt(self.variance)

    def account(self) -> tuple[str, ...]:
        """Give nothing: all is exact, or was asked for."""
        return ()


class StateSpaceBase(FiniteArmsMixin, ABC):
    """What engines of a `Transition` share: the scale of their prior, and what they keep of it.

    Parameters
    ----------
    field : SensorField
        M arms, their prior covariance and noise.
    temporal : Transition
        What an interval does: `Static()`, `TimeVarying(epsilon)`, `UncertaintyInjection(sigma_w2)`.
    """

    def __init__(self, field: SensorField, temporal: Transition) -> None:
        self._field = field
        self._kernel = field.kernel
        self._variances = np.diag(field.kernel).tolist()
        self._noise_variance = field.noise_variance
        self._retain, self._inject = temporal
        self._changes = temporal != (1.0, 0.0)
        self.prior = 1.0  # scale of the kernel in the prior of the current interval
        self.observations = 0

    def prior_std(self, arm: int) -> float:
        """Give the standard deviation of `arm` now, were nothing known of it."""
        return sqrt(self.prior * self._variances[arm])

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        held = {"prior": self.prior, "observations": self.observations}
        state = {**held, **self._counts(), **self._arrays()}
        return seal(self._kind(), self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = unseal(self._kind(), self._field.fingerprint(), blob)
        prior, observations = scale_of(state), whole(state, "observations")
        check_arrays(self._arrays(), state)
        self._check(state, prior)
        self.prior, self.observations = prior, observations
        self._resume(state)

    def _counts(self) -> dict[str, Any]:
        """Give the state beside all that."""
        return {}

    def _resume(self, state: dict[str, Any]) -> None:
        """Return to a state that was checked."""
        copy_arrays(self._arrays(), state)

    @abstractmethod
    def _check(self, state: dict[str, NDArray[Any]], prior: float) -> None:
        """Raise `SnapshotError` where sound arrays are no state of this."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Give the state, as the arrays that hold it."""

    @abstractmethod
    def _kind(self) -> str:
        """Give what tells a snapshot of another engine or other settings."""


class StateSpacePosterior(StateSpaceBase):
    """The exact posterior, as the mean and covariance of all arms.

    Parameters
    ----------
    field, temporal
        As for `StateSpaceBase`.

    Attributes
    ----------
    covariance : (M, M) array
        Of the posterior, in model units²; symmetric to the last bit.
    """

    def __init__(self, field: SensorField, temporal: Transition) -> None:
        super().__init__(field, temporal)
        M = len(field)
        self._workspace = np.empty(M)
        self.mean = np.zeros(M)
        self.covariance = field.kernel.copy()
        self.variance = self.covariance.reshape(-1)[:: M + 1]

    def observe(self, arm: int, y: float) -> None:
        """Take in a reading of `arm`, in model units, at the current interval."""
        state_space.condition(
            self.mean, self.covariance, arm, y, self._noise_variance, self._workspace
        )
        self.observations += 1

    def advance(self) -> None:
        """Move on by one interval."""
        if self._changes:
            state_space.evolve(self.mean, self.covariance, self._kernel, self._retain, self._inject)
            self.prior = self._retain * self.prior + self._inject

    def reset(self) -> None:
        """Forget every reading, not the time: the prior of the current interval is left."""
        state_space.forget(self.mean, self.covariance, self._kernel, self.prior)
        self.observations = 0

    def _check(self, state: dict[str, NDArray[Any]], prior: float) -> None:
        check_covariances("covariance", self._kernel, state)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"mean": self.mean, "covariance": self.covariance}

    def _kind(self) -> str:
        return f"state-space {self._retain!r} {self._inject!r}"


def scale_of(state: dict[str, Any]) -> float:
    """Give the prior's scale in a snapshot, or raise `SnapshotError`."""
    prior = number(state, "prior")
    if prior < 0:
        raise SnapshotError("The snapshot's 'prior' is negative.")
    return prior
