"""[LB] Ziomek, Adachi & Osborne 2024: regret of LB-GP-UCB under unknown length scales.

All results omit a constant factor that the paper does not state. θ is a length scale, and B is a
bound on the field's norm in the kernel's space.
"""

from collections.abc import Callable
from math import e, log, pi, sqrt

from edge_tvbo.models.parameter_checks import (
    check_count,
    check_not_negative,
    check_positive,
    check_probability,
)


def rbf_gain_rate(readings: int, length_scale: float, *, dimension: int) -> float:
    r"""Return Ziomek et al.'s growth rate of the gain γ_n for an RBF kernel of length scale θ.

    .. math:: θ^{-d} \ln(n)^{d+1}

    γ_n is the information gain of n readings, and d is the dimension. Source: [LB] proposition 2.2.
    """
    check_count(readings=readings, dimension=dimension)
    check_positive(length_scale=length_scale)
    return float(length_scale**-dimension * log(readings) ** (dimension + 1))


def matern_gain_rate(readings: int, length_scale: float, *, dimension: int, nu: float) -> float:
    r"""Return Ziomek et al.'s growth rate of the gain γ_n for a Matérn kernel of length scale θ.

    .. math:: θ^{-d} n^{d / (2ν + d)} \ln(n)^{2ν / (2ν + d)}

    γ_n is the information gain of n readings, and d is the dimension. Source: [LB] proposition 2.2
    as proved in appendix A, after Vakili et al. 2021. The proposition itself has the exponent
    d(d+1)/(2ν+d(d+1)) of Srinivas et al. This exponent is also valid, but it is larger (noticed
    while writing this module).
    """
    check_count(readings=readings, dimension=dimension)
    check_positive(length_scale=length_scale, nu=nu)
    power = dimension / (2.0 * nu + dimension)
    return float(length_scale**-dimension * readings**power * log(readings) ** (1.0 - power))


def suspected_regret(readings: int, *, gain: float, bound: float) -> float:
    r"""Return the suspected regret of a length scale after n readings.

    .. math:: R^θ(n) = \sqrt{n} (B \sqrt{γ_n} + γ_n)

    LB-GP-UCB balances the suspected regret between length scales. `gain` is γ_n for the length
    scale θ in nats, 0 or more; `bound` is B > 0. Source: Ziomek et al. [LB] theorem 2.3 and
    algorithm 1, after Chowdhury & Gopalan 2017.

    >>> suspected_regret(4, gain=9.0, bound=2.0)
    30.0
    """
    check_count(readings=readings)
    check_not_negative(gain=gain)
    check_positive(bound=bound)
    return sqrt(readings) * (bound * sqrt(gain) + gain)


def candidate_count(growth: float, *, dimension: int) -> float:
    """Return ι = d · ln g, the number of candidate length scales between θ0 and θ0/g.

    θ0 is the first candidate, g is `growth`, and d is `dimension`. The result is at least 1.
    Source: Ziomek et al. [LB] section 3 and theorem 4.1.
    """
    check_count(dimension=dimension)
    check_positive(growth=growth)
    return max(1.0, dimension * log(growth))


def noise_margin(
    t: int, *, growth: float, dimension: int, noise_variance: float, delta: float
) -> float:
    r"""Return ξ_t, the margin with which LB-GP-UCB eliminates candidate length scales.

    .. math:: ξ_t = 2 σ^2 \ln \frac{ι π^2 t^2}{3 δ}

    The function `candidate_count` computes ι. The error of the mean of n readings is at most
    :math:`\sqrt{ξ_t / n}`. Ziomek et al. [LB] theorem 4.1 print
    :math:`2 σ^2 \ln(ι π^2 t^2) - \ln 3δ`, in which the last logarithm is misplaced. Lemma B.5 with
    δ_B = δ/2 and |A| = ι implies the formula above.
    """
    check_count(t=t)
    check_positive(noise_variance=noise_variance)
    check_probability(delta=delta)
    scales = candidate_count(growth, dimension=dimension)
    return 2.0 * noise_variance * log(scales * pi**2 * t**2 / (3.0 * delta))


def first_good_interval(
    growth: Callable[[int], float], ratio: float, *, dimension: int, horizon: int
) -> int:
    r"""Return t0, the interval from which a suitable length scale is certain to be a candidate.

    Parameters
    ----------
    growth : callable
        g, a function that increases with t from about 1. In interval t, length scales down to
        θ0/g(t) are candidates.
    ratio : float
        θ0/θ*, the first candidate divided by the field's length scale, 1 or more.
    dimension : int
        d, dimension of the domain.
    horizon : int
        T, number of intervals. T is returned if t0 is above T.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Ziomek et al. [LB] theorem 4.1 and appendix D print :math:`g^{-1}(e^{-1/d} θ_0/θ^*)`.
    Neighbouring candidates differ by the factor :math:`e^{1/d}`, so the largest suitable candidate
    θ̂ is only known to be above :math:`θ^* e^{-1/d}`. The condition of this function is
    :math:`g(t) ≥ e^{1/d} θ_0/θ^*`, because :math:`θ_0/g(t) ≤ \hat{θ}` is then certain.

    The text of section 3 and line 14 of algorithm 1 contradict each other. In the text and in this
    module, the next length scale q(l+1) becomes a candidate if q(l+1) ≥ θ0/g(t). Line 14 has the
    condition q(l+1) ≤ θ0/g(t).
    """
    check_count(dimension=dimension, horizon=horizon)
    check_positive(ratio=ratio)
    wanted = ratio * e ** (1.0 / dimension)
    return next((t for t in range(1, horizon + 1) if growth(t) >= wanted), horizon)


def balancing_regret(
    horizon: int,
    *,
    suspected: float,
    first: int,
    ratio: float,
    growth: float,
    margin: float,
    bound: float,
    dimension: int,
) -> float:
    r"""Return the growth rate of the regret of LB-GP-UCB, without constants.

    .. math:: (t_0 + ι) B + \left( R^{θ^*}(T) + \sqrt{T ξ_T} \right)
        \left( (θ_0/θ^*)^d \, d \ln(θ_0/θ^*) + ι \right)

    Parameters
    ----------
    horizon : int
        T, number of intervals.
    suspected : float
        :math:`R^{θ^*}(T)`, from `suspected_regret`.
    first : int
        t0, from `first_good_interval`.
    ratio : float
        θ0/θ*, the first candidate divided by the field's length scale, 1 or more.
    growth : float
        g(T), from which `candidate_count` computes ι.
    margin : float
        ξ_T, from `noise_margin`.
    bound : float
        B, bound on the norm of the field in the kernel's space, for the length scale θ*.
    dimension : int
        d, dimension of the domain.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Source: Ziomek et al. [LB] theorem 4.1.
    """
    check_count(horizon=horizon, first=first)
    check_positive(ratio=ratio, bound=bound)
    check_not_negative(suspected=suspected, margin=margin)
    scales = candidate_count(growth, dimension=dimension)
    too_long = ratio**dimension * dimension * log(max(ratio, 1.0))
    return (first + scales) * bound + (suspected + sqrt(horizon * margin)) * (too_long + scales)
