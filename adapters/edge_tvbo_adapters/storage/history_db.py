"""History database: the decision history of a daemon in one SQLite file of bounded size.

A row of `batches` holds the entries of one field that were written together, as one compressed JSON
array. One row for each entry would take three times as many bytes, and each byte written wears a
memory card. If several rows contain an entry of the same interval, the entry in the last row is
valid. Rows are ordered by `id`, because the interval numbers start again if the daemon loses its
state. When the file is full, the oldest rows are deleted.

The file is in WAL mode (with SQLite's write-ahead log), so that `HistoryReader` can read while the
daemon writes. Each batch is one transaction. When the WAL exceeds `MIN_FOLDED_WAL_SIZE`, it is
flushed to the disk and copied into the file. A power cut loses at most the batches after the last
flush, and never damages the file.
Space for a batch is made before it is written, so the file never exceeds its maximal size.
"""

import logging
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from math import ceil
from operator import attrgetter
from pathlib import Path

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.messages.history import HistoryEntry

log = logging.getLogger(__name__)

SCHEMAS = (  # each step converts the file from one version to the next; a new file has version 0
    """
    CREATE TABLE batches (
        id INTEGER PRIMARY KEY,
        field TEXT NOT NULL,
        first INTEGER NOT NULL,  -- the lowest number of an interval in it
        last INTEGER NOT NULL,
        entries BLOB NOT NULL  -- zlib of JSON
    )
    """,
)
VERSION = len(SCHEMAS)
PAGE_SIZE = 2048  # bytes; small, because each batch leaves some pages partly filled
MIN_FOLDED_WAL_SIZE = 2**20  # bytes; a larger WAL is copied into the file
MAX_WAL_SIZE = 2**22  # bytes; reached only if a reader prevents the copying for long
MAX_BATCH_SIZE = 2**26  # bytes of one batch, uncompressed
DELETED_ROWS = 8  # rows that are deleted at a time to make space
LOCK_TIMEOUT_S = 0.1
DAMAGE_ERRORS = (  # SQLITE_ERROR means a table that differs from `SCHEMAS`
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
)
_PRAGMAS = ("synchronous = NORMAL", "wal_autocheckpoint = 0", "secure_delete = OFF")
_INSERT = "INSERT INTO batches (field, first, last, entries) VALUES (?, ?, ?, ?)"


def history_file(directory: str, instance: str) -> Path:
    """Return the history file of the daemon `instance`.

    >>> history_file("/var/lib/edge-tvbo", "lab").name
    'lab.history.db'
    """
    return Path(directory) / f"{instance}.history.db"


