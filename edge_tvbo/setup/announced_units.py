"""Announced units: the units that messages state for the readings of other topics, or their own.

These messages state units:

- discovery messages for Home Assistant: ``homeassistant/sensor/hall/config``
- Homie: ``homie/hall/room/temperature/$unit``, and from version 5 on ``homie/5/hall/$description``
- JSON with a key such as ``unit`` beside the value
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

MAX_PAYLOAD = 65_536  # bytes
MAX_UNITS = 20_000  # topics and values whose unit is stored
MAX_UNIT_LENGTH = 16  # characters
MAX_LENGTH = 500  # characters of a topic and a value whose unit is stored
EVERY_VALUE = ""  # in place of the name of a value
_CONFIG = re.compile(r"[^/]+/(sensor|number|device)/.+/config")
_UNIT_KEY = re.compile(r"(?i:(.*_)?units?|unit_of_measurement)|.*[a-z]Units?")
_STEP = r"(?:\.\w+|\[['\"]\w+['\"]\])"
# A template that changes the number, such as {{ value_json.t * 1.8 + 32 }}, does not match:
_TEMPLATE = re.compile(
    rf"\s*\{{\{{\s*(?:value|value_json(?P<path>{_STEP}+))"
    r"(?:\s*\|\s*(?:float|int|round|default|is_defined)(?:\([^()]*\))?)*\s*\}\}\s*"
)


class AnnouncedUnits:
    """Collector of the units that messages announce; no message raises an exception."""

    def __init__(self) -> None:
        self._units: dict[tuple[str, str | None], str] = {}

    def add_message(self, topic: str, payload: bytes) -> None:
        """Store the units that a message announces, for the readings of this or other topics."""
        if len(payload) >= MAX_PAYLOAD:
            return
        for place, value, unit in _announced(topic, payload):
            is_short = len(unit) <= MAX_UNIT_LENGTH and len(place + (value or "")) <= MAX_LENGTH
            if is_short and (len(self._units) < MAX_UNITS or (place, value) in self._units):
                self._units[place, value] = unit

    def unit_at(self, topic: str, value: str | None) -> str | None:
        """Return the announced unit of `value` in the messages on `topic`; None if unknown.

        With `EVERY_VALUE`, return the unit that JSON on `topic` states beside its values.
        """
        return self._units.get((topic, value))


def _announced(topic: str, payload: bytes) -> Iterator[tuple[str, str | None, str]]:
    """Yield the announced units of a message, each with the topic and the value of the readings."""
    if topic.endswith("/$unit"):
        yield topic.removesuffix("/$unit"), None, payload.decode("utf-8", "replace").strip()
        return
    try:
        document = msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    if _CONFIG.fullmatch(topic):
        yield from _of_home_assistant(document)
    elif topic.startswith("homie/5/") and topic.endswith("/$description"):
        yield from _of_homie(topic.removesuffix("/$description"), document)
    else:
        stated = [each for key, each in document.items() if _UNIT_KEY.fullmatch(key)]
        if len(stated) == 1 and isinstance(stated[0], str):
            yield topic, EVERY_VALUE, stated[0]


def _of_home_assistant(document: dict[str, Any]) -> Iterator[tuple[str, str | None, str]]:
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
            yield topic, path or None, unit


def _of_homie(device: str, document: dict[str, Any]) -> Iterator[tuple[str, str | None, str]]:
    """Yield the units in the description of a device of Homie 5."""
    for node, properties in _items(document.get("nodes")):
        for name, each in _items(properties.get("properties")):
            if isinstance(unit := each.get("unit"), str):
                yield f"{device}/{node}/{name}", None, unit


def _items(table: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the items of a JSON object whose values are objects."""
    if isinstance(table, dict):
        yield from ((key, each) for key, each in table.items() if isinstance(each, dict))
