"""The manual page, in roff, from what the commands say of themselves."""

import re
from collections.abc import Iterator

import click

from edge_tvbo import __version__

AFTER = r"""
.SH FILES
.TP
.I edge-tvbo.toml
What `init` writes by default. `config explain` prints every setting, `schema` a JSON Schema.
.SH ENVIRONMENT
.TP
.B EDGE_TVBO__TABLE__SETTING
Stands for a setting, whatever the file says: EDGE_TVBO__MQTT__HOST for host of [mqtt].
.TP
.B STATE_DIRECTORY, CREDENTIALS_DIRECTORY
Where systemd has state kept, and secrets found.
.SH EXIT STATUS
0 where all is well, 1 where a broker or a daemon is not, 2 where what was typed or configured has
to be mended; `run` says 78 instead of 2, which tells systemd not to try again. Every error has a
code, such as E404, that docs/errors.md explains.
"""


def page(root: click.Context) -> str:
    """Give the page of all commands."""
    head = root.command
    assert isinstance(head, click.Group)
    lines = [
        f'.TH EDGE-TVBO 1 "" "edge-tvbo {__version__}" "User Commands"',
        ".SH NAME",
        f"edge-tvbo \\- {_first(head)}",
        ".SH SYNOPSIS",
        ".B edge-tvbo",
        "[\\fIcommand\\fR] [\\fIoption\\fR ...]",
        ".SH DESCRIPTION",
        *_paragraphs(head.help or ""),
        ".SH COMMANDS",
    ]
    for name in head.list_commands(root):
        command = head.get_command(root, name)
        assert command is not None
        lines += _command(command, f"edge-tvbo {name}", root)
    return "\n".join(lines) + AFTER


def _command(command: click.Command, name: str, above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=above)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _command(command.commands[below], f"{name} {below}", context)
        return
    words = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_plain(name)} {_plain(words)}"
    yield from _paragraphs(command.help or "")
    for option in command.params:
        record = option.get_help_record(context)
        if record is not None:
            yield ".TP"
            yield f".B {_plain(record[0])}"
            yield _plain(record[1]) or ".br"


def _first(command: click.Command) -> str:
    return _plain((command.help or "").partition("\n")[0].rstrip("."))


def _paragraphs(text: str) -> Iterator[str]:
    """Part a help text as click does, where a backspace keeps the lines of a paragraph."""
    for part in re.split(r"\n\s*\n", text.strip()):
        kept, part = part.startswith("\b"), part.lstrip("\b\n")
        yield ".PP"
        if kept:
            yield ".nf"
        yield from (_plain(line.strip()) for line in part.split("\n"))
        if kept:
            yield ".fi"


def _plain(text: str) -> str:
    r"""Give a text that roff takes for nothing but text.

    >>> print(_plain(".nodes --max-rate"), _plain("a\\b"))
    \&.nodes \-\-max\-rate a\eb
    """
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped
