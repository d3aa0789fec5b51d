"""Plot of a training report with matplotlib; only commands that plot import this module."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structure import DAY, WEEK, StructuralModel
from edge_tvbo.numerics.types import Array
from edge_tvbo.training.training_report import TrainingReport

FORMATS = (".png", ".svg", ".pdf")


def check(path: Path) -> None:
    """Check, before the training starts, that a training plot can be written to `path`.

    Raises
    ------
    ConfigError
        If the suffix of the file is not supported, or its directory does not exist.
    MissingExtra
        If matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "plots")
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: the name of a plot must end in {', '.join(FORMATS)}.")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: the directory {path.parent} does not exist.")


def plot_training_report(report: TrainingReport, path: Path) -> None:
    """Plot a training report: course, correlations, autocorrelation and liveliness.

    If `path` cannot be written for a reason that `check` does not detect, a `ConfigError` is
    raised.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    (course, covariance), (memory, liveliness) = figure.subplots(2, 2)
    _plot_course(course, report.field)
    spread = np.sqrt(np.diag(report.field.kernel))
    image = covariance.imshow(report.field.kernel / np.outer(spread, spread), vmin=-1, vmax=1)
    covariance.set(title="correlation of the sensors", xlabel="sensor", ylabel="sensor")
    figure.colorbar(image, ax=covariance)
    memory.plot(np.arange(1, len(report.autocorrelation) + 1), report.autocorrelation)
    memory.axhline(0, color="0.6", linewidth=0.8)
    memory.set(title="autocorrelation of the residuals", xlabel="intervals")
    _plot_liveliness(liveliness, report.field)
    try:
        figure.savefig(path, dpi=120)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _plot_course(axes: Any, field: SensorField) -> None:
    axes.set(title="course of each sensor")
    axes.set_ylabel(f"reading ({field.unit})" if field.unit else "reading")
    structure = field.structure
    if structure is None or not structure.period:
        axes.text(0.5, 0.5, "no season", ha="center", transform=axes.transAxes)
        return
    times = np.arange(len(structure.course)) / len(structure.course) * structure.period
    unit, length = ("hour (UTC)", 3600.0) if structure.period <= WEEK else ("day", DAY)
    means = np.vectorize(field.to_unit)(structure.course)
    axes.plot(times / length, means, color="0.7", linewidth=0.5)
    middle = means.mean(axis=1)
    cycle = structure.season_period
    lively = np.interp(times, _middles(structure), structure.liveliness, period=cycle)
    average = structure.course.mean(axis=1)
    spread = field.std_to_unit(average, structure.spread.mean() * lively)
    axes.plot(times / length, middle, color="tab:blue", label="mean of all sensors")
    axes.fill_between(
        times / length,
        middle - spread,
        middle + spread,
        alpha=0.2,
        label="± one standard deviation",
    )
    axes.set_xlabel(unit)
    axes.legend(frameon=False)


def _plot_liveliness(axes: Any, field: SensorField) -> None:
    axes.set(title="liveliness by the part of the season")
    structure = field.structure
    if structure is None or not structure.period:
        axes.text(0.5, 0.5, "no season", ha="center", transform=axes.transAxes)
        return
    cycle = structure.season_period
    unit, length = ("hour (UTC)", 3600.0) if cycle <= WEEK else ("day", DAY)
    width = cycle / len(structure.liveliness)
    axes.bar(_middles(structure) / length, structure.liveliness, 0.9 * width / length)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(unit)


def _middles(structure: StructuralModel) -> Array:
    """Return the middle of each part of the season that has a liveliness, in s."""
    parts = len(structure.liveliness)
    return (np.arange(parts) + 0.5) * structure.season_period / parts
