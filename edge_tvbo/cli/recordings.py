"""Recordings for commands: recordings of datasets, and recordings of the user's own readings."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.options import given_options
from edge_tvbo.cli.own_readings import are_own, own_recording
from edge_tvbo.errors import Code, ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edge_tvbo.simulation.dataset_lookup import DataSource
    from edge_tvbo.simulation.recording import Recording


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

    from edge_tvbo.simulation.dataset_lookup import load_recording
    from edge_tvbo.simulation.recording import with_replies

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
        recording = with_replies(own_recording(config, field, first, to, interval), gaps)
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


def _echo_understood(recording: "Recording") -> None:
    from edge_tvbo.simulation.completeness import understood

    click.echo(recording.source, err=True)
    for line in understood(recording):
        click.echo(f"  {line}", err=True)


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
