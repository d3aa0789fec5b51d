"""Reader of CSV files: finds the readings in a wide or a long file."""

import csv
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import listed
from edge_tvbo_adapters.datasets.csv_columns import (
    ALL_SENSORS,
    CsvColumns,
    check_step_count,
    check_times,
    columns_of,
    columns_of_export,
    sensor_ids,
    separator_of,
)
from edge_tvbo_adapters.datasets.csv_grid import LongTable
from edge_tvbo_adapters.datasets.csv_labels import CsvLabels
from edge_tvbo_adapters.datasets.csv_times import EPOCH_UNITS, TimeParser, is_time
from edge_tvbo_adapters.datasets.csv_values import ValueReader, is_number, without_codes

SAMPLE_LINES = 500  # first lines, which show the separator, units and order of day and month
# First cells of lines that are skipped: the annotations in exports of InfluxDB, and our own mark.
SKIPPED = ("#group", "#datatype", "#default", ALL_SENSORS)
Rows = Iterable[tuple[int, list[str]]]  # line numbers and cells


def read_table(path: Path, text: Iterable[str]) -> LongTable:
    """Return the readings of a CSV file; the header shows whether the file is wide or long."""
    lines = iter(text)
    skipped, first, is_export = _header(lines)
    sample = list(islice(lines, SAMPLE_LINES))
    separator = separator_of([first, *sample])
    columns = (
        columns_of_export(first, separator)
        if is_export
        else columns_of(path, skipped, first, separator, sample)
    )
    numbered = numbered_rows(path, chain(sample, lines), separator, columns.header, skipped)
    head = list(islice(numbered, SAMPLE_LINES))
    if head and _is_units(columns, head[0][1]):
        del head[0]
    if head:
        check_times(path, columns, *head[0])
    parser = TimeParser(path, columns.header[columns.at[0]], [columns.time(row) for _, row in head])
    rows = chain(head, numbered)
    labels = CsvLabels(
        columns.header,
        columns.labels,
        [row for _, row in head],
        is_long=columns.sensor is not None,
    )
    if columns.sensor is None:
        return read_wide(path, columns, parser, labels, rows)
    return read_long(path, columns, columns.sensor, parser, labels, rows)


def _header(lines: Iterator[str]) -> tuple[int, str, bool]:
    """Return the line number and the text of a CSV file's header, which may follow comments.

    The third value is whether a comment says that each column except the first is a sensor.
    """
    is_export = False
    for number, line in enumerate(lines, 1):
        is_export |= line.startswith(ALL_SENSORS)
        if line.strip() and not line.startswith(("#", "sep=")):
            return number, line, is_export
    return 1, "", False


def _is_units(columns: CsvColumns, row: list[str]) -> bool:
    """Return whether the row below a CSV header holds units, such as °C.

    A row of units contains text, but neither a time nor a number.
    """
    cells = [row[column].strip() for column in columns.readings]
    return any(cells) and not any(
        is_time(text) or is_number(text) for text in (columns.time(row), *cells)
    )


