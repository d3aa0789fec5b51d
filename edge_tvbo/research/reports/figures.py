"""Figures of a comparison: cumulative regret, activated sensors, errors and calibration."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.confidence import half_width
from edge_tvbo.research.reports.summary import (
    ComparisonSummary,
    PolicySummary,
    percent,
)
from edge_tvbo.research.reports.svg import Canvas, heat_map, label_width, ticks
from edge_tvbo.simulation.backtest import UNIT_LABEL

COLOURS = 5  # the five policies with the least regret have colours of their own
MAX_POINTS = 600  # largest number of points of a line
RASTER_INTERVALS = 576  # largest number of intervals in a raster, which shows the last intervals
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0  # s
TICK_STEPS = (
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(minutes * MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR for hours in (1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 672)),
)
LEVELS = tuple(k / 10 for k in range(10))  # probabilities of the predictive intervals
BINS = 10  # number of bins of a histogram
WIDE, NARROW = 660.0, 360.0  # widths of a picture: for a desktop, and for a phone
MAX_LABEL = {WIDE: 25, NARROW: 13}  # characters of a name at the edge of a picture
HEAT_MAP_ID = "field"  # id of the heat map that all rasters share


Label = tuple[float, str, str]  # label of a line: last value, text, and CSS classes of the line


class Figure(NamedTuple):
    """A figure of the report: an SVG picture and its caption."""

    svg: str
    caption: str
    key: Sequence[tuple[str, str]] = ()  # texts and CSS classes of lines without labels


def regret_figure(summary: ComparisonSummary, width: float = WIDE) -> Figure:
    """Draw the cumulative regret of all policies, with 95 % intervals of the mean over seeds."""
    sums = [row.result.regret.cumsum(axis=1) for row in summary.rows]
    middles = [each.mean(axis=0) for each in sums]
    halves = [np.nan_to_num(half_width(each)) for each in sums]
    top = max(float((m + h).max()) for m, h in zip(middles, halves, strict=True)) * 1.04 or 1.0
    chosen = _thinned(len(summary.times))
    times = np.array(summary.times)[chosen] + summary.backtest.recording.interval
    ends = [
        (float(middle[-1]), f"{_shortened(row.name)} {middle[-1]:.0f}", colour_class(place, row))
        for place, (row, middle) in enumerate(zip(summary.rows, middles, strict=True))
    ]
    canvas = _labelled_canvas(_extent(summary), (0.0, top), ends, width)
    canvas.axes(
        _time_ticks(canvas), ticks(0.0, top), "time (UTC)", f"cumulative regret ({UNIT_LABEL})"
    )
    drawn = list(zip(summary.rows, middles, halves, strict=True))
    for place, (row, middle, half) in reversed(list(enumerate(drawn))):
        css = colour_class(place, row)
        if place < COLOURS and half.any():
            low, high = np.maximum(middle - half, 0.0), middle + half
            canvas.band(times, low[chosen], high[chosen], css)
        canvas.line(times, middle[chosen], css)
    key = _label_lines(canvas, ends)
    first, last = summary.rows[0], summary.rows[-1]
    description = f"Cumulative regret. At the end, {first.name} has {middles[0][-1]:.0f}"
    if last is not first:
        description += f", which is the least; {last.name} has the most, {middles[-1][-1]:.0f}"
    return Figure(
        canvas.svg(f"{description}."),
        "Where a line is flat, the policy has no regret. Where a line is straight but not flat, "
        "the regret per interval does not decrease. Bands are 95 % confidence intervals of the "
        "mean over seeds (Student's t): they show the effect of the random draws, not the "
        "effect of other test days. The lines of simple baselines are dashed.",
        key,
    )


def shared_heat_map(summary: ComparisonSummary) -> str:
    """Return the heat map that each `raster_figure` uses; the page must contain it exactly once."""
    order, rows = _order(summary), summary.replayed[_first(summary) :]
    behind = summary.behind[_first(summary) :, order]
    observed = summary.backtest.recording.observed[rows][:, order]
    shares = np.zeros((rows[-1] - rows[0] + 1, len(order)))  # includes the rows without readings
    closeness = np.clip(1.0 - behind / summary.backtest.field.scale, 0.0, 1.0)
    shares[rows - rows[0]] = np.where(observed, closeness, 0.0)
    uri = heat_map(shares.T)
    return (
        '<svg class="aside" aria-hidden="true"><defs>'
        f'<image id="{HEAT_MAP_ID}" href="{uri}" width="1" height="1" preserveAspectRatio="none"/>'
        "</defs></svg>"
    )


def raster_figure(summary: ComparisonSummary, row: PolicySummary, width: float = WIDE) -> Figure:
    """Draw the sensors that a policy activated with seed 0, on top of the field's heat map."""
    first = _first(summary)
    steps, best = row.result.steps[0][first:], summary.best[first:]
    times, interval = np.array(summary.times)[first:], summary.backtest.recording.interval
    activated = steps["pick"] >= 0
    picks = steps["pick"][activated]
    rank = np.argsort(_order(summary))  # arm -> row
    canvas = _field_canvas(summary, np.r_[best, picks], rank, width)
    canvas.vlines(times[steps["reset"]], "reset")
    _draw_best_sensor(canvas, times, rank[best], interval)
    canvas.dots(times[activated] + interval / 2, rank[picks] + 0.5, "pick", 3.2)
    right = float(_is_best(summary)[first:][activated, picks].mean()) if len(picks) else 0.0
    intervals = "intervals" if activated.all() else f"{len(picks)} intervals with an activation"
    resets = int(steps["reset"].sum())
    times_reset = f"reset {resets} times" if resets else "never reset"
    text = (
        f"{row.name} activated the {summary.extreme} sensor in {percent(right)} of the {intervals};"
        f" its model was {times_reset}"
    )
    shown = f" The last {RASTER_INTERVALS} of {len(summary.times)} intervals are shown."
    return Figure(
        canvas.svg(f"Activated sensors. {text}."), f"{text} (seed 0).{shown if first else ''}"
    )


