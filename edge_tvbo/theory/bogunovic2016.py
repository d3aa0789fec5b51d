"""[B16] Bogunovic, Scarlett & Cevher 2016: R-GP-UCB and TV-GP-UCB when ε is known.

Variances are in units of the field's greatest prior variance (the paper takes k(x,x) ≤ 1) and
regrets in its root. The paper states its theorems for continuous domains; its footnote 1 says
that finite ones are "in fact simpler", and the ``_on_arms`` functions are that case: nothing is
discretised, so no slope enters.
"""

from math import ceil, log, pi, sqrt

from edge_tvbo.theory import checks
from edge_tvbo.theory.domain import Domain
from edge_tvbo.theory.information_gain import gain_constant, matern_exponent


def least_regret_rate(horizon: int, epsilon: float) -> float:
    """Give T ε, which no algorithm's expected regret can grow more slowly than.

    Up to a constant that the paper does not state, for kernels whose fields are twice
    differentiable. [B16] theorem 4.1, Ω(Tε): true even of whoever sees the whole of f_{t-1}.
    ConfigError where `horizon` is below 1 or `epsilon` outside 0 to 1.
    """
    checks.count(horizon=horizon)
    checks.rate(epsilon=epsilon)
    return horizon * epsilon


def block_length_se(epsilon: float, *, horizon: int) -> int:
    """Give N = ⌈min(T, 12 ε^(-1/4))⌉, after how many intervals R-GP-UCB resets.

    For a squared exponential kernel: [B16] corollary 4.1 gives the power, section 5 the 12, found
    by cross-validation. [ET] table 5 prints 38, 29, 26, 68 for ε = .01, .03, .05, .001 as this
    does, but 17 for ε = .2, where the formula's 17.94 rounds up to 18. ConfigError where
    `epsilon` is outside 0 to 1 or `horizon` below 1.

    >>> [block_length_se(e, horizon=400) for e in (0.01, 0.03, 0.05, 0.001)]
    [38, 29, 26, 68]
    """
    return _block(epsilon, horizon, 12.0, 0.25)


def block_length_matern(epsilon: float, *, horizon: int, dimension: int, nu: float) -> int:
    """Give N = ⌈min(T, 24 ε^(-1/(4-c)))⌉, R-GP-UCB's block for a Matérn kernel.

    c is `matern_exponent`. [B16] corollary 4.1 and section 5. ConfigError as in `block_length_se`,
    and where `dimension` is below 1 or ν is not above 0.
    """
    exponent = 1.0 / (4.0 - matern_exponent(dimension=dimension, nu=nu))
    return _block(epsilon, horizon, 24.0, exponent)


def resetting_beta(horizon: int, *, domain: Domain, delta: float) -> float:
    """Give β_T of R-GP-UCB on a continuous domain; UCB is mean + √β_T std.

    [B16] eq. 16. `delta` is the probability that the bound fails. ConfigError where `horizon` is
    below 1 or `delta` not between 0 and 1.
    """
    return _beta(horizon, domain, delta, events=4)


def varying_beta(horizon: int, *, domain: Domain, delta: float) -> float:
    """Give β_T of TV-GP-UCB on a continuous domain: [B16] eq. 19; else as `resetting_beta`."""
    return _beta(horizon, domain, delta, events=3)


def resetting_beta_on_arms(horizon: int, *, arms: int, delta: float) -> float:
    """Give β_T of R-GP-UCB on finitely many arms: 2 ln(4 M π_T / δ), π_T = π²T²/6.

    [B16] appendix D, before eq. 62, with D_t = D (footnote 1). ConfigError where a count is below
    1 or `delta` not between 0 and 1.
    """
    return 2.0 * log(4.0 * arms * _union(horizon, arms, delta))


def varying_beta_on_arms(horizon: int, *, arms: int, delta: float) -> float:
    """Give β_T of TV-GP-UCB on finitely many arms: 2 ln(3 M π_T / δ), π_T = π²T²/6.

    [B16] appendix C.1, before eq. 29, with D_t = D (footnote 1). Errors as in
    `resetting_beta_on_arms`.
    """
    return 2.0 * log(3.0 * arms * _union(horizon, arms, delta))


