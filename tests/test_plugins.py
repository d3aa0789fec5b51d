"""Plugins: built-in names come first, those of installed packages after them."""

import subprocess
import sys

import pytest
from edge_tvbo_adapters.payloads import FORMATS, all_presets, make_codec, preset_of

from edge_tvbo import plugins
from edge_tvbo.errors import ConfigError
from edge_tvbo.plugins import Registry


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package with one payload format, as pip would leave it."""
    package = tmp_path / "cellar_payload"
    package.mkdir()
    (package / "__init__.py").write_text(
        "def codec(settings):\n    return lambda payload: (float(payload) / 10, None)\n"
    )
    info = tmp_path / "cellar_payload-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cellar-payload\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[edge_tvbo.payloads]\ncellar = cellar_payload:codec\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins._entry_points.cache_clear()
    yield
    plugins._entry_points.cache_clear()


def test_an_installed_format_is_listed_and_loaded(installed):
    assert "cellar" in FORMATS
    assert {"cellar", "json"} <= set(FORMATS)
    assert make_codec("cellar", {})(b"213") == (21.3, None)
    assert preset_of("cellar") is None


def test_every_builtin_name_leads_to_an_object():
    assert all(callable(FORMATS.load(name)) for name in FORMATS)
    assert {"zigbee2mqtt", "tasmota"} <= set(all_presets()) < set(FORMATS)


def test_an_unknown_name_is_refused_with_a_suggestion():
    assert "jsonn" not in FORMATS
    with pytest.raises(ConfigError, match="Did you mean 'json'"):
        FORMATS.load("jsonn")


def test_a_builtin_name_shadows_an_installed_one(installed):
    assert Registry("payloads", {"cellar": "math:pi"}).load("cellar") == pytest.approx(
        3.14159, 1e-4
    )


def test_a_builtin_name_is_found_without_searching_all_packages():
    code = "import sys; from edge_tvbo_adapters.payloads import FORMATS; FORMATS.load('json');"
    code += "assert 'json' in FORMATS; sys.exit('importlib.metadata' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
