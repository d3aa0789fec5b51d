"""Upper confidence bounds on a field whose length scale nobody knows.

The field's own kernel serves for its variance alone; how fast the field changes in space is learned
from the readings and from where they were taken, which is why a `SensorField` must have positions.
A policy here is three things: `Readings`, the last of them and how far apart they were taken; a
`LengthScaleSelector`, which selects the length scale (`candidates`, `fitting`); and a
`LengthScalePosterior`, which puts the one through the other. Nothing is thought to change in time.

[LB] Ziomek, Adachi & Osborne 2024, Bayesian optimisation with unknown hyperparameters. Where this
differs from it: [LB] standardises all readings anew at each step, here `center` and `scale` of the
field do it once; its squared exponential is exp(-r²/θ²), ours exp(-r²/2θ²).
"""

from math import log, sqrt

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import Beta, beta_schedule
from edge_tvbo.models.checks import (
    check_positive,
    check_probability,
    check_range,
    is_finite_number,
)
from edge_tvbo.models.domain import Arm, Field
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import Outcome, UpperConfidence
from edge_tvbo.policy.unknown_length_scale.candidates import (
    Growth,
    Hypothesis,
    RegretBalancing,
    ShrinkingSchedule,
    gain_rate,
)
from edge_tvbo.policy.unknown_length_scale.fitting import McmcSelector, MlSelector
from edge_tvbo.policy.unknown_length_scale.posterior import (
    LengthScalePosterior,
    LengthScaleSelector,
    Readings,
)

WINDOW = 256
HYPERPRIOR = (3.0, 6.0)  # shape and rate, BoTorch's default ([LB] section 5)


def shrinking(
    name: str,
    field: Field,
    *,
    length_scale: float | None = None,
    nu: float = 2.5,
    bound: float = 1.0,
    delta: float = 0.1,
    growth: float = 0.5,
    norm_growth: float = 0.0,
    ratio: float | None = None,
    beta: Beta | None = None,
    window: int = WINDOW,
    seed: int = 0,
) -> "LearnedScale":
    """Give A-GP-UCB (Berkenkamp, Schoellig & Krause 2019), which shortens the length scale always.

    θ_t = θ0/g(t) and B_t = b(t) g(t)^d B0.

    Parameters
    ----------
    length_scale : float
        θ0, in the unit of the positions, the longest thought possible; without it the longest side
        of the domain. [LB] section 5 fits it to the first 3 or 10 readings by maximum likelihood.
    nu : float
        Smoothness of the Matérn kernel; 2.5 in [LB] section 5, infinity for squared exponential.
    bound : float
        B0, the most the field's norm is under θ0, in prior standard deviations; 1 in the public
        code of [LB].
    delta : float
        The probability that the bounds fail, 0 to 1.
    growth : float
        a in g(t) = max(t0, t^a), 0 to 2; [LB] tries .25, .5, .75 and settles for .5. t0 lets
        five candidates in at once.
    norm_growth : float
        c in b(t) = t^c; 0 where only the length scale is unknown ([LB] appendix H).
    ratio : float
        Of consecutive candidates, 1 to 100, which decides t0; without it e^(1/d) ([LB] definition
        3.1). The public code of [LB] has e^(1/(d+2ν)) for Matérn kernels.
    beta : float, mapping or Exploration
        Any other width than the agnostic B + R √(2(γ + 1 + ln 1/δ)), γ being the information that
        the readings held give ([LB] theorem 2.1). The widths in the public code of [LB] are so
        near 1 that ``beta=1.0`` stands for them.
    window : int
        The most readings held.
    """
    readings = Readings(name, field, window, nu)
    first = _first(readings, length_scale, bound)
    check_range(0, 2, growth=growth, norm_growth=norm_growth)
    scales = ShrinkingSchedule(
        first, _growth(readings, growth, ratio), readings.dimension, norm_growth
    )
    return LearnedScale(name, readings, scales, beta, delta, seed)