def mismatch(
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
    """Give ψ_T(N, ε): how wrong N intervals of believing that nothing moves make mean and width.

    Parameters
    ----------
    horizon, epsilon, block : int, float, int
        T; the rate of change, 0 to 1; N, 1 to T.
    beta : float
        β_T, from `resetting_beta` or `resetting_beta_on_arms`.
    noise_variance, delta : float
        σ² > 0; the probability that the bound fails.
    a0, b0 : float
        P(sup |f| > L) ≤ a0 exp(-(L/b0)²) ([B16] eq. 9). On M arms a0 = M, b0 = √2.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [B16] eq. 18. Its (2 + b0) stands for noise of variance 1 at most (before eq. 65); [ET] lemma 7
    puts (b0 + √2 σ) instead, see `brunzema.mismatch`.
    """
    _check_blocks(horizon, epsilon, block, beta, noise_variance, delta, a0, b0)
    s2, s4, drift = 1.0 / noise_variance, noise_variance**-2, block**3 * epsilon
    largest = sqrt(log(2.0 * (1.0 + a0) * pi**2 * horizon**2 / (3.0 * delta)))
    return sqrt(beta * (3.0 * s2 + s4) * drift) + (s2 + s4) * drift * (2.0 + b0) * largest


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
    """Give what R_T of R-GP-UCB stays below, with probability 1 - δ.

    √(C1 T β_T (T/N + 1) γ_N) + 2 + 2 T ψ_T(N, ε), with `gain` = γ_N, the most N readings can say;
    the other parameters and the errors are those of `mismatch`.

    [B16] theorem 4.2, eq. 17, whose last term is printed T ψ: [ET] footnote 6 found the missing 2
    (mean and width each err twice, eq. 72).
    """
    wrong = mismatch(
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
    """Give what R_T of TV-GP-UCB stays below, with probability 1 - δ: √(C1 T β_T γ̃_T) + 2.

    Parameters
    ----------
    horizon : int
        T.
    gain : float
        γ̃_T, the most T readings can say of the field that moves, nats: from
        `mandl2024.best_varying_gain`. [B16] eq. 21 puts its own eq. 46 there, which is wrong: see
        `varying_gain_as_printed`.
    beta : float
        β_T, from `varying_beta` or `varying_beta_on_arms`, which hold δ.
    noise_variance : float
        σ² > 0.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [B16] theorem 4.3, eq. 20.
    """
    checks.count(horizon=horizon)
    checks.positive(gain=gain)
    checks.not_negative(beta=beta)
    return sqrt(gain_constant(noise_variance) * horizon * beta * gain) + 2.0


def varying_gain_as_printed(horizon: int, epsilon: float, block: int, *, gain: float) -> float:
    """Give (T/N + 1)(γ_N + N³ ε), the wrong bound on γ̃_T of [B16] eq. 21 and 46, to compare.

    Eq. 56 leaves σ^-2 out of the determinant, so this is too small wherever N < σ^-4. [M24]
    theorem 3.2 found and mended it: `mandl2024.varying_gain`. Parameters and errors as there.
    """
    checks.block_within(block, horizon)
    checks.rate(epsilon=epsilon)
    checks.positive(gain=gain)
    return (horizon / block + 1.0) * (gain + block**3 * epsilon)


def _block(epsilon: float, horizon: int, factor: float, power: float) -> int:
    checks.rate(epsilon=epsilon)
    checks.count(horizon=horizon)
    return horizon if epsilon == 0 else ceil(min(horizon, factor * epsilon**-power))


def _union(horizon: int, arms: int, delta: float) -> float:
    checks.count(horizon=horizon, arms=arms)
    checks.probability(delta=delta)
    return pi**2 * horizon**2 / (6.0 * delta)


def _beta(horizon: int, domain: Domain, delta: float, events: int) -> float:
    d = domain.dimension
    union = events * _union(horizon, 1, delta)
    slope = sqrt(max(0.0, log(d * domain.a1 * union)))
    points = max(1.0, domain.reach * horizon**2 * slope)  # a grid has one point at least
    return 2.0 * log(union) + 2.0 * d * log(points)


def _check_blocks(
    horizon: int,
    epsilon: float,
    block: int,
    beta: float,
    noise_variance: float,
    delta: float,
    a0: float,
    b0: float,
) -> None:
    checks.block_within(block, horizon)
    checks.rate(epsilon=epsilon)
    checks.not_negative(beta=beta)
    checks.positive(noise_variance=noise_variance, a0=a0, b0=b0)
    checks.probability(delta=delta)
