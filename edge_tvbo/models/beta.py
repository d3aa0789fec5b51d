"""How much optimism: the width w in mean + w · std, interval by interval.

The Bayesian papers write √β_t σ and give β_t; the agnostic ones write β_t σ. A width is what
stands before σ, so nobody has to remember which.
"""

from collections.abc import Mapping
from math import log, pi, sqrt
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
from msgspec import Meta

from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:  # a configuration is checked without numpy, and names the schedules below
    from edge_tvbo.models.domain import Field


class Exploration(Protocol):
    """A schedule of widths."""

    def width(self, t: int, observations: int) -> float:
        """Give the width at global interval `t` = 1, 2, ... with so many readings in the model."""
        ...


class LogBeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """β_t = c1 ln(c2 t), held at 0 where that is negative ([B16] section 5; [ET] section 6).

    >>> LogBeta(0.8, 0.4).width(1, 0), round(LogBeta(0.8, 0.4).width(100, 0), 3)
    (0.0, 1.718)
    """

    c1: Annotated[float, Meta(gt=0, description="The factor before the logarithm.")] = 0.8
    c2: Annotated[float, Meta(gt=0, description="The factor inside the logarithm.")] = 0.4

    def __post_init__(self) -> None:
        _positive("c1", self.c1)
        _positive("c2", self.c2)

    def width(self, t: int, observations: int) -> float:
        """Give √β_t."""
        return sqrt(max(0.0, self.c1 * log(self.c2 * t)))


class ConstantBeta(msgspec.Struct, frozen=True):
    """β_t = beta, the same for ever ([M24] chapter 4: 2 to 4 does well)."""

    beta: float = 2.0

    def __post_init__(self) -> None:
        _positive("beta", self.beta)

    def width(self, t: int, observations: int) -> float:
        """Give √β."""
        return sqrt(self.beta)


class FiniteBeta(msgspec.Struct, frozen=True):
    """β_t = 2 ln(|D| π² t² / (6 δ)) for M = |D| arms (Srinivas et al. 2010, theorem 1)."""

    arms: int
    delta: float = 0.1

    def __post_init__(self) -> None:
        _positive("arms", self.arms)
        _probability("delta", self.delta)

    def width(self, t: int, observations: int) -> float:
        """Give √β_t."""
        return sqrt(max(0.0, 2.0 * log(self.arms * pi**2 * t**2 / (6.0 * self.delta))))


class CompactBeta(msgspec.Struct, frozen=True):
    """β_t of [B16] theorem 4.2 and [ET] theorem 1, for the domain [0, r]^d.

    β_t = 2 ln(2π²t²/(3δ)) + 2d ln(t² d b1 r √ln(2 d a1 π² t²/(3δ))), where a1 and b1 bound the
    slope of the field: P(sup |∂f/∂x_j| > L) ≤ a1 exp(-(L/b1)²).
    """

    dimension: int
    delta: float = 0.1
    a1: float = 1.0
    b1: float = 1.0
    r: float = 1.0

    def __post_init__(self) -> None:
        _probability("delta", self.delta)
        for name in ("dimension", "a1", "b1", "r"):
            _positive(name, getattr(self, name))

    def width(self, t: int, observations: int) -> float:
        """Give √β_t."""
        d = self.dimension
        slope = sqrt(max(0.0, log(2 * d * self.a1 * pi**2 * t**2 / (3 * self.delta))))
        beta = 2 * log(2 * pi**2 * t**2 / (3 * self.delta))
        beta += 2 * d * log(max(t**2 * d * self.b1 * self.r * slope, 1.0))
        return sqrt(max(0.0, beta))


class AgnosticBeta:
    """β = B + R √(2(γ_n + 1 + ln 1/δ)), which multiplies σ itself ([ZS21] algorithms 1 and 2).

    Parameters
    ----------
    field : SensorField or BoxField
        Its kernel and noise give γ_n, greedily, on the actual arms.
    bound : float
        B, the most the field's norm in the kernel's space can be, in model units.
    noise : float
        R: the readings' noise is R-sub-Gaussian, in model units.
    delta : float
        The probability of being wrong, 0 to 1.
    horizon : int
        γ_n is held at its value for `horizon` readings beyond that many: the window of
        SW-GP-UCB, the block of R-GP-UCB.
    """

    def __init__(
        self,
        field: "Field",
        *,
        bound: float = 1.0,
        noise: float = 0.1,
        delta: float = 0.1,
        horizon: int,
    ) -> None:
        import numpy as np

        from edge_tvbo.numerics.state_space import information_gain

        _positive("bound", bound)
        _positive("noise", noise)
        _probability("delta", delta)
        _positive("horizon", horizon)
        gain = np.empty(horizon)
        information_gain(field.kernel, field.noise_variance, gain)
        gain = np.concatenate(([0.0], gain))
        self._widths = (bound + noise * np.sqrt(2 * (gain + 1 + log(1 / delta)))).tolist()

    @classmethod
    def of_noise(cls, field: "Field", horizon: int) -> "AgnosticBeta":
        """Give the schedule with B = 1, R the noise's standard deviation, and δ = 0.1."""
        return cls(field, noise=field.noise_variance**0.5, horizon=horizon)

    def width(self, t: int, observations: int) -> float:
        """Give β, which the readings held decide."""
        return float(self._widths[min(observations, len(self._widths) - 1)])


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ConfigError(f"{name} is {value}; it must be above 0.")


def _probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ConfigError(f"{name} is {value}; it must lie between 0 and 1.")


Beta = Exploration | float | str | Mapping[str, float]
DEFAULT_BETA = LogBeta()  # [ET] section 6, temperature data


def exploration(beta: Beta) -> Exploration:
    """Give the schedule that `beta` says: a schedule, a constant β, or ``{"c1": ..., "c2": ...}``.

    >>> exploration({"c1": 0.4, "c2": 4})
    LogBeta(c1=0.4, c2=4)
    """
    match beta:
        case float() | int() if not isinstance(beta, bool):
            return ConstantBeta(beta)
        case Mapping():
            if beta.keys() - {"c1", "c2"}:
                raise ConfigError(
                    f"beta is {dict(beta)}; it can be a number or {{c1 = .., c2 = ..}}."
                )
            return LogBeta(**beta)
        case bool() | str():
            raise ConfigError(f"beta is {beta!r}; it can be a number or {{c1, c2}}.")
        case _:
            return beta