def trigger_figure(
    summary: ComparisonSummary, row: PolicySummary, width: float = WIDE
) -> Figure | None:
    """Draw a policy's errors and its trigger's threshold; return None if it has no trigger."""
    first = _first(summary)
    steps = row.result.steps[0][first:]
    threshold = steps["threshold"]
    if not np.isfinite(threshold).any():
        return None
    times = np.array(summary.times)[first:]
    top = float(np.nanmax(np.r_[steps["error"], np.nanquantile(threshold, 0.98)])) * 1.05 or 1.0
    canvas = Canvas(_extent(summary, first), (0.0, top), height=260, width=width)
    unit = summary.backtest.recording.unit or "unit of the readings"
    canvas.axes(_time_ticks(canvas), ticks(0.0, top, 5), "time (UTC)", f"error ({unit})")
    canvas.vlines(times[steps["reset"]], "reset")
    canvas.line(times, np.minimum(threshold, top), "hue2")
    replied = np.isfinite(steps["error"])
    canvas.dots(times[replied], steps["error"][replied], "pick", 3.5)
    above = int((steps["error"] > threshold).sum())
    resets = int(steps["reset"].sum())
    shown = f" in the last {RASTER_INTERVALS} of {len(summary.times)} intervals" if first else ""
    text = (
        f"{row.name} reset its model {resets} times{shown}; the errors of {above} replies were "
        f"above the threshold of the event trigger (seed 0)."
    )
    other_resets = (
        "A reset without an error above the threshold has another cause: the largest allowed "
        "number of replies since the previous reset was reached."
        if summary.backtest.pace.per_interval == 1
        else "Only the reply of the best activated sensor of each interval is shown; a reset may "
        "follow a reply that is not shown."
    )
    return Figure(
        canvas.svg(f"Errors and threshold. {text}"),
        f"{text} {other_resets} Dots are errors, |reply − mean|; the line is the threshold.",
    )


class Calibration(NamedTuple):
    """The calibration of a policy's predictive distributions, which are assumed to be normal."""

    name: str
    colour: str
    z: Array  # (replies,), errors in standard deviations of the predictive distribution

    def covered(self, share: float) -> float:
        """Return the fraction of replies that are within their central predictive intervals.

        `share` is the nominal probability of these intervals, such as 0.9.
        """
        reach = NormalDist().inv_cdf((1.0 + share) / 2.0)
        return float((np.abs(self.z) <= reach).mean())

    def tenths(self) -> list[float]:
        """Return the density of replies in each tenth of their predictive distributions.

        The density is drawn in a figure; the ideal density is 1.
        """
        edges = [NormalDist().inv_cdf(k / BINS) for k in range(1, BINS)]
        counts = np.bincount(np.searchsorted(edges, self.z), minlength=BINS)
        heights: list[float] = (counts * BINS / len(self.z)).tolist()
        return heights


