"""References: every paper that a docstring or a page cites has a row in docs/references.md."""

import ast
import re
from calendar import month_name

import pytest
from support.paths import DOCS, ROOT

PAGES = [ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted(DOCS.glob("*.md"))]
MODULES = [
    path
    for folder in ("edge_tvbo", "adapters", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
ROWS = [line for line in (DOCS / "references.md").read_text("utf-8").splitlines() if "|" in line]

NAME = "[A-Z][a-zà-ž]+(?:-[A-Z][a-zà-ž]+)?"
TITLE = r", \*[^*]+\*"
VENUE = "(?:[A-Z]{3,} )?"
AUTHORS = rf"{NAME}(?:, (?:von )?{NAME})*(?: (?:&|and) {NAME}| et al\.)(?:{TITLE})?,? \(?{VENUE}"
ONE = rf"{NAME}(?:{TITLE}, {VENUE}| )"
CITATION = re.compile(rf"\b({AUTHORS}|{ONE})((?:19|20)\d\d)\b(?![.-]\d)")
PREPRINT = re.compile(r"\barXiv (\d{4}\.\d{5})\b")
# Words with a capital letter that may precede a year or a number from 1900 to 2099.
NO_NAMES = {*month_name, "About", "After", "Before", "From", "In", "Of", "Since", "Until", "With"}


def citations(text):
    """Return (surnames, year) of each citation such as "Hong, Li & Tewari 2023" in `text`."""
    found = []
    for authors, year in CITATION.findall(" ".join(text.split())):
        names = re.findall(NAME, re.sub(r"\*[^*]+\*", "", authors))
        if not NO_NAMES.intersection(names):
            found.append((tuple(names), year))
    return found


def docstrings(path):
    """Yield the docstrings of a module."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, kinds):
            yield ast.get_docstring(node) or ""


def texts():
    """Yield (path, text) of each page and of each docstring."""
    for path in PAGES:
        yield path, path.read_text("utf-8")
    for path in MODULES:
        for text in docstrings(path):
            yield path, text


def has_row(names, year):
    """Return whether a row of references.md contains the surnames and the year."""
    words = [rf"\b{each}\b" for each in (*names, year)]
    return any(all(re.search(word, row) for word in words) for row in ROWS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a CUSUM (Page 1954): for each", [(("Page",), "1954")]),
        ("after Deng et al. 2022, and", [(("Deng",), "2022")]),
        ("(Raftery, Kárný &\n    Ettler 2010).", [(("Raftery", "Kárný", "Ettler"), "2010")]),
        ("Gneiting and Raftery 2007;", [(("Gneiting", "Raftery"), "2007")]),
        ("(Iwazaki & Takeno, AISTATS 2025, x)", [(("Iwazaki", "Takeno"), "2025")]),
        ("Huang & Veeravalli (AISTATS 2025)", [(("Huang", "Veeravalli"), "2025")]),
        ("Quiñonero-Candela &\nRasmussen 2005", [(("Quiñonero-Candela", "Rasmussen"), "2005")]),
        ("Kim, von Rohr & Trimpe, *On\nX*, CDC 2022", [(("Kim", "Rohr", "Trimpe"), "2022")]),
        ("Michalewicz, *Genetic Algorithms*, 1992.", [(("Michalewicz",), "1992")]),
    ],
)
def test_citations_are_found_in_a_text(text, found):
    assert citations(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "recorded in March 2004, and on 23 November 2026",
        "PM10 2004, wind 1964 and METR-LA",
        "Intel Berkeley Research Lab, 2004: temperature",
        "Home Assistant 2026.11.0 and 2025.10.4",
        "Seconds since 1970-01-01; s since 1970, UTC",
        "With 2000 sensors. In 2012, in Los Angeles County in 2012",
        "Optimal Black-box Approach*, COLT 2021: algorithm 1",
        "| 2026-03-08 | 2004 | MAX_SENSORS = 2000 |",
    ],
)
def test_dates_and_numbers_are_no_citations(text):
    assert citations(text) == []


def test_every_cited_paper_has_a_row_in_the_references():
    cited = [(path, *each) for path, text in texts() for each in citations(text)]
    assert len({each[1:] for each in cited}) > 40
    missing = [
        f"{path.relative_to(ROOT)}: {' & '.join(names)} {year}"
        for path, names, year in cited
        if not has_row(names, year)
    ]
    assert missing == []


def test_every_cited_preprint_has_a_row_in_the_references():
    cited = {(path, number) for path, text in texts() for number in PREPRINT.findall(text)}
    assert cited
    missing = [each for each in cited if not any(each[1] in row for row in ROWS)]
    assert missing == []
