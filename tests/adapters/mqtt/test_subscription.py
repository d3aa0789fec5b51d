"""Subscription: when the link subscribes to which topics, and what it does after a refusal."""

import pytest
from edge_tvbo_adapters.mqtt.subscription import (
    HEALTH_DELAY_S,
    MAX_ENDED_BY_HEALTH,
    Refused,
    Subscription,
)

READINGS, HEALTH = "lab/+/t", "edge_tvbo/lab/health"


class Session:
    """The filters of each SUBSCRIBE, and the broker's answer to the last one."""

    def __init__(self):
        self.asked = []
        self.granted = None

    def subscribe(self, filters, qos=1):
        self.asked.append((*filters, qos))
        self.granted = None


class Sessions:
    """Sessions of one subscription, one after the other."""

    def __init__(self, health=HEALTH):
        self.subscription = Subscription([READINGS], [], health)
        self.begin()

    def begin(self):
        self.session = Session()
        assert self.subscription.begin(self.session, 0.0)
        self.answer(granted=True)

    def answer(self, *, granted):
        self.session.granted = [granted]
        return self.subscription.take_answer(self.session, 1.0)

    def follow_health(self, now=HEALTH_DELAY_S):
        self.subscription.follow_health(self.session, now)
        return (HEALTH, 0) in self.session.asked


def test_the_health_follows_when_the_session_is_not_short_any_more():
    sessions = Sessions()
    assert sessions.session.asked == [(READINGS, 1)]
    assert not sessions.follow_health(HEALTH_DELAY_S - 0.1)
    assert sessions.follow_health()
    assert sessions.answer(granted=True) == Refused([], [])
    sessions.follow_health(2 * HEALTH_DELAY_S)
    assert sessions.session.asked == [(READINGS, 1), (HEALTH, 0)]


def test_the_health_waits_for_the_answer_to_the_other_topics():
    sessions = Sessions()
    sessions.subscription.begin(sessions.session, 0.0)
    assert not sessions.follow_health()
    sessions.answer(granted=True)
    assert sessions.follow_health()


def test_the_health_does_not_follow_while_the_readings_are_refused():
    sessions = Sessions()
    sessions.subscription.begin(sessions.session, 0.0)
    assert sessions.answer(granted=False) == Refused([READINGS], [])
    assert not sessions.follow_health()


def test_without_a_topic_of_the_health_there_is_no_second_subscription():
    assert not Sessions(health=None).follow_health()


def test_a_broker_that_refuses_the_health_is_not_asked_for_it_again():
    sessions = Sessions()
    assert sessions.follow_health()
    assert sessions.answer(granted=False) == Refused([], [HEALTH])
    assert not sessions.subscription.was_refused  # the readings were granted
    sessions.subscription.end()
    sessions.begin()
    assert not sessions.follow_health()


def test_a_broker_that_ends_sessions_for_the_health_is_not_asked_for_it_again(caplog):
    sessions = Sessions()
    for _ in range(MAX_ENDED_BY_HEALTH):
        assert not caplog.messages
        assert sessions.follow_health()
        sessions.subscription.end()
        sessions.begin()
    assert not sessions.follow_health()
    (line,) = caplog.messages
    assert HEALTH in line
    assert "does not notice a second daemon" in line


@pytest.mark.parametrize("is_answered", [True, False])
def test_sessions_that_end_for_other_reasons_do_not_count(is_answered):
    sessions = Sessions()
    for _ in range(3):
        for _ in range(MAX_ENDED_BY_HEALTH - 1):
            assert sessions.follow_health()
            sessions.subscription.end()
            sessions.begin()
        if is_answered:
            assert sessions.follow_health()
            sessions.answer(granted=True)
        sessions.subscription.end()
        sessions.begin()
        if not is_answered:
            break
    assert sessions.follow_health()
