"""Loader of the library of kernels that were compiled ahead of time.

A library matches one Python version, one architecture and one version of the source files. The
library is not used if the source file of a kernel has changed since the library was built: its
kernels would be out of date.
"""

from collections.abc import Callable
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARY_NAME = "_compiled"
MODULES = (  # modules with the kernels that a gateway runs
    "acquisition",
    "change_point",
    "low_rank",
    "low_rank_structural",
    "model_bank",
    "optimal_design",
    "state_space",
    "structural",
    "two_component",
    "weighted",
    "window",
)


def load_library(directory: Path) -> ModuleType | None:
    """Return the compiled kernels in `directory`, or None if they are missing or out of date."""
    path = directory / f"{LIBRARY_NAME}{EXTENSION_SUFFIXES[0]}"
    spec = spec_from_file_location(LIBRARY_NAME, path)
    assert spec is not None and spec.loader is not None  # Python can import a file with this suffix
    try:
        library = module_from_spec(spec)
    except ImportError:
        return None
    spec.loader.exec_module(library)
    return library if library.fingerprint() == source_fingerprint() else None


def source_fingerprint() -> int:
    """Return 62 bits of a digest of the kernels' source files; a library contains these bits."""
    digest = sha256()
    for name in MODULES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 2


def symbol_name(function: Callable[..., Any]) -> str:
    """Return the name by which a kernel is loaded from the library of compiled kernels.

    >>> from edge_tvbo.numerics.state_space import condition
    >>> symbol_name(getattr(condition, "py_func", condition))
    'state_space__condition'
    """
    return f"{function.__module__.rpartition('.')[2]}__{function.__name__}"
