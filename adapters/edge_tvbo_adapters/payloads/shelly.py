"""Shelly payloads, second generation and later, in both forms that a device can send.

By default, a device publishes on ``<device>/events/rpc``: ``{"method": "NotifyFullStatus",
"params": {"ts": ..., "temperature:0": {"id": 0, "tC": 19.9, "tF": 67.8}}}``. If "generic status
update over MQTT" is enabled, a device publishes on ``<device>/status/temperature:0``, without a
time: ``{"id": 0, "tC": 19.9, "tF": 67.8}``.

https://shelly-api-docs.shelly.cloud/gen2/General/Notifications
"""

from collections.abc import Mapping

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import SHOWN, check_settings
from edge_tvbo_adapters.payloads.json import find, parse_json, parse_path, to_number, to_seconds
from edge_tvbo_adapters.payloads.presets import DevicePreset, numbers_below

STATUS_METHODS = ("NotifyStatus", "NotifyFullStatus")
NO_READINGS = frozenset({"id", "ts", "tF"})  # tF is tC in another unit
MIN_CLOCK_S = 1e9  # s since 1970; a smaller time is of a device whose clock was never set


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the Shelly codec for the path ``value``, such as ``temperature:0.tC``.

    The path consists of a component and a key. The payload on a status topic names no component:
    the topic names it. For such a payload, only the key is used.

    >>> codec({})(b'{"id": 0, "tC": 19.9, "tF": 67.8}')
    (19.9, None)
    >>> codec({"value": "humidity:0.rh"})(
    ...     b'{"method": "NotifyStatus", "params": {"ts": 1674473304.12, "humidity:0": {"rh": 54}}}'
    ... )
    (54.0, 1674473304.12)
    """
    check_settings(settings, ("value",), "shelly")
    value_path = parse_path(settings.get("value", "temperature:0.tC"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parse_json(payload)
        method = document.get("method") if isinstance(document, dict) else None
        if method is None:
            return to_number(find(document, value_path[-1:], "missing-value")), None
        if method not in STATUS_METHODS:
            raise PayloadError("other-event", f"{str(method)[:SHOWN]} is not a status")
        status = find(document, ("params",), "missing-value")
        value = to_number(find(status, value_path, "missing-value"))
        time = to_seconds(status["ts"]) if "ts" in status else 0.0
        return value, time if time > MIN_CLOCK_S else None

    return decode


preset = DevicePreset(
    "{sensor}/events/rpc",
    numbers_below("params", without=NO_READINGS),
    alternative=DevicePreset("{sensor}/status/{component}", numbers_below(without=NO_READINGS)),
)
