"""Plugins: names that lead to built-in objects or to those of installed packages.

Policies, payload formats and datasets are what other packages can add, each by an entry point.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_tvbo.errors import ConfigError, hint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


class Registry(Collection[str]):
    """The registered names of one kind of plugin, sorted.

    Parameters
    ----------
    kind : str
        The plural, as in the entry-point group ``edge_tvbo.<kind>``.
    builtin : mapping of str to str
        Where each built-in object is, as ``module:attribute``. A built-in name is found without
        `importlib.metadata`, whose import takes 0.07 s.

    Attributes
    ----------
    builtin : tuple of str
        The built-in names, as they were given.

    Examples
    --------
    >>> numbers = Registry("numbers", {"pi": "math:pi"})
    >>> "pi" in numbers, round(numbers.load("pi"), 2)
    (True, 3.14)
    """

    def __init__(self, kind: str, builtin: Mapping[str, str]) -> None:
        self._kind = kind
        self.builtin = tuple(builtin)
        self._builtin = builtin

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in _entry_points(self._kind).names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._builtin, *_entry_points(self._kind).names}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def load(self, name: str) -> Any:
        """Return the object registered as `name`; raises `ConfigError` for an unknown name."""
        if place := self._builtin.get(name):
            module, _, attribute = place.partition(":")
            return getattr(import_module(module), attribute)
        installed = _entry_points(self._kind)
        if name not in installed.names:
            raise ConfigError(
                f"There is no {name!r} among the {self._kind}: {', '.join(self)}.{hint(name, self)}"
            )
        return installed[name].load()


@cache
def _entry_points(kind: str) -> "EntryPoints":
    from importlib.metadata import entry_points

    return entry_points(group=f"edge_tvbo.{kind}")


# --- legacy, until the merge

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
