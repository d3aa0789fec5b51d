"""MQTT 5 with a real mosquitto: expiring commands, packet sizes, reasons of refusals and ends."""

import logging
import time
from contextlib import closing
from threading import Event

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from support.link import decision, link_to, logged
from support.mosquitto import TIMEOUT_S, stop
from support.settings import field_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.messages.commands import Activate


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


def test_documents_do_not_expire(broker, drive):
    link = link_to(broker.port, version="5", instance="stays")
    driver = drive(link)
    driver.online()
    with closing(Sensor(broker.port, "edge_tvbo/stays/lab/selected")) as watcher:
        link.send("lab", decision())
        driver.until(lambda: watcher.commands)
    assert watcher.commands[0][2] is None


def test_a_refused_message_is_logged_once_with_the_reason(mosquitto, drive, caplog, tmp_path):
    (tmp_path / "acl").write_text("topic readwrite edge_tvbo/+/status\ntopic read lab/#\n")
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


def test_a_document_above_the_limit_of_the_broker_is_not_sent(mosquitto, drive, caplog, peer):
    broker = mosquitto("allow_anonymous true\nmax_packet_size 2000\n")
    broker.start()
    link = link_to(broker.port, version="5", instance="small")
    driver = drive(link)
    driver.online()
    watcher = peer(broker.port, "edge_tvbo/small/#")
    link.send("lab", decision(sensor="a" * 3000))
    driver.until(lambda: link._outbox.empty)
    link.send("lab", decision(interval=2))
    driver.until(lambda: watcher.on("edge_tvbo/small/lab/selected"))
    assert b'"interval":2' in watcher.on("edge_tvbo/small/lab/selected")[0]
    (line,) = logged(caplog, logging.WARNING)
    assert "edge_tvbo/small/lab/selected" in line
    assert "of 2000 bytes" in line
