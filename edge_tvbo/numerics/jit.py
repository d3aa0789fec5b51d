"""How kernels are compiled: from one source, ahead of time where that was done, else at import.

A kernel is a plain function of arrays and scalars. Explicit signatures compile it at import, so
nothing compiles while readings arrive; they also let `build` compile the kernels of a gateway
into one library, which is loaded without numba and its 120 MiB. The two give the same numbers to
the last bit: the same LLVM makes both, and neither may reorder arithmetic.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.numerics import compiled as library

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Array3 = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

_choice = os.environ.get("EDGE_TVBO_KERNELS", "")  # "jit", or the folder of a library
_compiled = None if _choice == "jit" else library.load(Path(_choice or Path(__file__).parent))
KIND = "ahead of time" if _compiled else "just in time"  # how a gateway's kernels are compiled

if _compiled:
    int64: Any = int  # never called: the kernels that name them are in the library
    uint64: Any = int
else:
    from numba import int64, uint64  # noqa: F401 - for the kernels

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

uncached: list[str] = []  # kernels that every start compiles anew
compiling: list[float] = []  # s that each kernel took which no cache held


def kernel(signature: str) -> Callable[[Kernel], Kernel]:
    """Give a decorator that compiles a function for `signature`, or finds it compiled."""

    def compile_now(function: Kernel) -> Kernel:
        found = getattr(_compiled, library.symbol(function), None)
        return found if found is not None else just_in_time(signature, function)

    return compile_now


def just_in_time(signature: str, function: Kernel) -> Kernel:
    """Compile a function, cached on disk where that works.

    numba refuses to compile with a cache when neither the package's folder nor the user's cache
    folder can be written; such a machine compiles at each start instead, `uncached` says what.
    ``error_model="numpy"`` makes a division by zero a value the caller sees. Fast-math stays off:
    NaN keeps its meaning.
    """
    import numba

    njit: Any = numba.njit  # its own annotations lose the signature of what it compiles
    try:
        compiled: Kernel = njit(signature, cache=True, error_model="numpy")(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        uncached.append(function.__name__)
        compiled = njit(signature, error_model="numpy")(function)
    if hasattr(compiled, "get_metadata"):  # not so with NUMBA_DISABLE_JIT
        found = compiled.get_metadata().values()  # None for what a cache held
        compiling.extend(each["timers"]["compiler_lock"] for each in found if each)
    return compiled
