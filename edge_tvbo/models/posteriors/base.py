"""Posterior protocol: what a policy needs of a model, and the part that finite fields share."""

from typing import Protocol

import msgspec
import numpy as np

from edge_tvbo.models.domain import Arm
from edge_tvbo.models.facts import Fact
from edge_tvbo.numerics.acquisition import highest_bound
from edge_tvbo.numerics.types import Array, Mask


class Prediction(msgspec.Struct, frozen=True, gc=False):
    """The predicted mean and standard deviation of one arm, in model units."""

    arm: Arm
    mean: float
    std: float


class Posterior(Protocol):
    """Mean and variance of every arm at the current interval, given the readings."""

    observations: int  # readings held since the last reset

    @property
    def mean(self) -> Array:
        """Posterior mean of every arm, (M,), in model units; a view, valid until the next call."""
        ...

    @property
    def variance(self) -> Array:
        """Posterior variance of every arm, (M,), in model units², >= 0; a view likewise."""
        ...

    def at(self, arm: Arm) -> Prediction:
        """Return the prediction of `arm` at the current interval."""
        ...

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Prediction | None:
        """Return the prediction of the eligible arm with the highest mean + width · std.

        Parameters
        ----------
        width : float
            Width of the confidence bound in standard deviations.
        eligible : (M,) bool array
            Arms that may be chosen; the result is None if there are none.
        seed, counter : int
            Break ties between equal bounds.
        """
        ...

    def prior_std(self, arm: Arm) -> float:
        """Return the standard deviation of `arm` at this interval without any reading."""
        ...

    def observe(self, arm: Arm, y: float) -> None:
        """Update the posterior with a reading of `arm`, in model units, at this interval."""
        ...

    def advance(self) -> None:
        """Advance the posterior by one interval."""
        ...

    def reset(self) -> None:
        """Drop all readings, and return to the prior of the current interval; time stays."""
        ...

    def mean_std(self) -> tuple[Array, Array]:
        """Return copies of the mean and the standard deviation of every arm, both (M,)."""
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return what the posterior approximates; nothing if it is exact."""
        ...

    def snapshot(self) -> bytes:
        """Return the state as bytes; a restored posterior continues bit for bit."""
        ...

    def restore(self, blob: bytes) -> None:
        """Load the state of a snapshot; raises `SnapshotError`, and then changes nothing."""
        ...


class FiniteArmsMixin:
    """Predictions of a posterior that holds the arrays `mean` and `variance` of all its arms."""

    mean: Array
    variance: Array

    def at(self, arm: int) -> Prediction:
        """Return the prediction of `arm` at the current interval."""
        return Prediction(arm, float(self.mean[arm]), float(self.variance[arm]) ** 0.5)

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Prediction | None:
        """Return the prediction of the eligible arm with the highest mean + width · std."""
        arm = highest_bound(self.mean, self.variance, width, eligible, seed, counter)
        return None if arm < 0 else self.at(arm)

    def mean_std(self) -> tuple[Array, Array]:
        """Return copies of the mean and the standard deviation of every arm, both (M,)."""
        return self.mean.copy(), np.sqrt(self.variance)

    def facts(self) -> tuple[Fact, ...]:
        """Return nothing: the posterior is exact."""
        return ()
