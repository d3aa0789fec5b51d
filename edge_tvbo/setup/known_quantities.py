"""Measured quantities, and the words that integrations use for them."""

import re

import msgspec


class Quantity(msgspec.Struct, frozen=True):
    """A measured quantity, with its unit and the usual spread and mean of its readings."""

    name: str
    unit: str
    spread: float  # standard deviation, in the unit
    mean: float = 20.0  # in the unit


_WORDS = {  # the words that integrations use for a quantity
    Quantity("temperature", "°C", 3.0): (
        "temperature",
        "temperature_c",
        "temperaturec",
        "temp",
        "temp_c",
        "tempc",
        "tc",
    ),
    Quantity("humidity", "%", 10.0, 50.0): ("humidity", "hum", "rh"),
    Quantity("co2", "ppm", 300.0, 600.0): ("co2", "carbondioxide", "carbon_dioxide"),
    Quantity("pm25", "µg/m³", 10.0, 10.0): ("pm25", "pm2_5"),
    Quantity("voc", "ppb", 200.0, 200.0): ("voc",),
    Quantity("noise", "dB", 10.0, 50.0): ("noise", "laeq"),
    Quantity("illuminance", "lx", 200.0, 200.0): ("illuminance",),
    Quantity("soil_moisture", "%", 10.0, 40.0): ("soil_moisture",),
    Quantity("pressure", "hPa", 10.0, 1010.0): ("pressure",),
}
QUANTITIES = {word: quantity for quantity, words in _WORDS.items() for word in words}
GENERIC = ("value", "state", "degrees", "celsius")  # words that may follow the word of a quantity
# Words for values that are no current reading, although they belong to a quantity:
NOT_CURRENT = {"min", "max", "mean", "average", "avg", "raw", "target", "setpoint", "forecast"}
MAX_WORD_LENGTH = 64  # a word with more characters is not a quantity
INSIDE = {"internal", "cpu", "device", "processor"}  # words for the temperature inside a device


def quantity_of(word: str) -> Quantity | None:
    """Return the quantity of a discovered `word`, which may end with a number; None if unknown.

    >>> quantity_of("Temperature_1").name, quantity_of("pm25").name, quantity_of("door1")
    ('temperature', 'pm25', None)
    """
    if len(word) > MAX_WORD_LENGTH:
        return None
    word = word.lower()
    return QUANTITIES.get(word) or QUANTITIES.get(re.sub(r"[_-]?\d+$", "", word))


def field_name(word: str) -> str:
    """Return a valid name for the field of a quantity that users or integrations call `word`.

    >>> field_name("CO2"), field_name("Air quality"), field_name("°")
    ('co2', 'air-quality', 'field')
    """
    return re.sub(r"[^a-z0-9_-]+", "-", word.lower()).strip("-")[:64] or "field"


def known_quantity(name: str) -> Quantity:
    """Return the quantity `name` for the sensor discovery; an unknown quantity has no unit.

    >>> [known_quantity(name).unit for name in ("humidity", "LAeq", "radon")]
    ['%', 'dB', '']
    """
    return QUANTITIES.get(name.lower()) or Quantity(name, "", 3.0)
