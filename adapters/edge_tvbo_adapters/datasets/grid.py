"""Regular grids of a dataset's readings: finds the interval, averages readings, and fills gaps."""

from collections import Counter
from math import pi
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.simulation.recording import USUAL_INTERVALS

MAX_CELLS = 50_000_000  # largest number of cells of a grid: 400 MB of float64
MIN_ROUNDED_INTERVAL = 60.0  # s; with this or a longer interval, the grid begins at a whole second
MIN_AGREEMENT = 0.1  # how well the times fit one grid, 0 to 1; below this, no grid is preferred
MAX_OFFSET_SHARE = 0.1  # of an interval; a time difference is regular if its error is smaller
# If at least this share of the differences between the times of all sensors together is regular,
# the times of all sensors together are used.
MIN_REGULAR_SHARE = 0.8


def bin_means(
    step: NDArray[np.intp],
    sensor: NDArray[np.intp],
    reading: NDArray[np.float64],
    shape: tuple[int, int],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
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
    cells = shape[0] * shape[1]
    cell = step * shape[1] + sensor
    count = np.bincount(cell, minlength=cells)
    means = np.asarray(np.bincount(cell, weights=reading, minlength=cells), np.float64)
    means /= np.maximum(count, 1)
    return means.reshape(shape), (count > 0).reshape(shape)


def fill_gaps(values: NDArray[np.float64], observed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return a copy of a grid in which gaps between readings are interpolated linearly in time.

    A gap at the beginning or end of a column is filled with the nearest reading. Every sensor
    (column) needs at least one observed value.

    >>> import numpy as np
    >>> y = np.array([[0.0], [1.0], [0.0], [3.0]])
    >>> fill_gaps(y, np.array([[False], [True], [False], [True]])).ravel().tolist()
    [1.0, 1.0, 2.0, 3.0]
    """
    filled = values.astype(np.float64)
    steps = np.arange(len(values))
    for j in np.flatnonzero(~observed.all(axis=0)):
        seen = observed[:, j]
        filled[~seen, j] = np.interp(steps[~seen], steps[seen], values[seen, j])
    return filled


def spacing(
    path: Path,
    times: NDArray[np.float64],
    sensor: NDArray[np.intp] | None,
    unit: float = 1.0,
) -> float:
    """Return the interval of a CSV file's grid, in the unit of its times.

    The interval is the most common difference between consecutive times, under two conditions: at
    least half of the differences have exactly this value, and few differences have nearly, but not
    exactly, this value. Otherwise the interval is the median difference, or a usual interval near
    the median.

    In a long file, the differences are computed for each sensor separately. If these differences
    have no common value, but the times of all sensors together are regular, one sensor was read in
    each interval. The differences between the times of all sensors are then used instead.

    Parameters
    ----------
    path : Path
        The file, for error texts.
    times : float64[n]
        Times of the rows.
    sensor : intp[n] or None
        Sensor of each row of a long file; None for a wide file.
    unit : float
        Unit of the times, in s; 0 for a step count.
    """
    together = np.diff(np.unique(times))
    steps = together
    if sensor is not None:
        order = np.lexsort((times, sensor))
        steps = np.diff(times[order])[np.diff(sensor[order]) == 0]
        steps = steps[steps > 0]
    if not len(steps):
        raise DataError(
            f"{path}: no sensor has readings at two different times, so the interval is unknown; "
            "a recording needs at least two rows."
        )
    common = _common(steps)
    if common is not None:
        return common
    whole = _common(together) or _usual_median(together, unit)
    if _regular_share(together, whole) >= MIN_REGULAR_SHARE:
        return whole
    return _usual_median(steps, unit)


def _common(steps: NDArray[np.float64]) -> float | None:
    """Return the most common length of a grid's time steps; None if no length is common.

    A length is common if at least half of all steps have this length. In addition, of the
    steps with nearly this length, at least three quarters must have exactly this length. In a file
    whose steps alternate between 599 s and 601 s, the second condition is not met.
    """
    common, count = Counter(np.round(steps, 6).tolist()).most_common(1)[0]
    near = int((np.abs(steps - common) <= MAX_OFFSET_SHARE * common).sum())
    return float(common) if 2 * count >= len(steps) and 4 * count >= 3 * near else None


def _usual_median(steps: NDArray[np.float64], unit: float) -> float:
    """Return the interval of a grid whose time steps have no common length.

    If the median of the steps differs by at most 10 % from a usual interval, such as 10 min, this
    usual interval is returned. Otherwise the median is returned. A median of 10 or more is rounded
    to a whole number.
    """
    median = float(np.median(steps))
    near = [
        each for each in USUAL_INTERVALS if abs(median * unit - each) <= MAX_OFFSET_SHARE * each
    ]
    if near:
        return near[0] / unit
    return float(round(median)) if median >= 10 else median


def _regular_share(steps: NDArray[np.float64], step: float) -> float:
    """Return the share of a grid's time steps that are nearly multiples of `step`, 0 to 1."""
    multiples = np.rint(steps / step)
    near = np.abs(steps / step - multiples) <= MAX_OFFSET_SHARE
    return float((near & (multiples > 0)).mean())


def grid_start(times: NDArray[np.float64], step: float) -> float:
    """Return the start of a grid whose interval is `step`; both are in seconds.

    The points of the grid are as near as possible to the times of the readings. So a reading that
    arrives a little too early or too late still falls on its own grid point. If the times are
    spread evenly over the `step`, no grid is nearer than another, and the points are multiples of
    the `step` since 1970.

    >>> import numpy as np
    >>> grid_start(np.array([1000.0, 1603.0, 2197.0, 2801.0]), 600.0)
    1000.0
    """
    turns = 2j * pi * (times % step)
    turns /= step
    direction = np.exp(turns, out=turns).mean()
    phase = np.angle(direction) / (2 * pi) * step if abs(direction) >= MIN_AGREEMENT else 0.0
    phase = round(phase) if step >= MIN_ROUNDED_INTERVAL else round(phase, 3)
    return float(phase + step * np.rint((times.min() - phase) / step))


def grid_index(
    path: Path, times: NDArray[np.float64], start: float, step: float, sensors: int, fix: str
) -> tuple[NDArray[np.intp], int]:
    """Return the nearest grid point of each time, as an index, and the number of grid points.

    The first point of the grid is `start`. No time is more than half a `step` before `start`; a
    time that seems earlier because of a rounding error belongs to `start`.

    Raises `DataError` if the grid would have too many cells. The error text ends with `fix`.
    """
    exact = (times - start) / step
    T = int(exact.max() + 0.5) + 1
    if T * sensors > MAX_CELLS:
        raise DataError(
            f"{path}: has {T} intervals from its first to its last time, and {sensors} sensors; "
            f"together, these are more than {MAX_CELLS} cells.\n{fix}"
        )
    return np.maximum(np.floor(exact + 0.5), 0.0).astype(np.intp), T
