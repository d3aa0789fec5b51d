"""Restoration: all fields continue from a checkpoint and its journal, after a start."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from math import ceil

from msgspec.structs import replace

from edge_tvbo.control.checked_policy import PolicyFailed
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.checkpoint_document import (
    Anchor,
    Document,
    FieldCheckpoint,
    ResumePoint,
    elapsed_between,
    resume_point,
    unknown_intervals,
    used_number,
)
from edge_tvbo.daemon.clock import MAX_DRIFT_S, RELEASED_AT
from edge_tvbo.daemon.journal import Continued, Journal, replay
from edge_tvbo.daemon.restored_controller import log_charge, log_removed, restore_controller
from edge_tvbo.daemon.scheduler import AwaitedReply, Scheduler
from edge_tvbo.messages.events import ClockStepped, ClockUnset, DowntimeElapsed, Event
from edge_tvbo.messages.formatting import counted, rfc3339

log = logging.getLogger(__name__)

KILLS_PER_BACKOFF = 8  # kills that end the longest back-off if the elapsed time is unknown


class Restoration:
    """Restoration of all fields from one checkpoint.

    Parameters
    ----------
    document : Document
        The checkpoint.
    journal : Journal
        The journal of the checkpoint.
    newest : bool
        Whether this checkpoint is the one that was written last. If False, a newer one is damaged.
    unsaved_until : float or None
        See `Store.unsaved_until`.
    controllers, scheduler, anchor, make_controller
        See `Checkpoints`.

    Attributes
    ----------
    policy_failed : bool
        Whether a policy of another package failed to read its snapshot in the checkpoint.
    """

    def __init__(
        self,
        document: Document,
        journal: Journal,
        newest: bool,
        unsaved_until: float | None,
        controllers: Mapping[str, Controller],
        scheduler: Scheduler,
        anchor: Callable[[], Anchor],
        make_controller: Callable[[str], Controller],
    ) -> None:
        self._document = document
        self._journal = journal
        self._newest = newest
        self._unsaved_until = unsaved_until
        self._final = document.final and newest  # whether it was written at a regular stop
        self._controllers = controllers
        self._scheduler = scheduler
        self._anchor = anchor
        self._make_controller = make_controller
        self.policy_failed = False

    def run(self) -> None:
        """Restore the controllers and schedules of the fields, one after another.

        The journal of a field is replayed in a throwaway controller; of these controllers, only
        one is in memory at a time.
        """
        began = time.monotonic()
        stored = [self._document.anchor]
        observations = []  # of the fields that have a model
        log_removed("state", self._document.fields.keys() - self._controllers.keys())
        for name in self._controllers:
            if name not in self._document.fields:
                log.info("state: the field %s is new, and starts without readings", name)
                continue
            continued = self._continued(name)
            stored.append(continued.anchor)
            known = self._restore_field(name, continued)
            if known is not None:
                observations.append(known)
        if self._journal.entries:
            log.info(
                "state: %s read from the event journal in %.1f s",
                counted(sum(len(each.events) for each in self._journal.entries), "event"),
                time.monotonic() - began,
            )
        log.info(
            "state: restored from %s: %s, %s in their models",
            rfc3339(round(max(stored, key=lambda each: each.monotonic).wall, 3)),
            counted(len(observations), "field"),
            counted(sum(observations), "reading"),
        )

    def _continued(self, name: str) -> Continued:
        """Return the state of a field after the events in the journal of the checkpoint.

        If there is no journal, or if it cannot be used, return the state in the checkpoint.
        """
        field, found, journal = self._document.fields[name], None, self._journal
        if journal.entries:
            found = replay(name, field, journal, self._make_controller(name))
        anchor, field = found or (self._document.anchor, field)
        if journal.is_damaged or (journal.entries and not found):
            field = replace(field, next_write=None)  # it is unknown how many intervals have begun
        return Continued(anchor, field)

    def _restore_field(self, name: str, continued: Continued) -> int | None:
        """Restore a field's controller and schedule.

        Return the number of readings in the restored model, or None if the field starts without its
        model.
        """
        anchor, field = continued
        controller = self._controllers[name]
        now = self._anchor()  # after the replay, which can take seconds
        away = elapsed_between(anchor, now)
        problem = restore_controller("state", name, controller, field.controller)
        continues = problem is None
        self.policy_failed |= isinstance(problem, PolicyFailed)
        known = controller.policy.observations
        for event in _clock_events(anchor, now, away):
            controller.handle(event)
        every, _ = self._scheduler.next_interval(name)
        unsaved = self._unsaved(anchor, away)
        self._reserve_numbers(name, field, away, every, unsaved)
        reply = field.reply if continues and controller.keeps_waiting else None
        if reply:
            reply = replace(reply, due_in=reply.due_in - away)
        point = resume_point(field, away, every, final=self._final)
        self._resume_field(name, point, reply, now.wall)
        return known if continues or known else None

    def _reserve_numbers(
        self,
        name: str,
        field: FieldCheckpoint,
        away: float,
        every: float | None,
        unsaved: float,
    ) -> None:
        """Skip the interval numbers that a killed process may have used; charge its activations.

        The activations that the process may have made are charged to the energy budgets.
        """
        controller = self._controllers[name]
        unknown = 0
        if not self._final:
            unknown = unknown_intervals(field, away, newest=self._newest, unsaved=unsaved)
        used = field.interval if self._final else used_number(field, away, every)
        if not self._newest:
            controller.assume_charges()
        controller.reserve_numbers(used, unknown, self._passed(name, field, away))
        log_charge(name, controller, unknown)

    def _unsaved(self, before: Anchor, away: float) -> float:
        """Return for how many seconds processes may have run without storing another checkpoint.

        The checkpoint was written at the moment `before`, `away` seconds ago. A process that cannot
        store a checkpoint stores a mark with the time of its next attempt. If the time in the last
        mark is before the checkpoint, the clock was set back. The result is then `away`, because
        the process may have run until now.
        """
        if self._unsaved_until is None:
            return 0.0
        unsaved = self._unsaved_until - before.wall
        return unsaved if unsaved >= 0.0 else away

    def _passed(self, name: str, field: FieldCheckpoint, away: float) -> int:
        """Return how many of the skipped interval numbers shorten the back-offs of sensors.

        While a sensor is backed off, it is not activated for a number of intervals. After a regular
        stop, the result is 0. The result is also 0 if the time since the checkpoint is known,
        because the back-offs end after this time. Otherwise, some numbers shorten the back-offs, so
        that they end even if each process is killed before its first checkpoint.
        """
        if self._final or (field.every is not None and away > 0.0):
            return 0
        return ceil(self._controllers[name].settings.max_backoff / KILLS_PER_BACKOFF)

    def _resume_field(
        self, name: str, point: ResumePoint, reply: AwaitedReply | None, now: float
    ) -> None:
        """Schedule a field's next interval, and inform the field's controller of the downtime."""
        self._scheduler.resume(name, point.begins_in, reply)
        every, _ = self._scheduler.next_interval(name)
        if every is None or point.skipped:
            at = now if every is None else now + point.begins_in - every
            self._controllers[name].handle(DowntimeElapsed(at, point.skipped))


def _clock_events(before: Anchor, now: Anchor, away: float) -> Iterator[Event]:
    """Yield the events that inform a restored controller about the wall clock.

    The controller handles these events before its downtime. The checkpoint was written at the
    moment `before`. Until the present moment, `now`, `away` seconds have passed.
    """
    by = now.wall - before.wall - away
    if abs(by) > MAX_DRIFT_S:
        yield ClockStepped(by, now.wall)
    if now.wall < RELEASED_AT:
        yield ClockUnset()
