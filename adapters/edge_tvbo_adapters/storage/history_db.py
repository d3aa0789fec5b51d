"""History database: the decision history of a daemon in one SQLite file of bounded size.

If several batches contain an entry of the same interval, the entry in the last batch is valid.
Batches are ordered by `id`, because the interval numbers start again if the daemon loses its state.
"""

import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo_adapters.storage.batch_db import MAX_WAL_SIZE as MAX_WAL_SIZE
from edge_tvbo_adapters.storage.batch_db import Batch, BatchDatabase, Kind

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
MAX_BATCH_SIZE = 2**26  # bytes of one batch, uncompressed


def history_kind() -> Kind:
    """Return the kind of a history database."""
    return Kind(
        "history",
        "the history",
        "there is no history yet.\n"
        'If [state] has history = "64MiB", the daemon writes it at every state.checkpoint, on'
        " SIGUSR1 and when it stops.",
        SCHEMAS,
    )


def history_file(directory: str, instance: str) -> Path:
    """Return the history file of the daemon `instance`.

    >>> history_file("/var/lib/edge-tvbo", "lab").name
    'lab.history.db'
    """
    return Path(directory) / f"{instance}.history.db"


class HistoryDatabase(BatchDatabase):
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
        super().__init__(history_file(directory, instance), history_kind(), max_size)

    def store(self, entries: Sequence[HistoryEntry]) -> bool:
        """Store entries of the decision history, all or none; return whether they were stored.

        An entry replaces an earlier entry of the same interval. An error is logged.
        """
        return self.store_batches(list(packed(entries)))

    def latest(self, field: str) -> HistoryEntry | None:
        """Return the newest entry of `field` in the history database.

        Returns None if there is no entry, or if the newest entry is unreadable.
        """
        blob = self.latest_blob(field)
        try:
            return None if blob is None else unpacked(blob)[-1]
        except DataError:
            return None


def packed(entries: Sequence[HistoryEntry]) -> Iterator[Batch]:
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
