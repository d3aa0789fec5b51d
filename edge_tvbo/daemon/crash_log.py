"""What the daemon died of, for `edge-tvbo report`: one file beside its state, written over.

It holds the end of the traceback, and the last decisions before it, a line each: those of the
daemons before, too, where one dies again and again.
"""

import logging
import time
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from edge_tvbo import __version__
from edge_tvbo.control import history_text
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.commands import Command, PublishState, Record
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.messages.history import Entry

log = logging.getLogger(__name__)

LARGEST = 16_384  # characters; the end of a traceback says most
DECISIONS = 50  # of all fields together
_HEADING = "\nThe last decisions:\n"  # of lines, and nothing else, to the file's end


class Crash(NamedTuple):
    """What is kept of a daemon's end."""

    text: str  # when, which version, and the traceback
    decisions: list[str]  # the newest last


class Recent:
    """The last decisions of a daemon, and what came of them; one of the loop's `watch`."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=DECISIONS)

    def __call__(self, field: str, command: Command) -> None:
        """Note what `command` says of an interval."""
        match command:
            case PublishState(decision=decision):
                self._entries.append(Entry(field, decision))
            case Record():
                self._end(field, command)
            case _:
                pass

    def lines(self) -> Iterator[str]:
        """Yield a line for each decision, the newest last."""
        for entry in self._entries:
            yield f"{entry.field} {history_text.line(entry)}"

    def _end(self, field: str, record: Record) -> None:
        for at in reversed(range(len(self._entries))):
            entry = self._entries[at]
            if entry.field == field:
                if entry.decision.interval == record.interval:
                    self._entries[at] = msgspec.structs.replace(entry, record=record)
                return


def place(directory: str, instance: str) -> Path:
    """Give the file of the daemon `instance` whose state is in `directory`."""
    return Path(directory) / f"{instance}.last-crash.txt"


def read(directory: str, instance: str) -> Crash | None:
    """Give what the daemon `instance` died of last; None where nothing can be read."""
    try:
        kept = place(directory, instance).read_text("utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    text, heading, decisions = kept.rpartition(_HEADING)  # an error's own words come before it
    return Crash(text, decisions.splitlines()) if heading else Crash(kept, [])


@contextmanager
def kept(directory: str, instance: str) -> Iterator[Recent]:
    """Keep the traceback of a bug that ends the body, in `directory` unless that is empty.

    The body has what it is given watch its decisions.
    """
    recent = Recent()
    try:
        yield recent
    except EdgeTvboError:
        raise
    except Exception:
        if directory:
            _keep(directory, instance, recent)
        raise


def _keep(directory: str, instance: str, recent: Recent) -> None:
    path, before = place(directory, instance), read(directory, instance)
    head = f"{rfc3339(round(time.time()))} edge-tvbo {__version__}"
    lines = [*(before.decisions if before else []), *recent.lines()][-DECISIONS:]
    decisions = "".join(f"{line}\n" for line in lines)
    text = f"{head}\n{traceback.format_exc()[-LARGEST:]}{_HEADING}{decisions}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.new")
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(path)
    except OSError as error:
        log.error("the traceback cannot be kept in %s: %s", path, error.strerror)
