"""Protocol of the posteriors that policies use, and mixins that find the arm to select."""

from abc import abstractmethod
from typing import Protocol, runtime_checkable

import msgspec
import numpy as np

from edge_tvbo.models.arm_space import Arm, ArmSpace, Field
from edge_tvbo.models.facts import Fact
from edge_tvbo.numerics.acquisition import highest_bound, standard_deviations
from edge_tvbo.numerics.types import Array, Mask


class Prediction(msgspec.Struct, frozen=True, gc=False):
    """The predicted mean and standard deviation of one arm, in model units."""

    arm: Arm
    mean: float
    std: float


class Posterior(Protocol):
    """Protocol of a posterior: mean and variance of every arm in the current interval."""

    observations: int  # number of readings that the posterior holds; 0 after a reset

    @property
    def mean(self) -> Array:
        """Posterior mean of every arm, (M,), in model units.

        The array is a view, which is valid until the next call of a method.
        """
        ...

    @property
    def variance(self) -> Array:
        """Posterior variance of every arm, (M,), in model units², >= 0.

        The array is a view, which is valid until the next call of a method.
        """
        ...

    def at(self, arm: Arm) -> Prediction:
        """Return the posterior's prediction of `arm` in the current interval."""
        ...

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Prediction | None:
        """Return the posterior's prediction of the eligible arm with the highest bound.

        Parameters
        ----------
        width : float
            Width of the confidence bound in standard deviations.
        eligible : (M,) bool array
            Arms that may be chosen; the result is None if no arm is eligible.
        seed, counter : int
            Seed and counter of the draw that breaks ties between equal bounds.
        """
        ...

    def prior_std(self, arm: Arm) -> float:
        """Return the prior standard deviation of `arm`: its standard deviation after a reset."""
        ...

    def observe(self, arm: Arm, y: float) -> None:
        """Update the posterior with `y`, a reading of `arm` in this interval, in model units."""
        ...

    def advance(self) -> None:
        """Advance the posterior by one interval."""
        ...

    def reset(self) -> None:
        """Reset the posterior to the prior of the current interval: drop all readings."""
        ...

    def mean_std(self) -> tuple[Array, Array]:
        """Return copies of the posterior's mean and standard deviation of every arm, both (M,)."""
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return facts that explain the posterior, such as its approximations.

        The tuple can be empty.
        """
        ...

    def snapshot(self) -> bytes:
        """Return the posterior's state as bytes.

        A posterior that is restored from these bytes returns the same numbers to the last bit.
        """
        ...

    def restore(self, blob: bytes) -> None:
        """Load the state of a posterior, or raise `SnapshotError` and change nothing."""
        ...


class SkippingPosterior(Posterior, Protocol):
    """Protocol of a posterior that advances by many intervals as fast as by one interval."""

    def skip(self, intervals: int) -> None:
        """Advance the posterior by several intervals without readings, at once.

        Apart from rounding errors, the result is the same as after one call of `Posterior.advance`
        for each interval.

        Parameters
        ----------
        intervals : int
            Number of intervals, at least 1.
        """
        ...


@runtime_checkable
class RealTimePosterior(Posterior, Protocol):
    """Protocol of a posterior whose time can be any real number of intervals."""

    def advance_by(self, dt: float) -> None:
        """Advance the posterior by `dt` intervals, a finite number above 0.

        If the posterior cannot advance by `dt`, `ValueError` is raised and nothing changes.
        """
        ...


class FiniteArmsMixin:
    """Mixin for posteriors of finitely many arms; `mean` and `variance` are the predictions."""

    mean: Array
    variance: Array

    def at(self, arm: int) -> Prediction:
        """Return the posterior prediction of `arm`, one of finitely many arms."""
        return Prediction(arm, self.mean.item(arm), self.variance.item(arm) ** 0.5)

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Prediction | None:
        """Return the posterior prediction of the eligible arm with the highest bound."""
        arm = highest_bound(self.mean, self.variance, width, eligible, seed, counter)
        return None if arm < 0 else self.at(arm)

    def mean_std(self) -> tuple[Array, Array]:
        """Return copies of the posterior's `mean` and √`variance`, both (M,)."""
        mean, std = self.mean.copy(), self.mean.copy()
        standard_deviations(self.variance, std)
        return mean, std

    def facts(self) -> tuple[Fact, ...]:
        """Return an empty tuple of facts: the posterior has no approximation to explain."""
        return ()


class CandidatesMixin:
    """Mixin for posteriors whose method `_predict` predicts any place of an arm space.

    `mean` and `variance` have one entry for each candidate. In a box, `highest` also searches the
    points between the candidates.
    """

    _field: Field
    _space: ArmSpace

    @property
    def mean(self) -> Array:
        """Posterior mean of every candidate, (M,), in model units."""
        return self._candidate_prediction()[0]

    @property
    def variance(self) -> Array:
        """Posterior variance of every candidate, (M,), in model units²."""
        return self._candidate_prediction()[1]

    @abstractmethod
    def at(self, arm: Arm) -> Prediction:
        """Return the posterior's prediction of `arm`, a sensor or any point of a box."""

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Prediction | None:
        """Return the posterior's prediction of the eligible arm with the highest bound.

        The arm is a sensor, or a point in a box. If all candidates of a box are eligible, the whole
        box is searched. Otherwise, only the eligible candidates are compared.
        """
        index = highest_bound(self.mean, self.variance, width, eligible, seed, counter)
        if index < 0:
            return None
        if not eligible.all():
            return self.at(self._field.arm(index))

        def bound(P: Array) -> Array:
            mean, variance = self._predict(P)
            return mean + width * np.sqrt(variance)

        scores = self.mean + width * np.sqrt(self.variance)
        return self.at(self._space.best(index, bound, scores))

    def mean_std(self) -> tuple[Array, Array]:
        """Return copies of every candidate's posterior mean and standard deviation, both (M,)."""
        return self.mean.copy(), np.sqrt(self.variance)

    def facts(self) -> tuple[Fact, ...]:
        """Return an empty tuple of facts, because this posterior is exact for the held readings."""
        return ()

    @abstractmethod
    def _candidate_prediction(self) -> tuple[Array, Array]:
        """Return the posterior mean and variance of every candidate, both (M,)."""

    @abstractmethod
    def _predict(self, P: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance at places P (p, d), both (p,)."""
