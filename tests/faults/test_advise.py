"""Mode advise with sensors that only report: only a sensor that stops or does not exist is blamed.

This is the first hour of a new owner, five times as fast: an interval of 400 ms, and eleven sensors
that report by themselves every four intervals.
"""

import json
import signal
import threading
import time
from contextlib import closing

import pytest
from support.gateway import Daemon, program
from support.mosquitto import TIMEOUT_S

SENSORS = ("attic", "bath", "bedroom", "cellar", "garage", "hall", "hobby", "kitchen", "loft")
SENSORS += ("office", "porch")
HOTTEST = "kitchen"
ABSENT = "new-sensor"  # no device has this id
INTERVALS = 0.4, 0.8, 1.6, 3.2  # s, one for each try
REPORTS = 4  # intervals between two reports of a sensor
MAX_GAP = 1.5  # between two reports as a client receives them, in their normal distance
CONFIG = """
instance = "home"
[mqtt]
port = {port}
[state]
dir = "state"
history = "16MiB"
[fields.heat]
unit = "°C"
interval = "{milliseconds}ms"
kernel = {{ name = "exchangeable", variance = 9.0, noise_variance = 0.04, mean = 20 }}
sensors = {sensors}
reading = {{ topic = "home/{{sensor}}/t" }}
activate = {{ topic = "home/{{sensor}}/get" }}
energy = {{ unit = "J", cost = 1.0, field_budget = 1000 }}
"""


class Reporters:
    """Sensors that report every `period` seconds, one after the other, in a thread."""

    def __init__(self, peer, period):
        self.stopped = set()
        self._peer = peer
        self._period = period
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._ended.wait(self._period / len(SENSORS)):
            sensor = SENSORS[number % len(SENSORS)]
            number += 1
            value = 18.0 + number % 7 / 10.0 + (6.0 if sensor == HOTTEST else 0.0)
            if sensor not in self.stopped:
                self._peer.client.publish(f"home/{sensor}/t", f"{value:.1f}")

    def close(self):
        self._ended.set()
        self._thread.join()


class Home(Daemon):
    """The owner's daemon, and what it publishes."""

    def __init__(self, directory, port, peer, interval):
        super().__init__(directory)
        self._numbers = {"port": port, "milliseconds": round(1000 * interval)}
        self.period = REPORTS * interval  # s
        self.configure(SENSORS)
        self.listener = peer(port, "edge_tvbo/home/#", "home/+/get")
        self.gaps = Gaps(peer(port, "home/+/t"))
        self.reporters = Reporters(peer(port, "none"), self.period)

    def configure(self, sensors):
        self.config.write_text(CONFIG.format(sensors=json.dumps(sensors), **self._numbers))

    def on(self, topic):
        return self.listener.documents(f"edge_tvbo/home/{topic}")

    def events(self):
        return [(each["event"], each["sensor"]) for each in self.on("heat/event")]

    def wait_for_events(self, number):
        self.wait(lambda: len(self.events()) >= number, TIMEOUT_S + 30 * self.period)

    def wait_for_decisions(self, number):
        goal = len(self.on("heat/selected")) + number
        within = TIMEOUT_S + number * self.period
        self.wait(lambda: len(self.on("heat/selected")) >= goal, within)

    def close(self):
        self.reporters.close()
        super().close()


class Gaps:
    """The longest time between two reports of a sensor, as a client of the broker receives them."""

    def __init__(self, peer):
        self.longest = 0.0  # s
        self.ignored = set()  # sensors
        self._last = {}  # monotonic times, by sensor
        peer.client.on_message = self._note

    def _note(self, client, userdata, message):
        sensor, now = message.topic.split("/")[1], time.monotonic()
        if sensor in self._last and sensor not in self.ignored:
            self.longest = max(self.longest, now - self._last[sensor])
        self._last[sensor] = now


