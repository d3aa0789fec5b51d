"""Reports of a comparison of policies: an HTML page, two CSV files and a Markdown table.

`summary` computes the numbers and the sentences, `svg` draws shapes, and `figures` draws the
results. `html_report` and `tables` produce the files. The files do not contain the time of
writing, so the same seeds give identical files.
"""

from pathlib import Path

from edge_tvbo.errors import ConfigError, naming_file
from edge_tvbo.research.reports import html_report, tables
from edge_tvbo.research.reports.summary import ComparisonSummary
from edge_tvbo.simulation.backtest import Backtest, Result


def prepare(directory: Path) -> None:
    """Create the directory for the reports of a comparison; raise `ConfigError` if that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{directory}: {error.strerror}; --out must name a directory for the report, "
            "which is created if it is missing."
        ) from error


def write(backtest: Backtest, results: list[Result], directory: Path, command: str) -> Path:
    """Write ``report.html``, ``results.csv``, ``picks.csv`` and ``results.md`` into `directory`.

    Return the path of the HTML page. `command` is the command line that produces the same results.
    """
    summary = ComparisonSummary(backtest, results, command)
    documents = {
        "results.csv": tables.results(summary),
        "picks.csv": tables.picks(summary),
        "results.md": tables.markdown(summary),
        "report.html": html_report.html(summary),
    }
    for name, text in documents.items():
        with naming_file(path := directory / name):
            path.write_text(text, encoding="utf-8")
    return directory / "report.html"
