"""Temporal kernels d(t, t') as values: two arrays of times in, covariance out.

What belongs here: the temporal factor of the covariance k(x, x') d(t, t') that an engine in
observation space multiplies with the spatial one, and its derivatives, which maximum likelihood
needs (`edge_tvbo.models.likelihood`). The same models as state spaces are in `temporal` and `pair`.

Times are intervals, 0 for the first; d has no unit. Lags are meant to be whole numbers, where two
derivatives are finite at the edge of their range that are not for a fraction.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from numpy.random import Generator  # to import it takes 3 MiB, which a daemon does without

Array = NDArray[np.float64]
MANY = 500  # lags; of fewer, to see which are alike takes longer than to go through all


class TemporalKernel(Protocol):
    """How alike the field is to itself at another time."""

    def matrix(self, s: Array, t: Array) -> Array:
        """Give d(s_i, t_j), a new (n, m), for times `s` (n,) and `t` (m,)."""
        ...

    def variance(self, t: Array) -> Array:
        """Give d(t_j, t_j), (m,), for times `t` (m,)."""
        ...


class FittableKernel(TemporalKernel, Protocol):
    """A temporal kernel whose p parameters, in the order of its fields, can be learned.

    A search moves in `coordinates`, in which equal steps matter about equally and what the
    bounds allow is a box: the corners are the coordinates of both columns of `bounds`.
    """

    @property
    def values(self) -> Array:
        """Give the parameters, (p,)."""
        ...

    def replaced(self, values: Array) -> Self:
        """Give the kernel of other parameters (p,); raises `ConfigError` if they cannot be."""
        ...

    def gradient(self, s: Array, t: Array) -> Array:
        """Give the derivative of `matrix` by each parameter, (p, n, m)."""
        ...

    def coordinates(self) -> Array:
        """Give where a search finds this kernel, (p,), finite."""
        ...

    def located(self, coordinates: Array) -> Self:
        """Give the kernel at `coordinates` (p,) inside the box."""
        ...

    def jacobian(self) -> Array:
        """Give the derivative of value i by coordinate j, (p, p)."""
        ...

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Give the least and the greatest of each parameter, (p, 2), for times up to `horizon`."""
        ...

    @classmethod
    def drawn(cls, rng: "Generator", horizon: float) -> Self:
        """Give a kernel at random within `bounds`, to start a search from."""
        ...


class StaticKernel(msgspec.Struct, frozen=True):
    """The field that never changes: d = 1."""

    def matrix(self, s: Array, t: Array) -> Array:
        """Give ones, (n, m)."""
        return np.ones((len(s), len(t)))

    def variance(self, t: Array) -> Array:
        """Give ones, (m,)."""
        return np.ones(len(t))


class WienerKernel(msgspec.Struct, frozen=True):
    """The field to which variance `sigma_w2` is added each interval, UI-TVBO in [ET] section 6.

    d = 1 + σ_w² min(t, t') with 1 at t = 0; times are 0 or more.
    """

    sigma_w2: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.sigma_w2 < float("inf")):
            raise ConfigError(f"sigma_w2 is {self.sigma_w2}; it can be 0 or more.")

    def matrix(self, s: Array, t: Array) -> Array:
        """Give 1 + σ_w² min(s_i, t_j), (n, m)."""
        return np.asarray(1.0 + self.sigma_w2 * np.minimum(np.asarray(s)[:, None], t))

    def variance(self, t: Array) -> Array:
        """Give 1 + σ_w² t_j, (m,)."""
        return np.asarray(1.0 + self.sigma_w2 * np.asarray(t, np.float64))


