"""Checkpoints: the state of every field in one file, written regularly and read at the start.

For each field, a checkpoint contains the snapshot of the controller, the start of the next interval
and the deadline of the reply that the controller waits for.
`models.snapshot` describes the format of the file; the functions in `MIGRATIONS` convert
checkpoints of older formats.

Interval numbers. If a process is killed, all events after its last checkpoint are lost. But the
process may have begun intervals after the checkpoint, and published their numbers. No number may be
used twice:

- Each checkpoint reserves as many unused interval numbers as are needed until two more checkpoints
  are written. So the previous checkpoint can be used if the newest is damaged.
- After a kill, the next process skips the reserved numbers, and as many further numbers as
  intervals have begun since the checkpoint. If this second process is also killed before it writes
  a checkpoint, a third process reads the same checkpoint. By then, more intervals have begun, so
  the third process skips more numbers. So the second and the third process use different numbers.
- After a regular stop, the next process continues with the next number. If this new process cannot
  write a checkpoint, it renames the newest checkpoint, which then counts as the previous one. A
  later process skips the reserved numbers, as after a kill.

Elapsed time. Without a reboot, the monotonic clock shows how much time has elapsed since a
checkpoint. After a reboot, the wall clock shows the elapsed time, if this clock was set both before
and after the reboot. Otherwise no time counts as elapsed.

Stepped clock. If the wall clock was stepped between the checkpoint and the restart, the controllers
shift their stored times. If it is stepped while the daemon runs, no checkpoint is written until the
controllers have shifted their stored times. Otherwise these times and the time of the checkpoint
would contradict each other.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from math import ceil, floor, inf
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edge_tvbo.config.controller_settings import ROUNDING
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import MAX_DRIFT_S, RELEASED_AT, Clock
from edge_tvbo.daemon.scheduler import AwaitedReply, Scheduler
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.events import ClockStepped
from edge_tvbo.messages.formatting import counted, interval_text, rfc3339
from edge_tvbo.models.snapshot import DocumentFormat, NewerFormatError

log = logging.getLogger(__name__)

MAGIC = b"edge_tvbo state\n"
FORMAT = 1
MIGRATIONS: dict[int, Callable[[Any], Any]] = {}  # convert a body to the next format
LARGE_DOCUMENT_BYTES = 2**18  # for a document of n times this size, the period is n times longer
MAX_RETRY_DELAY_S = 60.0  # between attempts to write a document that could not be written
RESERVED_NUMBERS = 10_000  # usable numbers of a document, for interval = "on-reading"
RESERVE_MARGIN = 1_000  # if fewer of these numbers are left, a document is due
MAX_CATCH_UP = 10_000  # intervals by which a model is advanced at the start
_BOOT = Path("/proc/sys/kernel/random/boot_id")


IntervalNumber = Annotated[int, Meta(ge=-1, le=2**53)]  # of an interval; -1 before the first


class Anchor(msgspec.Struct, frozen=True):
    """One moment, as both the wall clock and the monotonic clock show it."""

    wall: Annotated[float, Meta(ge=-1e12, le=1e12)]  # s since 1970
    monotonic: Annotated[float, Meta(ge=0, le=1e12)]  # s since the boot
    boot: str  # id of the boot; "" if it is unknown


class FieldCheckpoint(msgspec.Struct, frozen=True):
    """State of one field in a checkpoint."""

    controller: bytes
    interval: IntervalNumber  # the highest used number
    reserved: IntervalNumber  # the highest reserved number
    every: Annotated[float, Meta(ge=1e-3, le=1e12)] | None  # interval in s; None: on-reading
    next_in: Annotated[float, Meta(ge=-1e12, le=1e12)]  # s until the next interval, at the anchor
    intervals: Annotated[int, Meta(ge=1, le=MAX_CATCH_UP)] = 1  # next number minus last number
    reply: AwaitedReply | None = None  # whose deadline is pending, at the anchor


class Document(msgspec.Struct, frozen=True):
    """Content of a checkpoint: the state of a daemon, in the present format."""

    anchor: Anchor  # when the document was written
    final: bool  # whether it was written at a regular stop, after the last event
    fields: dict[str, FieldCheckpoint]


class ResumePoint(NamedTuple):
    """The start of a field's next interval after a restart."""

    begins_in: float  # s from now
    intervals: int  # number of the next interval minus number of the last interval


