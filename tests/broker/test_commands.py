"""Commands through a real mosquitto to a real daemon, and to a link where there are too many."""

import json
import subprocess
import sys
import time

import pytest
from edge_tvbo_adapters.mqtt.commands import RATE, VERBS
from edge_tvbo_adapters.mqtt.link import connect
from edge_tvbo_adapters.mqtt.subscriber import BURST
from support.gateway import ROOT, Gateway
from support.settings import mqtt_settings

from edge_tvbo.messages.documents import Request
from edge_tvbo.messages.events import Unreadable

BASE = "edge_tvbo/k"


class Operator:
    """Whoever gives commands, and waits for what is said to them."""

    def __init__(self, peer):
        self.peer = peer
        self.given = 0

    def says(self, verb, **request):
        """Give a command, and give the answer."""
        self.given += 1
        request["transaction"] = self.given
        self.peer.publish(f"{BASE}/cmd/{verb}", json.dumps(request))
        return self.answered(verb if verb in VERBS else "unknown", self.given)

    def answered(self, verb, transaction):
        def answers():
            heard = map(json.loads, self.peer.on(f"{BASE}/response/{verb}"))
            return [each for each in heard if each["transaction"] == transaction]

        self.peer.wait(answers)
        (answer,) = answers()
        return answer

    def last(self, topic):
        return json.loads(self.peer.on(f"{BASE}/{topic}")[-1])


@pytest.fixture
def gateway(tmp_path, broker, peer):
    made = Gateway(tmp_path, broker.port, peer)
    yield made
    if made.process and made.process.poll() is None:
        made.kill()


@pytest.fixture
def operator(broker, peer):
    return Operator(peer(broker.port, "edge_tvbo/k/#"))


def test_a_pause_stops_everything_survives_a_restart_and_is_ended(gateway, operator, peer, broker):
    gateway.start()
    gateway.asks()
    assert operator.says("pause")["status"] == "ok"
    operator.peer.wait(lambda: operator.last("health")["paused"])
    time.sleep(0.3)
    before = len(gateway.asked)
    time.sleep(1.0)
    gateway.stop()
    gateway.start()
    gateway.hears("ready:")
    time.sleep(1.5)
    late = peer(broker.port, f"{BASE}/health")
    late.wait(lambda: late.heard)
    assert len(gateway.asked) == before
    assert late.heard[0][2] and json.loads(late.heard[0][1])["paused"]  # retained

    assert operator.says("pause", paused=False)["status"] == "ok"  # the switch of Home Assistant
    gateway.asks()
    operator.peer.wait(lambda: not operator.last("health")["paused"])
    gateway.stop()
    gateway.assert_never_twice()


def test_sensor_is_activated_model_reset_and_status_returned_on_command(gateway, operator):
    gateway.configure(interval="10s")
    gateway.start()
    gateway.asks(1)
    for sensor in ("c", "a"):
        assert operator.says("activate", sensor=sensor)["status"] == "ok"
        operator.peer.wait(lambda: operator.last("lab/selected")["reason"] == "asked")
        assert operator.last("lab/selected")["sensor"] == sensor
    assert operator.says("reset", field="lab")["status"] == "ok"
    operator.peer.wait(lambda: operator.peer.on(f"{BASE}/lab/event"))
    data = operator.says("status")["data"]
    gateway.stop()

    assert operator.last("lab/event")["event"] == "model-reset"
    assert data["selected"]["lab"]["sensor"] == data["health"]["fields"]["lab"]["selected"] == "a"
    assert data["health"]["paused"] is False


def test_the_hotspot_is_there_for_whoever_comes_late(gateway, operator, peer, broker):
    gateway.start()
    gateway.asks(5)
    late = peer(broker.port, f"{BASE}/lab/hotspot")
    late.wait(lambda: late.heard)
    gateway.stop()
    hotspot = json.loads(late.heard[0][1])

    assert late.heard[0][2], "retained"
    assert hotspot["sensor"] in ("a", "b", "c") and 15.0 < hotspot["value"] < 30.0
    assert len(str(hotspot["value"])) <= 5  # no float noise


