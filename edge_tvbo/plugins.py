"""Adapters by the name they registered, ours or a third party's: nothing here knows them."""

import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_tvbo.errors import ConfigError, hint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

REGISTERED = "edge_tvbo-*.dist-info/entry_points.txt"


class Names(Collection[str]):
    """The names registered under ``edge_tvbo.<kind>``, sorted.

    Whether one of ours is among them is known without a look at all packages.

    >>> "intel-lab" in Names("datasets")
    True
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __contains__(self, name: object) -> bool:
        return (self._kind, name) in _ours() or name in _registered(self._kind).names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(_registered(self._kind).names))

    def __len__(self) -> int:
        return len(_registered(self._kind).names)


def names(kind: str) -> Names:
    """Give the names registered under ``edge_tvbo.<kind>``."""
    return Names(kind)


def load(kind: str, name: str) -> Any:
    """Give what `name` registered under ``edge_tvbo.<kind>``; raises `ConfigError`."""
    if place := _ours().get((kind, name)):
        module, _, attribute = place.partition(":")
        return getattr(import_module(module), attribute)
    known = _registered(kind)
    if name not in known.names:
        others = ", ".join(names(kind))
        raise ConfigError(
            f"There is no {name!r} among the {kind}: {others}.{hint(name, known.names)}"
        )
    return known[name].load()


def _registered(kind: str) -> "EntryPoints":
    found: EntryPoints = _everything().select(group=f"edge_tvbo.{kind}")
    return found


@cache
def _ours() -> dict[tuple[str, str], str]:
    """Give where each of our own (kind, name) is, ``module:attribute``.

    To import importlib.metadata takes 0.07 s, for which who types ``check`` would wait.
    """
    found: dict[tuple[str, str], str] = {}
    files = (file for folder in sys.path for file in sorted(Path(folder).glob(REGISTERED)))
    package, kind = "", ""
    for line in next((file.read_text("utf-8") for file in files), "").splitlines():
        name, equals, place = line.partition(" = ")
        if not equals:
            package, _, kind = line.strip("[]").partition(".")
        elif package == "edge_tvbo":
            found[kind, name] = place
    return found


@cache
def _everything() -> Any:  # with a `select`; a type of its own before Python 3.12
    """Give what all packages register: they are searched once, which takes ten milliseconds."""
    from importlib.metadata import entry_points

    return entry_points()
