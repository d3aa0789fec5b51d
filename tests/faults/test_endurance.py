"""Days of readings through a real mosquitto into the real daemon, while the broker comes and goes.

54 sensors send as fast as the daemon takes it in; 2 million readings are 13 days of the Intel lab.
"""

import json
import subprocess
import sys
import time
from random import Random

import numpy as np
import pytest
from edge_tvbo_adapters.mqtt.outbox import MAX_IN_FLIGHT, MAX_NOTICES
from edge_tvbo_adapters.mqtt.session import MAX_BATCH
from support import crowd
from support.crowd import MAX_READINGS_IN_FLIGHT
from support.gateway import Daemon
from support.mosquitto import stop
from support.paths import TESTS

SENSORS = [f"mote-{n}" for n in range(1, 55)]
INTERVAL = 0.1  # s
SOME = 20  # readings sent at a time
TENTH = 0.15  # ratio of the broker's time away to its time up; coming back takes time too
STATES = 4  # retained topics of the daemon
MIB = 1024**2
CONFIG = """\
instance = "days"
health = "1s"
[mqtt]
port = {port}
reconnect = {{ min = "100ms", max = "500ms" }}
[state]
dir = "state"
checkpoint = "10s"
[fields.lab]
interval = "100ms"
policy = {{ name = "auto" }}
kernel = {{ name = "se", length_scale = 6.0, variance = 4.0, noise_variance = 0.04, mean = 20 }}
sensors = {sensors}
max_rate = 100000
reading = {{ topic = "days/{{sensor}}/t" }}
activate = {{ mode = "live", topic = "days/{{sensor}}/go", payload = '[{{interval}}, {{at}}]' }}
[fields.lab.positions]
"""
WATCHED = """\
import atexit, sys, time
from edge_tvbo.cli import main
from edge_tvbo.daemon.journal import EventBuffer
from edge_tvbo.daemon.loop import Loop
from edge_tvbo_adapters.mqtt.session import Session
from edge_tvbo_adapters.mqtt.outbox import Outbox

longest = {}
blocks = []  # of memory that Python's objects have, at every tenth turn with few buffered events
buffered = [0]  # events that wait for the next entry of the journal
due = [True]  # whether the next turn with few of them is recorded
work = [0] * 1000  # turns of the loop, by the ms of processor time that they took
turn = Loop.turn

def measured(self, mask):
    began = time.thread_time()
    turn(self, mask)
    work[min(999, int(1e3 * (time.thread_time() - began)))] += 1
    due[0] |= sum(work) % 10 == 0
    if due[0] and buffered[0] < 100:
        due[0] = False
        blocks.append(sys.getallocatedblocks())

def counting(name, count):
    call = getattr(EventBuffer, name)
    def instead(self, *arguments):
        buffered[0] = count(buffered[0])
        return call(self, *arguments)
    setattr(EventBuffer, name, instead)

def note(kind, held):
    longest[kind] = max(longest.get(kind, 0), held)

def watched(name):
    call = getattr(Outbox, name)
    def instead(self, *arguments, **more):
        result = call(self, *arguments, **more)
        note("Outbox", len(self))
        return result
    setattr(Outbox, name, instead)

def counted(self, mask, now):
    held = 0
    for held, message in enumerate(service(self, mask, now), 1):
        yield message
    note("Session", held)

service, Session.service = Session.service, counted
for name in ["state", "notice", "command", "begin", "mark_sent"]:
    watched(name)
counting("__init__", lambda before: 0)
counting("add", lambda before: before + 1)
counting("entry", lambda before: 0)
def report():
    p99 = next(ms for ms in range(1000) if sum(work[: ms + 1]) >= 0.99 * sum(work)) + 1
    quarter = len(blocks) // 4
    more = min(blocks[-quarter:]) - min(blocks[quarter : 2 * quarter])
    print("at most:", longest["Session"], longest["Outbox"], p99, more, file=sys.stderr)

Loop.turn = measured
atexit.register(report)
main()
"""


