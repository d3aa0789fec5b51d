"""Removal of the broker's retained message on one MQTT topic, for a command-line command."""

import time
from contextlib import closing

from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.connection_problems import ConnectionProblem, link_error
from edge_tvbo_adapters.mqtt.short_session import ShortSession

RETAINED_WAIT_S = 1.0  # longest wait for the retained message after the subscription is granted


def clear_retained(mqtt: Mqtt, instance: str, topic: str, timeout_s: float) -> bool:
    """Clear the broker's retained message on `topic` in a short session of a command.

    Return whether there was a retained message. The topic is cleared by an empty message. Brokers
    such as mosquitto acknowledge a message that their ACL forbids, and discard it. Therefore this
    function waits until the empty message comes back. Raises `LinkError` if the empty message does
    not come back, or if the broker refuses the session or the subscription. `LinkError` is also
    raised if the broker does not answer within `timeout_s` seconds.
    """
    found, cleared = [], []

    def take(message: MQTTMessage) -> None:
        if message.retain:
            found.append(message.mid)
        elif not message.payload:
            cleared.append(message.mid)

    with closing(ShortSession(mqtt, instance, take, timeout_s=timeout_s)) as session:
        if not all(session.subscribe([topic])):
            text = f"the broker refuses a subscription to {topic}; allow it in the broker's ACL"
            raise link_error(mqtt, ConnectionProblem(text, Code.FORBIDDEN))
        session.listen(time.monotonic() + RETAINED_WAIT_S, lambda: bool(found))
        session.publish(topic, b"", retain=True)
        session.listen(time.monotonic() + timeout_s, lambda: bool(cleared))
    if not cleared:
        text = (
            f"an empty message on {topic} does not come back, so the broker may still retain a "
            "message there; allow this login to read and write the topic in the broker's ACL"
        )
        raise link_error(mqtt, ConnectionProblem(text, Code.FORBIDDEN))
    return bool(found)
