"""E3: when the event trigger resets, and what the freedom to do so is worth.

[ET] section 5, figures 2 and 7 (settings: table 4). The window W = N_hi - N_lo in which the
trigger may reset grows around the block length N of R-GP-UCB; β_t is that of E1, which the paper
refers to. Its continuous [0, 1]² is a grid here.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import Expectation, PublishedValue, Row, Summary
from edge_tvbo.research.experiments.inverse_gamma import likelier_than_gamma
from edge_tvbo.research.experiments.monte_carlo import follow
from edge_tvbo.research.experiments.per_run import Gridded
from edge_tvbo.research.experiments.run_policy import rng

HORIZON = 200
NOISE_VARIANCE = 0.02
DELTA_B = 0.1
BETA = LogBeta(0.4, 4.0)
SIDE = 25
PERIODS = {0.03: 29, 0.1: 22}  # N = ⌈12 ε^(-1/4)⌉
WINDOWS = (0, 10, 20, 40, 80, 120, 160, 199)
KEPT = {"keeps nothing": False, "keeps last": True}


class Trigger(NamedTuple):
    """One setting of a policy that resets."""

    label: str
    period: int = 0
    n_lower: int = 1
    n_upper: int = 0
    keep_last: bool = True


class ResetTimes(Gridded):
    """Reset times and R_T/T, by window size and rate of change."""

    name = "E3"
    title = "reset times and regret by the window of allowed reset times"
    source = "[ET] figures 2 and 7"
    runs = 30_000
    block = 250
    spatial = SpatialKernel(math.inf, 0.2)
    noise_variance = NOISE_VARIANCE

    def __init__(self, data_dirs: tuple[str, ...] = (), *, side: int = SIDE) -> None:
        super().__init__(data_dirs, side=side)

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs; histograms of reset times are one row for all of them."""
        histograms = {
            (rate, trigger.label): np.zeros(HORIZON + 1, np.int64)
            for rate, period in PERIODS.items()
            for trigger in _triggers(period)
            if trigger.n_upper
        }
        rows = [row for run in runs for row in self._resets(run, seed, histograms)]
        for (rate, label), counts in histograms.items():
            case = {"epsilon": str(rate), "reset times of": label}
            rows.append(Row(runs.start, case, {}, {"counts": counts.astype(float).tolist()}))
        return rows

    def printed(self) -> list[PublishedValue]:
        """Give nothing: the paper has figures, no numbers."""
        return []

    def claims(self, summary: Summary) -> list[Expectation]:
        """Compare ET with R and with resets at N_lo, window by window."""
        return [
            claim
            for rate in PERIODS
            for kept in KEPT
            for claim in _claims(summary, str(rate), kept)
        ]

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw histograms of reset times, and regret over the window (figure 2)."""
        panels = figure.subplots(1, 1 + len(PERIODS))
        for axes, rate in zip(panels, PERIODS, strict=False):
            for window in WINDOWS[1::2]:
                counts = histogram(rows, rate, f"et keeps nothing, W={window}")
                share = counts / max(counts.sum(), 1)
                axes.step(np.arange(HORIZON + 1), share, where="mid", label=f"W = {window}")
            counts = histogram(rows, rate, f"et keeps nothing, W={WINDOWS[-1]}")
            if counts.any():
                fits, alpha, scale = likelier_than_gamma(counts)
                t = np.arange(1, HORIZON + 1)
                norm = alpha * math.log(scale) - math.lgamma(alpha)
                density = np.exp(norm - (alpha + 1.0) * np.log(t) - scale / t)
                axes.plot(t, density, "k:", label="inverse gamma" + ("" if fits else " (poor)"))
            axes.set(xlabel="reset time t'", title=f"ε = {rate}", xlim=(0, 120), ylim=(0, 0.1))
            axes.legend(fontsize=8)
        for rate, colour in zip(PERIODS, ("tab:blue", "tab:orange"), strict=True):
            case = {"epsilon": str(rate)}
            for kept, style in zip(KEPT, ("o-", "s-"), strict=True):
                ours = [summary.mean(f"et {kept}, W={window}", **case) for window in WINDOWS]
                panels[-1].plot(WINDOWS, ours, style, color=colour, label=f"ET {kept}, ε = {rate}")
            lower = [summary.mean(f"at N_lo, W={window}", **case) for window in WINDOWS]
            panels[-1].plot(WINDOWS, lower, "--", color=colour, label=f"always at N_lo, ε = {rate}")
            panels[-1].axhline(
                summary.mean("r-gp-ucb", **case), color=colour, ls="-.", label=f"R, ε = {rate}"
            )
        panels[-1].set(xlabel="window W", ylabel="R_T / T")
        panels[-1].legend(fontsize=7)

    def _resets(
        self, run: int, seed: int, histograms: dict[tuple[float, str], NDArray[np.int64]]
    ) -> Iterator[Row]:
        generator = rng(self.name, seed, run)
        M = len(self._field)
        g = sample_fields.draws(self._factor, HORIZON, generator)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        widths = np.array([BETA.width(t, 0) for t in range(1, HORIZON + 1)])
        V, (mean, variance, bound) = np.empty((HORIZON, M)), np.empty((3, M))
        regret, ages = np.empty(HORIZON), np.empty(HORIZON, np.int64)
        for rate, period in PERIODS.items():
            f = sample_fields.drifting(g, rate)
            numbers = {}
            for trigger in _triggers(period):
                _, every, lower, upper, keep_last = trigger
                resets = follow(
                    f, noise, self._field.kernel, NOISE_VARIANCE, widths, every, lower, upper,
                    DELTA_B, keep_last, run, V, mean, variance, bound, regret, ages,
                )  # fmt: skip
                numbers[trigger.label] = float(regret.mean())
                if upper:
                    counts = histograms[rate, trigger.label]
                    counts += np.bincount(ages[:resets], minlength=HORIZON + 1)
            yield Row(run, {"epsilon": str(rate)}, numbers)


def histogram(rows: Sequence[Row], rate: float, label: str) -> Array:
    """Give how often each reset time 0..T came, over all runs."""
    case = {"epsilon": str(rate), "reset times of": label}
    counts = [row.curves["counts"] for row in rows if row.case == case]
    return np.asarray(np.sum(counts, axis=0))


def _triggers(period: int) -> Iterator[Trigger]:
    yield Trigger("r-gp-ucb", period=period)
    for window in WINDOWS:
        lower = max(1, period - window // 2)
        upper = min(lower + window, HORIZON)
        for kept, keep_last in KEPT.items():
            yield Trigger(f"et {kept}, W={window}", 0, lower, upper, keep_last)
        yield Trigger(f"at N_lo, W={window}", period=lower)


def _claims(summary: Summary, rate: str, kept: str) -> list[Expectation]:
    case = {"epsilon": rate}
    base = summary.mean("r-gp-ucb", **case)
    above = [
        window
        for window in WINDOWS[1:]  # with none, a reset comes at N whatever is read
        if summary.mean(f"et {kept}, W={window}", **case) >= base
    ]
    text = f"ε = {rate}: ET that {kept} stays below R at every window size"
    if above:
        text += f"; but not at W = {', '.join(map(str, above))}"
    return [Expectation(text, not above)]