class HistoryDatabase:
    """Writer of a daemon's decision history; it opens the file when it is first used.

    Parameters
    ----------
    directory : str
        The state directory of the daemon.
    instance : str
        The daemon's name.
    max_size : int
        Maximal size of the file and its WAL together, in bytes; at least twice `MAX_WAL_SIZE`.
    """

    def __init__(self, directory: str, instance: str, max_size: int) -> None:
        path = history_file(directory, instance)
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._max_pages = (max_size - MAX_WAL_SIZE) // PAGE_SIZE
        self._connection: sqlite3.Connection | None = None
        self._written = 0
        self._logged_problem = ""

    @property
    def written(self) -> int:
        """Upper bound of the bytes written to the history since the start."""
        return self._written

    def store(self, entries: Sequence[HistoryEntry]) -> bool:
        """Store entries of the decision history, all or none; return whether they were stored.

        An entry replaces an earlier entry of the same interval. An error is logged.
        """
        try:
            connection = self._connect()
            batches = list(packed(entries))
            size = sum(len(blob) for *_, blob in batches)
            self._fold_wal(connection, size)
            before = self._wal_size()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                self._make_space(connection, size)
                connection.executemany(_INSERT, batches)
            self._written += max(0, self._wal_size() - before)
        except (sqlite3.Error, OSError) as error:
            self._close_after(error)
            return False
        self._log_problem("")
        return True

    def latest(self, field: str) -> HistoryEntry | None:
        """Return the newest history entry of `field`.

        Returns None if there is no entry, or if the newest entry is unreadable.
        """
        try:
            if not self._path.exists():
                return None
            query = "SELECT entries FROM batches WHERE field = ? ORDER BY id DESC LIMIT 1"
            row = self._connect().execute(query, (field,)).fetchone()
            return unpacked(row[0])[-1] if row else None
        except (sqlite3.Error, OSError) as error:
            self._close_after(error)
        except DataError:
            pass
        return None

    def close(self) -> None:
        """Copy the WAL into the history file and close the file."""
        if self._connection:
            self._written += self._wal_size()
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    # --- the file -----------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(
                self._path, timeout=LOCK_TIMEOUT_S, isolation_level=None
            )
            self._prepare(self._connection)
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Convert the history file to the present version, and reduce it to the maximal size."""
        version = _pragma(connection, "user_version")
        if version > VERSION:
            raise sqlite3.NotSupportedError(
                f"the file has format {version}, and this version of edge_tvbo writes {VERSION}; "
                "move the file away, or install the version of edge_tvbo that wrote it"
            )
        for pragma in (f"page_size = {PAGE_SIZE}", "journal_mode = WAL", *_PRAGMAS):
            connection.execute(f"PRAGMA {pragma}")
        for number in range(version, VERSION):
            step = f"BEGIN IMMEDIATE; {SCHEMAS[number]}; PRAGMA user_version = {number + 1}; COMMIT"
            connection.executescript(step)
        if _pragma(connection, "page_count") > self._max_pages:  # the setting was lowered
            self._make_space(connection, 0)
            connection.execute("VACUUM")
        connection.execute(f"PRAGMA max_page_count = {self._max_pages}")

    def _make_space(self, connection: sqlite3.Connection, size: int) -> None:
        """Delete the oldest batches of the history until there is space for `size` more bytes."""
        needed = ceil(2 * size / PAGE_SIZE) + 16  # at worst, pages are half full
        oldest = f"SELECT id FROM batches ORDER BY id LIMIT {DELETED_ROWS}"
        while self._free_pages(connection) < needed:
            if not connection.execute(f"DELETE FROM batches WHERE id IN ({oldest})").rowcount:
                break

    def _free_pages(self, connection: sqlite3.Connection) -> int:
        used = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
        return self._max_pages - used

    def _fold_wal(self, connection: sqlite3.Connection, size: int) -> None:
        """Copy a large WAL into the file.

        Raises `sqlite3.OperationalError` if a reader prevents the copying and the WAL has no space
        for `size` more bytes.
        """
        before = self._wal_size()
        if before > MIN_FOLDED_WAL_SIZE:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        after = self._wal_size()
        self._written += before - after
        if after + size > MAX_WAL_SIZE:
            raise sqlite3.OperationalError(
                "another program has been reading the file for too long; stop that program"
            )

    def _wal_size(self) -> int:
        try:
            return self._wal.stat().st_size
        except FileNotFoundError:
            return 0

    # --- errors -------------------------------------------------------------------------------

    def _close_after(self, error: sqlite3.Error | OSError) -> None:
        """Close the history file after an error, rename it if it is damaged, and log the error."""
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE_ERRORS:
            log.error("history: %s is damaged: %s; %s", self._path, problem, self._set_aside())
            return
        self._log_problem(problem)

    def _set_aside(self) -> str:
        """Rename the damaged history file, replacing any earlier one; return a text for the log."""
        target = self._path.with_name(f"{self._path.name}.damaged")
        try:
            self._path.replace(target)
            for suffix in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    self._path.with_name(f"{self._path.name}{suffix}").unlink()
        except OSError as error:
            return f"the file could not be renamed: {error.strerror}"
        return f"the file was renamed to {target.name}, and a new history starts"

    def _log_problem(self, problem: str) -> None:
        """Log once that the history cannot be stored, and once that it is stored again."""
        if problem == self._logged_problem:
            return
        self._logged_problem = problem
        if problem:
            log.error(
                "history: cannot be stored in %s: %s; the daemon continues without a history",
                self._path,
                problem,
            )
        else:
            log.info("history: stored in %s again", self._path)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


# --- rows -----------------------------------------------------------------------------------------


def packed(entries: Sequence[HistoryEntry]) -> Iterator[tuple[str, int, int, bytes]]:
    """Yield a row of the history database for each field of `entries`.

    The row contains the field's name, the first and the last interval, and the compressed entries.
    """
    field_of = attrgetter("field")
    for field, group in groupby(sorted(entries, key=field_of), key=field_of):
        batch = list(group)
        numbers = [each.decision.interval for each in batch]
        yield field, min(numbers), max(numbers), zlib.compress(msgspec.json.encode(batch))


def unpacked(blob: bytes) -> list[HistoryEntry]:
    """Return the history entries of a database row, the oldest first.

    Raises `DataError` if the row cannot be decoded or is empty.
    """
    try:
        reader = zlib.decompressobj()
        batch = msgspec.json.decode(
            reader.decompress(blob, MAX_BATCH_SIZE), type=list[HistoryEntry]
        )
    except (TypeError, ValueError, RecursionError, zlib.error) as error:
        raise DataError(f"A batch of the history cannot be decoded: {error}.") from error
    if not batch:
        raise DataError("A batch of the history is empty.")
    return batch
