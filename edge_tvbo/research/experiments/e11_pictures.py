"""Pictures of E11: figures 1 to 4 of [LB]."""

from typing import Any

import numpy as np

from edge_tvbo.models.box import BoxField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.research.experiments.benchmark_functions import BERKENKAMP
from edge_tvbo.research.experiments.curves import BAND, plot_mean_curves
from edge_tvbo.research.experiments.e11_objectives import NOISE_VARIANCE, NU
from edge_tvbo.research.experiments.e11_policies import (
    BALANCED,
    CURVE_STEP,
    EDGES,
    GROWTH,
    GROWTHS,
    OPTIMAL,
    POLICIES,
    RIDGES,
    SHRUNK,
    Standardised,
    case,
    most_likely_nearby,
)
from edge_tvbo.research.experiments.result_table import Labels, ResultTable

STEPS = {"R_t": "cumulative regret", "best": "best regret"}  # axis labels of the curves
FIVE_PLACES = (0.7, 0.85, 0.93, 0.97, 1.0)  # of the readings, on the slope of Berkenkamp's function
GOOD_LENGTH_SCALE = 0.1  # fits the peak and the slope of Berkenkamp's function


def draw_regrets_and_length_scales(figure: Any, results: ResultTable) -> None:
    """Draw experiment E11's regrets (figure 3) and its length scales (figure 2)."""
    functions = results.values_of("function")
    panels = figure.subplots(3, len(functions), squeeze=False)
    for column, name in zip(panels.T, functions, strict=True):
        for policy in POLICIES:
            labels = case(name, policy, GROWTH)
            _plot_steps(column[:2], results, labels, policy)
            counts = np.sum(results.curves("length scales", labels), axis=0)
            column[2].stairs(counts / counts.sum(), EDGES, label=policy)
        for axes in column[:2]:
            axes.set_ylim(bottom=0)
        column[0].set_title(f"{name}, {len(results.curves('R_t', labels))} runs")
        column[2].set(xlabel="length scale", xscale="log")
        if name in OPTIMAL:
            column[2].axvline(OPTIMAL[name], color="k", ls=":")
    for axes, label in zip(panels[:, 0], (*STEPS.values(), "share of steps"), strict=True):
        axes.set_ylabel(label)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.suptitle(f"[LB] figures 2 and 3 (dotted: θ*); {BAND}", fontsize=11)


def draw_growths(figure: Any, results: ResultTable) -> None:
    """Draw figure 4 for experiment E11: LB-GP-UCB and A-GP-UCB on Michalewicz' function.

    There is one curve for each policy and growth function.
    """
    panels = figure.subplots(1, 2)
    if RIDGES in results.values_of("function"):
        for policy, style in ((BALANCED, "-"), (SHRUNK, "--")):
            for growth, colour in zip(GROWTHS, ("C0", "C1", "C2"), strict=True):
                labels, text = case(RIDGES, policy, growth), f"{policy}, t^{growth}"
                _plot_steps(panels, results, labels, text, ls=style, color=colour)
        panels[0].legend(loc="best")
    for axes, label in zip(panels, STEPS.values(), strict=True):
        axes.set(title=RIDGES, ylabel=label)
        axes.set_ylim(bottom=0)
    figure.suptitle(f"[LB] figure 4: growth functions; {BAND}")


def draw_two_fits(figure: Any, results: ResultTable) -> None:
    """Draw, for experiment E11, fits with a good and with the most likely length scale.

    Both fits are to the same five readings. The picture is figure 1 of the paper.
    """
    field = BoxField([0.0], [1.0], SpatialKernel(NU), NOISE_VARIANCE, candidates=16)
    readings = Standardised("", field, len(FIVE_PLACES), NU)
    for place in FIVE_PLACES:
        readings.add((place,), float(BERKENKAMP.evaluate([place])))
    y, x, seen = readings.y[: readings.held], np.linspace(0.0, 1.0, 200), np.array(FIVE_PLACES)
    scales = {"a good length scale": GOOD_LENGTH_SCALE, "MLE": most_likely_nearby(readings)}
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (label, theta) in zip(panels, scales.items(), strict=True):
        kernel = SpatialKernel(NU, theta)
        K = kernel(seen[:, None], seen[:, None]) + NOISE_VARIANCE * np.eye(len(seen))
        k = kernel(x[:, None], seen[:, None])
        mean = k @ np.linalg.solve(K, y - y.mean()) / readings.spread
        variance = 1.0 - (k * np.linalg.solve(K, k.T).T).sum(axis=1)
        std = np.sqrt(np.maximum(variance, 0.0)) * readings.spread
        mean = y.mean() + mean * readings.spread
        axes.plot(x, BERKENKAMP.evaluate(x[:, None]), "k--", label="the function")
        axes.plot(x, mean, label="mean")
        axes.fill_between(x, mean - std, mean + std, alpha=0.3, label="± 1 sd")
        axes.plot(seen, y, "o", color="C3", label="readings")
        axes.axvline(x[np.argmax(mean + std)], color="C3", ls=":", label="next choice")
        axes.set(title=f"{label}: θ = {theta:.2f}", xlabel="x", ylabel="f(x)")
    figure.axes[0].legend(loc="best")
    figure.suptitle("[LB] figure 1: with the most likely length scale the peak stays hidden")


def _plot_steps(panels: Any, results: ResultTable, case: Labels, label: str, **style: Any) -> None:
    """Plot a policy's cumulative and best regret in experiment E11 into two panels."""
    for axes, key in zip(panels, STEPS, strict=True):
        plot_mean_curves(axes, results, key, {label: case}, CURVE_STEP, **style)
        axes.set_xlabel("step")
