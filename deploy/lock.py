"""Lock the packages that `make` installs: deploy/requirements gets their versions and hashes.

    make lock

uv resolves the packages for every version of Python and every platform that edge-tvbo supports. The
files contain no address of a package index, so that they work with a mirror.
"""

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parent.parent
TARGET = TOP / "deploy" / "requirements"
EXTRAS = {"runtime": ["metrics", "dashboard"], "demo": ["broker"], "dev": ["dev"]}
UV = os.environ.get("UV", f"{sys.executable} -m uv").split()
BUILD = "hatchling>=1.24\neditables>=0.3\n"  # installed first, because `make` isolates no build
OPTIONS = [
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--upgrade",
    "--quiet",
]


def lock(name: str, *sources: str, requirements: str = "") -> None:
    """Write the file `name`, which has the versions and hashes of all needed packages.

    `sources` (a file and options of uv) and `requirements` (lines) say which packages are needed.
    """
    command = [*UV, "pip", "compile", *OPTIONS, *sources]
    target = ["-o", str(TARGET / f"{name}.txt"), "-"]
    subprocess.run([*command, *target], input=requirements, text=True, cwd=TOP, check=True)


def main() -> None:
    """Write every file of deploy/requirements."""
    for name, extras in EXTRAS.items():
        build = "" if name == "runtime" else BUILD
        lock(name, "pyproject.toml", *(f"--extra={each}" for each in extras), requirements=build)
    lock("sbom", requirements="cyclonedx-bom\n")


if __name__ == "__main__":
    main()
