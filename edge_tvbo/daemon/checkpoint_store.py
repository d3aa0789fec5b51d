"""Checkpoint store: the interface of the storage of checkpoints and their journals."""

from collections.abc import Iterator
from typing import Protocol


class Store(Protocol):
    """Storage of the newest and the previous checkpoint.

    No method raises an error of the disk; the store logs each such error once.
    """

    @property
    def written(self) -> int:
        """Number of bytes of checkpoints that the store has written since the start."""
        ...

    @property
    def newest(self) -> str:
        """Name of the checkpoint that was written last."""
        ...

    def generations(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the content of each stored checkpoint, the newest first."""
        ...

    def set_aside(self, generation: str, why: str) -> str:
        """Rename the file of a checkpoint, so that it is not read again; return a log text."""
        ...

    def keep(self, generation: str, why: str) -> None:
        """Make the next `save` rename the checkpoint called `generation`, and not overwrite it."""
        ...

    def demote_newest(self) -> None:
        """Rename the newest checkpoint, which then counts as the previous one.

        Renaming works even if the disk is full.
        """
        ...

    def save(self, document: bytes) -> bool:
        """Store a checkpoint completely, or not at all; return whether it is stored."""
        ...

    def mark_unsaved(self, until: float) -> None:
        """Store a mark: no checkpoint could be stored, and the next attempt is due at `until`.

        `until` is in s since 1970. If possible, the mark is stored even if the disk is full.
        """
        ...

    def unsaved_until(self) -> float | None:
        """Return the time that the last mark contains; None if a checkpoint was stored since."""
        ...

    def append(self, entry: bytes) -> bool:
        """Append an entry to the journal of the newest checkpoint; return whether it is stored."""
        ...

    def journals(self) -> Iterator[bytes]:
        """Yield the journals of the newest and of the previous checkpoint, in any order."""
        ...

    def count_replay(self) -> int:
        """Count a start that replays a journal; return the count since the last `end_replay`."""
        ...

    def end_replay(self) -> None:
        """Set the count of `count_replay` to 0, because a start has replayed the journal."""
        ...

    def why_empty(self) -> str:
        """Return why the store yields no checkpoint; "" if none has been stored yet."""
        ...
