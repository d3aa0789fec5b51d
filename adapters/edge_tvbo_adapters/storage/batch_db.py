"""Batch database: batches of one kind in one SQLite file of bounded size.

There are two kinds: `HistoryDatabase` and `ReadingDatabase`. A row of the table `batches` holds the
entries of one field that were written together, as one compressed blob. One row for each entry
would take three times as many bytes, and a memory card wears with every byte that is written. When
the file is full, the oldest rows are deleted before a batch is written, so that the file never
exceeds its maximal size.

The file is in WAL mode (with SQLite's write-ahead log), so that a reader can read while the daemon
writes. Each call of `store_batches` is one transaction. When the WAL exceeds `MIN_FOLDED_WAL_SIZE`,
it is flushed to the disk and copied into the file. A power cut loses at most the batches after the
last flush, and never damages the file.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from shlex import quote
from typing import ClassVar, TypeVar

from edge_tvbo_adapters.storage.batch_file import (
    Kind,
    damage_error,
    decodable_errors,
    is_damage,
    pragma_value,
)

log = logging.getLogger(__name__)

PAGE_SIZE = 2048  # bytes; small, because each batch leaves some pages partly filled
MIN_FOLDED_WAL_SIZE = 2**20  # bytes; a larger WAL is copied into the file
MAX_WAL_SIZE = 2**22  # bytes; reached only if a reader prevents the copying for a long time
DELETED_ROWS = 8  # rows that one statement deletes to make space
MAX_DELETED_PAGES = 2 * MAX_WAL_SIZE // PAGE_SIZE  # in a transaction; enough for each batch
MAX_REDUCTION_TIME_S = 5.0  # longest time of one call of `_reduce`
MAX_VACUUM_SIZE = 2**24  # bytes that VACUUM may have to copy; a memory card needs 5 s for them
LOCK_TIMEOUT_S = 0.1
_PRAGMAS = ("synchronous = NORMAL", "wal_autocheckpoint = 0", "secure_delete = OFF")
_INSERT = "INSERT INTO batches (field, first, last, entries) VALUES (?, ?, ?, ?)"

Batch = tuple[str, int, int, bytes]  # field, first and last interval (or time), blob
Identity = tuple[int, int]  # device and inode of a file
Result = TypeVar("Result")


class BatchDatabase:
    """Writer of a batch database; it opens the file when it is first used.

    Parameters
    ----------
    directory : str
        The state directory of the daemon.
    instance : str
        The daemon's name.
    max_size : int
        Maximal size of the file and its WAL together, in bytes; at least twice `MAX_WAL_SIZE`.
    """

    kind: ClassVar[Kind]  # what the batches contain

    def __init__(self, directory: str, instance: str, max_size: int) -> None:
        path = self.kind.file(directory, instance)
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._max_pages = (max_size - MAX_WAL_SIZE) // PAGE_SIZE
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[Identity | None, Identity | None] = (None, None)
        self._is_too_large = False  # whether the setting was lowered, and batches must be deleted
        self._written = 0
        self._logged_problem = ""

    @property
    def written(self) -> int:
        """Upper bound on the number of bytes written to the batch database since the start."""
        return self._written

    def store_batches(self, batches: Sequence[Batch]) -> bool:
        """Store either all or none of the batches; return whether they were stored.

        An error of the batch database is logged.
        """
        try:
            self._attempt(lambda: self._store(batches))
        except (sqlite3.Error, OSError) as error:
            self._close_after(error)
            return False
        self._log_problem("")
        return True

    def latest_blob(self, field: str) -> bytes | None:
        """Return the newest blob of `field` in the batch database.

        Returns None if there is no blob, or if it is unreadable.
        """
        try:
            if not self._path.exists():
                return None
            return self._attempt(lambda: self._newest(field))
        except (sqlite3.Error, OSError) as error:
            self._close_after(error)
            return None

    def close(self) -> None:
        """Copy the WAL into the file of the batch database, and close the file."""
        if self._connection:
            self._written += self._wal_size()
        self._close_connection()

    # --- the file -----------------------------------------------------------------------------

    def _store(self, batches: Sequence[Batch]) -> None:
        connection = self._connect()
        size = sum(len(blob) for *_, blob in batches)
        self._fold_wal(connection, size)
        if self._is_too_large:
            self._reduce(connection)
            self._fold_wal(connection, size)
        with self._transaction(connection):
            self._make_space(connection, size)
            connection.executemany(_INSERT, batches)

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        before = self._wal_size()
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
        self._written += max(0, self._wal_size() - before)

    def _newest(self, field: str) -> bytes | None:
        query = "SELECT entries FROM batches WHERE field = ? ORDER BY id DESC LIMIT 1"
        row = self._connect().execute(query, (field,)).fetchone()
        return row[0] if row else None

    def _connect(self) -> sqlite3.Connection:
        """Return the connection to the batch database.

        If the file was removed or replaced, the old connection would write to a file without a
        name. Therefore the old connection is closed, and the present file is opened. A WAL of the
        old file is deleted first, because SQLite would apply it to the new file.
        """
        if self._connection and (present := self._identities()) != self._opened:
            log.warning(
                "%s: %s was removed or replaced while the daemon was running; %s is stored in the "
                "present file from now on",
                self.kind.name,
                self._path,
                self.kind.article,
            )
            self._close_connection()
            (old, old_wal), (new, wal) = self._opened, present
            if new != old and wal == old_wal:
                self._remove_wal()
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(
                self._path, timeout=LOCK_TIMEOUT_S, isolation_level=None
            )
            self._prepare(self._connection)
            self._opened = self._identities()
        return self._connection

    def _identities(self) -> tuple[Identity | None, Identity | None]:
        """Return the identity of the batch database's file and that of its WAL."""
        return _identity(self._path), _identity(self._wal)

    def _remove_wal(self) -> None:
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                self._path.with_name(f"{self._path.name}{suffix}").unlink()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Convert the batch database to the present version, and set its maximal size."""
        version, newest = pragma_value(connection, "user_version"), len(self.kind.schemas)
        if version < 0:
            raise damage_error(f"the file has format {version}")
        if version > newest:
            raise sqlite3.NotSupportedError(
                f"the file has format {version}, and this version of edge_tvbo writes {newest}; "
                "move the file away, or install the version of edge_tvbo that wrote it"
            )
        for pragma in (f"page_size = {PAGE_SIZE}", "journal_mode = WAL", *_PRAGMAS):
            connection.execute(f"PRAGMA {pragma}")
        for number in range(version, newest):
            step, then = self.kind.schemas[number], f"PRAGMA user_version = {number + 1}"
            connection.executescript(f"BEGIN IMMEDIATE; {step}; {then}; COMMIT")
        self._is_too_large = pragma_value(connection, "page_count") > self._max_pages
        connection.execute(f"PRAGMA max_page_count = {self._max_pages}")

    def _reduce(self, connection: sqlite3.Connection) -> None:
        """Delete the oldest batches of a file that is too large, and then the file's free pages.

        The daemon's loop waits for the deletion. Therefore each call deletes only for a limited
        time, and the next call continues. If the maximal size is large, the free pages stay in the
        file for new batches, because it would take too long to remove them.
        """
        deadline = time.monotonic() + MAX_REDUCTION_TIME_S
        while self._is_too_large:
            with self._transaction(connection):
                is_enough = self._make_space(connection, 0)
            self._is_too_large = not is_enough
            if self._is_too_large and time.monotonic() >= deadline:
                return
            self._fold_wal(connection, 0)
        if self._max_pages * PAGE_SIZE > MAX_VACUUM_SIZE:
            log.info(
                "%s: %s does not become smaller, because that would take too long. The file does "
                "not grow either, because %s is stored in its free space. To make the file "
                "smaller, stop the daemon and run (package sqlite3):  sqlite3 %s VACUUM",
                self.kind.name,
                self._path,
                self.kind.article,
                quote(str(self._path)),
            )
            return
        self._shrink(connection)
        connection.execute(f"PRAGMA max_page_count = {self._max_pages}")

    def _shrink(self, connection: sqlite3.Connection) -> None:
        """Remove the free pages from the batch database, if SQLite can do that now.

        SQLite can remove the free pages if no other program reads the file, and if the disk has
        enough free space. Otherwise, new batches use the free pages, so the file does not grow.
        """
        try:
            connection.execute("VACUUM")
            self._written += self._wal_size()
        except sqlite3.OperationalError as error:
            log.warning(
                "%s: cannot be made smaller yet: %s; the daemon continues to store %s. At a later "
                "start, %s becomes smaller if no other program reads the file, and if the free "
                "space on the disk is at least the size of the file",
                self.kind.name,
                error,
                self.kind.article,
                self._path,
            )

    def _make_space(self, connection: sqlite3.Connection, size: int) -> bool:
        """Delete the oldest batches until there is space for `size` more bytes.

        The method deletes at most about `MAX_DELETED_PAGES` pages. Returns whether there is enough
        space.
        """
        needed = ceil(2 * size / PAGE_SIZE) + 16  # at worst, pages are half full
        possible = min(needed, self._free_pages(connection) + MAX_DELETED_PAGES)
        oldest = f"SELECT id FROM batches ORDER BY id LIMIT {DELETED_ROWS}"
        while self._free_pages(connection) < possible:
            if not connection.execute(f"DELETE FROM batches WHERE id IN ({oldest})").rowcount:
                return True
        return possible == needed

    def _free_pages(self, connection: sqlite3.Connection) -> int:
        used = pragma_value(connection, "page_count") - pragma_value(connection, "freelist_count")
        return self._max_pages - used

    def _fold_wal(self, connection: sqlite3.Connection, size: int) -> None:
        """Copy a large WAL into the file of the batch database.

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
        """Return the size of the batch database's WAL in bytes.

        Returns 0 if there is no WAL, or if its size cannot be read.
        """
        try:
            return self._wal.stat().st_size
        except OSError:  # not raised, because the batches may be stored already
            return 0

    def _close_connection(self) -> None:
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    # --- errors -------------------------------------------------------------------------------

    def _attempt(self, action: Callable[[], Result]) -> Result:
        """Return the result of `action`; if SQLite reports damage, reopen the database and retry.

        There is only one retry. A retry can succeed, because SQLite also reports damage if the file
        is intact and only a single read has failed.
        """
        try:
            with decodable_errors():
                return action()
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
        self._close_connection()
        with decodable_errors():
            return action()

    def _close_after(self, error: sqlite3.Error | OSError) -> None:
        """Close the batch database after an error, and log the error.

        A damaged database is also renamed.
        """
        self._close_connection()
        problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if is_damage(error):
            log.error(
                "%s: %s is damaged: %s; %s", self.kind.name, self._path, problem, self._set_aside()
            )
            return
        self._log_problem(problem)

    def _set_aside(self) -> str:
        """Rename the damaged batch database; return a text for the log.

        The new name is always the same, so that a file that was renamed earlier is replaced.
        """
        target = self._path.with_name(f"{self._path.name}.damaged")
        try:
            self._path.replace(target)
            self._remove_wal()
        except OSError as error:
            return f"the file could not be renamed: {error.strerror}"
        return f"the file was renamed to {target.name}, and a new file is created"

    def _log_problem(self, problem: str) -> None:
        """Log once that the database cannot store batches, and once when storing works again."""
        if problem == self._logged_problem:
            return
        self._logged_problem = problem
        if problem:
            log.error(
                "%s: cannot be stored in %s: %s; the daemon continues without %s",
                self.kind.name,
                self._path,
                problem,
                self.kind.article,
            )
        else:
            log.info("%s: storing in %s works again", self.kind.name, self._path)


def _identity(path: Path) -> Identity | None:
    """Return the device and inode numbers of a database file; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
