"""Batch file: the SQLite file of a batch database, and a connection that reads it."""

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from edge_tvbo.errors import DataError

Decoded = TypeVar("Decoded")
MAX_BATCH_SIZE = 2**26  # bytes of one batch, uncompressed
DAMAGE_ERRORS = (  # SQLITE_ERROR occurs if a table differs from the schema
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
)
TABLE = """
    CREATE TABLE batches (
        id INTEGER PRIMARY KEY,
        field TEXT NOT NULL,
        first INTEGER NOT NULL,  -- the lowest number of an interval in it, or time, s since 1970
        last INTEGER NOT NULL,
        entries BLOB NOT NULL  -- zlib of JSON
    )
    """


class Kind(NamedTuple):
    """Kind of a batch database: the history database or the reading database."""

    name: str  # in the log, and in the name of the file
    article: str  # the name in a sentence
    missing: str  # text if there is no file
    schemas: tuple[str, ...]  # each converts the file to the next version; a new file has version 0

    def file(self, directory: str, instance: str) -> Path:
        """Return the path of this kind of batch database for the daemon `instance`.

        >>> Kind("history", "the history", "", ()).file("/var/lib/edge-tvbo", "lab").name
        'lab.history.db'
        """
        return Path(directory) / f"{instance}.{self.name}.db"


def is_damage(error: sqlite3.Error | OSError) -> bool:
    """Return whether an error of a batch database shows that its file is damaged."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE_ERRORS


def damage_error(problem: str) -> sqlite3.DatabaseError:
    """Return an error that reports a damaged file, in the form of SQLite's own errors."""
    error = sqlite3.DatabaseError(problem)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


@contextmanager
def decodable_errors() -> Iterator[None]:
    """Raise a `sqlite3.DatabaseError` in place of an error whose message cannot be decoded.

    SQLite quotes a damaged schema in its message, and the damaged bytes are not always UTF-8.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise damage_error("malformed database schema") from error


def pragma_value(connection: sqlite3.Connection, name: str) -> int:
    """Return the value of a pragma of a batch database."""
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def encoded(batch: object) -> bytes:
    """Return a batch as the blob that the database stores."""
    return zlib.compress(msgspec.json.encode(batch))


def decoded(blob: bytes, kind: type[Decoded], what: str) -> Decoded:
    """Return the batch in a `blob` of the database; at most `MAX_BATCH_SIZE` bytes are decoded.

    Raises `DataError` if the blob is not a batch; the error text says `what` the batch contains.
    """
    try:
        content = zlib.decompressobj().decompress(blob, MAX_BATCH_SIZE)
        return msgspec.json.decode(content, type=kind)
    except (TypeError, ValueError, RecursionError, zlib.error) as error:
        raise DataError(f"A batch of {what} cannot be decoded: {error}.") from error


@decodable_errors()
def open_for_reading(path: Path, kind: Kind) -> sqlite3.Connection:
    """Open a batch database for reading, even in a read-only directory.

    Raises `DataError` if there is no such file, if this user may not read the file, or if this
    version of edge_tvbo cannot read the format of the file.
    """
    _check_readable(path, kind)
    with ExitStack() as unless_readable:
        connection = unless_readable.enter_context(closing(_open(path, kind)))
        version = pragma_value(connection, "user_version")
        if version == len(kind.schemas):
            unless_readable.pop_all()
            return connection
    if version < 0:
        raise damage_error(f"the file has format {version}")
    program = (
        "use the version of edge_tvbo that wrote it"
        if version > len(kind.schemas)
        else f"start the daemon once: it converts {kind.article}"
    )
    raise DataError(
        f"{path}: {kind.article} has format {version}, and this version of edge_tvbo reads format "
        f"{len(kind.schemas)}; {program}."
    )


def _check_readable(path: Path, kind: Kind) -> None:
    """Raise `DataError` if there is no batch database at `path`, or if this user may not read it.

    The file is not opened, because closing it would release the locks of a daemon in this process.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: {kind.missing}") from None
    except PermissionError:  # of the directory
        is_readable = False
    else:
        is_readable = os.access(path, os.R_OK)
    if not is_readable:
        raise DataError(
            f"{path}: this user is not allowed to read {kind.article}. Run the command as the "
            "owner of the file or as root, for example with sudo."
        )


def _open(path: Path, kind: Kind) -> sqlite3.Connection:
    """Open a batch database for reading; in a read-only directory, declare the file immutable.

    Raises `DataError` if the directory is read-only, and SQLite has to create a file beside a WAL.
    """
    uri, wal = path.absolute().as_uri(), path.with_name(f"{path.name}-wal")
    try:
        return _open_checked(f"{uri}?mode=ro")
    except sqlite3.OperationalError as error:
        if not wal.exists() or not wal.stat().st_size:
            return _open_checked(f"{uri}?mode=ro&immutable=1")
        is_refused = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN
        if not is_refused or os.access(path.parent, os.W_OK):
            raise
    raise DataError(
        f"{path}: {kind.article} cannot be read in a directory where this user cannot write, "
        f"because its newest part is in {wal.name}; copy these files to a directory where this "
        "user can write, and read the copy."
    )


def _open_checked(uri: str) -> sqlite3.Connection:
    """Open a batch database and read its schema, because SQLite opens a file without a read."""
    with ExitStack() as unless_readable:
        connection = unless_readable.enter_context(closing(sqlite3.connect(uri, uri=True)))
        connection.execute("SELECT count(*) FROM sqlite_schema")
        unless_readable.pop_all()
    return connection
