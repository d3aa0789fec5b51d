"""Pictures of replays, by matplotlib; imported only by commands that draw."""

from pathlib import Path
from typing import Any

import numpy as np

from edge_tvbo.backtest import ORACLE, UNIT, Backtest, Result
from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.learning.lessons import Lessons
from edge_tvbo.model.field import SensorField

FORMATS = (".png", ".svg", ".pdf")


def check(path: Path) -> None:
    """Raise `ConfigError` where no picture can be drawn to `path`, before the work is done."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: a picture's name ends in {', '.join(FORMATS)}.")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no directory {path.parent}.")


def plot_results(backtest: Backtest, results: list[Result], path: Path) -> None:
    """Draw mean regret so far of every policy, and what the first one picked, into `path`.

    Raises
    ------
    MissingExtra
        Without matplotlib.
    ConfigError
        For a file name whose ending matplotlib does not know, or a place it cannot write to.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    figure = Figure(figsize=(9, 8), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    hours = (np.arange(results[0].regret.shape[1]) + 1) * backtest.recording.interval / 3600
    _regret(above, hours, results)
    _picks(below, hours, backtest, results[0])
    try:
        figure.savefig(path, dpi=120)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from error


def plot_lessons(learned: Lessons, path: Path) -> None:
    """Draw what training days taught into `path`: course, covariance, memory and calibration.

    Raises what `plot_results` raises.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
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


def _regret(axes: Any, hours: Any, results: list[Result]) -> None:
    for result in results:
        if result.policy == ORACLE:
            continue
        so_far = result.regret.cumsum(axis=1) / np.arange(1, len(hours) + 1)
        (line,) = axes.plot(hours, so_far.mean(axis=0), label=result.policy)
        if len(so_far) > 1:
            low, high = so_far.min(axis=0), so_far.max(axis=0)
            axes.fill_between(hours, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set_ylabel(f"mean regret so far ({UNIT})")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, frameon=False)


def _picks(axes: Any, hours: Any, backtest: Backtest, result: Result) -> None:
    span = backtest.test_span
    values = backtest.recording.values[span.first : span.last]
    picks = result.picks[0]
    chosen = np.where(picks >= 0, values[np.arange(len(values)), picks], np.nan)
    best = values.max(axis=1) if backtest.field.objective == "max" else values.min(axis=1)
    low, high = values.min(axis=1), values.max(axis=1)
    axes.fill_between(hours, low, high, color="0.9", label="all sensors", linewidth=0)
    axes.plot(hours, best, color="0.4", linewidth=1, label="the sensor to follow")
    axes.plot(hours, chosen, ".", markersize=4, label=f"picked by {result.policy}")
    axes.set_xlabel("hours")
    axes.margins(y=0.15)
    axes.set_ylabel(f"reading ({backtest.field.unit})" if backtest.field.unit else "reading")
    axes.grid(alpha=0.3)
    axes.legend(ncols=3, frameon=False)
