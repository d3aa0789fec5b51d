"""What is kept over a restart, when, and what is made of it at the next start.

One document holds every field: its controller's snapshot, and how long it was to the next interval.
`models.snapshot` says what the file looks like; `MIGRATIONS` lead from older formats to this one.

Whatever happened after the last checkpoint is forgotten, but not undone: intervals may have begun.
So each document sets numbers aside that were not used when it was written, and a process that
was killed goes on above them; one that ended in peace goes on with the next number. As numbers for
two documents are set aside, it holds of the previous document too. When the next interval begins
follows from the monotonic clock within one boot, and from the wall clock over two, if both of its
times can be believed; otherwise no time has gone by. Where the wall clock was set meanwhile, what
was dated by it is dated anew.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import ceil, floor, inf
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import MAX_DRIFT_S, RELEASED, Clock
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.events import ClockStepped
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.models.snapshot import DocumentFormat, NewerFormatError

log = logging.getLogger(__name__)

MAGIC = b"edge_tvbo state\n"
FORMAT = 1
MIGRATIONS: dict[int, Callable[[Any], Any]] = {}  # from a format's body to that of the next one
ORDINARY = 2**18  # bytes; a larger document is written as many times more rarely
RETRY = 60.0  # s, at the most, until a document that could not be written is tried again
RESERVED = 10_000  # numbers between two documents where no clock says how many will do
MARGIN = 1_000  # of these; about one turn of the loop
CATCH_UP = 10_000  # intervals that a model is moved on by at the most
_BOOT = Path("/proc/sys/kernel/random/boot_id")


Number = Annotated[int, Meta(ge=-1, le=2**53)]  # of an interval; -1 before the first


class Anchor(msgspec.Struct, frozen=True):
    """One moment, by both clocks."""

    wall: Annotated[float, Meta(ge=-1e12, le=1e12)]  # s since 1970
    monotonic: Annotated[float, Meta(ge=0, le=1e12)]  # s since the boot
    boot: str  # which boot; "" where that is not known


class Kept(msgspec.Struct, frozen=True):
    """What is kept of one field."""

    controller: bytes
    interval: Number  # the highest that was used
    reserved: Number  # the highest that may have been used before the next document but one
    every: Annotated[float, Meta(ge=1e-3, le=1e12)] | None  # s; None where readings set the pace
    next_in: Annotated[float, Meta(ge=-1e12, le=1e12)]  # s until the next interval, at the anchor
    intervals: Annotated[int, Meta(ge=1, le=CATCH_UP)] = 1  # the next one begins after the last


class Document(msgspec.Struct, frozen=True):
    """All that is kept, in the present format."""

    anchor: Anchor
    final: bool  # nothing happened after it was written
    fields: dict[str, Kept]


class ResumePoint(NamedTuple):
    """When a field's next interval begins, in s from now, and how many go by until then."""

    begins_in: float
    intervals: int


# --- the document as bytes ----------------------------------------------------------------------


_FORMAT = DocumentFormat(MAGIC, Document)


def encode(document: Document) -> bytes:
    """Return `document` as the bytes of a state file."""
    return _FORMAT.encode(document, number=FORMAT)


def decode(data: bytes) -> Document:
    """Return the document of a state file, migrated to the present format.

    Raises `SnapshotError`, which is a `NewerFormatError` for a file of a later version.
    """
    return _FORMAT.decode(data, number=FORMAT, migrations=MIGRATIONS)


# --- time gone by -------------------------------------------------------------------------------


def clock_anchor(clock: Clock) -> Anchor:
    """Give this moment as `clock` has it."""
    try:
        boot = _BOOT.read_text("ascii").strip()
    except (OSError, ValueError):
        boot = ""
    now = clock.elapsed()
    return Anchor(clock.wall(now), now, boot)


def between(before: Anchor, now: Anchor) -> float:
    """Give the seconds from one moment to a later one; 0 where no clock can tell.

    >>> between(Anchor(1.8e9, 70.0, "a"), Anchor(0.0, 90.0, "a"))
    20.0
    >>> between(Anchor(1.8e9, 70.0, "a"), Anchor(1.8e9 + 60, 5.0, "b"))
    60.0
    >>> between(Anchor(1.8e9, 70.0, "a"), Anchor(30.0, 5.0, "b"))
    0.0
    """
    if before.boot and before.boot == now.boot:
        return max(0.0, now.monotonic - before.monotonic)
    believed = before.wall >= RELEASED and now.wall >= RELEASED
    return max(0.0, now.wall - before.wall) if believed else 0.0


def resumption(kept: Kept, away: float, *, final: bool) -> ResumePoint:
    """Say when a field goes on that was kept `away` seconds ago.

    Not before the interval that was running is over. Where the process may have begun another one
    after the document was written, the next point of its grid is waited for.

    >>> ten_minutes = Kept(b"", 7, 9, every=600.0, next_in=400.0)
    >>> resumption(ten_minutes, 100.0, final=True)
    ResumePoint(begins_in=300.0, intervals=1)
    >>> resumption(ten_minutes, 1500.0, final=True), resumption(ten_minutes, 1500.0, final=False)
    (ResumePoint(begins_in=0.0, intervals=2), ResumePoint(begins_in=100.0, intervals=3))
    """
    if kept.every is None:
        return ResumePoint(0.0, 1)
    left = kept.next_in - away
    if left > 0:
        return ResumePoint(left, kept.intervals)
    begun = floor(-left / kept.every)  # intervals that began and ended since, at the most
    if final:
        return ResumePoint(0.0, min(begun + kept.intervals, CATCH_UP))
    return ResumePoint((begun + 1) * kept.every + left, min(begun + 1 + kept.intervals, CATCH_UP))


