"""MQTT link over a real mosquitto: readings, publications, outages, invalid packets."""

import json
import logging
import selectors
import subprocess
import sys
import time
from math import inf
from random import Random

import pytest
from edge_tvbo_adapters.homeassistant.discovery import COPY_TIMEOUT_S, Discovery
from edge_tvbo_adapters.mqtt.link import STATUS_PERIOD_S, MqttLink
from edge_tvbo_adapters.mqtt.outbox import MAX_IN_FLIGHT
from edge_tvbo_adapters.mqtt.subscription import SUBSCRIBE_AGAIN_S
from edge_tvbo_adapters.simulation import local_broker
from edge_tvbo_adapters.simulation.virtual_sensors import SensorConnection, network
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from support.examples import max_examples
from support.link import (
    ACCEPTED,
    ASK,
    LAB,
    READ,
    STAMPED,
    FakeBroker,
    cut,
    decision,
    health,
    link_to,
    logged,
    strict,
)
from support.mosquitto import TIMEOUT_S
from support.paths import ROOT
from support.settings import field_settings, mqtt_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.config.settings import HomeAssistant
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.commands import Activate, Notify
from edge_tvbo.messages.documents import Notice
from edge_tvbo.messages.events import Reading, Unreadable

# --- in and out -----------------------------------------------------------------------------


def test_readings_arrive_in_order_with_their_time(broker, drive, peer):
    driver = drive(link_to(broker.port))
    driver.online()
    sender = peer(broker.port)
    for i in range(600):
        sender.client.publish("lab/a/reading", f'{{"t": {i}, "ts": {1000 + i}}}', qos=1)
    driver.until(lambda: len(driver.events) == 600)
    assert {field for field, _ in driver.events} == {"lab"}
    readings = [event for _, event in driver.events]
    assert [each.value for each in readings] == list(range(600))
    assert [each.at for each in readings] == list(range(1000, 1600))
    assert all(each.stamped and not each.retained and each.sensor == "a" for each in readings)
    assert all(abs(each.received - time.time()) < 60 for each in readings)


@pytest.mark.acceptance(7)
def test_a_retained_reading_is_marked_as_retained(broker, drive, peer):
    sender = peer(broker.port)
    field = field_settings(("a",), "kept/{sensor}/reading", ("json", {"value": "t"}))
    sender.publish("kept/a/reading", '{"t": 5}', retain=True)
    driver = drive(link_to(broker.port, field=field))
    driver.until(lambda: driver.events)
    sender.publish("kept/a/reading", '{"t": 6}', retain=True)
    driver.until(lambda: len(driver.events) == 2)
    first, second = (event for _, event in driver.events)
    assert (first.value, first.retained, first.stamped) == (5.0, True, False)
    assert first.at == first.received
    assert (second.value, second.retained) == (6.0, False)
    sender.publish("kept/a/reading", b"", retain=True)


def test_at_debug_level_the_log_has_each_step_and_message_of_a_session(broker, drive, peer, caplog):
    caplog.set_level(logging.DEBUG, "edge_tvbo_adapters.mqtt")
    driver = drive(link_to(broker.port, instance="debug"))
    driver.online()
    peer(broker.port).publish("lab/a/reading", '{"t": 5, "ts": 6}')
    driver.until(lambda: driver.events)
    name = f"broker 127.0.0.1:{broker.port}"
    steps = [
        f"{name}: connecting",
        f"{name}: the session has begun, with MQTT 3.1.1",
        "published on edge_tvbo/debug/status: 6 bytes",
        f"{name}: the subscription is granted",
        "received on lab/a/reading: 17 bytes",
    ]
    assert [each for each in logged(caplog, logging.DEBUG) if each in steps] == steps


