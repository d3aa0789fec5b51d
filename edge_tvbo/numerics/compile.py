"""Ahead-of-time compiler of the kernels: ``python -m edge_tvbo.numerics.compile [DIRECTORY]``.

Building the library takes numba, setuptools and a C compiler for the link step; a machine that only
loads it needs none of them. numba has deprecated `pycc` without naming a successor, so nothing
depends on the library: without a matching one, the same kernels are compiled at import.
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

CPU = "generic"  # of the architecture, so that one wheel runs on every machine of it


def build_library(directory: Path, cpu: str = CPU) -> Path:
    """Compile every exported kernel into a library in `directory`, and return its path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pycc's deprecation
        from numba import pycc
    CC: Any = vars(pycc)["CC"]  # which has no types
    compiler = CC(compiled.LIBRARY_NAME, source_module=__name__)
    compiler.output_dir = str(directory)
    compiler.target_cpu = cpu
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
    """Return a function that only calls `kernel`: pycc would drop the kernel's own options."""
    names = ", ".join(signature(kernel.py_func).parameters)
    scope: dict[str, Any] = {"kernel": kernel}
    exec(f"def calling({names}): return kernel({names})", scope)
    return cast("Callable[..., Any]", scope["calling"])


if __name__ == "__main__":
    os.environ["EDGE_TVBO_KERNELS"] = "jit"  # the kernels themselves, not a library of them
    os.environ["NUMBA_DISABLE_JIT"] = "0"  # which would leave nothing to export
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    print(build_library(target))
