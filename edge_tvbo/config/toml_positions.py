"""TOML positions: line and column of each key, which `tomllib` does not report.

The text is valid TOML, because `tomllib` has parsed it before. The scanner in this module skips
whole values, so that nothing inside a string or a comment is mistaken for a key.
"""

import re
import tomllib
from bisect import bisect_right

from edge_tvbo.config.errors import KeyPath, Place

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*')[ \t]*""")
_STRING = re.compile(
    r'''"""(?:\\.|[^\\])*?"""("{0,2})|\'\'\'.*?\'\'\'(\'{0,2})|"(?:\\.|[^"\\])*"|'[^']*\'''',
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def key_places(text: str) -> dict[KeyPath, Place]:
    """Return a dict that maps the path of each key, table and array item of a text to its place.

    >>> for key, place in key_places("[b]; c.d = 1".replace(";", chr(10))).items():
    ...     print(".".join(key), place.line, place.column)
    b 1 2
    b.c 2 2
    b.c.d 2 2
    """
    return _Scanner(text).document()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.places: dict[KeyPath, Place] = {}
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._sizes: dict[KeyPath, int] = {}  # number of items of each array of tables so far

    def document(self) -> dict[KeyPath, Place]:
        table: KeyPath = ()
        while not self._done():
            if self._take("[["):
                table = self._item_header()
            elif self._take("["):
                table = self._header()
            else:
                self._pair(table)
        return self.places

    def _done(self) -> bool:
        self._blank()
        return self.at >= len(self.text)

    def _blank(self) -> None:
        self._skip(_BLANK)

    def _skip(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:  # cannot happen to a text that tomllib has read
            raise ValueError(f"unexpected TOML at line {self._place().line}")
        self.at = found.end()
        return found

    def _take(self, mark: str) -> bool:
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def _place(self) -> Place:
        """Return the position of the next character of the TOML text, after spaces and tabs."""
        at = self.at
        while self.text[at : at + 1] in (" ", "\t"):
            at += 1
        above = bisect_right(self._ends, at - 1)
        start = self._ends[above - 1] + 1 if above else 0
        return Place(above + 1, at - start + 1)

    def _key(self) -> list[str]:
        parts = [self._key_part()]
        while self._take("."):
            parts.append(self._key_part())
        return parts

    def _key_part(self) -> str:
        raw = self._skip(_KEY)[1]
        if raw[0] in "\"'":
            return str(tomllib.loads(f"key = {raw}")["key"])
        return raw

    def _note(self, path: KeyPath, parts: list[str], place: Place) -> KeyPath:
        """Store the place of each TOML key in `parts`; return `path` extended with these keys.

        If a key is an array of tables, the returned path contains the index of the newest table.
        """
        for part in parts:
            path = (*path, part)
            self.places.setdefault(path, place)
            if path in self._sizes:
                path = (*path, self._sizes[path] - 1)
        return path

    def _header(self) -> KeyPath:
        place = self._place()
        path = self._note((), self._key(), place)
        self._take("]")
        self.places[path] = place
        return path

    def _item_header(self) -> KeyPath:
        place = self._place()
        *above, last = self._key()
        self._take("]]")
        array = (*self._note((), above, place), last)
        self.places.setdefault(array, place)
        index = self._sizes[array] = self._sizes.get(array, 0) + 1
        self.places[*array, index - 1] = place
        return (*array, index - 1)

    def _pair(self, table: KeyPath) -> None:
        place = self._place()
        path = self._note(table, self._key(), place)
        self._take("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._blank()
        if self._take("["):
            self._array(path)
        elif self._take("{"):
            self._inline_table(path)
        elif self.text[self.at] in "\"'":
            self._skip(_STRING)
        else:
            self._skip(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        index = 0
        while not self._ends_with("]"):
            self.places[*path, index] = self._place()
            self._value((*path, index))
            index += 1
            self._blank()
            self._take(",")

    def _inline_table(self, path: KeyPath) -> None:
        while not self._ends_with("}"):
            self._pair(path)
            self._blank()
            self._take(",")

    def _ends_with(self, mark: str) -> bool:
        self._blank()
        return self._take(mark)
