"""Status of the daemon, for health documents, `/metrics`, `/healthz` and systemd."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Protocol

import msgspec

from edge_tvbo import __version__
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import Clock
from edge_tvbo.daemon.loop import LoopService
from edge_tvbo.daemon.memory import resident_bytes
from edge_tvbo.daemon.message_size import bounded
from edge_tvbo.messages.commands import Command, Ending, PublishState, Record, Reject
from edge_tvbo.messages.documents import FieldHealth, FieldStatus, Health, LinkStatus, Status
from edge_tvbo.messages.formatting import MAX_NAMED_SENSORS, counted, listed, rfc3339
from edge_tvbo.numerics.jit import COMPILATION

MAX_AWAY_INTERVALS = 3  # after this many intervals without the broker, the daemon is unhealthy
MIN_AWAY_S = 60.0  # shortest limit of the time without the broker, for short intervals
MAX_AWAY_S = 3600.0  # longest limit of the time without the broker, for long intervals
SILENT_AFTER_S = 3600.0  # an older last reading is shown only if the intervals are long
MIN_TIMEOUTS = 5  # smallest number of time-outs in a row that is a problem of a field
MIN_HEALTH_PERIOD_S = 1.0  # shortest time between two health documents


class MonitoredLink(Protocol):
    """The link to the broker, as the status collector uses it for the daemon's status."""

    @property
    def online(self) -> bool:
        """Whether the daemon's status is "online": the link is connected and has subscribed."""
        ...

    def status(self) -> LinkStatus:
        """Return the present status of the monitored link."""
        ...

    def alive(self, now: float) -> bool:
        """Return whether the monitored link makes progress at the monotonic time `now`."""
        ...

    def report(self, health: Health) -> None:
        """Publish the health that the status collector has measured."""
        ...


class _FieldCounts(msgspec.Struct):
    """Counts of one field since the daemon started."""

    decisions: int = 0
    timeouts: int = 0  # since the last reply
    activations: int = 0  # without those that the present link counts
    resets: int = 0  # without those that the present controller counts
    endings: Counter[str] = msgspec.field(default_factory=Counter)
    refused: Counter[str] = msgspec.field(default_factory=Counter)  # messages, by reason


