"""Two daemons of one instance with different client ids, at a real mosquitto."""

import logging
import time
from contextlib import ExitStack

import pytest
from edge_tvbo_adapters.mqtt import second_daemon, subscription
from edge_tvbo_adapters.mqtt.second_daemon import SecondDaemon
from msgspec.structs import replace
from support.gateway import Gateway
from support.link import cut, health, link_to, logged

pytestmark = pytest.mark.broker

TOLERANCE_S, APART_S, GONE_S = 1.2, 2.4, 10.0  # `uptime_s` is in whole seconds
MOMENT_S = 3 * APART_S  # in which a second daemon is found
TOPIC = "edge_tvbo/twins/health"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Let the links subscribe to the health, and judge it, within seconds."""
    monkeypatch.setattr(subscription, "HEALTH_DELAY_S", 0.1)
    monkeypatch.setattr(second_daemon, "TOLERANCE_S", TOLERANCE_S)
    monkeypatch.setattr(second_daemon, "MIN_APART_S", APART_S)
    monkeypatch.setattr(second_daemon, "MIN_GONE_S", GONE_S)
    monkeypatch.setattr(second_daemon, "GONE_PERIODS", 0)


class Daemon:
    """A daemon's link that publishes a health document every half a second."""

    def __init__(self, port, process, **options):
        self.process = process
        detector = SecondDaemon("twins", process, 60.0)
        self.link = link_to(port, instance="twins", detector=detector, **options)
        self._began, self._due = time.monotonic(), 0.0

    def report(self, now):
        if now >= self._due:
            self._due = now + 0.5
            uptime_s = int(now - self._began)
            self.link.report(replace(health(), uptime_s=uptime_s, process=self.process))


class House:
    """Daemons that run in turn, at one broker."""

    def __init__(self, drive, *daemons):
        self.driver = drive(*(each.link for each in daemons))
        self.daemons = daemons
        self.driver.online()

    def until(self, condition, within=60.0):
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline
            self.turn()

    def for_seconds(self, seconds):
        deadline = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= deadline, 2 * seconds)

    def turn(self):
        for each in self.daemons:
            each.report(time.monotonic())
        self.driver.turn()


def test_two_daemons_of_an_instance_notice_each_other_until_one_stops(broker, drive, caplog, peer):
    caplog.set_level(logging.INFO)
    watcher = peer(broker.port, "edge_tvbo/twins/event")
    other = Daemon(broker.port, "22222222", client_id="two")
    house = House(drive, Daemon(broker.port, "11111111", client_id="one"), other)
    links = [each.link for each in house.daemons]
    house.until(lambda: all(each.status().second_daemon for each in links))
    assert [each.online for each in links] == [True, True]
    for line in logged(caplog):
        assert "another daemon of the instance 'twins'" in line
        assert line.endswith("set another `instance` for it [E415]")
    assert len(logged(caplog)) == 2
    watcher.wait(lambda: len(watcher.documents("edge_tvbo/twins/event")) == 2)
    assert {each["event"] for each in watcher.documents("edge_tvbo/twins/event")} == {
        "second-daemon"
    }

    house.for_seconds(GONE_S + APART_S)
    assert len(logged(caplog)) == 2  # once each
    other.link.close()
    house.daemons = house.daemons[:1]
    house.driver.links = links[:1]
    house.until(lambda: not links[0].status().second_daemon)
    assert "has stopped" in logged(caplog, logging.INFO)[-1]


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_restarted_daemon_does_not_take_itself_for_another(broker, drive, caplog, end, peer):
    """The broker has retained its health, and publishes the last will of the killed process."""
    before = Daemon(broker.port, "11111111", client_id="restarted")
    House(drive, before).for_seconds(2 * APART_S)
    if end == "killed":
        cut(before.link)  # the broker publishes its will
    else:
        before.link.close()
    watcher = peer(broker.port, TOPIC)
    watcher.wait(lambda: watcher.on(TOPIC))
    after = Daemon(broker.port, "22222222", client_id="restarted")
    House(drive, after).for_seconds(MOMENT_S)
    assert not after.link.status().second_daemon
    assert not logged(caplog)


def test_a_lost_connection_shows_no_second_daemon(broker, drive, caplog):
    daemon = Daemon(broker.port, "11111111")
    house = House(drive, daemon)
    for _ in range(2):
        house.for_seconds(APART_S)
        cut(daemon.link)
        house.until(lambda: not daemon.link.online)
        house.until(lambda: daemon.link.online)
    house.for_seconds(MOMENT_S)
    assert not daemon.link.status().second_daemon


def test_a_bridge_that_echoes_is_no_second_daemon(broker, drive, peer):
    """It returns what it receives, and what it has stored of an earlier process."""
    bridge = peer(broker.port, TOPIC)
    daemon = Daemon(broker.port, "11111111")
    house = House(drive, daemon)
    old = b'{"at":"","uptime_s":5000,"version":"0.2.0","fields":{},"process":"00000000"}'
    deadline = time.monotonic() + MOMENT_S
    echoes = 0
    while time.monotonic() < deadline:
        house.for_seconds(0.3)
        own = [each for each in bridge.on(TOPIC) if b"11111111" in each]
        for payload in [*own[-1:], old]:
            bridge.publish(TOPIC, payload, retain=True)
            echoes += 1
    assert echoes > 10
    assert not daemon.link.status().second_daemon


def test_without_the_right_to_read_the_health_the_daemon_works_as_before(
    mosquitto, drive, caplog, tmp_path
):
    """Mosquitto grants the subscription, and delivers nothing."""
    acl = tmp_path / "acl"
    acl.write_text("topic write edge_tvbo/twins/#\ntopic read lab/#\n")
    broker = mosquitto(f"allow_anonymous true\nacl_file {acl}\n")
    broker.start()
    daemons = [Daemon(broker.port, name * 8, client_id=name) for name in "ab"]
    house = House(drive, *daemons)
    house.for_seconds(MOMENT_S)
    assert all(each.link.online and not each.link.status().second_daemon for each in daemons)
    assert not logged(caplog)


@pytest.mark.soak
def test_two_programs_of_an_instance_report_each_other(tmp_path, mosquitto, peer):
    """With the true times: within a minute, and for three minutes after one has stopped."""
    broker = mosquitto()
    broker.start()
    watcher = peer(broker.port)
    gateways = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        gateway = Gateway(tmp_path / name, broker.port, peer, name="twins")
        gateway.configure(dir=tmp_path / name)
        text = gateway.config.read_text().replace("[mqtt]", f'[mqtt]\nclient_id = "{name}"')
        gateway.config.write_text(f'health = "5s"\n{text}')
        gateways.append(gateway)

    def problems():
        return {each["process"]: each["problem"] for each in watcher.documents(TOPIC)[-8:]}

    with ExitStack() as stack:
        for each in gateways:
            each.start()
            stack.callback(each.kill)
        for each in gateways:
            each.wait_for_log("[E415]")
        watcher.wait(lambda: all("another daemon" in (each or "") for each in problems().values()))
        assert len(problems()) == 2
        gateways[1].kill()
        gateways[0].wait_for_log("the other daemon of this instance has stopped", within=240.0)
        watcher.wait(lambda: list(problems().values()) == [None])
    assert gateways[0].log_text().count("[E415]") == 1
