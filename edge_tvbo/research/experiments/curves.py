"""Curves of an experiment: their means over all runs, and plots of these means."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edge_tvbo.numerics.types import Array
from edge_tvbo.research.experiments.base import Labels, Row


def mean_curve(rows: Sequence[Row], curve: str, case: Labels) -> Array:
    """Return the curve with the name `curve`, averaged over the runs of one case."""
    return np.asarray(np.mean([row.curves[curve] for row in rows if row.case == case], axis=0))


def plot_mean_curves(
    axes: Any,
    rows: Sequence[Row],
    curve: str,
    cases: Mapping[str, Labels],
    step: int = 1,
) -> None:
    """Plot the mean curve of each case over time; a curve has a point every `step` intervals."""
    for label, case in cases.items():
        mean = mean_curve(rows, curve, case)
        axes.plot(np.arange(1, len(mean) + 1) * step, mean, label=label)
    axes.grid(alpha=0.3)
