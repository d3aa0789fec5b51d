"""Redaction of a bug report: decides which settings are shown, and removes secrets from the text.

Secrets are removed in two steps. First, only values that cannot contain a secret are shown:
numbers, times, words from fixed lists, and the texts of the settings in `PUBLIC_TEXTS`. Then the
hidden values are removed from the whole report, because an error message may repeat them. So are
the names of this machine and its user.
"""

import getpass
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from edge_tvbo.config.deprecated import renamed
from edge_tvbo.config.errors import shown as shown_value
from edge_tvbo.config.field_types import is_loopback
from edge_tvbo.config.introspection import Setting, setting_of, settings_of, struct_of
from edge_tvbo.config.settings import Settings
from edge_tvbo.messages.declared_types import choices, is_struct

HIDDEN = "***"
PUBLIC_TEXTS = (  # settings whose texts are shown
    "Settings.instance",
    "HomeAssistant.prefix",
    "HomeAssistant.birth",
    "FieldSettings.unit",
    "FieldSettings.sensors",
    "FieldSettings.positions",
    "ReadingSettings.topic",
    "ReadingSettings.payload",
    "SourceSettings.topic",
    "SourceSettings.payload",
    "SourceSettings.sensors",
    "SourceCommandSettings.topic",
    "ActivateSettings.topic",
    "EnergySettings.unit",
    "BatterySettings.topic",
    "BatterySettings.payload",
)
PUBLIC_OPTIONS = ("value", "time", "timezone", "unit")  # of payload formats
# A value is shown if the description of its allowed values begins with one of these texts:
_PUBLIC_VALUES = ("a duration", "a size", "whole seconds")
# Settings that name users or machines:
PRIVATE = ("host", "allow_hosts", "username", "client_id", "server_name")
MIN_PART_LENGTH = 3  # characters; the report is not searched for shorter parts of private values
MAX_PASSWORD_LENGTH = 4096  # characters
_PUBLIC_WORDS = {
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
    """Yield the key and the value of each setting that is the path of a file or directory.

    The bug report says whether each file can be used, and does not show the secrets in such files.
    """
    for key, value, setting, _ in _walk(renamed(raw), Settings, ()):
        if setting and _is_path(setting, value) and value and "\0" not in value:
            yield key, value


# --- the configuration -------------------------------------------------------------------------


class Line(NamedTuple):
    """One setting of the configuration file, and whether a bug report shows the setting's value."""

    key: str
    value: Any
    setting: Setting | None  # None for an unknown key
    is_public: bool

    @property
    def is_secret(self) -> bool:
        """Whether the value may be a secret; if so, the whole bug report hides its words."""
        return self.setting is None or _is_secret(self.setting, self.value)

    def texts(self) -> Iterator[str]:
        """Yield each text in the setting's value.

        A number is yielded, as text, only if the setting is private or names a file.
        """
        yield from _texts(self.value)
        is_number = type(self.value) in (int, float)
        if is_number and self.setting and (_is_private(self.setting) or _names_file(self.setting)):
            yield shown_value(self.value)


def redacted_settings(raw: dict[str, Any], text: str) -> Iterator[str]:
    """Yield a line for each setting of the configuration, with *** in place of private values."""
    if not raw:
        invalid = "the file is not valid TOML, so its content is not shown"
        yield invalid if text else "the file is empty or missing"
    for line in _walk(raw, Settings, ()):
        yield f"{line.key} = {_plain(line.value) if line.is_public else HIDDEN}"


def _walk(
    raw: Mapping[str, Any], kind: type[msgspec.Struct], path: tuple[str, ...]
) -> Iterator[Line]:
    """Yield a `Line` of the bug report for each setting of a table and of its inner tables."""
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
        elif setting and is_struct(setting.items) and _is_array_of_tables(value):
            for index, table in enumerate(value):
                yield from _walk(table, setting.items, (*path, f"{name}[{index}]"))
        else:
            is_public = setting is not None and _is_public(kind, setting, value)
            yield Line(".".join(where), value, setting, is_public)


def _is_array_of_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _setting_of(kind: type[msgspec.Struct], name: str) -> Setting | None:
    """Return the setting `name` of the settings struct `kind`, for the redaction.

    `name` can also be one of the `PUBLIC_OPTIONS` of a payload format, if `kind` accepts such
    options. Return None for an unknown name.
    """
    is_known = name in settings_of(kind) or name in PUBLIC_OPTIONS
    return setting_of(kind, name) if is_known else None


def _is_public(kind: type[msgspec.Struct], setting: Setting, value: Any) -> bool:
    if setting.name == "host" and isinstance(value, str) and is_loopback(value):
        return True
    if _is_secret(setting, value):
        return bool(value == "")
    return (
        not (isinstance(value, dict) or any(_texts(value)))
        or setting.name in PUBLIC_OPTIONS
        or f"{kind.__name__}.{setting.name}" in PUBLIC_TEXTS
        or value in choices(setting.declared)
        or setting.expected.startswith(_PUBLIC_VALUES)
    )


def _is_secret(setting: Setting, value: Any) -> bool:
    """Return whether the report must hide a setting's value, because it may be a secret.

    Any invalid value may be a secret.
    """
    if _is_private(setting) or _is_path(setting, value):
        return True
    return not _is_valid(setting, value) or (isinstance(value, str) and "@" in value)


def _is_private(setting: Setting) -> bool:
    """Return whether a setting is a secret, or names a user or a machine."""
    return bool(setting.extra.get("secret")) or setting.name in PRIVATE


def _is_valid(setting: Setting, value: Any) -> bool:
    """Return whether a setting's value in the bug report is valid.

    An invalid value is hidden in the report, because it may be a secret in the wrong place.
    """
    parse = setting.extra.get("parse")
    try:
        parse(value) if parse else msgspec.convert(value, setting.kind, strict=True)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _is_path(setting: Setting, value: Any) -> bool:
    return _names_file(setting) and isinstance(value, str)


def _names_file(setting: Setting) -> bool:
    return "name of a file" in setting.expected or "name of a directory" in setting.expected


def _plain(value: Any) -> str:
    """Return a setting's value as one line of the report; a long list or table is shortened.

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


# --- the whole report --------------------------------------------------------------------------


def redact(text: str, words: list[str]) -> str:
    """Return a report's text with each of the private `words` replaced by ***.

    >>> redact("broker.lan refuses bob, bobby", ["bob", "broker.lan"])
    '*** refuses ***, bobby'
    """
    for word in sorted(set(words), key=len, reverse=True):
        if not word or word.lower() in _PUBLIC_WORDS or word not in text:
            continue
        literal = re.escape(word)  # first in the pattern, because `re` searches for it faster
        alone = rf"{literal}(?<![\w-]{literal})(?![\w-])"
        text = re.sub(alone, HIDDEN, text)
    return text


def private_values(raw: dict[str, Any], base: Path) -> Iterator[str]:
    """Yield the hidden values of settings, and the parts of these values.

    Each value is yielded in two forms: as in the file, and as in an error message. `base` is the
    directory of the configuration; error messages put this directory before the name of a file. A
    word that the report shows elsewhere, such as a sensor id, is yielded only if it is part of a
    value that may be a secret.
    """
    lines = list(_walk(raw, Settings, ()))
    shown = {word for line in lines for word in _shown_words(line)}
    for line in lines:
        if line.is_public:
            continue
        is_secret = line.is_secret
        for text in line.texts():
            words = {text, *_as_shown(text, base)}
            if not (line.setting and _is_path(line.setting, text)):
                words.update(part for part in _parts(text) if len(part) >= MIN_PART_LENGTH)
            if not is_secret:
                words = {word for word in words - shown if len(word) >= MIN_PART_LENGTH}
            yield from words


def _as_shown(text: str, base: Path) -> Iterator[str]:
    """Yield a setting's value, and the path that it names, in the form used by error messages.

    An error message escapes some characters, and shows only the beginning of a long value.
    """
    for each in (text, str(base / text)) if text else ():
        yield shown_value(each)[1:-1].removesuffix("...")


def _shown_words(line: Line) -> Iterator[str]:
    """Yield the words that a bug report shows for one setting of the configuration."""
    yield from line.key.split(".")
    if not line.is_public:
        return
    if isinstance(line.value, dict):
        yield from line.value
    for text in _texts(line.value):
        yield from (text, *_parts(text))


def _parts(text: str) -> list[str]:
    return re.split(r"[/@:\s]+", text)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in the value of a setting that the redaction examines.

    The value can be a list or a table.
    """
    if isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def password_file_contents(path: Path, raw: dict[str, Any]) -> Iterator[str]:
    """Yield, for the redaction, the secret in each password file and token file."""
    for key, value in named_files(raw):
        if key.endswith(("password_file", "token_file")):
            try:
                with (path.parent / value).open(encoding="utf-8-sig") as file:
                    yield file.read(MAX_PASSWORD_LENGTH).strip("\r\n")
            except (OSError, ValueError):
                continue


def machine_names(path: Path) -> list[str]:
    """Return the names that a report hides: of this machine, its user and private directories.

    The directories are the home directory, the working directory and the configuration's directory.
    """
    host = socket.gethostname()
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    directories = [path.parent, path.absolute().parent, Path.cwd()]
    with suppress(RuntimeError):  # a user without a home directory
        directories.append(Path.home())
    return [host, host.partition(".")[0], user, *(str(each) for each in directories if each.name)]
