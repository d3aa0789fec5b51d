"""How the daemon lives: it starts without a broker, runs until told to stop, says good-bye.

SIGTERM and SIGINT end it. SIGHUP has the configuration read again: one that is wrong changes
nothing, one that is right takes over where the present one stands. SIGUSR1 asks for a diagnosis.
"""

import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import assert_never

import msgspec

from edge_tvbo.config import ConfigErrors, Settings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon import build_controllers, build_mqtt, crash_log, status_dump
from edge_tvbo.daemon.checkpoints import Checkpoints, clock_anchor, resumed
from edge_tvbo.daemon.clock import Clock, LiveClock
from edge_tvbo.daemon.history_recorder import HistoryRecorder
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.daemon.monitors import Monitors
from edge_tvbo.daemon.posterior_publisher import PosteriorPublisher
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.errors import EdgeTvboError, told
from edge_tvbo.messages.commands import Activate, Command, Notify, PublishState, Record
from edge_tvbo.messages.documents import Decision, Notice
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.numerics.jit import COMPILATION, compile_times_s, uncached_kernels
from edge_tvbo.plugins import load
from edge_tvbo.ports import Link, LoopService

log = logging.getLogger(__name__)

CONNECTING = 0.5  # s; a broker that is there lets us in before the first sensor is to be asked


def run(read: Callable[[], Settings]) -> None:
    """Run every field of the configuration until SIGTERM or SIGINT; raises `ConfigError` early.

    `read` reads the configuration, at the start and at each SIGHUP.
    """
    with signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1) as came:
        settings = read()
        with crash_log.kept(settings.state.dir, settings.instance) as recent:
            live(settings, read, came, recent)


def live(
    settings: Settings, read: Callable[[], Settings], came: "Signals", recent: crash_log.Recent
) -> None:
    """Run `settings`, and what is read instead of them at each SIGHUP, until told to stop."""
    daemon = build_daemon(settings, Monitors(), LiveClock(), recent)
    try:
        daemon.begin()
        while not (came.take(signal.SIGTERM) or came.take(signal.SIGINT)):
            if came.take(signal.SIGUSR1):
                daemon.diagnose()
            if came.take(signal.SIGHUP):
                daemon.watching.reloading()
                daemon = reload(daemon, read)
                daemon.watched()
                release_memory()
            daemon.loop.run(came.any, came.fileno())
    finally:
        daemon.end()
    log.info("stopped")


# --- one configuration at work ------------------------------------------------------------------


class Daemon(msgspec.Struct, frozen=True):
    """A configuration, and all that carries it out."""

    settings: Settings
    clock: Clock
    controllers: dict[str, Controller]
    schedule: Scheduler
    link: Link
    checkpoints: Checkpoints | None  # where state is kept at all
    chronicle: HistoryRecorder | None  # where a history is kept
    journal: "DecisionLogger"
    recent: crash_log.Recent
    watching: Monitors
    loop: Loop

    def begin(self) -> None:
        """Go on from what was kept, and keep that it goes on."""
        if self.checkpoints:
            self.checkpoints.restore()
            self.checkpoints.save()
        if uncached_kernels:
            log.warning(
                "no folder for numba's cache can be written, so each start compiles for a while; "
                "name one that can:  NUMBA_CACHE_DIR=/var/cache/edge-tvbo"
            )
        elif compile_times_s:
            log.info(
                "compiled %d kernels in %.0f s and kept them for the next start; "
                "`edge-tvbo warm` does so beforehand",
                len(compile_times_s),
                sum(compile_times_s),
            )
        sensors = sum(len(each.sensors) for each in self.settings.fields.values())
        log.info(
            "ready: %d sensors, fields %s; kernels compiled %s",
            sensors,
            ", ".join(self.settings.fields),
            COMPILATION,
        )
        self.watched()
        gc.freeze()  # what is made by now stays: to look it through took 15 ms, now and then

    def watched(self) -> None:
        """Have systemd and whoever reads the metrics look at this configuration from now on."""
        self.watching.follow(
            self.settings, self.controllers, self.link, self.clock, lambda: self.written
        )

    @property
    def written(self) -> int | None:
        """Bytes of state written, None where none is kept."""
        if self.checkpoints is None:
            return None
        return self.checkpoints.written + (self.chronicle.written if self.chronicle else 0)

    def diagnose(self) -> None:
        """Log how everything is, and have the history kept as far as it has come."""
        if self.chronicle:
            self.chronicle.save()
        health, decisions, online = self.loop.health(), self.journal.decisions, self.link.online
        for line in status_dump.lines(health, self.controllers, decisions, online, self.written):
            log.info("diagnosis: %s", line)

    def end(self) -> None:
        """Keep the last state, and say good-bye."""
        self.watching.close()
        if self.checkpoints:
            self.checkpoints.close()
        if self.chronicle:
            self.chronicle.close()
        self.link.close()
        self.loop.close()


