"""Checkpoints: the state of every field in one file, written regularly and read at the start.

`checkpoint_document` describes the content of a checkpoint.

Interval numbers. If a process is killed, all events after its last checkpoint are lost. But the
process may have begun intervals after the checkpoint, and published their numbers. No number may be
used twice:

- Each checkpoint reserves as many unused interval numbers as are needed until two more checkpoints
  are written. So the previous checkpoint, which is used if the newest is damaged, has reserved
  enough numbers, too.
- With ``interval = "on-reading"``, it is unknown how many numbers will be needed. Twice as many
  numbers are reserved as are needed if the intervals follow each other as fast as since the last
  checkpoint. If the intervals become faster, the next checkpoints are written early: before the
  field has used all numbers that the newest or the previous checkpoint has reserved.
- After a kill, a second process skips the reserved numbers. It also skips one further number for
  each interval that has begun since the checkpoint. If the second process is also killed before it
  writes a checkpoint, a third process reads the same checkpoint. By then, more intervals have
  begun, and the third process skips more numbers. So the second and the third process use different
  numbers.
- After a regular stop, the next process continues with the next number. If this new process cannot
  write a checkpoint, it renames the newest checkpoint, which then counts as the previous one. A
  later process skips the reserved numbers, as after a kill.

Stepped clock. If the wall clock was stepped between the checkpoint and the restart, the controllers
shift their stored times. If it is stepped while the daemon runs, no checkpoint is written until the
controllers have shifted their stored times. Otherwise these times and the time of the checkpoint
would contradict each other.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil, inf
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.checkpoint_document import (
    Anchor,
    Document,
    FieldCheckpoint,
    ResumePoint,
    decode,
    elapsed_between,
    encode,
    resume_point,
    unknown_intervals,
    used_number,
)
from edge_tvbo.daemon.clock import MAX_DRIFT_S, RELEASED_AT
from edge_tvbo.daemon.scheduler import AwaitedReply, Scheduler
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.events import ClockStepped, ClockUnset, DowntimeElapsed, Event
from edge_tvbo.messages.formatting import counted, interval_text, rfc3339
from edge_tvbo.models.snapshot import NewerFormatError

log = logging.getLogger(__name__)

LARGE_DOCUMENT_BYTES = 2**18  # for a document of n times this size, the period is n times longer
MAX_RETRY_DELAY_S = 60.0  # between attempts to write a document that could not be written
RESERVED_NUMBERS = 10_000  # least usable numbers of a document, for interval = "on-reading"
RESERVE_MARGIN = 1_000  # if fewer of these numbers are left, a document is due


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


class _Reserve(NamedTuple):
    """Interval numbers that a document reserved for a field with the interval "on-reading"."""

    at: float  # monotonic time of the document
    begun: int  # the highest number that was used at this time
    usable: int  # how many numbers can be used before the next document is due
    last: int  # the highest reserved number

    def usable_next(self, at: float, begun: int, wait: float) -> int:
        """Return how many numbers the next document allows the field to use.

        The next document is written at the time `at`. If intervals then follow each other as fast
        as since this document, the field uses at most half of the numbers in `wait` s.
        """
        rate = (begun - self.begun) / max(1.0, at - self.at)
        return max(self.usable, ceil(2.0 * rate * wait))


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
        The scheduler of all fields. The start times of the next intervals are stored and restored.
    anchor : callable
        Returns the present moment; see `clock_anchor`.
    is_stepped : callable
        Returns True from a step of the wall clock until the controllers are informed of it.
    retained : callable
        Returns the names of the fields whose documents the broker may retain.

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
        retained: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._store = store
        self._every = every
        self._controllers = controllers
        self._scheduler = scheduler
        self._anchor = anchor
        self._is_stepped = is_stepped
        self._retained = retained
        self.removed: set[str] = set()
        self._due = -inf
        self._names_period = True  # whether to log the period if it is longer than `every`
        self.failing = False  # whether the last document could not be written
        self._owes_two = False  # whether to write two documents next; see `save`
        self._has_state = False  # whether the controllers have a state, restored or new
        self._reserved_until: dict[str, int] = {}  # field -> interval that makes a document due
        self._reserves: dict[str, _Reserve] = {}  # of the last document, by "on-reading" field

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
            self.save()  # the daemon calls `save` again; then both documents reserve new numbers
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
        clock_events = list(_clock_events(document.anchor, now, away))
        final = document.final and newest
        observations = []
        log_removed("state", document.fields.keys() - self._controllers.keys())
        self.removed = {*document.fields, *document.uncleared} - self._controllers.keys()
        for name, controller in self._controllers.items():
            field = document.fields.get(name)
            if field is None:
                log.info("state: the field %s is new, and starts without readings", name)
                continue
            continues = restore_controller("state", name, controller, field.controller)
            if continues or controller.policy.observations:
                observations.append(controller.policy.observations)
            for event in clock_events:
                controller.handle(event)
            unknown = 0 if final else unknown_intervals(field, away, newest=newest)
            every, _ = self._scheduler.next_interval(name)
            used = field.interval if final else used_number(field, away, every)
            controller.reserve_numbers(used, unknown)
            _log_charge(name, controller, unknown)
            reply = field.reply if continues and controller.keeps_waiting else None
            if reply:
                reply = replace(reply, due_in=reply.due_in - away)
            self._resume_field(name, resume_point(field, away, every, final=final), reply, now.wall)
        log.info(
            "state: restored from %s: %s, %s in their models",
            rfc3339(round(document.anchor.wall, 3)),
            counted(len(observations), "field"),
            counted(sum(observations), "reading"),
        )

    def _resume_field(
        self, name: str, point: ResumePoint, reply: AwaitedReply | None, now: float
    ) -> None:
        """Schedule a field's next interval, and let the downtime pass for its controller."""
        self._scheduler.resume(name, point.begins_in, reply)
        every, _ = self._scheduler.next_interval(name)
        if every is None or point.skipped:
            at = now if every is None else now + point.begins_in - every
            self._controllers[name].handle(DowntimeElapsed(at, point.skipped))

    # --- what the loop calls --------------------------------------------------------------------

    def fileno(self) -> int:
        """Return -1, because the checkpoints have no descriptor to wait for."""
        return -1

    def wake_at(self) -> float:
        """Return the time when the next checkpoint is due."""
        return self._due

    def service(self, now: float) -> None:
        """Write a checkpoint if it is due, or before a field has used its reserved numbers."""
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

        An error in `restore` ends the process. In this case, the stored state must not be replaced.
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
                "state: the state has %d KiB, so it is stored every %s instead of every %s",
                size // 1024,
                interval_text(wait),
                interval_text(self._every),
            )
        fields = {
            name: self._field_checkpoint(name, blob, anchor.monotonic, wait)
            for name, blob in snapshots.items()
        }
        now = time.monotonic()
        uncleared = sorted({*self._retained()} - fields.keys())
        data = _encoded(Document(anchor, final, fields, uncleared))
        self.failing = data is None or not self._store.save(data)
        if self.failing:
            wait = wait if data is None else min(wait, MAX_RETRY_DELAY_S)
            self._reserved_until = {}
        self._due = now + wait

    def _field_checkpoint(
        self, name: str, snapshot: bytes, at: float, wait: float
    ) -> FieldCheckpoint:
        """Return one field's part of a checkpoint, which is written at the monotonic time `at`.

        This part reserves numbers for the intervals that can begin in the next 2 * `wait` seconds.
        """
        used = self._controllers[name].used
        every, next_in = self._scheduler.next_interval(name)
        reply = self._scheduler.awaited_reply(name)
        if every is None:
            reserved = self._reserve(name, used, at, wait)
        else:
            usable = ceil(wait / every) + 2
            self._reserved_until[name] = used + usable
            reserved = used + 2 * usable
        return FieldCheckpoint(snapshot, used, reserved, every, next_in, reply=reply)

    def _reserve(self, name: str, begun: int, at: float, wait: float) -> int:
        """Reserve numbers above `begun` for an "on-reading" field; return the last of them."""
        usable, end = RESERVED_NUMBERS, inf
        if before := self._reserves.get(name):
            usable, end = before.usable_next(at, begun, wait), before.last
        self._reserved_until[name] = int(min(begun + usable, end)) - RESERVE_MARGIN
        self._reserves[name] = _Reserve(at, begun, usable, begun + 2 * usable)
        return begun + 2 * usable


