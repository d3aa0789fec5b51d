"""Bug report: versions, configuration, state and last decisions, without secrets."""

import os
import platform
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING, Any, Protocol

from edge_tvbo.config import environment
from edge_tvbo.config.errors import Report
from edge_tvbo.errors import EdgeTvboError, SnapshotError
from edge_tvbo.messages.formatting import counted, interval_number_text, rfc3339
from edge_tvbo.messages.history import DecisionHistory
from edge_tvbo.setup.redaction import (
    machine_names,
    named_files,
    password_file_contents,
    private_values,
    redact,
    redacted_settings,
)

if TYPE_CHECKING:
    from edge_tvbo.control.controller_state import Counters
    from edge_tvbo.daemon.checkpoint_document import Document
    from edge_tvbo.daemon.checkpoint_store import Store

PACKAGES = (
    "edge-tvbo",
    "numpy",
    "numba",
    "llvmlite",
    "paho-mqtt",
    "msgspec",
    "click",
    "prometheus-client",
)
DECISIONS = 50  # number of last decisions of each field in the report


class HistoryReader(DecisionHistory, Protocol):
    """Decision history, for the bug report; it can list the names of its fields."""

    def fields(self) -> list[str]:
        """Return, for the bug report, the sorted names of the fields in the decision history."""
        ...


def report(
    path: Path,
    check: Callable[[Path], object],
    open_store: Callable[[str, str], "Store"],
    open_history: Callable[[str, str], "HistoryReader"],
) -> str:
    """Return the text of the bug report about the configuration at `path`.

    Parameters
    ----------
    path : Path
        The configuration file.
    check : callable
        Function that checks the configuration, and raises an exception if it has errors.
    open_store, open_history : callable
        Functions that open the stored state and the decision history of a daemon. The arguments of
        both functions are the directory of the stored state and the name of the instance.
    """
    text, raw = _read(path)
    variables = Report(path, dict, environment.variables(os.environ))
    effective = environment.with_environment(raw, variables, os.environ)
    state, instance = _state(path, effective)
    parts = [
        ("Versions", _versions()),
        ("Environment", _environment()),
        ("Configuration", redacted_settings(raw, text)),
        ("Findings", _findings(path, check)),
        ("Files", _files(path, effective)),
        ("Counters", _counters(state, instance, effective, open_store)),
        ("Last decisions", _decisions(state, instance, open_history)),
        ("Last crash", _crash(state, instance)),
    ]
    lines = [
        "Bug report of edge-tvbo. Secrets, hosts, names, payloads and paths are replaced by ***.",
        "Topics and sensor ids are shown, so read the report before you publish it.",
        "",
    ]
    for title, part in parts:
        lines += [f"## {title}", "", *(f"    {line}".rstrip() for line in _guarded(part)), ""]
    words = list(private_values(raw, path.parent)) if raw else re.findall(r"[^\"']+", text)
    words += [*private_values(effective, path.parent), *password_file_contents(path, effective)]
    words += machine_names(path)
    return redact("\n".join(lines), words)


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_bytes().decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    except (OSError, ValueError):
        return "", {}
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError):
        return text, {}


