"""[B16] Bogunovic, Scarlett & Cevher 2016: regret bounds for a known rate of change ε.

The bounds are for the policies R-GP-UCB and TV-GP-UCB. T is the number of intervals. Variances are
in units of the field's largest prior variance, because the paper assumes that no prior variance is
above 1. Regrets are in units of the square root of that variance. The paper states its theorems for
continuous domains and says in footnote 1 that finite domains are "in fact simpler". The functions
whose names end in ``_on_arms`` are for finitely many arms. For these arms no discretisation is
needed, so the results do not depend on the slope of the field.
"""

from math import ceil, log, pi, sqrt

from edge_tvbo.models.parameter_checks import (
    check_block,
    check_count,
    check_not_negative,
    check_positive,
    check_probability,
    check_range,
)
from edge_tvbo.theory.information_gain import matern_exponent, regret_constant


def regret_lower_bound(horizon: int, epsilon: float) -> float:
    """Return the lower bound T ε on the expected regret of every algorithm.

    T is the number of intervals, and ε is the rate of change. The bound holds up to a constant
    factor, which the paper does not state. The bound applies to kernels whose fields are twice
    differentiable. It holds even for an algorithm that observes the complete previous field
    f_{t-1}.
    Source: [B16] theorem 4.1, Ω(Tε).
    """
    check_count(horizon=horizon)
    check_range(0, 1, epsilon=epsilon)
    return horizon * epsilon


def block_length_se(epsilon: float, *, horizon: int) -> int:
    r"""Return the block length N of R-GP-UCB for a squared exponential kernel.

    .. math:: N = \lceil \min(T, 12 ε^{-1/4}) \rceil

    N is the number of intervals between two resets, T is the horizon in intervals, and ε is the
    rate of change. [B16] corollary 4.1 states the exponent of ε. [B16] section 5 states the factor
    12, which was found by cross-validation. [ET] table 5 prints the same N as the following
    example. For ε = .2, however, the table prints 17, although the formula gives 17.94, rounded up
    to 18.

    >>> [block_length_se(e, horizon=400) for e in (0.01, 0.03, 0.05, 0.001)]
    [38, 29, 26, 68]
    """
    return _block(epsilon, horizon, 12.0, 0.25)


def block_length_matern(epsilon: float, *, horizon: int, dimension: int, nu: float) -> int:
    r"""Return the block length N of R-GP-UCB for a Matérn kernel.

    .. math:: N = \lceil \min(T, 24 ε^{-1/(4-c)}) \rceil

    The function `matern_exponent` computes c. T and ε are as in `block_length_se`. Source: [B16]
    corollary 4.1 and section 5.
    """
    exponent = 1.0 / (4.0 - matern_exponent(dimension=dimension, nu=nu))
    return _block(epsilon, horizon, 24.0, exponent)


def resetting_beta_on_arms(horizon: int, *, arms: int, delta: float) -> float:
    r"""Return the exploration weight β_T of R-GP-UCB on finitely many arms.

    .. math:: β_T = 2 \ln \frac{4 M π_T}{δ}, \quad π_T = \frac{π^2 T^2}{6}

    M is the number of arms, T is the number of intervals, and δ is the probability that the
    confidence bound fails. Source: [B16] appendix D, before eq. 62, with the finite domain D in
    place of its discretisation D_t (footnote 1).
    """
    return 2.0 * log(4.0 * arms * _union(horizon, arms, delta))


def varying_beta_on_arms(horizon: int, *, arms: int, delta: float) -> float:
    r"""Return the exploration weight β_T of TV-GP-UCB on finitely many arms.

    .. math:: β_T = 2 \ln \frac{3 M π_T}{δ}, \quad π_T = \frac{π^2 T^2}{6}

    Arguments and symbols are those of `resetting_beta_on_arms`. Source: [B16] appendix C.1, before
    eq. 29, with the finite domain D in place of its discretisation D_t (footnote 1).
    """
    return 2.0 * log(3.0 * arms * _union(horizon, arms, delta))


