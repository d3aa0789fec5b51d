"""Everything that a broker carries, heard for a while; who is there is for others to say."""

import time
from collections.abc import Callable
from contextlib import closing

from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.outage_log import ConnectionProblem, out_of_reach
from edge_tvbo_adapters.mqtt.short_session import ShortSession, dial
from edge_tvbo_adapters.mqtt.subscriber import topic_of


def listen(mqtt: Mqtt, instance: str, seconds: float, hear: Callable[[str, bytes], None]) -> None:
    """Give `hear` the topic and the payload of every message but the broker's own.

    Raises `LinkError` where the broker is out of reach, or lets nobody subscribe to everything.
    """

    def take(message: MQTTMessage) -> None:
        topic, readable = topic_of(message)
        if readable:
            hear(topic, bytes(message.payload))

    with closing(ShortSession(mqtt, instance, dial(mqtt), take)) as visit:
        visit.greet()
        if not all(visit.subscribe(["#"])):
            text = "it refuses us #, which is everything; allow it for this login, or name sensors"
            raise out_of_reach(mqtt, ConnectionProblem(text, Code.FORBIDDEN))
        visit.listen(time.monotonic() + seconds)
