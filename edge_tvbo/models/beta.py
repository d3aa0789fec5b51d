"""Exploration schedules: the width w of the upper confidence bound mean + w · std in each interval.

The papers on Bayesian regret write the term w · std of the bound as √β_t σ. The papers on agnostic
regret, which assume that the field is a fixed function, write this term as β_t σ. In this module, a
*width* is always the whole factor in front of σ.
"""

from abc import abstractmethod
from collections.abc import Mapping
from math import log, pi, sqrt
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
from msgspec import Meta

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.parameter_checks import check_count, check_positive, check_probability

if TYPE_CHECKING:  # checking a configuration imports this module, but must not import numpy
    from edge_tvbo.models.arm_space import Field


class BetaSchedule(Protocol):
    """Protocol of an exploration schedule, which sets the width of the upper confidence bound."""

    def width(self, t: int, observations: int) -> float:
        """Return the width that the exploration schedule has in interval `t`.

        Parameters
        ----------
        t : int
            Number of the interval, counted from the start: 1, 2, ...; resets of the model do not
            change this number.
        observations : int
            Number of readings that the model holds.

        Returns
        -------
        float
            Width in standard deviations, at least 0.
        """
        ...


class BayesianBeta(msgspec.Struct, frozen=True):
    """Base class of the exploration schedules whose width is √β_t, or 0 if β_t is negative."""

    def width(self, t: int, observations: int) -> float:
        """Return the width √β_t of the exploration schedule in interval `t`.

        Parameters
        ----------
        t : int
            Number of the interval, counted from the start: 1, 2, ...
        observations : int
            Number of readings that the model holds; these schedules ignore this number.

        Returns
        -------
        float
            Width in standard deviations.
        """
        return sqrt(max(0.0, self._beta(t)))

    @abstractmethod
    def _beta(self, t: int) -> float:
        """Return β_t, the square of the width."""


class LogBeta(BayesianBeta, frozen=True, forbid_unknown_fields=True):
    r"""The logarithmic exploration schedule; the width of the bound is the square root of β_t.

    .. math:: β_t = \max(0, c_1 \ln(c_2 t))

    Parameters
    ----------
    c1, c2 : float
        The factors in front of the logarithm and inside it, both above 0.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    References
    ----------
    [B16] section 5; [ET] section 6. The default parameters are the values for temperatures in
    [B16] section 5.2 and [ET] table 6.

    Examples
    --------
    >>> LogBeta(0.8, 0.4).width(1, 0), round(LogBeta(0.8, 0.4).width(100, 0), 3)
    (0.0, 1.718)
    """

    c1: Annotated[float, Meta(gt=0, description="Factor c1 in c1 · ln(c2 · t).")] = 0.8
    c2: Annotated[float, Meta(gt=0, description="Factor c2 in c1 · ln(c2 · t).")] = 0.4

    def __post_init__(self) -> None:
        check_positive(c1=self.c1, c2=self.c2)

    def _beta(self, t: int) -> float:
        return self.c1 * log(self.c2 * t)


class ConstantBeta(BayesianBeta, frozen=True):
    """The exploration schedule with a constant β; the width of the bound is the square root of β.

    Parameters
    ----------
    beta : float
        The value β, above 0. [M24] chapter 5 recommends 2 to 4.

    Raises
    ------
    ConfigError
        If `beta` is not above 0.
    """

    beta: float = 2.0

    def __post_init__(self) -> None:
        check_positive(beta=self.beta)

    def _beta(self, t: int) -> float:
        return self.beta


class FiniteBeta(BayesianBeta, frozen=True):
    r"""The exploration schedule for finitely many arms; the bound's width is √β_t.

    .. math:: β_t = 2 \ln \frac{M π^2 t^2}{6 δ}

    Parameters
    ----------
    arms : int
        M, number of arms, above 0.
    delta : float
        δ, probability that the bound fails, between 0 and 1.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    References
    ----------
    Srinivas et al. 2010, theorem 1.
    """

    arms: int
    delta: float = 0.1

    def __post_init__(self) -> None:
        check_positive(arms=self.arms)
        check_probability(delta=self.delta)

    def _beta(self, t: int) -> float:
        return 2.0 * log(self.arms * pi**2 * t**2 / (6.0 * self.delta))


