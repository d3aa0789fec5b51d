"""How kernels are compiled: once, ahead of their first call, from an explicit signature.

A kernel is a plain function of arrays and scalars. Explicit signatures compile it at import, so
nothing compiles while readings arrive, and leave ahead-of-time compilation open.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Array3 = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

njit: Any = numba.njit  # its own annotations lose the signature of what it compiles

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

uncached: list[str] = []  # kernels that every start compiles anew
compiling: list[float] = []  # s that each kernel took which no cache held


def kernel(signature: str) -> Callable[[Kernel], Kernel]:
    """Give a decorator that compiles a function for `signature`, cached on disk where that works.

    numba refuses to compile with a cache when neither the package's folder nor the user's cache
    folder can be written; such a machine compiles at each start instead, `uncached` says what.
    ``error_model="numpy"`` makes a division by zero a value the caller sees. Fast-math stays off:
    NaN keeps its meaning.
    """

    def compile_now(function: Kernel) -> Kernel:
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

    return compile_now
