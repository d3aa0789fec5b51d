"""Grids of CSV files: finds the interval of the readings, and averages them on a regular grid."""

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import duration, listed, named
from edge_tvbo.simulation.recording import USUAL_INTERVALS, Recording, check_sensor_names
from edge_tvbo_adapters.datasets.csv_times import EPOCH_UNITS, TimeFormat
from edge_tvbo_adapters.datasets.grid import MAX_CELLS, bin_means, fill_gaps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_COUNT_INTERVAL = 60.0  # s per step, if the times of a file are a step count
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
NEAR = 0.1  # intervals; a regular time difference is at most this far from a whole number of them
REGULAR = 0.8  # least share of regular differences for which the times of all sensors are used
HOUR_S, DAY_S = 3600.0, 86_400.0
LATEST_CHANGE_S = 4 * HOUR_S  # time of day after which no clock is set to another offset
MIN_DAYS_BETWEEN_HOURS = 300.0  # from the end of daylight saving time to the next end
MAX_PAUSE_S = 366 * 86_400.0  # without a reading; a longer pause may be a wrong clock


class Table(msgspec.Struct, frozen=True):
    """The readings of a CSV file as a long table, even if the file is wide."""

    time_format: TimeFormat
    times: list[float]  # of each row of the file, in the unit of the format
    lines: list[int]  # number of each row's line
    row: "NDArray[np.intp]"  # (n,), indices of times
    sensor: "NDArray[np.intp]"  # (n,), indices of sensors
    reading: "NDArray[np.float64]"  # (n,), NaN for an empty cell
    sensors: list[str]  # (M,), valid ids
    names: dict[str, str]  # of the sensors in the file, by ids that differ from them
    is_long: bool  # whether the file was long
    notes: list[str]  # changed ids and what was left out, in sentences


def to_grid(path: Path, table: Table, interval: float | None = None) -> Recording:
    """Return the recording of a CSV file: its readings averaged on a grid, its gaps filled.

    `interval` is the interval of the grid in s; None for the interval of the readings. If the times
    are a step count, `interval` is the length of a step.
    """
    import numpy as np

    times = np.array(table.times, dtype=np.float64)
    _check_clock(path, table, times)
    counts = table.time_format.kind == "count"
    in_s = 0.0 if counts else EPOCH_UNITS.get(table.time_format.kind, 1.0)
    step = spacing(path, times, table.sensor if table.is_long else None, in_s)
    repeated = repeated_hours(table, times, step)
    unit, clause = time_unit(path, table.time_format, step, interval)
    if interval is not None and not counts:
        step = interval / unit
    index, T = grid_index(path, times, float(times.min()), step, len(table.sensors))
    known = ~np.isnan(table.reading)
    shape = (T, len(table.sensors))
    cells = index[table.row[known]], table.sensor[known], table.reading[known]
    values, observed = bin_means(*cells, shape)
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
        start=0.0 if counts else float(times.min()) * unit,
        interval=step * unit,
        values=fill_gaps(values[:, has_reading], observed[:, has_reading]),
        observed=np.ascontiguousarray(observed[:, has_reading]),
        names=table.names,
        source=" ".join(
            [f"{path.name}, your own file; {clause}.", *repeated, *left_out, *table.notes]
        ),
    )


def spacing(
    path: Path,
    times: "NDArray[np.float64]",
    sensor: "NDArray[np.intp] | None",
    unit: float = 1.0,
) -> float:
    """Return the interval of a CSV file's grid, in the unit of its times.

    The interval is the most common difference between consecutive times, if at least half of the
    differences are equal to it. Otherwise the interval is the median difference, or a usual
    interval near the median.

    In a long file, the consecutive times of the same sensor are compared, with one exception. If
    the times of each sensor are irregular, but the times of all sensors together are regular, then
    one sensor was read in each interval. In this case, the times of all sensors together are
    compared.

    Parameters
    ----------
    path : Path
        The file, for error texts.
    times : float64[n]
        Times of the rows.
    sensor : intp[n] or None
        Sensor of each row of a long file; None for a wide file.
    unit : float
        Unit of the times, in s; 0 for a step count.
    """
    import numpy as np

    together = np.diff(np.unique(times))
    steps = together
    if sensor is not None:
        order = np.lexsort((times, sensor))
        steps = np.diff(times[order])[np.diff(sensor[order]) == 0]
        steps = steps[steps > 0]
    if not len(steps):
        raise DataError(
            f"{path}: no sensor has readings at two different times, so the interval is unknown; "
            "a recording needs at least two rows."
        )
    common = _common(steps)
    if common is not None:
        return common
    whole = _common(together) or _usual_median(together, unit)
    if _regular_share(together, whole) >= REGULAR:
        return whole
    return _usual_median(steps, unit)


def _common(steps: "NDArray[np.float64]") -> float | None:
    """Return the most common of `steps` if at least half of them are equal to it; else None."""
    import numpy as np

    common, count = Counter(np.round(steps, 6).tolist()).most_common(1)[0]
    return float(common) if 2 * count >= len(steps) else None


