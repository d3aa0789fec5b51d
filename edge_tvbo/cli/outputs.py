"""How results and progress are said."""

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from edge_tvbo.backtest import Result

EX_USAGE = 2  # what click exits with for a wrong option; a wrong file is no different


def show(results: "list[Result]", as_json: bool) -> None:
    from edge_tvbo.backtest import UNIT, table

    if as_json:
        print_json({"unit": UNIT, "results": [result.document() for result in results]})
    else:
        click.echo(table(results))


@contextmanager
def progress(label: str, length: int | None) -> Any:
    """Give a function that is told how far the work is; draws only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    with click.progressbar(length=length or 1, label=label, file=sys.stderr) as bar:

        def step(done: int, total: int | None = None) -> None:
            bar.length = total or bar.length
            bar.update(done - bar.pos)

        yield step


def print_json(document: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
