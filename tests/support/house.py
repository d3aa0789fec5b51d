"""A simulated house: eleven thermometers of three kinds, some of which answer when they are polled.

    python tests/support/house.py PORT

runs the house at a broker on this machine. Its clock is fast: a minute of the house takes 0.3 s.
"""

import json
import signal
import sys
import time
from math import pi, sin
from random import Random
from typing import NamedTuple

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

MINUTE = 0.3  # s of this machine
HOUR, DAY = 3600.0, 86_400.0  # s
NOISE = 0.1  # standard deviation of a reading, in °C
WEATHER = ((1.3, 31.0), (0.9, 77.0), (1.1, 190.0))  # °C, and the period in h


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
        weather = sum(size * sin(2 * pi * at / HOUR / period) for size, period in WEATHER)
        noise = Random(f"{self.name} {at:.0f}").gauss(0.0, NOISE)
        daily = self.swing * sin(2 * pi * (hour - self.peak + 6.0) / 24.0)
        return round(self.mean + daily + self.outdoors * weather + noise, 2)

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


def reports(first, last):
    """Yield (time, thermometer) of all reports of the house in this span, in their order."""
    due = [(first + 60.0 * 0.37 * number, each) for number, each in enumerate(HOUSE)]
    while due:
        at, each = min(due)
        due.remove((at, each))
        if at < last:
            yield at, each
            due.append((at + 60.0 * each.every, each))


def run(port):
    """Run the house until the process is stopped."""
    by_topic = {each.command_topic: each for each in HOUSE if each.answers}

    def answer(client, userdata, message):
        client.publish(*by_topic[message.topic].message(time.time()), qos=1)

    client = Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda client, *_: client.subscribe([(each, 1) for each in by_topic])
    client.on_message = answer
    client.connect("127.0.0.1", port)
    client.loop_start()
    began = time.monotonic()
    for at, each in reports(0.0, float("inf")):
        time.sleep(max(0.0, began + at / 60.0 * MINUTE - time.monotonic()))
        client.publish(*each.message(time.time()), qos=1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    run(int(sys.argv[1]))
