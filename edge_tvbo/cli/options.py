"""From what a person typed to what it stands for: options that commands share, files, numbers."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo import plugins
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo.config import Settings
    from edge_tvbo.ports import Each
    from edge_tvbo.simulation.backtest import Backtest

SPEED = click.FloatRange(0, 1e6, min_open=True)  # times as fast as it was
POSITIVE = click.FloatRange(0, min_open=True)
DEFAULT = click.core.ParameterSource.DEFAULT
ELSEWHERE = ("out", "as_json", "cluster", "jobs")  # options that change no result

gaps_option = click.option(
    "--gaps",
    type=click.Choice(["filled", "silent"]),
    default="filled",
    show_default=True,
    help="Whether sensors answer with interpolated values where they measured nothing.",
)


cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS|local",
    help="A Dask cluster that works: its scheduler, or processes on this machine.",
)
jobs_option = click.option(
    "--jobs", type=click.IntRange(1), help="Processes; by default one for each core."
)


def by_dataset(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Complete the name of a dataset, in a shell."""
    return [name for name in plugins.names("datasets") if name.startswith(begun)]


def by_policy(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Complete the name of a policy, the last one where commas part several."""
    from edge_tvbo.policy import policies

    before, comma, last = begun.rpartition(",")
    return [f"{before}{comma}{name}" for name in policies() if name.startswith(last)]


def duration(context: click.Context, option: click.Parameter, text: str) -> float:
    """Give the seconds of an option such as ``5s``."""
    from edge_tvbo.config import seconds

    try:
        return seconds(text)
    except ConfigError as error:
        raise click.BadParameter(f"{error}.") from None


def recording_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--test", help="Days tried on, both included; the rest by default."),
        click.option("--train", help="Days learned from: 2004-03-01:2004-03-06."),
        gaps_option,
        click.option("--data-dir", multiple=True, help="Where to look for data first."),
        click.option(
            "--dataset", default="lab-sample", show_default=True, shell_complete=by_dataset
        ),
    ):
        command = option(command)
    return command


def settings_of(config: Path) -> "Settings":
    """Read the configuration; raises `ConfigError` with every mistake in it."""
    from edge_tvbo.config import load
    from edge_tvbo.daemon.build_mqtt import wirings

    settings = load(config, plugins.names("payloads"))
    wirings(settings)
    if any(field.model for field in settings.fields.values()):
        from edge_tvbo.daemon.build_controllers import controllers

        controllers(settings)
    return settings


def backtest_of(
    dataset: str,
    data_dir: Iterable[str],
    train: str | None,
    test: str | None,
    noise: float,
    gaps: str,
    budget: float | None = None,
) -> "Backtest":
    from edge_tvbo.simulation import dataset_lookup
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.replay import days, split

    recording = dataset_lookup.recording(dataset, data_dir, gaps)
    train_span, test_span = split(recording, 0.75)
    if train is not None:
        train_span = days(recording, train)
        test_span = type(test_span)(train_span.last, len(recording.values))
    if test is not None:
        test_span = days(recording, test)
    return Backtest(recording, train_span, test_span, noise, budget)


def each_of(cluster: str | None, jobs: int | None = None) -> "AbstractContextManager[Each]":
    """Give who works: this process, or what --cluster names."""
    if cluster is None:
        from edge_tvbo.research.executors import one_by_one

        return nullcontext(one_by_one)
    found: AbstractContextManager[Each] = plugins.load("clusters", "dask")(
        cluster, jobs or os.cpu_count() or 1
    )
    return found


def workers_of(cluster: str | None, jobs: int | None) -> "AbstractContextManager[Each]":
    """Give who works: processes on this machine, one for each core by default, or a cluster."""
    from edge_tvbo.research.executors import processes

    if cluster is None:
        return each_of(None) if jobs == 1 else processes(jobs or os.cpu_count() or 1)
    if jobs and cluster != "local":
        raise ConfigError("--jobs is for this machine; a cluster works with what it has.")
    return each_of(cluster, jobs)


def command_line(context: click.Context) -> str:
    """Give what was typed, but for where and how it is written: what makes the same results."""
    from shlex import join

    words = ["edge-tvbo", context.info_name or ""]
    for option in context.command.params:
        name = option.name or ""
        if name in ELSEWHERE or context.get_parameter_source(name) is DEFAULT:
            continue
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            words += [option.opts[-1], str(each)]
    return join(words)


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
