"""Announced units: the units that messages state for their own readings, or for other topics.

These messages state units:

- discovery messages for Home Assistant: ``homeassistant/sensor/hall/config``
- Homie: ``homie/hall/room/temperature/$unit``, and from version 5 on ``homie/5/hall/$description``
- JSON with a key such as ``unit`` or ``temperature_unit`` beside the value
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple
from unicodedata import normalize

from edge_tvbo.setup.json_objects import decode_object, objects_in
from edge_tvbo.setup.known_quantities import quantity_of
from edge_tvbo.setup.sensor_groups import known_quantity_in

MAX_UNITS = 20_000  # number of announcements that are stored
MAX_UNIT_LENGTH = 24  # characters
MAX_LENGTH = 500  # characters of a topic and the path of a value, together
MAX_UNIT_KEYS = 20  # keys of a JSON object that state units
_CONFIG = re.compile(r"[^/]+/(sensor|number|device)/.+/config")
_UNIT_KEY = re.compile(
    r"(?i:(?:(?P<word>.+)_)?units?|unit_of_measurement)|(?P<camel>.*[a-z\d])Units?"
)
_NAMES = {"c": "°C", "celsius": "°C", "f": "°F", "fahrenheit": "°F", "kelvin": "K"} | dict.fromkeys(
    ("%rh", "rh%", "percent"), "%"
)
_STEP = r"(?:\.\w+|\[['\"]\w+['\"]\])"
# A template that changes the number, such as {{ value_json.t * 1.8 + 32 }}, does not match:
_TEMPLATE = re.compile(
    rf"\s*\{{\{{\s*(?:value|value_json(?P<path>{_STEP}+))"
    r"(?:\s*\|\s*(?:float|int|round|default|is_defined)(?:\([^()]*\))?)*\s*\}\}\s*"
)


class Place(NamedTuple):
    """Where a value is in the messages on a topic, and where the unit of the value is stated."""

    topic: str
    value: str | None  # its name in JSON; None if a message is one number
    stated: Literal["elsewhere", "beside"]  # in other messages, or in the same message


class AnnouncedUnits:
    """Collector of the units that messages announce; no message raises an exception."""

    def __init__(self) -> None:
        self._units: dict[Place, dict[tuple[str, int], str]] = {}  # by place, then announcement
        self._stored = 0

    def add_message(self, topic: str, payload: bytes) -> None:
        """Store the units that a message announces for its own readings or for other topics."""
        for number, (place, unit) in enumerate(_announced(topic, payload)):
            is_short = len(place.topic + (place.value or "")) <= MAX_LENGTH
            if is_short and len(unit) <= MAX_UNIT_LENGTH:
                self._store(place, (topic, number), usual_spelling(unit))

    def _store(self, place: Place, announcement: tuple[str, int], unit: str) -> None:
        is_new = announcement not in self._units.get(place, ())
        if self._stored < MAX_UNITS or not is_new:
            self._units.setdefault(place, {})[announcement] = unit
            self._stored += is_new

    def unit_at(self, topic: str, value: str | None) -> str | None:
        """Return the unit that other messages announce for `value` in the messages on `topic`.

        Return None if no message announces a unit, or if messages contradict each other.
        """
        return self._unit(Place(topic, value, "elsewhere"))

    def unit_beside(self, topic: str, value: str | None) -> str | None:
        """Return the unit that JSON on `topic` states beside `value`; None without such a unit."""
        return self._unit(Place(topic, value, "beside"))

    def _unit(self, place: Place) -> str | None:
        units = set(self._units.get(place, {}).values())
        return units.pop() if len(units) == 1 else None


def usual_spelling(unit: str) -> str:
    """Return the usual spelling of an announced unit, or `unit` if no other spelling is known.

    >>> usual_spelling("degF"), usual_spelling("°c"), usual_spelling("Celsius"), usual_spelling("K")
    ('°F', '°C', '°C', 'K')
    """
    word = re.sub(r"[°\s._]", "", normalize("NFKC", unit).lower())
    return _NAMES.get(re.sub(r"^deg(rees?)?", "", word), unit)


def _announced(topic: str, payload: bytes) -> Iterator[tuple[Place, str]]:
    """Yield the units that a message announces, each with the place of the readings."""
    if topic.endswith("/$unit"):
        unit = payload.decode("utf-8", "replace").strip()
        yield Place(topic.removesuffix("/$unit"), None, "elsewhere"), unit
        return
    document = decode_object(payload)
    if _CONFIG.fullmatch(topic):
        yield from _of_home_assistant(document)
    elif topic.startswith("homie/5/") and topic.endswith("/$description"):
        yield from _of_homie(topic.removesuffix("/$description"), document)
    else:
        for place, keys in objects_in(document):
            for path, unit in _beside(place, keys).items():
                yield Place(topic, path, "beside"), unit


def _beside(place: str, keys: dict[str, Any]) -> dict[str, str]:
    """Return the units that a JSON object states beside its values; the keys are their paths.

    A key such as ``unit`` states the unit of all values. ``temperature_unit`` states the unit of
    the temperatures. ``display_unit`` does not state the unit of any value. The paths begin with
    the text `place`.
    """
    matches = ((_UNIT_KEY.fullmatch(key), unit) for key, unit in keys.items())
    stated = [
        (match["word"] or match["camel"], unit)
        for match, unit in matches
        if match and isinstance(unit, str)
    ]
    found: dict[str, str] = {}
    paths = (place + key for key in keys)
    quantities = {path: known for path in paths if (known := known_quantity_in("", path))}
    for word, unit in islice(sorted(stated, key=lambda each: each[0] is not None), MAX_UNIT_KEYS):
        of = None if word is None else quantity_of(word)
        for value, quantity in quantities.items():
            if word is None or quantity == of:
                found[value] = unit
    return found


def _of_home_assistant(document: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield the units in a discovery message, which describes an entity or a whole device."""
    parts = document.get("components", document.get("cmps"))
    entities = list(parts.values()) if isinstance(parts, dict) else [{}]
    for entity in entities:
        given = document | entity if isinstance(entity, dict) else {}
        unit = given.get("unit_of_measurement", given.get("unit_of_meas"))
        topic = given.get("state_topic", given.get("stat_t"))
        template = given.get("value_template", given.get("val_tpl", "{{ value }}"))
        if not (isinstance(unit, str) and isinstance(topic, str) and isinstance(template, str)):
            continue
        if found := _TEMPLATE.fullmatch(template):
            if topic.startswith("~"):
                topic = f"{given.get('~', '')}{topic[1:]}"
            path = ".".join(re.findall(r"\w+", found["path"] or ""))
            yield Place(topic, path or None, "elsewhere"), unit


def _of_homie(device: str, document: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield the units in the description of a device of Homie 5."""
    for node, properties in _items(document.get("nodes")):
        for name, each in _items(properties.get("properties")):
            if isinstance(unit := each.get("unit"), str):
                yield Place(f"{device}/{node}/{name}", None, "elsewhere"), unit


def _items(table: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the items of a JSON object whose values are objects."""
    if isinstance(table, dict):
        yield from ((key, each) for key, each in table.items() if isinstance(each, dict))