class Session:
    """The sensors and an observer of the daemon between two restarts of the broker."""

    def __init__(self, port):
        self.sent = 0
        self.latencies = []  # s from when an interval was due until its activation was received
        self.began = None  # what the daemon had handled before
        self._taken, self._refused = None, 0  # readings, since the daemon's start
        self._watcher = crowd.client(port)
        self._watcher.on_message = self._on_message
        self._watcher.subscribe([("days/+/go", 0), ("edge_tvbo/days/#", 0)])
        self._watcher.loop_start()
        wait(lambda: self.began is not None, lambda: "the daemon does not come back")
        topics = [f"days/{each}/t" for each in SENSORS]
        command = [sys.executable, "-m", "support.crowd", str(port), *topics]
        self._crowd = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, cwd=TESTS)

    def _on_message(self, watcher, userdata, message):
        now = time.time()
        if message.retain:
            return
        if message.topic.endswith("/go"):
            self.latencies.append(now - json.loads(message.payload)[1])
        elif message.topic.endswith("/selected"):
            self._taken = json.loads(message.payload)["model"]["observations"]
        elif message.topic.endswith("/health"):
            self._refused = sum(json.loads(message.payload)["fields"]["lab"]["refused"].values())
            if self.began is None and self._taken is not None:
                self.began = self._taken + self._refused

    @property
    def handled(self):
        """Readings that the daemon says it has taken in or refused in this session."""
        return self._taken + self._refused - self.began

    def send(self):
        """Let some sensors send, unless the daemon is behind."""
        if self.sent - self.handled >= MAX_READINGS_IN_FLIGHT:
            time.sleep(0.002)
            return
        self._crowd.stdin.write(b"%d\n" % SOME)
        self.sent += SOME

    def drain(self):
        """Wait until the daemon has handled all that was sent; nothing may be missing."""
        wait(lambda: self.handled >= self.sent, lambda: f"{self.handled} of {self.sent}")
        assert self.handled == self.sent

    def close(self):
        self._crowd.stdin.close()
        self._crowd.wait(10)
        stop(self._watcher)


def wait(condition, complaint, within=60.0):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.01)


class Endurance:
    """A daemon, and what is measured of it while sessions come and go."""

    def __init__(self, daemon, broker, chance):
        self._daemon = daemon
        self._broker = broker
        self._chance = chance
        self.samples = []  # (readings handled, bytes resident, threads, descriptors)
        self.latencies = []
        self.sent = self.sessions = 0
        self.lost = []  # readings in a broker that was ended
        self.away = 0.0  # s
        self._look_at = 0.0

    def run(self, readings, up):
        """Send so many readings; a broker lives for `up` seconds, give or take half."""
        began, before = time.monotonic(), None
        while before is None or self.sent < readings:
            session = Session(self._broker.port)
            if before:
                self.lost.append(before.sent - (session.began - before.began))
            self._send(session, readings, self._chance.uniform(0.5, 1.5) * up)
            before = session
        self.seconds = time.monotonic() - began

    def _send(self, session, readings, up):
        began = time.monotonic()
        while time.monotonic() < began + up and self.sent + session.sent < readings:
            session.send()
            self._look(session)
        self.sent += session.sent
        self.sessions += 1
        if self.sent >= readings:
            session.drain()
        else:
            self._end(time.monotonic() - began)
        session.close()
        self.latencies += session.latencies

    def _end(self, lived):
        """Let the broker die or stop, and be away."""
        self._chance.choice((self._broker.kill, self._broker.stop))()
        time.sleep(TENTH * lived)
        self.away += TENTH * lived
        self._broker.start()

    def _look(self, session):
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + 0.2
            daemon = self._daemon
            taken = daemon.resident(), daemon.threads(), daemon.descriptors()
            self.samples.append((session.began + session.handled, *taken))

    def slope(self):
        """Return the growth of memory in MiB per 100 000 readings, without the first tenth."""
        handled, resident, *_ = np.array(self.samples, float).T
        late = handled > handled[-1] / 10
        return np.polyfit(handled[late] / 1e5, resident[late] / MIB, 1)[0]


