"""Retained state: the status, health and last decisions of a daemon, as the broker stores them."""

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.messages.documents import Decision, Health, RetainedState
from edge_tvbo_adapters.mqtt.short_session import ShortSession
from edge_tvbo_adapters.mqtt.topics import topic_of

VALID_TIME = "1970-01-01T00:00:00Z"  # used if a document contains no time
QUIET_S = 0.5  # after this time without a message, no more retained messages are expected


def read_retained(
    mqtt: Mqtt, instance: str, fields: Sequence[str], timeout_s: float
) -> RetainedState:
    """Return the retained state of the daemon `instance`.

    Raises `LinkError` if the broker refuses the session, or does not answer within `timeout_s`
    seconds.
    """
    documents = _Documents(instance, fields)
    with closing(ShortSession(mqtt, instance, documents.take, timeout_s=timeout_s)) as session:
        session.subscribe(sorted(documents.topics))
        documents.wait(session)
    return documents.state()


class _Documents:
    """The retained payloads that arrived on a daemon's topics."""

    def __init__(self, instance: str, fields: Sequence[str]) -> None:
        base = f"edge_tvbo/{instance}"
        self._decisions = {f"{base}/{field}/selected": field for field in fields}
        self._status, self._health = f"{base}/status", f"{base}/health"
        self.topics = {self._status, self._health, *self._decisions}
        self._payloads: dict[str, bytes] = {}

    def take(self, message: MQTTMessage) -> None:
        """Store the retained payload of a message on one of the daemon's topics."""
        topic, _ = topic_of(message)
        if topic in self.topics:
            self._payloads[topic] = bytes(message.payload)

    def wait(self, session: ShortSession) -> None:
        """Wait for retained payloads until every topic has one, or until no more arrive."""
        before = -1
        while before < len(self._payloads) < len(self.topics):
            before = len(self._payloads)
            until = time.monotonic() + QUIET_S
            session.listen(until, lambda: len(self._payloads) > before)  # noqa: B023 - used at once

    def state(self) -> RetainedState:
        """Return the decoded state that the broker retains; invalid documents are left out."""
        status = self._payloads.get(self._status)
        decisions = {
            field: _decode(self._payloads.get(topic), Decision)
            for topic, field in self._decisions.items()
        }
        return RetainedState(
            status=None if status is None else status.decode(errors="replace"),
            health=_decode(self._payloads.get(self._health), Health),
            selected={field: each for field, each in decisions.items() if each is not None},
        )


def _decode(payload: bytes | None, kind: type[Any]) -> Any:
    try:
        document = None if payload is None else msgspec.json.decode(payload, type=kind)
        for name in ("at", "expires_at"):
            datetime.fromisoformat(getattr(document, name, VALID_TIME))
        return document
    except (ValueError, RecursionError):
        return None
