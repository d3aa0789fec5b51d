"""What is believed of very many arms that few components make up."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import ROUNDED, StateSpaceBase
from edge_tvbo.models.snapshot import check_covariances
from edge_tvbo.models.transitions import Transition
from edge_tvbo.numerics import low_rank

SHARE = 0.01  # of a reading's noise variance: the most that may be left of any arm

Array = NDArray[np.float64]


class Components(NamedTuple):
    """K = Bᵀ B + R, of whose small remainder R the diagonal is known."""

    B: Array  # (r, M)
    rest: Array  # (M,), model units²

    @classmethod
    def of(cls, field: SensorField) -> "Components | None":
        """Give the components of the field's kernel; None where it takes more than M / 3.

        With more, the exact posterior would cost little more than they do.
        """
        M = len(field)
        B, rest = np.empty((M // 3, M)), np.empty(M)
        most = SHARE * field.noise_variance
        rank = low_rank.factor(field.kernel, most, B, rest)
        return cls(B[:rank].copy(), rest) if rest.max() <= most else None


class LowRankPosterior(StateSpaceBase):
    """The posterior under K̃ = Bᵀ B + diag(R) instead of K, which is close to it.

    What an arm has for itself, diag(R), is never learned: prior variances are exact, and a reading
    counts as if its noise variance were larger by R times the prior's scale; that is 1 % at most,
    where the scale does not grow beyond 1. With w the weights of n
    readings y in a mean, W = 1 + Σ|w| and R the largest remainder, a mean is off by at most
    |y| W √(R / σ²) and a variance by at most W² R: both fall to 0 with what is left out.

    Parameters
    ----------
    field, temporal
        As for `StateSpaceBase`.
    components : Components
        Of the field's kernel.
    """

    def __init__(self, field: SensorField, temporal: Transition, components: Components) -> None:
        super().__init__(field, temporal)
        self._B, self._rest = components
        r, M = self._B.shape
        self._covariance = np.eye(r)  # of the components
        self._h, self._g = np.empty(r), np.empty(M)
        self.mean = np.zeros(M)
        self.variance = np.diag(field.kernel).copy()

    def account(self) -> tuple[str, ...]:
        """Say how many components stand for how many arms."""
        r, M = self._B.shape
        return (f"{r} components stand for {M} sensors, to {SHARE:.0%} of a reading's noise",)

    def observe(self, arm: int, y: float) -> None:
        """Take in a reading of `arm`, in model units, at the current interval."""
        low_rank.condition(
            self.mean,
            self.variance,
            self._covariance,
            self._B,
            self._rest,
            self.prior,
            arm,
            y,
            self._noise_variance,
            self._h,
            self._g,
        )
        self.observations += 1

    def advance(self) -> None:
        """Move on by one interval."""
        if self._changes:
            low_rank.evolve(
                self.mean,
                self.variance,
                self._covariance,
                self._kernel,
                self._retain,
                self._inject,
            )
            self.prior = self._retain * self.prior + self._inject

    def reset(self) -> None:
        """Forget every reading, not the time: the prior of the current interval is left."""
        low_rank.forget(self.mean, self.variance, self._covariance, self._kernel, self.prior)
        self.observations = 0

    def _check(self, state: dict[str, Any], prior: float) -> None:
        check_covariances("covariance", np.ones(1), state)
        right = (self._B * (state["covariance"] @ self._B)).sum(axis=0) + prior * self._rest
        off = ROUNDED * np.abs(right).max()
        if (state["variance"] < 0).any() or not np.allclose(state["variance"], right, 0.0, off):
            raise SnapshotError("The snapshot's 'variance' does not follow from its components.")

    def _arrays(self) -> dict[str, Array]:
        return {"mean": self.mean, "variance": self.variance, "covariance": self._covariance}

    def _kind(self) -> str:
        return f"low-rank {len(self._B)} {self._retain!r} {self._inject!r}"
