"""Sleeping sensors: a sensor that wakes up finds the current command, or no command."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from support.mosquitto import TIMEOUT_S
from support.paths import ROOT
from support.proxy import Proxy
from support.settings import VERSION

SLACK = 1.0  # s; the broker may be late
CONFIG = """
instance = "{name}"
[mqtt]
port = {port}
[state]
dir = "state"
[fields.lab]
interval = "{interval}"
reply_timeout = "{timeout}"
kernel = {{ name = "se", length_scale = 6.0, variance = 4.0, noise_variance = 0.04, mean = 20 }}
positions = {{ a = [0, 0], b = [5, 0], c = [9, 9] }}
policy = {{ name = "round-robin" }}
sensors = ["a", "b", "c"]
reading = {{ topic = "{name}/{{sensor}}", payload = "zigbee2mqtt" }}
activate = {{ mode = "sleepy", topic = "{name}/{{sensor}}/todo" }}
"""


class SleepingSensors:
    """Nodes that sleep, and the daemon that has something for them to do."""

    def __init__(self, directory, port, peer, name, **times):
        self.config = directory / "edge.toml"
        self.log = directory / "log"
        self.config.write_text(CONFIG.format(name=name, port=port, **times))
        self._peer = lambda: peer(port, f"{name}/+/todo", "sentinel")
        self.name = name

    def start(self):
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "edge_tvbo", "run", str(self.config)],
                stderr=log,
                cwd=ROOT,
            )

    def wake(self):
        """Wake every node; give what they find: {node: command}."""
        node = self._peer()
        node.publish("sentinel", b"1")
        node.wait(lambda: node.on("sentinel"))
        node.close()
        kept = [(topic, json.loads(body)) for topic, body, retained in node.received if retained]
        return {topic.split("/")[1]: command for topic, command in kept}

    def find(self):
        """Wake the nodes until one finds a command; give both."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (found := self.wake()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        ((sensor, command),) = found.items()
        return sensor, command

    def until_gone(self, command):
        """Wake the nodes until none finds the command."""
        deadline = time.monotonic() + TIMEOUT_S
        while command in self.wake().values():
            assert time.monotonic() < deadline, f"{command} is still retained"
            time.sleep(0.02)


@pytest.fixture
def stopped():
    """Return a list of processes that are killed after the test."""
    processes = []
    yield processes
    for each in processes:
        each.kill()
        each.wait(TIMEOUT_S)


def test_a_waking_sensor_finds_no_command_that_was_answered(broker, peer, tmp_path, stopped):
    """The intervals follow the readings, so only an answer ends one during the test."""
    sleepers = SleepingSensors(
        tmp_path, broker.port, peer, "sleepers", interval="on-reading", timeout="1h"
    )
    stopped.append(sleepers.start())
    sender, seen = peer(broker.port, "edge_tvbo/sleepers/#"), []
    for _ in range(3):
        sensor, command = sleepers.find()
        assert command["expires_at"] > time.time()
        assert command["seq"] not in seen
        seen.append(command["seq"])
        sender.publish(f"sleepers/{sensor}", '{"temperature": 21.5}')
        sleepers.until_gone(command)
    assert seen == sorted(seen)
    events = [json.loads(body)["event"] for body in sender.on("edge_tvbo/sleepers/lab/event")]
    assert "sensor-lost" not in events


def test_a_waking_sensor_finds_no_command_that_expired(broker, peer, tmp_path, stopped):
    sleepers = SleepingSensors(
        tmp_path, broker.port, peer, "expired", interval="1500ms", timeout="1200ms"
    )
    stopped.append(sleepers.start())
    seen = []
    for _ in range(3):
        _, command = sleepers.find()
        assert command["seq"] not in seen
        seen.append(command["seq"])
        sleepers.until_gone(command)
        assert command["expires_at"] <= time.time()
    assert seen == sorted(seen)


def test_a_command_left_by_a_killed_daemon_is_cleared_by_the_next(broker, peer, tmp_path, stopped):
    sleepers = SleepingSensors(
        tmp_path, broker.port, peer, "killed", interval="1500ms", timeout="1s"
    )
    stopped.append(sleepers.start())
    sensor, left = sleepers.find()
    stopped[0].kill()
    stopped[0].wait(TIMEOUT_S)
    time.sleep(max(0.0, left["expires_at"] - time.time()) + SLACK)
    expires_at_broker = os.environ.get(VERSION) == "5"
    assert sleepers.wake() == {sensor: left} or (expires_at_broker and sleepers.wake() == {})

    watcher = peer(broker.port, "killed/+/todo", "edge_tvbo/killed/#")
    stopped.append(sleepers.start())
    watcher.wait(lambda: b"" in watcher.on(f"killed/{sensor}/todo"))
    assert left not in sleepers.wake().values()
    sensor, command = sleepers.find()
    assert command["seq"] > left["seq"]
    stopped[1].terminate()
    assert stopped[1].wait(TIMEOUT_S) == 0
    sleepers.until_gone(command)
    assert sleepers.wake() == {}


def test_a_sensor_removed_during_an_outage_is_not_activated_again(broker, peer, tmp_path, stopped):
    proxy = Proxy(broker.port)
    try:
        sleepers = SleepingSensors(
            tmp_path, broker.port, peer, "removed", interval="10min", timeout="5min"
        )
        sleepers.config.write_text(
            sleepers.config.read_text().replace(str(broker.port), str(proxy.port))
        )
        stopped.append(sleepers.start())
        sensor, _ = sleepers.find()
        proxy.frozen = True
        proxy.cut()
        others = [each for each in "abc" if each != sensor]
        text = sleepers.config.read_text().replace('["a", "b", "c"]', json.dumps(others))
        sleepers.config.write_text(re.sub(rf"{sensor} = \[\d, \d\],? ", "", text))
        stopped[0].send_signal(signal.SIGHUP)
        deadline = time.monotonic() + TIMEOUT_S
        while "reload: done" not in sleepers.log.read_text():
            assert time.monotonic() < deadline, sleepers.log.read_text()
            time.sleep(0.02)
        assert sleepers.wake().keys() == {sensor}
        proxy.frozen = False
        deadline = time.monotonic() + TIMEOUT_S
        while sensor in sleepers.wake():
            assert time.monotonic() < deadline, (
                "the sensor is in no field, and still finds a command"
            )
            time.sleep(0.1)
    finally:
        proxy.close()
