"""Reading database: the accepted readings of a daemon in one SQLite file of bounded size.

A batch holds the readings of one field as columns, ordered by time, and the unit of the field when
they were recorded. Batches of earlier versions have no unit. A reading takes about 7 bytes
in batches of ten minutes, so 64 MiB are enough for more than a year if 46 sensors are read every 10
minutes. `read_readings` reads the file whether the daemon is running or not. A batch that cannot be
decoded is skipped.
"""

import logging
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate, groupby, pairwise
from math import inf
from operator import attrgetter

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.messages.readings import RecordedReading
from edge_tvbo_adapters.storage.batch_db import (
    TABLE,
    Batch,
    BatchDatabase,
    Kind,
    decompressed,
    open_for_reading,
)

log = logging.getLogger(__name__)

READINGS = Kind(
    "readings",
    "the record of readings",
    "there are no recorded readings yet.\n"
    "The daemon records all accepted readings if `dir` is set in [state] and `readings` is not"
    ' "off". It stores the readings at every state.checkpoint, on SIGUSR1 and when it stops.',
    (TABLE,),
)


class Columns(msgspec.Struct, frozen=True, array_like=True):
    """A batch of recorded readings, ordered by time, with a list for each column."""

    sensors: list[str]
    first: int  # time of the first reading, ms since 1970
    later: list[int]  # (n - 1,), ms from each reading to the next
    sensor: list[int]  # (n,), indices of `sensors`
    value: list[float]  # (n,)
    unit: str = ""  # of all values


class ReadingDatabase(BatchDatabase):
    """Writer of the readings of a daemon."""

    kind = READINGS

    def store(self, readings: Sequence[RecordedReading]) -> bool:
        """Store readings in the reading database, all or none of them.

        Return whether they were stored. An error is logged.
        """
        return self.store_batches(list(packed(readings)))


def read_readings(
    directory: str, instance: str, field: str, first: float = -inf, last: float = inf
) -> list[RecordedReading]:
    """Return the recorded readings of a field with `first` <= time < `last`, ordered by time.

    Times are in s since 1970. Raises `DataError` if the file is missing or cannot be read.
    """
    path = READINGS.file(directory, instance)
    query = "SELECT id, entries FROM batches WHERE field = ? AND first < ? AND last >= ?"
    bounds = max(-(2.0**53), min(last, 2.0**53)), max(-(2.0**53), min(first - 1.0, 2.0**53))
    found: list[RecordedReading] = []
    try:
        with closing(open_for_reading(path, READINGS)) as connection:
            for number, blob in connection.execute(query, (field, *bounds)):
                try:
                    found += [each for each in unpacked(field, blob) if first <= each.at < last]
                except DataError as error:
                    log.warning("%s: batch %d is skipped: %s", path, number, error)
    except (sqlite3.Error, OSError) as error:
        raise DataError(f"{path}: the readings cannot be read: {error}.") from error
    found.sort(key=attrgetter("at"))
    return found


def packed(readings: Sequence[RecordedReading]) -> Iterator[Batch]:
    """Yield a row of the reading database for each field and unit of `readings`."""
    in_order = sorted(readings, key=attrgetter("field", "unit", "at"))
    for (field, unit), group in groupby(in_order, key=attrgetter("field", "unit")):
        batch = list(group)
        index: dict[str, int] = {}
        times = [round(1000 * reading.at) for reading in batch]
        columns = Columns(
            first=times[0],
            later=[after - before for before, after in pairwise(times)],
            sensor=[index.setdefault(reading.sensor, len(index)) for reading in batch],
            value=[reading.value for reading in batch],
            sensors=list(index),
            unit=unit,
        )
        blob = zlib.compress(msgspec.json.encode(columns))
        yield field, times[0] // 1000, times[-1] // 1000, blob


def unpacked(field: str, blob: bytes) -> list[RecordedReading]:
    """Return the readings in a row of the reading database.

    Raises `DataError` if the row cannot be decoded.
    """
    try:
        columns = msgspec.json.decode(decompressed(blob), type=Columns)
        times = accumulate(columns.later, initial=columns.first)
        return [
            RecordedReading(field, columns.sensors[sensor], at / 1000, value, columns.unit)
            for at, sensor, value in zip(times, columns.sensor, columns.value, strict=True)
        ]
    except (TypeError, ValueError, IndexError, RecursionError, zlib.error) as error:
        raise DataError(f"A batch of readings cannot be decoded: {error}.") from error
