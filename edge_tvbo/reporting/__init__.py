"""What a comparison came to, for people who were not there: a page, two sheets, a table.

`summary` counts and says it in words, `svg` draws shapes, `figures` draws what was found with them,
`page` and `sheets` lay it out. Nothing here knows the time: the same seeds give the same bytes.
"""

from pathlib import Path

from edge_tvbo.backtest import Backtest, Result
from edge_tvbo.errors import ConfigError
from edge_tvbo.reporting import page, sheets
from edge_tvbo.reporting.summary import Summary


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
        "results.csv": sheets.results(summary),
        "picks.csv": sheets.picks(summary),
        "results.md": sheets.markdown(summary),
        "report.html": page.html(summary),
    }
    for name, text in documents.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory / "report.html"
