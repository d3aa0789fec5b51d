"""What is registered is found in two ways, which are to agree."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from edge_tvbo import plugins
from edge_tvbo.errors import ConfigError

REGISTERED = [
    (group.removeprefix("edge_tvbo."), entry)
    for group in sorted(entry_points().groups)
    if group.startswith("edge_tvbo.")
    for entry in entry_points(group=group)
]


def test_what_we_register_is_read_as_python_reads_it():
    assert plugins._ours() == {(kind, entry.name): entry.value for kind, entry in REGISTERED}
    assert set(plugins.names("payloads")) >= {"json", "zigbee2mqtt"}


@pytest.mark.parametrize(("kind", "entry"), REGISTERED)
def test_it_is_the_same_object_however_it_is_found(kind, entry, monkeypatch):
    try:
        found = plugins.load(kind, entry.name)
    except ImportError:
        pytest.skip(f"{entry.value} wants an extra")
    monkeypatch.setattr(plugins, "_ours", dict)
    assert plugins.load(kind, entry.name) is found
    assert entry.name in plugins.names(kind)


def test_what_nobody_registered_is_named_with_what_it_may_have_been():
    assert "jsonn" not in plugins.names("payloads")
    with pytest.raises(ConfigError, match="Did you mean 'json'"):
        plugins.load("payloads", "jsonn")


def test_one_of_ours_is_found_without_a_look_at_all_packages():
    code = "import sys; from edge_tvbo import plugins; plugins.load('payloads', 'json');"
    code += "assert 'json' in plugins.names('payloads');"
    code += "sys.exit('importlib.metadata' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