def _unknown(kept: Kept, away: float) -> int:
    """Give how many intervals may have begun that were not kept, at the most."""
    begun = inf if kept.every is None or not away else 1 + (away - kept.next_in) // kept.every
    return int(max(0, min(begun, kept.reserved - kept.interval)))


# --- keeping ------------------------------------------------------------------------------------


class Store(Protocol):
    """Where checkpoints are stored: the newest document and the one before it.

    Nothing here raises because of a disk: the store logs what it cannot do, once for each change.
    """

    @property
    def written(self) -> int:
        """Bytes written since the start."""
        ...

    @property
    def newest(self) -> str:
        """Name of the document that was written last."""
        ...

    def generations(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the content of each document, the newest first."""
        ...

    def set_aside(self, generation: str, why: str) -> str:
        """Take a document out of use but keep it; return what was done, in words."""
        ...

    def save(self, document: bytes) -> bool:
        """Store `document` completely or not at all; return whether it is stored."""
        ...


class Checkpoints:
    """Keeps the fields of one daemon in a store; an attendant of the loop.

    Parameters
    ----------
    store : Store
        Where to.
    every : float
        Seconds between two documents of ordinary size.
    controllers : mapping
        Of each field.
    schedule : Scheduler
        When their next intervals begin.
    anchor : callable
        Gives this moment.
    """

    def __init__(
        self,
        store: Store,
        every: float,
        controllers: Mapping[str, Controller],
        schedule: Scheduler,
        anchor: Callable[[], Anchor],
    ) -> None:
        self._store = store
        self._every = every
        self._controllers = controllers
        self._schedule = schedule
        self._anchor = anchor
        self._due = -inf
        self.failing = False  # the last document could not be written
        self._spent: dict[str, int] = {}  # by field: the number by which the next one is written

    @property
    def written(self) -> int:
        """Bytes written so far."""
        return self._store.written

    def restore(self) -> None:
        """Go on from the newest document that is sound, and log from which."""
        for generation, data in self._store.generations():
            try:
                document = decode(data)
            except SnapshotError as error:
                why = "newer" if isinstance(error, NewerFormatError) else "damaged"
                aside = self._store.set_aside(generation, why)
                log.error("state: %s cannot be used: %s; %s", generation, error, aside)
                continue
            self._resume(document, newest=generation == self._store.newest)
            self.save()  # and again when it begins: the one before it must know of our numbers too
            return
        log.info("state: there is none; every field begins anew")

    def _resume(self, document: Document, *, newest: bool) -> None:
        now = self._anchor()
        away = between(document.anchor, now)
        stepped = ClockStepped(now.wall - document.anchor.wall - away, now.wall)
        final = document.final and newest
        taken = []
        for name, controller in self._controllers.items():
            kept = document.fields.get(name)
            if kept is None:
                log.info("state: %s is new and begins anew", name)
                continue
            if resumed("state", name, controller, kept.controller):
                taken.append(controller.policy.observations)
                if abs(stepped.by) > MAX_DRIFT_S:
                    controller.handle(stepped)
            begins_in, intervals = resumption(kept, away, final=final)
            used = kept.interval if final else kept.reserved + 1 - intervals
            controller.reserve_numbers(
                max(kept.interval, used), 0 if final else _unknown(kept, away)
            )
            self._schedule.resume(name, begins_in, intervals)
        log.info(
            "state: restored from %s: %d field(s), %d readings in their models",
            rfc3339(round(document.anchor.wall, 3)),
            len(taken),
            sum(taken),
        )

    # --- what the loop calls --------------------------------------------------------------------

    def fileno(self) -> int:
        """Give no descriptor."""
        return -1

    def wake_at(self) -> float:
        """Give when the next document is due."""
        return self._due

    def service(self, now: float) -> None:
        """Write a document if one is due, or if the numbers set aside are used up."""
        if now >= self._due or any(
            self._controllers[name].used >= number for name, number in self._spent.items()
        ):
            self.save()

    def save(self) -> None:
        """Write a document, whatever the time."""
        self._write(final=False)

    def close(self) -> None:
        """Write the last document."""
        self._write(final=True)

    def _write(self, *, final: bool) -> None:
        anchor = self._anchor()
        snapshots = {name: each.snapshot() for name, each in self._controllers.items()}
        wait = self._every * max(1, ceil(sum(map(len, snapshots.values())) / ORDINARY))
        fields = {name: self._kept(name, blob, wait) for name, blob in snapshots.items()}
        now = time.monotonic()
        self.failing = not self._store.save(encode(Document(anchor, final, fields)))
        if self.failing:
            wait = min(wait, RETRY)
            self._spent = {}
        self._due = now + wait

    def _kept(self, name: str, snapshot: bytes, wait: float) -> Kept:
        """Give what is kept of a field, with numbers set aside for `wait` seconds, twice."""
        begun = self._controllers[name].used
        every, next_in, intervals = self._schedule.next_interval(name)
        number = begun + intervals - 1  # what went by before this process counts too
        usable = RESERVED if every is None else ceil(wait / every) + 2
        self._spent[name] = number + usable - (MARGIN if every is None else 0)
        return Kept(snapshot, begun, number + 2 * usable, every, next_in, intervals)


def resumed(occasion: str, name: str, controller: Controller, snapshot: bytes) -> bool:
    """Let `controller` go on from `snapshot` if that can be, and otherwise say why it cannot."""
    try:
        controller.restore(snapshot)
    except SnapshotError as error:
        log.warning("%s: %s begins anew: %s", occasion, name, error)
        with suppress(SnapshotError):
            controller.restore_partial(snapshot)
        return False
    return True