class CompactBeta(BayesianBeta, frozen=True):
    r"""The exploration schedule for a continuous domain; the bound's width is √β_t.

    .. math:: β_t = 2 \ln \frac{2 π^2 t^2}{3 δ}
        + 2 d \ln \left( t^2 d b_1 r \sqrt{\ln(2 d a_1 π^2 t^2 / 3δ)} \right)

    The domain is :math:`[0, r]^d`, and a_1 and b_1 bound the slope of the field:

    .. math:: P(\sup |∂f/∂x_j| > L) ≤ a_1 \exp(-(L/b_1)^2)

    Parameters
    ----------
    dimension : int
        d, dimension of the domain.
    delta : float
        δ, probability that the bound fails, between 0 and 1.
    a1, b1, r : float
        `a1` and `b1` bound the slope, and `r` is the side of the domain; all are above 0.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    References
    ----------
    [B16] theorem 4.2; [ET] theorem 1.
    """

    dimension: int
    delta: float = 0.1
    a1: float = 1.0
    b1: float = 1.0
    r: float = 1.0

    def __post_init__(self) -> None:
        check_probability(delta=self.delta)
        check_positive(dimension=self.dimension, a1=self.a1, b1=self.b1, r=self.r)

    def _beta(self, t: int) -> float:
        d = self.dimension
        slope = sqrt(max(0.0, log(2 * d * self.a1 * pi**2 * t**2 / (3 * self.delta))))
        beta = 2 * log(2 * pi**2 * t**2 / (3 * self.delta))
        return beta + 2 * d * log(max(t**2 * d * self.b1 * self.r * slope, 1.0))


class AgnosticBeta:
    r"""Schedule of confidence widths for a field that is a fixed function.

    The width depends on the number n of readings:

    .. math:: B + R \sqrt{2 (γ_n + 1 + \ln(1/δ))}

    Parameters
    ----------
    field : SensorField or BoxField
        Field whose prior covariance and noise variance determine the information gain γ_n of n
        greedily chosen readings.
    bound : float
        B, upper bound on the norm of the field in the Hilbert space of the kernel, in model units.
    noise : float
        R, in model units; the noise of a reading is assumed to be R-sub-Gaussian.
    delta : float
        δ, probability that the bound fails, between 0 and 1.
    horizon : int
        Number of readings after which γ_n stops growing: the window of SW-GP-UCB, or the period of
        BR-GP-UCB.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    Notes
    -----
    [ZS21] algorithm 2 is SW-GP-UCB with a window of w readings. As printed, the algorithm uses the
    gain of min(t, w) readings in interval t. But only min(t - 1, w) readings exist before interval
    t. This class uses the gain of min(t - 1, w) readings, as in [ZS21] algorithm 1.

    References
    ----------
    [ZS21] algorithms 1 and 2.
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

        check_positive(bound=bound, noise=noise)
        check_probability(delta=delta)
        check_count(horizon=horizon)
        gain = np.empty(horizon)
        information_gain(field.kernel, field.noise_variance, gain)
        gain = np.concatenate(([0.0], gain))
        self._widths = (bound + noise * np.sqrt(2 * (gain + 1 + log(1 / delta)))).tolist()

    @classmethod
    def of_noise(cls, field: "Field", horizon: int) -> "AgnosticBeta":
        """Return the agnostic schedule with B = 1, δ = 0.1 and R from the field's noise variance.

        Parameters
        ----------
        field : SensorField or BoxField
            As for `AgnosticBeta`; R is the square root of the field's noise variance.
        horizon : int
            As for `AgnosticBeta`.

        Returns
        -------
        AgnosticBeta
            The schedule.
        """
        return cls(field, noise=field.noise_variance**0.5, horizon=horizon)

    def width(self, t: int, observations: int) -> float:
        """Return the width of the agnostic exploration schedule.

        Parameters
        ----------
        t : int
            Number of the interval: 1, 2, ...; this schedule ignores this number.
        observations : int
            Number of readings that the model holds.

        Returns
        -------
        float
            Width in standard deviations.
        """
        return float(self._widths[min(observations, len(self._widths) - 1)])


Beta = BetaSchedule | float | str | Mapping[str, float]
DEFAULT_BETA = LogBeta()  # [B16] section 5.2 and [ET] table 6, temperature data


def beta_schedule(beta: Beta) -> BetaSchedule:
    """Return the exploration schedule for a policy's `beta` setting.

    Parameters
    ----------
    beta : BetaSchedule, float or mapping
        A schedule, which is returned unchanged; a number, which becomes the β of a `ConstantBeta`;
        or ``{"c1": ..., "c2": ...}``, which become the parameters of a `LogBeta`.

    Raises
    ------
    ConfigError
        If `beta` is anything else, or a number is out of range.

    Examples
    --------
    >>> beta_schedule({"c1": 0.4, "c2": 4})
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
            raise ConfigError(f"beta is {beta!r}; it can be a number or {{c1 = .., c2 = ..}}.")
        case _:
            return beta
