"""E9: the best constant β of TV-GP-UCB, for several rates of change and noise levels.

Source: [M24] chapter 5, figures 5.1-5.4. The fields have 50 x 50 places and a squared exponential
kernel with the length scale l = √0.2.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import (
    Expectation,
    Experiment,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.grid_experiment import SIDE
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.simulation.dataset_lookup import DataSource

HORIZON = 200
BETAS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 16.0)
GROWING = ".8 ln(4t)"
SETTINGS = ((0.09, 0.1), (0.03, 0.1), (0.003, 0.1), (0.03, 0.01), (0.03, 0.5))  # pairs (ε, σ)


class ConstantBetas(Experiment):
    """The experiment E9: R_T/T of TV-GP-UCB with the true rate of change, for each β."""

    name = "E9"
    title = "TV-GP-UCB with a constant β"
    source = "[M24] figures 5.1-5.4"
    runs = 200

    def __init__(self, data: DataSource | None = None, *, side: int = SIDE) -> None:
        super().__init__(data)
        self._side = side

    @cached_property
    def _fields(self) -> dict[float, SensorField]:
        kernel = SpatialKernel(math.inf, math.sqrt(0.2))
        return {sigma: grid(self._side, kernel, sigma**2) for _, sigma in SETTINGS}

    @cached_property
    def _factor(self) -> Any:
        return sample_fields.factor(next(iter(self._fields.values())).kernel)

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the best constant β with that of the thesis, and constant β with growing β."""
        best = {setting: _best(results, *setting) for setting in SETTINGS}
        found = [
            Expectation(
                f"ε = {rate}, σ = {sigma}: the best β, {beta:g}, is in [1, 4]", 1 <= beta <= 4
            )
            for (rate, sigma), beta in best.items()
            if sigma == 0.1
        ]
        fast, slow = best[0.09, 0.1], best[0.003, 0.1]
        falls = f"the best β decreases as ε increases: it is {slow:g} at .003 and {fast:g} at .09"
        growing = _regret(results, 0.09, 0.1, GROWING)
        between = [beta for beta in BETAS if 0.5 <= beta <= 5.0]
        all_better = all(_regret(results, 0.09, 0.1, f"{beta:g}") < growing for beta in between)
        return [
            *found,
            Expectation(falls, fast < slow),
            Expectation(
                f"ε = .09: every constant β in [.5, 5] has less regret than β = {GROWING}",
                all_better,
            ),
        ]

    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw the regret of E9 against the constant β; dotted lines are for the growing β."""
        axes = figure.subplots()
        for rate, sigma in SETTINGS:
            means = [_regret(results, rate, sigma, f"{beta:g}") for beta in BETAS]
            (line,) = axes.semilogx(BETAS, means, "o-", label=f"ε = {rate}, σ = {sigma}")
            growing = _regret(results, rate, sigma, GROWING)
            axes.axhline(growing, color=line.get_color(), ls=":", alpha=0.7)
        axes.set(xlabel=f"β (dotted lines are for β = {GROWING})", ylabel="R_T / T", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend()

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        g = sample_fields.draws(self._factor, HORIZON, generator)
        noise = generator.standard_normal(HORIZON)
        schedules: dict[str, Any] = {f"{beta:g}": beta for beta in BETAS}
        schedules[GROWING] = LogBeta(0.8, 4.0)
        for rate, sigma in SETTINGS:
            f = sample_fields.drifting(g, rate)
            for label, beta in schedules.items():
                policy = make_policy(
                    "tv-gp-ucb",
                    self._fields[sigma],
                    epsilon=rate,
                    window=HORIZON,
                    beta=beta,
                    seed=run,
                )
                regret = run_policy(policy, f, noise * sigma).regret
                case = case_labels(epsilon=rate, sigma=sigma, beta=label)
                yield Row(run, case, {"R_T/T": float(regret.mean())})


def _regret(results: ResultTable, rate: float, sigma: float, beta: str) -> float:
    return results.mean("R_T/T", epsilon=rate, sigma=sigma, beta=beta)


def _best(results: ResultTable, rate: float, sigma: float) -> float:
    return min(BETAS, key=lambda beta: _regret(results, rate, sigma, f"{beta:g}"))
