"""Report of an experiment: files with results and figures, and a comparison with the paper."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from edge_tvbo.errors import MissingExtra, naming_file
from edge_tvbo.messages.formatting import csv_table, significant, text_table
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.result_table import (
    Cell,
    Expectation,
    PublishedValue,
    ResultTable,
    Row,
    case_key,
)
from edge_tvbo.research.experiments.statistics import standard_errors_apart, summarise

FIGURE_SIZE = (11, 6.5)  # inches
WORDS = {True: "holds", False: "FAILS", None: "open"}  # word of a verdict


def write_report(experiment: Experiment, rows: Sequence[Row], directory: Path) -> ResultTable:
    """Write the files of an experiment's report, and return the table of its results.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed. The files ``runs.csv`` and ``summary.json`` are then
        written, but not the pictures, such as ``figure.png`` and ``figure.svg``.
    """
    results = summarise(rows)
    with naming_file(path := directory / "runs.csv"):
        path.write_text(_csv(rows), encoding="utf-8")
    document = msgspec.json.format(msgspec.json.encode(_document(experiment, results)), indent=1)
    with naming_file(path := directory / "summary.json"):
        path.write_bytes(document + b"\n")
    _draw_figures(experiment, results, directory)
    return results


def comparison_table(experiment: Experiment, results: ResultTable) -> str:
    """Return, for the report, an experiment's results next to the paper's, as a text table.

    Each mean is followed by its standard error (se).
    """
    lines = [["case", "number", "here", "± se", "published", "± se", "difference"]]
    for cell, theirs in cells_with_published(experiment, results):
        line = [
            " ".join(cell.case.values()),
            cell.number,
            significant(cell.mean, 4),
            significant(experiment.error(results, cell), 2) if cell.runs > 1 else "-",
        ]
        if theirs is None:
            line += ["", "", ""]
        else:
            apart = standard_errors_apart(cell, theirs)
            line += [
                significant(theirs.mean, 4),
                "" if theirs.error is None else significant(theirs.error, 2),
                "" if apart is None else f"{apart:+.1f} se",
            ]
        lines.append(line)
    return text_table(lines, left=2)


def cells_with_published(
    experiment: Experiment, results: ResultTable
) -> Iterator[tuple[Cell, PublishedValue | None]]:
    """Yield each cell of an experiment's results, with the published value of the same number."""
    published = {case_key(each.case, each.number): each for each in experiment.published()}
    for cell in results.cells:
        yield cell, published.get(case_key(cell.case, cell.number))


def verdicts(experiment: Experiment, results: ResultTable) -> list[Expectation]:
    """Return the expectations of an experiment, for the report.

    An expectation is open if there are too few runs to tell, or if its test is not significant.
    """
    found = []
    for each in experiment.expectations(results):
        needed = min(each.runs_needed, experiment.runs)
        if results.runs < needed:
            reason = f"too few runs: {results.runs}; {needed} are needed"
            found.append(each._replace(holds=None, test=reason))
        else:
            found.append(each)
    return found


def check_expectations(experiment: Experiment, results: ResultTable) -> str:
    """Return a line of the report per expectation: its verdict, its text, and the reason."""
    return "\n".join(
        f"{WORDS[each.holds]:6} {each.text}" + (f" ({each.test})" if each.test else "")
        for each in verdicts(experiment, results)
    )


def _csv(rows: Sequence[Row]) -> str:
    labels = list(dict.fromkeys(label for row in rows for label in row.case))
    numbers = list(dict.fromkeys(number for row in rows for number in row.numbers))
    lines: list[list[object]] = []
    for row in rows:
        cells = [row.case.get(label, "") for label in labels]
        lines.append([row.run, *cells, *(row.numbers.get(number, "") for number in numbers)])
    return csv_table(["run", *labels, *numbers], lines)


def _document(experiment: Experiment, results: ResultTable) -> dict[str, Any]:
    cells = []
    for cell, theirs in cells_with_published(experiment, results):
        entry = {**cell._asdict(), "error": experiment.error(results, cell)}
        if theirs is not None:
            entry["printed"] = {"mean": theirs.mean, "sd": theirs.sd, "runs": theirs.runs}
            entry["standard_errors_apart"] = standard_errors_apart(cell, theirs)
        cells.append(entry)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "claims": [
            {"text": each.text, "holds": each.holds, "test": each.test}
            for each in verdicts(experiment, results)
        ],
        "cells": cells,
    }


def check_plots() -> None:
    """Raise `MissingExtra` if matplotlib, which draws a report's figures, is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "plots")


def _draw_figures(experiment: Experiment, results: ResultTable, directory: Path) -> None:
    check_plots()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "edge_tvbo"}):
        for name, draw in experiment.pictures().items():
            figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
            draw(figure, results)
            with naming_file(path := directory / f"{name}.png"):
                figure.savefig(path, dpi=120, metadata={"Software": None})
            with naming_file(path := directory / f"{name}.svg"):
                figure.savefig(path, metadata={"Date": None})
