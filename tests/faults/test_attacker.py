"""An attacker with a valid login: what the broker's rules in deploy/ leave to a sensor."""

import json
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from edge_tvbo_adapters import brokers
from edge_tvbo_adapters.mqtt import connect
from edge_tvbo_adapters.payloads.json import make as json_format
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from edge_tvbo.messages import Notice, Notify, Reading
from edge_tvbo.ports import Broker, Wiring

pytestmark = pytest.mark.broker

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
LOGINS = ("edge-tvbo", "mote-1", "mote-2", "watcher", "operator")
PASSWORD = "correct horse {}"
GENEROUS = 20.0  # s; a busy machine takes its time
MOMENT = 0.5  # s in which what is allowed has long arrived


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Give the port of a mosquitto with the very rules in deploy/, and a login for each role."""
    mosquitto = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if not mosquitto or not shutil.which("mosquitto_passwd"):
        pytest.skip("this test wants a mosquitto and its mosquitto_passwd")
    directory = tmp_path_factory.mktemp("rules")
    port = brokers.free_port()
    passwords = directory / "passwords"
    passwords.write_text("".join(f"{name}:{PASSWORD.format(name)}\n" for name in LOGINS))
    subprocess.run(["mosquitto_passwd", "-U", passwords], check=True)
    shutil.copy(DEPLOY / "acl", directory / "acl")
    text = (DEPLOY / "mosquitto.conf").read_text()
    text = text.replace("/etc/mosquitto", str(directory))
    text = text.replace("listener 1883 ", f"listener {port} ")
    (directory / "mosquitto.conf").write_text(text + "user root\n")
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [mosquitto, "-c", directory / "mosquitto.conf"], stdout=log, stderr=log
        )
    try:
        brokers.wait_for(process, port, directory / "log")
        yield port
    finally:
        process.terminate()
        process.wait(10)


class Someone:
    """A client with a login of its own: what it hears, and whether it was let in."""

    def __init__(self, port, login, password=None, *, client_id="", filters=(), will=None):
        self.heard = []
        self.lost = threading.Event()
        self._answered = threading.Event()
        self.client = Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, reconnect_on_failure=False
        )
        self.client.username_pw_set(login, password or PASSWORD.format(login))
        if will:
            self.client.will_set(will, b"lies", qos=1, retain=True)
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda *_: self._answered.set()
        self.client.on_disconnect = lambda *_: self.lost.set()
        self.client.on_message = lambda client, userdata, message: self.heard.append(
            (message.topic, message.payload)
        )
        self.refused = False
        self._filters = [(each, 1) for each in filters]
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._answered.wait(GENEROUS)

    def _connected(self, client, userdata, flags, reason, properties):
        self.refused = reason.is_failure
        if self._filters and not self.refused:
            client.subscribe(self._filters)
        else:
            self._answered.set()

    def publish(self, topic, payload, *, retain=False):
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(GENEROUS)

    def vanish(self):
        """Go without a good-bye, so that the broker publishes the will."""
        self.client.socket().shutdown(2)
        assert self.lost.wait(GENEROUS)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def someone(port):
    """Give a maker of clients."""
    with ExitStack() as stack:

        def make(login, *args, **options):
            each = Someone(port, login, *args, **options)
            stack.callback(each.close)
            return each

        yield make


@pytest.fixture
def daemon(port):
    """Give the daemon's own link, let in, and what drives it for a moment."""
    wiring = Wiring(
        ("mote-1", "mote-2"),
        "lab/{sensor}/temperature",
        json_format({"value": "t"}),
        "lab/{sensor}/activate",
    )
    broker = Broker(
        instance="lab", port=port, username="edge-tvbo", password=PASSWORD.format("edge-tvbo")
    )
    link = connect(broker, {"temperature": wiring})
    events = []

    def drive(until, within=GENEROUS):
        deadline = time.monotonic() + within
        while not until() and time.monotonic() < deadline:
            events.extend(event for _, event in link.service(3, time.monotonic()))
            time.sleep(0.005)
        return until()

    assert drive(lambda: link.online)
    yield link, events, drive
    link.close()


