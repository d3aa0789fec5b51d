"""[ET] Brunzema, von Rohr, Solowjow & Trimpe: regret bounds and block bounds of ET-GP-UCB.

The regret bounds hold for every trigger whose resets are N_lo to N_hi intervals apart, even for the
worst trigger. The bounds do not state how much better a good trigger is ([ET] section 7). The units
are the same as in `bogunovic2016`.
"""

from math import log, pi, sqrt

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.parameter_checks import (
    check_block,
    check_block_bounds,
    check_count,
    check_not_negative,
    check_ordered_rates,
    check_positive,
    check_probability,
    check_range,
)
from edge_tvbo.models.triggers import BlockBounds
from edge_tvbo.theory.bogunovic2016 import varying_regret
from edge_tvbo.theory.information_gain import matern_exponent


def triggered_mismatch(
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
    """Return φ_T(ε, N_hi), a bound on the regret that outdated readings cause per interval.

    Source: Brunzema et al. [ET] eq. 7. The bound φ is twice the ψ of [B16], with (b0 + √2 σ) in
    place of (2 + b0), and with 4 in place of 2 inside the logarithm ([ET] lemma 7). Arguments and
    exceptions are those of `bogunovic2016.resetting_mismatch`.
    """
    check_block(n_upper, horizon)
    check_range(0, 1, epsilon=epsilon)
    check_not_negative(beta=beta)
    check_positive(noise_variance=noise_variance, a0=a0, b0=b0)
    check_probability(delta=delta)
    s2, s4, drift = 1.0 / noise_variance, noise_variance**-2, n_upper**3 * epsilon
    largest = sqrt(log(4.0 * (a0 + 1.0) * pi**2 * horizon**2 / (3.0 * delta)))
    reading = (b0 + sqrt(2.0 * noise_variance)) * largest  # ȳ_T, an upper bound on all readings
    return 2.0 * sqrt(beta * (3.0 * s2 + s4) * drift) + 2.0 * (s2 + s4) * drift * reading


def triggered_regret(
    horizon: int,
    epsilon: float,
    bounds: BlockBounds,
    *,
    gain: float,
    beta: float,
    noise_variance: float,
    delta: float,
    a0: float = 1.0,
    b0: float = 1.0,
) -> float:
    r"""Return a regret bound of ET-GP-UCB that holds with probability 1 - δ.

    .. math:: \sqrt{C_1 T β_T (T/N_{lo} + 1) γ_{N_{hi}}} + 2 + T φ_T(ε, N_{hi})

    C_1 is the result of `regret_constant`, and φ_T is that of `triggered_mismatch`. `bounds`
    contains the block bounds, 1 <= N_lo <= N_hi. `gain` is the information gain :math:`γ_{N_{hi}}`.
    `beta` is β_T of theorem 1, from `bogunovic2016.resetting_beta_on_arms`. The other arguments and
    the exceptions are those of `triggered_mismatch`.

    Source: Brunzema et al. [ET] theorem 1, eq. 6.
    """
    check_block_bounds(bounds.n_lower, bounds.n_upper)
    wrong = triggered_mismatch(
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
    r"""Return the growth rate of the regret of ET-GP-UCB for a squared exponential kernel.

    .. math:: \max \left( \sqrt{T}, λ_2^{1/8} ε^{1/8} T, λ_1^{-3/8} ε^{1/8} T,
        λ_1^{-3/4} ε^{1/4} T \right)

    Constants and logarithms are omitted. T is the number of intervals, and ε is the rate of change.
    λ_1 = lower/ε and λ_2 = upper/ε state how precisely ε is known, with 0 < lower <= ε <= upper <=
    1. Source: Brunzema et al. [ET] corollary 1, eq. 8.

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
    r"""Return the growth rate of the regret of ET-GP-UCB for a Matérn kernel with ν > 2.

    Source: Brunzema et al. [ET] corollary 1, eq. 9, with ξ = `matern_exponent`. The paper prints
    the first term as :math:`\sqrt{T^{1-ξ}}`, which is less than the :math:`\sqrt{T}` of a static
    field. With N = T, theorem 1 and :math:`γ_T = \tilde{O}(T^ξ)` imply :math:`\sqrt{T^{1+ξ}}`, as
    in [B16] corollary 4.1. This function uses the corrected term (the error was found while writing
    this module). The other arguments are those of `regret_rate_se`.
    """
    if not nu > 2:
        raise ConfigError(f"nu is {nu}; it must be above 2.")
    xi = matern_exponent(dimension=dimension, nu=nu)
    return _rate(horizon, epsilon, epsilon_lower, epsilon_upper, xi)


def _rate(horizon: int, epsilon: float, lower: float, upper: float, xi: float) -> float:
    check_count(horizon=horizon)
    check_positive(epsilon_lower=lower)
    check_ordered_rates(lower, upper)
    if not lower <= epsilon <= upper:
        raise ConfigError(
            f"epsilon is {epsilon}; it must be within its bounds, {lower} to {upper}."
        )
    loose, tight, half = lower / epsilon, upper / epsilon, 1.0 / (2.0 * (4.0 - xi))
    power = epsilon ** ((1.0 - xi) * half)
    terms: tuple[float, ...] = (
        horizon ** ((1.0 + xi) / 2.0),
        loose ** (-xi * half) * tight**half * power * horizon,
        loose ** (-3.0 * half) * power * horizon,
        loose ** (-6.0 * half) * power**2 * horizon,
    )
    return max(terms)
