"""Zigbee2MQTT: ``zigbee2mqtt/<friendly name>`` says ``{"temperature": 27.34, "humidity": 44.72}``.

On its start it repeats what it knew (``cache_state_send_on_startup``), which looks new but for
``last_seen``: set ``advanced.last_seen`` to ``ISO_8601``. A name with a slash in it cannot be a
sensor's here; rename the device.

https://www.zigbee2mqtt.io/guide/usage/mqtt_topics_and_messages.html
"""

from collections.abc import Mapping

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import known_settings
from edge_tvbo_adapters.payloads.json import at, moment, number, parsed, path
from edge_tvbo_adapters.payloads.presets import DevicePreset, values_below


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the path ``value``; ``last_seen``, where it is there, is the time.

    >>> codec({})(b'{"temperature": 27.34, "last_seen": "2020-02-17T07:49:00+01:00"}')
    (27.34, 1581922140.0)
    """
    known_settings(settings, ("value",), "zigbee2mqtt")
    value_path = path(settings.get("value", "temperature"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parsed(payload)
        if isinstance(document, dict) and document.get("state") in ("online", "offline"):
            raise PayloadError("availability", f"the device is {document['state']}, no more")
        value = number(at(document, value_path, "missing-value"))
        seen = document.get("last_seen") if isinstance(document, dict) else None
        return value, None if seen is None else moment(seen)

    return decode


preset = DevicePreset(
    "zigbee2mqtt/{sensor}",
    values_below(),
    Activation("live", "zigbee2mqtt/{sensor}/get", '{"temperature": ""}'),
)
