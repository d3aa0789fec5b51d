"""What runs came to: cells, a comparison with print, claims, files and figures."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from edge_tvbo.errors import MissingExtra
from edge_tvbo.research.experiments.base import Expectation, Experiment, Row, Summary
from edge_tvbo.research.experiments.statistics import errors_apart, summarise


def write(experiment: Experiment, rows: Sequence[Row], directory: Path) -> Summary:
    """Write ``runs.csv``, ``summary.json``, ``figure.png`` and ``figure.svg``; give the summary.

    Raises
    ------
    MissingExtra
        Without matplotlib; the other two files are there then.
    """
    summary = summarise(rows)
    (directory / "runs.csv").write_text(_csv(rows), encoding="utf-8")
    document = msgspec.json.format(msgspec.json.encode(_document(experiment, summary)), indent=1)
    (directory / "summary.json").write_bytes(document + b"\n")
    _figures(experiment, rows, summary, directory)
    return summary


def table(experiment: Experiment, summary: Summary) -> str:
    """Give the comparison with print as text."""
    printed = {_key(each.number, each.case): each for each in experiment.printed()}
    lines = [["case", "number", "here", "±", "printed", "±", "apart"]]
    for cell in summary.cells:
        theirs = printed.get(_key(cell.number, cell.case))
        line = [
            " ".join(cell.case.values()),
            cell.number,
            f"{cell.mean:.4g}",
            f"{cell.sd:.2g}" if cell.runs > 1 else "-",
        ]
        if theirs is None:
            line += ["", "", ""]
        else:
            apart = errors_apart(cell, theirs)
            line += [
                f"{theirs.mean:.4g}",
                "" if theirs.sd is None else f"{theirs.sd:.2g}",
                "" if apart is None else f"{apart:+.1f} se",
            ]
        lines.append(line)
    return _aligned(lines)


def verdicts(claims: Sequence[Expectation]) -> str:
    """Give claims as text, one in a line."""
    return "\n".join(f"{'holds' if each.holds else 'FAILS':6} {each.text}" for each in claims)


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            word.ljust(width) if column < 2 else word.rjust(width)
            for column, (word, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _key(number: str, case: dict[str, str]) -> tuple[Any, ...]:
    return (number, *sorted(case.items()))


def _csv(rows: Sequence[Row]) -> str:
    labels = list(dict.fromkeys(label for row in rows for label in row.case))
    numbers = list(dict.fromkeys(number for row in rows for number in row.numbers))
    text = io.StringIO()
    sheet = csv.writer(text, lineterminator="\n")
    sheet.writerow(["run", *labels, *numbers])
    for row in rows:
        cells = [row.case.get(label, "") for label in labels]
        sheet.writerow([row.run, *cells, *(row.numbers.get(number, "") for number in numbers)])
    return text.getvalue()


def _document(experiment: Experiment, summary: Summary) -> dict[str, Any]:
    printed = {_key(each.number, each.case): each for each in experiment.printed()}
    cells = []
    for cell in summary.cells:
        entry = {**cell._asdict(), "error": cell.error}
        theirs = printed.get(_key(cell.number, cell.case))
        if theirs is not None:
            entry["printed"] = {"mean": theirs.mean, "sd": theirs.sd, "runs": theirs.runs}
            entry["standard_errors_apart"] = errors_apart(cell, theirs)
        cells.append(entry)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "claims": [each._asdict() for each in experiment.claims(summary)],
        "cells": cells,
    }


def _figures(
    experiment: Experiment, rows: Sequence[Row], summary: Summary, directory: Path
) -> None:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    with matplotlib.rc_context({"svg.hashsalt": "edge_tvbo"}):
        figure = Figure(figsize=(9, 5), layout="constrained")
        experiment.draw(figure, rows, summary)
        figure.savefig(directory / "figure.png", dpi=120, metadata={"Software": None})
        figure.savefig(directory / "figure.svg", metadata={"Date": None})
