"""What a comparison came to, for people who were not there: a page, two sheets, a table.

`summary` counts and says it in words, `svg` draws shapes, `figures` draws what was found with them,
`page` and `sheets` lay it out. Nothing here knows the time: the same seeds give the same bytes.
"""

from pathlib import Path

from edge_tvbo.errors import ConfigError
from edge_tvbo.research.reports import csv_tables, html_report
from edge_tvbo.research.reports.summary import Summary
from edge_tvbo.simulation.backtest import Backtest, Result


def prepare(directory: Path) -> None:
    """Make `directory`, before the work is done; raises `ConfigError` where that cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{directory}: {error.strerror}; --out names a directory for the report, "
            "which is made if need be."
        ) from error


def write(backtest: Backtest, results: list[Result], directory: Path, command: str) -> Path:
    """Write ``report.html``, ``results.csv``, ``picks.csv`` and ``results.md`` into `directory`.

    Gives the page. `command` is what a person types to get the same again.
    """
    summary = Summary(backtest, results, command)
    documents = {
        "results.csv": csv_tables.results(summary),
        "picks.csv": csv_tables.picks(summary),
        "results.md": csv_tables.markdown(summary),
        "report.html": html_report.html(summary),
    }
    for name, text in documents.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory / "report.html"