def build_daemon(
    settings: Settings,
    watching: Monitors,
    clock: Clock,
    recent: crash_log.Recent,
    before: Daemon | None = None,
) -> Daemon:
    """Give a daemon that is about to begin, for two to watch; raises `ConfigError`.

    It takes the place of the one `before`, if there was one.
    """
    controllers = build_controllers.controllers(settings)
    schedule = Scheduler(build_mqtt.intervals(settings), clock, first=clock.elapsed() + CONNECTING)
    checkpoints = None
    if settings.state.dir:
        store = load("stores", "file")(settings.state.dir, settings.instance)
        checkpoints = Checkpoints(
            store, settings.state.checkpoint, controllers, schedule, lambda: clock_anchor(clock)
        )
    link = load("links", "mqtt")(
        build_mqtt.broker(settings),
        build_mqtt.wirings(settings),
        commands=settings.commands,
        homeassistant=build_controllers.homeassistant(settings, controllers),
        former=build_mqtt.wirings(before.settings) if before else None,
        wall=lambda: clock.wall(clock.elapsed()),
    )
    chronicle = chronicle_of(settings, controllers)
    journal = DecisionLogger()
    shown = {
        name: each
        for name, each in controllers.items()
        if len(each.policy.field) <= settings.fields[name].publish_posterior
    }
    showing = PosteriorPublisher(link, shown, lambda: clock.wall(clock.elapsed()))
    watchers: list[Callable[[str, Command], None]] = [journal, recent, watching, showing]
    watchers += [chronicle] if chronicle else []
    attendants: list[LoopService] = [each for each in (checkpoints, chronicle, watching) if each]

    def watch(field: str, command: Command) -> None:
        for each in watchers:
            each(field, command)

    loop = Loop(
        link,
        controllers,
        schedule,
        clock,
        health_every=settings.health,
        watch=watch,
        attendants=attendants,
        before=before.loop if before else None,
        troubles=partial(troubles, checkpoints, chronicle),
    )
    return Daemon(
        settings,
        clock,
        controllers,
        schedule,
        link,
        checkpoints,
        chronicle,
        journal,
        recent,
        watching,
        loop,
    )


def chronicle_of(settings: Settings, controllers: dict[str, Controller]) -> HistoryRecorder | None:
    """Give what keeps the history, where one is kept."""
    state = settings.state
    if not state.dir or state.history is None:
        return None
    history = load("histories", "sqlite")(state.dir, settings.instance, state.history)
    return HistoryRecorder(history, state.checkpoint, controllers)


def troubles(checkpoints: Checkpoints | None, chronicle: HistoryRecorder | None) -> Iterator[str]:
    """Yield what the disk does not let us do; the log has the reason."""
    if checkpoints and checkpoints.failing:
        yield "the state cannot be kept"
    if chronicle and chronicle.failing:
        yield "the history cannot be kept"


