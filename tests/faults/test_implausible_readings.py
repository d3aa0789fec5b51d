"""A faulty sensor: its implausible readings are rejected, and move neither model nor selection."""

import json
import time
from itertools import pairwise

import numpy as np
import pytest
from support.controllers import controller_settings
from support.gateway import Gateway

from edge_tvbo.control import sensor_health
from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

M = 12
PLACES = np.linspace(0.0, 1.0, M)
K = np.exp(-0.5 * ((PLACES[:, None] - PLACES) / 0.3) ** 2) + 1e-6 * np.eye(M)
NAMES = tuple(f"n{arm}" for arm in range(M))
TRUTH = 20.0 + 2.0 * np.sin(5.0 * PLACES)  # °C
HOTTEST = ("n3", "n4")  # activated most often; one of them is faulty
INTERVALS = 120
THOUSAND = 1000.0  # °C
faulty_sensors = pytest.mark.parametrize("faulty", HOTTEST)


def followed(policy, faulty, error, *, since=0):
    """Return the sensor activated in each interval, and the controller.

    From interval `since` on, the sensor `faulty` adds `error` (°C) to its readings; None: it is
    silent.
    """
    field = SensorField(NAMES, K, 0.01, unit="°C", center=20.0, scale=2.0)
    controller = Controller(
        make_policy(policy, field, seed=1), controller_settings(reply_timeout=20.0, max_age=90.0)
    )
    activated = []
    for t in range(INTERVALS):
        (activate,) = (
            each
            for each in controller.handle(IntervalElapsed(100.0 * t))
            if isinstance(each, Activate)
        )
        activated.append(activate.sensor)
        at, added = 100.0 * t + 1.0, error if activate.sensor == faulty and t >= since else 0.0
        if added is not None:
            value = float(TRUTH[NAMES.index(activate.sensor)]) + added
            controller.handle(Reading(activate.sensor, value, at=at, received=at))
        controller.handle(DeadlineElapsed(activate.interval, activate.expires_at))
    return activated, controller


def intervals_of(activated, faulty, since):
    """Return the intervals in which the faulty sensor was activated."""
    return [t for t, sensor in enumerate(activated) if sensor == faulty and t >= since]


def assert_backed_off(numbers):
    """Check that the sensor is skipped for at least 1 interval, then 2, 4, 8, ..."""
    for times, (earlier, later) in enumerate(pairwise(numbers)):
        assert later - earlier > min(2**times, 64)


@pytest.mark.parametrize("since", [0, 40], ids=["from the start", "after 40 intervals"])
@faulty_sensors
@pytest.mark.parametrize("policy", ["auto", "et-gp-ucb", "tv-gp-ucb"])
def test_a_faulty_sensor_is_backed_off_and_changes_the_model_no_more_than_a_timeout(
    policy, faulty, since, monkeypatch
):
    activated, controller = followed(policy, faulty, THOUSAND, since=since)
    when = intervals_of(activated, faulty, since)
    health = controller.health()
    print(f"{policy}, {faulty}: activated in {when}; {health.refused}; suspects {health.suspects}")
    assert len(when) >= 3
    assert_backed_off(when)
    assert health.refused == {"implausible": len(when)}
    assert health.missed == len(when)
    assert health.suspects == [faulty]

    (other,) = set(HOTTEST) - {faulty}
    assert activated[when[2] + 1 :].count(faulty) <= 4  # after 4, 8, 16 and 32 intervals
    assert activated[when[2] + 1 :].count(other) > 0.6 * (INTERVALS - when[2])

    # The first time-outs of a sensor may be chance; an implausible reading is not.
    monkeypatch.setattr(sensor_health, "MAX_TIMEOUTS", 1)
    unmoved, silent = followed(policy, faulty, None, since=since)
    assert activated == unmoved
    assert controller.policy.observations == INTERVALS - len(when)
    np.testing.assert_array_equal(controller.policy.posterior(), silent.policy.posterior())


@faulty_sensors
def test_an_unusual_but_plausible_reading_is_used(faulty):
    activated, controller = followed("auto", faulty, 8.0)  # four standard deviations
    assert activated.count(faulty) >= 3
    assert controller.health().refused == {}
    assert controller.policy.observations == INTERVALS


# --- a running daemon -----------------------------------------------------------------------------

TIMEOUTS = 0.18, 0.36, 0.72, 1.44, 2.88  # s for a reply, one for each try


