"""MQTT 5 with a real mosquitto: expiring commands, packet sizes, reasons of refusals and ends."""

import logging
import time
from contextlib import closing
from random import Random
from threading import Event

import pytest
from edge_tvbo_adapters.homeassistant.discovery import Discovery
from edge_tvbo_adapters.mqtt import backoff, reconnection
from edge_tvbo_adapters.mqtt import link as link_module
from edge_tvbo_adapters.mqtt.link import MqttLink
from edge_tvbo_adapters.mqtt.session import CONNACK_5_TIMEOUT_S, SessionState
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from support.link import cut, decision, health, link_to, logged
from support.mosquitto import TIMEOUT_S, stop
from support.proxy import Proxy
from support.settings import field_settings, mqtt_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.config.settings import HomeAssistant
from edge_tvbo.daemon.clock import LiveClock
from edge_tvbo.daemon.status import StatusCollector
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.documents import Notice, PublishedPosterior


class Sensor:
    """A sensor that speaks MQTT 5, and keeps each command with the seconds that it is valid for."""

    def __init__(self, port, topic):
        self.commands = []
        ready = Event()
        self.client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self.client.on_connect = lambda client, *_: client.subscribe(topic, 1)
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.on_message = self._take
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert ready.wait(TIMEOUT_S)

    def _take(self, client, userdata, message):
        expiry = getattr(message.properties, "MessageExpiryInterval", None)
        self.commands.append((message.payload, message.retain, expiry))

    def close(self):
        stop(self.client)


def field(mode):
    """Return the settings of a field whose sensors are activated for at most 60 s."""
    activate = ActivateSettings(mode=mode, topic=f"{mode}/{{sensor}}/go", payload="measure")
    return field_settings(("a", "b"), f"{mode}/{{sensor}}/t", activate=activate)


@pytest.mark.parametrize(
    ("mode", "is_retained", "valid_s"), [("live", False, 30), ("sleepy", True, 60)]
)
def test_brokers_delete_a_command_when_its_time_is_over(broker, drive, mode, is_retained, valid_s):
    """A sensor that is awake must have half of the time that it may take to reply."""
    link = link_to(broker.port, field=field(mode), version="5")
    driver = drive(link)
    driver.online()
    began = time.monotonic()
    with closing(Sensor(broker.port, f"{mode}/a/go")) as sensor:
        link.send("lab", Activate("a", 1, at=0.0, expires_at=60.0))
        driver.until(lambda: sensor.commands)
    if is_retained:
        with closing(Sensor(broker.port, f"{mode}/a/go")) as sensor:
            driver.until(lambda: sensor.commands)
    ((payload, retained, expiry),) = sensor.commands
    assert (payload, retained) == (b"measure", is_retained)
    assert valid_s - (time.monotonic() - began) <= expiry <= valid_s + 1  # in whole seconds


def test_a_broker_that_spoke_mqtt_5_may_accept_a_later_session_slowly(broker, drive):
    with closing(Proxy(broker.port)) as proxy:
        link = link_to(proxy.port, version="5")
        driver = drive(link)
        driver.online()
        proxy.frozen = True
        cut(link)
        awaits = SessionState.AWAITING_CONNACK
        driver.until(lambda: link._session is not None and link._session.state is awaits)
        list(link.service(0, time.monotonic() + CONNACK_5_TIMEOUT_S))
        assert link._session.state is awaits
        proxy.frozen = False
        driver.online()
        assert link._session.version == "5"


def test_waiting_commands_of_the_quantities_of_a_device_do_not_replace_each_other(
    mosquitto, drive, peer
):
    """The broker accepts one unacknowledged message, so two of the three commands wait."""
    broker = mosquitto("allow_anonymous true\nmax_inflight_messages 1\n")
    broker.start()
    topic = "zigbee2mqtt/{sensor}/get"
    commands = {name: f'{{"{name}": ""}}' for name in ("temperature", "humidity", "pressure")}
    fields = {
        name: field_settings(
            ("a",),
            f"{name}/{{sensor}}",
            activate=ActivateSettings(mode="live", topic=topic, payload=payload),
        )
        for name, payload in commands.items()
    }
    sensor = peer(broker.port, "zigbee2mqtt/a/get")
    link = MqttLink(mqtt_settings(broker.port, version="5"), "quantities", fields)
    driver = drive(link)
    driver.until(lambda: link.online and link._outbox.empty)
    for name in fields:
        link.send(name, Activate("a", 1, 0.0, 60.0))
    driver.until(lambda: len(sensor.received) == 3)
    assert [payload.decode() for _, payload, _ in sensor.received] == list(commands.values())


