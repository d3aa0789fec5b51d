"""Deprecated names of settings: each is read as the current name, with a warning."""

from typing import Any

from edge_tvbo.config.errors import KeyPath

RENAMED = {("mqtt", "visitor"): ("mqtt", "readonly")}  # the new name is in the same table


def current(path: KeyPath) -> KeyPath:
    """Return the key path of a setting, with the current name in place of a deprecated name.

    >>> current(("mqtt", "visitor", "username"))
    ('mqtt', 'readonly', 'username')
    """
    for old, new in RENAMED.items():
        if path[: len(old)] == old:
            return (*new, *path[len(old) :])
    return path


def has(raw: dict[str, Any], path: tuple[str, str]) -> bool:
    """Return whether the configuration `raw` contains the setting at `path`.

    `path` consists of a table and the name of a setting in this table. Only this name is looked up:
    if it is deprecated, the current name of the setting does not count, and vice versa.
    """
    table, name = path
    return isinstance(raw.get(table), dict) and name in raw[table]


def renamed(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the configuration `raw` with current names in place of deprecated names.

    If `raw` contains both names of a setting, the value under the deprecated name is dropped.

    >>> renamed({"mqtt": {"visitor": {"username": "watcher"}}})
    {'mqtt': {'readonly': {'username': 'watcher'}}}
    """
    for (table, old), (_, new) in RENAMED.items():
        if has(raw, (table, old)):
            settings = dict(raw[table])
            value = settings.pop(old)
            raw = {**raw, table: {new: value} | settings}
    return raw
