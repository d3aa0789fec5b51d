"""Mosquitto for the tests: a broker that stops and starts again, and clients of it."""

import json
import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from functools import cache
from itertools import count
from threading import Event

from edge_tvbo_adapters.simulation import local_broker
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from support.ports import free_port

TIMEOUT_S = 60.0  # of each wait for a state; a busy machine needs seconds
_numbers = count()


class Mosquitto:
    """A mosquitto on one port that can be stopped and started again."""

    def __init__(self, directory, *, extra=""):
        self.port = free_port()
        self._log = directory / f"{self.port}.log"
        self._directory = directory / f"{self.port}-{next(_numbers)}"  # a port may be used again
        self._directory.mkdir()
        self.extra = extra  # settings from the next start on
        self._process = None

    def start(self):
        _, command = local_broker.choose(self.port, self._directory)
        path = self._directory / "mosquitto.conf"
        settings = path.read_text()
        if self.extra:
            settings = settings.replace("allow_anonymous true\n", "user root\n" + self.extra)
        path.write_text(settings)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        local_broker.wait_for(self._process, self.port, self._log)

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        self._process.kill()
        self._process.wait(TIMEOUT_S)
        self._process = None

    def log(self):
        return self._log.read_text()

    def reload(self):
        """Let the broker read its settings and rules again; return when it has done so."""
        reloads = self.log().count("Reloading config")
        os.kill(self.pid, signal.SIGHUP)
        deadline = time.monotonic() + TIMEOUT_S
        while self.log().count("Reloading config") == reloads:
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(TIMEOUT_S)
            self._process = None


class Driver:
    """A loop that services links and keeps their events."""

    def __init__(self, links):
        self.links = links
        self.events = []

    def turn(self, longest=0.05):
        now = time.monotonic()
        masks = dict.fromkeys(self.links, 0)
        with selectors.DefaultSelector() as selector:
            for link in self.links:
                if (interest := link.interest()) is not None:
                    selector.register(*interest, link)
            wake = min(link.wake_at() for link in self.links)
            for key, mask in selector.select(max(0.0, min(longest, wake - now))):
                masks[key.data] = mask
        for link, mask in masks.items():
            self.events.extend(link.service(mask, time.monotonic()))

    def until(self, condition, within=TIMEOUT_S):
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, f"not in {within} s; events: {self.events[-5:]}"
            self.turn()

    def online(self):
        self.until(lambda: all(link.online for link in self.links))

    def for_seconds(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.turn()

    def close(self):
        for link in self.links:
            link.close()


def stop(client):
    """Disconnect a client with a thread of its own, and close all its sockets.

    paho closes the socket pair of its thread only when the client is deleted. In a reference cycle
    the sockets may be deleted first, and Python then warns in whichever test runs at the time.
    After the disconnection, paho's thread ends and deletes itself: `loop_stop` fails if this
    happens before it can join the thread.
    """
    client.disconnect()
    with suppress(AttributeError):
        client.loop_stop()
    client.__del__()


@cache  # a test polls, and looks at all documents each time
def _decoded(payload):
    return json.loads(payload)


class Peer:
    """A client with a thread of its own: it keeps the messages it receives, and publishes."""

    def __init__(self, port, filters, login=None):
        self.received = []  # (topic, payload, retained), in order of arrival
        self._ready = Event()
        self.client = Client(CallbackAPIVersion.VERSION2)
        if login:
            self.client.username_pw_set(*login)
        self.client.on_connect = lambda client, *_: client.subscribe([(f, 1) for f in filters])
        self.client.on_subscribe = lambda *_: self._ready.set()
        self.client.on_message = lambda client, userdata, message: self.received.append(
            (message.topic, message.payload, bool(message.retain))
        )
        self.client.reconnect_delay_set(1, 1)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._ready.wait(TIMEOUT_S)

    def publish(self, topic, payload, *, retain=False):
        """Publish a message, and wait until the broker has acknowledged it."""
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(TIMEOUT_S)

    def on(self, topic):
        """Return the payloads received on `topic`."""
        return [payload for name, payload, _ in self.received if name == topic]

    def documents(self, topic):
        """Return the JSON documents received on `topic`; do not change them."""
        return [_decoded(payload) for payload in self.on(topic)]

    def wait(self, condition, within=TIMEOUT_S):
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, f"not in {within} s; received: {self.received[-5:]}"
            time.sleep(0.01)

    def close(self):
        stop(self.client)


def write_passwords(directory, *users):
    """Write the file `users` with a password for each user, for mosquitto's `password_file`."""
    (directory / "users").write_text("".join(f"{user}:hunter2\n" for user in users))
    command = ["mosquitto_passwd", "-U", "users"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
