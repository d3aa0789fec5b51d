"""Plugins: built-in names come first, those of installed packages after them."""

import subprocess
import sys

import pytest
from click.testing import CliRunner
from edge_tvbo_adapters import datasets
from edge_tvbo_adapters.payloads.formats import FORMATS, all_presets, make_codec, preset_of

from edge_tvbo import plugins
from edge_tvbo.cli import main
from edge_tvbo.errors import ConfigError, DataError
from edge_tvbo.plugins import Registry
from edge_tvbo.simulation.dataset_lookup import load_recording

PACKAGE = """
from edge_tvbo.errors import ConfigError

NUMBER = 3

class Empty:
    name, summary, url, fetch = "empty", "returns nothing", None, None
    def load(self, directories):
        return None

empty = Empty()

def codec(settings):
    if "wrong" in settings:
        raise ConfigError("'wrong' is wrong")
    return lambda payload: (float(payload) / 10 * settings.get("factor", 1), None)

def fail(settings):
    raise KeyError("cellar")
"""
ENTRY_POINTS = """
[edge_tvbo.payloads]
cellar = cellar_package:codec
failing = cellar_package:fail
missing = no_such_module:codec
number-3 = cellar_package:NUMBER
[edge_tvbo.datasets]
empty = cellar_package:empty
missing = no_such_module:dataset
number-3 = cellar_package:NUMBER
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package with payload formats and datasets, as pip would leave it."""
    (tmp_path / "cellar_package.py").write_text(PACKAGE)
    info = tmp_path / "cellar_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cellar-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
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


NOT_LOADED = "'missing' among the {} of installed packages cannot be loaded: ModuleNotFoundError: "


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("missing", {}, NOT_LOADED.format("payloads")),
        ("number-3", {}, "the payload format 'number-3' cannot be used: 3 is not a function."),
        ("failing", {}, "the payload format 'failing' cannot be used: KeyError: 'cellar'"),
        ("cellar", {"wrong": "x"}, "'wrong' is wrong"),
    ],
)
def test_a_faulty_payload_format_is_named(installed, name, settings, problem):
    with pytest.raises(ConfigError) as raised:
        make_codec(name, settings)
    assert str(raised.value).startswith(problem)
    is_named = "uninstall the package cellar-package" in str(raised.value)
    assert is_named == (name == "missing")


def test_faulty_payload_formats_do_not_hide_the_presets_of_others(installed, caplog):
    with_faulty, warnings = all_presets(), caplog.messages
    assert set(with_faulty) == {name for name in FORMATS.builtin if preset_of(name)}
    assert [text.partition(" cannot")[0] for text in warnings] == [
        "'missing' among the payloads of installed packages",
        "the payload format 'number-3'",
    ]


def test_a_faulty_dataset_is_named(installed):
    with pytest.raises(ConfigError, match=NOT_LOADED.format("datasets")):
        datasets.find("missing")
    with pytest.raises(ConfigError, match="'number-3' cannot be used: it has no `name`, `summary`"):
        datasets.find("number-3")
    with pytest.raises(DataError, match="'empty' .* returned NoneType instead of a `Recording`"):
        load_recording(datasets.find("empty"))


def test_faulty_datasets_do_not_hide_the_others(installed):
    listed = CliRunner().invoke(main, ["data", "list"])
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert (listed.exit_code, names) == (0, sorted([*datasets.DATASETS.builtin, "empty"]))


def test_a_builtin_name_is_found_without_searching_all_packages():
    code = (
        "import sys; from edge_tvbo_adapters.payloads.formats import FORMATS; FORMATS.load('json');"
    )
    code += "assert 'json' in FORMATS; sys.exit('importlib.metadata' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
