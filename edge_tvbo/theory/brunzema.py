"""[ET] Brunzema, von Rohr, Solowjow & Trimpe: any reset rule between two block lengths.

The bounds hold for every trigger that keeps its blocks within [N_lo, N_hi], the worst one
included; they say nothing of how much better a good trigger does ([ET] section 7). Units are
those of `bogunovic2016`.
"""

from math import log, pi, sqrt

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.triggers import Bounds
from edge_tvbo.theory import checks
from edge_tvbo.theory.bogunovic2016 import block_length_matern, varying_regret
from edge_tvbo.theory.information_gain import matern_exponent


def block_bounds_se(epsilon_lower: float, epsilon_upper: float, *, horizon: int) -> Bounds:
    """Give N_lo and N_hi, between which a trigger may reset, for a squared exponential kernel.

    [ET] corollary 1 with the constant of section 6: ⌈min(T, 12 ε^(-1/4))⌉ at either end, the upper
    rate giving the lower length. ConfigError unless 0 <= lower <= upper <= 1 and `horizon` >= 1.

    >>> block_bounds_se(0.01, 0.05, horizon=400)
    Bounds(n_lower=26, n_upper=38)
    """
    checks.count(horizon=horizon)
    return Bounds.of(epsilon_lower, epsilon_upper, horizon=horizon)


def block_bounds_matern(
    epsilon_lower: float, epsilon_upper: float, *, horizon: int, dimension: int, nu: float
) -> Bounds:
    """Give N_lo and N_hi for a Matérn kernel: ⌈min(T, 24 ε^(-1/(4-ξ)))⌉ at either end.

    [ET] corollary 1 gives the power; the 24 is that of [B16] section 5. ConfigError unless
    0 <= lower <= upper <= 1, counts are 1 or more and ν is above 0.
    """
    _ordered(epsilon_lower, epsilon_upper)
    lengths = [
        block_length_matern(epsilon, horizon=horizon, dimension=dimension, nu=nu)
        for epsilon in (epsilon_upper, epsilon_lower)
    ]
    return Bounds(*lengths)


def mismatch(
    horizon: int,
    epsilon: float,
    n_upper: int,
    *,
    beta: float,
    noise_variance: float,
    delta: float,
    a0: float = 1.0,
    b0: float = 1.0,
) -> float:
    """Give φ_T(ε, N_hi): how much regret an interval believing in old readings can add.

    [ET] eq. 7: [B16]'s ψ doubled, with (b0 + √2 σ) in the place of (2 + b0) and a 4 in the place
    of a 2 within the logarithm (lemma 7). Parameters and errors are those of
    `bogunovic2016.mismatch`.
    """
    checks.block_within(n_upper, horizon)
    checks.rate(epsilon=epsilon)
    checks.not_negative(beta=beta)
    checks.positive(noise_variance=noise_variance, a0=a0, b0=b0)
    checks.probability(delta=delta)
    s2, s4, drift = 1.0 / noise_variance, noise_variance**-2, n_upper**3 * epsilon
    largest = sqrt(log(4.0 * (a0 + 1.0) * pi**2 * horizon**2 / (3.0 * delta)))
    reading = (b0 + sqrt(2.0 * noise_variance)) * largest  # ȳ_T, which no reading is above
    return 2.0 * sqrt(beta * (3.0 * s2 + s4) * drift) + 2.0 * (s2 + s4) * drift * reading


def triggered_regret(
    horizon: int,
    epsilon: float,
    bounds: Bounds,
    *,
    gain: float,
    beta: float,
    noise_variance: float,
    delta: float,
    a0: float = 1.0,
    b0: float = 1.0,
) -> float:
    """Give what R_T stays below, with probability 1 - δ, whenever resets keep within `bounds`.

    √(C1 T β_T (T/N_lo + 1) γ_{N_hi}) + 2 + T φ_T(ε, N_hi). `gain` is γ_{N_hi}; `beta` is
    `bogunovic2016.resetting_beta` or its form on arms, which equals theorem 1's; the rest are
    those of `mismatch`, errors too, and N_lo <= N_hi is wanted.

    [ET] theorem 1, eq. 6.
    """
    if not 1 <= bounds.n_lower <= bounds.n_upper:
        raise ConfigError(
            f"n_lower is {bounds.n_lower}, n_upper {bounds.n_upper}; 1 <= n_lower <= n_upper."
        )
    wrong = mismatch(
        horizon,
        epsilon,
        bounds.n_upper,
        beta=beta,
        noise_variance=noise_variance,
        delta=delta,
        a0=a0,
        b0=b0,
    )
    blocks = (horizon / bounds.n_lower + 1.0) * gain
    learning = varying_regret(horizon, gain=blocks, beta=beta, noise_variance=noise_variance)
    return learning + horizon * wrong


def regret_rate_se(
    horizon: int, epsilon: float, epsilon_lower: float, epsilon_upper: float
) -> float:
    """Give how R_T grows, constants and logarithms aside, for a squared exponential kernel.

    The greatest of √T, λ2^(1/8) ε^(1/8) T, λ1^(-3/8) ε^(1/8) T and λ1^(-3/4) ε^(1/4) T, where
    λ1 = lower/ε and λ2 = upper/ε say how loosely ε is known. [ET] corollary 1, eq. 8.

    ConfigError unless 0 < lower <= ε <= upper <= 1 and `horizon` >= 1.

    >>> regret_rate_se(10**4, 1e-8, 1e-8, 1e-8)
    1000.0
    """
    return _rate(horizon, epsilon, epsilon_lower, epsilon_upper, 0.0)


def regret_rate_matern(
    horizon: int,
    epsilon: float,
    epsilon_lower: float,
    epsilon_upper: float,
    *,
    dimension: int,
    nu: float,
) -> float:
    """Give how R_T grows, constants and logarithms aside, for a Matérn kernel with ν > 2.

    [ET] corollary 1, eq. 9, with ξ = `matern_exponent`. Its first term is printed √(T^(1-ξ)),
    which is less than the static √T; with N = T, theorem 1 and γ_T = Õ(T^ξ) give √(T^(1+ξ)), as in
    [B16] corollary 4.1, and that is what stands here (found while writing this module).
    Parameters and errors are those of `regret_rate_se`; ν must be above 2.
    """
    if not nu > 2:
        raise ConfigError(f"nu is {nu}; it must be above 2.")
    xi = matern_exponent(dimension=dimension, nu=nu)
    return _rate(horizon, epsilon, epsilon_lower, epsilon_upper, xi)


def _rate(horizon: int, epsilon: float, lower: float, upper: float, xi: float) -> float:
    checks.count(horizon=horizon)
    checks.positive(epsilon_lower=lower)
    _ordered(lower, upper)
    if not lower <= epsilon <= upper:
        raise ConfigError(f"epsilon is {epsilon}; it can be {lower} to {upper}, its bounds.")
    loose, tight, half = lower / epsilon, upper / epsilon, 1.0 / (2.0 * (4.0 - xi))
    power = epsilon ** ((1.0 - xi) * half)
    terms: tuple[float, ...] = (
        horizon ** ((1.0 + xi) / 2.0),
        loose ** (-xi * half) * tight**half * power * horizon,
        loose ** (-3.0 * half) * power * horizon,
        loose ** (-6.0 * half) * power**2 * horizon,
    )
    return max(terms)


def _ordered(lower: float, upper: float) -> None:
    if not 0 <= lower <= upper <= 1:
        raise ConfigError(f"epsilon between {lower} and {upper}: 0 <= lower <= upper <= 1.")
