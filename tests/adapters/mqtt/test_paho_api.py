"""paho-mqtt is used through its public API only, so that any 2.x release may be installed."""

import ast

import pytest
from support.paths import ROOT

NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}  # public, in spite of their names
SOURCES = sorted([*(ROOT / "adapters").rglob("*.py"), *(ROOT / "edge_tvbo").rglob("*.py")])


def paho_names(tree):
    """Return the names that a module imports from paho, and the private ones among them."""
    imports = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "paho"
    ]
    names = {(each.asname or each.name) for node in imports for each in node.names}
    private = [node.module for node in imports if "._" in node.module]
    private += [each.name for node in imports for each in node.names if each.name.startswith("_")]
    return names, private


def violations(source):
    """Return the uses of private names of paho in a module's source."""
    tree = ast.parse(source)
    names, found = paho_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, bases=bases) if any(
                isinstance(base, ast.Name) and base.id in names for base in bases
            ):
                found.append(f"class {name} derives from paho")
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=attr) if attr in NAMED_TUPLE or attr.endswith("__"):
                pass
            case ast.Attribute(attr=attr) if attr.startswith("_"):
                found.append(f"{ast.unparse(node)} in line {node.lineno}")
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name))]) if name in names:
                found.append(f"{ast.unparse(node.targets[0])} is replaced")
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "delattr"),
                args=[_, ast.Constant(value=str() as attr), *_],
            ) if attr.startswith("_"):
                found.append(ast.unparse(node))
    return found


def test_no_private_attribute_of_paho_is_used():
    users = {path: path.read_text() for path in SOURCES if "paho" in path.read_text()}
    assert len(users) > 3
    found = {str(path): lines for path, text in users.items() if (lines := violations(text))}
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "from paho.mqtt.client import Client\nclass Mine(Client): pass",
        "from paho.mqtt.client import Client\nClient.connect = None",
        "from paho.mqtt.client import Client\nClient()._sock_recv(1)",
        "from paho.mqtt.client import Client\nclient = Client()\nclient._out_packet.clear()",
        "from paho.mqtt.client import Client\ngetattr(Client(), '_sock')",
        "from paho.mqtt import _packet",
        "from paho.mqtt._packet import decode_publish",
    ],
)
def test_each_use_of_a_private_name_of_paho_is_found(source):
    assert violations(source)
