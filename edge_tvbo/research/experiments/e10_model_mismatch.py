"""E10: three models of change, each on its own data and on the others'.

[M24] chapter 10: 50 x 50 places, squared exponential, l = √0.2, σ = 0.1. Parameters are fitted
each interval (algorithm 3), or told. The thesis does not say which β it takes here; chapter 5's
best, 2, is taken.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.models.beta import ConstantBeta
from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior
from edge_tvbo.models.posteriors.select import make_posterior
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import (
    FittableModel,
    Momentum,
    Sigmoid,
    TimeVarying,
)
from edge_tvbo.models.triggers import Never
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.base import UpperConfidence
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import Expectation, Row, Summary
from edge_tvbo.research.experiments.per_run import OnGrid
from edge_tvbo.research.experiments.run_policy import play

HORIZON = 200
SIGMA = 0.1
BETA = ConstantBeta(2.0)
SMOOTHED = 20  # intervals of the moving average


class Data(NamedTuple):
    """How a field changes, and how many starts a fit to it makes."""

    kernel: FittableModel
    restarts: int


DATA = {
    "TV": Data(TimeVarying(0.01), 10),
    "MTV": Data(Momentum(0.99, 0.98), 10),
    "TTV ρ=5": Data(Sigmoid(100.0, 5.0), 3),
    "TTV ρ=20": Data(Sigmoid(100.0, 20.0), 3),
}
STARTS: dict[str, FittableModel] = {
    "TV": TimeVarying(0.03),
    "MTV": Momentum(0.97, 0.5),
    "TTV": Sigmoid(100.0, 10.0),
}
TOLD = "told the truth"


class Mismatch(OnGrid):
    """R_T/T of each model on each model's data."""

    name = "E10"
    title = "models of change on their own data and on others'"
    source = "[M24] figures 10.1-10.4"
    runs = 200
    spatial = SpatialKernel(math.inf, math.sqrt(0.2))
    noise_variance = SIGMA**2

    def claims(self, summary: Summary) -> list[Expectation]:
        """Say which model wins where, told and fitted."""
        told = [
            Expectation(f"{data} data: the model that is told the truth is the best", best == TOLD)
            for data in DATA
            for best in [_best(summary, data, (*STARTS, TOLD))]
        ]
        fitted = [
            Expectation(f"{data} data: the best fitted model is {best}", best == data[:3].strip())
            for data in DATA
            for best in [_best(summary, data, tuple(STARTS))]
        ]
        total = {model: sum(_mean(summary, data, model) for data in DATA) for model in STARTS}
        rounder = min(total, key=total.__getitem__)
        return [*told, *fitted, Expectation("MTV is the best all-rounder", rounder == "MTV")]

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw regret so far above, and its moving average below, a column for each data."""
        panels = figure.subplots(2, len(DATA), sharex=True, sharey="row")
        t = np.arange(1, HORIZON + 1)
        weights = np.ones(SMOOTHED) / SMOOTHED
        for column, data in enumerate(DATA):
            for model in (*STARTS, TOLD):
                case = {"data": data, "model": model}
                r = np.mean([row.curves["r_t"] for row in rows if row.case == case], axis=0)
                panels[0][column].plot(t, r.cumsum() / t, label=model)
                smooth = np.convolve(r, weights, mode="valid")
                panels[1][column].plot(t[SMOOTHED - 1 :], smooth)
            panels[0][column].set_title(f"{data} data")
            panels[1][column].set_xlabel("t")
        panels[0][0].set_ylabel("R_t / t")
        panels[1][0].set_ylabel(f"r_t, mean of {SMOOTHED}")
        panels[0][0].legend(fontsize=8)

    def _run(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        g = sample_fields.draws(self._factor, HORIZON + 1, generator)
        noise = generator.standard_normal(HORIZON) * SIGMA
        for label, data in DATA.items():
            f = _field_of(data.kernel, g)
            posteriors = {
                model: FittedPosterior(
                    self._field, start, HORIZON, restarts=data.restarts, seed=run
                )
                for model, start in STARTS.items()
            }
            for model, posterior in (
                *posteriors.items(),
                (TOLD, make_posterior(self._field, data.kernel, HORIZON)),
            ):
                policy = UpperConfidence(model, self._field, posterior, BETA, Never(), seed=run)
                regret = play(policy, f, noise).regret
                yield Row(
                    run,
                    {"data": label, "model": model},
                    {"R_T/T": float(regret.mean())},
                    {"r_t": regret.round(5).tolist()},
                )


def _field_of(kernel: FittableModel, g: Array) -> Array:
    match kernel:
        case TimeVarying(epsilon):
            return sample_fields.drifting(g[:-1], epsilon)
        case Momentum(epsilon, alpha):
            return sample_fields.with_momentum(g, epsilon, alpha)
        case Sigmoid(tau, rho):
            return sample_fields.turning(g, HORIZON, tau, rho)
    raise AssertionError(kernel)


def _mean(summary: Summary, data: str, model: str) -> float:
    return summary.mean("R_T/T", data=data, model=model)


def _best(summary: Summary, data: str, models: tuple[str, ...]) -> str:
    return min(models, key=lambda model: _mean(summary, data, model))
