"""CSV files and Markdown table of a comparison of policies."""

from collections.abc import Iterable
from typing import Any

import msgspec

from edge_tvbo.messages.formatting import csv_table, rfc3339
from edge_tvbo.research.reports.summary import ComparisonSummary, percent
from edge_tvbo.simulation.backtest import UNIT_LABEL

RESULT_COLUMNS = (
    "policy",
    "seed",
    "regret_per_interval",
    "activations",
    "missed",
    "resets",
    "settings",
    "decisions_sha256",
)
PICK_COLUMNS = (
    "policy",
    "seed",
    "interval",
    "time",
    "sensor",
    "value",
    "best_sensor",
    "best_value",
    "regret",
    "mean",
    "std",
    "surprise",
    "threshold",
    "reset",
)
ALL_SENSORS = "always-on (all sensors in each interval)"
HEADINGS = (
    "policy",
    f"regret per interval ({UNIT_LABEL})",
    "95 % interval",
    "activations",
    "activations, as a share of always-on",
    "timed out",
    "resets",
)


def results(summary: ComparisonSummary) -> str:
    """Return the table ``results.csv``, which has a line for each policy and seed.

    Regret is in standard deviations of the training data.
    """
    return csv_table(RESULT_COLUMNS, _result_rows(summary))


def picks(summary: ComparisonSummary) -> str:
    """Return the table ``picks.csv``, which has a line for each policy, seed and interval.

    Values are in the unit of the recording. A cell is empty if there is no value, for example
    because there is no reply, no model or no threshold.
    """
    return csv_table(PICK_COLUMNS, _pick_rows(summary))


def cells(summary: ComparisonSummary) -> list[tuple[str, ...]]:
    """Return the rows of the comparison table: one for each policy, and the row `ALL_SENSORS`.

    The row `ALL_SENSORS` shows what it costs to activate all sensors in each interval.
    """
    rows = [
        (
            row.name,
            f"{row.mean:.3f}",
            row.interval,
            f"{row.activations:.0f}",
            percent(row.share, 1),
            f"{row.missed:.4g}",
            f"{row.resets:.4g}",
        )
        for row in summary.rows
    ]
    return [*rows, (ALL_SENSORS, "0.000", "", f"{summary.always_on}", "100.0 %", "", "")]


def markdown(summary: ComparisonSummary) -> str:
    """Return the content of ``results.md``: title, sentences, Markdown table, and origin."""
    table = [HEADINGS, ("---", *["---:"] * (len(HEADINGS) - 1)), *cells(summary)]
    lines = [f"# {summary.title}", "", *summary.sentences(), ""]
    lines += [_markdown_row(row) for row in table]
    lines += ["", *(f"- {name}: {fact}" for name, fact in summary.origin().items())]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _result_rows(summary: ComparisonSummary) -> Iterable[tuple[Any, ...]]:
    for result in summary.played:
        settings = msgspec.json.encode(result.settings).decode()
        counts = zip(
            result.regret.mean(axis=1).tolist(),
            result.activations,
            result.missed,
            result.resets,
            result.digests,
            strict=True,
        )
        for seed, (regret, activations, missed, resets, digest) in enumerate(counts):
            yield result.policy, seed, regret, activations, missed, resets, settings, digest


def _pick_rows(summary: ComparisonSummary) -> Iterable[tuple[Any, ...]]:
    sensors = summary.backtest.recording.sensors
    times = [rfc3339(at) for at in summary.times]
    best = summary.best.tolist()
    best_values = [row[arm] for row, arm in zip(summary.values.tolist(), best, strict=True)]
    for result in summary.played:
        for seed, steps in enumerate(result.steps):
            for t, (pick, regret, reply, mean, *model, reset, _) in enumerate(steps.tolist()):
                yield (
                    *(result.policy, seed, t, times[t]),
                    *(sensors[pick] if pick >= 0 else "", _exact(reply)),
                    *(sensors[best[t]], best_values[t], _cell(regret)),
                    _exact(mean),
                    *map(_cell, model),
                    int(reset),
                )


def _exact(value: float) -> float | str:
    """Return a reading or a mean of ``picks.csv``, or "" if it is NaN."""
    return "" if value != value else value


def _cell(value: float) -> float | str:
    """Return a difference or a std of ``picks.csv`` with nine significant digits, or "" if NaN."""
    return _exact(float(f"{value:.9g}"))
