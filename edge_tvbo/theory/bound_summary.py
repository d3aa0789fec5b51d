"""Bound summary: block lengths, β and regret bounds of all papers for one field, as a table.

Sensors are finitely many arms, so the finite forms of the bounds of [B16] are used. Only the best β
of [M24] needs a continuous domain; the caller supplies the domain's slope. The information gains in
the bounds are upper bounds, too (`gain_ceiling`). So every bound in the table is valid, except
those that the table marks as "up to a constant". There are no rows for [M24] theorems 8.1 and 8.2,
[LB] theorem 4.1 and the rates of [ET] corollary 1; the modules `mandl2024`, `ziomek2024` and
`brunzema` compute these bounds.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log, sqrt
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.parameter_checks import (
    check_count,
    check_ordered_rates,
    check_positive,
    check_probability,
    check_range,
)
from edge_tvbo.models.triggers import BlockBounds
from edge_tvbo.numerics.types import Array
from edge_tvbo.theory import bogunovic2016, brunzema, mandl2024, zhou2021, ziomek2024
from edge_tvbo.theory.domain import Domain
from edge_tvbo.theory.information_gain import gain_ceiling, greedy_gain


class SummaryLine(NamedTuple):
    """One row of the bound summary: a number, the paper that states it, and its meaning."""

    name: str
    value: float  # `meaning` states its unit
    source: str
    meaning: str


@dataclass(frozen=True)
class _Case:
    """The quantities from which the rows of the bound summary are computed.

    The noise variance is in units of the largest prior variance. The bound B, the variation P_T and
    the slope of the domain are in units of the square root of the largest prior variance.
    """

    arms: int
    horizon: int
    epsilon: float
    bounds: BlockBounds
    range_: tuple[float, float] | None
    variation: float | None
    domain: Domain
    nu: float
    delta: float
    bound: float
    noise_variance: float
    scale: float  # square root of the largest prior variance, in the unit of the readings
    unit: str
    greedy: Array
    gains: Array

    @cached_property
    def moving_gain(self) -> float:
        """Bound on the information gain of T readings of the changing field."""
        return mandl2024.best_varying_gain(
            self.horizon, self.epsilon, gains=self.gains, noise_variance=self.noise_variance
        ).gain

    @property
    def interval(self) -> int:
        return zhou2021.restart_interval(
            self.horizon, gain=float(self.gains[-1]), variation=self.variation
        )

    @property
    def sure_loss(self) -> float:
        """Bound on the regret of one interval, in units of the largest prior standard deviation.

        With probability 1 - δ, no interval has a larger regret than `sure_loss`. Some rows of the
        bound summary hold with the same probability. Such a row is vacuous if its bound on R_T/T is
        at least `sure_loss`.
        """
        return 2.0 * sqrt(2.0 * log(self.arms * self.horizon / self.delta))

    @property
    def given_norm(self) -> str:
        """Beginning of a sentence: the assumption on which the bounds of [ZS21] and [LB] depend."""
        return f"for a field whose norm is at most {self.bound:g}: "

    def per_interval(
        self, regret: float, most: float, source: str, name: str, assumption: str = ""
    ) -> SummaryLine:
        """Return a row of the bound summary: the bound `regret` on R_T, divided by the horizon T.

        `most` is an upper bound on the regret of one interval: if the quotient is `most` or more,
        the row is vacuous. The bounds `regret` and `most` hold under the `assumption`.
        """
        average, unit = regret / self.horizon, self.unit or "the unit of the readings"
        meaning = f"{assumption}upper bound on R_T/T in {unit}"
        if average >= most:
            limit = f"{most * self.scale:.3g}"
            meaning += f"; the bound is vacuous, because {limit} is an upper bound for every policy"
        return SummaryLine(name, average * self.scale, source, meaning)


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
) -> tuple[SummaryLine, ...]:
    r"""Return the table of the papers' block lengths, β and regret bounds for a field.

    Parameters
    ----------
    field : SensorField
        M arms, their prior covariance and noise variance.
    horizon : int
        T, in intervals, 1 or more.
    epsilon : float
        ε, rate of change of [B16], 0 to 1.
    epsilon_range : (float, float) or None
        Lower and upper bound on the rate of change, for [ET]; if None, both are `epsilon`.
    variation : float or None
        P_T of [ZS21], sum of the norms of all changes; None if it is unknown.
    dimension, side : int, float
        d, number of dimensions of the domain, and r, length of its side. [M24] uses both numbers;
        Matérn kernels use d.
    slope : float
        b1 of [M24], the scale of the field's steepest slope, in model units: about √2 / l for a
        squared exponential kernel of variance 1 and length scale l.
    delta : float
        Probability that a bound fails.
    nu : float
        ν of the Matérn kernel.
    bound : float
        B of [ZS21] and [LB], upper bound on the norm of the field in the kernel's space, in units
        of the largest prior standard deviation. The prior mean is subtracted from the field first.

    Returns
    -------
    tuple of SummaryLine
        Rows with gains, block lengths, bounds on R_T/T in the unit of the readings, and the best
        constant β.

    Raises
    ------
    ConfigError
        If an argument is out of range.

    Notes
    -----
    The computation takes T M² multiply-adds. A bound is called vacuous if it is at least as large
    as a bound that holds for every policy. The regret of an interval has these bounds for every
    policy, where std is the largest prior standard deviation:

    - The mean regret is at most :math:`2 \sqrt{2 \ln M}` std, a bound on E[max f - min f]. In the
      row "best β, on average", the mean regret is also at most `Domain.mean_loss`.
    - With probability 1 - δ, no interval has a regret above :math:`2 \sqrt{2 \ln(M T / δ)}` std.
    - In [ZS21] and [LB], the regret is at most 2 B std ([LB] section 2).
    """
    check_count(horizon=horizon)
    check_range(0, 1, epsilon=epsilon)
    check_probability(delta=delta)
    check_positive(bound=bound)
    lower, upper = epsilon_range or (epsilon, epsilon)
    check_ordered_rates(lower, upper)
    if not lower <= epsilon <= upper:
        raise ConfigError(f"epsilon is {epsilon}; it must be within its range, {lower} to {upper}.")
    std = sqrt(float(np.max(np.diag(field.kernel))))
    case = _Case(
        arms=len(field),
        horizon=horizon,
        epsilon=epsilon,
        bounds=BlockBounds.from_rates(lower, upper, horizon=horizon),
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
    return (
        *_gain_lines(case),
        *_lengths(case),
        *_bayesian(case),
        *_constant(case),
        *_agnostic(case),
    )


def _gain_lines(case: _Case) -> list[SummaryLine]:
    block = bogunovic2016.block_length_se(case.epsilon, horizon=case.horizon)
    return [
        SummaryLine(
            f"gain of {n} reading{'s' if n > 1 else ''}",
            float(case.greedy[n - 1]),
            "Srinivas et al. 2010, section 5",
            "in nats, for greedily chosen arms; the maximum is at most 1/(1 - 1/e) times as large",
        )
        for n in sorted({1, block, case.horizon})
    ]


def _lengths(case: _Case) -> list[SummaryLine]:
    T, epsilon = case.horizon, case.epsilon
    se = bogunovic2016.block_length_se(epsilon, horizon=T)
    matern = bogunovic2016.block_length_matern(
        epsilon, horizon=T, dimension=case.domain.dimension, nu=case.nu
    )
    known = "P_T unknown" if case.variation is None else f"P_T = {case.variation:g}"
    no_range = "no range of ε is given, so N_lo = N_hi"
    wide = "computed from the range of ε" if case.range_ else no_range
    again = "[ZS21] remark 2" if case.variation is not None else "[ZS21] remark 3"
    return [
        SummaryLine("N, R-GP-UCB, SE", se, "[B16] corollary 4.1", "intervals between resets"),
        SummaryLine(
            "N, R-GP-UCB, Matérn",
            matern,
            "[B16] corollary 4.1",
            f"intervals between resets, ν = {case.nu:g}",
        ),
        SummaryLine(
            "N_lo, ET-GP-UCB",
            case.bounds.n_lower,
            "[ET] corollary 1",
            f"smallest number of intervals between resets; {wide}",
        ),
        SummaryLine(
            "N_hi, ET-GP-UCB",
            case.bounds.n_upper,
            "[ET] corollary 1",
            f"largest number of intervals between resets; {wide}",
        ),
        SummaryLine("H, BR-GP-UCB", case.interval, again, f"intervals between restarts, {known}"),
        SummaryLine(
            "w, SW-GP-UCB", case.interval, again, f"length of the window in intervals, {known}"
        ),
    ]


def _bayesian(case: _Case) -> list[SummaryLine]:
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
    varying = bogunovic2016.varying_regret(
        T,
        gain=case.moving_gain,
        beta=bogunovic2016.varying_beta_on_arms(T, arms=case.arms, delta=delta),
        noise_variance=noise,
    )
    least = bogunovic2016.regret_lower_bound(T, epsilon) / T
    most = case.sure_loss
    return [
        SummaryLine(
            "least R_T/T",
            least,
            "[B16] theorem 4.1",
            "lower bound for every policy, up to a constant factor",
        ),
        case.per_interval(resetting, most, "[B16] theorem 4.2, [ET] note 6", "R-GP-UCB"),
        case.per_interval(triggered, most, "[ET] theorem 1", "ET-GP-UCB, any trigger"),
        case.per_interval(varying, most, "[B16] theorem 4.3, [M24] theorem 3.2", "TV-GP-UCB"),
    ]


def _constant(case: _Case) -> list[SummaryLine]:
    T, noise = case.horizon, case.noise_variance
    best = mandl2024.best_constant_beta(
        T, gain=case.moving_gain, domain=case.domain, noise_variance=noise
    )
    likely = mandl2024.likely_regret(best.bound, T, case.epsilon, omega=case.delta)
    slope = f"slope {case.domain.b1:.3g} std, side {case.domain.side:g}"
    grid = f"τ = {best.tau} grid points per coordinate"
    meaning = f"the width is √β; computed with δ = {best.delta:.2g}, {grid}, {slope}"
    if not best.affects_bound:
        meaning = (
            f"no β is better than another: the smallest bound is the same for every β; {slope}"
        )
    meaning += "; [M24] uses β = 2 to 4 in practice"
    mean_loss = min(2.0 * sqrt(2.0 * log(case.arms)), case.domain.mean_loss)
    return [
        SummaryLine("best constant β", best.beta, "[M24] theorem 4.1", meaning),
        case.per_interval(best.bound, mean_loss, "[M24] theorem 4.1", "best β, on average"),
        case.per_interval(
            likely, case.sure_loss, "[M24] lemma 4.10, a conjecture", "best β, likely"
        ),
    ]


def _agnostic(case: _Case) -> list[SummaryLine]:
    T, H, noise, most = case.horizon, case.interval, case.noise_variance, 2.0 * case.bound
    gain = float(case.gains[H - 1])
    suspected = ziomek2024.suspected_regret(T, gain=float(case.gains[-1]), bound=case.bound)
    unit = case.unit or "the unit of the readings"
    lines = [
        SummaryLine(
            "GP-UCB, static field",
            suspected / T * case.scale,
            "[LB] theorem 2.3",
            f"{case.given_norm}suspected regret R_T/T in {unit}, up to a constant",
        )
    ]
    if case.variation is None:
        return lines
    shared = {"bound": case.bound, "noise": sqrt(noise), "regularization": noise}
    block_delta = case.delta / ceil(T / H)
    for name, source, beta in (
        ("BR-GP-UCB", "[ZS21] theorem 1", zhou2021.restart_beta(gain, delta=block_delta, **shared)),
        (
            "SW-GP-UCB",
            "[ZS21] theorem 2",
            zhou2021.window_beta(T, gain, delta=case.delta, **shared),
        ),
    ):
        regret = zhou2021.dynamic_regret(
            T, H, case.variation, gain=gain, beta=beta, regularization=noise
        )
        lines.append(case.per_interval(regret, most, source, name, case.given_norm))
    return lines