class StatusCollector(LoopService):
    """Counter of the daemon's decisions, and publisher of its health.

    The collector is an observer and a service of the loop. It stays in use after a reload: `attach`
    replaces the objects that the collector observes, and the counts continue.

    Parameters
    ----------
    clock : Clock
        The daemon's clock.
    process : str
        An id that no other process has; by this id, a daemon recognises its own health documents.
    """

    def __init__(self, clock: Clock, process: str = "") -> None:
        self.process = process
        self._clock = clock
        self._began = self._lost_at = time.monotonic()
        self._online = False
        self._connections = 0
        self._lost_before = 0  # messages that earlier links dropped
        self._link: MonitoredLink  # since the first call of `attach`
        self._controllers: Mapping[str, Controller] = {}
        self._counts: dict[str, _FieldCounts] = {}  # by field
        self._written_before = 0  # bytes of state that were written before the last reload
        self._published_at = -inf  # monotonic
        self._due = self._began

    def attach(
        self,
        controllers: Mapping[str, Controller],
        link: MonitoredLink,
        *,
        period: float = 60.0,
        rejected: Callable[[], dict[str, int]] = dict,
        problems: Callable[[], Iterable[str]] = tuple,
        written: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Collect the status of these objects; the objects of an earlier call are no longer used.

        Parameters
        ----------
        controllers : mapping
            The controller of each field.
        link : MonitoredLink
            The link to the broker.
        period : float
            Seconds between two health documents.
        rejected : callable
            Returns the number of rejected requests for each reason.
        problems : callable
            Returns one text for each present problem, except problems of sensors.
        written : callable
            Returns the number of bytes of state that the present daemon has written; None if no
            state is stored.
        """
        before = self._link.status() if self._controllers else LinkStatus()
        sent = link.status().activations  # not empty if the link was kept after a failed reload
        if self._controllers and link is not self._link:
            self._lost_before += before.lost
        self._counts = {name: self._counts.get(name, _FieldCounts()) for name in controllers}
        for name, counts in self._counts.items():
            counts.activations += before.activations.get(name, 0) - sent.get(name, 0)
            if former := self._controllers.get(name):
                counts.resets += former.policy.resets
            counts.resets -= controllers[name].policy.resets
        self._controllers = controllers
        self._link = link
        self._period = period
        self._rejected = rejected
        self._problems = problems
        self._written = written
        self._due = time.monotonic()

    def add_written(self, number: int | None) -> None:
        """Add to the status counter the bytes of state that were written before a reload."""
        self._written_before += number or 0

    # --- as an observer and a service of the loop -----------------------------------------------

    def __call__(self, field: str, command: Command) -> None:
        """Count a decision of `field`, the end of an activation or a rejected message.

        After a decision or the end of an activation, the health is published soon, so that its
        counters agree with the retained decision.
        """
        counts = self._counts[field]
        if isinstance(command, PublishState):
            counts.decisions += 1
        if isinstance(command, PublishState | Record):
            self.publish_soon()
        if isinstance(command, Reject):
            counts.refused[command.reason] += 1
        if isinstance(command, Record):
            counts.endings[command.ending.value] += 1
            if command.ending is Ending.ANSWERED:
                counts.timeouts = 0
            elif command.ending is Ending.MISSED and self._online:
                counts.timeouts += 1

    def wake_at(self) -> float:
        """Return the time when the status collector publishes the next health document."""
        return self._due

    def service(self, now: float) -> None:
        """Record whether the link is online, and publish the health document if it is due."""
        if self._link.online is not self._online:
            self._online = self._link.online
            if self._online:
                self._connections += 1
                self.publish_soon()
            else:
                self._lost_at = now
        if now >= self._due:
            self._published_at, self._due = now, now + self._period
            self._link.report(self.health())

    def publish_soon(self) -> None:
        """Publish the daemon's health in the next turn of the loop, at most once a second."""
        self._due = min(self._due, self._published_at + MIN_HEALTH_PERIOD_S)

    # --- health and status ----------------------------------------------------------------------

    def health(self) -> Health:
        """Return the daemon's health document, which fits in one message."""
        return bounded(self._health())

    def _health(self) -> Health:
        """Return the daemon's health document with all sensors, even if it is very long."""
        fields = {name: each.health() for name, each in self._controllers.items()}
        return Health(
            at=rfc3339(round(self._wall(), 3)),
            uptime_s=int(time.monotonic() - self._began),
            version=__version__,
            fields=fields,
            clock_synced=self._clock.is_set and self._clock.is_synced,
            paused=all(each.paused for each in fields.values()),
            problem=self._problem(fields),
            refused=dict(self._rejected()),
            kernels=COMPILATION,
            unacknowledged_s=round(self._link.status().unacknowledged_s, 1),
            process=self.process,
        )

    def status(self) -> Status:
        """Return the daemon's status, for `/metrics` and `/healthz`."""
        now, at, health = time.monotonic(), self._wall(), self._health()
        written, link = self._written(), self._link.status()
        away = 0.0 if self._online else now - self._lost_at
        failure = self._failure(now, away)
        return Status(
            health=health,
            at=at,
            uptime=now - self._began,
            healthy=not failure,
            reason=failure or self.summary(),
            online=self._online,
            away=away,
            reconnects=max(0, self._connections - 1),
            lost=self._lost_before + link.lost,
            queued=link.queued,
            fields={
                name: self._field(name, each, link, at) for name, each in health.fields.items()
            },
            written=None if written is None else self._written_before + written,
            resident=resident_bytes(),
            second_daemon=bool(link.second_daemon),
        )

    def summary(self) -> str:
        """Return the status as a line of text.

        The line names each field's selected sensor, and says how many sensors respond.
        """
        parts = []
        for name, controller in self._controllers.items():
            health = controller.health()
            sensors = len(controller.policy.field) - len(health.ignored)
            responding = sensors - len(health.suspects)
            selected = self._name(name, health.selected) if health.selected else "none"
            parts.append(f"{name}: {selected} ({responding}/{sensors} respond)")
        return ", ".join(parts) + ("" if self._online else "; not connected to the broker")

    def _wall(self) -> float:
        return self._clock.wall(self._clock.elapsed())

    def _problem(self, fields: Mapping[str, FieldHealth]) -> str | None:
        link = self._link.status()
        silent = "no sensor has sent a message for a long time"
        unresponsive = [self._unresponsive(name, each) for name, each in fields.items()]
        refused = [_refused(name, each) for name, each in fields.items()]
        faulty = [
            f"{self._name(name, sensor)} in {name} seems to be faulty: {fault}"
            for name, each in fields.items()
            for sensor, fault in each.faulty.items()
        ]
        limits = [
            f"in {name}, {limit}"
            for name, each in self._controllers.items()
            if (limit := each.fault_limit)
        ]
        implausible = [
            f"{self._name(name, sensor)} in {name} sent an implausible reading: {reading}"
            for name, each in fields.items()
            for sensor, reading in each.implausible.items()
        ]
        problems = [
            silent if link.inputs_silent else "",
            link.second_daemon,
            _not_accepted(link.left_out),
            link.refused,
            *refused,
            *unresponsive,
            *_first(faulty, "faults of"),
            *limits,
            *_first(implausible, "implausible readings of"),
            *self._problems(),
        ]
        return "; ".join(filter(None, problems)) or None

    def _unresponsive(self, name: str, health: FieldHealth) -> str:
        """Return a text for the status if no reply arrives, or most sensors are unresponsive.

        Otherwise the result is "".
        """
        sensors = len(self._controllers[name].policy.field) - len(health.ignored)
        suspects = len(health.suspects)
        if suspects == sensors:
            return f"no sensor of {name} responds"
        timeouts = self._counts[name].timeouts
        if timeouts >= MIN_TIMEOUTS and not health.recommends:
            return f"no sensor of {name} has replied to the last {timeouts} activations"
        if 2 * suspects > sensors:
            return f"{suspects} of {sensors} sensors of {name} do not respond"
        return ""

    def _name(self, field: str, sensor: str) -> str:
        """Return a sensor's display name for the daemon's health document."""
        return self._controllers[field].settings.sensor_names.get(sensor, sensor)

    def _failure(self, now: float, away: float) -> str:
        if not self._link.alive(now):
            return "the link to the broker makes no progress"
        shortest = min(each.settings.interval_s or 0.0 for each in self._controllers.values())
        if away > min(MAX_AWAY_S, max(MIN_AWAY_S, MAX_AWAY_INTERVALS * shortest)):
            return f"the daemon has not been connected to the broker for {away:.0f} s"
        return ""

    def _field(self, name: str, health: FieldHealth, link: LinkStatus, at: float) -> FieldStatus:
        controller, counts = self._controllers[name], self._counts[name]
        silent_after = max(
            SILENT_AFTER_S, MAX_AWAY_INTERVALS * (controller.settings.interval_s or 0.0)
        )
        unused = {*health.suspects, *health.ignored}
        return FieldStatus(
            health=health,
            sensors=len(controller.policy.field),
            decisions=counts.decisions,
            activations=counts.activations + link.activations.get(name, 0),
            resets=counts.resets + controller.policy.resets,
            names=controller.settings.sensor_names,
            endings=counts.endings,
            refused=counts.refused,
            last_readings={
                sensor: last
                for sensor, last in controller.last_readings().items()
                if sensor not in unused and at - last.received <= silent_after
            },
        )


def _not_accepted(left_out: Mapping[str, int]) -> str:
    """Return a text, for the daemon's status, about messages that the broker does not accept.

    `left_out` maps the topics of these messages to their sizes in bytes. Without such messages,
    the text is "".
    """
    topics = listed((f"{topic} ({size // 1000} kB)" for topic, size in left_out.items()), 3)
    return topics and (
        f"messages are not published, because the broker does not accept them: {topics}; raise"
        " the broker's limit for the size of packets (mosquitto: max_packet_size), or allow the"
        " topics in the broker's ACL, and reload the daemon"
    )


def _refused(name: str, health: FieldHealth) -> str:
    """Return a text, for the daemon's status, about the activations that the broker refuses.

    The text is about the field `name`, and short, because there can be many fields. If no
    activations are refused, the text is "".
    """
    if not (number := len(health.refused_activations)):
        return ""
    return (
        f"the broker refuses the activations of {counted(number, 'sensor')} of {name};"
        " `edge-tvbo status` says what to allow in the broker's ACL"
    )


def _first(texts: list[str], what: str) -> list[str]:
    """Return the first texts about sensors for the daemon's status, and one that counts the rest.

    >>> _first([f"s{number} is stuck" for number in range(300)], "faults of")[-2:]
    ['s11 is stuck', 'faults of 288 more sensors']
    """
    others = len(texts) - MAX_NAMED_SENSORS
    more = [f"{what} {counted(others, 'more sensor')}"] if others > 0 else []
    return [*texts[:MAX_NAMED_SENSORS], *more]
