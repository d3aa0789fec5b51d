"""Policies for an unknown length scale: A-GP-UCB, LB-GP-UCB, LNB-GP-UCB, and two fitting policies.

Of the field's kernel, only the variance is used. How fast the field changes in space is learned
from the readings and their positions, so a `SensorField` must have positions. The field is assumed
to be constant in time. A policy of this module has three parts:

- `Readings` holds the newest readings and the distances between them.
- A `LengthScaleSelector` selects the length scale; `candidates` and `fitting` contain several
  selectors.
- A `LengthScalePosterior` predicts the field from the readings and the selected length scale.

[LB] is Ziomek, Adachi & Osborne 2024, Bayesian optimisation with unknown hyperparameters. There are
two differences from [LB]:

- [LB] standardises all readings again at each step; here, readings are standardised once, by the
  field's `center` and `scale`.
- The squared exponential kernel of [LB] is exp(-r²/θ²); here it is exp(-r²/2θ²).
"""

from math import log, sqrt

from edge_tvbo.models.arm_space import Arm, Field
from edge_tvbo.models.beta import Beta, beta_schedule
from edge_tvbo.policy.argument_checks import checked_reading
from edge_tvbo.policy.base import ObserveResult
from edge_tvbo.policy.length_scale_settings import (
    AGpUcbSettings,
    CandidateSettings,
    LbGpUcbSettings,
    LengthScaleSettings,
    LnbGpUcbSettings,
    McmcGpUcbSettings,
    MleGpUcbSettings,
)
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
from edge_tvbo.policy.upper_confidence import UpperConfidence


def make_a_gp_ucb(settings: AGpUcbSettings, field: Field) -> "LengthScalePolicy":
    """Build A-GP-UCB (Berkenkamp et al. 2019), whose length scale shrinks on a schedule.

    The length scale is θ_t = θ0 / g(t) with g(t) = max(t0, t^a), and the bound on the norm is B_t =
    b(t) g(t)^d B0 with b(t) = t^c; see `AGpUcbSettings`. [LB] section 5 fits θ0 to the first 3 or
    10 readings by maximum likelihood, and tries a = .25, .5 and .75. In the public code of [LB], B0
    is 1 and, for Matérn kernels, the ratio of neighbouring length scales is e^(1/(d+2ν)). The
    widths β in that code are so close to 1 that ``beta=1.0`` reproduces the code.
    """
    readings = _readings(settings, field)
    growth, first = _growth(settings, readings), _first_hypothesis(settings, readings)
    selector = ShrinkingSchedule(first, growth, readings.dimension, settings.norm_growth)
    return _policy(settings, readings, selector)


def make_lb_gp_ucb(settings: LbGpUcbSettings, field: Field) -> "LengthScalePolicy":
    """Build LB-GP-UCB ([LB] algorithm 1), which balances the suspected regret of length scales.

    Length scales from θ0 down to θ0/g(t) are candidates until replies contradict them. In d
    dimensions, the bound on the norm for the length scale θ is (θ0/θ)^(d/2) · `bound`.
    """
    readings = _readings(settings, field)
    return _policy(settings, readings, _balancing(settings, readings, 0.0))


def make_lnb_gp_ucb(settings: LnbGpUcbSettings, field: Field) -> "LengthScalePolicy":
    """Build LNB-GP-UCB ([LB] algorithm 3), for a field whose norm is unknown too.

    Candidates are pairs of a length scale and one of the norms `bound` · e^j, j = 0, 1, ..., up to
    `bound` · t^`norm_growth`. [LB] does not state how norms grow; by default `norm_growth` has the
    same value as `growth`.
    """
    readings = _readings(settings, field)
    return _policy(settings, readings, _balancing(settings, readings, settings.norm_growth))


def make_mle_gp_ucb(settings: MleGpUcbSettings, field: Field) -> "LengthScalePolicy":
    """Build GP-UCB with the maximum-likelihood length scale, fitted after each interval's readings.

    This is the baseline "MLE" of [LB] section 5. With `prior`, the maximum a posteriori length
    scale is used instead; `prior` is a Gamma distribution of θ / (longest side of the domain).
    """
    readings = _readings(settings, field)
    first = _first_hypothesis(settings, readings)
    shape, rate = (1.0, 0.0) if settings.prior is None else settings.prior
    selector = MlSelector(readings, first, shape - 1, rate, 1, settings.seed)
    return _policy(settings, readings, selector)


