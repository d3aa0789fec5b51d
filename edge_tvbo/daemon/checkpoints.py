"""Checkpoints: the state of every field in one file, written regularly and read at the start.

`checkpoint_document` describes the content of a checkpoint.

Interval numbers. If a process is killed, all events after its last checkpoint are lost. But the
process may have begun intervals after the checkpoint, and published their numbers. No number may be
used twice:

- Each checkpoint reserves as many unused interval numbers as are needed until two more checkpoints
  are written; see `number_reservation`.
- After a kill, a second process skips the reserved numbers. It also skips one further number for
  each interval that has begun since the checkpoint. If the second process is also killed before it
  writes a checkpoint, a third process reads the same checkpoint. By then, more intervals have
  begun, and the third process skips more numbers. So the second and the third process use different
  numbers.
- After a regular stop, the next process continues with the next number. If this new process cannot
  write a checkpoint, it renames the newest checkpoint, which then counts as the previous one. A
  later process skips the reserved numbers, as after a kill.

Energy budgets. After a kill, the energy budgets are charged for the intervals that could begin
until the next checkpoint was due. If a process cannot write a checkpoint, it stores a mark with the
time of its next attempt. After a kill, the budgets are then charged for all intervals until the
time in the last mark.

Journal. A checkpoint of more than `LARGE_DOCUMENT_BYTES` is written less often than a small
checkpoint. At the other times at which a small checkpoint would be written, the events that the
controllers have handled are appended to a journal. The checkpoint and these events determine the
state at the last entry of the journal; see `journal`.

- At the start, for one field after another, a throwaway controller is restored from the checkpoint
  and handles the events of the journal. The field then continues from the snapshot of this
  controller, as if a checkpoint had been written instead of the last entry. So a restart changes
  the state only after the last event: for example, the restart marks replies that may be lost.
- Only checkpoints reserve interval numbers: as many as are needed until two more checkpoints are
  written, with or without a journal. So no number is used twice if the journal is damaged, is lost
  or belongs to another checkpoint, or if an older version is started, which reads no journal.
- Only the process that has written a checkpoint appends entries to the journal of this checkpoint.
  If an entry cannot be written, the journal ends, and a checkpoint is written instead.
- A journal is full if it is as large as its checkpoint, if it has `MAX_JOURNAL_EVENTS` events, or
  if the controllers needed `MAX_REPLAY_S` to handle its events. The replay of these events at a
  start takes as long. Without these limits, a start could need too much memory or time, and systemd
  would end each start.
- A full journal gets its last entry at once. The next checkpoint is then written as early as it
  would be without a journal, but not earlier, so that many events do not cause many checkpoints.
  Until this checkpoint, further events are not stored.
- If `MAX_REPLAYS` starts have ended while they replayed a journal, the next start does not use the
  journal. So a journal cannot prevent every start.
- After a kill, the energy budgets are charged for the intervals that could begin until the next
  entry was due. If entries may be lost, the budgets are charged for the intervals that could begin
  until the next checkpoint was due.

Stepped clock. If the wall clock was stepped between the checkpoint and the restart, the controllers
shift their stored times. If it is stepped while the daemon runs, no checkpoint is written until the
controllers have shifted their stored times. Otherwise these times and the time of the checkpoint
would contradict each other.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from math import ceil, inf
from typing import NamedTuple

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.checkpoint_document import Anchor, Document, FieldCheckpoint, decode, encode
from edge_tvbo.daemon.checkpoint_store import Store
from edge_tvbo.daemon.journal import EventBuffer, FieldEntry, Journal, document_id, read
from edge_tvbo.daemon.loop import LoopService
from edge_tvbo.daemon.number_reservation import NumberReservation, intervals_in
from edge_tvbo.daemon.restoration import Restoration
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.errors import SnapshotError, StateInUse
from edge_tvbo.messages.events import ClockStepped, Event
from edge_tvbo.messages.formatting import interval_text
from edge_tvbo.models.snapshot import NewerFormatError

log = logging.getLogger(__name__)

LARGE_DOCUMENT_BYTES = 2**18  # for a document of n times this size, the period is n times longer
JOURNAL_PERIODS = 6  # a document with a journal is written after this many periods,
MAX_DOCUMENT_AGE_S = 86_400.0  # or after this time, but not earlier than without a journal
MAX_REPLAYS = 5  # starts that may end while they replay a journal
MAX_RETRY_DELAY_S = 60.0  # between attempts to write a document that could not be written


class _Periods(NamedTuple):
    """Times between two writes of the state, in s; they depend on the size of the checkpoint."""

    entry: float  # between two entries of the journal
    early: float  # until the next document, if there is no journal or the journal is full
    document: float  # until the next document otherwise

    @property
    def has_journal(self) -> bool:
        """Whether journal entries are written between two checkpoints."""
        return self.early > self.entry


class Checkpoints(LoopService):
    """Service of the loop that writes the state of all fields to a store, and restores it.

    Parameters
    ----------
    store : Store
        Storage of the documents.
    every : float
        Seconds between two checkpoints. Checkpoints of more than `LARGE_DOCUMENT_BYTES` are written
        less often; between them, entries are appended to a journal.
    controllers : mapping
        The controller of each field.
    scheduler : Scheduler
        The scheduler of all fields. The start times of the next intervals are stored and restored.
    anchor : callable
        Returns the present moment; see `clock_anchor`.
    is_stepped : callable
        Returns True from a step of the wall clock until the controllers are informed of it.
    make_controller : callable
        Returns a new controller of a field, like that in `controllers`, in which a journal is
        replayed.
    retained : callable
        Returns the names of the fields whose documents the broker may retain.
    keep_lock : callable
        Returns whether the lock file of the stored state was removed; if so, locks the state again.
        It is called before each write. It raises `StateInUse` if a second daemon has the lock.

    Attributes
    ----------
    removed : set of str
        Fields of the restored checkpoint that are no longer configured, and whose documents the
        broker may still retain.
    """

    def __init__(
        self,
        store: Store,
        every: float,
        controllers: Mapping[str, Controller],
        scheduler: Scheduler,
        anchor: Callable[[], Anchor],
        is_stepped: Callable[[], bool],
        make_controller: Callable[[str], Controller],
        retained: Callable[[], Iterable[str]] = tuple,
        keep_lock: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._every = every
        self._controllers = controllers
        self._scheduler = scheduler
        self._anchor = anchor
        self._is_stepped = is_stepped
        self._make_controller = make_controller
        self._retained = retained
        self._keep_lock = keep_lock
        self.removed: set[str] = set()
        self._due = -inf  # when the next document is due
        self._period_end = -inf  # when the next document is due if the journal is full
        self._entry_due = inf  # when the next entry of the journal is due
        self._buffer: EventBuffer | None = None  # None without a journal
        self._names_period = True  # whether to log the period if it is longer than `every`
        self.failing = False  # whether the last document could not be written
        self._owes_two = False  # whether to write two documents next; see `save`
        self._has_state = False  # whether the controllers have a state, restored or new
        self._reservation = NumberReservation()

    @property
    def written(self) -> int:
        """Size in bytes of all checkpoints written since the start."""
        return self._store.written

    def restore(self) -> None:
        """Restore every field from the newest valid checkpoint."""
        rejected = ""
        for generation, data in self._store.generations():
            try:
                document = decode(data)
            except SnapshotError as error:
                why = "newer" if isinstance(error, NewerFormatError) else "damaged"
                aside = self._store.set_aside(generation, why)
                log.error(
                    "state: the checkpoint %s cannot be used: %s; %s", generation, error, aside
                )
                rejected = "no stored state can be used"
                continue
            newest = generation == self._store.newest
            final = document.final
            restoration = Restoration(
                document,
                self._journal_of(data),
                newest,
                self._store.unsaved_until(),
                self._controllers,
                self._scheduler,
                self._anchor,
                self._make_controller,
            )
            restoration.run()
            if restoration.policy_failed:
                self._store.keep(generation, "unreadable")
            self.removed = {*document.fields, *document.uncleared} - self._controllers.keys()
            del document, data, restoration  # `save` needs as much memory for the new document
            self.save()  # the daemon calls `save` again; then both documents reserve new numbers
            self._store.end_replay()
            if self.failing and final and newest:
                self._store.demote_newest()  # this process uses numbers without a reservation
            return
        why = rejected or self._store.why_empty()
        level = logging.WARNING if why else logging.INFO
        why = why or "no state is stored"
        log.log(level, "state: %s; every field starts without readings", why)

    def _journal_of(self, document: bytes) -> Journal:
        """Return the journal of a checkpoint; empty if the last `MAX_REPLAYS` replays did not end.

        Without this limit, a service manager would restart a daemon that has too little memory for
        the replay again and again.
        """
        journal = read(self._store.journals(), document_id(document))
        if journal.problem:
            log.warning("state: the end of the event journal cannot be used: %s", journal.problem)
        if journal.entries and self._store.count_replay() > MAX_REPLAYS:
            log.error(
                "state: the daemon was stopped in each of its last %d starts while it read the "
                "event journal, so this start does not use the journal; all fields continue from "
                "the last whole state; if systemd stopped the daemon, set a higher MemoryMax or "
                "TimeoutStartSec for the service",
                MAX_REPLAYS,
            )
            return Journal([], is_damaged=True)
        return journal

    # --- what the loop calls --------------------------------------------------------------------

    def wake_at(self) -> float:
        """Return the time when the next checkpoint, or the next entry of the journal, is due."""
        return min(self._due, self._entry_due)

    def note(self, field: str, event: Event, seconds: float) -> None:
        """Record an event for the journal; the controller of `field` has handled the event.

        The controller needed `seconds` to handle the event. If one turn of the loop has very many
        events, several entries are written in this turn. Otherwise each such turn would need a new
        checkpoint. No entry is written directly after a step of the clock, because the controllers
        of other fields may not know of the step yet.
        """
        buffer = self._buffer
        if buffer:
            buffer.add(field, event, seconds)
            is_whole = buffer.has_entry and not buffer.overflows
            if is_whole and not isinstance(event, ClockStepped):
                self._append(buffer, time.monotonic())

    def service(self, now: float) -> None:
        """Write a checkpoint, or an entry of the journal, if it is due."""
        buffer = self._buffer
        if self._needs_document(now):
            self.save()
        elif buffer and (now >= self._entry_due or buffer.is_long):
            self._append(buffer, now)

    def _needs_document(self, now: float) -> bool:
        """Return whether a checkpoint is due.

        There are three possible reasons: the time has come, a field has used almost all of its
        reserved interval numbers, or the journal is full.
        """
        buffer = self._buffer
        return (
            now >= self._due
            or (buffer is not None and buffer.overflows)
            or (buffer is not None and buffer.is_full and now >= self._period_end)
            or any(
                self._reservation.is_used_up(name, each.used)
                for name, each in self._controllers.items()
            )
        )

    def save(self) -> None:
        """Write a checkpoint now, or in the next turn of the loop.

        The checkpoint is delayed if the wall clock was stepped and the controllers have not been
        informed yet. After a delay or a failure, two checkpoints are written, so that both the
        newest and the previous checkpoint reserve new numbers.
        """
        self._has_state = True
        if self._is_stepped():
            self._due, self._owes_two = -inf, True
            return
        self._write(final=False)
        if self._owes_two and not self.failing:
            self._write(final=False)
        self._owes_two = self.failing

    def close(self) -> None:
        """Write the final checkpoint at a regular stop, unless the stored state must be kept.

        If `restore` fails, or if a second daemon has taken the state, the process ends, and the
        stored state must not be replaced.
        """
        if self._has_state:
            try:
                self._write(final=True)
            except StateInUse as error:
                log.error("state: the state was not stored when the daemon stopped: %s", error)

    def _check_lock(self) -> bool:
        """Return whether the lock file was removed; the stored state may have been removed with it.

        Raises `StateInUse` if a second daemon has taken the state; this daemon then writes no more.
        """
        try:
            is_lost = self._keep_lock()
        except StateInUse:
            self._has_state = False
            raise
        self._owes_two |= is_lost
        return is_lost

    def _append(self, buffer: EventBuffer, now: float) -> None:
        """Append an entry to the journal; write a checkpoint instead if this fails.

        If the journal is full, the entry is the last one, and the next checkpoint is written early.
        """
        if self._is_stepped():
            return
        if self._check_lock():
            self.save()
            return
        is_last = buffer.is_full
        due = self._period_end if is_last else now + self._every
        fields = {name: self._field_entry(name, due - now) for name in self._controllers}
        entry = buffer.entry(self._anchor(), fields)
        if entry is None or not self._store.append(entry):
            self.save()
        elif is_last:
            self._buffer, self._entry_due, self._due = None, inf, due
        else:
            self._entry_due = due

    def _field_entry(self, name: str, wait: float) -> FieldEntry:
        """Return one field's part of a journal entry; the next write is due in `wait` seconds."""
        controller = self._controllers[name]
        every, next_in = self._scheduler.next_interval(name)
        return FieldEntry(
            controller.used,
            next_in,
            intervals_in(wait, every),
            self._scheduler.awaited_reply(name),
            controller.digest(),
        )

    def _write(self, *, final: bool) -> None:
        self._check_lock()
        anchor = self._anchor()
        snapshots = {name: each.snapshot() for name, each in self._controllers.items()}
        periods = self._periods(sum(map(len, snapshots.values())))
        fields = {
            name: self._field_checkpoint(name, blob, anchor.monotonic, periods)
            for name, blob in snapshots.items()
        }
        now = time.monotonic()
        uncleared = sorted({*self._retained()} - fields.keys())
        data = _encoded(Document(anchor, final, fields, uncleared))
        self.failing = data is None or not self._store.save(data)
        wait = periods.document
        if self.failing:
            wait = periods.early if data is None else min(periods.early, MAX_RETRY_DELAY_S)
            self._reservation.cancel()
            self._store.mark_unsaved(anchor.wall + wait)
        self._due, self._period_end, self._entry_due = now + wait, now + periods.early, inf
        self._buffer = None
        if data and periods.has_journal and not final and not self.failing:
            self._buffer, self._entry_due = EventBuffer(data), now + periods.entry

    def _periods(self, size: int) -> _Periods:
        """Return how often the events, and a whole state of `size` bytes, are written.

        The first time that the whole state is written less often than the events, this is logged.
        """
        early = self._every * max(1, ceil(size / LARGE_DOCUMENT_BYTES))
        if early <= self._every:
            return _Periods(self._every, early, early)
        document = max(early, min(JOURNAL_PERIODS * early, MAX_DOCUMENT_AGE_S))
        if self._names_period:
            self._names_period = False
            log.info(
                "state: the state has %d KiB, so only the readings and other events are stored "
                "every %s; the whole state is stored every %s, or every %s if there are very many "
                "events",
                size // 1024,
                interval_text(self._every),
                interval_text(document),
                interval_text(early),
            )
        return _Periods(self._every, early, document)

    def _field_checkpoint(
        self, name: str, snapshot: bytes, at: float, periods: _Periods
    ) -> FieldCheckpoint:
        """Return one field's part of a checkpoint, which is written at the monotonic time `at`."""
        controller = self._controllers[name]
        every, next_in = self._scheduler.next_interval(name)
        return FieldCheckpoint(
            snapshot,
            controller.used,
            self._reservation.reserve(name, controller.used, every, at, periods.document),
            every,
            next_in,
            reply=self._scheduler.awaited_reply(name),
            live=controller.live() if periods.has_journal else b"",
            next_write=intervals_in(periods.entry, every) if periods.has_journal else None,
        )


def _encoded(document: Document) -> bytes | None:
    """Return a checkpoint as bytes; log an error and return None if the checkpoint is too large."""
    try:
        return encode(document)
    except SnapshotError as error:
        fields = document.fields
        log.error(
            "state: cannot be stored: %s; the largest part is the state of the field %s: set a "
            "smaller `window` for the field's policy, choose another policy, or divide the sensors "
            "among several instances; the daemon continues, but a restart would load the last "
            "stored state",
            error,
            max(fields, key=lambda name: len(fields[name].controller)),
        )
        return None