def resetting_mismatch(
    horizon: int,
    epsilon: float,
    block: int,
    *,
    beta: float,
    noise_variance: float,
    delta: float,
    a0: float = 1.0,
    b0: float = 1.0,
) -> float:
    """Return ψ_T(N, ε), a bound on the errors that outdated readings cause in a static model.

    The errors are those of the mean and of the width in a block of N intervals without a reset.

    Parameters
    ----------
    horizon : int
        T, number of intervals.
    epsilon : float
        ε, rate of change, 0 to 1.
    block : int
        N, block length in intervals, 1 to T.
    beta : float
        β_T, from `resetting_beta_on_arms`. On a continuous domain, β_T is the square of the width
        of `CompactBeta` in interval T ([B16] eq. 16).
    noise_variance : float
        σ², noise variance of a reading, > 0.
    delta : float
        δ, probability that the bound fails.
    a0, b0 : float
        Constants with P(sup |f| > L) ≤ a0 exp(-(L/b0)²) ([B16] eq. 9). For M arms they are a0 = M
        and b0 = √2.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Source: [B16] eq. 18. After eq. 65, the proof in [B16] assumes a noise variance of 1. However,
    the factor (2 + b0) in eq. 18 is valid for every σ² of at most 2. If σ² is larger, this function
    replaces the 2 by √2 σ. [ET] lemma 7 always has (b0 + √2 σ); see `brunzema.triggered_mismatch`.
    """
    check_block(block, horizon)
    check_range(0, 1, epsilon=epsilon)
    check_not_negative(beta=beta)
    check_positive(noise_variance=noise_variance, a0=a0, b0=b0)
    check_probability(delta=delta)
    s2, s4, drift = 1.0 / noise_variance, noise_variance**-2, block**3 * epsilon
    largest = sqrt(log(2.0 * (1.0 + a0) * pi**2 * horizon**2 / (3.0 * delta)))
    reading = (max(2.0, sqrt(2.0 * noise_variance)) + b0) * largest  # an upper bound on |y|
    return sqrt(beta * (3.0 * s2 + s4) * drift) + (s2 + s4) * drift * reading


def resetting_regret(
    horizon: int,
    epsilon: float,
    block: int,
    *,
    gain: float,
    beta: float,
    noise_variance: float,
    delta: float,
    a0: float = 1.0,
    b0: float = 1.0,
) -> float:
    r"""Return a regret bound of R-GP-UCB that holds with probability 1 - δ.

    .. math:: \sqrt{C_1 T β_T (T/N + 1) γ_N} + 2 + 2 T ψ_T(N, ε)

    The bound is in units of the square root of the largest prior variance. C_1 is the result of
    `regret_constant`, and ψ_T is that of `resetting_mismatch`. `gain` is the information gain γ_N
    in nats. The other arguments and the exceptions are those of `resetting_mismatch`.

    Source: [B16] theorem 4.2, eq. 17. Eq. 17 prints the last term as T ψ. According to [ET]
    footnote 6, a factor 2 is missing: the errors of mean and width each count twice (eq. 72).
    """
    wrong = resetting_mismatch(
        horizon,
        epsilon,
        block,
        beta=beta,
        noise_variance=noise_variance,
        delta=delta,
        a0=a0,
        b0=b0,
    )
    blocks = (horizon / block + 1.0) * gain
    learning = varying_regret(horizon, gain=blocks, beta=beta, noise_variance=noise_variance)
    return learning + 2.0 * horizon * wrong


def varying_regret(horizon: int, *, gain: float, beta: float, noise_variance: float) -> float:
    r"""Return a regret bound of TV-GP-UCB that holds with probability 1 - δ.

    .. math:: \sqrt{C_1 T β_T \tilde{γ}_T} + 2

    Parameters
    ----------
    horizon : int
        T, number of intervals.
    gain : float
        γ̃_T, information gain of T readings of the changing field, in nats, from
        `mandl2024.best_varying_gain`. [B16] eq. 21 uses eq. 46 instead. But eq. 56 omits σ^-2 in
        the determinant, so eq. 46 is too small if N < σ^-4. The author of [M24] found the error.
    beta : float
        β_T for the probability δ, from `varying_beta_on_arms`.
    noise_variance : float
        σ², noise variance of a reading, > 0.

    Returns
    -------
    float
        Bound on R_T, in units of the square root of the largest prior variance.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Source: [B16] theorem 4.3, eq. 20.
    """
    check_count(horizon=horizon)
    check_positive(gain=gain)
    check_not_negative(beta=beta)
    return sqrt(regret_constant(noise_variance) * horizon * beta * gain) + 2.0


def _block(epsilon: float, horizon: int, factor: float, power: float) -> int:
    check_range(0, 1, epsilon=epsilon)
    check_count(horizon=horizon)
    return horizon if epsilon == 0 else ceil(min(horizon, factor * epsilon**-power))


def _union(horizon: int, arms: int, delta: float) -> float:
    check_count(horizon=horizon, arms=arms)
    check_probability(delta=delta)
    return pi**2 * horizon**2 / (6.0 * delta)
