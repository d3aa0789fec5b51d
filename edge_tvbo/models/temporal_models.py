"""Temporal models: how a field changes, as a kernel d(t, t') and as a state-space transition.

Each class is one model of change, with a kernel and a transition. `kernel` is the temporal factor
d(t, t') of the covariance k(x, x') d(t, t'). Posteriors by regression use `kernel`, and the
derivatives of `kernel` are used for maximum likelihood (`edge_tvbo.models.likelihood`).
`transition` describes how the state of a recursive posterior changes in one interval. The result is
a `Transition` if the state is the field itself, and a `TwoComponentTransition` if the state is two
fields.

Times are numbers of intervals, and the first interval is 0. Times need not be whole numbers. A fit
of `Momentum` is an exception: for fractional lags, the derivative of its kernel is infinite at α =
0. The kernel d has no unit.

The models of [M24] chapters 8 and 9 are in the modules `momentum` and `sigmoid`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import msgspec
import numpy as np

from edge_tvbo.models.lags import over_lags, slope
from edge_tvbo.models.parameter_checks import check_not_negative, check_range
from edge_tvbo.numerics.types import Array

if TYPE_CHECKING:
    from numpy.random import Generator  # at run time, the import would take 3 MiB


class Transition(NamedTuple):
    """The step of a model whose state is the field: f_{t+1} = √retain f_t + √inject g_{t+1}.

    g_{t+1} is drawn from the spatial prior and is independent of the past. It follows that Cov(f_t,
    f_s) = retain^((t-s)/2) p_s K for t ≥ s. K is the spatial prior covariance; the scale p of the
    prior follows from p_0 = 1 and p_{t+1} = retain p_t + inject.
    """

    retain: float  # kept share of the variance
    inject: float  # added variance, in units of the prior variance

    def over(self, dt: float) -> "Transition":
        """Return the temporal model's step over `dt` intervals; `dt` is any number above 0.

        >>> Transition(0.25, 0.75).over(0.5)
        Transition(retain=0.5, inject=0.5)
        """
        kept = self.retain**dt
        steps = dt if self.retain == 1.0 else (1.0 - kept) / (1.0 - self.retain)
        return Transition(kept, self.inject * steps)


@dataclass(frozen=True, eq=False)
class TwoComponentTransition:
    """The step of a model whose state is two fields z_0 and z_1: z <- A z + noise.

    The field is f = w_0 z_0 + w_1 z_1 with the weights w_0 and w_1 of the interval.
    """

    snapshot_kind: str  # model and parameters as text; a snapshot must have the same text
    prior: Array  # (2, 2) prior covariance of the components
    matrix: Array  # (2, 2) A
    innovation: Array  # (2, 2) covariance of the noise
    weights: Callable[[int], tuple[float, float]]  # (w_0, w_1) of interval 0, 1, ...


class TemporalModel(msgspec.Struct, frozen=True):
    """Base class of the models of how a field changes with time."""

    SNAPSHOT_NAME: ClassVar[str]  # name in snapshots; does not change if the class is renamed

    @property
    def snapshot_key(self) -> str:
        """Return the text that identifies the temporal model and its parameters in snapshots."""
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__)
        return f"{self.SNAPSHOT_NAME}({values})"

    @abstractmethod
    def kernel(self, s: Array, t: Array) -> Array:
        """Return a new array with the temporal kernel d(s_i, t_j), (n, m), for all `s` and `t`."""

    def variance(self, t: Array) -> Array:
        """Return the variance d(t_j, t_j) of the temporal kernel, (m,), for times `t` (m,).

        The variance is 1, unless a subclass says otherwise.
        """
        return np.ones(len(t))

    @abstractmethod
    def transition(self) -> Transition | TwoComponentTransition:
        """Return the step of the temporal model: how its state changes in one interval."""


class FittableModel(TemporalModel, frozen=True):
    """Base class of the temporal models whose p parameters can be fitted by maximum likelihood.

    The search uses `coordinates`, which are transformed parameters. Steps of equal length in
    coordinates have effects of similar size. The first column of `bounds` is the lowest value of
    each parameter, and the second column the highest. The search stays in the box between
    the coordinates of these two columns.
    """

    FITS_FRACTIONS: ClassVar[bool] = True  # a fit accepts times that are not whole numbers

    @property
    def parameters(self) -> Array:
        """Return the parameters of the temporal model, (p,), in the order of the attributes."""
        return np.array(msgspec.structs.astuple(self))

    def with_parameters(self, values: Array) -> Self:
        """Return the temporal model with other parameters (p,).

        Raises `ConfigError` if a parameter is invalid.
        """
        return type(self)(*map(float, values))

    @abstractmethod
    def kernel_gradient(self, s: Array, t: Array) -> Array:
        """Return the temporal kernel's derivatives with respect to its parameters, (p, n, m)."""

    @abstractmethod
    def coordinates(self) -> Array:
        """Return the coordinates of the temporal model in the search: finite numbers (p,)."""

    @abstractmethod
    def at_coordinates(self, coordinates: Array) -> Self:
        """Return the temporal model whose search coordinates are `coordinates`, (p,)."""

    @abstractmethod
    def jacobian(self) -> Array:
        """Return the derivatives of temporal parameter i with respect to coordinate j, (p, p)."""

    @classmethod
    @abstractmethod
    def bounds(cls, horizon: float) -> Array:
        """Return the bounds of the temporal parameters, (p, 2), for times up to `horizon`."""

    @classmethod
    @abstractmethod
    def random(cls, rng: "Generator", horizon: float) -> Self:
        """Return a random temporal model within `bounds`, as the start of a search."""