def test_published_documents_are_strict_json_and_only_states_are_retained(broker, drive, peer):
    before = peer(broker.port, "edge_tvbo/out/#", "lab/+/activate")
    link = link_to(broker.port, instance="out")
    driver = drive(link)
    driver.online()
    notice = Notify(Notice("sensor-lost", "2004-03-07T08:00:00Z", "a is silent", "a"))
    for command in (decision(), notice, Activate("b", 7, 600.0, 660.0)):
        link.send("lab", command)
    link.report(health())
    base = "edge_tvbo/out"
    topics = {f"{base}/lab/selected", f"{base}/lab/event", f"{base}/health", f"{base}/status"}
    expected = topics | {f"{base}/lab/alert", "lab/b/activate"}
    driver.until(lambda: expected == {topic for topic, *_ in before.received})
    assert before.on(f"{base}/lab/alert") == [b""]  # this field has no alert
    selected = strict(before.on(f"{base}/lab/selected")[0])
    assert (selected["sensor"], selected["unit"], selected["reason"]) == ("a", "°C", "exploit")
    event = strict(before.on(f"{base}/lab/event")[0])
    assert (event["event"], event["sensor"]) == ("sensor-lost", "a")
    assert strict(before.on(f"{base}/health")[0])["fields"]["lab"]["answered"] == 1
    assert strict(before.on("lab/b/activate")[0]) == {"id": "b", "at": 600}
    assert before.on(f"{base}/status") == [b"online"]
    after = peer(broker.port, "edge_tvbo/out/#", "lab/+/activate")
    after.wait(lambda: len(after.received) >= 3)
    driver.for_seconds(0.2)
    assert {topic for topic, *_ in after.received} == topics - {f"{base}/lab/event"}
    assert all(retained for *_, retained in after.received)


def test_nan_is_published_as_null(broker, drive, peer):
    watcher = peer(broker.port)
    link = link_to(broker.port, instance="nan")
    driver = drive(link)
    driver.online()
    link.send("lab", decision(mean=float("nan")))
    driver.until(lambda: watcher.on("edge_tvbo/nan/lab/selected"))
    assert strict(watcher.on("edge_tvbo/nan/lab/selected")[0])["mean"] is None


def test_a_sensor_that_the_field_does_not_have_is_never_activated(broker, drive, peer):
    watcher = peer(broker.port, "lab/#")
    link = link_to(broker.port)
    driver = drive(link)
    driver.online()
    for sensor in ("c", "a/x", "#", ""):
        link.send("lab", Activate(sensor, 1, 0.0, 1.0))
    link.send("lab", Activate("a", 1, 0.0, 1.0))
    driver.until(lambda: watcher.received)
    driver.for_seconds(0.1)
    assert [topic for topic, *_ in watcher.received] == ["lab/a/activate"]


# --- hostile messages -----------------------------------------------------------------------

odd = st.text(st.characters(exclude_characters="/+#\0", exclude_categories=["Cs", "Cc", "Cn"]))
hostile = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "unknown"]) | odd.map(lambda text: text[:20]),
        st.binary(max_size=200) | st.text(max_size=100).map(str.encode),
    ),
    max_size=10,
)


@max_examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(hostile)
@example(
    [
        ("a", b"NaN"),
        ("a", b"Infinity"),
        ("a", b"21,3"),
        ("a", b"\xff\xfe"),
        ("a", b""),
        ("a", b"x" * 2_000_000),
        ("a", b"[" * 10_000 + b"]" * 10_000),
        ("a", b'{"t": ' * 10_000),
        ("unknown", b'{"t": 1, "ts": 2}'),
        ("Büro 7 ${x} {sensor} %s", b'{"t": 1, "ts": 2}'),
        ("", b'{"t": 1, "ts": 2}'),
        ("a", b'{"t": 1e308, "ts": -1e308}'),
    ]
)
def test_any_message_becomes_a_reading_or_a_reason(broker, loud, messages):
    driver, sender = loud
    driver.events.clear()
    for sensor, payload in messages:
        sender.client.publish(f"lab/{sensor}/reading", payload, qos=1)
    driver.until(lambda: len(driver.events) == len(messages))
    for (sensor, payload), (field, event) in zip(messages, driver.events, strict=True):
        assert field == "lab"
        if isinstance(event, Reading):
            assert event.sensor == sensor
        else:
            assert isinstance(event, Unreadable)
            unknown = set() if sensor in ("a", "b") else {"unknown-sensor"}
            assert event.reason in HOSTILE_REASONS | unknown
            assert event.topic == f"lab/{sensor}/reading"[:200]
            assert len(event.detail) <= 200
            assert (event.reason == "too-large") == (len(payload) > 64 * 1024)
    assert all(link.online for link in driver.links)


