"""Command `run`, which runs the daemon."""

import faulthandler
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from edge_tvbo.cli.options import config_argument
from edge_tvbo.cli.settings import settings_of, verbose_settings_of
from edge_tvbo.errors import ConfigError, DataError, MissingExtra, UntestedPackage, error_text

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings

EX_CONFIG = 78  # from sysexits.h; systemd does not restart a daemon with this exit status


@click.command()
@config_argument
@click.option(
    "--verbose",
    is_flag=True,
    help="Set the log level to debug: log every interval, each MQTT message and each attempt to "
    "connect. An area with its own level in [log] keeps this level.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log on stderr.",
)
def run(config: Path, verbose: bool, log_format: Literal["text", "json"]) -> None:
    """Run the daemon with CONFIG until Ctrl-C.

    SIGTERM stops the daemon too, SIGHUP reloads CONFIG, and SIGUSR1 logs the status and stores the
    history. The exit status is 78 if CONFIG is invalid, or if a package is missing or has the wrong
    version. systemd does not restart a daemon that exits with this status.
    """
    from edge_tvbo.daemon.memory import collection_after_start
    from edge_tvbo.daemon.signals import catch_signals

    # Signals during the imports are ignored: the configuration has not been read yet.
    with catch_signals(signal.SIGHUP, signal.SIGUSR1), collection_after_start():
        _run(config, verbose_settings_of if verbose else settings_of, log_format)


def _run(
    config: Path, read: "Callable[[Path], Settings]", log_format: Literal["text", "json"]
) -> None:
    if sys.__stderr__:
        # systemd sends SIGABRT to a daemon that hangs. With all threads, faulthandler could crash
        # while it reads the frames of a running thread, such as a thread that connects.
        faulthandler.enable(sys.__stderr__, all_threads=False)
    from edge_tvbo.daemon import app
    from edge_tvbo.daemon.log_format import start as start_log

    start_log(log_format)
    try:
        app.run(config, read)
    except (ConfigError, DataError, MissingExtra, UntestedPackage) as error:
        click.echo(error_text(error), err=True)
        raise click.exceptions.Exit(EX_CONFIG) from None
