"""Plot of a training report with matplotlib; only commands that plot import this module."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.field import SensorField
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
    """Plot a training report: daily profile, correlations, autocorrelation and coverage.

    If `path` cannot be written for a reason that `check` does not detect, a `ConfigError` is
    raised.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    (profile, covariance), (memory, calibration) = figure.subplots(2, 2)
    _plot_daily_profile(profile, report.field)
    spread = np.sqrt(np.diag(report.field.kernel))
    image = covariance.imshow(report.field.kernel / np.outer(spread, spread), vmin=-1, vmax=1)
    covariance.set(title="correlation of the sensors", xlabel="sensor", ylabel="sensor")
    figure.colorbar(image, ax=covariance)
    memory.plot(np.arange(1, len(report.autocorrelation) + 1), report.autocorrelation)
    memory.axhline(0, color="0.6", linewidth=0.8)
    memory.set(title="autocorrelation of the residuals", xlabel="intervals")
    days = np.arange(1, len(report.coverage) + 1)
    calibration.bar(days, report.coverage)
    calibration.axhline(0.9, color="k", linestyle=":")
    calibration.set(
        title="coverage of 90 % intervals on held-out days", xlabel="training day", ylim=(0, 1)
    )
    try:
        figure.savefig(path, dpi=120)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _plot_daily_profile(axes: Any, field: SensorField) -> None:
    axes.set(title="daily profile", xlabel="hour (UTC)")
    axes.set_ylabel(f"reading ({field.unit})" if field.unit else "reading")
    if field.daily_profile is None:
        axes.text(0.5, 0.5, "none", ha="center", transform=axes.transAxes)
        return
    hours = np.arange(len(field.daily_profile.scale)) * 24 / len(field.daily_profile.scale)
    means = np.vectorize(field.to_unit)(field.daily_profile.mean)
    axes.plot(hours, means, color="0.7", linewidth=0.5)
    middle, spread = means.mean(axis=1), field.daily_profile.scale * field.scale
    axes.plot(hours, middle, color="tab:blue", label="mean of all sensors")
    axes.fill_between(
        hours, middle - spread, middle + spread, alpha=0.2, label="± one standard deviation"
    )
    axes.legend(frameon=False)
