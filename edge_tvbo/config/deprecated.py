"""Deprecated names of settings: each is read as the current name, with a warning."""

from typing import Any

from edge_tvbo.config.errors import KeyPath

RENAMED: dict[KeyPath, KeyPath] = {  # the old and the new name are in the same table
    ("mqtt", "visitor"): ("mqtt", "readonly"),
}


def current(path: KeyPath) -> KeyPath:
    """Return the key path of a setting, with the current name in place of a deprecated name.

    >>> current(("mqtt", "visitor", "username"))
    ('mqtt', 'readonly', 'username')
    """
    for old, new in RENAMED.items():
        if path[: len(old)] == old:
            return (*new, *path[len(old) :])
    return path


def has(raw: dict[str, Any], path: KeyPath) -> bool:
    """Return whether the configuration `raw` contains the key `path`.

    Only the name in `path` is looked up: a deprecated name does not stand for the current name.
    """
    return path[-1] in _table(raw, path)


def renamed(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the configuration `raw` with current names in place of deprecated names.

    If `raw` contains both names of a setting, the value under the deprecated name is dropped.

    >>> renamed({"mqtt": {"visitor": {"username": "watcher"}}})
    {'mqtt': {'readonly': {'username': 'watcher'}}}
    """
    for old, new in RENAMED.items():
        if has(raw, old):
            table = dict(_table(raw, old))
            value = table.pop(old[-1])
            raw = _with_table(raw, old[:-1], {str(new[-1]): value} | table)
    return raw


def _table(raw: dict[str, Any], path: KeyPath) -> dict[Any, Any]:
    """Return the table of `raw` for the deprecated or current key `path`; {} if there is none."""
    table: Any = raw
    for key in path[:-1]:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _with_table(raw: dict[str, Any], path: KeyPath, table: dict[Any, Any]) -> dict[str, Any]:
    if not path:
        return table
    key = str(path[0])
    return {**raw, key: _with_table(raw[key], path[1:], table)}
