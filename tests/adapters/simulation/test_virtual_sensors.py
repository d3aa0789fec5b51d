"""Simulated sensors: replies of one field, of several fields, and in gaps of the recording."""

import logging
import time

import numpy as np
import pytest
from edge_tvbo_adapters.simulation.virtual_sensors import network, simulate
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.ports import free_port

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import ConfigError
from edge_tvbo.simulation.recording import Recording

ROWS = 12
TIMEOUT_S = 60.0
READING, ACTIVATE = "{field}/{sensor}/reading", "{field}/{sensor}/activate"
moments = st.floats(-1e9, 1e9)  # s from the recording's start


def recorded(start, interval, values):
    """Return a recording of two sensors without a gap."""
    return Recording(
        name="lab",
        unit="°C",
        objective="max",
        sensors=("a", "b"),
        start=start,
        interval=interval,
        values=values,
        observed=np.ones(values.shape, bool),
        source="synthetic",
    )


LAB = recorded(1000.0, 10.0, np.arange(2.0 * ROWS).reshape(ROWS, 2))  # all values differ


def fleet(count, recording=LAB):
    """Return the simulated sensor a of each of `count` fields."""
    names = [f"lab-{number}" for number in range(count)]
    nodes = network(recording, names, READING, ACTIVATE)
    return [nodes[f"{name}/a/activate"] for name in names]


def test_an_unreachable_broker_is_logged_once(caplog):
    deadline = time.monotonic() + TIMEOUT_S
    port = free_port()

    def stop():
        tried = [each for each in caplog.messages if "the connection is refused" in each]
        assert time.monotonic() < deadline, caplog.text
        return len(tried) > 3

    with caplog.at_level(logging.DEBUG):
        simulate(LAB, Mqtt(port=port), ["lab"], READING, ACTIVATE, ready=lambda: None, stop=stop)

    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert f"broker 127.0.0.1:{port}: the connection is refused" in warning.getMessage()


@given(moments)
def test_one_field_replies_as_recorded_and_not_after_the_end(since):
    (alone,) = fleet(1)
    row = (since + 1e-5) // LAB.interval

    assert alone.measured(LAB.start + since) == (2 * row if 0 <= row < ROWS else None)


@pytest.mark.parametrize("interval", [0.01, 0.1, 1.0, 600.0])
def test_a_time_on_the_grid_belongs_to_the_interval_that_begins_there(interval):
    """In spite of the rounding error of a time since 1970."""
    values = np.arange(2.0 * 1000).reshape(-1, 2)
    recording = recorded(1_772_409_600.0, interval, values)
    (alone,) = fleet(1, recording)
    times = recording.start + interval * np.arange(1000)
    assert [alone.measured(float(at)) for at in times] == values[:, 0].tolist()


@given(st.integers(2, ROWS), moments)
def test_every_field_of_a_fleet_always_replies_with_a_value_of_its_own(count, since):
    values = [node.measured(LAB.start + since) for node in fleet(count)]

    assert None not in values
    assert len(set(values)) == count


@given(st.integers(2, ROWS), st.data(), st.integers(0, ROWS - 1), st.integers(-3, 3))
def test_each_field_of_a_fleet_starts_its_share_of_the_recording_later_and_repeats(
    count, data, row, rounds
):
    number = data.draw(st.integers(0, count - 1))
    at = LAB.start + (row + rounds * ROWS) * LAB.interval

    ahead = number * ROWS // count
    assert fleet(count)[number].measured(at) == LAB.values[(row + ahead) % ROWS, 0]


def test_a_fleet_does_not_reply_in_a_gap():
    observed = LAB.observed.copy()
    observed[ROWS // 2 + 1, 0] = False
    first, second = fleet(2, replace(LAB, observed=observed))

    assert first.measured(LAB.start + LAB.interval) is not None
    assert second.measured(LAB.start + LAB.interval) is None


@pytest.mark.parametrize("at", [float("inf"), float("nan"), 1e308])
def test_a_time_far_outside_the_recording_is_not_answered_or_wraps(at):
    for node in (*fleet(1), *fleet(2)):
        assert node.measured(at) in (None, *LAB.values[:, 0])


@given(st.integers(1, 5))
def test_every_sensor_of_every_field_has_its_own_topics(count):
    names = [f"lab-{number}" for number in range(count)]
    nodes = network(LAB, names, READING, ACTIVATE)

    assert len(nodes) == len({node.reading_topic for node in nodes.values()}) == 2 * count


@pytest.mark.parametrize("topics", [("lab/{sensor}/t", ACTIVATE), (READING, "{sensor}/go")])
def test_fields_that_would_share_a_topic_are_rejected(topics):
    with pytest.raises(ConfigError, match="3 fields would use this topic; write {field} where"):
        network(LAB, ["x", "y", "z"], *topics)
    assert len(network(LAB, ["x"], *topics)) == 2