def balanced(
    name: str,
    field: Field,
    *,
    length_scale: float | None = None,
    nu: float = 2.5,
    bound: float = 1.0,
    delta: float = 0.1,
    growth: float = 0.5,
    ratio: float | None = None,
    beta: Beta | None = None,
    window: int = WINDOW,
    seed: int = 0,
) -> "LearnedScale":
    """Give LB-GP-UCB ([LB] algorithm 1), which balances what each length scale is thought to cost.

    Longer length scales than θ0/g(t) stay candidates until their readings belie them. For the
    parameters see `shrinking`; `bound` is N, under θ it becomes (θ0/θ)^(d/2) N.
    """
    readings = Readings(name, field, window, nu)
    check_range(0, 2, growth=growth)
    steps = _growth(readings, growth, ratio)
    scales = _balance(readings, _first(readings, length_scale, bound), steps, 0.0, nu, delta)
    return LearnedScale(name, readings, scales, beta, delta, seed)


def norm_balanced(
    name: str,
    field: Field,
    *,
    length_scale: float | None = None,
    nu: float = 2.5,
    bound: float = 1.0,
    delta: float = 0.1,
    growth: float = 0.5,
    norm_growth: float = 0.5,
    ratio: float | None = None,
    beta: Beta | None = None,
    window: int = WINDOW,
    seed: int = 0,
) -> "LearnedScale":
    """Give LNB-GP-UCB ([LB] algorithm 3), which does not know the norm either.

    As `balanced`, over pairs with the norms B0 e^j up to B0 t^`norm_growth`; [LB] names no
    growth of norms, the default is that of length scales.
    """
    readings = Readings(name, field, window, nu)
    check_range(0, 2, growth=growth, norm_growth=norm_growth)
    first, steps = _first(readings, length_scale, bound), _growth(readings, growth, ratio)
    scales = _balance(readings, first, steps, norm_growth, nu, delta)
    return LearnedScale(name, readings, scales, beta, delta, seed)


def most_likely(
    name: str,
    field: Field,
    *,
    length_scale: float | None = None,
    nu: float = 2.5,
    bound: float = 1.0,
    delta: float = 0.1,
    prior: tuple[float, float] | None = None,
    beta: Beta | None = None,
    window: int = WINDOW,
    seed: int = 0,
) -> "LearnedScale":
    """Give GP-UCB with the length scale of maximum likelihood, fitted as each interval ends.

    The baseline "MLE" of [LB] section 5. `length_scale` is where the first fit begins. With
    `prior`, shape and rate of a Gamma distribution of θ as a share of the domain's longest side,
    it is the length scale of maximum posterior density. For the others see `shrinking`.
    """
    readings = Readings(name, field, window, nu)
    first = _first(readings, length_scale, bound)
    shape, rate = (1.0, 0.0) if prior is None else _gamma(prior)
    scales = MlSelector(readings, first, shape - 1.0, rate, seed)
    return LearnedScale(name, readings, scales, beta, delta, seed)


def sampled(
    name: str,
    field: Field,
    *,
    length_scale: float | None = None,
    nu: float = 2.5,
    bound: float = 1.0,
    delta: float = 0.1,
    prior: tuple[float, float] | None = HYPERPRIOR,
    samples: int = 8,
    beta: Beta | None = None,
    window: int = WINDOW,
    seed: int = 0,
) -> "LearnedScale":
    """Give GP-UCB with the bound averaged over `samples` length scales from their posterior.

    The baseline "MCMC" of [LB] section 5, which draws 100 with NUTS; in one dimension slices do
    (Neal 2003). `prior` is as for `most_likely`; None is any order of magnitude alike. The standard
    deviation reported is the samples' mean one, as the averaged bound has it.
    """
    if not 1 <= samples <= 1024:
        raise ConfigError(f"samples is {samples}; it can be 1 to 1024.")
    readings = Readings(name, field, window, nu)
    first = _first(readings, length_scale, bound)
    shape, rate = (0.0, 0.0) if prior is None else _gamma(prior)
    scales = McmcSelector(readings, first, shape, rate, samples, seed)
    return LearnedScale(name, readings, scales, beta, delta, seed)


