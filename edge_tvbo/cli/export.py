"""Command `export`: the recorded readings of a field as CSV, Parquet or InfluxDB line protocol."""

import sys
from datetime import UTC, date, datetime, timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.options import check_not_input, optional_duration, output_file
from edge_tvbo.cli.recordings import own_field
from edge_tvbo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings


def _time(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Return the time of the export's option `--from` or `--to`, in s since 1970.

    The value of the option is a date or a time. A date in `--to` stands for the end of this day.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if option.name == "to" and _is_date(text):
            moment += timedelta(days=1)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time such as 2026-03-02 or 2026-03-02T08:00:00Z."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _nothing_found(settings: "Settings", field: str) -> str:
    from edge_tvbo_adapters.storage.reading_db import read_readings

    from edge_tvbo.messages.formatting import rfc3339

    times = [each.at for each in read_readings(settings.state.dir, settings.instance, field)]
    text = f"{settings.instance}.{field}: no reading was recorded in this time"
    if not times:
        return f"{text}."
    known = f"{rfc3339(times[0])} to {rfc3339(times[-1])}"
    return f"{text}; the recorded readings are from {known}. Change --from or --to."


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--field", help="Field to export, if CONFIG has several fields.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "parquet", "influxdb"]),
    default="csv",
    show_default=True,
    help="csv: a row per interval and a column per sensor; other formats: one entry per reading.",
)
@click.option("--from", "first", callback=_time, help="First day or time; without a zone, in UTC.")
@click.option("--to", callback=_time, help="Last day (included), or end time.")
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
    help="File to write.  [default: standard output]",
)
def export(
    config: Path,
    field: str | None,
    kind: str,
    first: float | None,
    to: float | None,
    interval: float | None,
    output: Path | None,
) -> None:
    """Export the readings that a daemon recorded.

    The daemon of CONFIG may be running. A daemon stores its readings periodically
    (state.checkpoint), on SIGUSR1 and when it stops. A CSV file, which `edge-tvbo fit` and any
    spreadsheet can read, contains the mean of a sensor's readings in each interval.
    """
    from edge_tvbo_adapters.datasets import exports
    from edge_tvbo_adapters.datasets.own import own_recording
    from edge_tvbo_adapters.storage.reading_db import read_readings

    check_not_input(output, config)
    if kind == "parquet":
        if output is None:
            raise ConfigError("A Parquet file is not text; add  --output readings.parquet")
        exports.check_parquet()
    if interval is not None and kind != "csv":
        raise ConfigError(
            "--interval is for --format csv; the other formats contain every reading."
        )
    settings, name = own_field(config, field)
    chosen = settings.fields[name]
    begin, end = -inf if first is None else first, inf if to is None else to
    if begin >= end:
        raise ConfigError("--from must be before --to. Exchange the two.")
    readings = read_readings(settings.state.dir, settings.instance, name, begin, end)
    if not readings:
        raise DataError(_nothing_found(settings, name))
    if kind == "csv":
        step = interval or chosen.interval_s
        grid = own_recording(f"{settings.instance}.{name}", readings, chosen.sensors, step)
        lines = exports.csv_lines(grid)
    else:
        lines = exports.influxdb_lines(readings)
    if output is None:
        sys.stdout.writelines(lines)
        return
    if kind == "parquet":
        exports.write_parquet(output, readings)
    else:
        exports.write_lines(output, lines)
    click.echo(f"{output}: {len(readings)} readings of {name}")
