"""The Things Stack 3 (The Things Network): ``v3/<application>/devices/<device>/up``.

The network decodes the payload, by a formatter that the device or the application has. A downlink
waits in a queue until the device has sent something, which is when a class A device listens.

https://www.thethingsindustries.com/docs/integrations/data-formats/
https://www.thethingsindustries.com/docs/integrations/other-integrations/mqtt/
"""

from collections.abc import Mapping

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import known_settings
from edge_tvbo_adapters.payloads.json import at, moment, number, parsed, path
from edge_tvbo_adapters.payloads.presets import DevicePreset, values_below


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the path ``value``, below ``decoded_payload``.

    The time is when the network received the uplink.

    >>> codec({"value": "temperature"})(
    ...     b'{"received_at": "2021-12-02T09:34:06.596658678Z",'
    ...     b' "uplink_message": {"decoded_payload": {"light": 177, "temperature": 23.2}}}'
    ... )
    (23.2, 1638437646.596658)
    """
    known_settings(settings, ("value",), "the-things-stack")
    value_path = path(settings.get("value", "temperature"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parsed(payload)
        uplink = document.get("uplink_message") if isinstance(document, dict) else None
        if not isinstance(uplink, dict):
            raise PayloadError("other-event", "it is no uplink")
        decoded = at(uplink, ("decoded_payload",), "missing-value")
        value = number(at(decoded, value_path, "missing-value"))
        when = uplink.get("received_at", document.get("received_at"))
        return value, None if when is None else moment(when)

    return decode


preset = DevicePreset(
    "v3/{application}/devices/{sensor}/up",
    values_below("uplink_message", "decoded_payload"),
    Activation(
        "lorawan",
        "v3/{application}/devices/{sensor}/down/replace",
        '{"downlinks": [{"f_port": 1, "frm_payload": "AQ==", "priority": "NORMAL"}]}',
        withdrawal='{"downlinks": []}',
    ),
)
