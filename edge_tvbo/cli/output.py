"""Output of commands: tables and JSON for results, and bars or lines for progress."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import click

from edge_tvbo.messages.sensor_ids import is_displayable

if TYPE_CHECKING:
    from edge_tvbo.simulation.backtest import Result

EX_BROKER = 1  # exit status if a broker or daemon is not as expected
EX_USAGE = 2  # exit status for an invalid option, as in click, and for an invalid file
EX_INTERRUPTED = 130  # exit status after Ctrl-C, as in a shell
FIRST_PROGRESS_S = 2.0  # if the work is done earlier, no line is printed
PROGRESS_INTERVAL_S = 5.0


def print_warnings() -> None:
    """Print logged warnings and errors to stderr; each line contains only the message."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)


def show(results: "list[Result]", as_json: bool) -> None:
    from edge_tvbo.simulation.backtest import UNIT, results_table

    if as_json:
        print_json({"unit": UNIT, "results": [result.document() for result in results]})
    else:
        click.echo(results_table(results))


def printable(text: str) -> str:
    """Return a received text with its control characters replaced, for the output of a command.

    >>> printable("hall" + chr(27) + "[2J")
    'hall�[2J'
    """
    return "".join(each if is_displayable(each) else "\N{REPLACEMENT CHARACTER}" for each in text)


class Step(Protocol):
    """A function that reports the progress of a command."""

    def __call__(self, done: int, total: int | None = None, /) -> None:
        """Print how many steps of a command are `done`, and the `total` number if it is known."""
        ...


@contextmanager
def progress(label: str, length: int | None) -> Iterator[Step]:
    """Provide a `Step` that prints a command's progress to stderr: as a bar, or as lines.

    On a terminal, the progress is a bar. Elsewhere, the progress is printed as lines. The first
    line is printed after two seconds, another line every five seconds, and a last line at the end.
    No line is printed if the work takes less than two seconds.
    """
    if not sys.stderr.isatty():
        yield _Lines(label, length)
        return
    with click.progressbar(length=length or 1, label=label, file=sys.stderr) as bar:

        def step(done: int, total: int | None = None, /) -> None:
            if total or length:
                bar.length = total or length
                bar.update(done - bar.pos)
            else:
                bar.label = f"{label} {done:,}"
                bar.render_progress()

        yield step


class _Lines:
    """A `Step` that prints the progress of a command as lines, for any output but a terminal."""

    def __init__(self, label: str, length: int | None) -> None:
        self._label = label
        self._length = length
        self._due = monotonic() + FIRST_PROGRESS_S
        self._silent = True

    def __call__(self, done: int, total: int | None = None, /) -> None:
        length = total or self._length
        now = monotonic()
        if now >= self._due or (done == length and not self._silent):
            of = f" of {length:,}" if length else ""
            click.echo(f"{self._label}: {done:,}{of}", err=True)
            self._due, self._silent = now + PROGRESS_INTERVAL_S, False


def print_json(document: Any) -> None:
    """Print a document as JSON, in ASCII if the output's encoding lacks a needed character."""
    import msgspec

    try:
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:  # another cause: a file name that is not UTF-8
        import json

        text = json.dumps(msgspec.to_builtins(document), indent=2)
    click.echo(text)
