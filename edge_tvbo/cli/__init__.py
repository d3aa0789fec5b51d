"""The command line: the one package that talks to a person.

What a command needs is imported when it runs, so that ``--help`` and ``check`` start at once.
"""

import os
from errno import EPIPE
from typing import Any

import click

from edge_tvbo import __version__
from edge_tvbo.cli import (
    daemon,
    dashboard,
    datasets,
    history,
    homeassistant,
    kernels,
    recordings,
    research,
    setup,
    simulated,
)
from edge_tvbo.cli.outputs import EX_USAGE
from edge_tvbo.errors import EdgeTvboError, told


class Commands(click.Group):
    """Turns what edge_tvbo raises on purpose into a message and exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (EdgeTvboError, OSError) as error:
            if isinstance(error, OSError) and error.errno == EPIPE:
                raise
            click.echo(told(error), err=True)
        return ctx.exit(EX_USAGE)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edge-tvbo")
def main() -> None:
    """Decide which sensor of an MQTT network to activate next.

    Follows the hottest (or loudest, or most polluted) spot with a fraction of the readings.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # our matrices are small: more only wait


for _commands in (
    daemon,
    setup,
    kernels,
    history,
    dashboard,
    homeassistant,
    simulated,
    recordings,
    datasets,
    research,
):
    for _command in _commands.COMMANDS:
        main.add_command(_command)
