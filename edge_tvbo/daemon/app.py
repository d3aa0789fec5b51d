"""Composition root: builds the daemon from its settings, and runs it.

SIGTERM and SIGINT end the daemon. SIGHUP reads the configuration again: if the configuration is
invalid, nothing changes; if it is valid, every field continues from its present state. SIGUSR1
writes a status dump to the log.
"""

import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from edge_tvbo.config.loader import located
from edge_tvbo.config.settings import Metrics, Settings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon import build_controllers, status_dump
from edge_tvbo.daemon.batch_recorder import BatchRecorder
from edge_tvbo.daemon.build_discovery import discovery_message
from edge_tvbo.daemon.checkpoints import Checkpoints, clock_anchor
from edge_tvbo.daemon.clock import Clock, LiveClock
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.daemon.crash_log import crash_logging
from edge_tvbo.daemon.decision_log import DecisionLog, DecisionLogger
from edge_tvbo.daemon.history_recorder import HistoryRecorder, posterior_snapshot
from edge_tvbo.daemon.loop import Loop, LoopService, Observer
from edge_tvbo.daemon.memory import freeze_memory, release_memory
from edge_tvbo.daemon.monitors import Monitors
from edge_tvbo.daemon.posterior_publisher import PosteriorPublisher
from edge_tvbo.daemon.reading_recorder import ReadingRecorder
from edge_tvbo.daemon.rejection_log import RejectionLog
from edge_tvbo.daemon.reload import reload
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.daemon.signals import Signals, catch_signals
from edge_tvbo.daemon.status import StatusCollector
from edge_tvbo.errors import Code, MissingExtra, Mistake, SettingErrors
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.documents import Status
from edge_tvbo.messages.formatting import duration
from edge_tvbo.numerics.jit import COMPILATION, compile_times_s, uncached_kernels
from edge_tvbo.policy.model_free import ModelFreePolicy

if TYPE_CHECKING:
    from edge_tvbo_adapters.homeassistant.discovery import Discovery
    from edge_tvbo_adapters.mqtt.link import MqttLink
    from edge_tvbo_adapters.storage.state_lock import StateLock

log = logging.getLogger(__name__)

MAX_UNNAMED_SPACING_S = 10.0  # spacing of recorded readings above which the log names it
MAX_CONNECT_TIME_S = 10.0  # for which the first interval waits for the connection to the broker


def run(config: Path, read: Callable[[Path], Settings]) -> None:
    """Run the daemon until SIGTERM or SIGINT.

    `read` returns the settings of the file `config`; it is called at the start and at each SIGHUP.
    Raises `ConfigError` for an invalid configuration; the subclass `StateInUse` if another daemon
    uses the same stored state.
    """

    def successor(daemon: Daemon) -> Daemon:
        with located(config):
            return build_daemon(read(config), daemon.surroundings, daemon)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    with catch_signals(*numbers) as caught:
        settings, surroundings = read(config), Surroundings.make()
        with (
            closing(surroundings.lock),
            crash_logging(settings.state.dir, settings.instance, surroundings.decisions),
        ):
            surroundings.lock.hold(settings.state.dir, settings.instance)
            with located(config):
                daemon = build_daemon(settings, surroundings)
            run_until_stopped(daemon, successor, caught)


def run_until_stopped(
    daemon: "Daemon", make_successor: "Callable[[Daemon], Daemon]", caught: Signals
) -> None:
    """Run `daemon` until SIGTERM or SIGINT; each SIGHUP replaces it by its successor."""
    try:
        daemon.start()
        while not (caught.take(signal.SIGTERM) or caught.take(signal.SIGINT)):
            if caught.take(signal.SIGUSR1):
                daemon.dump_status()
            if caught.take(signal.SIGHUP):
                daemon.surroundings.monitors.reloading()
                daemon = reload(daemon, make_successor)
                daemon.attach_monitors()
                release_memory()
            daemon.loop.run(caught.any, caught.fileno())
    finally:
        daemon.stop()
    log.info("stopped")


class Surroundings(msgspec.Struct, frozen=True):
    """Objects that stay in use when a reload of the configuration replaces the daemon."""

    clock: Clock
    decisions: DecisionLog
    status: StatusCollector
    monitors: Monitors
    decision_logger: DecisionLogger
    rejection_log: RejectionLog
    lock: "StateLock"

    @classmethod
    def make(cls, clock: Clock | None = None) -> "Surroundings":
        """Return the surroundings for the first daemon of a process."""
        from edge_tvbo_adapters.monitoring.systemd import SystemdNotifier
        from edge_tvbo_adapters.storage.state_lock import StateLock

        clock = clock or LiveClock()
        return cls(
            clock,
            DecisionLog(),
            StatusCollector(clock),
            Monitors(SystemdNotifier(), _open_endpoint),
            DecisionLogger(),
            RejectionLog(),
            StateLock(),
        )


