"""E4: a laboratory's temperatures, with the policies' published parameters.

[ET] section 6, figure 3 b-c (settings: table 6), after [B16] section 5: 46 sensors of the Intel
Berkeley lab, learned from all days before the two that are played.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from edge_tvbo.research.experiments.base import Expectation, PublishedValue, Row, Summary
from edge_tvbo.simulation import dataset_lookup
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import days

DAYS = {
    "7-8": ("2004-03-01:2004-03-06", "2004-03-07:2004-03-08"),
    "5-6": ("2004-03-01:2004-03-04", "2004-03-05:2004-03-06"),
}
RATE = 0.03
PERIOD = 15
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "et, ε in [0,1]": ("et-gp-ucb", {"delta_b": 0.1, "n_lower": 12, "n_upper": 286}),
    "et, at most 15": ("et-gp-ucb", {"delta_b": 0.1, "n_upper": PERIOD}),
    "et, unbounded": ("et-gp-ucb", {"delta_b": 0.1, "n_upper": None}),
    "tv, ε fitted": ("tv-gp-ucb", {"epsilon": "fitted", "window": 100}),
    "tv-gp-ucb": ("tv-gp-ucb", {"epsilon": RATE}),
    "ui-tvbo": ("ui-tvbo", {"sigma_w2": RATE}),
    "r-gp-ucb": ("r-gp-ucb", {"period": PERIOD}),
    "gp-ucb": ("gp-ucb", {}),
    "random": ("random", {}),
}
BESIDE = ("et, at most 15", "et, unbounded")  # other readings of the paper's ET
ET = "et, ε in [0,1]"  # table 1's setting for an unknown rate


class Temperature:
    """R_T/T of each policy on two pairs of days."""

    name = "E4"
    title = "temperatures of the Intel lab"
    source = "[ET] figure 3 b-c"
    runs = 50
    block = 1

    def __init__(self, data_dirs: tuple[str, ...] = ()) -> None:
        self._data_dirs = data_dirs

    @cached_property
    def _backtests(self) -> dict[str, Backtest]:
        recording = dataset_lookup.recording("intel-lab", self._data_dirs, "filled")
        return {
            label: Backtest(recording, days(recording, train), days(recording, test))
            for label, (train, test) in DAYS.items()
        }

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs: chance is in the first choice alone, and in the random policy."""
        return [row for run in runs for row in self._run(run, seed)]

    def printed(self) -> list[PublishedValue]:
        """Give nothing: the paper has figures, no numbers."""
        return []

    def claims(self, summary: Summary) -> list[Expectation]:
        """Look where ET stands."""
        published = [policy for policy in POLICIES if policy not in BESIDE]
        late = {each: summary.mean("R_T/T", policy=each, days="7-8") for each in published}
        early = {each: summary.mean("R_T/T", policy=each, days="5-6") for each in published}
        first, behind = min(late, key=late.__getitem__), early[ET] - min(early.values())
        return [
            Expectation(f"days 7-8: ET, its bounds for ε in [0, 1], is first (it is {first})",
                  first == ET),
            Expectation(f"days 5-6: it is within .02 of the first ({behind:.3f} behind)",
                  behind <= 0.02),
        ]  # fmt: skip

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw cumulative regret over time (figure 3 b-c)."""
        panels = figure.subplots(1, len(DAYS), sharey=True)
        for axes, label in zip(panels, DAYS, strict=True):
            for policy in POLICIES:
                case = {"policy": policy, "days": label}
                curves = np.array([row.curves["R_t"] for row in rows if row.case == case])
                axes.plot(np.arange(1, curves.shape[1] + 1) * 2, curves.mean(axis=0), label=policy)
            axes.set(title=f"days {label}", xlabel="interval of 10 minutes", ylim=(0, 250))
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("cumulative regret (training sd)")
        panels[1].legend(fontsize=8)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        for label, backtest in self._backtests.items():
            for policy, (name, settings) in POLICIES.items():
                keywords = {**settings, "seed": seed * 1_000_003 + run}
                result = backtest.run(name, keywords, seeds=1)
                regret = result.regret[0]
                numbers = {"R_T/T": float(regret.mean()), "resets": float(result.resets[0])}
                curve = regret.cumsum()[1::2].round(4).tolist()
                yield Row(run, {"policy": policy, "days": label}, numbers, {"R_t": curve})