def test_documents_do_not_expire(broker, drive):
    link = link_to(broker.port, version="5", instance="stays")
    driver = drive(link)
    driver.online()
    with closing(Sensor(broker.port, "edge_tvbo/stays/lab/selected")) as watcher:
        link.send("lab", decision())
        driver.until(lambda: watcher.commands)
    assert watcher.commands[0][2] is None


def test_a_refused_message_is_logged_once_with_the_reason(mosquitto, drive, caplog, tmp_path):
    allowed = ("readwrite edge_tvbo/+/status", "write edge_tvbo/+/event", "read lab/#")
    (tmp_path / "acl").write_text("".join(f"topic {each}\n" for each in allowed))
    broker = mosquitto(f"allow_anonymous true\nacl_file {tmp_path / 'acl'}\n")
    broker.start()
    link = link_to(broker.port, version="5", instance="acl")
    driver = drive(link)
    driver.online()
    for _ in range(3):
        link.send("lab", decision())
        driver.until(lambda: link._outbox.empty)
    lines = logged(caplog, logging.WARNING)
    assert len([each for each in lines if "lab/selected (Not authorized)" in each]) == 1
    assert len(lines) == 2  # nor can the alert of an earlier configuration be cleared
    assert link.online


@pytest.mark.parametrize(
    "topic",
    [
        "edge_tvbo/acl/status",
        "edge_tvbo/acl/health",
        "edge_tvbo/acl/lab/selected",
        "homeassistant/device/edge_tvbo_acl/config",
    ],
)
def test_a_refused_document_is_a_notice_and_a_problem_until_it_is_accepted(
    mosquitto, drive, caplog, peer, tmp_path, monkeypatch, topic
):
    monkeypatch.setattr("edge_tvbo_adapters.homeassistant.discovery.COPY_TIMEOUT_S", 0.1)
    caplog.set_level(logging.INFO)
    acl = tmp_path / "acl"
    acl.write_text(f"topic readwrite #\ntopic deny {topic}\n")
    broker = mosquitto(f"allow_anonymous true\nacl_file {acl}\n")
    broker.start()
    watcher = peer(broker.port, "edge_tvbo/acl/#")
    discovery = Discovery("acl", HomeAssistant(), {"components": {}}, Random(0))
    link = link_to(broker.port, version="5", instance="acl", discovery=discovery)
    driver = drive(link)
    driver.online()
    for number in range(3):
        link.report(health())
        link.send("lab", decision(interval=number))
        driver.until(lambda: link._outbox.empty)
    driver.until(lambda: watcher.on("edge_tvbo/acl/event"))
    (notice,) = watcher.documents("edge_tvbo/acl/event")
    text = f"the broker refuses messages on {topic} (Not authorized); allow the daemon's login"
    assert (notice["event"], notice["sensor"]) == ("message-refused", None)
    assert notice["text"].startswith(text)
    assert len([each for each in logged(caplog, logging.WARNING) if text in each]) == 1
    assert text in problem(link)

    acl.write_text("topic readwrite #\n")
    broker.reload()
    cut(link)
    driver.until(lambda: problem(link) is None)
    assert f"the broker accepts messages on {topic} again" in logged(caplog, logging.INFO)


def test_no_notice_says_that_the_broker_refuses_notices(mosquitto, drive, tmp_path):
    (tmp_path / "acl").write_text("topic readwrite #\ntopic deny edge_tvbo/acl/event\n")
    broker = mosquitto(f"allow_anonymous true\nacl_file {tmp_path / 'acl'}\n")
    broker.start()
    link = link_to(broker.port, version="5", instance="acl")
    driver = drive(link)
    driver.online()
    link.announce(Notice("reload", "2026-03-02T09:22:02Z", "done"))
    driver.until(lambda: link._outbox.empty)
    assert link.status().lost == 1
    assert "edge_tvbo/acl/event (Not authorized)" in problem(link)


