"""E10: three temporal models, each tested on data that follow the model and on other data.

Source: [M24] chapter 10. The fields have 50 x 50 places and a squared exponential kernel with the
length scale l = √0.2; the standard deviation σ of the noise is 0.1. Three policies fit the
parameters of a temporal model in each interval (algorithm 3), and a fourth policy is given the true
model. The `notes` of `ModelMismatch` list the differences from the thesis.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.models.beta import ConstantBeta
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior
from edge_tvbo.models.posteriors.select import make_posterior
from edge_tvbo.models.sigmoid import Sigmoid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import FittableModel, TimeVarying
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.upper_confidence import UpperConfidence
from edge_tvbo.research import random_fields
from edge_tvbo.research.experiments.curves import BAND, plot_with_band
from edge_tvbo.research.experiments.grid_experiment import GridExperiment
from edge_tvbo.research.experiments.result_table import (
    Expectation,
    ResultTable,
    Row,
    Table,
    case_labels,
)
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.statistics import expect_less

HORIZON = 200
SIGMA = 0.1
BETA = ConstantBeta(2.0)
SMOOTHING = 20  # length of the moving average, in intervals


class FieldChange(NamedTuple):
    """A kind of data in experiment E10, with its true temporal model."""

    kernel: FittableModel
    restarts: int  # largest number of points from which a fit starts


DATA = {
    "TV": FieldChange(TimeVarying(0.01), 10),
    "MTV": FieldChange(Momentum(0.99, 0.98), 10),
    "TTV ρ=5": FieldChange(Sigmoid(100.0, 5.0), 3),
    "TTV ρ=20": FieldChange(Sigmoid(100.0, 20.0), 3),
}
STARTS: dict[str, FittableModel] = {
    "TV": TimeVarying(0.03),
    "MTV": Momentum(0.97, 0.5),
    "TTV": Sigmoid(100.0, 10.0),
}
TRUE_MODEL = "given the true model"
ORDER = {  # the text of chapter 10 states that the first model of each pair is better
    "TV": ((TRUE_MODEL, "TV"), ("TV", "MTV"), ("MTV", "TTV")),
    "MTV": ((TRUE_MODEL, "MTV"), ("MTV", "TV"), ("TV", "TTV")),
    "TTV ρ=5": ((TRUE_MODEL, "TTV"), (TRUE_MODEL, "MTV"), ("MTV", "TV"), ("MTV", "TTV")),
    "TTV ρ=20": ((TRUE_MODEL, "TTV"), (TRUE_MODEL, "MTV"), ("MTV", "TTV")),
}


class ModelMismatch(GridExperiment):
    """The experiment E10: regret R_T/T of each temporal model on the data of each model."""

    name = "E10"
    title = "temporal models on data of their own kind and of other kinds"
    source = "[M24] figures 10.1-10.4"
    runs = 200
    tables = (Table("R_T/T", "model", "data"),)
    notes = """
Each column is for one kind of data. Each row is for the temporal model of the policy. The
parameters of the models TV, MTV and TTV are fitted in each interval; "given the true model" is the
model of the data, with its true parameters. The thesis [M24] has no table; the claims are
statements of its text. The text calls the fitted TTV model poor on TTV data, and recommends the TTV
model only if its parameters τ and ρ are roughly known.

- Algorithm 3 of the thesis also fits the parameters of the spatial kernel and σ. Here, the policies
  are given these parameters, and fit only the parameters of the temporal model.
- The thesis does not state β for this experiment. Here, β = 2, the best value of chapter 5 of the
  thesis.
- On TV and MTV data, the fit of the parameters in interval t starts from min(10, 200/t) points, as
  in the thesis. On TTV data, the fit has min(3, 200/t) starting points; in the thesis, it has 3 in
  every interval.
- The thesis does not state the bounds of the fitted parameters. It states only that the optimiser
  is a quasi-Newton method; here, it is L-BFGS-B.
"""
    spatial = SpatialKernel(math.inf, math.sqrt(0.2))
    noise_variance = SIGMA**2

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Test, per kind of data, whether experiment E10 ranks the models as the thesis does."""
        return [
            expect_less(
                f"{data} data: {_named(better)} has less regret than {_named(worse)}",
                results.differences(
                    "R_T/T", *(case_labels(data=data, model=each) for each in (better, worse))
                ),
            )
            for data, order in ORDER.items()
            for better, worse in order
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the mean regret and its moving average for each kind of data of experiment E10."""
        panels = figure.subplots(2, len(DATA), sharex=True, sharey="row")
        t = np.arange(1, HORIZON + 1)
        weights = np.ones(SMOOTHING) / SMOOTHING
        for at, (data, (top, bottom)) in enumerate(zip(DATA, panels.T, strict=True), 1):
            for model in (*STARTS, TRUE_MODEL):
                regrets = np.array(results.curves("r_t", case_labels(data=data, model=model)))
                plot_with_band(top, t, regrets.cumsum(axis=1) / t, label=model)
                smooth = [np.convolve(r, weights, mode="valid") for r in regrets]
                plot_with_band(bottom, t[SMOOTHING - 1 :], smooth)
            top.set(title=f"10.{at}: {data} data", ylim=(0, None))
            bottom.set(xlabel="t", ylim=(0, None))
            for axes in (top, bottom):
                axes.grid(alpha=0.3)
        panels[0][0].set_ylabel("R_t / t")
        panels[1][0].set_ylabel(f"r_t, mean of {SMOOTHING} intervals")
        panels[0][-1].legend(loc="best")
        figure.suptitle(f"[M24] figures 10.1-10.4; {BAND}")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        g = random_fields.draws(self._factor, HORIZON + 1, generator)
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
                (TRUE_MODEL, make_posterior(self._field, data.kernel, HORIZON)),
            ):
                policy = UpperConfidence(model, self._field, posterior, BETA, seed=run)
                regret = run_policy(policy, f, noise).regret
                yield Row(
                    run,
                    case_labels(data=label, model=model),
                    {"R_T/T": float(regret.mean())},
                    {"r_t": regret.round(5).tolist()},
                )


def _field_of(kernel: FittableModel, g: Array) -> Array:
    match kernel:
        case TimeVarying(epsilon):
            return random_fields.drifting(g[:-1], epsilon)
        case Momentum(epsilon, alpha):
            return random_fields.with_momentum(g, epsilon, alpha)
        case Sigmoid(tau, rho):
            return random_fields.turning(g, HORIZON, tau, rho)
    raise AssertionError(kernel)


def _named(model: str) -> str:
    return "the true model" if model == TRUE_MODEL else f"the fitted {model} model"
