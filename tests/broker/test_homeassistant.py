"""Home Assistant with a real daemon and a real mosquitto; the test sends its birth messages."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support.gateway import ROOT, Gateway
from support.ha_schema import check_message
from support.mosquitto import write_passwords

TOPIC = "homeassistant/device/edge_tvbo_k/config"
TABLE = "[homeassistant]\n"
RESTARTS = 20
SECOND = """
[fields.light]
interval = "200ms"
reply_timeout = "100ms"
kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20 }
sensors = ["a", "b"]
reading = { topic = "k/{sensor}/light" }
"""


@pytest.fixture
def gateway(tmp_path, broker, peer):
    gateway = Gateway(tmp_path, broker.port, peer)
    gateway.configure(extra="[homeassistant]\n")
    yield gateway
    if gateway.process and gateway.process.poll() is None:
        gateway.kill()
    peer(broker.port).publish(TOPIC, b"", retain=True)


def edge_tvbo(*arguments):
    command = [sys.executable, "-m", "edge_tvbo", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def retained(peer, port, topics):
    """Return what the broker holds on `topics`: a subscriber receives it before the sentinel."""
    late = peer(port, topics, "sentinel")
    late.publish("sentinel", b"1")
    late.wait(lambda: late.on("sentinel"))
    return [each for each in late.received if each[0] != "sentinel"]


@pytest.mark.acceptance(15)
def test_twenty_starts_of_home_assistant_repeat_the_message(gateway, broker, peer):
    client = peer(broker.port, "homeassistant/#", "edge_tvbo/#")
    gateway.start()
    client.wait(lambda: client.on(TOPIC))
    for _ in range(RESTARTS):
        client.publish("homeassistant/status", b"offline")
        client.publish("homeassistant/status", b"online")
        time.sleep(0.3)
    client.wait(lambda: len(client.on(TOPIC)) > 1)
    time.sleep(10.5)
    gateway.stop()

    payloads = client.on(TOPIC)
    assert 2 <= len(payloads) <= 1 + RESTARTS
    assert len(set(payloads)) == 1
    components = check_message(payloads[0])["components"]
    states = {each: client.on(each) for each in topics_of(components)}
    for each in ("k/health", "k/lab/selected", "k/lab/hotspot"):
        assert states[f"edge_tvbo/{each}"], f"nothing is published on {each}"
    decision = json.loads(states["edge_tvbo/k/lab/selected"][-1])
    assert decision["sensor"] in components["lab_poll"]["options"]
    assert decision["reason"] in components["lab_reason"]["options"]


def topics_of(components):
    return {each["state_topic"] for each in components.values() if "state_topic" in each}


def test_restart_and_retained_birth_do_not_repeat_the_message(gateway, broker, peer):
    status = "edge_tvbo/k/status"
    client = peer(broker.port, "homeassistant/#", status)
    client.publish("homeassistant/status", b"online", retain=True)
    gateway.configure(interval="1h", reply_timeout="10s", extra="[homeassistant]\n")
    for seconds in (11.0, 3.0):
        gateway.start()
        client.wait(lambda: client.on(status)[-1:] == [b"online"])
        time.sleep(seconds)
        gateway.stop()
    client.publish("homeassistant/status", b"", retain=True)

    assert len(client.on(TOPIC)) == 1


def test_decisions_follow_the_message_that_describes_them(gateway, broker, peer):
    client = peer(broker.port, TOPIC, "edge_tvbo/k/#")

    def published():
        """Return the topics of the messages that are published now, not retained before."""
        return [topic for topic, _, retained in client.received if not retained]

    gateway.start()
    client.wait(lambda: "edge_tvbo/k/lab/selected" in published())
    gateway.stop()
    topics = published()

    assert topics.index("edge_tvbo/k/status") < topics.index(TOPIC)
    assert topics.index(TOPIC) < topics.index("edge_tvbo/k/lab/selected")


@pytest.mark.parametrize("reloads", [True, False])
def test_a_decision_just_before_a_reload_or_stop_is_published(gateway, broker, peer, reloads):
    """Documents wait until Home Assistant has the message; the next interval is in an hour."""
    gateway.configure(interval="1h", reply_timeout="10s", extra="[homeassistant]\n")
    documents = {"edge_tvbo/k/lab/selected", "edge_tvbo/k/lab/posterior"}
    client = peer(broker.port, "edge_tvbo/k/lab/#")
    gateway.start()
    gateway.wait_for_activations(1)
    if reloads:
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait_for_log("reload: done")
    else:
        gateway.stop()
    client.wait(lambda: documents <= {name for name, _, old in client.received if not old})


@pytest.mark.parametrize(
    ("before", "after", "restarts"),
    [(TABLE, TABLE, True), ("", "", False), ("", "", True), ("", TABLE, False), ("", TABLE, True)],
    ids=["described", "", "restarts", "described after a reload", "described after a restart"],
)
def test_retained_documents_of_a_removed_field_are_cleared(
    gateway, broker, peer, before, after, restarts
):
    documents = [f"edge_tvbo/k/light/{each}" for each in ("selected", "posterior")]
    client = peer(broker.port, "edge_tvbo/k/#")
    gateway.configure(extra=before + SECOND)
    gateway.start()
    client.wait(lambda: all(client.on(each) for each in documents))
    if restarts:
        gateway.stop()
    gateway.configure(extra=after)
    if restarts:
        gateway.start()
    else:
        gateway.process.send_signal(signal.SIGHUP)
    client.wait(lambda: all(client.on(each)[-1] == b"" for each in documents))
    gateway.stop()

    assert retained(peer, broker.port, "edge_tvbo/k/light/#") == []


@pytest.mark.parametrize("after", ["", TABLE], ids=["", "described"])
def test_retained_documents_of_a_removed_field_are_cleared_by_the_second_reload(
    gateway, broker, peer, after
):
    """After the first reload, the daemon cannot reach the broker."""
    documents = [f"edge_tvbo/k/light/{each}" for each in ("selected", "posterior")]
    client = peer(broker.port, "edge_tvbo/k/#")
    gateway.configure(extra=SECOND)
    gateway.start()
    client.wait(lambda: all(client.on(each) for each in documents))

    def reload(port, number):
        gateway.port = port
        gateway.configure(extra=after)
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait(lambda: gateway.log_text().count("reload: done") == number)

    reload(1, 1)
    reload(broker.port, 2)
    client.wait(lambda: all(client.on(each)[-1] == b"" for each in documents))
    gateway.stop()


@pytest.mark.parametrize("after", ["", TABLE], ids=["", "described"])
@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_retained_documents_of_a_removed_field_are_cleared_when_the_broker_is_back(
    gateway, broker, peer, ends, after
):
    """Two daemons without the field start while the broker is away; the third can clear it."""
    documents = [f"edge_tvbo/k/light/{each}" for each in ("selected", "posterior")]
    client = peer(broker.port, "edge_tvbo/k/#")
    gateway.configure(extra=SECOND)
    gateway.start()
    client.wait(lambda: all(client.on(each) for each in documents))
    gateway.wait_for_checkpoint()
    gateway.stop()
    for port in (1, 1, broker.port):
        gateway.port = port
        gateway.configure(extra=after)
        gateway.start()
        gateway.wait_for_log("ready")
        if port == 1:
            getattr(gateway, ends)()
    client.wait(lambda: all(client.on(each)[-1] == b"" for each in documents))
    gateway.wait(lambda: gateway.stored_state().uncleared == [])
    gateway.stop()

    assert retained(peer, broker.port, "edge_tvbo/k/light/#") == []


@pytest.mark.parametrize("restarts", [False, True])
def test_the_retained_alert_of_a_field_that_has_no_alert_any_more_is_cleared(
    gateway, broker, peer, restarts
):
    alert = "edge_tvbo/k/lab/alert"
    client = peer(broker.port, alert)
    gateway.configure(extra="[homeassistant]\n[fields.lab.alert]\nthreshold = 25\n")
    gateway.start()
    gateway.wait_for_activations(1)
    client.wait(lambda: client.on(alert))
    gateway.configure(extra="[homeassistant]\n")
    if restarts:
        gateway.stop()
        gateway.start()
    else:
        gateway.process.send_signal(signal.SIGHUP)
    client.wait(lambda: client.on(alert)[-1] == b"")
    gateway.stop()


@pytest.mark.parametrize("table", ["[homeassistant]\n", ""])
@pytest.mark.parametrize("restarts", [True, False])
def test_retained_documents_in_a_former_unit_are_cleared(gateway, broker, peer, restarts, table):
    field = SECOND.replace("200ms", "1h").replace("[fields", f"{table}[fields")
    field += "alert = { threshold = 22.0, hysteresis = 1.0 }\n"
    documents = [
        f"edge_tvbo/k/light/{each}" for each in ("selected", "posterior", "hotspot", "alert")
    ]
    client = peer(broker.port, "edge_tvbo/k/#")
    gateway.configure(extra=f'{field}unit = "°C"')
    gateway.start()
    client.wait(lambda: client.on(documents[0]))
    for sensor in "ab":
        client.publish(f"k/{sensor}/light", "21.5")
    client.wait(lambda: all(client.on(each) for each in documents))
    if restarts:
        gateway.stop()
    gateway.configure(extra=f'{field}unit = "°F"')
    if restarts:
        gateway.start()
    else:
        gateway.process.send_signal(signal.SIGHUP)
    client.wait(lambda: all(client.on(each)[-1] == b"" for each in documents))
    gateway.stop()


@pytest.mark.parametrize("reloads", [False, True])
def test_retained_documents_in_a_former_unit_are_cleared_when_the_broker_is_back(
    gateway, broker, peer, reloads
):
    field = SECOND.replace("200ms", "1h")
    documents = [f"edge_tvbo/k/light/{each}" for each in ("selected", "posterior", "hotspot")]
    client = peer(broker.port, "edge_tvbo/k/#")
    gateway.configure(extra=f'{field}unit = "°C"')
    gateway.start()
    gateway.wait_for_activations(1)
    for sensor in "ab":
        client.publish(f"k/{sensor}/light", "21.5")
    client.wait(lambda: all("°C" in b"".join(client.on(each)).decode() for each in documents))
    gateway.stop()
    gateway.port = 1
    gateway.configure(extra=f'{field}unit = "°F"')
    gateway.start()
    gateway.wait_for_log("starts without readings", "ready")
    gateway.port = broker.port
    gateway.configure(extra=f'{field}unit = "°F"')
    if reloads:
        gateway.process.send_signal(signal.SIGHUP)
    else:
        gateway.kill()
        gateway.start()
    client.wait(lambda: all(b"" in client.on(each) for each in documents))
    gateway.wait_for_checkpoint()
    gateway.kill()
    late = peer(broker.port, "edge_tvbo/k/light/#")
    gateway.start()
    gateway.wait_for_activations(1)
    gateway.stop()

    assert not any(b"" in late.on(each) for each in documents)


@pytest.mark.acceptance(16)
def test_removing_the_device_leaves_no_message(gateway, broker, peer):
    client = peer(broker.port, "homeassistant/#")
    gateway.start()
    client.wait(lambda: client.on(TOPIC))
    early = edge_tvbo("ha", "remove", gateway.config)
    gateway.stop()
    done = edge_tvbo("ha", "remove", gateway.config)
    again = edge_tvbo("ha", "remove", gateway.config)

    assert early.returncode == 2 and "Stop the daemon first" in early.stderr
    assert (done.returncode, done.stdout) == (0, f"Removed {TOPIC}\n")
    assert again.stdout == f"There was nothing to remove on {TOPIC}\n"
    assert retained(peer, broker.port, "homeassistant/#") == []


@pytest.mark.acceptance(16)
def test_renamed_instance_is_removed_by_its_old_name(gateway, broker, peer):
    old = TOPIC.replace("_k/", "_before/")
    peer(broker.port).publish(old, b"{}", retain=True)
    done = edge_tvbo("ha", "remove", gateway.config, "--instance", "before")
    wrong = edge_tvbo("ha", "remove", gateway.config, "--instance", "+")

    assert done.stdout == f"Removed {old}\n"
    assert wrong.returncode == 2 and "--instance is '+'" in wrong.stderr
    assert retained(peer, broker.port, "homeassistant/#") == []


@pytest.mark.acceptance(16)
def test_the_device_of_a_former_prefix_is_removed(gateway, broker, peer):
    """Also while the daemon runs with another prefix, because it does not publish it again."""
    gateway.configure(extra='[homeassistant]\nprefix = "house"\n')
    client = peer(broker.port, "house/#")
    gateway.start()
    former = TOPIC.replace("homeassistant/", "house/")
    client.wait(lambda: client.on(former))
    gateway.configure(extra="[homeassistant]\n")
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for_log("reload: done")
    done = edge_tvbo("ha", "remove", gateway.config, "--prefix", "house")
    wrong = edge_tvbo("ha", "remove", gateway.config, "--prefix", "house/+")

    assert (done.stdout, done.stderr) == (f"Removed {former}\n", "")
    assert wrong.returncode == 2 and "--prefix is 'house/+'" in wrong.stderr
    assert retained(peer, broker.port, "house/#") == []


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_broker_that_forbids_the_removal_is_named(access, mosquitto, peer, tmp_path):
    """mosquitto acknowledges a message that its ACL forbids, and discards it."""
    write_passwords(tmp_path, "owner")
    rules = f"topic {access} homeassistant/#\nuser owner\ntopic readwrite #\n"
    (tmp_path / "acl").write_text(rules)
    broker = mosquitto(
        f"allow_anonymous true\npassword_file {tmp_path}/users\nacl_file {tmp_path}/acl\n"
    )
    broker.start()
    peer(broker.port, login=("owner", "hunter2")).publish(TOPIC, b"{}", retain=True)
    gateway = Gateway(tmp_path, broker.port, peer)
    gateway.configure()

    result = edge_tvbo("ha", "remove", gateway.config)

    assert (result.returncode, result.stdout) == (1, "")
    assert f"an empty message on {TOPIC} does not come back" in result.stderr
    assert "in the broker's ACL [E413]" in result.stderr


def test_the_command_of_the_install_page_clears_everything_that_the_broker_retains(
    gateway, broker, peer
):
    if shutil.which("mosquitto_sub") is None:
        pytest.skip("mosquitto_sub is not installed")
    client = peer(broker.port, "edge_tvbo/k/#", TOPIC)
    client.publish("k/a/other", b"kept", retain=True)
    documents = {f"edge_tvbo/k/{each}" for each in ("status", "health", "lab/selected")}
    gateway.start()
    client.wait(lambda: all(client.on(each) for each in (TOPIC, *documents)), 30)
    gateway.stop()
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    (line,) = re.findall(r"^    (mosquitto_sub .*)$", page, re.MULTILINE)
    command = shlex.split(line.replace("edge_tvbo/edge/", "edge_tvbo/k/").replace("_edge/", "_k/"))

    cleared = subprocess.run([*command, "-p", str(broker.port)], capture_output=True, text=True)

    assert cleared.returncode == 27
    assert {TOPIC, *documents} <= set(cleared.stdout.splitlines())
    left = peer(broker.port, "edge_tvbo/k/#", "homeassistant/device/#", "k/a/other")
    left.wait(lambda: left.on("k/a/other"))
    assert {topic for topic, _, _ in left.received} == {"k/a/other"}
    left.publish("k/a/other", b"", retain=True)


def test_unreachable_broker_is_named(gateway):
    gateway.port = 1
    gateway.configure()
    result = edge_tvbo("ha", "remove", gateway.config)

    assert result.returncode == 1
    assert result.stderr.startswith("broker 127.0.0.1:1: ")


def test_message_can_be_printed(gateway):
    shown = edge_tvbo("ha", "show", gateway.config)
    gateway.configure()
    off = edge_tvbo("ha", "show", gateway.config)

    assert "lab_hotspot" in check_message(shown.stdout)["components"]
    assert off.returncode == 2 and "[homeassistant]" in off.stderr
