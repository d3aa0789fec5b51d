"""Many gateways with the files in deploy/fleet: with bridged brokers, and with a shared broker."""

import json
import re
import shutil
import subprocess
import time
from contextlib import ExitStack

import pytest
from edge_tvbo_adapters.simulation import local_broker
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from support import certificates
from support.gateway import Daemon
from support.mosquitto import stop
from support.paths import DEPLOY
from support.ports import free_port

pytestmark = pytest.mark.broker

FLEET = DEPLOY / "fleet"
TIMEOUT_S = 60.0  # a line that was lost is tried again after a second
TRIES = 5  # of a count, until no broker stands still
MOMENT = 0.5  # s in which what is allowed has long arrived
PASSWORDS = {"lab": "changeme"}  # as gateway-bridge.conf has it; of the others their login
LENIENT = "user lab\ntopic readwrite #\nuser watcher\ntopic read #\n"
EVERYTHING = "user everything\ntopic read #\n"
CONFIG = """
instance = "lab"
commands = true
[mqtt]
port = {port}
username = "edge-tvbo"
password_file = "password"
[fields.temperature]
interval = "300ms"
reply_timeout = "300ms"
kernel = {{ name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20 }}
sensors = ["mote-1", "mote-2"]
reading = {{ topic = "lab/{{sensor}}/temperature" }}
activate = {{ mode = "live", topic = "lab/{{sensor}}/activate", payload = "1" }}
"""


class Broker:
    """A mosquitto with one of our configurations, its paths moved into a directory of its own."""

    def __init__(self, directory, text, acl, logins):
        self.port = free_port()
        self.acl = directory / acl.name
        self._directory = directory
        self._process = None
        directory.mkdir()
        passwords = directory / "passwords"
        passwords.write_text("".join(f"{each}:{PASSWORDS.get(each, each)}\n" for each in logins))
        subprocess.run(["mosquitto_passwd", "-U", passwords], check=True)
        self.acl.write_text(acl.read_text())
        text = text.replace("/etc/mosquitto", str(directory))
        text = re.sub(r"^listener .*", f"listener {self.port} 127.0.0.1", text, flags=re.M)
        (directory / "mosquitto.conf").write_text(text + "user root\n")

    def start(self):
        log = self._directory / "log"
        command = [shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin"), "-c"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, self._directory / "mosquitto.conf"], stdout=output, stderr=output
            )
        local_broker.wait_for(self._process, self.port, log)

    def allow(self, rules):
        """Add rules, which hold from the next start."""
        self.acl.write_text(self.acl.read_text() + rules)

    def kill(self):
        self._process.kill()
        self._process.wait(10)
        self._process = None

    def close(self):
        if self._process:
            self.kill()