def test_what_cannot_be_done_is_answered_with_what_can(gateway, operator):
    gateway.start()
    gateway.asks(1)
    mistakes = [
        operator.says("activate", sensor="nobody"),
        operator.says("activate"),
        operator.says("pause", field="attic"),
        operator.says("pause", feild="lab"),
        operator.says("explode"),
    ]
    operator.says("pause")
    mistakes.append(operator.says("activate", sensor="a"))
    operator.peer.publish(f"{BASE}/cmd/status", "{")
    mistakes.append(operator.answered("status", None))
    operator.peer.wait(lambda: operator.last("health")["refused"].get("bad-request") == 2)
    gateway.stop()

    said = [
        "No such sensor",
        "Name the sensor",
        "the fields are: lab",
        "feild",
        "pause, resume",
        "resume",
    ]
    for mistake, words in zip(mistakes, [*said, "it can be"], strict=True):
        assert mistake["status"] == "error"
        assert words in mistake["error"]


def test_health_says_that_nothing_can_be_kept_until_it_can(gateway, operator, tmp_path):
    gateway.configure(dir="blocked/state")
    kept = 'checkpoint = "1s"\n'
    text = gateway.config.read_text().replace(kept, kept + 'history = "16MiB"\n')
    gateway.config.write_text('health = "1s"\n' + text)
    (tmp_path / "blocked").write_text("where a directory should be")
    gateway.start()
    gateway.asks()
    problem = "the state cannot be stored; the history cannot be stored"
    operator.peer.wait(lambda: operator.last("health")["problem"] == problem)
    (tmp_path / "blocked").unlink()
    operator.peer.wait(lambda: operator.last("health")["problem"] is None)
    gateway.stop()


def test_a_command_that_the_broker_kept_is_ignored_and_said_how_to_clear(gateway, operator):
    operator.peer.publish(f"{BASE}/cmd/pause", "{}", retain=True)
    gateway.start()
    gateway.asks(5)
    operator.peer.wait(lambda: operator.last("health")["refused"] == {"retained": 1})
    operator.peer.publish(f"{BASE}/cmd/pause", "", retain=True)
    gateway.hears(f"mosquitto_pub -n -r -t {BASE}/cmd/pause")
    gateway.asks()  # what clears it is no pause either
    gateway.stop()

    assert not operator.last("health")["paused"]


def test_while_it_is_paused_nobody_has_to_be_heard(gateway, operator):
    text = gateway.config.read_text()
    gateway.config.write_text(text.replace("[mqtt]\n", '[mqtt]\nsilence = "1s"\n'))
    gateway.start()
    gateway.asks()
    operator.says("pause")
    time.sleep(3.0)
    operator.says("resume")
    gateway.asks()
    gateway.stop()

    assert "no sensor was heard" not in gateway.said()


def test_where_commands_are_off_nobody_listens(gateway, operator):
    text = gateway.config.read_text()
    gateway.config.write_text("commands = false\n" + text)
    gateway.start()
    gateway.asks()
    operator.peer.publish(f"{BASE}/cmd/pause", "{}")
    gateway.asks(10)
    gateway.stop()

    assert not [each for each, _, _ in operator.peer.heard if "response" in each]


def test_a_flood_of_commands_is_counted_and_grows_nothing(drive, broker, peer):
    link = connect(mqtt_settings(broker.port), "k", {}, commands=True)
    driver, came = drive(link), []
    driver.online()
    hears = peer(broker.port, f"{BASE}/response/#")
    flood = peer(broker.port, "nothing")
    for _ in range(1000):
        flood.client.publish(f"{BASE}/cmd/explode", b"{}", qos=1)
    deadline = time.monotonic() + 20.0
    while len(came) < 1000 and time.monotonic() < deadline:
        driver.turn()
        came += link.requests()
    driver.for_seconds(0.5)
    reasons = [each.reason for each in came if isinstance(each, Unreadable)]

    assert len(reasons) == 1000
    allowed = RATE * BURST
    assert allowed <= reasons.count("unknown-verb") <= allowed + 20 * RATE
    assert len(hears.heard) == reasons.count("unknown-verb")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [(b"{}" + b" " * 5000, "too-large"), (b"[" * 4000, "bad-request"), (b"\xff", "bad-request")],
)
def test_bytes_that_are_no_request_are_refused(drive, broker, peer, payload, reason):
    link = connect(mqtt_settings(broker.port), "k", {}, commands=True)
    driver, came = drive(link), []
    driver.online()
    sender = peer(broker.port)
    sender.publish(f"{BASE}/cmd/status", payload)
    sender.publish(f"{BASE}/cmd/status", b'{"transaction": "x"}')
    driver.until(lambda: came.extend(link.requests()) or len(came) == 2)

    assert came[0].reason == reason
    assert came[1] == ("status", Request(transaction="x"))


def test_the_settings_are_explained():
    shown = subprocess.run(
        [sys.executable, "-m", "edge_tvbo", "config", "explain"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "commands = true or false" in shown and "homeassistant.prefix" in shown
