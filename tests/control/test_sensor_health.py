"""Sensor health: lost messages back no sensor off, but a sensor that has failed is found soon."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.sensor_health import (
    MAX_TIMEOUTS,
    MIN_PROBABILITY,
    PRIOR_LOSSES,
    PRIOR_REPLIES,
    REMEMBERED_REPLIES,
    SensorHealth,
)
from edge_tvbo.errors import SnapshotError

HISTORIES = st.lists(st.booleans(), max_size=200)  # whether each activation was replied to
ONE, TWO = IgnoredSensors(("a",)), IgnoredSensors(("a", "b"))  # none of them is ignored


def follow(health, history, arm=0):
    """Apply replies and time-outs; return the interval after the last one."""
    for interval, replied in enumerate(history):
        if replied:
            health.mark_replied(arm)
            health.mark_responsive(arm)
        else:
            health.mark_timed_out(arm, interval)
    return len(history)


def timeouts_until_unresponsive(health, arm=0):
    for number in range(1, 100):
        health.mark_timed_out(arm, number)
        if health.is_unresponsive(arm):
            return number
    raise AssertionError("the sensor is never unresponsive")


def naive_timeouts(history):
    """Return after how many time-outs in a row a sensor with this history is unresponsive."""
    lost_before, in_a_row = [], 0  # lost_before: time-outs that count, before each reply
    for replied in history:
        if replied:
            lost_before.append(in_a_row)
            in_a_row = 0
        else:
            in_a_row = min(in_a_row + 1, naive_limit(lost_before))
    return naive_limit(lost_before)


def naive_limit(lost_before):
    later = [sum(lost + 1 for lost in lost_before[k + 1 :]) for k in range(len(lost_before))]
    weights = [(1 - 1 / REMEMBERED_REPLIES) ** number for number in later]
    losses = PRIOR_LOSSES + sum(w * lost for w, lost in zip(weights, lost_before, strict=True))
    share = losses / (losses + PRIOR_REPLIES + sum(weights))
    unlikely = (n for n in range(2, MAX_TIMEOUTS) if share**n < MIN_PROBABILITY)
    return next(unlikely, MAX_TIMEOUTS)


@given(HISTORIES)
def test_sensor_is_unresponsive_when_its_timeouts_are_improbable(history):
    health = SensorHealth(ONE, max_backoff=64)
    follow(health, [*history, True])
    assert timeouts_until_unresponsive(health) == naive_timeouts([*history, True])


@pytest.mark.parametrize(("replies", "timeouts"), [(0, 3), (30, 2), (1000, 2)])
def test_sensor_that_always_replied_is_unresponsive_after_two_timeouts(replies, timeouts):
    health = SensorHealth(ONE, max_backoff=64)
    follow(health, [True] * replies)
    assert timeouts_until_unresponsive(health) == timeouts


@pytest.mark.parametrize("lost", [0.05, 0.2, 0.5])
def test_random_losses_rarely_back_a_sensor_off(lost):
    health = SensorHealth(ONE, max_backoff=64)
    history = np.random.default_rng(1).random(20_000) >= lost
    unresponsive = 0
    for interval, replied in enumerate(history):
        follow(health, [replied])
        unresponsive += health.is_unresponsive(0) and not replied
        assert health.is_unresponsive(0) in (False, not replied), interval
    assert unresponsive < 0.02 * len(history)


@given(HISTORIES)
def test_implausible_reply_is_never_chance(history):
    health = SensorHealth(ONE, max_backoff=64)
    follow(health, [*history, True])
    health.mark_implausible(0)
    health.mark_timed_out(0, 1000)
    assert health.is_unresponsive(0)


@given(HISTORIES, HISTORIES)
def test_restored_health_continues_as_the_original(before, after):
    one, other = SensorHealth(TWO, max_backoff=8), SensorHealth(TWO, max_backoff=8)
    interval = follow(one, before, arm=1)
    one.mark_implausible(0)
    state = one.snapshot()
    other.check(state)
    other.restore({name: np.copy(value) for name, value in state.items()})
    other.continue_backoff(interval, interval, 1.0)
    assert other.is_implausible(0)
    for health in (one, other):
        follow(health, after, arm=1)
    for name, value in one.snapshot().items():
        np.testing.assert_array_equal(value, other.snapshot()[name])


def test_state_of_a_version_that_counted_no_replies_is_restored():
    health = SensorHealth(TWO, max_backoff=8)
    follow(health, [False] * 5)
    old = {name: health.snapshot()[name] for name in ("turn", "misses", "retry")}
    other = SensorHealth(TWO, max_backoff=8)
    follow(other, [True, False])
    other.check(old)
    other.restore(old)
    assert other.unresponsive(("a", "b")) == ["a"]
    other.mark_responsive(0)
    assert timeouts_until_unresponsive(other) == 3


def test_negative_counts_are_rejected():
    health = SensorHealth(ONE, max_backoff=8)
    with pytest.raises(SnapshotError):
        health.check({**health.snapshot(), "losses": np.array([-1.0])})