def make_mcmc_gp_ucb(settings: McmcGpUcbSettings, field: Field) -> "LengthScalePolicy":
    """Build GP-UCB with the bound averaged over length scales sampled from their posterior.

    This is the baseline "MCMC" of [LB] section 5, which uses the sampler NUTS; the public code of
    [LB] draws 100 length scales. Here slice sampling is used, which is sufficient in one dimension
    (Neal 2003). Without `prior`, all orders of magnitude of the length scale are equally probable.
    The standard deviation of a choice is the mean of the chosen arm's standard deviations under the
    sampled length scales.
    """
    readings = _readings(settings, field)
    first = _first_hypothesis(settings, readings)
    shape, rate = (0.0, 0.0) if settings.prior is None else settings.prior
    selector = McmcSelector(readings, first, shape, rate, settings.samples, settings.seed)
    return _policy(settings, readings, selector)


class AgnosticWidth:
    """The agnostic width β = B + R √(2(γ + 1 + ln 1/δ)), with B and γ of the active length scale.

    Source: [LB] theorem 2.1, after Chowdhury & Gopalan 2017. B and R = σ_N are in units of the
    prior standard deviation, so that β has no unit. γ is the information gain ½ ln det(I + K/σ²) of
    the readings held; the theorem uses the largest possible gain. In theorem 4.1 of [LB], the width
    and the elimination of candidates each fail with probability δ/2. Here, each of them fails with
    probability δ.
    """

    def __init__(self, posterior: LengthScalePosterior, delta: float) -> None:
        self._posterior = posterior
        self._delta = delta

    def width(self, t: int, observations: int) -> float:
        """Return the agnostic width β of the active length scale."""
        noise = sqrt(self._posterior.readings.noise_variance)
        information = self._posterior.gain() + 1.0 + log(1.0 / self._delta)
        return self._posterior.hypotheses[0].norm + noise * sqrt(2.0 * information)


class LengthScalePolicy(UpperConfidence):
    """GP-UCB with the length scale that a `LengthScaleSelector` selects.

    All readings update the posterior, but only replies update the selector. The length scale does
    not change within an interval, not even between the arms of `select_many`.

    Parameters
    ----------
    name : str
        Name under which the policy is registered.
    readings : Readings
        Empty store of readings, which the caller must not change after this call.
    selector : LengthScaleSelector
        Object that selects the length scale of each interval.
    beta : Beta or None
        Exploration weight; None for `AgnosticWidth`.
    delta : float
        Probability that the agnostic bounds fail, above 0 and below 1.
    seed : int
        Seed of the draws that break ties between arms.
    """

    _posterior: LengthScalePosterior

    def __init__(
        self,
        name: str,
        readings: Readings,
        selector: LengthScaleSelector,
        beta: Beta | None,
        delta: float,
        seed: int,
    ) -> None:
        posterior = LengthScalePosterior(readings, selector)
        width = AgnosticWidth(posterior, delta) if beta is None else beta_schedule(beta)
        super().__init__(name, readings.field, posterior, width, seed=seed)
        self.selector = selector

    @property
    def length_scale(self) -> float:
        """The mean of the policy's selected length scales, in the unit of the positions."""
        hypotheses = self._posterior.hypotheses
        return sum(hypothesis.length_scale for hypothesis in hypotheses) / len(hypotheses)

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update the policy's posterior with a reading, and its selector with a reply."""
        arm, y = checked_reading(self.field, arm, y)
        if arm in self._selected:
            unit = self._posterior.readings.prior_std
            width = self._exploration.width(self._time + 1, self.observations)
            self.selector.update(y / unit, width * self._posterior.at(arm).std / unit)
        return super().observe(arm, y)


def _policy(
    settings: LengthScaleSettings, readings: Readings, selector: LengthScaleSelector
) -> LengthScalePolicy:
    return LengthScalePolicy(
        settings.name, readings, selector, settings.beta, settings.delta, settings.seed
    )


def _readings(settings: LengthScaleSettings, field: Field) -> Readings:
    return Readings(settings.name, field, settings.window, settings.nu)


def _first_hypothesis(settings: LengthScaleSettings, readings: Readings) -> Hypothesis:
    theta = readings.extent if settings.length_scale is None else settings.length_scale
    return Hypothesis(float(theta), float(settings.bound))


def _growth(settings: CandidateSettings, readings: Readings) -> Growth:
    ratio = settings.ratio
    step = 1.0 / readings.dimension if ratio is None else log(ratio)
    return Growth(step, settings.growth)


def _balancing(
    settings: CandidateSettings, readings: Readings, norm_growth: float
) -> RegretBalancing:
    return RegretBalancing(
        _first_hypothesis(settings, readings),
        _growth(settings, readings),
        norm_growth,
        dimension=readings.dimension,
        gain=gain_rate(settings.nu, readings.dimension),
        extent=readings.extent,
        noise_variance=readings.noise_variance,
        delta=settings.delta,
    )
