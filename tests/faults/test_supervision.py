"""Supervision by systemd: a real process, a real datagram socket, a real broker."""

import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing

import pytest
from edge_tvbo_adapters.simulation import local_broker
from support.ports import free_port

from edge_tvbo.errors import MissingExtra

TIMEOUT_S = 60.0  # a busy machine takes its time, and may compile
WATCHDOG = 1.0  # s
TRIES = 5  # of a measurement that a machine may disturb that stands still
CONFIG = """\
instance = "lab"
[mqtt]
port = {port}
keepalive = 5
reconnect = {{ min = "100ms", max = "500ms" }}
[metrics]
port = {metrics}
[fields.heat]
interval = "{interval}"
kernel = {{ name = "se", length_scale = 6, variance = 12.0, noise_variance = 0.05, mean = 21 }}
positions = {{ a = [0, 0], b = [1, 2.5] }}
sensors = ["a", "b"]
reading = {{ topic = "lab/{{sensor}}/t" }}
"""

pytestmark = pytest.mark.broker


def blocking(seconds):
    """Return a program that runs the daemon; the signal SIGUSR1 blocks its loop for a while.

    Meanwhile, another thread runs, as while the daemon connects.
    """
    return f"""
import os
import socket
import time
from threading import Thread

from edge_tvbo.cli import main
from edge_tvbo.daemon import status_dump

def report(status):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(f"STATUS={{status}}".encode(), os.environ["NOTIFY_SOCKET"])

def block(*_):
    Thread(target=time.sleep, args=[{seconds}], daemon=True).start()
    report("blocked")
    time.sleep({seconds})
    report("released")
    return []

status_dump.lines = block
main()
"""


class Systemd:
    """A daemon started as by the unit, and its messages to systemd."""

    def __init__(self, directory, port, by=("-m", "edge_tvbo")):
        self.metrics = free_port()
        self.path = directory / "config.toml"
        self.port = port
        self.write("500ms")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(directory / "notify"))
        environment = os.environ | {
            "NOTIFY_SOCKET": str(directory / "notify"),
            "WATCHDOG_USEC": str(int(WATCHDOG * 1e6)),
        }
        self.log = directory / "log"
        self.began = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *by, "run", str(self.path), "--log-format", "json"],
                env=environment,
                stderr=log,
            )

    def write(self, interval):
        text = CONFIG.format(port=self.port, metrics=self.metrics, interval=interval)
        self.path.write_text(text)

    def receive(self, within):
        """Return the next message, or "" if none comes in time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            ready = selector.select(max(0.0, within))
        return self._socket.recv(4096).decode() if ready else ""

    def until(self, start, within=TIMEOUT_S):
        """Return the messages up to one that begins with `start`."""
        messages, deadline = [], time.monotonic() + within
        while time.monotonic() < deadline:
            message = self.receive(deadline - time.monotonic())
            messages.append(message)
            if message.startswith(start):
                return messages
        raise AssertionError(f"no {start}; {messages[-5:]}; {self.log.read_text()[-2000:]}")

    def on_time(self, number):
        """Return the messages up to `number` watchdog messages in a row that come in time.

        A machine that stands still delays some. A daemon that is late delays all.
        """
        messages, times, deadline = [], [], time.monotonic() + TIMEOUT_S
        while len(times) < number or times[-1] - times[-number] > (number - 1) * WATCHDOG:
            left = deadline - time.monotonic()
            assert left > 0, f"{times}; {messages[-5:]}; {self.log.read_text()[-2000:]}"
            messages.append(self.receive(left))
            if messages[-1] == "WATCHDOG=1":
                times.append(time.monotonic())
        return messages

    def drain(self):
        """Return the messages that have arrived by now."""
        messages = []
        while message := self.receive(0.0):
            messages.append(message)
        return messages

    def during(self, seconds):
        """Return the messages of so many seconds."""
        deadline = time.monotonic() + seconds
        messages = []
        while time.monotonic() < deadline:
            messages.append(self.receive(deadline - time.monotonic()))
        return [each for each in messages if each]

    def until_connected(self):
        deadline = time.monotonic() + TIMEOUT_S
        while self.health()[1]["broker"] != "online":
            assert time.monotonic() < deadline, self.log.read_text()[-2000:]
            time.sleep(0.05)

    def health(self):
        url = f"http://127.0.0.1:{self.metrics}/healthz"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT_S)
        self._socket.close()


class Mosquitto:
    """A broker of the test's own, which it may stop."""

    def __init__(self, directory):
        self.port = free_port()
        _, command = local_broker.choose(self.port, directory)
        log = directory / "broker.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        local_broker.wait_for(self.process, self.port, log)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(TIMEOUT_S)


