"""Kernel decorator: loads a kernel from a matching library, or compiles it at import.

A kernel is a plain function of arrays and scalars with an explicit numba signature. The signature
has two purposes:

- numba can compile the kernel at import, so that nothing is compiled while readings arrive.
- `compile` can put all kernels of a gateway into one library. The library loads without numba,
  which saves the 120 MiB of memory that numba needs.

A kernel from the library and the same kernel compiled at import return the same numbers to the last
bit: LLVM generates both, and is not allowed to reorder arithmetic.

With the environment variable ``NUMBA_DISABLE_JIT=1`` the kernels run as plain Python, for coverage
and debuggers, and no library is loaded.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from edge_tvbo.numerics import compiled as library

KernelFunction = TypeVar("KernelFunction", bound=Callable[..., Any])

_interpreted = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
_choice = os.environ.get("EDGE_TVBO_KERNELS", "")  # "jit", or the folder of a library
_compiled = (
    None
    if _interpreted or _choice == "jit"
    else library.load_library(Path(_choice or Path(__file__).parent))
)
COMPILATION = (  # how the kernels of this process were compiled
    "not compiled" if _interpreted else "ahead of time" if _compiled else "just in time"
)

if _compiled:
    int64: Any = int  # placeholders: the kernels that call int64 and uint64 are in the library
    uint64: Any = int
elif _interpreted:
    import numpy as np

    int64 = np.int64

    def uint64(value: int) -> np.uint64:
        """Return `value` modulo 2⁶⁴, which is how numba converts a negative number."""
        return np.uint64(int(value) % 2**64)
else:
    from numba import int64, uint64  # noqa: F401 - used by the kernels

uncached_kernels: list[str] = []  # names of the kernels that are compiled again at every start
compile_times_s: list[float] = []  # compile time of each kernel that was not in a cache


def kernel(signature: str) -> Callable[[KernelFunction], KernelFunction]:
    """Return a decorator that turns a function into a kernel with the numba `signature`.

    The kernel is loaded from the ahead-of-time library if there is one; otherwise it is compiled.
    """

    def decorate(function: KernelFunction) -> KernelFunction:
        if _interpreted:
            return _as_compiled(function)
        found = getattr(_compiled, library.symbol_name(function), None)
        return found if found is not None else _just_in_time(signature, function)

    return decorate


@contextmanager
def _ignored_ctrl_c_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the `with` block if Ctrl-C was ignored in the block.

    LLVM calls Python functions while it compiles, and Python ignores an exception in such a call:
    Ctrl-C would be lost, or would leave numba without a compiled kernel.
    """
    before, ignored = sys.unraisablehook, []

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            ignored.append(unraisable.exc_type)
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        if ignored:
            raise KeyboardInterrupt


def _just_in_time(signature: str, function: KernelFunction) -> KernelFunction:
    """Compile a kernel just in time, and cache it on disk if a cache folder is writable.

    The cache folder is in the package's folder or in the user's cache folder. If neither is
    writable, or the disk is full, the kernel is compiled at each start, and its name is added to
    `uncached_kernels`.
    With ``error_model="numpy"`` a division by zero returns inf or NaN and raises no error.
    Fast-math stays off, because fast-math would assume that no value is NaN.
    """
    import numba

    with _ignored_ctrl_c_raised():
        try:
            compiled: Any = numba.njit(signature, cache=True, error_model="numpy")(function)
        except (OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "no locator available" not in str(error):
                raise
            uncached_kernels.append(function.__name__)
            compiled = numba.njit(signature, error_model="numpy")(function)
    found = compiled.get_metadata().values()  # None if the kernel came from the cache
    compile_times_s.extend(each["timers"]["compiler_lock"] for each in found if each)
    return cast("KernelFunction", compiled)


def _as_compiled(function: KernelFunction) -> KernelFunction:
    """Return the kernel `function` as plain Python that behaves as if it were compiled.

    Overflow and division cause no warning, and a numpy scalar is returned as a Python number.
    """
    import numpy as np

    @wraps(function)
    def interpreted(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*arguments)
        return result.item() if isinstance(result, np.generic) else result

    return cast("KernelFunction", interpreted)
