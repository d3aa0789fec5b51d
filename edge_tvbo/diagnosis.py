"""What a public bug report wants to know of an installation, and nothing that it must not say.

Two nets hold secrets back. The configuration is shown by what each setting is declared to be: a
password, a host, a name or a path is never written, nor is a value of a setting we do not know.
Then whatever the file said in those places, and what this machine and its user are called, is
struck from the whole text, wherever a message may have repeated it.
"""

import getpass
import os
import platform
import re
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from edge_tvbo.config.schema import Setting, rest_of, settings_of
from edge_tvbo.config.settings import Settings
from edge_tvbo.errors import EdgeTvboError

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
HIDDEN = "***"
PRIVATE = ("host", "username", "client_id", "server_name")  # settings that name people or machines
DECISIONS = 50  # of each field that are shown
SHORTEST = 3  # characters of a part of a text, to be struck by itself
LARGEST = 4096  # characters of a password
_ORDINARY = {"mqtt", "mqtts", "edge-tvbo", "edge_tvbo", "localhost", "config", "python", HIDDEN}


def report(path: Path, check: Callable[[Path], object]) -> str:
    """Give the report on the configuration at `path`; `check` raises what is wrong with it."""
    text, raw = _read(path)
    parts = [
        ("Versions", _versions()),
        ("Environment", _environment()),
        ("Configuration", _shown(raw, text)),
        ("Findings", _findings(path, check)),
        ("Files", _files(path, raw)),
        ("Last decisions", _decisions(path, raw)),
        ("Last crash", _crash(path, raw)),
    ]
    lines = ["A report on edge-tvbo, fit to be published: secrets, hosts and names are struck out."]
    lines += ["Topics and the ids of sensors are not; look through it before you publish it.", ""]
    for title, part in parts:
        lines += [f"## {title}", "", *(f"    {line}".rstrip() for line in part), ""]
    private = list(_private(raw)) if raw else re.findall(r"[^\"']+", text)
    return struck("\n".join(lines), [*private, *_contents(path, raw), *_ours(path)])


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_bytes().decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    except (OSError, ValueError):
        return "", {}
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError):
        return text, {}


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
    except Exception as error:  # a bug: what a report is for
        import traceback

        yield from traceback.format_exception(error)[-1].splitlines()
        for frame in traceback.extract_tb(error.__traceback__):
            yield f"at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"
    else:
        yield "none: the configuration is good"