class TimeVaryingKernel(msgspec.Struct, frozen=True):
    """[B16]'s forgetting field: d = (1-ε)^(|t-t'|/2), [B16] eq. 4; a `FittableKernel`.

    >>> float(TimeVaryingKernel(0.19).matrix(np.array([3.0]), np.array([5.0]))[0, 0])
    0.81
    """

    epsilon: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon <= 1.0:
            raise ConfigError(
                f"epsilon is {self.epsilon}; it can be 0 (never changes) to 1 (all new)."
            )

    def matrix(self, s: Array, t: Array) -> Array:
        """Give (1-ε)^(lag/2), (n, m)."""
        return _over_lags(lambda k: (1.0 - self.epsilon) ** (k / 2), s, t)

    def variance(self, t: Array) -> Array:
        """Give ones, (m,)."""
        return np.ones(len(t))

    def gradient(self, s: Array, t: Array) -> Array:
        """Give the derivative by ε, (1, n, m); where it is infinite, at 1, that of an ulp below."""
        left = max(1.0 - self.epsilon, 2.0**-53)
        return _over_lags(lambda k: -_slope(left, k / 2)[None], s, t)

    @property
    def values(self) -> Array:
        """Give (ε,)."""
        return np.array([self.epsilon])

    def replaced(self, values: Array) -> Self:
        """Give the kernel of another (ε,)."""
        return type(self)(float(values[0]))

    def coordinates(self) -> Array:
        """Give (ln ε,), that of 1e-300 where ε is less."""
        return np.array([math.log(max(self.epsilon, 1e-300))])

    def located(self, coordinates: Array) -> Self:
        """Give the kernel of (ln ε,)."""
        return type(self)(math.exp(coordinates[0]))

    def jacobian(self) -> Array:
        """Give dε / d ln ε = ε, (1, 1)."""
        return np.array([[self.epsilon]])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Give 1e-6 and .999: fields that change less or more are not told from these."""
        return np.array([[1e-6, 0.999]])

    @classmethod
    def drawn(cls, rng: "Generator", horizon: float) -> Self:
        """Give one with ε from 1e-4 to .5, log-uniform."""
        return cls(_log_uniform(rng, 1e-4, 0.5))


class MomentumKernel(msgspec.Struct, frozen=True):
    """A change goes on changing the field for a while: d of [M24] eq. 8.9; a `FittableKernel`.

    Written without the division by ε - α, so that α = ε is no case of its own: with k = |t-t'|,
    Q_k = (ε^k - α^k) / (ε - α) and c = (1-ε²) / (1+αε),

        d = ε^k + c α Q_k,

    a sum of positive terms. `epsilon` is how much of the field is *left* after an interval,
    `alpha` how much of the momentum; see `edge_tvbo.models.posteriors.two_component.Momentum`.

    >>> MomentumKernel(0.5, 0.5).matrix(np.array([0.0]), np.array([0.0, 1.0])).round(3)
    array([[1. , 0.8]])
    """

    epsilon: float
    alpha: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= self.epsilon < 1.0:
            raise ConfigError(
                f"epsilon is {self.epsilon}, alpha {self.alpha}; "
                "they must be 0 <= alpha <= epsilon < 1."
            )

    def matrix(self, s: Array, t: Array) -> Array:
        """Give eq. 8.9, (n, m)."""
        return _over_lags(self._covariance, s, t)

    def variance(self, t: Array) -> Array:
        """Give ones, (m,)."""
        return np.ones(len(t))

    def gradient(self, s: Array, t: Array) -> Array:
        """Give the derivatives by ε and α, (2, n, m): [M24] eq. 8.7 (mirrored for ε).

        As printed, eq. 8.7 is 0/0 at α = ε; this is exact there and near it.
        """
        return _over_lags(self._slopes, s, t)

    @property
    def values(self) -> Array:
        """Give (ε, α)."""
        return np.array([self.epsilon, self.alpha])

    def replaced(self, values: Array) -> Self:
        """Give the kernel of another (ε, α)."""
        return type(self)(float(values[0]), float(values[1]))

    def coordinates(self) -> Array:
        """Give (ln(1-ε), ln(1-α/ε)), the latter that of 1e-300 where α is ε."""
        apart = _apart(self.epsilon, self.alpha) if self.epsilon > 0.0 else 1.0
        return np.array([math.log1p(-self.epsilon), math.log(max(apart, 1e-300))])

    def located(self, coordinates: Array) -> Self:
        """Give the kernel of (ln(1-ε), ln(1-α/ε)), each 0 or less; α <= ε by construction."""
        epsilon = abs(math.expm1(coordinates[0]))
        return type(self)(epsilon, epsilon * abs(math.expm1(coordinates[1])))

    def jacobian(self) -> Array:
        """Give the derivative of (ε, α) by the coordinates, (2, 2)."""
        share = self.alpha / self.epsilon if self.epsilon > 0.0 else 0.0
        left = 1.0 - self.epsilon
        return np.array([[-left, 0.0], [-left * share, self.alpha - self.epsilon]])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Give 0 and almost 1 for both; that α <= ε is in the coordinates."""
        most = 1.0 - 1e-5
        return np.array([[0.0, most], [0.0, most * (1.0 - 1e-6)]])

    @classmethod
    def drawn(cls, rng: "Generator", horizon: float) -> Self:
        """Give one with 1-ε from .001 to .5 and 1-α from 1-ε to 1, both log-uniform."""
        left = _log_uniform(rng, 1e-3, 0.5)
        epsilon = 1.0 - left
        return cls(epsilon, min(max(1.0 - _log_uniform(rng, left, 1.0), 0.0), epsilon))

    def _covariance(self, k: Array) -> Array:
        c = (1.0 - self.epsilon**2) / (1.0 + self.alpha * self.epsilon)
        Q = _divided_difference(self.epsilon, self.alpha, k)
        return np.asarray(self.epsilon**k + c * self.alpha * Q)

    def _slopes(self, k: Array) -> Array:
        e, a = self.epsilon, self.alpha
        Q = _divided_difference(e, a, k)
        Q_e, Q_a = _divided_difference_slopes(e, a, k)
        c = (1.0 - e * e) / (1.0 + a * e)
        c_e = -(2.0 * e + a * (1.0 + e * e)) / (1.0 + a * e) ** 2  # dc/dε
        by_epsilon = _slope(e, k) + a * (c_e * Q + c * Q_e)
        by_alpha = c * (Q / (1.0 + a * e) + a * Q_a)  # c + α dc/dα = c / (1+αε)
        return np.stack([by_epsilon, by_alpha])


