"""Appearance of the page: nothing overflows, is cut or overlaps, and axe-core finds no violation.

At 1280 and 390 px, in light and dark colours, with 11, 46 and 207 sensors of a real daemon.
"""

from contextlib import ExitStack

import pytest
from support.browser import colour_violations, layout_problems, violations
from support.dashboard import DashboardProcess, Laboratory

pytestmark = pytest.mark.timeout(300)

NAMES = (
    "Living room",
    "Kitchen",
    "Bedroom of the parents",
    "Attic",
    "Attic window",
    "Bathroom upstairs",
    "Cellar",
    "Wohnzimmer Südfenster",
    "Garage",
    "Server room",
    "Hall",
)
WORDS = {  # of the states in the daemon's health
    "ignored": "ignored",
    "suspects": "unresponsive",
    "implausible": "implausible",
    "faulty": "faulty",
}

BACKWARD_LINES = """
return [...document.querySelectorAll("#course .line")].filter(e => e.tagName === "path")
    .map(e => [...e.getAttribute("d").matchAll(/[ML]([-.0-9]+) /g)].map(m => +m[1]))
    .filter(xs => xs.some((x, k) => k && x < xs[k - 1]));
"""
# Names on the map through which a ring goes; the sensors of the decision are always named.
STRUCK_NAMES = """
const rings = [...document.querySelectorAll("#plan .place .halo")]
    .map(e => e.getBoundingClientRect()).filter(b => b.width > 0)
    .map(b => [b.left + b.width / 2, b.top + b.height / 2, b.width / 2]);
const texts = [...document.querySelectorAll("#plan .label")]
    .filter(e => !/selected|highest|lowest/.test(e.textContent));
return texts.filter(e => {
    const b = e.getBoundingClientRect();
    return rings.some(([x, y, r]) => Math.hypot(
        x - Math.max(b.left, Math.min(x, b.right)),
        y - Math.max(b.top, Math.min(y, b.bottom))) < r - 1);
}).map(e => e.textContent);
"""

# Pictures that are drawn for another width than that of their box, which scales them.
SCALED_PICTURES = """
return ["plan-box", "course-box", "timeline-box"].map(id => document.getElementById(id))
    .map(e => [e.id, e.clientWidth, e.querySelector("svg").viewBox.baseVal.width])
    .filter(([, available, drawn]) => drawn !== available);
"""


@pytest.fixture
def stack():
    """Return the stack that closes what a test has started."""
    with ExitStack() as stack:
        yield stack


def check_appearances(page, axe, name):
    """Check that the page has no problem in any of its appearances.

    Dark colours change nothing but colours, as test_palette.py shows, so the rules of axe-core that
    are about something else need not be checked again.
    """
    for appearance in page.appearances():
        assert layout_problems(page, int(appearance.split("-")[0])) == {}, appearance
        assert page.script(SCALED_PICTURES) == [], appearance
        assert page.script(STRUCK_NAMES) == [], appearance
        found = colour_violations if appearance.endswith("-dark") else violations
        assert found(page, axe) == [], appearance
        page.save_screenshot(f"{name}-{appearance}")


@pytest.mark.timeout(900)  # axe-core examines the page in many appearances
@pytest.mark.parametrize("count", [11, 46, 207])
def test_live_page_with_problems(page, axe, mosquitto, tmp_path, stack, count):
    broker = mosquitto()
    broker.start()
    names = NAMES if count == 11 else ()
    laboratory = Laboratory(tmp_path, broker, count, names, threshold=19.5)
    stack.callback(laboratory.close)
    dashboard = DashboardProcess(tmp_path / "log", laboratory.config)
    stack.callback(dashboard.stop)
    page.open(dashboard.address)
    states = [each for each in WORDS if count == 11 or each != "faulty"]  # it takes half a minute
    sensors = laboratory.cause_problems(states)
    for state, sensor in sensors.items():
        page.wait_for_text("problems", WORDS[state])
        name = laboratory.names.get(sensor, sensor)
        assert WORDS[state] in row_of(page, name)
        assert WORDS[state] in label_of(page, name)
        assert WORDS[state] in page.text("legend")
    assert "above 19.5 °C" in page.wait_for_text("alert", lambda text: text)
    assert page.script("return !!document.querySelector('#course .alert-span')")
    for sensor, name in laboratory.names.items():  # a person reads names, no ids
        assert sensor not in page.script("return document.body.innerText").split("Id\n")[0], name
    page.script("document.querySelectorAll('#rows button')[2].click()")
    page.wait_for_text("course-note", lambda text: "Select a sensor" not in text)
    assert page.script(BACKWARD_LINES) == []
    assert page.script("return document.querySelectorAll('#course .mark').length") >= 1
    dashboard.suspend()  # all appearances show the same decision
    page.stop_timers()
    check_appearances(page, axe, f"problems-{count}")


def row_of(page, name):
    """Return the state in the row of a sensor in the table."""
    rows = page.script(
        "return [...document.querySelectorAll('#rows tr')]"
        ".map(e => [e.firstChild.textContent, e.lastChild.textContent])"
    )
    return dict(rows)[name]


def label_of(page, name):
    """Return the words by which a screen reader describes a sensor on the map."""
    labels = page.script(
        "return [...document.querySelectorAll('.place')].map(e => e.getAttribute('aria-label'))"
    )
    return next(each for each in labels if each.startswith(f"{name}: "))


def test_recorded_day(page, axe, recorded):
    page.open(recorded.address)
    page.seek(60)
    check_appearances(page, axe, "replay")


def test_card_without_content_is_small(page, recorded):
    page.open(recorded.address)
    height = "return document.getElementById('events').getBoundingClientRect().height"
    for _ in page.appearances():
        assert page.script(height) < 100
