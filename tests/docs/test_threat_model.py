"""The threat model: each guarantee has a test, and each test that the page names exists."""

import re

from support.pages import sections
from support.paths import DOCS, ROOT

PAGE = (DOCS / "threat-model.md").read_text("utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
GUARANTEES = sections(PAGE, 2)["What is guaranteed"]


def test_each_named_test_exists():
    named = NAMED.findall(PAGE)
    assert len(named) > 50
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), name


def test_each_guarantee_names_its_test():
    rows = re.findall(r"^\| .*\|$", GUARANTEES, re.MULTILINE)
    rows = [each for each in rows if not each.startswith(("| ---", "| attacker or", "| fault |"))]
    assert len(rows) > 30
    assert not [each for each in rows if not NAMED.search(each)]
