"""Configuration errors: one exception contains all mistakes, each with its file, line and code."""

import os
import pwd
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from edge_tvbo.errors import Code, ConfigError, nearest
from edge_tvbo.messages.formatting import listed as listed

KeyPath = tuple[str | int, ...]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
MAX_VALUE_LENGTH = 60  # a message contains at most this many characters of a value
MAX_SIMILAR_NAMES = 10  # unknown names for which a similar name is looked for; 60 us each


class Place(NamedTuple):
    """Position in the text of a configuration: line and column, both counted from 1."""

    line: int
    column: int


WHOLE = Place(0, 0)  # the file as a whole


class ConfigWarning(msgspec.Struct, frozen=True):
    """One warning about a configuration: its position, the setting and a message."""

    file: str
    line: int  # from 1; 0 for the file as a whole
    column: int  # from 1; 0 for the line or the file as a whole
    key: str  # "mqtt.port"; "" if the message is not about one setting
    message: str

    def __str__(self) -> str:
        """Return the warning on one line: `file:line:column: message`."""
        places = [str(each) for each in (self.line, self.column) if each]
        return f"{':'.join([self.file, *places])}: {self.message}"


class Finding(ConfigWarning, frozen=True):
    """One mistake in a configuration: its position, the setting, a message and an error code."""

    code: Code

    def __str__(self) -> str:
        """Return the mistake on one line: `file:line:column: message [code]`."""
        return f"{super().__str__()} [{self.code}]"


class ConfigErrors(ConfigError):
    """Exception with all mistakes in a configuration; its text has one line for each mistake."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        """Return the mistakes in the configuration, one per line, each with its code."""
        return "\n".join(map(str, self.findings))

    with_code = __str__


class Report:
    """Collector of the mistakes in one configuration file, and of warnings about this file."""

    def __init__(
        self,
        file: Path,
        places: Callable[[], Mapping[KeyPath, Place]],
        variables: Mapping[KeyPath, str],
    ) -> None:
        self.file = file
        self._places = places  # called only if there is something to report
        self.variables = variables  # environment variables by the setting that they override
        self._findings: list[Finding] = []
        self._unknown_names = 0
        self._unfilled = set[KeyPath]()  # settings whose environment variable cannot be used
        self._deprecated: dict[KeyPath, KeyPath] = {}  # deprecated keys in the file, by current key
        self.warnings: list[ConfigWarning] = []

    def add(self, path: KeyPath, text: str, *hints: str, code: Code = Code.WRONG_VALUE) -> None:
        """Report an error in the setting at `path`.

        The message is the setting's key followed by `text`, such as "is 0; allowed: 1". After an
        error with the code `ENVIRONMENT`, errors of the same setting with other codes are dropped.
        """
        if code is Code.ENVIRONMENT:
            self._unfilled.add(path)
        elif path in self._unfilled:
            return
        key = dotted(path)
        different = dict.fromkeys(filter(None, hints))
        hint = f" ({'; '.join(different)})" if different else ""
        file, place = self._where(path)
        self._findings.append(Finding(file, *place, key, f"{key} {text}{hint}".strip(), code))

    def add_unknown_name(self, path: KeyPath, text: str, name: str, known: Iterable[str]) -> None:
        """Report that the setting at `path` contains a `name` that is not one of the `known` names.

        Only the first `MAX_SIMILAR_NAMES` of these errors contain a hint with a similar name. For
        hundreds of unknown names, the search for similar names would take seconds, in which a
        reloading daemon does nothing else.
        """
        self._unknown_names += 1
        near = did_you_mean(name, known) if self._unknown_names <= MAX_SIMILAR_NAMES else ""
        self.add(path, text, near, code=Code.UNKNOWN_NAME)

    def add_file(self, path: KeyPath, file: Path, problem: str) -> None:
        """Report that the setting at `path` names a `file` that cannot be used.

        `problem` is the end of the sentence, such as "is not a UTF-8 text file".
        """
        self.add(path, f"is {shown(str(file))}, which {problem}", code=Code.NAMED_FILE)

    def add_elsewhere(self, file: Path, line: int, message: str) -> None:
        """Report an error in another file, which a setting of the configuration names."""
        self._findings.append(Finding(str(file), line, 0, "", message, Code.NAMED_FILE))

    def deprecate(self, old: KeyPath, new: KeyPath) -> None:
        """Add a warning: the configuration contains `old`, which is a deprecated name of `new`."""
        self.warn(old, f"{dotted(old)} is deprecated; rename it to {dotted(new)}")
        self._deprecated[new] = old

    def warn(self, path: KeyPath, message: str) -> None:
        """Add a warning about the setting at `path`."""
        self.warnings.append(self.warning(path, message))

    def warning(self, path: KeyPath, message: str) -> ConfigWarning:
        """Return a warning about the setting at `path`, with the position of this setting."""
        file, place = self._where(path)
        return ConfigWarning(file, *place, dotted(path), message)

    def origin(self, path: KeyPath) -> str:
        """Return, for an error text, where the setting at `path` was set.

        The result contains the file, line and column, or names an environment variable.
        """
        file, place = self._where(path)
        return file if place == WHOLE else f"{file}:{place.line}:{place.column}"

    def _where(self, path: KeyPath) -> tuple[str, Place]:
        """Return the file and the position of an error in the setting at `path`.

        If an environment variable sets the setting, the name of the variable is returned instead of
        the file. If the setting is missing, the position of its table is returned. If the file has
        no such table, the name of a variable that sets another setting of the table is returned.
        """
        for new, old in self._deprecated.items():
            if path[: len(new)] == new:
                path = (*old, *path[len(new) :])
        for size in range(len(path), 0, -1):
            part = path[:size]
            if (variable := self.variables.get(part)) is not None:
                return f"${variable}", WHOLE
            if (place := self._places().get(part)) is not None:
                return str(self.file), place
            if inside := [name for key, name in self.variables.items() if key[:size] == part]:
                return f"${inside[0]}", WHOLE
        return str(self.file), Place(1, 1)

    def findings(self) -> list[Finding]:
        """Return each mistake once, sorted by file and line; the configuration file comes first."""
        own = str(self.file)
        return sorted(
            dict.fromkeys(self._findings),
            key=lambda one: (one.file != own, one.file, one.line, one.column),
        )


def dotted(path: KeyPath) -> str:
    """Return a key path as an error message shows it: in the syntax of a dotted key in TOML.

    >>> dotted(("fields", "a b", "sensors", 0))
    'fields."a b".sensors[0]'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += "." * bool(text) + (part if _BARE.fullmatch(part) else shown(part))
    return text


