"""[ZS21] Zhou & Shroff 2021: regret bounds of R-GP-UCB and SW-GP-UCB under a variation budget.

The field is any function whose norm in the kernel's space is at most B. The sum of the norms of all
changes of the field over the horizon is at most P_T, the variation budget. Variances are in units
of the largest prior variance.
"""

from math import ceil, log, log1p, sqrt

from edge_tvbo.models.parameter_checks import (
    check_block,
    check_count,
    check_not_negative,
    check_positive,
    check_probability,
)


def restart_interval(horizon: int, *, gain: float, variation: float | None = None) -> int:
    r"""Return the restart interval H of R-GP-UCB, which is also the window of SW-GP-UCB.

    H is at least 1 and at most T.

    .. math:: H = γ_T^{1/4} \sqrt{T / P_T}

    Parameters
    ----------
    horizon : int
        T, number of intervals.
    gain : float
        γ_T, information gain of T readings, in nats.
    variation : float or None
        P_T, 0 or more. If it is None, P_T is unknown, and H is :math:`γ_T^{1/4} \sqrt{T}`.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Source: [ZS21] remarks 2 and 3, up to logarithms and a constant. H is rounded up.

    >>> restart_interval(400, gain=16.0), restart_interval(400, gain=16.0, variation=4.0)
    (40, 20)
    """
    check_count(horizon=horizon)
    check_positive(gain=gain)
    budget = 1.0 if variation is None else variation
    check_not_negative(variation=budget)
    if budget == 0:
        return horizon
    return ceil(max(1.0, min(horizon, sqrt(sqrt(gain) * horizon / budget))))


def restart_beta(
    gain: float, *, bound: float, noise: float, regularization: float, delta: float
) -> float:
    r"""Return the width β(δ) of R-GP-UCB, the factor of σ in its confidence bound.

    .. math:: β(δ) = B + R \sqrt{(2 γ_H + 2 \ln(1/δ)) / λ}

    Parameters
    ----------
    gain : float
        γ_H, information gain of H readings, in nats.
    bound : float
        B, bound on the field's norm.
    noise : float
        R; the noise of a reading is assumed to be R-sub-Gaussian.
    regularization : float
        λ, noise variance that the model assumes.
    delta : float
        δ, probability that the bound fails in one block, that is, between two restarts.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Source: [ZS21] theorem 1. With the width β(δ), the confidence bounds of a single block fail with
    probability δ. However, the regret bound of the theorem holds only if the confidence bounds of
    all ⌈T/H⌉ blocks hold. For a regret bound with probability 1 - δ, the theorem therefore needs
    β(δ/⌈T/H⌉).

    Algorithm 1 of the paper prints :math:`B + R \sqrt{2 (γ + 1 + \ln(1/δ))}` instead, the β of
    Chowdhury & Gopalan for λ near 1. `models.beta.AgnosticBeta` implements this printed formula.
    """
    check_positive(gain=gain, bound=bound, noise=noise, regularization=regularization)
    check_probability(delta=delta)
    return bound + noise * sqrt((2.0 * gain + 2.0 * log(1.0 / delta)) / regularization)


def window_beta(
    horizon: int, gain: float, *, bound: float, noise: float, regularization: float, delta: float
) -> float:
    r"""Return the width β_T(δ) of SW-GP-UCB, the factor of σ in its confidence bound.

    .. math:: β_T(δ) = B + R \sqrt{(2 γ_w + 2 \ln(T/δ)) / λ}

    The factor T in the logarithm is needed because the window drops readings. Source: [ZS21]
    theorem 2 and lemma 2. `restart_beta` describes the other arguments and the exceptions.
    """
    check_count(horizon=horizon)
    check_probability(delta=delta)
    return restart_beta(
        gain, bound=bound, noise=noise, regularization=regularization, delta=delta / horizon
    )


def dynamic_regret(
    horizon: int,
    length: int,
    variation: float,
    *,
    gain: float,
    beta: float,
    regularization: float,
) -> float:
    r"""Return a regret bound of R-GP-UCB or SW-GP-UCB that holds with probability 1 - δ.

    For R-GP-UCB, `beta` must be the `restart_beta` for δ/⌈T/H⌉.

    .. math:: \frac{2 H P_T}{λ} \sqrt{2 (1 + λ) H γ_H}
        + 2 β \lceil T/H \rceil \sqrt{2 H γ_H / \ln(1 + 1/λ)}

    T is `horizon`, the number of intervals. H is `length`, the restart interval or the window, 1 to
    T. γ_H is `gain`, the information gain of H readings. P_T is `variation`. The other arguments
    and the exceptions are those of `restart_beta`.

    Source: [ZS21] section IV.B, step (c) of the chain before claim 1, summed over blocks. The paper
    omits the factors :math:`\sqrt{2 (1 + λ)} / λ` and 2 when it states O(...). The bound on the sum
    of widths follows from :math:`σ^2 ≤ \ln(1 + σ^2/λ) / \ln(1 + 1/λ)`, which holds for σ² ≤ 1 and
    any λ.
    """
    check_block(length, horizon)
    check_not_negative(variation=variation)
    check_positive(gain=gain, beta=beta, regularization=regularization)
    drag = sqrt(2.0 * (1.0 + regularization) * length * gain) / regularization
    widths = ceil(horizon / length) * sqrt(2.0 * length * gain / log1p(1.0 / regularization))
    return 2.0 * length * variation * drag + 2.0 * beta * widths
