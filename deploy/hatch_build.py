"""Build hook: puts the compiled kernels into a wheel for one kind of machine.

    python -m edge_tvbo.numerics.compile build/kernels
    EDGE_TVBO_KERNELS=build/kernels python -m hatchling build -t wheel

`make wheel` runs both commands. Such a wheel requires neither numba, which compiles kernels, nor
scipy, which only `fit` and a few policies use; its extra `science` installs both. The library's
file name contains the Python version and the architecture. The library calls functions of glibc.
The versions of these functions determine on which systems the library runs.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "edge_tvbo/numerics"
NAME = re.compile(r"_compiled\.cpython-(?P<python>3\d+)-(?P<machine>\w+)-linux-gnu\.so")
NOT_ON_A_GATEWAY = ("numba", "scipy")
MIN_GLIBC = 17  # 2.17 is the oldest glibc that has a wheel tag


class Kernels(BuildHookInterface[Any]):
    """Hook that adds the kernel library to the wheel if EDGE_TVBO_KERNELS names its directory."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library and the platform tag; remove the requirements that the library replaces.

        Raises `ValueError` unless the directory contains exactly one library.
        """
        chosen = os.environ.get("EDGE_TVBO_KERNELS", "")
        if version == "editable" or chosen in ("", "jit"):
            return
        libraries = list(Path(self.root, chosen).glob("_compiled.*.so"))
        if len(libraries) != 1:
            raise ValueError(
                f"EDGE_TVBO_KERNELS is {chosen}, with {len(libraries)} kernel libraries instead of "
                f"one; unset it, or run  python -m edge_tvbo.numerics.compile {chosen}"
            )
        (library,) = libraries
        build_data["pure_python"] = False
        build_data["tag"] = tag(library)
        build_data["force_include"][str(library)] = f"{PACKAGE}/{library.name}"
        required = self.metadata.core.dependencies
        required[:] = [each for each in required if not each.startswith(NOT_ON_A_GATEWAY)]


def tag(library: Path) -> str:
    """Return the tag of a wheel with a kernel library, such as cp311-cp311-manylinux_2_29_x86_64.

    Raises `ValueError` for an unknown file name.
    """
    kind = NAME.fullmatch(library.name)
    if kind is None:
        raise ValueError(f"{library} is not a Linux library made by edge_tvbo.numerics.compile")
    needed = re.findall(rb"GLIBC_2\.(\d+)", library.read_bytes())
    glibc = max([MIN_GLIBC, *map(int, needed)])
    python = f"cp{kind['python']}"
    return f"{python}-{python}-manylinux_2_{glibc}_{kind['machine']}"
