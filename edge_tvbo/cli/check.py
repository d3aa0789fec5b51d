"""Command `check`: checks a configuration and, if wanted, the connection to the broker."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.options import config_argument, duration_option, given_options
from edge_tvbo.cli.output import EX_BROKER, EX_USAGE, print_json, printable
from edge_tvbo.cli.settings import buildable_settings_of
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo_adapters.mqtt.connection_check import CheckResult

    from edge_tvbo.config.settings import Settings

log = logging.getLogger(__name__)


@click.command()
@config_argument
@click.option(
    "--connect",
    is_flag=True,
    help="Also test the connection to the broker; nothing on the broker is changed.",
)
@click.option(
    "--listen",
    "seconds",
    default="5s",
    show_default=True,
    callback=duration_option,
    metavar="DURATION",
    help="How long to wait for readings, with --connect.",
)
@click.option("--explain", is_flag=True, help="Print the origin of each setting.")
@click.option("--json", "as_json", is_flag=True, help="Print the errors and warnings as JSON.")
def check(config: Path, connect: bool, seconds: float, explain: bool, as_json: bool) -> None:
    """Check CONFIG: print all errors and warnings.

    The command builds everything that `run` builds, except the connection to the broker. Each error
    is printed with its line and a code, which docs/errors.md explains. The exit status is 0 if
    there is no error, 1 if a test of the broker fails, and 2 if CONFIG is invalid. A source from
    which no reading arrived is marked with "none". Such a source does not change the exit status,
    because its sensors may report rarely.
    """
    from edge_tvbo.cli.logged_warnings import logged_warnings
    from edge_tvbo.config.loader import origins
    from edge_tvbo.messages.formatting import counted

    if not connect and given_options("seconds"):
        raise ConfigError("--listen needs --connect; add  --connect")
    with logged_warnings(config) as warnings:
        try:
            settings = buildable_settings_of(config)
        except ConfigError as error:
            if not as_json:
                raise
            finding = {"file": str(config), "message": str(error), "code": error.code}
            findings = getattr(error, "findings", [finding])
            print_json({"ok": False, "findings": findings, "warnings": warnings})
            raise click.exceptions.Exit(EX_USAGE) from None
        _warn_of_closed_directory(config, settings.state.dir)
    sensors = sum(len(field.sensors) for field in settings.fields.values())
    if not as_json:
        fields = counted(len(settings.fields), "field")
        click.echo(f"{config}: good: {fields}, {counted(sensors, 'sensor')}")
    explained = origins(config) if explain else []
    if explained and not as_json:
        click.echo("\n".join(explained))
    results = list(_try_broker(settings, seconds, as_json)) if connect else []
    good = all(result.good for result in results)
    if as_json:
        print_json(
            {
                "ok": good,
                "fields": len(settings.fields),
                "sensors": sensors,
                "warnings": warnings,
            }
            | ({"origins": explained} if explain else {})
            | ({"broker": results} if connect else {})
        )
    if not good:
        raise click.exceptions.Exit(EX_BROKER)


def _warn_of_closed_directory(config: Path, state_dir: str) -> None:
    """Check the state directory: log a warning if this user cannot write to it, or create it."""
    from edge_tvbo.config.loader import setting_warning

    directory = Path(state_dir)
    existing = next(each for each in (directory, *directory.parents) if os.access(each, os.F_OK))
    if state_dir and not os.access(existing, os.W_OK | os.X_OK):
        text = (
            f"state.dir is {state_dir}, but this user cannot write to {existing}. A daemon of this "
            "user would store nothing. Change the permissions or state.dir, or run the daemon as "
            "the owner of the directory."
        )
        log.warning("%s", setting_warning(config, ("state", "dir"), text))


def _try_broker(settings: "Settings", seconds: float, as_json: bool) -> "Iterator[CheckResult]":
    """Check the connection to the broker; yield each result, and print it if `as_json` is false."""
    from edge_tvbo_adapters.homeassistant.discovery import topic_for
    from edge_tvbo_adapters.mqtt.connection_check import DiscoveryTopics, check_connection

    instance, discovery = settings.instance, None
    if own := settings.homeassistant:
        discovery = DiscoveryTopics(topic_for(own.prefix, instance), own.birth)
    for result in check_connection(settings.mqtt, instance, settings.fields, seconds, discovery):
        if not as_json:
            code = f" [{result.code}]" if result.code else ""
            click.echo(printable(f"{result.label}  {result.text}{code}"))
        yield result
