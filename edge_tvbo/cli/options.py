"""Options that several commands share, and functions that process the values of options."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from edge_tvbo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import numpy as np
    from numpy.typing import NDArray

    from edge_tvbo.config.settings import Settings
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.dataset_lookup import DataSource
    from edge_tvbo.simulation.recording import Recording
    from edge_tvbo.simulation.row_range import RowRange


class NumberRange(click.FloatRange):
    """Type of an option that is a finite number in a range; `click.FloatRange` accepts nan."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; fail if it is not finite or out of range."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


SPEED = NumberRange(0, 1e6, min_open=True)  # times as fast as real time
POSITIVE = NumberRange(0, min_open=True)
PORT = click.IntRange(1, 65535)  # of a TCP server
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
    help='Run on a Dask cluster: its scheduler\'s address, or "local" for workers on this machine.',
)
noise_option = click.option(
    "--noise",
    type=NumberRange(1e-50, 1e50),  # as in the configuration
    default=0.01,
    show_default=True,
    help="Noise variance of a reading, relative to the variance of the training data.",
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
    """Return the value of a command-line option, a duration such as ``5s``, in seconds."""
    from edge_tvbo.config.field_types import seconds

    try:
        return seconds(text)
    except ConfigError as error:
        raise click.BadParameter(f"{error}.") from None


def output_file(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return the value of an option, a file to write; fail before the work if it cannot exist."""
    if path is None:
        return None
    if path.is_dir():
        raise click.BadParameter(f"{path} is a directory; name a file, such as {path / 'out'}.")
    if not path.parent.is_dir():
        raise click.BadParameter(f"{path}: the directory {path.parent} does not exist; create it.")
    if not path.exists() and not os.access(path.parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{path}: this user may not write to {path.parent}.")
    return path


def recording_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--test",
            metavar="DAYS",
            help="First and last test day.  [default: all after the training days, or the last "
            "quarter]",
        ),
        click.option(
            "--train",
            metavar="DAYS",
            help="First and last training day, such as 2004-03-01:2004-03-06.  [default: all "
            "before the test days]",
        ),
        gaps_option,
        click.option(
            "--data-dir",
            multiple=True,
            help="Directory that is searched first for datasets; repeatable.",
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


def own_readings_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument CONFIG or CSV, and the options for the user's own readings."""
    for option in (
        click.option(
            "--positions",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File with a line `id x y` for each sensor, in m.",
        ),
        click.option(
            "--objective",
            type=click.Choice(["max", "min"]),
            help="Search for the highest or for the lowest value.  [default: that of the data]",
        ),
        click.option(
            "--interval",
            callback=optional_duration,
            help="Interval of the replay, such as 10min.  [default: that of CONFIG or the data]",
        ),
        click.option("--field", help="Field to use, if CONFIG has several fields."),
        click.argument(
            "config", type=click.Path(path_type=Path), required=False, metavar="[CONFIG|CSV]"
        ),
    ):
        command = option(command)
    return command


def optional_duration(
    context: click.Context, option: click.Parameter, text: str | None
) -> float | None:
    """Return the value of an option in seconds, a duration above 0; None if it is not given."""
    if text is None:
        return None
    seconds = duration(context, option, text)
    if seconds == 0.0:
        raise click.BadParameter(f"{text} is too short; allowed: more than 0s, such as 10min.")
    return seconds


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
    """Return the settings of a file after a test build of everything that `run` builds.

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
    **own: Any,
) -> "Backtest":
    """Return the backtest that the options of a command describe.

    `own` has the values of `own_readings_options`, if the command has these options.
    """
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.replay import Pace

    recording = _recording_of(dataset, data_dir, gaps, **own)
    train_span, test_span = _spans(recording, train, test)
    recording = trainable_recording(recording, train_span)
    if per_interval > len(recording.sensors):
        raise ConfigError(
            f"--per-interval is {per_interval}; allowed: at most the number of sensors, "
            f"{len(recording.sensors)}."
        )
    pace = Pace(budget, per_interval, next_activation)
    return Backtest(recording, train_span, test_span, noise, pace)


def training_of(
    dataset: str, data_dir: Iterable[str], train: str | None, noise: float, gaps: str, **own: Any
) -> "Backtest":
    """Return the backtest with which ``fit`` trains a model; its test days are the training days.

    Without the option --train, all days are training days. `own` is described in `backtest_of`.
    """
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.row_range import RowRange

    recording = _recording_of(dataset, data_dir, gaps, **own)
    span = (
        RowRange(0, len(recording.values)) if train is None else _days("--train", recording, train)
    )
    return Backtest(trainable_recording(recording, span), span, span, noise)


def trainable_recording(recording: "Recording", span: "RowRange") -> "Recording":
    """Return the recording without the sensors that have no reading in the training rows `span`.

    The names of these sensors are printed to stderr.
    """
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.simulation.training_rows import silent_sensors, trainable_sensors

    trainable = trainable_sensors(recording, span)
    if trainable is not recording:
        silent = listed(silent_sensors(recording, span))
        click.echo(f"Left out, without a reading on the training days: {silent}", err=True)
    return trainable


def _spans(
    recording: "Recording", train: str | None, test: str | None
) -> "tuple[RowRange, RowRange]":
    """Return the training rows and the test rows of the options --train and --test.

    Without both options, the test rows are the last quarter. With one option, the other rows are
    those before the test days or after the training days.

    Raises
    ------
    DataError
        If no day is before the test days, or if training days and test days overlap.
    """
    from edge_tvbo.simulation.row_range import RowRange, split

    train_span, test_span = split(recording, 0.75)
    if train is not None:
        train_span = _days("--train", recording, train)
        test_span = RowRange(train_span.last, len(recording.values))
    if test is not None:
        test_span = _days("--test", recording, test)
        if train is None:
            train_span = RowRange(0, test_span.first)
    if train_span.first == train_span.last:
        raise DataError(
            f"--test {test}: there is no day before the test days, so there is no training day; "
            "select later test days, or name the training days with --train."
        )
    if train_span.first < test_span.last and test_span.first < train_span.last:
        raise DataError(
            f"--train {train} and --test {test} overlap: a policy that was trained on the test "
            "days seems better than it is. Select training and test days without a common day."
        )
    return train_span, test_span


def _days(option: str, recording: "Recording", text: str) -> "RowRange":
    from edge_tvbo.simulation.row_range import days

    try:
        return days(recording, text)
    except DataError as error:
        raise DataError(f"{option} {error}") from None


def _recording_of(
    dataset: str,
    data_dir: Iterable[str],
    gaps: str,
    *,
    config: Path | None = None,
    field: str | None = None,
    interval: float | None = None,
    objective: str | None = None,
    positions: Path | None = None,
) -> "Recording":
    """Return the recording that a command's options name: a dataset, or the user's own readings.

    The user's own readings are named by `config`: a CSV file, or the configuration of the daemon
    that recorded them. For own readings, a description of the data is printed to stderr, and
    incomplete rows are left out.
    """
    from msgspec.structs import replace

    from edge_tvbo.simulation.dataset_lookup import load_recording, with_replies

    if config is not None:
        _check_no_dataset()
        if config.name.lower().endswith((".csv", ".csv.gz")):
            config, dataset, data_dir = None, "csv", (str(config),)
    if config is not None:
        recording = with_replies(_own_recording(config, field, interval), gaps)
    elif field is not None:
        raise ConfigError("--field needs CONFIG, the configuration that has this field.")
    elif interval is None:
        recording = data_source(data_dir).load(dataset, gaps)
    elif dataset == "csv":
        from edge_tvbo_adapters.datasets.csv import Csv

        recording = load_recording(Csv(interval), data_dir, gaps)
    else:
        raise ConfigError("--interval is for CONFIG and for --dataset csv; remove it.")
    if objective is not None:
        recording = replace(recording, objective=objective)
    if positions is not None:
        recording = replace(recording, positions=_positions(positions, recording.sensors))
    return _understood(recording) if config is not None or dataset == "csv" else recording


def _understood(recording: "Recording") -> "Recording":
    """Print a description of the user's own readings, and return the rows that are complete.

    A row is complete if at least half of the sensors were read.
    """
    from edge_tvbo.messages.formatting import counted
    from edge_tvbo.simulation.completeness import complete_rows, understood

    click.echo(recording.source, err=True)
    for line in understood(recording):
        click.echo(f"  {line}", err=True)
    found = complete_rows(recording)
    left_out = int((recording.observed.any(axis=1) & ~found.observed.any(axis=1)).sum())
    if left_out:
        click.echo(
            f"  left out: {counted(left_out, 'interval')} in which fewer than half of the sensors "
            "were read",
            err=True,
        )
    return found


def _check_no_dataset() -> None:
    """Raise `ConfigError` if an option names other data than the argument of the command."""
    for option in ("dataset", "data_dir"):
        if click.get_current_context().get_parameter_source(option) is not DEFAULT:
            raise ConfigError(
                f"The argument names your own readings, but --{option.replace('_', '-')} names "
                "other data; remove one of the two."
            )


def _own_recording(config: Path, field: str | None, interval: float | None) -> "Recording":
    from edge_tvbo_adapters.datasets.own import own_recording
    from edge_tvbo_adapters.storage.reading_db import read_readings

    settings, name = own_field(config, field)
    chosen = settings.fields[name]
    recording = own_recording(
        f"{settings.instance}.{name}",
        read_readings(settings.state.dir, settings.instance, name),
        chosen.sensors,
        interval or chosen.interval_s,
        unit=chosen.unit,
        objective=chosen.objective,
        names=chosen.sensor_names,
    )
    if chosen.positions is None:
        return recording
    import numpy as np
    from msgspec.structs import replace

    places = [chosen.positions[sensor] for sensor in recording.sensors]
    return replace(recording, positions=np.array(places, np.float64))


def own_field(config: Path, field: str | None) -> "tuple[Settings, str]":
    """Return the settings of a configuration, and the field that the option `--field` selects.

    Raises `ConfigError` if there is no such field, if there are several fields and `--field` is
    missing, or if the daemon records no readings.
    """
    from edge_tvbo_adapters.payloads import FORMATS

    from edge_tvbo.config.loader import load

    if config.suffix.lower() != ".toml":
        click.echo(
            f"{config} is read as a configuration; the name of a CSV file ends in .csv or .csv.gz.",
            err=True,
        )
    settings = load(config, FORMATS)
    names = list(settings.fields)
    if field is None and len(names) > 1:
        raise ConfigError(f"{config} has the fields {', '.join(names)}; add  --field {names[0]}")
    name = field or names[0]
    if name not in names:
        raise ConfigError(f"There is no field {name!r}; allowed: {', '.join(names)}.")
    if not settings.state.dir:
        raise ConfigError(
            f"{config}: the daemon records no readings, because [state] has no dir; add one, for "
            'example  [state]  dir = "state"'
        )
    return settings, name


def _positions(file: Path, sensors: tuple[str, ...]) -> "NDArray[np.float64]":
    """Return the sensor positions, (M, 2), in the file of the option --positions."""
    import numpy as np

    from edge_tvbo.config import sensor_positions
    from edge_tvbo.config.errors import WHOLE, ConfigErrors, Report

    option = ("--positions",)
    report = Report(file, lambda: {option: WHOLE}, {})
    found = sensor_positions.of_sensors(str(file), Path(), sensors, option, report)
    if mistakes := report.findings():
        raise ConfigErrors(mistakes)
    return np.array([found[sensor] for sensor in sensors], np.float64)


def data_source(data_dir: Iterable[str] = ()) -> "DataSource":
    """Return the `DataSource` of the option --data-dir, which finds all datasets.

    The `DataSource` searches the directories of the option first.
    """
    from edge_tvbo_adapters import datasets

    from edge_tvbo.simulation.dataset_lookup import DataSource

    return DataSource(datasets.find, tuple(data_dir))


def executor_of(cluster: str | None, jobs: int | None) -> "AbstractContextManager[Executor]":
    """Return the executor that the options --cluster and --jobs select.

    The executor is a cluster, or a pool of local processes: by default, one process for each core.
    With --jobs 1, the work is done in this process.
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
            words += (
                [str(each)] if isinstance(option, click.Argument) else [option.opts[-1], str(each)]
            )
    return join(words)


def parameters_of(assignments: Iterable[str]) -> dict[str, Any]:
    """Return a policy's parameters from the options --set name=value; values are read as TOML.

    >>> parameters_of(["epsilon=0.03", "beta={c1=0.4, c2=4}"])
    {'epsilon': 0.03, 'beta': {'c1': 0.4, 'c2': 4}}
    """
    import tomllib

    try:
        return tomllib.loads("\n".join(assignments))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--set: {error}; write  --set epsilon=0.03") from None