def shown(value: object) -> str:
    r"""Return a configuration value as an error message shows it: short and on one line.

    >>> print(shown('a "b"\n'))
    "a \"b\"\n"
    >>> shown("warm"), shown(True), shown([1, 2]), shown(0.5)
    ('"warm"', 'true', 'an array', '0.5')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            short = value
            if len(value) > MAX_VALUE_LENGTH:
                short = value[: MAX_VALUE_LENGTH - 3] + "..."
            escaped = "".join(repr(each)[1:-1] for each in short).replace('"', '\\"')
            return f'"{escaped}"'
        case dict():
            return "a table"
        case list() | tuple():
            return "an array" if value else "an empty array"
        case int():
            return str(value) if abs(value) < 10**20 else "a huge number"
        case _:
            return str(value)


def dot_hint(key: object, value: object, kind: type) -> str:
    """Return the hint that an id with a dot needs quotes; "" if the error has another cause.

    TOML splits an unquoted id at its dots, and reads the parts as the keys of nested tables: `key`
    is the first part, and `value` is the table under this key. `kind` is the type of a valid value.
    If the innermost value has this type, the hint is returned.

    >>> dot_hint("mote", {"1": [0, 0]}, list)
    'write an id with a dot in quotes, "mote.1"'
    """
    parts = [str(key)]
    while isinstance(value, dict) and value:
        part, value = next(iter(value.items()))
        parts.append(part)
    has_dot = len(parts) > 1 and isinstance(value, kind)
    return f"write an id with a dot in quotes, {shown('.'.join(parts))}" if has_dot else ""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return a hint for an error: the known name that is most similar to `word`, or "".

    >>> did_you_mean("passwd", ["port", "password"])
    'did you mean "password"?'
    """
    near = nearest(word, known)
    return f'did you mean "{near}"?' if near else ""


def unreadable(error: Exception) -> str:
    """Return why the configuration, or a file or directory that it names, cannot be read.

    The result contains no part of the file's content, which can be secret.
    """
    match error:
        case FileNotFoundError():
            return "does not exist; paths are relative to the directory of the configuration"
        case PermissionError(strerror=str(reason)):
            return f"cannot be read: {reason}; the user {_user()} needs the permission to read it"
        case OSError(strerror=str(reason)):
            return f"cannot be read: {reason}"
        case UnicodeDecodeError():
            return "is not a UTF-8 text file"
        case UnicodeEncodeError(encoding=encoding):  # the path cannot be encoded
            return (
                f"cannot be encoded in the locale's encoding, {encoding}; use only ASCII "
                "characters, or start edge-tvbo with LC_ALL=C.UTF-8"
            )
        case _:
            return "cannot be read"


def _user() -> str:
    """Return the name of the user of this process, or the user's number if there is no name."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
