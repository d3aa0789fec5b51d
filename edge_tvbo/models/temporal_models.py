"""Temporal models: how a field changes, as a kernel d(t, t') and as a state-space transition.

Each class is one model of change and offers both forms. `kernel` is the temporal factor d(t, t') of
the covariance k(x, x') d(t, t'). Posteriors by regression use `kernel`, and the derivatives of
`kernel` are used for maximum likelihood (`edge_tvbo.models.likelihood`). `transition` describes how
the state of a recursive posterior changes in one interval. The result is a `Transition` if the
state is the field itself, and a `TwoComponentTransition` if the state is two fields.

Times are numbers of intervals, and the first interval is 0. d has no unit. Lags should be whole
numbers: for fractional lags, two derivatives are infinite at the edge of the parameters' range.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self

import msgspec
import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.checks import check_not_negative, check_range
from edge_tvbo.numerics.types import Array

if TYPE_CHECKING:
    from numpy.random import Generator  # importing it takes 3 MiB, which the daemon saves

MIN_LAGS_FOR_TABLE = 500  # fewer lags are computed one by one, which is faster than a table


class Transition(NamedTuple):
    """The step of a model whose state is the field: f_{t+1} = √retain f_t + √inject g_{t+1}.

    g_{t+1} is drawn from the spatial prior and is independent of the past. It follows that Cov(f_t,
    f_s) = retain^((t-s)/2) p_s K for t ≥ s, with p_0 = 1 and p_{t+1} = retain p_t + inject.
    """

    retain: float  # share of the variance that is kept
    inject: float  # variance that is added, in units of the prior variance


@dataclass(frozen=True, eq=False)
class TwoComponentTransition:
    """The step of a model whose state is two fields z_0 and z_1: z <- A z + noise.

    The field is f = w_0 z_0 + w_1 z_1 with the weights w_0 and w_1 of the interval.
    """

    snapshot_kind: str  # model and parameters as text; a snapshot must have the same
    prior: Array  # (2, 2) prior covariance of the components
    matrix: Array  # (2, 2) A
    innovation: Array  # (2, 2) covariance of the noise
    weights: Callable[[int], tuple[float, float]]  # (w_0, w_1) of interval 0, 1, ...


class TemporalModel(Protocol):
    """A model of how a field changes with time."""

    SNAPSHOT_NAME: ClassVar[str]  # name of the class in snapshots

    @property
    def snapshot_key(self) -> str:
        """Return the text that identifies the temporal model and its parameters in snapshots."""
        ...

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the temporal kernel d(s_i, t_j), a new (n, m) array, for times (n,) and (m,)."""
        ...

    def variance(self, t: Array) -> Array:
        """Return the variance d(t_j, t_j) of the temporal kernel, (m,), for times `t` (m,)."""
        ...

    def transition(self) -> Transition | TwoComponentTransition:
        """Return the change of a recursive posterior's state in one interval."""
        ...


class FittableModel(TemporalModel, Protocol):
    """A temporal model whose p parameters can be fitted by maximum likelihood.

    The search uses `coordinates`, which are transformed parameters. Steps of equal length in
    coordinates have effects of similar size. The bounds form a box in coordinates; its corners are
    the coordinates of the two columns of `bounds`.
    """

    @property
    def parameters(self) -> Array:
        """Return the parameters of the temporal model, (p,), in the order of the attributes."""
        ...

    def with_parameters(self, values: Array) -> Self:
        """Return the model with other parameters (p,); raise `ConfigError` if any is invalid."""
        ...

    def kernel_gradient(self, s: Array, t: Array) -> Array:
        """Return the derivatives of `kernel` with respect to the parameters, of shape (p, n, m)."""
        ...

    def coordinates(self) -> Array:
        """Return the coordinates of this model in the search: finite numbers of shape (p,)."""
        ...

    def at_coordinates(self, coordinates: Array) -> Self:
        """Return the model at `coordinates` (p,), which lie inside the box of the bounds."""
        ...

    def jacobian(self) -> Array:
        """Return the derivatives of parameter i with respect to coordinate j, of shape (p, p)."""
        ...

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Return the bounds of each parameter, (p, 2), for times from 0 to `horizon`."""
        ...

    @classmethod
    def random(cls, rng: "Generator", horizon: float) -> Self:
        """Return a random model within `bounds`, from which a search can start."""
        ...


class _Model(msgspec.Struct, frozen=True):
    """Base class of the temporal models."""

    SNAPSHOT_NAME: ClassVar[str]  # does not change if the class is renamed

    @property
    def snapshot_key(self) -> str:
        """Return the text that identifies the temporal model and its parameters in snapshots."""
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__)
        return f"{self.SNAPSHOT_NAME}({values})"


class Static(_Model, frozen=True):
    """The model of a field that never changes: d = 1."""

    SNAPSHOT_NAME: ClassVar[str] = "StaticKernel"

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the kernel of the static model, which is 1 for all times, (n, m)."""
        return np.ones((len(s), len(t)))

    def variance(self, t: Array) -> Array:
        """Return the prior variance of the static model, which is always 1, (m,)."""
        return np.ones(len(t))

    def transition(self) -> Transition:
        """Return the transition of the static model, which changes nothing."""
        return Transition(1.0, 0.0)