# --- the document as bytes ------------------------------------------------------------------------


_FORMAT = DocumentFormat(MAGIC, Document)


def encode(document: Document) -> bytes:
    """Return a checkpoint `document` as the bytes of a state file.

    Raises `SnapshotError` if the document is too large to be read again.
    """
    return _FORMAT.encode(document, number=FORMAT)


def decode(data: bytes) -> Document:
    """Return the checkpoint in the bytes of a state file, migrated to the present format.

    Raises `SnapshotError`; for a file of a later version, its subclass `NewerFormatError`.
    """
    return _FORMAT.decode(data, number=FORMAT, migrations=MIGRATIONS)


# --- elapsed time ---------------------------------------------------------------------------------


def clock_anchor(clock: Clock) -> Anchor:
    """Return the present moment for a checkpoint: the times of the wall and monotonic clocks."""
    try:
        boot = _BOOT.read_text("ascii").strip()
    except (OSError, ValueError):
        boot = ""
    now = clock.elapsed()
    return Anchor(clock.wall(now), now, boot)


def elapsed_between(before: Anchor, now: Anchor) -> float:
    """Return the time from a checkpoint's anchor `before` to `now`, in s; 0 if it is unknown.

    >>> elapsed_between(Anchor(1.8e9, 70.0, "a"), Anchor(0.0, 90.0, "a"))
    20.0
    >>> elapsed_between(Anchor(1.8e9, 70.0, "a"), Anchor(1.8e9 + 60, 5.0, "b"))
    60.0
    >>> elapsed_between(Anchor(1.8e9, 70.0, "a"), Anchor(30.0, 5.0, "b"))
    0.0
    """
    if before.boot and before.boot == now.boot:
        return max(0.0, now.monotonic - before.monotonic)
    were_set = before.wall >= RELEASED_AT and now.wall >= RELEASED_AT
    return max(0.0, now.wall - before.wall) if were_set else 0.0


def resume_point(
    field: FieldCheckpoint, away: float, every: float | None, *, final: bool
) -> ResumePoint:
    """Return the start of a field's next interval, if the daemon was away for `away` seconds.

    The intervals that elapsed in the meantime have the present length `every`, in s. None stands
    for "on-reading", and keeps the former length.

    After a regular stop (`final`), an overdue interval begins immediately. After a kill, the killed
    process may already have begun the overdue interval, so the field waits for the next start time
    in its schedule.

    >>> field = FieldCheckpoint(b"", 7, 9, every=600.0, next_in=400.0)
    >>> resume_point(field, 100.0, 600.0, final=True)
    ResumePoint(begins_in=300.0, intervals=1)
    >>> for final in (True, False): resume_point(field, 1500.0, 600.0, final=final)
    ResumePoint(begins_in=0.0, intervals=2)
    ResumePoint(begins_in=100.0, intervals=3)
    >>> resume_point(field, 1500.0, 60.0, final=True)
    ResumePoint(begins_in=0.0, intervals=19)
    """
    if field.every is None:
        return ResumePoint(0.0, 1)
    every = every or field.every
    left = field.next_in - away
    intervals = convert_intervals(field.intervals, field.every, every)
    if left > 0:
        return ResumePoint(left, intervals)
    begun = floor(-left / every)  # upper limit of the intervals that began and ended
    if final:
        return ResumePoint(0.0, min(begun + intervals, MAX_CATCH_UP))
    begun += 1
    return ResumePoint(begun * every + left, min(begun + intervals, MAX_CATCH_UP))


def convert_intervals(intervals: int, before: float | None, every: float | None) -> int:
    """Return `intervals` of a `FieldCheckpoint` if an interval now lasts `every` s, not `before`.

    None stands for "on-reading", and changes nothing.

    >>> [convert_intervals(13, 600.0, every) for every in (60.0, 3600.0, None)]
    [121, 3, 13]
    """
    if before is None or every is None:
        return intervals
    return 1 + min(floor((intervals - 1) * before / every + ROUNDING), MAX_CATCH_UP - 1)