HOSTILE_REASONS = {
    "bad-time",
    "empty",
    "missing-time",
    "missing-value",
    "naive-time",
    "non-finite",
    "not-a-number",
    "not-json",
    "not-utf8",
    "too-deep",
    "too-large",
}


@pytest.fixture
def loud(broker, drive, peer):
    """Return a driver with one link that is online, and a peer that publishes to it.

    In MQTT 5, the broker would keep a payload above the limit.
    """
    driver = drive(link_to(broker.port, version="3.1.1"))
    driver.online()
    return driver, peer(broker.port)


def test_each_invalid_payload_has_its_own_reason(loud):
    driver, sender = loud
    expected = {
        b"NaN": "non-finite",
        b"Infinity": "non-finite",
        b"21,3": "not-json",
        b'{"t": "21,3", "ts": 0}': "not-a-number",
        b"\xff\xfe": "not-utf8",
        b"": "empty",
        b"x" * 2_000_000: "too-large",
        b"[" * 10_000: "too-deep",
    }
    for payload in expected:
        sender.client.publish("lab/a/reading", payload, qos=1)
    driver.until(lambda: len(driver.events) == len(expected))
    assert [event.reason for _, event in driver.events] == list(expected.values())


# --- connecting, closing and reconnecting -----------------------------------------------------


def test_the_broker_publishes_offline_when_the_connection_breaks(broker, drive, peer):
    watcher = peer(broker.port)
    link = link_to(broker.port, instance="will")
    driver = drive(link)
    driver.online()
    watcher.wait(lambda: watcher.on("edge_tvbo/will/status") == [b"online"])
    cut(link)
    watcher.wait(lambda: watcher.on("edge_tvbo/will/status")[1:] == [b"offline"])
    driver.until(lambda: watcher.on("edge_tvbo/will/status")[2:] == [b"online"])
    driver.online()


def test_online_is_published_again_after_a_second_daemon_of_the_instance_has_stopped(
    broker, drive, peer
):
    watcher = peer(broker.port)
    link = link_to(broker.port, instance="moved")
    former = link_to(broker.port, instance="moved", client_id="former-machine")
    driver = drive(link, former)
    driver.online()  # an unanswered subscription would be overdue ten minutes later
    watcher.wait(lambda: watcher.on("edge_tvbo/moved/status") == [b"online", b"online"])
    former.close()
    watcher.wait(lambda: b"offline" in watcher.on("edge_tvbo/moved/status"))
    list(link.service(0, time.monotonic() + STATUS_PERIOD_S))
    watcher.wait(lambda: watcher.on("edge_tvbo/moved/status")[-1] == b"online")
    list(link.service(0, time.monotonic() + STATUS_PERIOD_S))
    link.close()
    watcher.wait(lambda: watcher.on("edge_tvbo/moved/status")[-1] == b"offline")
    statuses = watcher.on("edge_tvbo/moved/status")
    assert statuses[statuses.index(b"offline") :] == [b"offline", b"online", b"offline"]


def test_closing_publishes_offline_once_and_closes_the_socket(broker, drive, peer):
    watcher = peer(broker.port)
    link = link_to(broker.port, instance="bye")
    driver = drive(link)
    driver.online()
    link.send("lab", decision())
    link.close()
    watcher.wait(lambda: watcher.on("edge_tvbo/bye/status") == [b"online", b"offline"])
    watcher.publish("edge_tvbo/last", b"")
    watcher.wait(lambda: watcher.on("edge_tvbo/last"))
    assert watcher.on("edge_tvbo/bye/status") == [b"online", b"offline"]
    assert watcher.on("edge_tvbo/bye/lab/selected")
    assert link.interest() is None
    assert not link.online
    link.close()


def test_a_link_without_a_broker_can_be_closed(mosquitto, drive):
    link = link_to(mosquitto().port)
    link.close()
    driver = drive(link_to(mosquitto().port))
    driver.for_seconds(0.2)


