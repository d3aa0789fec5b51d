"""Clearing what a broker retains on one topic."""

import time
from contextlib import closing

from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.problems import ConnectionProblem, link_error
from edge_tvbo_adapters.mqtt.short_session import ShortSession

RETAINED_WAIT_S = 1.0  # after the subscription was granted; retained messages come at once


def clear_retained(mqtt: Mqtt, instance: str, topic: str, timeout_s: float) -> bool:
    """Clear what is retained on `topic`; return whether there was anything.

    Raises `LinkError` if the broker refuses, or a step takes more than `timeout_s` seconds.
    """
    found = []

    def take(message: MQTTMessage) -> None:
        if message.retain:
            found.append(message.mid)

    with closing(ShortSession(mqtt, instance, take, timeout_s=timeout_s)) as session:
        if not all(session.subscribe([topic])):
            text = f"it refuses a subscription to {topic}; allow it in the broker's ACL"
            raise link_error(mqtt, ConnectionProblem(text, Code.FORBIDDEN))
        session.listen(time.monotonic() + RETAINED_WAIT_S, lambda: bool(found))
        if found:
            session.publish(topic, b"", retain=True)
    return bool(found)
