"""Pictures of what was learned, by matplotlib; imported only by commands that draw."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.field import SensorField
from edge_tvbo.training.training_report import TrainingReport

FORMATS = (".png", ".svg", ".pdf")


def check(path: Path) -> None:
    """Find out before the work is done whether a picture can be drawn to `path`.

    Raises
    ------
    ConfigError
        For a file name whose ending matplotlib does not know, or a directory there is not.
    MissingExtra
        Without matplotlib.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "plots")
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: a picture's name ends in {', '.join(FORMATS)}.")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no directory {path.parent}.")


def plot_training_report(learned: TrainingReport, path: Path) -> None:
    """Draw what training days taught into `path`: course, covariance, memory and calibration.

    What `check` found good can still fail: raises `ConfigError` for a place it cannot write to.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    (course, covariance), (memory, calibration) = figure.subplots(2, 2)
    _course(course, learned.field)
    spread = np.sqrt(np.diag(learned.field.kernel))
    image = covariance.imshow(learned.field.kernel / np.outer(spread, spread), vmin=-1, vmax=1)
    covariance.set(title="correlation of the sensors", xlabel="sensor", ylabel="sensor")
    figure.colorbar(image, ax=covariance)
    memory.plot(np.arange(1, len(learned.autocorrelation) + 1), learned.autocorrelation)
    memory.axhline(0, color="0.6", linewidth=0.8)
    memory.set(title="autocorrelation of what is left", xlabel="intervals")
    days = np.arange(1, len(learned.coverage) + 1)
    calibration.bar(days, learned.coverage)
    calibration.axhline(0.9, color="k", linestyle=":")
    calibration.set(title="90 % intervals, day by day held out", xlabel="training day", ylim=(0, 1))
    try:
        figure.savefig(path, dpi=120)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _course(axes: Any, field: SensorField) -> None:
    axes.set(title="course of the day", xlabel="hour (UTC)")
    axes.set_ylabel(f"reading ({field.unit})" if field.unit else "reading")
    if field.rhythm is None:
        axes.text(0.5, 0.5, "none", ha="center", transform=axes.transAxes)
        return
    hours = np.arange(len(field.rhythm.scale)) * 24 / len(field.rhythm.scale)
    means = np.vectorize(field.to_unit)(field.rhythm.mean)
    axes.plot(hours, means, color="0.7", linewidth=0.5)
    middle, spread = means.mean(axis=1), field.rhythm.scale * field.scale
    axes.plot(hours, middle, color="tab:blue", label="mean of all sensors")
    axes.fill_between(
        hours, middle - spread, middle + spread, alpha=0.2, label="about it, one deviation"
    )
    axes.legend(frameon=False)
