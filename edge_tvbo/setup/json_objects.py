"""JSON objects: the objects in a JSON message, and the paths of the known quantities in them."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from edge_tvbo.setup.known_quantities import NOT_CURRENT
from edge_tvbo.setup.sensor_groups import known_quantity_in

MAX_PAYLOAD = 65_536  # bytes
MAX_LEVELS = 4  # levels of nested objects that are searched
MAX_PATHS = 500  # paths of one message
_SYNTAX = re.compile(r"[.\[\]]")  # characters that a key in a path cannot contain


def decode_object(payload: bytes) -> dict[str, Any]:
    """Return the JSON object in a message; an empty object if the message contains no object.

    A message of `MAX_PAYLOAD` bytes or more is not decoded.
    """
    try:
        document = msgspec.json.decode(payload) if len(payload) < MAX_PAYLOAD else None
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def objects_in(
    document: dict[str, Any], place: str = "", levels: int = MAX_LEVELS
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `document` and the objects in it, each with the path that precedes its keys.

    Objects in arrays are left out, and so are objects below a key that no path can contain.

    >>> list(objects_in({"air": {"temp": 21.3}, "raw": [{"a": 1}], "a.b": {"c": 2}}))[1:]
    [('air.', {'temp': 21.3})]
    """
    yield place, document
    for key, value in document.items() if levels > 1 else ():
        if isinstance(value, dict) and _is_step(key):
            yield from objects_in(value, f"{place}{key}.", levels - 1)


def quantity_paths(document: dict[str, Any]) -> tuple[str, ...]:
    """Return the paths of the values in a JSON object that belong to known quantities.

    Values below a key such as ``max`` or ``forecast`` are left out, because they are no current
    readings.

    >>> quantity_paths({"air": {"temp": {"value": 21.3, "unit": "C"}}, "co2": 415, "id": 7})
    ('co2', 'air.temp.value')
    """
    paths = (
        place + key
        for place, keys in objects_in(document)
        if NOT_CURRENT.isdisjoint(place.lower().split("."))
        for key, value in keys.items()
        if not isinstance(value, dict) and _is_step(key) and known_quantity_in("", place + key)
    )
    return tuple(islice(paths, MAX_PATHS))


def _is_step(key: str) -> bool:
    """Return whether a path into a JSON object can contain `key`."""
    return bool(key) and not _SYNTAX.search(key)
