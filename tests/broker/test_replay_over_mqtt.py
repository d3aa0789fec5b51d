"""Replay over MQTT: two days on a real mosquitto, with the sensors in another process."""

import json
from functools import partial

import pytest
from edge_tvbo_adapters.mqtt.link import MqttLink
from msgspec.structs import replace
from support.recordings import data_source
from support.settings import mqtt_settings

from edge_tvbo.daemon.clock import ReplayClock
from edge_tvbo.messages.commands import Activate, Ending, PublishState, Record
from edge_tvbo.simulation import mqtt_replay
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import Pace
from edge_tvbo.simulation.row_range import RowRange, split

SPEED = 6000.0  # an interval of ten minutes in a tenth of a second
REPLY_TIME_S = 3.0  # it passes in the few gaps of the recording, and while there is no broker


@pytest.fixture
def broker(mosquitto):
    running = mosquitto()
    running.start()
    return running


@pytest.fixture(autouse=True)
def longer_timeouts(monkeypatch):
    """Let the sensors reply later than usual: their process may stand still for a while."""
    clock = partial(ReplayClock, reply_time=REPLY_TIME_S)
    monkeypatch.setattr(mqtt_replay, "ReplayClock", clock)


@pytest.fixture(scope="module")
def backtest():
    recording = data_source().load("lab-sample")
    return Backtest(recording, *split(recording))


def settings_of(broker):
    return mqtt_settings(broker.port, reconnect_min=0.05, reconnect_max=0.1)


def link_to(at):
    return partial(MqttLink, at, "test")


def sensors(at):
    return mqtt_replay.sensor_process(["--dataset", "lab-sample", "--gaps", "silent"], at)


def test_replay_over_mqtt_gives_the_decisions_of_a_replay_without_broker(backtest, broker, peer):
    at = settings_of(broker)
    (offline,) = backtest.run("et-gp-ucb", {}, 1).digests
    controller = backtest.controller("et-gp-ucb", {}, seed=0)
    listener = peer(broker.port, "lab/+/activate", "edge_tvbo/#")
    with sensors(at):
        recorder = mqtt_replay.replay_over_mqtt(backtest, controller, link_to(at), SPEED)
    received = listener.received
    listener.wait(lambda: received[-1][:2] == ("edge_tvbo/test/status", b"offline"))

    activations = [
        json.loads(payload) for topic, payload, _ in received if topic.endswith("/activate")
    ]
    decisions = [
        json.loads(payload) for topic, payload, _ in received if topic.endswith("/selected")
    ]
    assert recorder.digest() == offline
    assert [each["interval"] for each in activations] == list(range(288))
    assert [each["interval"] for each in decisions] == list(range(288))
    activated = [topic.split("/")[1] for topic, _, _ in received if topic.endswith("/activate")]
    assert activated == [each["sensor"] for each in decisions]


@pytest.mark.parametrize("order", ["after-reply", "at-once"])
def test_replay_over_mqtt_with_two_sensors_in_an_interval_gives_the_same_decisions(
    backtest, broker, peer, order
):
    """In a gap of the recording, the sensor times out."""
    at, span = (
        settings_of(broker),
        RowRange(backtest.test_span.first, backtest.test_span.first + 72),
    )
    twice = Backtest(backtest.recording, backtest.train_span, span, pace=Pace(None, 2, order))
    (offline,) = twice.run("et-gp-ucb", {}, 1).digests
    listener = peer(broker.port, "lab/+/activate", "edge_tvbo/#")
    controller = twice.controller("et-gp-ucb", {}, seed=0)
    with sensors(at):
        recorder = mqtt_replay.replay_over_mqtt(twice, controller, link_to(at), SPEED)
    received = listener.received
    listener.wait(lambda: received[-1][:2] == ("edge_tvbo/test/status", b"offline"))
    activations = [
        (json.loads(payload)["interval"], topic.split("/")[1])
        for topic, payload, _ in received
        if topic.endswith("/activate")
    ]
    assert recorder.digest() == offline
    assert [interval for interval, _ in activations] == [n // 2 for n in range(144)]
    assert len(set(activations)) == 144


def test_intervals_without_a_reading_have_no_activation_in_a_replay_over_mqtt(backtest, broker):
    """The simulated sensors would reply, as in the incomplete rows of the user's own readings."""
    at, first = settings_of(broker), backtest.test_span.first
    observed = backtest.recording.observed.copy()
    observed[first : first + 3] = observed[first + 20 : first + 40] = False
    recording = replace(backtest.recording, observed=observed, replies=None)
    some = Backtest(recording, backtest.train_span, RowRange(first, first + 60))
    (offline,) = some.run("et-gp-ucb", {}, 1).digests
    with sensors(at):
        controller = some.controller("et-gp-ucb", {}, seed=0)
        recorder = mqtt_replay.replay_over_mqtt(some, controller, link_to(at), SPEED)
    assert recorder.digest() == offline
    assert recorder.activations == 37


def test_killed_broker_costs_only_the_intervals_without_it(backtest, broker, peer):
    at = settings_of(broker)
    outages = {40: 2, 80: 1, 120: 3, 170: 2, 230: 1}  # decision -> intervals until it is back
    back_at = {first + length for first, length in outages.items()}
    away = {n for first, length in outages.items() for n in range(first, first + length + 1)}
    timed_out, activated = [], []

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
                timed_out.append(interval)

    controller = backtest.controller("et-gp-ucb", {}, seed=0)
    with sensors(at):
        recorder = mqtt_replay.replay_over_mqtt(backtest, controller, link_to(at), SPEED, watch)
    listener = peer(broker.port, "edge_tvbo/#")
    kept = {f"edge_tvbo/test/{name}" for name in ("health", "replay/selected", "status")}
    listener.wait(lambda: kept <= {topic for topic, *_ in listener.received})

    assert activated == list(range(288))
    assert recorder.activations == 288
    unexplained = [n for n in timed_out if n not in away and not is_gap(backtest, recorder, n)]
    assert unexplained == [], f"away {sorted(away)}"
    retained = {topic: payload for topic, payload, is_retained in listener.received if is_retained}
    assert json.loads(retained["edge_tvbo/test/replay/selected"])["interval"] == 287
    assert retained["edge_tvbo/test/status"] == b"offline"  # published when the replay ended
    assert kept <= retained.keys()


def is_gap(backtest, recorder, interval):
    row = backtest.test_span.first + interval
    return not backtest.recording.observed[row, recorder.picks[interval]]
