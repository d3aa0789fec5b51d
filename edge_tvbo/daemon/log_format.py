"""Log format: one line per record on stderr, as text, as JSON, or for journald.

Repeats of a message are suppressed and counted, except at debug level. A message may contain text
from the network, so control characters are escaped.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Literal, TextIO

import msgspec

from edge_tvbo.config.settings import LogLevels
from edge_tvbo.messages.formatting import rfc3339

Format = Literal["text", "json"]

REPEAT_PERIOD_S = 60.0  # in this time, the same text is logged only once
MAX_TEXTS = 256  # number of texts that the filter stores
SIGNAL_REPLIES = ("edge_tvbo.daemon.reload", "edge_tvbo.daemon.status_dump")  # SIGHUP, SIGUSR1
NEVER_SUPPRESSED = (*SIGNAL_REPLIES, "edge_tvbo.daemon.rejection_log")
RECOVERIES = ("edge_tvbo_adapters.mqtt.link",)  # loggers that report the end of a problem
PACKAGES = ("edge_tvbo", "edge_tvbo_adapters")  # packages whose log levels can be set
AREAS = {  # the loggers of each area of `LogLevels`
    "mqtt": ("edge_tvbo_adapters.mqtt",),
    "decisions": ("edge_tvbo.daemon.decision_log",),
    "rejections": ("edge_tvbo.daemon.rejection_log",),
    "state": (
        "edge_tvbo.daemon.checkpoints",
        "edge_tvbo.daemon.journal",
        "edge_tvbo.daemon.restoration",
        "edge_tvbo_adapters.storage",
    ),
    "homeassistant": ("edge_tvbo_adapters.homeassistant",),
    "monitoring": (
        "edge_tvbo.daemon.monitors",
        "edge_tvbo.daemon.watchdog",
        "edge_tvbo_adapters.monitoring",
    ),
}
_PRIORITIES = {"CRITICAL": 2, "ERROR": 3, "WARNING": 4, "INFO": 6, "DEBUG": 7}  # of syslog
_CONTROL = (*range(32), *range(127, 160), 0x2028, 0x2029)  # with all line separators
_ESCAPED = {code: f"\\u{code:04x}" for code in _CONTROL}  # valid in JSON, too


def start(form: Format, *, stream: TextIO | None = None) -> None:
    """Write the log to stderr, or to `stream`, unless the root logger already has handlers."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter(form, os.environ, handler.stream))
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def set_levels(levels: LogLevels) -> None:
    """Set the log level of each area; an area without a level has the level of its package.

    The messages of a reload (SIGHUP) and of a status dump (SIGUSR1) are logged from level info on,
    even if the level of their package is higher. Loggers of other packages, such as numba, keep the
    level of the root logger.
    """
    for package in PACKAGES:
        logging.getLogger(package).setLevel(levels.level.upper())
    for name in SIGNAL_REPLIES:
        logging.getLogger(name).setLevel("DEBUG" if levels.level == "debug" else "INFO")
    for area, names in AREAS.items():
        own: str | None = getattr(levels, area)
        for name in names:
            logging.getLogger(name).setLevel(own.upper() if own else logging.NOTSET)


def formatter(form: Format, environment: Mapping[str, str], stream: TextIO) -> logging.Formatter:
    """Return the log formatter for `stream`; a `JournaldFormatter` if journald reads `stream`."""
    if form == "json":
        return JsonFormatter()
    journal = _is_journal(environment.get("JOURNAL_STREAM", ""), stream)
    return JournaldFormatter() if journal else TextFormatter()


def _is_journal(named: str, stream: TextIO) -> bool:
    """Return whether journald reads `stream`.

    `named` is the value of the variable JOURNAL_STREAM, ``device:inode``; see systemd.exec(5).
    """
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return named == f"{found.st_dev}:{found.st_ino}"


class TextFormatter(logging.Formatter):
    """Formatter of one-line texts: ``2004-03-07T08:20:00.000Z WARNING heat: sensor-lost: ...``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of text, with time and level."""
        return f"{_time(record)} {record.levelname} {_message(self, record)}"


class JournaldFormatter(logging.Formatter):
    """Formatter for journald, which reads the priority from the line and adds the time.

    A line is ``<4>heat: sensor-lost: ...``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line that starts with the priority of the record."""
        return f"<{_PRIORITIES.get(record.levelname, 5)}>{_message(self, record)}"


class JsonFormatter(logging.Formatter):
    """Formatter of JSON logs: one object per line, with the keys at, level, logger and message.

    The object of a record with a traceback also has the key `error`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as a JSON object on one line."""
        document: dict[str, Any] = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        encodable = {  # as UTF-8
            name: str(text).encode(errors="replace").decode() for name, text in document.items()
        }
        return msgspec.json.encode(encodable).decode().translate(_ESCAPED)


class RepeatFilter(logging.Filter):
    """Filter that passes a log text once in `REPEAT_PERIOD_S` seconds, and counts its repeats.

    Debug texts, and texts of a reload, of the rejection log and of a status dump always pass. For
    the loggers in `RECOVERIES`, a text at level info also passes if the logger has logged a problem
    since it last logged this text.

    >>> import sys
    >>> log, now = logging.Logger("x"), [0.0]
    >>> log.addHandler(logging.StreamHandler(sys.stdout))
    >>> log.addFilter(RepeatFilter(clock=lambda: now[0]))
    >>> for now[0] in (0, 1, 2, 70): log.error("the disk is full")
    the disk is full
    the disk is full (repeated 2 times)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}  # (logged at, repeats)
        self._problem_at: dict[str, float] = {}  # by logger: when it last logged a problem

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log `record`; add the number of suppressed repeats to its text."""
        if record.levelno <= logging.DEBUG or record.name in NEVER_SUPPRESSED:
            return True
        text, now = record.getMessage(), self._clock()
        key = (record.name, record.levelno, text)
        logged_at, repeats = self._seen.get(key, (-REPEAT_PERIOD_S, 0))
        is_problem = record.levelno > logging.INFO
        has_ended = not is_problem and self._problem_at.get(record.name, -inf) >= logged_at
        if now - logged_at < REPEAT_PERIOD_S and not has_ended:
            self._seen[key] = logged_at, repeats + 1
            return False
        if is_problem and record.name in RECOVERIES:
            self._problem_at[record.name] = now
        self._seen.pop(key, None)
        self._seen[key] = now, 0
        if len(self._seen) > MAX_TEXTS:
            del self._seen[next(iter(self._seen))]
        if repeats:
            times = "once" if repeats == 1 else f"{repeats} times"
            record.msg, record.args = f"{text} (repeated {times})", None
        return True


def _time(record: logging.LogRecord) -> str:
    """Return the time of a log record, always with milliseconds, so that the lines are aligned."""
    text = rfc3339(round(record.created, 3))
    return text if "." in text else text.replace("Z", ".000Z")


def _message(form: logging.Formatter, record: logging.LogRecord) -> str:
    message = record.getMessage()
    if record.exc_info:
        message += " | " + form.formatException(record.exc_info)
    return message.replace("\n", " | ").translate(_ESCAPED)
