"""E5: search for the best gains of a pendulum's controller while a bearing wears.

Source: [ET] section 6, appendix A.3, figure 3 d; the settings are in table 7. The policies search
for the best values of four gains in T = 300 intervals. The noise variance is σ_n² = .02, and
β_t = c1 ln(c2 t) with c1 = .8 and c2 = 4. From t = 100 on, the friction of the bearing is 2.5 times
as large as before. The module `pendulum` contains the plant and lists the differences between this
plant and that of the paper. The regret of a controller is the reward of the best controller in the
box of allowed gains, minus the reward of the controller, both at the current friction. Regret is in
standard deviations of the reward over the box.

For each gain, one length scale is fitted online, in the same way for each policy: the maximum a
posteriori estimate under a Gamma prior with shape 15 and rate 10/3. The code of the paper divides
the gains by the scaling factors of table 7, [1/8, 1/4, 3, 1/8]. These factors are the units of the
length scales. The mode of the prior is 4.2: half the side of the box for the first three
gains, and a quarter of the side for the last gain. The paper does not describe how length scales
are fitted, or within which bounds; `ArdMapPosterior` describes the method used here.

The paper states neither the following settings nor those in the `notes` of `PolicySearch`:

- The prior variance is always 1.
- The upper confidence bound is maximised among 256 Sobol points, and then by local searches from
  the best three of these points.
- The model uses all readings since the last reset.

The following facts explain the expectations; rewards are in prior standard deviations.

- The wear lowers the reward everywhere: the maximum of the reward falls from 1.52 to .08.
- The wear moves the maximum only a little: with the worn bearing, the controller that was the best
  one before the wear has a reward that is .25 below the new maximum.
- In corners of the box the reward is as low as -13.6. Policies that discard all readings at a reset
  visit corners after the reset.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.posteriors.fitted_length_scales import ArdMapPosterior
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import (
    Static,
    TemporalModel,
    TimeVarying,
    UncertaintyInjection,
)
from edge_tvbo.models.triggers import BlockBounds, ErrorBound, EveryPeriod, Trigger
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.upper_confidence import UpperConfidence
from edge_tvbo.research.experiments import pendulum
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.curves import BAND, plot_with_band
from edge_tvbo.research.experiments.result_table import Expectation, ResultTable, Row, Table
from edge_tvbo.research.experiments.statistics import expect_less
from edge_tvbo.simulation.dataset_lookup import DataSource

HORIZON = 300
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.8, 4.0)
SHAPE, RATE = 15.0, 10.0 / 3.0  # shape and rate of the Gamma prior
CANDIDATES = 256
EPSILON = 0.03  # ε of TV, and σ_w² of UI
PERIOD = 29
DELTA_B = 0.1
TEMPORAL_KERNELS: dict[str, TemporalModel] = {  # the kernels of the other policies are static
    "tv-gp-ucb": TimeVarying(EPSILON),
    "ui-tvbo": UncertaintyInjection(EPSILON),
}
POLICIES = ("et-gp-ucb", "tv-gp-ucb", "ui-tvbo", "r-gp-ucb", "gp-ucb")
EARLY_RESETS = "resets, t < 100"
PHASES = {  # start and end in sixths of the horizon; the names assume T = 300
    "r, t < 100": (0, 2),
    "r, 100 to 149": (2, 3),
    "r, t >= 150": (3, 6),
    "r, t >= 200": (4, 6),
}


class SearchResult(NamedTuple):
    """The regret and the resets of one policy in experiment E5."""

    regret: Array  # (T,)
    resets: Array  # (T,), cumulative number of resets


class PolicySearch(Experiment):
    """The experiment E5: regret of each policy before, just after and long after the change."""

    name = "E5"
    title = "policy search for a pendulum whose bearing wears"
    source = "[ET] figure 3 d"
    runs = 50
    tables = (Table("", "policy", "number"),)
    notes = """
The policies search for the best gains of a pendulum's controller. At t = 100, the friction of the
bearing changes. Each column "r" has the mean regret per interval, over one part of the run. The
unit of the regret is the standard deviation of the reward over all allowed gains.

- The equations of the pendulum and their constants come from earlier public code of the authors
  (brunzema/uitvbo). That code also disturbs the state of the pendulum at random; E5 does not.
- The paper does not state how it fits length scales, how it maximises the upper confidence bound,
  or which bounds ET has on the time between two resets. Here, ET has the bounds that are valid for
  any ε from 0 to 1.
- In E5, a run begins without readings. In the earlier public code, a run begins with 30 readings.
- The wear of the bearing lowers the highest reward a lot, but moves the best gains only a little.
  The change of the reward makes ET (ET-GP-UCB) reset. ET then explores corners of the box of gains,
  although the old gains are still good.
