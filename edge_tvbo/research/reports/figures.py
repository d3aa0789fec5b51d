"""What people would look at: regret that adds up, who was asked, surprise, calibration."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.reports.summary import Row, Summary, half_width, percent
from edge_tvbo.research.reports.svg import Canvas, heat, room, ticks
from edge_tvbo.simulation.backtest import UNIT

HUES = 5  # policies that have a colour of their own: those that missed least
POINTS = 600  # of a line; more are thinned out
SHOWN = 576  # intervals that a raster has room for: the last
HOUR, DAY = 3600.0, 86_400.0  # s
STEPS = tuple(hours * HOUR for hours in (1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 672))
LEVELS = tuple(k / 10 for k in range(10))  # of predictive intervals in the figure
BINS = 10  # of a histogram
FIELD = "field"  # the heat map that all rasters share


class Figure(NamedTuple):
    """A picture and what stands under it."""

    svg: str
    caption: str


def regret(summary: Summary) -> Figure:
    """Draw the regret that has added up, with the 95 % interval of its mean over seeds."""
    sums = [row.result.regret.cumsum(axis=1) for row in summary.rows]
    middles = [each.mean(axis=0) for each in sums]
    halves = [np.nan_to_num(half_width(each)) for each in sums]
    top = max(float((m + h).max()) for m, h in zip(middles, halves, strict=True)) * 1.04 or 1.0
    chosen = _thinned(len(summary.times))
    times = np.array(summary.times)[chosen] + summary.backtest.recording.interval
    right = room(f"{row.name} 1000" for row in summary.rows)
    canvas = Canvas(_extent(summary), (0.0, top), height=400, right=right)
    canvas.axes(_hours(*canvas.x), ticks(0.0, top), "time (UTC)", f"regret so far ({UNIT})")
    drawn = list(zip(summary.rows, middles, halves, strict=True))
    for place, (row, middle, half) in reversed(list(enumerate(drawn))):
        css = hue(place, row)
        if place < HUES and half.any():
            low, high = np.maximum(middle - half, 0.0), middle + half
            canvas.band(times, low[chosen], high[chosen], css)
        canvas.line(times, middle[chosen], css)
    canvas.labels(
        (float(middle[-1]), f"{row.name} {middle[-1]:.0f}", hue(place, row))
        for place, (row, middle, _) in enumerate(drawn)
    )
    first, last = summary.rows[0], summary.rows[-1]
    seen = f"Regret so far. In the end {first.name} has {middles[0][-1]:.0f}"
    if last is not first:
        seen += f", the least, and {last.name} {middles[-1][-1]:.0f}, the most"
    return Figure(
        canvas.svg(f"{seen}."),
        "A line that is flat misses nothing; a straight one misses as much as ever. "
        "Bands are 95 % confidence intervals of the mean over seeds (Student's t): they say how "
        "much the draws matter, not how other days would turn out. Simple baselines are dashed.",
    )


def shared(summary: Summary) -> str:
    """Give the heat map behind the rasters, which has to be on the page once."""
    behind = summary.behind[_first(summary) :, _order(summary)]
    uri = heat(np.clip(1.0 - behind / summary.backtest.field.scale, 0.0, 1.0).T)
    return (
        '<svg class="aside" aria-hidden="true"><defs>'
        f'<image id="{FIELD}" href="{uri}" width="1" height="1" preserveAspectRatio="none"/>'
        "</defs></svg>"
    )


def raster(summary: Summary, row: Row) -> Figure:
    """Draw whom a policy asked with seed 0, over the field and the sensor it should have asked."""
    first = _first(summary)
    steps, best = row.result.steps[0][first:], summary.best[first:]
    times, interval = np.array(summary.times)[first:], summary.backtest.recording.interval
    asked = steps["pick"] >= 0
    picks = steps["pick"][asked]
    rank = np.argsort(_order(summary))  # arm -> row
    canvas = _field(summary, np.r_[best, picks], rank)
    canvas.vlines(times[steps["reset"]], "reset")
    _follow(canvas, times, rank[best], interval)
    canvas.dots(times[asked] + interval / 2, rank[picks] + 0.5, "pick", 3.2)
    right = float((picks == best[asked]).mean()) if asked.any() else 0.0
    resets = int(steps["reset"].sum())
    said = f"{row.name} asked the {summary.extreme} sensor in {percent(right)} of the intervals"
    begun = f" and began anew {resets} times" if resets else " and never began anew"
    shown = "" if first == 0 else f" The last {SHOWN} of {len(summary.times)} intervals are shown."
    return Figure(
        canvas.svg(f"Whom {row.name} asked. {said}{begun}."), f"{said}{begun} (seed 0).{shown}"
    )


def surprise(summary: Summary, row: Row) -> Figure | None:
    """Draw how surprising the answers were, and what the event trigger allowed; None without."""
    first = _first(summary)
    steps = row.result.steps[0][first:]
    allowed = steps["threshold"]
    if not np.isfinite(allowed).any():
        return None
    times = np.array(summary.times)[first:]
    top = float(np.nanmax(np.r_[steps["surprise"], np.nanquantile(allowed, 0.98)])) * 1.05 or 1.0
    canvas = Canvas(_extent(summary, first), (0.0, top), height=260)
    unit = summary.backtest.recording.unit or UNIT
    canvas.axes(_hours(*canvas.x), ticks(0.0, top, 5), "time (UTC)", f"surprise ({unit})")
    canvas.vlines(times[steps["reset"]], "reset")
    canvas.line(times, np.minimum(allowed, top), "hue2")
    answered = np.isfinite(steps["surprise"])
    canvas.dots(times[answered], steps["surprise"][answered], "pick", 3.5)
    fired = int((steps["surprise"] > allowed).sum())
    begun = int(steps["reset"].sum())
    said = (
        f"{row.name} began anew {begun} times; {fired} answers were more surprising than the "
        "trigger allows (seed 0)."
    )
    return Figure(
        canvas.svg(f"Surprise and threshold. {said}"),
        f"{said} Other resets were due by the bound on the answers between two. Dots are "
        "|answer − mean|; the line is what would have been too much.",
    )


class Calibration(NamedTuple):
    """How far a model's predictive distributions, taken as normal, are to be believed."""

    name: str
    hue: str
    z: Array  # (answers,), how far each was off, in standard deviations of what was foreseen

    def covered(self, share: float) -> float:
        """Give which share of the answers the central intervals of probability `share` held."""
        reach = NormalDist().inv_cdf((1.0 + share) / 2.0)
        return float((np.abs(self.z) <= reach).mean())

    def tenths(self) -> list[float]:
        """Give how often answers fell into each tenth of what was foreseen; 1 would be right."""
        edges = [NormalDist().inv_cdf(k / BINS) for k in range(1, BINS)]
        counts = np.bincount(np.searchsorted(edges, self.z), minlength=BINS)
        heights: list[float] = (counts * BINS / len(self.z)).tolist()
        return heights


