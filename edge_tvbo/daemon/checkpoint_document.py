"""Checkpoint document: the states of all fields, their file format, and the age of a file.

For each field, a document contains the snapshot of the controller, the start of the next interval
and the deadline of the reply that the controller waits for. `models.snapshot` describes the format
of the file; the functions in `MIGRATIONS` convert documents of older formats.

Elapsed time. Without a reboot, the monotonic clock shows how much time has elapsed since a
checkpoint. After a reboot, the wall clock shows the elapsed time, if this clock was set both before
and after the reboot. Otherwise no time counts as elapsed. If the id of the boot is unknown, every
restart counts as a reboot.
"""

import os
from collections.abc import Callable
from math import floor, inf
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta

from edge_tvbo.config.controller_settings import ROUNDING
from edge_tvbo.daemon.clock import RELEASED_AT, Clock
from edge_tvbo.daemon.scheduler import AwaitedReply
from edge_tvbo.models.snapshot import DocumentFormat

MAGIC = b"edge_tvbo state\n"
FORMAT = 1
MIGRATIONS: dict[int, Callable[[Any], Any]] = {}  # by format: converts a body to the next format
MAX_SKIPPED = 10_000  # intervals that a document of an old version can skip
BOOT_VARIABLE = "EDGE_TVBO_BOOT_ID"  # the systemd unit sets this variable, and hides `_BOOT`
_BOOT = Path("/proc/sys/kernel/random/boot_id")


IntervalNumber = Annotated[int, Meta(ge=-1, le=2**53)]  # -1: before the first interval


class Anchor(msgspec.Struct, frozen=True):
    """One moment, as both the wall clock and the monotonic clock show it."""

    wall: Annotated[float, Meta(ge=-1e12, le=1e12)]  # s since 1970
    monotonic: Annotated[float, Meta(ge=0, le=1e12)]  # s since the boot
    boot: str  # id of the boot, with dashes; "" if it is unknown


class FieldCheckpoint(msgspec.Struct, frozen=True):
    """State of one field in a checkpoint."""

    controller: bytes
    interval: IntervalNumber  # the highest used or skipped number
    reserved: IntervalNumber  # the highest reserved number
    every: Annotated[float, Meta(ge=1e-3, le=1e12)] | None  # interval in s; None: on-reading
    next_in: Annotated[float, Meta(ge=-1e12, le=1e12)]  # s from the anchor to the next interval
    # Next number minus last number. Above 1 only in documents of old versions, in which the
    # intervals of an earlier downtime have not passed for the controller.
    intervals: Annotated[int, Meta(ge=1, le=MAX_SKIPPED)] = 1
    reply: AwaitedReply | None = None  # None: no reply was awaited at the anchor
    live: bytes = b""  # the live state of the controller; "" if the document has no journal
    # How many intervals can begin before the next write; None: half as many as are reserved.
    next_write: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class Document(msgspec.Struct, frozen=True):
    """Content of a checkpoint: the state of a daemon, in the present format."""

    anchor: Anchor  # when the document was written
    final: bool  # whether it was written at a regular stop, after the last event
    fields: dict[str, FieldCheckpoint]
    uncleared: list[str] = []  # removed fields whose documents the broker may still retain


class ResumePoint(NamedTuple):
    """The start of a field's next interval after a restart."""

    begins_in: float  # s from now
    skipped: int  # intervals that passed during the downtime; the next interval is not included


# --- the document as bytes ------------------------------------------------------------------------


_FORMAT = DocumentFormat(MAGIC, Document)


def encode(document: Document) -> bytes:
    """Return a checkpoint `document` as the bytes of a state file.

    Raises `SnapshotError` if the document is too large to be read again.
    """
    return _FORMAT.encode(document, number=FORMAT)


def decode(data: bytes) -> Document:
    """Return the checkpoint in the bytes of a state file, migrated to the present format.

    Raises `SnapshotError` for an invalid file, and its subclass `NewerFormatError` for a file of a
    later version.
    """
    return _FORMAT.decode(data, number=FORMAT, migrations=MIGRATIONS)


# --- elapsed time ---------------------------------------------------------------------------------


def clock_anchor(clock: Clock) -> Anchor:
    """Return the present moment for a checkpoint: the times of the wall and monotonic clocks."""
    boot, now = _boot_id(), clock.elapsed()
    return Anchor(clock.wall(now), now, boot)


def _boot_id() -> str:
    """Return the id of the boot for an `Anchor`, with dashes; "" if it is unknown."""
    try:
        text = _BOOT.read_text("ascii")
    except (OSError, ValueError):
        text = os.environ.get(BOOT_VARIABLE, "")
    try:
        return str(UUID(text.strip()))  # systemd writes the id without dashes
    except ValueError:
        return ""


