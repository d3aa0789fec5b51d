"""Sensor ids: converts sensor names to ids that are valid in a configuration and in topics.

This module imports only the standard library, so that commands start fast.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable
from itertools import chain, count

_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OTHERS = re.compile(r"[^A-Za-z0-9_.-]+")
NAME_MARKS = "\u200c\u200d\u200e\u200f"  # joiners and direction marks, for Persian, Hebrew, emoji
MAX_NAME_LENGTH = 64  # largest length of a sensor's name in topics, in characters
MAX_STEM_LENGTH = 59  # largest length of an id without its number, in characters


def is_id(name: str) -> bool:
    """Return whether a sensor's name can be its id in a configuration.

    >>> is_id("hall"), is_id("Küche")
    (True, False)
    """
    return _ID.fullmatch(name) is not None


def is_displayable(text: str) -> bool:
    """Return whether a text has only printable characters, spaces, joiners and direction marks.

    Line separators and characters that hide or reorder other text are not displayable.

    >>> is_displayable("居間\u3000北"), is_displayable("a\u200bb"), is_displayable("a\u2028b")
    (True, False, False)
    """
    return all(
        each.isprintable() or each in NAME_MARKS or unicodedata.category(each) == "Zs"
        for each in text
    )


def is_usable_name(name: str) -> bool:
    """Return whether a sensor's name can be one level of an MQTT topic.

    >>> is_usable_name("Living room"), is_usable_name("attic/2"), is_usable_name("")
    (True, False, False)
    """
    return (
        0 < len(name) <= MAX_NAME_LENGTH
        and is_displayable(name)
        and not any(each in name for each in "/+#{}")
    )


def ids(names: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return a dict that maps sensor ids to the names of the sensors in topics or files.

    A name that is a valid id becomes the id, unless `taken` contains this id. For any other name,
    an id is made from the name.

    >>> ids(["Living room", "Küche", "hall", "Kuche"])
    {'hall': 'hall', 'Kuche': 'Kuche', 'Living-room': 'Living room', 'Kuche-2': 'Küche'}
    >>> ids(["Straße", "STRAẞE"])
    {'Strasse': 'Straße', 'STRASSE': 'STRAẞE'}
    >>> ids(["hall", "attic"], taken=["hall"])
    {'attic': 'attic', 'hall-2': 'hall'}
    """
    every = list(names)
    by_id = {name: name for name in every if is_id(name) and name not in taken}
    for name in every:
        if name not in by_id:
            stem = _stem(name)
            numbered = (f"{stem}-{number}" for number in count(2))
            free = (
                each for each in chain([stem], numbered) if each not in by_id and each not in taken
            )
            by_id[next(free)] = name
    return by_id


def _stem(name: str) -> str:
    """Return a valid sensor id that resembles `name`, without accents; ß becomes ss."""
    name = name.replace("ß", "ss").replace("ẞ", "SS")
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return _OTHERS.sub("-", plain)[:MAX_STEM_LENGTH].strip("-") or "sensor"