class SigmoidKernel(msgspec.Struct, frozen=True):
    """One field turns into another: d of [M24] eq. 9.1-9.3; a `FittableKernel`.

    d = 2 s(t) s(t') - s(t) - s(t') + 1 with s(t) = 1 / (1 + exp((τ - t) / ρ)). `tau` is the
    interval in the middle of the transition, `rho` above 0 how long it takes, in intervals.

    >>> SigmoidKernel(5.0, 2.0).variance(np.array([5.0]))
    array([0.5])
    """

    tau: float
    rho: float

    def __post_init__(self) -> None:
        if not (self.rho > 0 and abs(self.tau) < float("inf") and self.rho < float("inf")):
            raise ConfigError(f"tau is {self.tau}, rho {self.rho}; rho must be above 0.")

    def matrix(self, s: Array, t: Array) -> Array:
        """Give s s' + (1-s)(1-s'), which is d of eq. 9.3 as a sum of positive terms, (n, m)."""
        return np.asarray(np.stack(self._shares(s), axis=1) @ np.stack(self._shares(t)))

    def variance(self, t: Array) -> Array:
        """Give s² + (1-s)², (m,): 1 before and after the transition, ½ in its middle."""
        old, new = self._shares(t)
        return np.asarray(old**2 + new**2)

    def gradient(self, s: Array, t: Array) -> Array:
        """Give the derivatives by τ and ρ, (2, n, m): the chain rule over eq. 9.2."""
        (old, new), (old_t, new_t) = self._shares(s), self._shares(t)
        lean, lean_t = new - old, new_t - old_t  # 2 s - 1
        left = np.stack([self._share_slopes(s), np.stack([lean, lean])], axis=2)  # (2, n, 2)
        right = np.stack([np.stack([lean_t, lean_t]), self._share_slopes(t)], axis=1)  # (2, 2, m)
        return np.asarray(left @ right)

    @property
    def values(self) -> Array:
        """Give (τ, ρ)."""
        return np.array([self.tau, self.rho])

    def replaced(self, values: Array) -> Self:
        """Give the kernel of another (τ, ρ)."""
        return type(self)(float(values[0]), float(values[1]))

    def coordinates(self) -> Array:
        """Give (τ, ln ρ)."""
        return np.array([self.tau, math.log(self.rho)])

    def located(self, coordinates: Array) -> Self:
        """Give the kernel of (τ, ln ρ)."""
        return type(self)(float(coordinates[0]), math.exp(coordinates[1]))

    def jacobian(self) -> Array:
        """Give the derivative of (τ, ρ) by the coordinates, (2, 2)."""
        return np.diag([1.0, self.rho])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Give τ from -horizon to twice it, where nothing happens in between; ρ from .1 to it."""
        span = max(horizon, 1.0)
        return np.array([[-span, 2.0 * span], [0.1, span]])

    @classmethod
    def drawn(cls, rng: "Generator", horizon: float) -> Self:
        """Give one with τ uniform on [0, horizon] and ρ log-uniform from ½ to half of that."""
        span = max(horizon, 1.0)
        return cls(float(rng.uniform(0.0, span)), _log_uniform(rng, 0.5, max(0.5 * span, 0.5)))

    def _shares(self, t: Array) -> tuple[Array, Array]:
        """Give 1 - s and s at `t`, each (m,) and each to full relative precision."""
        x, e = self._decay(t)
        greater, less = 1.0 / (1.0 + e), e / (1.0 + e)
        late = x >= 0.0
        return np.where(late, less, greater), np.where(late, greater, less)

    def _share_slopes(self, t: Array) -> Array:
        """Give ds/dτ and ds/dρ at `t`, (2, m): eq. 9.2 with exp of negative numbers only."""
        x, e = self._decay(t)
        steepness = e / ((1.0 + e) ** 2 * self.rho)
        return np.asarray(np.stack([-steepness, -x * steepness]))

    def _decay(self, t: Array) -> tuple[Array, Array]:
        """Give x = (t - τ) / ρ and exp(-|x|), (m,), x cut off where that is 0."""
        with np.errstate(over="ignore"):
            x = np.clip((np.asarray(t, np.float64) - self.tau) / self.rho, -800.0, 800.0)
        return x, np.exp(-np.abs(x))


def _over_lags(function: Callable[[Array], Array], s: Array, t: Array) -> Array:
    """Give `function` of |s_i - t_j|, (..., n, m), for one of lags (L,) to (..., L).

    Whole times share few lags, so that it is called for each of them once: n + m powers
    instead of n·m where times follow one another.
    """
    s, t = np.asarray(s, np.float64), np.asarray(t, np.float64)
    many = len(s) * len(t) > MANY
    whole = many and bool((s == np.floor(s)).all() and (t == np.floor(t)).all())
    if whole and (longest := _longest(s, t)) < len(s) * len(t):
        steps = np.subtract.outer(s.astype(np.intp), t.astype(np.intp))
        table = function(np.arange(longest + 1.0))
        return table.take(np.abs(steps, out=steps), axis=-1, mode="clip")
    lags = np.abs(np.subtract.outer(s, t))
    values = function(lags.ravel())
    return values.reshape(*values.shape[:-1], *lags.shape)


def _longest(s: Array, t: Array) -> float:
    """Give the largest |s_i - t_j|, 0 where there is none, in O(n + m)."""
    if len(s) == 0 or len(t) == 0:
        return 0.0
    return float(max(s.max() - t.min(), t.max() - s.min()))


def _slope(base: float, k: Array) -> Array:
    """Give d/dbase of base^k = k base^(k-1), (L,), 0 for k = 0 whatever the base."""
    with np.errstate(divide="ignore"):
        return np.asarray(k * base ** np.where(k == 0.0, 0.0, k - 1.0))


def _divided_difference(e: float, a: float, k: Array) -> Array:
    """Give Q = (e^k - a^k) / (e - a), (L,), for 0 <= a <= e."""
    return np.asarray(e ** np.where(k == 0.0, 0.0, k - 1.0) * _quotient(_apart(e, a), k))


def _divided_difference_slopes(e: float, a: float, k: Array) -> tuple[Array, Array]:
    """Give dQ/de and dQ/da of `_divided_difference`, each (L,).

    They are e^(k-2) h and e^(k-2) g, where h = (k - q) / u and g = (q - k (1-u)^(k-1)) / u.
    Both cancel where k u is small, and there their binomial series takes over.
    """
    u = _apart(e, a)
    apart = np.maximum(k, 1.0) * u >= 0.1
    h, g = _series(np.where(apart, 0.0, k), u)
    if apart.any():
        q = _quotient(u, k)
        h = np.where(apart, (k - q) / u, h)
        g = np.where(apart, (q - _slope(1.0 - u, k)) / u, g)
    scale = e ** np.where((k == 0.0) | (k == 1.0), 0.0, k - 2.0)  # h, g are 0 for both
    return scale * h, scale * g


def _quotient(u: float, k: Array) -> Array:
    """Give q = (1 - (1-u)^k) / u, (L,), which for u = 0 is k, without cancellation."""
    if u == 0.0:
        return k
    return np.asarray(-np.expm1(k * (math.log1p(-u) if u < 1.0 else -1e200)) / u)


def _series(k: Array, u: float) -> tuple[Array, Array]:
    """Give h = Σ C(k,j+1) (-u)^(j-1) and g = Σ j C(k,j+1) (-u)^(j-1), j from 1 to 10.

    For k u < 0.1 the next term is below 1e-16 of the first; for k < 1, where u < 0.1, 1e-10.
    """
    term = k * (k - 1.0) / 2.0
    h, g = term.copy(), term.copy()
    for j in range(2, 11):
        term = term * (k - j) / (j + 1) * -u
        h += term
        g += j * term
    return h, g


def _apart(e: float, a: float) -> float:
    """Give 1 - a/e to full precision for 0 <= a <= e; 0 where both are."""
    return (e - a) / e if e > 0.0 else 0.0


def _log_uniform(rng: "Generator", low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))
