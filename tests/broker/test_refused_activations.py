"""A sensor whose activations a real mosquitto refuses: it is avoided, and not blamed."""

import json
import os
import signal

import numpy as np
import pytest
from support.controllers import controller_settings
from support.gateway import Gateway, program
from support.link import link_to
from support.settings import VERSION, field_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.commands import Activate, Ending, Notify, Record
from edge_tvbo.messages.events import (
    ActivationUndelivered,
    DeadlineElapsed,
    IntervalElapsed,
    Reading,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

STEP = 60.0  # s, an interval


def rules_for(*sensors, topic="lab/{}/activate"):
    """Return an ACL that allows everything but the activations of other sensors."""
    rules = ["readwrite edge_tvbo/#", "readwrite +/+/t", "read +/+/activate", "read +/+/go"]
    rules += ["readwrite +/barrier", *(f"write {topic.format(each)}" for each in sensors)]
    return "".join(f"topic {each}\n" for each in rules)


class Lab:
    """A controller whose commands a link carries to a broker; the test advances its time."""

    def __init__(self, driver, link, sensors, **settings):
        field = SensorField(sensors, np.eye(len(sensors)) + 0.5, 0.01, unit="°C", center=20.0)
        policy = make_policy("static", field, seed=0)  # selects the first sensor
        self.controller = Controller(policy, controller_settings(max_backoff=4, **settings))
        self.driver, self.link = driver, link
        self.tried, self.endings, self.notices = [], [], []  # of the first sensor; of all sensors
        self.first = sensors[0]
        self.at = 0.0

    def run(self, intervals):
        """Run intervals in which each sensor replies, except for the first one."""
        for _ in range(intervals):
            self.take(IntervalElapsed(self.at))
            self.driver.until(lambda: self.link._outbox.empty)
            self.take_received()
            sensor = self.controller.health().selected
            if sensor != self.first:
                self.take(Reading(sensor, 20.0 + self.at % 7, self.at + 5.0, self.at + 5.0))
            for undelivered in self.link.recall("lab"):
                self.take(undelivered)
            self.take(DeadlineElapsed(self.controller.interval, self.at + 20.0))
            self.at += STEP

    def take_received(self):
        """Handle the events that the link has yielded so far."""
        for _, event in self.driver.events:
            self.take(event)
        self.driver.events.clear()

    def take(self, event):
        for command in self.controller.handle(event):
            self.link.send("lab", command)
            match command:
                case Activate(sensor=self.first, interval=interval):
                    self.tried.append(interval)
                case Record(sensor=self.first, ending=ending):
                    self.endings.append(ending)
                case Notify(notice=notice):
                    self.notices.append(notice.event)


@pytest.fixture
def lab(mosquitto, drive, tmp_path):
    """Return a function that starts a broker, and a lab at this broker."""

    def make(mode, version, sensors=("a", "b", "c"), extra="", **settings):
        (tmp_path / "acl").write_text(rules_for(*sensors[1:]))
        broker = mosquitto(extra or f"allow_anonymous true\nacl_file {tmp_path / 'acl'}\n")
        broker.start()
        activate = ActivateSettings(mode=mode, topic="lab/{sensor}/activate", payload="measure")
        field = field_settings(sensors, "lab/{sensor}/t", activate=activate)
        link = link_to(broker.port, field=field, version=version)
        driver = drive(link)
        driver.online()
        return broker, Lab(driver, link, sensors, **settings)

    return make


@pytest.mark.parametrize("mode", ["live", "sleepy"])
def test_a_denied_sensor_is_tried_after_1_2_4_intervals_until_the_rules_change(lab, tmp_path, mode):
    broker, lab = lab(mode, "5")
    lab.run(20)
    assert lab.tried == [0, 2, 5, 10, 15]
    assert set(lab.endings) == {Ending.UNDELIVERED}
    health = lab.controller.health()
    assert (health.answered, health.suspects, lab.notices) == (15, [], [])

    (tmp_path / "acl").write_text(rules_for("a", "b", "c"))
    broker.reload()
    lab.run(2)
    assert lab.tried[5:] == [20, 21]
    assert lab.endings[5:] == [Ending.MISSED, Ending.MISSED]


@pytest.mark.parametrize("mode", ["live", "sleepy"])
def test_a_denied_sensor_is_the_subject_of_one_notice(lab, peer, mode):
    """The rules also forbid the empty message that withdraws the activation of a sleepy sensor."""
    broker, lab = lab(mode, "5")
    watcher = peer(broker.port, "edge_tvbo/+/+/event", "edge_tvbo/+/event", "lab/barrier")
    lab.run(4)
    watcher.publish("lab/barrier", b"")
    watcher.wait(lambda: watcher.on("lab/barrier"))
    (topic, payload, _), _ = watcher.received
    notice = json.loads(payload)
    assert topic.endswith("/lab/event")
    assert (notice["event"], notice["sensor"]) == ("message-refused", "a")


def test_a_sensor_whose_activation_exceeds_the_limit_of_the_broker_is_avoided(lab):
    """The link does not send it."""
    large = "a" * 400
    extra = "allow_anonymous true\nmax_packet_size 400\n"
    _, lab = lab("live", "5", sensors=(large, "b", "c"), extra=extra)
    lab.run(12)
    assert lab.tried == [0, 2, 5, 10]
    assert (lab.controller.health().suspects, lab.notices) == ([], [])


def test_with_on_reading_a_denied_sensor_that_reports_by_itself_is_tried_after_1_2_4_intervals(lab):
    _, lab = lab("live", "5", on_reading=True)
    lab.take(IntervalElapsed(lab.at))
    while (interval := lab.controller.interval) < 12:
        lab.driver.until(lambda: lab.link._outbox.empty)
        lab.take_received()
        lab.at += 5.0
        lab.take(Reading(lab.first, 20.0 + lab.at % 7, lab.at, lab.at))
        selected = lab.controller.health().selected
        if selected != lab.first:
            lab.take(Reading(selected, 20.0 + lab.at % 7, lab.at, lab.at))
        for undelivered in lab.link.recall("lab"):
            lab.take(undelivered)
        lab.take(DeadlineElapsed(interval, lab.at + 20.0))
    assert lab.tried == [0, 2, 5, 10]
    assert set(lab.endings) == {Ending.UNDELIVERED}


def test_a_refusal_that_arrives_after_the_deadline_backs_the_sensor_off(lab):
    broker, lab = lab("live", "5")
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        lab.take(IntervalElapsed(0.0))
        lab.driver.turn()
        (undelivered,) = lab.link.recall("lab")
        assert undelivered == ActivationUndelivered("a", 0, left=True)
        lab.take(undelivered)
        lab.take(DeadlineElapsed(0, 20.0))
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    lab.driver.until(lambda: lab.link._outbox.empty)
    lab.take_received()
    lab.at = STEP
    lab.run(5)
    assert lab.tried == [0, 2, 5]
    assert set(lab.endings) == {Ending.UNDELIVERED}


def test_with_mqtt_3_1_1_a_denied_sensor_times_out(lab):
    """Mosquitto acknowledges the activation, and drops it."""
    _, lab = lab("live", "3.1.1")
    lab.run(3)
    assert lab.endings == [Ending.MISSED] * 3
    assert (lab.controller.health().suspects, lab.notices) == (["a"], ["sensor-lost"])


class DeniedGateway(Gateway):
    """A gateway that selects the sensor a whenever it can."""

    def configure(self, **changes):
        super().configure(policy='static", sensor = "a', **changes)
        text = self.config.read_text()
        self.config.write_text(text.replace("reply_timeout", "max_backoff = 8\nreply_timeout"))

    def _answer(self, client, userdata, message):
        sensor = message.topic.split("/")[1]
        self.activations.append(sensor)
        value = str(20 + len(self.activations) % 7)
        client.publish(message.topic.replace("/go", "/t"), value)


def test_a_daemon_follows_the_other_sensors_and_uses_the_denied_one_again(
    mosquitto, peer, tmp_path, monkeypatch
):
    monkeypatch.setenv(VERSION, "5")
    acl = tmp_path / "acl"
    acl.write_text(rules_for("b", "c", topic="k/{}/go"))
    broker = mosquitto(f"allow_anonymous true\nacl_file {acl}\n")
    broker.start()
    watcher = peer(broker.port, "edge_tvbo/k/#")
    gateway = DeniedGateway(tmp_path, broker.port, peer)
    gateway.start()
    gateway.wait_for_activations(20)
    assert "a" not in gateway.activations
    decisions = watcher.documents("edge_tvbo/k/lab/selected")
    assert {"a": "refused"} in [each["ineligible"] for each in decisions]
    assert_status_says_what_to_allow(gateway)
    gateway.kill()
    gateway.start()
    gateway.wait_for_activations(10)
    assert_status_says_what_to_allow(gateway)  # the broker may have refused nothing since the kill
    for each in watcher.documents("edge_tvbo/k/lab/event"):
        assert (each["event"], each["sensor"]) == ("message-refused", "a")
        assert "k/a/go (Not authorized); allow the daemon's login" in each["text"]
    assert len(watcher.on("edge_tvbo/k/lab/event")) <= 2  # one of each process
    gateway.wait_for_log("k/a/go (Not authorized)")

    acl.write_text(rules_for("a", "b", "c", topic="k/{}/go"))
    broker.reload()
    gateway.wait(lambda: gateway.activations[-5:] == ["a"] * 5)
    gateway.wait_for_log("the broker accepts messages on k/a/go again")
    watcher.wait(lambda: watcher.documents("edge_tvbo/k/health")[-1]["problem"] is None)
    assert "refuses" not in program("status", str(gateway.config)).stdout
    gateway.stop()


def assert_status_says_what_to_allow(gateway):
    """Compare the output of `status` with the rules of the broker."""
    text = program("status", str(gateway.config)).stdout
    assert "problem: the broker refuses the activations of 1 sensor of lab; `edge-tvbo" in text
    assert (
        "  the broker refuses the activations of a (topic k/a/go); allow clients without a login "
        "to write to these topics in the broker's ACL\n"
    ) in text
