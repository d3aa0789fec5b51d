"""Two recorded days through a real mosquitto, with the sensors as clients in another process."""

import json
import subprocess
import time
from contextlib import contextmanager

import paho.mqtt.client as paho
import pytest
from edge_tvbo_adapters import brokers
from paho.mqtt.enums import CallbackAPIVersion

from edge_tvbo import datafiles
from edge_tvbo.backtest import Backtest
from edge_tvbo.messages import Activate, Ending, PublishState, Record
from edge_tvbo.plugins import load
from edge_tvbo.ports import Broker
from edge_tvbo.replay import split
from edge_tvbo.runtime import simulation

pytestmark = pytest.mark.broker
SPEED = 6000.0  # an interval of ten minutes in a tenth of a second


class Mosquitto:
    """A mosquitto that can be killed and started again on the same port."""

    def __init__(self, directory):
        self.port = brokers.free_port()
        name, self._command = brokers.choose(self.port, directory)
        assert name == "mosquitto"
        self._log = directory / "log"
        self.start()

    def start(self):
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        brokers.wait_for(self.process, self.port, self._log)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def mosquitto(tmp_path):
    running = Mosquitto(tmp_path)
    yield running
    running.kill()


@pytest.fixture(scope="module")
def backtest():
    recording = datafiles.recording("lab-sample", gaps="silent")
    return Backtest(recording, *split(recording, 0.75))


def address(mosquitto):
    return Broker(instance="test", port=mosquitto.port, reconnect_min=0.05, reconnect_max=0.1)


def nodes(broker):
    return simulation.nodes(["--dataset", "lab-sample", "--gaps", "silent"], broker)


@contextmanager
def listener(port, *topics):
    """Give the list to which every message on `topics` is added as (topic, payload, retained)."""
    heard = []
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda c, u, message: heard.append(
        (message.topic, message.payload, message.retain)
    )
    client.on_connect = lambda c, *_: c.subscribe([(topic, 1) for topic in topics])
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        yield heard
    finally:
        client.disconnect()
        client.loop_stop()


def test_288_intervals_give_the_decisions_of_a_replay_without_a_broker(backtest, mosquitto):
    broker = address(mosquitto)
    (offline,) = backtest.run("et-gp-ucb", {}, 1).digests
    controller = backtest.controller("et-gp-ucb", {}, seed=0)
    with nodes(broker), listener(mosquitto.port, "lab/+/activate", "edge_tvbo/#") as heard:
        tally = simulation.over_mqtt(backtest, controller, broker, SPEED)
        time.sleep(0.5)

    activations = [
        json.loads(payload) for topic, payload, _ in heard if topic.endswith("/activate")
    ]
    decisions = [json.loads(payload) for topic, payload, _ in heard if topic.endswith("/selected")]
    assert tally.digest() == offline
    assert [each["interval"] for each in activations] == list(range(288))
    assert [each["interval"] for each in decisions] == list(range(288))
    asked = [topic.split("/")[1] for topic, _, _ in heard if topic.endswith("/activate")]
    assert asked == [each["sensor"] for each in decisions]


def test_mosquitto_killed_five_times_costs_the_intervals_it_was_away_for(backtest, mosquitto):
    broker = address(mosquitto)
    outages = {40: 2, 80: 1, 120: 3, 170: 2, 230: 1}  # decision -> intervals until it is back
    back_at = {first + length for first, length in outages.items()}
    away = {n for first, length in outages.items() for n in range(first, first + length + 1)}
    missed, activated = [], []

    def watch(command):
        match command:
            case Activate(interval=interval):
                activated.append(interval)
            case PublishState(decision=decision):
                if decision.interval in outages:
                    mosquitto.kill()
                elif decision.interval in back_at:
                    mosquitto.start()
            case Record(ending=Ending.MISSED, interval=interval):
                missed.append(interval)

    controller = backtest.controller("et-gp-ucb", {}, seed=0)
    with nodes(broker):
        tally = simulation.over_mqtt(backtest, controller, broker, SPEED, watch)
        with listener(mosquitto.port, "edge_tvbo/#") as heard:
            deadline = time.monotonic() + 10
            while len(heard) < 3 and time.monotonic() < deadline:
                time.sleep(0.05)

    assert activated == list(range(288))
    assert tally.activations == 288
    unexplained = [n for n in missed if n not in away and not is_gap(backtest, tally, n)]
    assert unexplained == [], f"away {sorted(away)}"
    retained = {topic: payload for topic, payload, is_retained in heard if is_retained}
    assert json.loads(retained["edge_tvbo/test/replay/selected"])["interval"] == 287
    assert retained["edge_tvbo/test/status"] == b"offline"  # said when the run ended
    assert "edge_tvbo/test/health" in retained


def is_gap(backtest, tally, interval):
    row = backtest.test_span.first + interval
    return not backtest.recording.observed[row, tally.picks[interval]]


def test_the_link_is_found_by_its_entry_point():
    assert load("links", "mqtt").__module__ == "edge_tvbo_adapters.mqtt"
