"""How the daemon lives: it starts without a broker, runs until told to stop, says good-bye.

SIGTERM and SIGINT end it. SIGHUP has the configuration read again: one that is wrong changes
nothing, one that is right takes over where the present one stands. SIGUSR1 asks for a diagnosis.
"""

import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from edge_tvbo.config import ConfigErrors, Settings
from edge_tvbo.controller import Controller
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages import Command, Decision, Notify, PublishState
from edge_tvbo.plugins import load
from edge_tvbo.ports import Attendant, Link
from edge_tvbo.runtime import assembly, diagnosis, wiring
from edge_tvbo.runtime.checkpoints import Checkpoints, resumed
from edge_tvbo.runtime.clock import LiveClock
from edge_tvbo.runtime.loop import Loop
from edge_tvbo.runtime.schedule import Schedule
from edge_tvbo.runtime.watching import Watching

log = logging.getLogger(__name__)


def run(read: Callable[[], Settings]) -> None:
    """Run every field of the configuration until SIGTERM or SIGINT; raises `ConfigError` early.

    `read` reads the configuration, at the start and at each SIGHUP.
    """
    with signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1) as came:
        daemon = assembled(read(), Watching())
        try:
            daemon.begin()
            while not (came.take(signal.SIGTERM) or came.take(signal.SIGINT)):
                if came.take(signal.SIGUSR1):
                    daemon.diagnose()
                if came.take(signal.SIGHUP):
                    daemon.watching.reloading()
                    daemon = reloaded(daemon, read)
                    daemon.watched()
                daemon.loop.run(came.any, came.fileno())
        finally:
            daemon.end()
        log.info("stopped")


# --- one configuration at work ------------------------------------------------------------------


class Daemon(msgspec.Struct, frozen=True):
    """A configuration, and all that carries it out."""

    settings: Settings
    controllers: dict[str, Controller]
    schedule: Schedule
    link: Link
    checkpoints: Checkpoints | None  # where state is kept at all
    journal: "Journal"
    watching: Watching
    loop: Loop

    def begin(self) -> None:
        """Go on from what was kept, and keep that it goes on."""
        if self.checkpoints:
            self.checkpoints.restore()
            self.checkpoints.save()
        sensors = sum(len(each.sensors) for each in self.settings.fields.values())
        log.info("ready: %d sensors, fields %s", sensors, ", ".join(self.settings.fields))
        self.watched()

    def watched(self) -> None:
        """Have systemd and whoever reads the metrics look at this configuration from now on."""
        self.watching.follow(
            self.settings, self.controllers, self.link, LiveClock(), lambda: self.written
        )

    @property
    def written(self) -> int | None:
        """Bytes of state written, None where none is kept."""
        return self.checkpoints.written if self.checkpoints else None

    def diagnose(self) -> None:
        """Log how everything is."""
        health, decisions, online = self.loop.health(), self.journal.decisions, self.link.online
        for line in diagnosis.lines(health, self.controllers, decisions, online, self.written):
            log.info("diagnosis: %s", line)

    def end(self) -> None:
        """Keep the last state, and say good-bye."""
        self.watching.close()
        if self.checkpoints:
            self.checkpoints.close()
        self.link.close()
        self.loop.close()


def assembled(settings: Settings, watching: Watching) -> Daemon:
    """Give a daemon that is about to begin, for `watching` to watch; raises `ConfigError`."""
    clock = LiveClock()
    controllers = assembly.controllers(settings)
    schedule = Schedule(wiring.intervals(settings), clock, first=clock.elapsed())
    checkpoints = None
    if settings.state.dir:
        store = load("stores", "file")(settings.state.dir, settings.instance)
        checkpoints = Checkpoints(store, settings.state.checkpoint, controllers, schedule)
    link = load("links", "mqtt")(wiring.broker(settings), wiring.wirings(settings))
    attendants: list[Attendant] = [checkpoints, watching] if checkpoints else [watching]
    journal = Journal()

    def watch(field: str, command: Command) -> None:
        journal(field, command)
        watching(field, command)

    loop = Loop(
        link,
        controllers,
        schedule,
        clock,
        health_every=settings.health,
        watch=watch,
        attendants=attendants,
    )
    return Daemon(settings, controllers, schedule, link, checkpoints, journal, watching, loop)


def reloaded(daemon: Daemon, read: Callable[[], Settings]) -> Daemon:
    """Give the daemon of the configuration as it is now; the same where that is wrong."""
    try:
        successor = assembled(read(), daemon.watching)
    except ConfigErrors as error:
        for finding in error.findings:
            log.error("reload: %s", finding)
        log.error("reload: nothing is changed; mend the above and send SIGHUP again")
        return daemon
    except (EdgeTvboError, OSError) as error:
        log.error("reload: nothing is changed: %s", error)
        return daemon
    for name in successor.controllers:
        take_over(name, daemon, successor)
    daemon.link.close()
    daemon.loop.close()
    if successor.checkpoints:
        successor.checkpoints.save()
    log.info("reload: done; fields %s", ", ".join(successor.controllers))
    return successor


def take_over(name: str, daemon: Daemon, successor: Daemon) -> None:
    """Hand the model, the counters and the running interval of one field on, where they fit."""
    before = daemon.controllers.get(name)
    if before is None:
        log.info("reload: %s is new", name)
        return
    controller = successor.controllers[name]
    resumed("reload", name, controller, before.snapshot())
    controller.skip_to(before.interval)
    _, next_in = daemon.schedule.outlook(name)
    successor.schedule.resume(name, next_in, 1)


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


class Journal:
    """Logs what a person wants to read later: each change of decision, each notice."""

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
            case Notify(notice=notice):
                log.warning("%s: %s: %s", field, notice.event, notice.text)
            case _:
                pass