def _files(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    base = path.parent
    yield f"the configuration: {_rights(path)}"
    for key, value in sorted(_named_files(raw)):
        yield f"{key}: {_rights(base / value)}"
    for name in ("STATE_DIRECTORY", "CACHE_DIRECTORY", "NUMBA_CACHE_DIR"):
        if directory := os.environ.get(name):
            yield f"${name}: {_rights(Path(directory))}"
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~").expanduser() / ".cache")
    yield f"the user's cache: {_rights(Path(home))}"
    yield f"the package: {_rights(Path(__file__).parent)}"


def _decisions(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    """Yield the last decisions of each field, the newest last."""
    from edge_tvbo import hindsight, plugins

    state, instance = _state(path, raw)
    if state is None:
        yield "no state is kept, and so no history"
        return
    try:
        with closing(plugins.load("pasts", "sqlite")(str(state), instance)) as past:
            for field in past.fields():
                for entry in reversed(past.newest(field, DECISIONS)):
                    yield f"{field} {hindsight.line(entry)}"
    except EdgeTvboError as error:
        yield from str(error).splitlines()


def _crash(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    """Yield the last traceback, with the names of files but not where they are."""
    from edge_tvbo.runtime import crashes

    state, instance = _state(path, raw)
    try:
        text = crashes.place(str(state), instance).read_text("utf-8") if state else ""
    except (OSError, ValueError):
        text = ""
    if not text:
        yield "none is kept"
    yield from re.sub(r'(File ")[^"]*[/\\]', r"\1", text).splitlines()


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


def _named_files(raw: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each setting that names a file, and the name."""
    for key, value, setting, _ in _walk(raw, Settings, ()):
        if setting and _is_path(setting, value) and value and "\0" not in value:
            yield key, value


# --- the configuration, by what each setting is -----------------------------------------------


class Line(NamedTuple):
    """One setting of the file, and how much of it may be seen."""

    key: str
    value: Any
    setting: Setting | None  # None for one that we do not know
    seen: bool


def _shown(raw: dict[str, Any], text: str) -> Iterator[str]:
    if not raw:
        yield "cannot be read as TOML, so nothing of it is shown" if text else "is empty or missing"
    for line in _walk(raw, Settings, ()):
        yield f"{line.key} = {_plain(line.value) if line.seen else HIDDEN}"


def _walk(
    raw: Mapping[str, Any], kind: type[msgspec.Struct], path: tuple[str, ...]
) -> Iterator[Line]:
    """Yield each setting of a table, those of the tables in it included."""
    for name, value in raw.items():
        setting, where = _setting_of(kind, name), (*path, name)
        if setting and setting.named and isinstance(value, dict):
            for each, table in value.items():
                if isinstance(table, dict):
                    yield from _walk(table, setting.named[1], (*where, each))
                else:
                    yield Line(".".join((*where, each)), table, None, False)
        elif setting and setting.table and isinstance(value, dict):
            yield from _walk(value, setting.table, where)
        else:
            seen = setting is not None and _may_be_seen(setting, value)
            yield Line(".".join(where), value, setting, seen)


def _setting_of(kind: type[msgspec.Struct], name: str) -> Setting | None:
    """Give what a key of a table is; a format's or policy's key is a setting too."""
    if name in settings_of(kind):
        return settings_of(kind)[name]
    rest = rest_of(kind)
    if rest is None:
        return None
    inside = rest.extra["rest"]
    if inside is str:
        return msgspec.structs.replace(rest, name=name, kind=str)
    return settings_of(inside).get(name)


def _may_be_seen(setting: Setting, value: Any) -> bool:
    if setting.name == "host" and _is_loopback(value):
        return True
    if setting.extra.get("secret") or setting.name in PRIVATE or _is_path(setting, value):
        return bool(value == "")
    return _is_right(setting, value) and not (isinstance(value, str) and "@" in value)


def _is_right(setting: Setting, value: Any) -> bool:
    """Say whether a value is what the setting can be; what is not may be a slip of the hand."""
    reads = setting.extra.get("reads")
    try:
        reads(value) if reads else msgspec.convert(value, setting.kind, strict=True)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _is_path(setting: Setting, value: Any) -> bool:
    named = "name of a file" in setting.can or "name of a directory" in setting.can
    return named and isinstance(value, str)


def _is_loopback(value: Any) -> bool:
    try:
        return bool(value == "localhost" or ip_address(value).is_loopback)
    except ValueError:
        return False


def _plain(value: Any) -> str:
    """Write a value on one line, a long one in short.

    >>> _plain("a"), _plain(list(range(100))), _plain({"c1": 1})
    ('"a"', '[0,1,2,3,4,... 100 items]', '{"c1":1}')
    """
    if isinstance(value, list) and len(value) > 20:
        return f"{_plain(value[:5])[:-1]},... {len(value)} items]"
    if isinstance(value, dict) and len(value) > 20:
        return f"a table of {len(value)} entries"
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return HIDDEN


# --- what is struck from the whole text ---------------------------------------------------------


def struck(text: str, private: list[str]) -> str:
    """Give `text` without any of these words, the longest struck first.

    >>> struck("broker.lan refuses bob, bobby", ["bob", "broker.lan"])
    '*** refuses ***, bobby'
    """
    for word in sorted(set(private), key=len, reverse=True):
        if not word or word.lower() in _ORDINARY:
            continue
        alone = rf"(?<![\w-]){re.escape(word)}(?![\w-])"
        text = re.sub(alone, HIDDEN, text)
    return text


def _private(raw: dict[str, Any]) -> Iterator[str]:
    """Yield what the file says where it may name a secret, a machine or a person."""
    for line in _walk(raw, Settings, ()):
        if line.seen:
            continue
        for text in _texts(line.value):
            yield text
            if not (line.setting and _is_path(line.setting, text)):
                yield from (part for part in re.split(r"[/@:\s]+", text) if len(part) >= SHORTEST)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text inside of a value."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def _contents(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    """Yield what is in the file of a password."""
    for key, value in _named_files(raw):
        if key.endswith("password_file"):
            try:
                with (path.parent / value).open(encoding="utf-8") as file:
                    yield file.read(LARGEST).strip("\r\n")
            except (OSError, ValueError):
                continue


def _ours(path: Path) -> list[str]:
    """Give what this machine, its user and their directories are called."""
    host = socket.gethostname()
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    directories = [Path("~").expanduser(), path.parent, path.absolute().parent, Path.cwd()]
    return [host, host.partition(".")[0], user, *(str(each) for each in directories if each.name)]
