"""E1: fields as the theory assumes them, with the rate of change known, and with a wrong one.

[ET] section 6 and table 1 (settings: table 5). Their continuous [0, 1]² is a grid of 50 x 50 here.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.triggers import BlockBounds
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import Expectation, PublishedValue, Row, Summary
from edge_tvbo.research.experiments.per_run import OnGrid
from edge_tvbo.research.experiments.run_policy import play
from edge_tvbo.research.experiments.statistics import errors_apart

HORIZON = 400
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.4, 4.0)
RATES = (0.01, 0.03, 0.05)
PERIODS = {0.01: 38, 0.03: 29, 0.05: 26, 0.001: 68, 0.2: 17}
INTERVALS = {"[.01,.05]": (0.01, 0.05), "[.001,.1]": (0.001, 0.1), "[0,1]": (0.0, 1.0)}
KEPT = {"et, keeps nothing": False, "et, keeps last": True}
COLUMNS = (".01", ".03", ".05", ".05 told .001", ".05 told .2")
TABLE = {  # [ET] table 1: mean and sd of R_T/T over 50 runs, column by column
    "gp-ucb": ((0.756, 0.210), (1.079, 0.199), (1.256, 0.215), None, None),
    "r-gp-ucb": ((0.617, 0.088), (0.840, 0.102), (0.976, 0.085), (0.910, 0.095), (1.058, 0.097)),
    "et, keeps nothing [.01,.05]": ((0.612, 0.097), (0.776, 0.097), (0.895, 0.090), None, None),
    "et, keeps nothing [.001,.1]": ((0.519, 0.103), (0.716, 0.095), (0.867, 0.079), None, None),
    "et, keeps nothing [0,1]": ((0.501, 0.111), (0.694, 0.093), (0.830, 0.107), None, None),
    "tv-gp-ucb": ((0.301, 0.089), (0.504, 0.089), (0.640, 0.084), (0.961, 0.176), (1.256, 0.215)),
    "ui-tvbo": ((0.344, 0.056), (0.641, 0.064), (0.871, 0.057), (0.954, 0.185), (1.380, 0.052)),
}


MISPRINT = "TV told .2 is printed as GP-UCB's cell to the last digit: a misprint, it seems"


class WithinModel(OnGrid):
    """R_T/T of each policy, by rate of change."""

    name = "E1"
    title = "within the model, the rate of change known or not"
    source = "[ET] table 1"
    runs = 50
    spatial = SpatialKernel(math.inf, 0.2)
    noise_variance = NOISE_VARIANCE

    def printed(self) -> list[PublishedValue]:
        """Give table 1."""
        return [
            PublishedValue({"policy": policy, "column": column}, "R_T/T", *cell, 50)
            for policy, cells in TABLE.items()
            for column, cell in zip(COLUMNS, cells, strict=True)
            if cell is not None
        ]

    def claims(self, summary: Summary) -> list[Expectation]:
        """Compare the cells, and the order of the algorithms, column by column."""
        return [
            self._near(summary),
            *(_same_order(summary, column) for column in COLUMNS),
        ]

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw regret so far over time, a panel for each rate ([ET] figure 4)."""
        panels = figure.subplots(1, len(RATES), sharey=True)
        for axes, column in zip(panels, COLUMNS, strict=False):
            for policy in TABLE:
                curves = [
                    row.curves["R_t/t"]
                    for row in rows
                    if row.case == {"policy": policy, "column": column}
                ]
                t = np.linspace(1, HORIZON, len(curves[0]))
                axes.plot(t, np.mean(curves, axis=0), label=policy)
            axes.set(title=f"ε = {column}", xlabel="t", ylim=(0, None))
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("R_t / t")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
        )

    def _near(self, summary: Summary) -> Expectation:
        far = [
            f"{each.case['policy']} at ε = {each.case['column']}"
            for each in self.printed()
            if abs(errors_apart(summary.cell(each.number, each.case), each) or 0.0) > 3.0
        ]
        text = "every cell of table 1 within three standard errors"
        if far:
            text += f", but {', '.join(far)}"
        return Expectation(f"{text} ({MISPRINT})", not far)

    def _run(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        g = sample_fields.draws(self._factor, HORIZON, generator)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        for rate, column in zip(RATES, COLUMNS, strict=False):
            f = sample_fields.drifting(g, rate)
            for label, policy, settings in (*_told(rate), *_event_triggered()):
                yield self._row(run, label, column, policy, settings, f, noise)
        for told, column in ((0.001, COLUMNS[3]), (0.2, COLUMNS[4])):
            for label, policy, settings in _told(told)[1:]:
                yield self._row(run, label, column, policy, settings, f, noise)

    def _row(
        self,
        run: int,
        label: str,
        column: str,
        policy: str,
        settings: dict[str, Any],
        f: Any,
        noise: Any,
    ) -> Row:
        window = settings.get("n_upper", settings.get("period", HORIZON))
        made = make_policy(policy, self._field, window=window, beta=BETA, seed=run, **settings)
        played = play(made, f, noise)
        so_far = played.regret.cumsum() / np.arange(1, HORIZON + 1)
        numbers = {"R_T/T": float(so_far[-1]), "resets": float(played.resets)}
        return Row(
            run,
            {"policy": label, "column": column},
            numbers,
            {"R_t/t": so_far[9::10].round(5).tolist()},
        )


def _told(rate: float) -> list[tuple[str, str, dict[str, Any]]]:
    """Give the policies that are told the rate; the first needs none."""
    return [
        ("gp-ucb", "gp-ucb", {}),
        ("r-gp-ucb", "r-gp-ucb", {"period": PERIODS[rate]}),
        ("tv-gp-ucb", "tv-gp-ucb", {"epsilon": rate}),
        ("ui-tvbo", "ui-tvbo", {"sigma_w2": rate}),
    ]


def _event_triggered() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for kept, keep_last in KEPT.items():
        for interval, ends in INTERVALS.items():
            bounds = BlockBounds.from_rates(*ends, horizon=HORIZON)
            settings = {"delta_b": 0.1, "n_lower": bounds.n_lower, "n_upper": bounds.n_upper}
            yield f"{kept} {interval}", "et-gp-ucb", {**settings, "keep_last": keep_last}


def _same_order(summary: Summary, column: str) -> Expectation:
    """Say whether the algorithms rank as in table 1, where two standard errors tell them apart."""
    at = COLUMNS.index(column)
    theirs = {policy: cells[at][0] for policy, cells in TABLE.items() if cells[at]}  # type: ignore[index]
    ranked = sorted(theirs, key=lambda policy: theirs[policy])
    ours = {
        policy: summary.cell("R_T/T", {"policy": policy, "column": column}) for policy in ranked
    }
    flipped = [
        f"{b} before {a}"
        for a, b in pairwise(ranked)
        if ours[a].mean - ours[b].mean > 2.0 * math.hypot(ours[a].error, ours[b].error)
    ]
    text = f"ε = {column}: the same order as in the table, neighbours within 2 errors aside"
    return Expectation(f"{text}; but {', '.join(flipped)}" if flipped else text, not flipped)