def test_a_document_that_makes_the_broker_end_each_session_is_named(mosquitto, drive, caplog):
    """In MQTT 3.1.1, the broker cannot say which packets it accepts."""
    broker = mosquitto("allow_anonymous true\nmax_packet_size 65536\n")
    broker.start()
    link = link_to(broker.port, version="3.1.1", instance="small")
    driver = drive(link)
    driver.online()
    link.send("lab", decision(sensor="a" * 70_000))

    def errors():
        return [each for each in logged(caplog) if "ends every session" in each]

    driver.until(errors)
    (line,) = errors()
    assert "a message of 70 kB on edge_tvbo/small/lab/selected; raise the broker's limit" in line
    assert "another client" not in caplog.text


def test_a_small_limit_of_the_broker_is_not_taken_for_a_second_client(
    mosquitto, drive, caplog, peer
):
    """Several documents exceed it; each of them ends a session, and is named once."""
    broker = mosquitto("allow_anonymous true\nmax_packet_size 5000\n")
    broker.start()
    link = link_to(broker.port, version="3.1.1", instance="small")
    driver = drive(link)
    driver.online()
    watcher = peer(broker.port, "edge_tvbo/small/#", "lab/+/activate")
    link.show("lab", posterior(300))
    link.send("lab", decision(sensor="a" * 7000))

    topics = {f"edge_tvbo/small/lab/{level}" for level in ("selected", "posterior")}
    driver.until(lambda: set(link.status().left_out) == topics)
    assert_all_else_works(link, driver, watcher, 1)
    assert "another client" not in caplog.text
    errors = [each for each in logged(caplog) if "ends every session" in each]
    assert len(errors) == 2


def test_a_document_that_ends_each_session_is_found_behind_many_slow_states(
    mosquitto, drive, caplog, monkeypatch
):
    """One at a time, the states take longer than a short session."""
    for module in (link_module, backoff, reconnection):
        monkeypatch.setattr(module, "SHORT_SESSION_S", 2.0)
    broker = mosquitto("allow_anonymous true\nmax_packet_size 65536\n")
    broker.start()
    sensors = tuple(f"sensor-{number}" for number in range(200))
    activate = ActivateSettings(mode="sleepy", topic="slow/{sensor}/go", payload="measure")
    many = field_settings(sensors, "slow/{sensor}/t", activate=activate)
    proxy = Proxy(broker.port)
    proxy.delay = 0.01  # so that 200 round trips take at least 4 s
    with closing(proxy):
        link = link_to(proxy.port, version="3.1.1", instance="slow", field=many)
        driver = drive(link)
        link.show("lab", posterior(3000))
        driver.until(lambda: link.status().left_out)
        assert list(link.status().left_out) == ["edge_tvbo/slow/lab/posterior"]
        link.close()
    assert "kB on edge_tvbo/slow/lab/posterior; raise the broker's limit" in caplog.text


def test_after_a_short_session_the_link_waits_for_each_acknowledgement(broker, drive, monkeypatch):
    """So the message that a broker does not accept is the only one that is unacknowledged."""
    for module in (link_module, backoff, reconnection):
        monkeypatch.setattr(module, "SHORT_SESSION_S", 60.0)
    link = link_to(broker.port)
    driver = drive(link)
    for expected in (3, 1):
        driver.online()
        driver.until(lambda: link._outbox.empty)
        link.send("lab", decision())
        link.report(health())
        link.show("lab", posterior(2))
        assert len(link._outbox.unacknowledged()) == expected
        cut(link)
        driver.until(lambda: not link.online)
    monkeypatch.setattr(link_module, "SHORT_SESSION_S", 0.5)
    driver.online()
    driver.for_seconds(1.0)
    driver.until(lambda: link._outbox.empty)
    link.send("lab", decision())
    link.report(health())
    assert len(link._outbox.unacknowledged()) == 2


def posterior(sensors):
    """Return a posterior of about 40 bytes for each sensor."""
    values = [21.5] * sensors
    names = tuple(f"sensor-{number}" for number in range(sensors))
    at = "2004-03-07T08:00:00Z"
    return PublishedPosterior(1, at, None, "°C", names, values, values, values, values)


