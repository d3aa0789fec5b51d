"""From what a person typed to what it stands for: options that commands share, files, numbers."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo import datafiles, plugins
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo.backtest import Backtest
    from edge_tvbo.config import Settings

SPEED = click.FloatRange(0, 1e6, min_open=True)  # times as fast as it was
POSITIVE = click.FloatRange(0, min_open=True)

gaps_option = click.option(
    "--gaps",
    type=click.Choice(["filled", "silent"]),
    default="filled",
    show_default=True,
    help="Whether sensors answer with interpolated values where they measured nothing.",
)


def recording_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--test", help="Days tried on, both included; the rest by default."),
        click.option("--train", help="Days learned from: 2004-03-01:2004-03-06."),
        gaps_option,
        click.option("--data-dir", multiple=True, help="Where to look for data first."),
        click.option("--dataset", default="lab-sample", show_default=True),
    ):
        command = option(command)
    return command


def settings_of(config: Path) -> "Settings":
    """Read the configuration; raises `ConfigError` with every mistake in it."""
    from edge_tvbo.config import load
    from edge_tvbo.policies import parameters
    from edge_tvbo.runtime.wiring import wirings

    settings = load(config, parameters(), plugins.names("payloads"))
    wirings(settings)
    if any(field.model for field in settings.fields.values()):
        from edge_tvbo.runtime.assembly import controllers

        controllers(settings)
    return settings


def backtest_of(
    dataset: str,
    data_dir: Iterable[str],
    train: str | None,
    test: str | None,
    noise: float,
    gaps: str,
) -> "Backtest":
    from edge_tvbo.backtest import Backtest
    from edge_tvbo.replay import days, split

    recording = datafiles.recording(dataset, data_dir, gaps)
    train_span, test_span = split(recording, 0.75)
    if train is not None:
        train_span = days(recording, train)
        test_span = type(test_span)(train_span.last, len(recording.values))
    if test is not None:
        test_span = days(recording, test)
    return Backtest(recording, train_span, test_span, noise)


def parameters_of(assignments: Iterable[str]) -> dict[str, Any]:
    """Give ``name=value`` pairs as keywords; values are read as TOML.

    >>> parameters_of(["epsilon=0.03", "beta={c1=0.4, c2=4}"])
    {'epsilon': 0.03, 'beta': {'c1': 0.4, 'c2': 4}}
    """
    import tomllib

    try:
        return tomllib.loads("\n".join(assignments))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--set: {error}; write  --set epsilon=0.03") from None
