"""Every length, β and bound the papers have for one field, as lines to print.

A sensor network is finitely many arms, so the forms on arms of [B16] stand here; only [M24]'s
best β wants a continuous domain, whose slope the caller guesses. The gains are surely not
exceeded (`gain_ceiling`), so bounds without "up to a constant" hold as they are printed.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.triggers import Bounds
from edge_tvbo.theory import bogunovic2016, brunzema, checks, mandl2024, zhou2021, ziomek2024
from edge_tvbo.theory.domain import Domain
from edge_tvbo.theory.information_gain import Gains, gain_ceiling, greedy_gain


class Line(NamedTuple):
    """One row of the table."""

    name: str
    value: float  # intervals, nats, or a loss per interval in the readings' unit: `meaning` says
    source: str
    meaning: str


@dataclass(frozen=True)
class _Case:
    """What the lines are made from; variances in units of the greatest prior variance."""

    arms: int
    horizon: int
    epsilon: float
    bounds: Bounds
    range_: tuple[float, float] | None
    variation: float | None
    domain: Domain
    nu: float
    delta: float
    bound: float
    noise_variance: float
    scale: float  # readings' unit by model unit of the field whose greatest variance is 1
    unit: str
    greedy: Gains
    gains: Gains

    @property
    def interval(self) -> int:
        return zhou2021.restart_interval(
            self.horizon, gain=float(self.gains[-1]), variation=self.variation
        )

    @property
    def sure_loss(self) -> float:
        """Give what nobody loses in an interval, with probability 1 - δ for all T at once."""
        return 2.0 * sqrt(2.0 * log(self.arms * self.horizon / self.delta))

    def per_interval(self, regret: float, most: float, source: str, name: str) -> Line:
        """Give the line of a bound on R_T, judged by what an interval could lose at most."""
        average, unit = regret / self.horizon, self.unit or "the readings' unit"
        meaning = f"most R_T/T, {unit}"
        if average >= most:
            meaning += f"; vacuous: nobody could lose more than {most * self.scale:.3g}"
        return Line(name, average * self.scale, source, meaning)


def summary(
    field: SensorField,
    *,
    horizon: int,
    epsilon: float,
    epsilon_range: tuple[float, float] | None = None,
    variation: float | None = None,
    dimension: int = 2,
    delta: float = 0.1,
    nu: float = 2.5,
    bound: float = 1.0,
    side: float = 1.0,
    slope: float = 1.0,
) -> tuple[Line, ...]:
    """Give the table of what the papers promise on this field, a line each.

    Parameters
    ----------
    field : SensorField
        M arms, their covariance and noise.
    horizon : int
        T, intervals, 1 or more.
    epsilon : float
        The rate of change of [B16], 0 to 1.
    epsilon_range : (float, float) or None
        What it surely lies between, for [ET]; None for `epsilon` itself.
    variation : float or None
        P_T of [ZS21], the norms of all moves added up; None where nobody knows.
    dimension, side, slope : int, float, float
        d, r and b1 of the places, for [M24] and Matérn kernels; the slope is in model units, about
        √2 / l for a squared exponential kernel of variance 1 and length scale l.
    delta : float
        The probability that a bound fails.
    nu : float
        ν of the Matérn kernel.
    bound : float
        B of [ZS21] and [LB], the most the field's norm in the kernel's space can be.

    Returns
    -------
    tuple of Line
        Gains, lengths, the best β, and bounds on R_T/T in the readings' unit, in that order.

    Raises
    ------
    ConfigError
        For an argument out of range.

    Notes
    -----
    T M² multiply-adds. A bound is called vacuous where it is no less than what the worst of
    policies loses: E[max f - min f] ≤ 2 √(2 ln M) std, 2 √(2 ln(M T/δ)) std for all T intervals
    with probability 1 - δ, and 2 B std in [ZS21] and [LB] ([LB] section 2).
    """
    checks.count(horizon=horizon)
    checks.rate(epsilon=epsilon)
    checks.probability(delta=delta)
    checks.positive(bound=bound)
    lower, upper = epsilon_range or (epsilon, epsilon)
    if not lower <= epsilon <= upper:
        raise ConfigError(f"epsilon is {epsilon}; it can be {lower} to {upper}, its range.")
    std = sqrt(float(np.max(np.diag(field.kernel))))
    case = _Case(
        arms=len(field),
        horizon=horizon,
        epsilon=epsilon,
        bounds=brunzema.block_bounds_se(lower, upper, horizon=horizon),
        range_=epsilon_range,
        variation=variation,
        domain=Domain(dimension, side, b1=slope / std),
        nu=nu,
        delta=delta,
        bound=bound,
        noise_variance=field.noise_variance / std**2,
        scale=std * field.scale,
        unit=field.unit,
        greedy=greedy_gain(field, horizon),
        gains=gain_ceiling(field, horizon),
    )
    return (*_gains(case), *_lengths(case), *_bayesian(case), *_constant(case), *_agnostic(case))


def _gains(case: _Case) -> list[Line]:
    block = bogunovic2016.block_length_se(case.epsilon, horizon=case.horizon)
    return [
        Line(
            f"gain of {n} reading{'s' if n > 1 else ''}",
            float(case.greedy[n - 1]),
            "Srinivas et al. 2010, section 5",
            "nats, greedy on these arms; the most there is lies within 1/(1 - 1/e) of it",
        )
        for n in sorted({1, block, case.horizon})
    ]


def _lengths(case: _Case) -> list[Line]:
    T, epsilon = case.horizon, case.epsilon
    se = bogunovic2016.block_length_se(epsilon, horizon=T)
    matern = bogunovic2016.block_length_matern(
        epsilon, horizon=T, dimension=case.domain.dimension, nu=case.nu
    )
    known = "P_T unknown" if case.variation is None else f"P_T = {case.variation:g}"
    wide = "from the range of ε" if case.range_ else "no range given: ε at both ends"
    again = "[ZS21] remark 2" if case.variation is not None else "[ZS21] remark 3"
    return [
        Line("N, R-GP-UCB, SE", se, "[B16] corollary 4.1", "intervals between resets"),
        Line("N, R-GP-UCB, Matérn", matern, "[B16] corollary 4.1", f"the same, ν = {case.nu:g}"),
        Line("N_lo, ET-GP-UCB", case.bounds.n_lower, "[ET] corollary 1", f"no earlier; {wide}"),
        Line("N_hi, ET-GP-UCB", case.bounds.n_upper, "[ET] corollary 1", f"no later; {wide}"),
        Line("H, BR-GP-UCB", case.interval, again, f"intervals between restarts, {known}"),
        Line("w, SW-GP-UCB", case.interval, again, f"intervals a window holds, {known}"),
    ]


def _bayesian(case: _Case) -> list[Line]:
    T, epsilon, delta = case.horizon, case.epsilon, case.delta
    noise = case.noise_variance
    beta = bogunovic2016.resetting_beta_on_arms(T, arms=case.arms, delta=delta)
    tail = (float(case.arms), sqrt(2.0))  # P(max |f| > L) <= M exp(-L²/2)
    block = bogunovic2016.block_length_se(epsilon, horizon=T)
    resetting = bogunovic2016.resetting_regret(
        T, epsilon, block, gain=float(case.gains[block - 1]), beta=beta, noise_variance=noise,
        delta=delta, a0=tail[0], b0=tail[1],
    )  # fmt: skip
    triggered = brunzema.triggered_regret(
        T, epsilon, case.bounds, gain=float(case.gains[case.bounds.n_upper - 1]), beta=beta,
        noise_variance=noise, delta=delta, a0=tail[0], b0=tail[1],
    )  # fmt: skip
    moving = mandl2024.best_varying_gain(T, epsilon, gains=case.gains, noise_variance=noise)
    varying = bogunovic2016.varying_regret(
        T,
        gain=moving.gain,
        beta=bogunovic2016.varying_beta_on_arms(T, arms=case.arms, delta=delta),
        noise_variance=noise,
    )
    least = bogunovic2016.least_regret_rate(T, epsilon) / T
    most = case.sure_loss
    return [
        Line("least R_T/T", least, "[B16] theorem 4.1", "for anyone, up to a constant"),
        case.per_interval(resetting, most, "[B16] theorem 4.2, [ET] note 6", "R-GP-UCB"),
        case.per_interval(triggered, most, "[ET] theorem 1", "ET-GP-UCB, any trigger"),
        case.per_interval(varying, most, "[B16] theorem 4.3, [M24] theorem 3.2", "TV-GP-UCB"),
    ]


def _constant(case: _Case) -> list[Line]:
    T, noise = case.horizon, case.noise_variance
    moving = mandl2024.best_varying_gain(T, case.epsilon, gains=case.gains, noise_variance=noise)
    best = mandl2024.best_constant_beta(
        T, gain=moving.gain, domain=case.domain, noise_variance=noise
    )
    likely = mandl2024.likely_regret(best.bound, T, case.epsilon, omega=case.delta)
    slope = f"slope {case.domain.b1:.3g} std, side {case.domain.side:g}"
    meaning = f"width √β; δ = {best.delta:.2g}, τ = {best.tau}; {slope}; 2 to 4 in practice"
    mean_loss = 2.0 * sqrt(2.0 * log(case.arms))
    return [
        Line("best constant β", best.beta, "[M24] theorem 4.1", meaning),
        case.per_interval(best.bound, mean_loss, "[M24] theorem 4.1", "that β, on average"),
        case.per_interval(
            likely, case.sure_loss, "[M24] lemma 4.10, a conjecture", "that β, likely"
        ),
    ]


def _agnostic(case: _Case) -> list[Line]:
    T, H, noise, most = case.horizon, case.interval, case.noise_variance, 2.0 * case.bound
    gain = float(case.gains[H - 1])
    suspected = ziomek2024.suspected_regret(T, gain=float(case.gains[-1]), bound=case.bound)
    unit = case.unit or "the readings' unit"
    lines = [
        Line(
            "GP-UCB, field at rest",
            suspected / T * case.scale,
            "[LB] theorem 2.3",
            f"suspected R_T/T, {unit}, up to a constant",
        )
    ]
    if case.variation is None:
        return lines
    shared = {
        "bound": case.bound, "noise": sqrt(noise), "regularization": noise, "delta": case.delta
    }  # fmt: skip
    for name, source, beta in (
        ("BR-GP-UCB", "[ZS21] theorem 1", zhou2021.restart_beta(gain, **shared)),
        ("SW-GP-UCB", "[ZS21] theorem 2", zhou2021.window_beta(T, gain, **shared)),
    ):
        regret = zhou2021.dynamic_regret(
            T, H, case.variation, gain=gain, beta=beta, regularization=noise
        )
        lines.append(case.per_interval(regret, most, source, name))
    return lines
