"""The same results for programs: comma-separated values, and a table in Markdown."""

import csv
import io
from collections.abc import Iterable
from typing import Any

import msgspec

from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.research.reports.summary import Summary, percent
from edge_tvbo.simulation.backtest import ORACLE, UNIT

RESULTS = (
    "policy",
    "seed",
    "regret_per_interval",
    "activations",
    "missed",
    "resets",
    "settings",
    "decisions_sha256",
)
PICKS = (
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
HEADINGS = (
    "policy",
    f"regret per interval ({UNIT})",
    "95 % interval",
    "readings",
    "of always-on",
    "missed",
    "resets",
)


def results(summary: Summary) -> str:
    """Give a line for each policy and seed; regret in training standard deviations."""
    return _sheet(RESULTS, _results(summary))


def picks(summary: Summary) -> str:
    """Give a line for each policy, seed and interval, in the recording's unit.

    An empty cell is what there was not: an answer, a belief, a threshold.
    """
    return _sheet(PICKS, _picks(summary))


def cells(summary: Summary) -> list[tuple[str, ...]]:
    """Give the table's rows under `HEADINGS`, always-on the last."""
    rows = [
        (
            row.name,
            f"{row.mean:.3f}",
            row.interval,
            f"{row.asked:.0f}",
            percent(row.share, 1),
            f"{row.missed:.4g}",
            f"{row.resets:.4g}",
        )
        for row in summary.rows
    ]
    return [*rows, ("always-on", "0.000", "", f"{summary.always_on}", "100.0 %", "", "")]


def markdown(summary: Summary) -> str:
    """Give title, sentences, table and origin as Markdown."""
    table = [HEADINGS, ("---", *["---:"] * (len(HEADINGS) - 1)), *cells(summary)]
    lines = [f"# {summary.title}", "", *summary.sentences(), ""]
    lines += [f"| {' | '.join(row)} |" for row in table]
    lines += ["", *(f"- {name}: {fact}" for name, fact in summary.facts().items())]
    return "\n".join(lines) + "\n"


def _results(summary: Summary) -> Iterable[tuple[Any, ...]]:
    for result in summary.results:
        if result.policy == ORACLE:
            continue
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


def _picks(summary: Summary) -> Iterable[tuple[Any, ...]]:
    sensors = summary.backtest.recording.sensors
    times = [rfc3339(at) for at in summary.times]
    best = summary.best.tolist()
    best_values = [row[arm] for row, arm in zip(summary.values.tolist(), best, strict=True)]
    for result in summary.results:
        if result.policy == ORACLE:
            continue
        for seed, steps in enumerate(result.steps):
            for t, (pick, regret, answer, *belief, reset) in enumerate(steps.tolist()):
                yield (
                    *(result.policy, seed, t, times[t]),
                    *(sensors[pick] if pick >= 0 else "", _cell(answer)),
                    *(sensors[best[t]], best_values[t], round(regret, 9)),
                    *map(_cell, belief),
                    int(reset),
                )


def _cell(value: float) -> float | str:
    return "" if value != value else round(value, 9)


def _sheet(header: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    sheet = csv.writer(text, lineterminator="\n")
    sheet.writerow(header)
    sheet.writerows(rows)
    return text.getvalue()
