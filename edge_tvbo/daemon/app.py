"""Composition root: builds the daemon from its settings, and runs it.

SIGTERM and SIGINT end the daemon. After SIGHUP, the daemon reads the configuration again: if the
configuration is invalid, nothing changes; if it is valid, every field continues from its present
state. After SIGUSR1, the daemon writes a status dump to the log.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

from edge_tvbo.config.loader import located
from edge_tvbo.config.settings import Metrics, Settings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon import build_controllers
from edge_tvbo.daemon.build_discovery import discovery_message
from edge_tvbo.daemon.checkpoint_document import clock_anchor
from edge_tvbo.daemon.checkpoints import Checkpoints
from edge_tvbo.daemon.clock import Clock, LiveClock
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.daemon.crash_log import crash_logging
from edge_tvbo.daemon.daemon import Daemon, Surroundings
from edge_tvbo.daemon.decision_log import DecisionLog, DecisionLogger
from edge_tvbo.daemon.history_recorder import HistoryRecorder
from edge_tvbo.daemon.log_format import set_levels
from edge_tvbo.daemon.loop import Loop, LoopService, Observer
from edge_tvbo.daemon.memory import release_memory
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
from edge_tvbo.messages.documents import Notice, Status
from edge_tvbo.messages.formatting import duration, rfc3339
from edge_tvbo.policy.model_free import ModelFreePolicy

if TYPE_CHECKING:
    from edge_tvbo_adapters.homeassistant.discovery import Discovery
    from edge_tvbo_adapters.mqtt.link import MqttLink
    from edge_tvbo_adapters.mqtt.second_daemon import SecondDaemon
    from edge_tvbo_adapters.storage.state_lock import StateLock

log = logging.getLogger(__name__)

MAX_UNNAMED_SPACING_S = 10.0  # a longer time between recorded readings is logged
MAX_RECONNECT_TIME_S = 1.0  # longest wait of a reload for the connection to the broker
MAX_CONNECT_TIME_S = 10.0  # longest wait of the first interval for the connection to the broker


def run(config: Path, read: Callable[[Path], Settings]) -> None:
    """Run the daemon until SIGTERM or SIGINT.

    `read` is a function that returns the settings of the file `config`. It is called at the start
    and at each SIGHUP.
    Raises `ConfigError` if the configuration is invalid at the start, and its subclass `StateInUse`
    if another daemon uses the same stored state.
    """
    from edge_tvbo_adapters.storage.state_lock import StateLock

    def successor(daemon: Daemon) -> Daemon:
        with located(config):
            made = build_successor(daemon, read(config), lock)
        state = made.settings.state
        crash_log.directory, crash_log.instance = state.dir, made.settings.instance
        set_levels(made.settings.log)
        return made

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    with catch_signals(*numbers) as caught:
        settings, surroundings = read(config), make_surroundings()
        set_levels(settings.log)
        with (
            closing(StateLock()) as lock,
            crash_logging(
                settings.state.dir, settings.instance, surroundings.decisions
            ) as crash_log,
        ):
            lock.hold(settings.state.dir, settings.instance)
            with located(config):
                daemon = build_daemon(settings, surroundings, lock=lock)
            run_until_stopped(daemon, successor, caught)


def run_until_stopped(
    daemon: Daemon, make_successor: Callable[[Daemon], Daemon], caught: Signals
) -> None:
    """Run `daemon` until SIGTERM or SIGINT; at each SIGHUP, a successor replaces the daemon."""
    try:
        daemon.start()
        while not (caught.take(signal.SIGTERM) or caught.take(signal.SIGINT)):
            if caught.take(signal.SIGUSR1):
                daemon.dump_status()
            if caught.take(signal.SIGHUP):
                daemon.surroundings.monitors.reloading()
                daemon = reload(daemon, make_successor)
                daemon.attach_monitors()
                _reconnect(daemon, caught)
                release_memory()
            daemon.loop.run(caught.any, caught.fileno())
    finally:
        daemon.stop()
    log.info("stopped")


def _reconnect(daemon: Daemon, caught: Signals) -> None:
    """Run the reloaded daemon until it is connected to the broker, or a short time has passed.

    While no daemon is connected, the broker drops the commands that users send. So work that takes
    longer is done after this call.
    """
    latest = time.monotonic() + MAX_RECONNECT_TIME_S
    daemon.loop.run(
        lambda: daemon.link.online or caught.any() or time.monotonic() >= latest, caught.fileno()
    )


def make_surroundings(clock: Clock | None = None) -> Surroundings:
    """Return the surroundings of the first daemon: the objects that stay in use after a reload."""
    from edge_tvbo_adapters.monitoring.systemd import SystemdNotifier

    clock = clock or LiveClock()
    return Surroundings(
        clock,
        DecisionLog(),
        StatusCollector(clock, os.urandom(4).hex()),
        Monitors(SystemdNotifier(), _open_endpoint),
        DecisionLogger(),
        RejectionLog(),
    )


def check_buildable(settings: Settings) -> None:
    """Build the whole daemon except its connections; raises `SettingErrors` if this fails."""
    mistakes = list(_missing_extras(settings))
    try:
        build_daemon(settings, make_surroundings())
    except SettingErrors as error:
        mistakes += error.mistakes
    if mistakes:
        raise SettingErrors(mistakes)


def _missing_extras(settings: Settings) -> Iterator[Mistake]:
    """Yield a mistake for each daemon setting that needs a missing optional package."""
    from edge_tvbo_adapters.monitoring.prometheus import check_installed

    if settings.metrics.port is None:
        return
    try:
        check_installed()
    except MissingExtra as error:
        yield Mistake(("metrics", "port"), f"cannot be used: {error}", Code.EXTRA)


def build_daemon(
    settings: Settings,
    surroundings: Surroundings,
    before: Daemon | None = None,
    lock: "StateLock | None" = None,
) -> Daemon:
    """Return a daemon that is ready to start; raises `SettingErrors` for unusable settings.

    At a reload, `before` is the daemon that is replaced; at the start of the process, `before` is
    None. `lock` is the lock on the stored state; the daemon checks before each write that it still
    has the lock. If `lock` is None, nothing is locked.
    """
    clock, decisions = surroundings.clock, surroundings.decisions
    controllers = build_controllers.controllers(settings)
    now = clock.elapsed()
    scheduler = Scheduler(
        settings.intervals, clock, first=now, latest_start=now + MAX_CONNECT_TIME_S
    )
    link = _link(settings, controllers, surroundings, before)
    checkpoints = _checkpoints(settings, controllers, scheduler, clock, link, lock)
    recorder, readings = _recorder(settings), _reading_recorder(settings, controllers)
    posteriors = _posteriors(settings, surroundings, controllers, link)
    handler = CommandHandler(
        controllers, surroundings.status.health, decisions.decisions, scheduler.next_interval
    )
    if before:
        handler.rejected = before.handler.rejected
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
        observers=_observers(surroundings, recorder, posteriors),
        services=[each for each in services if each],
        on_reading=readings.add if readings else None,
        on_event=checkpoints.note if checkpoints else None,
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
        posteriors,
        handler,
        loop,
    )


def build_successor(daemon: Daemon, settings: Settings, lock: "StateLock") -> Daemon:
    """Return a new daemon that is ready to replace `daemon`; lock the new daemon's stored state."""
    successor = build_daemon(settings, daemon.surroundings, daemon, lock)
    lock.hold(settings.state.dir, settings.instance)
    return successor