def test_after_a_restart_of_the_broker_the_newest_states_are_published_and_readings_arrive(
    mosquitto, drive, peer, caplog
):
    caplog.set_level(logging.INFO)
    broker = mosquitto()
    broker.start()
    link = link_to(broker.port, instance="back")
    driver = drive(link)
    driver.online()
    link.send("lab", decision(1, "a"))
    link.report(health(1))
    driver.for_seconds(0.1)
    broker.stop()
    driver.until(lambda: not link.online)
    link.send("lab", decision(2, "b"))
    link.send("lab", decision(3, "a"))
    link.report(health(3))
    link.send("lab", Activate("a", 3, 600.0, 660.0))
    notice = Notify(Notice("all-suspect", "2004-03-07T08:00:00Z", "no sensor replies"))
    link.send("lab", notice)
    driver.for_seconds(0.5)
    broker.start()
    watcher = peer(broker.port, "edge_tvbo/#", "lab/+/activate")
    driver.online()
    topics = {f"edge_tvbo/back/{each}" for each in ("status", "health", "lab/selected")}
    driver.until(lambda: topics <= {topic for topic, *_ in watcher.received})
    driver.until(lambda: watcher.on("edge_tvbo/back/lab/event"))
    assert [strict(each)["interval"] for each in watcher.on("edge_tvbo/back/lab/selected")] == [3]
    watcher.publish("lab/a/reading", '{"t": 1, "ts": 2}')
    driver.until(lambda: driver.events)
    driver.for_seconds(0.2)
    assert watcher.on("lab/a/activate") == []  # its time is over
    later = peer(broker.port)
    later.wait(lambda: topics == {topic for topic, *_ in later.received})
    assert all(retained for *_, retained in later.received)
    assert len(logged(caplog)) <= 2  # the connection was lost, and then refused
    assert len(
        [line for line in logged(caplog, logging.INFO) if "lost activations and notices: 1" in line]
    )
    assert link.status().lost == 1


def test_a_broker_that_starts_later_is_one_error_and_then_one_connection(mosquitto, drive, caplog):
    caplog.set_level(logging.INFO)
    broker = mosquitto()
    link = link_to(broker.port)
    driver = drive(link)
    driver.until(lambda: logged(caplog))
    driver.for_seconds(1.0)
    assert not link.online
    (line,) = logged(caplog)
    assert f"127.0.0.1:{broker.port}: the connection is refused" in line
    broker.start()
    driver.online()
    assert len(logged(caplog)) == 1
    assert len([each for each in logged(caplog, logging.INFO) if "connected" in each]) == 1


def test_an_unknown_host_is_logged_and_does_not_stop_the_link(drive, caplog):
    mqtt = mqtt_settings(1883, host="no host", reconnect_min=0.05)
    link = MqttLink(mqtt, "x", {"lab": LAB})
    driver = drive(link)
    driver.until(lambda: logged(caplog))
    assert "mqtt.host" in logged(caplog)[0]


@pytest.mark.parametrize(
    ("user", "password"), [("daemon", "wrong"), ("unknown", "right"), (None, None)]
)
def test_a_wrong_login_is_logged_with_its_settings(
    mosquitto, drive, caplog, tmp_path, user, password
):
    accounts = tmp_path / "accounts"
    subprocess.run(["mosquitto_passwd", "-b", "-c", accounts, "daemon", "right"], check=True)
    broker = mosquitto(f"allow_anonymous false\npassword_file {accounts}\n")
    broker.start()
    refused = drive(link_to(broker.port, username=user, password=password))
    refused.until(lambda: logged(caplog))
    refused.for_seconds(0.5)
    (line,) = logged(caplog)
    assert "not authorised" in line or "wrong user or password" in line
    assert "mqtt.username" in line
    drive(link_to(broker.port, username="daemon", password="right")).online()


def test_two_links_with_one_client_id_each_log_it_once(broker, drive, caplog):
    caplog.set_level(logging.INFO)
    options = {"client_id": "twin", "reconnect_min": 0.02, "reconnect_max": 0.2}
    driver = drive(link_to(broker.port, **options), link_to(broker.port, **options))

    def naming():
        return [line for line in logged(caplog) if "'twin'" in line and "mqtt.client_id" in line]

    driver.until(naming)
    connected = [line for line in logged(caplog, logging.INFO) if "connected" in line]
    assert len(connected) <= 8
    driver.for_seconds(2.0)
    assert len(naming()) <= 2


