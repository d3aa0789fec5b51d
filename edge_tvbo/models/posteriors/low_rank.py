"""Low-rank posterior: approximates the covariance of many arms by few components."""

from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.facts import Fact, LowRankApproximation
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import ROUNDING_TOLERANCE, KalmanBase
from edge_tvbo.models.snapshot import AnyArray, State, check_covariances
from edge_tvbo.models.temporal_models import Transition
from edge_tvbo.numerics import low_rank
from edge_tvbo.numerics.types import Array

MAX_NOISE_SHARE = 0.01  # largest omitted variance of an arm, as a share of the noise variance


class KernelComponents(NamedTuple):
    """A factorisation of a kernel, K = Bᵀ B + R; only the diagonal of the remainder R is stored."""

    B: Array  # (r, M)
    rest: Array  # (M,), diagonal of R, in model units²

    @classmethod
    def of_field(cls, field: SensorField) -> "KernelComponents | None":
        """Return a low-rank approximation of the field's kernel matrix (M, M).

        Return None if the approximation needs a rank above M / 3, because the exact posterior is
        then hardly slower.
        """
        M = len(field)
        B, rest = np.empty((M // 3, M)), np.empty(M)
        max_rest = MAX_NOISE_SHARE * field.noise_variance
        rank = low_rank.pivoted_cholesky(field.kernel, max_rest, B, rest)
        return cls(B[:rank].copy(), rest) if rest.max() <= max_rest else None


class LowRankPosterior(KalmanBase):
    """An approximate posterior, which replaces the field's kernel K by Bᵀ B + diag(R).

    Parameters
    ----------
    field, transition
        As for `StateSpaceBase`.
    components : KernelComponents
        Components of the field's kernel.

    Notes
    -----
    The prior variances are exact. The remainder of an arm is its entry of R, multiplied by the
    scale of the prior. Readings do not reduce this part of the arm's variance. For each reading of
    the arm, the remainder is added to the noise variance σ². If the scale is at most 1, the
    remainder is at most 1 % of σ².

    To bound the errors, let ρ be the largest remainder. A mean is a weighted sum of the readings y,
    with weights w. Let W be 1 + Σ|w| for the exact mean or for the approximate mean, whichever is
    larger. The error of the mean is at most |y| W √(ρ / σ²), and the error of a variance is at most
    W² ρ.
    """

    def __init__(
        self, field: SensorField, transition: Transition, components: KernelComponents
    ) -> None:
        super().__init__(field, transition)
        self._B, self._rest = components
        r, M = self._B.shape
        self._covariance = np.eye(r)  # covariance of the components
        self._h, self._g = np.empty(r), np.empty(M)
        self.mean = np.zeros(M)
        self.variance = np.diag(field.kernel).copy()

    def facts(self) -> tuple[Fact, ...]:
        """Return one fact: the number of components of the posterior's low-rank approximation."""
        r, M = self._B.shape
        return (LowRankApproximation(r, M, MAX_NOISE_SHARE),)

    def observe(self, arm: int, y: float) -> None:
        """Update the low-rank posterior with a reading `y` of `arm`, in model units."""
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

    def reset(self) -> None:
        """Reset the low-rank posterior to the current interval's prior: drop all readings."""
        low_rank.reset_to_prior(
            self.mean, self.variance, self._covariance, self._kernel, self.prior
        )
        self.observations = 0

    def _evolve(self, retain: float, inject: float) -> None:
        low_rank.evolve(self.mean, self.variance, self._covariance, self._kernel, retain, inject)
        self.prior = retain * self.prior + inject

    def _check(self, state: State, prior: float) -> None:
        check_covariances("covariance", np.ones(1), state)
        right = (self._B * (state["covariance"] @ self._B)).sum(axis=0) + prior * self._rest
        off = ROUNDING_TOLERANCE * np.abs(right).max()
        if (state["variance"] < 0).any() or not np.allclose(state["variance"], right, 0.0, off):
            raise SnapshotError("The snapshot's 'variance' does not match its components.")

    def _arrays(self) -> dict[str, AnyArray]:
        return {"mean": self.mean, "variance": self.variance, "covariance": self._covariance}

    def _kind(self) -> str:
        return f"low-rank {len(self._B)} {self._retain!r} {self._inject!r}"
