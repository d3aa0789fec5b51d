"""Reading database: the accepted readings of a daemon in one SQLite file of bounded size.

A batch holds the readings of one field as columns, ordered by time. The batch also holds the unit
that the field had when the readings were recorded; batches of earlier versions have no unit. In
batches of ten minutes, a reading takes about 7 bytes. So 64 MiB hold the readings of 46 sensors for
more than a year, if each sensor is read every 10 minutes. `read_readings` reads the file whether
the daemon is running or not. `read_readings` skips batches that cannot be decoded, and damaged
parts of the file.
"""

import logging
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate, groupby, pairwise
from math import inf
from operator import attrgetter
from pathlib import Path

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.messages.readings import RecordedReading, RecordedReadings
from edge_tvbo_adapters.storage.batch_db import Batch, BatchDatabase
from edge_tvbo_adapters.storage.batch_file import (
    TABLE,
    Kind,
    decoded,
    encoded,
    is_damage,
    open_for_reading,
)

log = logging.getLogger(__name__)

MAX_ID = 2**53  # of a row
_SELECT = """
    SELECT id, CASE WHEN field = ? AND first < ? AND last >= ? THEN entries END
    FROM batches WHERE id > ? ORDER BY id
    """
READINGS = Kind(
    "readings",
    "the record of readings",
    "there are no recorded readings yet.\n"
    "The daemon records all accepted readings if `dir` is set in [state] and `readings` is not"
    ' "off". It stores the readings at every checkpoint, on SIGUSR1 and when it stops.',
    (TABLE,),
)


class ReadingBatch(msgspec.Struct, frozen=True, array_like=True):
    """A batch of recorded readings, ordered by time, with a list for each column."""

    sensors: list[str]
    first: int  # time of the first reading, ms since 1970
    later: list[int]  # (n - 1,), ms from each reading to the next
    sensor: list[int]  # (n,), indices of `sensors`
    value: list[float]  # (n,)
    unit: str = ""  # of all values


class ReadingDatabase(BatchDatabase):
    """Writer of a daemon's reading database."""

    kind = READINGS

    def store(self, readings: Sequence[RecordedReading]) -> bool:
        """Store readings in the reading database, all or none of them.

        Return whether they were stored. An error is logged.
        """
        return self.store_batches(list(packed(readings)))


def read_readings(
    directory: str, instance: str, field: str, first: float = -inf, last: float = inf
) -> RecordedReadings:
    """Return the recorded readings of a field with `first` <= time < `last`, ordered by time.

    Times are in s since 1970. Raises `DataError` if the file is missing or cannot be read.
    """
    path = READINGS.file(directory, instance)
    bounds = max(-(2.0**53), min(last, 2.0**53)), max(-(2.0**53), min(first - 1.0, 2.0**53))
    found = _Collected(field)
    try:
        with closing(open_for_reading(path, READINGS)) as connection:
            for number, blob in _batches(connection, path, (field, *bounds)):
                try:
                    found.add(unpacked(blob), first, last)
                except DataError as error:
                    log.warning("%s: batch %d is skipped: %s", path, number, error)
    except (sqlite3.Error, OSError) as error:
        raise DataError(f"{path}: the readings cannot be read: {error}.") from error
    return found.in_order()


def recorded_fields(directory: str, instance: str) -> list[str]:
    """Return the names of all fields with recorded readings; empty if they cannot be read."""
    path = READINGS.file(directory, instance)
    try:
        with closing(open_for_reading(path, READINGS)) as connection:
            rows = connection.execute("SELECT DISTINCT field FROM batches ORDER BY field")
            return [str(field) for (field,) in rows]
    except (sqlite3.Error, OSError):
        return []


def _batches(
    connection: sqlite3.Connection, path: Path, selected: tuple[str, float, float]
) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the blob of each batch of one field and period in the reading database.

    `selected` contains the field, the end and the start of the period, in this order. Damaged
    parts of the file are skipped and logged; sometimes the batch before a damaged part is skipped,
    too. An error is raised if no row can be read.
    """
    read = after = 0  # ids of the last row that was read, and of the row after which to continue
    is_damaged = False
    while after < MAX_ID:
        try:
            for number, blob in connection.execute(_SELECT, (*selected, after)):
                read = after = max(after, number)  # a damaged row can have any id
                if blob is not None:
                    yield number, blob
            break
        except sqlite3.DatabaseError as error:
            after += 1 + (after - read) // 16  # growing steps, for long damaged parts
            if not is_damage(error) or (after >= MAX_ID and not read):
                raise
            is_damaged = True
    if is_damaged:
        log.warning("%s is damaged; the readings in damaged parts are skipped", path)


def packed(readings: Sequence[RecordedReading]) -> Iterator[Batch]:
    """Yield a row of the reading database for each field and unit of `readings`."""
    in_order = sorted(readings, key=attrgetter("field", "unit", "at"))
    for (field, unit), group in groupby(in_order, key=attrgetter("field", "unit")):
        batch = list(group)
        index: dict[str, int] = {}
        times = [round(1000 * reading.at) for reading in batch]
        columns = ReadingBatch(
            first=times[0],
            later=[after - before for before, after in pairwise(times)],
            sensor=[index.setdefault(reading.sensor, len(index)) for reading in batch],
            value=[reading.value for reading in batch],
            sensors=list(index),
            unit=unit,
        )
        yield field, times[0] // 1000, times[-1] // 1000, encoded(columns)


def unpacked(blob: bytes) -> ReadingBatch:
    """Return the readings in a row of the reading database.

    Raises `DataError` if the row cannot be decoded.
    """
    columns = decoded(blob, ReadingBatch, "readings")
    if not len(columns.value) == len(columns.sensor) == 1 + len(columns.later):
        raise DataError("A batch of readings cannot be decoded: its columns differ in length.")
    if not all(0 <= index < len(columns.sensors) for index in columns.sensor):
        raise DataError("A batch of readings cannot be decoded: a reading has no sensor.")
    return columns


class _Collected:
    """The readings of a field that have been read from the reading database so far."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._sensors: dict[str, int] = {}
        self._units: dict[str, int] = {}
        self._at, self._value = array("d"), array("d")
        self._sensor, self._unit = array("i"), array("h")

    def add(self, batch: ReadingBatch, first: float, last: float) -> None:
        """Add those readings of a database batch for which `first` <= time < `last`."""
        index = [self._sensors.setdefault(each, len(self._sensors)) for each in batch.sensors]
        unit = self._units.setdefault(batch.unit, len(self._units))
        times = accumulate(batch.later, initial=batch.first)
        for at, sensor, value in zip(times, batch.sensor, batch.value, strict=True):
            if first <= at / 1000 < last:
                self._at.append(at / 1000)
                self._sensor.append(index[sensor])
                self._value.append(value)
                self._unit.append(unit)

    def in_order(self) -> RecordedReadings:
        """Return the collected readings, ordered by time."""
        import numpy as np

        at, value = np.frombuffer(self._at), np.frombuffer(self._value)
        sensor, unit = np.frombuffer(self._sensor, np.intc), np.frombuffer(self._unit, np.short)
        if (at[1:] < at[:-1]).any():
            order = np.argsort(at, kind="stable")
            at, sensor, unit, value = at[order], sensor[order], unit[order], value[order]
        sensors, units = list(self._sensors), list(self._units)
        return RecordedReadings(self._field, sensors, units, at, sensor, unit, value)