class Daemon(msgspec.Struct, frozen=True):
    """The daemon of one configuration: its settings, and the objects that run its fields."""

    settings: Settings
    surroundings: Surroundings
    controllers: dict[str, Controller]
    scheduler: Scheduler
    link: "MqttLink"
    checkpoints: Checkpoints | None  # None if no state is stored
    recorder: HistoryRecorder | None  # None if no history is stored
    readings: ReadingRecorder | None  # None if no readings are recorded
    handler: CommandHandler
    loop: Loop

    def start(self) -> None:
        """Start the daemon: restore the stored state, and reserve new interval numbers.

        A step of the wall clock between the creation of this object and this call needs no
        correction, because the object does not hold any times before this call.
        """
        self.surroundings.clock.resync()
        if self.checkpoints:
            self.checkpoints.restore()
            self.checkpoints.save()
        self.restore_decisions()
        self._log_kernels()
        sensors = sum(len(each.sensors) for each in self.settings.fields.values())
        fields = ", ".join(self.settings.fields)
        log.info("ready: %d sensors, fields %s; kernels compiled %s", sensors, fields, COMPILATION)
        self.attach_monitors()
        freeze_memory()

    def restore_decisions(self) -> None:
        """Connect the decision log to this daemon, and restore its last decisions."""
        decisions, controllers = self.surroundings.decisions, self.controllers
        decisions.posterior = (
            (lambda field: posterior_snapshot(controllers[field])) if self.recorder else None
        )
        decisions.keep_only(controllers)
        for field in controllers:
            entry = self.recorder.latest(field) if self.recorder else None
            if entry and not decisions.newest(field):
                decisions.restore(entry)

    def attach_monitors(self) -> None:
        """Connect the logs, health reports, systemd and the metrics endpoint to this daemon."""
        status, monitors = self.surroundings.status, self.surroundings.monitors
        names = {name: each.sensor_names for name, each in self.settings.fields.items()}
        self.surroundings.rejection_log.names = names
        self.surroundings.decision_logger.names = names
        status.attach(
            self.controllers,
            self.link,
            self.settings.intervals,
            period=self.settings.health,
            rejected=lambda: self.handler.rejected,
            problems=self._problems,
            written=lambda: self.written,
        )
        monitors.attach(self.link.alive, status.summary)
        monitors.listen(self.settings.metrics, status.status)
        paused = all(each.paused for each in self.controllers.values())
        self.link.expect_readings(not paused)

    @property
    def written(self) -> int | None:
        """Bytes of state that the daemon wrote since the start; None if no state is stored."""
        if self.checkpoints is None:
            return None
        return self.checkpoints.written + sum(each.written for each in self._recorders)

    def dump_status(self) -> None:
        """Write the pending history entries and readings, and log the status of the daemon."""
        for each in self._recorders:
            each.save()
        status, decisions = self.surroundings.status.status(), self.surroundings.decisions
        for line in status_dump.lines(status, self.controllers, decisions.decisions()):
            log.info("status: %s", line)

    def stop(self) -> None:
        """Store the last state, publish that the daemon is offline, and disconnect."""
        self.surroundings.monitors.close()
        self.recall_activations()
        if self.checkpoints:
            self.checkpoints.close()
        self.close_recorders()
        self.link.close()
        self.loop.close()

    def recall_activations(self) -> None:
        """Withdraw unsent activations, so that the state that follows does not charge them."""
        for field, controller in self.controllers.items():
            for undelivered in self.link.recall(field):
                controller.handle(undelivered)

    @property
    def _recorders(self) -> list[BatchRecorder[Any]]:
        return [each for each in (self.recorder, self.readings) if each]

    def close_recorders(self) -> None:
        """Write the pending history entries and readings, and close their databases."""
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
                "numba has no writable cache directory, so every start compiles the kernels; "
                "set one:  NUMBA_CACHE_DIR=/var/cache/edge-tvbo"
            )
        elif compile_times_s:
            log.info(
                "compiled %d kernels in %.0f s and cached them for the next start; "
                "`edge-tvbo precompile` compiles them before the first start",
                len(compile_times_s),
                sum(compile_times_s),
            )


def check_buildable(settings: Settings) -> None:
    """Build the whole daemon except its connections; raises `SettingErrors`."""
    mistakes = list(_missing_extras(settings))
    try:
        daemon = build_daemon(settings, Surroundings.make())
    except SettingErrors as error:
        mistakes += error.mistakes
    else:
        daemon.loop.close()
    if mistakes:
        raise SettingErrors(mistakes)


def _missing_extras(settings: Settings) -> Iterator[Mistake]:
    """Yield a mistake for each setting that has no effect because a package is missing."""
    from edge_tvbo_adapters.monitoring.prometheus import check_installed

    if settings.metrics.port is None:
        return
    try:
        check_installed()
    except MissingExtra as error:
        yield Mistake(("metrics", "port"), f"cannot be used: {error}", Code.EXTRA)


