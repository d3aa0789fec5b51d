"""User commands over a real mosquitto: to a real daemon, and floods of them to a link."""

import json
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from edge_tvbo_adapters.mqtt.link import MqttLink
from edge_tvbo_adapters.mqtt.rate_limits import BURST_S
from edge_tvbo_adapters.mqtt.request_queue import MAX_RATE, VERBS
from support.gateway import ROOT, Gateway, program
from support.link import ACCEPTED, FakeBroker, publish
from support.settings import mqtt_settings

from edge_tvbo.messages.documents import Request, Response
from edge_tvbo.messages.events import Unreadable

BASE = "edge_tvbo/k"


class Operator:
    """A client that sends commands to the daemon and waits for the responses."""

    def __init__(self, peer):
        self.peer = peer
        self.requests = 0

    def request(self, verb, **request):
        """Send a command; return the response to it."""
        self.requests += 1
        request["transaction"] = self.requests
        self.peer.publish(f"{BASE}/cmd/{verb}", json.dumps(request))
        return self.response(verb if verb in VERBS else "unknown", self.requests)

    def response(self, verb, transaction):
        """Return the only response with `transaction`, once it has arrived."""

        def matching():
            responses = map(json.loads, self.peer.on(f"{BASE}/response/{verb}"))
            return [each for each in responses if each["transaction"] == transaction]

        self.peer.wait(matching)
        (response,) = matching()
        return response

    def last(self, topic):
        """Return the newest document on a topic, once there is one."""
        self.peer.wait(lambda: self.peer.on(f"{BASE}/{topic}"))
        return json.loads(self.peer.on(f"{BASE}/{topic}")[-1])

    def wait_for_health(self, times):
        """Wait for `times` more reports of the health, which are at least one second apart."""
        goal = len(self.peer.on(f"{BASE}/health")) + times
        self.peer.wait(lambda: len(self.peer.on(f"{BASE}/health")) >= goal)


@pytest.fixture
def gateway(tmp_path, broker, peer):
    made = Gateway(tmp_path, broker.port, peer)
    yield made
    if made.process and made.process.poll() is None:
        made.kill()


@pytest.fixture
def operator(broker, peer):
    return Operator(peer(broker.port, "edge_tvbo/k/#"))


def test_a_pause_stops_activations_and_survives_a_restart(gateway, operator, peer, broker):
    gateway.config.write_text('health = "1s"\n' + gateway.config.read_text())
    gateway.start()
    gateway.wait_for_activations()
    assert operator.request("pause")["status"] == "ok"
    operator.peer.wait(lambda: operator.last("health")["paused"])
    gateway.wait_for_sensors()
    before = len(gateway.activations)
    operator.wait_for_health(2)
    gateway.stop()
    gateway.start()
    gateway.wait_for_log("ready:")
    operator.wait_for_health(3)
    gateway.wait_for_sensors()
    late = peer(broker.port, f"{BASE}/health")
    late.wait(lambda: late.received)
    assert len(gateway.activations) == before
    assert late.received[0][2] and json.loads(late.received[0][1])["paused"]  # retained
    paused = f"The field lab is paused; a message on {BASE}/cmd/resume resumes it."
    assert paused in program("why", str(gateway.config)).stdout

    assert operator.request("pause", paused=False)["status"] == "ok"  # the switch of Home Assistant
    gateway.wait_for_activations()
    operator.peer.wait(lambda: not operator.last("health")["paused"])
    gateway.stop()
    gateway.assert_never_twice()


def test_sensor_is_activated_model_reset_and_status_returned_on_command(gateway, operator):
    gateway.configure(interval="1h", reply_timeout="10min")  # longer than the test
    gateway.start()
    gateway.wait_for_activations(1)
    for sensor in ("c", "a"):
        assert operator.request("activate", sensor=sensor)["status"] == "ok"
        operator.peer.wait(lambda: operator.last("lab/selected")["reason"] == "asked")
        assert operator.last("lab/selected")["sensor"] == sensor
    before = len(gateway.activations)
    assert operator.request("activate", field="lab")["status"] == "ok"  # the same sensor again
    operator.peer.wait(lambda: len(gateway.activations) > before)
    assert operator.last("lab/selected")["sensor"] == "a"
    assert operator.request("reset", field="lab")["status"] == "ok"
    operator.peer.wait(lambda: operator.peer.on(f"{BASE}/lab/event"))
    data = operator.request("status")["data"]
    gateway.stop()

    assert operator.last("lab/event")["event"] == "model-reset"
    assert data["selected"]["lab"]["sensor"] == data["health"]["fields"]["lab"]["selected"] == "a"
    assert data["health"]["paused"] is False


