"""What may be seen of a configuration, and what is struck from a text that others will read.

Two nets hold secrets back. The configuration is shown by what each setting is declared to be: a
password, a host, a name or a path is never written, nor is a value of a setting we do not know.
Then whatever the file said in those places, and what this machine and its user are called, is
struck from the whole text, wherever a message may have repeated it.
"""

import getpass
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from edge_tvbo.config.deprecated import renamed
from edge_tvbo.config.field_types import is_loopback
from edge_tvbo.config.introspection import Setting, rest_of, settings_of, struct_of
from edge_tvbo.config.settings import Settings

HIDDEN = "***"
PRIVATE = ("host", "username", "client_id", "server_name")  # settings that name people or machines
SHORTEST = 3  # characters of a part of a text, to be struck by itself
LARGEST = 4096  # characters of a password
_ORDINARY = {
    "mqtt",
    "mqtts",
    "edge-tvbo",
    "edge_tvbo",
    "localhost",
    "config",
    "state",
    "python",
    HIDDEN,
}


def named_files(raw: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each setting that names a file, and the name."""
    for key, value, setting, _ in _walk(renamed(raw), Settings, ()):
        if setting and _is_path(setting, value) and value and "\0" not in value:
            yield key, value


# --- the configuration, by what each setting is -----------------------------------------------


class Line(NamedTuple):
    """One setting of the file, and how much of it may be seen."""

    key: str
    value: Any
    setting: Setting | None  # None for one that we do not know
    seen: bool


def shown(raw: dict[str, Any], text: str) -> Iterator[str]:
    """Yield each setting of the configuration with as much of its value as may be seen."""
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
            yield from _walk(value, struct_of(setting, value), where)
        else:
            seen = setting is not None and _may_be_seen(setting, value)
            yield Line(".".join(where), value, setting, seen)


def _setting_of(kind: type[msgspec.Struct], name: str) -> Setting | None:
    """Return the setting that a key of a table is; a key of a payload format is one too."""
    if name in settings_of(kind):
        return settings_of(kind)[name]
    rest = rest_of(kind)
    return msgspec.structs.replace(rest, name=name, declared=str) if rest else None


def _may_be_seen(setting: Setting, value: Any) -> bool:
    if setting.name == "host" and isinstance(value, str) and is_loopback(value):
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


def redact(text: str, words: list[str]) -> str:
    """Give `text` without any of these words, the longest struck first.

    >>> redact("broker.lan refuses bob, bobby", ["bob", "broker.lan"])
    '*** refuses ***, bobby'
    """
    for word in sorted(set(words), key=len, reverse=True):
        if not word or word.lower() in _ORDINARY:
            continue
        alone = rf"(?<![\w-]){re.escape(word)}(?![\w-])"
        text = re.sub(alone, HIDDEN, text)
    return text


def private(raw: dict[str, Any]) -> Iterator[str]:
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


def contents(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    """Yield what is in the file of a password."""
    for key, value in named_files(raw):
        if key.endswith("password_file"):
            try:
                with (path.parent / value).open(encoding="utf-8") as file:
                    yield file.read(LARGEST).strip("\r\n")
            except (OSError, ValueError):
                continue


def ours(path: Path) -> list[str]:
    """Give what this machine, its user and their directories are called."""
    host = socket.gethostname()
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    directories = [Path("~").expanduser(), path.parent, path.absolute().parent, Path.cwd()]
    return [host, host.partition(".")[0], user, *(str(each) for each in directories if each.name)]
