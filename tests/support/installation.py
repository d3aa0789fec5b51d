"""An installation made by the commands of the README, and environments on top of it.

The README's commands are run once for all processes of the tests. Each page then gets an
environment of its own, in which nothing is installed but what the README installs. A page that
needs more has to install it.

pip finds the dependencies already installed: they are links to the packages of the tests. What is
no dependency, pip would install from its index. tests/deploy/test_install.py lets pip install all
dependencies from wheels of its index.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from importlib.util import cache_from_source
from pathlib import Path

import pip
from packaging.requirements import Requirement
from support.once import once
from support.paths import ROOT

SOURCES = ("edge_tvbo", "adapters", "deploy", "pyproject.toml", "README.md", "LICENSE")
TIMEOUT_S = 600


def install_commands():
    """Return the lines of the README that install edge_tvbo."""
    text = (ROOT / "README.md").read_text("utf-8")
    return re.search(r"^    python3 -m venv .*\n    \. .*$", text, re.MULTILINE)[0]


def install(shared):
    """Install edge_tvbo in the directory `shared`, unless another process did; return its `bin`."""
    checkout = shared / "checkout"
    with once(shared) as is_missing:
        if is_missing:
            for each in SOURCES:
                _copy(ROOT / each, checkout / each)
            make_environment, rest = install_commands().split(" && ", 1)
            called("bash", "-ec", make_environment, cwd=checkout)
            add_dependencies(checkout / "venv" / "bin")
            called("bash", "-ec", rest, cwd=checkout)
            add_bytecode(checkout / "venv" / "bin")
            add_compiled_kernels(checkout / "venv" / "bin")
            called("venv/bin/edge-tvbo", "precompile", cwd=checkout)  # those that were missing
    return checkout / "venv" / "bin"


def environment_on(base, directory):
    """Return the `bin` of a new environment that has the packages of the environment `base`."""
    venv.create(directory, symlinks=True)
    _add_path(directory / "bin", base)
    _add_program(directory / "bin", "edge-tvbo", "edge_tvbo")
    _add_program(directory / "bin", "pip", "pip")
    return directory / "bin"


def environment_with_pip(directory):
    """Return the `bin` of a new environment that has a copy of the pip of the tests.

    The copy includes the bytecode, which takes three seconds to compile.
    """
    venv.create(directory)
    for each in Path(pip.__file__).parents[1].glob("pip*"):
        if each.name == "pip" or each.match("pip-*.dist-info"):
            shutil.copytree(each, _packages(directory / "bin") / each.name)
    _add_program(directory / "bin", "pip", "pip")
    return directory / "bin"


def install_extra(line, base, environment):
    """Run a line `pip install`, unless another page did, and add to `environment` what it installs.

    The line is run in an environment of its own on top of `base`, in which the dependencies of the
    named extra are installed.
    """
    shared = base.parents[2] / re.sub(r"\W+", "-", line).strip("-")
    with once(shared) as is_missing:
        if is_missing:
            own = environment_on(base, shared / "environment")
            add_dependencies(own, re.search(r"\[(\w+)\]", line)[1])
            called("bash", "-ec", line, cwd=shared, places=[own])
            add_bytecode(own)
    _add_path(environment, shared / "environment" / "bin")


def add_dependencies(bin_directory, extra=None):
    """Link what edge_tvbo, or one of its extras, depends on into an environment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = project["optional-dependencies"][extra] if extra else project["dependencies"]
    found = {}
    for each in named:
        _find_files(Requirement(each), found)
    for name, path in found.items():
        (_packages(bin_directory) / name).symlink_to(path)


def variables(*places):
    """Return the environment variables of a user whose PATH begins with `places`.

    pip does not compile all modules to bytecode: `add_bytecode` copies what pip would compile.
    """
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "NUMBA_CACHE_DIR")
    own = {name: value for name, value in os.environ.items() if name not in ours}
    path = [*map(str, places), str(Path(sys.base_prefix) / "bin"), os.environ["PATH"], "/usr/sbin"]
    threads = {"OPENBLAS_NUM_THREADS": "1"}
    return own | threads | {"PATH": os.pathsep.join(path), "PIP_COMPILE": "0"}


def called(*command, cwd, places=()):
    """Run a command, and return what it prints; the command has to succeed."""
    done = subprocess.run(
        command, cwd=cwd, env=variables(*places), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _add_program(bin_directory, name, module):
    """Add a program that runs a module with the Python of an environment."""
    script = bin_directory / name
    script.write_text(f'#!/bin/sh\nexec {bin_directory / "python"} -m {module} "$@"\n')
    script.chmod(0o755)


def _find_files(requirement, found):
    """Add the top-level files of a requirement, and of what it requires, to `found`."""
    installed = distribution(requirement.name)
    # otherwise pip would write another version through the link
    assert requirement.specifier.contains(installed.version, prereleases=True), requirement
    names = {each.parts[0] for each in installed.files} - {"..", "__pycache__"}
    if names <= found.keys():
        return
    found.update({each: installed.locate_file(each) for each in names})
    for each in map(Requirement, installed.requires or ()):
        extras = requirement.extras or {""}
        if not each.marker or any(each.marker.evaluate({"extra": extra}) for extra in extras):
            _find_files(each, found)


def _packages(bin_directory):
    """Return the directory of the packages of an environment."""
    return next(bin_directory.parent.glob("lib/python3*/site-packages"))


def _add_path(environment, other):
    """Add the packages of the environment `other` to those of `environment`."""
    path = _packages(environment) / f"{other.parents[1].name}.pth"
    path.write_text(f"{_packages(other)}\n")


def add_bytecode(bin_directory):
    """Copy bytecode from the environment of the tests, where a module's source file is the same.

    Python uses bytecode only if the source file has the same size and time.
    """
    packages = _packages(bin_directory)
    places = (Path(pip.__file__).parents[1], ROOT, ROOT / "adapters")
    for installed in packages.rglob("*.py"):
        name = installed.relative_to(packages)
        if "tests" in name.parts:
            continue
        for module in (place / name for place in places):
            bytecode, target = (Path(cache_from_source(each)) for each in (module, installed))
            if bytecode.exists() and module.read_bytes() == installed.read_bytes():
                shutil.copystat(module, installed)
                target.parent.mkdir(exist_ok=True)
                shutil.copy(bytecode, target)
                break


def add_compiled_kernels(bin_directory):
    """Copy numba's cache from this checkout, where a kernel's source file is the same.

    numba uses what it compiled only if the source file has the same size and time. Return the
    copied files.
    """
    source, packages, copied = ROOT / "edge_tvbo", _packages(bin_directory), []
    for index in sorted(source.rglob("__pycache__/*.nbi")):
        module = index.parents[1] / f"{index.name.partition('.')[0]}.py"
        installed = packages / module.relative_to(ROOT)
        if not (module.exists() and installed.exists()):
            continue
        if module.read_bytes() != installed.read_bytes():
            continue
        shutil.copystat(module, installed)
        target = installed.parent / "__pycache__"
        target.mkdir(exist_ok=True)
        for each in (index, *index.parent.glob(f"{index.stem}.*.nbc")):
            copied.append(Path(shutil.copy(each, target)))
    return copied
