"""Locked requirements: every package has a version and hashes; paho of another version fails."""

import os
import re
import subprocess
import sys
import tomllib

import msgspec
import pytest
from edge_tvbo_adapters.mqtt import TESTED_PAHO
from packaging.requirements import Requirement
from support.gateway import CONFIG, DEFAULTS
from support.paths import ROOT

FILES = sorted((ROOT / "deploy" / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {"runtime": ["metrics", "dashboard"], "demo": ["broker"], "dev": ["dev"]}
PINNED = re.compile(r"^(\S+==\S+.*?) \\$", re.MULTILINE)


def declared(*extras):
    """Return the requirements of pyproject.toml, those of some extras among them."""
    lines = list(PROJECT["dependencies"])
    for each in extras:
        lines += PROJECT["optional-dependencies"][each]
    requirements = [Requirement(each) for each in lines]
    nested = [x for each in requirements if each.name == PROJECT["name"] for x in each.extras]
    found = [each for each in requirements if each.name != PROJECT["name"]]
    return found + (declared(*nested) if nested else [])


def pins(path):
    """Return the pinned versions of each package of a file; they may differ between Pythons."""
    found = {}
    for line in PINNED.findall(path.read_text()):
        pinned = Requirement(line)
        (version,) = pinned.specifier
        found.setdefault(pinned.name, []).append(version.version)
    return found


@pytest.mark.parametrize("name", EXTRAS)
def test_every_declared_package_is_locked_in_an_allowed_version(name):
    found = pins(ROOT / "deploy" / "requirements" / f"{name}.txt")
    for each in declared(*EXTRAS[name]):
        versions = found[each.name.lower().replace("_", "-")]
        assert all(each.specifier.contains(version) for version in versions), each


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_locked_package_has_hashes_and_no_address(path):
    text = path.read_text()
    assert "://" not in text
    blocks = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    assert len(blocks) > 10
    assert all("--hash=sha256:" in each for each in blocks)


def test_all_allowed_versions_of_msgspec_raise_value_errors():
    """In 0.19 and 0.20, an invalid setting or payload raises an `Exception` that is not caught."""
    (declared_msgspec,) = (each for each in declared() if each.name == "msgspec")
    assert not any(declared_msgspec.specifier.contains(each) for each in ("0.19.0", "0.20.0"))
    assert issubclass(msgspec.DecodeError, ValueError)


def test_paho_of_another_version_is_refused_with_the_command_that_helps(tmp_path):
    assert f"paho-mqtt{TESTED_PAHO}" in PROJECT["dependencies"]
    package = tmp_path / "paho" / "mqtt"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text('__version__ = "1.6.1"')
    config = tmp_path / "edge.toml"
    options = DEFAULTS | {"name": "k", "port": 1, "dir": "", "interval": "1h"}
    config.write_text(CONFIG.format(**options))
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "edge_tvbo", "run", str(config)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 78, done.stderr  # after 2, systemd would restart it for ever
    assert (
        "paho-mqtt 1.6.1 is installed, but edge-tvbo needs paho-mqtt>=2.2,<3. [E501]" in done.stderr
    )
    assert "Traceback" not in done.stderr