def calibrations(summary: Summary) -> list[Calibration]:
    """Compare the answers, of all seeds, with what each policy that has a model foresaw."""
    found = []
    for place, row in enumerate(summary.rows):
        steps = row.result.steps
        z = (steps["answer"] - steps["mean"]) / np.hypot(steps["std"], row.result.noise)
        if np.isfinite(z).any():
            found.append(Calibration(row.name, hue(place, row), z[np.isfinite(z)]))
    return found


def coverage(found: Sequence[Calibration]) -> Figure:
    """Draw which share of the answers predictive intervals held, against what they promised."""
    most = LEVELS[-1]
    right = room(f"{each.name} 100 %" for each in found)
    canvas = Canvas((0.0, most), (0.0, 1.0), height=400, right=right)
    fifths = [(k / 5, percent(k / 5)) for k in range(6)]
    promised = [(k / 10, percent(k / 10)) for k in range(0, 10, 3)]
    canvas.axes(promised, fifths, "promised", "held")
    canvas.line((0.0, most), (0.0, most), "ideal")
    for each in reversed(found):
        canvas.line(LEVELS, [each.covered(level) for level in LEVELS], each.hue)
    ends = [(each.covered(most), f"{each.name} {percent(each.covered(most))}") for each in found]
    canvas.labels((at, text, each.hue) for (at, text), each in zip(ends, found, strict=True))
    held = ", ".join(text for _, text in ends)
    return Figure(
        canvas.svg(f"Calibration. Of the answers, {percent(most)} intervals held: {held}."),
        "On the dotted line intervals hold what they promise; below it a model is surer than it "
        "may be, above it less sure. Only the sensors that were asked count, which a policy chose "
        "for what it hoped of them.",
    )


