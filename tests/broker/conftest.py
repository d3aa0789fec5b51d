"""A real mosquitto, one that can be stopped and started again, and whoever talks through it."""

import os
import selectors
import subprocess
import time
from contextlib import ExitStack
from itertools import count
from threading import Event

import pytest
from edge_tvbo_adapters.simulation import local_broker
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from edge_tvbo.errors import MissingExtra

NUMBERS = count()
GENEROUS = 20.0  # s; a busy machine takes its time


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    """Give a directory, once it is certain that there is a mosquitto."""
    path = tmp_path_factory.mktemp("mosquitto")
    try:
        name, _ = local_broker.choose(1, path)
    except MissingExtra:
        name = "none"
    if name != "mosquitto":
        reason = f"these tests want a mosquitto; the broker here: {name}"
        if os.environ.get("CI") or os.environ.get("EDGE_TVBO_REQUIRE_BROKER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="module")
def broker(directory):
    """Give a running broker, as the demonstration gets one."""
    with local_broker.start() as running:
        assert running.name == "mosquitto"
        yield running


class Mosquitto:
    """A mosquitto on one port, which can be away for a while."""

    def __init__(self, directory, *, extra=""):
        self.port = local_broker.free_port()
        self._log = directory / f"{self.port}.log"
        self._directory = directory / f"{self.port}-{next(NUMBERS)}"  # a port may come again
        self._directory.mkdir()
        self._extra = extra
        self._process = None

    def start(self):
        _, command = local_broker.choose(self.port, self._directory)
        path = self._directory / "mosquitto.conf"
        settings = path.read_text()
        if self._extra:
            settings = settings.replace("allow_anonymous true\n", "user root\n" + self._extra)
        path.write_text(settings)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        local_broker.wait_for(self._process, self.port, self._log)

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        self._process.kill()
        self._process.wait(10)
        self._process = None

    def log(self):
        return self._log.read_text()

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None


@pytest.fixture
def mosquitto(directory):
    """Give a maker of brokers; they are started by the test."""
    made = []

    def make(extra=""):
        made.append(Mosquitto(directory, extra=extra))
        return made[-1]

    yield make
    for each in made:
        each.stop()


class Driver:
    """Services links as the loop does, and keeps what they yield."""

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
            link.acknowledge()

    def until(self, condition, within=GENEROUS):
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


@pytest.fixture
def drive():
    """Give a maker of drivers, whose links are closed in the end."""
    with ExitStack() as stack:

        def make(*links):
            driver = Driver(links)
            stack.callback(driver.close)
            return driver

        yield make


class Peer:
    """A client of its own thread: it hears what others do and publishes."""

    def __init__(self, port, filters):
        self.heard = []  # (topic, payload, retained), in order
        self._ready = Event()
        self.client = Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda client, *_: client.subscribe([(f, 1) for f in filters])
        self.client.on_subscribe = lambda *_: self._ready.set()
        self.client.on_message = lambda client, userdata, message: self.heard.append(
            (message.topic, message.payload, bool(message.retain))
        )
        self.client.reconnect_delay_set(1, 1)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._ready.wait(GENEROUS)

    def publish(self, topic, payload, *, retain=False):
        """Publish, and wait until the broker has it."""
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(GENEROUS)

    def on(self, topic):
        """Give the payloads that came on `topic`."""
        return [payload for heard, payload, _ in self.heard if heard == topic]

    def wait(self, condition, within=GENEROUS):
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, f"not in {within} s; heard: {self.heard[-5:]}"
            time.sleep(0.01)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def peer():
    """Give a maker of peers: a port, and what they subscribe to."""
    with ExitStack() as stack:

        def make(port, *filters):
            each = Peer(port, filters or ("edge_tvbo/#",))
            stack.callback(each.close)
            return each

        yield make
