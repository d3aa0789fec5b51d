"""ChirpStack 4 payloads: ``application/<application>/device/<DevEUI>/event/up``.

ChirpStack decodes the device's bytes into ``object``, with the codec of the device profile. A
downlink waits in a queue until the next uplink of the device. Downlinks cannot be removed over
MQTT, so they accumulate if a device does not respond.

``time`` is the time of the gateway. If the gateway's clock was never set, ``time`` may be in 1980,
and the time of arrival is used instead.

https://www.chirpstack.io/docs/chirpstack/integrations/events.html
https://www.chirpstack.io/docs/chirpstack/integrations/mqtt.html
"""

from collections.abc import Mapping

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import check_settings, device_time
from edge_tvbo_adapters.payloads.json import find, parse_json, parse_path, to_number, to_seconds
from edge_tvbo_adapters.payloads.presets import DevicePreset, numbers_below


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the ChirpStack codec for the path ``value``, which starts below ``object``.

    >>> codec({})(
    ...     b'{"time": "2022-07-18T09:34:15.775023242+00:00", "deviceInfo": {},'
    ...     b' "fPort": 1, "object": {"temperature": 25.5}}'
    ... )
    (25.5, 1658136855.775023)
    """
    check_settings(settings, ("value",), "chirpstack")
    value_path = parse_path(settings.get("value", "temperature"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parse_json(payload)
        if not isinstance(document, dict) or "fPort" not in document:
            raise PayloadError("other-event", "the event is not an uplink")
        decoded = find(document, ("object",), "missing-value")
        value = to_number(find(decoded, value_path, "missing-value"))
        return value, device_time(to_seconds(document["time"])) if "time" in document else None

    return decode


preset = DevicePreset(
    "application/{application}/device/{sensor}/event/up",
    numbers_below("object"),
    Activation(
        "lorawan",
        "application/{application}/device/{sensor}/command/down",
        '{"devEui": "{sensor}", "confirmed": false, "fPort": 1, "data": "AQ=="}',
    ),
)
