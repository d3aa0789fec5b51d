"""A short visit to a broker, to have it forget what it retains on one topic."""

import time
from contextlib import closing

from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.outage_log import ConnectionProblem, out_of_reach
from edge_tvbo_adapters.mqtt.short_session import ShortSession, dial

SETTLED = 1.0  # s after the subscription was granted, in which what is retained comes


def erase(mqtt: Mqtt, instance: str, topic: str, patience: float) -> bool:
    """Clear what is retained on `topic`, and say whether there was anything.

    Raises `LinkError` where the broker does not let us, or a step takes more than `patience`
    seconds.
    """
    found = []

    def take(message: MQTTMessage) -> None:
        if message.retain:
            found.append(message.mid)

    connected = dial(mqtt, patience=patience)
    with closing(ShortSession(mqtt, instance, connected, take, patience=patience)) as visit:
        visit.greet()
        if not all(visit.subscribe([topic])):
            text = f"it refuses us {topic}; allow that in its ACL"
            raise out_of_reach(mqtt, ConnectionProblem(text, Code.FORBIDDEN))
        visit.listen(time.monotonic() + SETTLED, lambda: bool(found))
        if found:
            visit.publish(topic, b"", retain=True)
    return bool(found)
