"""Page of results: a section in Markdown for an experiment, with tables, claims and tests."""

from collections.abc import Iterator

from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.experiment_report import cells_with_published, verdicts
from edge_tvbo.research.experiments.result_table import ResultTable, Table, table_labels
from edge_tvbo.research.experiments.statistics import with_error

WORDS = {True: "holds", False: "**fails**", None: "open"}
SYMBOLS = {"beta": "β", "delta_b": "δ_B", "epsilon": "ε"}  # of labels whose values are numbers


def section(experiment: Experiment, results: ResultTable, runs: int, seconds: float) -> str:
    """Return the section on one experiment, for the page of results.

    `runs` is the number of runs, and `seconds` is the time in s that they took.
    """
    command = f"edge-tvbo experiment {experiment.name}"
    if runs != experiment.runs:
        command += f" --runs {runs}"
    amount = f"{runs} {'run' if runs == 1 else 'runs'} in {_duration(seconds)}."
    if runs < experiment.runs:
        all_runs = _duration(seconds / runs * experiment.runs)
        amount += (
            f" Without `--runs`, it makes {experiment.runs} runs, which take about {all_runs}."
        )
    parts = [
        f"## {experiment.name}: {experiment.title}",
        f"Source: {experiment.source}.",
        f"The command `{command}` made {amount}",
        experiment.notes.strip(),
        *(_table(experiment, results, each) for each in experiment.tables),
        "Claims:",
        "\n".join(_claims(experiment, results)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _duration(seconds: float) -> str:
    if seconds < 5400.0:
        return f"{max(seconds / 60.0, 1.0):.0f} min"
    return f"{seconds / 3600.0:.1f} h"


def _claims(experiment: Experiment, results: ResultTable) -> Iterator[str]:
    yield from ("| result | claim | test |", "| --- | --- | --- |")
    for each in verdicts(experiment, results):
        yield f"| {WORDS[each.holds]} | {each.text} | {each.test} |"


def _table(experiment: Experiment, results: ResultTable, table: Table) -> str:
    """Return a Markdown table for the page: means, standard errors and published numbers."""
    cells: dict[tuple[str, str], str] = {}
    for cell, theirs in cells_with_published(experiment, results):
        labels = table_labels(cell)
        if table.number in ("", cell.number) and _is_shown(labels, table):
            text = with_error(cell.mean, experiment.error(results, cell))
            text += "" if theirs is None else f" / {theirs.mean:g}"
            cells[labels[table.rows], labels[table.columns]] = text
    columns = list(dict.fromkeys(column for _, column in cells))
    rows = list(dict.fromkeys(row for row, _ in cells))
    fixed = [
        _header(name, each[0]) if name in SYMBOLS else f"{name} {each[0]}"
        for name, each in table.where.items()
        if len(each) == 1
    ]
    corner = ", ".join([table.number, *fixed] if table.number else fixed)
    headers = [_header(table.columns, column) for column in columns]
    lines = [[corner, *headers], ["---"] * (1 + len(columns))]
    lines += [
        [_header(table.rows, row), *(cells.get((row, column), "") for column in columns)]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _header(label: str, value: str) -> str:
    """Return the header of a row or column of the page's tables: "ε = 0.03", or only the value."""
    return f"{SYMBOLS[label]} = {value}" if label in SYMBOLS else value


def _is_shown(labels: dict[str, str], table: Table) -> bool:
    has_both = {table.rows, table.columns} <= labels.keys()
    return has_both and all(labels.get(name) in values for name, values in table.where.items())
