"""[M24] Mandl 2024: information gain of changing fields, and the best constant β.

Variances are in units of the field's largest prior variance, because the thesis assumes prior
variances of at most 1. Regrets are in units of the square root of that variance. Gains are in nats.
γ̃_T is the information gain of T readings of a changing field.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.parameter_checks import (
    check_block,
    check_count,
    check_not_negative,
    check_positive,
    check_probability,
    check_range,
)
from edge_tvbo.numerics.types import Array
from edge_tvbo.theory.domain import Domain
from edge_tvbo.theory.information_gain import regret_constant

MAX_DELTA = 1.0 - 1e-8  # a best δ above this value counts as the limit δ → 1


class BlockedGain(NamedTuple):
    """An upper bound on γ̃_T, and the block length Ñ for which the bound holds."""

    gain: float  # nats
    block: int  # intervals


@dataclass(frozen=True)
class BestBeta:
    """The constant β with the smallest bound on the expected regret in [M24] theorem 4.1."""

    beta: float  # β in the confidence bound mean + √β std
    delta: float
    tau: int
    bound: float  # upper bound on E[R_T]

    @property
    def affects_bound(self) -> bool:
        """Whether the smallest bound depends on β; false if this bound is the limit for δ → 1."""
        return self.delta < MAX_DELTA


def varying_gain(
    horizon: int, epsilon: float, block: int, *, gain: float, noise_variance: float
) -> float:
    r"""Return an upper bound on γ̃_T, the information gain of a changing field.

    .. math:: \tilde{γ}_T ≤ (T/\tilde{N} + 1)(γ_{\tilde{N}} + σ^{-2} \tilde{N}^{5/2} ε)

    Parameters
    ----------
    horizon : int
        T, number of intervals.
    epsilon : float
        ε, rate of change, 0 to 1.
    block : int
        Ñ, block length in intervals, 1 to T.
    gain : float
        γ_Ñ, information gain of Ñ readings of a static field.
    noise_variance : float
        σ², noise variance of a reading, > 0.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Source: [M24] theorem 3.2, eq. 3.9. The theorem corrects [B16] eq. 21, which has
    :math:`\tilde{N}^3 ε` in place of :math:`σ^{-2} \tilde{N}^{5/2} ε`. The proof of the theorem
    has two errors, which do not change the result:

    - Eq. 3.14 has :math:`N^2 (N-1)^2`, but it should have :math:`N^2 (N^2-1)`, as in [B16] eq. 53.
      The corrected eq. 3.14 is 0 for N = 1, so this function omits the term with ε if Ñ = 1.
    - Eq. 3.25 needs max(Δ_i, 0), because an eigenvalue can decrease (Δ_i < 0).
    """
    check_range(0, 1, epsilon=epsilon)
    return _blocked(horizon, block, gain, noise_variance, epsilon)


def best_varying_gain(
    horizon: int, epsilon: float, *, gains: Array, noise_variance: float
) -> BlockedGain:
    """Return the smallest `varying_gain` over several block lengths, with its block length.

    `gains` holds the values γ_1, γ_2, ... for the block lengths 1, 2, ... that are tried, at most T
    of them. [M24] theorem 3.2 holds for every block length. The other arguments and the exceptions
    are those of `varying_gain`.
    """
    check_range(0, 1, epsilon=epsilon)
    return _smallest_gain(
        horizon,
        gains,
        lambda block, gain: _blocked(horizon, block, gain, noise_variance, epsilon),
    )


def constant_beta(delta: float, tau: int, *, dimension: int) -> float:
    r"""Return the constant β of [M24], which is the same in every interval.

    .. math:: β = 2 \left( \ln \frac{3}{2δ} + d \ln τ \right)

    δ is the probability that the confidence bounds fail. If the confidence bounds fail, only the
    range of the field limits the regret. τ is the number of grid points per coordinate, and d is
    the dimension of the domain. Source: [M24] eq. 4.3.
    """
    check_probability(delta=delta)
    check_count(tau=tau, dimension=dimension)
    return 2.0 * (log(1.5 / delta) + dimension * log(tau))


def expected_regret(
    horizon: int, *, gain: float, delta: float, tau: int, domain: Domain, noise_variance: float
) -> float:
    r"""Return a bound on the expected regret of TV-GP-UCB and MTV-GP-UCB with a constant β.

    .. math::
        (1 - δ) \left( \sqrt{C_1 T β \tilde{γ}_T} + T C_2 \right) + T δ C_3

        C_2 = \frac{r d b}{τ} \sqrt{\ln(3 a d / δ)}

        C_3 = r d b \left( \sqrt{\ln(a d / δ)}
        + \frac{\sqrt{π}}{2 \sqrt{\ln(a d / δ)}} \right)

    Parameters
    ----------
    horizon : int
        T, number of intervals.
    gain : float
        γ̃_T, from `best_varying_gain`, or from `best_momentum_gain` for MTV (theorem 8.1).
    delta : float
        δ, as for `constant_beta`. δ is between 0 and 1, and below a d so that C_3 is defined.
    tau : int
        τ, as for `constant_beta`, 1 or more.
    domain : Domain
        Domain with the constants r, d, a = a1 and b = b1.
    noise_variance : float
        σ², noise variance of a reading, > 0.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Source: [M24] theorem 4.1, eq. 4.4. C_3 as printed is valid, but larger than necessary (found
    while writing this module):

    - Lemma 4.5 states the lower bound :math:`1 - \exp(-x^2) / (2x)` on erf(x). This bound is wrong
      for x ≥ 1.8. The bound :math:`1 - \exp(-x^2) / (\sqrt{π} x)` is correct.
    - Later, the lemma multiplies the wrong term by 2. The product, :math:`\exp(-x^2) / x`, is
      larger than the correct term.
    - With L = ln(a d/δ), the sum in the brackets of C_3 could be
      :math:`\sqrt{L} + 1 / (2 \sqrt{L})`.
    """
    check_count(horizon=horizon)
    beta = constant_beta(delta, tau, dimension=domain.dimension)
    if not delta < domain.a1 * domain.dimension:
        raise ConfigError(
            f"delta is {delta}; it must be below a1 · dimension, {domain.a1 * domain.dimension:g}."
        )
    check_positive(gain=gain)
    learning = sqrt(regret_constant(noise_variance) * gain / horizon)
    return horizon * float(_per_interval(learning, beta, delta, tau, domain))


def best_constant_beta(
    horizon: int, *, gain: float, domain: Domain, noise_variance: float
) -> BestBeta:
    """Return the constant β with the smallest `expected_regret`, and its δ, τ and bound.

    The arguments and exceptions are those of `expected_regret`. [M24] chapter 4 minimises
    numerically over δ in (0, 1) and whole numbers τ >= 1. This function searches a grid over δ and
    τ, and then finer grids around the best point. In the limit δ → 1, the bound is T C_3 for every
    β. If every δ < 1 has a larger bound than this limit, `BestBeta.affects_bound` is false. For
    practical use, the thesis recommends β = 2 to 4.
    """
    check_count(horizon=horizon)
    check_positive(gain=gain)
    learning = sqrt(regret_constant(noise_variance) * gain / horizon)
    top = min(1.0, domain.a1 * domain.dimension)
    low = np.array([-35.0, 0.0])  # lower limits of z in δ = top / (1 + exp(-z)), and of ln τ
    high = np.array([20.0, log(_max_points(learning, domain))])
    for _ in range(8):
        z = np.linspace(low[0], high[0], 241)
        taus: Array = np.unique(np.round(np.exp(np.linspace(low[1], high[1], 241))))
        delta = top / (1.0 + np.exp(-z))
        values = _grid(learning, delta, taus, domain)
        i, j = divmod(int(np.argmin(values)), len(taus))
        low = np.array([z[max(i - 1, 0)], log(taus[max(j - 1, 0)])])
        high = np.array([z[min(i + 1, len(z) - 1)], log(taus[min(j + 1, len(taus) - 1)])])
    best, tau = float(delta[i]), int(taus[j])
    beta = constant_beta(best, tau, dimension=domain.dimension)
    return BestBeta(beta, best, tau, horizon * float(values[i, j]))


def regret_deviation(
    horizon: int, correlation: float, *, omega: float, variance: float = 9.0
) -> float:
    r"""Return [M24]'s bound on the deviation of the regret R_T from its mean.

    The bound holds with probability 1 - ω.

    .. math:: \sqrt{\frac{m}{ω} \sum_{i,j} c^{|i-j|}}

    This is Chebyshev's inequality. The regrets r_i and r_j of intervals i and j satisfy
    :math:`\text{Cov}(r_i, r_j) ≤ m c^{|i-j|}` with m = `variance` and c = `correlation`. [M24] has
    m = 9, in eq. 4.33 for c = 1 and in eq. 4.43. Sources: [M24] lemma 4.7 for c = 1, and lemma 4.9.

    This function computes the double sum exactly. Lemma 4.9 states the double sum as

    .. math:: T \frac{1 + c}{1 - c} + 2 c \frac{c^{T+1} + 1}{(1 - c)^2}

    The last term has a wrong sign and a wrong power; it should be
    :math:`-2 c (1 - c^T) / (1 - c)^2`. The printed bound is valid. For slow fields, however, the
    printed bound exceeds T², although the double sum is at most T² (found while writing this
    module).
    """
    check_count(horizon=horizon)
    check_range(0, 1, correlation=correlation)
    check_probability(omega=omega)
    check_positive(variance=variance)
    lags = np.arange(1, horizon)
    total = horizon + 2.0 * float(np.sum((horizon - lags) * correlation**lags))
    return sqrt(variance * total / omega)


def likely_regret(expected: float, horizon: int, epsilon: float, *, omega: float) -> float:
    r"""Return [M24]'s regret bound that holds with probability 1 - ω.

    `expected` is a bound on E[R_T]. The result is the sum of `expected` and `regret_deviation` with
    the correlation :math:`c = \sqrt{1 - ε}`. Source: [M24] lemma 4.10. The lemma assumes that
    conjecture 4.1 of the thesis holds. Eq. 4.43 in the proof also assumes, without saying so, that
    the chosen places do not depend on the readings.
    """
    check_range(0, 1, epsilon=epsilon)
    check_not_negative(expected=expected)
    return expected + regret_deviation(horizon, sqrt(1.0 - epsilon), omega=omega)


def momentum_gain(
    horizon: int, epsilon: float, alpha: float, block: int, *, gain: float, noise_variance: float
) -> float:
    r"""Return an upper bound on γ̃_T, the information gain of a field with momentum.

    .. math::
        \tilde{γ}_T ≤ (T/\tilde{N} + 1)(γ_{\tilde{N}} + σ^{-2} \tilde{N}^{5/2} κ)

        κ = p (1 - ε) - q \frac{1 - α^{\tilde{N}-1}}{\tilde{N} - 1}

        p = \frac{(1 - α^2) ε}{(ε - α)(ε α + 1)}, \quad q = p - 1

    Parameters
    ----------
    horizon : int
        T, number of intervals.
    epsilon : float
        ε, share of the field that remains after an interval, at most 1. Without momentum, this ε is
        equal to :math:`\sqrt{1 - ε'}`, where ε' is the rate of change of the TV model.
    alpha : float
        α, share of the momentum that remains after an interval, at least 0 and below ε. At α = ε,
        the κ of the theorem has no limit for Ñ > 2.
    block : int
        Ñ, block length in intervals, 1 to T.
    gain : float
        γ_Ñ, information gain of Ñ readings of a static field, in nats.
    noise_variance : float
        σ², noise variance of a reading, > 0.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    Source: [M24] theorem 8.2. The theorem omits the factor (T/Ñ + 1): its proof begins with
    :math:`\tilde{γ}_T ≤ (T/\tilde{N}) \tilde{γ}_{\tilde{N}}`, but then bounds only one block. (The
    omission was found while writing this module.)
    """
    drift = _momentum_drift(epsilon, alpha, block)
    return _blocked(horizon, block, gain, noise_variance, drift)


def best_momentum_gain(
    horizon: int, epsilon: float, alpha: float, *, gains: Array, noise_variance: float
) -> BlockedGain:
    """Return the smallest `momentum_gain` over several block lengths, with its block length.

    `gains` holds the values γ_1, γ_2, ... for the block lengths 1, 2, ... that are tried, at most T
    of them.
    """
    return _smallest_gain(
        horizon,
        gains,
        lambda block, gain: momentum_gain(
            horizon, epsilon, alpha, block, gain=gain, noise_variance=noise_variance
        ),
    )


def momentum_likely_regret(
    expected: float, horizon: int, epsilon: float, alpha: float, *, omega: float
) -> float:
    r"""Return a regret bound that holds with probability 1 - ω, for a field with momentum.

    `expected` is the bound on E[R_T]. Source: [M24] theorem 8.1, second half. Conjecture 4.1 is
    assumed, and 0 <= α < ε <= 1. The theorem uses :math:`c = \sqrt{1 - ε}`, which is right for the
    TV model only. In the TV model, an interval removes the share ε of the field. In the MTV model,
    an interval keeps the share ε, and :math:`\text{Cov}(f_t, f_{t+k}) ≤ p ε^k` by eq. 8.9, with p
    as in `momentum_gain`. Therefore `regret_deviation` is called with c = ε and m = 9 p. (The error
    was found while writing this module.)
    """
    check_not_negative(expected=expected)
    p = _momentum_weight(epsilon, alpha)
    return expected + regret_deviation(horizon, epsilon, omega=omega, variance=9.0 * p)


def _blocked(horizon: int, block: int, gain: float, noise_variance: float, drift: float) -> float:
    check_block(block, horizon)
    check_positive(gain=gain, noise_variance=noise_variance)
    # a block of one interval contains no change: N²(N² - 1) in eq. 3.14 is 0 for N = 1
    change = float(block**2.5) * drift / noise_variance if block > 1 else 0.0
    return (horizon / block + 1.0) * (gain + change)


def _smallest_gain(horizon: int, gains: Array, bound: Callable[[int, float], float]) -> BlockedGain:
    if not 1 <= len(gains) <= horizon:
        raise ConfigError(f"gains has {len(gains)} values; it can have 1 to {horizon}.")
    found = (BlockedGain(bound(n, float(g)), n) for n, g in enumerate(gains, start=1))
    return min(found, key=lambda blocked: blocked.gain)


def _momentum_weight(epsilon: float, alpha: float) -> float:
    check_range(0, 1, epsilon=epsilon, alpha=alpha)
    if not alpha < epsilon:
        raise ConfigError(
            f"alpha is {alpha}; this bound needs an alpha below epsilon, {epsilon}, because the "
            "bound divides by epsilon - alpha. The model of mtv-gp-ucb also allows alpha = epsilon."
        )
    return (1.0 - alpha**2) * epsilon / ((epsilon - alpha) * (epsilon * alpha + 1.0))


def _momentum_drift(epsilon: float, alpha: float, block: int) -> float:
    p = _momentum_weight(epsilon, alpha)
    check_count(block=block)
    if block == 1:
        return 0.0  # a block of one interval contains no change
    return p * (1.0 - epsilon) - (p - 1.0) * (1.0 - float(alpha ** (block - 1))) / (block - 1)


def _per_interval(learning: float, beta: Any, delta: Any, tau: Any, domain: Domain) -> Any:
    """Return the bound on the expected regret ([M24] eq. 4.4) divided by T.

    The arguments are numbers or arrays. `learning` is √(C1 γ̃_T / T).
    """
    odds = domain.a1 * domain.dimension / delta
    root = np.sqrt(np.log(odds))
    grid = domain.reach * np.sqrt(np.log(3.0 * odds)) / tau  # C2
    tail = domain.reach * (root + sqrt(pi) / (2.0 * root))  # C3
    return (1.0 - delta) * (learning * np.sqrt(beta) + grid) + delta * tail


def _grid(learning: float, delta: Array, taus: Array, domain: Domain) -> Array:
    beta = 2.0 * (np.log(1.5 / delta)[:, None] + domain.dimension * np.log(taus))
    values: Array = _per_interval(learning, beta, delta[:, None], taus, domain)
    return values


def _max_points(learning: float, domain: Domain) -> int:
    """Return a τ above which [M24]'s bound increases with τ, for every δ in the search."""
    # The derivative of the bound with respect to τ is proportional to L d / √β - c/τ. Both c and √β
    # are largest at the smallest δ, and √β(τ) <= √β(1) + √(2d ln τ).
    least = min(1.0, domain.a1 * domain.dimension) * np.exp(-35.0)
    cost = domain.reach * sqrt(log(3.0 * domain.a1 * domain.dimension / least))
    tau = 1.0
    for _ in range(100):
        beta = 2.0 * (log(1.5 / least) + domain.dimension * log(tau))
        tau = max(1.0, cost * sqrt(beta) / (learning * domain.dimension))
    return ceil(tau) + 1
