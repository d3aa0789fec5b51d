"""Own readings: the readings that a user's daemon recorded, and recordings made of them."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_tvbo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings
    from edge_tvbo.messages.readings import RecordedReadings
    from edge_tvbo.simulation.recording import Recording
    from edge_tvbo.simulation.row_range import RowRange


def are_own(dataset: str, config: Path | None) -> bool:
    """Return whether a command's recording is made of the user's own readings, not of a dataset."""
    return config is not None or dataset == "csv"


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


def own_recording(
    config: Path,
    field: str | None,
    first: datetime | None,
    to: datetime | None,
    interval: float | None,
) -> "Recording":
    """Return the recording that is made of the user's own readings, as the options select them."""
    from edge_tvbo_adapters.datasets import stored_readings

    settings, name = own_field(config, field)
    chosen = settings.fields[name]
    recording = stored_readings.own_recording(
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


def own_readings(
    settings: "Settings", field: str, first: datetime | None, to: datetime | None
) -> "RecordedReadings":
    """Return the user's own readings of `field` from `first` to `to`, ordered by time.

    Readings at the time `to` are not included. If `first` is None, the oldest reading is the first;
    if `to` is None, the newest reading is the last.

    Raises
    ------
    ConfigError
        If `first` is not before `to`.
    DataError
        If there are no readings in this period, or if they are not all in the unit of the field.
    """
    from edge_tvbo_adapters.storage.reading_db import read_readings

    begin = -inf if first is None else first.timestamp()
    end = inf if to is None else to.timestamp()
    if begin >= end:
        raise ConfigError("--from must be before --to. Exchange the two.")
    readings = read_readings(settings.state.dir, settings.instance, field, begin, end)
    if not len(readings):
        raise DataError(_nothing_found(settings, field))
    _check_unit(f"{settings.instance}.{field}", readings, settings.fields[field].unit)
    return readings


def _nothing_found(settings: "Settings", field: str) -> str:
    from edge_tvbo_adapters.storage.reading_db import read_readings, recorded_fields

    from edge_tvbo.messages.formatting import listed, rfc3339

    times = read_readings(settings.state.dir, settings.instance, field).at
    if not len(times):
        others = recorded_fields(settings.state.dir, settings.instance)
        hint = (
            f"\nThere are readings of: {listed(others)}. If you renamed the field, give it its "
            "former name in a copy of the configuration, and use this copy."
        )
        return f"{settings.instance}.{field}: no reading was recorded.{hint if others else ''}"
    known = f"{rfc3339(times[0])} to {rfc3339(times[-1])}"
    return (
        f"{settings.instance}.{field}: no reading was recorded in the selected period; the recorded"
        f" readings are from {known}. Change --from or --to."
    )


def _check_unit(name: str, readings: "RecordedReadings", configured: str) -> None:
    """Raise `DataError` if some of the user's own readings are not in the present unit.

    The present unit is the `configured` unit. If no unit is configured, it is the unit of the
    newest reading that has a unit. A reading without a unit is taken as a reading in the present
    unit.
    """
    import numpy as np

    from edge_tvbo.messages.formatting import listed, may_be_same_unit
    from edge_tvbo.setup.config_template import toml_string

    indices, since = np.unique(readings.unit[::-1], return_index=True)
    newest_first = [readings.units[index] for index in indices[np.argsort(since)]]
    units = [unit for unit in newest_first if unit]
    present = configured or next(iter(units), "")
    others = [each for each in units if not may_be_same_unit(each, present)]
    if not others:
        return
    limits = _newest_time_without(others, readings)
    if limits is None:
        raise DataError(
            f"{name}: the selected readings were recorded in {listed(others)}, but the unit of "
            f"the field is {present}. To use them, set  unit = {toml_string(others[0])}  in a copy "
            "of the configuration in the same directory."
        )
    start, end = limits
    times = [f"from {start} on"] * bool(start) + [f"before {end}"] * bool(end)
    options = [f"--from {start}"] * bool(start) + [f"--to {end}"] * bool(end)
    raise DataError(
        f"{name}: readings in {listed(others)} and in {present}, the present unit, cannot be "
        f"mixed. All readings {' and '.join(times)} are in {present}; add  {' '.join(options)}"
    )


def _newest_time_without(
    others: Sequence[str], readings: "RecordedReadings"
) -> tuple[str, str] | None:
    """Return start and end of the newest period without a reading in another unit.

    `others` contains the other units. If no reading before the period is in one of these units, the
    start is "". If no reading after the period is in one of these units, the end is "". The result
    is None if there is no such period.
    """
    from edge_tvbo.messages.formatting import rfc3339

    in_others = {each.at for each in readings if each.unit in others}
    with_unit = (each.at for each in readings if each.unit)
    by_kind = groupby(with_unit, in_others.__contains__)
    starts = [(is_other, rfc3339(next(times))) for is_other, times in by_kind]
    end = starts.pop()[1] if starts[-1][0] else ""
    if not starts:
        return None
    return starts[-1][1] if len(starts) > 1 else "", end


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
