"""Journal: the events after a checkpoint, from which a later state of the controllers follows.

A controller's state depends only on the events that it handles. So a snapshot and the later events
contain as much as a later snapshot, but the events are much shorter. `checkpoints` describes when
the journal is written.

Format: a journal is a sequence of entries. Each entry consists of its length (4 bytes), a header
with a checksum, and a body; see `DocumentFormat`. An entry names the document that it continues. A
damaged entry ends the journal, because later events cannot be handled without its events. An entry
that was not completely written before a kill or a power cut is torn: no later entry follows it.

Replay: `replay` restores throwaway controllers from the document, and lets them handle the events.
The commands of these controllers are dropped, because the daemon carried out the commands before it
was killed. After each entry, the digest of a controller must be equal to the digest in the entry.
If the digests differ, the events do not lead to the state that the daemon had, for example because
the settings have changed in the meantime. In this case, the journal is not used for the field.
"""

import logging
from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.checkpoint_document import Anchor, FieldCheckpoint, IntervalNumber
from edge_tvbo.daemon.scheduler import AwaitedReply
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.events import Event, Unreadable
from edge_tvbo.models.snapshot import DocumentFormat

log = logging.getLogger(__name__)

MAGIC = b"edge_tvbo event\n"
FORMAT = 1
LENGTH_BYTES = 4  # of the length before each entry
MAX_EVENTS = 10_000  # in an entry
MAX_JOURNAL_EVENTS = 100_000  # all events are in memory while a journal is read: 25 MB
MAX_REPLAY_S = 10.0  # time to handle the events of a journal; measured when they happen


class FieldEntry(msgspec.Struct, frozen=True):
    """The state of one field in a journal entry, without the events."""

    used: IntervalNumber  # the highest used number
    next_in: Annotated[float, Meta(ge=-1e12, le=1e12)]  # s from the anchor to the next interval
    next_write: Annotated[int, Meta(ge=0, le=2**53)] | None  # as in a `FieldCheckpoint`
    reply: AwaitedReply | None
    digest: bytes  # of the controller, after the events


class Entry(msgspec.Struct, frozen=True):
    """The events of all fields since the previous entry, and the state that they lead to."""

    document: bytes  # the id of the document that the journal continues
    anchor: Anchor  # when the entry was written
    fields: dict[str, FieldEntry]
    events: list[tuple[str, Event]]


class Journal(NamedTuple):
    """The valid entries of a checkpoint's journal."""

    entries: list[Entry]
    problem: str = ""  # why later entries are dropped
    is_damaged: bool = False  # whether a complete entry is damaged: later entries may be lost


class Continued(NamedTuple):
    """The state of one field when the last entry of a journal was written."""

    anchor: Anchor
    field: FieldCheckpoint


_FORMAT = DocumentFormat(MAGIC, Entry)


class EventBuffer:
    """The events since the last write, which become the next entry of a state file's journal.

    Parameters
    ----------
    document : bytes
        The stored document that the journal continues.
    """

    def __init__(self, document: bytes) -> None:
        self.document = document_id(document)
        self.overflows = False  # whether an event could not be added
        self._max_bytes = len(document)
        self._bytes = 0  # of the journal so far
        self._count = 0  # events of the journal
        self._seconds = 0.0  # time to handle all events of the journal
        self._events: list[tuple[str, Event]] = []

    @property
    def is_long(self) -> bool:
        """Whether an entry must be written early: the buffer is half full, or the journal full."""
        return len(self._events) >= MAX_EVENTS // 2 or self.is_full

    @property
    def has_entry(self) -> bool:
        """Whether the buffer has as many events as an entry can have."""
        return len(self._events) >= MAX_EVENTS

    @property
    def is_full(self) -> bool:
        """Whether the journal is as large as its checkpoint, or too long to read and replay."""
        return (
            self._bytes >= self._max_bytes
            or self._count >= MAX_JOURNAL_EVENTS
            or self._seconds >= MAX_REPLAY_S
        )

    def add(self, field: str, event: Event, seconds: float) -> None:
        """Add an event of `field`; its controller took `seconds` to handle the event."""
        if self.has_entry:
            self.overflows = True
            return
        if isinstance(event, Unreadable):  # its texts do not change the state
            event = Unreadable(event.reason, "", "")
        self._events.append((field, event))
        self._count += 1
        self._seconds += seconds

    def entry(self, anchor: Anchor, fields: dict[str, FieldEntry]) -> bytes | None:
        """Return the next entry, with the events since the previous one, as bytes.

        The result is None if the entry would be too large to be read again.
        """
        try:
            data = encode(Entry(self.document, anchor, fields, self._events))
        except SnapshotError:
            return None
        self._events = []
        self._bytes += len(data)
        return data


