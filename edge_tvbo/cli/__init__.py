"""Command line of edge-tvbo: one module per group of commands.

The modules that a command needs are imported when the command runs, and not before. So ``--help``
and ``check`` start quickly.
"""

import os
import sys
from errno import EPIPE
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from edge_tvbo import __version__
from edge_tvbo.cli.output import EX_BROKER, EX_INTERRUPTED, EX_USAGE
from edge_tvbo.errors import EdgeTvboError, LinkError, error_text

SECTIONS = {  # commands as --help lists them, each with the module that defines it
    "Daemon": {
        "init": "init",
        "check": "check",
        "run": "run",
        "status": "status",
        "why": "why",
        "dashboard": "dashboard",
        "config": "config",
        "report": "bug_report",
        "ha": "homeassistant",
        "precompile": "precompile",
    },
    "Recordings": {
        "demo": "demo",
        "data": "datasets",
        "export": "export",
        "fit": "fit",
        "replay": "replay",
        "compare": "replay",
        "simulate": "demo",
    },
    "Papers": {
        "experiment": "experiments",
        "bound": "experiments",
        "benchmark": "benchmark",
    },
    "Editors and shells": {
        "schema": "editors",
        "completion": "editors",
    },
}
MODULES = {name: module for section in SECTIONS.values() for name, module in section.items()}
ALIASES = {"nodes": "simulate", "warm": "precompile"}  # old names, which --help does not list


class Commands(click.Group):
    """Group of all commands of edge-tvbo.

    If a command fails with an expected error, the group prints the error, and exits.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands of edge-tvbo."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with the present or former name `cmd_name`; None if there is none."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in MODULES:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{MODULES[cmd_name]}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of edge-tvbo that the user typed.

        An unknown name raises an error that lists similar names.
        """
        self.commands = dict.fromkeys(MODULES, ctx.command)  # where click looks for similar names
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of edge-tvbo for --help, in sections with titles."""
        width = formatter.width - 6 - max(map(len, MODULES))
        for title, names in SECTIONS.items():
            commands = {name: self.get_command(ctx, name) for name in names}
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name, each.get_short_help_str(width))
                        for name, each in commands.items()
                        if each
                    ]
                )

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command of edge-tvbo; if an expected error occurs, print its text and exit.

        The exit status is 1 after an error of the broker, 2 after any other error, and 130 after
        Ctrl-C.
        """
        try:
            return super().invoke(ctx)
        except (EdgeTvboError, OSError) as error:
            if isinstance(error, OSError) and error.errno == EPIPE:
                raise
            click.echo(error_text(error), err=True)
            ctx.exit(EX_BROKER if isinstance(error, LinkError) else EX_USAGE)
        except (KeyboardInterrupt, click.Abort) as error:
            if isinstance(error, click.Abort) and isinstance(error.__context__, EOFError):
                raise
            click.echo(err=True)  # ends the line on which the terminal shows ^C
            ctx.exit(EX_INTERRUPTED)


@click.group(
    cls=Commands,
    short_help="Select the next sensor to activate",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="edge-tvbo")
def main() -> None:
    """Select which sensor of an MQTT network to activate next.

    The daemon follows the hottest (or loudest, or most polluted) spot with a fraction of the
    readings. Begin with `edge-tvbo demo`, or with `edge-tvbo init` for your own sensors.

    Environment variables override the configuration: EDGE_TVBO__MQTT__HOST sets `host` of [mqtt].
    The exit status is 0 on success, 1 if a broker or daemon is not as expected, 2 for invalid
    arguments or an invalid configuration, and 130 after Ctrl-C (`run`: 0). Every error has a code,
    which docs/errors.md explains.
    """
    _replace_closed_streams()
    # The matrices are small, so more threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A name may contain bytes that cannot be encoded: stdout escapes them, as stderr does.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _replace_closed_streams() -> None:
    """Open the null device in place of each standard stream that the caller has closed.

    The null device gets the file descriptor of the closed stream. Otherwise the next file or socket
    that a command opens would get this descriptor, and messages that C libraries write to the
    closed stream would go to this file or socket.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # after <&-, >&- or 2>&-
            device = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - remains open
            setattr(sys, name, device)
