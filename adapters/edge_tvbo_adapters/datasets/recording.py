"""The recording every dataset hands over, and the two steps that make one: binning and filling."""

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from edge_tvbo.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST = 50_000_000  # cells of a grid: 400 MB of float64, more than a gateway should be asked for
TOPIC_LEVEL = re.compile(r"[A-Za-z0-9_.-]+")


class GridRecording(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a sensor network measured, checked as it is made; an `edge_tvbo.ports.Recording`."""

    name: str
    unit: str
    objective: str  # "max" or "min"
    sensors: tuple[str, ...]  # M
    start: float  # s since 1970
    interval: float  # s
    values: "NDArray[np.float64]"  # (T, M), gaps filled
    observed: "NDArray[np.bool_]"  # (T, M)
    positions: "NDArray[np.float64] | None" = None  # (M, 2) m
    source: str

    def __post_init__(self) -> None:
        """Raise `DataError` for anything a replay could stumble over."""
        _check_words(self)
        check_sensors(self.name, self.sensors)
        _check_arrays(self)


def _check_words(recording: GridRecording) -> None:
    if recording.objective not in ("max", "min"):
        raise DataError(
            f"{recording.name}: the objective is {recording.objective!r}; "
            'it can be "max" or "min", the end of the scale to follow.'
        )
    if not 0 < recording.interval < float("inf"):
        raise DataError(
            f"{recording.name}: the interval is {recording.interval} s; it must be above 0."
        )


def check_sensors(where: str, sensors: Sequence[str]) -> None:
    """Raise `DataError` unless the ids are distinct and each is fit for one MQTT topic level."""
    if not sensors:
        raise DataError(f"{where}: there is no sensor with a reading; one is the least.")
    for sensor in sensors:
        if not TOPIC_LEVEL.fullmatch(sensor):
            raise DataError(
                f"{where}: sensor {sensor!r} does not fit a topic level; "
                "letters, digits, '_', '.' and '-' do."
            )
    if len(set(sensors)) < len(sensors):
        twice = sorted({sensor for sensor in sensors if sensors.count(sensor) > 1})
        raise DataError(
            f"{where}: more than one sensor is called {', '.join(twice)}; each needs its own name."
        )


def _check_arrays(recording: GridRecording) -> None:
    import numpy as np

    M = len(recording.sensors)
    values, observed, positions = recording.values, recording.observed, recording.positions
    if values.ndim != 2 or values.shape[0] == 0 or values.shape[1] != M:
        raise DataError(
            f"{recording.name}: values have shape {values.shape}; with {M} sensors it is "
            f"(T, {M}), T at least 1."
        )
    if observed.shape != values.shape or observed.dtype != np.bool_:
        raise DataError(
            f"{recording.name}: observed is {observed.dtype} of shape {observed.shape}; "
            f"it must be bool of shape {values.shape}, as the values."
        )
    if values.dtype != np.float64 or not np.isfinite(values).all():
        raise DataError(
            f"{recording.name}: values must be finite float64; gaps are filled and marked "
            "in `observed`."
        )
    if positions is not None and (positions.shape != (M, 2) or not np.isfinite(positions).all()):
        raise DataError(
            f"{recording.name}: positions have shape {positions.shape}; "
            f"they must be finite and ({M}, 2), x and y in metres."
        )


def bin_means(
    step: "NDArray[np.intp]",
    sensor: "NDArray[np.intp]",
    reading: "NDArray[np.float64]",
    shape: tuple[int, int],
) -> "tuple[NDArray[np.float64], NDArray[np.bool_]]":
    """Give the mean reading of each cell of a (T, M) grid, and which cells have one.

    Parameters
    ----------
    step, sensor : intp[n]
        The cell of each reading, inside `shape`.
    reading : float64[n]
        Finite readings.
    shape : (T, M)

    Returns
    -------
    means : float64[T, M]
        0.0 where no reading fell.
    observed : bool[T, M]

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
    """Give a copy with each sensor's gaps interpolated linearly in time, its ends held.

    Every sensor (column) needs one observed value at least.

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
    """Open a plain or gzipped text file; whatever damage shows while reading is a `DataError`."""
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
