"""Columns of CSV files: the separator, and which columns hold times, sensors and readings."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.messages.sensor_ids import ids
from edge_tvbo_adapters.datasets.csv_labels import UNITS
from edge_tvbo_adapters.datasets.csv_times import STEP_NAMES, TimeFormat, is_time
from edge_tvbo_adapters.datasets.csv_values import EMPTY, is_number

SEPARATORS = ",;\t|"
TIMES = (
    *("time", "timestamp", "datetime", "date_time", "date/time", "date", "at", "step"),
    *("timestamp_centre", "last_changed", "last_updated", "created_at", "_time", "ts"),
    *("last_updated_ts", "last_changed_ts", "received_at"),
    *("zeit", "zeitpunkt", "zeitstempel", "datum"),
)
DATES, CLOCKS = ("date", "datum"), ("time", "zeit", "uhrzeit")  # date, and time of day
SENSORS = (  # in order of preference, because a device may have several entities
    *("sensor", "sensor_id", "entity_id", "mote_id", "node", "node_id", "device", "device_id"),
    *("station", "station_id", "messstelle", "location", "ort", "raum"),
    "id",  # often the number of the row
)
READINGS = (
    *("value", "temperature", "temperature_c", "reading", "measurement", "state", "_value"),
    *("wert", "messwert", "temperatur"),
)
NO_SENSORS = frozenset(  # in a wide file, columns with these names are usually not sensors
    {"row", "nr", "no", "record", "entry_id", "unnamed: 0", "comment", "remark"}
    | {"note", "notes", "bemerkung", "unit", "unit_of_measurement", "einheit", "quality", "flag"}
    | {"battery", "batterie", "linkquality", "lqi", "rssi", "snr"}
    | {"latitude", "longitude", *TIMES, *STEP_NAMES}
)
ALL_SENSORS = "# edge-tvbo: every column except the first is a sensor"  # a line above the header
OF_EXPORTS = {  # column that identifies an export -> other columns that are not sensors
    "_time": {"result", "table", "_start", "_stop"},  # InfluxDB
    "latitude": {"elevation"},  # ThingSpeak
}


class CsvColumns(msgspec.Struct, frozen=True):
    """The numbers of the columns of a CSV file that hold times, sensors and readings."""

    header: list[str]
    at: tuple[int, ...]  # columns of the time; two if date and time of day are separate
    sensor: int | None  # column of the sensor names in a long file; None in a wide file
    readings: list[int]  # columns of the sensors in a wide file, or of the value in a long file
    ignored: list[str]  # names of the other columns

    @property
    def labels(self) -> list[int]:
        """CSV columns that can hold labels; rows with different labels are not averaged."""
        if self.sensor is None:
            units = [j for j, name in enumerate(self.header) if name.lower() in UNITS]
            return sorted({*self.readings, *units})
        known = {*self.at, self.sensor, *self.readings}
        return [column for column in range(len(self.header)) if column not in known]

    def time(self, row: Sequence[str]) -> str:
        """Return the text in the time columns of a CSV row."""
        return " ".join(row[column].strip() for column in self.at)


def separator_of(lines: Sequence[str]) -> str:
    """Return the character that separates the CSV cells; `lines` begins with the header.

    Each possible separator splits every line into cells. A line fits if it has as many cells as the
    header. The result is the separator with which most lines fit.

    >>> separator_of(["time;n1;n2", "2026-03-02;21,5;22,0"])
    ';'
    """

    def agreement(separator: str) -> tuple[int, int]:
        widths = [len(row) for row in _rows(lines, separator) if row]
        return (sum(width == widths[0] for width in widths), widths[0]) if widths else (0, 0)

    found = [each for each in SEPARATORS if agreement(each)[1] > 1]
    return max(found, key=agreement, default=",")


def _rows(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    """Yield the CSV rows; stop at a cell that is too long because its quote is not closed."""
    with suppress(csv.Error):
        yield from csv.reader(lines, delimiter=separator)


def columns_of(
    path: Path, number: int, first: str, separator: str, sample: Sequence[str] = ()
) -> CsvColumns:
    """Return the columns of a CSV file.

    `first` is the text of the header, and `number` is the number of its line. `sample` contains the
    first lines below the header.

    A column with a name such as `station` usually names the sensors of a long file. If such a
    column holds readings instead, and no column has a name such as `value`, the file is read as
    wide.

    Raises `DataError` if the header names no columns, or if a long file has no column of values.
    """
    header = [name.strip() for name in next(_rows([first], separator), [])]
    if len(header) < 2 or is_time(header[0]):
        raise DataError(
            f"{path}, line {number}: found {first.strip()[:60]!r}; the first line below comments "
            "must name the columns: 'time,<sensor>,<sensor>,...' or 'time,sensor,value'."
        )
    names = [name.lower() for name in header]
    date, clock = _first(names, DATES), _first(names, CLOCKS)
    both = date is not None and clock is not None
    time = _first(names, TIMES)
    # If `both` is true, neither column is None; mypy does not infer this.
    at: tuple[int, ...] = (date, clock) if both else () if time is None else (time,)  # type: ignore[assignment]
    sensor = _first(names, SENSORS)
    if sensor is not None and _first(names, READINGS) is None:
        cells = [row[sensor] for row in _rows(sample, separator) if len(row) > sensor]
        sensor = None if _has_readings(cells) else sensor
    if at and sensor is not None:
        return _long_columns(path, number, header, at, sensor)
    return _wide_columns(header, at or (0,))


def columns_of_export(first: str, separator: str) -> CsvColumns:
    """Return the columns of a CSV file that `edge-tvbo export` has marked with `ALL_SENSORS`."""
    header = [name.strip() for name in next(_rows([first], separator), [])]
    return CsvColumns(header, (0,), None, list(range(1, len(header))), [])


def needs_mark(header: str) -> bool:
    """Return whether a wide CSV file with this `header` must be marked with `ALL_SENSORS`.

    In a wide file, the first column is the time, and each further column is a sensor. Without the
    mark, a column such as ``battery`` would not be read as a sensor.

    >>> needs_mark("time,hall,attic"), needs_mark("time,hall,battery")
    (False, True)
    """
    try:
        columns = columns_of(Path(), 1, header, ",")
    except DataError:
        return True
    return columns.sensor is not None or columns.at != (0,) or bool(columns.ignored)


def _has_readings(cells: Iterable[str]) -> bool:
    """Return whether a CSV column holds readings: mostly numbers, and some with decimals."""
    texts = [text for cell in cells if (text := cell.strip()).lower() not in EMPTY]
    numbers = [text for text in texts if is_number(text)]
    has_fraction = any("." in text or "," in text for text in numbers)
    return 2 * len(numbers) > len(texts) and has_fraction


def _long_columns(
    path: Path, number: int, header: list[str], at: tuple[int, ...], sensor: int
) -> CsvColumns:
    names = [name.lower() for name in header]
    others = [j for j in range(len(names)) if j not in (*at, sensor)]
    value = _first(names, READINGS)
    if value is None and len(others) == 1:
        value = others[0]
    if value is None:
        raise DataError(
            f"{path}, line {number}: found a time and a sensor column, but no value column among "
            f"{', '.join(header)}.\nName one of these columns 'value'."
        )
    return CsvColumns(header, at, sensor, [value], [header[j] for j in others if j != value])


def _wide_columns(header: list[str], at: tuple[int, ...]) -> CsvColumns:
    """Return the columns of a wide CSV file, without a nameless first column of row numbers."""
    others = [j for j in range(len(header)) if j not in at and (j or header[j])]
    names = [name.lower() for name in header]
    left_out = NO_SENSORS.union(*(more for name, more in OF_EXPORTS.items() if name in names))
    readings = [j for j in others if names[j] not in left_out]
    ignored = [header[j] for j in others if j not in readings]
    return CsvColumns(header, at, None, readings, ignored)


def check_times(path: Path, columns: CsvColumns, number: int, row: Sequence[str]) -> None:
    """Raise `DataError` if a CSV file has no column of times.

    `row` is the first row below the header, and `number` is the number of its line. A column of
    times has a name such as `time` or `step`. If no column has such a name, the first cell of `row`
    must be a time.
    """
    name, text = columns.header[columns.at[0]], columns.time(row)
    if name.lower() not in (*TIMES, *STEP_NAMES) and not is_time(text):
        raise DataError(
            f"{path}, line {number}: there is no column of times: the first column, {name!r}, has "
            f"{text!r}, which is not a time.\nIf another column has the times, call it 'time'."
        )


def check_step_count(
    path: Path, columns: CsvColumns, time_format: TimeFormat, times: Sequence[float]
) -> None:
    """Raise `DataError` if the first CSV column holds readings instead of a step count.

    The column is not checked if its name is that of a time or of a step count. Otherwise, the
    column holds readings if its numbers both increase and decrease.
    """
    name = columns.header[columns.at[0]]
    if time_format.kind != "count" or name.lower() in (*TIMES, *STEP_NAMES):
        return
    steps = [later - earlier for earlier, later in pairwise(times)]
    if any(step < 0 for step in steps) and any(step > 0 for step in steps):
        raise DataError(
            f"{path}: there is no column of times: the numbers in the first column, {name!r}, "
            "increase and decrease.\nAdd a column 'time', or a step count with the name 'step'."
        )


def sensor_ids(path: Path, names: list[str]) -> dict[str, str]:
    """Return a dict that maps each sensor's name in a CSV file to the sensor's id.

    Raises `DataError` if a name is empty, or if two sensors have the same name.

    >>> sensor_ids(Path("a.csv"), ["north hall", "n1"])
    {'north hall': 'north-hall', 'n1': 'n1'}
    """
    stripped = [name.strip() for name in names]
    if "" in stripped:
        raise DataError(f"{path}: sensor {stripped.index('') + 1} has no name; give it one.")
    if twice := [name for name, number in Counter(stripped).items() if number > 1]:
        raise DataError(f"{path}: several sensors have the name {twice[0]!r}; rename one.")
    by_name = {name: sensor for sensor, name in ids(stripped).items()}
    return {name: by_name[name] for name in stripped}


def _first(names: list[str], known: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)
