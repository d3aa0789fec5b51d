"""Plugins: registries of policies, payload formats and datasets; modules of optional packages.

Other packages can add policies, payload formats or datasets through entry points.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from edge_tvbo.errors import ConfigError, MissingExtra, hint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

T = TypeVar("T")


class Registry(Collection[str]):
    """Sorted collection of the registered names of one kind of plugin.

    Parameters
    ----------
    kind : str
        The kind of plugin in the plural, as in the entry-point group ``edge_tvbo.<kind>``.
    builtin : mapping of str to str
        The location of each built-in object, as ``module:attribute``. Built-in objects are loaded
        without `importlib.metadata`, whose import takes 0.07 s.

    Attributes
    ----------
    builtin : mapping of str to str
        The parameter `builtin`.

    Examples
    --------
    >>> numbers = Registry("numbers", {"pi": "math:pi"})
    >>> "pi" in numbers, round(numbers.load("pi"), 2)
    (True, 3.14)
    """

    def __init__(self, kind: str, builtin: Mapping[str, str]) -> None:
        self._kind = kind
        self.builtin = builtin

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in _entry_points(self._kind).names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.builtin, *_entry_points(self._kind).names}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def load(self, name: str) -> Any:
        """Return the plugin registered as `name`.

        Raises `ConfigError` if the name is unknown, or if another package registers the plugin and
        loading it fails.
        """
        if place := self.builtin.get(name):
            module, _, attribute = place.partition(":")
            return getattr(import_module(module), attribute)
        installed = _entry_points(self._kind)
        if name not in installed.names:
            raise ConfigError(
                f"There is no {name!r} among the {self._kind}: {', '.join(self)}.{hint(name, self)}"
            )
        plugin = installed[name]
        try:
            return plugin.load()
        except Exception as error:  # importing another package can raise any exception
            package = f"the package {plugin.dist.name}" if plugin.dist else "its package"
            raise ConfigError(
                f"{name!r} among the {self._kind} of installed packages cannot be loaded: "
                f"{type(error).__name__}: {error}; update or uninstall {package}"
            ) from error

    def load_each(
        self, load: Callable[[str], T], report: Callable[[ConfigError], None]
    ) -> dict[str, T]:
        """Return the results of `load` for all registered names, by name.

        A name for which `load` raises a `ConfigError` is left out, and `report` is called with the
        error. So a faulty package does not make the other plugins unusable.
        """
        found = {}
        for name in self:
            try:
                found[name] = load(name)
            except ConfigError as error:
                report(error)
        return found


def optional_module(name: str, what: str, extra: str) -> Any:
    """Return the module `name` of an optional package.

    If the package is not installed, raise a `MissingExtra` that says what is missing: `what` names
    the package and its use, and `extra` is the extra that installs it.
    """
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(what, extra) from None


@cache
def _entry_points(kind: str) -> "EntryPoints":
    from importlib.metadata import entry_points

    return entry_points(group=f"edge_tvbo.{kind}")