def _guarded(part: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a part of the bug report; if the part fails, yield its exception."""
    try:
        yield from part
    except Exception as error:
        yield from _exception_lines(error)


def _exception_lines(error: Exception) -> Iterator[str]:
    """Yield an exception and its stack frames for the bug report, without names of directories."""
    import traceback

    yield from traceback.format_exception(error)[-1].splitlines()
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"


# --- parts ------------------------------------------------------------------------------------


def _versions() -> Iterator[str]:
    yield f"Python {platform.python_version()} ({platform.python_implementation()})"
    for package in PACKAGES:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"{package} is not installed"


def _environment() -> Iterator[str]:
    yield f"{platform.system()} {platform.release()} on {platform.machine()}"
    yield f"{' '.join(platform.libc_ver()) or 'not glibc'}; {os.cpu_count()} processors"
    yield f"encoding of file names {sys.getfilesystemencoding()}, time zone offset {strftime('%z')}"
    systemd = "yes" if "INVOCATION_ID" in os.environ else "no"
    yield f"started by systemd: {systemd}; notify socket: {_is_set('NOTIFY_SOCKET')}"
    yield f"credentials directory: {_is_set('CREDENTIALS_DIRECTORY')}"
    names = environment.variables(os.environ).values()
    yield f"settings from the environment: {', '.join(names) or 'none'}"


def _is_set(name: str) -> str:
    return "set" if os.environ.get(name) else "not set"


def _findings(path: Path, check: Callable[[Path], object]) -> Iterator[str]:
    try:
        check(path)
    except EdgeTvboError as error:
        yield from str(error).splitlines()
    else:
        yield "none: the configuration is valid"


def _files(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    base = path.parent
    yield f"the configuration: {_access(path)}"
    for key, value in sorted(named_files(raw)):
        yield f"{key}: {_access(base / value)}"
    for name in ("STATE_DIRECTORY", "CACHE_DIRECTORY", "NUMBA_CACHE_DIR"):
        if directory := os.environ.get(name):
            yield f"${name}: {_access(Path(directory))}"
    with suppress(RuntimeError):  # a user without a home directory
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        yield f"the user's cache: {_access(cache)}"
    yield f"the package: {_access(Path(__file__).parent)}"


def _counters(
    state: Path | None,
    instance: str,
    raw: dict[str, Any],
    open_store: Callable[[str, str], "Store"],
) -> Iterator[str]:
    """Yield, for the bug report, the counters of each field, from the newest readable state."""
    from edge_tvbo.daemon import checkpoint_document

    if state is None:
        why = "[state] dir is not set" if raw else "the configuration contains no readable setting"
        yield f"no stored state is known: {why}"
        return
    for generation, data in open_store(str(state), instance).generations():
        try:
            document = checkpoint_document.decode(data)
        except SnapshotError as error:
            yield f"{Path(generation).name} cannot be read: {error}"
            continue
        when = "when the daemon stopped" if document.final else "while the daemon ran"
        yield f"stored at {rfc3339(round(document.anchor.wall))}, {when}"
        yield from _counter_lines(document, raw.get("fields"))
        return
    yield "no readable stored state was found"


def _counter_lines(document: "Document", configured: object) -> Iterator[str]:
    """Yield, for the bug report, a line of counters for each field.

    A field is included if it is configured or has stored state.
    """
    from edge_tvbo.control.controller_state import counters

    known = configured if isinstance(configured, dict) else {}
    for name in [*known, *(each for each in document.fields if each not in known)]:
        title = name if name in known else f"{name} (not in the configuration)"
        if name not in document.fields:
            yield f"{title}: no stored state"
            continue
        try:
            yield f"{title}: {_in_words(counters(document.fields[name].controller))}"
        except SnapshotError as error:
            yield f"{title}: the stored state cannot be read: {error}"


def _in_words(found: "Counters") -> str:
    resets = "resets not counted" if found.resets is None else counted(found.resets, "reset")
    last = f", the last reset at {found.last_reset}" if found.last_reset else ""
    often = sorted(found.refused.items(), key=lambda each: (-each[1], each[0]))
    refused = ", ".join(f"{count} {reason}" for reason, count in often)
    ignored = f"; ignored: {', '.join(found.ignored)}" if found.ignored else ""
    undelivered = f", {found.undelivered} not delivered" if found.undelivered else ""
    replies = "1 reply" if found.answered == 1 else f"{found.answered} replies"
    return (
        f"{interval_number_text(found.interval)}; {replies}, "
        f"{found.missed} timed out{undelivered}; {resets}{last}; rejected: {refused or 'none'}"
        f"{'; paused' if found.paused else ''}{ignored}"
    )


def _decisions(
    state: Path | None, instance: str, open_history: Callable[[str, str], "HistoryReader"]
) -> Iterator[str]:
    """Yield, for the bug report, the last decisions of the daemon; the newest comes last.

    The decisions are from the decision history. If the history contains no decision or cannot be
    read, the decisions are from the crash log.
    """
    from edge_tvbo.control import history_text
    from edge_tvbo.daemon import crash_log

    if state is None:
        yield "no stored state is known, so there is no history and no record of a crash"
        return
    try:
        with closing(open_history(str(state), instance)) as past:
            lines = [
                f"{field} {history_text.one_line(entry)}"
                for field in past.fields()
                for entry in reversed(past.newest(field, DECISIONS))
            ]
    except EdgeTvboError as error:
        yield from str(error).splitlines()
        lines = []
    if not lines:
        crash = crash_log.read(str(state), instance)
        lines = crash.decisions if crash else []
        yield (
            "last decisions before the crash; the crash is shown below:"
            if lines
            else _no_crash(state, instance, "no decision and no crash is recorded")
        )
    yield from lines


def _crash(state: Path | None, instance: str) -> Iterator[str]:
    """Yield, for the bug report, the traceback of the last crash, without names of directories."""
    from edge_tvbo.daemon import crash_log

    crash = crash_log.read(str(state), instance) if state else None
    if crash is None:
        none = "none is recorded"
        yield _no_crash(state, instance, none) if state else none
        return
    yield from re.sub(r'(File ")[^"]*[/\\]', r"\1", crash.text).splitlines()


def _no_crash(state: Path, instance: str, none: str) -> str:
    """Return the bug report's text in place of a crash: `none`, or that the file is unreadable."""
    from edge_tvbo.daemon import crash_log

    access = _access(crash_log.crash_file(str(state), instance))
    return none if access == "does not exist" else f"the crash file: {access}"


def _state(path: Path, raw: dict[str, Any]) -> tuple[Path | None, str]:
    """Return, for the bug report, the directory of the stored state and the name of the instance.

    The directory is None if the configuration sets no valid directory.
    """
    table, instance = raw.get("state"), raw.get("instance", "edge")
    directory = table.get("dir") if isinstance(table, dict) else None
    if not isinstance(directory, str) or not directory or "\0" in directory:
        return None, str(instance)
    return path.parent / directory, str(instance)


def _access(path: Path) -> str:
    """Return a text for the bug report: whether `path` exists, and whether it can be used.

    >>> _access(Path("/nonexistent/x"))
    'does not exist'
    """
    try:
        if not path.exists():
            return "does not exist"
        kind = "a directory" if path.is_dir() else "a file"
    except (OSError, ValueError):
        return "cannot be accessed"
    rights = (("readable", os.R_OK), ("writable", os.W_OK))
    return ", ".join([kind, *(w if os.access(path, mode) else f"not {w}" for w, mode in rights)])
