"""History reader: reads a daemon's decision history, whether the daemon is running or not.

The reader writes nothing and does not block the daemon. Entries that the daemon has not written yet
are missing. A batch that cannot be decoded is skipped; the first such batch is logged.
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from edge_tvbo.errors import DataError
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo_adapters.storage.batch_file import open_for_reading
from edge_tvbo_adapters.storage.history_db import HistoryDatabase, unpacked

log = logging.getLogger(__name__)


class HistoryReader:
    """Reader of a daemon's decision history; every method may raise `DataError`.

    Parameters
    ----------
    directory : str
        The state directory of the daemon.
    instance : str
        The daemon's name.
    """

    def __init__(self, directory: str, instance: str) -> None:
        path = HistoryDatabase.kind.file(directory, instance)
        self._path = path
        self._logged_skipped = False
        with self._errors():
            self._connection = open_for_reading(path, HistoryDatabase.kind)

    def fields(self) -> list[str]:
        """Return the sorted names of the fields that have entries in the history file."""
        with self._errors():
            rows = self._connection.execute("SELECT DISTINCT field FROM batches ORDER BY field")
            return [field for (field,) in rows]

    def span(self, field: str) -> tuple[int, int] | None:
        """Return the numbers of a field's first and last interval in the history file.

        Returns None if the file has no entry of the field.
        """
        with self._errors():
            query = "SELECT min(first), max(last) FROM batches WHERE field = ?"
            first, last = self._connection.execute(query, (field,)).fetchone()
        return None if first is None else (first, last)

    def entry(self, field: str, interval: int) -> HistoryEntry | None:
        """Return the entry of one interval in the history file; None if it is not stored."""
        return next(self._entries(field, interval, interval), None)

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Return the last `count` entries of a field in the history file, the newest first."""
        return list(islice(self._entries(field, 0, 2**62), count))

    def between(self, field: str, first: int, last: int) -> list[HistoryEntry]:
        """Return the history file's entries of intervals `first` to `last`, the oldest first."""
        return list(self._entries(field, first, last))[::-1]

    def close(self) -> None:
        """Close the history file that the reader has opened."""
        self._connection.close()

    def _entries(self, field: str, first: int, last: int) -> Iterator[HistoryEntry]:
        """Yield the history entries of the intervals `first` to `last`, the newest first.

        If an interval is stored more than once, only its last entry is yielded.
        """
        query = "SELECT id, entries FROM batches WHERE field = ? AND first <= ? AND last >= ?"
        ordered = f"{query} ORDER BY id DESC"
        yielded = set()
        with self._errors():
            for number, blob in self._connection.execute(ordered, (field, last, first)):
                for entry in reversed(self._unpacked(number, blob)):
                    interval = entry.decision.interval
                    if first <= interval <= last and interval not in yielded:
                        yielded.add(interval)
                        yield entry

    def _unpacked(self, number: int, blob: bytes) -> list[HistoryEntry]:
        """Return the history entries in a batch; [] if the batch cannot be decoded."""
        try:
            return unpacked(blob)
        except DataError as error:
            if not self._logged_skipped:
                self._logged_skipped = True
                log.warning("%s: batch %d is skipped: %s", self._path, number, error)
            return []

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert an error of the history file to a `DataError`."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise DataError(f"{self._path}: the history cannot be read: {error}.") from error