class LoggedInClient:
    """A client with a login, and over TLS if it has a CA; it stores what it receives."""

    def __init__(self, port, login, *filters, ca=None):
        self.received = []  # (topic, payload, retained)
        self._subscribed = 0
        self.client = Client(CallbackAPIVersion.VERSION2)
        self.client.username_pw_set(login, PASSWORDS.get(login, login))
        if ca:
            self.client.tls_set(ca)
        self.client.on_connect = lambda client, *_: client.subscribe(
            [(each, 1) for each in filters or ("nothing",)]
        )
        self.client.on_subscribe = self._on_subscribe
        self.client.on_message = lambda client, userdata, message: self.received.append(
            (message.topic, message.payload.decode(), bool(message.retain))
        )
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self.wait(lambda: self._subscribed)

    def _on_subscribe(self, *_):
        self._subscribed += 1

    def topics(self):
        return {topic for topic, _, _ in self.received}

    def on(self, topic):
        """Return the payloads received on a topic."""
        return [payload for found, payload, _ in self.received if found == topic]

    def newest(self, topic):
        """Return the newest payload on a topic, or None."""
        return next(iter(self.on(topic)[::-1]), None)

    def publish(self, topic, payload):
        self.client.publish(topic, payload, qos=1).wait_for_publish(TIMEOUT_S)

    def wait(self, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, self.received[-5:]
            time.sleep(0.01)

    def close(self):
        stop(self.client)


@pytest.fixture
def stack():
    if not (shutil.which("mosquitto_passwd") and shutil.which("openssl")):
        pytest.skip("this test needs mosquitto, mosquitto_passwd and openssl")
    with ExitStack() as it:
        yield it


@pytest.fixture
def central(tmp_path, stack):
    """Return the central broker, not yet started."""
    logins = ("lab", "south", "watcher", "operator")
    text = (FLEET / "central.conf").read_text()
    broker = Broker(tmp_path / "central", text, FLEET / "central.acl", logins)
    (tmp_path / "central" / "tls").mkdir()
    certificates.server(tmp_path)
    for made, name in (
        ("ca.pem", "ca.crt"),
        ("server.pem", "broker.crt"),
        ("server.key", "broker.key"),
    ):
        shutil.copy(tmp_path / made, tmp_path / "central" / "tls" / name)
    stack.callback(broker.close)
    return broker


@pytest.fixture
def gateway(tmp_path, stack, central):
    """Return the broker of a gateway with a deciding daemon and replying sensors."""
    bridge = (FLEET / "gateway-bridge.conf").read_text()
    for ours, here in (
        ("central.example:8883", f"127.0.0.1:{central.port}"),
        ("/etc/mosquitto/tls/central-ca.crt", str(tmp_path / "ca.pem")),
        ("restart_timeout 5 60", "restart_timeout 1 1"),
    ):
        assert ours in bridge
        bridge = bridge.replace(ours, here)
    text = (DEPLOY / "mosquitto.conf").read_text() + bridge
    logins = ("edge-tvbo", "mote-1", "mote-2", "watcher")
    broker = Broker(tmp_path / "gateway", text, DEPLOY / "acl", logins)
    stack.callback(broker.close)
    broker.start()
    for login in ("mote-1", "mote-2"):
        mote = LoggedInClient(broker.port, login, f"lab/{login}/activate")
        mote.client.on_message = lambda client, userdata, message: client.publish(
            message.topic.replace("activate", "temperature"), "21.5"
        )
        stack.callback(mote.close)
    daemon = Daemon(tmp_path)
    daemon.config.write_text(CONFIG.format(port=broker.port))
    (tmp_path / "password").write_text("edge-tvbo")
    stack.callback(daemon.close)
    daemon.start()
    daemon.wait_for_log("ready:")
    return broker


@pytest.fixture
def at_the_centre(tmp_path, stack, central):
    """Return a function that makes clients of the central broker."""

    def make(login, *filters):
        each = LoggedInClient(central.port, login, *filters, ca=tmp_path / "ca.pem")
        stack.callback(each.close)
        return each

    return make


def test_the_bridge_passes_decisions_up_and_commands_down_and_no_readings(
    gateway, central, at_the_centre
):
    central.start()
    operator = at_the_centre("operator", "#")
    base = "edge_tvbo/lab"
    operator.wait(lambda: operator.newest(f"{base}/temperature/selected"))
    operator.wait(lambda: operator.newest(f"{base}/health"))
    operator.wait(lambda: operator.newest(f"{base}/status") == "online")
    operator.wait(lambda: operator.newest(f"{base}/bridge") == "1")
    operator.wait(lambda: len(operator.on(f"{base}/temperature/selected")) > 1)

    operator.publish(f"{base}/cmd/status", '{"transaction": 17}')
    operator.wait(lambda: operator.newest(f"{base}/response/status"))
    response = json.loads(operator.newest(f"{base}/response/status"))
    assert (response["status"], response["transaction"]) == ("ok", 17)
    assert "temperature" in response["data"]["selected"]
    late = at_the_centre("watcher", "#")
    late.wait(lambda: late.newest(f"{base}/temperature/selected"))
    assert next(kept for on, _, kept in late.received if on.endswith("selected"))

    operator.close()
    central.kill()
    central.allow(LENIENT)  # the bridge alone keeps below what belongs there
    central.start()
    observer = at_the_centre("watcher", "#")
    observer.wait(lambda: len(observer.on(f"{base}/temperature/selected")) > 2)
    for each in ("status", "health", "bridge", "temperature/hotspot"):
        observer.wait(lambda each=each: observer.on(f"{base}/{each}"))
    went_up = {topic.removeprefix(f"{base}/") for topic in observer.topics()}
    assert went_up - {"temperature/event"} == {
        *("status", "health", "bridge", "temperature/selected", "temperature/hotspot")
    }


def test_a_decision_sends_three_documents_and_a_gateway_retains_three_and_two_for_each_field(
    gateway, central, at_the_centre, record_property
):
    central.start()
    observer = at_the_centre("watcher", "edge_tvbo/#")
    base = "edge_tvbo/lab"
    selected, hotspot = f"{base}/temperature/selected", f"{base}/temperature/hotspot"
    observer.wait(lambda: observer.on(selected))
    for _ in range(TRIES):
        before, known = len(observer.received), len(observer.on(selected))
        observer.wait(lambda known=known: len(observer.on(selected)) >= known + 20)
        crossed = [(topic, payload) for topic, payload, _ in observer.received[before:]]
        decisions = sum(topic == selected for topic, _ in crossed)
        estimates = sum(topic == hotspot for topic, _ in crossed)
        if estimates >= 2 * decisions - 3:  # a broker that stands still gets only the newest
            break
    assert 2 * decisions - 3 <= estimates <= 2 * decisions + 3  # with the decision and the reply
    late = at_the_centre("operator", "edge_tvbo/#")
    late.wait(lambda: len(late.topics()) >= 5)
    levels = {topic.removeprefix(f"{base}/") for topic, _, kept in late.received if kept}
    assert levels == {"status", "health", "bridge", "temperature/selected", "temperature/hotspot"}
    sizes = {topic: len(payload) for topic, payload in crossed}
    record_property("sizes", sizes)
    assert max(sizes.values()) < 2000


def test_after_an_outage_of_the_bridge_only_the_newest_decision_arrives(
    gateway, central, at_the_centre
):
    central.start()
    before = at_the_centre("watcher", "edge_tvbo/#")
    before.wait(lambda: before.newest("edge_tvbo/lab/temperature/selected"))
    seen = json.loads(before.newest("edge_tvbo/lab/temperature/selected"))["interval"]
    before.close()
    central.kill()
    below = LoggedInClient(gateway.port, "watcher", "edge_tvbo/#")
    below.wait(lambda: len(below.on("edge_tvbo/lab/temperature/selected")) > 6)
    below.close()
    central.start()

    after = at_the_centre("watcher", "edge_tvbo/#")
    after.wait(lambda: after.newest("edge_tvbo/lab/temperature/selected"))
    first = after.on("edge_tvbo/lab/temperature/selected")[0]
    assert json.loads(first)["interval"] > seen + 2
    after.wait(lambda: after.newest("edge_tvbo/lab/status") == "online")
    after.wait(lambda: after.newest("edge_tvbo/lab/bridge") == "1")

    gateway.kill()
    after.wait(lambda: after.newest("edge_tvbo/lab/bridge") == "0")
    assert after.newest("edge_tvbo/lab/status") == "online"  # what it said last


def test_a_gateway_cannot_publish_for_another_at_the_central_broker(central, at_the_centre):
    central.start()
    watcher = at_the_centre("watcher", "#")
    south = at_the_centre("south", "edge_tvbo/#")
    for topic in ("status", "bridge", "temperature/selected", "cmd/pause", "response/status"):
        south.publish(f"edge_tvbo/lab/{topic}", "forged")
    watcher.publish("edge_tvbo/south/cmd/pause", "forged")
    south.publish("edge_tvbo/south/cmd/pause", "forged")
    operator = at_the_centre("operator")
    for name in ("lab", "south"):
        operator.publish(f"edge_tvbo/{name}/cmd/pause", "true")
    south.publish("edge_tvbo/south/status", "online")

    watcher.wait(lambda: watcher.newest("edge_tvbo/south/status"))  # the last to be published
    time.sleep(MOMENT)
    commands = {(f"edge_tvbo/{name}/cmd/pause", "true") for name in ("lab", "south")}
    assert {(topic, said) for topic, said, _ in watcher.received} == {
        *commands,
        ("edge_tvbo/south/status", "online"),
    }
    south.wait(lambda: south.received)
    assert south.received == [("edge_tvbo/south/cmd/pause", "true", False)]


def commented(path):
    """Return the command in the comment of a file."""
    return re.search(r"^#     (sed .*)$", path.read_text(), re.M)[1]


def active(text):
    """Return the lines of a configuration that are not comments."""
    return [line for line in text.splitlines() if line and line[0] != "#"]


def test_the_bridge_of_another_gateway_differs_only_in_its_name():
    path = FLEET / "gateway-bridge.conf"
    command = commented(path)
    printed = subprocess.run(command, shell=True, cwd=FLEET, capture_output=True, text=True).stdout

    named = [line for line in active(printed) if "north-7" in line]
    assert not re.search(r"\blab\b", "\n".join(active(printed)))
    assert active(printed.replace("north-7", "lab")) == active(path.read_text())
    assert {"connection north-7", "remote_clientid north-7", "remote_username north-7"} < {*named}
    assert "topic edge_tvbo/north-7/cmd/+ in 1" in named


def test_two_gateways_share_a_broker_without_seeing_each_others_sensors(tmp_path, stack):
    watchers = ("lab-1-watcher", "lab-2-watcher")
    sensors = ("lab-1/mote-17", "lab-2/mote-17")
    logins = ("lab-1", "lab-2", *watchers, *sensors, "operator", "everything")
    text = (
        (DEPLOY / "mosquitto.conf").read_text().replace("/mosquitto/acl", "/mosquitto/shared.acl")
    )
    broker = Broker(tmp_path / "shared", text, FLEET / "shared.acl", logins)
    stack.callback(broker.close)
    command = commented(FLEET / "shared.acl").replace("/etc/mosquitto/acl", str(broker.acl))
    subprocess.run(command, shell=True, cwd=FLEET, check=True)
    broker.allow(EVERYTHING)
    broker.start()
    observer = LoggedInClient(broker.port, "everything", "#")
    gateway = LoggedInClient(broker.port, "lab-1", "#")
    sensor = LoggedInClient(broker.port, "lab-1/mote-17", "#")
    operator = LoggedInClient(broker.port, "operator", "#")
    other = LoggedInClient(broker.port, "lab-2")
    readers = [LoggedInClient(broker.port, each, "#") for each in watchers]
    for each in (observer, gateway, sensor, operator, other, *readers):
        stack.callback(each.close)

    allowed = [
        (sensor, "lab-1/mote-17/reading"),
        (gateway, "lab-1/mote-17/activate"),
        (gateway, "edge_tvbo/lab-1/temperature/selected"),
        (gateway, "edge_tvbo/lab-1/status"),
        (other, "edge_tvbo/lab-2/status"),
        (operator, "edge_tvbo/lab-1/cmd/pause"),
    ]
    refused = [
        (sensor, "lab-1/mote-18/reading"),
        (sensor, "lab-2/mote-17/reading"),
        (sensor, "lab-1/mote-17/activate"),
        (sensor, "edge_tvbo/lab-1/temperature/selected"),
        (sensor, "edge_tvbo/lab-1/mote-17/selected"),
        (sensor, "edge_tvbo/lab-1/cmd/pause"),
        (gateway, "lab-2/mote-17/activate"),
        (gateway, "edge_tvbo/lab-2/status"),
        (operator, "lab-1/mote-17/reading"),
        (other, "edge_tvbo/lab-1/cmd/pause"),
        (readers[0], "edge_tvbo/lab-1/cmd/pause"),
        (readers[0], "edge_tvbo/lab-1/status"),
    ]
    for who, topic in refused + allowed:
        who.publish(topic, "said")

    observer.wait(lambda: len(observer.received) >= len(allowed))
    time.sleep(MOMENT)
    assert observer.topics() == {topic for _, topic in allowed}
    sensor.wait(lambda: sensor.topics() == {"lab-1/mote-17/activate"})
    gateway.wait(lambda: "lab-1/mote-17/reading" in gateway.topics())
    gateway.wait(lambda: "edge_tvbo/lab-1/cmd/pause" in gateway.topics())
    assert not [topic for topic in gateway.topics() if "lab-2" in topic]
    for reader, name in zip(readers, ("lab-1", "lab-2"), strict=True):
        own = {each for _, each in allowed if each.startswith(f"edge_tvbo/{name}/")}
        reader.wait(lambda reader=reader, own=own: reader.topics() == own)