def calibrations(summary: ComparisonSummary) -> list[Calibration]:
    """Return the calibration of each policy that has a model, for the report's figures.

    A calibration is computed from the replies of all seeds. If several sensors may be activated in
    an interval, a replay records only the reply of the best of the activated sensors. Replies that
    are chosen by their values do not show the calibration, so the list is then empty.
    """
    if summary.backtest.pace.per_interval > 1:
        return []
    found = []
    for place, row in enumerate(summary.rows):
        z = row.result.steps["z"]
        if np.isfinite(z).any():
            found.append(Calibration(row.name, colour_class(place, row), z[np.isfinite(z)]))
    return found


def coverage_figure(found: Sequence[Calibration], width: float = WIDE) -> Figure:
    """Draw the calibration curves: the share of replies within each predictive interval."""
    most = LEVELS[-1]
    ends = [
        (
            each.covered(most),
            f"{_shortened(each.name)} {percent(each.covered(most))}",
            each.colour,
        )
        for each in found
    ]
    canvas = _labelled_canvas((0.0, most), (0.0, 1.0), ends, width)
    fifths = [(k / 5, percent(k / 5)) for k in range(6)]
    probabilities = [(k / 10, percent(k / 10)) for k in range(0, 10, 3)]
    canvas.axes(probabilities, fifths, "probability of the interval", "share of replies")
    canvas.line((0.0, most), (0.0, most), "ideal")
    for each in reversed(found):
        canvas.line(LEVELS, [each.covered(level) for level in LEVELS], each.colour)
    key = _label_lines(canvas, ends)
    shares = ", ".join(text for _, text, _ in ends)
    return Figure(
        canvas.svg(f"Calibration. Share of replies in {percent(most)} intervals: {shares}."),
        "On the dotted line, the predictive intervals have the right width. Below the line, they "
        "are too narrow; above the line, they are too wide. Only replies count; they "
        "come mostly from sensors with high upper bounds.",
        key,
    )


def histogram_figure(each: Calibration, width: float = WIDE) -> Figure:
    """Draw a histogram: the density of replies in each tenth of the predictive distribution."""
    heights = each.tenths()
    top = max(2.0, *heights) * 1.05
    canvas = Canvas((0.0, 1.0), (0.0, top), height=240, width=width)
    fifths = [(k / 5, percent(k / 5)) for k in range(6)]
    canvas.axes(fifths, ticks(0.0, top, 4), "predicted probability of a lower reply", "density")
    canvas.bars([k / BINS for k in range(BINS + 1)], heights, f"bar {each.colour}")
    canvas.line((0.0, 1.0), (1.0, 1.0), "ideal")
    low, high = percent(heights[0] / BINS), percent(heights[-1] / BINS)
    text = (
        f"{each.name}: of {len(each.z)} replies, {low} are in the lowest tenth of the predictive "
        f"distribution, and {high} in the highest tenth"
    )
    return Figure(canvas.svg(f"Histogram. {text}."), f"{text}; ideally, each tenth has 10 %.")


def _labelled_canvas(
    x: tuple[float, float], y: tuple[float, float], ends: Sequence[Label], width: float
) -> Canvas:
    """Return a figure's canvas for lines; a wide canvas has room for labels at the right edge."""
    right = label_width(text for _, text, _ in ends) if width == WIDE else Canvas.right
    return Canvas(x, y, height=400, right=right, width=width)


def _label_lines(canvas: Canvas, ends: Sequence[Label]) -> list[tuple[str, str]]:
    """Label the lines of a figure, or return a legend if there is no room for labels."""
    if canvas.width == WIDE:
        canvas.labels(ends)
        return []
    return [(text, css) for _, text, css in ends]


def colour_class(place: int, row: PolicySummary) -> str:
    """Return the CSS class of the policy's colour; a policy has one colour in all figures."""
    colour = f"hue{place + 1}" if place < COLOURS else "rest"
    return f"{colour} simple" if row.is_simple else colour