class UncertaintyInjection(_Model, frozen=True):
    """The Wiener model of UI-TVBO: every interval adds variance `sigma_w2` to the field.

    d(t, t') = 1 + σ_w² min(t, t'); times are 0 or more.

    Parameters
    ----------
    sigma_w2 : float
        σ_w², in units of the prior variance, 0 or more; otherwise `ConfigError` is raised.

    References
    ----------
    [ET] section 6.
    """

    SNAPSHOT_NAME: ClassVar[str] = "WienerKernel"

    sigma_w2: float

    def __post_init__(self) -> None:
        check_not_negative(sigma_w2=self.sigma_w2)

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the Wiener kernel 1 + σ_w² min(s_i, t_j), (n, m)."""
        return np.asarray(1.0 + self.sigma_w2 * np.minimum(np.asarray(s)[:, None], t))

    def variance(self, t: Array) -> Array:
        """Return the Wiener variance 1 + σ_w² t_j, (m,)."""
        return np.asarray(1.0 + self.sigma_w2 * np.asarray(t, np.float64))

    def transition(self) -> Transition:
        """Return the transition of the Wiener model, which adds variance σ_w²."""
        return Transition(1.0, self.sigma_w2)


class TimeVarying(_Model, frozen=True):
    """The TV model, a `FittableModel`: a share ε of the field's variance is new every interval.

    d(t, t') = (1-ε)^(|t-t'|/2); the prior variance stays 1.

    Parameters
    ----------
    epsilon : float
        ε, from 0 (the field never changes) to 1 (every interval is independent); otherwise
        `ConfigError` is raised.

    References
    ----------
    [B16] eq. 4.

    Examples
    --------
    >>> float(TimeVarying(0.19).kernel(np.array([3.0]), np.array([5.0]))[0, 0])
    0.81
    """

    SNAPSHOT_NAME: ClassVar[str] = "TimeVaryingKernel"

    epsilon: float

    def __post_init__(self) -> None:
        check_range(0, 1, epsilon=self.epsilon)

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the TV kernel (1-ε)^(lag/2), (n, m)."""
        return _over_lags(lambda k: (1.0 - self.epsilon) ** (k / 2), s, t)

    def variance(self, t: Array) -> Array:
        """Return the prior variance of the TV model, which is always 1, (m,)."""
        return np.ones(len(t))

    def transition(self) -> Transition:
        """Return the TV transition, which keeps a share 1-ε of the variance and adds ε."""
        return Transition(1.0 - self.epsilon, self.epsilon)

    def kernel_gradient(self, s: Array, t: Array) -> Array:
        """Return the derivative of the TV kernel with respect to ε, of shape (1, n, m).

        At ε = 1 the derivative is infinite, so the derivative at the next smaller float is
        returned.
        """
        left = max(1.0 - self.epsilon, 2.0**-53)
        return _over_lags(lambda k: -_slope(left, k / 2)[None], s, t)

    @property
    def parameters(self) -> Array:
        """Return the parameter of the TV model, (ε,)."""
        return np.array([self.epsilon])

    def with_parameters(self, values: Array) -> Self:
        """Return the TV model with another parameter (ε,)."""
        return type(self)(float(values[0]))

    def coordinates(self) -> Array:
        """Return the coordinate of the TV model, (ln ε,), with ε clipped to at least 1e-300."""
        return np.array([math.log(max(self.epsilon, 1e-300))])

    def at_coordinates(self, coordinates: Array) -> Self:
        """Return the TV model at the coordinate (ln ε,)."""
        return type(self)(math.exp(coordinates[0]))

    def jacobian(self) -> Array:
        """Return the derivative dε / d ln ε = ε of the TV model, of shape (1, 1)."""
        return np.array([[self.epsilon]])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Return the bounds of ε in the TV model, 1e-6 and 0.999.

        Rates beyond these bounds look the same as the bounds.
        """
        return np.array([[1e-6, 0.999]])

    @classmethod
    def random(cls, rng: "Generator", horizon: float) -> Self:
        """Return a TV model with ε log-uniform from 1e-4 to 0.5."""
        return cls(_log_uniform(rng, 1e-4, 0.5))


class Momentum(_Model, frozen=True):
    """The MTV model, a `FittableModel`: changes have momentum, so they continue for a while.

    f_{t+1} = ε f_t + √λ u_{t+1} with the momentum u_{t+1} = α u_t + g_{t+1}. As a kernel, with
    k = |t-t'|, Q_k = (ε^k - α^k) / (ε - α) and c = (1-ε²) / (1+αε):

        d(t, t') = ε^k + c α Q_k

    The transition and the kernel are computed without a division by ε - α, so that α = ε is not a
    special case.

    Parameters
    ----------
    epsilon : float
        ε, share of the field that an interval keeps, below 1. This is not ε of [B16], which is the
        share of the variance that is *new*: without momentum, `epsilon` is √(1-ε) with ε of
        `TimeVarying`.
    alpha : float
        α, share of the momentum that an interval keeps, 0 to `epsilon`.

    Raises
    ------
    ConfigError
        Unless 0 <= alpha <= epsilon < 1.

    References
    ----------
    [M24] eq. 8.1 and 8.9; λ of lemma 8.1.

    Examples
    --------
    >>> Momentum(0.5, 0.5).kernel(np.array([0.0]), np.array([0.0, 1.0])).round(3)
    array([[1. , 0.8]])
    """

    SNAPSHOT_NAME: ClassVar[str] = "MomentumKernel"

    epsilon: float
    alpha: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= self.epsilon < 1.0:
            raise ConfigError(
                f"epsilon is {self.epsilon}, alpha {self.alpha}; "
                "they must be 0 <= alpha <= epsilon < 1."
            )

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the MTV kernel, [M24] eq. 8.9, (n, m)."""
        return _over_lags(self._covariance, s, t)

    def variance(self, t: Array) -> Array:
        """Return the prior variance of the MTV model, which is always 1, (m,)."""
        return np.ones(len(t))

    def transition(self) -> TwoComponentTransition:
        """Return the MTV transition; its components are the field f and the momentum u."""
        epsilon, alpha = self.epsilon, self.alpha
        rate = (1 - epsilon**2) * (1 - alpha**2) * (1 - alpha * epsilon) / (1 + alpha * epsilon)
        root = math.sqrt(rate)  # √λ
        shared = root / ((1 - alpha**2) * (1 - alpha * epsilon))
        return TwoComponentTransition(
            snapshot_kind=f"mtv {epsilon!r} {alpha!r}",
            prior=np.array([[1.0, shared], [shared, 1 / (1 - alpha**2)]]),
            matrix=np.array([[epsilon, root * alpha], [0.0, alpha]]),
            innovation=np.array([[rate, root], [root, 1.0]]),
            weights=lambda time: (1.0, 0.0),
        )

    def kernel_gradient(self, s: Array, t: Array) -> Array:
        """Return the derivatives of the MTV kernel with respect to ε and α, of shape (2, n, m).

        The derivative with respect to α is [M24] eq. 8.7, and the derivative with respect to ε is
        the mirror image of eq. 8.7. As printed, eq. 8.7 is 0/0 at α = ε; the form used here is
        exact at and near α = ε.
        """
        return _over_lags(self._slopes, s, t)

    @property
    def parameters(self) -> Array:
        """Return the parameters of the MTV model, (ε, α)."""
        return np.array([self.epsilon, self.alpha])

    def with_parameters(self, values: Array) -> Self:
        """Return the MTV model with other parameters (ε, α)."""
        return type(self)(float(values[0]), float(values[1]))

    def coordinates(self) -> Array:
        """Return the MTV coordinates (ln(1-ε), ln(1-α/ε)); 1-α/ε is clipped to 1e-300 or more."""
        apart = _apart(self.epsilon, self.alpha) if self.epsilon > 0.0 else 1.0
        return np.array([math.log1p(-self.epsilon), math.log(max(apart, 1e-300))])

    def at_coordinates(self, coordinates: Array) -> Self:
        """Return the MTV model at (ln(1-ε), ln(1-α/ε)), each 0 or less, which implies α <= ε."""
        epsilon = abs(math.expm1(coordinates[0]))
        return type(self)(epsilon, epsilon * abs(math.expm1(coordinates[1])))

    def jacobian(self) -> Array:
        """Return the derivatives (2, 2) of the MTV parameters with respect to the coordinates."""
        share = self.alpha / self.epsilon if self.epsilon > 0.0 else 0.0
        left = 1.0 - self.epsilon
        return np.array([[-left, 0.0], [-left * share, self.alpha - self.epsilon]])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Return the bounds of the MTV parameters, 0 and almost 1.

        The coordinates ensure that α <= ε.
        """
        most = 1.0 - 1e-5
        return np.array([[0.0, most], [0.0, most * (1.0 - 1e-6)]])

    @classmethod
    def random(cls, rng: "Generator", horizon: float) -> Self:
        """Return an MTV model with 1-ε from 0.001 to 0.5 and 1-α from 1-ε to 1, log-uniform."""
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


class Sigmoid(_Model, frozen=True):
    """The TTV model, a `FittableModel`: one field turns into another.

    f_t = (1 - s(t)) h_1 + s(t) h_2 with s(t) = 1 / (1 + exp((τ - t) / ρ)), so that
    d(t, t') = 2 s(t) s(t') - s(t) - s(t') + 1.

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
            raise ConfigError(f"tau is {self.tau}, rho {self.rho}; rho must be above 0.")

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the TTV kernel s s' + (1-s)(1-s'), (n, m), [M24] eq. 9.3."""
        return np.asarray(np.stack(self._shares(s), axis=1) @ np.stack(self._shares(t)))

    def variance(self, t: Array) -> Array:
        """Return the TTV variance s² + (1-s)², (m,): 1 far from the transition, ½ in its middle."""
        old, new = self._shares(t)
        return np.asarray(old**2 + new**2)

    def transition(self) -> TwoComponentTransition:
        """Return the TTV transition; its components are the old and the new field."""

        def weights(time: int) -> tuple[float, float]:
            s = 1.0 / (1.0 + math.exp(min((self.tau - time) / self.rho, 700.0)))
            return 1.0 - s, s

        return TwoComponentTransition(
            snapshot_kind=f"ttv {self.tau!r} {self.rho!r}",
            prior=np.eye(2),
            matrix=np.eye(2),
            innovation=np.zeros((2, 2)),
            weights=weights,
        )

    def kernel_gradient(self, s: Array, t: Array) -> Array:
        """Return the derivatives of the TTV kernel with respect to τ and ρ, (2, n, m).

        The source is [M24] eq. 9.2.
        """
        (old, new), (old_t, new_t) = self._shares(s), self._shares(t)
        lean, lean_t = new - old, new_t - old_t  # 2 s - 1
        left = np.stack([self._share_slopes(s), np.stack([lean, lean])], axis=2)  # (2, n, 2)
        right = np.stack([np.stack([lean_t, lean_t]), self._share_slopes(t)], axis=1)  # (2, 2, m)
        return np.asarray(left @ right)

    @property
    def parameters(self) -> Array:
        """Return the parameters of the TTV model, (τ, ρ)."""
        return np.array([self.tau, self.rho])

    def with_parameters(self, values: Array) -> Self:
        """Return the TTV model with other parameters (τ, ρ)."""
        return type(self)(float(values[0]), float(values[1]))

    def coordinates(self) -> Array:
        """Return the coordinates of the TTV model, (τ, ln ρ)."""
        return np.array([self.tau, math.log(self.rho)])

    def at_coordinates(self, coordinates: Array) -> Self:
        """Return the TTV model at the coordinates (τ, ln ρ)."""
        return type(self)(float(coordinates[0]), math.exp(coordinates[1]))

    def jacobian(self) -> Array:
        """Return the derivatives (2, 2) of the TTV parameters with respect to the coordinates."""
        return np.diag([1.0, self.rho])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Return the TTV bounds: τ from -horizon to 2 horizon, ρ from 0.1 to the horizon."""
        span = max(horizon, 1.0)
        return np.array([[-span, 2.0 * span], [0.1, span]])

    @classmethod
    def random(cls, rng: "Generator", horizon: float) -> Self:
        """Return a TTV model with τ uniform on [0, horizon], ρ log-uniform from ½ to horizon/2."""
        span = max(horizon, 1.0)
        return cls(float(rng.uniform(0.0, span)), _log_uniform(rng, 0.5, max(0.5 * span, 0.5)))

    def _shares(self, t: Array) -> tuple[Array, Array]:
        """Return 1 - s and s at the times `t`, of shape (m,) and to full relative precision."""
        x, e = self._decay(t)
        greater, less = 1.0 / (1.0 + e), e / (1.0 + e)
        late = x >= 0.0
        return np.where(late, less, greater), np.where(late, greater, less)

    def _share_slopes(self, t: Array) -> Array:
        """Return ds/dτ and ds/dρ at `t`, (2, m), from [M24] eq. 9.2.

        The function exp is computed for negative numbers only.
        """
        x, e = self._decay(t)
        steepness = e / ((1.0 + e) ** 2 * self.rho)
        return np.asarray(np.stack([-steepness, -x * steepness]))

    def _decay(self, t: Array) -> tuple[Array, Array]:
        """Return x = (t - τ) / ρ, clipped to ±800, and exp(-|x|), both (m,)."""
        with np.errstate(over="ignore"):
            x = np.clip((np.asarray(t, np.float64) - self.tau) / self.rho, -800.0, 800.0)
        return x, np.exp(-np.abs(x))


def _over_lags(function: Callable[[Array], Array], s: Array, t: Array) -> Array:
    """Return the values of `function` at the lags |s_i - t_j|, (..., n, m).

    `function` maps lags (L,) to values (..., L). Whole times have few different lags, and each lag
    is computed only once. If the times are consecutive, `function` computes n + m powers instead of
    n·m.
    """
    s, t = np.asarray(s, np.float64), np.asarray(t, np.float64)
    many = len(s) * len(t) > MIN_LAGS_FOR_TABLE
    whole = many and bool((s == np.floor(s)).all() and (t == np.floor(t)).all())
    if whole and (longest := _longest_lag(s, t)) < len(s) * len(t):
        steps = np.subtract.outer(s.astype(np.intp), t.astype(np.intp))
        table = function(np.arange(longest + 1.0))
        return table.take(np.abs(steps, out=steps), axis=-1, mode="clip")
    lags = np.abs(np.subtract.outer(s, t))
    values = function(lags.ravel())
    return values.reshape(*values.shape[:-1], *lags.shape)


def _longest_lag(s: Array, t: Array) -> float:
    """Return the largest lag |s_i - t_j| in O(n + m) steps; it is 0 if there are no times."""
    if len(s) == 0 or len(t) == 0:
        return 0.0
    return float(max(s.max() - t.min(), t.max() - s.min()))


def _slope(base: float, k: Array) -> Array:
    """Return k base^(k-1), (L,), the derivative of base^k with respect to base; 0 for k = 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(k * base ** np.where(k == 0.0, 0.0, k - 1.0))


def _divided_difference(e: float, a: float, k: Array) -> Array:
    """Return Q = (e^k - a^k) / (e - a), (L,), for 0 <= a <= e."""
    return np.asarray(e ** np.where(k == 0.0, 0.0, k - 1.0) * _quotient(_apart(e, a), k))


def _divided_difference_slopes(e: float, a: float, k: Array) -> tuple[Array, Array]:
    """Return dQ/de and dQ/da of `_divided_difference`, both (L,).

    The derivatives are e^(k-2) h and e^(k-2) g with u = 1 - a/e, h = (k - q) / u and g = (q - k
    (1-u)^(k-1)) / u; `_quotient` returns q. If k u is small, these formulas for h and g would lose
    digits by cancellation, so the binomial series of h and g are used.
    """
    u = _apart(e, a)
    apart = np.maximum(k, 1.0) * u >= 0.1
    h, g = _series(np.where(apart, 0.0, k), u)
    if apart.any():
        q = _quotient(u, k)
        h = np.where(apart, (k - q) / u, h)
        g = np.where(apart, (q - _slope(1.0 - u, k)) / u, g)
    scale = e ** np.where((k == 0.0) | (k == 1.0), 0.0, k - 2.0)  # h and g are 0 for k = 0 and 1
    return scale * h, scale * g


def _quotient(u: float, k: Array) -> Array:
    """Return q = (1 - (1-u)^k) / u, (L,), without cancellation; for u = 0 it is k."""
    if u == 0.0:
        return k
    return np.asarray(-np.expm1(k * (math.log1p(-u) if u < 1.0 else -1e200)) / u)


def _series(k: Array, u: float) -> tuple[Array, Array]:
    """Return h = Σ C(k,j+1) (-u)^(j-1) and g = Σ j C(k,j+1) (-u)^(j-1), j from 1 to 10.

    If k u < 0.1, the next term is below 1e-16 of the first. If k < 1, then u < 0.1, and the next
    term is below 1e-10 of the first.
    """
    term = k * (k - 1.0) / 2.0
    h, g = term.copy(), term.copy()
    for j in range(2, 11):
        term = term * (k - j) / (j + 1) * -u
        h += term
        g += j * term
    return h, g


def _apart(e: float, a: float) -> float:
    """Return 1 - a/e to full precision for 0 <= a <= e, and 0 if a and e are 0."""
    return (e - a) / e if e > 0.0 else 0.0


def _log_uniform(rng: "Generator", low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))