def _clock_events(before: Anchor, now: Anchor, away: float) -> Iterator[Event]:
    """Yield the events that inform a restored controller about the wall clock.

    The controller handles these events before its downtime. The checkpoint was written at the
    moment `before`, which is `away` seconds before `now`.
    """
    by = now.wall - before.wall - away
    if abs(by) > MAX_DRIFT_S:
        yield ClockStepped(by, now.wall)
    if now.wall < RELEASED_AT:
        yield ClockUnset()


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


def _log_charge(name: str, controller: Controller, unknown: int) -> None:
    """If the energy budgets of a field are charged for `unknown` intervals, log the charge."""
    settings = controller.settings
    is_limited = settings.energy is not None and settings.energy.limits_activations
    if unknown and settings.sends_commands and is_limited:
        log.info(
            "state: the daemon did not stop normally, and may have activated sensors of the field "
            "%s after it stored this state: the energy budgets are charged for %s",
            name,
            counted(unknown, "interval"),
        )


def log_removed(occasion: str, fields: Iterable[str]) -> None:
    """Warn of removed `fields`, whose state is missing in the next checkpoint.

    The state of a removed field is deleted although the field may return. If the state were kept,
    each checkpoint would contain it, and would be written less often; see `LARGE_DOCUMENT_BYTES`.
    """
    for name in sorted(fields):
        log.warning(
            "%s: the field %s is not in the configuration, so its state is deleted; if you add the "
            "field again, it starts without readings, and its interval numbers start at 0",
            occasion,
            name,
        )


def _start(controller: Controller) -> str:
    """Return a log text on how a field's model starts if no checkpoint fits the model."""
    structure = controller.policy.field.structure
    if structure is None or not structure.rows:
        return "without readings"
    return "from its fitted model, without the readings after the fit"
