"""The TTV model: one field that turns into another."""

import math
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.temporal_models import FittableModel, TwoComponentTransition, log_uniform
from edge_tvbo.numerics.types import Array

if TYPE_CHECKING:
    from numpy.random import Generator  # an import at run time would take 3 MiB


class Sigmoid(FittableModel, frozen=True):
    """The TTV model: one field turns into another.

    The old field h_1 turns into the new field h_2: f_t = (1 - s(t)) h_1 + s(t) h_2 with
    s(t) = 1 / (1 + exp((τ - t) / ρ)), so that d(t, t') = 2 s(t) s(t') - s(t) - s(t') + 1.

    Parameters
    ----------
    tau : float
        τ, the interval in which half of the transition is over.
    rho : float
        ρ, duration of the transition, above 0: s(t) grows from 12 % to 88 % in 4 ρ intervals.

    Raises
    ------
    ConfigError
        If `tau` is not finite or `rho` is not above 0.

    References
    ----------
    [M24] eq. 9.1-9.3.

    Examples
    --------
    >>> Sigmoid(5.0, 2.0).variance(np.array([5.0]))
    array([0.5])
    """

    SNAPSHOT_NAME: ClassVar[str] = "SigmoidKernel"

    tau: float
    rho: float

    def __post_init__(self) -> None:
        if not (self.rho > 0 and abs(self.tau) < float("inf") and self.rho < float("inf")):
            raise ConfigError(
                f"tau is {self.tau}, rho is {self.rho}; "
                "both must be finite, and rho must be above 0."
            )

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the TTV sigmoid's kernel d(t, t') of all pairs of times, (n, m), [M24] eq. 9.3.

        d(t, t') = s(t) s(t') + (1 - s(t)) (1 - s(t')), where s is the share of the new field.
        """
        shares = self._shares(s)
        shares_t = shares if t is s else self._shares(t)
        return np.asarray(np.stack(shares, axis=1) @ np.stack(shares_t))

    def variance(self, t: Array) -> Array:
        """Return the TTV sigmoid's variance s(t)² + (1 - s(t))² at times `t`, (m,).

        Here s is the share of the new field. The variance is 1 far from the transition, and ½ in
        the middle of the transition.
        """
        old, new = self._shares(t)
        return np.asarray(old**2 + new**2)

    def transition(self) -> TwoComponentTransition:
        """Return the sigmoid transition of TTV; its components are the old and the new field."""
        return TwoComponentTransition(
            snapshot_kind=f"ttv {self.tau!r} {self.rho!r}",
            prior=np.eye(2),
            matrix=np.eye(2),
            innovation=np.zeros((2, 2)),
            weights=self._weights,
        )

    def kernel_gradient(self, s: Array, t: Array) -> Array:
        """Return the derivatives of the TTV sigmoid's kernel with respect to τ and ρ, (2, n, m).

        The source is [M24] eq. 9.2.
        """
        slopes, leans = self._slopes_and_leans(s)
        slopes_t, leans_t = (slopes, leans) if t is s else self._slopes_and_leans(t)
        left = np.stack([slopes, leans], axis=2)  # (2, n, 2)
        right = np.stack([leans_t, slopes_t], axis=1)  # (2, 2, m)
        return np.asarray(left @ right)

    def coordinates(self) -> Array:
        """Return the coordinates of the sigmoid of the TTV model, (τ, ln ρ)."""
        return np.array([self.tau, math.log(self.rho)])

    def at_coordinates(self, coordinates: Array) -> Self:
        """Return the TTV sigmoid whose search coordinates are (τ, ln ρ)."""
        return type(self)(float(coordinates[0]), math.exp(coordinates[1]))

    def jacobian(self) -> Array:
        """Return the derivatives (2, 2) of the TTV sigmoid's (τ, ρ) with respect to (τ, ln ρ)."""
        return np.diag([1.0, self.rho])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Return the TTV sigmoid's bounds: τ from -horizon to 2 horizon, ρ from 0.1 to horizon."""
        span = max(horizon, 1.0)
        return np.array([[-span, 2.0 * span], [0.1, span]])

    @classmethod
    def random(cls, rng: "Generator", horizon: float) -> Self:
        """Return a random sigmoid model.

        τ is uniform in [0, horizon], and ρ is log-uniform in [½, horizon/2].
        """
        span = max(horizon, 1.0)
        return cls(float(rng.uniform(0.0, span)), log_uniform(rng, 0.5, max(0.5 * span, 0.5)))

    def _weights(self, time: int) -> tuple[float, float]:
        """Return the weights of the old and of the new field in the sigmoid's interval `time`."""
        s = 1.0 / (1.0 + math.exp(min((self.tau - time) / self.rho, 700.0)))
        return 1.0 - s, s

    def _shares(self, t: Array) -> tuple[Array, Array]:
        """Return the sigmoid shares 1 - s and s at times `t`, (m,), to full relative precision."""
        x, e = self._decay(t)
        greater, less = 1.0 / (1.0 + e), e / (1.0 + e)
        late = x >= 0.0
        return np.where(late, less, greater), np.where(late, greater, less)

    def _slopes_and_leans(self, t: Array) -> tuple[Array, Array]:
        """Return the sigmoid's derivatives at `t`, (2, m), and two equal rows 2 s - 1, (2, m)."""
        old, new = self._shares(t)
        return self._share_slopes(t), np.stack([new - old, new - old])

    def _share_slopes(self, t: Array) -> Array:
        """Return the derivatives of the sigmoid, ds/dτ and ds/dρ at `t`, (2, m), [M24] eq. 9.2.

        The function exp is computed for negative numbers only, so that no result is infinite.
        """
        x, e = self._decay(t)
        steepness = e / ((1.0 + e) ** 2 * self.rho)
        return np.asarray(np.stack([-steepness, -x * steepness]))

    def _decay(self, t: Array) -> tuple[Array, Array]:
        """Return the sigmoid's x = (t - τ) / ρ, clipped to ±800, and exp(-|x|), both (m,)."""
        with np.errstate(over="ignore"):
            x = np.clip((np.asarray(t, np.float64) - self.tau) / self.rho, -800.0, 800.0)
        return x, np.exp(-np.abs(x))
