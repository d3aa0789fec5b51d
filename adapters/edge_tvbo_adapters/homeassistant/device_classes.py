"""Device classes of Home Assistant: what kind of quantity a field measures.

The units are from `DEVICE_CLASS_UNITS` in homeassistant/components/sensor/const.py. The
module has only device classes for measurements, and only those that Home Assistant 2025.10 knows.
Home Assistant rejects an entity if the unit of the entity does not fit its device class.
"""

_PRESSURE = ("Pa", "hPa", "kPa", "mbar", "cbar", "bar", "psi", "mmHg", "inHg")
_SPEED = ("m/s", "km/h", "mph", "kn", "ft/s", "mm/s")
_MASS_IN_AIR = ("µg/m³", "μg/m³")  # with the micro sign, or with the Greek letter

UNITS: dict[str, tuple[str, ...]] = {
    "absolute_humidity": ("g/m³", "mg/m³"),
    "aqi": ("",),
    "atmospheric_pressure": _PRESSURE,
    "battery": ("%",),
    "carbon_dioxide": ("ppm",),
    "carbon_monoxide": ("ppm", "mg/m³"),
    "conductivity": ("S/cm", "mS/cm", "µS/cm", "μS/cm"),
    "current": ("A", "mA"),
    "distance": ("mm", "cm", "m", "km", "in", "ft", "yd", "mi"),
    "frequency": ("Hz", "kHz", "MHz", "GHz"),
    "humidity": ("%",),
    "illuminance": ("lx",),
    "irradiance": ("W/m²",),
    "moisture": ("%",),
    "nitrogen_dioxide": _MASS_IN_AIR,
    "nitrogen_monoxide": _MASS_IN_AIR,
    "nitrous_oxide": _MASS_IN_AIR,
    "ozone": _MASS_IN_AIR,
    "ph": ("",),
    "pm1": _MASS_IN_AIR,
    "pm10": _MASS_IN_AIR,
    "pm25": _MASS_IN_AIR,
    "power": ("W", "mW", "kW", "MW"),
    "power_factor": ("%", ""),
    "precipitation_intensity": ("mm/h", "mm/d", "in/h", "in/d"),
    "pressure": _PRESSURE,
    "radon": ("Bq/m³", "pCi/L"),
    "signal_strength": ("dBm", "dB"),
    "sound_pressure": ("dBA", "dB"),
    "speed": _SPEED,
    "sulphur_dioxide": _MASS_IN_AIR,
    "temperature": ("°C", "°F", "K"),
    "volatile_organic_compounds": (*_MASS_IN_AIR, "mg/m³"),
    "volatile_organic_compounds_parts": ("ppb", "ppm"),
    "voltage": ("V", "mV", "kV"),
    "volume_flow_rate": ("m³/h", "L/min", "L/h", "L/s"),
    "weight": ("g", "kg", "mg", "oz", "lb"),
    "wind_speed": _SPEED,
}
BY_UNIT = {  # the class of a unit, if the name of the field says nothing else
    unit: name
    for name in (
        *("temperature", "pressure", "speed", "power", "voltage", "current", "frequency"),
        *("distance", "radon", "illuminance", "irradiance"),
    )
    for unit in UNITS[name]
} | {"dBA": "sound_pressure", "dBm": "signal_strength"}
_WORDS = {  # usual names of fields, without - and _
    "co": "carbon_monoxide",
    "co2": "carbon_dioxide",
    "light": "illuminance",
    "no": "nitrogen_monoxide",
    "no2": "nitrogen_dioxide",
    "o3": "ozone",
    "rh": "humidity",
    "so2": "sulphur_dioxide",
    "soil": "moisture",
    "soilmoisture": "moisture",
    "tvoc": "volatile_organic_compounds",
    "voc": "volatile_organic_compounds",
    "wind": "wind_speed",
} | {name.replace("_", ""): name for name in UNITS}
STORED_ENERGY = frozenset(("J", "kJ", "MJ", "Wh", "mWh", "kWh", "cal", "kcal"))


def device_class(field: str, unit: str) -> str | None:
    """Return the device class that fits a field's name and its unit; None if no class is found.

    >>> device_class("attic", "°C"), device_class("co2", "ppm"), device_class("pm2_5", "µg/m³")
    ('temperature', 'carbon_dioxide', 'pm25')
    >>> device_class("fill-level", "%") is None
    True
    """
    named = _WORDS.get(field.replace("_", "").replace("-", ""), "")
    for name in (named, f"{named}_parts"):
        if unit in UNITS.get(name, ()):
            return name
    return BY_UNIT.get(unit)