def test_an_outage_after_short_sessions_is_not_logged_as_a_duplicate_client_id(
    mosquitto, drive, caplog
):
    broker = mosquitto()
    broker.start()
    link = link_to(broker.port)
    driver = drive(link)
    for _ in range(2):
        driver.online()
        cut(link)
        driver.until(lambda: not link.online)
    driver.online()
    broker.stop()
    driver.until(lambda: logged(caplog))
    (line,) = logged(caplog)
    assert "refused" in line


# --- a server that is not a broker ------------------------------------------------------------


@max_examples(150, deadline=None)
@given(st.booleans(), st.binary(min_size=1, max_size=60))
@example(False, b"HTTP/1.1 400 Bad Request\r\n\r\n")
@example(False, b"\x20\x02\x00\x07")  # a CONNACK with an unknown reason
@example(False, b"\x20\x01\x00")
@example(True, ACCEPTED)
@example(True, b"\x90\x03\x00\x01\x55")  # a SUBACK with an unknown grant
@example(True, b"\x90\x02\x00\x01")
@example(True, b"\x90\x05\x00\x01\x01\x01\x01")  # more grants than filters
@example(True, b"\x32\x05\x00\x09lab")
@example(True, b"\x30\x04\x00\x02\xff\xfe")
@example(True, b"\x40\x01\x00")
@example(True, b"\xff\xff\xff\xff\xff\xff")
def test_invalid_mqtt_packets_end_only_the_session(accepted, noise):
    with FakeBroker() as fake_broker:
        fake_broker.send(ACCEPTED * accepted + noise, and_close=True)
        fake_broker.until(lambda: fake_broker.link.interest() is None)


def test_a_refused_subscription_is_logged_and_the_link_is_not_online(caplog):
    with FakeBroker() as fake_broker:
        fake_broker.send(ACCEPTED + b"\x90\x03\x00\x01\x80")
        fake_broker.until(lambda: logged(caplog))
        (line,) = logged(caplog)
        assert "lab/+/reading" in line
        assert "ACL" in line
        assert not fake_broker.link.online


@pytest.mark.slow
def test_a_refused_subscription_is_repeated_without_the_discovery_message(caplog):
    discovery = Discovery("lab", HomeAssistant(), {"components": {}}, Random(0))
    with FakeBroker(discovery=discovery) as fake_broker:
        fake_broker.send(ACCEPTED + b"\x90\x05\x00\x01\x80\x80\x80")
        fake_broker.until(lambda: logged(caplog))
        fake_broker.until(lambda: b'{"components":{}}' in fake_broker.received())
        again = time.monotonic() + SUBSCRIBE_AGAIN_S
        for now in (again, again + COPY_TIMEOUT_S):
            list(fake_broker.link.service(0, now))
        fake_broker.until(lambda: fake_broker.received().count(b"lab/+/reading") == 2)
        assert fake_broker.received().count(b'{"components":{}}') == 1


def test_obsolete_entities_are_removed_although_the_connection_breaks(
    broker, drive, peer, monkeypatch
):
    message = {"components": {"new": {"platform": "sensor", "name": "n" * 40_000}}}
    obsolete = {f"old_{n}": {"platform": "sensor", "name": "Old"} for n in range(1000)}
    discovery = Discovery("breaks", HomeAssistant(), message, Random(0))
    client = peer(broker.port, discovery.topic)
    copy = json.dumps({"components": obsolete}).encode()
    client.publish(discovery.topic, copy, retain=True)
    client.wait(lambda: client.on(discovery.topic))

    def removed():
        messages = (json.loads(each)["components"] for each in client.on(discovery.topic)[1:])
        return {key for each in messages for key in each if each[key] == {"platform": "sensor"}}

    driver = drive(link := link_to(broker.port, discovery=discovery))
    with monkeypatch.context() as until_the_cut:
        until_the_cut.setattr("edge_tvbo_adapters.homeassistant.discovery.SETTLE_S", inf)
        driver.until(removed)
        assert not removed() >= obsolete.keys()
        cut(link)
    driver.until(lambda: removed() == obsolete.keys())
    client.publish(discovery.topic, b"", retain=True)


