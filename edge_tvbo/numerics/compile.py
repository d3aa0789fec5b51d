"""Ahead-of-time compiler of the kernels: ``python -m edge_tvbo.numerics.compile [DIRECTORY]``.

A machine that builds the library needs numba, setuptools, and a C compiler to link the library.
A machine that only loads the library needs none of these. numba has deprecated its ahead-of-time
compiler `pycc` and has not named a successor. The library is therefore optional: if no matching
library is found, the same kernels are compiled at import.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, cast

from edge_tvbo.numerics import compiled

CPU = "generic"  # instructions that all machines of the architecture have; one wheel fits all


def build_library(directory: Path) -> Path:
    """Compile every exported kernel into a library in `directory`, and return its path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pycc is deprecated
        from numba import pycc
    CC: Any = vars(pycc)["CC"]  # pycc has no type hints
    compiler = CC(compiled.LIBRARY_NAME, source_module=__name__)
    compiler.output_dir = str(directory)
    compiler.target_cpu = CPU
    for kernel in exported_kernels():
        (declared,) = kernel.nopython_signatures
        compiler.export(compiled.symbol_name(kernel.py_func), declared)(_call_of(kernel))
    number = compiled.source_fingerprint()
    compiler.export("fingerprint", "i8()")(lambda: number)
    compiler.compile()
    return directory / str(compiler.output_file)


def exported_kernels() -> Iterator[Any]:
    """Yield each just-in-time compiled kernel of the modules that a gateway runs."""
    for name in compiled.MODULES:
        module = import_module(f"{__package__}.{name}")
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__ and hasattr(value, "py_func"):
                yield value


def _call_of(kernel: Any) -> Callable[..., Any]:
    """Return a function that calls `kernel`; pycc compiles this function instead of the kernel.

    If pycc compiled the kernel itself, pycc would ignore the options of the kernel.
    """
    names = ", ".join(signature(kernel.py_func).parameters)
    scope: dict[str, Any] = {"kernel": kernel}
    exec(f"def calling({names}): return kernel({names})", scope)
    return cast("Callable[..., Any]", scope["calling"])


if __name__ == "__main__":
    os.environ["EDGE_TVBO_KERNELS"] = "jit"  # compile the kernels; do not load a library
    os.environ["NUMBA_DISABLE_JIT"] = "0"  # without JIT there is nothing to export
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    print(build_library(target))