class FaultyGateway(Gateway):
    """A gateway whose hottest sensor, `a`, becomes faulty on request."""

    def __init__(self, directory, port, peer, timeout):
        self.timeout = timeout  # s
        self.measured = {"a": 24.0, "b": 22.0, "c": 20.0}  # °C
        self.is_faulty = False
        self.answers = []  # (interval, sensor, whether it was implausible)
        self.max_delay = 0.0  # s from an activation until it was answered
        super().__init__(directory, port, peer, f"faulty-{directory.name}")
        self.world = peer(port, f"edge_tvbo/{self.name}/#")

    def configure(self):
        milliseconds = round(1000 * self.timeout)
        times = {"interval": f"{milliseconds * 10 // 9}ms", "reply_timeout": f"{milliseconds}ms"}
        super().configure(policy="et-gp-ucb", **times)
        self.config.write_text('health = "1s"\n' + self.config.read_text())

    def _answer(self, client, userdata, message):
        number, at = json.loads(message.payload)
        self.max_delay = max(self.max_delay, time.time() - at)
        sensor = message.topic.split("/")[1]
        implausible = self.is_faulty and sensor == "a"
        self.answers.append((number, sensor, implausible))
        value = self.measured[sensor] + (THOUSAND if implausible else 0.0)
        value += len(self.answers) / 1000.0  # so that none is a duplicate
        client.publish(message.topic.replace("/go", "/t"), str(value))

    def on(self, topic):
        return self.world.documents(f"edge_tvbo/{self.name}/{topic}")

    def field(self):
        """Return the newest health of the field."""
        return self.on("health")[-1]["fields"]["lab"]

    @property
    def is_late(self):
        """Whether a sensor replied so late that the daemon may take it for unresponsive."""
        return self.max_delay > 0.9 * self.timeout

    def wait_unless_late(self, condition):
        """Wait until the condition holds, or a sensor is late."""
        self.wait(lambda: self.is_late or condition())

    def implausible(self):
        return [number for number, _, implausible in self.answers if implausible]


@pytest.mark.timeout(900)
def test_a_daemon_backs_off_from_a_sensor_that_becomes_faulty(broker, peer, tmp_path):
    """If a sensor is late, the daemon backs off from it too: the test is repeated more slowly."""
    for timeout in TIMEOUTS:
        directory = tmp_path / f"{1000 * timeout:.0f}ms"
        directory.mkdir()
        gateway = FaultyGateway(directory, broker.port, peer, timeout)
        if backs_off_from_the_faulty_sensor(gateway):
            return
    pytest.fail(f"a sensor replied after {gateway.max_delay:.1f} s")


def backs_off_from_the_faulty_sensor(gateway):
    """Check the daemon, unless a sensor was late; return whether it was checked."""
    gateway.start()
    try:
        gateway.wait_unless_late(lambda: [each[1] for each in gateway.answers].count("a") >= 5)
        gateway.is_faulty = True
        gateway.wait_unless_late(lambda: len(gateway.implausible()) >= 4)
        after = len(gateway.answers)
        gateway.wait_unless_late(lambda: len(gateway.answers) >= after + 6)
        gateway.wait_unless_late(
            lambda: gateway.field()["refused"] == {"implausible": len(gateway.implausible())}
        )
        gateway.wait_unless_late(lambda: gateway.field()["suspects"] == ["a"])
    finally:
        gateway.stop()
        gateway.sensors.close()
    hottest = max((each["value"] for each in gateway.on("lab/hotspot")), default=0.0)
    assert hottest < 25.0  # even if sensors are late
    if gateway.is_late:
        return False
    implausible, readings = gateway.implausible(), [each for each in gateway.answers if not each[2]]
    learned = gateway.on("lab/selected")[-1]["model"]["observations"]
    later = [sensor for number, sensor, _ in gateway.answers if number > implausible[2]]
    print(
        f"{len(gateway.answers)} activated, implausible in {implausible}; "
        f"the hottest was {hottest:.2f} °C at most"
    )
    assert_backed_off(implausible)
    assert learned in (len(readings) - 1, len(readings))  # the last answer came after it was said
    assert later.count("b") > len(later) / 2
    assert gateway.log_text().count("rejected as implausible") == 1
    assert gateway.log_text().count("sensor-implausible: a sent ") == 1
    return True
