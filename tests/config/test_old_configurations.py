"""Configurations of version 0.1.0 are valid; `tests/data/config-0.1.0/README.md` lists them."""

import json
import shutil

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from edge_tvbo.cli import main

FOLDER = ROOT / "tests" / "data" / "config-0.1.0"
WARNINGS = {  # the keys of the settings that `check` warns of
    "example.toml": [],
    "optional.toml": ["mqtt.visitor"],
    "sleepy.toml": ["fields.lab.kernel.length_scale"],  # round-robin has no model
    "energy.toml": [],
    "devices.toml": [],
}


def test_each_file_has_an_entry():
    assert {path.name for path in FOLDER.glob("*.toml")} == {*WARNINGS}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_configuration_of_the_first_version_is_valid(name, tmp_path):
    shutil.copy(FOLDER / name, tmp_path)
    for login in ("mqtt", "watcher"):
        (tmp_path / f"{login}.password").write_text("secret\n")

    done = CliRunner().invoke(main, ["check", "--json", str(tmp_path / name)])

    document = json.loads(done.stdout)
    assert document["ok"], document
    assert [each["key"] for each in document["warnings"]] == WARNINGS[name]
