"""RabbitMQ and aedes with both versions of MQTT: what the daemon needs of a broker.

`make test-brokers` installs both.
"""

import logging
import time

import pytest
from edge_tvbo_adapters.mqtt.read_retained import read_retained
from support.gateway import Gateway, program
from support.link import cut, decision, health, link_to, logged
from support.mosquitto import TIMEOUT_S, Peer
from support.other_brokers import Aedes, RabbitMq
from support.settings import field_settings, mqtt_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.errors import LinkError
from edge_tvbo.messages.commands import Activate, Ending, Record
from edge_tvbo.messages.events import Reading

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module", params=[RabbitMq, Aedes])
def other(request, tmp_path_factory):
    """Return a running broker; skip the test where it is not installed."""
    broker = request.param(tmp_path_factory.mktemp("broker"))
    if why := broker.missing():
        pytest.skip(f"{why}; `make test-brokers` installs it, where it may")
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(autouse=True)
def longer_timeouts(monkeypatch):
    """Let the reader of retained states wait for a broker on a busy machine."""
    monkeypatch.setattr("edge_tvbo_adapters.mqtt.read_retained.QUIET_S", 5.0)


@pytest.fixture(params=["3.1.1", "5"])
def version(request):
    return request.param


@pytest.fixture
def connected(other, version, drive):
    """Return a function that makes links that are connected to the broker."""

    def make(**options):
        link = link_to(other.port, version=version, **options)
        driver = drive(link)
        driver.online()
        return link, driver

    return make


def retained(other, instance):
    """Return the retained state of a daemon, as `edge-tvbo status` reads it.

    On a busy machine, RabbitMQ 3 closes connections that it has accepted.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return read_retained(mqtt_settings(other.port), instance, ["lab"], TIMEOUT_S)
        except LinkError:
            if time.monotonic() > deadline:
                raise


def test_the_version_that_is_used_instead_of_5_is_logged_once(connected, version, caplog):
    link, driver = connected()
    used = link._session.version
    cut(link)
    driver.until(lambda: not link.online)
    driver.online()
    lines = [each for each in logged(caplog, logging.WARNING) if "so MQTT 3.1.1 is used" in each]
    assert len(lines) == (used != version)


def test_readings_and_activations_pass(connected, other, peer):
    sensor = peer(other.port, "lab/+/activate")
    link, driver = connected()
    for i in range(100):
        sensor.client.publish("lab/a/reading", f'{{"t": {i}, "ts": {1000 + i}}}', qos=1)
    driver.until(lambda: len(driver.events) == 100)
    assert [event.value for _, event in driver.events] == list(range(100))
    link.send("lab", Activate("b", 7, 600.0, 660.0))
    driver.until(lambda: sensor.on("lab/b/activate") == [b'{"id": "b", "at": 600}'])


def test_documents_are_retained_and_the_will_says_offline(connected, other):
    link, driver = connected(instance="kept", reconnect_min=60, reconnect_max=60)
    link.send("lab", decision())
    link.report(health())
    driver.until(lambda: link._outbox.empty)
    found = retained(other, "kept")
    assert (found.status, found.selected["lab"].sensor) == ("online", "a")
    assert found.health.fields["lab"].answered == 1
    cut(link)
    driver.until(lambda: not link.online)
    while retained(other, "kept").status != "offline":
        pass


def test_a_retained_reading_is_marked_as_retained(connected, other, peer):
    sender = peer(other.port)
    sender.publish("old/a/reading", "5", retain=True)
    field = field_settings(("a",), "old/{sensor}/reading", "number")
    _, driver = connected(field=field)
    sender.publish("old/a/reading", "6")
    driver.until(lambda: [each.value for _, each in driver.events][-1:] == [6.0])
    assert all(event.retained for _, event in driver.events[:-1])
    assert isinstance(driver.events[-1][1], Reading) and not driver.events[-1][1].retained


def test_the_command_of_a_sleepy_sensor_is_retained_and_withdrawn(connected, other):
    activate = ActivateSettings(mode="sleepy", topic="zzz/{sensor}/todo", payload="measure")
    link, driver = connected(field=field_settings(("a",), "zzz/{sensor}/t", activate=activate))

    def found():
        node = Peer(other.port, ["zzz/a/todo", "sentinel"])
        node.publish("sentinel", b"1")
        node.wait(lambda: node.on("sentinel"))
        node.close()
        return node.on("zzz/a/todo")

    link.send("lab", Activate("a", 1, 0.0, 60.0))
    driver.until(lambda: link._outbox.empty)
    assert found() == [b"measure"]
    link.send("lab", Record(1, 0.0, "a", Ending.ANSWERED, None, None, None, False))
    driver.until(lambda: link._outbox.empty)
    assert found() == []


def test_a_daemon_selects_sensors_and_commands_find_it(other, version, peer, tmp_path, monkeypatch):
    monkeypatch.setenv("EDGE_TVBO__MQTT__VERSION", version)
    gateway = Gateway(tmp_path, other.port, peer, name=f"whole-{version[0]}")
    gateway.start()
    try:
        gateway.wait_for_activations(5)
        gateway.assert_never_twice()
        shown = program("status", str(gateway.config))
        assert shown.returncode == 0, shown.stderr
        assert "online" in shown.stdout
        assert program("check", "--connect", str(gateway.config)).returncode == 0
    finally:
        gateway.close()


def test_after_a_restart_of_the_broker_the_documents_are_published_again(connected, other):
    link, driver = connected(instance="again")
    link.send("lab", decision())
    driver.until(lambda: link._outbox.empty)
    other.stop()
    driver.until(lambda: not link.online)
    other.start()
    driver.online()
    driver.until(lambda: link._outbox.empty)
    assert retained(other, "again").selected["lab"].sensor == "a"
