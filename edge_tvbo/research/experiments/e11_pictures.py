"""Pictures of E11: figures 1 to 4 of [LB]."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edge_tvbo.models.box import BoxField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.research.experiments.base import ResultTable, Row
from edge_tvbo.research.experiments.benchmark_functions import BERKENKAMP
from edge_tvbo.research.experiments.curves import BAND, plot_with_band
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

STEPS = {"R_t": "cumulative regret", "best": "best regret"}  # axis labels of the curves
FIVE_PLACES = (0.7, 0.85, 0.93, 0.97, 1.0)  # of the readings, on the slope of Berkenkamp's function
GOOD_LENGTH_SCALE = 0.1  # fits the peak and the slope of Berkenkamp's function


def draw_regrets_and_length_scales(figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
    """Draw E11's pictures of the regrets (figure 3) and of the length scales (figure 2)."""
    functions = results.values_of("function")
    panels = figure.subplots(3, len(functions), squeeze=False)
    for column, name in zip(panels.T, functions, strict=True):
        for policy in POLICIES:
            curves = [row.curves for row in rows if row.case == case(name, policy, GROWTH)]
            _plot_steps(column[:2], curves, policy)
            counts = np.sum([each["length scales"] for each in curves], axis=0)
            column[2].stairs(counts / counts.sum(), EDGES, label=policy)
        for axes in column[:2]:
            axes.set_ylim(bottom=0)
        column[0].set_title(f"{name}, {len(curves)} runs")
        column[2].set(xlabel="length scale", xscale="log")
        if name in OPTIMAL:
            column[2].axvline(OPTIMAL[name], color="k", ls=":")
    for axes, label in zip(panels[:, 0], (*STEPS.values(), "share of steps"), strict=True):
        axes.set_ylabel(label)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.suptitle(f"[LB] figures 2 and 3 (dotted: θ*); {BAND}", fontsize=11)


def draw_growths(figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
    """Draw E11's picture of LB and A on Michalewicz' function, by growth function (figure 4)."""
    panels = figure.subplots(1, 2)
    for policy, style in ((BALANCED, "-"), (SHRUNK, "--")):
        for growth, colour in zip(GROWTHS, ("C0", "C1", "C2"), strict=True):
            curves = [row.curves for row in rows if row.case == case(RIDGES, policy, growth)]
            if curves:
                _plot_steps(panels, curves, f"{policy}, t^{growth}", ls=style, color=colour)
    for axes, label in zip(panels, STEPS.values(), strict=True):
        axes.set(title=RIDGES, ylabel=label)
        axes.set_ylim(bottom=0)
    if panels[0].get_lines():
        panels[0].legend(loc="best")
    figure.suptitle(f"[LB] figure 4: growth functions; {BAND}")


def draw_two_fits(figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
    """Draw E11's picture of two fits: with a good length scale, and with the most likely one.

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


def _plot_steps(
    panels: Any, curves: Sequence[dict[str, list[float]]], label: str, **style: Any
) -> None:
    """Plot one policy's cumulative and best regret into two panels of a picture of E11."""
    for axes, key in zip(panels, STEPS, strict=True):
        t = np.arange(1, len(curves[0][key]) + 1) * CURVE_STEP
        plot_with_band(axes, t, [each[key] for each in curves], label=label, **style)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
