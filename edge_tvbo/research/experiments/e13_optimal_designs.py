"""E13: ADA-OPKB on fields that switch or vary slowly, compared with the authors' program.

Source: Hong, Li & Tewari 2023, and the configurations of the authors' program
(github.com/kihyukh/aistats2023). The 100 arms are random points of the unit sphere in ten
dimensions. In the first two problems, the values of the arms are drawn from a Gaussian process with
a squared exponential kernel of length scale .2. The values are then scaled so that the largest
absolute value is .8. The three problems are:

- The values change sign at t = 3000.
- The values change sign at t = 1500 and at t = 5000.
- The value of an arm x is .8 cos(3 x·θ + φ) with a random direction θ; the phase φ increases by π
  from t = 1000 to 3000, and again from t = 4000 to 6000.

The noise has the standard deviation .1 and is cut off where the reward would leave [-1, 1].
"""

from collections.abc import Iterator, Mapping
from math import inf, pi
from typing import Any

import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.curves import BAND, plot_mean_curves
from edge_tvbo.research.experiments.result_table import (
    Expectation,
    PublishedValue,
    ResultTable,
    Row,
    Table,
    case_labels,
)
from edge_tvbo.research.experiments.run_policy import regrets, run_policy
from edge_tvbo.research.experiments.statistics import (
    MIN_RUNS,
    expect_less_regret,
    standard_errors_apart,
)

HORIZON = 10_000
ARMS = 100
DIMENSIONS = 10
AMPLITUDE = 0.8  # absolute value of an arm
NOISE = 0.1  # standard deviation
PRIOR_STD = 1.0 / 3.0  # so that the range of rewards of ada-opkb is [-1, 1]
SWITCHES = {"one switch": (3000,), "two switches": (1500, 5000)}
VARYING = "slow change"
LENGTH_SCALES = {"one switch": 0.2, "two switches": 0.2, VARYING: 1.0}
POLICIES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "ada-opkb": ("ada-opkb", {"horizon": HORIZON}),
    "opkb": ("ada-opkb", {"horizon": HORIZON, "detect_changes": False}),
    "gp-ucb": ("gp-ucb", {}),
    "et-gp-ucb": ("et-gp-ucb", {}),
    "glr-gp-ucb": ("glr-gp-ucb", {}),
}
AUTHORS = {  # R_T of the authors' program: mean, standard deviation of a run, runs
    "one switch": (2771.0, 1054.0, 6),
    "two switches": (2921.0, 1208.0, 14),
    VARYING: (2599.0, 637.0, 6),
}
MAX_APART = 3.0  # allowed difference from the authors' program, in standard errors
CURVE_STEP = 100  # intervals between two points of a curve


class OptimalDesigns(Experiment):
    """The experiment E13: regret R_T and resets of each policy on each problem."""

    name = "E13"
    title = "optimal designs against changes of unknown extent"
    source = "Hong, Li & Tewari 2023, with the authors' program"
    runs = 20
    tables = (Table("R_T", "policy", "problem"), Table("resets", "policy", "problem"))
    notes = """
We could not read the paper, but we had the program of its authors. In the table, the values after a
slash are results of this program with the authors' configurations, not results of the paper. `opkb`
is `ada-opkb` without the test for changes.

The paper compares ADA-OPKB with two other policies: GP-UCB with a sliding window, and GP-UCB with
discounts. E13 has neither of them. Instead, E13 has `gp-ucb`, and two policies that reset:
`et-gp-ucb` and `glr-gp-ucb`.
"""

    def published(self) -> list[PublishedValue]:
        """Return the regrets of the authors' program on E13's problems, from our runs of it."""
        return [
            PublishedValue(case_labels(problem=problem, policy="ada-opkb"), "R_T", *value)
            for problem, value in AUTHORS.items()
        ]

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the regret of ADA-OPKB with that of the authors' program, OPKB and GP-UCB."""
        return [
            *(_agrees(results, published) for published in self.published()),
            *(
                expect_less_regret(results, "R_T", problem, "ada-opkb", other, problem=problem)
                for problem in LENGTH_SCALES
                for other in ("opkb", "gp-ucb")
            ),
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the mean regret R_t of each policy, for each problem of experiment E13."""
        for axes, problem in zip(figure.subplots(1, 3), LENGTH_SCALES, strict=True):
            cases = {policy: case_labels(problem=problem, policy=policy) for policy in POLICIES}
            plot_mean_curves(axes, results, "R_t", cases, CURVE_STEP)
            axes.set(title=problem, xlabel="t", ylabel="R_t")
        axes.legend(loc="best")
        figure.suptitle(f"E13: regret with 100 arms; {BAND}", fontsize=10)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        for problem, length_scale in LENGTH_SCALES.items():
            places = generator.standard_normal((ARMS, DIMENSIONS))
            places /= np.linalg.norm(places, axis=1)[:, None]
            kernel = SpatialKernel(inf, length_scale)(places, places)
            truth = _truth(problem, places, kernel, generator)
            readings = truth + _noise(truth, generator.random(HORIZON))
            names = tuple(str(arm) for arm in range(ARMS))
            field = SensorField(names, kernel * PRIOR_STD**2, NOISE**2)
            for label, (name, settings) in POLICIES.items():
                policy = make_policy(name, field, seed=run, **settings)
                result = run_policy(policy, readings, np.zeros(HORIZON))
                regret = regrets(truth, result.picks)
                numbers = {"R_T": float(regret.sum()), "resets": float(result.resets)}
                curve = regret.cumsum()[CURVE_STEP - 1 :: CURVE_STEP].round(2).tolist()
                yield Row(run, case_labels(problem=problem, policy=label), numbers, {"R_t": curve})


def _agrees(results: ResultTable, published: PublishedValue) -> Expectation:
    apart = standard_errors_apart(results.cell("R_T", published.case), published)
    return Expectation(
        f"{published.case['problem']}: the R_T of ada-opkb is within {MAX_APART:g} standard errors "
        "of that of the authors' program",
        None if apart is None else abs(apart) <= MAX_APART,
        MIN_RUNS,
        "" if apart is None else f"difference: {apart:+.1f} se",
    )


def _truth(problem: str, places: Array, kernel: Array, generator: np.random.Generator) -> Array:
    """Return the values of all arms in all intervals of experiment E13, (T, M)."""
    t = np.arange(1, HORIZON + 1)
    if problem == VARYING:
        direction = generator.standard_normal(DIMENSIONS)
        direction /= np.linalg.norm(direction)
        phase = np.interp(t / HORIZON, [0.1, 0.3, 0.4, 0.6], [0.0, pi, pi, 2.0 * pi])
        return np.asarray(AMPLITUDE * np.cos(3.0 * (places @ direction) + phase[:, None]))
    factor = np.linalg.cholesky(kernel + 1e-12 * np.eye(ARMS))
    values = factor @ generator.standard_normal(ARMS)
    values *= AMPLITUDE / np.abs(values).max()
    switches = sum(t > at * HORIZON // 10_000 for at in SWITCHES[problem])
    return np.asarray(np.where(np.asarray(switches)[:, None] % 2, -values, values))


def _noise(truth: Array, uniform: Array) -> Array:
    """Return experiment E13's noise for each interval and arm, (T, M).

    With this noise, all readings are between -1 and 1.
    """
    special = optional_module("scipy.special", "scipy, which draws the noise,", "science")
    below = special.ndtr(-(1.0 - np.abs(truth)) / NOISE)
    return np.asarray(NOISE * special.ndtri(below + uniform[:, None] * (1.0 - 2.0 * below)))
