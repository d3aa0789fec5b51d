"""Policies of E11 and their settings; each fit standardises all readings so far.

The module `e11_length_scale` states the sources, and the differences from the public code.
"""

from math import exp, log

import numpy as np

from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.beta import Beta
from edge_tvbo.policy.length_scale_settings import HYPERPRIOR
from edge_tvbo.policy.unknown_length_scale.candidates import (
    Growth,
    Hypothesis,
    RegretBalancing,
    ShrinkingSchedule,
    gain_rate,
)
from edge_tvbo.policy.unknown_length_scale.fitting import McmcSelector, MlSelector
from edge_tvbo.policy.unknown_length_scale.policies import LengthScalePolicy
from edge_tvbo.policy.unknown_length_scale.posterior import Fit, LengthScaleSelector, Readings
from edge_tvbo.research.experiments.e11_objectives import NU
from edge_tvbo.research.experiments.result_table import Labels, case_labels

BETA = 1.0
DELTA = 0.1  # δ of LB's elimination; it has no effect without noise
MCMC_SAMPLES = 4
START = log(2.0)  # length scale from which the ascent starts: softplus(0)
STEP = 0.25  # step of the ascent, in ln θ
MIN_GAIN = 1e-3  # smallest gain of a step of the ascent, in nats
MIN_LENGTH_SCALE, MAX_LENGTH_SCALE = 1e-3, 1e2
GROWTH = 0.5
GROWTHS = (0.25, GROWTH, 0.75)
NORM_GROWTH = 0.5  # c in b(t) = t^c of LNB
BALANCED, SHRUNK, LIKELIEST, SAMPLED = "lb-gp-ucb", "a-gp-ucb", "mle-gp-ucb", "mcmc-gp-ucb"
BALANCED_NORM = "lnb-gp-ucb"
POLICIES = (BALANCED, SHRUNK, LIKELIEST, SAMPLED, BALANCED_NORM)
WITH_GROWTH = (BALANCED, SHRUNK)  # policies that are run with several growth functions
RIVALS = (SHRUNK, LIKELIEST, SAMPLED)  # policies that LB is compared with in the paper
CURVE_STEP = 5  # number of steps between the points of a curve
EDGES = np.geomspace(1e-3, 10.0, 41)  # edges of the histograms of length scales
TOY, RIDGES = "Berkenkamp", "Michalewicz"
OPTIMAL = {RIDGES: 0.0354, "CrossedBarrel": 0.1309, "AGNP": 0.1056}  # θ* in the public code


class Standardised(Readings):
    """Readings of experiment E11; each fit of a length scale first standardises all of them."""

    @property
    def spread(self) -> float:
        """Standard deviation by which the readings are divided; 1 if all readings are equal."""
        y = self.y[: self.held]
        return float(y.std(ddof=1)) or 1.0 if len(y) > 1 else 1.0

    def fit(self, length_scale: float) -> Fit:
        """Return the regression on the standardised readings that experiment E11's policies use."""
        n = self.held
        if not n:
            return super().fit(length_scale)
        K = self.correlations(self._distances[:n, :n], length_scale)
        y = (self.y[:n] - self.y[:n].mean()) / self.spread
        return Fit(K, np.full(n, self.noise_variance), y)


class ScaledRegretBalancing(RegretBalancing):
    """Regret balancing with a bonus β σ that is given in standard deviations of the readings."""

    def __init__(
        self,
        readings: Standardised,
        first: Hypothesis,
        growth: Growth,
        norm_exponent: float = 0.0,
    ) -> None:
        d = readings.dimension
        super().__init__(
            first,
            growth,
            norm_exponent,
            dimension=d,
            gain=gain_rate(NU, d),
            extent=readings.extent,
            noise_variance=0.0,  # readings have no noise
            delta=DELTA,
        )
        self._readings = readings

    def update(self, y: float, bonus: float) -> None:
        """Update the active hypothesis of the policy with a reply `y` and the bonus β σ.

        The bonus is first converted to the unit of `y`.
        """
        super().update(y, bonus * self._readings.spread)


class ActiveNorm:
    """The width of LNB-GP-UCB in experiment E11: the norm N of the active candidate."""

    def __init__(self, balancing: RegretBalancing, first: Hypothesis, dimension: int) -> None:
        self._balancing = balancing
        self._first = first
        self._dimension = dimension

    def width(self, t: int, observations: int) -> float:
        """Return the width of LNB-GP-UCB in experiment E11: the norm N of the active candidate.

        N is computed as B(θ, N) (θ/θ0)^(d/2). The active candidate has the length scale θ and the
        norm bound B(θ, N). θ0 is the first length scale, and d is the dimension.
        """
        (active,) = self._balancing.hypotheses(t)
        ratio = active.length_scale / self._first.length_scale
        return float(active.norm * ratio ** (self._dimension / 2.0))


def most_likely_nearby(readings: Readings) -> float:
    """Return, for experiment E11's policies, a length scale at a local maximum of the likelihood.

    An ascent that starts at ln 2 finds this maximum.
    """
    from scipy.optimize import minimize_scalar

    def likelihood(place: float) -> float:
        return readings.fit(exp(place)).log_likelihood()

    at = log(START)
    here = likelihood(at)
    for step in (STEP, -STEP):
        moved = False
        while log(MIN_LENGTH_SCALE) < at + step < log(MAX_LENGTH_SCALE):
            ahead = likelihood(at + step)
            if ahead < here + MIN_GAIN:
                break
            at, here, moved = at + step, ahead, True
        if moved:
            break
    found = minimize_scalar(
        lambda place: -likelihood(place),
        bounds=(at - STEP, at + STEP),
        method="bounded",
        options={"xatol": 0.02, "maxiter": 10},
    )
    return exp(found.x) if -found.fun > here else exp(at)


def case(function: str, policy: str, growth: float) -> Labels:
    """Return the labels of a case of experiment E11: objective, policy and growth function.

    Only the policies A and LB have a growth function, whose parameter is `growth`. For other
    policies, the label of the growth function is empty.
    """
    given = f"{growth:g}" if policy in WITH_GROWTH else ""
    return case_labels(function=function, policy=policy, growth=given)


def make_e11_policy(
    policy: str, field: Field, longest: float, growth: float, seed: int, window: int
) -> LengthScalePolicy:
    """Return a new policy of experiment E11.

    `longest` is the first length scale, `growth` is the exponent of the growth function, and
    `window` is the number of readings in a run.
    """
    readings = Standardised(policy, field, window, NU)
    first, d = Hypothesis(longest, 1.0), readings.dimension
    growing = Growth(1.0 / (d + 2.0 * NU), growth)
    scales: LengthScaleSelector
    beta: Beta = BETA
    if policy == BALANCED:
        scales = ScaledRegretBalancing(readings, first, growing)
    elif policy == BALANCED_NORM:
        scales = balancing = ScaledRegretBalancing(readings, first, growing, NORM_GROWTH)
        beta = ActiveNorm(balancing, first, d)
    elif policy == SHRUNK:
        scales = ShrinkingSchedule(first, growing, d, 0.0)
    elif policy == LIKELIEST:
        scales = MlSelector(readings, first, 0.0, 0.0, 1, seed)
    else:
        scales = McmcSelector(readings, first, *HYPERPRIOR, MCMC_SAMPLES, seed)
    return LengthScalePolicy(policy, readings, scales, beta, DELTA, seed)
