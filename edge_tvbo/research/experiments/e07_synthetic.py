"""E7: the synthetic fields of [B16], and the cost of a wrong rate of change or a wrong period.

Source: [B16] section 5, figure 2. The fields have 50 x 50 places, a squared exponential or Matérn
5/2 kernel with the length scale l = 0.2, and T = 200 intervals.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.research import random_fields
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.curves import BAND, plot_mean_curves
from edge_tvbo.research.experiments.grid_experiment import SIDE
from edge_tvbo.research.experiments.result_table import (
    Expectation,
    Labels,
    ResultTable,
    Row,
    Table,
    case_labels,
)
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.statistics import SIGNIFICANCE_LEVEL, expect_less, paired_test
from edge_tvbo.simulation.dataset_lookup import DataSource
from edge_tvbo.theory import block_length_matern, block_length_se

HORIZON = 200
NOISE_VARIANCE = 0.01
BETA = LogBeta(0.8, 4.0)
RATES = (0.001, 0.01, 0.03)
KERNELS = {"SE": math.inf, "Matérn 5/2": 2.5}
GIVEN_RATES = (
    0.0001,
    0.001,
    0.003,
    0.01,
    0.03,
    0.1,
    0.3,
)  # rates given to TV if the true rate is TRUE_RATE
PERIODS = (5, 10, 20, 40, 80, 160)  # periods given to R if the true rate is TRUE_RATE
TRUE_RATE = 0.01
SLIGHTLY_LOW = 0.003


class Synthetic(Experiment):
    """The experiment E7: regret of TV-GP-UCB, R-GP-UCB and GP-UCB, also with wrong parameters."""

    name = "E7"
    title = "the synthetic fields of [B16]"
    source = "[B16] figure 2"
    runs = 200
    tables = tuple(
        Table("R_T/T", "policy", "kernel", {"epsilon": (str(rate),), "given": (str(rate),)})
        for rate in RATES
    )
    notes = """
The tables are for figures 2 a and b of [B16], with a squared exponential kernel (SE) and a Matérn
5/2 kernel. TV-GP-UCB is given the true rate of change ε. R-GP-UCB has the period N that follows
from the true ε by the formulas of the paper.

