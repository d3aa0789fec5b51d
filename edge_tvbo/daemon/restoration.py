"""Restoration: controllers continue from snapshots, after a start or a reload.

After a start, all fields continue from a checkpoint and its journal. If a controller cannot restore
its whole snapshot, the consequences are logged.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from edge_tvbo.daemon.scheduler import AwaitedReply, Scheduler
from edge_tvbo.errors import SnapshotError
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


def restore_controller(
    occasion: str, name: str, controller: Controller, snapshot: bytes
) -> SnapshotError | None:
    """Restore `controller` from `snapshot`; return why the snapshot does not fit, None if it does.

    `occasion` is "state" at a start, and "reload" at a reload. If the snapshot does not fit,
    restore the parts that fit; see `Controller.restore_partial`. If these parts do not include the
    model, log why the field starts without readings or from its fitted model. Also log why the
    threshold of an alert, set by a command, is replaced.
    """
    problem = None
    try:
        controller.restore(snapshot)
    except SnapshotError as error:
        problem = _restore_partial(occasion, name, controller, snapshot, error)
    if why := controller.why_threshold_replaced:
        log.warning(
            "%s: the field %s uses the configured threshold of the alert, not the threshold that a "
            "command has set: %s",
            occasion,
            name,
            why,
        )
    return problem


def _restore_partial(
    occasion: str, name: str, controller: Controller, snapshot: bytes, why: SnapshotError
) -> SnapshotError:
    """Restore the parts of the `snapshot` that fit, and log the result; return the problem.

    `why` says why the whole snapshot does not fit the controller; it is returned. If no part can
    be restored, the reason for this is returned instead.
    """
    known = 0
    try:
        known = controller.restore_partial(snapshot)
    except SnapshotError as error:
        why = error
    if known and controller.policy.observations:
        sensors = counted(known, "sensor")
        log.info("%s: the field %s keeps what it learned about %s", occasion, name, sensors)
    else:
        start = _start(controller)
        log.warning("%s: the field %s starts %s: %s", occasion, name, start, why)
    return why


def log_charge(name: str, controller: Controller, unknown: int) -> None:
    """Log that a restored controller charges its energy budgets for `unknown` intervals, if any."""
    settings = controller.settings
    is_limited = settings.energy is not None and settings.energy.limits_activations
    if unknown and controller.charges_unknown and is_limited:
        log.info(
            "state: the daemon did not stop normally, and may have activated sensors of the field "
            "%s after it stored this state: the energy budgets are charged for %s",
            name,
            counted(unknown, "interval"),
        )


def log_removed(occasion: str, fields: Iterable[str]) -> None:
    """Log a warning for each of the removed `fields`: no controller restores its state.

    The state of a removed field is deleted although the field may return. If the state were kept,
    each checkpoint would contain it, and would be written less often; see `checkpoints`.
    """
    for name in sorted(fields):
        log.warning(
            "%s: the field %s is not in the configuration, so its state is deleted; if you add the "
            "field again, it starts without readings, and its interval numbers start at 0",
            occasion,
            name,
        )


def _start(controller: Controller) -> str:
    """Return a log text: how the model of a restored controller starts if nothing fits."""
    structure = controller.policy.field.structure
    if structure is None or not structure.rows:
        return "without readings"
    return "from its fitted model, without the readings after the fit"
