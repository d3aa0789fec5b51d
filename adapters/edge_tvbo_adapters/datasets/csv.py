"""Any sensor network from a CSV file: wide, a column per sensor, or long, a row per reading.

The file becomes a regular grid. Its spacing is the commonest step from one time to the next (in
a long file: of one sensor), or the median step where none is common; readings are averaged into
the nearest grid point, and what is then empty is filled in and marked as not observed.
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
from edge_tvbo_adapters.datasets.fetch import Progress, cannot_fetch, is_file, verify
from edge_tvbo_adapters.datasets.recording import (
    LARGEST,
    GridRecording,
    bin_means,
    check_sensors,
    fill_gaps,
    open_text,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TIMES = ("time", "timestamp", "datetime", "date", "at", "step", "timestamp_centre")
SENSORS = ("sensor", "sensor_id", "id", "mote_id", "device", "device_id", "node")
READINGS = ("value", "temperature", "temperature_c", "reading", "measurement")
EMPTY = frozenset({"", "nan", "na", "n/a", "null", "none"})
COUNT_INTERVAL = 60.0  # s a step, where times are a plain count and the file name says no more
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
ADVICE = "Give the file with --data-dir:  --data-dir readings.csv"


class Column(msgspec.Struct, frozen=True):
    """How the times of a file are written."""

    kind: str  # "iso", "seconds", "milliseconds" or "count"
    naive: bool = False  # ISO times without a zone


class Table(msgspec.Struct, frozen=True):
    """A file's readings as they stand in it: long, whatever it was."""

    column: Column
    times: list[float]  # each row's, in the unit of the column
    row: list[int]  # n: into times
    who: list[int]  # n: into sensors
    reading: list[float]  # n: NaN where the cell is empty
    sensors: list[str]  # M, cleaned
    long: bool


class Csv:
    """The dataset `csv`."""

    name = "csv"
    summary = "your own: a CSV file, one column per sensor, or rows of time, sensor, value"
    url: str | None = None

    def load(self, directories: Iterable[str]) -> GridRecording:
        """Read the file given, or the only one in a directory given; raises `DataError`."""
        return read(choose(list(directories)))

    def fetch(self, directory: Path, progress: Progress) -> None:
        """Raise `DataError` saying where the data come from."""
        cannot_fetch(self.name, f"It is a file of your own. {ADVICE}")


def choose(directories: list[str]) -> Path:
    """Give the first entry that is a file, or the one CSV file of the first directory with any."""
    for entry in map(Path, directories):
        if is_file(entry):
            return entry
        found = sorted(p for p in entry.glob("*") if p.name.endswith((".csv", ".csv.gz")))
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise DataError(f"{entry}: has several CSV files: {names}.\n{ADVICE}")
        if found:
            return found[0]
    looked = "".join(f"\n  {entry}" for entry in directories) or "\n  (nothing given)"
    raise DataError(f"there is no CSV file in:{looked}\n{ADVICE}")


def read(path: Path) -> GridRecording:
    """Read one CSV file; raises `DataError` naming the file, the line and what was found."""
    verify(path)
    with open_text(path) as text:
        table = read_table(path, text)
    return to_grid(path, table)


# -- from text to readings ---------------------------------------------------------------------


def read_table(path: Path, text: Iterable[str]) -> Table:
    """Give the readings of a file, wide or long as its first line tells."""
    lines = iter(text)
    first = next(lines, "")
    mark = max(",;\t", key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=mark), [])]
    if len(header) < 2 or _is_time(header[0]):
        raise DataError(
            f"{path}, line 1: found {first.strip()[:60]!r}; the first line names the columns: "
            "'time,<sensor>,<sensor>,...' or 'time,sensor,value'."
        )
    rows = numbered_rows(path, lines, mark, len(header))
    columns = long_columns(path, header)
    return (
        read_wide(path, header, rows) if columns is None else read_long(path, header, columns, rows)
    )


def numbered_rows(
    path: Path, lines: Iterable[str], mark: str, width: int
) -> Iterator[tuple[int, list[str]]]:
    """Give line number and cells of the rows that are not blank."""
    reader = csv.reader(lines, delimiter=mark, strict=True)
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
    """Give where time, sensor and value stand in a long file; None for a wide one."""
    names = [name.lower() for name in header]
    at, who = _first(names, TIMES), _first(names, SENSORS)
    if at is None or who is None:
        return None
    value = _first(names, READINGS)
    if value is None and len(names) == 3:
        value = 3 - at - who
    if value is None:
        raise DataError(
            f"{path}, line 1: has a time and a sensor column, and no value column in "
            f"{', '.join(header)}.\nName one of them 'value'."
        )
    return at, who, value


def _first(names: list[str], known: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def read_wide(path: Path, header: list[str], rows: Iterable[tuple[int, list[str]]]) -> Table:
    """Give the readings of a file with a column per sensor."""
    sensors = clean_names(path, header[1:])
    clock = Clock(path, header[0])
    width = len(sensors)
    times: list[float] = []
    reading: list[float] = []
    for number, row in rows:
        times.append(clock.read(number, row[0]))
        reading.extend(read_values(path, number, row[1:], sensors))
    return Table(
        column=clock.column(),
        times=times,
        row=[i for i in range(len(times)) for _ in range(width)],
        who=list(range(width)) * len(times),
        reading=reading,
        sensors=sensors,
        long=False,
    )


def read_long(
    path: Path,
    header: list[str],
    columns: tuple[int, int, int],
    rows: Iterable[tuple[int, list[str]]],
) -> Table:
    """Give the readings of a file with a row per reading; sensors in their order of appearance."""
    at, name, value = columns
    clock = Clock(path, header[at])
    index: dict[str, int] = {}
    times: list[float] = []
    who: list[int] = []
    reading: list[float] = []
    for number, row in rows:
        times.append(clock.read(number, row[at]))
        who.append(index.setdefault(row[name].strip(), len(index)))
        reading.extend(read_values(path, number, [row[value]], [row[name]]))
    return Table(
        column=clock.column(),
        times=times,
        row=list(range(len(times))),
        who=who,
        reading=reading,
        sensors=clean_names(path, list(index)),
        long=True,
    )


def clean_names(path: Path, names: list[str]) -> list[str]:
    """Give each sensor a name fit for a topic level; raises `DataError` if two become one.

    >>> clean_names(Path("a.csv"), ["north hall", "n1"])
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
    """Give one row's readings, NaN for an empty cell."""
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
        f"{path}, line {number}: {sensor} reads {cell!r}; a reading is a finite number with a "
        "decimal point, and an empty cell where there is none."
    )


