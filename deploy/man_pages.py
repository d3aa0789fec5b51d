"""Manual pages: one for each command, written by click-man when a package is built.

    python deploy/man_pages.py build/man

`make man` runs this script. `man -l build/man/edge-tvbo.1` shows the first page.
"""

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
from click_man.core import write_man_pages

from edge_tvbo import __version__
from edge_tvbo.cli import main


def write(directory: Path) -> None:
    """Write the manual pages to `directory`, which is created if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    main.commands = {name: main.get_command(None, name) for name in main.list_commands(None)}
    for command in all_commands(main):
        # click keeps the lines of a paragraph after \b; roff does between .nf and .fi
        text = cleandoc(command.help or "")
        command.help = re.sub("\b\n(.+?)(?=\n\n|$)", r".nf\n\1\n.fi", text, flags=re.S)
    write_man_pages("edge-tvbo", main, version=__version__, target_dir=str(directory))


def all_commands(group: click.Group) -> Iterator[click.Command]:
    """Yield a command group, its commands, and the commands of its subgroups."""
    yield group
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from all_commands(command)
        else:
            yield command


if __name__ == "__main__":
    write(Path(sys.argv[1]))
