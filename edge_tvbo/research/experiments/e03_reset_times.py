"""E3: reset times of the event trigger, and regret for several windows of allowed reset times.

Source: [ET] section 5, figures 2 and 7; the settings are in table 4. The trigger is allowed to
reset the model within a window of size W = N_hi - N_lo around the block length N of R-GP-UCB. The
experiment varies W. β_t is that of E1, because the paper refers to the experiment that E1 repeats.
The `notes` of `ResetTimes` list the differences from the paper.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.research import random_fields
from edge_tvbo.research.experiments.grid_experiment import GridExperiment
from edge_tvbo.research.experiments.inverse_gamma import fit_inverse_gamma
from edge_tvbo.research.experiments.result_table import (
    Drawing,
    Expectation,
    Labels,
    ResultTable,
    Row,
    Table,
)
from edge_tvbo.research.experiments.statistics import expect_all_less, expect_less
from edge_tvbo.simulation.dataset_lookup import DataSource

HORIZON = 200
NOISE_VARIANCE = 0.02
DELTA_B = 0.1
BETA = LogBeta(0.4, 4.0)
SIDE = 25
PERIODS = {0.03: 29, 0.1: 22}  # N = ⌈12 ε^(-1/4)⌉
WINDOWS = (0, 10, 20, 40, 80, 120, 160, 199)
KEEP_LAST = {"keeps nothing": False, "keeps last": True}


class ResetRule(NamedTuple):
    """The rule by which a policy of experiment E3 resets: periodically, or by the event trigger."""

    label: str
    period: int = 0  # 0 if there is no periodic reset
    n_lower: int = 1
    n_upper: int = 0  # 0 if there is no event trigger
    keep_last: bool = True


class ResetTimes(GridExperiment):
    """The experiment E3: reset times and regret R_T/T for each window size and rate of change."""

    name = "E3"
    title = "reset times and regret for several windows of allowed reset times"
    source = "[ET] figures 2 and 7"
    runs = 30_000
    block = 250
    tables = (Table("", "number", "epsilon"),)
    notes = """
Each cell contains a mean regret R_T/T, and each column is for one true rate of change ε. A reset
time is the number of intervals between two resets. R-GP-UCB always resets after N intervals. The
policy ET (ET-GP-UCB) may reset only within a window of W intervals around N. The rows are:

- "et keeps nothing": at a reset, ET discards all readings;
- "et keeps last": at a reset, ET keeps the reading that fired the trigger;
- "at N_lo": a policy that always resets at the lower end of the window.

Differences from the paper:

- The paper searches the continuous square [0, 1]². Here, the square is a grid of 25 × 25 places.
- The paper does not state β_t for this experiment. Here, β_t is that of table 5 of the paper.
- The paper states neither the sizes W of the windows nor their places. Here, a window begins W/2
  intervals before N. If N is less than W/2, the window begins at 1.
"""
    spatial = SpatialKernel(math.inf, 0.2)
    noise_variance = NOISE_VARIANCE

    def __init__(self, data: DataSource | None = None, *, side: int = SIDE) -> None:
        super().__init__(data, side=side)

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Return the rows of `runs`, and rows with the counts of reset times in all these runs."""
        histograms = {
            (rate, rule.label): np.zeros(HORIZON + 1, np.int64)
            for rate, period in PERIODS.items()
            for rule in _reset_rules(period)
            if rule.n_upper
        }
        rows = [row for run in runs for row in self._run(run, seed, histograms)]
        for (rate, label), counts in histograms.items():
            curves = {"counts": counts.astype(float).tolist()}
            rows.append(Row(runs.start, _histogram_case(rate, label), {}, curves))
        return rows

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare ET-GP-UCB with R-GP-UCB at each window size of experiment E3."""
        return [
            *(_below_periodic(results, rate, keeps) for rate in PERIODS for keeps in KEEP_LAST),
            *(_lower_bound_costs(results, rate) for rate in PERIODS),
        ]

    def pictures(self) -> dict[str, Drawing]:
        """Return the pictures of experiment E3: figure 2 and figure 7 of [ET]."""
        return {"figure": self.draw, "figure-7": _draw_distributions}

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw experiment E3's reset times, and its regret against the window size (figure 2)."""
        panels = figure.subplots(1, 1 + len(PERIODS))
        for axes, rate in zip(panels, PERIODS, strict=False):
            _draw_histograms(axes, results, rate)
            counts = histogram(results, rate, f"et keeps nothing, W={WINDOWS[-1]}")
            if np.count_nonzero(counts) > 1:
                fitted = fit_inverse_gamma(counts)
                t = np.arange(1, HORIZON + 1)
                poor = "" if fitted.is_better_than_gamma else "\n(a gamma fits better)"
                axes.plot(t, fitted.density(t), "k:", label=f"inverse gamma{poor}")
            axes.legend(loc="best", fontsize=8)
        for rate, colour in zip(PERIODS, ("tab:blue", "tab:orange"), strict=True):
            rules = {
                **{f"ET {keeps}": ("o-", f"et {keeps}, W={{}}") for keeps in KEEP_LAST},
                "always at N_lo": ("v--", "at N_lo, W={}"),
                "R": ("-.", "r-gp-ucb"),
            }
            for label, (style, number) in rules.items():
                cells = [
                    results.cell(number.format(window), {"epsilon": str(rate)})
                    for window in WINDOWS
                ]
                means = np.array([cell.mean for cell in cells])
                half = np.array([cell.half_width for cell in cells])
                fill = "none" if "last" in label else colour
                panels[-1].plot(
                    WINDOWS, means, style, color=colour, mfc=fill, label=f"{label}, ε = {rate}"
                )
                panels[-1].fill_between(
                    WINDOWS, means - half, means + half, color=colour, alpha=0.2
                )
        panels[-1].set(xlabel="window size W", ylabel="R_T / T", title="regret")
        panels[-1].legend(loc="best", fontsize=7)
        panels[-1].grid(alpha=0.3)
        figure.suptitle(
            "[ET] figure 2: reset times of ET, whose resets keep no reading; 95 % bands of R_T/T"
        )

    def _run(
        self,
        run: int,
        seed: int,
        histograms: dict[tuple[float, str], NDArray[np.int64]] | None = None,
    ) -> Iterator[Row]:
        """Yield the rows of one run of experiment E3, and add its reset times to `histograms`."""
        # imports numba, which `edge-tvbo experiment list` does not need
        from edge_tvbo.research.experiments.monte_carlo import run_resetting_policy

        generator = self._generator(seed, run)
        M = len(self._field)
        g = random_fields.draws(self._factor, HORIZON, generator)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        widths = np.array([BETA.width(t, 0) for t in range(1, HORIZON + 1)])
        V, (mean, variance, bound) = np.empty((HORIZON, M)), np.empty((3, M))
        regret, ages = np.empty(HORIZON), np.empty(HORIZON, np.int64)
        for rate, period in PERIODS.items():
            f = random_fields.drifting(g, rate)
            numbers = {}
            for rule in _reset_rules(period):
                label, every, lower, upper, keep_last = rule
                resets = run_resetting_policy(
                    f, noise, self._field.kernel, NOISE_VARIANCE, widths, every, lower, upper,
                    DELTA_B, keep_last, run, V, mean, variance, bound, regret, ages,
                )  # fmt: skip
                numbers[label] = float(regret.mean())
                if upper and histograms is not None:
                    histograms[rate, label] += np.bincount(ages[:resets], minlength=HORIZON + 1)
            yield Row(run, {"epsilon": str(rate)}, numbers)


