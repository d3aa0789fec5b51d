"""Batch recorder: collects entries in memory, and writes them to a database in batches."""

import logging
from collections.abc import Hashable, Sequence
from itertools import islice
from math import inf
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from edge_tvbo.daemon.loop import LoopService
from edge_tvbo.messages.formatting import counted

log = logging.getLogger(__name__)

MAX_RETRY_DELAY_S = 60.0
Entry = TypeVar("Entry")
Entry_contra = TypeVar("Entry_contra", contravariant=True)


class BatchWriter(Protocol[Entry_contra]):
    """Writer of a database of bounded size; errors of the disk are logged, not raised."""

    @property
    def written(self) -> int:
        """Upper limit of the number of bytes written to the recorder's database since the start."""
        ...

    def store(self, entries: Sequence[Entry_contra], /) -> bool:
        """Store all `entries` in the recorder's database, or none of them.

        Return whether they were stored.
        """
        ...

    def close(self) -> None:
        """Close the batch database to which a recorder writes."""
        ...


class BatchRecorder(LoopService, Generic[Entry]):
    """Service that writes the queued entries to a database every `period` seconds.

    When `max_pending` entries are queued, they are written immediately, at most `max_batch` of them
    in one transaction. If writing fails and more than 2 * `max_pending` entries are queued, the
    oldest entries are dropped.
    """

    content: ClassVar[str]  # for the log: what the database contains, such as "history"
    entry: ClassVar[str]  # for the log: the name of one entry, such as "interval"

    def __init__(
        self, writer: BatchWriter[Entry], period: float, max_pending: int, max_batch: int
    ) -> None:
        self._writer = writer
        self._period = period
        self._max_pending = max_pending
        self._max_batch = max_batch
        self._pending: dict[Hashable, Entry] = {}  # the oldest first
        self._due: float | None = None  # monotonic time
        self.failing = False  # whether the last batch could not be written

    @property
    def written(self) -> int:
        """Upper limit of the number of bytes written to the batch recorder's database."""
        return self._writer.written

    def wake_at(self) -> float:
        """Return the time when the recorder's next batch is due."""
        return inf if self._due is None else self._due

    def service(self, now: float) -> None:
        """Write the queued entries if a batch is due, or if too many entries are queued."""
        if self._due is None:
            self._due = now + self._period
        too_many = len(self._pending) >= self._max_pending and not self.failing
        if now >= self._due or too_many:
            self.failing = not self.save()
            retry = min(self._period, MAX_RETRY_DELAY_S)
            self._due = now + (retry if self.failing else self._period)

    def save(self) -> bool:
        """Write the recorder's queued entries to the database; return whether they were stored."""
        while self._pending:
            batch = dict(islice(self._pending.items(), self._max_batch))
            if not self._writer.store(list(batch.values())):
                return False
            for key in batch:
                del self._pending[key]
        return True

    def take_over(self, before: Self) -> None:
        """Let the previous recorder, `before`, write its queued entries.

        If this fails, queue these entries in this recorder, with a batch that is due immediately.
        A reload calls this method before any other entry is queued in this recorder.
        """
        if before.save():
            return
        self._pending, before._pending = before._pending, {}
        self._due = -inf
        log.warning(
            "%s: the last batch cannot be stored; the reloaded daemon tries again to store %s",
            self.content,
            counted(len(self._pending), self.entry),
        )

    def close(self) -> None:
        """Write the queued entries as a last batch, and close the recorder's database.

        The log says how many entries are lost because they cannot be written.
        """
        if not self.save():
            log.error(
                "%s: the last batch cannot be stored; lost: %s",
                self.content,
                counted(len(self._pending), self.entry),
            )
        self._writer.close()

    def _queue(self, key: Hashable, entry: Entry) -> None:
        """Queue an entry for the next batch, in place of a queued entry with the same key."""
        self._pending[key] = entry
        if len(self._pending) > 2 * self._max_pending:
            del self._pending[next(iter(self._pending))]
