"""Shelly, second generation and later, in either of the forms that it can be told to send.

``<device>/events/rpc``, on by default: ``{"method": "NotifyFullStatus", "params": {"ts": ...,
"temperature:0": {"id": 0, "tC": 19.9, "tF": 67.8}}}``. ``<device>/status/temperature:0``, by
"generic status update over MQTT": ``{"id": 0, "tC": 19.9, "tF": 67.8}``, without a time.

https://shelly-api-docs.shelly.cloud/gen2/General/Notifications
"""

from collections.abc import Mapping

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import known_settings
from edge_tvbo_adapters.payloads.json import at, moment, number, parsed, path
from edge_tvbo_adapters.payloads.presets import DevicePreset, values_below

STATUS = ("NotifyStatus", "NotifyFullStatus")
SET = 1e9  # s since 1970; a device whose clock was never set counts from its start


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the path ``value``, a component and the name of its value.

    The topic of a status names the component already: there the name alone is looked for.

    >>> codec({})(b'{"id": 0, "tC": 19.9, "tF": 67.8}')
    (19.9, None)
    >>> codec({"value": "humidity:0.rh"})(
    ...     b'{"method": "NotifyStatus", "params": {"ts": 1674473304.12, "humidity:0": {"rh": 54}}}'
    ... )
    (54.0, 1674473304.12)
    """
    known_settings(settings, ("value",), "shelly")
    value_path = path(settings.get("value", "temperature:0.tC"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parsed(payload)
        method = document.get("method") if isinstance(document, dict) else None
        if method is None:
            return number(at(document, value_path[-1:], "missing-value")), None
        if method not in STATUS:
            raise PayloadError("other-event", f"{str(method)[:40]} is no status")
        status = at(document, ("params",), "missing-value")
        value = number(at(status, value_path, "missing-value"))
        when = moment(status["ts"]) if "ts" in status else 0.0
        return value, when if when > SET else None

    return decode


preset = DevicePreset(
    "{sensor}/events/rpc",
    values_below("params"),
    other=DevicePreset("{sensor}/status/{component}", values_below()),
)
