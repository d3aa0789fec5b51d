"""Imports: each module can be imported, but no test module is; shared code is in tests/support."""

import ast
import re
from importlib import import_module

from support.paths import ROOT, TESTS

MAY_IMPORT = re.compile(  # a statement on one line, with backslashes, or in parentheses
    r"\b(?:from|import)\b(?:[^\n(]|\\\n)*(?:\([^)]*)?\b(?:test_|conftest\b)"
)


def test_each_module_can_be_imported_without_a_warning():
    for root in (ROOT, ROOT / "adapters"):
        for path in sorted(root.glob("edge_tvbo*/**/*.py")):
            if path.name not in ("__init__.py", "__main__.py"):
                import_module(".".join(path.relative_to(root).with_suffix("").parts))


def test_no_test_module_is_imported():
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        if not MAY_IMPORT.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            for name in imported_modules(node):
                if any(part.startswith("test_") or part == "conftest" for part in name.split(".")):
                    found.append(f"{path.relative_to(TESTS)}:{node.lineno}: {name}")
    assert not found, "shared by tests, so it belongs in tests/support:\n" + "\n".join(found)


def imported_modules(node):
    """Return the modules that an import statement may import."""
    match node:
        case ast.Import(names):
            return [each.name for each in names]
        case ast.ImportFrom(module, names):
            return [f"{module}.{each.name}" for each in names]
    return []