def _used_number(field: FieldCheckpoint, away: float, intervals: int) -> int:
    """Return the highest interval number that killed processes may have used.

    Processes that wrote no checkpoint may have counted in intervals of the former length. If these
    are more than the `intervals` of the present length, the difference counts as used, too.
    """
    former = resume_point(field, away, field.every, final=False).intervals
    return field.reserved + max(0, former - intervals)


def _unknown_intervals(field: FieldCheckpoint, away: float) -> int:
    """Return the number of intervals that may have begun after a checkpoint was written."""
    begun = inf if field.every is None or not away else 1 + (away - field.next_in) // field.every
    return int(max(0, min(begun, field.reserved - field.interval)))


# --- reading and writing --------------------------------------------------------------------------


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
        """Rename a checkpoint so that it is not read again; return a text for the log."""
        ...

    def demote_newest(self) -> None:
        """Rename the newest checkpoint, which then counts as the previous one.

        Renaming works even if the disk is full.
        """
        ...

    def save(self, document: bytes) -> bool:
        """Store a checkpoint completely, or not at all; return whether it is stored."""
        ...

    def why_empty(self) -> str:
        """Return why `generations` yields no checkpoint; "" if none has been stored yet."""
        ...


class Checkpoints:
    """Service of the loop that writes the state of all fields to a store, and restores it.

    Parameters
    ----------
    store : Store
        Storage of the documents.
    every : float
        Seconds between two checkpoints. Checkpoints of more than `LARGE_DOCUMENT_BYTES` are written
        less often.
    controllers : mapping
        The controller of each field.
    scheduler : Scheduler
        The scheduler of all fields. Its start times of the next intervals are stored and restored.
    anchor : callable
        Returns the present moment; see `clock_anchor`.
    is_stepped : callable
        Returns whether the wall clock was stepped and the controllers have not been informed yet.
    """

    def __init__(
        self,
        store: Store,
        every: float,
        controllers: Mapping[str, Controller],
        scheduler: Scheduler,
        anchor: Callable[[], Anchor],
        is_stepped: Callable[[], bool],
    ) -> None:
        self._store = store
        self._every = every
        self._controllers = controllers
        self._scheduler = scheduler
        self._anchor = anchor
        self._is_stepped = is_stepped
        self._due = -inf
        self._names_period = True  # whether to log the period if it is longer than `every`
        self.failing = False  # whether the last document could not be written
        self._owes_two = False  # whether to write two documents next; see `save`
        self._has_state = False  # whether the controllers were restored, or start without a state
        self._reserved_until: dict[str, int] = {}  # by field: interval that makes a document due

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
            self._resume(document, newest=newest)
            self.save()  # with the next `save` at the start, both documents reserve new numbers
            if self.failing and document.final and newest:
                self._store.demote_newest()  # this process uses numbers without a reservation
            return
        why = rejected or self._store.why_empty()
        level = logging.WARNING if why else logging.INFO
        why = why or "no state is stored"
        log.log(level, "state: %s; every field starts without readings", why)

    def _resume(self, document: Document, *, newest: bool) -> None:
        now = self._anchor()
        away = elapsed_between(document.anchor, now)
        stepped = ClockStepped(now.wall - document.anchor.wall - away, now.wall)
        final = document.final and newest
        observations = []
        for name, controller in self._controllers.items():
            field = document.fields.get(name)
            if field is None:
                log.info("state: the field %s is new, and starts without readings", name)
                continue
            continues = restore_controller("state", name, controller, field.controller)
            if continues or controller.policy.observations:
                observations.append(controller.policy.observations)
            if abs(stepped.by) > MAX_DRIFT_S:
                controller.handle(stepped)
            every, *_ = self._scheduler.next_interval(name)
            begins_in, intervals = resume_point(field, away, every, final=final)
            controller.reserve_numbers(
                field.interval if final else _used_number(field, away, intervals),
                0 if final else _unknown_intervals(field, away),
            )
            reply = field.reply if continues and controller.keeps_waiting else None
            if reply:
                reply = replace(reply, due_in=reply.due_in - away)
            self._scheduler.resume(name, begins_in, intervals, reply)
        log.info(
            "state: restored from %s: %s, %s in their models",
            rfc3339(round(document.anchor.wall, 3)),
            counted(len(observations), "field"),
            counted(sum(observations), "reading"),
        )

    # --- what the loop calls --------------------------------------------------------------------

    def fileno(self) -> int:
        """Return -1, because the checkpoints have no descriptor to wait for."""
        return -1

    def wake_at(self) -> float:
        """Return the time when the next checkpoint is due."""
        return self._due

    def service(self, now: float) -> None:
        """Write a checkpoint if one is due, or if a field used all reserved interval numbers."""
        if now >= self._due or any(
            self._controllers[name].used >= number for name, number in self._reserved_until.items()
        ):
            self.save()

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
        """Write the final checkpoint at a regular stop, unless the state could not be restored.

        An error in `restore` ends the process. The stored state must then stay as it is.
        """
        if self._has_state:
            self._write(final=True)

    def _write(self, *, final: bool) -> None:
        anchor = self._anchor()
        snapshots = {name: each.snapshot() for name, each in self._controllers.items()}
        size = sum(map(len, snapshots.values()))
        wait = self._every * max(1, ceil(size / LARGE_DOCUMENT_BYTES))
        if wait > self._every and self._names_period:
            self._names_period = False
            log.info(
                "state: it has %d KiB, so it is stored every %s instead of every %s",
                size // 1024,
                interval_text(wait),
                interval_text(self._every),
            )
        fields = {
            name: self._field_checkpoint(name, blob, wait) for name, blob in snapshots.items()
        }
        now = time.monotonic()
        data = _encoded(Document(anchor, final, fields))
        self.failing = data is None or not self._store.save(data)
        if self.failing:
            wait = wait if data is None else min(wait, MAX_RETRY_DELAY_S)
            self._reserved_until = {}
        self._due = now + wait

    def _field_checkpoint(self, name: str, snapshot: bytes, wait: float) -> FieldCheckpoint:
        """Return one field's part of a checkpoint.

        This part reserves numbers for the intervals that can begin in the next 2 * `wait` seconds.
        """
        begun = self._controllers[name].used
        every, next_in, intervals = self._scheduler.next_interval(name)
        number = begun + intervals - 1  # also counts intervals that elapsed before this process
        usable = RESERVED_NUMBERS if every is None else ceil(wait / every) + 2
        self._reserved_until[name] = number + usable - (RESERVE_MARGIN if every is None else 0)
        reply = self._scheduler.awaited_reply(name)
        reserved = number + 2 * usable
        return FieldCheckpoint(snapshot, begun, reserved, every, next_in, intervals, reply)


