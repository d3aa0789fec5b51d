"""The dataset `csv`: any sensor network from a CSV file, wide or long.

A wide file has a column for each sensor, a long file has a row for each reading. The readings are
put on a regular grid in time. The interval of the grid is the most common difference between
consecutive times. In a long file, the differences are taken between the times of the same sensor.
If fewer than half of the differences have this value, the median difference is used. Readings with
the same nearest grid point are averaged. Gaps are filled by interpolation, and marked as not
observed.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from math import inf, isfinite, isinf, nan
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.simulation.recording import Recording, check_sensor_names
from edge_tvbo_adapters.datasets.fetch import Progress, cannot_fetch
from edge_tvbo_adapters.datasets.files import is_file, verify
from edge_tvbo_adapters.datasets.grid import MAX_CELLS, bin_means, fill_gaps, open_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Names of columns: of times, sensors and values.
TIMES = ("time", "timestamp", "datetime", "date", "at", "step", "timestamp_centre")
SENSORS = ("sensor", "sensor_id", "id", "mote_id", "device", "device_id", "node")
READINGS = ("value", "temperature", "temperature_c", "reading", "measurement")
EMPTY = frozenset({"", "nan", "na", "n/a", "null", "none"})
DEFAULT_COUNT_INTERVAL = 60.0  # s per step, if the times of a file are a step count
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
ADVICE = "Give the file with --data-dir:  --data-dir readings.csv"


class TimeFormat(msgspec.Struct, frozen=True):
    """Format of the times in a CSV file."""

    kind: str  # "iso", "seconds", "milliseconds" or "count"
    naive: bool = False  # True for ISO times without a time zone


class Table(msgspec.Struct, frozen=True):
    """The readings of a CSV file, wide or long, as a long table."""

    time_format: TimeFormat
    times: list[float]  # of each row of the file, in the unit of the format
    row: list[int]  # (n,), indices of times
    sensor: list[int]  # (n,), indices of sensors
    reading: list[float]  # (n,), NaN for an empty cell
    sensors: list[str]  # (M,), valid names
    is_long: bool  # whether the file was long


class Csv:
    """The dataset `csv`, which reads the user's own CSV file."""

    name = "csv"
    summary = "your own CSV file: a column per sensor, or rows of time, sensor, value"
    url: str | None = None

    def load(self, directories: Iterable[str]) -> Recording:
        """Read the given CSV file, or the only CSV file in a given directory.

        Raises `DataError` if there is no such file, or if it cannot be read.
        """
        return read(choose_file(list(directories)))

    def fetch(self, directory: Path, progress: Progress) -> None:
        """Raise `DataError`, because the CSV file is the user's own and cannot be downloaded."""
        cannot_fetch(self.name, f"It is your own file. {ADVICE}")


def choose_file(directories: list[str]) -> Path:
    """Return the path of the CSV file to read.

    Each entry of `directories` is a CSV file, or a directory with one CSV file. The first file
    that is found is returned.

    Raises `DataError` if there is no CSV file, or if a directory has several CSV files.
    """
    for entry in map(Path, directories):
        if is_file(entry):
            return entry
        found = sorted(p for p in entry.glob("*") if p.name.endswith((".csv", ".csv.gz")))
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise DataError(f"{entry}: has several CSV files: {names}.\n{ADVICE}")
        if found:
            return found[0]
    searched = "".join(f"\n  {entry}" for entry in directories) or "\n  (no directory given)"
    raise DataError(f"there is no CSV file in:{searched}\n{ADVICE}")


def read(path: Path) -> Recording:
    """Return the recording in a CSV file; raises a `DataError` that names the file and the line."""
    verify(path)
    with open_text(path) as text:
        table = read_table(path, text)
    return to_grid(path, table)


# -- from text to readings ---------------------------------------------------------------------


