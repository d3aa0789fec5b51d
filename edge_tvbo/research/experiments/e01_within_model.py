"""E1: fields that follow the policies' model, with a known, unknown or wrong rate of change.

Source: [ET] section 6 and table 1; the settings are in table 5. The `notes` of `WithinModel` list
the differences from the paper.
"""

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from edge_tvbo.messages.formatting import counted
from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.triggers import BlockBounds
from edge_tvbo.numerics.types import Array
from edge_tvbo.research import random_fields
from edge_tvbo.research.experiments.base import PolicyCase
from edge_tvbo.research.experiments.curves import BAND, plot_mean_curves
from edge_tvbo.research.experiments.grid_experiment import GridExperiment
from edge_tvbo.research.experiments.result_table import (
    Cell,
    Expectation,
    PublishedValue,
    ResultTable,
    Row,
    Table,
    case_key,
    case_labels,
)
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.statistics import (
    expect_all_less,
    expect_less,
    standard_errors_apart,
)

HORIZON = 400
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.4, 4.0)
RATES = (0.01, 0.03, 0.05)
PERIODS = {0.01: 38, 0.03: 29, 0.05: 26, 0.001: 68, 0.2: 17}  # [ET] table 5
FORMULA_PERIOD = 18  # ⌈12 ε^(-1/4)⌉ for the rate .2, for which table 5 has 17
BY_FORMULA = f"r-gp-ucb, N = {FORMULA_PERIOD}"
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
R_GIVEN_2 = (1.058, 0.097)  # result of R-GP-UCB in the last column
RASTER = ("r-gp-ucb", "et, keeps nothing [0,1]")  # policies whose resets the figure shows
PUBLISHED_RUNS = 50
MAX_APART = 3.0  # allowed difference from table 1, in standard errors
DRAWN_RUNS = 20  # runs whose resets the figure shows
MISPRINT = case_labels(policy="tv-gp-ucb", column=COLUMNS[4])  # equals GP-UCB at .05


