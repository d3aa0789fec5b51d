"""Command that prints a bug report."""

from pathlib import Path

import click

from edge_tvbo.cli.options import config_argument
from edge_tvbo.cli.settings import settings_of


@click.command()
@config_argument
def report(config: Path) -> None:
    """Print a bug report without secrets.

    The report contains versions, the settings of CONFIG, and the counters and last decisions of its
    daemon. Only numbers, times, words from fixed lists, units, topics and sensor ids are shown;
    all other values are replaced by ***. Read the report before you publish it.
    """
    from edge_tvbo_adapters.storage.history_reader import HistoryReader
    from edge_tvbo_adapters.storage.state_files import FileStore

    from edge_tvbo.setup.bug_report import report as bug_report

    click.echo(bug_report(config, settings_of, FileStore, HistoryReader))
