"""Regular grids of a dataset's readings: opens text files, averages readings, and fills gaps."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from edge_tvbo.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_CELLS = 50_000_000  # of a grid, which then has 400 MB of float64


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
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as text:
                yield text
        else:
            with path.open(encoding="utf-8-sig", newline="") as text:
                yield text
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be read: {error}.\nIf the file is cut short or damaged, "
            "remove it and get it again."
        ) from error
