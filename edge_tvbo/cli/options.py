"""Options that several commands share, and functions that process the values of options."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from edge_tvbo.config.settings import Settings
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.dataset_lookup import DataSource

SPEED = click.FloatRange(0, 1e6, min_open=True)  # times as fast as real time
POSITIVE = click.FloatRange(0, min_open=True)
DEFAULT = click.core.ParameterSource.DEFAULT
OPTIONS_WITHOUT_EFFECT_ON_RESULTS = ("out", "as_json", "cluster", "jobs")

gaps_option = click.option(
    "--gaps",
    type=click.Choice(["filled", "silent"]),
    default="filled",
    show_default=True,
    help="In gaps, sensors reply with interpolated values (filled) or not at all (silent).",
)


cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS|local",
    help="Run on a Dask cluster: address of its scheduler, or local for workers on this machine.",
)
jobs_option = click.option(
    "--jobs", type=click.IntRange(1), help="Number of processes.  [default: one per core]"
)


def by_dataset(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return the dataset names that begin with `begun`, for completion in a shell."""
    from edge_tvbo_adapters import datasets

    return [name for name in datasets.names() if name.startswith(begun)]


def by_policy(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return the completions of `begun`, a comma-separated list of policies, for a shell."""
    from edge_tvbo.policy import policies

    before, comma, last = begun.rpartition(",")
    return [f"{before}{comma}{name}" for name in policies() if name.startswith(last)]


def duration(context: click.Context, option: click.Parameter, text: str) -> float:
    """Return the length in seconds of a command-line option that is a duration such as ``5s``."""
    from edge_tvbo.config.field_types import seconds

    try:
        return seconds(text)
    except ConfigError as error:
        raise click.BadParameter(f"{error}.") from None


def recording_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--test",
            metavar="DAYS",
            help="First and last test day.  [default: all after the training days]",
        ),
        click.option(
            "--train",
            metavar="DAYS",
            help="First and last training day, such as 2004-03-01:2004-03-06.",
        ),
        gaps_option,
        click.option(
            "--data-dir", multiple=True, help="Directory to search for datasets first; repeatable."
        ),
        click.option(
            "--dataset",
            default="lab-sample",
            show_default=True,
            shell_complete=by_dataset,
            help="Name of a dataset; `edge-tvbo data list` prints all names.",
        ),
    ):
        command = option(command)
    return command


def settings_of(config: Path) -> "Settings":
    """Return the settings of a configuration file; raises `ConfigErrors` if the file has errors."""
    from edge_tvbo_adapters.payloads import FORMATS
    from edge_tvbo_adapters.payloads.of_field import check_payloads

    from edge_tvbo.config.loader import load, located

    settings = load(config, FORMATS)
    with located(config):
        check_payloads(settings.fields)
    return settings


def buildable_settings_of(config: Path) -> "Settings":
    """Return the settings of a file, from which everything was built that `run` builds.

    Raises `ConfigErrors` if the file has errors, or if the daemon cannot be built from it.
    """
    settings = settings_of(config)
    from edge_tvbo.config.loader import located
    from edge_tvbo.daemon import app  # takes a second, which a file with errors does not need

    with located(config):
        app.check_buildable(settings)
    return settings


def backtest_of(
    dataset: str,
    data_dir: Iterable[str],
    train: str | None,
    test: str | None,
    noise: float,
    gaps: str,
    budget: float | None = None,
    per_interval: int = 1,
    next_activation: Literal["after-reply", "at-once"] = "after-reply",
) -> "Backtest":
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.replay import Pace, days, split

    recording = data_source(data_dir).load(dataset, gaps)
    train_span, test_span = split(recording, 0.75)
    if train is not None:
        train_span = days(recording, train)
        test_span = type(test_span)(train_span.last, len(recording.values))
    if test is not None:
        test_span = days(recording, test)
    if per_interval > len(recording.sensors):
        raise ConfigError(
            f"--per-interval is {per_interval}; allowed: at most the number of sensors, "
            f"{len(recording.sensors)}."
        )
    pace = Pace(budget, per_interval, next_activation)
    return Backtest(recording, train_span, test_span, noise, pace)


def data_source(data_dir: Iterable[str] = ()) -> "DataSource":
    """Return a `DataSource` of all datasets, which searches the directories `data_dir` first."""
    from edge_tvbo_adapters import datasets

    from edge_tvbo.simulation.dataset_lookup import DataSource

    return DataSource(datasets.find, tuple(data_dir))


def executor_of(cluster: str | None, jobs: int | None) -> "AbstractContextManager[Executor]":
    """Return the executor that the options --cluster and --jobs select.

    The executor is a cluster, or a pool of local processes, by default one process for each
    core. With one job, the executor does the work in this process.
    """
    jobs_here = jobs or os.cpu_count() or 1
    if cluster is None:
        from edge_tvbo.research.executors import SerialExecutor, process_pool

        return SerialExecutor() if jobs_here == 1 else process_pool(jobs_here)
    if jobs and cluster != "local":
        raise ConfigError(
            "--jobs is for this machine, but a remote cluster uses all its workers. Remove --jobs."
        )
    from edge_tvbo_adapters.cluster import connect

    return connect(cluster, jobs_here)


def command_line(context: click.Context) -> str:
    """Return a command line that reproduces the results.

    Options that do not affect the results are left out.
    """
    from shlex import join

    words = ["edge-tvbo", context.info_name or ""]
    for option in context.command.params:
        name = option.name or ""
        if (
            name in OPTIONS_WITHOUT_EFFECT_ON_RESULTS
            or context.get_parameter_source(name) is DEFAULT
        ):
            continue
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            words += [option.opts[-1], str(each)]
    return join(words)


def parameters_of(assignments: Iterable[str]) -> dict[str, Any]:
    """Return a policy's parameters from ``name=value`` pairs; values are read as TOML.

    >>> parameters_of(["epsilon=0.03", "beta={c1=0.4, c2=4}"])
    {'epsilon': 0.03, 'beta': {'c1': 0.4, 'c2': 4}}
    """
    import tomllib

    try:
        return tomllib.loads("\n".join(assignments))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--set: {error}; write  --set epsilon=0.03") from None
