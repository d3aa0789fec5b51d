"""Text files of datasets, plain or gzipped: opens them, and says how to convert other encodings."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TextIO

from edge_tvbo.errors import DataError

UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file of a dataset, plain or gzipped; raises `DataError` if it is unreadable.

    Errors that occur later, while the `with` block reads the file, also become a `DataError`.
    """
    try:
        if _is_gzip(path):
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as text:
                yield text
        else:
            with path.open(encoding="utf-8-sig", newline="") as text:
                yield text
    except UnicodeDecodeError as error:
        raise DataError(_not_utf8(path)) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be read: {error}.\nIf the file is cut short or damaged, "
            "remove it and get it again."
        ) from error


def _is_gzip(path: Path) -> bool:
    """Return whether a dataset's file is gzipped, according to its name."""
    return path.suffix.lower() == ".gz"


def _not_utf8(path: Path) -> str:
    """Return the error for a dataset's file that is not UTF-8, with a command that converts it."""
    with gzip.open(path) if _is_gzip(path) else path.open("rb") as file:
        number, line, place = _first_not_utf8(file)
    save = "save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')"
    if number == 1 and line.startswith(UTF_16_MARKS):
        return f"{path}: is UTF-16 text, not UTF-8.\nConvert it, or {save}:{_iconv(path, 'UTF-16')}"
    byte = line[place : place + 1]
    return (
        f"{path}, line {number}: the byte 0x{byte.hex()} is not UTF-8 text; it is "
        f"{byte.decode('cp1252', 'replace')!r} in Windows-1252, the encoding of many spreadsheets."
        f"\nIf this character is right, convert the file, or {save}:{_iconv(path, 'WINDOWS-1252')}"
    )


def _first_not_utf8(lines: Iterable[bytes]) -> tuple[int, bytes, int]:
    """Return ``(number, line, index)`` for a text file's first line that is not UTF-8.

    `index` is the index of the first invalid byte in this line.
    """
    for number, line in enumerate(lines, 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return number, line, error.start
    return 1, b"", 0


def _iconv(path: Path, encoding: str) -> str:
    """Return the shell command that converts a text file of a dataset to UTF-8."""
    name = path.stem if _is_gzip(path) else path.name
    reader = "gzip -dc" if _is_gzip(path) else "cat"
    target = path.with_name(f"utf8-{name}")
    return (
        f"\n    {reader} {quote(str(path))} | iconv -f {encoding} -t UTF-8 > {quote(str(target))}"
    )