def histogram(each: Calibration) -> Figure:
    """Draw where in its predictive distributions the answers fell: flat where it is right."""
    heights = each.tenths()
    top = max(2.0, *heights) * 1.05
    canvas = Canvas((0.0, 1.0), (0.0, top), height=240)
    fifths = [(k / 5, percent(k / 5)) for k in range(6)]
    foreseen = "probability that the answer is lower, as foreseen"
    canvas.axes(fifths, ticks(0.0, top, 4), foreseen, "how often")
    canvas.bars([k / BINS for k in range(BINS + 1)], heights, f"bar {each.hue}")
    canvas.line((0.0, 1.0), (1.0, 1.0), "ideal")
    low, high = percent(heights[0] / BINS), percent(heights[-1] / BINS)
    said = (
        f"{each.name}: {low} of {len(each.z)} answers fell into the lowest tenth of what was "
        f"foreseen, {high} into the highest"
    )
    return Figure(canvas.svg(f"Histogram. {said}."), f"{said}; 10 % each would be right.")


def hue(place: int, row: Row) -> str:
    """Give the style class of a policy in all figures, by its place in the table."""
    colour = f"hue{place + 1}" if place < HUES else "rest"
    return f"{colour} simple" if row.simple else colour


def _extent(summary: Summary, first: int = 0) -> tuple[float, float]:
    return summary.times[first], summary.times[-1] + summary.backtest.recording.interval


def _first(summary: Summary) -> int:
    return max(0, len(summary.times) - SHOWN)


def _order(summary: Summary) -> NDArray[np.intp]:
    """Give the arms, those first that were least behind on the whole."""
    return np.asarray(np.argsort(summary.behind.mean(axis=0), kind="stable"))


def _thinned(rows: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, rows - 1, min(rows, POINTS)).round().astype(np.intp))


def _hours(begin: float, end: float) -> list[tuple[float, str]]:
    """Give ticks at round hours, the date at midnight."""
    step = next((each for each in STEPS if (end - begin) / each <= 8.5), STEPS[-1])
    first = int(-(-begin // step))
    stamps = [k * step for k in range(first, int(end // step) + 1)]
    return [(at, _clock(at)) for at in stamps]


def _clock(at: float) -> str:
    stamp = rfc3339(at)
    return stamp[5:10] if at % DAY == 0 else stamp[11:16]


def _field(summary: Summary, arms: NDArray[np.intp], rank: NDArray[np.intp]) -> Canvas:
    """Draw the field, a row for each sensor, and name those rows that `arms` has most often."""
    M = len(rank)
    sensors = summary.backtest.recording.sensors
    canvas = Canvas(
        _extent(summary, _first(summary)),
        (float(M), 0.0),
        height=max(170.0, 60 + 7.2 * M),
        left=min(room(sensors), 200.0),
    )
    place = f"translate({canvas.left} {canvas.top})"
    size = f"scale({canvas.width - canvas.left - canvas.right} {canvas.depth})"
    canvas.add(f'<use class="heat" href="#{FIELD}" transform="{place} {size}"/>')
    canvas.axes(_hours(*canvas.x), (), "time (UTC)")
    named: list[float] = []
    for arm in np.argsort(-np.bincount(arms, minlength=M), kind="stable"):
        at = canvas.at_y(float(rank[arm]) + 0.5)
        if all(abs(at - other) >= 12.0 for other in named):
            canvas.text(canvas.left - 6, at + 4, sensors[arm], "end")
            named.append(at)
    return canvas


def _follow(canvas: Canvas, times: Array, rows: NDArray[np.intp], interval: float) -> None:
    """Draw the sensor to follow: a bar along its row for as long as it was that."""
    ends = np.flatnonzero(np.r_[rows[1:] != rows[:-1], True])
    begins = np.r_[0, ends[:-1] + 1]
    xs = np.column_stack((times[begins], times[ends] + interval, times[ends]))
    ys = np.column_stack((rows[begins] + 0.5, rows[ends] + 0.5, np.full(len(ends), np.nan)))
    canvas.line(xs.ravel(), ys.ravel(), "best")
