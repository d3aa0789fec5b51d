"""Latency and throughput of processes that answer readings, measured by a minimal MQTT client.

The measured processes are the daemon and the bare clients of ``benchmarks/bare_client.py``.
"""

import signal
import socket
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import msgspec
from support.paths import ROOT, TESTS

TIMEOUT_S = 120.0  # of each wait; a busy machine needs seconds
PAUSE_S = 0.001
M = 46
BENCHMARKS = TESTS / "benchmarks"
CONFIG = """
instance = "{name}"
[mqtt]
port = {port}
version = "{version}"
[fields.lab]
interval = "on-reading"
reply_timeout = "1h"
max_rate = 1e9
policy = {{ name = "tv-gp-ucb" }}
kernel = {{ name = "se", length_scale = 6.0, variance = 4.0, noise_variance = 0.04, mean = 20 }}
sensors = {sensors}
reading = {{ topic = "{name}/reading/{{sensor}}", payload = "number" }}
[fields.lab.positions]
{positions}
"""
SENSORS = [f"mote-{index}" for index in range(M)]


# --- MQTT 3.1.1, as little of it as a measurement needs -------------------------------------------


def packet(kind, body):
    """Return a packet of fewer than 16 384 bytes."""
    size = len(body)
    length = bytes([size]) if size < 128 else bytes([size % 128 | 128, size // 128])
    return bytes([kind]) + length + body


def text(word):
    return len(word).to_bytes(2) + word.encode()


def publish(topic, payload, qos, mid):
    return packet(0x30 | qos << 1, text(topic) + (mid.to_bytes(2) if qos else b"") + payload)


class Wire:
    """A minimal MQTT client, whose own time hardly adds to the measured time."""

    def __init__(self, port, topics, qos):
        self.qos = qos
        self._mids = count()
        self._bytes = b""
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        greeting = text("MQTT") + bytes([4, 2]) + (0).to_bytes(2) + text(f"wire-{id(self)}")
        self._socket.sendall(packet(0x10, greeting))
        filters = b"".join(text(each) + bytes([qos]) for each in topics)
        self._socket.sendall(packet(0x82, b"\0\1" + filters))
        self._until(0x90)

    def send(self, topic, payload):
        self._socket.sendall(publish(topic, payload, self.qos, next(self._mids) % 65535 + 1))

    def burst(self, messages):
        """Publish all messages, and wait until the broker has received them."""
        for begin in range(0, len(messages), 1000):
            some = messages[begin : begin + 1000]
            mids = [next(self._mids) % 65535 + 1 for _ in some]
            both = zip(some, mids, strict=True)
            self._socket.sendall(b"".join(publish(*each, self.qos, mid) for each, mid in both))
            for _ in some if self.qos else ():
                self._until(0x40)
        self._socket.sendall(b"\xc0\0")
        self._until(0xD0)

    def receive(self, topic):
        """Return the next message on `topic`."""
        while True:
            body = self._until(0x30)
            size = int.from_bytes(body[:2])
            if body[2 : 2 + size].decode() == topic:
                return body[2 + size + (2 if self._flags & 6 else 0) :]

    def close(self):
        self._socket.close()

    def _until(self, kind):
        """Return the body of the next packet of a kind; acknowledge messages of QoS 1."""
        while True:
            first, body = self._packet()
            self._flags = first & 15
            if first & 0xF0 == 0x30 and first & 6:
                size = int.from_bytes(body[:2])
                self._socket.sendall(packet(0x40, body[2 + size : 4 + size]))
            if first & 0xF0 == kind & 0xF0:
                return body

    def _packet(self):
        first, size, shift = self._take(1)[0], 0, 0
        while True:
            byte = self._take(1)[0]
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return first, self._take(size)

    def _take(self, size):
        while len(self._bytes) < size:
            came = self._socket.recv(65536)
            assert came, "the broker hung up"
            self._bytes += came
        taken, self._bytes = self._bytes[:size], self._bytes[size:]
        return taken


# --- measured processes ---------------------------------------------------------------------------


class Answering:
    """A process that answers readings, and the wire to it."""

    def __init__(self, port, qos, base, answer, command):
        self.port = port
        self._base = base
        self._answer = answer
        self.wire = Wire(port, [answer], qos)
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.sensor = self.next_sensor(self.wire.receive(answer))

    def next_sensor(self, answer):
        """Return the sensor whose next reading will be answered."""
        raise NotImplementedError

    @property
    def topic(self):
        """The topic of the sensor whose next reading will be answered."""
        return f"{self._base}/reading/{self.sensor}"

    def receive(self):
        """Return the next answer."""
        return self.wire.receive(self._answer)

    def microseconds(self, value):
        """Return the time from a reading to its answer in microseconds."""
        began = time.perf_counter()
        self.wire.send(self.topic, value)
        answer = self.wire.receive(self._answer)
        took = time.perf_counter() - began
        self.sensor = self.next_sensor(answer)
        return 1e6 * took

    def per_second(self, values):
        """Return how many waiting readings are handled per second."""
        burst = self.readings(values)
        burst[-1] = (self.topic, values[-1])
        self.stand_still()
        self.wire.burst(burst)
        began = time.perf_counter()
        self.go_on()
        answer = self.wire.receive(self._answer)
        took = time.perf_counter() - began
        self.sensor = self.next_sensor(answer)
        self.check(len(values))
        return len(values) / took

    def readings(self, values):
        """Return messages of sensors that were not activated."""
        others = [each for each in SENSORS if each != self.sensor]
        return [(f"{self._base}/reading/{others[i % (M - 1)]}", v) for i, v in enumerate(values)]

    def processor_time(self):
        """Return the processor time that the process has used, s."""
        used = Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]
        return int(used) / 1e9

    def stand_still(self):
        """Stop the process once it sleeps, because then it has acknowledged all readings."""
        state = Path(f"/proc/{self.process.pid}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(PAUSE_S)
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def check(self, readings):
        """Check that all readings were handled."""

    def close(self):
        self.wire.close()
        self.process.kill()
        self.process.wait(TIMEOUT_S)


class Bare(Answering):
    """A paho client that echoes, or counts."""

    def __init__(self, port, qos, what):
        command = [sys.executable, str(BENCHMARKS / "bare_client.py"), what, str(port), str(qos)]
        super().__init__(port, qos, "bare", "bare/selected", command)

    def next_sensor(self, answer):
        self.handled = answer
        return "last"

    def check(self, readings):
        assert int(self.handled) == readings


class Daemon(Answering):
    """The daemon, with one field whose intervals follow the readings."""

    def __init__(self, port, qos, directory, version="3.1.1"):
        name = f"bench-{version[0]}"  # two daemons may share a broker
        path = directory / f"{name}.toml"
        path.write_text(
            CONFIG.format(
                name=name,
                port=port,
                version=version,
                sensors=SENSORS,
                positions="\n".join(
                    f"{each} = [{i % 7}, {i // 7}]" for i, each in enumerate(SENSORS)
                ),
            )
        )
        self.observations = 0
        command = [sys.executable, "-m", "edge_tvbo", "run", str(path)]
        super().__init__(port, qos, name, f"edge_tvbo/{name}/lab/selected", command)

    def next_sensor(self, answer):
        decision = msgspec.json.decode(answer)
        self.handled = decision["model"]["observations"] - self.observations
        self.observations += self.handled
        return decision["sensor"]

    def check(self, readings):
        assert self.handled == readings


def values(number, seed):
    """Return `number` different readings as text."""
    return [f"{20 + (index * 7919 + seed) % 9973 / 5000:.4f}".encode() for index in range(number)]