def read_table(path: Path, text: Iterable[str]) -> Table:
    """Return the readings of a CSV file, whose first line shows whether it is wide or long."""
    lines = iter(text)
    first = next(lines, "")
    separator = max(",;\t", key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
    if len(header) < 2 or _is_time(header[0]):
        raise DataError(
            f"{path}, line 1: found {first.strip()[:60]!r}; the first line must name the columns: "
            "'time,<sensor>,<sensor>,...' or 'time,sensor,value'."
        )
    rows = numbered_rows(path, lines, separator, len(header))
    columns = long_columns(path, header)
    return (
        read_wide(path, header, rows) if columns is None else read_long(path, header, columns, rows)
    )


def numbered_rows(
    path: Path, lines: Iterable[str], separator: str, width: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each CSV row that is not blank.

    Raises `DataError` for a row that does not have `width` cells.
    """
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for row in reader:
            if not any(row):
                continue
            number = reader.line_num + 1  # the header was line 1
            if len(row) != width:
                raise DataError(
                    f"{path}, line {number}: has {len(row)} cells; the first line has {width}."
                )
            yield number, row
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num + 1}: is not CSV: {error}.") from error


def long_columns(path: Path, header: list[str]) -> tuple[int, int, int] | None:
    """Return the column numbers of time, sensor and value in a long file; None for a wide file."""
    names = [name.lower() for name in header]
    at, sensor = _first(names, TIMES), _first(names, SENSORS)
    if at is None or sensor is None:
        return None
    value = _first(names, READINGS)
    if value is None and len(names) == 3:
        value = 3 - at - sensor
    if value is None:
        raise DataError(
            f"{path}, line 1: has a time and a sensor column, but no value column in "
            f"{', '.join(header)}.\nName one of these columns 'value'."
        )
    return at, sensor, value


def _first(names: list[str], known: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def read_wide(path: Path, header: list[str], rows: Iterable[tuple[int, list[str]]]) -> Table:
    """Return the readings of a wide CSV file, which has a column for each sensor."""
    sensors = topic_names(path, header[1:])
    parser = TimeParser(path, header[0])
    width = len(sensors)
    times: list[float] = []
    reading: list[float] = []
    for number, row in rows:
        times.append(parser.read(number, row[0]))
        reading.extend(read_values(path, number, row[1:], sensors))
    return Table(
        time_format=parser.time_format(),
        times=times,
        row=[i for i in range(len(times)) for _ in range(width)],
        sensor=list(range(width)) * len(times),
        reading=reading,
        sensors=sensors,
        is_long=False,
    )


def read_long(
    path: Path,
    header: list[str],
    columns: tuple[int, int, int],
    rows: Iterable[tuple[int, list[str]]],
) -> Table:
    """Return the readings of a long CSV file, which has a row for each reading."""
    at, name, value = columns
    parser = TimeParser(path, header[at])
    index: dict[str, int] = {}
    times: list[float] = []
    sensor: list[int] = []
    reading: list[float] = []
    for number, row in rows:
        times.append(parser.read(number, row[at]))
        sensor.append(index.setdefault(row[name].strip(), len(index)))
        reading.extend(read_values(path, number, [row[value]], [row[name]]))
    return Table(
        time_format=parser.time_format(),
        times=times,
        row=list(range(len(times))),
        sensor=sensor,
        reading=reading,
        sensors=topic_names(path, list(index)),
        is_long=True,
    )


def topic_names(path: Path, names: list[str]) -> list[str]:
    """Convert the sensor names of a CSV file to names that are valid in an MQTT topic.

    Raises `DataError` if a name is empty, or if two converted names are equal.

    >>> topic_names(Path("a.csv"), ["north hall", "n1"])
    ['north-hall', 'n1']
    """
    cleaned = [re.sub(r"[^A-Za-z0-9_.-]+", "-", name.strip()) for name in names]
    if "" in cleaned:
        raise DataError(f"{path}: sensor {cleaned.index('') + 1} has no name; give it one.")
    taken: dict[str, str] = {}
    for name, clean in zip(names, cleaned, strict=True):
        if clean in taken:
            raise DataError(
                f"{path}: sensors {taken[clean]!r} and {name!r} both become {clean!r} in a topic; "
                "rename one."
            )
        taken[clean] = name
    return cleaned


def read_values(path: Path, number: int, cells: list[str], sensors: list[str]) -> list[float]:
    """Return the readings in the cells of one CSV row, NaN for an empty cell.

    `sensors` has the sensor's name of each cell. Raises `DataError` for a cell that is not a
    number.
    """
    try:
        values = [float(cell) if cell else nan for cell in cells]
    except ValueError:
        values = [_value(path, number, *pair) for pair in zip(cells, sensors, strict=True)]
    if inf in values or -inf in values:
        j = next(j for j, value in enumerate(values) if isinf(value))
        raise _not_a_number(path, number, cells[j], sensors[j])
    return values


def _value(path: Path, number: int, cell: str, sensor: str) -> float:
    if cell.strip().lower() in EMPTY:
        return nan
    try:
        return float(cell)
    except ValueError:
        raise _not_a_number(path, number, cell, sensor) from None


def _not_a_number(path: Path, number: int, cell: str, sensor: str) -> DataError:
    return DataError(
        f"{path}, line {number}: {sensor} reads {cell!r}; write a finite number with a "
        "decimal point, or leave the cell empty where there is no reading."
    )


# -- times -------------------------------------------------------------------------------------


class TimeParser:
    """Parser of the time column of a CSV file.

    The first timestamp determines the format of all timestamps.
    """

    def __init__(self, path: Path, header: str) -> None:
        self._path = path
        self._counts = header.lower() in ("step", "interval", "index")
        self._kind: str | None = None
        self._naive = False
        self._known: dict[str, float] = {}

    def time_format(self) -> TimeFormat:
        """Return the format of the times that were parsed."""
        return TimeFormat(self._kind or "count", self._naive)

    def read(self, number: int, text: str) -> float:
        """Parse the time in a row of a CSV file: seconds or ms since 1970, or a number of steps."""
        at = self._known.get(text)
        if at is None:
            at = self._known[text] = self._parse(number, text.strip())
        return at

    def _parse(self, number: int, text: str) -> float:
        try:
            if self._kind is None:
                self._kind = "count" if self._counts else time_kind(text)
            if self._kind != "iso":
                at = float(text)
                if isfinite(at):
                    return at
                raise ValueError(text)
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise self._unreadable(number, text) from None
        if moment.tzinfo is None:
            self._naive = True
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()

    def _unreadable(self, number: int, text: str) -> DataError:
        return DataError(
            f"{self._path}, line {number}: the time is {text!r}; write all times in one "
            "format: 2026-03-02T08:00:00Z, seconds or milliseconds since 1970, or a step count."
        )


def time_kind(text: str) -> str:
    """Return the kind of format in which a time of a CSV file is written.

    >>> [time_kind(t) for t in ("2026-03-02 08:00", "1772438400", "1772438400000", "12")]
    ['iso', 'seconds', 'milliseconds', 'count']
    """
    try:
        at = abs(float(text))
    except ValueError:
        return "iso"
    return "milliseconds" if at >= 1e11 else "seconds" if at >= 1e8 else "count"


def _is_time(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return False
    return True


def interval_in_name(path: Path) -> float | None:
    """Return the interval in a CSV file's name, in s; None if the name contains no interval.

    >>> interval_in_name(Path("speed_10min.csv.gz")), interval_in_name(Path("speed.csv"))
    (600.0, None)
    """
    match = re.search(r"(?:^|[_-])(\d+)(s|sec|min|h)(?=[_.-]|$)", path.name)
    return int(match[1]) * UNITS[match[2]] if match and int(match[1]) else None


# -- from readings to a grid -------------------------------------------------------------------


def to_grid(path: Path, table: Table) -> Recording:
    """Return the recording of a CSV file: its readings averaged on a grid, its gaps filled."""
    import numpy as np

    times = np.array(table.times, dtype=np.float64)
    sensor = np.array(table.sensor, dtype=np.intp)
    row = np.array(table.row, dtype=np.intp)
    reading = np.array(table.reading, dtype=np.float64)
    step = spacing(path, times, sensor if table.is_long else None)
    index, T = grid_index(path, times, step, len(table.sensors))
    known = ~np.isnan(reading)
    shape = (T, len(table.sensors))
    values, observed = bin_means(index[row[known]], sensor[known], reading[known], shape)
    has_reading = observed.sum(axis=0) > 0
    sensors = tuple(np.array(table.sensors)[has_reading].tolist())
    check_sensor_names(str(path), sensors)
    unit, clause = time_unit(path, table.time_format, step)
    silent = [s for s, has in zip(table.sensors, has_reading, strict=True) if not has]
    left_out = f" Sensors without readings are left out: {', '.join(silent)}." if silent else ""
    return Recording(
        name="csv",
        unit="",
        objective="max",
        sensors=sensors,
        start=0.0 if table.time_format.kind == "count" else float(times.min()) * unit,
        interval=step * unit,
        values=fill_gaps(values[:, has_reading], observed[:, has_reading]),
        observed=np.ascontiguousarray(observed[:, has_reading]),
        source=f"{path.name}, your own file; {clause}.{left_out}",
    )


def spacing(path: Path, times: "NDArray[np.float64]", sensor: "NDArray[np.intp] | None") -> float:
    """Return the interval of a CSV file's grid, in the unit of its times.

    For a long file, `sensor` is the sensor of each of the `times`; for a wide file, it is None.
    """
    import numpy as np

    if sensor is None:
        steps = np.diff(np.unique(times))
    else:
        order = np.lexsort((times, sensor))
        steps = np.diff(times[order])[np.diff(sensor[order]) == 0]
    steps = steps[steps > 0]
    if not len(steps):
        raise DataError(
            f"{path}: no sensor has readings at two different times, so the interval is unknown."
        )
    common, count = Counter(np.round(steps, 6).tolist()).most_common(1)[0]
    if 2 * count >= len(steps):
        return float(common)
    median = float(np.median(steps))
    return float(round(median)) if median >= 10 else median


def grid_index(
    path: Path, times: "NDArray[np.float64]", step: float, sensors: int
) -> "tuple[NDArray[np.intp], int]":
    """Return the index of each time's nearest point on the grid, and the number of grid points.

    Raises `DataError` if the grid of the CSV file would have too many cells.
    """
    import numpy as np

    exact = (times - times.min()) / step
    T = int(exact.max() + 0.5) + 1
    if T * sensors > MAX_CELLS:
        raise DataError(
            f"{path}: has {T} steps of {step:g} from its first to its last time; for {sensors} "
            f"sensors that is more than {MAX_CELLS} cells.\n"
            "Split the file, or look for a wrong time in it."
        )
    return np.floor(exact + 0.5).astype(np.intp), T


def time_unit(path: Path, time_format: TimeFormat, step: float) -> tuple[float, str]:
    """Return the unit of a CSV file's times, in s, and a description of the times for the user."""
    if time_format.kind == "count":
        named = interval_in_name(path)
        interval = DEFAULT_COUNT_INTERVAL if named is None else named
        why = "by default" if named is None else "according to the file name"
        return interval / step, f"times are a step count, with {interval:g} s per step {why}"
    if time_format.kind == "milliseconds":
        return 1e-3, "times in milliseconds since 1970"
    if time_format.kind == "seconds":
        return 1.0, "times in seconds since 1970"
    return (
        1.0,
        "times without a zone, taken as UTC" if time_format.naive else "times with their zone",
    )


dataset = Csv()
