"""[M24] Mandl 2024: how fast a moving field tells, and the one β that is best for ever.

Variances are in units of the field's greatest prior variance (the thesis takes k(x,x) ≤ 1) and
regrets in its root. Gains are in nats.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError
from edge_tvbo.theory import checks
from edge_tvbo.theory.domain import Domain
from edge_tvbo.theory.information_gain import Gains, gain_constant

Values = NDArray[np.float64]


class BlockedGain(NamedTuple):
    """A bound on γ̃_T, and the block length Ñ that gives it."""

    gain: float  # nats
    block: int  # intervals


@dataclass(frozen=True)
class BestBeta:
    """The constant β under which theorem 4.1 promises most."""

    beta: float  # UCB is mean + √beta std
    delta: float
    tau: int
    bound: float  # E[R_T] is no more than this


def varying_gain(
    horizon: int, epsilon: float, block: int, *, gain: float, noise_variance: float
) -> float:
    """Give (T/N + 1)(γ_N + σ^-2 N^(5/2) ε), which γ̃_T of a field that moves does not exceed.

    Parameters
    ----------
    horizon, epsilon, block : int, float, int
        T; the rate of change, 0 to 1; Ñ, 1 to T.
    gain : float
        γ_Ñ, the most Ñ readings can say of a field that stands still.
    noise_variance : float
        σ² > 0.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [M24] theorem 3.2, eq. 3.9, which mends [B16] eq. 21 (N³ ε in the place of σ^-2 N^(5/2) ε).
    The N²(N-1)² of eq. 3.14 should read N²(N²-1), as in [B16] eq. 53; and where an eigenvalue
    falls (Δ_i < 0), eq. 3.25 wants max(Δ_i, 0): neither changes the result.
    """
    checks.rate(epsilon=epsilon)
    return _blocked(horizon, block, gain, noise_variance, epsilon)


def best_varying_gain(
    horizon: int, epsilon: float, *, gains: Gains, noise_variance: float
) -> BlockedGain:
    """Give `varying_gain` at the block length that makes it least, and that length.

    `gains` holds γ_1, γ_2, ... for as many lengths as are to be tried, T at most. [M24] theorem
    3.2: any Ñ will do. Other parameters and errors are those of `varying_gain`.
    """
    checks.rate(epsilon=epsilon)
    return _least(
        horizon,
        gains,
        lambda block, gain: _blocked(horizon, block, gain, noise_variance, epsilon),
    )


def constant_beta(delta: float, tau: int, *, dimension: int) -> float:
    """Give β = 2(ln(3/(2δ)) + d ln τ), the same at every interval.

    δ is how much of the probability is left to the field's range alone, τ how many grid points a
    coordinate is cut into. [M24] eq. 4.3. ConfigError where δ is not between 0 and 1 or a count
    below 1.
    """
    checks.probability(delta=delta)
    checks.count(tau=tau, dimension=dimension)
    return 2.0 * (log(1.5 / delta) + dimension * log(tau))


def expected_regret(
    horizon: int, *, gain: float, delta: float, tau: int, domain: Domain, noise_variance: float
) -> float:
    """Give what E[R_T] does not exceed under `constant_beta`, for TV- and MTV-GP-UCB alike.

    (1-δ)(√(C1 T β γ̃_T) + T C2) + T δ C3, with C2 = r d b √ln(3ad/δ) / τ and
    C3 = r d b (√ln(ad/δ) + √π / (2 √ln(ad/δ))).

    Parameters
    ----------
    horizon : int
        T.
    gain : float
        γ̃_T: `best_varying_gain`, or `best_momentum_gain` for MTV (theorem 8.1).
    delta, tau : float, int
        δ in (0, 1) and below a1 d, where C3 is defined; τ, 1 or more.
    domain : Domain
        r, d, and a = a1, b = b1.
    noise_variance : float
        σ² > 0.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [M24] theorem 4.1, eq. 4.4. Lemma 4.5 bounds erf(x) below by 1 - exp(-x²)/(2x), which fails
    from x = 1.8 on (1 - exp(-x²)/(√π x) holds), and then doubles that term: C3 as printed is
    still true, for √ln + 1/(2 √ln) would have done (found while writing this module).
    """
    checks.count(horizon=horizon)
    beta = constant_beta(delta, tau, dimension=domain.dimension)
    if not delta < domain.a1 * domain.dimension:
        raise ConfigError(
            f"delta is {delta}; it must be below a1 d, {domain.a1 * domain.dimension}."
        )
    checks.positive(gain=gain)
    learning = sqrt(gain_constant(noise_variance) * gain / horizon)
    return horizon * float(_per_interval(learning, beta, delta, tau, domain))


def best_constant_beta(
    horizon: int, *, gain: float, domain: Domain, noise_variance: float
) -> BestBeta:
    """Give the constant β whose `expected_regret` is least, with the δ, τ and bound it has.

    Parameters and errors are those of `expected_regret`. [M24] chapter 4 leaves the minimum over
    δ in (0, 1) and whole τ >= 1 to a computer: here a grid over both, then finer grids around its
    best cell until that no longer shrinks. The practical advice beside it is β = 2 to 4.
    """
    checks.count(horizon=horizon)
    checks.positive(gain=gain)
    learning = sqrt(gain_constant(noise_variance) * gain / horizon)
    top = min(1.0, domain.a1 * domain.dimension)
    low = np.array([-35.0, 0.0])  # δ = top / (1 + exp(-z)): z is -35 to 20; and ln τ
    high = np.array([20.0, log(_most_points(learning, domain))])
    for _ in range(8):
        z = np.linspace(low[0], high[0], 241)
        taus: Values = np.unique(np.round(np.exp(np.linspace(low[1], high[1], 241))))
        delta = top / (1.0 + np.exp(-z))
        values = _grid(learning, delta, taus, domain)
        i, j = divmod(int(np.argmin(values)), len(taus))
        low = np.array([z[max(i - 1, 0)], log(taus[max(j - 1, 0)])])
        high = np.array([z[min(i + 1, len(z) - 1)], log(taus[min(j + 1, len(taus) - 1)])])
    best, tau = float(delta[i]), int(taus[j])
    beta = constant_beta(best, tau, dimension=domain.dimension)
    return BestBeta(beta, best, tau, horizon * float(values[i, j]))


def deviation(horizon: int, correlation: float, *, omega: float, variance: float = 9.0) -> float:
    """Give how far R_T is above its mean at most, with probability 1 - ω.

    √(m Σ_ij c^|i-j| / ω), with m = `variance` and c = `correlation` from Cov(r_i, r_j) ≤
    m c^|i-j|; 9 is [M24] eq. 4.33. Chebyshev, [M24] lemmas 4.7 (c = 1) and 4.9. ConfigError where
    `horizon` is below 1, c outside 0 to 1, ω not between 0 and 1, or m not above 0.

    The double sum is exact here. Lemma 4.9 closes it as T (1+c)/(1-c) + 2c (c^(T+1) + 1)/(1-c)²,
    with a sign lost and one term too many: the true end is -2c (1 - c^T)/(1-c)². What it prints
    holds, but exceeds T² for slow fields (found while writing this module).
    """
    checks.count(horizon=horizon)
    checks.rate(correlation=correlation)
    checks.probability(omega=omega)
    checks.positive(variance=variance)
    lags = np.arange(1, horizon)
    total = horizon + 2.0 * float(np.sum((horizon - lags) * correlation**lags))
    return sqrt(variance * total / omega)


def likely_regret(expected: float, horizon: int, epsilon: float, *, omega: float) -> float:
    """Give what R_T stays below, with probability 1 - ω, where E[R_T] is at most `expected`.

    [M24] lemma 4.10, which stands on the thesis's conjecture 4.1 and takes the chosen places as
    if they did not depend on what was read. c = √(1-ε). Its sum is mended as `deviation` says.
    ConfigError for an argument out of range.
    """
    checks.rate(epsilon=epsilon)
    checks.not_negative(expected=expected)
    return expected + deviation(horizon, sqrt(1.0 - epsilon), omega=omega)


def momentum_gain(
    horizon: int, epsilon: float, alpha: float, block: int, *, gain: float, noise_variance: float
) -> float:
    """Give what γ̃_T of an MTV field does not exceed: (T/N + 1)(γ_N + σ^-2 N^(5/2) κ).

    κ = p (1-ε) - q (1-α^(N-1)) / (N-1), p = (1-α²)ε / ((ε-α)(εα+1)), q = p - 1.

    Parameters
    ----------
    horizon, block : int
        T; Ñ, 1 to T.
    epsilon, alpha : float
        How much of the field, and of its momentum, an interval retains: 0 <= α < ε <= 1. ε is
        √(1-ε) of the TV model. At α = ε the theorem's κ has no limit beyond N = 2.
    gain, noise_variance : float
        γ_Ñ, nats; σ² > 0.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    [M24] theorem 8.2, which prints this without the (T/N + 1): its proof bounds one block, and
    says as much two lines before (found while writing this module).
    """
    drift = _momentum_drift(epsilon, alpha, block)
    return _blocked(horizon, block, gain, noise_variance, drift)


def best_momentum_gain(
    horizon: int, epsilon: float, alpha: float, *, gains: Gains, noise_variance: float
) -> BlockedGain:
    """Give `momentum_gain` at the block length that makes it least, and that length.

    `gains` holds γ_1, γ_2, ... for as many lengths as are to be tried, T at most.
    """
    return _least(
        horizon,
        gains,
        lambda block, gain: momentum_gain(
            horizon, epsilon, alpha, block, gain=gain, noise_variance=noise_variance
        ),
    )


def momentum_likely_regret(
    expected: float, horizon: int, epsilon: float, alpha: float, *, omega: float
) -> float:
    """Give what R_T stays below, with probability 1 - ω, on an MTV field.

    [M24] theorem 8.1, second half. It copies c = √(1-ε) from the TV model, where ε is what an
    interval takes away; in MTV it is what an interval leaves, and Cov(f_t, f_{t+k}) ≤ p ε^k by
    eq. 8.9 (p as in `momentum_gain`). So c = ε and m = 9 p here (found while writing this
    module). Conjecture 4.1 is assumed; 0 <= α < ε <= 1, and ConfigError otherwise.
    """
    checks.not_negative(expected=expected)
    p = _momentum_weight(epsilon, alpha)
    return expected + deviation(horizon, epsilon, omega=omega, variance=9.0 * p)


def _blocked(horizon: int, block: int, gain: float, noise_variance: float, drift: float) -> float:
    checks.block_within(block, horizon)
    checks.positive(gain=gain, noise_variance=noise_variance)
    return (horizon / block + 1.0) * (gain + float(block**2.5) * drift / noise_variance)


def _least(horizon: int, gains: Gains, bound: Callable[[int, float], float]) -> BlockedGain:
    if not 1 <= len(gains) <= horizon:
        raise ConfigError(f"gains holds {len(gains)} values; it can hold 1 to {horizon}.")
    found = (BlockedGain(bound(n, float(g)), n) for n, g in enumerate(gains, start=1))
    return min(found, key=lambda blocked: blocked.gain)


def _momentum_weight(epsilon: float, alpha: float) -> float:
    checks.rate(epsilon=epsilon, alpha=alpha)
    if not alpha < epsilon:
        raise ConfigError(f"alpha is {alpha}; it must be below epsilon, {epsilon}.")
    return (1.0 - alpha**2) * epsilon / ((epsilon - alpha) * (epsilon * alpha + 1.0))


def _momentum_drift(epsilon: float, alpha: float, block: int) -> float:
    p = _momentum_weight(epsilon, alpha)
    checks.count(block=block)
    if block == 1:
        return 0.0  # one interval does not move
    return p * (1.0 - epsilon) - (p - 1.0) * (1.0 - float(alpha ** (block - 1))) / (block - 1)


def _per_interval(learning: float, beta: Any, delta: Any, tau: Any, domain: Domain) -> Any:
    """Give eq. 4.4 by T, for numbers or arrays; `learning` is √(C1 γ̃_T / T)."""
    odds = domain.a1 * domain.dimension / delta
    root = np.sqrt(np.log(odds))
    grid = domain.reach * np.sqrt(np.log(3.0 * odds)) / tau  # C2
    tail = domain.reach * (root + sqrt(pi) / (2.0 * root))  # C3
    return (1.0 - delta) * (learning * np.sqrt(beta) + grid) + delta * tail


def _grid(learning: float, delta: Values, taus: Values, domain: Domain) -> Values:
    beta = 2.0 * (np.log(1.5 / delta)[:, None] + domain.dimension * np.log(taus))
    values: Values = _per_interval(learning, beta, delta[:, None], taus, domain)
    return values


def _most_points(learning: float, domain: Domain) -> int:
    """Give a τ beyond which a finer grid costs more than it saves, at any δ that is tried."""
    # dU/dτ ∝ L d / √β - c/τ, and c and √β are greatest at the least δ; √β(τ) <= √β(1) + √(2d ln τ)
    least = min(1.0, domain.a1 * domain.dimension) * np.exp(-35.0)
    cost = domain.reach * sqrt(log(3.0 * domain.a1 * domain.dimension / least))
    tau = 1.0
    for _ in range(100):
        beta = 2.0 * (log(1.5 / least) + domain.dimension * log(tau))
        tau = max(1.0, cost * sqrt(beta) / (learning * domain.dimension))
    return ceil(tau) + 1
