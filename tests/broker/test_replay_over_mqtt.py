"""Two recorded days through a real mosquitto, with the sensors as clients in another process."""

import json

import pytest

from edge_tvbo.messages.commands import Activate, Ending, PublishState, Record
from edge_tvbo.plugins import load
from edge_tvbo.ports import Broker
from edge_tvbo.simulation import dataset_lookup, mqtt_replay
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import split

pytestmark = pytest.mark.broker
SPEED = 6000.0  # an interval of ten minutes in a tenth of a second


@pytest.fixture
def broker(mosquitto):
    running = mosquitto()
    running.start()
    return running


@pytest.fixture(scope="module")
def backtest():
    recording = dataset_lookup.recording("lab-sample", gaps="silent")
    return Backtest(recording, *split(recording, 0.75))


def address(broker):
    return Broker(instance="test", port=broker.port, reconnect_min=0.05, reconnect_max=0.1)


def nodes(at):
    return mqtt_replay.nodes(["--dataset", "lab-sample", "--gaps", "silent"], at)


def test_288_intervals_give_the_decisions_of_a_replay_without_a_broker(backtest, broker, peer):
    at = address(broker)
    (offline,) = backtest.run("et-gp-ucb", {}, 1).digests
    controller = backtest.controller("et-gp-ucb", {}, seed=0)
    listener = peer(broker.port, "lab/+/activate", "edge_tvbo/#")
    with nodes(at):
        tally = mqtt_replay.over_mqtt(backtest, controller, at, SPEED)
    heard = listener.heard
    listener.wait(lambda: heard[-1][:2] == ("edge_tvbo/test/status", b"offline"))

    activations = [
        json.loads(payload) for topic, payload, _ in heard if topic.endswith("/activate")
    ]
    decisions = [json.loads(payload) for topic, payload, _ in heard if topic.endswith("/selected")]
    assert tally.digest() == offline
    assert [each["interval"] for each in activations] == list(range(288))
    assert [each["interval"] for each in decisions] == list(range(288))
    asked = [topic.split("/")[1] for topic, _, _ in heard if topic.endswith("/activate")]
    assert asked == [each["sensor"] for each in decisions]


def test_mosquitto_killed_five_times_costs_the_intervals_it_was_away_for(backtest, broker, peer):
    at = address(broker)
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
                    broker.kill()
                elif decision.interval in back_at:
                    broker.start()
            case Record(ending=Ending.MISSED, interval=interval):
                missed.append(interval)

    controller = backtest.controller("et-gp-ucb", {}, seed=0)
    with nodes(at):
        tally = mqtt_replay.over_mqtt(backtest, controller, at, SPEED, watch)
    listener = peer(broker.port, "edge_tvbo/#")
    listener.wait(lambda: len({topic for topic, *_ in listener.heard}) >= 3)

    assert activated == list(range(288))
    assert tally.activations == 288
    unexplained = [n for n in missed if n not in away and not is_gap(backtest, tally, n)]
    assert unexplained == [], f"away {sorted(away)}"
    retained = {topic: payload for topic, payload, is_retained in listener.heard if is_retained}
    assert json.loads(retained["edge_tvbo/test/replay/selected"])["interval"] == 287
    assert retained["edge_tvbo/test/status"] == b"offline"  # said when the run ended
    assert "edge_tvbo/test/health" in retained


def is_gap(backtest, tally, interval):
    row = backtest.test_span.first + interval
    return not backtest.recording.observed[row, tally.picks[interval]]


def test_the_link_is_found_by_its_entry_point():
    assert load("links", "mqtt").__module__ == "edge_tvbo_adapters.mqtt.link"
