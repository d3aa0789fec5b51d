"""Back-pressure: the shipped broker configuration if readings arrive faster than they are read."""

import re
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing

import pytest
from edge_tvbo_adapters.simulation import local_broker
from support.paths import ROOT
from support.wire import Daemon, Wire, values

SHIPPED = (ROOT / "deploy" / "mosquitto.conf").read_text()
LIMITS = "".join(re.findall(r"^(?:max_queued|max_inflight|memory).*\n", SHIPPED, re.MULTILINE))
PAUSE_S = 0.5  # between two readings of the selected sensor
QUEUE_LIMIT = int(re.search(r"max_queued_messages (\d+)", LIMITS)[1])


@pytest.fixture
def daemon(mosquitto, monkeypatch, tmp_path):
    """Yield a daemon whose broker has the limits of deploy/mosquitto.conf."""
    ample = local_broker.MOSQUITTO
    limited = ample.replace("max_queued_messages 100000\n", LIMITS)
    assert limited != ample
    monkeypatch.setattr(local_broker, "MOSQUITTO", limited)
    broker = mosquitto()
    broker.start()
    with closing(Daemon(broker.port, 1, tmp_path)) as running:
        yield running


def test_no_reading_is_lost_up_to_the_queue_limit_of_the_broker(daemon):
    for seed in range(3):
        daemon.per_second(values(QUEUE_LIMIT, seed))  # checks that the model received all of them


def test_readings_above_the_queue_limit_are_lost_although_the_broker_acknowledged_them(daemon):
    """The documentation says so: mosquitto acknowledges messages that it then drops."""
    daemon.stand_still()
    daemon.wire.burst(daemon.readings(values(3 * QUEUE_LIMIT, 1)))
    daemon.go_on()
    wait_for_a_decision(daemon)
    assert QUEUE_LIMIT < daemon.observations < 3 * QUEUE_LIMIT


def wait_for_a_decision(daemon):
    """Let the selected sensor send readings until one is answered: one may be dropped too."""
    sender = Wire(daemon.port, ["nothing"], 1)
    with closing(sender), ThreadPoolExecutor(1) as pool:
        answer = pool.submit(daemon.receive)
        while not answer.done():
            sender.burst([(daemon.topic, b"20.5")])
            wait([answer], PAUSE_S)
    daemon.sensor = daemon.next_sensor(answer.result())
