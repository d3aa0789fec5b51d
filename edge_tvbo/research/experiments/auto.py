"""Experiment AUTO: the policy `auto` on recordings with training days, and on synthetic fields.

The module `split_experiment` describes the recordings. Each recording in `FIELDS` has `FIELD_RUNS`
runs. In some rows, no sensor was read, for example on days without trade. These rows are used
neither for training nor for the regret, but count as elapsed time. No noise is added to the
recorded readings. The regret per interval, R_T/T, is in standard deviations of the training data.

The synthetic fields have 10 x 10 places, a squared exponential kernel with the length scale
l = 0.2, the noise variance σ² = .02 and T = 400 intervals. On these fields, all policies have
β_t = .4 ln(4t).

The runs of a policy on one recording hardly differ. Therefore the uncertainty of a difference
between two policies is computed over `BLOCKS` blocks of the test time.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.research import random_fields
from edge_tvbo.research.confidence import block_means
from edge_tvbo.research.experiments.auto_cases import (
    BEHIND,
    BEST_SENSOR,
    LATE,
    OVER_BLOCKS,
    PUBLISHED,
    kinds_of_change,
    policies,
)
from edge_tvbo.research.experiments.auto_goals import best_other, goals
from edge_tvbo.research.experiments.base import PolicyCase, policy_seed
from edge_tvbo.research.experiments.curves import INTERVALS, plot_cells
from edge_tvbo.research.experiments.result_table import Expectation, ResultTable, Row, case_labels
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.split_experiment import (
    PLACES,
    SplitExperiment,
    TrainTestSplit,
    regret_and_coverage,
)
from edge_tvbo.research.experiments.statistics import standard_error
from edge_tvbo.simulation.dataset_lookup import DataSource
from edge_tvbo.training.covariance import with_model, with_structure
from edge_tvbo.training.structural_fit import rows_without_nan
from edge_tvbo.training.textbook_fit import best_width, fit_textbook

FIELD_RUNS = 2  # the runs hardly differ
HORIZON = 400
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.4, 4.0)
RECORDED_RUNS = 24  # number of runs with recordings; these runs hardly differ


class AutoExperiment(SplitExperiment):
    """The experiment AUTO: regret of policies, and coverage of `auto`'s predictive intervals."""

    name = "AUTO"
    title = "the policy without parameters"
    runs = 300
    revision = 3

    def __init__(self, data: DataSource, *, horizon: int = HORIZON) -> None:
        super().__init__(data)
        self._horizon = horizon

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the results of the experiment AUTO with the goals for the policy `auto`."""
        return goals(results)

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw pairs of bars: the regret of `auto`, and the regret of the best other policy."""
        panels = figure.subplots(1, 2)
        for axes, labels, title in (
            (panels[0], PLACES, "recorded"),
            (panels[1], kinds_of_change(), "synthetic"),
        ):
            at = np.arange(len(labels))
            cases = [case_labels(place=label, policy="auto") for label in labels]
            ours = [results.cell("R_T/T", case) for case in cases]
            best = [best_other(results, label)[1] for label in labels]
            axes.bar(at - 0.2, [cell.mean for cell in ours], 0.4, label="auto")
            axes.bar(at + 0.2, best, 0.4, label="best other policy", color="0.7")
            plot_cells(axes, at - 0.2, ours, fmt="none", color="k")
            axes.set_xticks(at, labels, rotation=60, fontsize=8)
            axes.set(title=title, ylabel="R_T / T")
            axes.legend(loc="best")
        figure.suptitle(f"AUTO: regret on recordings and synthetic problems, {INTERVALS}")

    @cached_property
    def _grid(self) -> SensorField:
        return grid(10, SpatialKernel(math.inf, 0.2), NOISE_VARIANCE)

    @cached_property
    def _factor(self) -> Array:
        return random_fields.factor(self._grid.kernel)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = np.random.default_rng([seed, 100, run])
        if run < RECORDED_RUNS:
            yield from self._on_recordings(run, seed, generator)
        yield from self._on_fields(run, np.random.default_rng([seed, 101, run]))

    def _on_recordings(self, run: int, seed: int, generator: np.random.Generator) -> Iterator[Row]:
        splits = self._rooms | self._drawn_streets(generator)
        if run < FIELD_RUNS:
            splits |= self._fields
        for place, split in splits.items():
            yield from _with_differences(_rows_on_recording(run, seed, place, split))

    def _on_fields(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        T = self._horizon
        g = random_fields.draws(self._factor, T, generator)
        noise = generator.standard_normal(T) * NOISE_VARIANCE**0.5
        for change, rate in kinds_of_change().items():
            if isinstance(rate, int):
                f = g[np.arange(T) // rate]
            else:
                f = random_fields.drifting(g, rate) if rate else np.repeat(g[:1], T, axis=0)
            rows = self._rows_on_field(run, change, np.ascontiguousarray(f), noise)
            yield from _with_differences(rows)

    def _rows_on_field(self, run: int, change: str, f: Array, noise: Array) -> Iterator[Row]:
        for case in policies(kinds_of_change()[change]):
            policy = case.make(self._grid, beta=BETA, seed=run)
            regret = float(run_policy(policy, f, noise).regret.mean())
            yield Row(run, case_labels(place=change, policy=case.label), {"R_T/T": regret})


def _with_differences(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows of the experiment AUTO; add the number `BEHIND` to all rows but the first.

    The number is the regret of `auto` minus the regret of the row. The first of the given rows must
    be the row of `auto`.
    """
    first = next(rows)
    yield first
    for row in rows:
        behind = first.numbers["R_T/T"] - row.numbers["R_T/T"]
        yield Row(row.run, row.case, {**row.numbers, BEHIND: behind})


def _rows_on_recording(run: int, seed: int, place: str, split: TrainTestSplit) -> Iterator[Row]:
    split = split.of_varying_sensors()
    field, training = split.trained_field(), split.training
    days = field.to_model(training), split.interval, split.start
    own = {
        "auto": with_structure(field, training, split.interval, split.start),
        "kalman-ucb": with_model(field, fit_textbook(*days)),
    }
    highest = field.sensors[int(np.nanmean(training, axis=0).argmax())]
    cases = (
        PolicyCase("auto", "auto"),
        *PUBLISHED,
        PolicyCase("kalman-ucb", "kalman-ucb", {"width": best_width(field, *days)}),
        PolicyCase("static", "static", {"sensor": highest}),
        PolicyCase("random", "random"),
    )
    ours = np.empty(0)
    for case in cases:
        policy = case.make(own.get(case.label, field), seed=policy_seed(seed, run))
        regret, covered = regret_and_coverage(policy, split)
        regret /= field.scale
        numbers = {"R_T/T": float(regret.mean())}
        if case.label == "auto":
            ours, numbers["covered"] = regret, covered
        else:
            numbers[OVER_BLOCKS] = standard_error(block_means(ours - regret))
        yield Row(run, case_labels(place=place, policy=case.label), numbers)
    for label, mean in _reference_regrets(training, split.test).items():
        yield Row(run, case_labels(place=place, policy=label), {"R_T/T": mean / field.scale})


def _reference_regrets(training: Array, test: Array) -> dict[str, float]:
    """Return the mean regret of each reference of the experiment, in the unit of the readings.

    `LATE` always selects the sensor that was the best one in the previous row. `BEST_SENSOR` always
    selects the sensor with the highest mean in the test rows. Rows that are NaN are left out.
    """
    before, values = training[rows_without_nan(training)], test[rows_without_nan(test)]
    previous = np.concatenate((before[-1:], values[:-1])).argmax(axis=1)
    best = values.max(axis=1)
    return {
        LATE: float((best - values[np.arange(len(values)), previous]).mean()),
        BEST_SENSOR: float((best - values[:, values.mean(axis=0).argmax()]).mean()),
    }