class WithinModel(GridExperiment):
    """The experiment E1: regret R_T/T of each policy for each rate of change."""

    name = "E1"
    title = "fields that follow the model, with a known, unknown or wrong rate of change"
    source = "[ET] table 1 and figure 4"
    runs = 50
    revision = 2
    tables = (Table("R_T/T", "policy", "column"), Table("resets", "policy", "column"))
    notes = """
Each column is for one true ε, the rate of change. In the last two columns, the true ε is .05, but
the policies that need ε are given .001 or .2. The rows "et" are variants of ET-GP-UCB:

- "keeps nothing" discards all readings at a reset. Table 1 of the paper agrees with this variant.
- "keeps last" keeps the reading that fired the trigger, as algorithm 1 of the paper does. Table 1
  of the paper does not have this variant.
- The brackets in the name of a variant contain the lowest and the highest ε that it assumes. These
  two values determine the bounds on the time between two resets.

Differences from the paper, and a probable misprint in the paper:

- The paper searches the continuous square [0, 1]². Here, the square is a grid of 50 × 50 places.
- For R-GP-UCB given ε = .2, table 5 of the paper states the period N = 17. The formula
  ⌈12 ε^(-1/4)⌉ of the paper yields N = 18. The tables below have a row for each period; both rows
  have the same published number.
- β_t is .4 ln(4t), as in table 5 of the paper. Section 6 of the paper mentions only the
  .8 ln(4t) of [B16].
- In table 1 of the paper, the regret of TV-GP-UCB given ε = .2 equals the regret of GP-UCB at ε =
  .05. The number of TV-GP-UCB is probably a misprint.

The claim "policies rank as in table 1" compares each pair of policies whose regrets in table 1 of
the paper differ by more than three standard errors.
"""
    spatial = SpatialKernel(math.inf, 0.2)
    noise_variance = NOISE_VARIANCE

    def published(self) -> list[PublishedValue]:
        """Return experiment E1's published numbers, [ET] table 1."""
        return [
            PublishedValue({"policy": policy, "column": column}, "R_T/T", *cell, PUBLISHED_RUNS)
            for policy, cells in TABLE.items()
            for column, cell in zip(COLUMNS, cells, strict=True)
            if cell is not None
        ] + [
            PublishedValue(
                case_labels(policy=BY_FORMULA, column=COLUMNS[4]),
                "R_T/T",
                *R_GIVEN_2,
                PUBLISHED_RUNS,
            )
        ]

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare regrets and order of the policies in experiment E1 with [ET] table 1."""
        return [
            self._cells_agree(results),
            *(each for column in COLUMNS for each in _same_order(results, column)),
            _et_is_better_than_periodic(results),
            *(_et_is_robust(results, column) for column in COLUMNS[3:]),
            self._formula_is_better(results),
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw experiment E1's regret and resets over time ([ET] figure 4).

        The figure shows four columns of table 1.
        """
        shown = (*COLUMNS[:3], COLUMNS[3])
        panels = figure.subplots(2, len(shown), sharex=True, sharey="row", height_ratios=(3, 1))
        for (top, bottom), column in zip(panels.T, shown, strict=True):
            cases = {
                policy: case_labels(policy=policy, column=_column_of(policy, column))
                for policy in TABLE
            }
            plot_mean_curves(top, results, "R_t/t", cases, step=10)
            top.set(title=f"ε = {column}", ylim=(0, None))
            for at, policy in enumerate(RASTER):
                times = results.curves("resets", cases[policy])[:DRAWN_RUNS]
                colour = top.get_lines()[list(TABLE).index(policy)].get_color()
                offsets = at * DRAWN_RUNS + np.arange(len(times))
                bottom.eventplot(times, colors=colour, lineoffsets=offsets)
            bottom.set(xlabel="t", xlim=(0, HORIZON), yticks=[])
        panels[0][0].set_ylabel("R_t / t")
        runs = counted(min(DRAWN_RUNS, results.runs), "run")
        panels[1][0].set_ylabel(f"resets in {runs}")
        figure.suptitle(f"[ET] figure 4: regret up to t; {BAND}")
        figure.legend(
            *panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4
        )

    def _cells_agree(self, results: ResultTable) -> Expectation:
        far = [
            f"{each.case['policy']} at ε = {each.case['column']} ({apart:+.1f} se)"
            for each in self.published()
            for apart in [standard_errors_apart(results.cell(each.number, each.case), each) or 0.0]
            if abs(apart) > MAX_APART and each.case != MISPRINT
        ]
        text = "every cell except the misprint is within three standard errors of table 1"
        if far:
            text += f"; not within: {', '.join(far)}"
        return Expectation(text, not far)

    def _formula_is_better(self, results: ResultTable) -> Expectation:
        """Test if the formula's period gives R-GP-UCB less regret than the period of table 5."""
        by_table, by_formula = (
            case_labels(policy=policy, column=COLUMNS[4]) for policy in ("r-gp-ucb", BY_FORMULA)
        )
        published = {case_key(each.case): each for each in self.published()}
        from_table, from_formula = (
            _se_from_table_1(results.cell("R_T/T", case), published[case_key(case)])
            for case in (by_table, by_formula)
        )
        text = (
            f"R-GP-UCB given ε = .2 has less regret with the period {FORMULA_PERIOD} of the "
            f"formula{from_formula} than with the period {PERIODS[0.2]} of table 5{from_table}"
        )
        return expect_less(text, results.differences("R_T/T", by_formula, by_table))

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        g = random_fields.draws(self._factor, HORIZON, generator)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        for rate, column in zip(RATES, COLUMNS, strict=False):
            f = random_fields.drifting(g, rate)
            for case in (*_with_rate(rate), *_event_triggered()):
                yield self._row(run, case, column, f, noise)
        for wrong_rate, column in ((0.001, COLUMNS[3]), (0.2, COLUMNS[4])):
            for case in _with_rate(wrong_rate)[1:]:
                yield self._row(run, case, column, f, noise)
        by_formula = PolicyCase(BY_FORMULA, "r-gp-ucb", {"period": FORMULA_PERIOD})
        yield self._row(run, by_formula, COLUMNS[4], f, noise)

    def _row(self, run: int, case: PolicyCase, column: str, f: Array, noise: Array) -> Row:
        window = case.settings.get("n_upper", case.settings.get("period", HORIZON))
        policy = case.make(self._field, window=window, beta=BETA, seed=run)
        result = run_policy(policy, f, noise)
        curve = result.mean_regret
        return Row(
            run,
            case_labels(policy=case.label, column=column),
            {"R_T/T": float(curve[-1]), "resets": float(result.resets)},
            {
                "R_t/t": curve[9::10].round(5).tolist(),
                "resets": [float(t) for t in result.reset_times],
            },
        )


