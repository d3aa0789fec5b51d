"""Regular grids of a dataset's readings: opens text files, averages readings, and fills gaps."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, TextIO

from edge_tvbo.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_CELLS = 50_000_000  # of a grid, which then has 400 MB of float64
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def bin_means(
    step: "NDArray[np.intp]",
    sensor: "NDArray[np.intp]",
    reading: "NDArray[np.float64]",
    shape: tuple[int, int],
) -> "tuple[NDArray[np.float64], NDArray[np.bool_]]":
    """Return the mean reading of each cell of a (T, M) grid, and which cells have a reading.

    Parameters
    ----------
    step, sensor : intp[n]
        The row and the column of each reading in the grid.
    reading : float64[n]
        Finite readings.
    shape : (T, M)
        The numbers of steps and sensors.

    Returns
    -------
    means : float64[T, M]
        The mean readings; 0.0 in a cell without a reading.
    observed : bool[T, M]
        Whether a cell has a reading.

    >>> import numpy as np
    >>> means, observed = bin_means(
    ...     np.array([0, 0, 1]), np.array([0, 0, 1]), np.array([1.0, 3.0, 5.0]), (2, 2)
    ... )
    >>> means.tolist(), observed.tolist()
    ([[2.0, 0.0], [0.0, 5.0]], [[True, False], [False, True]])
    """
    import numpy as np

    cells = shape[0] * shape[1]
    cell = step * shape[1] + sensor
    count = np.bincount(cell, minlength=cells)
    total = np.bincount(cell, weights=reading, minlength=cells)
    means: NDArray[np.float64] = (total / np.maximum(count, 1)).reshape(shape)
    return means, (count > 0).reshape(shape)


def fill_gaps(
    values: "NDArray[np.float64]", observed: "NDArray[np.bool_]"
) -> "NDArray[np.float64]":
    """Return a copy of a grid in which gaps between readings are interpolated linearly in time.

    A gap at the beginning or end of a column is filled with the nearest reading. Every sensor
    (column) needs at least one observed value.

    >>> import numpy as np
    >>> y = np.array([[0.0], [1.0], [0.0], [3.0]])
    >>> fill_gaps(y, np.array([[False], [True], [False], [True]])).ravel().tolist()
    [1.0, 1.0, 2.0, 3.0]
    """
    import numpy as np

    filled = values.astype(np.float64)
    steps = np.arange(len(values))
    for j in np.flatnonzero(~observed.all(axis=0)):
        seen = observed[:, j]
        filled[~seen, j] = np.interp(steps[~seen], steps[seen], values[seen, j])
    return filled


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
    """Return whether the name of a dataset's file says that it is gzipped."""
    return path.suffix.lower() == ".gz"


def _not_utf8(path: Path) -> str:
    """Return the error text for a text file of a dataset that is not UTF-8, with the fix."""
    with gzip.open(path) if _is_gzip(path) else path.open("rb") as file:
        number, line, place = _first_not_utf8(file)
    save = "save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')"
    if number == 1 and line.startswith(UTF_16_MARKS):
        return f"{path}: is UTF-16 text, not UTF-8.\nConvert it, or {save}:{_iconv(path, 'UTF-16')}"
    byte = line[place : place + 1]
    return (
        f"{path}, line {number}: the byte 0x{byte.hex()} is not UTF-8 text; it is "
        f"{byte.decode('cp1252', 'replace')!r} in Windows-1252, the encoding of many spreadsheets."
        f"\nIf this is right, convert the file, or {save}:{_iconv(path, 'WINDOWS-1252')}"
    )


def _first_not_utf8(lines: Iterable[bytes]) -> tuple[int, bytes, int]:
    """Return ``(number, line, index)`` for the first line of a file that is not UTF-8.

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
