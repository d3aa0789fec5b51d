"""The daemon of one configuration: its objects, its start and its stop."""

import logging
from collections.abc import Iterator, Mapping, Set
from typing import Any, Protocol, Self

import msgspec

from edge_tvbo.config.settings import Settings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon import status_dump
from edge_tvbo.daemon.batch_recorder import BatchRecorder
from edge_tvbo.daemon.checkpoints import Checkpoints
from edge_tvbo.daemon.clock import Clock
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.daemon.decision_log import DecisionLog, DecisionLogger
from edge_tvbo.daemon.history_recorder import HistoryRecorder, posterior_snapshot
from edge_tvbo.daemon.loop import Link, Loop, expecting_readings
from edge_tvbo.daemon.memory import freeze_memory
from edge_tvbo.daemon.monitors import Monitors
from edge_tvbo.daemon.posterior_publisher import PosteriorPublisher
from edge_tvbo.daemon.reading_recorder import ReadingRecorder
from edge_tvbo.daemon.rejection_log import RejectionLog
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.daemon.status import MonitoredLink, StatusCollector
from edge_tvbo.messages.commands import PublishState
from edge_tvbo.messages.documents import Decision
from edge_tvbo.messages.formatting import counted
from edge_tvbo.numerics.jit import COMPILATION, compile_times_s, uncached_kernels

log = logging.getLogger(__name__)


class BrokerLink(Link, MonitoredLink, Protocol):
    """The daemon's link to the broker, which the loop and the status collector use."""

    @property
    def former(self) -> Mapping[str, Set[str]]:
        """Mapping from each field to the command topics on which the broker may retain a message.

        After a reload, the next `BrokerLink` clears these topics. If it has no field of the same
        name, it also clears the retained documents of the field.
        """
        ...

    @property
    def removals(self) -> Mapping[str, dict[str, str]]:
        """The Home Assistant entities whose removal this `BrokerLink` still has to publish."""
        ...

    def clear_removed(self, fields: Set[str]) -> None:
        """Clear the retained documents of the removed `fields` on the broker."""
        ...

    def withdraw(self, field: str) -> None:
        """Clear the retained documents of `field` on the broker; new documents may follow."""
        ...

    def take_over(self, before: Self) -> None:
        """Publish the notices that the previous link, `before`, did not deliver.

        The previous link is already closed.
        """
        ...

    def close(self) -> None:
        """Publish over this `BrokerLink` that the daemon is offline, and disconnect."""
        ...


class Surroundings(msgspec.Struct, frozen=True):
    """Objects that stay in use when a reload of the configuration replaces the daemon."""

    clock: Clock
    decisions: DecisionLog
    status: StatusCollector
    monitors: Monitors
    decision_logger: DecisionLogger
    rejection_log: RejectionLog


