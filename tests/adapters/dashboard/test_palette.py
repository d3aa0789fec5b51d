"""Contrast of the dashboard's colours by WCAG 2.2: text at least 4.5 to 1, shapes 3 to 1."""

import re
from pathlib import Path

import pytest
from edge_tvbo_adapters.dashboard import __file__ as package

PAGES = Path(package).parent / "pages"
CSS = (PAGES / "style.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root \{([^{}]*--ground[^}]*)\}", CSS)
)
VIRIDIS = re.findall(r'"([0-9a-f]{6})"', (PAGES / "draw.js").read_text())
MIN_LUMINANCE_FOR_BLACK_TEXT = 0.179  # as in draw.js
DARK_RULE = r"@media \(prefers-color-scheme: dark\) \{\s*:root \{([^{}]*)\}\s*\}"
COLOURED = {  # properties that change neither the place nor the size of anything
    "accent-color", "background", "border", "border-bottom", "border-color", "box-shadow", "color",
    "fill", "outline", "stroke",
}  # fmt: skip


def luminance(colour):
    shares = [int(colour.lstrip("#")[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_and_white_have_the_largest_contrast():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_colours_have_enough_contrast(palette):
    pairs = [
        (colour, background)
        for colour in ("text", "muted", "accent", "good", "warn", "bad")
        for background in ("card", "ground")
    ]
    pairs += [("on-accent", "accent"), ("on-alarm", "alarm")]
    contrasts = {each: contrast(palette[each[0]], palette[each[1]]) for each in pairs}
    assert {each: value for each, value in contrasts.items() if value < 4.5} == {}


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_shape_colours_have_enough_contrast(palette):
    for shape in ("edge", "accent", "chosen", "bad", "warn", "good", "text"):
        assert contrast(palette[shape], palette["card"]) >= 3.0


def test_colour_scale_is_monotonic_and_text_on_it_readable():
    luminances = [luminance(each) for each in VIRIDIS]
    assert len(VIRIDIS) == 11 and luminances == sorted(luminances)  # readable in greyscale too
    for colour, value in zip(VIRIDIS, luminances, strict=True):
        text = "#000000" if value > MIN_LUMINANCE_FOR_BLACK_TEXT else "#ffffff"
        assert contrast(colour, text) >= 4.5


def test_dark_colours_change_nothing_but_colours():
    """So test_appearance.py examines light colours only, except with the rules about colours."""
    (dark,) = re.findall(DARK_RULE, CSS)
    assert re.sub(r"--[a-z-]+: #[0-9a-f]{6};", "", dark).strip() == ""
    assert set(DARK) <= set(LIGHT)  # else, a property would have no value in light colours
    uses = re.findall(r"([a-z-]+):([^:;{}]*var\(--[^;{}]*)", CSS)
    assert {name for name, value in uses if set(re.findall(r"--([a-z-]+)", value)) & set(DARK)} <= (
        COLOURED
    )
    for file in (PAGES / "style.css", *PAGES.glob("*.js"), *PAGES.glob("*.html")):
        text = file.read_text()
        assert "matchMedia" not in text
        assert text.count("prefers-color-scheme") == (file.name == "style.css")
