"""Every setting in words, generated from the structs."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from edge_tvbo.config.introspection import Setting, rest_of, settings_of
from edge_tvbo.config.settings import Settings


class Entry(NamedTuple):
    """One setting in words."""

    key: str  # "mqtt.port"
    can: str  # what would do
    description: str
    default: str = ""  # "" where it is required, or where there is none
    required: bool = False
    is_table: bool = False  # what follows are its settings


def explain() -> str:
    """Say of every setting what it is, what it can be and what it is by default."""
    return "\n".join(_lines(each) for each in entries()) + "\n"


def entries() -> Iterator[Entry]:
    """Yield every setting there is, each table before what is in it."""
    return _table(Settings, "")


def _lines(entry: Entry) -> str:
    default = f" Default: {entry.default}." if entry.default else ""
    ending = " Required." if entry.required else default
    return f"{entry.key} = {entry.can}\n    {entry.description}{ending}\n"


def _table(kind: type[msgspec.Struct], prefix: str) -> Iterator[Entry]:
    for name, setting in settings_of(kind).items():
        yield from _setting(setting, prefix + name)
    if rest := rest_of(kind):
        if rest.extra["rest"] is str:
            yield Entry(f"{prefix}<key>", rest.can, rest.description)
        else:
            yield from _table(rest.extra["rest"], prefix)


def _setting(setting: Setting, key: str) -> Iterator[Entry]:
    inside = setting.named[1] if setting.named else setting.table
    yield Entry(
        key,
        setting.can,
        setting.description,
        _default(setting),
        required=setting.required,
        is_table=inside is not None,
    )
    if inside is not None:
        yield from _table(inside, f"{key}.<name>." if setting.named else f"{key}.")


def _default(setting: Setting) -> str:
    if setting.derived:
        return str(setting.extra["default"])
    if setting.default is None or isinstance(setting.default, msgspec.Struct):
        return ""
    return _written(setting.default, setting)


def _written(value: Any, setting: Setting) -> str:
    text = setting.extra.get("text")
    return str(text(value)) if text else msgspec.json.encode(value).decode()