class Daemon(msgspec.Struct, frozen=True):
    """The daemon of one configuration: its settings, and the objects that run its fields."""

    settings: Settings
    surroundings: Surroundings
    controllers: dict[str, Controller]
    scheduler: Scheduler
    link: BrokerLink
    checkpoints: Checkpoints | None  # None if no state is stored
    recorder: HistoryRecorder | None  # None if no history is stored
    readings: ReadingRecorder | None  # None if no readings are recorded
    posteriors: PosteriorPublisher
    handler: CommandHandler
    loop: Loop

    def start(self) -> None:
        """Start the daemon: restore the stored state, and reserve new interval numbers.

        A step of the wall clock before this call needs no correction, because this daemon has not
        stored any times yet.
        """
        self.surroundings.clock.resync()
        if self.checkpoints:
            self.checkpoints.restore()
            self.link.clear_removed(self.checkpoints.removed)
            self.checkpoints.save()
        self.withdraw_former_units()
        self.restore_decisions()
        self._log_kernels()
        sensors = sum(len(each.sensors) for each in self.settings.fields.values())
        fields = ", ".join(self.settings.fields)
        log.info(
            "ready: %s, fields %s; kernels compiled %s",
            counted(sensors, "sensor"),
            fields,
            COMPILATION,
        )
        self.attach_monitors()
        freeze_memory()

    def withdraw_former_units(self) -> None:
        """For each field whose unit has changed, clear the documents that the broker retains."""
        for field, controller in self.controllers.items():
            if controller.former_unit:
                self.link.withdraw(field)

    def restore_decisions(self) -> None:
        """Connect the decision log to this daemon, and restore the last decision of each field.

        Also publish each decision and its posterior again, because the link of this daemon does not
        know them, and the broker may lose its retained messages. A decision is not published again

        - after a kill, because the broker may have a later decision;
        - if later intervals have begun without a decision, because the field is paused;
        - if the unit of the field has changed, or the selected sensor was removed.
        """
        decisions, controllers = self.surroundings.decisions, self.controllers
        decisions.posterior = (
            (lambda field: posterior_snapshot(controllers[field])) if self.recorder else None
        )
        decisions.keep_only(controllers)
        for field, controller in controllers.items():
            entry = self.recorder.latest(field) if self.recorder else None
            if entry and not decisions.newest(field):
                decisions.restore(entry)
            newest = decisions.newest(field)
            if newest and _is_newest_of(controller, newest.decision):
                self.link.send(field, PublishState(newest.decision))
                self.posteriors.restore(newest)

    def attach_monitors(self) -> None:
        """Connect the logs, health reports, systemd and the metrics endpoint to this daemon."""
        status, monitors = self.surroundings.status, self.surroundings.monitors
        names = {name: each.sensor_names for name, each in self.settings.fields.items()}
        self.surroundings.rejection_log.names = names
        self.surroundings.decision_logger.names = names
        status.attach(
            self.controllers,
            self.link,
            period=self.settings.health,
            rejected=lambda: self.handler.rejected,
            problems=self._problems,
            written=lambda: self.written,
        )
        monitors.attach(self.link.alive, status.summary)
        monitors.listen(self.settings.metrics, status.status)
        self.link.expect_readings(expecting_readings(self.controllers))

    @property
    def written(self) -> int | None:
        """Number of bytes of state that this daemon has written; None if no state is stored."""
        if self.checkpoints is None:
            return None
        return self.checkpoints.written + sum(each.written for each in self._recorders)

    def dump_status(self) -> None:
        """Write the pending history entries and readings, and log the status of the daemon."""
        for each in self._recorders:
            each.save()
        status, decisions = self.surroundings.status.status(), self.surroundings.decisions
        for line in status_dump.lines(status, self.controllers, decisions.decisions()):
            status_dump.log.info("status: %s", line)

    def stop(self) -> None:
        """Store the last state, publish that the daemon is offline, and disconnect."""
        self.surroundings.monitors.close()
        self.recall_activations()
        if self.checkpoints:
            self.checkpoints.close()
        self.close_recorders()
        self.link.close()

    def recall_activations(self) -> None:
        """Withdraw the daemon's unconfirmed activations before its state is stored.

        Thus the energy budgets in the stored state are not charged for activations that were never
        sent.
        """
        for field, controller in self.controllers.items():
            for undelivered in self.link.recall(field):
                controller.handle(undelivered)

    @property
    def _recorders(self) -> list[BatchRecorder[Any]]:
        return [each for each in (self.recorder, self.readings) if each]

    def take_over_records(self, before: "Daemon") -> None:
        """Queue the history entries and readings that the previous daemon cannot write.

        The previous daemon is `before`. Each entry and reading contains the name of its field and
        its unit. So they stay correct even if this daemon has other fields or units.
        """
        if self.recorder and before.recorder:
            self.recorder.take_over(before.recorder)
        if self.readings and before.readings:
            self.readings.take_over(before.readings)

    def close_recorders(self) -> None:
        """Write the daemon's pending history entries and readings, and close their databases."""
        for each in self._recorders:
            each.close()

    def _problems(self) -> Iterator[str]:
        if self.checkpoints and self.checkpoints.failing:
            yield "the state cannot be stored"
        if self.recorder and self.recorder.failing:
            yield "the history cannot be stored"
        if self.readings and self.readings.failing:
            yield "the readings cannot be recorded"

    def _log_kernels(self) -> None:
        if uncached_kernels:
            log.warning(
                "numba has no writable cache directory, or its disk is full, so every start "
                "compiles the kernels; set a directory:  NUMBA_CACHE_DIR=/var/cache/edge-tvbo"
            )
        elif compile_times_s:
            log.info(
                "compiled %d kernels in %.0f s and cached them for the next start; "
                "`edge-tvbo precompile` compiles them before the first start",
                len(compile_times_s),
                sum(compile_times_s),
            )


def _is_newest_of(controller: Controller, decision: Decision) -> bool:
    """Return whether a `decision` that the daemon restores is certainly the newest of its field.

    Return False if a killed daemon may have published a later decision. Also return False if the
    decision does not fit the field, because its unit has changed or the sensor was removed.
    """
    field = controller.policy.field
    is_latest = decision.interval == controller.newest
    return is_latest and decision.unit == field.unit and decision.sensor in field.sensors
