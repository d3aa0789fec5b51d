"""A simulated house: eleven thermometers of three kinds, some of which answer when they are polled.

    python tests/support/house.py live PORT

connects the house to a broker on this machine. Its thermometers report every few seconds.

    python tests/support/house.py month CONFIG

runs the daemon of a configuration for a month of the house, in the mode advise. The broker is
replaced by the house, and the clock jumps from one report to the next. All else is the daemon's: it
decodes the messages, decides in each interval, and records readings, decisions and state (once a
day). An earlier record is removed.
"""

import json
import shutil
import signal
import sys
import time
from functools import cache
from math import exp, inf, pi, sin, sqrt
from pathlib import Path
from random import Random
from typing import NamedTuple

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

LIVE_MINUTE = 0.15  # s between two reports of a thermometer that reports every minute
HOUR, DAY = 3600.0, 86_400.0  # s
MONTH = 30 * DAY
BEGIN = 1_772_409_600.0  # 2026-03-02T00:00:00Z
LIVE_BEGIN = BEGIN + 7 * HOUR
NOISE = 0.1  # standard deviation of a reading, in °C
WEATHER = 1.8, 30.0  # standard deviation in °C, and the time in h within which it changes
PEOPLE = 0.6, 3.0  # the same of each room: doors, sunshine and cooking


class Thermometer(NamedTuple):
    """One thermometer: how it reports, and the course of its temperature."""

    name: str
    integration: str
    answers: bool  # whether it sends a reading when it is polled
    every: float  # min between the readings that it sends by itself
    mean: float  # °C
    swing: float  # °C
    peak: float  # hour of the day, UTC
    outdoors: float  # share of the weather that reaches it

    @property
    def command_topic(self):
        """The topic on which the thermometer is polled; None if it has none."""
        return {
            "zigbee2mqtt": f"zigbee2mqtt/{self.name}/get",
            "tasmota": f"cmnd/{self.name}/TelePeriod",
        }.get(self.integration)

    def temperature(self, at):
        """Return the reading at a time, in s since 1970; the same reading each time."""
        hour = at % DAY / HOUR
        daily = self.swing * sin(2 * pi * (hour - self.peak + 6.0) / 24.0)
        weather = self.outdoors * changes("weather", *WEATHER, at)
        room = changes(self.name, *PEOPLE, at)
        noise = Random(f"{self.name} {at:.1f}").gauss(0.0, NOISE)
        return round(self.mean + daily + weather + room + noise, 2)

    def message(self, at):
        """Return the topic and the payload of a reading."""
        value = self.temperature(at)
        if self.integration == "zigbee2mqtt":
            body = {"battery": 97, "linkquality": 120, "temperature": value}
            return f"zigbee2mqtt/{self.name}", json.dumps(body)
        if self.integration == "tasmota":
            body = {"DS18B20": {"Id": "030EA2794B8A", "Temperature": value}, "TempUnit": "C"}
            return f"tele/{self.name}/SENSOR", json.dumps(body)
        return f"home/{self.name}/temperature", f"{value}"


HOUSE = (
    Thermometer("Living room", "zigbee2mqtt", True, 10, 21.5, 1.2, 18, 0.2),
    Thermometer("kitchen", "zigbee2mqtt", True, 10, 22.0, 1.8, 17, 0.2),
    Thermometer("office", "zigbee2mqtt", True, 10, 21.8, 1.5, 14, 0.3),
    Thermometer("bedroom", "zigbee2mqtt", False, 30, 19.5, 1.0, 20, 0.3),  # it sleeps
    Thermometer("nursery", "zigbee2mqtt", False, 30, 20.5, 0.8, 19, 0.3),  # it sleeps
    Thermometer("boiler", "tasmota", True, 10, 23.5, 0.9, 7, 0.1),
    Thermometer("workshop", "tasmota", True, 10, 18.5, 2.2, 15, 0.6),
    Thermometer("attic", "number", False, 5, 20.5, 5.5, 16, 1.0),
    Thermometer("cellar", "number", False, 15, 14.0, 0.3, 18, 0.1),
    Thermometer("garage", "number", False, 10, 16.0, 2.5, 15, 0.8),
    Thermometer("greenhouse", "number", False, 5, 19.0, 7.0, 12, 1.0),
)


