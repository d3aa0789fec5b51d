"""A daemon without sockets and files, between a broker, a clock and a disk that fail on demand.

The loop, the scheduler, the controller, the checkpoints, the publisher and the outbox are those of
the product. `Twin` is the reference of the model: the accepted readings in plain numpy.
"""

import json
from copy import copy, deepcopy
from itertools import count

import numpy as np
from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.publisher import Publisher
from support.controllers import controller_settings, energy_settings
from support.lives import BOOT, Time
from support.settings import field_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.energy_budget import BudgetSettings
from edge_tvbo.daemon.checkpoint_document import Anchor
from edge_tvbo.daemon.checkpoints import Checkpoints
from edge_tvbo.daemon.clock import MAX_DRIFT_S, RELEASED_AT
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.messages import events
from edge_tvbo.messages.commands import Activate, Notify, Record, Reject
from edge_tvbo.messages.events import DowntimeElapsed, IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import decode_snapshot
from edge_tvbo.policy import make_policy

SENSORS = ("a", "b", "c")
INTERVAL, REPLY_TIMEOUT = 600.0, 120.0  # s
PRIOR, NOISE, EPSILON = np.eye(3) + 0.5, 0.01, 0.1
FIELD = SensorField(SENSORS, PRIOR, NOISE)
ACTIVATE = ActivateSettings(mode="live", topic="lab/{sensor}/go", payload="[{interval}, {at}]")
MQTT = field_settings(SENSORS, "lab/{sensor}/t", "number", activate=ACTIVATE)
BUDGET = BudgetSettings(costs=(1.0, 1.0, 1.0), each=(np.inf,) * 3, field=1e6, period=1_000_000)


class Twin:
    """The model in plain numpy: the mean (3,) and covariance (3, 3) of tv-gp-ucb."""

    def __init__(self):
        self.mean, self.covariance = np.zeros(3), PRIOR
        self.begun = False

    def begin(self, intervals):
        """Begin an interval, which is `intervals` after the one before."""
        self.age(intervals)
        self.begun = True

    def age(self, intervals):
        """Let so many intervals pass, unless no interval has begun yet."""
        for _ in range(intervals if self.begun else 0):
            self.mean = np.sqrt(1 - EPSILON) * self.mean
            self.covariance = (1 - EPSILON) * self.covariance + EPSILON * PRIOR

    def learn(self, sensor, value):
        arm = SENSORS.index(sensor)
        column = self.covariance[:, arm]
        gain = column / (column[arm] + NOISE)
        self.mean = self.mean + gain * (value - self.mean[arm])
        self.covariance = self.covariance - np.outer(gain, column)

    def posterior(self):
        """Return the means and the standard deviations, (2, 3)."""
        return np.array([self.mean, np.sqrt(np.diagonal(self.covariance))])


class WorldClock(Time):
    """A clock whose wall time may be set, and which may be unset after a reboot."""

    is_synced = counts_as_synced = True

    def __init__(self):
        super().__init__(BOOT)
        self._step = 0.0

    @property
    def is_set(self):
        return self.now.wall >= RELEASED_AT

    def set(self, by):
        """Set the wall clock; the daemon sees it at its next turn."""
        self._step += by

    def resync(self):
        by, self._step = self._step, 0.0
        self.now = Anchor(self.now.wall + by, self.now.monotonic, self.now.boot)
        return by if abs(by) > MAX_DRIFT_S else 0.0

    def is_stepped(self):
        return abs(self._step) > MAX_DRIFT_S


class Disk:
    """A store of two checkpoints, with the twin that the reference keeps for each."""

    newest = "newest"

    def __init__(self):
        self.written = 0
        self.entries = 0
        self.torn = b""  # what is left of a lost entry, after the newest journal
        self.full = False
        self.twin = Twin()  # of the running process
        self._kept = {}  # by generation: the document and its twin
        self._journals = {}  # by document: the entries of its journal, and their last twin

    def generations(self):
        for name in ("newest", "previous"):
            if name in self._kept:
                document, twin = self._kept[name]
                twins = [twin, *(each for _, each in self._journals.get(document, ()))]
                self.twin = copy(twins[-1])
                yield name, document
        self.twin = Twin()  # no document is valid

    def why_empty(self):
        return ""

    def set_aside(self, generation, why):
        del self._kept[generation]
        return f"{generation} is {why}"

    def demote_newest(self):
        self._kept["previous"] = self._kept.pop("newest")

    def save(self, document):
        if self.full:
            return False
        if "newest" in self._kept:
            self._kept["previous"] = self._kept["newest"]
        self._kept["newest"] = document, copy(self.twin)
        self.torn = b""
        self._journals = {each: self._journals.get(each, []) for each, _ in self._kept.values()} | {
            document: []
        }
        self.written += len(document)
        self.until = None
        return True

    def mark_unsaved(self, until):
        self.until = until

    def unsaved_until(self):
        return self.until

    def append(self, entry):
        if self.full:
            return False
        document, _ = self._kept["newest"]
        self._journals[document].append((entry, copy(self.twin)))
        self.entries += 1
        return True

    def journals(self):
        for journal in self._journals.values():
            yield b"".join(entry for entry, _ in journal) + self.torn * bool(journal)

    def count_replay(self):
        return 1

    def end_replay(self):
        pass

    def tear(self, cut):
        """Lose the end of the newest journal's last entry, or all of it."""
        document, _ = self._kept["newest"]
        if self._journals[document]:
            entry, _ = self._journals[document].pop()
            self.torn = entry[: int(cut * len(entry))]

    def damage(self):
        """Damage the newest checkpoint, so that the one before it counts."""
        document, twin = self._kept["newest"]
        middle = len(document) // 2
        flipped = bytes([document[middle] ^ 1])
        self._kept["newest"] = document[:middle] + flipped + document[middle + 1 :], twin

    @property
    def has_previous(self):
        return "previous" in self._kept


