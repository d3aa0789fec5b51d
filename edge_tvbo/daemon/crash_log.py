"""Crash file: the traceback and the last decisions before a crash, for `edge-tvbo report`.

The file is in the directory of stored state; a reload may choose another directory. At a further
crash, the traceback in the file is replaced. The decisions before this crash are appended to the
decisions in the file, of which only the newest `MAX_DECISIONS` are kept. So a crash directly after
a start, before any decision, does not remove the decisions before an earlier crash.
"""

import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from edge_tvbo import __version__
from edge_tvbo.daemon.decision_log import MAX_DECISIONS, DecisionLog
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.formatting import rfc3339

log = logging.getLogger(__name__)

MAX_TRACEBACK_LENGTH = 16_384  # characters; only the end of a longer traceback is stored
_HEADING = "\nThe last decisions:\n"  # after this heading, each line is a decision


class Crash(NamedTuple):
    """Content of the crash file."""

    text: str  # time, version and traceback
    decisions: list[str]  # the newest last


def crash_file(directory: str, instance: str) -> Path:
    """Return the path of the crash file of `instance`, whose state is in `directory`."""
    return Path(directory) / f"{instance}.last-crash.txt"


def read(directory: str, instance: str) -> Crash | None:
    """Return the last crash of `instance`; None if no crash file can be read."""
    try:
        content = crash_file(directory, instance).read_text("utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    text, heading, decisions = content.rpartition(_HEADING)  # a traceback may contain a heading
    return Crash(text, decisions.splitlines()) if heading else Crash(content, [])


class CrashLog(msgspec.Struct):
    """Directory and instance of the crash file; without a directory, no crash file is written."""

    directory: str
    instance: str


@contextmanager
def crash_logging(directory: str, instance: str, decisions: DecisionLog) -> Iterator[CrashLog]:
    """Write the crash file if an unexpected exception leaves the context.

    The caller may change the yielded object to write the file elsewhere.
    """
    crash_log = CrashLog(directory, instance)
    try:
        yield crash_log
    except EdgeTvboError:
        raise
    except Exception:
        if crash_log.directory:
            _write(crash_log.directory, crash_log.instance, decisions)
        raise


def _write(directory: str, instance: str, recent: DecisionLog) -> None:
    path, before = crash_file(directory, instance), read(directory, instance)
    head = f"{rfc3339(round(time.time()))} edge-tvbo {__version__}"
    lines = [*(before.decisions if before else []), *recent.lines()][-MAX_DECISIONS:]
    decisions = "".join(f"{line}\n" for line in lines)
    text = f"{head}\n{traceback.format_exc()[-MAX_TRACEBACK_LENGTH:]}{_HEADING}{decisions}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.new")
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(path)
    except OSError as error:
        log.error("the crash file %s cannot be written: %s", path, error.strerror)
