"""Shelly payloads, second generation and later, in both forms that a device can send.

By default, a device publishes on ``<device>/events/rpc``: ``{"method": "NotifyFullStatus",
"params": {"ts": ..., "temperature:0": {"id": 0, "tC": 19.9, "tF": 67.8}}}``. If "generic status
update over MQTT" is enabled, a device publishes on ``<device>/status/temperature:0``, without a
time: ``{"id": 0, "tC": 19.9, "tF": 67.8}``.

A device on external power, such as an H&T on USB, also reports the charge of its battery. If the
device has no battery, it reports a charge of 0. Therefore the charge counts as 100 % while there is
external power.

https://shelly-api-docs.shelly.cloud/gen2/General/Notifications
https://shelly-api-docs.shelly.cloud/gen2/ComponentsAndServices/DevicePower
"""

from collections.abc import Mapping
from typing import Any

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import MAX_SHOWN_LENGTH, check_settings, device_time
from edge_tvbo_adapters.payloads.json import (
    Path,
    find,
    parse_json,
    parse_path,
    to_number,
    to_seconds,
)
from edge_tvbo_adapters.payloads.presets import DevicePreset, numbers_below

STATUS_METHODS = ("NotifyStatus", "NotifyFullStatus")
DEVICE_TEMPERATURE = "temperature"  # inside the device; a thermometer has the key `temperature:0`
CHARGE = ("battery", "percent")
FULL_BATTERY_PERCENT = 100.0  # % of the battery
NO_READINGS = frozenset({"id", "ts", "tF", DEVICE_TEMPERATURE})  # tF is tC in another unit


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the Shelly codec for the path ``value``, such as ``temperature:0.tC``.

    The path begins with the name of a component. On a status topic, a payload is the status of one
    component, whose name is in the topic. For such a payload, the rest of the path is used.

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
            return number_at(document, inside(document, value_path)), None
        if method not in STATUS_METHODS:
            raise PayloadError("other-event", f"{str(method)[:MAX_SHOWN_LENGTH]} is not a status")
        status = find(document, ("params",), "missing-value")
        value = number_at(status, value_path)
        return value, device_time(to_seconds(status["ts"])) if "ts" in status else None

    return decode


def number_at(status: Any, path: Path) -> float:
    """Return the number at `path` in a Shelly status; raises `PayloadError` if there is none.

    The charge of a battery is 100 if the device has external power.

    >>> on_usb = {"battery": {"V": 0.43, "percent": 0}, "external": {"present": True}}
    >>> number_at(on_usb, ("battery", "percent")), number_at(on_usb, ("battery", "V"))
    (100.0, 0.43)
    """
    if path[-2:] == CHARGE and has_external_power(find(status, path[:-2], "missing-value")):
        return FULL_BATTERY_PERCENT
    return to_number(find(status, path, "missing-value"))


def has_external_power(status: Any) -> bool:
    """Return whether the status of a Shelly component says that there is external power."""
    external = status.get("external") if isinstance(status, dict) else None
    return isinstance(external, dict) and external.get("present") is True


def inside(status: Any, value_path: Path) -> Path:
    """Return the path of the value inside the status of one Shelly component.

    >>> inside({"battery": {"percent": 82}}, ("devicepower:0", "battery", "percent"))
    ('battery', 'percent')
    """
    names_component = len(value_path) > 1 and not (
        isinstance(status, dict) and value_path[0] in status
    )
    return value_path[1:] if names_component else value_path


preset = DevicePreset(
    "{sensor}/events/rpc",
    numbers_below("params", without=NO_READINGS),
    alternative=DevicePreset("{sensor}/status/{component}", numbers_below(without=NO_READINGS)),
)