def _open_endpoint(settings: Metrics, status: Callable[[], Status]) -> LoopService:
    from edge_tvbo_adapters.monitoring.prometheus import open_endpoint

    return open_endpoint(settings, status)


def _link(
    settings: Settings,
    controllers: dict[str, Controller],
    surroundings: Surroundings,
    before: Daemon | None,
) -> "MqttLink":
    from edge_tvbo_adapters.mqtt.link import MqttLink

    clock = surroundings.clock
    return MqttLink(
        settings.mqtt,
        settings.instance,
        settings.fields,
        commands=settings.commands,
        discovery=_discovery(settings, controllers, before),
        former=before.link.former if before else None,
        without_model=[
            name for name, each in controllers.items() if isinstance(each.policy, ModelFreePolicy)
        ],
        detector=_detector(settings, surroundings.status.process, before),
        wall=lambda: clock.wall(clock.elapsed()),
    )


def _detector(settings: Settings, process: str, before: Daemon | None) -> "SecondDaemon":
    """Return an object that detects a second daemon with the same name on the broker.

    If a reload has not changed the daemon's `_address`, the detector of the replaced daemon is used
    again.
    """
    from edge_tvbo_adapters.mqtt.second_daemon import SecondDaemon

    known = cast("MqttLink", before.link).detector if before else None
    if before and known and _address(before.settings) == _address(settings):
        return known.with_period(settings.health)
    return SecondDaemon(settings.instance, process, settings.health)


