"""Tasmota payloads: ``tele/<topic>/SENSOR`` carries ``{"DS18B20": {"Temperature": 21.3}}``.

``Time`` is a local time; with ``SetOption52 1``, it has an offset from UTC. A time without an
offset is used if the setting ``timezone`` names its zone. Otherwise, or if the device's clock was
never set, a reading has the time of its arrival. The reply to ``Status 10``, on the topic
``stat/<topic>/STATUS10``, carries the same document in ``StatusSNS``.
``TempUnit`` names the unit of temperatures, ``PressureUnit`` the unit of pressures, and
``SpeedUnit`` the unit of speeds. If speeds are in m/s, ``SpeedUnit`` is missing. ``ESP32`` holds
the temperature of the processor. The command TelePeriod without a payload makes a device publish
its readings immediately.

https://tasmota.github.io/docs/MQTT/
https://tasmota.github.io/docs/Commands/
"""

import re
from collections.abc import Mapping
from datetime import tzinfo
from itertools import product
from typing import Any, NamedTuple

from edge_tvbo.config.time_zones import load_timezone
from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import MAX_SHOWN_LENGTH, check_settings, device_time
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
PROCESSOR = "ESP32"
STATUS = "StatusSNS"


class TasmotaQuantity(NamedTuple):
    """A quantity in Tasmota documents; the user of the device can choose the unit."""

    name: str  # in the plural
    keys: re.Pattern[str]  # matches the path of a value of the quantity
    stated: str  # key of a document that names the unit
    units: dict[str, tuple[float, float]]  # (factor, offset): value = factor * first unit + offset
    wanted: str | None = None  # unit if the setting `unit` is missing; None: unit of the device
    unstated: str | None = None  # unit if a document has no key `stated`; None: wanted unit

    def convert(self, value: float, given: Any, wanted: str) -> float:
        """Convert Tasmota's value from the unit `given` to the unit `wanted`.

        Raises `PayloadError` if the unit `given` is unknown.

        >>> TEMPERATURE.convert(71.6, "F", "C"), TEMPERATURE.convert(22.0, "C", "F")
        (22.0, 71.6)
        """
        if not isinstance(given, str) or given not in self.units:
            found = str(given)[:MAX_SHOWN_LENGTH]
            raise PayloadError("wrong-unit", f"{self.stated} is {found!r}, not {self.allowed}")
        if given == wanted:
            return value
        factor, offset = self.units[given]
        to_factor, to_offset = self.units[wanted]
        return round((value - offset) / factor * to_factor + to_offset, 6)

    @property
    def allowed(self) -> str:
        """The allowed units of a quantity in Tasmota documents, as a text such as 'C or F'."""
        *names, last = self.units
        return f"{', '.join(names)} or {last}"


TEMPERATURE = TasmotaQuantity(
    "temperatures",
    re.compile(r"(Temperature|DewPoint|HeatIndex)\d*$"),  # also ProbeTemperature1
    "TempUnit",
    {"C": (1.0, 0.0), "F": (1.8, 32.0)},
    wanted="C",
)
PRESSURE = TasmotaQuantity(
    "pressures",
    re.compile(r"Pressure\d*$"),  # also SeaPressure
    "PressureUnit",
    {"hPa": (1.0, 0.0), "mmHg": (0.75006376, 0.0), "inHg": (0.02952998, 0.0)},
)
SPEED = TasmotaQuantity(
    "speeds",
    re.compile(r"(^|\.)Speed(Avg|Max)?$|\.Speed\.\w+$"),  # also TX23.Speed.Act
    "SpeedUnit",
    {
        "m/s": (1.0, 0.0),
        "km/h": (3.6, 0.0),
        "kn": (1.943844, 0.0),
        "mph": (2.236936, 0.0),
        "ft/s": (3.28084, 0.0),
        "yd/s": (1.093613, 0.0),
    },
    unstated="m/s",
)


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the Tasmota codec, which reads the path ``value`` and converts to the ``unit``.

    ``value`` is a path such as ``SCD30.Temperature``. A key alone, such as ``Temperature``, is
    enough if only one sensor of the device has it. If the setting ``unit`` is missing, temperatures
    are converted to C, and pressures and speeds stay in the unit of the device.

    >>> codec({"value": "SCD30.Temperature", "timezone": "America/Denver"})(
    ...     b'{"Time": "2022-09-06T08:52:59", "ANALOG": {"A0": 542},'
    ...     b' "SCD30": {"Temperature": 71.6, "Humidity": 61.6}, "TempUnit": "F"}'
    ... )
    (22.0, 1662475979.0)
    """
    check_settings(settings, ("value", "unit", "timezone"), "tasmota")
    value_path = parse_path(settings.get("value", "Temperature").removeprefix(f"{STATUS}."))
    zone = load_timezone(settings["timezone"]) if "timezone" in settings else None
    quantity = tasmota_quantity(value_path)
    unit = checked_unit(settings.get("unit"), quantity)

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parse_json(payload)
        if isinstance(document, dict):
            document = document.get(STATUS, document)
        value = to_number(find(document, full_path(document, value_path), "missing-value"))
        if quantity and unit:
            given = document.get(quantity.stated, quantity.unstated or unit)
            value = quantity.convert(value, given, unit)
        return value, time_of(document, zone)

    return decode


def tasmota_quantity(value_path: Path) -> TasmotaQuantity | None:
    """Return the quantity at a path in Tasmota documents; None if its unit cannot be chosen.

    >>> tasmota_quantity(("BME280", "SeaPressure")).stated, tasmota_quantity(("SHT3X", "Humidity"))
    ('PressureUnit', None)
    """
    path = ".".join(map(str, value_path))
    return next((each for each in (TEMPERATURE, PRESSURE, SPEED) if each.keys.search(path)), None)


def checked_unit(unit: str | None, quantity: TasmotaQuantity | None) -> str | None:
    """Return the unit to which the Tasmota codec converts; None to convert nothing.

    Raises `ConfigError` for an unknown unit. For values other than temperatures, the units of
    temperatures are also allowed, but have no effect.
    """
    known = quantity or TEMPERATURE
    if unit is None:
        return known.wanted
    if unit in known.units:
        return unit
    if (degrees := unit.removeprefix("°")) in TEMPERATURE.units:
        return degrees if quantity is TEMPERATURE else None
    raise ConfigError(
        f"tasmota: unit is {unit!r}; the unit of {known.name} can be {known.allowed}."
    )


def other_units(value: str | None) -> dict[str, float]:
    """Return the units for which the Tasmota codec needs the setting ``unit``.

    The units are written as in the setting ``unit`` of a field. Each unit is mapped to a number:
    1 hPa, 1 m/s or a temperature difference of 1 °C, expressed in the unit.

    >>> other_units("BME280.Pressure")["mmHg"], other_units(None)
    (0.75006376, {'F': 1.8, '°F': 1.8})
    """
    quantity = tasmota_quantity(parse_path(value or "Temperature"))
    if quantity is None:
        return {}
    signs = ("", "°") if quantity is TEMPERATURE else ("",)
    return {
        sign + name: factor
        for sign, (name, (factor, _)) in product(signs, quantity.units.items())
        if name != quantity.wanted
    }


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


preset = DevicePreset(
    "tele/{sensor}/SENSOR",
    numbers_below(without=frozenset({PROCESSOR})),
    Activation("live", "cmnd/{sensor}/TelePeriod", ""),
    units=other_units,
)
