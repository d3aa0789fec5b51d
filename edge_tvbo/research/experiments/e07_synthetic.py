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
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import (
    Expectation,
    Experiment,
    Labels,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.curves import mean_curve
from edge_tvbo.research.experiments.grid_experiment import SIDE
from edge_tvbo.research.experiments.run_policy import run_policy
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


class Synthetic(Experiment):
    """The experiment E7: R_T/T of TV-GP-UCB, R-GP-UCB and GP-UCB, also with wrong parameters."""

    name = "E7"
    title = "the synthetic fields of [B16]"
    source = "[B16] figure 2"
    runs = 200

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
        return {label: sample_fields.factor(field.kernel) for label, field in self._fields.items()}

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare TV-GP-UCB with R-GP-UCB in E7, and a rate that is too high with a rate of 0."""
        ahead = [
            Expectation(
                f"{kernel}, ε = {rate}: TV has less regret than R",
                results.mean("R_T/T", **_case("tv-gp-ucb", kernel, rate, rate))
                < results.mean("R_T/T", **_case("r-gp-ucb", kernel, rate, rate)),
            )
            for kernel in KERNELS
            for rate in RATES
        ]
        return [*ahead, _high_costs_less(results)]

    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw the mean regret of E7 (figure 2 a-b), and the regret with wrong ε or N (c-d)."""
        panels = figure.subplots(2, 2)
        t = np.arange(5, HORIZON + 1, 5)
        for axes, kernel in zip(panels[0], KERNELS, strict=True):
            for rate, colour in zip(RATES, ("tab:blue", "tab:orange", "tab:green"), strict=True):
                for policy, style in (("tv-gp-ucb", "-"), ("r-gp-ucb", "--"), ("gp-ucb", ":")):
                    curve = mean_curve(rows, "R_t/t", _case(policy, kernel, rate, rate))
                    axes.plot(t, curve, style, color=colour, label=f"{policy}, ε={rate}")
            axes.set(title=kernel, xlabel="t", ylabel="R_t / t")
            axes.grid(alpha=0.3)
        panels[0][0].legend(fontsize=6, ncols=3)
        by_rate = [
            results.mean("R_T/T", **_case("tv-gp-ucb", "SE", TRUE_RATE, each))
            for each in GIVEN_RATES
        ]
        panels[1][0].semilogx(GIVEN_RATES, by_rate, "o-")
        panels[1][0].axvline(TRUE_RATE, color="0.6")
        panels[1][0].set(xlabel=f"ε given to TV (the true ε is {TRUE_RATE})", ylabel="R_T / T")
        by_period = [
            results.mean("R_T/T", **_case("r-gp-ucb", "SE", TRUE_RATE, each)) for each in PERIODS
        ]
        panels[1][1].semilogx(PERIODS, by_period, "o-")
        panels[1][1].axvline(_period("SE", TRUE_RATE), color="0.6")
        panels[1][1].set(xlabel="N of R-GP-UCB", ylabel="R_T / T")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        for kernel, field in self._fields.items():
            g = sample_fields.draws(self._factors[kernel], HORIZON, generator)
            for rate in RATES:
                f = sample_fields.drifting(g, rate)
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
    """Yield the name of each policy of E7, its given rate or period, and its settings."""
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


def _high_costs_less(results: ResultTable) -> Expectation:
    """Check that a rate that is too high costs less than a rate near 0 ([B16] figure 2c)."""

    def cost(policy: str, given: float) -> float:
        case = _case(policy, "SE", TRUE_RATE, given)
        return results.mean("R_T/T", **case) - right

    right = results.mean("R_T/T", **_case("tv-gp-ucb", "SE", TRUE_RATE, TRUE_RATE))
    over, under = cost("tv-gp-ucb", 3 * TRUE_RATE) / 2, cost("gp-ucb", TRUE_RATE)
    text = (
        f"an ε that is too high by .01 costs {over:.3f}, which is less than the {under:.3f} that "
        "ε = 0 costs"
    )
    return Expectation(text, over < under)
