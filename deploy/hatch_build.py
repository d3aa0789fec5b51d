"""Puts the kernels compiled ahead of time into a wheel, which then is for one kind of machine.

    python -m edge_tvbo.numerics.compile build/kernels
    EDGE_TVBO_KERNELS=build/kernels python -m hatchling build -t wheel

`make wheel` does both. The library's name says for which Python and which architecture it is, and
the versions of glibc's functions that it calls say on which systems it runs.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOM = "edge_tvbo/numerics"
NAME = re.compile(r"_compiled\.cpython-(?P<python>3\d+)-(?P<machine>\w+)-linux-gnu\.so")
OLDEST = 17  # glibc 2.17 is the first that there are wheels for


class Kernels(BuildHookInterface[Any]):
    """Makes a platform wheel where EDGE_TVBO_KERNELS names a folder with the library."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library, and what machine the wheel is for."""
        chosen = os.environ.get("EDGE_TVBO_KERNELS", "")
        if version == "editable" or chosen in ("", "jit"):
            return
        libraries = list(Path(self.root, chosen).glob("_compiled.*.so"))
        if len(libraries) != 1:
            raise ValueError(
                f"EDGE_TVBO_KERNELS is {chosen}, where {len(libraries)} libraries of kernels are, "
                f"and not one; unset it, or run  python -m edge_tvbo.numerics.compile {chosen}"
            )
        (library,) = libraries
        build_data["pure_python"] = False
        build_data["tag"] = tag(library)
        build_data["force_include"][str(library)] = f"{ROOM}/{library.name}"


def tag(library: Path) -> str:
    """Give the tag of a wheel that carries `library`; raises `ValueError` for one of no kind."""
    kind = NAME.fullmatch(library.name)
    if kind is None:
        raise ValueError(f"{library} is no library of edge_tvbo.numerics.compile for Linux")
    wanted = re.findall(rb"GLIBC_2\.(\d+)", library.read_bytes())
    glibc = max(OLDEST, *map(int, wanted), OLDEST)
    python = f"cp{kind['python']}"
    return f"{python}-{python}-manylinux_2_{glibc}_{kind['machine']}"