def test_documents_are_cleared_if_a_reload_ends_the_discovery_that_removes_their_field(
    broker, drive, peer, monkeypatch
):
    monkeypatch.setattr("edge_tvbo_adapters.homeassistant.discovery.SETTLE_S", inf)
    document = "edge_tvbo/ends/light/selected"
    discovery = Discovery("ends", HomeAssistant(), {"components": {}}, Random(0))
    client = peer(broker.port, discovery.topic, document)
    copy = {"components": {"light_selected": {"platform": "sensor", "name": "Light"}}}
    client.publish(discovery.topic, json.dumps(copy), retain=True)
    client.publish(document, "{}", retain=True)
    client.wait(lambda: client.on(document))
    driver = drive(link := link_to(broker.port, instance="ends", discovery=discovery))
    driver.until(lambda: discovery.removed)
    driver = drive(link_to(broker.port, instance="ends", former=link.former))
    driver.until(lambda: client.on(document)[-1] == b"")
    client.publish(discovery.topic, b"", retain=True)


def test_a_refused_subscription_to_commands_is_logged_and_the_link_is_online(caplog):
    with FakeBroker(commands=True) as fake_broker:
        fake_broker.send(ACCEPTED + b"\x90\x04\x00\x01\x01\x80")
        fake_broker.until(lambda: fake_broker.link.online)
        (line,) = caplog.messages
        assert "/cmd/+" in line
        assert "ACL" in line


def test_the_link_is_online_after_a_granted_subscription():
    with FakeBroker() as fake_broker:
        fake_broker.send(ACCEPTED + b"\x90\x03\x00\x01\x01")
        fake_broker.until(lambda: fake_broker.link.online)
        list(fake_broker.link.service(0, time.monotonic() + 11))
        assert fake_broker.link.online


@pytest.mark.parametrize(
    ("keepalive", "alive"),
    [
        (b"", [True, False, False]),  # 30 s, the setting
        (b"\x13\x00\x05", [False, False, False]),
        (b"\x13\x0e\x10", [True, True, False]),  # an hour
        (b"\x13\x00\x00", [True, True, True]),  # the broker wants no pings
    ],
)
def test_the_link_is_alive_for_two_keepalives_of_the_broker(keepalive, alive):
    with FakeBroker(version="5") as fake_broker:
        fake_broker.until(fake_broker.received)
        connack = b"\x00\x00" + bytes([len(keepalive)]) + keepalive
        fake_broker.send(b"\x20" + bytes([len(connack)]) + connack)
        fake_broker.until(lambda: b"lab/+/reading" in fake_broker.received())
        now = time.monotonic()
        assert [fake_broker.link.alive(now + s) for s in (30.0, 600.0, 10_000.0)] == alive


@pytest.mark.slow
def test_closing_sends_no_disconnect_if_the_broker_has_not_acknowledged_offline():
    """Without DISCONNECT, the broker publishes the will, which is offline, too."""
    with FakeBroker() as fake_broker:
        fake_broker.send(ACCEPTED + b"\x90\x03\x00\x01\x01")
        fake_broker.until(lambda: fake_broker.link.online)
        fake_broker.until(lambda: b"online" in fake_broker.received())
        for n in range(MAX_IN_FLIGHT):
            fake_broker.link.announce(Notice("clock-step", "2004-03-07T08:00:00Z", str(n)))
        before = len(fake_broker.received())
        fake_broker.link.close()
        assert fake_broker.received()[before:] == b""  # neither offline nor DISCONNECT


def test_the_session_ends_if_the_broker_never_answers_the_subscription(caplog):
    caplog.set_level(logging.INFO)
    with FakeBroker() as fake_broker:
        fake_broker.send(ACCEPTED)
        fake_broker.until(lambda: b"lab/+/reading" in fake_broker.received())
        assert fake_broker.link.interest() is not None
        list(fake_broker.link.service(0, time.monotonic() + 11))
        assert fake_broker.link.interest() is None
        assert "subscription" in logged(caplog)[0]


def test_an_unanswered_subscription_is_logged_even_if_the_link_never_waits_long(caplog):
    with FakeBroker(reconnect_min=0.1, reconnect_max=0.1) as fake_broker:
        fake_broker.send(ACCEPTED)
        fake_broker.until(lambda: b"lab/+/reading" in fake_broker.received())
        list(fake_broker.link.service(0, time.monotonic() + 11))
        assert "subscription" in logged(caplog)[0]


# --- simulated sensors ------------------------------------------------------------------------


