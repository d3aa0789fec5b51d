"""The colours, computed as WCAG 2.2 has it: text at 4.5 to 1, shapes at 3 to 1."""

import re

import pytest
from adapters.dashboard.conftest import Path
from edge_tvbo_adapters.dashboard import __file__ as package

PAGES = Path(package).parent / "pages"
CSS = (PAGES / "style.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root \{([^}]*--ground[^}]*)\}", CSS)
)
VIRIDIS = re.findall(r'"([0-9a-f]{6})"', (PAGES / "draw.js").read_text())
INK_AT = 0.179  # as in draw.js


def luminance(colour):
    shares = [int(colour.lstrip("#")[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_and_white_are_as_far_apart_as_can_be():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_what_is_written_can_be_read(palette):
    written = [
        (ink, on)
        for ink in ("text", "muted", "accent", "good", "warn", "bad")
        for on in ("card", "ground")
    ]
    written += [("on-accent", "accent"), ("on-alarm", "alarm")]
    faint = {each: contrast(palette[each[0]], palette[each[1]]) for each in written}
    assert {each: value for each, value in faint.items() if value < 4.5} == {}


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_what_is_drawn_can_be_seen(palette):
    for shape in ("edge", "accent", "bad", "warn", "text"):
        assert contrast(palette[shape], palette["card"]) >= 3.0


def test_the_scale_is_even_and_what_is_written_on_it_can_be_read():
    lights = [luminance(each) for each in VIRIDIS]
    assert len(VIRIDIS) == 11 and lights == sorted(lights)  # so that it survives a grey print
    for colour, light in zip(VIRIDIS, lights, strict=True):
        assert contrast(colour, "#000000" if light > INK_AT else "#ffffff") >= 4.5
