"""[LB] Ziomek, Adachi & Osborne 2024: regret of balancing unknown length scales.

All results are up to a constant that the paper does not state. θ is a length scale, B a bound on
the field's norm in the kernel's space.
"""

from collections.abc import Callable
from math import e, log, pi, sqrt

from edge_tvbo.models.checks import (
    check_count,
    check_not_negative,
    check_positive,
    check_probability,
)


def rbf_gain_rate(readings: int, length_scale: float, *, dimension: int) -> float:
    """Return θ^-d ln(n)^(d+1), the growth rate of γ_n for an RBF kernel of length scale θ.

    [LB] proposition 2.2.
    """
    check_count(readings=readings, dimension=dimension)
    check_positive(length_scale=length_scale)
    return float(length_scale**-dimension * log(readings) ** (dimension + 1))


def matern_gain_rate(readings: int, length_scale: float, *, dimension: int, nu: float) -> float:
    """Return θ^-d n^(d/(2ν+d)) ln(n)^(2ν/(2ν+d)), the growth rate of γ_n for a Matérn kernel.

    [LB] proposition 2.2 as proved in its appendix A, after Vakili et al. 2021. The proposition
    itself prints the exponent d(d+1)/(2ν+d(d+1)) of Srinivas et al., which also holds but is larger
    for d > 1 (noticed while writing this module).
    """
    check_count(readings=readings, dimension=dimension)
    check_positive(length_scale=length_scale, nu=nu)
    power = dimension / (2.0 * nu + dimension)
    return float(length_scale**-dimension * readings**power * log(readings) ** (1.0 - power))


def suspected_regret(readings: int, *, gain: float, bound: float) -> float:
    """Return the suspected regret R^θ(n) = √n (B √γ_n + γ_n), by which length scales are balanced.

    `gain` is γ_n under θ in nats, 0 or more; `bound` is B > 0. [LB] theorem 2.3 and algorithm 1,
    after Chowdhury & Gopalan 2017.

    >>> suspected_regret(4, gain=9.0, bound=2.0)
    30.0
    """
    check_count(readings=readings)
    check_not_negative(gain=gain)
    check_positive(bound=bound)
    return sqrt(readings) * (bound * sqrt(gain) + gain)


def candidate_count(growth: float, *, dimension: int) -> float:
    """Return ι = d ln g, the number of candidate length scales at g(t) = `growth`; at least 1.

    [LB] section 3 and theorem 4.1.
    """
    check_count(dimension=dimension)
    check_positive(growth=growth)
    return max(1.0, dimension * log(growth))


def noise_margin(
    t: int, *, growth: float, dimension: int, noise_variance: float, delta: float
) -> float:
    """Return ξ_t = 2σ² ln(ι π² t² / (3δ)); the mean of n readings is off by at most √(ξ_t / n).

    [LB] theorem 4.1 prints 2σ² ln(ι π² t²) - ln 3δ, with the last logarithm misplaced; lemma B.5
    with δ_B = δ/2 and |A| = ι gives this form.
    """
    check_count(t=t)
    check_positive(noise_variance=noise_variance)
    check_probability(delta=delta)
    scales = candidate_count(growth, dimension=dimension)
    return 2.0 * noise_variance * log(scales * pi**2 * t**2 / (3.0 * delta))


def first_good_interval(
    growth: Callable[[int], float], ratio: float, *, dimension: int, horizon: int
) -> int:
    """Return t0, the first interval in which a suitable length scale is surely a candidate.

    Parameters
    ----------
    growth : callable
        g, increasing in t from about 1: at t, length scales down to θ0/g(t) are candidates.
    ratio : float
        θ0/θ*, first candidate divided by the field's own length scale, 1 or more.
    dimension, horizon : int
        d; T, which is returned if t0 is later.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    [LB] theorem 4.1 and appendix D print g^-1(e^(-1/d) θ0/θ*). Candidates are a factor e^(1/d)
    apart, so the largest suitable one, θ̂, is only known to be above θ* e^(-1/d), and θ0/g(t) <= θ̂
    is certain from g(t) = e^(1/d) θ0/θ* on, which is used here. Line 14 of algorithm 1 is taken to
    admit q(l+1) if it is *not below* θ0/g(t), as the text of section 3 says; the line prints "≤".
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
    """Return the growth rate of the regret of LB-GP-UCB, without constants.

    It is (t0 + ι) B + (R^θ*(T) + √(T ξ_T)) ((θ0/θ*)^d d ln(θ0/θ*) + ι).

    Parameters
    ----------
    horizon : int
        T, in intervals.
    suspected : float
        R^θ*(T), from `suspected_regret`.
    first : int
        t0, from `first_good_interval`.
    ratio, growth : float
        θ0/θ*, 1 or more; g(T).
    margin : float
        ξ_T, from `noise_margin`.
    bound : float
        B*, bound on the norm under θ*.
    dimension : int
        d.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    [LB] theorem 4.1.
    """
    check_count(horizon=horizon, first=first)
    check_positive(ratio=ratio, bound=bound)
    check_not_negative(suspected=suspected, margin=margin)
    scales = candidate_count(growth, dimension=dimension)
    too_long = ratio**dimension * dimension * log(max(ratio, 1.0))
    return (first + scales) * bound + (suspected + sqrt(horizon * margin)) * (too_long + scales)
