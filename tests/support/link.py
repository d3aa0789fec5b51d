"""Links for the tests: links to a broker and to a fake one, and messages to publish on them."""

import json
import logging
import os
import selectors
import socket
import struct
import time
from contextlib import suppress
from itertools import count

from edge_tvbo_adapters.mqtt.link import MqttLink
from support.mosquitto import TIMEOUT_S
from support.settings import field_settings, mqtt_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.messages.commands import PublishState
from edge_tvbo.messages.documents import Decision, FieldHealth, Health, ModelState, Reason

ACCEPTED = b"\x20\x02\x00\x00"  # a CONNACK
OTHERS = (
    "former",
    "without_model",
    "discovery",
    "detector",
)  # options of the link, besides the broker's
_numbers = count(1)
STAMPED = ("json", {"value": "t", "time": "ts"})
READ, ASK = "lab/{sensor}/reading", "lab/{sensor}/activate"
LAB = field_settings(
    ("a", "b"),
    READ,
    STAMPED,
    activate=ActivateSettings(mode="live", topic=ASK, payload='{"id": "{sensor}", "at": {at}}'),
)


def link_to(port, **options):
    """Return a link with an instance name of its own and short reconnect delays."""
    options = {"reconnect_min": 0.05, "reconnect_max": 0.3} | options
    instance = options.pop("instance", f"test-{next(_numbers)}")
    field, commands = options.pop("field", LAB), options.pop("commands", False)
    more = {key: options.pop(key) for key in OTHERS if key in options}
    mqtt = mqtt_settings(port, **options)
    return MqttLink(mqtt, instance, {"lab": field}, commands=commands, seed=0, **more)


def decision(interval=1, sensor="a", mean=21.5):
    """Return the command that publishes a decision."""
    return PublishState(
        Decision(
            interval=interval,
            at="2004-03-07T08:00:00Z",
            expires_at="2004-03-07T08:00:30Z",
            sensor=sensor,
            policy="gp-ucb",
            mean=mean,
            std=0.5,
            ucb=22.0,
            unit="°C",
            reason=Reason.EXPLOIT,
            factors=["it is warm"],
            text="It is the warmest.",
            model=ModelState(observations=3, resets=0),
        )
    )


def health(interval=1):
    """Return a health report."""
    field = FieldHealth(interval, "a", answered=1, missed=0, suspects=[], refused={})
    return Health(at="2004-03-07T08:00:00Z", uptime_s=1, version="0", fields={"lab": field})


def strict(payload):
    """Read JSON by the standard: NaN and Infinity are rejected."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(payload, parse_constant=refuse)


def logged(caplog, level=logging.ERROR):
    """Return what the link has logged at `level`."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "edge_tvbo_adapters.mqtt.link" and record.levelno == level
    ]


def cut(link):
    """End the link's connection as a pulled plug does: without a DISCONNECT."""
    with socket.socket(fileno=os.dup(link.interest()[0])) as sock:
        sock.shutdown(socket.SHUT_RDWR)


def publish(topic, payload, mid=None):
    """Return a PUBLISH packet: of QoS 1 if it has a packet identifier."""
    topic = topic if isinstance(topic, bytes) else topic.encode()
    body = struct.pack("!H", len(topic)) + topic
    body += (b"" if mid is None else struct.pack("!H", mid)) + payload
    assert len(body) < 128
    return bytes([0x30 if mid is None else 0x32, len(body)]) + body


class FakeBroker:
    """A listening socket that plays the broker of a link; the test drives both, without threads."""

    def __init__(self, **options):
        waits = {"reconnect_min": 100, "reconnect_max": 100}
        self._options = {"version": "3.1.1", **waits} | options  # the tests write its packets

    def __enter__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(TIMEOUT_S)
        port = self._server.getsockname()[1]
        self.link = link_to(port, **self._options)
        list(self.link.service(0, time.monotonic()))
        self._theirs, _ = self._server.accept()
        self._theirs.setblocking(False)
        self._received = b""
        return self

    def __exit__(self, *error):
        self._theirs.close()  # the link would wait for its acknowledgement
        self.link.close()
        self._server.close()

    def send(self, some, *, and_close=False):
        """Send bytes to the link; `and_close` closes the sending direction afterwards."""
        self._theirs.sendall(some)
        if and_close:
            self._theirs.shutdown(socket.SHUT_WR)

    def received(self):
        """Return all bytes that the link has sent so far."""
        with suppress(BlockingIOError):
            self._received += self._theirs.recv(65536)
        return self._received

    def until(self, condition):
        deadline = time.monotonic() + TIMEOUT_S
        events = []
        while not condition():
            assert time.monotonic() < deadline
            events += self._turn()
        return events

    def take(self):
        """Return the events of the next message that the link receives."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (events := self._turn()):
            assert time.monotonic() < deadline
        return events

    def _turn(self):
        with selectors.DefaultSelector() as selector:
            selector.register(*self.link.interest())
            mask = sum(mask for _, mask in selector.select(0.1))
        return list(self.link.service(mask, time.monotonic()))