def test_each_role_can_do_its_work(daemon, someone):
    link, events, drive = daemon
    mote = someone("mote-1", filters=["lab/mote-1/activate"])
    watcher = someone("watcher", filters=["edge_tvbo/#"])

    mote.publish("lab/mote-1/temperature", b'{"t": 21.5}')
    someone("operator", filters=["lab/#"]).publish("edge_tvbo/lab/cmd/why", b"")
    assert drive(lambda: events)
    assert [(each.sensor, each.value) for each in events] == [("mote-1", 21.5)]
    link.send("temperature", Notify(Notice("sensor-back", "2004-03-07T08:00:00Z", "x", "mote-1")))
    expected = {"edge_tvbo/lab/status", "edge_tvbo/lab/temperature/event"}
    assert drive(lambda: expected <= {topic for topic, _ in watcher.heard})


FORBIDDEN = [
    "lab/mote-2/temperature",  # another sensor's reading
    "lab/mote-1/temperature/x",
    "lab/mote-2/activate",  # another sensor's battery
    "lab/mote-1/activate",
    "edge_tvbo/lab/status",
    "edge_tvbo/lab/temperature/selected",
    "edge_tvbo/lab/cmd/stop",
    "edge_tvbo/other/status",
    "$SYS/broker/uptime",
    "anything",
]


def test_a_sensor_can_publish_nothing_but_its_own_readings(daemon, someone):
    _, events, drive = daemon
    ears = [
        someone("operator", filters=["edge_tvbo/#", "lab/#", "anything"]),
        someone("mote-2", filters=["lab/mote-2/activate", "#"]),
        someone("mote-1", filters=["lab/mote-1/activate", "#"]),
    ]
    attacker = ears[-1]

    for retain in (False, True):
        for topic in FORBIDDEN:
            attacker.publish(topic, b'{"t": 1000}', retain=retain)
    attacker.publish("lab/mote-1/temperature", b'{"t": 20}')

    assert drive(lambda: events)
    drive(lambda: False, MOMENT)
    assert {(each.sensor, each.value) for each in events} == {("mote-1", 20.0)}
    said = [payload for each in ears for _, payload in each.heard]
    assert b'{"t": 1000}' not in said


def test_a_sensor_hears_nothing_but_its_own_turn(daemon, someone):
    link, _, drive = daemon
    attacker = someone("mote-1", filters=["#", "$SYS/#", "lab/+/+", "edge_tvbo/lab/#"])
    other = someone("mote-2")

    other.publish("lab/mote-2/temperature", b'{"t": 20}')
    someone("operator").publish("edge_tvbo/lab/cmd/why", b"secret")
    link.send("temperature", Notify(Notice("sensor-back", "2004-03-07T08:00:00Z", "x", "mote-1")))
    drive(lambda: False, MOMENT)

    assert attacker.heard == []


def test_a_watcher_changes_nothing(daemon, someone):
    operator = someone("operator", filters=["edge_tvbo/#"])
    for topic in [*FORBIDDEN, "lab/watcher2/temperature"]:
        someone("watcher").publish(topic, b"lies")
    time.sleep(MOMENT)

    assert b"lies" not in [payload for _, payload in operator.heard]


def test_a_will_is_no_way_round_the_rules(daemon, someone):
    operator = someone("operator", filters=["edge_tvbo/#"])
    someone("mote-1", will="edge_tvbo/lab/status").vanish()
    time.sleep(MOMENT)

    assert b"lies" not in [payload for _, payload in operator.heard]


def test_the_daemons_session_cannot_be_taken_over_by_its_client_id(daemon, someone):
    link, _, drive = daemon
    ours = link._client_id
    for client_id in (ours, "edge-tvbo", "edge_tvbo-lab"):
        someone("mote-1", client_id=client_id)
        drive(lambda: False, 0.1)

    assert drive(lambda: link.online, MOMENT)
    assert not drive(lambda: not link.online, MOMENT)


def test_nobody_comes_in_without_a_login_or_with_anothers(someone):
    assert someone("mote-1", "guess").refused
    assert someone("edge-tvbo", PASSWORD.format("mote-1")).refused
    assert someone("nobody", "x").refused


def test_a_flood_within_the_rules_costs_others_nothing(daemon, someone):
    _, events, drive = daemon
    attacker, other = someone("mote-1"), someone("mote-2")
    for i in range(3000):
        attacker.client.publish("lab/mote-1/temperature", json.dumps({"t": i % 50}), qos=0)
    attacker.client.publish("lab/mote-1/temperature", b"x" * 100_000)  # refused, and hung up on

    began = time.monotonic()
    other.publish("lab/mote-2/temperature", b'{"t": 20}')
    assert drive(lambda: any(isinstance(e, Reading) and e.sensor == "mote-2" for e in events))
    assert time.monotonic() - began < GENEROUS / 2
