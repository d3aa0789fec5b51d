"""What a public bug report wants to know of an installation, and nothing that it must not say."""

import os
import platform
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edge_tvbo.config import environment
from edge_tvbo.config.errors import Report
from edge_tvbo.errors import EdgeTvboError, SnapshotError
from edge_tvbo.setup.redaction import contents, named_files, ours, private, redact, shown

if TYPE_CHECKING:
    from edge_tvbo.control.controller_state import Counters
    from edge_tvbo.daemon.checkpoints import Document, Store
    from edge_tvbo.messages.history import HistoryEntry

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
DECISIONS = 50  # of each field that are shown


class HistoryReader(Protocol):
    """The decision history of a daemon; every method may raise `DataError`."""

    def fields(self) -> list[str]:
        """Return the fields that have entries, sorted."""
        ...

    def newest(self, field: str, count: int) -> list["HistoryEntry"]:
        """Return the last `count` entries of `field`, the newest first."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def report(
    path: Path,
    check: Callable[[Path], object],
    open_store: Callable[[str, str], "Store"],
    open_history: Callable[[str, str], "HistoryReader"],
) -> str:
    """Return the report on the configuration at `path`.

    Parameters
    ----------
    path : Path
        The configuration file.
    check : callable
        Raises the errors of the configuration.
    open_store, open_history : callable
        Open what a daemon has stored, given its directory and instance.
    """
    text, raw = _read(path)
    real = _with_environment(path, raw)
    parts = [
        ("Versions", _versions()),
        ("Environment", _environment()),
        ("Configuration", shown(raw, text)),
        ("Findings", _findings(path, check)),
        ("Files", _files(path, real)),
        ("Counters", _counters(path, real, open_store)),
        ("Last decisions", _decisions(path, real, open_history)),
        ("Last crash", _crash(path, real)),
    ]
    lines = ["A report on edge-tvbo, fit to be published: secrets, hosts and names are struck out."]
    lines += ["Topics and the ids of sensors are not; look through it before you publish it.", ""]
    for title, part in parts:
        lines += [f"## {title}", "", *(f"    {line}".rstrip() for line in _whole(part)), ""]
    words = list(private(raw)) if raw else re.findall(r"[^\"']+", text)
    words += [*private(real), *contents(path, real), *ours(path)]
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


def _with_environment(path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    """Give what the daemon goes by: the file, and what the environment says instead of it."""
    given = environment.variables(os.environ)
    filled = environment.fill_in(raw, (), Report(path, dict, given), os.environ)
    return environment.override(filled, given, os.environ)


def _whole(part: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a part, and the bug that ended it, if one did: the others go on."""
    try:
        yield from part
    except Exception as error:
        yield from _bug(error)


def _bug(error: Exception) -> Iterator[str]:
    """Yield what a report is for, without the paths that are in a traceback."""
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
    yield f"{' '.join(platform.libc_ver()) or 'another libc'}; {os.cpu_count()} processors"
    yield f"file names in {sys.getfilesystemencoding()}, time zone offset {_zone()}"
    by = "systemd" if "INVOCATION_ID" in os.environ else "a person or another program"
    yield f"started by {by}; notify socket: {_is_set('NOTIFY_SOCKET')}"
    yield f"credentials directory: {_is_set('CREDENTIALS_DIRECTORY')}"
    names = environment.variables(os.environ).values()
    yield f"settings from the environment: {', '.join(names) or 'none'}"


def _zone() -> str:
    import time

    return time.strftime("%z")


def _is_set(name: str) -> str:
    return "set" if os.environ.get(name) else "not set"


def _findings(path: Path, check: Callable[[Path], object]) -> Iterator[str]:
    try:
        check(path)
    except EdgeTvboError as error:
        yield from str(error).splitlines()
    else:
        yield "none: the configuration is good"


