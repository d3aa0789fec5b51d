"""Listening to every message of a broker for a limited time."""

import time
from collections.abc import Callable
from contextlib import closing

from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.connection_problems import ConnectionProblem, link_error
from edge_tvbo_adapters.mqtt.short_session import ShortSession
from edge_tvbo_adapters.mqtt.topics import topic_of


def listen(
    mqtt: Mqtt, instance: str, seconds: float, receive: Callable[[str, bytes, bool], None]
) -> None:
    """Call `receive` with every message on a broker, for `seconds`.

    The arguments of `receive` are the topic, the payload, and whether the broker had retained the
    message. The broker's messages about itself, on $SYS, are not included. Raises `LinkError` if
    the broker is unreachable, or if it refuses a subscription to ``#``.
    """

    def take(message: MQTTMessage) -> None:
        topic, is_valid = topic_of(message)
        if is_valid:
            receive(topic, bytes(message.payload), message.retain)

    with closing(ShortSession(mqtt, instance, take)) as session:
        if not all(session.subscribe(["#"])):
            text = (
                "the broker refuses a subscription to #; allow it for this login in the broker's "
                "ACL, or name the sensors on the command line"
            )
            raise link_error(mqtt, ConnectionProblem(text, Code.FORBIDDEN))
        session.listen(time.monotonic() + seconds)
