"""Units of fields: which units and quantities belong together, by the field's name."""

import re

from edge_tvbo.messages.formatting import may_be_same_unit

_PRESSURE = ("hPa", "Pa", "kPa", "mbar", "cbar", "bar", "mmHg", "inHg", "psi")
_SHARE = ("ppm", "ppb", "%")
_MASS_IN_AIR = ("µg/m³", "mg/m³")
# The units of quantities, by the name that `init` gives to the quantity's field. A unit in which a
# sensor may report any quantity, such as V, is not in these lists.
UNITS: dict[str, tuple[str, ...]] = {
    "temperature": ("°C", "°F", "K"),
    "humidity": ("%", "mg/m³"),
    "co2": (*_SHARE, *_MASS_IN_AIR, *_PRESSURE),
    "pm25": _MASS_IN_AIR,
    "voc": (*_SHARE, *_MASS_IN_AIR),
    "noise": ("dB", "dBA", "%", "Pa"),
    "illuminance": ("lx", "%"),
    "soil_moisture": ("%", *_PRESSURE),
    "pressure": _PRESSURE,
}


def may_be_charge(name: str, unit: str) -> bool:
    """Return whether the readings of the field `name` may be charges of batteries, in %.

    An unknown unit may be another name of %.

    >>> may_be_charge("battery", "%"), may_be_charge("humidity", "%"), may_be_charge("x", "°C")
    (True, False, False)
    """
    may_be_percent = unit in ("", "%") or not any(_has_unit(each, unit) for each in UNITS)
    return may_be_percent and _quantity(name) not in UNITS


def wrong_unit(name: str, unit: str) -> str:
    """Return what is wrong with the `unit` of the field `name`; "" if nothing is known to be wrong.

    A unit is wrong if the field has the name of a known quantity, and only other known quantities
    have this unit. An unknown unit is not wrong: it may be another name of a correct unit.

    >>> print(wrong_unit("temperature", "hPa"))
    is "hPa", a unit of pressure; the units of temperature are °C, °F and K
    >>> wrong_unit("temperature-2", "degrees"), wrong_unit("radon", "hPa"), wrong_unit("co2", "")
    ('', '', '')
    """
    quantity = _quantity(name)
    owners = [each for each in UNITS if unit and _has_unit(each, unit)]
    if quantity not in UNITS or quantity in owners or not owners:
        return ""
    owner = "pressure" if "pressure" in owners else owners[0]
    *units, last = UNITS[quantity]
    allowed = f"{', '.join(units)} and {last}"
    return f'is "{unit}", a unit of {owner}; the units of {quantity} are {allowed}'


def _quantity(name: str) -> str:
    """Return the name of a field's quantity, without the number at the end of the field's name."""
    return re.sub(r"_\d+$", "", name.replace("-", "_"))


def _has_unit(quantity: str, unit: str) -> bool:
    return any(may_be_same_unit(unit, each) for each in UNITS[quantity])
