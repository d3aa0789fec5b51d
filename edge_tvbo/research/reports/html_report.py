"""HTML report of a comparison: one page without scripts, external resources or embedded fonts."""

from collections.abc import Callable
from functools import partial
from html import escape

from edge_tvbo.messages.formatting import significant
from edge_tvbo.research.reports import figures, tables
from edge_tvbo.research.reports.figures import Figure
from edge_tvbo.research.reports.summary import ComparisonSummary, percent

UNFOLDED_RASTERS = 2
PROBABILITIES = (0.5, 0.8, 0.9, 0.95)  # probabilities of the intervals in the calibration table

STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4;
  --h1: #0969da; --h2: #bc4c00; --h3: #1a7f37; --h4: #8250df; --h5: #bf3989; --rest: #8c959f;
  --reset: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #e6edf3; --soft: #9198a1;
  --line: #30363d; --h1: #58a6ff; --h2: #f0883e; --h3: #56d364; --h4: #bc8cff; --h5: #ff7bc6;
  --rest: #6e7681; --reset: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 54rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin-bottom: .2rem; }
.scroll { overflow-x: auto; } .scroll:focus-visible { outline: 2px solid var(--h1); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
caption span { display: inline-block; max-width: min(52rem, 100vw - 2rem); }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
thead th { vertical-align: bottom; white-space: normal; font-weight: 600; }
th:first-child { text-align: left; }
tbody th { font-weight: 400; white-space: normal; min-width: 10rem; }
tr.best th, tr.best td { font-weight: 700; }
figure { margin: .5rem 0 1.5rem; } figcaption, .key { color: var(--soft); font-size: .9rem; }
figure div svg { display: block; width: 100%; font: 12px system-ui, sans-serif; }
.narrow { display: none; }
@media (max-width: 36rem) { .wide { display: none; } .narrow { display: block; } }
svg.aside { position: absolute; width: 0; height: 0; }
svg text { fill: var(--ink); } .grid { stroke: var(--line); fill: none; }
.tick { stroke: var(--soft); fill: none; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.line.thin { stroke-width: 1; stroke-dasharray: none; }
.band { fill: var(--c); opacity: .18; } .bar { fill: var(--c); opacity: .7; }
.hue1 { --c: var(--h1); } .hue2 { --c: var(--h2); } .hue3 { --c: var(--h3); }
.hue4 { --c: var(--h4); } .hue5 { --c: var(--h5); } .rest { --c: var(--rest); stroke-width: 1.2; }
.simple { stroke-dasharray: 6 3; } .ideal { --c: var(--soft); stroke-dasharray: 2 3; }
.heat { image-rendering: pixelated; } .best { --c: var(--ink); stroke-width: 5; }
.pick { fill: var(--h1); } .reset { stroke: var(--reset); stroke-dasharray: 3 2; fill: none; }
.key svg { width: 1.6em; height: .9em; vertical-align: baseline; }
.key span { margin-right: 1em; white-space: nowrap; }
summary { cursor: pointer; padding: .3rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
"""

KEY = (
    ('<path class="line best" d="M0 6H16"/>', "the {extreme} sensor"),
    ('<path class="pick" d="M6 3h5v5h-5z"/>', "the activated sensor"),
    ('<path class="reset" d="M8 0v10"/>', "a reset of the model"),
)


def html(summary: ComparisonSummary) -> str:
    """Return the whole page of the comparison report as HTML."""
    sections = (
        _table(summary),
        _section("Cumulative regret", _figure(partial(figures.regret_figure, summary))),
        _rasters(summary),
        _triggers(summary),
        _calibration(summary),
        _origin(summary),
    )
    title = escape(summary.title)
    sentences = "".join(f"<p>{escape(each)}</p>" for each in summary.sentences())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><main><h1>{title}</h1>{sentences}\n"
        + "\n".join(sections)
        + "\n</main></body></html>\n"
    )


def _table(summary: ComparisonSummary) -> str:
    caption = (
        "Policies are ordered by regret. The 95 % intervals are confidence intervals of the mean "
        "over seeds: they show the effect of the random draws, not the effect of other test days."
    )
    rows = tables.cells(summary)
    return _section("The policies", _html_table(caption, tables.HEADINGS, rows, bold=1))


def _rasters(summary: ComparisonSummary) -> str:
    drawn = [(row, _figure(partial(figures.raster_figure, summary, row))) for row in summary.rows]
    unfolded = "".join(
        f"<h3>{escape(row.name)}</h3>{figure}" for row, figure in drawn[:UNFOLDED_RASTERS]
    )
    folded = "".join(
        f"<details><summary>{escape(row.name)}</summary>{figure}</details>"
        for row, figure in drawn[UNFOLDED_RASTERS:]
    )
    samples = "".join(
        f'<span><svg viewBox="0 0 16 10" aria-hidden="true">{mark}</svg> '
        f"{meaning.format(extreme=summary.extreme)}</span>"
        for mark, meaning in KEY
    )
    scale = significant(summary.backtest.field.scale, 2)
    far = f"{scale} {summary.backtest.recording.unit}".strip()
    key = (
        f"<p>Each row is a sensor; the sensor that is the {summary.extreme} on average is at the "
        f"top. The stronger the colour, the closer the reading of the sensor is to that of the "
        f"{summary.extreme} sensor of the interval. Where there is no colour, the two readings "
        f"differ by {escape(far)} (one standard deviation of the training data) or more, or the "
        "sensor has no reading.</p>"
        f'<p class="key">{samples}</p>'
    )
    return _section("Activated sensors", figures.shared_heat_map(summary) + key + unfolded + folded)


def _triggers(summary: ComparisonSummary) -> str:
    drawn = [(row, _figure(partial(figures.trigger_figure, summary, row))) for row in summary.rows]
    parts = [f"<h3>{escape(row.name)}</h3>{figure}" for row, figure in drawn if figure]
    return (
        _section("Errors and the threshold of the event trigger", "".join(parts)) if parts else ""
    )


def _calibration(summary: ComparisonSummary) -> str:
    found = figures.calibrations(summary)
    if summary.backtest.pace.per_interval > 1:
        reason = (
            "There is no calibration, because several sensors were activated in an interval. Only "
            "the reply of the best of these sensors was recorded. Replies that are selected by "
            "their values do not show the calibration."
        )
        return _section("Calibration", f"<p>{reason}</p>")
    if not found:
        return ""
    rows = [
        (each.name, f"{len(each.z)}", *(percent(each.covered(share), 1) for share in PROBABILITIES))
        for each in found
    ]
    headings = ("policy", "replies", *(f"in {percent(p)} interval" for p in PROBABILITIES))
    caption = "Share of replies in predictive intervals, over all seeds."
    body = _figure(partial(figures.coverage_figure, found)) + _html_table(caption, headings, rows)
    histogram = _figure(partial(figures.histogram_figure, found[0]))
    return _section("Calibration", f"{body}<h3>{escape(found[0].name)}</h3>{histogram}")


def _origin(summary: ComparisonSummary) -> str:
    facts = summary.origin()
    command = facts.pop("Command")
    pairs = "".join(f"<dt>{name}</dt><dd>{escape(fact)}</dd>" for name, fact in facts.items())
    command_line = f"<dt>Command</dt><dd><code>{escape(command)}</code></dd>"
    files = (
        "<p>The file <code>results.csv</code> has the numbers of each policy and seed, and "
        "<code>results.md</code> has the table. The file <code>picks.csv</code> has the "
        "activations of all seeds. If several sensors were activated in an interval, "
        "<code>picks.csv</code> has only the best of these sensors.</p>"
    )
    return _section("Origin", f"<dl>{pairs}{command_line}</dl>{files}")


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _figure(draw: Callable[..., Figure | None]) -> str:
    """Return a figure as HTML, with a wide and a narrow picture; "" if `draw` returns None."""
    wide, narrow = draw(width=figures.WIDE), draw(width=figures.NARROW)
    if wide is None or narrow is None:
        return ""
    samples = "".join(
        f'<span><svg viewBox="0 0 16 10" aria-hidden="true"><path class="line {css}" d="M0 5H16"/>'
        f"</svg> {escape(text)}</span>"
        for text, css in narrow.key
    )
    key = f'<p class="key narrow">{samples}</p>' if samples else ""
    return (
        f'<figure><div class="wide">{wide.svg}</div><div class="narrow">{narrow.svg}</div>{key}'
        f"<figcaption>{escape(wide.caption)}</figcaption></figure>"
    )


def _html_table(
    caption: str, headings: tuple[str, ...], rows: list[tuple[str, ...]], bold: int = 0
) -> str:
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in headings)
    body = "".join(
        f"<tr{' class=best' if number < bold else ''}>"
        f'<th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>\n"
        for number, row in enumerate(rows)
    )
    return (
        f'<div class="scroll" tabindex="0"><table><caption><span>{escape(caption)}</span></caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )
