"""E9: the best constant β of TV-GP-UCB, for several rates of change and noise levels.

Source: [M24] chapter 5, figures 5.1-5.4. The fields have 50 x 50 places and a squared exponential
kernel with the length scale l = √0.2.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import make_policy
from edge_tvbo.research import random_fields
from edge_tvbo.research.experiments.curves import plot_cells
from edge_tvbo.research.experiments.grid_experiment import GridExperiment
from edge_tvbo.research.experiments.result_table import (
    Expectation,
    Labels,
    ResultTable,
    Row,
    Table,
    case_labels,
)
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.statistics import expect_all_less, expect_less

HORIZON = 200
T_FAST, T_SLOW = 300, 600  # horizons of figure 5.4 for fast and for slow changes
BETAS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 16.0)
DENSE_BETAS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)  # of figure 5.4
LOW, HIGH = 1.5, 5.0  # values of β whose regrets show how the best β depends on ε
GROWING = ".8 ln(4t)"


class PanelSetting(NamedTuple):
    """The rate of change ε, the noise σ, the horizon and the constants β of a panel of a figure."""

    rate: float
    sigma: float
    horizon: int
    betas: tuple[float, ...]

    def case(self, beta: str) -> Labels:
        """Return the labels of a case of experiment E9: this setting, and the constant `beta`."""
        return case_labels(setting=self.label, beta=beta)

    @property
    def label(self) -> str:
        """The rate, the noise and the horizon of experiment E9's setting as text."""
        return f"ε = {self.rate}, σ = {self.sigma}, T = {self.horizon}"


FAST, SLOW = PanelSetting(0.09, 0.1, HORIZON, BETAS), PanelSetting(0.03, 0.1, HORIZON, BETAS)
FIGURES = {
    "5.1": (FAST,),
    "5.2": (SLOW,),
    "5.3": (PanelSetting(0.03, 0.01, HORIZON, BETAS), PanelSetting(0.03, 0.5, HORIZON, BETAS)),
    "5.4": (
        PanelSetting(0.09, 0.01, T_FAST, DENSE_BETAS),
        PanelSetting(0.03, 0.01, T_FAST, DENSE_BETAS),
        PanelSetting(0.003, 0.01, T_SLOW, DENSE_BETAS),
    ),
}
SETTINGS = tuple(setting for settings in FIGURES.values() for setting in settings)


