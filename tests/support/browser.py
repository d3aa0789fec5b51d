"""Browser test helpers: Debian's chromium, what is wrong with a page's layout, and axe-core."""

import os
import shutil
from contextlib import contextmanager

import pytest
from support.paths import ROOT

# The first, without a user interface, needs three quarters of the processor time. It is started
# without the script in /usr/bin: chromedriver would end only the script.
BROWSERS = ("/usr/lib/chromium/chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
DRIVER = shutil.which("chromedriver")
AXE = ROOT / "build" / "axe.min.js"
SCRIPT_TIMEOUT_S = 120.0  # ten times as long as axe-core takes on a busy machine

OVERLAPPING_CARDS = """
const boxes = [...document.querySelectorAll("header, .card:not([hidden])")]
    .map(e => [e.id, e.getBoundingClientRect()]);
const meet = (p, q) => p.left < q.right - 1 && q.left < p.right - 1
    && p.top < q.bottom - 1 && q.top < p.bottom - 1;
return boxes.flatMap(([a, p], k) =>
    boxes.slice(k + 1).filter(([, q]) => meet(p, q)).map(([b]) => [a, b]));
"""
# Texts that reach beyond their card, their picture or, sideways, their scroll area.
CUT_TEXTS = """
const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const range = document.createRange();
while (walker.nextNode()) {
    const node = walker.currentNode, e = node.parentElement;
    if (!node.textContent.trim() || e.closest(".hidden, .skip, title, noscript, script, option")
        || e.tagName === "title" || !e.checkVisibility({ visibilityProperty: true })) continue;
    range.selectNodeContents(node);
    const box = e.closest("svg, .scroll, .card, body").getBoundingClientRect();
    for (const rect of range.getClientRects())
        if (rect.left < box.left - 1 || rect.right > box.right + 1
            || (e.closest("svg") && (rect.top < box.top - 2 || rect.bottom > box.bottom + 2)))
            found.push(node.textContent.trim());
}
return found;
"""
WIDE_SCROLL_AREAS = """
return [...document.querySelectorAll(".scroll")]
    .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 200));
"""
SMALL_TEXTS = """
return [...document.querySelectorAll("svg text, p, td, th, li, dd, dt, button")]
    .filter(e => e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 10)
    .map(e => e.textContent);
"""
RUN_AXE = """
const [options, done] = arguments;
axe.run(document, { resultTypes: ["violations"], ...options }).then(({ violations }) => done(
    violations.map(({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes.slice(0, 3).map(n => n.html).join(" ")}`)));
"""
COLOUR_RULES = """
return axe.getRules(["cat.color"]).filter(each => !each.tags.includes("wcag2aaa"))
    .map(each => each.ruleId);
"""


@pytest.fixture(scope="session")
def chromium():
    """Return a driver of Debian's chromium, headless."""
    with started_chromium("browser") as driver:
        yield driver


@contextmanager
def started_chromium(*logs):
    """Start Debian's chromium, headless; yield its driver, which keeps these logs.

    The log `performance` contains every request, and takes an eighth of the processor time.
    """
    if not (CHROMIUM and DRIVER):
        reason = "these tests need chromium and chromium-driver:  apt install chromium-driver"
        _skip(reason)
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for each in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{each}")
    options.add_argument("--hide-scrollbars")
    options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(SCRIPT_TIMEOUT_S)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def axe():
    """Return the source of axe-core, which `make browser` fetches."""
    if not AXE.is_file():
        reason = "these tests need axe-core:  make browser"
        _skip(reason)
    return AXE.read_text()


def _skip(reason):
    if os.environ.get("EDGE_TVBO_REQUIRE_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


def layout_problems(page, width):
    """Return what overflows, is cut, too small or overlaps on the page."""
    scroll_width = page.script("return document.documentElement.scrollWidth")
    found = {
        "cards": page.script(OVERLAPPING_CARDS),
        "cut": page.script(CUT_TEXTS),
        "scroll areas": page.script(WIDE_SCROLL_AREAS),
        "small": page.script(SMALL_TEXTS),
        "page": [scroll_width] if scroll_width > width else [],
    }
    return {name: each for name, each in found.items() if each}


def violations(page, axe):
    """Return the violations that axe-core finds on the page."""
    _load(page, axe)
    return page.driver.execute_async_script(RUN_AXE, {})


def colour_violations(page, axe):
    """Return the violations of axe-core's rules about colours on the page."""
    _load(page, axe)
    rules = page.script(COLOUR_RULES)
    assert "color-contrast" in rules
    return page.driver.execute_async_script(RUN_AXE, {"runOnly": rules})


def _load(page, axe):
    if not page.script("return 'axe' in window"):
        page.script(axe)