@cache
def hourly(what, std, time):
    """Return the values of a stationary random process at the full hours of the month."""
    random, values = Random(what), [0.0]
    keep = exp(-1.0 / time)
    while len(values) <= MONTH / HOUR + 1:
        values.append(keep * values[-1] + std * sqrt(1.0 - keep**2) * random.gauss(0.0, 1.0))
    return values


def changes(what, std, time, at):
    """Return the value of a random process at a time, in °C."""
    hour, rest = divmod((at - BEGIN) / HOUR, 1.0)
    before, after = hourly(what, std, time)[int(hour) : int(hour) + 2]
    return before + rest * (after - before)


def reports(first, last):
    """Yield (time, thermometer) of all reports of the house in this span, in their order."""
    due = [(first + 60.0 * 0.37 * number, each) for number, each in enumerate(HOUSE)]
    while due:
        at, each = min(due)
        due.remove((at, each))
        if at < last:
            yield at, each
            due.append((at + 60.0 * each.every, each))


# --- live ---------------------------------------------------------------------------------------


def live(port):
    """Connect the house to a broker until the process is stopped."""
    by_topic = {each.command_topic: each for each in HOUSE if each.answers}
    began = time.monotonic()

    def send(client, thermometer):
        at = LIVE_BEGIN + time.monotonic() - began
        client.publish(*thermometer.message(at), qos=1)

    client = Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda client, *_: client.subscribe([(each, 1) for each in by_topic])
    client.on_message = lambda client, _, message: send(client, by_topic[message.topic])
    client.connect("127.0.0.1", port)
    client.loop_start()
    for at, each in reports(0.0, inf):
        time.sleep(max(0.0, began + at / 60.0 * LIVE_MINUTE - time.monotonic()))
        send(client, each)


# --- a month --------------------------------------------------------------------------------------


class JumpingClock:
    """A clock whose time is set."""

    speed, min_reply_time = 1.0, 0.0
    is_set = is_synced = counts_as_synced = True

    def __init__(self):
        self.now = 0.0

    def elapsed(self):
        return self.now

    def wall(self, elapsed):
        return BEGIN + elapsed

    def resync(self):
        return 0.0

    def is_stepped(self):
        return False

    def catch_up(self, due, interval):
        return 1


class HouseLink:
    """The daemon's link to the house; what the daemon publishes is dropped."""

    online, former = True, ()

    def __init__(self, fields):
        from edge_tvbo_adapters.mqtt.message_router import MessageRouter

        self._router = MessageRouter(fields)
        self._received = []

    def receive(self, topic, payload, at):
        message = MQTTMessage(topic=topic.encode())
        message.payload = payload.encode()
        self._received += self._router.events(message, at, at)

    def service(self, mask, now):
        received, self._received = self._received, []
        return received

    def requests(self):
        return ()

    def recall(self, field):
        return ()

    def alive(self, now):
        return True

    def status(self):
        from edge_tvbo.messages.documents import LinkStatus

        return LinkStatus()

    def wake_at(self):
        return inf

    def _drop(self, *document):
        pass

    send = show = announce = report = respond = expect_readings = clear_removed = _drop

    def close(self):
        pass


def month(config):
    """Run the daemon of `config` for a month of the house."""
    from msgspec.structs import replace

    from edge_tvbo.cli.settings import settings_of
    from edge_tvbo.daemon import app  # takes a second, which the live house does not need

    settings, clock = settings_of(Path(config)), JumpingClock()
    settings = replace(settings, state=replace(settings.state, checkpoint=DAY))
    shutil.rmtree(settings.state.dir, ignore_errors=True)
    link = HouseLink(settings.fields)
    app._link = lambda *_: link
    daemon = app.build_daemon(settings, app.make_surroundings(clock))
    daemon.start()
    for at, each in reports(BEGIN, BEGIN + MONTH):
        while daemon.scheduler.next_due() <= at - BEGIN:
            clock.now = daemon.scheduler.next_due()
            daemon.loop.turn(0)
        clock.now = at - BEGIN
        link.receive(*each.message(at), at)
        daemon.loop.turn(0)
    daemon.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    match sys.argv[1:]:
        case ["live", port]:
            live(int(port))
        case ["month", config]:
            month(config)
        case _:
            sys.exit(__doc__)
