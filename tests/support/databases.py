"""Damaged SQLite files: what damage can make them look like."""

import sqlite3
from contextlib import closing, suppress

WRITE_VERSION_AT = 18  # position in the header of an SQLite file
SQLITE_WRITE_VERSION = 2  # in WAL mode


def is_of_later_version(path, kind):
    """Return whether a batch database looks like one of a later version of edge_tvbo or SQLite.

    The daemon keeps such a file, and does not write to it.
    """
    if path.read_bytes()[WRITE_VERSION_AT] > SQLITE_WRITE_VERSION:
        return True
    with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.Error):
        return connection.execute("PRAGMA user_version").fetchone()[0] > len(kind.schemas)
    return False