"""

    def __init__(
        self,
        data: DataSource | None = None,
        *,
        horizon: int = HORIZON,
        candidates: int = CANDIDATES,
    ) -> None:
        super().__init__(data)
        self._horizon = horizon
        self._candidates = candidates

    @cached_property
    def _field(self) -> BoxField:
        start = (SHAPE - 1.0) / RATE * pendulum.SCALES
        kernel = SpatialKernel(math.inf, tuple(start.tolist()))
        lower, upper = pendulum.LOWER.tolist(), pendulum.UPPER.tolist()
        return BoxField(lower, upper, kernel, NOISE_VARIANCE, candidates=self._candidates)

    @cached_property
    def _best(self) -> dict[float, float]:
        frictions = (pendulum.FRICTION, pendulum.WORN_FRICTION)
        return {friction: pendulum.optimum(friction)[1] for friction in frictions}

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Test whether ET-GP-UCB has the least regret in experiment E5.

        Two regrets are tested: that after the change, and that of the whole run.
        """
        et, *others = POLICIES
        return [
            expect_less(
                f"{where}: ET has less regret than {other}",
                results.differences(number, {"policy": et}, {"policy": other}),
            )
            for number, where in (
                ("r, t >= 150", "after the change, t >= 150"),
                ("R_T/T", "whole run"),
            )
            for other in others
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw regret and cumulative regret over time for experiment E5 ([ET] figure 3 d)."""
        left, right = figure.subplots(1, 2)
        t = np.arange(1, self._horizon + 1)
        for policy in POLICIES:
            regrets = results.curves("r_t", {"policy": policy})
            plot_with_band(right, t, np.cumsum(regrets, axis=1), label=policy)
            smooth = [np.convolve(each, np.full(5, 0.2), mode="valid") for each in regrets]
            plot_with_band(left, t[2:-2], smooth, label=policy)
        left.set(xlabel="t", ylabel="r_t, mean of five intervals", ylim=(0, None))
        right.set(xlabel="t", ylabel="R_t", ylim=(0, None))
        for axes in (left, right):
            axes.axvline(self._horizon // 3, color="grey", ls=":")
            axes.grid(alpha=0.3)
        right.legend(loc="best")
        figure.suptitle(
            f"[ET] figure 3 d: the dotted line marks the wear of the bearing; {BAND}", fontsize=11
        )

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the rows of one run of experiment E5; all policies have the same noise in a run."""
        generator = self._generator(seed, run)
        noise = generator.standard_normal(self._horizon) * NOISE_VARIANCE**0.5
        policy_seed = int(generator.integers(2**31))
        for name in POLICIES:
            search = self._search(self._policy(name, policy_seed), noise)
            regret, sixth = search.regret, self._horizon / 6
            numbers = {"R_T/T": float(regret.mean())}
            for label, (first, last) in PHASES.items():
                part = regret[round(first * sixth) : round(last * sixth)]
                numbers[label] = float(part.mean())
            numbers[EARLY_RESETS] = float(search.resets[round(2 * sixth) - 1])
            numbers["resets"] = float(search.resets[-1])
            yield Row(run, {"policy": name}, numbers, {"r_t": regret.round(5).tolist()})

    def _search(self, policy: UpperConfidence, noise: Array) -> SearchResult:
        regret, resets = np.empty(len(noise)), np.empty(len(noise))
        for t in range(len(noise)):
            friction = self._friction(t)
            gains = policy.select().arm
            reward = pendulum.reward(np.array(gains), friction)
            policy.observe(gains, reward + float(noise[t]))
            policy.advance()
            regret[t] = max(self._best[friction] - reward, 0.0)
            resets[t] = policy.resets
        return SearchResult(regret, resets)

    def _friction(self, t: int) -> float:
        """Return experiment E5's friction in interval `t`.

        The friction changes after a third of the horizon.
        """
        return pendulum.friction_at(t * HORIZON // self._horizon)

    def _policy(self, name: str, seed: int) -> UpperConfidence:
        posterior = ArdMapPosterior(
            self._field,
            TEMPORAL_KERNELS.get(name, Static()),
            self._horizon,
            units=pendulum.SCALES.tolist(),
            shape=SHAPE,
            rate=RATE,
        )
        bounds = BlockBounds.from_rates(0.0, 1.0, horizon=self._horizon)
        triggers: dict[str, Trigger] = {
            "et-gp-ucb": ErrorBound(NOISE_VARIANCE, DELTA_B, bounds.n_lower, bounds.n_upper),
            "r-gp-ucb": EveryPeriod(PERIOD),
        }
        trigger = triggers.get(name)
        return UpperConfidence(name, self._field, posterior, BETA, trigger, seed=seed)
