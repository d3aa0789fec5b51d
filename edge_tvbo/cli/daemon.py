"""The daemon, and its configuration."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from edge_tvbo.cli.options import duration, settings_of
from edge_tvbo.cli.output import EX_USAGE, print_json
from edge_tvbo.errors import ConfigError, DataError, MissingExtra

if TYPE_CHECKING:
    from edge_tvbo_adapters.mqtt.connection_check import CheckResult

    from edge_tvbo.config.settings import Settings

UNREACHABLE = 1  # exit status
EX_CONFIG = 78  # sysexits.h: what tells systemd not to start the daemon again


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--verbose", is_flag=True, help="Log each interval, not only what changes.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the log on stderr is written.",
)
def run(config: Path, verbose: bool, log_format: Literal["text", "json"]) -> None:
    """Run the daemon that CONFIG describes, until Ctrl-C or SIGTERM.

    Its exit status is 78 where CONFIG has to be mended first: no use to start it again.
    """
    from edge_tvbo.daemon import app
    from edge_tvbo.daemon import log_format as journal

    journal.start(log_format, verbose=verbose)
    try:
        app.run(partial(settings_of, config))
    except (ConfigError, DataError, MissingExtra) as error:
        click.echo(error.told(), err=True)
        raise click.exceptions.Exit(EX_CONFIG) from None


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--connect", is_flag=True, help="Try the broker too; nothing is changed there.")
@click.option(
    "--listen",
    "seconds",
    default="5s",
    show_default=True,
    callback=duration,
    help="With --connect: how long the sensors are listened to.",
)
@click.option("--explain", is_flag=True, help="Say where each setting is from.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(config: Path, connect: bool, seconds: float, explain: bool, as_json: bool) -> None:
    """Read CONFIG and report every mistake in it, with its line.

    The exit status is 0 where all is good, 1 where the broker is not as CONFIG has it, and 2 where
    CONFIG has to be mended first. Each mistake has a code, which docs/errors.md explains.
    """
    from edge_tvbo.config.loader import origins

    try:
        settings = settings_of(config)
    except ConfigError as error:
        if not as_json:
            raise
        alone = [{"file": str(config), "message": str(error), "code": error.code}]
        print_json({"ok": False, "findings": getattr(error, "findings", alone)})
        raise click.exceptions.Exit(EX_USAGE) from None
    sensors = sum(len(field.sensors) for field in settings.fields.values())
    if not as_json:
        click.echo(f"{config}: good: {len(settings.fields)} field(s), {sensors} sensor(s)")
    if explain:
        click.echo("\n".join(origins(config)))
    results = list(_tried(settings, seconds, as_json)) if connect else []
    good = all(result.good for result in results)
    if as_json:
        print_json(
            {"ok": good, "fields": len(settings.fields), "sensors": sensors}
            | ({"broker": results} if connect else {})
        )
    if not good:
        raise click.exceptions.Exit(UNREACHABLE)


def _tried(settings: "Settings", seconds: float, as_json: bool) -> "Iterator[CheckResult]":
    """Try the broker, and say what comes of it as it comes."""
    from edge_tvbo_adapters.mqtt.connection_check import probe

    for result in probe(settings.mqtt, settings.instance, settings.fields, seconds):
        if not as_json:
            code = f" [{result.code}]" if result.code else ""
            click.echo(f"{'good' if result.good else 'BAD '}  {result.text}{code}")
        yield result


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
def report(config: Path) -> None:
    """Print what a public bug report wants to know of CONFIG, without secrets, hosts and names."""
    from edge_tvbo_adapters.storage.file_store import FileStore
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    from edge_tvbo.setup import bug_report

    click.echo(bug_report.report(config, settings_of, FileStore, HistoryReader))


@click.group()
def config() -> None:
    """Say what can be configured."""


@config.command("explain")
def config_explain() -> None:
    """Print every setting of a configuration, with its range and default."""
    from edge_tvbo.config.docs import explain

    click.echo(explain())
