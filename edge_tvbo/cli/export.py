"""Command `export`: the recorded readings of a field as CSV, Parquet or InfluxDB line protocol."""

import sys
from datetime import datetime
from pathlib import Path

import click

from edge_tvbo.cli.options import (
    check_not_input,
    config_argument,
    from_option,
    optional_duration,
    output_file,
    to_option,
)
from edge_tvbo.cli.own_readings import own_field, own_readings
from edge_tvbo.errors import ConfigError


@click.command()
@config_argument
@click.option("--field", help="Field to export, if CONFIG has several fields.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "parquet", "influxdb"]),
    default="csv",
    show_default=True,
    help="csv: a row per interval and a column per sensor; other formats: one entry per reading.",
)
@from_option
@to_option
@click.option(
    "--interval",
    callback=optional_duration,
    help="Time between two rows of a CSV file.  [default: the field's interval]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=output_file,
    help="File to write; a CSV or InfluxDB file is compressed if its name ends in .gz."
    "  [default: standard output]",
)
def export(
    config: Path,
    field: str | None,
    kind: str,
    first: datetime | None,
    to: datetime | None,
    interval: float | None,
    output: Path | None,
) -> None:
    """Export the readings that a daemon recorded.

    The daemon of CONFIG may run during the export. A daemon stores its readings periodically (the
    setting state.checkpoint), on SIGUSR1 and when it stops. A CSV file contains, for each interval,
    the mean of each sensor's readings; the time of a row is the middle of its interval.
    `edge-tvbo fit` and any spreadsheet can read a CSV file. A CSV file contains the sensors of
    CONFIG that have readings; files in the other formats contain all recorded sensors.
    """
    from edge_tvbo_adapters.datasets import exports
    from edge_tvbo_adapters.datasets.stored_readings import own_recording, unlisted, unlisted_text

    check_not_input(output, config)
    if kind == "parquet":
        if output is None:
            raise ConfigError("A Parquet file is not text; add  --output readings.parquet")
        exports.check_parquet()
    elif output is not None and output.suffix.lower() == ".parquet":
        raise ConfigError(f"{output} is the name of a Parquet file; add  --format parquet")
    if interval is not None and kind != "csv":
        raise ConfigError(
            "--interval is for --format csv; the other formats contain every reading."
        )
    settings, name = own_field(config, field)
    chosen = settings.fields[name]
    readings = own_readings(settings, name, first, to)
    count = len(readings)
    if kind == "csv":
        step = interval or chosen.interval_s
        grid = own_recording(f"{settings.instance}.{name}", readings, chosen.sensors, step)
        lines = exports.csv_lines(grid)
        if others := unlisted(readings, chosen.sensors):
            count -= sum(others.values())
            note = unlisted_text(others)
            click.echo(
                f"{note} Files in the formats parquet and influxdb contain these readings, too.",
                err=True,
            )
    else:
        lines = exports.influxdb_lines(readings)
    if output is None:
        if sys.__stdout__ is None:  # after >&-
            raise ConfigError("The standard output is closed; add  --output readings.csv")
        sys.stdout.writelines(lines)
        return
    if kind == "parquet":
        exports.write_parquet(output, readings)
    else:
        exports.write_lines(output, lines)
    click.echo(f"{output}: {count} readings of {name}")
