"""What a broker has of a daemon: its status, its health, its last decisions, all retained."""

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.messages.documents import Decision, Health, RetainedState
from edge_tvbo_adapters.mqtt.short_session import ShortSession, dial
from edge_tvbo_adapters.mqtt.subscriber import topic_of

LARGEST = 2**20  # bytes of a message
MOMENT = "1970-01-01T00:00:00Z"  # any that can be read
SETTLED = 0.5  # s without a message, after which nothing more is retained


def ask(mqtt: Mqtt, instance: str, fields: Sequence[str], patience: float) -> RetainedState:
    """Give what is retained of `instance`; raises `LinkError` after `patience` seconds."""
    question = _Question(instance, fields)
    with closing(
        ShortSession(
            mqtt,
            instance,
            dial(mqtt, patience=patience),
            question.take,
            patience=patience,
            keep=LARGEST,
        )
    ) as visit:
        visit.greet()
        visit.subscribe(question.topics)
        question.wait(visit)
    return question.heard()


class _Question:
    """What is asked for, and what came of it."""

    def __init__(self, instance: str, fields: Sequence[str]) -> None:
        base = f"edge_tvbo/{instance}"
        self._decisions = {f"{base}/{field}/selected": field for field in fields}
        self._status, self._health = f"{base}/status", f"{base}/health"
        self.topics = {self._status, self._health, *self._decisions}
        self._payloads: dict[str, bytes] = {}

    def take(self, message: MQTTMessage) -> None:
        """Note a message, if it was asked for."""
        topic, _ = topic_of(message)
        if topic in self.topics:
            self._payloads[topic] = bytes(message.payload)

    def wait(self, visit: ShortSession) -> None:
        """Wait until all is there, or nothing more comes."""
        before = -1
        while before < len(self._payloads) < len(self.topics):
            before = len(self._payloads)
            until = time.monotonic() + SETTLED
            visit.listen(until, lambda: len(self._payloads) > before)  # noqa: B023 - at once

    def heard(self) -> RetainedState:
        """Give what came, as far as it can be read."""
        status = self._payloads.get(self._status)
        decisions = {
            field: _read(self._payloads.get(topic), Decision)
            for topic, field in self._decisions.items()
        }
        return RetainedState(
            status=None if status is None else status.decode(errors="replace"),
            health=_read(self._payloads.get(self._health), Health),
            selected={field: each for field, each in decisions.items() if each is not None},
        )


def _read(payload: bytes | None, kind: type[Any]) -> Any:
    try:
        document = None if payload is None else msgspec.json.decode(payload, type=kind)
        for name in ("at", "expires_at"):
            datetime.fromisoformat(getattr(document, name, MOMENT))
        return document
    except (ValueError, RecursionError):
        return None
