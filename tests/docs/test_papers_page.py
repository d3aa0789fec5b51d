"""The page papers.md: it has every figure and table of the papers, and commands that exist."""

import re
import runpy

import pytest
from edge_tvbo_adapters import datasets
from support.paths import DOCS, ROOT

from edge_tvbo.research import experiments
from edge_tvbo.simulation.dataset_lookup import DataSource

ITEMS = {  # as counted in the papers; [ZS21] has neither figures nor tables
    "B16": {*(f"figure {n}" for n in ("1", "2 a-b", "2 c", "2 d", "3 a", "3 b", "3 c-f", "4"))},
    "ET": {
        *(f"figure {n}" for n in ("1", "2", "3 a", "3 b-c", "3 d", "4 a-d", "5 a-b", "5 c")),
        *(f"figure {n}" for n in ("6 a-b", "6 c", "7", "8")),
        *(f"table {n}" for n in ("1", "2 a-b", "2 c", "3", "4-10")),
    },
    "M24": {
        *(f"figure {n}" for n in ("2.1", "4.1", "4.2", "5.1", "5.2", "5.3", "5.4", "6.1-6.2")),
        *(f"figure {n}" for n in ("6.3", "9.1", "10.1", "10.2", "10.3", "10.4")),
    },
    "LB": {*(f"figure {n}" for n in range(1, 6)), "table 1", "table 2"},
}
AGREEMENTS = ("yes", "no", "open", "in part", "other data", "cannot be repeated")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in (DOCS / "papers.md").read_text("utf-8").splitlines()
    if re.match(r"\| \[", line)
]


def test_page_of_results_has_a_section_on_each_experiment_of_the_papers():
    runs = runpy.run_path(str(DOCS / "experiments.py"))["RUNS"]
    page = (DOCS / "experiments.md").read_text("utf-8")

    assert list(runs) == [name for name in experiments.names() if re.fullmatch(r"E\d+", name)]
    assert re.findall(r"^## (E\d+): ", page, flags=re.M) == list(runs)


def test_every_figure_and_table_has_one_row():
    found = [(row[0].strip("[]"), row[1]) for row in ROWS]

    assert len(found) == len(set(found))
    assert set(found) == {(key, item) for key, items in ITEMS.items() for item in items}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_row_has_a_command_and_an_agreement_or_says_why_not(row):
    paper, item, command, agreement = row
    word = next(word for word in AGREEMENTS if agreement.startswith(word))

    if word == "cannot be repeated":
        assert command == "" and len(agreement) > len(word) + 10
        return
    assert word == "yes" or len(agreement) > len(word) + 10, "the reason is missing"
    if example := re.fullmatch(r"`python (docs/examples/\w+\.py)`", command):
        assert (ROOT / example[1]).is_file()
        return
    name = re.fullmatch(r"`edge-tvbo experiment (E\d+)`", command)[1]
    source = experiments.load(name, DataSource(datasets.find)).source
    assert paper in source, f"{name} does not name {paper} {item} as a source"


@pytest.mark.parametrize(
    "name", [name for name in experiments.names() if re.fullmatch(r"E\d+", name)]
)
def test_section_of_an_experiment_has_its_title_source_and_notes(name):
    experiment = experiments.load(name, DataSource(datasets.find))
    sections = re.split(r"^## ", (DOCS / "experiments.md").read_text("utf-8"), flags=re.M)
    section = next(each for each in sections if each.startswith(f"{name}: "))

    assert section.startswith(f"{name}: {experiment.title}\n\nSource: {experiment.source}.\n")
    assert f"\n\n{experiment.notes.strip()}\n\n" in section
