"""The command line: the one package that talks to a person.

What a command needs is imported when it runs, so that ``--help`` and ``check`` start at once.
"""

import os
from errno import EPIPE
from importlib import import_module
from typing import Any

import click

from edge_tvbo import __version__
from edge_tvbo.cli.output import EX_USAGE
from edge_tvbo.errors import EdgeTvboError, error_text

COMMANDS = {  # and the module that each is in, which only it imports
    "run": "daemon",
    "check": "daemon",
    "report": "daemon",
    "config": "daemon",
    "init": "init",
    "schema": "init",
    "completion": "init",
    "man": "init",
    "precompile": "compile",
    "why": "history",
    "status": "history",
    "dashboard": "dashboard",
    "ha": "homeassistant",
    "demo": "demo",
    "simulate": "demo",
    "replay": "replay",
    "compare": "replay",
    "fit": "replay",
    "data": "datasets",
    "experiment": "experiments",
    "bound": "experiments",
}


ALIASES = {
    "nodes": "simulate",
    "warm": "precompile",
}  # earlier names still work


class Commands(click.Group):
    """Turns what edge_tvbo raises on purpose into a message and exit status 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give a command; None where there is no such."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(
            import_module(f"{__name__}.{COMMANDS[cmd_name]}"), cmd_name
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is typed, or say which ones it may have been meant for."""
        self.commands = dict.fromkeys(COMMANDS, ctx.command)  # click looks here for those
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (EdgeTvboError, OSError) as error:
            if isinstance(error, OSError) and error.errno == EPIPE:
                raise
            click.echo(error_text(error), err=True)
        return ctx.exit(EX_USAGE)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edge-tvbo")
def main() -> None:
    """Decide which sensor of an MQTT network to activate next.

    Follows the hottest (or loudest, or most polluted) spot with a fraction of the readings.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # our matrices are small: more only wait
