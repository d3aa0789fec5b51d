"""Grids of CSV files: averages the readings on a regular grid, and checks the times."""

from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import duration, listed, named
from edge_tvbo.simulation.recording import Recording, check_sensor_names
from edge_tvbo_adapters.datasets.csv_times import EPOCH_UNITS, TimeFormat, time_unit
from edge_tvbo_adapters.datasets.grid import bin_means, fill_gaps, grid_index, grid_start, spacing

HOUR_S, DAY_S = 3600.0, 86_400.0
LATEST_CHANGE_S = 4 * HOUR_S  # daylight saving time begins and ends before this time of day
MIN_DAYS_BETWEEN_CHANGES = 300.0  # days between two ends, or beginnings, of daylight saving time
FIRST_SUNDAY = 3  # in days since 1970
MAX_PAUSE_S = 366 * 86_400.0  # a longer time without a reading may show that a clock was wrong


class LongTable(msgspec.Struct, frozen=True):
    """The readings of a CSV file, long or wide, as a table with a row for each reading."""

    time_format: TimeFormat
    times: list[float]  # time of each row of the file, in the unit of the format
    lines: list[int]  # line number of each row
    row: NDArray[np.intp]  # (n,), indices of times
    sensor: NDArray[np.intp]  # (n,), indices of sensors
    reading: NDArray[np.float64]  # (n,), NaN for an empty cell
    sensors: list[str]  # (M,), valid ids
    names: dict[str, str]  # id: name in the file; only if the two differ
    is_long: bool  # whether the file is a long table, not a wide one
    notes: list[str]  # sentences about changed ids and about what was left out


def to_grid(path: Path, table: LongTable, interval: float | None = None) -> Recording:
    """Return the recording of a CSV file: its readings averaged on a grid, its gaps filled.

    `interval` is the interval of the grid in s; None to use the interval of the readings. If the
    times are a step count, `interval` is the length of a step.
    """
    times = np.array(table.times, dtype=np.float64)
    _check_clock(path, table, times)
    counts = table.time_format.kind == "count"
    in_s = 0.0 if counts else EPOCH_UNITS.get(table.time_format.kind, 1.0)
    step = spacing(path, times, table.sensor if table.is_long else None, in_s)
    changes = [*repeated_hours(table, times, step), *skipped_hours(table, times, step)]
    unit, clause = time_unit(path, table.time_format, step, interval)
    if interval is not None and not counts:
        step = interval / unit
    first = float(times.min()) * unit
    has_own_days = counts or step * unit >= DAY_S  # a grid must not shift a row to another day
    start = first if has_own_days else grid_start(times * unit, step * unit)
    fix = "Split the file, look for a wrong time in it, or choose a longer --interval."
    index, T = grid_index(path, times, start / unit, step, len(table.sensors), fix)
    known = ~np.isnan(table.reading)
    shape = (T, len(table.sensors))
    rows = index[table.row[known]]
    values, observed = bin_means(rows, table.sensor[known], table.reading[known], shape)
    has_reading = observed.sum(axis=0) > 0
    sensors = tuple(np.array(table.sensors)[has_reading].tolist())
    check_sensor_names(str(path), sensors)
    silent = [s for s, has in zip(table.sensors, has_reading, strict=True) if not has]
    left_out = (
        [f"Sensors without readings are left out: {listed(named(silent, table.names))}."]
        if silent
        else []
    )
    return Recording(
        name="csv",
        unit="",
        objective="max",
        sensors=sensors,
        start=0.0 if counts else start,
        interval=step * unit,
        values=fill_gaps(values[:, has_reading], observed[:, has_reading]),
        observed=np.ascontiguousarray(observed[:, has_reading]),
        names=table.names,
        source=" ".join(
            [f"{path.name}, your own file; {clause}.", *changes, *left_out, *table.notes]
        ),
    )


