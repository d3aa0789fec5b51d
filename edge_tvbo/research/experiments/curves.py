"""Plots of an experiment's means over the runs, with 95 % confidence intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from edge_tvbo.research.confidence import half_width
from edge_tvbo.research.experiments.result_table import Cell, Labels, ResultTable

BAND = "the bands show 95 % confidence intervals of the mean over the runs"
INTERVALS = "with 95 % confidence intervals of the mean over the runs"


def plot_mean_curves(
    axes: Any,
    results: ResultTable,
    curve: str,
    cases: Mapping[str, Labels],
    step: int = 1,
    **style: Any,
) -> None:
    """Plot the mean curve of each case of an experiment, with the 95 % band of the mean.

    A curve has one value for every `step` intervals.
    """
    for label, case in cases.items():
        curves = results.curves(curve, case)
        plot_with_band(axes, np.arange(1, len(curves[0]) + 1) * step, curves, label=label, **style)
    axes.grid(alpha=0.3)


def plot_cells(axes: Any, x: ArrayLike, cells: Sequence[Cell], **style: Any) -> Any:
    """Plot the means of an experiment's `cells` over `x`, with 95 % intervals; return the plot."""
    return axes.errorbar(x, [c.mean for c in cells], [c.half_width for c in cells], **style)


def plot_with_band(axes: Any, x: ArrayLike, curves: ArrayLike, **style: Any) -> None:
    """Plot the mean of `curves` (runs, T) over `x` (T,), with its 95 % confidence interval."""
    values = np.asarray(curves, np.float64)
    mean = values.mean(axis=0)
    (line,) = axes.plot(x, mean, **style)
    if len(values) > 1:
        half = half_width(values)
        axes.fill_between(x, mean - half, mean + half, color=line.get_color(), alpha=0.2, lw=0)
