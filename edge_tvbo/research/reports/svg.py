"""SVG drawing: lines, bands, dots, bars and labels in a plot area with two linear axes.

Colours are CSS classes of the page's style sheet, so that figures adapt to light and dark mode.
"""

import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from math import floor, isnan, log10
from struct import pack

import numpy as np

from edge_tvbo.numerics.types import Array

Ticks = Iterable[tuple[float, str]]
LEVELS = 64  # number of levels of a heat map
MAX_OPACITY = 0.6


@dataclass
class Canvas:
    """An SVG picture with a plot area; `x` and `y` are the values at the edges of that area."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: float = 340.0
    width: float = 660.0
    left: float = 52.0
    right: float = 24.0
    top: float = 12.0
    bottom: float = 40.0
    _parts: list[str] = field(default_factory=list)

    def at_x(self, value: float) -> float:
        """Return the horizontal position of a value of x in the SVG picture."""
        low, high = self.x
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def at_y(self, value: float) -> float:
        """Return the vertical position of a value of y in the SVG picture."""
        low, high = self.y
        return self.height - self.bottom - (value - low) / (high - low) * self.depth

    @property
    def depth(self) -> float:
        """Height of the plot area in the SVG picture."""
        return self.height - self.top - self.bottom

    def axes(self, x: Ticks, y: Ticks, x_title: str = "", y_title: str = "") -> None:
        """Draw the axes of the SVG picture: ticks with labels, grid lines for y, and titles."""
        edge, floor_ = self.width - self.right, self.height - self.bottom
        for value, label in y:
            at = self.at_y(value)
            self.add(f'<path class="grid" d="M{_n(self.left)} {_n(at)}H{_n(edge)}"/>')
            self.text(self.left - 6, at + 4, label, "end")
        for value, label in x:
            at = self.at_x(value)
            self.add(f'<path class="tick" d="M{_n(at)} {_n(floor_)}v5"/>')
            self.text(at, floor_ + 19, label, "middle")
        self.add(f'<path class="tick" d="M{_n(self.left)} {_n(floor_)}H{_n(edge)}"/>')
        self.text((self.left + edge) / 2, self.height - 4, x_title, "middle")
        if y_title:
            middle = _n(self.top + self.depth / 2)
            self.add(
                f'<text text-anchor="middle" transform="translate(12 {middle}) rotate(-90)">'
                f"{escape(y_title)}</text>"
            )

    def line(self, xs: Sequence[float] | Array, ys: Sequence[float] | Array, css: str) -> None:
        """Draw a line in the SVG picture; the line has a gap at each NaN in `ys`."""
        d, drawing = [], False
        for x, y in zip(xs, ys, strict=True):
            if not isnan(y):
                d.append(f"{'L' if drawing else 'M'}{_n(self.at_x(x))} {_n(self.at_y(y))}")
            drawing = not isnan(y)
        self.add(f'<path class="line {css}" d="{"".join(d)}"/>')

    def band(self, xs: Array, low: Array, high: Array, css: str) -> None:
        """Draw a band in the SVG picture: fill the area between the lines `low` and `high`."""
        points = [*zip(xs, low, strict=True), *zip(xs[::-1], high[::-1], strict=True)]
        d = "L".join(f"{_n(self.at_x(x))} {_n(self.at_y(y))}" for x, y in points)
        self.add(f'<path class="band {css}" d="M{d}Z"/>')

    def dots(self, xs: Iterable[float], ys: Iterable[float], css: str, size: float = 4.0) -> None:
        """Draw a square dot in the SVG picture at each point."""
        half = size / 2
        square = f"h{_n(size)}v{_n(size)}h{_n(-size)}z"
        corners = (
            f"M{_n(self.at_x(x) - half)} {_n(self.at_y(y) - half)}{square}"
            for x, y in zip(xs, ys, strict=True)
        )
        self.add(f'<path class="{css}" d="{"".join(corners)}"/>')

    def bars(self, edges: Sequence[float], heights: Sequence[float], css: str) -> None:
        """Draw a histogram in the SVG picture: a bar between each pair of neighbouring edges."""
        for (x0, x1), y in zip(pairwise(edges), heights, strict=True):
            left, right, up = self.at_x(x0) + 1, self.at_x(x1) - 1, self.at_y(y)
            down = self.at_y(self.y[0])
            self.add(
                f'<path class="{css}" d="M{_n(left)} {_n(down)}V{_n(up)}H{_n(right)}V{_n(down)}z"/>'
            )

    def vlines(self, xs: Iterable[float], css: str) -> None:
        """Draw a vertical line in the SVG picture, from top to bottom, at each x."""
        d = "".join(f"M{_n(self.at_x(x))} {_n(self.top)}v{_n(self.depth)}" for x in xs)
        self.add(f'<path class="{css}" d="{d}"/>')

    def labels(self, wanted: Iterable[tuple[float, str, str]], distance: float = 13.0) -> None:
        """Write labels (y, text, css) at the right edge of the SVG picture, without overlaps."""
        edge = self.width - self.right
        items = sorted(((self.at_y(y), text, css) for y, text, css in wanted), key=lambda i: -i[0])
        lowest = self.height - 4.0
        places = []
        for at, _, _ in items:  # from the bottom up, so that labels stay inside the picture
            lowest = min(at, lowest)
            places.append(lowest)
            lowest -= distance
        highest = 12.0
        for k in reversed(range(len(places))):  # from the top down, for the same reason
            places[k] = max(places[k], highest)
            highest = places[k] + distance
        for place, (at, text, css) in zip(places, items, strict=True):
            d = f"M{_n(edge)} {_n(at)}L{_n(edge + 12)} {_n(place)}h5"
            self.add(f'<path class="line thin {css}" d="{d}"/>')
            self.text(edge + 20, place + 4, text, "start")

    def text(self, x: float, y: float, text: str, anchor: str) -> None:
        """Write `text` at the position (x, y) of the SVG picture."""
        if text:
            self.add(f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{escape(text)}</text>')

    def add(self, part: str) -> None:
        """Add an SVG element on top of the picture."""
        self._parts.append(part)

    def svg(self, description: str) -> str:
        """Return the picture as SVG; `description` is its text alternative."""
        size = f"0 0 {_n(self.width)} {_n(self.height)}"
        label = escape(description, quote=True)
        body = "".join(self._parts)
        return f'<svg viewBox="{size}" role="img" aria-label="{label}">{body}</svg>'


def ticks(low: float, high: float, max_intervals: int = 6) -> list[tuple[float, str]]:
    """Return the ticks of an SVG axis: round values from `low` to `high`, with their labels.

    >>> [label for _, label in ticks(0.0, 0.7)]
    ['0', '0.2', '0.4', '0.6']
    """
    rough = (high - low) / max_intervals
    power = 10.0 ** floor(log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough * 0.999)
    first, last = -floor(1e-9 - low / step), floor(high / step + 1e-9)
    digits = max(0, -floor(log10(step) + 1e-9))
    return [(i * step, f"{i * step:.{digits}f}" if i else "0") for i in range(first, last + 1)]


def label_width(texts: Iterable[str]) -> float:
    """Return the width of the longest label in `texts` in an SVG picture, including a margin."""
    return 30.0 + 6.6 * max(map(len, texts))


def heat_map(shares: Array) -> str:
    """Return a heat map for an SVG picture, as the data URI of a PNG in one colour.

    Each share in `shares`, from 0 to 1, is a pixel with an opacity proportional to the share. Row
    0 is at the top of the picture. A share of 0 is transparent, so that the picture suits light and
    dark backgrounds.
    """
    rows = (shares * (LEVELS - 1)).round().astype(np.uint8)
    opacity = (np.arange(LEVELS) * MAX_OPACITY * 255 / (LEVELS - 1)).round().astype(np.uint8)
    chunks = (
        (b"IHDR", pack(">IIBBBBB", rows.shape[1], rows.shape[0], 8, 3, 0, 0, 0)),
        (b"PLTE", bytes((0xE0, 0x7B, 0x29)) * LEVELS),
        (b"tRNS", opacity.tobytes()),
        (b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows), 9)),
        (b"IEND", b""),
    )
    body = b"".join(
        pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _n(number: float) -> str:
    """Return a coordinate of the SVG picture as text, rounded to a tenth of a unit."""
    return f"{number:.1f}".removesuffix(".0")