# -- times -------------------------------------------------------------------------------------


class Clock:
    """Reads the time column of one file; its first time says how the others are written."""

    def __init__(self, path: Path, header: str) -> None:
        self._path = path
        self._counts = header.lower() in ("step", "interval", "index")
        self._kind: str | None = None
        self._naive = False
        self._known: dict[str, float] = {}

    def column(self) -> Column:
        """Give how the times were written."""
        return Column(self._kind or "count", self._naive)

    def read(self, number: int, text: str) -> float:
        """Give the time of a row, in s since 1970, or in ms or steps as the file has it."""
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
            f"{self._path}, line {number}: the time is {text!r}; it can be, in all rows alike, "
            "2026-03-02T08:00:00Z, seconds or milliseconds since 1970, or a step count."
        )


def time_kind(text: str) -> str:
    """Tell how a time is written.

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
    """Give the interval a file name tells, in s.

    >>> interval_in_name(Path("speed_10min.csv.gz")), interval_in_name(Path("speed.csv"))
    (600.0, None)
    """
    match = re.search(r"(?:^|[_-])(\d+)(s|sec|min|h)(?=[_.-]|$)", path.name)
    return int(match[1]) * UNITS[match[2]] if match and int(match[1]) else None


# -- from readings to a grid -------------------------------------------------------------------


def to_grid(path: Path, table: Table) -> GridRecording:
    """Give the recording: readings averaged onto a regular grid, gaps filled."""
    import numpy as np

    times = np.array(table.times, dtype=np.float64)
    who = np.array(table.who, dtype=np.intp)
    row = np.array(table.row, dtype=np.intp)
    reading = np.array(table.reading, dtype=np.float64)
    step = spacing(path, times, who if table.long else None)
    index, T = grid_index(path, times, step, len(table.sensors))
    known = ~np.isnan(reading)
    shape = (T, len(table.sensors))
    values, observed = bin_means(index[row[known]], who[known], reading[known], shape)
    heard = observed.sum(axis=0) > 0
    sensors = tuple(np.array(table.sensors)[heard].tolist())
    check_sensors(str(path), sensors)
    unit, clause = time_unit(path, table.column, step)
    silent = [s for s, h in zip(table.sensors, heard, strict=True) if not h]
    left_out = f" Left out, having no reading: {', '.join(silent)}." if silent else ""
    return GridRecording(
        name="csv",
        unit="",
        objective="max",
        sensors=sensors,
        start=0.0 if table.column.kind == "count" else float(times.min()) * unit,
        interval=step * unit,
        values=fill_gaps(values[:, heard], observed[:, heard]),
        observed=np.ascontiguousarray(observed[:, heard]),
        source=f"{path.name}, your own file; {clause}.{left_out}",
    )


def spacing(path: Path, times: "NDArray[np.float64]", who: "NDArray[np.intp] | None") -> float:
    """Give the step of the grid in the unit of the times; `who` measured, for a long file."""
    import numpy as np

    if who is None:
        steps = np.diff(np.unique(times))
    else:
        order = np.lexsort((times, who))
        steps = np.diff(times[order])[np.diff(who[order]) == 0]
    steps = steps[steps > 0]
    if not len(steps):
        raise DataError(
            f"{path}: has no two readings of a sensor at different times; an interval wants two."
        )
    common, often = Counter(np.round(steps, 6).tolist()).most_common(1)[0]
    if 2 * often >= len(steps):
        return float(common)
    median = float(np.median(steps))
    return float(round(median)) if median >= 10 else median


def grid_index(
    path: Path, times: "NDArray[np.float64]", step: float, sensors: int
) -> "tuple[NDArray[np.intp], int]":
    """Give the nearest grid point of each time, and how many there are."""
    import numpy as np

    exact = (times - times.min()) / step
    T = int(exact.max() + 0.5) + 1
    if T * sensors > LARGEST:
        raise DataError(
            f"{path}: from its first time to its last are {T} steps of {step:g}, for {sensors} "
            f"sensors more than {LARGEST} cells.\nCut the file, or look for a stray time in it."
        )
    return np.floor(exact + 0.5).astype(np.intp), T


def time_unit(path: Path, column: Column, step: float) -> tuple[float, str]:
    """Give the seconds in a unit of the file's times, and the words for `source`."""
    if column.kind == "count":
        named = interval_in_name(path)
        interval = COUNT_INTERVAL if named is None else named
        why = "for want of a time" if named is None else "as the file name says"
        return interval / step, f"times are a step count, taken as {interval:g} s a step {why}"
    if column.kind == "milliseconds":
        return 1e-3, "times in milliseconds since 1970"
    if column.kind == "seconds":
        return 1.0, "times in seconds since 1970"
    return 1.0, "times without a zone, taken as UTC" if column.naive else "times with their zone"


dataset = Csv()