def test_the_event_of_a_reset_by_a_reading_has_the_numbers_that_explain_it(gateway, operator):
    gateway.configure(policy="et-gp-ucb")
    text = gateway.config.read_text()
    gateway.config.write_text(text.replace("policy = {", 'unit = "°C"\npolicy = {'))
    gateway.start()

    def resets():
        notices = operator.peer.documents(f"{BASE}/lab/event")
        return [each for each in notices if each["event"] == "model-reset"]

    operator.peer.wait(resets)
    gateway.stop()
    notice = resets()[0]
    assert notice.keys() == {"event", "at", "text", "sensor"}
    number = r"(\d+\.?\d*)"
    found = re.fullmatch(
        f"{notice['sensor']} contradicts the model: it reported {number} °C, which is {number} °C "
        rf"\({number} standard deviations\) from the estimate of {number} °C; the limit is {number}"
        r" °C\. The model was reset",
        notice["text"],
    )
    value, distance, stds, estimate, limit = map(float, found.groups())
    assert value in range(20, 27)  # as the sensors reply
    assert abs(value - estimate) == pytest.approx(distance, abs=0.011)
    assert distance > limit and stds > 2.0


def test_a_sensor_requested_after_a_change_of_the_sensors_waits_for_the_next_interval(
    gateway, operator
):
    gateway.configure(interval="1h", reply_timeout="10min")  # longer than the test
    gateway.start()
    gateway.wait_for_activations(1)
    began = datetime.fromtimestamp(gateway.activations[0][1], UTC)
    text = gateway.config.read_text()
    changed = text.replace('["a", "b", "c"]', '["a", "b", "d"]').replace("c = [", "d = [")
    gateway.config.write_text(changed)
    gateway.process.send_signal(signal.SIGHUP)
    assert operator.last("event")["event"] == "reload"
    response = operator.request("activate", sensor="d")
    gateway.stop()

    assert response["status"] == "error"
    text, _, at = response["error"].removesuffix(".").rpartition(" ")
    assert text == (
        "No interval of lab is running yet; send the command again after the next interval begins, "
        "at"
    )
    assert abs(datetime.fromisoformat(at) - began - timedelta(hours=1)) < timedelta(seconds=2)


def test_an_ignored_sensor_is_not_activated_not_even_after_a_restart(gateway, operator):
    gateway.start()
    gateway.wait_for_activations()
    assert operator.request("ignore", sensor="a")["status"] == "ok"
    assert operator.request("ignore", sensor="b")["status"] == "ok"
    refusals = [operator.request("ignore", sensor="c"), operator.request("activate", sensor="a")]
    operator.peer.wait(lambda: operator.last("health")["fields"]["lab"]["ignored"] == ["a", "b"])
    operator.peer.wait(lambda: operator.last("lab/selected")["sensor"] == "c")
    gateway.stop()
    before = len(operator.peer.on(f"{BASE}/lab/selected"))
    gateway.start()
    gateway.wait_for_activations()
    after = [json.loads(each) for each in operator.peer.on(f"{BASE}/lab/selected")[before:]]
    data = operator.request("status")["data"]
    assert operator.request("ignore", sensor="a", ignored=False)["status"] == "ok"
    assert operator.request("activate", sensor="a")["status"] == "ok"
    gateway.stop()

    assert data["health"]["fields"]["lab"]["ignored"] == ["a", "b"]
    assert [each["status"] for each in refusals] == ["error", "error"]
    assert "last sensor" in refusals[0]["error"]
    assert "cmd/ignore" in refusals[1]["error"]
    assert {each["sensor"] for each in after} == {"c"}


def test_an_alert_is_an_event_and_a_retained_state(gateway, operator, peer, broker):
    text = gateway.config.read_text()
    unit = next(line for line in text.splitlines() if line.startswith("interval"))
    alert = "alert = { threshold = 24.5, hysteresis = 2.0 }"
    gateway.config.write_text(text.replace(unit, f"{unit}\n{alert}"))
    gateway.start()
    events = f"{BASE}/lab/event"
    operator.peer.wait(lambda: any(b'"alert"' in each for each in operator.peer.on(events)))
    operator.peer.wait(lambda: operator.last("lab/alert")["since"])
    late = peer(broker.port, f"{BASE}/lab/alert")
    late.wait(lambda: late.received)
    operator.peer.wait(lambda: operator.last("health")["fields"]["lab"]["alert"])
    refused = operator.request("threshold", threshold=1000)
    operator.request("threshold", field="lab", threshold=35.5)
    operator.peer.wait(lambda: operator.last("lab/alert")["threshold"] == 35.5)
    operator.peer.wait(lambda: not operator.last("lab/alert")["active"])
    gateway.stop()
    assert "lab: threshold is 1000, which is not within the plausible range" in refused["error"]
    state = json.loads(late.received[0][1])

    assert late.received[0][2], "retained"
    assert (state["threshold"], state["release"]) == (24.5, 22.5)
    assert state["since"] and state["text"].startswith(("Alert for values above 24.5", "No alert"))