def reload(daemon: Daemon, read: Callable[[], Settings]) -> Daemon:
    """Give the daemon of the configuration as it is now; the same where that is wrong."""
    try:
        successor = build_daemon(read(), daemon.watching, daemon.clock, daemon.recent, daemon)
    except ConfigErrors as error:
        for finding in error.findings:
            log.error("reload: %s", finding)
        log.error("reload: nothing is changed; mend the above and send SIGHUP again")
        return daemon
    except (EdgeTvboError, OSError) as error:
        log.error("reload: nothing is changed: %s", told(error))
        return daemon
    for name in successor.controllers:
        take_over(name, daemon, successor)
    if daemon.chronicle:
        daemon.chronicle.close()
    daemon.link.close()
    daemon.loop.close()
    if successor.checkpoints:
        successor.checkpoints.save()
    text = f"done; fields {', '.join(successor.controllers)}"
    log.info("reload: %s", text)
    at = round(daemon.clock.wall(daemon.clock.elapsed()), 3)
    successor.link.announce(Notice("reload", rfc3339(at), text))
    return successor


def release_memory() -> None:
    """Free the memory of a daemon whose place was taken: it was kept from the collector."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def take_over(name: str, daemon: Daemon, successor: Daemon) -> None:
    """Hand the model, the counters and the running interval of one field on, where they fit."""
    before = daemon.controllers.get(name)
    if before is None:
        log.info("reload: %s is new", name)
        return
    controller = successor.controllers[name]
    resumed("reload", name, controller, before.snapshot())
    controller.reserve_numbers(before.used)
    _, begins_in, intervals = daemon.schedule.next_interval(name)
    successor.schedule.resume(name, begins_in, intervals)


# --- signals ------------------------------------------------------------------------------------


class Signals:
    """Signals that came and were not taken yet."""

    def __init__(self, wakeup: int) -> None:
        self._came: list[int] = []
        self._wakeup = wakeup

    def fileno(self) -> int:
        """Give the descriptor that a signal makes readable."""
        return self._wakeup

    def any(self) -> bool:
        """Say whether there is one."""
        return bool(self._came)

    def take(self, number: int) -> bool:
        """Say whether signal `number` came; however often it did, it counts once."""
        came = number in self._came
        while number in self._came:
            self._came.remove(number)  # in place: `put` may come in between, and must not be lost
        return came

    def put(self, number: int, frame: object) -> None:
        """Note that signal `number` came."""
        self._came.append(number)


@contextmanager
def signals(*numbers: signal.Signals) -> Iterator[Signals]:
    """Give what becomes of these signals, which do again what they did before in the end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        came = Signals(ours.fileno())
        handlers = {number: signal.signal(number, came.put) for number in numbers}
        try:
            yield came
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def stopped_by_signal() -> Iterator[tuple[Callable[[], bool], int]]:
    """Give whether SIGTERM or SIGINT has come, and a descriptor that either makes readable."""
    with signals(signal.SIGTERM, signal.SIGINT) as came:
        yield came.any, came.fileno()


# --- the log ------------------------------------------------------------------------------------


class DecisionLogger:
    """Logs what a person wants to read later: each change of decision, each notice.

    Who is asked in each interval, and how it ends, are for whoever looks closely.
    """

    def __init__(self) -> None:
        self.decisions: dict[str, Decision] = {}  # the last one of each field

    def __call__(self, field: str, command: Command) -> None:
        """Log `command` if it is news."""
        match command:
            case PublishState(decision=decision):
                before = self.decisions.get(field)
                self.decisions[field] = decision
                if before is None or before.sensor != decision.sensor:
                    log.info("%s: %s", field, decision.text)
                else:
                    log.debug("%s: %s", field, decision.text)
            case Activate(sensor=sensor, interval=interval):
                log.debug("%s: interval %d: %s is asked", field, interval, sensor)
            case Record(sensor=sensor, interval=interval, ending=ending):
                log.debug("%s: interval %d: %s %s", field, interval, sensor, ending)
            case Notify(notice=notice):
                log.warning("%s: %s: %s", field, notice.event, notice.text)
            case _:
                assert_never(command)