The claims that R-GP-UCB has less regret than GP-UCB come from the abstract of the paper. Figures 2
a and b of the paper do not show GP-UCB. But GP-UCB is R-GP-UCB with N = T, and according to section
5.1 of the paper, the mean regret of R-GP-UCB is robust if N grows (figure 2 d). All other claims
are statements in section 5.1.
"""

    def __init__(self, data: DataSource | None = None, *, side: int = SIDE) -> None:
        super().__init__(data)
        self._side = side

    @cached_property
    def _fields(self) -> dict[str, SensorField]:
        return {
            label: grid(self._side, SpatialKernel(nu, 0.2), NOISE_VARIANCE)
            for label, nu in KERNELS.items()
        }

    @cached_property
    def _factors(self) -> dict[str, Any]:
        return {label: random_fields.factor(field.kernel) for label, field in self._fields.items()}

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Test, in experiment E7, the order of the policies, and the cost of a wrong ε or N.

        ε is the rate given to TV-GP-UCB: too high, slightly too low, or 0. N is the period of
        R-GP-UCB.
        """
        ahead = [
            expect_less(
                f"{kernel}, ε = {rate}: {ours} has less regret than {theirs}",
                results.differences(
                    "R_T/T", *(_case(each, kernel, rate, rate) for each in (ours, theirs))
                ),
            )
            for ours, theirs in (("tv-gp-ucb", "r-gp-ucb"), ("r-gp-ucb", "gp-ucb"))
            for kernel in KERNELS
            for rate in RATES
        ]
        return [
            *ahead,
            _high_costs_less(results),
            _costs_nothing(
                f"TV-GP-UCB with ε = {SLIGHTLY_LOW} has no more regret than with the true "
                f"{TRUE_RATE}",
                _wrong_rate_costs(results, "tv-gp-ucb", SLIGHTLY_LOW),
            ),
            expect_less(
                "R-GP-UCB with N = 40 has less regret than with N = 5",
                _wrong_period_costs(results, 40, 5),
            ),
            _costs_nothing(
                "R-GP-UCB with N = 160 has no more regret than with N = 40",
                _wrong_period_costs(results, 160, 40),
            ),
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw experiment E7's mean regret (figure 2 a-b), also with a wrong ε or N (2 c-d)."""
        panels = figure.subplots(2, 2)
        for axes, letter, kernel in zip(panels[0], "ab", KERNELS, strict=True):
            for rate, colour in zip(RATES, ("tab:blue", "tab:orange", "tab:green"), strict=True):
                for policy, style in (("tv-gp-ucb", "-"), ("r-gp-ucb", "--"), ("gp-ucb", ":")):
                    cases = {f"{policy}, ε = {rate}": _case(policy, kernel, rate, rate)}
                    plot_mean_curves(axes, results, "R_t/t", cases, 5, color=colour, ls=style)
            axes.set(title=f"({letter}) {kernel}", xlabel="t", ylabel="R_t / t", ylim=(0, None))
        panels[0][0].legend(loc="best", fontsize=7, ncols=3)
        self._draw_wrong(panels[1][0], results, "tv-gp-ucb", GIVEN_RATES, TRUE_RATE)
        panels[1][0].set(title=f"(c) true ε = {TRUE_RATE}", xlabel="ε given to TV-GP-UCB")
        self._draw_wrong(panels[1][1], results, "r-gp-ucb", PERIODS, _period("SE", TRUE_RATE))
        panels[1][1].set(title=f"(d) true ε = {TRUE_RATE}", xlabel="N of R-GP-UCB")
        figure.suptitle(f"[B16] figure 2; {BAND}; lighter bands: ± sd of a run")

    def _draw_wrong(
        self, axes: Any, results: ResultTable, policy: str, given: Sequence[float], right: float
    ) -> None:
        cells = [
            results.cell("R_T/T", _case(policy, "SE", TRUE_RATE, each)) for each in sorted(given)
        ]
        means = np.array([cell.mean for cell in cells])
        axes.semilogx(sorted(given), means, "o-")
        for half in ([cell.half_width for cell in cells], [cell.sd for cell in cells]):
            axes.fill_between(sorted(given), means - half, means + half, color="C0", alpha=0.15)
        axes.axvline(right, color="0.6", ls="--", label="true ε, or N of the formula")
        axes.set(ylabel="R_T / T", ylim=(0, None))
        axes.legend(loc="best")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        for kernel, field in self._fields.items():
            g = random_fields.draws(self._factors[kernel], HORIZON, generator)
            for rate in RATES:
                f = random_fields.drifting(g, rate)
                for name, given, settings in _policies(kernel, rate):
                    policy = make_policy(
                        name, field, window=HORIZON, beta=BETA, seed=run, **settings
                    )
                    curve = run_policy(policy, f, noise).mean_regret
                    yield Row(
                        run,
                        _case(name, kernel, rate, given),
                        {"R_T/T": float(curve[-1])},
                        {"R_t/t": curve[4::5].round(5).tolist()},
                    )


def _policies(kernel: str, rate: float) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """Yield, for each policy of experiment E7, its name, its rate or period, and its settings."""
    yield "gp-ucb", rate, {}
    yield "tv-gp-ucb", rate, {"epsilon": rate}
    yield "r-gp-ucb", rate, {"period": _period(kernel, rate)}
    if (kernel, rate) == ("SE", TRUE_RATE):
        for given in GIVEN_RATES:
            if given != rate:
                yield "tv-gp-ucb", given, {"epsilon": given}
        for period in PERIODS:
            yield "r-gp-ucb", period, {"period": period}


def _period(kernel: str, rate: float) -> int:
    if kernel == "SE":
        return block_length_se(rate, horizon=HORIZON)
    return block_length_matern(rate, horizon=HORIZON, dimension=2, nu=KERNELS[kernel])


def _case(policy: str, kernel: str, rate: float, given: float) -> Labels:
    return case_labels(policy=policy, kernel=kernel, epsilon=rate, given=given)


def _wrong_rate_costs(results: ResultTable, policy: str, given: float) -> Array:
    """Return the additional regret that a wrong rate costs in each run of experiment E7."""
    right = _case("tv-gp-ucb", "SE", TRUE_RATE, TRUE_RATE)
    return results.differences("R_T/T", _case(policy, "SE", TRUE_RATE, given), right)


def _high_costs_less(results: ResultTable) -> Expectation:
    """Test whether too high a rate costs less than the rate 0 in experiment E7 ([B16] fig. 2c).

    The cost of a wrong rate is the additional regret per .01 of error in the rate.
    """
    over = _wrong_rate_costs(results, "tv-gp-ucb", 3 * TRUE_RATE) / 2
    under = _wrong_rate_costs(results, "gp-ucb", TRUE_RATE)
    text = (
        f"an ε that is too high costs less than ε = 0: per .01 of error in ε, the regret rises by "
        f"{over.mean():.3f} if ε is too high, and by {under.mean():.3f} if ε = 0"
    )
    return expect_less(text, over - under)


def _wrong_period_costs(results: ResultTable, period: int, other: int) -> Array:
    """Return, per run of E7, R-GP-UCB's regret with `period` minus its regret with `other`."""
    cases = (_case("r-gp-ucb", "SE", TRUE_RATE, each) for each in (period, other))
    return results.differences("R_T/T", *cases)


def _costs_nothing(text: str, costs: Array) -> Expectation:
    """Test that a wrong parameter hardly raises experiment E7's regret ([B16] section 5.1)."""
    test = paired_test(costs)
    return Expectation(
        text, not (test.statistic > 0.0 and test.p < SIGNIFICANCE_LEVEL), test=str(test)
    )
