"""The MTV model: changes of the field have momentum, so they continue for a while."""

import math
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.lags import over_lags, slope
from edge_tvbo.models.temporal_models import FittableModel, TwoComponentTransition, log_uniform
from edge_tvbo.numerics.types import Array

if TYPE_CHECKING:
    from numpy.random import Generator  # at run time, the import would take 3 MiB


class Momentum(FittableModel, frozen=True):
    """The MTV model: changes have momentum, so they continue for a while.

    The field is f_{t+1} = ε f_t + √λ u_{t+1} with the momentum u_{t+1} = α u_t + g_{t+1}. The
    innovation g_{t+1} is drawn from the spatial prior. The factor λ keeps the prior variance of f
    constant. With k = |t-t'|, Q_k = (ε^k - α^k) / (ε - α) and c = (1-ε²) / (1+αε), the kernel is

        d(t, t') = ε^k + c α Q_k

    The transition and the kernel are computed without a division by ε - α, so that α = ε is not a
    special case.

    The kernel is positive definite for real lags too. Let a = -ln ε and b = -ln α. The spectral
    density is not negative if sinh(b)/b ≥ sinh(a)/a. This holds because α <= ε means b >= a, and
    sinh(x)/x increases with x.

    Parameters
    ----------
    epsilon : float
        ε, the factor of f_t: the share of the field that is left after an interval, below 1. In
        [B16] and in `TimeVarying`, the letter ε stands for the share of the variance that is *new*.
        Without momentum, a new share ε' corresponds to `epsilon` = √(1-ε').
    alpha : float
        α, the factor of u_t: the share of the momentum that is left after an interval. α must be
        at least 0 and at most ε.

    Raises
    ------
    ConfigError
        Unless 0 <= alpha <= epsilon < 1.

    References
    ----------
    [M24] eq. 8.1 and 8.9; lemma 8.1 for λ.

    Examples
    --------
    >>> Momentum(0.5, 0.5).kernel(np.array([0.0]), np.array([0.0, 1.0])).round(3)
    array([[1. , 0.8]])
    """

    SNAPSHOT_NAME: ClassVar[str] = "MomentumKernel"
    FITS_FRACTIONS: ClassVar[bool] = False

    epsilon: float
    alpha: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= self.epsilon < 1.0:
            raise ConfigError(
                f"epsilon is {self.epsilon}, alpha {self.alpha}; "
                "required: 0 <= alpha <= epsilon < 1."
            )

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the kernel of the momentum model (MTV), [M24] eq. 8.9, (n, m)."""
        return over_lags(self._covariance, s, t)

    def transition(self) -> TwoComponentTransition:
        """Return the transition of the momentum model; its components are f and the momentum u."""
        epsilon, alpha = self.epsilon, self.alpha
        rate = (1 - epsilon**2) * (1 - alpha**2) * (1 - alpha * epsilon) / (1 + alpha * epsilon)
        root = math.sqrt(rate)  # √λ
        shared = root / ((1 - alpha**2) * (1 - alpha * epsilon))
        return TwoComponentTransition(
            snapshot_kind=f"mtv {epsilon!r} {alpha!r}",
            prior=np.array([[1.0, shared], [shared, 1 / (1 - alpha**2)]]),
            matrix=np.array([[epsilon, root * alpha], [0.0, alpha]]),
            innovation=np.array([[rate, root], [root, 1.0]]),
            weights=_field_alone,
        )

    def kernel_gradient(self, s: Array, t: Array) -> Array:
        """Return the momentum (MTV) kernel's derivatives with respect to ε and α, (2, n, m).

        The derivative with respect to α is [M24] eq. 8.7, and the derivative with respect to ε is
        the mirror image of eq. 8.7. As printed, eq. 8.7 is 0/0 at α = ε; the form used here is
        exact at and near α = ε.
        """
        return over_lags(self._slopes, s, t)

    def coordinates(self) -> Array:
        """Return the momentum coordinates (ln(1-ε), ln(1-α/ε)); 1-α/ε counts as at least 1e-300."""
        apart = _apart(self.epsilon, self.alpha) if self.epsilon > 0.0 else 1.0
        return np.array([math.log1p(-self.epsilon), math.log(max(apart, 1e-300))])

    def at_coordinates(self, coordinates: Array) -> Self:
        """Return the momentum model (MTV) at the coordinates (ln(1-ε), ln(1-α/ε)).

        Both coordinates are 0 or less, so α <= ε.
        """
        epsilon = abs(math.expm1(coordinates[0]))
        return type(self)(epsilon, epsilon * abs(math.expm1(coordinates[1])))

    def jacobian(self) -> Array:
        """Return the derivatives (2, 2) of the momentum parameters with respect to coordinates."""
        share = self.alpha / self.epsilon if self.epsilon > 0.0 else 0.0
        left = 1.0 - self.epsilon
        return np.array([[-left, 0.0], [-left * share, self.alpha - self.epsilon]])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Return the bounds (2, 2) of the momentum model's ε and α: 0 and almost 1.

        The bounds alone would permit α > ε; the model's coordinates exclude this case.
        """
        most = 1.0 - 1e-5
        return np.array([[0.0, most], [0.0, most * (1.0 - 1e-6)]])

    @classmethod
    def random(cls, rng: "Generator", horizon: float) -> Self:
        """Return a random momentum model.

        1-ε is log-uniform in [0.001, 0.5], and 1-α is log-uniform in [1-ε, 1].
        """
        left = log_uniform(rng, 1e-3, 0.5)
        epsilon = 1.0 - left
        return cls(epsilon, min(max(1.0 - log_uniform(rng, left, 1.0), 0.0), epsilon))

    def _covariance(self, k: Array) -> Array:
        if self.alpha == 0.0:
            return np.asarray(self.epsilon**k)  # if ε is 0, Q is infinite between lags 0 and 1
        c = (1.0 - self.epsilon**2) / (1.0 + self.alpha * self.epsilon)
        Q = _divided_difference(self.epsilon, self.alpha, k)
        return np.asarray(self.epsilon**k + c * self.alpha * Q)

    def _slopes(self, k: Array) -> Array:
        e, a = self.epsilon, self.alpha
        Q = _divided_difference(e, a, k)
        Q_e, Q_a = _divided_difference_slopes(e, a, k)
        c = (1.0 - e * e) / (1.0 + a * e)
        c_e = -(2.0 * e + a * (1.0 + e * e)) / (1.0 + a * e) ** 2  # dc/dε
        by_epsilon = slope(e, k) + a * (c_e * Q + c * Q_e)
        by_alpha = c * (Q / (1.0 + a * e) + a * Q_a)  # c + α dc/dα = c / (1+αε)
        return np.stack([by_epsilon, by_alpha])