class AgnosticWidth:
    """β = B + R √(2(γ + 1 + ln 1/δ)), B and γ being those of the length scale in play.

    [LB] theorem 2.1, after Chowdhury & Gopalan 2017. B and R = σ_N are in prior standard
    deviations, so that β has no unit. γ is the information ½ ln det(I + K/σ²) of the readings held,
    of which the theorem takes the greatest that there can be. Theorem 4.1 of [LB] has δ/2, for the
    other half goes to the elimination; here each of the two errs with probability δ.
    """

    def __init__(self, posterior: LengthScalePosterior, delta: float) -> None:
        self._posterior = posterior
        self._delta = delta

    def width(self, t: int, observations: int) -> float:
        """Give β."""
        noise = sqrt(self._posterior.readings.noise_variance)
        said = self._posterior.gain() + 1.0 + log(1.0 / self._delta)
        return self._posterior.plays[0].norm + noise * sqrt(2.0 * said)


class LearnedScale(UpperConfidence):
    """GP-UCB under the length scale that a `LengthScaleSelector` believes in.

    Readings of arms that were not asked for are learned from like any others; only answers are
    credited to the length scale that asked. Within an interval the length scale stays the same,
    for all arms of `select_many` too.
    """

    def __init__(
        self,
        name: str,
        readings: Readings,
        scales: LengthScaleSelector,
        beta: Beta | None,
        delta: float,
        seed: int,
    ) -> None:
        check_probability(delta=delta)
        self._believed = LengthScalePosterior(readings, scales)
        width = AgnosticWidth(self._believed, delta) if beta is None else beta_schedule(beta)
        super().__init__(name, readings.field, self._believed, width, Never(), seed=seed)
        self.scales = scales

    @property
    def length_scale(self) -> float:
        """The length scale in play, in the unit of the positions; of several the mean."""
        plays = self._believed.plays
        return sum(play.length_scale for play in plays) / len(plays)

    def observe(self, arm: Arm, y: float) -> Outcome:
        """Take a reading in, and credit it to the length scale in play if it is an answer."""
        if arm in self._asked:
            unit = self._believed.readings.prior_std
            width = self._exploration.width(self._time + 1, self.observations)
            self.scales.update(y / unit, width * self._believed.at(arm).std / unit)
        return super().observe(arm, y)


def _first(readings: Readings, length_scale: float | None, bound: float) -> Hypothesis:
    theta = readings.extent if length_scale is None else length_scale
    check_positive(length_scale=theta, bound=bound)
    return Hypothesis(float(theta), float(bound))


def _growth(readings: Readings, exponent: float, ratio: float | None) -> Growth:
    if ratio is None:
        return Growth(1.0 / readings.dimension, exponent)
    if not (is_finite_number(ratio) and 1.0 < ratio <= 100.0):
        raise ConfigError(f"ratio is {ratio!r}; it must be above 1, and at most 100.")
    return Growth(log(ratio), exponent)


def _balance(
    readings: Readings,
    first: Hypothesis,
    growth: Growth,
    norm_growth: float,
    nu: float,
    delta: float,
) -> RegretBalancing:
    check_probability(delta=delta)
    return RegretBalancing(
        first,
        growth,
        norm_growth,
        dimension=readings.dimension,
        gain=gain_rate(nu, readings.dimension),
        extent=readings.extent,
        noise_variance=readings.noise_variance,
        delta=delta,
    )


def _gamma(prior: tuple[float, float]) -> tuple[float, float]:
    pair = isinstance(prior, tuple | list) and len(prior) == 2 and all(map(is_finite_number, prior))
    if not pair or min(prior) <= 0.0:
        raise ConfigError(f"prior is {prior!r}; it can be a Gamma's shape and rate, both above 0.")
    shape, rate = prior
    return float(shape), float(rate)
