"""The Things Stack 3 payloads (The Things Network): ``v3/<application>/devices/<device>/up``.

The network decodes the device's bytes, with the payload formatter of the device or application. A
downlink waits in a queue until the next uplink of the device, because a class A device receives
only after an uplink.

https://www.thethingsindustries.com/docs/integrations/data-formats/
https://www.thethingsindustries.com/docs/integrations/other-integrations/mqtt/
"""

from collections.abc import Mapping

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import check_settings
from edge_tvbo_adapters.payloads.json import find, parse_json, parse_path, to_number, to_seconds
from edge_tvbo_adapters.payloads.presets import DevicePreset, numbers_below


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the codec of The Things Stack for a path ``value`` below ``decoded_payload``.

    The time of a reading is the time at which the network received the uplink.

    >>> codec({"value": "temperature"})(
    ...     b'{"received_at": "2021-12-02T09:34:06.596658678Z",'
    ...     b' "uplink_message": {"decoded_payload": {"light": 177, "temperature": 23.2}}}'
    ... )
    (23.2, 1638437646.596658)
    """
    check_settings(settings, ("value",), "the-things-stack")
    value_path = parse_path(settings.get("value", "temperature"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parse_json(payload)
        uplink = document.get("uplink_message") if isinstance(document, dict) else None
        if not isinstance(uplink, dict):
            raise PayloadError("other-event", "the event is not an uplink")
        decoded = find(uplink, ("decoded_payload",), "missing-value")
        value = to_number(find(decoded, value_path, "missing-value"))
        time = uplink.get("received_at", document.get("received_at"))
        return value, None if time is None else to_seconds(time)

    return decode


preset = DevicePreset(
    "v3/{application}/devices/{sensor}/up",
    numbers_below("uplink_message", "decoded_payload"),
    Activation(
        "lorawan",
        "v3/{application}/devices/{sensor}/down/replace",
        '{"downlinks": [{"f_port": 1, "frm_payload": "AQ==", "priority": "NORMAL"}]}',
        withdrawal='{"downlinks": []}',
    ),
)