def _encoded(document: Document) -> bytes | None:
    """Return a checkpoint as bytes; log an error and return None if the checkpoint is too large."""
    try:
        return encode(document)
    except SnapshotError as error:
        fields = document.fields
        log.error(
            "state: cannot be stored: %s; the largest part is that of the field %s: set a smaller "
            "`window` for its policy, choose another policy, or divide the sensors among several "
            "instances; the daemon continues, but a restart would load the last stored state",
            error,
            max(fields, key=lambda name: len(fields[name].controller)),
        )
        return None


def restore_controller(occasion: str, name: str, controller: Controller, snapshot: bytes) -> bool:
    """Restore `controller` from the `snapshot` of a checkpoint; return whether the snapshot fits.

    A reload also restores controllers with this function. If the snapshot does not fit, restore the
    parts that fit; see `Controller.restore_partial`. If these parts do not include the model, log
    why the field starts without readings or from its fitted model.
    """
    try:
        controller.restore(snapshot)
    except SnapshotError as error:
        known, why = 0, error
        try:
            known = controller.restore_partial(snapshot)
        except SnapshotError as partial_error:
            why = partial_error
        if known and controller.policy.observations:
            log.info("%s: the field %s continues with %d known sensors", occasion, name, known)
        else:
            start = _start(controller)
            log.warning("%s: the field %s starts %s: %s", occasion, name, start, why)
        return False
    return True


def _start(controller: Controller) -> str:
    """Return, as words for the log, how a field's model starts if no checkpoint fits the model."""
    structure = controller.policy.field.structure
    if structure is None or not structure.rows:
        return "without readings"
    return "from its fitted model, without the readings after the fit"
