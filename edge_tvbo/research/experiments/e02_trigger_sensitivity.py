"""E2: sensitivity of the event trigger of ET-GP-UCB to its parameter δ_B.

Source: [ET] appendix C and table 3; the settings are in table 10. The setting is the same as in E1,
with the widest window of allowed reset times, W = T. In this module, W = T means that the time
between resets has no bounds. With the lower bound N_lo = 12, which follows from ε in [0, 1], there
would be up to 1.8 fewer resets than in table 3 at δ_B = .5. Without bounds, the R_T in table 3 is
that of the variant of ET-GP-UCB that keeps the last reading at a reset (`keep_last`).
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import (
    Expectation,
    PublishedValue,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.grid_experiment import GridExperiment
from edge_tvbo.research.experiments.run_policy import run_policy

HORIZON = 400
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.4, 4.0)
RATES = (0.01, 0.03, 0.05)
TABLE = {  # [ET] table 3: for each δ_B, average resets and R_T by rate
    0.005: ((2.66, 191.39), (6.42, 276.84), (9.60, 331.69)),
    0.01: ((2.96, 193.05), (6.82, 273.37), (9.96, 328.74)),
    0.05: ((3.20, 200.16), (7.72, 269.01), (11.40, 329.47)),
    0.1: ((3.38, 200.33), (8.04, 271.59), (11.88, 332.04)),
    0.5: ((3.98, 196.03), (10.32, 280.05), (14.44, 334.80)),
}
KEEP_LAST = {"nothing": False, "last": True}
MIN_RUNS = 10  # fewer runs do not show how much the runs differ
TOLERANCE = 0.6  # allowed difference of average resets


class TriggerSensitivity(GridExperiment):
    """The experiment E2: resets and R_T of ET-GP-UCB for each δ_B and rate of change."""

    name = "E2"
    title = "sensitivity of the event trigger to δ_B"
    source = "[ET] table 3"
    runs = 50
    spatial = SpatialKernel(math.inf, 0.2)
    noise_variance = NOISE_VARIANCE

    def published(self) -> list[PublishedValue]:
        """Return the numbers of [ET] table 3, which states no standard deviations."""
        return [
            PublishedValue(
                case_labels(keeps=keeps, delta_b=delta_b, epsilon=rate), number, value, None, 50
            )
            for keeps in KEEP_LAST
            for delta_b, cells in TABLE.items()
            for rate, cell in zip(RATES, cells, strict=True)
            for number, value in zip(("resets", "R_T"), cell, strict=True)
        ]

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the average numbers of resets of E2 with table 3."""
        return [_resets_agree(results, keeps, self.published()) for keeps in KEEP_LAST]

    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw the number of resets and the regret of ET-GP-UCB in E2 against δ_B."""
        for axes, number in zip(figure.subplots(1, 2), ("resets", "R_T"), strict=True):
            for rate in RATES:
                ours = [
                    results.mean(number, keeps="last", delta_b=delta_b, epsilon=rate)
                    for delta_b in TABLE
                ]
                at = number == "R_T"
                theirs = [cells[RATES.index(rate)][at] for cells in TABLE.values()]
                (line,) = axes.plot(list(TABLE), ours, "o-", label=f"ε = {rate}")
                axes.plot(list(TABLE), theirs, "x", color=line.get_color())
            axes.set(xscale="log", xlabel="δ_B (crosses are the published numbers)", ylabel=number)
            axes.grid(alpha=0.3)
            axes.legend()

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        g = sample_fields.draws(self._factor, HORIZON, generator)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        for rate in RATES:
            f = sample_fields.drifting(g, rate)
            for delta_b in TABLE:
                for keeps, keep_last in KEEP_LAST.items():
                    policy = make_policy(
                        "et-gp-ucb",
                        self._field,
                        delta_b=delta_b,
                        keep_last=keep_last,
                        window=HORIZON,
                        beta=BETA,
                        seed=run,
                    )
                    result = run_policy(policy, f, noise)
                    yield Row(
                        run,
                        case_labels(keeps=keeps, delta_b=delta_b, epsilon=rate),
                        {"resets": float(result.resets), "R_T": float(result.regret.sum())},
                    )


def _resets_agree(
    results: ResultTable, keeps: str, published: Sequence[PublishedValue]
) -> Expectation:
    theirs = [each for each in published if each.number == "resets" and each.case["keeps"] == keeps]
    ours = [results.cell("resets", each.case) for each in theirs]
    distances = [abs(a.mean - b.mean) for a, b in zip(ours, theirs, strict=True)]
    near = sum(distance <= TOLERANCE for distance in distances)
    text = (
        f"keeps {keeps}: average resets are within {TOLERANCE} of table 3 "
        f"in {near} of {len(distances)} cells (the largest difference is {max(distances):.2f})"
    )
    runs_needed = max(
        math.ceil((2 * each.sd / TOLERANCE) ** 2) for each in ours
    )  # two standard errors
    return Expectation(text, near == len(distances), max(runs_needed, MIN_RUNS))
