"""Plot of a training report with matplotlib; imported only by commands that draw a plot."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import DAY, WEEK, StructuralModel
from edge_tvbo.numerics.types import Array
from edge_tvbo.training.training_report import TrainingReport

FORMATS = (".png", ".svg", ".pdf")
MAX_LEGEND = 12  # sensors that a legend lists
COLOURS = 10  # colours in matplotlib's cycle; the lines of further sensors are dashed
MAX_TICKS = 60  # sensors that the axis of a matrix names


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


def plot_training_report(report: TrainingReport, path: Path, names: Sequence[str]) -> None:
    """Plot a training report: course, correlations, autocorrelation and liveliness.

    The liveliness compares the size of the residuals in each part of the season with the average.
    `names` are the display names of the sensors.

    If `path` cannot be written for a reason that `check` does not detect, a `ConfigError` is
    raised.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    (course, covariance), (memory, liveliness) = figure.subplots(2, 2)
    _plot_course(course, report.field, names)
    spread = np.sqrt(np.diag(report.field.kernel))
    image = covariance.imshow(report.field.kernel / np.outer(spread, spread), vmin=-1, vmax=1)
    covariance.set(title="correlation of the sensors")
    _name_sensors(covariance, names)
    figure.colorbar(image, ax=covariance)
    memory.plot(np.arange(1, len(report.autocorrelation) + 1), report.autocorrelation)
    memory.axhline(0, color="0.6", linewidth=0.8)
    memory.set(title="autocorrelation of the residuals", xlabel="intervals")
    _plot_liveliness(liveliness, report.field)
    try:
        figure.savefig(path, dpi=120)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _name_sensors(axes: Any, names: Sequence[str]) -> None:
    """Write the names of the sensors beside the rows and below the columns of a plotted matrix.

    If there are many sensors, only some are named.
    """
    step = -(-len(names) // MAX_TICKS)
    size = 8 if len(names) <= MAX_LEGEND else 5
    places, some = range(0, len(names), step), names[::step]
    axes.set_xticks(places, some, rotation=90, fontsize=size)
    axes.set_yticks(places, some, fontsize=size)


def _plot_course(axes: Any, field: SensorField, names: Sequence[str]) -> None:
    axes.set(title="course of each sensor")
    axes.set_ylabel(f"reading ({field.unit})" if field.unit else "reading")
    structure = field.structure
    if structure is None:
        axes.text(0.5, 0.5, "no structural model", ha="center", transform=axes.transAxes)
        return
    if not structure.period:
        _plot_means(axes, structure.course.mean(axis=0), field, names)
        return
    times = np.arange(len(structure.course)) / len(structure.course) * structure.period
    unit, length = ("hour (UTC)", 3600.0) if structure.period <= WEEK else ("day", DAY)
    means = np.vectorize(field.to_unit)(structure.course)
    named = len(names) <= MAX_LEGEND
    for number, (name, mean) in enumerate(zip(names, means.T, strict=True)):
        dashes = "-" if number < COLOURS else "--"
        style = {"label": name, "linestyle": dashes} if named else {"color": "0.7"}
        axes.plot(times / length, mean, linewidth=0.8 if named else 0.5, **style)
    if not named:
        _mark_extremes(axes, times / length, means, names)
    middle = means.mean(axis=1)
    cycle = structure.season_period
    lively = np.interp(times, _middles(structure), structure.liveliness, period=cycle)
    average = structure.course.mean(axis=1)
    spread = field.std_to_unit(average, structure.spread.mean() * lively)
    axes.plot(times / length, middle, color="black", label="mean of all sensors")
    axes.fill_between(
        times / length,
        middle - spread,
        middle + spread,
        color="black",
        alpha=0.1,
        label="± one standard deviation",
    )
    axes.set_xlabel(unit)
    axes.legend(frameon=False, fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.15))


def _plot_means(axes: Any, means: Array, field: SensorField, names: Sequence[str]) -> None:
    """Plot the mean of each sensor, for a field without a season."""
    axes.set_title("mean of each sensor; no season was found")
    axes.plot(np.vectorize(field.to_unit)(means), "o")
    step = -(-len(names) // MAX_TICKS)
    axes.set_xticks(range(0, len(means), step), names[::step], rotation=90, fontsize=6)


def _mark_extremes(axes: Any, times: Array, means: Array, names: Sequence[str]) -> None:
    """Plot the courses of the sensors that are highest and lowest on average, with their names."""
    average = means.mean(axis=0)
    for what, index in (("highest", int(average.argmax())), ("lowest", int(average.argmin()))):
        colour = "tab:red" if what == "highest" else "tab:blue"
        axes.plot(times, means[:, index], color=colour, label=f"{what}: {names[index]}")


def _plot_liveliness(axes: Any, field: SensorField) -> None:
    axes.set(title="liveliness in each part of the season")
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
    """Return the middle of each plotted part of the season, in s."""
    parts = len(structure.liveliness)
    return (np.arange(parts) + 0.5) * structure.season_period / parts