def build_daemon(
    settings: Settings, surroundings: Surroundings, before: Daemon | None = None
) -> Daemon:
    """Return a daemon that is ready to start; raises `SettingErrors`.

    `before` is the daemon that the new daemon replaces; None at the start of the process.
    """
    clock, decisions = surroundings.clock, surroundings.decisions
    controllers = build_controllers.controllers(settings)
    now = clock.elapsed()
    scheduler = Scheduler(
        settings.intervals, clock, first=now, latest_start=now + MAX_CONNECT_TIME_S
    )
    link = _link(settings, controllers, clock, before)
    checkpoints = _checkpoints(settings, controllers, scheduler, clock)
    recorder, readings = _recorder(settings), _reading_recorder(settings)
    handler = CommandHandler(controllers, surroundings.status.health, decisions.decisions)
    if before:
        handler.copy_from(before.handler)
    services: list[LoopService | None] = [
        surroundings.status,
        checkpoints,
        recorder,
        readings,
        surroundings.monitors,
    ]
    loop = Loop(
        link,
        controllers,
        scheduler,
        clock,
        handler=handler,
        observers=_observers(settings, surroundings, controllers, link, recorder),
        services=[each for each in services if each],
        on_reading=readings.add if readings else None,
        on_change=surroundings.status.publish_soon,
    )
    return Daemon(
        settings,
        surroundings,
        controllers,
        scheduler,
        link,
        checkpoints,
        recorder,
        readings,
        handler,
        loop,
    )


def _open_endpoint(settings: Metrics, status: Callable[[], Status]) -> LoopService:
    from edge_tvbo_adapters.monitoring.prometheus import open_endpoint

    return open_endpoint(settings, status)


def _link(
    settings: Settings, controllers: dict[str, Controller], clock: Clock, before: Daemon | None
) -> "MqttLink":
    from edge_tvbo_adapters.mqtt.link import connect

    return connect(
        settings.mqtt,
        settings.instance,
        settings.fields,
        commands=settings.commands,
        discovery=_discovery(settings, controllers),
        former=before.settings.fields if before else None,
        without_model=[
            name for name, each in controllers.items() if isinstance(each.policy, ModelFreePolicy)
        ],
        wall=lambda: clock.wall(clock.elapsed()),
    )


def _discovery(settings: Settings, controllers: Mapping[str, Controller]) -> "Discovery | None":
    if settings.homeassistant is None:
        return None
    from edge_tvbo_adapters.homeassistant.discovery import Discovery

    message = discovery_message(settings, settings.homeassistant, controllers)
    return Discovery(settings.instance, settings.homeassistant, message, Random())


def _checkpoints(
    settings: Settings, controllers: dict[str, Controller], scheduler: Scheduler, clock: Clock
) -> Checkpoints | None:
    from edge_tvbo_adapters.storage.file_store import FileStore

    state = settings.state
    if not state.dir:
        return None
    store = FileStore(state.dir, settings.instance)
    return Checkpoints(
        store,
        state.checkpoint,
        controllers,
        scheduler,
        lambda: clock_anchor(clock),
        clock.is_stepped,
    )


def _recorder(settings: Settings) -> HistoryRecorder | None:
    state = settings.state
    if not state.dir or state.history is None:
        return None
    from edge_tvbo_adapters.storage.history_db import HistoryDatabase

    history = HistoryDatabase(state.dir, settings.instance, state.history)
    return HistoryRecorder(history, state.checkpoint)


def _reading_recorder(settings: Settings) -> ReadingRecorder | None:
    state = settings.state
    if not state.dir or state.readings is None:
        return None
    from edge_tvbo_adapters.storage.reading_db import ReadingDatabase

    database = ReadingDatabase(state.dir, settings.instance, state.readings)
    sensors = sum(len(each.sensors) for each in settings.fields.values())
    recorder = ReadingRecorder(database, state.checkpoint, sensors)
    if recorder.min_spacing > MAX_UNNAMED_SPACING_S:
        log.info(
            "readings: at most one reading every %s is recorded for each of the %d sensors",
            duration(recorder.min_spacing),
            sensors,
        )
    return recorder


def _observers(
    settings: Settings,
    surroundings: Surroundings,
    controllers: dict[str, Controller],
    link: "MqttLink",
    recorder: HistoryRecorder | None,
) -> list[Observer]:
    clock = surroundings.clock

    def update_history(field: str, command: Command) -> None:
        entry = surroundings.decisions.update(field, command)
        if entry and recorder:
            recorder.add(entry)

    shown = {
        name: each
        for name, each in controllers.items()
        if len(each.policy.field) <= settings.fields[name].publish_posterior
    }
    posteriors = PosteriorPublisher(link.show, shown, lambda: clock.wall(clock.elapsed()))
    return [
        surroundings.decision_logger,
        surroundings.rejection_log,
        update_history,
        surroundings.status,
        posteriors,
    ]