def _extent(summary: ComparisonSummary, first: int = 0) -> tuple[float, float]:
    return summary.times[first], summary.times[-1] + summary.backtest.recording.interval


def _first(summary: ComparisonSummary) -> int:
    return max(0, len(summary.times) - RASTER_INTERVALS)


def _order(summary: ComparisonSummary) -> NDArray[np.intp]:
    """Return the arms in the order of a figure's rows.

    The first arm has the smallest mean difference from the best arm.
    """
    return np.asarray(np.argsort(summary.behind.mean(axis=0), kind="stable"))


def _is_best(summary: ComparisonSummary) -> NDArray[np.bool_]:
    """Return, for a figure, a mask (T, M) of the sensors with the best reading in each row."""
    observed = summary.backtest.recording.observed[summary.replayed]
    return np.asarray(observed & (summary.behind == 0.0))


def _thinned(rows: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, rows - 1, min(rows, MAX_POINTS)).round().astype(np.intp))


def _time_ticks(canvas: Canvas) -> list[tuple[float, str]]:
    """Return the ticks of a figure's time axis at round hours, minutes or seconds.

    At midnight, the label is the date.
    """
    begin, end = canvas.x
    most = 8.5 if canvas.width == WIDE else 4.5
    longest = TICK_STEPS[-1]
    multiple = longest * -(-(end - begin) // (most * longest))
    step = next((each for each in TICK_STEPS if (end - begin) / each <= most), multiple)
    first = int(-(-begin // step))
    stamps = [k * step for k in range(first, int(end // step) + 1)]
    return [(at, _time_label(at)) for at in stamps]


def _time_label(at: float) -> str:
    stamp = rfc3339(at)
    if at % DAY == 0:
        return stamp[5:10]
    return stamp[11:16] if at % MINUTE == 0 else stamp[11:19]


def _field_canvas(
    summary: ComparisonSummary, arms: NDArray[np.intp], rank: NDArray[np.intp], width: float
) -> Canvas:
    """Return the heat map of a figure, with a row for each sensor.

    `rank` has the number of each sensor's row. If there is no room for all names, the sensors that
    are most frequent in `arms` are named.
    """
    M = len(rank)
    sensors = [_shortened(each, width) for each in summary.backtest.recording.named_sensors]
    canvas = Canvas(
        _extent(summary, _first(summary)),
        (float(M), 0.0),
        height=max(170.0, 60 + 7.2 * M),
        left=label_width(sensors),
        width=width,
    )
    place = f"translate({canvas.left} {canvas.top})"
    size = f"scale({canvas.width - canvas.left - canvas.right} {canvas.depth})"
    canvas.add(f'<use class="heat" href="#{HEAT_MAP_ID}" transform="{place} {size}"/>')
    canvas.axes(_time_ticks(canvas), (), "time (UTC)")
    named: list[float] = []
    for arm in np.argsort(-np.bincount(arms, minlength=M), kind="stable"):
        at = canvas.at_y(float(rank[arm]) + 0.5)
        if all(abs(at - other) >= 12.0 for other in named):
            canvas.text(canvas.left - 6, at + 4, sensors[arm], "end")
            named.append(at)
    return canvas


def _shortened(name: str, width: float = WIDE) -> str:
    """Return a name as a label of a figure; a long name ends with an ellipsis."""
    most = MAX_LABEL[width]
    return f"{name[: most - 1]}…" if len(name) > most else name


def _draw_best_sensor(
    canvas: Canvas, times: Array, rows: NDArray[np.intp], interval: float
) -> None:
    """Draw bars in a figure: the periods in which each sensor is the best one.

    No bar is drawn while nothing was recorded.
    """
    is_gap = np.diff(times) > 1.5 * interval
    ends = np.flatnonzero(np.r_[(rows[1:] != rows[:-1]) | is_gap, True])
    begins = np.r_[0, ends[:-1] + 1]
    xs = np.column_stack((times[begins], times[ends] + interval, times[ends]))
    ys = np.column_stack((rows[begins] + 0.5, rows[ends] + 0.5, np.full(len(ends), np.nan)))
    canvas.line(xs.ravel(), ys.ravel(), "best")