class Network:
    """The link to a broker that fails on demand.

    It is away, takes nothing, swallows acknowledgements, or refuses the activations of a sensor.
    """

    def __init__(self, clock):
        self.online = False
        self.is_slow = False
        self.acknowledges = True
        self.denied = ""  # the sensor whose activations the broker refuses
        self.sent = []  # (interval, sensor, refused) of the activations since the last look
        self.refused = 0  # activations that are recalled as refused
        self.received = []  # readings that the daemon has not handled yet
        self._outbox = Outbox(clock.elapsed)
        self._publisher = Publisher("edge_tvbo/k", {"lab": MQTT}, self._outbox)
        self._ids, self._unacknowledged = count(1), []

    # --- what fails -----------------------------------------------------------------------------

    def connect(self):
        self.online = True
        self._outbox.begin()
        self.flush()

    def disconnect(self):
        self.online = False
        self.received.clear()
        self._unacknowledged.clear()
        self._outbox.connection_lost()

    def flush(self):
        """Send what the connection takes; the broker acknowledges what was sent before."""
        if not self.online or self.is_slow:
            return
        while self._unacknowledged and self.acknowledges:
            packet, refused = self._unacknowledged.pop(0)
            if refused:
                self.refused += self._outbox._in_flight[packet].activates is not None
                self._outbox.mark_refused(packet)
            else:
                self._outbox.mark_acked(packet)
        for each in self._outbox.pop_ready():
            packet = next(self._ids)
            self._outbox.mark_sent(packet, each)
            refused = bool(each.activates) and each.activates.sensor == self.denied
            if each.qos:
                self._unacknowledged.append((packet, refused))
            if each.activates:
                interval, _ = json.loads(each.payload)
                self.sent.append((interval, each.topic.split("/")[1], refused))

    @property
    def queued(self):
        return len(self._outbox)

    # --- what the loop calls ----------------------------------------------------------------------

    def service(self, mask, now):
        self.flush()
        for each in self._outbox.take_refused():
            yield each.field, events.ActivationUndelivered(each.sensor, each.interval, False, True)
        received, self.received = self.received, []
        yield from (("lab", reading) for reading in received)

    def recall(self, field):
        for each, left, refused in self._outbox.recall(field):
            yield events.ActivationUndelivered(each.sensor, each.interval, left, refused)

    def send(self, field, command):
        self._publisher.send(field, command)
        self.flush()

    def show(self, field, document):
        self._publisher.show(field, document)
        self.flush()

    def announce(self, notice):
        self._publisher.event(notice)
        self.flush()

    def expect_readings(self, fields):
        pass


class WatchedController(Controller):
    """A controller whose events and commands are noted."""

    def __init__(self, policy, settings, note):
        super().__init__(policy, settings)
        self._note = note

    def handle(self, event):
        commands = super().handle(event)
        self._note(event, commands)
        return commands


class Process:
    """One process of the daemon, from its start until it is killed or stopped."""

    def __init__(self, clock, disk):
        self.clock, self.disk = clock, disk
        clock.resync()  # a new process begins with the present wall clock
        self.network = Network(clock)
        self.activated = []  # (interval, sensor), in the order of the commands
        self.blamed = []  # (interval, sensor) of each notice that a sensor is lost
        self._spent = None  # see `spent`; None after an event
        settings = controller_settings(
            REPLY_TIMEOUT, faults="off", energy=energy_settings(BUDGET, SENSORS)
        )
        policy = make_policy("tv-gp-ucb", FIELD, epsilon=EPSILON)
        fresh = deepcopy(policy)
        self.controller = WatchedController(policy, settings, self._note)
        fields = {"lab": self.controller}
        self.schedule = Scheduler({"lab": INTERVAL}, clock, first=clock.elapsed() + 1.0)
        self.checkpoints = Checkpoints(
            disk,
            900.0,
            fields,
            self.schedule,
            self._anchor,
            clock.is_stepped,
            make_controller=lambda _: Controller(fresh, settings),
        )
        self.loop = Loop(
            self.network,
            fields,
            self.schedule,
            clock,
            services=[self.checkpoints],
            on_event=self.checkpoints.note,
        )
        self.checkpoints.restore()
        self.checkpoints.save()
        # What an earlier process may have spent after its last checkpoint is charged at the next
        # interval.
        unknown = decode_snapshot("controller", None, self.controller.snapshot())["forgotten"]
        self.spent_before = self.spent + unknown

    def _anchor(self):
        return self.clock.now

    def _note(self, event, commands):
        self._spent = None
        match event:
            case IntervalElapsed(intervals=intervals):
                self.disk.twin.begin(intervals)
            case DowntimeElapsed(intervals=intervals):
                self.disk.twin.age(intervals)
            case Reading(sensor=sensor, value=value):
                if not any(isinstance(each, Reject) for each in commands):
                    self.disk.twin.learn(sensor, value)
        ended = {}  # intervals of the activations that end now, by sensor
        for each in commands:
            match each:
                case Activate(sensor=sensor, interval=interval):
                    self.activated.append((interval, sensor))
                case Record(interval=interval, sensor=sensor):
                    ended[sensor] = interval
                case Notify(notice=notice) if notice.event == "sensor-lost":
                    self.blamed.append((ended[notice.sensor], notice.sensor))

    @property
    def spent(self):
        """Energy that the field has spent, which only an event changes."""
        if self._spent is None:
            self._spent = self.controller.health().energy.spent
        return self._spent

    def turn(self):
        self.loop.turn(0)
