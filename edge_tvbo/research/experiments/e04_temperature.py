"""E4: policies with their published parameters on the temperatures of a laboratory.

Source: [ET] section 6, figure 3 b-c; the settings are in table 6. The paper follows the experiment
of [B16] section 5. The temperatures are from 46 sensors of the Intel Berkeley lab. There are two
pairs of test days; all days before a pair are used for training.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from edge_tvbo.research.experiments.base import (
    Expectation,
    Experiment,
    PolicyCase,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.curves import plot_mean_curves
from edge_tvbo.simulation.backtest import UNIT_LABEL, Backtest
from edge_tvbo.simulation.replay import days

DAYS = {
    "7-8": ("2004-03-01:2004-03-06", "2004-03-07:2004-03-08"),
    "5-6": ("2004-03-01:2004-03-04", "2004-03-05:2004-03-06"),
}
RATE = 0.03
PERIOD = 15
CASES = (
    PolicyCase("et, ε in [0,1]", "et-gp-ucb", {"delta_b": 0.1, "n_lower": 12, "n_upper": 286}),
    PolicyCase("et, at most 15", "et-gp-ucb", {"delta_b": 0.1, "n_upper": PERIOD}),
    PolicyCase("et, unbounded", "et-gp-ucb", {"delta_b": 0.1, "n_upper": None}),
    PolicyCase("tv, ε fitted", "tv-gp-ucb", {"epsilon": "fitted", "window": 100}),
    PolicyCase("tv-gp-ucb", "tv-gp-ucb", {"epsilon": RATE}),
    PolicyCase("ui-tvbo", "ui-tvbo", {"sigma_w2": RATE}),
    PolicyCase("r-gp-ucb", "r-gp-ucb", {"period": PERIOD}),
    PolicyCase("gp-ucb", "gp-ucb"),
    PolicyCase("random", "random"),
)
NOT_PUBLISHED = ("et, at most 15", "et, unbounded")  # ET with settings that are not the paper's
ET = "et, ε in [0,1]"  # setting of [ET] table 1 for an unknown rate


class Temperature(Experiment):
    """The experiment E4: regret R_T/T of each policy on two pairs of test days."""

    name = "E4"
    title = "temperatures of the Intel lab"
    source = "[ET] figure 3 b-c"
    runs = 50

    @cached_property
    def _backtests(self) -> dict[str, Backtest]:
        recording = self.data.load("intel-lab", "paper")
        return {
            label: Backtest(recording, days(recording, train), days(recording, test))
            for label, (train, test) in DAYS.items()
        }

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the rank of ET-GP-UCB in E4 with its rank in the paper."""
        published = [case.label for case in CASES if case.label not in NOT_PUBLISHED]
        late = {each: results.mean("R_T/T", policy=each, days="7-8") for each in published}
        early = {each: results.mean("R_T/T", policy=each, days="5-6") for each in published}
        first, behind = min(late, key=late.__getitem__), early[ET] - min(early.values())
        return [
            Expectation(
                f"days 7-8: ET with bounds for ε in [0, 1] has the least regret (least: {first})",
                first == ET,
            ),
            Expectation(
                f"days 5-6: the regret of this ET is {behind:.3f} above the least (goal: .02)",
                behind <= 0.02,
            ),
        ]

    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw the cumulative regret of E4 over time, for each pair of days (figure 3 b-c)."""
        panels = figure.subplots(1, len(DAYS), sharey=True)
        for axes, label in zip(panels, DAYS, strict=True):
            cases = {case.label: case_labels(policy=case.label, days=label) for case in CASES}
            plot_mean_curves(axes, rows, "R_t", cases, step=2)
            axes.set(title=f"days {label}", xlabel="interval of 10 minutes", ylim=(0, 250))
        panels[0].set_ylabel(f"cumulative regret ({UNIT_LABEL})")
        panels[1].legend(fontsize=8)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the rows of one run of E4.

        Only the first choice of each policy, and all choices of the policy `random`, are random.
        """
        for label, backtest in self._backtests.items():
            for case in CASES:
                settings = {**case.settings, "seed": seed * 1_000_003 + run}
                result = backtest.run(case.policy, settings, seeds=1)
                regret = result.regret[0]
                yield Row(
                    run,
                    case_labels(policy=case.label, days=label),
                    {"R_T/T": float(regret.mean()), "resets": float(result.resets[0])},
                    {"R_t": regret.cumsum()[1::2].round(4).tolist()},
                )
