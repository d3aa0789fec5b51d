"""Curves of an experiment's rows, averaged over runs and drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.research.experiments.base import Labels, Row


def mean_curve(rows: Sequence[Row], curve: str, case: Labels) -> NDArray[np.float64]:
    """Return the mean of a curve over the runs of a case."""
    return np.asarray(np.mean([row.curves[curve] for row in rows if row.case == case], axis=0))


def plot_mean_curves(
    axes: Any,
    rows: Sequence[Row],
    curve: str,
    cases: Mapping[str, Labels],
    t: NDArray[np.float64] | None = None,
) -> None:
    """Plot the mean curve of each case, by its label in the legend, over `t` or 1, 2, ..."""
    for label, case in cases.items():
        mean = mean_curve(rows, curve, case)
        axes.plot(np.arange(1, len(mean) + 1) if t is None else t, mean, label=label)
    axes.grid(alpha=0.3)
