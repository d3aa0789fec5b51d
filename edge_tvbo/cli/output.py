"""How results and progress are said."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from edge_tvbo.simulation.backtest import Result

EX_USAGE = 2  # what click exits with for a wrong option; a wrong file is no different
QUIET = 2.0  # s that work may take without a word
BETWEEN = 5.0  # s between two lines of progress


def show(results: "list[Result]", as_json: bool) -> None:
    from edge_tvbo.simulation.backtest import UNIT, results_table

    if as_json:
        print_json({"unit": UNIT, "results": [result.document() for result in results]})
    else:
        click.echo(results_table(results))


def printable(text: str) -> str:
    """Give a line that somebody sent without what a terminal would take for an order.

    >>> printable("hall" + chr(27) + "[2J")
    'hall\ufffd[2J'
    """
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


class Step(Protocol):
    """What is told how far some work is."""

    def __call__(self, done: int, total: int | None = None, /) -> None:
        """Take in that `done` is done, and of how much, where that is known only now."""
        ...


@contextmanager
def progress(label: str, length: int | None) -> Iterator[Step]:
    """Give a `Step`; what it is told goes to stderr, as a bar where that is a terminal.

    Elsewhere (CI, journald) as plain lines: the first once the work has taken two seconds, then one
    every five, and one in the end. Quicker work says nothing.
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
    """Progress where nothing can be overwritten."""

    def __init__(self, label: str, length: int | None) -> None:
        self._label = label
        self._length = length
        self._due = monotonic() + QUIET
        self._silent = True

    def __call__(self, done: int, total: int | None = None, /) -> None:
        length = total or self._length
        now = monotonic()
        if now >= self._due or (done == length and not self._silent):
            of = f" of {length:,}" if length else ""
            click.echo(f"{self._label}: {done:,}{of}", err=True)
            self._due, self._silent = now + BETWEEN, False


def print_json(document: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