def _field_alone(time: int) -> tuple[float, float]:
    """Return 1 and 0, the weights of f and u: in the momentum model, the field is f alone."""
    return 1.0, 0.0


def _divided_difference(e: float, a: float, k: Array) -> Array:
    """Return the momentum kernel's Q_k = (e^k - a^k) / (e - a) for each lag `k`, (L,).

    The caller ensures 0 <= a <= e.
    """
    return np.asarray(e ** np.where(k == 0.0, 0.0, k - 1.0) * _quotient(_apart(e, a), k))


def _divided_difference_slopes(e: float, a: float, k: Array) -> tuple[Array, Array]:
    """Return the derivatives of the momentum kernel's Q_k with respect to e and a, both (L,).

    Let u = 1 - a/e, and let q be the result of `_quotient`. The derivatives are e^(k-2) h and
    e^(k-2) g, where h = (k - q) / u and g = (q - k (1-u)^(k-1)) / u. If k u is small, these
    two quotients lose digits by cancellation, so `_series` computes h and g instead.
    """
    u = _apart(e, a)
    apart = np.maximum(k, 1.0) * u >= 0.1
    h, g = _series(np.where(apart, 0.0, k), u)
    if apart.any():
        q = _quotient(u, k)
        h = np.where(apart, (k - q) / u, h)
        g = np.where(apart, (q - slope(1.0 - u, k)) / u, g)
    scale = e ** np.where((k == 0.0) | (k == 1.0), 0.0, k - 2.0)  # h and g are 0 for k = 0 and 1
    return scale * h, scale * g


def _quotient(u: float, k: Array) -> Array:
    """Return the momentum kernel's q = (1 - (1-u)^k) / u, (L,), to full precision.

    For u = 0, the limit k is returned.
    """
    if u == 0.0:
        return k
    return np.asarray(-np.expm1(k * (math.log1p(-u) if u < 1.0 else -1e200)) / u)


def _series(k: Array, u: float) -> tuple[Array, Array]:
    """Return h = Σ C(k,j+1) (-u)^(j-1) and g = Σ j C(k,j+1) (-u)^(j-1), j from 1 to 10.

    The slopes of the momentum kernel use h and g if max(k, 1) u < 0.1. The first omitted term is
    then below 1e-16 times the first term or, if k < 1, below 1e-10 times the first term.
    """
    term = k * (k - 1.0) / 2.0
    h, g = term.copy(), term.copy()
    for j in range(2, 11):
        term = term * (k - j) / (j + 1) * -u
        h += term
        g += j * term
    return h, g


def _apart(e: float, a: float) -> float:
    """Return 1 - a/e to full precision, or 0 if e is 0; in the momentum model, e = ε and a = α."""
    return (e - a) / e if e > 0.0 else 0.0