def problem(link):
    """Return the problem that the daemon's health document reports for the link."""
    status = StatusCollector(LiveClock())
    status.attach({}, link)
    return status.health().problem


def assert_all_else_works(link, driver, watcher, interval):
    """Show that the link receives a reading, and publishes a decision and an activation."""
    driver.online()
    driver.events.clear()
    link.send("lab", decision(interval))
    link.send("lab", Activate("a", interval, at=60.0 * interval, expires_at=60.0 * interval + 60.0))
    watcher.publish("lab/a/reading", '{"t": 1, "ts": 2}')

    def arrived():
        selected = watcher.documents("edge_tvbo/small/lab/selected")
        activations = watcher.documents("lab/a/activate")
        return (
            any(each["interval"] == interval for each in selected)
            and any(each["at"] == 60 * interval for each in activations)
            and driver.events
        )

    driver.until(arrived)


def test_a_posterior_that_makes_the_broker_end_each_session_is_left_out(
    mosquitto, drive, caplog, peer
):
    broker = mosquitto("allow_anonymous true\nmax_packet_size 65536\n")
    broker.start()
    link = link_to(broker.port, version="3.1.1", instance="small")
    driver = drive(link)
    driver.online()
    assert problem(link) is None
    topic = "edge_tvbo/small/lab/posterior"
    watcher = peer(broker.port, "edge_tvbo/small/#", "lab/+/activate")
    link.show("lab", posterior(3000))
    driver.until(lambda: logged(caplog))
    link.show("lab", posterior(3001))  # larger

    assert_all_else_works(link, driver, watcher, 1)
    assert f"{topic} (" in problem(link) and "max_packet_size" in problem(link)
    (line,) = logged(caplog)
    assert f"kB on {topic}; raise the broker's limit" in line
    cut(link)
    driver.until(lambda: not link.online)
    driver.online()
    link.show("lab", posterior(2999))  # a bit smaller
    assert_all_else_works(link, driver, watcher, 2)
    assert len(logged(caplog)) == 1
    assert not [each for each in logged(caplog, logging.WARNING) if topic in each]
    assert watcher.on(topic) == []

    link.show("lab", posterior(100))
    driver.until(lambda: watcher.on(topic))
    assert problem(link) is None


def test_a_discovery_message_that_makes_the_broker_end_each_session_is_left_out(
    mosquitto, drive, caplog, peer, monkeypatch
):
    monkeypatch.setattr("edge_tvbo_adapters.homeassistant.discovery.COPY_TIMEOUT_S", 0.1)
    broker = mosquitto("allow_anonymous true\nmax_packet_size 65536\n")
    broker.start()
    message = {"components": {"a": {"platform": "sensor", "name": "a" * 70_000}}}
    discovery = Discovery("small", HomeAssistant(), message, Random(0))
    link = link_to(broker.port, version="3.1.1", instance="small", discovery=discovery)
    driver = drive(link)
    watcher = peer(broker.port, "edge_tvbo/small/#", "lab/+/activate", discovery.topic)
    driver.until(lambda: logged(caplog))

    assert_all_else_works(link, driver, watcher, 3)
    assert f"{discovery.topic} (70 kB)" in problem(link)
    (line,) = logged(caplog)
    assert f"a message of 70 kB on {discovery.topic}; raise the broker's limit" in line
    assert watcher.on(discovery.topic) == []


def test_a_document_above_the_limit_of_the_broker_is_not_sent(mosquitto, drive, caplog, peer):
    broker = mosquitto("allow_anonymous true\nmax_packet_size 2000\n")
    broker.start()
    link = link_to(broker.port, version="5", instance="small")
    driver = drive(link)
    driver.online()
    watcher = peer(broker.port, "edge_tvbo/small/#")
    link.send("lab", decision(sensor="a" * 3000))
    driver.until(lambda: link._outbox.empty)
    assert "edge_tvbo/small/lab/selected (3 kB)" in problem(link)
    link.send("lab", decision(interval=2))
    driver.until(lambda: watcher.on("edge_tvbo/small/lab/selected"))
    assert b'"interval":2' in watcher.on("edge_tvbo/small/lab/selected")[0]
    (line,) = logged(caplog, logging.WARNING)
    assert "edge_tvbo/small/lab/selected" in line
    assert "bytes; the limit is 2000" in line