class ConstantBetas(GridExperiment):
    """The experiment E9: regret R_T/T of TV-GP-UCB with the true rate of change, for each β."""

    name = "E9"
    title = "TV-GP-UCB with a constant β"
    source = "[M24] figures 5.1-5.4"
    runs = 200
    revision = 2
    tables = tuple(
        Table("R_T/T", "beta", "setting", {"setting": tuple(each.label for each in settings)})
        for settings in (FIGURES["5.1"] + FIGURES["5.2"] + FIGURES["5.3"], FIGURES["5.4"])
    )
    notes = """
Rows are values of β, the square of the width of the confidence bound: a constant, or .8 ln(4t),
which grows with time. The thesis [M24] has no table; the claims are statements of its text.

- For figure 5.3, the thesis states neither the rate of change ε nor the standard deviation σ of the
  noise. Here, ε is .03, and σ is .01 or .5.
- Figure 5.4 of the thesis has three rates of change ε, of which the text states only .003. Here, ε
  is .09, .03 and .003, with T = 300, 300 and 600 intervals.
- In the thesis, figure 5.4 has 400 runs.
- The thesis does not state the constants, but only their ranges: from .2 to 20, and from 1 to 8 in
  figure 5.4.
"""
    spatial = SpatialKernel(math.inf, math.sqrt(0.2))
    noise_variance = FAST.sigma**2  # of figures 5.1 and 5.2

    @cached_property
    def _fields(self) -> dict[float, SensorField]:
        return {each.sigma: grid(self._side, self.spatial, each.sigma**2) for each in SETTINGS}

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the growing β with constants; test how the best constant depends on ε."""
        return [
            _better_than_growing(results, FAST, 0.5, 5.0),
            _better_than_growing(results, SLOW, 1.0, 4.0),
            *(_better_than_growing(results, each, 1.5, 5.0) for each in FIGURES["5.3"]),
            *(_better_than_growing(results, each, 2.0, 4.0) for each in FIGURES["5.4"]),
            *(_best_falls(results, *pair) for pair in pairwise(reversed(FIGURES["5.4"]))),
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Plot experiment E9's regret against the constant β, and its regret with a growing β."""
        panels = list(figure.subplots(2, math.ceil(len(SETTINGS) / 2)).flat)
        settings = [(name, each) for name, group in FIGURES.items() for each in group]
        for axes, (name, setting) in zip(panels, settings, strict=False):
            cells = [results.cell("R_T/T", setting.case(f"{beta:g}")) for beta in setting.betas]
            plot_cells(axes, setting.betas, cells, fmt="o-", capsize=3, label="constant β")
            growing = results.cell("R_T/T", setting.case(GROWING))
            half = growing.half_width
            axes.axhline(growing.mean, color="C1", ls="--", label=f"β = {GROWING}")
            axes.axhspan(growing.mean - half, growing.mean + half, color="C1", alpha=0.15, lw=0)
            axes.set_xscale("log")
            axes.set_xticks([1, 2, 4, 8] if name == "5.4" else [0.1, 0.5, 2, 8])
            axes.xaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.set_title(f"{name}: {setting.label}", fontsize=9)
            axes.set(xlabel="β", ylabel="R_T / T")
            axes.grid(alpha=0.3)
        for axes in panels[len(settings) :]:
            axes.remove()
        figure.axes[0].legend(loc="best")
        figure.suptitle("[M24] figures 5.1-5.4: means with 95 % confidence intervals over the runs")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        g = random_fields.draws(self._factor, T_SLOW, generator)
        noise = generator.standard_normal(T_SLOW)
        for setting in SETTINGS:
            T = setting.horizon
            f = random_fields.drifting(g[:T], setting.rate)
            schedules: dict[str, Any] = {f"{beta:g}": beta for beta in setting.betas}
            for label, beta in {**schedules, GROWING: LogBeta(0.8, 4.0)}.items():
                policy = make_policy(
                    "tv-gp-ucb",
                    self._fields[setting.sigma],
                    epsilon=setting.rate,
                    window=T,
                    beta=beta,
                    seed=run,
                )
                regret = run_policy(policy, f, noise[:T] * setting.sigma).regret
                yield Row(run, setting.case(label), {"R_T/T": float(regret.mean())})


def _better_than_growing(
    results: ResultTable, setting: PanelSetting, low: float, high: float
) -> Expectation:
    """Test whether each constant β of experiment E9 has less regret than a growing β.

    The tested constants are those from `low` to `high`.
    """
    return expect_all_less(
        f"{setting.label}: each β from {low:g} to {high:g} has less regret than {GROWING}",
        {
            f"β = {beta:g}": results.differences(
                "R_T/T", setting.case(f"{beta:g}"), setting.case(GROWING)
            )
            for beta in setting.betas
            if low <= beta <= high
        },
    )


def _best_falls(results: ResultTable, slow: PanelSetting, fast: PanelSetting) -> Expectation:
    """Test whether a high β costs more in setting `fast` than in setting `slow` of experiment E9.

    The cost is the regret with β = HIGH minus the regret with β = LOW. `fast` has the higher rate
    of change.
    """
    costs = [
        results.differences("R_T/T", each.case(f"{HIGH:g}"), each.case(f"{LOW:g}"))
        for each in (slow, fast)
    ]
    best = [_lowest(results, each) for each in (slow, fast)]
    return expect_less(
        f"from β = {LOW:g} to β = {HIGH:g}, the regret rises less at ε = {slow.rate} (the best β "
        f"is {best[0]:g}) than at ε = {fast.rate} (the best β is {best[1]:g})",
        costs[0] - costs[1],
    )


def _lowest(results: ResultTable, setting: PanelSetting) -> float:
    """Return the constant β with the lowest mean regret in a setting of experiment E9."""
    return min(
        setting.betas, key=lambda beta: results.cell("R_T/T", setting.case(f"{beta:g}")).mean
    )
