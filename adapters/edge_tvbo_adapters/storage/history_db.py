"""History database: the decision history of a daemon in one SQLite file of bounded size.

If several batches contain an entry of the same interval, the entry in the last batch is valid.
Batches are ordered by `id`, because the interval numbers restart if the daemon loses its state.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from edge_tvbo.errors import DataError
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo_adapters.storage.batch_db import Batch, BatchDatabase
from edge_tvbo_adapters.storage.batch_file import TABLE, Kind, decoded, encoded

HISTORY = Kind(
    "history",
    "the history",
    "there is no history yet.\n"
    'If [state] has history = "64MiB", the daemon writes the history at every '
    "checkpoint, on SIGUSR1 and when it stops.",
    (TABLE,),
)


class HistoryDatabase(BatchDatabase):
    """Writer of a daemon's decision history."""

    kind = HISTORY

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
    """Yield the rows of the history database for `entries`, one row for each field.

    A row contains the field's name, the first and the last interval, and the compressed entries.
    """
    field_of = attrgetter("field")
    for field, group in groupby(sorted(entries, key=field_of), key=field_of):
        batch = list(group)
        numbers = [each.decision.interval for each in batch]
        yield field, min(numbers), max(numbers), encoded(batch)


def unpacked(blob: bytes) -> list[HistoryEntry]:
    """Return the entries in a row of the history database, the oldest first.

    Raises `DataError` if the row cannot be decoded or is empty.
    """
    batch = decoded(blob, list[HistoryEntry], "the history")
    if not batch:
        raise DataError("A batch of the history is empty.")
    return batch
