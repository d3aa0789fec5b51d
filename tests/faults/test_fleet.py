"""Many gateways on one broker: the latency of a gateway does not depend on their number.

The latency is the time from the reply of a sensor to the next decision of its gateway, measured in
the process of the sensors; it contains two passages through the broker. Each gateway decides so
rarely that the machine is not busy, even with many gateways. Rounds with one busy gateway and
rounds with many busy gateways alternate, because the machine may have other work for a while.
"""

import heapq
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median, quantiles

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from support.gateway import ROOT, Daemon

SENSORS = [f"node-{n}" for n in range(1, 47)]
TIMEOUT_S = 60.0  # a busy machine takes its time
ROUNDS, TIMED = 5, 4  # turns, and decisions of each gateway in one of them
MAX_SLOWDOWN = 3.0  # of a gateway among many, as a multiple of the median of one,
SLACK_S = 5e-3  # plus this; two cores are shared
TRIES = 5  # of the comparison, until no other program disturbs it
TICKS = os.sysconf("SC_CLK_TCK")
CONFIG = """
instance = "{name}"
[mqtt]
port = {port}
[fields.temperature]
interval = "on-reading"
reply_timeout = "60s"
kernel = {{ name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20 }}
sensors = {sensors}
max_rate = 100000
reading = {{ topic = "{name}/{{sensor}}/reading" }}
activate = {{ mode = "live", topic = "{name}/{{sensor}}/activate", payload = "1" }}
"""


class Crowd:
    """The sensors of all gateways, on one connection: each replies after a pause."""

    def __init__(self, port):
        self.answering = set()  # names of gateways; the others' sensors are silent
        self.latencies = []  # s, each from an answer to the decision that follows from it
        self.pause = 0.0  # s, on average
        self._awaited = {}  # where a gateway waits for an answer, by its name
        self._due = []  # heap of (when to answer, gateway)
        self._answered = {}  # when, by gateway
        self._chance = Random(7)
        self.client = Client(CallbackAPIVersion.VERSION2)
        self.client.on_socket_open = lambda client, userdata, sock: sock.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )
        self.client.on_connect = lambda client, *_: client.subscribe(
            [("+/+/activate", 0), ("edge_tvbo/+/+/selected", 0)]
        )
        self.client.on_message = self._on_message
        self.client.connect("127.0.0.1", port)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.client.socket(), selectors.EVENT_READ)

    def _on_message(self, client, userdata, message):
        match message.topic.split("/"):
            case [name, _, "activate"]:
                self._awaited[name] = message.topic.replace("activate", "reading")
                if name in self.answering:
                    self._plan(name)
            case [_, name, _, "selected"] if name in self._answered:
                self.latencies.append(time.monotonic() - self._answered.pop(name))

    def _plan(self, name):
        pause = self.pause * self._chance.uniform(0.5, 1.5)
        heapq.heappush(self._due, (time.monotonic() + pause, name))

    def turn(self):
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, name = heapq.heappop(self._due)
            if topic := self._awaited.pop(name, None):  # else it activated twice and has its reply
                self._answered[name] = time.monotonic()
                self.client.publish(topic, f"{20 + self._chance.random():.3f}")
        wait = min(self._due[0][0] - now, 0.1) if self._due else 0.1
        if self._selector.select(max(0.0, wait)):
            self.client.loop_read()
        if self.client.want_write():
            self.client.loop_write()
        self.client.loop_misc()

    def let(self, answering, pause):
        """Let only the sensors of these gateways reply."""
        self.pause = pause
        deadline = time.monotonic() + TIMEOUT_S
        self.answering = set()
        while self._due or self._answered or not set(answering) <= set(self._awaited):
            assert time.monotonic() < deadline, set(answering) - set(self._awaited)
            self.turn()
        self.answering = set(answering)
        for name in answering:
            self._plan(name)

    def until(self, condition, within=TIMEOUT_S):
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, len(self.latencies)
            self.turn()

    def timed(self, answering, pause, count):
        """Return `count` latencies of gateways in s, without the first of each."""
        self.let(answering, pause)
        self.latencies.clear()
        self.until(lambda: len(self.latencies) >= len(answering) + count, 10 * TIMEOUT_S)
        return self.latencies[len(answering) :]

    def close(self):
        self._selector.close()
        self.client.disconnect()


class Fleet:
    """Gateways, each a daemon of its own, and their sensors."""

    def __init__(self, directory, port):
        self.names = []
        self.daemons = []
        self.crowd = Crowd(port)
        self._directory = directory
        self._port = port

    def grow(self, size):
        """Start gateways, one after the other, until there are `size`."""
        for number in range(len(self.names) + 1, size + 1):
            self._start(f"lab-{number}")

    def _start(self, name):
        directory = self._directory / name
        directory.mkdir()
        daemon = Daemon(directory)
        sensors = json.dumps(SENSORS)
        daemon.config.write_text(CONFIG.format(name=name, port=self._port, sensors=sensors))
        daemon.start()
        self.names.append(name)
        self.daemons.append(daemon)
        self.crowd.until(lambda: "ready:" in daemon.log_text())

    def close(self):
        self.crowd.close()
        for daemon in self.daemons:
            daemon.close()


