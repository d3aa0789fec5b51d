"""What became of each interval, in one SQLite file of bounded size, the oldest giving way.

A row of `batches` holds the entries of one field that were kept in one go: a JSON array of them, in
the words of the wire, deflated together. That takes a third of what a row for each would, and what
is written wears a memory card. An entry that is kept again stands in a later row as well, which
counts. Rows go by `id`: numbers of intervals begin again where the daemon's state was lost.

The file is in WAL mode: others may read while it is written, see `past`. A batch is one
transaction, flushed to the disk when the WAL has grown to `FOLD` and is folded into the file; a
power cut costs what came after that at the most, and never the file. Room for a batch is made
before it is written, so the file never outgrows its bound.
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

SCHEMAS = (  # what leads from each version of the file to the next; a new file has version 0
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
PAGE = 2048  # bytes; small, as each batch writes a few pages that are not full
FOLD = 2**20  # bytes of WAL, from which on it is folded into the file
MOST_WAL = 2**22  # bytes; more can only be where somebody reads without end
LARGEST_BATCH = 2**26  # bytes of one, uncompressed
ROWS = 8  # the oldest that give way at a time
PATIENCE = 0.1  # s that another's lock is waited for
DAMAGED = (  # SQLITE_ERROR is for a table that is not as we made it
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
    """Writes the decision history of a daemon; opens its file when it is first used.

    Parameters
    ----------
    directory : str
        The state directory of the daemon.
    instance : str
        Its name.
    max_size : int
        Bytes of its files together, at least twice `MOST_WAL`.
    """

    def __init__(self, directory: str, instance: str, max_size: int) -> None:
        path = history_file(directory, instance)
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._largest = max_size
        self._connection: sqlite3.Connection | None = None
        self._written = 0
        self._trouble = ""  # what was last said of the disk

    @property
    def written(self) -> int:
        """Bytes written since the start, at the most."""
        return self._written

    def store(self, entries: Sequence[HistoryEntry]) -> bool:
        """Keep `entries`, all or none, each instead of what was kept of the same interval."""
        try:
            connection = self._connected()
            batches = list(packed(entries))
            size = sum(len(blob) for *_, blob in batches)
            self._fold(connection, size)
            before = self._wal_size()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                self._make_room(connection, size)
                connection.executemany(_INSERT, batches)
            self._written += max(0, self._wal_size() - before)
        except (sqlite3.Error, OSError) as error:
            self._failed(error)
            return False
        self._say("")
        return True

    def latest(self, field: str) -> HistoryEntry | None:
        """Give the newest entry of `field`, where there is one that can be read."""
        try:
            if not self._path.exists():
                return None
            query = "SELECT entries FROM batches WHERE field = ? ORDER BY id DESC LIMIT 1"
            found = self._connected().execute(query, (field,)).fetchone()
            return unpacked(found[0])[-1] if found else None
        except (sqlite3.Error, OSError) as error:
            self._failed(error)
        except DataError:
            pass
        return None

    def close(self) -> None:
        """Fold the WAL into the file, and let go of it."""
        if self._connection:
            self._written += self._wal_size()
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    # --- the file -----------------------------------------------------------------------------

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)
            self._prepare(self._connection)
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Have the file as this version wants it."""
        version = _number(connection, "user_version")
        if version > VERSION:
            raise sqlite3.NotSupportedError(
                f"it has format {version}, and this version of edge_tvbo writes {VERSION}; "
                "move it away, or go back to the version that wrote it"
            )
        for pragma in (f"page_size = {PAGE}", "journal_mode = WAL", *_PRAGMAS):
            connection.execute(f"PRAGMA {pragma}")
        for number in range(version, VERSION):
            step = f"BEGIN IMMEDIATE; {SCHEMAS[number]}; PRAGMA user_version = {number + 1}; COMMIT"
            connection.executescript(step)
        if _number(connection, "page_count") > self._most_pages:  # the bound was lowered
            self._make_room(connection, 0)
            connection.execute("VACUUM")
        connection.execute(f"PRAGMA max_page_count = {self._most_pages}")

    @property
    def _most_pages(self) -> int:
        return (self._largest - MOST_WAL) // PAGE

    def _make_room(self, connection: sqlite3.Connection, size: int) -> None:
        """Drop the oldest batches until `size` bytes fit."""
        wanted = ceil(2 * size / PAGE) + 16  # pages are half full at the worst
        oldest = f"SELECT id FROM batches ORDER BY id LIMIT {ROWS}"
        while self._free_pages(connection) < wanted:
            if not connection.execute(f"DELETE FROM batches WHERE id IN ({oldest})").rowcount:
                break

    def _free_pages(self, connection: sqlite3.Connection) -> int:
        used = _number(connection, "page_count") - _number(connection, "freelist_count")
        return self._most_pages - used

    def _fold(self, connection: sqlite3.Connection, size: int) -> None:
        """Fold a large WAL into the file; refuse `size` bytes more where a reader is in the way."""
        before = self._wal_size()
        if before > FOLD:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        after = self._wal_size()
        self._written += before - after
        if after + size > MOST_WAL:
            raise sqlite3.OperationalError("somebody has been reading it for too long")

    def _wal_size(self) -> int:
        try:
            return self._wal.stat().st_size
        except FileNotFoundError:
            return 0

    # --- what goes wrong ------------------------------------------------------------------------

    def _failed(self, error: sqlite3.Error | OSError) -> None:
        """Let go of the file, set it aside if it is damaged, and say so once."""
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        trouble = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
            log.error("history: %s is damaged: %s; %s", self._path, trouble, self._set_aside())
            return
        self._say(trouble)

    def _set_aside(self) -> str:
        """Rename the file, over one that was set aside before: two of them at the most."""
        aside = self._path.with_name(f"{self._path.name}.damaged")
        try:
            self._path.replace(aside)
            for suffix in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    self._path.with_name(f"{self._path.name}{suffix}").unlink()
        except OSError as error:
            return f"it stays where it is: {error.strerror}"
        return f"it is kept as {aside.name}, and a new one begun"

    def _say(self, trouble: str) -> None:
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble:
            log.error(
                "history: nothing can be kept in %s: %s; deciding goes on, and is forgotten",
                self._path,
                trouble,
            )
        else:
            log.info("history: it is kept in %s again", self._path)


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    number: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return number


# --- a batch as a row ---------------------------------------------------------------------------


def packed(entries: Sequence[HistoryEntry]) -> Iterator[tuple[str, int, int, bytes]]:
    """Yield field, first and last number, and content of a batch for each field."""
    of_field = attrgetter("field")
    for field, group in groupby(sorted(entries, key=of_field), key=of_field):
        batch = list(group)
        numbers = [each.decision.interval for each in batch]
        yield field, min(numbers), max(numbers), zlib.compress(msgspec.json.encode(batch))


def unpacked(blob: bytes) -> list[HistoryEntry]:
    """Give the entries of a batch, at least one, oldest first; raises `DataError`."""
    try:
        reader = zlib.decompressobj()
        batch = msgspec.json.decode(reader.decompress(blob, LARGEST_BATCH), type=list[HistoryEntry])
    except (TypeError, ValueError, RecursionError, zlib.error) as error:
        raise DataError(f"An entry of the history does not decode: {error}.") from error
    if not batch:
        raise DataError("A batch of the history is empty.")
    return batch