def _address(settings: Settings) -> tuple[str, str, int]:
    """Return the daemon's instance, and the host and port of its broker."""
    return settings.instance, settings.mqtt.host, settings.mqtt.port


def _discovery(
    settings: Settings, controllers: Mapping[str, Controller], before: Daemon | None
) -> "Discovery | None":
    if settings.homeassistant is None:
        return None
    from edge_tvbo_adapters.homeassistant.discovery import Discovery

    message = discovery_message(settings, settings.homeassistant, controllers)
    removals = before.link.removals if before else None
    return Discovery(settings.instance, settings.homeassistant, message, Random(), removals)


def _checkpoints(
    settings: Settings,
    controllers: dict[str, Controller],
    scheduler: Scheduler,
    clock: Clock,
    link: "MqttLink",
    lock: "StateLock | None",
) -> Checkpoints | None:
    from edge_tvbo_adapters.storage.state_files import FileStore
    from edge_tvbo_adapters.storage.state_lock import removed_text

    state = settings.state
    if not state.dir:
        return None

    def keep_lock() -> bool:
        if lock is None or not lock.hold(state.dir, settings.instance):
            return False
        at = rfc3339(round(clock.wall(clock.elapsed()), 3))
        text = removed_text(state.dir, settings.instance)
        link.announce(Notice("state-removed", at, text))
        return True

    store = FileStore(state.dir, settings.instance)
    return Checkpoints(
        store,
        state.checkpoint,
        controllers,
        scheduler,
        lambda: clock_anchor(clock),
        clock.is_stepped,
        lambda name: build_controllers.controller(
            name, settings.fields[name], controllers[name].policy.field
        ),
        lambda: link.former,
        keep_lock,
    )


def _recorder(settings: Settings) -> HistoryRecorder | None:
    state = settings.state
    if not state.dir or state.history is None:
        return None
    from edge_tvbo_adapters.storage.history_db import HistoryDatabase

    history = HistoryDatabase(state.dir, settings.instance, state.history)
    return HistoryRecorder(history, state.checkpoint)


def _reading_recorder(
    settings: Settings, controllers: Mapping[str, Controller]
) -> ReadingRecorder | None:
    state = settings.state
    if not state.dir or state.readings is None:
        return None
    from edge_tvbo_adapters.storage.reading_db import ReadingDatabase

    database = ReadingDatabase(state.dir, settings.instance, state.readings)
    sensors = sum(len(each.sensors) for each in settings.fields.values())
    units = {name: each.policy.field.unit for name, each in controllers.items()}
    recorder = ReadingRecorder(database, state.checkpoint, sensors, units)
    if recorder.min_spacing > MAX_UNNAMED_SPACING_S:
        log.info(
            "readings: at most one reading every %s is recorded for each of the %d sensors",
            duration(recorder.min_spacing),
            sensors,
        )
    return recorder


def _posteriors(
    settings: Settings,
    surroundings: Surroundings,
    controllers: dict[str, Controller],
    link: "MqttLink",
) -> PosteriorPublisher:
    clock = surroundings.clock
    shown = {
        name: each
        for name, each in controllers.items()
        if settings.fields[name].publishes_posterior
    }
    return PosteriorPublisher(link.show, shown, lambda: clock.wall(clock.elapsed()))


def _observers(
    surroundings: Surroundings,
    recorder: HistoryRecorder | None,
    posteriors: PosteriorPublisher,
) -> list[Observer]:
    def update_history(field: str, command: Command) -> None:
        entry = surroundings.decisions.update(field, command)
        if entry and recorder:
            recorder.add(entry)

    return [
        surroundings.decision_logger,
        surroundings.rejection_log,
        update_history,
        surroundings.status,
        posteriors,
    ]