def _check_clock(path: Path, table: LongTable, times: NDArray[np.float64]) -> None:
    """Raise `DataError` if a very long pause between CSV times shows that a clock was wrong."""
    unit = EPOCH_UNITS.get(table.time_format.kind, 1.0)
    if table.time_format.kind == "count" or len(times) < 3:
        return
    order = np.argsort(times, kind="stable")
    pauses = np.diff(times[order]) * unit
    longest = int(pauses.argmax())
    if pauses[longest] <= max(MAX_PAUSE_S, float(pauses.sum()) / 2):
        return
    before = longest + 1 <= len(times) / 2
    line = table.lines[int(order[longest if before else longest + 1])]
    raise DataError(
        f"{path}, line {line}: the time is {duration(pauses[longest])} "
        f"{'before' if before else 'after'} the times of the other rows, so a clock was wrong; "
        "correct the time, or remove the row."
    )


def repeated_hours(table: LongTable, times: NDArray[np.float64], step: float) -> list[str]:
    """Return a list with a note if CSV times repeat an hour (end of daylight saving time).

    If no hour is repeated, the list is empty. An hour is repeated if a time of a sensor is earlier
    than the sensor's previous time, by about one hour minus `step` (the usual interval). Only times
    between midnight and four o'clock count. If the file is not ordered by time, a repeated hour
    cannot be recognised, and there is no note.
    """
    if not table.time_format.naive or not 0.0 < step <= HOUR_S:
        return []
    sensor = table.sensor if table.is_long else np.zeros(len(times), np.intp)
    rows = np.argsort(sensor, kind="stable")
    steps = np.diff(times[rows])
    within = np.diff(sensor[rows]) == 0
    if (steps[within] < 0).sum() > (steps[within] > 0).sum():  # the newest reading comes first
        rows = rows[::-1]
        steps, within = -steps[::-1], within[::-1]
    passed = steps + HOUR_S  # time that passed if the clock was set back by an hour
    is_hour = within & (steps <= 0) & (passed >= 0) & (passed <= max(1.5 * step, HOUR_S / 2))
    is_hour &= times[rows[1:]] % DAY_S < LATEST_CHANGE_S
    if not is_hour.any() or (within & (steps < 0) & ~is_hour).any():
        return []
    later = rows[1:][is_hour]
    days, first = np.unique(times[later] // DAY_S, return_index=True)
    if len(days) > 1 and np.diff(days).min() < MIN_DAYS_BETWEEN_CHANGES:
        return []
    lines = listed(str(table.lines[row]) for row in later[first])
    return [
        f"The times repeat an hour from line {lines}, as at the end of daylight saving time: the "
        "readings of both hours are averaged, and the later times are off by an hour compared with "
        "the earlier ones. Write the times in UTC, or with their offset: 2026-10-25T02:30:00+01:00."
    ]


def skipped_hours(table: LongTable, times: NDArray[np.float64], step: float) -> list[str]:
    """Return a list with a note if CSV times skip an hour (beginning of daylight saving time).

    If no hour is skipped, the list is empty. An hour is skipped if it meets three conditions:

    - No sensor has a time in this hour.
    - The pause around the hour lasts at most one hour plus 1.5 times `step` (the usual interval).
    - The hour begins on a Sunday before four o'clock.
    """
    if not table.time_format.naive or not 0.0 < step <= HOUR_S:
        return []
    moments, rows = np.unique(times, return_index=True)
    hours = (moments[:-1] // HOUR_S + 1) * HOUR_S  # the first whole hour after each time
    after = moments[1:]
    is_skipped = (after >= hours + HOUR_S) & (np.diff(moments) <= HOUR_S + 1.5 * step)
    is_skipped &= (hours % DAY_S < LATEST_CHANGE_S) & (hours // DAY_S % 7 == FIRST_SUNDAY)
    days = hours[is_skipped] // DAY_S
    if not len(days) or (len(days) > 1 and np.diff(days).min() < MIN_DAYS_BETWEEN_CHANGES):
        return []
    lines = listed(str(table.lines[row]) for row in rows[1:][is_skipped])
    return [
        f"The times skip an hour before line {lines}, as at the beginning of daylight saving time: "
        "if a clock was set, the later times are off by an hour compared with the earlier ones. "
        "Write the times in UTC, or with their offset: 2026-03-29T03:30:00+02:00."
    ]
