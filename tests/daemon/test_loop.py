"""The loop publishes the state of an alert when the alert begins and when it is over."""

import numpy as np
import pytest
from support.controllers import controller_settings

from edge_tvbo import SensorField, make_policy
from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.messages.commands import Notify
from edge_tvbo.messages.documents import Alert
from edge_tvbo.messages.events import BatteryReported, Reading

EPOCH = 1_000_000.0
ALWAYS_QUIET = (0, 1439)  # except in the last minute of a day
QUIET = (780, 840)  # 13:00 to 14:00; EPOCH is at 13:46:40
UNTIL_END = 800.0  # s


class Clock:
    """A clock that stands still."""

    speed, min_reply_time = 1.0, 0.0
    is_set = is_synced = counts_as_synced = True

    def resync(self):
        return 0.0

    def elapsed(self):
        return 0.0

    def wall(self, elapsed):
        return EPOCH + elapsed

    def catch_up(self, due, interval):
        return 1


class MovingClock(Clock):
    """A clock that stands still until it is moved."""

    now = 0.0

    def elapsed(self):
        return self.now


class Link:
    """A link that delivers the readings of the test, and keeps the published alerts."""

    online = True

    def __init__(self):
        self.readings, self.alerts, self.notices = [], [], []
        self.expected = None  # fields from which readings are expected

    def service(self, mask, now):
        arrived, self.readings = self.readings, []
        return [("heat", each) for each in arrived]

    def recall(self, field):
        return ()

    def send(self, field, command):
        if isinstance(command, Notify):
            self.notices.append(command.notice.event)

    def expect_readings(self, fields):
        self.expected = list(fields)

    def show(self, field, document):
        if isinstance(document, Alert):
            self.alerts.append(document.active)


@pytest.mark.parametrize("quiet", [None, ALWAYS_QUIET])
def test_an_alert_by_an_unsolicited_reading_is_published_at_once_even_in_quiet_hours(quiet):
    field = SensorField(("a", "b"), 0.5 + 0.5 * np.eye(2), noise_variance=0.01)
    alert = AlertSettings(threshold=2.0, hysteresis=0.5, quiet=quiet)
    settings = controller_settings(reply_timeout=10, alert=alert)
    controller = Controller(make_policy("gp-ucb", field, seed=0), settings)
    link, clock = Link(), Clock()
    loop = Loop(link, {"heat": controller}, Scheduler({"heat": 60.0}, clock, first=0.0), clock)
    loop.turn(0)  # the interval begins
    other = "b" if controller.health().selected == "a" else "a"
    link.alerts.clear()

    for value, published in ((2.1, [True]), (2.05, [True]), (0.1, [True, False])):
        link.readings.append(Reading(other, value, EPOCH, EPOCH))
        loop.turn(0)
        assert link.alerts == published


def test_the_event_that_quiet_hours_delay_is_published_when_they_end():
    """The event waited for the next interval or reading, for up to the length of an interval."""
    field = SensorField(("a",), np.eye(1), noise_variance=0.01)
    alert = AlertSettings(threshold=2.0, quiet=QUIET)
    settings = controller_settings(reply_timeout=10, interval=86_400.0, alert=alert)
    controller = Controller(make_policy("gp-ucb", field, seed=0), settings)
    link, clock = Link(), MovingClock()
    loop = Loop(link, {"heat": controller}, Scheduler({"heat": 86_400.0}, clock, first=0.0), clock)
    link.readings.append(Reading("a", 2.1, EPOCH, EPOCH))
    published = []
    for clock.now in (0.0, UNTIL_END - 1.0, UNTIL_END, UNTIL_END + 1.0):
        loop.turn(0)
        published.append(list(link.notices))
    assert published == [[], [], ["alert"], ["alert"]]


def test_while_all_batteries_are_low_no_reading_is_expected():
    field = SensorField(("a",), np.eye(1), noise_variance=0.01)
    energy = EnergySettings(battery=BatterySettings(topic="battery/{sensor}"))
    settings = controller_settings(reply_timeout=10, energy=energy)
    controller = Controller(make_policy("gp-ucb", field, seed=0), settings)
    link, clock = Link(), MovingClock()
    loop = Loop(link, {"heat": controller}, Scheduler({"heat": 60.0}, clock, first=0.0), clock)
    expected = []
    for percent in (50.0, 5.0, 50.0):
        link.readings.append(BatteryReported("a", percent, EPOCH))
        loop.turn(0)
        expected.append(link.expected)
        clock.now += 60.0
    assert expected == [["heat"], [], ["heat"]]
