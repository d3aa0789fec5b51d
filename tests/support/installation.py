"""An installation made by the commands of the README, and environments on top of it.

The README's commands are run once for all processes of the tests. Each page then gets an
environment of its own, in which nothing is installed but what the README installs. A page that
needs more has to install it.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from support.paths import ROOT

SOURCES = ("edge_tvbo", "adapters", "deploy", "pyproject.toml", "README.md", "LICENSE")
TIMEOUT_S = 600


def install_commands():
    """Return the lines of the README that install edge_tvbo."""
    text = (ROOT / "README.md").read_text("utf-8")
    return re.search(r"^    python3 -m venv .*\n    \. .*$", text, re.MULTILINE)[0]


def install(shared):
    """Install edge_tvbo in the directory `shared`, unless another process did; return its `bin`."""
    checkout, done = shared / "checkout", shared / "installed"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for each in SOURCES:
                _copy(ROOT / each, checkout / each)
            called("bash", "-ec", f"{install_commands()}\nedge-tvbo precompile", cwd=checkout)
            done.touch()
    return checkout / "venv" / "bin"


def environment_on(base, directory):
    """Return the `bin` of a new environment that has the packages of the environment `base`."""
    venv.create(directory, symlinks=True)
    packages = next(base.parent.glob("lib/python3*/site-packages"))
    own = directory / packages.relative_to(base.parent)
    (own / "base.pth").write_text(f"{packages}\n")
    python = directory / "bin" / "python"
    for name, module in {"edge-tvbo": "edge_tvbo", "pip": "pip"}.items():
        script = directory / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {python} -m {module} "$@"\n')
        script.chmod(0o755)
    return directory / "bin"


def variables(*places):
    """Return the environment variables of a user whose PATH begins with `places`.

    pip does not compile all modules to bytecode; Python compiles those that it imports.
    """
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "NUMBA_CACHE_DIR")
    own = {name: value for name, value in os.environ.items() if name not in ours}
    path = [*map(str, places), str(Path(sys.base_prefix) / "bin"), os.environ["PATH"], "/usr/sbin"]
    threads = {"OPENBLAS_NUM_THREADS": "1"}
    return own | threads | {"PATH": os.pathsep.join(path), "PIP_COMPILE": "0"}


def called(*command, cwd):
    """Run a command, and return what it prints; the command has to succeed."""
    done = subprocess.run(
        command, cwd=cwd, env=variables(), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
