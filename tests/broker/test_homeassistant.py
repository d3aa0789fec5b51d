"""A real daemon, a real mosquitto, and a Home Assistant of which only the messages are real."""

import json
import subprocess
import sys
import time

import pytest
from support.gateway import ROOT, Gateway
from support.ha_schema import check_message

pytestmark = pytest.mark.broker

TABLE = "[homeassistant]\n"
TOPIC = "homeassistant/device/edge_tvbo_k/config"
RESTARTS = 20


@pytest.fixture
def gateway(tmp_path, broker, peer):
    made = Gateway(tmp_path, broker.port, peer)
    made.configure(extra=TABLE)
    yield made
    if made.process and made.process.poll() is None:
        made.kill()
    peer(broker.port).publish(TOPIC, b"", retain=True)


def edge_tvbo(*words):
    command = [sys.executable, "-m", "edge_tvbo", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.acceptance(15)
def test_home_assistant_may_start_twenty_times(gateway, broker, peer):
    hears = peer(broker.port, "homeassistant/#", "edge_tvbo/#")
    gateway.start()
    hears.wait(lambda: hears.on(TOPIC))
    for _ in range(RESTARTS):
        hears.publish("homeassistant/status", b"offline")
        hears.publish("homeassistant/status", b"online")
        time.sleep(0.3)
    hears.wait(lambda: len(hears.on(TOPIC)) > 1)
    time.sleep(10.5)
    gateway.stop()

    payloads = hears.on(TOPIC)
    assert 2 <= len(payloads) <= 1 + RESTARTS
    assert len(set(payloads)) == 1
    components = check_message(payloads[0])["components"]
    states = {each: hears.on(each) for each in topics_of(components)}
    for each in ("k/health", "k/lab/selected", "k/lab/hotspot"):
        assert states[f"edge_tvbo/{each}"], "what it names is published"
    decision = json.loads(states["edge_tvbo/k/lab/selected"][-1])
    assert decision["sensor"] in components["lab_selected"]["options"]
    assert decision["reason"] in components["lab_reason"]["options"]


def topics_of(components):
    return {each["state_topic"] for each in components.values() if "state_topic" in each}


def test_neither_our_own_start_nor_a_birth_from_before_is_a_reason_to_tell_again(
    gateway, broker, peer
):
    hears = peer(broker.port, "homeassistant/#")
    hears.publish("homeassistant/status", b"online", retain=True)
    for seconds in (11.0, 3.0):
        gateway.start()
        gateway.asks(1)
        time.sleep(seconds)
        gateway.stop()
    hears.publish("homeassistant/status", b"", retain=True)

    assert len(hears.on(TOPIC)) == 1


@pytest.mark.acceptance(16)
def test_what_is_removed_leaves_nothing_behind(gateway, broker, peer):
    hears = peer(broker.port, "homeassistant/#")
    gateway.start()
    hears.wait(lambda: hears.on(TOPIC))
    early = edge_tvbo("ha", "remove", gateway.config)
    gateway.stop()
    done = edge_tvbo("ha", "remove", gateway.config)
    again = edge_tvbo("ha", "remove", gateway.config)
    late = peer(broker.port, "homeassistant/#")
    time.sleep(0.5)

    assert early.returncode == 2 and "stop it first" in early.stderr
    assert (done.returncode, done.stdout) == (0, f"Removed {TOPIC}\n")
    assert again.stdout == f"There was nothing on {TOPIC}\n"
    assert late.heard == []


@pytest.mark.acceptance(16)
def test_an_instance_that_was_renamed_is_removed_by_its_old_name(gateway, broker, peer):
    old = TOPIC.replace("_k/", "_before/")
    peer(broker.port).publish(old, b"{}", retain=True)
    done = edge_tvbo("ha", "remove", gateway.config, "--instance", "before")
    wrong = edge_tvbo("ha", "remove", gateway.config, "--instance", "+")
    late = peer(broker.port, "homeassistant/#")
    time.sleep(0.5)

    assert done.stdout == f"Removed {old}\n"
    assert wrong.returncode == 2 and "--instance is '+'" in wrong.stderr
    assert late.heard == []


def test_a_broker_that_is_away_is_named(gateway):
    gateway.port = 1
    gateway.configure()
    result = edge_tvbo("ha", "remove", gateway.config)

    assert result.returncode == 2
    assert result.stderr.startswith("broker 127.0.0.1:1: ")


def test_what_would_be_told_can_be_seen_first(gateway):
    shown = edge_tvbo("ha", "show", gateway.config)
    gateway.configure()
    off = edge_tvbo("ha", "show", gateway.config)

    assert "lab_hotspot" in check_message(shown.stdout)["components"]
    assert off.returncode == 2 and "[homeassistant]" in off.stderr
