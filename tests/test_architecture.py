"""Imports: the modules of edge_tvbo that adapters may use; calls: what the core may not call."""

import ast
import tomllib

import pytest
from support.paths import ROOT

ADAPTERS = ROOT / "adapters" / "edge_tvbo_adapters"
OPEN = ("edge_tvbo.errors", "edge_tvbo.messages", "edge_tvbo.plugins")  # whole
SETTINGS = {  # leaf structs of the configuration
    "edge_tvbo.config.field_settings": ("FieldSettings",),
    "edge_tvbo.config.field_types": ("is_address", "is_loopback"),
    "edge_tvbo.config.mqtt_settings": ("Mqtt", "Tls"),
    "edge_tvbo.config.settings": ("HomeAssistant", "Metrics"),
    "edge_tvbo.config.time_zones": ("load_timezone",),
}
EXCEPTIONS = {  # by the folder that may import it
    # A dataset is what `DataSource` loads: the protocol that its consumer declares.
    ("datasets", "edge_tvbo.simulation.dataset_lookup"): ("Dataset",),
    # A recording is what a dataset returns and what virtual sensors play back: data, no logic.
    ("datasets", "edge_tvbo.simulation.recording"): (
        "Recording",
        "USUAL_INTERVALS",
        "check_sensor_names",
    ),
    ("simulation", "edge_tvbo.simulation.recording"): ("Recording",),
}
FILES = sorted(ADAPTERS.rglob("*.py"))


def imports(tree):
    """Yield ``(module, name)`` of every import of edge_tvbo, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [(each.name, "*") for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found = [(node.module, each.name) for each in node.names]
        else:
            continue
        yield from (each for each in found if each[0].split(".")[0] == "edge_tvbo")


def is_allowed(folder, module, name):
    if any(module == each or module.startswith(f"{each}.") for each in OPEN):
        return True
    return name in SETTINGS.get(module, EXCEPTIONS.get((folder, module), ()))


def violations(folder, source):
    return [
        f"{module}: {name}"
        for module, name in imports(ast.parse(source))
        if not is_allowed(folder, module, name)
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda each: str(each.relative_to(ADAPTERS)))
def test_an_adapter_imports_only_what_is_on_the_whitelist(file):
    assert violations(file.relative_to(ADAPTERS).parts[0], file.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "import edge_tvbo",
        "from edge_tvbo import messages",
        "from edge_tvbo.config.loader import load",
        "from edge_tvbo.config.settings import Settings",
        "def late():\n    from edge_tvbo.daemon.loop import Link",
        "from edge_tvbo.simulation.recording import Recording",
    ],
)
def test_an_import_beyond_the_whitelist_is_found(line):
    assert len(violations("mqtt", line)) == 1


def test_no_entry_of_the_whitelist_is_unused():
    used = {
        (file.relative_to(ADAPTERS).parts[0], module, name)
        for file in FILES
        for module, name in imports(ast.parse(file.read_text("utf-8")))
    }
    names = {(module, name) for _, module, name in used}
    assert [
        (module, name)
        for module, allowed in SETTINGS.items()
        for name in allowed
        if (module, name) not in names
    ] == []
    assert [
        (*place, name)
        for place, allowed in EXCEPTIONS.items()
        for name in allowed
        if (*place, name) not in used
    ] == []


def test_the_contract_of_the_adapters_forbids_every_package_that_is_not_on_the_whitelist():
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    (contract,) = [
        each for each in contracts if each.get("source_modules") == ["edge_tvbo_adapters"]
    ]
    packages = {
        f"edge_tvbo.{each.parent.name}" for each in (ROOT / "edge_tvbo").glob("*/__init__.py")
    }
    allowed = {"edge_tvbo.config", "edge_tvbo.messages"}
    assert set(contract["forbidden_modules"]) == packages - allowed


# --- the core -----------------------------------------------------------------------------------

CORE = [
    path
    for package in ("control", "policy", "models", "messages")
    for path in sorted((ROOT / "edge_tvbo" / package).rglob("*.py"))
]


def impure_calls(source):
    """Return the calls that read a file, the clock or the machine's time zone.

    A contract in pyproject.toml forbids the modules with which a file or the time could be read,
    but not the builtin `open`, and not `datetime`.
    """
    calls = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)]
    return [ast.unparse(each) for each in calls if is_impure(each)]


def is_impure(call):
    match call.func:
        case ast.Name(id="open") | ast.Attribute(attr="now" | "utcnow" | "today"):
            return True
        case ast.Attribute(attr="fromtimestamp"):
            zones = [*call.args[1:], *(each.value for each in call.keywords)]
            return not zones or any(map(is_none, zones))
        case ast.Attribute(attr="astimezone"):
            return not call.args and not call.keywords
        case _:
            return False


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


@pytest.mark.parametrize("file", CORE, ids=lambda each: str(each.relative_to(ROOT / "edge_tvbo")))
def test_the_core_reads_no_file_no_clock_and_no_time_zone_of_the_machine(file):
    assert impure_calls(file.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("open('state')", 1),
        ("datetime.now(UTC)", 1),
        ("date.today()", 1),
        ("datetime.fromtimestamp(at)", 1),
        ("datetime.fromtimestamp(at, None)", 1),
        ("datetime.fromtimestamp(at, UTC)", 0),
        ("datetime.fromtimestamp(at, tz=zone)", 0),
    ],
)
def test_an_impure_call_is_found(line, count):
    assert len(impure_calls(line)) == count