def _files(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    base = path.parent
    yield f"the configuration: {_rights(path)}"
    for key, value in sorted(named_files(raw)):
        yield f"{key}: {_rights(base / value)}"
    for name in ("STATE_DIRECTORY", "CACHE_DIRECTORY", "NUMBA_CACHE_DIR"):
        if directory := os.environ.get(name):
            yield f"${name}: {_rights(Path(directory))}"
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~").expanduser() / ".cache")
    yield f"the user's cache: {_rights(Path(home))}"
    yield f"the package: {_rights(Path(__file__).parent)}"


def _counters(
    path: Path, raw: dict[str, Any], open_store: Callable[[str, str], "Store"]
) -> Iterator[str]:
    """Yield what each field has counted, as its newest sound state has it."""
    from edge_tvbo.daemon import checkpoints
    from edge_tvbo.messages.formatting import rfc3339

    state, instance = _state(path, raw)
    if state is None:
        yield "no state is kept; [state] dir says where it would be"
        return
    for generation, data in open_store(str(state), instance).generations():
        try:
            document = checkpoints.decode(data)
        except SnapshotError as error:
            yield f"{Path(generation).name} cannot be used: {error}"
            continue
        when = "when it ended" if document.final else "while it ran"
        yield f"kept at {rfc3339(round(document.anchor.wall))}, {when}"
        yield from _counted(document, raw.get("fields"))
        return
    yield "of a state that was kept there is none yet, or none that can be read"


def _counted(document: "Document", configured: object) -> Iterator[str]:
    """Yield a line for each field that has a state or is to have one."""
    from edge_tvbo.control.controller_state import counters

    known = configured if isinstance(configured, dict) else {}
    for name in [*known, *(each for each in document.fields if each not in known)]:
        title = name if name in known else f"{name} (not in the configuration)"
        if name not in document.fields:
            yield f"{title}: nothing is kept of it"
            continue
        try:
            yield f"{title}: {_in_words(counters(document.fields[name].controller))}"
        except SnapshotError as error:
            yield f"{title}: its state cannot be read: {error}"


def _in_words(counted: "Counters") -> str:
    resets = "resets uncounted" if counted.resets is None else _several(counted.resets, "reset")
    last = f", the last at {counted.last_reset}" if counted.last_reset else ""
    often = sorted(counted.refused.items(), key=lambda each: (-each[1], each[0]))
    refused = ", ".join(f"{count} {reason}" for reason, count in often)
    return (
        f"interval {counted.interval}; {counted.answered} answered, {counted.missed} missed; "
        f"{resets}{last}; refused: {refused or 'none'}{'; paused' if counted.paused else ''}"
    )


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _decisions(
    path: Path, raw: dict[str, Any], open_history: Callable[[str, str], "HistoryReader"]
) -> Iterator[str]:
    """Yield the last decisions, the newest last: of the history, or those before a crash."""
    from edge_tvbo.control import history_text
    from edge_tvbo.daemon import crash_log

    state, instance = _state(path, raw)
    if state is None:
        yield "no state is kept, and so neither a history nor what came before a crash"
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
        yield "these came before the crash below:" if lines else "none before a crash either"
    yield from lines


def _crash(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    """Yield the last traceback, with the names of files but not where they are."""
    from edge_tvbo.daemon import crash_log

    state, instance = _state(path, raw)
    crash = crash_log.read(str(state), instance) if state else None
    if crash is None:
        yield "none is kept"
        return
    yield from re.sub(r'(File ")[^"]*[/\\]', r"\1", crash.text).splitlines()


def _state(path: Path, raw: dict[str, Any]) -> tuple[Path | None, str]:
    """Give where state is kept, if anywhere, and the instance."""
    table, instance = raw.get("state"), raw.get("instance", "edge")
    directory = table.get("dir") if isinstance(table, dict) else None
    if not isinstance(directory, str) or not directory or "\0" in directory:
        return None, str(instance)
    return path.parent / directory, str(instance)


def _rights(path: Path) -> str:
    """Say what we may do there.

    >>> _rights(Path("/nonexistent/x"))
    'is not there'
    """
    try:
        if not path.exists():
            return "is not there"
        kind = "a directory" if path.is_dir() else "a file"
    except (OSError, ValueError):
        return "cannot be looked at"
    rights = (("readable", os.R_OK), ("writable", os.W_OK))
    return ", ".join([kind, *(w if os.access(path, mode) else f"not {w}" for w, mode in rights)])