def _with_rate(rate: float) -> list[PolicyCase]:
    """Return the policies of experiment E1 for one rate of change.

    These are GP-UCB, and the policies that are given `rate`.
    """
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


def _column_of(policy: str, column: str) -> str:
    """Return the column of experiment E1 in which the runs of `policy` for `column` are stored.

    Some columns differ only in the rate that the policies are given. A policy that is given no rate
    has the same runs in these columns, and the runs are stored only once.
    """
    has_rate = policy in ("r-gp-ucb", "tv-gp-ucb", "ui-tvbo")
    return column if has_rate or column in COLUMNS[:3] else COLUMNS[2]


def _same_order(results: ResultTable, column: str) -> Iterator[Expectation]:
    """Test the order of the policies in experiment E1, pair by pair.

    Only pairs whose published means differ significantly are tested.
    """
    at = COLUMNS.index(column)
    theirs = {
        policy: cell
        for policy, cells in TABLE.items()
        if (cell := cells[at]) and case_labels(policy=policy, column=column) != MISPRINT
    }
    ranked = sorted(theirs, key=lambda policy: theirs[policy][0])
    differences = {
        f"{a} before {b}": _less(results, (a, column), (b, column))
        for a, b in combinations(ranked, 2)
        if theirs[b][0] - theirs[a][0]
        > MAX_APART * math.hypot(theirs[a][1], theirs[b][1]) / PUBLISHED_RUNS**0.5
    }
    if differences:
        yield expect_all_less(f"ε = {column}: policies rank as in table 1", differences)


def _et_is_better_than_periodic(results: ResultTable) -> Expectation:
    """Test whether ET has less regret than R-GP-UCB for each true rate of change in E1."""
    differences = {
        f"ε = {column}": _less(results, (RASTER[1], column), (RASTER[0], column))
        for column in COLUMNS[:3]
    }
    return expect_all_less("figure 4 a-c: ET [0,1] has less regret than R-GP-UCB", differences)


def _et_is_robust(results: ResultTable, column: str) -> Expectation:
    """Test whether ET has less regret than policies given a wrong rate, in experiment E1."""
    differences = {
        other: _less(results, (RASTER[1], COLUMNS[2]), (other, column))
        for other in ("r-gp-ucb", "tv-gp-ucb", "ui-tvbo")
    }
    text = f"ε = {column}: ET [0,1] has less regret than R-GP-UCB, TV-GP-UCB and UI-TVBO"
    return expect_all_less(text, differences)


def _less(results: ResultTable, ours: tuple[str, str], theirs: tuple[str, str]) -> Array:
    """Return the regret R_T/T of `ours` minus that of `theirs` in each run of experiment E1.

    `ours` and `theirs` are pairs of a policy and a column.
    """
    cases = (case_labels(policy=policy, column=column) for policy, column in (ours, theirs))
    return results.differences("R_T/T", *cases)


def _se_from_table_1(cell: Cell, published: PublishedValue) -> str:
    """Return how far a result of experiment E1 is from table 1, such as " (+1.5 se from table 1)".

    Returns "" if this distance is unknown.
    """
    apart = standard_errors_apart(cell, published)
    return "" if apart is None else f" ({apart:+.1f} se from table 1)"
