"""Subscription: the topic filters of the link, and the broker's answer to them."""

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S
from edge_tvbo_adapters.mqtt.request_queue import RequestQueue
from edge_tvbo_adapters.mqtt.session import Session

if TYPE_CHECKING:
    from edge_tvbo_adapters.homeassistant.discovery import Discovery

SUBSCRIBE_AGAIN_S = 60.0  # delay after a refused subscription, before the next attempt


class Refused(NamedTuple):
    """The topic filters that the broker refuses."""

    readings: list[str]
    optional: list[str]  # of commands and of Home Assistant; the daemon works without them


class Subscription:
    """The link's subscription, made in each session, and repeated if the broker refuses it.

    Parameters
    ----------
    readings : callable
        Returns the topic filters of the readings.
    requests : RequestQueue, optional
        The users' commands to the daemon.
    discovery : Discovery, optional
        The discovery message of Home Assistant.

    Attributes
    ----------
    was_refused : bool
        Whether the broker's last answer refused a topic filter. The value does not change when a
        new session begins. The reason is that some brokers end each session in which they refuse
        a filter, and may do so before the link has received the answer.
    """

    def __init__(
        self,
        readings: Callable[[], Sequence[str]],
        requests: RequestQueue | None,
        discovery: "Discovery | None",
    ) -> None:
        self._readings = readings
        self._requests = requests
        self._discovery = discovery
        self.was_refused = False
        self._granted_by = inf  # monotonic time when a SUBACK is overdue
        self._again_at = inf  # monotonic time when a refused subscription is tried again

    def begin(self, session: Session, now: float) -> bool:
        """Subscribe to all topic filters of the link; return False if there are none.

        The caller calls this method when a session begins, and again some time after a refusal.
        """
        self._again_at = inf
        filters = self._filters()
        if filters:
            session.subscribe(filters)
            self._granted_by = now + CONNECT_TIMEOUT_S
        return bool(filters)

    def end(self) -> None:
        """Stop waiting for the answer to the subscription, because the session is over."""
        self._granted_by = self._again_at = inf

    def take_answer(self, session: Session, now: float) -> Refused | None:
        """Return the topic filters that the broker refuses, if it has answered the subscription.

        Returns None if the broker has not answered since the last call.
        """
        if self._granted_by == inf or session.granted is None:
            return None
        self._granted_by = inf
        answers = zip(self._filters(), session.granted, strict=True)
        refused = [each for each, is_granted in answers if not is_granted]
        self.was_refused = bool(refused)
        optional = [each for each in refused if each in self._optional_filters()]
        readings = [each for each in refused if each not in optional]
        if readings:
            self._again_at = now + SUBSCRIBE_AGAIN_S
        return Refused(readings, optional)

    def is_overdue(self, now: float) -> bool:
        """Return whether the broker's answer to the subscription is overdue."""
        return now >= self._granted_by

    def is_due_again(self, now: float) -> bool:
        """Return whether to try a refused subscription again."""
        return now >= self._again_at

    def _filters(self) -> list[str]:
        return [*self._readings(), *self._optional_filters()]

    def _optional_filters(self) -> list[str]:
        """Return the topic filters of commands and of Home Assistant."""
        requests = [self._requests.filter] if self._requests else []
        return [*requests, *(self._discovery.filters if self._discovery else ())]
