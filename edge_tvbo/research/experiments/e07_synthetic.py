"""E7: the synthetic fields of [B16], and what a wrong rate or a wrong period costs.

[B16] section 5, figure 2: 50 x 50 places, squared exponential and Matérn 5/2, l = 0.2, T = 200.
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
from edge_tvbo.research.experiments.base import Expectation, Row, Summary
from edge_tvbo.research.experiments.per_run import SIDE, PerRunExperiment
from edge_tvbo.research.experiments.run_policy import play
from edge_tvbo.theory import block_length_matern, block_length_se

HORIZON = 200
NOISE_VARIANCE = 0.01
BETA = LogBeta(0.8, 4.0)
RATES = (0.001, 0.01, 0.03)
KERNELS = {"SE": math.inf, "Matérn 5/2": 2.5}
TOLD = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # to TV, where the truth is MISSED
PERIODS = (5, 10, 20, 40, 80, 160)  # to R, likewise
MISSED = 0.01


class Synthetic(PerRunExperiment):
    """R_T/T of TV, R and GP-UCB, by kernel and rate; and of TV and R that are told wrong."""

    name = "E7"
    title = "the synthetic fields of [B16]"
    source = "[B16] figure 2"
    runs = 200

    def __init__(self, data_dirs: tuple[str, ...] = (), *, side: int = SIDE) -> None:
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

    def claims(self, summary: Summary) -> list[Expectation]:
        """Compare TV with R, and how wrong rates cost."""
        ahead = [
            Expectation(
                f"{kernel}, ε = {rate}: TV below R",
                summary.mean("R_T/T", **_case("tv-gp-ucb", kernel, rate, rate))
                < summary.mean("R_T/T", **_case("r-gp-ucb", kernel, rate, rate)),
            )
            for kernel in KERNELS
            for rate in RATES
        ]
        return [*ahead, _lopsided(summary)]

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw regret so far (figure 2 a-b), and the cost of a wrong ε and N (2 c-d)."""
        panels = figure.subplots(2, 2)
        t = np.arange(5, HORIZON + 1, 5)
        for axes, kernel in zip(panels[0], KERNELS, strict=True):
            for rate, colour in zip(RATES, ("tab:blue", "tab:orange", "tab:green"), strict=True):
                for policy, style in (("tv-gp-ucb", "-"), ("r-gp-ucb", "--"), ("gp-ucb", ":")):
                    case = _case(policy, kernel, rate, rate)
                    curves = [row.curves["R_t/t"] for row in rows if row.case == case]
                    axes.plot(
                        t, np.mean(curves, axis=0), style, color=colour, label=f"{policy}, ε={rate}"
                    )
            axes.set(title=kernel, xlabel="t", ylabel="R_t / t")
            axes.grid(alpha=0.3)
        panels[0][0].legend(fontsize=6, ncols=3)
        told = [summary.mean("R_T/T", **_case("tv-gp-ucb", "SE", MISSED, each)) for each in TOLD]
        panels[1][0].semilogx(TOLD, told, "o-")
        panels[1][0].axvline(MISSED, color="0.6")
        panels[1][0].set(xlabel=f"ε told to TV; the truth is {MISSED}", ylabel="R_T / T")
        every = [summary.mean("R_T/T", **_case("r-gp-ucb", "SE", MISSED, each)) for each in PERIODS]
        panels[1][1].semilogx(PERIODS, every, "o-")
        panels[1][1].axvline(_period("SE", MISSED), color="0.6")
        panels[1][1].set(xlabel="N of R-GP-UCB", ylabel="R_T / T")

    def _run(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        for kernel, field in self._fields.items():
            g = sample_fields.draws(self._factors[kernel], HORIZON, generator)
            for rate in RATES:
                f = sample_fields.drifting(g, rate)
                for policy, told, settings in _policies(kernel, rate):
                    made = make_policy(
                        policy, field, window=HORIZON, beta=BETA, seed=run, **settings
                    )
                    regret = play(made, f, noise).regret
                    so_far = regret.cumsum() / np.arange(1, HORIZON + 1)
                    yield Row(
                        run,
                        _case(policy, kernel, rate, told),
                        {"R_T/T": float(so_far[-1])},
                        {"R_t/t": so_far[4::5].round(5).tolist()},
                    )


def _policies(kernel: str, rate: float) -> Iterator[tuple[str, float, dict[str, Any]]]:
    yield "gp-ucb", rate, {}
    yield "tv-gp-ucb", rate, {"epsilon": rate}
    yield "r-gp-ucb", rate, {"period": _period(kernel, rate)}
    if (kernel, rate) == ("SE", MISSED):
        for told in TOLD:
            if told != rate:
                yield "tv-gp-ucb", told, {"epsilon": told}
        for period in PERIODS:
            yield "r-gp-ucb", period, {"period": period}


def _period(kernel: str, rate: float) -> int:
    if kernel == "SE":
        return block_length_se(rate, horizon=HORIZON)
    return block_length_matern(rate, horizon=HORIZON, dimension=2, nu=KERNELS[kernel])


def _case(policy: str, kernel: str, rate: float, told: float) -> dict[str, str]:
    return {"policy": policy, "kernel": kernel, "epsilon": str(rate), "told": str(told)}


def _lopsided(summary: Summary) -> Expectation:
    """Hold [B16]'s words against figure 2c: a rate too high costs little, one near 0 much."""

    def cost(policy: str, told: float) -> float:
        case = _case(policy, "SE", MISSED, told)
        return summary.mean("R_T/T", **case) - right

    right = summary.mean("R_T/T", **_case("tv-gp-ucb", "SE", MISSED, MISSED))
    over, under = cost("tv-gp-ucb", 3 * MISSED) / 2, cost("gp-ucb", MISSED)
    text = f"each .01 that ε is told too high costs {over:.3f}; 0 for .01 costs {under:.3f}: more"
    return Expectation(text, over < under)
