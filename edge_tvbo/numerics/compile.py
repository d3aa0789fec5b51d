"""Compiles a gateway's kernels ahead of time: ``python -m edge_tvbo.numerics.compile [DIRECTORY]``.

Wants numba, setuptools and a C compiler, which links; the gateway wants none of them. numba calls
`pycc` deprecated and has named no successor yet, so nothing depends on it: where the library is
missing or does not fit, the same functions are compiled at import.
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

CPU = "generic"  # of the architecture: a wheel runs on every machine of its kind


def build(directory: Path, cpu: str = CPU) -> Path:
    """Write the library into `directory`, and give its path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that pycc is deprecated
        from numba import pycc
    CC: Any = vars(pycc)["CC"]  # which has no types
    compiler = CC(compiled.NAME, source_module=__name__)
    compiler.output_dir = str(directory)
    compiler.target_cpu = cpu
    for kernel in kernels():
        (declared,) = kernel.nopython_signatures
        compiler.export(compiled.symbol(kernel.py_func), declared)(_calling(kernel))
    number = compiled.fingerprint()
    compiler.export("fingerprint", "i8()")(lambda: number)
    compiler.compile()
    return directory / str(compiler.output_file)


def kernels() -> Iterator[Any]:
    """Yield each kernel that a gateway runs, as numba compiled it just in time."""
    for name in compiled.MODULES:
        module = import_module(f"{__package__}.{name}")
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__ and hasattr(value, "py_func"):
                yield value


def _calling(kernel: Any) -> Callable[..., Any]:
    """Give a function that only calls `kernel`, which keeps its options: pycc knows none."""
    names = ", ".join(signature(kernel.py_func).parameters)
    scope: dict[str, Any] = {"kernel": kernel}
    exec(f"def calling({names}): return kernel({names})", scope)
    return cast("Callable[..., Any]", scope["calling"])


if __name__ == "__main__":
    os.environ["EDGE_TVBO_KERNELS"] = "jit"  # the kernels themselves, not a library of them
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    print(build(target))