@pytest.fixture
def fleet(tmp_path, mosquitto):
    broker = mosquitto()
    broker.start()
    with ExitStack() as stack:
        it = Fleet(tmp_path, broker.port)
        stack.callback(it.close)
        it.broker = broker
        yield it


def spread(latencies):
    """Return the median and the 95 % quantile of latencies in ms, as text."""
    late = quantiles(latencies, n=20)[-1]
    return f"{1e3 * median(latencies):.2f} ({1e3 * late:.2f}) ms"


def processor(pid):
    """Return the processor time of a process in s."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def memory(pid):
    """Return the memory of a process in MiB: resident, and proportional."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return found["Rss"], found["Pss"]


@pytest.mark.parametrize(
    ("sizes", "pause"),
    [
        pytest.param((1, 4), 0.1, id="4 gateways"),
        pytest.param(
            (1, 10, 50), 2.0, id="50 gateways", marks=[pytest.mark.soak, pytest.mark.timeout(900)]
        ),
    ],
)
def test_latency_does_not_depend_on_the_number_of_gateways_at_the_broker(
    fleet, record_property, sizes, pause
):
    """Medians are compared; a median among many may be three times that of one, and 5 ms."""
    fleet.grow(1)
    alone = fleet.crowd.timed(fleet.names, pause, ROUNDS)
    fleet.grow(sizes[-1])
    for _ in range(TRIES):
        latencies = {size: [] for size in sizes}
        for _ in range(ROUNDS):
            for size in sizes:
                latencies[size] += fleet.crowd.timed(fleet.names[:size], pause, size * TIMED)
        one, *more = (median(each) for each in latencies.values())
        if max(more) < MAX_SLOWDOWN * one + SLACK_S:
            break
    measured = (
        f"from answer to decision, median (95 %): alone {spread(alone)}; of "
        f"{sizes[-1]}, {', '.join(f'{n} busy {spread(each)}' for n, each in latencies.items())}, "
        f"each every {pause:g} s; {at_once(fleet, 5 * pause)}; {memories(fleet)}"
    )
    record_property("measured", measured)
    print(measured)

    assert max(more) < MAX_SLOWDOWN * one + SLACK_S, measured


def at_once(fleet, seconds):
    """Let all sensors reply at once; return the broker's load."""
    broker = fleet.broker.pid
    fleet.crowd.let(fleet.names, 0.0)
    fleet.crowd.latencies.clear()
    began, took = time.monotonic(), processor(broker)
    latencies = fleet.crowd.latencies
    fleet.crowd.until(
        lambda: time.monotonic() > began + seconds and len(latencies) > len(fleet.names)
    )
    elapsed, took = time.monotonic() - began, processor(broker) - took
    count = len(fleet.crowd.latencies)
    assert count > len(fleet.names)
    return (
        f"without a pause {count / elapsed:.0f} decisions/s, of which each takes "
        f"{1e3 * took / count:.2f} ms of the broker's processor time"
    )


def memories(fleet):
    resident, share = zip(*(memory(each.process.pid) for each in fleet.daemons), strict=True)
    broker, _ = memory(fleet.broker.pid)
    return (
        f"a gateway holds {median(resident):.0f} MiB, {median(share):.0f} where what they have in "
        f"common is shared out, the broker {broker:.1f} MiB"
    )


# --- the sensors of a fleet -----------------------------------------------------------------------


def test_sensors_of_200_gateways_reply_over_a_few_connections(mosquitto, peer):
    broker = mosquitto()
    broker.start()
    command = [sys.executable, "-m", "edge_tvbo", "simulate", "--fields", "200"]
    process = subprocess.Popen(
        [*command, "--port", str(broker.port)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with process:
        try:
            assert process.stdout.readline().startswith("ready: 9200 sensors of 200 fields on ")
            descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
            observer = peer(broker.port, "+/node-7/reading")
            for number in range(1, 201):
                observer.client.publish(f"lab-{number}/node-7/activate", b'{"at": 1772500000}', 1)
            observer.wait(lambda: len(observer.received) == 200)
        finally:
            process.terminate()

    answers = {topic: json.loads(payload) for topic, payload, _ in observer.received}
    assert set(answers) == {f"lab-{n}/node-7/reading" for n in range(1, 201)}
    assert {answer["ts"] for answer in answers.values()} == {1772500000}
    assert len({answer["t"] for answer in answers.values()}) > 100
    assert descriptors < 80
