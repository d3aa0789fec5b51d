"""Recordings for commands: recordings of datasets, and recordings of the user's own readings."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.options import given_options
from edge_tvbo.cli.own_readings import own_readings
from edge_tvbo.errors import Code, ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edge_tvbo.config.settings import Settings
    from edge_tvbo.simulation.dataset_lookup import DataSource
    from edge_tvbo.simulation.recording import Recording
    from edge_tvbo.simulation.row_range import RowRange


def recording_of(
    dataset: str,
    data_dir: Iterable[str],
    gaps: str,
    *,
    config: Path | None = None,
    field: str | None = None,
    first: datetime | None = None,
    to: datetime | None = None,
    interval: float | None = None,
    objective: str | None = None,
    positions: Path | None = None,
) -> "Recording":
    """Return the recording that a command's options select: a dataset, or the user's own readings.

    `config` selects the user's own readings: it is a CSV file, or the configuration of the daemon
    that recorded the readings. For own readings, a description of the data is printed to stderr.
    """
    from msgspec.structs import replace

    from edge_tvbo.simulation.dataset_lookup import load_recording, with_replies

    if config is not None:
        for option in given_options("dataset", "data_dir"):
            raise ConfigError(
                f"The argument names your own readings, but {option} names other data; remove one "
                "of the two."
            )
        if is_csv(config):
            config, dataset, data_dir = None, "csv", (str(config),)
    if config is not None:
        _check_names_no_dataset(config)
        recording = with_replies(_own_recording(config, field, first, to, interval), gaps)
    elif first is not None or to is not None:
        raise ConfigError(
            "--from and --to need CONFIG, the configuration of the daemon that recorded the "
            "readings. To select days of other data, use --train and --test."
        )
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
    if are_own(dataset, config):
        _echo_understood(recording)
    return recording


def is_csv(name: Path | str) -> bool:
    """Return whether an argument or an option names a CSV file, which may be compressed."""
    return str(name).lower().endswith((".csv", ".csv.gz"))


def are_own(dataset: str, config: Path | None) -> bool:
    """Return whether a command's options name the user's own readings, and not a dataset."""
    return config is not None or dataset == "csv"


def _echo_understood(recording: "Recording") -> None:
    from edge_tvbo.simulation.completeness import understood

    click.echo(recording.source, err=True)
    for line in understood(recording):
        click.echo(f"  {line}", err=True)


def with_complete_rows(recording: "Recording", span: "RowRange") -> "Recording":
    """Return the recording of the user's own readings without its incomplete rows.

    The number of rows that are left out is printed to stderr. `span` is the range of the training
    rows.
    """
    from edge_tvbo.simulation.completeness import complete_rows, incomplete_text

    found = complete_rows(recording, span)
    if left_out := incomplete_text(recording, found, span):
        click.echo(f"  left out: {left_out}", err=True)
    return found


def _check_names_no_dataset(config: Path) -> None:
    """Raise `ConfigErrors` if a command's argument is the name of a dataset, and not of a file."""
    from edge_tvbo_adapters import datasets

    from edge_tvbo.config.errors import WHOLE, ConfigErrors, Finding

    if str(config) in datasets.names() and not config.exists():
        command = click.get_current_context().info_name or ""
        message = (
            "there is no such file; to use the dataset of this name, write  "
            f"{join(['edge-tvbo', command, '--dataset', str(config)])}"
        )
        raise ConfigErrors([Finding(str(config), *WHOLE, "", message, Code.NO_FILE)])


def _own_recording(
    config: Path,
    field: str | None,
    first: datetime | None,
    to: datetime | None,
    interval: float | None,
) -> "Recording":
    from edge_tvbo_adapters.datasets.stored_readings import own_recording

    settings, name = own_field(config, field)
    chosen = settings.fields[name]
    recording = own_recording(
        f"{settings.instance}.{name}",
        own_readings(settings, name, first, to),
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
    """Return the settings of a configuration, and the field whose recording a command uses.

    The model file and the kernel of the field may be missing, because recorded readings do not
    depend on them. `field` is the value of the option `--field`.
    Raises `ConfigError` if there is no such field, if there are several fields and `--field` is
    missing, or if the daemon records no readings.
    """
    from edge_tvbo_adapters.payloads.formats import FORMATS

    from edge_tvbo.config.loader import load_without_priors

    try:
        settings = load_without_priors(config, FORMATS)
    except ConfigError:
        if config.suffix.lower() != ".toml":
            click.echo(
                f"{config} is read as a configuration, because its name does not end in .csv or"
                " .csv.gz.",
                err=True,
            )
        raise
    names = list(settings.fields)
    if field is None and len(names) > 1:
        raise ConfigError(f"{config} has the fields {', '.join(names)}; add  --field {names[0]}")
    name = field or names[0]
    if name not in names:
        raise ConfigError(f"There is no field {name!r}; allowed: {', '.join(names)}.")
    if not settings.state.dir:
        raise ConfigError(
            f"{config}: the daemon records no readings, because [state] has no dir; set dir, for "
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
    """Return a `DataSource` of all datasets, for the recordings of a command.

    The source searches the directories of --data-dir first.
    """
    from edge_tvbo_adapters import datasets

    from edge_tvbo.simulation.dataset_lookup import DataSource

    return DataSource(datasets.find, tuple(data_dir))
