"""How the log is written: to stderr, a line for each record, and no line again and again.

Text is for people; under journald it leaves out the time, which journald has, and says how urgent
a line is. JSON is for programs. Whatever came over the network may end up in a message, so a line
never holds a control character.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, TextIO

import msgspec

from edge_tvbo.messages.formatting import rfc3339

Format = Literal["text", "json"]
Key = tuple[str, int, str]  # logger, level and text

QUIET = 60.0  # s in which one text is said once, and one kind of text CHATTY times
CHATTY = 60
REMEMBERED = 256  # texts at once, and kinds; the oldest is summed up early
_URGENCY = {"CRITICAL": 2, "ERROR": 3, "WARNING": 4, "INFO": 6, "DEBUG": 7}  # syslog's
_UNFIT = (*range(32), *range(127, 160), 0x2028, 0x2029)  # controls, and what else ends a line
_ESCAPED = {code: f"\\u{code:04x}" for code in _UNFIT}  # in JSON and out of it


def start(form: Format, *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Have what is logged written to stderr, or to `stream`, unless handlers are chosen already."""
    output = logging.StreamHandler(stream or sys.stderr)
    output.setFormatter(formatter(form, os.environ, output.stream))
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO, handlers=[RateLimitedHandler(output)]
    )


def formatter(form: Format, environment: Mapping[str, str], stream: TextIO) -> logging.Formatter:
    """Give the formatter for what is at the other end of `stream`."""
    if form == "json":
        return Json()
    return (
        JournaldFormatter()
        if _is_journal(environment.get("JOURNAL_STREAM", ""), stream)
        else Text()
    )


def _is_journal(named: str, stream: TextIO) -> bool:
    """Say whether `stream` is the device and inode that systemd named; see systemd.exec(5)."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return named == f"{found.st_dev}:{found.st_ino}"


# --- how a line looks -------------------------------------------------------------------------


class Text(logging.Formatter):
    """``2004-03-07T08:20:00.000Z WARNING heat: sensor-lost: ...``, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        return f"{rfc3339(round(record.created, 3))} {record.levelname} {_message(self, record)}"


class JournaldFormatter(logging.Formatter):
    """``<4>heat: sensor-lost: ...``: journald takes the urgency, and has the time."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        return f"<{_URGENCY.get(record.levelname, 5)}>{_message(self, record)}"


class Json(logging.Formatter):
    """One object a line: at, level, logger, message, and error where there is a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        document: dict[str, Any] = {
            "at": rfc3339(round(record.created, 3)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        text = msgspec.json.encode(_encodable(document)).decode()
        return text.translate(_ESCAPED)


def _message(form: logging.Formatter, record: logging.LogRecord) -> str:
    message = record.getMessage()
    if record.exc_info:
        message += " | " + form.formatException(record.exc_info)
    return message.replace("\n", " | ").translate(_ESCAPED)


def _encodable(document: dict[str, Any]) -> dict[str, str]:
    """Replace lone surrogates, which no encoding has."""
    return {name: str(text).encode(errors="replace").decode() for name, text in document.items()}


# --- how often it is said ---------------------------------------------------------------------


class _Suppressed:
    """A text, or a kind of text, that was said."""

    def __init__(self, until: float, most: int, summary: str) -> None:
        self.until = until  # monotonic
        self.left = most  # to be said before `until`
        self.summary = summary  # "repeated {} times"
        self.held = 0
        self.last: Key = ("", 0, "")


class RateLimitedHandler(logging.Handler):
    """Hands records on to `output`, but says the same once a minute and counts the rest.

    One text is said once in `QUIET` seconds, and texts that one statement makes of different
    values `CHATTY` times; what was held back is summed up at the first record after that time:
    "repeated 37 times". An error with a traceback is a record like any other.

    >>> import sys
    >>> log, now = logging.Logger("x"), [0.0]
    >>> log.addHandler(RateLimitedHandler(logging.StreamHandler(sys.stdout), clock=lambda: now[0]))
    >>> for now[0] in (0, 1, 2, 70): log.error("the disk is full")
    the disk is full
    the disk is full (repeated 2 times)
    the disk is full
    """

    def __init__(
        self, output: logging.Handler, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._output = output
        self._clock = clock
        self._texts: dict[Key, _Suppressed] = {}  # the oldest first, as in the next
        self._kinds: dict[Key, _Suppressed] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write `record`, or count it."""
        try:
            now = self._clock()
            self._sum_up(now)
            if self._may_say(record, now):
                self._output.handle(record)
        except Exception:  # a log that fails is no reason to stop
            self.handleError(record)

    def flush(self) -> None:
        """Sum up what is held back, and have all of it written."""
        self._sum_up(float("inf"))
        self._output.flush()

    def close(self) -> None:
        """Write what is left to write."""
        self.flush()
        self._output.close()
        super().close()

    def _may_say(self, record: logging.LogRecord, now: float) -> bool:
        said = (record.name, record.levelno, record.getMessage())
        kind = (record.name, record.levelno, str(record.msg))
        same = self._entry(self._texts, said, now, 1, "repeated {} times")
        alike = self._entry(self._kinds, kind, now, CHATTY, "and {} others like it")
        for each in (same, alike):
            if each.left <= 0:
                each.held += 1
                each.last = said
                return False
        same.left -= 1
        alike.left -= 1
        return True

    def _entry(
        self, told: dict[Key, _Suppressed], key: Key, now: float, most: int, summary: str
    ) -> _Suppressed:
        if key not in told:
            if len(told) >= REMEMBERED:
                self._say(told.pop(next(iter(told))))
            told[key] = _Suppressed(now + QUIET, most, summary)
        return told[key]

    def _sum_up(self, now: float) -> None:
        for told in (self._texts, self._kinds):
            while told and next(iter(told.values())).until <= now:
                self._say(told.pop(next(iter(told))))

    def _say(self, told: _Suppressed) -> None:
        if told.held:
            name, level, text = told.last
            summary = told.summary.format(told.held).replace("repeated 1 times", "repeated once")
            text = f"{text} ({summary})"
            self._output.handle(logging.LogRecord(name, level, "", 0, text, (), None))
