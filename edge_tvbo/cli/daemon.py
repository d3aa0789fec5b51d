"""The daemon, and its configuration."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

import click

from edge_tvbo.cli.inputs import POSITIVE, settings_of
from edge_tvbo.cli.outputs import EX_USAGE, print_json
from edge_tvbo.errors import ConfigError, DataError, EdgeTvboError, MissingExtra

EX_CONFIG = 78  # sysexits.h: what tells systemd not to start the daemon again


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--verbose", is_flag=True, help="Log every message, not only what changes.")
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
    from edge_tvbo.runtime import journal, lifecycle

    journal.start(log_format, verbose=verbose)
    try:
        lifecycle.run(partial(settings_of, config))
    except (ConfigError, DataError, MissingExtra) as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(EX_CONFIG) from None


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(config: Path, as_json: bool) -> None:
    """Read CONFIG and report every mistake in it, with its line."""
    try:
        settings = settings_of(config)
    except ConfigError as error:
        if not as_json:
            raise
        alone = [{"file": str(config), "message": str(error)}]
        print_json({"ok": False, "findings": getattr(error, "findings", alone)})
        raise click.exceptions.Exit(EX_USAGE) from None
    sensors = sum(len(field.sensors) for field in settings.fields.values())
    if as_json:
        print_json({"ok": True, "fields": len(settings.fields), "sensors": sensors})
    else:
        click.echo(f"{config}: good: {len(settings.fields)} field(s), {sensors} sensor(s)")


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
def report(config: Path) -> None:
    """Print what a public bug report wants to know of CONFIG, without secrets, hosts and names."""
    from edge_tvbo import diagnosis

    click.echo(diagnosis.report(config, settings_of))


@click.group()
def config() -> None:
    """Say what can be configured."""


@config.command("explain")
def config_explain() -> None:
    """Print every setting of a configuration, with its range and default."""
    from edge_tvbo.config import explain

    click.echo(explain())


@click.command()
@click.argument("config", type=click.Path(path_type=Path), default="edge-tvbo.toml")
@click.option("--sensor", "sensors", multiple=True, required=True, help="An id; repeat it.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The broker.")
@click.option("--port", default=1883, show_default=True)
@click.option("--topic", default="sensors/{sensor}/temperature", show_default=True)
@click.option("--interval", default="10min", show_default=True)
@click.option("--unit", default="°C", show_default=True)
@click.option("--mean", default=20.0, show_default=True, help="What readings are on average.")
@click.option("--spread", default=3.0, show_default=True, type=POSITIVE, help="Their sd.")
def init(config: Path, **answers: Any) -> None:
    """Write a commented configuration to CONFIG, to be completed with the sensors' positions."""
    from edge_tvbo.starter import starter

    if config.exists():
        raise ConfigError(f"{config} is there already; name another file, or move it away.")
    draft = config.with_name(config.name + ".new")
    draft.write_text(starter(**answers), encoding="utf-8")
    try:
        settings_of(draft)
    except EdgeTvboError:
        draft.unlink()
        raise
    draft.replace(config)
    click.echo(f"Wrote {config}. Put the sensors' positions in, then:  edge-tvbo check {config}")


COMMANDS = (run, check, report, config, init)
