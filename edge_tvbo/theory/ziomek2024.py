"""[LB] Ziomek, Adachi & Osborne 2024: what not knowing the length scale costs.

All of it is up to a constant the paper does not state. θ is a length scale, B a bound on the
field's norm in the kernel's space.
"""

from collections.abc import Callable
from math import e, log, pi, sqrt

from edge_tvbo.theory import checks


def rbf_gain_rate(readings: int, length_scale: float, *, dimension: int) -> float:
    """Give θ^-d ln(n)^(d+1), which γ_n grows like for an RBF kernel of length scale θ.

    [LB] proposition 2.2. ConfigError where a count is below 1 or `length_scale` not above 0.
    """
    checks.count(readings=readings, dimension=dimension)
    checks.positive(length_scale=length_scale)
    return float(length_scale**-dimension * log(readings) ** (dimension + 1))


def matern_gain_rate(readings: int, length_scale: float, *, dimension: int, nu: float) -> float:
    """Give θ^-d n^(d/(2ν+d)) ln(n)^(2ν/(2ν+d)), which γ_n grows like for a Matérn kernel.

    [LB] proposition 2.2 as its proof in appendix A has it, after Vakili et al. 2021. The
    proposition itself prints the exponent d(d+1)/(2ν+d(d+1)) of Srinivas et al., which is true
    too, but larger wherever d > 1 (noticed while writing this module).

    ConfigError where a count is below 1, or `length_scale` or ν not above 0.
    """
    checks.count(readings=readings, dimension=dimension)
    checks.positive(length_scale=length_scale, nu=nu)
    power = dimension / (2.0 * nu + dimension)
    return float(length_scale**-dimension * readings**power * log(readings) ** (1.0 - power))


def suspected_regret(readings: int, *, gain: float, bound: float) -> float:
    """Give R^θ(n) = √n (B √γ_n + γ_n), by which length scales are balanced.

    `gain` is γ_n under θ, nats, 0 or above; `bound` is B > 0. [LB] theorem 2.3 and algorithm 1,
    after Chowdhury & Gopalan 2017. ConfigError for an argument out of range.

    >>> suspected_regret(4, gain=9.0, bound=2.0)
    30.0
    """
    checks.count(readings=readings)
    checks.not_negative(gain=gain)
    checks.positive(bound=bound)
    return sqrt(readings) * (bound * sqrt(gain) + gain)


def candidates(growth: float, *, dimension: int) -> float:
    """Give ι = d ln g, how many length scales have been let in when g(t) = `growth`; 1 at least.

    [LB] section 3 and theorem 4.1. ConfigError where `growth` or `dimension` is below 1.
    """
    checks.count(dimension=dimension)
    checks.positive(growth=growth)
    return max(1.0, dimension * log(growth))


def noise_margin(
    t: int, *, growth: float, dimension: int, noise_variance: float, delta: float
) -> float:
    """Give ξ_t = 2σ² ln(ι π² t² / (3δ)): how far n readings' mean errs is √(ξ_t / n) at most.

    [LB] theorem 4.1 prints 2σ² ln(ι π² t²) - ln 3δ, the last logarithm astray; lemma B.5 with
    δ_B = δ/2 and |A| = ι gives this. ConfigError for an argument out of range.
    """
    checks.count(t=t)
    checks.positive(noise_variance=noise_variance)
    checks.probability(delta=delta)
    scales = candidates(growth, dimension=dimension)
    return 2.0 * noise_variance * log(scales * pi**2 * t**2 / (3.0 * delta))


def first_good_interval(
    growth: Callable[[int], float], ratio: float, *, dimension: int, horizon: int
) -> int:
    """Give t0, the first interval at which a length scale that fits has surely been let in.

    Parameters
    ----------
    growth : callable
        g, rising with t from 1 or so: scales down to θ0/g(t) are in at t.
    ratio : float
        θ0/θ*, the first length scale by the field's own, 1 or above.
    dimension, horizon : int
        d; T, which is given where the horizon ends before.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [LB] theorem 4.1 and appendix D print g^-1(e^(-1/d) θ0/θ*). Candidates lie e^(1/d) apart, so
    the greatest that fits, θ̂, is only known to be above θ* e^(-1/d), and θ0/g(t) <= θ̂ is sure
    from g(t) = e^(1/d) θ0/θ* on; that is what is given. It also takes line 14 of algorithm 1 to
    let q(l+1) in when it is *not below* θ0/g(t), as section 3's text says; the line prints "≤".
    """
    checks.count(dimension=dimension, horizon=horizon)
    checks.positive(ratio=ratio)
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
    """Give how R_T of LB-GP-UCB grows, constants aside.

    (t0 + ι) B + (R^θ*(T) + √(T ξ_T)) ((θ0/θ*)^d d ln(θ0/θ*) + ι)

    Parameters
    ----------
    horizon : int
        T.
    suspected : float
        R^θ*(T), from `suspected_regret`.
    first : int
        t0, from `first_good_interval`.
    ratio, growth : float
        θ0/θ*, 1 or above; g(T).
    margin : float
        ξ_T, from `noise_margin`.
    bound : float
        B*, under θ*.
    dimension : int
        d.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [LB] theorem 4.1.
    """
    checks.count(horizon=horizon, first=first)
    checks.positive(ratio=ratio, bound=bound)
    checks.not_negative(suspected=suspected, margin=margin)
    scales = candidates(growth, dimension=dimension)
    too_long = ratio**dimension * dimension * log(max(ratio, 1.0))
    return (first + scales) * bound + (suspected + sqrt(horizon * margin)) * (too_long + scales)
