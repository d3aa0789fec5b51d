"""Latency from a reading to the next decision, and readings per second, with a real mosquitto.

Run with ``make bench``. The daemon is compared with a paho client that only echoes, or only counts:
the same broker, QoS and protocol, TCP_NODELAY at both ends, in alternating rounds of one run.
The measured process has one core; the broker and the client have another.
"""

import os
import subprocess
import time
from contextlib import ExitStack
from statistics import median, quantiles

import pytest
from benchmarks.rounds import ratios, spread
from edge_tvbo_adapters.simulation import local_broker
from support.ports import free_port
from support.wire import TIMEOUT_S, Bare, Daemon, values

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]
CORES = sorted(os.sched_getaffinity(0))
ROUNDS = 9
READINGS = 200  # a round, one after the other
BURST = 10_000  # readings a round, at once
PAUSE = 0.001  # s after an answer, until the answering process is idle
ECHOES = {
    "echo": "a paho client that echoes",
    "retain": "a paho client that echoes at QoS 1, retained like `selected`",
}
BROKER = """\
listener {port} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
max_queued_messages 0
max_queued_bytes 0
persistence false
"""


@pytest.fixture
def broker(tmp_path):
    """Return the port of a mosquitto that shares the first core with this process."""
    port = free_port()
    _, command = local_broker.choose(port, tmp_path)
    (tmp_path / "mosquitto.conf").write_text(BROKER.format(port=port))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    local_broker.wait_for(process, port, tmp_path / "log")
    for each in (process.pid, 0):
        os.sched_setaffinity(each, CORES[:1])
    yield port
    os.sched_setaffinity(0, CORES)
    process.kill()
    process.wait(TIMEOUT_S)


@pytest.fixture
def beside(broker, tmp_path):
    """Return a function that makes pairs: the daemon, and a bare client that does `what`.

    If `what` is 3.1.1, the pair is the daemon with MQTT 5 and the daemon with MQTT 3.1.1.
    """
    with ExitStack() as stack:

        def make(what, qos):
            pair = (
                [Daemon(broker, qos, tmp_path, version) for version in ("5", what)]
                if what == "3.1.1"
                else [Daemon(broker, qos, tmp_path), Bare(broker, qos, what)]
            )
            for each in pair:
                stack.callback(each.close)
                os.sched_setaffinity(each.process.pid, CORES[-1:])
            return pair

        yield make


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("what", ECHOES)
def test_a_reading_is_answered_nearly_as_soon_as_by_an_echo(bench, beside, what, qos):
    pair = beside(what, qos)
    ours, theirs = zip(*(answers(pair, index) for index in range(ROUNDS)), strict=True)
    for name, of, most in (("p99", p99, 2.5), ("median", median, 1.5)):
        both = [[of(each) for each in rounds] for rounds in (ours, theirs)]
        bench(
            f"reading to `selected`, {name}, QoS {qos}",
            ECHOES[what],
            ratios(*both),
            most=most,
            detail=f"{spread(both[0])} µs, it {spread(both[1])} µs",
        )


@pytest.mark.parametrize(("qos", "least"), [(0, 0.6), (1, 0.6)])
def test_a_burst_is_taken_in_nearly_as_fast_as_by_a_counter(bench, beside, qos, least):
    pair = beside("count", qos)
    rates = [[each.per_second(values(BURST, index)) for each in pair] for index in range(ROUNDS)]
    ours, theirs = zip(*rates, strict=True)
    bench(
        f"readings ingested, QoS {qos}",
        "a paho client that counts",
        ratios(ours, theirs),
        least=least,
        detail=f"{spread(ours, 1e-3)} thousand a second, it {spread(theirs, 1e-3)}",
    )


@pytest.mark.parametrize("what", ["a burst of readings", "one reading and its decision"])
def test_mqtt_5_costs_processor_time(bench, beside, what):
    pair = beside("3.1.1", 1)
    each = burst_cost if what.startswith("a burst") else answer_cost
    costs = [[each(daemon, index) for daemon in pair] for index in range(ROUNDS)]
    newer, older = zip(*costs, strict=True)
    bench(
        f"processor time with MQTT 5: {what}, QoS 1",
        "the daemon with MQTT 3.1.1",
        ratios(newer, older),
        detail=f"{spread(newer, 1e6)} µs a reading, with 3.1.1 {spread(older, 1e6)} µs",
    )


def burst_cost(daemon, seed):
    """Return the daemon's processor time for each reading of a burst, s."""
    before = daemon.processor_time()
    daemon.per_second(values(BURST, seed))
    return (daemon.processor_time() - before) / BURST


def answer_cost(daemon, seed):
    """Return the daemon's processor time for a reading and the decision that follows, s."""
    before = daemon.processor_time()
    for value in values(READINGS, seed):
        daemon.microseconds(value)
    return (daemon.processor_time() - before) / READINGS


def answers(pair, seed):
    """Return the microseconds of each answer of a round, for both of the pair."""
    took = []
    for each in pair:
        took.append([])
        for value in values(READINGS, seed):
            time.sleep(PAUSE)
            took[-1].append(each.microseconds(value))
    return took


def p99(values):
    """Return the 99 % quantile."""
    return quantiles(values, n=100)[-1]