def endured(directory, broker, readings, up, away):
    """Run and check all that does not depend on the speed of the machine.

    Returns the growth of memory in MiB per 100 000 readings, the latencies in s, the processor time
    in ms that 99 % of the loop's turns do not exceed, and a text.
    """
    daemon = Daemon(directory)
    text = CONFIG.format(port=broker.port, sensors=json.dumps(SENSORS))
    places = "".join(f"{each} = [{n % 9 * 5}, {n // 9 * 5}]\n" for n, each in enumerate(SENSORS))
    daemon.config.write_text(text + places)
    broker.start()
    daemon.start(by=(sys.executable, "-c", WATCHED))
    try:
        run = Endurance(daemon, broker, Random(readings))
        run.run(readings, up)
        daemon.stop()
    finally:
        daemon.close()
    _, resident, threads, descriptors = zip(*run.samples, strict=True)
    inbox, outbox, work, blocks = map(int, daemon.log_text().rpartition("at most: ")[2].split()[:4])
    p50, p99 = np.quantile(run.latencies, [0.5, 0.99])
    share = run.away / run.seconds
    measured = (
        f"{run.sent} readings in {run.seconds:.0f} s, {run.sessions - 1} restarts, the broker away "
        f"{share:.0%} of the time; {sum(run.lost)} readings went with it, all others were handled; "
        f"memory {min(resident) / MIB:.1f} to {max(resident) / MIB:.1f} MiB, "
        f"{run.slope():+.3f} MiB per 100 000; {blocks:+d} blocks of Python's memory; "
        f"{len(run.latencies)} decisions, p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.1f} ms; "
        f"99 % of the loop's turns work less than {work} ms; at most {inbox} messages in "
        f"and {outbox} out; {max(threads)} thread(s), "
        f"{min(descriptors)} to {max(descriptors)} descriptors"
    )
    print(measured)
    assert "Traceback" not in daemon.log_text()
    assert all(0 <= each <= MAX_READINGS_IN_FLIGHT + SOME for each in run.lost)
    assert len(set(threads)) == 1
    assert (
        max(descriptors) <= descriptors[0] + 5
    )  # the reading database, and a document that is being written
    assert inbox <= MAX_BATCH + MAX_IN_FLIGHT  # paho may read so many packets at once
    assert blocks < run.sent / 20  # of the last readings, not one in ten leaves an object
    assert outbox <= MAX_IN_FLIGHT + MAX_NOTICES + STATES + len(SENSORS)
    assert share > away
    return run.slope(), run.latencies, work, measured


@pytest.mark.timeout(600)
def test_60_000_readings_with_the_broker_away_a_tenth_of_the_time(tmp_path, mosquitto):
    endured(tmp_path, mosquitto(), 60_000, up=5.0, away=0.02)


@pytest.fixture
def compiled_just_in_time(monkeypatch):
    """Let the daemon use numba, whose memory is measured too."""
    monkeypatch.delenv("EDGE_TVBO_KERNELS", raising=False)


@pytest.mark.soak
@pytest.mark.timeout(2 * 3600)
@pytest.mark.usefixtures("compiled_just_in_time")
def test_2_million_readings_with_the_broker_away_a_tenth_of_the_time(
    tmp_path, mosquitto, record_property
):
    slope, latencies, work, measured = endured(tmp_path, mosquitto(), 2_000_000, up=18.0, away=0.08)
    record_property("measured", measured)
    assert slope < 1.0
    assert np.quantile(latencies, 0.99) < 0.05
    assert work < 50
