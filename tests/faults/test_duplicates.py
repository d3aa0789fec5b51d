"""Duplicate readings: a reading counts once, however many copies of it arrive.

At QoS 1, a message is sent again until it is acknowledged, so that any message may come twice. The
DUP flag says that the message was sent before, not that it arrived: a reading also counts if its
only copy has the flag.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.controllers import controller_settings
from support.link import FakeBroker, link_to, publish
from support.naive import se
from support.settings import field_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.events import IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

NOW = 1.7e9
NAMES = ("a", "b")
FIELD = SensorField(NAMES, se(np.array([[0.0], [0.4]]), 0.4), 0.01)
READINGS = [("a", 0.5), ("b", -0.3), ("a", 0.7), ("b", 0.1), ("a", 0.4)]
GRANTED = b"\x20\x02\x00\x00\x90\x03\x00\x01\x01"  # CONNACK and SUBACK
DUP = 0x08


def controller(policy="tv-gp-ucb"):
    """Return a controller in its first interval."""
    it = Controller(
        make_policy(policy, FIELD), controller_settings(reply_timeout=60.0, max_age=1e9)
    )
    it.handle(IntervalElapsed(NOW))
    return it


def field(stamped):
    settings = {"value": "t", "time": "ts"} if stamped else {"value": "t"}
    return field_settings(NAMES, "lab/{sensor}/reading", ("json", settings))


def written(n, value):
    """Return the payload of reading number `n`."""
    return b'{"t": %.1f, "ts": %d}' % (value, NOW + n)


def spread(events, copies):
    """Yield the events as if each reading and its copies had arrived 5 s after the one before."""
    for i, (name, event) in enumerate(events):
        received = NOW + 5.0 * (i // copies)
        at = event.at if event.stamped else received
        yield name, replace(event, at=at, received=received)


def taken(events):
    """Return a controller that handled these events of the link."""
    it = controller()
    for _, event in events:
        it.handle(event)
    return it


def assert_same_posterior(one, other):
    assert one.policy.observations == other.policy.observations
    np.testing.assert_allclose(
        one.policy.posterior(), other.policy.posterior(), rtol=0, atol=1e-9, strict=True
    )


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([0.1, 0.5, -0.3])), max_size=12),
    st.data(),
    st.booleans(),
    st.sampled_from(["et-gp-ucb", "tv-gp-ucb", "auto"]),
)
def test_duplicates_leave_every_posterior_unchanged(readings, data, stamped, policy):
    once, often = controller(policy), controller(policy)
    for n, (sensor, value) in enumerate(readings):
        at = NOW + 5.0 * n
        once.handle(Reading(sensor, value, at, at, stamped))
        for later in data.draw(st.lists(st.floats(0.0, 1.9), min_size=1, max_size=3).map(sorted)):
            often.handle(Reading(sensor, value, at if stamped else at + later, at + later, stamped))
    assert_same_posterior(once, often)


@given(st.data())
def test_a_duplicate_with_a_timestamp_is_ignored_however_late(data):
    once, often = controller(), controller()
    sent = []
    for n, (sensor, value) in enumerate(READINGS):
        at = NOW + 5.0 * n
        sent.append((sensor, value, at))
        once.handle(Reading(*sent[-1], at))
        for reading in [sent[-1], *data.draw(st.lists(st.sampled_from(sent), max_size=3))]:
            often.handle(Reading(*reading, at + 1))
    assert_same_posterior(once, often)


def activations(commands):
    return [each for each in commands if isinstance(each, Activate)]


def on_reading():
    """Return a controller with the interval "on-reading", and its first activation."""
    it = Controller(
        make_policy("tv-gp-ucb", FIELD), controller_settings(interval="on-reading", max_age=1e9)
    )
    (activation,) = activations(it.handle(IntervalElapsed(NOW)))
    return it, activation


@pytest.mark.parametrize("stamp", ["unstamped", "whole seconds", "milliseconds"])
@given(
    st.lists(st.sampled_from([1e-6, 0.001, 0.1, 0.999, 1.5]), min_size=2, max_size=12),
    st.floats(-3.0, 3.0),
)
def test_each_first_reply_counts_although_the_value_stays_the_same(stamp, delays, skew):
    it, activation = on_reading()
    now = NOW
    for delay in delays:
        now += max(delay, 0.001) if stamp == "milliseconds" else delay
        measured = {"unstamped": now, "whole seconds": (now + skew) // 1, "milliseconds": now}
        reply = Reading(activation.sensor, 0.5, measured[stamp], now, stamp != "unstamped")
        (activation,) = activations(it.handle(reply))
    assert it.health().answered == len(delays)
    assert it.health().refused == {}


@pytest.mark.parametrize("stamped", [True, False])
def test_a_copy_in_the_same_batch_is_no_reply_to_the_next_activation(stamped):
    """One batch has one time of arrival, and the first reply in it activates the next sensor."""
    it, activation = on_reading()
    replies = []
    while activation.sensor not in {each.sensor for each in replies}:
        replies.append(Reading(activation.sensor, 0.5, NOW, NOW, stamped))
        (activation,) = activations(it.handle(replies[-1]))
    (copy,) = (each for each in replies if each.sensor == activation.sensor)
    assert activations(it.handle(copy)) == []
    assert it.health().refused == {"duplicate": 1}
    assert it.health().answered == it.policy.observations == len(replies)


@given(st.floats(2.0, 1e5), st.floats(0.0, 1.0))
def test_a_late_copy_with_a_time_in_whole_seconds_is_no_reply(after, replied_after):
    it, activation = on_reading()
    sent = {}
    while activation.sensor not in sent:
        sent[activation.sensor] = Reading(activation.sensor, 0.5, NOW, NOW + replied_after)
        (activation,) = activations(it.handle(sent[activation.sensor]))
    copy = replace(sent[activation.sensor], received=NOW + replied_after + after)
    assert activations(it.handle(copy)) == []
    assert it.health().refused == {"duplicate": 1}


@pytest.mark.parametrize("stamped", [True, False])
def test_each_delivered_three_times_by_a_broker_the_posterior_is_that_of_one(
    broker, drive, peer, stamped
):
    driver = drive(link_to(broker.port, field=field(stamped)))
    driver.online()
    sensors = peer(broker.port)
    for n, (sensor, value) in enumerate(READINGS):
        for _ in range(3):
            sensors.publish(f"lab/{sensor}/reading", written(n, value))
    driver.until(lambda: len(driver.events) == 3 * len(READINGS))
    events = list(spread(driver.events, 3))
    often, once = taken(events), taken(events[::3])
    assert_same_posterior(once, often)
    assert once.policy.observations == len(READINGS)
    assert often.health().refused == {"duplicate": 2 * len(READINGS)}


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize(("flags", "copies"), [((DUP,), 0), ((0, DUP, DUP), 2), ((DUP, 0), 1)])
def test_with_a_broker_that_the_test_plays_the_dup_flag_says_nothing(stamped, flags, copies):
    """Mosquitto does not hand the flag of a sensor on, and sets it for kept sessions alone."""
    with FakeBroker(field=field(stamped)) as fake_broker:
        fake_broker.send(GRANTED)
        fake_broker.until(lambda: fake_broker.link.online)
        events = []
        for flag in flags:
            packet = bytearray(publish("lab/a/reading", written(0, 0.5), mid=7))
            packet[0] |= flag
            fake_broker.send(packet)
            events += fake_broker.take()
    it = taken(events)
    assert it.policy.observations == 1
    assert it.health().refused == ({"duplicate": copies} if copies else {})