def document_id(document: bytes) -> bytes:
    """Return the id of a checkpoint; each entry of the checkpoint's journal contains this id."""
    return sha256(document).digest()


def encode(entry: Entry) -> bytes:
    """Return an entry as the bytes that are appended to a journal."""
    data = _FORMAT.encode(entry, number=FORMAT)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def read(journals: Iterable[bytes], document: bytes) -> Journal:
    """Return the journal of the checkpoint with the id `document`; empty if there is none."""
    found = [_read(data, document) for data in journals]
    known = (each for each in found if each.entries)
    unknown = (each for each in found if each.problem)
    return next(known, None) or next(unknown, Journal([]))


def _read(data: bytes, document: bytes) -> Journal:
    """Return the valid entries of a journal; empty if it belongs to another checkpoint."""
    entries: list[Entry] = []
    at = 0
    while at < len(data):
        begin = at + LENGTH_BYTES
        at = begin + int.from_bytes(data[at:begin], "big")
        if at > len(data):
            if _may_be_torn(data[begin:]):
                return Journal(entries, "it is incomplete")
            return Journal(entries, "the length of an entry is damaged", is_damaged=True)
        try:
            entry = _decode(data[begin:at])
        except SnapshotError as error:
            return Journal(entries, str(error), is_damaged=True)
        if entry.document != document:
            problem = "it belongs to another checkpoint" if entries else ""
            return Journal(entries, problem, is_damaged=bool(entries))
        entries.append(entry)
    return Journal(entries)


def _may_be_torn(end: bytes) -> bool:
    """Return whether the last bytes of a journal, `end`, can be a torn entry.

    In a torn entry, only the beginning was written, so the length before `end` is larger than
    `end`. The length is also larger if the length itself is damaged. In this case, `end` is a whole
    entry, contains a later entry, or is no entry, and the result is False.
    """
    if not MAGIC.startswith(end[: len(MAGIC)]) or end.find(MAGIC, len(MAGIC)) >= 0:
        return False
    try:
        _decode(end)
    except SnapshotError:
        return True
    return False


def _decode(data: bytes) -> Entry:
    return _FORMAT.decode(data, number=FORMAT, migrations={})


def replay(
    name: str, field: FieldCheckpoint, journal: Journal, controller: Controller
) -> Continued | None:
    """Return the state of a field after the events of the `journal` of its document.

    `controller` is a new controller of the field, which is not used for anything else. Return None
    if the journal cannot be used for this field.
    """
    if not all(name in each.fields for each in journal.entries):
        return None
    if problem := _replay_field(name, field, journal, controller):
        log.warning(
            "state: the event journal cannot be used for the field %s, so the field continues "
            "from the last whole state: %s",
            name,
            problem,
        )
        return None
    last = journal.entries[-1]
    return Continued(last.anchor, _continued(field, last.fields[name], controller))


def _replay_field(
    name: str, field: FieldCheckpoint, journal: Journal, controller: Controller
) -> str:
    """Replay a field's events in a new controller; return why the journal is unusable, or ""."""
    try:
        controller.restore(field.controller)
        controller.restore_live(field.live)
        for entry in journal.entries:
            for of_field, event in entry.events:
                if of_field == name:
                    controller.handle(event)
            if controller.digest() != entry.fields[name].digest:
                return "the settings or the version of edge_tvbo have changed"
    except SnapshotError as error:
        return str(error)
    except Exception:  # events of another version or configuration; the start must not fail
        log.exception("state: an event in the event journal cannot be replayed")
        return "an event failed"
    return ""


def _continued(
    field: FieldCheckpoint, entry: FieldEntry, controller: Controller
) -> FieldCheckpoint:
    """Return the `FieldCheckpoint` of a field at the time of a journal entry.

    `field` is the checkpoint before the journal, and `controller` has handled the events up to
    `entry`. For each interval since this checkpoint, one more interval number counts as reserved.
    So a process that reads the journal and a process that does not read it skip the same numbers.
    """
    return replace(
        field,
        controller=controller.snapshot(),
        interval=entry.used,
        reserved=field.reserved + entry.used - field.interval,
        next_in=entry.next_in,
        next_write=entry.next_write,
        reply=entry.reply,
    )
