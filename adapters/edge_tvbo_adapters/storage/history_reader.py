"""What a history holds, for whoever looks at it: beside the daemon, or when it is gone.

Nothing is written, and the daemon is not kept from writing. What it has not kept yet is not seen.
A batch that does not decode is left out, and said once: the rest of the history is as good as ever.
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from edge_tvbo.errors import DataError
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo_adapters.storage.history_db import VERSION, history_file, unpacked

log = logging.getLogger(__name__)


class HistoryReader:
    """Reads the decision history of a daemon, beside it or after it; raises `DataError`.

    Parameters
    ----------
    directory : str
        The state directory of the daemon.
    instance : str
        Its name.
    """

    def __init__(self, directory: str, instance: str) -> None:
        path = history_file(directory, instance)
        self._path = path
        self._complained = False
        with self._troubles():
            self._connection = _connected(path)

    def fields(self) -> list[str]:
        """Give the fields there are entries of, sorted; raises `DataError`."""
        with self._troubles():
            rows = self._connection.execute("SELECT DISTINCT field FROM batches ORDER BY field")
            return [field for (field,) in rows]

    def span(self, field: str) -> tuple[int, int] | None:
        """Give the lowest and the highest number of an interval; raises `DataError`."""
        with self._troubles():
            query = "SELECT min(first), max(last) FROM batches WHERE field = ?"
            first, last = self._connection.execute(query, (field,)).fetchone()
        return None if first is None else (first, last)

    def entry(self, field: str, interval: int) -> HistoryEntry | None:
        """Give what became of one interval, where that is kept; raises `DataError`."""
        return next(self._entries(field, interval, interval), None)

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Give the last `count` entries, the newest first; raises `DataError`."""
        return list(islice(self._entries(field, 0, 2**62), count))

    def between(self, field: str, first: int, last: int) -> list[HistoryEntry]:
        """Give the entries with these numbers and all in between, oldest first."""
        return list(self._entries(field, first, last))[::-1]

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _entries(self, field: str, first: int, last: int) -> Iterator[HistoryEntry]:
        """Yield the entries with such numbers, the newest first, each as it was kept last."""
        query = "SELECT id, entries FROM batches WHERE field = ? AND first <= ? AND last >= ?"
        batches = (f"{query} ORDER BY id DESC", (field, last, first))
        seen = set()
        with self._troubles():
            for batch, blob in self._connection.execute(*batches):
                for entry in reversed(self._unpacked(batch, blob)):
                    number = entry.decision.interval
                    if first <= number <= last and number not in seen:
                        seen.add(number)
                        yield entry

    def _unpacked(self, batch: int, blob: bytes) -> list[HistoryEntry]:
        """Give the entries of a batch, none where it does not decode."""
        try:
            return unpacked(blob)
        except DataError as error:
            if not self._complained:
                self._complained = True
                log.warning("%s: batch %d is left out: %s", self._path, batch, error)
            return []

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise DataError(f"{self._path}: the history cannot be read: {error}.") from error


def _connected(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise DataError(
            f"{path}: there is no history; the daemon keeps one where [state] has\n"
            'history = "64MiB", and writes it every state.checkpoint and when it ends.'
        )
    connection = _opened(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == VERSION:
        return connection
    connection.close()
    which = "the version that wrote it" if version > VERSION else "the daemon, which leads it on,"
    raise DataError(
        f"{path}: the history has format {version}, and this edge_tvbo reads {VERSION}; "
        f"{which} has to be run."
    )


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file to read it, even from a directory where nothing may be written."""
    uri = path.absolute().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.OperationalError:
        connection.close()
        if path.with_name(f"{path.name}-wal").exists():
            raise
        connection = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)
    return connection