@pytest.fixture
def nodes():
    """Yield a function that starts a process of simulated sensors; it is terminated at the end."""
    processes = []

    def start(port):
        command = [sys.executable, "-m", "edge_tvbo", "simulate", "--dataset", "lab-sample"]
        process = subprocess.Popen(
            [*command, "--gaps", "silent", "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        processes.append(process)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            assert selector.select(60), "the sensors were not ready in 60 s"
        line = process.stdout.readline()
        assert line.startswith("ready: "), line + process.stderr.read()
        return process

    yield start
    for process in processes:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def recording():
    """Return the recording that the simulated sensors replay."""
    from edge_tvbo_adapters.datasets import lab_sample

    return lab_sample.dataset.load([])


def test_a_simulated_sensor_replies_for_the_given_interval_and_not_in_a_gap(
    mosquitto, drive, nodes
):
    lab = recording()
    arm = next(i for i in range(len(lab.sensors)) if 0 < lab.observed[:, i].sum() < len(lab.values))
    gap = int((~lab.observed[:, arm]).argmax())
    row = int(lab.observed[:, arm].argmax())
    sensor = lab.sensors[arm]
    activate = ActivateSettings(mode="live", topic=ASK, payload='{"at": {at}}')
    field = field_settings(lab.sensors, READ, STAMPED, activate=activate)
    broker = mosquitto()
    broker.start()
    process = nodes(broker.port)
    link = link_to(broker.port, field=field)
    driver = drive(link)
    driver.online()

    def activate_at(which):
        at = lab.start + which * lab.interval
        link.send("lab", Activate(sensor, which, at, at + 1))
        return at

    activate_at(gap)
    activate_at(len(lab.values))  # after the end of the recording
    at = activate_at(row)
    driver.until(lambda: driver.events)
    driver.for_seconds(0.3)
    ((_, answer),) = driver.events
    assert (answer.sensor, answer.at, answer.stamped) == (sensor, at, True)
    assert answer.value == pytest.approx(float(lab.values[row, arm]))

    broker.stop()
    driver.until(lambda: not link.online)
    broker.start()
    driver.online()

    def answered_again():
        activate_at(row)
        driver.for_seconds(0.2)
        return len(driver.events) > 1

    driver.until(answered_again)
    assert process.poll() is None


def test_simulated_sensors_survive_invalid_activations(mosquitto, nodes, peer):
    broker = mosquitto()
    broker.start()
    process = nodes(broker.port)
    lab = recording()
    sender = peer(broker.port, "lab/+/reading")
    topic = f"lab/{lab.sensors[0]}/activate"
    deep = b'{"x": ' + b"[" * 100_000
    for payload in (b"", b"\xff", b"1", b"{}", b'{"at": 1e999}', b'{"at": null}', deep):
        sender.publish(topic, payload)
    row = int(lab.observed[:, 0].argmax())
    sender.publish(topic, json.dumps({"at": lab.start + row * lab.interval}))
    sender.wait(lambda: sender.received)
    assert process.poll() is None


def test_a_connection_can_reuse_the_descriptor_of_a_closed_one(mosquitto):
    broker = mosquitto()
    broker.start()
    there = mqtt_settings(broker.port)
    lab = network(recording(), ["lab"], READ, ASK)
    connections = [
        SensorConnection({topic: lab[topic]}, there, number)
        for number, topic in enumerate(list(lab)[:2])
    ]
    deadline = time.monotonic() + TIMEOUT_S

    def turn(selector):
        assert time.monotonic() < deadline
        for key, mask in selector.select(0.05):
            key.data.service(mask, selector)

    def reconnect(selector, order):
        while not all(each.subscribed for each in order):
            for each in order:
                each.keep_connected(selector)
            turn(selector)

    with selectors.DefaultSelector() as selector:
        reconnect(selector, connections)
        broker.stop()
        broker.start()
        while any(each.subscribed for each in connections):
            turn(selector)
        reconnect(selector, connections[::-1])
        for each in connections:
            each.disconnect()


def test_a_local_broker_on_a_used_port_is_an_error(broker):
    with (
        pytest.raises(EdgeTvboError, match=f"Port {broker.port} "),
        local_broker.start(broker.port),
    ):
        pass
