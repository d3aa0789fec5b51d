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
        yield _line_step(label, length)
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


def _line_step(label: str, length: int | None) -> Step:
    """Return a `Step` that prints a command's progress as lines, for any output but a terminal."""
    due, is_silent = monotonic() + FIRST_PROGRESS_S, True

    def step(done: int, total: int | None = None, /) -> None:
        nonlocal due, is_silent
        last, now = total or length, monotonic()
        if now >= due or (done == last and not is_silent):
            of = f" of {last:,}" if last else ""
            click.echo(f"{label}: {done:,}{of}", err=True)
            due, is_silent = now + PROGRESS_INTERVAL_S, False

    return step


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
