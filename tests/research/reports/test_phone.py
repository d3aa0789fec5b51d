"""The report of a comparison in chromium: its charts fit a phone, without a violation for axe."""

import pytest
from support.browser import layout_problems, violations
from support.dashboard import Page
from support.recordings import data_source

from edge_tvbo.research.reports import html_report
from edge_tvbo.research.reports.summary import ComparisonSummary
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.row_range import RowRange

POLICIES = ("et-gp-ucb", "r-gp-ucb", "random", "round-robin", "static")
SIDEWAYS = """
return [...document.querySelectorAll("figure *")].filter(e => e.checkVisibility()
    && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible").length;
"""
CUT_CAPTIONS = """
return [...document.querySelectorAll("caption span")].filter(e =>
    e.getBoundingClientRect().right > e.closest(".scroll").getBoundingClientRect().right + 1
    ).length;
"""
SCROLLED_TABLES = """
return [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1)
    .length;
"""
SHOW_TABLES = """
document.querySelectorAll("table").forEach(e => { e.style.display = arguments[0]; });
"""
# The smallest letters of the pictures that are shown, in CSS px.
LETTERS = """
return Math.min(...[...document.querySelectorAll("figure svg text")]
    .filter(e => e.checkVisibility())
    .map(e => [parseFloat(getComputedStyle(e).fontSize), e.ownerSVGElement])
    .map(([size, svg]) => size * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width));
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return the report of a comparison of five policies, as a file."""
    backtest = Backtest(data_source().load("lab-sample"), RowRange(0, 400), RowRange(1000, 1096))
    results = [backtest.run(name, {}, 2) for name in POLICIES]
    summary = ComparisonSummary(backtest, [*results, backtest.oracle()], "edge-tvbo compare")
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(html_report.html(summary))
    return file


def test_charts_fit_the_width(chromium, axe, report):
    page = Page(chromium)
    page.driver.get(report.as_uri())
    page.script("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    for appearance in page.appearances():
        page.save_screenshot(f"report-{appearance}")
        assert page.script(LETTERS) >= 10, appearance
        assert page.script(SIDEWAYS) == 0, appearance
        assert violations(page, axe) == [], appearance
        page.script(SHOW_TABLES, "none")  # they may be scrolled sideways
        assert layout_problems(page, int(appearance.split("-")[0])) == {}, appearance
        page.script(SHOW_TABLES, "")


def test_captions_are_not_cut_and_tables_fit_a_wide_window(chromium, report):
    page = Page(chromium)
    page.driver.get(report.as_uri())
    for appearance in page.appearances():
        assert page.script(CUT_CAPTIONS) == 0, appearance
        assert not appearance.startswith("1280") or page.script(SCROLLED_TABLES) == 0, appearance
