"""Tasmota payloads: ``tele/<topic>/SENSOR`` carries ``{"DS18B20": {"Temperature": 21.3}}``.

``Time`` is a local time; with ``SetOption52 1``, it has an offset from UTC. A time without an
offset is used if the setting ``timezone`` names its zone. Otherwise, or if the device's clock was
never set, a reading has the time of its arrival. The reply to ``Status 10``, on the topic
``stat/<topic>/STATUS10``, carries the same document in ``StatusSNS``.
Temperatures are in the unit that ``TempUnit`` names. ``ESP32`` holds the temperature of the
processor. The command TelePeriod without a payload makes a device publish its readings immediately.

https://tasmota.github.io/docs/MQTT/
https://tasmota.github.io/docs/Commands/
"""

import re
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from edge_tvbo.config.time_zones import load_timezone
from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import SHOWN, check_settings, device_time
from edge_tvbo_adapters.payloads.json import (
    Path,
    find,
    json_type,
    parse_json,
    parse_path,
    to_number,
    to_seconds,
)
from edge_tvbo_adapters.payloads.presets import DevicePreset, numbers_below

OFFSET = re.compile(r"T.*(Z|[+-]\d\d:?\d\d)$")
TEMPERATURE = re.compile(r"(Temperature|DewPoint|HeatIndex)\d*$")  # also ProbeTemperature1
PROCESSOR = "ESP32"
STATUS = "StatusSNS"


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the Tasmota codec for the path ``value`` and the ``unit`` of temperatures, C or F.

    ``value`` is a path such as ``SCD30.Temperature``. A key alone, such as ``Temperature``, is
    enough if only one sensor of the device has it.

    >>> codec({"value": "SCD30.Temperature", "timezone": "America/Denver"})(
    ...     b'{"Time": "2022-09-06T08:52:59", "ANALOG": {"A0": 542},'
    ...     b' "SCD30": {"Temperature": 71.6, "Humidity": 61.6}, "TempUnit": "F"}'
    ... )
    (22.0, 1662475979.0)
    """
    check_settings(settings, ("value", "unit", "timezone"), "tasmota")
    value_path = parse_path(settings.get("value", "Temperature").removeprefix(f"{STATUS}."))
    is_temperature = any(TEMPERATURE.search(str(last)) for last in value_path[-1:])
    zone = load_timezone(settings["timezone"]) if "timezone" in settings else None
    unit = settings.get("unit", "C")
    if unit not in ("C", "F"):
        raise ConfigError(f"tasmota: unit is {unit!r}; the unit of temperatures can be C or F.")

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parse_json(payload)
        if isinstance(document, dict):
            document = document.get(STATUS, document)
        value = to_number(find(document, full_path(document, value_path), "missing-value"))
        if is_temperature:
            value = convert_temperature(value, document.get("TempUnit", unit), unit)
        return value, time_of(document, zone)

    return decode


def time_of(document: dict[str, Any], zone: tzinfo | None) -> float | None:
    """Return the time of a Tasmota document, s since 1970; None if it is unknown.

    Without a `zone`, the time of a document is known only if it has an offset from UTC.

    >>> time_of({"Time": "2022-09-06T08:52:59-06:00"}, None), time_of({"Time": "08:52"}, None)
    (1662475979.0, None)
    """
    time = document.get("Time")
    has_offset = isinstance(time, str) and OFFSET.search(time) is not None
    if "Time" not in document or (zone is None and not has_offset):
        return None
    return device_time(to_seconds(time, zone))


def full_path(document: Any, value_path: Path) -> Path:
    """Return the path from the top of a Tasmota document to the value.

    If `value_path` is only a key, the returned path begins with the sensor that has the key. The
    processor does not count as a sensor. Raises `PayloadError` if several sensors have the key, or
    if the document is not an object.
    """
    if not isinstance(document, dict):
        raise PayloadError("missing-value", f"the document is {json_type(document)}, not an object")
    if len(value_path) != 1:
        return value_path
    (name,) = value_path
    sensors = {key: each for key, each in document.items() if isinstance(each, dict)}
    owners = [key for key, each in sensors.items() if name in each and key != PROCESSOR]
    if len(owners) > 1:
        paths = f"{owners[0]}.{name} or {owners[1]}.{name}"
        text = f"{name} occurs more than once; set `value` to {paths}"
        raise PayloadError("ambiguous", text)
    return (owners[0], name) if owners else value_path


def convert_temperature(value: float, given: Any, wanted: str) -> float:
    """Return Tasmota's temperature in the unit `wanted`; `PayloadError` if a unit is unknown.

    >>> convert_temperature(71.6, "F", "C"), convert_temperature(22.0, "C", "F")
    (22.0, 71.6)
    """
    match given, wanted:
        case ("C", "C") | ("F", "F"):
            return value
        case "F", "C":
            return round((value - 32) / 1.8, 6)
        case "C", "F":
            return round(value * 1.8 + 32, 6)
    raise PayloadError("wrong-unit", f"TempUnit is {str(given)[:SHOWN]!r}, not C or F")


preset = DevicePreset(
    "tele/{sensor}/SENSOR",
    numbers_below(without=frozenset({PROCESSOR})),
    Activation("live", "cmnd/{sensor}/TelePeriod", ""),
)