def test_the_hotspot_is_retained_for_late_subscribers(gateway, operator, peer, broker):
    gateway.start()
    gateway.wait_for_activations(5)
    late = peer(broker.port, f"{BASE}/lab/hotspot")
    late.wait(lambda: late.received)
    gateway.stop()
    hotspot = json.loads(late.received[0][1])

    assert late.received[0][2], "retained"
    assert hotspot["sensor"] in ("a", "b", "c") and 15.0 < hotspot["value"] < 30.0
    assert len(str(hotspot["value"])) <= 5  # no float noise


def test_an_impossible_command_is_answered_with_the_allowed_values(gateway, operator):
    gateway.start()
    gateway.wait_for_activations(1)
    mistakes = [
        operator.request("activate", sensor="unknown"),
        operator.request("ignore"),
        operator.request("pause", field="attic"),
        operator.request("pause", feild="lab"),
        operator.request("explode"),
        operator.request("threshold", threshold=25),
    ]
    operator.request("pause")
    mistakes.append(operator.request("activate", sensor="a"))
    operator.peer.publish(f"{BASE}/cmd/status", "{")
    mistakes.append(operator.response("status", None))
    operator.peer.wait(lambda: operator.last("health")["refused"].get("bad-request") == 2)
    gateway.stop()

    expected = [
        "There is no sensor of this id in lab; the ids are a, b, c.",
        "The request names no sensor",
        "the fields are lab",
        "feild",
        "pause, resume",
        "No alert is configured for lab",
        "resume",
    ]
    for mistake, words in zip(mistakes, [*expected, "allowed"], strict=True):
        assert mistake["status"] == "error"
        assert words in mistake["error"]


def test_health_reports_that_the_state_cannot_be_stored_until_it_can(gateway, operator, tmp_path):
    gateway.configure(dir="blocked/state")
    kept = 'checkpoint = "1s"\n'
    text = gateway.config.read_text().replace(kept, kept + 'history = "16MiB"\n')
    gateway.config.write_text('health = "1s"\n' + text)
    (tmp_path / "blocked").symlink_to("/proc/no-directory")  # even root can make none there
    gateway.start()
    gateway.wait_for_activations()
    problem = (
        "the state cannot be stored; the history cannot be stored; the readings cannot be recorded"
    )
    operator.peer.wait(lambda: operator.last("health")["problem"] == problem)
    (tmp_path / "blocked").unlink()
    operator.peer.wait(lambda: operator.last("health")["problem"] is None)
    gateway.stop()


def test_a_retained_command_is_ignored_and_the_log_says_how_to_clear_it(gateway, operator):
    operator.peer.publish(f"{BASE}/cmd/pause", "{}", retain=True)
    gateway.start()
    gateway.wait_for_activations(5)
    operator.peer.wait(lambda: operator.last("health")["refused"] == {"retained": 1})
    operator.peer.publish(f"{BASE}/cmd/pause", "", retain=True)
    gateway.wait_for_log(f"mosquitto_pub -n -r -t {BASE}/cmd/pause")
    gateway.wait_for_activations()  # the empty message that clears it is no pause either
    gateway.stop()

    health = operator.last("health")
    assert not health["paused"]
    assert health["refused"] == {"retained": 1}


def test_a_paused_daemon_does_not_reconnect_because_of_silent_sensors(gateway, operator):
    text = gateway.config.read_text()
    text = text.replace("[mqtt]\n", '[mqtt]\nsilence = "1s"\n')
    gateway.config.write_text('health = "1s"\n' + text)
    gateway.start()
    gateway.wait_for_activations()
    operator.request("pause")
    before = gateway.log_text()
    operator.wait_for_health(4)
    paused = gateway.log_text().removeprefix(before)
    operator.request("resume")
    gateway.wait_for_activations()
    gateway.stop()

    assert "no message from any sensor" not in paused


def test_commands_are_not_answered_if_they_are_disabled(gateway, operator):
    text = gateway.config.read_text()
    gateway.config.write_text("commands = false\n" + text)
    gateway.start()
    gateway.wait_for_activations()
    operator.peer.publish(f"{BASE}/cmd/pause", "{}")
    gateway.wait_for_activations(10)
    gateway.stop()

    assert not [each for each, _, _ in operator.peer.received if "response" in each]


