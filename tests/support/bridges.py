"""Bridges of many gateways, played by one process: connections to a central broker that publish.

Each connection logs in, sets its last will, subscribes to its commands and publishes the documents
of a daemon with QoS 1, as the bridge in deploy/fleet does. One thread serves all connections.
"""

import selectors
import socket
import ssl
import time
from collections import deque
from itertools import cycle, islice

KEEPALIVE_S = 3600  # longer than any test, so that the tests decide what is sent
CONNECTING = 200  # connections that are made at the same time
TIMEOUT_S = 300.0
CONNACK, PUBACK, SUBACK = 0x20, 0x40, 0x90


def text(word):
    return len(word).to_bytes(2, "big") + word.encode()


def packet(kind, body):
    """Return a packet of fewer than 2 MiB."""
    size, length = len(body), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([kind]) + length + bytes([size]) + body


class Bridge:
    """One connection, and the times of its publications that are not acknowledged."""

    def __init__(self, name, port, tls):
        self.name = name
        self.ready = False
        self.sent = deque()
        self._received = b""
        self._number = 0
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        will = text(f"edge_tvbo/{name}/bridge") + text("0")
        flags = 0b11101110  # login, password, will retained with QoS 1, clean session
        head = text("MQTT") + bytes([4, flags]) + KEEPALIVE_S.to_bytes(2, "big")
        self.socket.sendall(packet(0x10, head + text(name) + will + text(name) + text(name)))
        commands = text(f"edge_tvbo/{name}/cmd/+") + b"\1"
        self.socket.sendall(packet(0x82, b"\0\1" + commands))

    def publish(self, level, payload, now):
        """Publish a retained document at QoS 1."""
        self._number = self._number % 65535 + 1
        topic = text(f"edge_tvbo/{self.name}/{level}")
        self.socket.sendall(packet(0x33, topic + self._number.to_bytes(2, "big") + payload))
        self.sent.append(now)

    def receive(self, now):
        """Read acknowledgements; return the seconds that each has taken."""
        self._received += self.socket.recv(65536)
        took = []
        while len(self._received) >= 2 and len(self._received) >= 2 + self._received[1]:
            kind, size = self._received[0] & 0xF0, self._received[1]
            if kind == CONNACK:
                assert self._received[3] == 0, f"{self.name} is refused"
            if kind == SUBACK:
                self.ready = True
            if kind == PUBACK:
                took.append(now - self.sent.popleft())
            self._received = self._received[2 + size :]
        return took

    def close(self):
        self.socket.close()


class Bridges:
    """The bridges of `count` gateways, whose documents are `(topic level, payload)` pairs."""

    def __init__(self, port, count, documents, ca=None):
        self.latencies = []  # s from a publication to its acknowledgement
        self._documents = documents
        self._selector = selectors.DefaultSelector()
        self._bridges = []
        tls = ssl.create_default_context(cafile=ca) if ca else None
        for first in range(0, count, CONNECTING):
            some = [
                Bridge(f"g-{i}", port, tls) for i in range(first, min(first + CONNECTING, count))
            ]
            for each in some:
                self._selector.register(each.socket, selectors.EVENT_READ, each)
            self._bridges += some
            self._serve_until(lambda some=some: all(each.ready for each in some))

    def publish_all(self):
        """Publish every document of every gateway, as after a reconnect; return their number."""
        for bridge in self._bridges:
            for level, payload in self._documents:
                bridge.publish(level, payload, time.monotonic())
            self._serve(0.0)
        self.drain()
        return len(self._bridges) * len(self._documents)

    def publish(self, number, per_second=None):
        """Publish documents, one after the other from all gateways, at a rate; return the seconds.

        Without a rate, each is published as soon as there are fewer than 1000 in flight.
        """
        every = cycle(self._bridges)
        documents = cycle(self._documents)
        began, published = time.monotonic(), 0
        while published < number:
            now = time.monotonic()
            in_flight = published - len(self.latencies)
            due = int((now - began) * per_second) if per_second else published + 1000 - in_flight
            for bridge in islice(every, max(0, min(due, number) - published)):
                bridge.publish(*next(documents), time.monotonic())
                published += 1
            self._serve(0.001)
        self.drain()
        return time.monotonic() - began

    def drain(self):
        """Wait until the broker has acknowledged everything."""
        self._serve_until(lambda: not any(each.sent for each in self._bridges))

    def _serve(self, longest):
        for key, _ in self._selector.select(longest):
            self.latencies += key.data.receive(time.monotonic())

    def _serve_until(self, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, "the central broker does not answer"
            self._serve(0.05)

    def close(self):
        for each in self._bridges:
            each.close()
        self._selector.close()
