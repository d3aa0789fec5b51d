"""ChirpStack 4: ``application/<application>/device/<DevEUI>/event/up``.

ChirpStack decodes the payload into ``object``, by the codec of the device's profile. A downlink
waits in a queue until the device has sent something, and cannot be taken back over MQTT: what a
silent device was sent piles up there.

https://www.chirpstack.io/docs/chirpstack/integrations/events.html
https://www.chirpstack.io/docs/chirpstack/integrations/mqtt.html
"""

from collections.abc import Mapping

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import known_settings
from edge_tvbo_adapters.payloads.json import at, moment, number, parsed, path
from edge_tvbo_adapters.payloads.presets import DevicePreset, values_below


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the path ``value``, below ``object``.

    >>> codec({})(
    ...     b'{"time": "2022-07-18T09:34:15.775023242+00:00", "deviceInfo": {},'
    ...     b' "fPort": 1, "object": {"temperature": 25.5}}'
    ... )
    (25.5, 1658136855.775023)
    """
    known_settings(settings, ("value",), "chirpstack")
    value_path = path(settings.get("value", "temperature"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parsed(payload)
        if not isinstance(document, dict) or "fPort" not in document:
            raise PayloadError("other-event", "it is no uplink")
        decoded = at(document, ("object",), "missing-value")
        value = number(at(decoded, value_path, "missing-value"))
        return value, moment(document["time"]) if "time" in document else None

    return decode


preset = DevicePreset(
    "application/{application}/device/{sensor}/event/up",
    values_below("object"),
    Activation(
        "lorawan",
        "application/{application}/device/{sensor}/command/down",
        '{"devEui": "{sensor}", "confirmed": false, "fPort": 1, "data": "AQ=="}',
    ),
)
