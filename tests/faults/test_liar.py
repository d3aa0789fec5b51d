"""A sensor that may speak, and lies: what it can move, and for how long."""

import json
from itertools import pairwise

import numpy as np
import pytest
from support.controllers import controller_settings
from support.gateway import Gateway

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
HOTTEST = ("n3", "n4")  # asked again and again; one of them lies
INTERVALS = 120
THOUSAND = 1000.0  # °C
liars = pytest.mark.parametrize("liar", HOTTEST)
policies = pytest.mark.parametrize("policy", ["auto", "et-gp-ucb", "tv-gp-ucb"])
beginnings = pytest.mark.parametrize("since", [0, 40], ids=["at once", "after honest hours"])


def followed(policy, liar, lie, *, since=0):
    """Return the sensor activated in each interval, and the controller.

    From interval `since` on `liar` adds `lie` (°C) to what it measures; None: it is silent.
    """
    field = SensorField(NAMES, K, 0.01, unit="°C", center=20.0, scale=2.0)
    controller = Controller(
        make_policy(policy, field, seed=1), controller_settings(reply_timeout=20.0, max_age=90.0)
    )
    asked = []
    for t in range(INTERVALS):
        (activate,) = (
            each
            for each in controller.handle(IntervalElapsed(100.0 * t))
            if isinstance(each, Activate)
        )
        asked.append(activate.sensor)
        at, added = 100.0 * t + 1.0, lie if activate.sensor == liar and t >= since else 0.0
        if added is not None:
            value = float(TRUTH[NAMES.index(activate.sensor)]) + added
            controller.handle(Reading(activate.sensor, value, at=at, received=at))
        controller.handle(DeadlineElapsed(activate.interval, activate.expires_at))
    return asked, controller


def lies(asked, liar, since):
    """Return the intervals in which it sent an implausible reading."""
    return [t for t, sensor in enumerate(asked) if sensor == liar and t >= since]


def assert_left_alone(numbers):
    """Check that after the first lie 1 interval at least is spared, then 2, 4, 8 ... of them."""
    for times, (earlier, later) in enumerate(pairwise(numbers)):
        assert later - earlier > min(2**times, 64)


@beginnings
@liars
@policies
def test_a_liar_is_counted_suspected_and_left_alone_for_twice_as_long_each_time(
    policy, liar, since
):
    asked, controller = followed(policy, liar, THOUSAND, since=since)
    when = lies(asked, liar, since)
    health = controller.health()
    print(f"{policy}, {liar}: asked in {when}; {health.refused}; suspects {health.suspects}")
    assert len(when) >= 3
    assert_left_alone(when)
    assert health.refused == {"implausible": len(when)}
    assert health.missed == len(when)
    assert health.suspects == [liar]


@beginnings
@liars
@policies
def test_a_thousand_too_much_moves_the_model_no_more_than_silence_does(policy, liar, since):
    asked, controller = followed(policy, liar, THOUSAND, since=since)
    unmoved, silent = followed(policy, liar, None, since=since)
    when = lies(asked, liar, since)
    assert len(when) >= 3
    assert asked == unmoved
    assert controller.policy.observations == INTERVALS - len(when)
    for belief, other in zip(controller.policy.posterior(), silent.policy.posterior(), strict=True):
        np.testing.assert_array_equal(belief, other)


@beginnings
@liars
@policies
def test_from_its_third_activation_on_a_liar_moves_the_selection_no_more(policy, liar, since):
    asked, _ = followed(policy, liar, THOUSAND, since=since)
    third = lies(asked, liar, since)[2]
    (honest,) = set(HOTTEST) - {liar}
    print(f"{policy}, {liar}: its third lie in interval {third}, {third - since} after it began")
    assert asked[third + 1 :].count(liar) <= 4  # after 4, 8, 16 and 32 intervals
    assert asked[third + 1 :].count(honest) > 0.6 * (INTERVALS - third)


@liars
def test_what_is_only_unusual_is_believed(liar):
    asked, controller = followed("auto", liar, 8.0)  # four standard deviations
    assert asked.count(liar) >= 3
    assert controller.health().refused == {}
    assert controller.policy.observations == INTERVALS


# --- a running daemon -----------------------------------------------------------------------------


class Betrayed(Gateway):
    """A gateway whose hottest sensor, `a`, can be told to lie."""

    def __init__(self, directory, port, peer):
        self.measured = {"a": 24.0, "b": 22.0, "c": 20.0}  # °C
        self.lying = False
        self.answers = []  # (interval, sensor, whether it lied)
        super().__init__(directory, port, peer, "betrayed")
        self.world = peer(port, "edge_tvbo/betrayed/#")

    def configure(self):
        super().configure(policy="et-gp-ucb")
        text = self.config.read_text().replace('timeout = "100ms"', 'timeout = "180ms"')
        self.config.write_text('health = "1s"\n' + text)

    def _answer(self, client, userdata, message):
        number, _ = json.loads(message.payload)
        sensor = message.topic.split("/")[1]
        lie = self.lying and sensor == "a"
        self.answers.append((number, sensor, lie))
        value = self.measured[sensor] + (THOUSAND if lie else 0.0)
        client.publish(message.topic.replace("/go", "/t"), str(value))

    def on(self, topic):
        return [json.loads(each) for each in self.world.on(f"edge_tvbo/betrayed/{topic}")]

    def field(self):
        """Return the newest health of the field."""
        return self.on("health")[-1]["fields"]["lab"]

    def lies(self):
        return [number for number, _, lie in self.answers if lie]


@pytest.mark.broker
def test_a_daemon_leaves_a_sensor_alone_that_begins_to_lie_and_goes_on(broker, peer, tmp_path):
    gateway = Betrayed(tmp_path, broker.port, peer)
    gateway.start()
    try:
        gateway.wait(lambda: [sensor for _, sensor, _ in gateway.answers].count("a") >= 5)
        gateway.lying = True
        gateway.wait(lambda: len(gateway.lies()) >= 4)
        after = len(gateway.answers)
        gateway.wait(lambda: len(gateway.answers) >= after + 6)
        gateway.wait(lambda: gateway.field()["refused"] == {"implausible": len(gateway.lies())})
        gateway.wait(lambda: gateway.field()["suspects"] == ["a"])
    finally:
        gateway.stop()
    lied, readings = gateway.lies(), [each for each in gateway.answers if not each[2]]
    hottest = max(each["value"] for each in gateway.on("lab/hotspot"))
    learned = gateway.on("lab/selected")[-1]["model"]["observations"]
    later = [sensor for number, sensor, _ in gateway.answers if number > lied[2]]
    print(
        f"{len(gateway.answers)} asked, it lied in {lied}; the hottest was {hottest:.2f} °C at most"
    )
    assert_left_alone(lied)
    assert hottest < 25.0
    assert learned in (len(readings) - 1, len(readings))  # the last answer came after it was said
    assert later.count("b") > len(later) / 2
    assert gateway.said().count("implausible") == 1
