"""E1: fields that follow the policies' model, with a known, unknown or wrong rate of change.

Source: [ET] section 6 and table 1; the settings are in table 5. The paper uses the continuous
domain [0, 1]². This experiment uses a grid of 50 x 50 places.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.triggers import BlockBounds
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import (
    Expectation,
    PolicyCase,
    PublishedValue,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.curves import plot_mean_curves
from edge_tvbo.research.experiments.grid_experiment import GridExperiment
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.statistics import standard_errors_apart

HORIZON = 400
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.4, 4.0)
RATES = (0.01, 0.03, 0.05)
PERIODS = {0.01: 38, 0.03: 29, 0.05: 26, 0.001: 68, 0.2: 17}
INTERVALS = {"[.01,.05]": (0.01, 0.05), "[.001,.1]": (0.001, 0.1), "[0,1]": (0.0, 1.0)}
ET_VARIANTS = {"et, keeps nothing": False, "et, keeps last": True}
COLUMNS = (".01", ".03", ".05", ".05 given .001", ".05 given .2")
TABLE = {  # [ET] table 1: mean and sd of R_T/T over 50 runs, for each of `COLUMNS`
    "gp-ucb": ((0.756, 0.210), (1.079, 0.199), (1.256, 0.215), None, None),
    "r-gp-ucb": ((0.617, 0.088), (0.840, 0.102), (0.976, 0.085), (0.910, 0.095), (1.058, 0.097)),
    "et, keeps nothing [.01,.05]": ((0.612, 0.097), (0.776, 0.097), (0.895, 0.090), None, None),
    "et, keeps nothing [.001,.1]": ((0.519, 0.103), (0.716, 0.095), (0.867, 0.079), None, None),
    "et, keeps nothing [0,1]": ((0.501, 0.111), (0.694, 0.093), (0.830, 0.107), None, None),
    "tv-gp-ucb": ((0.301, 0.089), (0.504, 0.089), (0.640, 0.084), (0.961, 0.176), (1.256, 0.215)),
    "ui-tvbo": ((0.344, 0.056), (0.641, 0.064), (0.871, 0.057), (0.954, 0.185), (1.380, 0.052)),
}
MISPRINT = (
    "the published number of TV given the rate .2 has the same digits as GP-UCB's and is probably "
    "a misprint"
)


class WithinModel(GridExperiment):
    """The experiment E1: regret R_T/T of each policy for each rate of change."""

    name = "E1"
    title = "fields that follow the model, with a known, unknown or wrong rate of change"
    source = "[ET] table 1"
    runs = 50
    spatial = SpatialKernel(math.inf, 0.2)
    noise_variance = NOISE_VARIANCE

    def published(self) -> list[PublishedValue]:
        """Return the numbers of [ET] table 1."""
        return [
            PublishedValue({"policy": policy, "column": column}, "R_T/T", *cell, 50)
            for policy, cells in TABLE.items()
            for column, cell in zip(COLUMNS, cells, strict=True)
            if cell is not None
        ]

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the cells of E1, and the order of the policies in each column, with table 1."""
        return [
            self._cells_agree(results),
            *(_same_order(results, column) for column in COLUMNS),
        ]

    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw the mean regret of E1 up to each t, in one panel for each rate ([ET] figure 4)."""
        panels = figure.subplots(1, len(RATES), sharey=True)
        for axes, column in zip(panels, COLUMNS, strict=False):
            cases = {policy: case_labels(policy=policy, column=column) for policy in TABLE}
            plot_mean_curves(axes, rows, "R_t/t", cases, step=10)
            axes.set(title=f"ε = {column}", xlabel="t", ylim=(0, None))
        panels[0].set_ylabel("R_t / t")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
        )

    def _cells_agree(self, results: ResultTable) -> Expectation:
        far = [
            f"{each.case['policy']} at ε = {each.case['column']}"
            for each in self.published()
            if abs(standard_errors_apart(results.cell(each.number, each.case), each) or 0.0) > 3.0
        ]
        text = "every cell is within three standard errors of table 1"
        if far:
            text += f", except {', '.join(far)}"
        return Expectation(f"{text} ({MISPRINT})", not far)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        g = sample_fields.draws(self._factor, HORIZON, generator)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        for rate, column in zip(RATES, COLUMNS, strict=False):
            f = sample_fields.drifting(g, rate)
            for case in (*_with_rate(rate), *_event_triggered()):
                yield self._row(run, case, column, f, noise)
        for wrong_rate, column in ((0.001, COLUMNS[3]), (0.2, COLUMNS[4])):
            for case in _with_rate(wrong_rate)[1:]:
                yield self._row(run, case, column, f, noise)

    def _row(self, run: int, case: PolicyCase, column: str, f: Array, noise: Array) -> Row:
        window = case.settings.get("n_upper", case.settings.get("period", HORIZON))
        policy = case.make(self._field, window=window, beta=BETA, seed=run)
        result = run_policy(policy, f, noise)
        curve = result.mean_regret
        return Row(
            run,
            case_labels(policy=case.label, column=column),
            {"R_T/T": float(curve[-1]), "resets": float(result.resets)},
            {"R_t/t": curve[9::10].round(5).tolist()},
        )


def _with_rate(rate: float) -> list[PolicyCase]:
    """Return GP-UCB, and the policies of E1 with parameters for a fixed rate of change."""
    return [
        PolicyCase("gp-ucb", "gp-ucb"),
        PolicyCase("r-gp-ucb", "r-gp-ucb", {"period": PERIODS[rate]}),
        PolicyCase("tv-gp-ucb", "tv-gp-ucb", {"epsilon": rate}),
        PolicyCase("ui-tvbo", "ui-tvbo", {"sigma_w2": rate}),
    ]


def _event_triggered() -> Iterator[PolicyCase]:
    for variant, keep_last in ET_VARIANTS.items():
        for interval, ends in INTERVALS.items():
            bounds = BlockBounds.from_rates(*ends, horizon=HORIZON)
            settings = {"delta_b": 0.1, "n_lower": bounds.n_lower, "n_upper": bounds.n_upper}
            yield PolicyCase(
                f"{variant} {interval}", "et-gp-ucb", {**settings, "keep_last": keep_last}
            )


def _same_order(results: ResultTable, column: str) -> Expectation:
    """Check that policies rank as in table 1, or differ by at most two standard errors."""
    at = COLUMNS.index(column)
    theirs = {policy: cells[at][0] for policy, cells in TABLE.items() if cells[at]}  # type: ignore[index]
    ranked = sorted(theirs, key=lambda policy: theirs[policy])
    ours = {
        policy: results.cell("R_T/T", case_labels(policy=policy, column=column))
        for policy in ranked
    }
    flipped = [
        f"{b} is before {a}"
        for a, b in pairwise(ranked)
        if ours[a].mean - ours[b].mean > 2.0 * math.hypot(ours[a].error, ours[b].error)
    ]
    text = f"ε = {column}: policies rank as in table 1, or are within two standard errors"
    return Expectation(f"{text}; but {', '.join(flipped)}" if flipped else text, not flipped)
