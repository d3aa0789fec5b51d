"""A connection of the daemon's, over a pair of sockets whose other end is the test."""

import selectors
import socket
import time
from itertools import repeat

import pytest
from edge_tvbo_adapters.mqtt.client import FastClient
from edge_tvbo_adapters.mqtt.codec import publication
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

KEEPALIVE = 1  # s, the least there is
CONNACK = bytes((0x20, 2, 0, 0))


@pytest.fixture
def connected():
    """Give a connection that was let in, the broker's end of it, and what came."""
    ours, broker = socket.socketpair()
    ours.setblocking(False)
    came = []
    client = FastClient(
        10**6,
        came.append,
        came.append,
        callback_api_version=CallbackAPIVersion.VERSION2,
        protocol=MQTTProtocolVersion.MQTTv311,
        reconnect_on_failure=False,
    )
    client.dialled = ours
    client.connect("127.0.0.1", keepalive=KEEPALIVE)
    broker.sendall(CONNACK)
    client.transfer(selectors.EVENT_READ, [])
    yield client, broker, came
    broker.close()
    ours.close()


def test_while_a_long_message_comes_slowly_the_connection_is_kept(connected):
    client, broker, came = connected
    message = publication(b"a", bytes(60), 0, 0, retain=True)
    for byte, pause in zip(message, repeat(3 * KEEPALIVE / len(message)), strict=False):
        broker.sendall(bytes((byte,)))
        time.sleep(pause)
        assert client.transfer(selectors.EVENT_READ, []) == ""
        assert client.is_connected()
    assert [each.payload for each in came] == [bytes(60)]


def test_a_silent_broker_is_given_up(connected):
    client, _, _ = connected
    until = time.monotonic() + 10 * KEEPALIVE
    while client.is_connected() and time.monotonic() < until:
        time.sleep(0.1)
        client.transfer(0, [])
    assert not client.is_connected()


def test_what_the_socket_does_not_take_at_once_leaves_before_what_comes_after_it(connected):
    client, broker, _ = connected
    broker.recv(10**6)  # the greeting
    payloads = [bytes((number,)) * 300_000 for number in range(8)]
    for payload in payloads[:-1]:
        client.put("a", payload, 1, retain=False)
    assert client.want_write()
    arrived = broker.recv(10**5)  # there is room now, but not for the last one yet
    client.put("a", payloads[-1], 1, retain=False)
    packets = b"".join(
        publication(b"a", payload, 1, number, retain=False)
        for number, payload in enumerate(payloads, 1)
    )
    while len(arrived) < len(packets):
        arrived += broker.recv(10**5)
        assert client.transfer(selectors.EVENT_WRITE, []) == ""
    assert arrived == packets
    assert not client.want_write()


def test_a_publication_that_fails_ends_the_connection_at_the_next_turn(connected):
    client, broker, _ = connected
    broker.close()
    for _ in range(3):
        client.put("a", b"1", 1, retain=False)
    client.transfer(selectors.EVENT_READ, [])
    assert not client.is_connected()


def test_who_publishes_need_not_ask_whether_the_broker_is_there(connected):
    client, broker, _ = connected
    broker.settimeout(0.0)
    until = time.monotonic() + 3 * KEEPALIVE
    heard = b""
    while time.monotonic() < until:
        client.put("a", b"1", 0, retain=False)
        broker.send(bytes((0xD0, 0)))  # a PINGRESP that nobody asked for
        client.transfer(selectors.EVENT_READ, [])
        time.sleep(0.05)
        heard += broker.recv(10**6)
    assert client.is_connected()
    assert bytes((0xC0, 0)) not in heard