def elapsed_between(before: Anchor, now: Anchor) -> float:
    """Return how many seconds have passed since a checkpoint; 0 if this is unknown.

    The checkpoint was written at the moment `before`; the present moment is `now`.

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
    """Return the start of a field's next interval after a restart.

    The checkpoint `field` is `away` seconds old. Intervals since the checkpoint are counted with
    their present length `every`, in s. If `every` is None ("on-reading"), they are counted with
    their former length.

    If the daemon stopped regularly (`final`), an overdue interval begins immediately. If it was
    killed, it may already have begun the overdue interval. So the field waits for the next start
    time in its schedule.

    >>> field = FieldCheckpoint(b"", 7, 9, every=600.0, next_in=400.0)
    >>> resume_point(field, 100.0, 600.0, final=True)
    ResumePoint(begins_in=300.0, skipped=0)
    >>> for final in (True, False): resume_point(field, 1500.0, 600.0, final=final)
    ResumePoint(begins_in=0.0, skipped=1)
    ResumePoint(begins_in=100.0, skipped=2)
    >>> resume_point(field, 1500.0, 60.0, final=True)
    ResumePoint(begins_in=0.0, skipped=18)
    """
    if field.every is None:
        return ResumePoint(0.0, 0)
    every = every or field.every
    left = field.next_in - away
    skipped = _skipped_before(field, field.every, every)
    if left > 0:
        return ResumePoint(left, skipped)
    begun = floor(-left / every)  # upper limit of the intervals that began and ended
    if final:
        return ResumePoint(0.0, begun + skipped)
    begun += 1
    return ResumePoint(begun * every + left, begun + skipped)


def _skipped_before(field: FieldCheckpoint, former: float, every: float) -> int:
    """Return the number of skipped intervals that a checkpoint of an old version contains.

    These intervals were skipped in an earlier downtime, and the controller has not been informed of
    them yet. The checkpoint counts them as intervals of `former` s. The result is the number of
    intervals of `every` s in the same time.
    """
    return floor((field.intervals - 1) * former / every + ROUNDING)


def used_number(field: FieldCheckpoint, away: float, every: float | None) -> int:
    """Return the highest interval number that killed processes may have used.

    The checkpoint `field`, which is `away` seconds old, has reserved numbers. If the disk was full,
    several processes may have been killed without a new checkpoint. They may have used one further
    number for each interval since the checkpoint. These intervals are counted with their former
    length and with their present length, `every`; the larger count is used. The intervals that
    `resume_point` skips are subtracted, because their numbers are counted separately.

    If several processes were killed while the disk was full, a number can be used twice in any of
    these cases:

    - The elapsed time is unknown.
    - One of these processes had the interval "on-reading".
    - One of these processes had an interval that was shorter than both the former and the present
      interval.

    >>> field = FieldCheckpoint(b"", 7, 9, every=600.0, next_in=600.0)
    >>> [used_number(field, away, 3600.0) for away in (0.0, 36_000.0, 36e6)]
    [9, 59, 50009]
    """
    if field.every is None:
        return field.reserved
    counts = (
        _skipped_before(field, field.every, each) + max(0, 1 + floor((away - field.next_in) / each))
        for each in (field.every, every or field.every)
    )
    return field.reserved + max(counts) - resume_point(field, away, every, final=False).skipped


def unknown_intervals(
    field: FieldCheckpoint, away: float, *, newest: bool, unsaved: float = 0.0
) -> int:
    """Return the number of intervals that may have begun after a checkpoint was written.

    The result is the smallest of these numbers:

    - how many intervals begin in the `away` s after the checkpoint, if this is known;
    - how many interval numbers the checkpoint has reserved; only half as many if the checkpoint is
      the `newest`, because the numbers suffice until two more checkpoints are written;
    - if the checkpoint is the newest and has a journal: how many intervals can begin before the
      next entry of the journal.

    If the disk was full, no other checkpoint could be stored in the `unsaved` s after this one. In
    this time, killed processes may have begun more intervals than the second and the third number
    above. The result is then at least the number of intervals that begin in this time.

    >>> field = FieldCheckpoint(b"", 7, 15, every=600.0, next_in=600.0)
    >>> [unknown_intervals(field, 36_000.0, newest=newest) for newest in (True, False)]
    [4, 8]
    >>> unknown_intervals(field, 36_000.0, newest=True, unsaved=7200.0)
    12
    """
    begun = inf if not away else _begun(field, away)
    reserved: float = field.reserved - field.interval
    if newest:
        reserved = (reserved - (field.intervals - 1)) // 2
        reserved = reserved if field.next_write is None else min(reserved, field.next_write)
    if unsaved and field.every is not None:
        reserved = max(reserved, _begun(field, unsaved))
    return int(max(0, min(begun, reserved)))


def _begun(field: FieldCheckpoint, seconds: float) -> float:
    """Return how many intervals begin in the `seconds` after a checkpoint; inf if unknown."""
    return inf if field.every is None else 1 + (seconds - field.next_in) // field.every
