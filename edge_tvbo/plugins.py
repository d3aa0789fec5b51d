"""Adapters by the name they registered, ours or a third party's: nothing here knows them."""

from functools import cache
from typing import TYPE_CHECKING, Any

from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


def names(kind: str) -> tuple[str, ...]:
    """Give the names registered under ``edge_tvbo.<kind>``, sorted.

    >>> "intel-lab" in names("datasets")
    True
    """
    return tuple(sorted(_registered(kind).names))


def load(kind: str, name: str) -> Any:
    """Give what `name` registered under ``edge_tvbo.<kind>``; raises `ConfigError`."""
    known = _registered(kind)
    if name not in known.names:
        from difflib import get_close_matches

        close = get_close_matches(name, known.names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"There is no {name!r} among the {kind}: {', '.join(names(kind))}.{hint}")
    return known[name].load()


def _registered(kind: str) -> "EntryPoints":
    found: EntryPoints = _everything().select(group=f"edge_tvbo.{kind}")
    return found


@cache
def _everything() -> Any:  # with a `select`; a type of its own before Python 3.12
    """Give what all packages register: they are searched once, which takes ten milliseconds."""
    from importlib.metadata import entry_points  # which takes ten more, and `--help` does without

    return entry_points()