@pytest.fixture
def broker(tmp_path):
    try:
        name, _ = local_broker.choose(1, tmp_path)
    except MissingExtra:
        name = "none"
    if name != "mosquitto":
        pytest.skip(f"this test wants a mosquitto; the broker here: {name}")
    pytest.importorskip("prometheus_client")
    running = Mosquitto(tmp_path)
    yield running
    running.close()


@pytest.fixture
def systemd(tmp_path, broker):
    with closing(Systemd(tmp_path, broker.port)) as started:
        yield started


def test_systemd_is_notified_from_ready_to_stopping(systemd):
    (*before, ready) = systemd.until("READY=1")
    assert not before
    assert "STATUS=heat: " in ready
    said = systemd.on_time(4) + systemd.drain()
    assert said.count("WATCHDOG=1") <= 2 * (time.monotonic() - systemd.began) / WATCHDOG + 2
    assert systemd.health()[0] == 200

    systemd.write("400ms")
    systemd.process.send_signal(signal.SIGHUP)
    systemd.until("RELOADING=1\nMONOTONIC_USEC=")
    systemd.until("READY=1")
    systemd.path.write_text("instance = 3\n")
    systemd.process.send_signal(signal.SIGHUP)
    systemd.until("RELOADING=1")
    systemd.until("READY=1")
    systemd.until("WATCHDOG=1")
    assert systemd.health()[0] == 200

    systemd.process.send_signal(signal.SIGTERM)
    systemd.until("STOPPING=1")
    assert systemd.process.wait(TIMEOUT_S) == 0
    lines = [json.loads(line) for line in systemd.log.read_text().splitlines()]
    assert "stopped" in [each["message"] for each in lines]


def test_a_blocked_loop_sends_no_watchdog_message(tmp_path, broker):
    with closing(Systemd(tmp_path, broker.port, by=("-c", blocking(2 * WATCHDOG)))) as systemd:
        systemd.until("WATCHDOG=1")
        systemd.process.send_signal(signal.SIGUSR1)
        systemd.until("STATUS=blocked")

        assert systemd.until("STATUS=released") == ["STATUS=released"]
        systemd.until("WATCHDOG=1")


def test_an_aborted_daemon_logs_the_functions_in_which_its_loop_is_blocked(tmp_path, broker):
    with closing(Systemd(tmp_path, broker.port, by=("-c", blocking(TIMEOUT_S)))) as systemd:
        systemd.until("WATCHDOG=1")
        systemd.process.send_signal(signal.SIGUSR1)
        systemd.until("STATUS=blocked")
        systemd.process.send_signal(signal.SIGABRT)  # as systemd does after WatchdogSec=

        assert systemd.process.wait(TIMEOUT_S) == -signal.SIGABRT
    _, fatal, traceback = systemd.log.read_text().partition("Fatal Python error: Aborted\n")
    assert fatal
    assert re.search(r'daemon/daemon\.py", line \d+ in dump_status\n', traceback)
    assert traceback.count("most recent call first") == 1  # not of the other thread


def test_a_hanging_or_dead_broker_does_not_stop_the_watchdog_messages(systemd, broker):
    systemd.until("WATCHDOG=1")
    for _ in range(TRIES):
        broker.process.send_signal(signal.SIGSTOP)  # connected, and says nothing more
        said = systemd.during(14.0)
        while not any("not connected to the broker" in each for each in said):
            said.append(systemd.receive(TIMEOUT_S))
            assert said[-1]
        if said.count("WATCHDOG=1") >= 20:
            break
        broker.process.send_signal(signal.SIGCONT)
        systemd.until_connected()
    else:
        raise AssertionError(f"too few messages each time, the last time {said}")
    broker.process.send_signal(signal.SIGCONT)
    broker.process.kill()
    systemd.on_time(4)
    assert systemd.process.poll() is None
