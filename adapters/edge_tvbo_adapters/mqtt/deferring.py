"""Modules that are imported when somebody uses them, though others import them before."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def defer(name: str) -> None:
    """Have ``import name`` wait for the first look at what is in the module.

    (`importlib.util.LazyLoader` would not wait: the next ``import`` of the same name asks a module
    for its spec, which that takes for the first look.)
    """
    if name in sys.modules:
        return
    parent, _, child = name.rpartition(".")
    placeholder = sys.modules[name] = _Placeholder(name)
    setattr(import_module(parent), child, placeholder)


class _Placeholder(ModuleType):
    """Stands for a module until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system asks of any module
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)
