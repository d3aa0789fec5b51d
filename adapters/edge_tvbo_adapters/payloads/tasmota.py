"""Tasmota: ``tele/<topic>/SENSOR`` says ``{"Time": ..., "DS18B20": {"Temperature": 21.3}}``.

``Time`` is the device's local time without a zone, so that it is used only where the setting
``timezone`` says which; else a reading is of when it arrives. Temperatures are in ``TempUnit``.

https://tasmota.github.io/docs/MQTT/ and https://tasmota.github.io/docs/Commands/ (TelePeriod: a
command without a payload has the sensors published at once)
"""

from collections.abc import Mapping
from typing import Any

from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import known_settings
from edge_tvbo_adapters.payloads.json import Path, at, moment, number, parsed, path, timezone
from edge_tvbo_adapters.payloads.presets import DevicePreset, values_below

TEMPERATURES = ("Temperature", "DewPoint")


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the path ``value``, or for a name that one of the sensors alone has.

    Temperatures come out in ``unit``, C or F.

    >>> codec({"value": "SCD30.Temperature", "timezone": "America/Denver"})(
    ...     b'{"Time": "2022-09-06T08:52:59", "ANALOG": {"A0": 542},'
    ...     b' "SCD30": {"Temperature": 71.6, "Humidity": 61.6}, "TempUnit": "F"}'
    ... )
    (22.0, 1662475979.0)
    """
    known_settings(settings, ("value", "unit", "timezone"), "tasmota")
    value_path = path(settings.get("value", "Temperature"))
    zone = timezone(settings["timezone"]) if "timezone" in settings else None
    unit = settings.get("unit", "C")
    if unit not in ("C", "F"):
        raise ConfigError(f"tasmota: unit is {unit!r}; temperatures can be in C or in F.")

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parsed(payload)
        value = number(at(document, whole(document, value_path), "missing-value"))
        if value_path[-1:] and value_path[-1] in TEMPERATURES:
            value = converted(value, document.get("TempUnit", unit), unit)
        stamped = zone is not None and "Time" in document
        return value, moment(document["Time"], zone) if stamped else None

    return decode


def whole(document: Any, value_path: Path) -> Path:
    """Give the path from the top to what a name alone stands for; raises `PayloadError`."""
    if not isinstance(document, dict):
        raise PayloadError("missing-value", "it is no object")
    if len(value_path) != 1:
        return value_path
    (name,) = value_path
    owners = [key for key, each in document.items() if isinstance(each, dict) and name in each]
    if len(owners) > 1:
        raise PayloadError("ambiguous", f"{owners[0]}.{name} or {owners[1]}.{name}? set `value`")
    return (owners[0], name) if owners else value_path


def converted(value: float, given: Any, wanted: str) -> float:
    """Give a temperature in another unit; raises `PayloadError` for one that is unknown.

    >>> converted(71.6, "F", "C"), converted(22.0, "C", "F")
    (22.0, 71.6)
    """
    match given, wanted:
        case ("C", "C") | ("F", "F"):
            return value
        case "F", "C":
            return round((value - 32) / 1.8, 6)
        case "C", "F":
            return round(value * 1.8 + 32, 6)
    raise PayloadError("wrong-unit", f"{str(given)[:40]!r} is no unit of temperature")


preset = DevicePreset(
    "tele/{sensor}/SENSOR",
    values_below(),
    Activation("live", "cmnd/{sensor}/TelePeriod", ""),
)