def field_health(home):
    """Return the health of the field as the command `status` responds."""
    before = len(home.on("response/status"))
    home.listener.publish("edge_tvbo/home/cmd/status", b"{}")
    home.listener.wait(lambda: len(home.on("response/status")) > before)
    return home.on("response/status")[-1]["data"]["health"]["fields"]["heat"]


@pytest.mark.acceptance(16)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("which", ["stops", "does-not-exist"])
def test_only_the_sensor_that_is_silent_is_named_and_only_once(which, mosquitto, peer, tmp_path):
    """If the machine stands still, all sensors seem to stop: the test is repeated more slowly."""
    for interval in INTERVALS:
        directory = tmp_path / f"{1000 * interval:.0f}ms"
        directory.mkdir()
        broker = mosquitto()  # the earlier one retains what the earlier daemon published
        broker.start()
        with closing(Home(directory, broker.port, peer, interval)) as home:
            try:
                if which == "stops":
                    only_the_sensor_that_stops_is_named(home)
                else:
                    only_the_sensor_that_does_not_exist_is_named(home)
                break
            except AssertionError:
                stood_still = home.gaps.longest >= MAX_GAP * home.period
                if interval == INTERVALS[-1] or not stood_still:
                    raise


def only_the_sensor_that_stops_is_named(home):
    home.start()
    home.wait_for_decisions(30)  # each sensor has reported seven times
    health = field_health(home)
    assert home.events() == []
    assert (health["missed"], health["suspects"], health["recommends"]) == (0, [], True)
    assert health["energy"]["spent"] == 0.0
    decisions = home.on("heat/selected")
    assert not any("backed off" in factor for each in decisions for factor in each["factors"])
    assert all(each["recommended"] for each in decisions)
    assert [each["sensor"] for each in decisions[-10:]].count(HOTTEST) >= 8

    home.gaps.ignored.add(HOTTEST)
    home.reporters.stopped = {HOTTEST}
    began = time.monotonic()
    home.wait_for_events(1)
    assert time.monotonic() - began > 2 * home.period
    home.wait_for_decisions(30)
    assert home.events() == [("sensor-lost", HOTTEST)]
    assert [each["sensor"] for each in home.on("heat/selected")[-25:]].count(HOTTEST) <= 5
    (notice,) = home.on("heat/event")
    assert f"{HOTTEST} has sent no usable reading" in notice["text"]
    assert field_health(home)["suspects"] == [HOTTEST]

    home.reporters.stopped = set()
    home.wait_for_events(2)
    home.wait_for_decisions(10)
    assert home.events() == [("sensor-lost", HOTTEST), ("sensor-back", HOTTEST)]
    assert not any(topic.endswith("/get") for topic, *_ in home.listener.received)
    said = program("status", str(home.config)).stdout + program("why", str(home.config)).stdout
    home.stop()
    for interval in (str(decisions[0]["interval"]), "-1", "-5", "-30"):
        why = program("why", str(home.config), interval)
        assert why.returncode == 0, why.stderr
        said += why.stdout
    said += home.log_text()
    assert "selected sensors reported in their interval" in said
    assert "activated" not in said and "timed out" not in said and "asked" not in said
    assert said.count("sensor-lost: ") == 1


def only_the_sensor_that_does_not_exist_is_named(home):
    home.start()
    home.wait_for_decisions(30)
    home.configure((*SENSORS, ABSENT))
    home.process.send_signal(signal.SIGHUP)
    home.wait_for_events(1)
    home.wait_for_decisions(40)
    assert home.events() == [("sensor-lost", ABSENT)]
    (notice,) = home.on("heat/event")
    expected = f"{ABSENT} has sent no usable reading since the daemon began to listen, "
    assert expected in notice["text"]
    assert field_health(home)["suspects"] == [ABSENT]
    newest = [each["sensor"] for each in home.on("heat/selected")[-25:]]
    assert newest.count(ABSENT) <= 6 and newest.count(HOTTEST) >= 12
    status = program("status", str(home.config)).stdout
    assert f"unresponsive: {ABSENT};" in status
    home.stop()
    assert home.log_text().count("sensor-lost: ") == 1