def test_a_flood_of_commands_is_counted_and_mostly_not_answered(drive, broker, peer):
    link = MqttLink(mqtt_settings(broker.port), "k", {}, commands=True)
    driver, came = drive(link), []
    driver.online()
    listener = peer(broker.port, f"{BASE}/response/#")
    flood = peer(broker.port, "nothing")
    began = time.monotonic()
    for _ in range(1000):
        flood.client.publish(f"{BASE}/cmd/explode", b"{}", qos=1)
    driver.until(lambda: came.extend(link.requests()) or len(came) >= 1000)
    took = time.monotonic() - began
    reasons = [each.reason for each in came if isinstance(each, Unreadable)]
    link.respond("why", Response("ok"))  # the last response
    driver.until(lambda: listener.on(f"{BASE}/response/why"))

    assert len(reasons) == 1000
    allowed = MAX_RATE * BURST_S
    assert allowed <= reasons.count("unknown-verb") <= allowed + took * MAX_RATE + 1
    assert len(listener.received) - 1 == reasons.count("unknown-verb")


def test_each_command_that_arrives_before_a_reload_ends_the_session_is_answered(gateway, operator):
    """The broker has passed on what it acknowledges before it passes on ``offline``."""
    gateway.start()
    gateway.wait_for_activations()
    gateway.process.send_signal(signal.SIGHUP)
    arrived = 0

    def has_ended():
        return (f"{BASE}/status", b"offline", False) in operator.peer.received

    while not has_ended() and arrived < MAX_RATE * BURST_S - 1:
        request = json.dumps({"transaction": arrived})
        operator.peer.publish(f"{BASE}/cmd/threshold", request)
        arrived += not has_ended()
    for transaction in range(arrived):
        operator.response("threshold", transaction)
    gateway.wait_for_log("reload: done")
    gateway.stop()


@pytest.mark.parametrize("instance", ["k", "other"])
def test_a_command_that_arrives_during_a_reload_waits_for_the_next_link(
    instance, drive, broker, peer
):
    before, after = (
        MqttLink(mqtt_settings(broker.port), name, {}, commands=True, seed=0)
        for name in ("k", instance)
    )
    drive(before).online()
    sender = peer(broker.port, f"{BASE}/response/+")
    sender.publish(f"{BASE}/cmd/pause", b"{}")
    sender.publish(f"{BASE}/cmd/reset", b"no JSON")

    before.close()
    after.take_over(before)
    assert list(after.requests()) == []  # an activation could not be sent yet
    driver = drive(after)
    driver.online()
    found = list(after.requests())
    if instance != "k":
        assert found == []
        return
    ((verb, request), rejected) = found
    assert (verb, request, rejected.reason) == ("pause", Request(), "bad-request")
    driver.until(lambda: sender.on(f"{BASE}/response/reset"))


def test_a_command_of_the_previous_link_waits_only_for_a_short_time(
    broker, drive, peer, monkeypatch
):
    """The reload may have changed the broker, and the new broker may be unreachable."""
    monkeypatch.setattr("edge_tvbo_adapters.mqtt.link.MAX_REQUEST_DELAY_S", 0.0)
    before, after = (
        MqttLink(mqtt_settings(broker.port), "k", {}, commands=True, seed=0) for _ in range(2)
    )
    drive(before).online()
    peer(broker.port).publish(f"{BASE}/cmd/pause", b"{}")
    before.close()
    after.take_over(before)
    assert list(after.requests()) == [("pause", Request())]


def test_commands_are_handled_although_the_broker_refuses_the_readings():
    with FakeBroker(commands=True, instance="k") as fake_broker:
        fake_broker.send(ACCEPTED + b"\x90\x04\x00\x01\x80\x01")
        fake_broker.send(publish(f"{BASE}/cmd/pause", b"{}"))
        found = []
        fake_broker.until(lambda: found.extend(fake_broker.link.requests()) or found)
        assert found == [("pause", Request())]
        assert not fake_broker.link.online


@pytest.mark.parametrize(
    ("payload", "reason"),
    [(b"{}" + b" " * 5000, "too-large"), (b"[" * 4000, "bad-request"), (b"\xff", "bad-request")],
)
def test_an_invalid_request_is_rejected_with_a_reason(drive, broker, peer, payload, reason):
    link = MqttLink(mqtt_settings(broker.port), "k", {}, commands=True)
    driver, came = drive(link), []
    driver.online()
    sender = peer(broker.port)
    sender.publish(f"{BASE}/cmd/status", payload)
    sender.publish(f"{BASE}/cmd/status", b'{"transaction": "x"}')
    driver.until(lambda: came.extend(link.requests()) or len(came) == 2)

    assert came[0].reason == reason
    assert came[1] == ("status", Request(transaction="x"))


def test_config_explain_lists_the_settings_of_commands_and_discovery():
    shown = subprocess.run(
        [sys.executable, "-m", "edge_tvbo", "config", "explain"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "commands = true or false" in shown and "homeassistant.prefix" in shown
