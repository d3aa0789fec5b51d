"""E8: the fastest place of a highway, on METR-LA, because the I-880 data cannot be had.

[B16] section 5, figures 3 c-f and 4: speeds on the I-880, 84 readings a day from 6 to 11 in the
morning of a month, two thirds of the days for training; ε = .04, σ² = 5.0 or 5 % of the signal's
variance, c1 = .2, c2 = .4, 50 sensors drawn once from 357, 20 starts. Regrets do not compare with
print, only the order of the policies.

Here: the first week of March 2012 in Los Angeles, five days (Thursday to Monday) for training and
two (Tuesday, Wednesday) to play, 84 readings of 5 minutes from 6 to 13 h; 50 sensors of 207 are
drawn anew in each run, which is the start as well; kernel, mean and scale come from the morning
hours of the training days; readings are as they are, gaps filled, and σ² is 5 % of the training
variance. ε is the paper's, not learned anew. [B16] leaves R-GP-UCB out; its N for this T and ε is
27. ET came later; its bounds are those of ε in [0, 1], the upper one being T, which is none.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments.base import Expectation, PublishedValue, Row, Summary
from edge_tvbo.research.experiments.run_policy import play, rng
from edge_tvbo.simulation import dataset_lookup
from edge_tvbo.simulation.replay import DAY
from edge_tvbo.theory import block_bounds_se, block_length_se
from edge_tvbo.training.covariance import train

HORIZON = 84  # intervals of a day
FROM = 6 * 3600.0  # s after midnight
SENSORS = 50
EPSILON = 0.04
NOISE_SHARE = 0.05
BETA = LogBeta(0.2, 0.4)
TRAINING = 5  # days, of seven
POLICIES = ("tv-gp-ucb", "gp-ucb", "r-gp-ucb", "et-gp-ucb", "random")


class Mornings(NamedTuple):
    """The part of each day that is looked at."""

    sensors: tuple[str, ...]
    values: Array  # (days, T, M), in mph
    labels: tuple[str, ...]  # of the days


class Traffic:
    """R_T/T of each policy on the mornings that are left for testing."""

    name = "E8"
    title = "traffic on METR-LA, because the I-880 data of [B16] cannot be had"
    source = "[B16] figures 3 and 4 (other data)"
    runs = 20
    block = 1

    def __init__(
        self,
        data_dirs: tuple[str, ...] = (),
        *,
        horizon: int = HORIZON,
        sensors: int = SENSORS,
    ) -> None:
        self._data_dirs = data_dirs
        self._horizon = horizon
        self._sensors = sensors

    @cached_property
    def _mornings(self) -> Mornings:
        recording = dataset_lookup.recording("metr-la", self._data_dirs, "filled")
        a_day, T = round(DAY / recording.interval), self._horizon
        first = round(((FROM - recording.start) % DAY) / recording.interval)
        days = range(first, len(recording.values) - T + 1, a_day)
        starts = [recording.start + row * recording.interval for row in days]
        return Mornings(
            tuple(recording.sensors),
            np.stack([recording.values[row : row + T] for row in days]),
            tuple(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}" for at in starts),
        )

    @property
    def _days(self) -> tuple[str, ...]:
        return self._mornings.labels[TRAINING:]

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs: other sensors and another start in each."""
        return [row for run in runs for row in self._run(run, rng(self.name, seed, run))]

    def printed(self) -> list[PublishedValue]:
        """Give nothing: the paper has figures, no numbers."""
        return []

    def claims(self, summary: Summary) -> list[Expectation]:
        """Look for the paper's order, day by day."""
        return [
            Expectation(
                f"{day}: TV-GP-UCB is below {other} ({tv:.3f} and {theirs:.3f})", tv < theirs
            )
            for day in self._days
            for other in ("gp-ucb", "r-gp-ucb", "random")
            for tv in (summary.mean("R_T/T", policy="tv-gp-ucb", day=day),)
            for theirs in (summary.mean("R_T/T", policy=other, day=day),)
        ]

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw regret so far over the day, a panel for each (figures 3 c-f)."""
        panels = figure.subplots(1, len(self._days), sharey=True, squeeze=False)[0]
        for axes, day in zip(panels, self._days, strict=True):
            for policy in POLICIES:
                case = {"policy": policy, "day": day}
                curves = np.array([row.curves["R_t/t"] for row in rows if row.case == case])
                t = np.arange(1, curves.shape[1] + 1)
                axes.plot(t, curves.mean(axis=0), label=policy)
            axes.set(title=day, xlabel="interval of 5 minutes from 6 h on", ylim=(0, None))
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("R_t / t (training sd)")
        panels[-1].legend(fontsize=8)

    def _run(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        mornings, T = self._mornings, self._horizon
        drawn = generator.choice(len(mornings.sensors), self._sensors, replace=False)
        seed = int(generator.integers(2**31))
        names = tuple(mornings.sensors[each] for each in drawn)
        values = mornings.values[:, :, drawn]
        rows = values[:TRAINING].reshape(-1, self._sensors)
        field = train(rows, names, unit="mph", noise_variance=NOISE_SHARE)
        for day, speeds in zip(self._days, values[TRAINING:], strict=True):
            truth = (speeds - field.center) / field.scale
            for name in POLICIES:
                policy = make_policy(name, field, seed=seed, **_settings(name, T))
                played = play(policy, truth, np.zeros(T))
                so_far = played.regret.cumsum() / np.arange(1, T + 1)
                mph = float(so_far[-1]) * field.scale
                numbers = {"R_T/T": float(so_far[-1]), "R_T/T, mph": mph}
                numbers["resets"] = float(played.resets)
                curves = {"R_t/t": so_far.round(5).tolist()}
                yield Row(run, {"policy": name, "day": day}, numbers, curves)


def _settings(name: str, horizon: int) -> dict[str, Any]:
    match name:
        case "tv-gp-ucb":
            return {"beta": BETA, "epsilon": EPSILON}
        case "r-gp-ucb":
            return {"beta": BETA, "period": block_length_se(EPSILON, horizon=horizon)}
        case "et-gp-ucb":
            bounds = block_bounds_se(0.0, 1.0, horizon=horizon)
            return {"beta": BETA, "delta_b": 0.1, "n_lower": bounds.n_lower}
        case "random":
            return {}
        case _:
            return {"beta": BETA}
