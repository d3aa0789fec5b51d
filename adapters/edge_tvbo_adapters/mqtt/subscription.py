"""Subscription: the topic filters of the link, and the broker's answer to them."""

import logging
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from edge_tvbo_adapters.mqtt.backoff import SHORT_SESSION_S
from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S
from edge_tvbo_adapters.mqtt.session import Session

log = logging.getLogger(__name__)

SUBSCRIBE_AGAIN_S = 60.0  # delay after a refused subscription, before the next attempt
HEALTH_DELAY_S = SHORT_SESSION_S  # from the beginning of a session to the health subscription
# After this many sessions in a row that end between the health subscription and its answer, the
# link no longer subscribes to the health.
MAX_ENDED_BY_HEALTH = 2


class Refused(NamedTuple):
    """The topic filters that the broker refuses."""

    readings: list[str]
    optional: list[str]  # for commands, Home Assistant and the health; the daemon runs without them


class Subscription:
    """The link's subscription, made in each session, and repeated if the broker refuses it.

    The link subscribes to the daemon's own health later than to the other topics, when the session
    is no longer short. Some brokers end a session after a subscription that they do not allow. If
    the broker refuses the subscription to the health, or ends two sessions in a row after this
    subscription, the link does not subscribe to the health any more.

    Parameters
    ----------
    readings : sequence of str
        The topic filters of the readings.
    optional : sequence of str
        The topic filters of commands and of Home Assistant.
    health : str, optional
        The topic of the daemon's own health.

    Attributes
    ----------
    was_refused : bool
        Whether the broker's last answer refused any topic filter except the health. The value does
        not change when a new session begins. The reason is that some brokers end each session in
        which they refuse a filter, perhaps before the link has received their answer.
    """

    def __init__(
        self,
        readings: Sequence[str],
        optional: Sequence[str],
        health: str | None = None,
    ) -> None:
        self._filters = [*readings, *optional]
        self._optional = optional
        self._health = health
        self._health_at = inf  # monotonic time of the subscription to the health
        self._ended_by_health = 0  # sessions in a row that ended before the broker's answer
        self._asked: list[str] = []  # the filters of the last SUBSCRIBE
        self.was_refused = False
        self._granted_by = inf  # monotonic time when a SUBACK is overdue
        self._again_at = inf  # monotonic time when a refused subscription is tried again

    def begin(self, session: Session, now: float) -> bool:
        """Subscribe to all topics of the link except the daemon's own health.

        Returns False if the link has no other topics. The caller calls this method when a session
        begins, and again some time after a refusal.
        """
        self._again_at = inf
        if self._health is not None:
            self._health_at = now + HEALTH_DELAY_S
        if self._filters:
            self._subscribe(session, self._filters, now)
        return bool(self._filters)

    def follow_health(self, session: Session, now: float) -> None:
        """Subscribe to the daemon's own health, if this is due and the readings are granted.

        The subscription is due `HEALTH_DELAY_S` after the last call of `begin`.
        """
        is_answered = self._granted_by == self._again_at == inf
        if self._health is not None and now >= self._health_at and is_answered:
            self._health_at = inf
            self._subscribe(session, [self._health], now, qos=0)

    def end(self) -> None:
        """Stop waiting for the answer to the subscription, because the session is over."""
        if self._granted_by < inf and self._asks_health:
            self._ended_by_health += 1
            if self._ended_by_health >= MAX_ENDED_BY_HEALTH:
                log.warning(
                    "the broker ends the session after the subscription to %s, so the daemon does "
                    "not subscribe to it any more, and does not notice a second daemon of this "
                    "instance; allow the subscription in the broker's ACL, and reload the daemon",
                    self._health,
                )
                self._health = None
        self._granted_by = self._again_at = self._health_at = inf

    def take_answer(self, session: Session, now: float) -> Refused | None:
        """Return the topic filters that the broker refuses, if it has answered the subscription.

        Returns None if the broker has not answered since the last call.
        """
        if self._granted_by == inf or session.granted is None:
            return None
        self._granted_by = inf
        answers = zip(self._asked, session.granted, strict=True)
        refused = [each for each, is_granted in answers if not is_granted]
        if self._asks_health:
            self._ended_by_health = 0
            if refused:
                self._health = None
            return Refused([], refused)
        self.was_refused = bool(refused)
        optional = [each for each in refused if each in self._optional]
        readings = [each for each in refused if each not in optional]
        if readings:
            self._again_at = now + SUBSCRIBE_AGAIN_S
        return Refused(readings, optional)

    def is_overdue(self, now: float) -> bool:
        """Return whether the broker's answer to the subscription is overdue."""
        return now >= self._granted_by

    def is_due_again(self, now: float) -> bool:
        """Return whether it is time to try a refused subscription again."""
        return now >= self._again_at

    @property
    def _asks_health(self) -> bool:
        return self._asked == [self._health]

    def _subscribe(self, session: Session, filters: list[str], now: float, qos: int = 1) -> None:
        session.subscribe(filters, qos)
        self._asked = filters
        self._granted_by = now + CONNECT_TIMEOUT_S