def histogram(results: ResultTable, rate: float, label: str) -> Array:
    """Return how often each reset time 0 to T occurred in experiment E3, (T + 1,).

    The resets are those of one reset rule, `label`, at the rate of change `rate`.
    """
    counts = results.curves("counts", _histogram_case(rate, label))
    return np.asarray(np.sum(counts, axis=0))


def _histogram_case(rate: float, label: str) -> Labels:
    return {"epsilon": str(rate), "reset times of": label}


def _reset_rules(period: int) -> Iterator[ResetRule]:
    yield ResetRule("r-gp-ucb", period=period)
    for window in WINDOWS:
        lower = max(1, period - window // 2)
        upper = min(lower + window, HORIZON)
        for keeps, keep_last in KEEP_LAST.items():
            yield ResetRule(f"et {keeps}, W={window}", 0, lower, upper, keep_last)
        yield ResetRule(f"at N_lo, W={window}", period=lower)


def _draw_histograms(
    axes: Any, results: ResultTable, rate: float, cumulative: bool = False
) -> None:
    """Draw the share of experiment E3's resets at each reset time, with a line per window size.

    The share is cumulative if `cumulative` is true. The resets are those of the variant of
    ET-GP-UCB that discards the last reading at a reset.
    """
    for window in WINDOWS[1::2]:
        counts = histogram(results, rate, f"et keeps nothing, W={window}")
        share = counts / max(counts.sum(), 1)
        shown = share.cumsum() if cumulative else share
        axes.step(np.arange(HORIZON + 1), shown, where="mid", label=f"W = {window}")
    axes.set(
        xlabel="reset time t'",
        title=f"ε = {rate}",
        ylabel="share of resets up to t'" if cumulative else "share of resets",
        xlim=(0, 120),
        ylim=(0, 1.02 if cumulative else 0.1),
    )


def _draw_distributions(figure: Any, results: ResultTable) -> None:
    """Draw histograms and cumulative shares of experiment E3's reset times ([ET] figure 7)."""
    panels = figure.subplots(len(PERIODS), 2)
    for row, rate in zip(panels, PERIODS, strict=True):
        for axes, cumulative in zip(row, (False, True), strict=True):
            _draw_histograms(axes, results, rate, cumulative)
            axes.grid(alpha=0.3)
    panels[0][0].legend(loc="best")
    figure.suptitle("[ET] figure 7: distribution of ET's reset times; its resets keep no reading")


def _numbers(results: ResultTable, rate: float, ours: str, theirs: str) -> Array:
    """Return the R_T/T of reset rule `ours` minus that of `theirs`, per run of experiment E3."""
    case = {"epsilon": str(rate)}
    return results.values(ours, case) - results.values(theirs, case)


def _below_periodic(results: ResultTable, rate: float, keeps: str) -> Expectation:
    return expect_all_less(
        f"ε = {rate}: ET that {keeps} has less regret than R at every window size above 0",
        {
            f"R at W = {window}": _numbers(results, rate, f"et {keeps}, W={window}", "r-gp-ucb")
            for window in WINDOWS[1:]  # for W = 0, every reset is at N
        },
    )


def _lower_bound_costs(results: ResultTable, rate: float) -> Expectation:
    widest = f"at N_lo, W={WINDOWS[-1]}"
    return expect_less(
        f"ε = {rate}: at W = {WINDOWS[-1]}, a policy that always resets at N_lo has more regret "
        "than R",
        _numbers(results, rate, "r-gp-ucb", widest),
    )
