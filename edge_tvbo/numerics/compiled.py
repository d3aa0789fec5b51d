"""The kernels compiled ahead of time: which they are, and the library that holds them, if any.

A library fits one Python on one architecture, and one source: it is left alone when a kernel's
file has changed since, so that an edit is never silently without effect.
"""

from collections.abc import Callable
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "_compiled"
MODULES = (  # what a gateway runs
    "acquisition",
    "low_rank",
    "model_bank",
    "state_space",
    "two_component",
    "weighted",
    "window",
)


def load(directory: Path) -> ModuleType | None:
    """Give the library there that was built from this very source for this very Python, or None."""
    spec = spec_from_file_location(NAME, directory / f"{NAME}{EXTENSION_SUFFIXES[0]}")
    assert spec is not None and spec.loader is not None  # the suffix is of a kind Python knows
    try:
        found = module_from_spec(spec)
    except ImportError:
        return None
    spec.loader.exec_module(found)
    return found if found.fingerprint() == fingerprint() else None


def fingerprint() -> int:
    """Give 62 bits of a digest of the kernels' source files."""
    digest = sha256()
    for name in MODULES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 2


def symbol(function: Callable[..., Any]) -> str:
    """Give what a kernel is called in the library.

    >>> from edge_tvbo.numerics.state_space import condition
    >>> symbol(getattr(condition, "py_func", condition))
    'state_space__condition'
    """
    return f"{function.__module__.rpartition('.')[2]}__{function.__name__}"