def _usual_median(steps: "NDArray[np.float64]", unit: float) -> float:
    """Return the usual interval, such as 10 min, that differs from the median by at most 10 %.

    If there is no such interval, return the median, rounded to a whole number if it is at least 10.
    """
    import numpy as np

    median = float(np.median(steps))
    near = [each for each in USUAL_INTERVALS if abs(median * unit - each) <= NEAR * each]
    if near:
        return near[0] / unit
    return float(round(median)) if median >= 10 else median


def _regular_share(steps: "NDArray[np.float64]", step: float) -> float:
    """Return the share of `steps`, 0 to 1, that are nearly a multiple of `step`."""
    import numpy as np

    multiples = np.rint(steps / step)
    near = np.abs(steps / step - multiples) <= NEAR
    return float((near & (multiples > 0)).mean())


def grid_index(
    path: Path, times: "NDArray[np.float64]", start: float, step: float, sensors: int
) -> "tuple[NDArray[np.intp], int]":
    """Return the nearest grid point of each time, as an index, and the number of grid points.

    The first point of the grid is `start`. No time is more than half a `step` before `start`.

    Raises `DataError` if the grid of the CSV file would have too many cells.
    """
    import numpy as np

    exact = (times - start) / step
    T = int(exact.max() + 0.5) + 1
    if T * sensors > MAX_CELLS:
        raise DataError(
            f"{path}: has {T} steps of {step:g} from its first to its last time; for {sensors} "
            f"sensors that is more than {MAX_CELLS} cells.\n"
            "Split the file, choose a longer --interval, or look for a wrong time in it."
        )
    return np.floor(exact + 0.5).astype(np.intp), T


def _check_clock(path: Path, table: Table, times: "NDArray[np.float64]") -> None:
    """Raise `DataError` if a very long pause between two times shows that a clock was wrong."""
    import numpy as np

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
        f"{'before' if before else 'after'} that of the other rows, so a clock was wrong; correct "
        "the time, or remove the row."
    )


def time_unit(
    path: Path, time_format: TimeFormat, step: float, interval: float | None = None
) -> tuple[float, str]:
    """Return the unit of a CSV file's times, in s, and a description of the times for the user."""
    if time_format.kind == "count":
        named = interval_in_name(path)
        chosen = interval or named or DEFAULT_COUNT_INTERVAL
        why = "by --interval" if interval else "according to the file name"
        if not (interval or named):
            why = "by default; set --interval"
        return chosen / step, f"times are a step count, with {chosen:g} s per step {why}"
    if time_format.kind in EPOCH_UNITS:
        return EPOCH_UNITS[time_format.kind], f"times in {time_format.kind} since 1970"
    zone = "times without a zone, taken as UTC" if time_format.naive else "times with their zone"
    return 1.0, zone


def repeated_hours(table: Table, times: "NDArray[np.float64]", step: float) -> list[str]:
    """Return a note about CSV times that repeat an hour, as at the end of daylight saving time.

    A repeated hour begins before four o'clock, where the times of a sensor go back by one hour less
    the usual `step`. All other times of a sensor must increase, or all must decrease. Otherwise the
    file is not ordered by time, and a repeated hour cannot be recognised. The list is empty if
    there is nothing to note.
    """
    import numpy as np

    if not table.time_format.naive or not 0.0 < step <= HOUR_S:
        return []
    sensor = table.sensor if table.is_long else np.zeros(len(times), np.intp)
    rows = np.argsort(sensor, kind="stable")
    steps = np.diff(times[rows])
    within = np.diff(sensor[rows]) == 0
    if (steps[within] < 0).sum() > (steps[within] > 0).sum():  # the newest reading comes first
        rows = rows[::-1]
        steps, within = -steps[::-1], within[::-1]
    passed = steps + HOUR_S  # if the clock was set back by an hour
    is_hour = within & (steps <= 0) & (passed >= 0) & (passed <= max(1.5 * step, HOUR_S / 2))
    is_hour &= times[rows[1:]] % DAY_S < LATEST_CHANGE_S
    if not is_hour.any() or (within & (steps < 0) & ~is_hour).any():
        return []
    later = rows[1:][is_hour]
    days, first = np.unique(times[later] // DAY_S, return_index=True)
    if len(days) > 1 and np.diff(days).min() < MIN_DAYS_BETWEEN_HOURS:
        return []
    lines = listed(str(table.lines[row]) for row in later[first])
    return [
        f"The times repeat an hour from line {lines}, as at the end of daylight saving time: the "
        "readings of both hours are averaged, and the later times are off by an hour compared with "
        "the earlier ones. Write the times in UTC, or with their offset: 2026-10-25T02:30:00+01:00."
    ]


def interval_in_name(path: Path) -> float | None:
    """Return the grid's interval in a CSV file's name, in s; None if the name contains no interval.

    >>> interval_in_name(Path("speed_10min.csv.gz")), interval_in_name(Path("speed.csv"))
    (600.0, None)
    """
    match = re.search(r"(?:^|[_-])(\d+)(s|sec|min|h)(?=[_.-]|$)", path.name)
    return int(match[1]) * UNITS[match[2]] if match and int(match[1]) else None