def numbered_rows(
    path: Path, lines: Iterable[str], separator: str, header: list[str], before: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each CSV row that is not blank.

    `before` is the number of lines before the first row. Empty cells after the last column are left
    out. A file that was put together from several files repeats the `header`, InfluxDB's
    annotations and `ALL_SENSORS`; these rows are left out, too. Raises `DataError` for a row with
    more or fewer cells than the header.
    """
    width = len(header)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for row in reader:
            if not any(row) or row[0] in SKIPPED or [cell.strip() for cell in row] == header:
                continue
            number = reader.line_num + before
            if len(row) > width and not any(row[width:]):
                del row[width:]
            if len(row) != width:
                raise DataError(
                    f"{path}, line {number}: has {len(row)} cells; the header has {width}. "
                    "Complete the row, or put a cell that contains the separator into quotes."
                )
            yield number, row
    except csv.Error as error:
        line = reader.line_num + before
        raise DataError(
            f"{path}, line {line}: is not CSV: {error}; look for a quote that is not closed."
        ) from error


def read_wide(
    path: Path, columns: CsvColumns, parser: TimeParser, labels: CsvLabels, rows: Rows
) -> LongTable:
    """Return the readings of a wide CSV file, which has a column for each sensor."""
    names = [columns.header[column] for column in columns.readings]
    values = ValueReader(path)
    times: list[float] = []
    lines: list[int] = []
    cells = array("d")  # takes a third of the memory of a list
    for number, row in rows:
        times.append(parser.read(number, columns.time(row)))
        lines.append(number)
        cells.extend(values.read(number, [row[column] for column in columns.readings], names))
        labels.add(row)
    check_step_count(path, columns, parser.time_format(), times)
    labels.check_units(path, lines)
    labels.check_times(path, times, lines)
    reading = np.frombuffer(cells).reshape(len(times), len(names))
    has_number = np.asarray((~np.isnan(reading)).any(axis=0)).tolist()
    words = values.words_only({name for name, has in zip(names, has_number, strict=True) if has})
    named = values.labels(words, len(times))
    if named and sum(has_number) == 1:
        raise DataError(
            f"{path}: the file seems to have a row for each reading, but no column with the names"
            f" of the sensors was found.\nIf {listed(named)} contains the names of the sensors,"
            " call this column 'sensor'; otherwise remove the column."
        )
    kept = [j for j, name in enumerate(names) if name not in words and (name or has_number[j])]
    T, M = len(times), len(kept)
    return _table(
        parser,
        times,
        lines,
        row=np.repeat(np.arange(T), M),
        sensor=np.tile(np.arange(M), T),
        reading=reading[:, kept].ravel(),
        sensors=sensor_ids(path, [names[j] for j in kept]),
        is_long=False,
        no_sensors=[*words, *(name for name in columns.ignored if name)],
    )


def read_long(
    path: Path,
    columns: CsvColumns,
    sensor_column: int,
    parser: TimeParser,
    labels: CsvLabels,
    rows: Rows,
) -> LongTable:
    """Return the readings of a long CSV file, which has a row for each reading."""
    (value_column,) = columns.readings
    values = ValueReader(path)
    index: dict[str, int] = {}
    times: list[float] = []
    lines: list[int] = []
    sensor: list[int] = []
    reading = array("d")
    with_numbers: set[str] = set()
    for number, row in rows:
        name = row[sensor_column].strip()
        (value,) = values.read(number, [row[value_column]], [name])
        if not isnan(value):
            with_numbers.add(name)
        times.append(parser.read(number, columns.time(row)))
        lines.append(number)
        sensor.append(index.setdefault(name, len(index)))
        reading.append(value)
        labels.add(row)
    labels.check_units(path, lines)
    labels.check_times(path, times, lines, sensor)
    kind = parser.time_format().kind
    if kind != "count":  # if a step may be a day, a label may be the weekday
        labels.check_alternation(
            path,
            np.array(times, np.float64) * EPOCH_UNITS.get(kind, 1.0),
            lines,
            np.array(sensor),
            without_codes(np.frombuffer(reading))[0],
        )
    words = values.words_only(with_numbers)
    kept = [name for name in index if name not in words]
    arms = np.full(len(index), -1, np.intp)
    arms[[index[name] for name in kept]] = np.arange(len(kept))
    known = np.flatnonzero(arms[sensor] >= 0)
    return _table(
        parser,
        [times[row] for row in known],
        [lines[row] for row in known],
        row=np.arange(len(known)),
        sensor=arms[sensor][known],
        reading=np.frombuffer(reading)[known],
        sensors=sensor_ids(path, kept),
        is_long=True,
        no_sensors=words,
    )


def _table(
    parser: TimeParser,
    times: list[float],
    lines: list[int],
    *,
    row: NDArray[np.intp],
    sensor: NDArray[np.intp],
    reading: NDArray[np.float64],
    sensors: dict[str, str],
    is_long: bool,
    no_sensors: list[str],
) -> LongTable:
    """Return the table of a CSV file, in which codes such as -999 are gaps.

    `sensors` maps the names of the sensors to their ids. The notes of the table say which ids
    differ from the names, and what is left out.
    """
    reading, codes = without_codes(reading)
    names = {sensor: name for name, sensor in sensors.items() if sensor != name}
    changed = [f"{sensor} for {name}" for sensor, name in names.items()]
    notes = [f"The ids of the sensors are {listed(changed)}."] if names else []
    notes += [f"{code:g} means no reading (cells: {count})." for code, count in codes.items()]
    if no_sensors:
        notes.append(f"These are not sensors, and are left out: {listed(no_sensors)}.")
    return LongTable(
        time_format=parser.time_format(),
        times=times,
        lines=lines,
        row=row,
        sensor=sensor,
        reading=reading,
        sensors=list(sensors.values()),
        names=names,
        is_long=is_long,
        notes=notes,
    )
