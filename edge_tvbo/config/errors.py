"""What is wrong with a file: every mistake with its line, all of them in one exception."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from edge_tvbo.errors import Code, ConfigError, nearest

KeyPath = tuple[str | int, ...]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 60  # characters of a value that a message repeats


class Place(NamedTuple):
    """Where something stands in a text: line and column, both from 1."""

    line: int
    column: int


WHOLE = Place(0, 0)  # the file, not a place in it


class Finding(msgspec.Struct, frozen=True):
    """One mistake: where it is, what was found and what would do."""

    file: str
    line: int  # from 1; 0 where the file as a whole is meant
    column: int  # from 1; 0 where the line, or the file, as a whole is meant
    key: str  # "mqtt.port"; "" where no one setting is meant
    message: str
    code: Code

    def __str__(self) -> str:
        """Give `file:line:column: message [code]`, on one line."""
        places = [str(each) for each in (self.line, self.column) if each]
        return f"{':'.join([self.file, *places])}: {self.message} [{self.code}]"


class ConfigErrors(ConfigError):
    """All that is wrong with a configuration; its text has one line for each finding."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        """Give the findings, one a line, each with its code."""
        return "\n".join(map(str, self.findings))

    told = __str__


class Report:
    """Collects the findings about one file."""

    def __init__(
        self,
        file: Path,
        places: Callable[[], Mapping[KeyPath, Place]],
        variables: Mapping[KeyPath, str],
    ) -> None:
        self.file = file
        self._places = places  # asked for where there is something to report
        self._variables = variables  # of the environment, where a setting is from there
        self._findings: list[Finding] = []
        self._deprecated: dict[KeyPath, KeyPath] = {}  # names in the file, by the current ones
        self.warnings: list[str] = []

    def add(self, path: KeyPath, text: str, *hints: str, code: Code = Code.WRONG_VALUE) -> None:
        """Note that the setting at `path` `text`: "is 0; it can be 1 to 9"."""
        key = dotted(path)
        hint = f" ({'; '.join(filter(None, hints))})" if any(hints) else ""
        file, place = self._where(path)
        self._findings.append(Finding(file, *place, key, f"{key} {text}{hint}".strip(), code))

    def add_elsewhere(self, file: Path, line: int, message: str) -> None:
        """Note a mistake in another file that the configuration names."""
        self._findings.append(Finding(str(file), line, 0, "", message, Code.NAMED_FILE))

    def deprecate(self, old: KeyPath, new: KeyPath) -> None:
        """Note that the setting `new` is in the file under its deprecated name `old`."""
        warning = f"{dotted(old)} is deprecated; rename it to {dotted(new)}"
        self.warnings.append(f"{self.origin(old)}: {warning}")
        self._deprecated[new] = old

    def origin(self, path: KeyPath) -> str:
        """Say where a setting is from: a place in the file, or a variable."""
        file, place = self._where(path)
        return file if place == WHOLE else f"{file}:{place.line}:{place.column}"

    def _where(self, path: KeyPath) -> tuple[str, Place]:
        """Find the longest part of `path` that the file, or the environment, has."""
        for new, old in self._deprecated.items():
            if path[: len(new)] == new:
                path = (*old, *path[len(new) :])
        for size in range(len(path), 0, -1):
            if (variable := self._variables.get(path[:size])) is not None:
                return f"${variable}", WHOLE
            if (place := self._places().get(path[:size])) is not None:
                return str(self.file), place
        return str(self.file), Place(1, 1)

    def findings(self) -> list[Finding]:
        """Give what was found, by line, the configuration itself first."""
        own = str(self.file)
        return sorted(
            self._findings, key=lambda one: (one.file != own, one.file, one.line, one.column)
        )


def dotted(path: KeyPath) -> str:
    """Write a key path the way TOML does.

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
    """Write a value for a message: short, on one line, and unmistakable.

    >>> shown("warm"), shown(True), shown([1, 2]), shown(0.5)
    ('"warm"', 'true', 'an array', '0.5')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            short = value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "..."
            return '"' + repr(short + "'")[1:-2] + '"'
        case dict():
            return "a table"
        case list() | tuple():
            return "an array" if value else "an empty array"
        case int():
            return str(value) if abs(value) < 10**20 else "a huge number"
        case _:
            return str(value)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Suggest the known word that is nearest to `word`, or nothing.

    >>> did_you_mean("passwd", ["port", "password"])
    'did you mean "password"?'
    """
    near = nearest(word, known)
    return f'did you mean "{near}"?' if near else ""


def listed(words: Iterable[str], most: int = 5) -> str:
    """Write a few words in a row and count the rest.

    >>> listed("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    every = list(words)
    rest = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + rest
