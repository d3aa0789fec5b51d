"""E2: how much the event trigger depends on δ_B.

[ET] appendix C and table 3 (settings: table 10): the setting of E1 with the widest window, W = T,
taken as no bounds at all. With N_lo = 12, which is what ε in [0, 1] gives, there are up to 1.8
resets fewer than printed at δ_B = .5; without, the printed R_T is that of `keep_last`.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import Expectation, PublishedValue, Row, Summary
from edge_tvbo.research.experiments.per_run import OnGrid
from edge_tvbo.research.experiments.run_policy import play

HORIZON = 400
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.4, 4.0)
RATES = (0.01, 0.03, 0.05)
TABLE = {  # [ET] table 3: average resets and R_T for each rate
    0.005: ((2.66, 191.39), (6.42, 276.84), (9.60, 331.69)),
    0.01: ((2.96, 193.05), (6.82, 273.37), (9.96, 328.74)),
    0.05: ((3.20, 200.16), (7.72, 269.01), (11.40, 329.47)),
    0.1: ((3.38, 200.33), (8.04, 271.59), (11.88, 332.04)),
    0.5: ((3.98, 196.03), (10.32, 280.05), (14.44, 334.80)),
}
KEPT = {"nothing": False, "last": True}


class Sensitivity(OnGrid):
    """Resets and R_T of ET-GP-UCB, by δ_B and rate of change."""

    name = "E2"
    title = "the event trigger's sensitivity to δ_B"
    source = "[ET] table 3"
    runs = 50
    spatial = SpatialKernel(math.inf, 0.2)
    noise_variance = NOISE_VARIANCE

    def printed(self) -> list[PublishedValue]:
        """Give table 3, which has no spreads."""
        return [
            PublishedValue(_case(kept, delta_b, rate), number, value, None, 50)
            for kept in KEPT
            for delta_b, cells in TABLE.items()
            for rate, cell in zip(RATES, cells, strict=True)
            for number, value in zip(("resets", "R_T"), cell, strict=True)
        ]

    def claims(self, summary: Summary) -> list[Expectation]:
        """Compare the resets, and how they go with δ_B."""
        return [_near(summary, kept, self.printed()) for kept in KEPT]

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw resets and regret over δ_B."""
        for axes, number in zip(figure.subplots(1, 2), ("resets", "R_T"), strict=True):
            for rate in RATES:
                ours = [summary.mean(number, **_case("last", d, rate)) for d in TABLE]
                at = number == "R_T"
                theirs = [cells[RATES.index(rate)][at] for cells in TABLE.values()]
                (line,) = axes.plot(list(TABLE), ours, "o-", label=f"ε = {rate}")
                axes.plot(list(TABLE), theirs, "x", color=line.get_color())
            axes.set(xscale="log", xlabel="δ_B (crosses: printed)", ylabel=number)
            axes.grid(alpha=0.3)
            axes.legend()

    def _run(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        g = sample_fields.draws(self._factor, HORIZON, generator)
        noise = generator.standard_normal(HORIZON) * NOISE_VARIANCE**0.5
        for rate in RATES:
            f = sample_fields.drifting(g, rate)
            for delta_b in TABLE:
                for kept, keep_last in KEPT.items():
                    policy = make_policy(
                        "et-gp-ucb",
                        self._field,
                        delta_b=delta_b,
                        keep_last=keep_last,
                        window=HORIZON,
                        beta=BETA,
                        seed=run,
                    )
                    played = play(policy, f, noise)
                    numbers = {"resets": float(played.resets), "R_T": float(played.regret.sum())}
                    yield Row(run, _case(kept, delta_b, rate), numbers)


def _near(summary: Summary, kept: str, printed: Sequence[PublishedValue]) -> Expectation:
    far = [
        abs(summary.cell("resets", each.case).mean - each.mean)
        for each in printed
        if each.number == "resets" and each.case["keeps"] == kept
    ]
    near = sum(distance <= 0.6 for distance in far)
    text = f"keeps {kept}: average resets within 0.6 of table 3 in {near} of {len(far)} cells"
    return Expectation(f"{text} (farthest {max(far):.2f})", near == len(far))


def _case(kept: str, delta_b: float, rate: float) -> dict[str, str]:
    return {"keeps": kept, "delta_b": str(delta_b), "epsilon": str(rate)}