class Static(TemporalModel, frozen=True):
    """The model of a field that never changes: its temporal kernel is 1."""

    SNAPSHOT_NAME: ClassVar[str] = "StaticKernel"

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the kernel of the static temporal model, which is 1 for all times, (n, m)."""
        return np.ones((len(s), len(t)))

    def transition(self) -> Transition:
        """Return the transition of the static temporal model, which changes nothing."""
        return Transition(1.0, 0.0)


class UncertaintyInjection(TemporalModel, frozen=True):
    """The Wiener model of UI-TVBO: every interval adds variance `sigma_w2` to the field.

    d(t, t') = 1 + σ_w² min(t, t'); times are 0 or more.

    Parameters
    ----------
    sigma_w2 : float
        σ_w², in units of the prior variance, 0 or more; otherwise `ConfigError` is raised.

    References
    ----------
    Brunzema, von Rohr & Trimpe 2022, with the constants of the authors' program: c0 = -1/σ_w². [ET]
    section 6 uses this model with σ_w² = ε, without stating the kernel.
    """

    SNAPSHOT_NAME: ClassVar[str] = "WienerKernel"

    sigma_w2: float

    def __post_init__(self) -> None:
        check_not_negative(sigma_w2=self.sigma_w2)

    def kernel(self, s: Array, t: Array) -> Array:
        """Return the kernel of the Wiener temporal model, 1 + σ_w² min(s_i, t_j), (n, m)."""
        return np.asarray(1.0 + self.sigma_w2 * np.minimum(np.asarray(s)[:, None], t))

    def variance(self, t: Array) -> Array:
        """Return the variance of the Wiener temporal model, 1 + σ_w² t_j, (m,)."""
        return np.asarray(1.0 + self.sigma_w2 * np.asarray(t, np.float64))

    def transition(self) -> Transition:
        """Return the transition of the Wiener temporal model, which adds variance σ_w²."""
        return Transition(1.0, self.sigma_w2)


class TimeVarying(FittableModel, frozen=True):
    """The time-varying (TV) model: a share ε of the field's variance is new in every interval.

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
        """Return the kernel of the TV temporal model, (1-ε)^(lag/2), (n, m)."""
        return over_lags(lambda k: (1.0 - self.epsilon) ** (k / 2), s, t)

    def transition(self) -> Transition:
        """Return the TV temporal transition, which keeps a share 1-ε of the variance and adds ε."""
        return Transition(1.0 - self.epsilon, self.epsilon)

    def kernel_gradient(self, s: Array, t: Array) -> Array:
        """Return the derivative of the TV temporal kernel with respect to ε, (1, n, m).

        At ε = 1 the derivative is infinite, so the derivative at the next smaller float is
        returned.
        """
        left = max(1.0 - self.epsilon, 2.0**-53)
        return over_lags(lambda k: -slope(left, k / 2)[None], s, t)

    def coordinates(self) -> Array:
        """Return the coordinate of the TV temporal model, (ln ε,); ε counts as at least 1e-300."""
        return np.array([math.log(max(self.epsilon, 1e-300))])

    def at_coordinates(self, coordinates: Array) -> Self:
        """Return the TV temporal model at the coordinate (ln ε,)."""
        return type(self)(math.exp(coordinates[0]))

    def jacobian(self) -> Array:
        """Return the derivative dε / d ln ε = ε of the TV temporal model, of shape (1, 1)."""
        return np.array([[self.epsilon]])

    @classmethod
    def bounds(cls, horizon: float) -> Array:
        """Return the bounds of ε in the TV temporal model, 1e-6 and 0.999.

        Readings cannot distinguish a rate beyond a bound from the bound itself.
        """
        return np.array([[1e-6, 0.999]])

    @classmethod
    def random(cls, rng: "Generator", horizon: float) -> Self:
        """Return a TV temporal model with ε log-uniform from 1e-4 to 0.5."""
        return cls(log_uniform(rng, 1e-4, 0.5))


def log_uniform(rng: "Generator", low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))
