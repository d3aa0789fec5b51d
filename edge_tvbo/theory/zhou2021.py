"""[ZS21] Zhou & Shroff 2021: restarts and sliding windows under a budget of change.

The field is any function whose norm in the kernel's space is at most B, and whose moves, in that
norm, add up to at most P_T over the horizon. Variances are in units of the greatest k(x,x).
"""

from math import ceil, log, log1p, sqrt

from edge_tvbo.theory import checks


def restart_interval(horizon: int, *, gain: float, variation: float | None = None) -> int:
    """Give H = γ_T^(1/4) (T/P_T)^(1/2), after how many intervals to restart, 1 to T.

    Parameters
    ----------
    horizon : int
        T.
    gain : float
        γ_T, nats.
    variation : float or None
        P_T, 0 or above; None where nobody knows it, which gives γ_T^(1/4) T^(1/2).

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [ZS21] remarks 2 and 3, up to logarithms and a constant, rounded up.

    >>> restart_interval(400, gain=16.0), restart_interval(400, gain=16.0, variation=4.0)
    (40, 20)
    """
    checks.count(horizon=horizon)
    checks.positive(gain=gain)
    budget = 1.0 if variation is None else variation
    checks.not_negative(variation=budget)
    if budget == 0:
        return horizon
    return ceil(max(1.0, min(horizon, sqrt(sqrt(gain) * horizon / budget))))


def window_length(horizon: int, *, gain: float, variation: float | None = None) -> int:
    """Give w, how many intervals a sliding window holds: [ZS21] sets it as H.

    Parameters, errors and source are those of `restart_interval`.
    """
    return restart_interval(horizon, gain=gain, variation=variation)


def restart_beta(
    gain: float, *, bound: float, noise: float, regularization: float, delta: float
) -> float:
    """Give β(δ) = B + R √((2γ_H + 2 ln(1/δ)) / λ), which multiplies σ itself.

    Parameters
    ----------
    gain : float
        γ_H, nats.
    bound, noise : float
        B; R, the readings' noise is R-sub-Gaussian.
    regularization : float
        λ, the noise variance that the model takes for true.
    delta : float
        The probability that the bound fails.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [ZS21] theorem 1. Its algorithm 1 prints B + R √(2(γ + 1 + ln(1/δ))) instead, which is the
    β of Chowdhury & Gopalan for λ near 1; `model.exploration.AgnosticBeta` is that one.
    """
    checks.positive(gain=gain, bound=bound, noise=noise, regularization=regularization)
    checks.probability(delta=delta)
    return bound + noise * sqrt((2.0 * gain + 2.0 * log(1.0 / delta)) / regularization)


def window_beta(
    horizon: int, gain: float, *, bound: float, noise: float, regularization: float, delta: float
) -> float:
    """Give β_T(δ) = B + R √((2γ_w + 2 ln(T/δ)) / λ): what a window forgets costs the T.

    [ZS21] theorem 2 and lemma 2. Parameters and errors are those of `restart_beta`.
    """
    checks.count(horizon=horizon)
    checks.probability(delta=delta)
    return restart_beta(
        gain, bound=bound, noise=noise, regularization=regularization, delta=delta / horizon
    )


def regret_rate(horizon: int, length: int, variation: float, *, gain: float, beta: float) -> float:
    """Give √γ H^(3/2) P_T + β T √(γ/H), how R_T grows, constants aside.

    `length` is H or w, 1 to T; `gain` is γ_H or γ_w; `beta` is `restart_beta` or `window_beta`.
    [ZS21] theorems 1 and 2. The appendix ends theorem 2 with O(w P_T + ...) instead, by a step
    (lemma 2) that the same paper shows to be false (claim 2, after Zhao & Zhang 2021); the
    theorem as stated is the one that holds. ConfigError for an argument out of range.
    """
    _check(horizon, length, variation, gain, beta)
    return sqrt(gain * length) * length * variation + beta * horizon * sqrt(gain / length)


def dynamic_regret(
    horizon: int,
    length: int,
    variation: float,
    *,
    gain: float,
    beta: float,
    regularization: float,
) -> float:
    """Give what R_T stays below, with probability 1 - δ: the theorems with their constants kept.

    2 H P_T √(2(1+λ) H γ_H) / λ + 2 β ⌈T/H⌉ √(2 H γ_H / ln(1 + 1/λ)); parameters and errors are
    those of `regret_rate` and `restart_beta`.

    [ZS21] section IV.B, (c) of the chain before claim 1, summed over blocks; its text drops the
    factors √(2(1+λ))/λ and 2 on the way to O(...). The sum of widths follows from
    σ² ≤ ln(1 + σ²/λ) / ln(1 + 1/λ) for σ² ≤ 1, which wants no special λ.
    """
    _check(horizon, length, variation, gain, beta)
    checks.positive(regularization=regularization)
    drag = sqrt(2.0 * (1.0 + regularization) * length * gain) / regularization
    widths = ceil(horizon / length) * sqrt(2.0 * length * gain / log1p(1.0 / regularization))
    return 2.0 * length * variation * drag + 2.0 * beta * widths


def _check(horizon: int, length: int, variation: float, gain: float, beta: float) -> None:
    checks.block_within(length, horizon)
    checks.not_negative(variation=variation)
    checks.positive(gain=gain, beta=beta)
