"""What the shipped broker configuration promises where readings come faster than we take them."""

import re
import time
from contextlib import closing

import pytest
from edge_tvbo_adapters.simulation import local_broker
from support.paths import ROOT
from support.wire import Daemon, values

SHIPPED = (ROOT / "deploy" / "mosquitto.conf").read_text()
LIMITS = "".join(re.findall(r"^(?:max_queued|max_inflight|memory).*\n", SHIPPED, re.MULTILINE))
AGES = 2.0  # s; a thousand readings take a twentieth of one
KEPT = int(re.search(r"max_queued_messages (\d+)", LIMITS)[1])


@pytest.fixture
def daemon(mosquitto, monkeypatch, tmp_path):
    """Give a daemon at a broker with the limits of deploy/mosquitto.conf."""
    ample = local_broker.MOSQUITTO
    limited = ample.replace("max_queued_messages 100000\n", LIMITS)
    assert limited != ample
    monkeypatch.setattr(local_broker, "MOSQUITTO", limited)
    broker = mosquitto()
    broker.start()
    with closing(Daemon(broker.port, 1, tmp_path)) as running:
        yield running


def test_none_is_lost_of_as_many_readings_as_the_broker_keeps_while_the_daemon_stands_still(daemon):
    for seed in range(3):
        daemon.per_second(values(KEPT, seed))  # which sees that the model has taken in all of them


def test_of_more_than_the_broker_keeps_the_last_are_lost_although_it_acknowledged_them(daemon):
    """As the pages say: an acknowledgement of mosquitto's is no promise beyond its limits."""
    daemon.stand_still()
    daemon.wire.burst(daemon.readings(values(3 * KEPT, 1)))
    daemon.go_on()
    time.sleep(AGES)
    daemon.microseconds(b"20.5")
    assert KEPT < daemon.observations < 3 * KEPT
