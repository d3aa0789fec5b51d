"""Training rows: the readings of the training days; their gaps are filled from these days only.

A short gap is interpolated. In a long gap, for example while the battery of a sensor is empty for
days, the values are estimated by linear regression on the mean of the other sensors at the same
time. The regression is fitted to the times at which the sensor itself has readings. There are two
reasons not to interpolate in a long gap:

- An interpolation would invent a smooth field without a daily course.
- One wrong reading at the end of the gap would affect the whole gap.
"""

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import listed
from edge_tvbo.models.spatial_kernels import MAX_NUMBER
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.simulation.row_range import DAY, RowRange

MAX_GAP_S = DAY / 2  # gaps up to the longer of MAX_GAP_S and MAX_GAP_ROWS are interpolated
MAX_GAP_ROWS = 6  # rows
ROUNDS = 10  # rounds of the least-squares fit of the differences between sensors
PRIOR_ROWS = 24  # weight of the prior slope 1, as a number of rows with the usual variance


def training_rows(recording: Recording, span: RowRange) -> Array:
    """Return the readings in the rows `span`, of shape (T, M), with filled gaps, for training.

    A row in which no sensor was observed is NaN.

    Raises
    ------
    DataError
        If a sensor has no reading in these rows although other sensors have readings. Also if a
        reading is so large that a fit would overflow.
    """
    rows = slice(span.first, span.last)
    observed = recording.observed[rows]
    recorded = np.asarray(observed.any(axis=1))
    if recorded.any() and len(silent := silent_sensors(recording, span)):
        raise DataError(
            f"{recording.name}: no reading from {listed(silent)} on the training days. A sensor "
            "needs readings on these days; select other training days, or leave the sensor out."
        )
    _check_size(recording, rows)
    values = np.where(recorded[:, None], recording.values[rows], np.nan)
    longest = max(MAX_GAP_S / recording.interval, MAX_GAP_ROWS)
    from_others: Array | None = None
    for arm in np.flatnonzero(~observed[recorded].all(axis=0)):
        seen = np.flatnonzero(observed[:, arm])
        gaps = np.flatnonzero(recorded & ~observed[:, arm])
        readings = values[seen, arm]
        values[gaps, arm] = np.interp(gaps, seen, readings)
        far = gaps[_lengths(seen, gaps, len(values)) > longest]
        if len(far):
            if from_others is None:
                from_others = _from_other_sensors(np.where(observed, values, 0.0), observed)
            values[far, arm] = np.clip(from_others[far, arm], readings.min(), readings.max())
    return values


def _check_size(recording: Recording, rows: slice) -> None:
    """Raise `DataError` if a reading in the training rows is outside ±`MAX_NUMBER`."""
    if found := reading_beyond(recording, rows, MAX_NUMBER):
        raise DataError(
            f"{found} on the training days; allowed: {-MAX_NUMBER:g} to {MAX_NUMBER:g}. Remove "
            "this reading, or select other training days."
        )


def reading_beyond(recording: Recording, rows: slice, limit: float) -> str:
    """Return the beginning of an error message about the first reading outside ±`limit`.

    Only the readings in `rows` are tested. If there is no such reading, return "".
    """
    values = recording.values[rows]
    beyond = np.argwhere(recording.observed[rows] & (np.abs(values) > limit))
    if not len(beyond):
        return ""
    row, arm = beyond[0].tolist()
    sensor, value = recording.named_sensors[arm], values[row, arm]
    return f"{recording.name}: {sensor} has the reading {value:.4g}"


def silent_sensors(recording: Recording, span: RowRange) -> list[str]:
    """Return the names of the sensors that have no reading in the training rows `span`."""
    silent = ~recording.observed[span.first : span.last].any(axis=0)
    return [recording.named_sensors[arm] for arm in np.flatnonzero(silent)]


def trainable_sensors(recording: Recording, span: RowRange) -> Recording:
    """Return the recording without the sensors that have no reading in the training rows `span`.

    If no sensor has a reading in these rows, the recording is returned unchanged.
    """
    has_reading = recording.observed[span.first : span.last].any(axis=0)
    if has_reading.all() or not has_reading.any():
        return recording
    replies, positions = recording.replies, recording.positions
    return replace(
        recording,
        sensors=tuple(np.array(recording.sensors)[has_reading].tolist()),
        values=np.ascontiguousarray(recording.values[:, has_reading]),
        observed=np.ascontiguousarray(recording.observed[:, has_reading]),
        replies=None if replies is None else np.ascontiguousarray(replies[:, has_reading]),
        positions=None if positions is None else positions[has_reading],
    )


def _lengths(seen: NDArray[np.intp], gaps: NDArray[np.intp], T: int) -> NDArray[np.intp]:
    """Return, for each training row in `gaps`, the length of the gap that contains this row.

    `seen` contains the numbers of the rows with a reading. A gap lies between two of these rows, or
    at an end of the `T` rows.
    """
    borders = np.concatenate(([-1], seen, [T]))
    after = np.searchsorted(seen, gaps)
    return borders[after + 1] - borders[after] - 1


def _from_other_sensors(readings: Array, observed: Mask) -> Array:
    """Return an estimate of each sensor's value in each training row, (T, M), from other sensors.

    The usual level of each sensor is subtracted from its readings. The estimate is a linear
    function of the mean of the other sensors that were read in the row. The function is fitted to
    the sensor's `observed` readings, because some sensors change more than others: a sensor under
    the roof may change twice as much. `readings` must be 0 where nothing was observed.
    """
    in_row = np.maximum(observed.sum(axis=1), 1)
    of_sensor = observed.sum(axis=0)
    level = np.zeros(readings.shape[1])
    for _ in range(ROUNDS):  # least squares: reading = value of the row + level of the sensor
        row = ((readings - level) * observed).sum(axis=1) / in_row
        level = ((readings - row[:, None]) * observed).sum(axis=0) / of_sensor
    own = (readings - level) * observed
    others = own.sum(axis=1)[:, None] - own
    others /= np.maximum(observed.sum(axis=1)[:, None] - observed, 1)
    mean = (others * observed).sum(axis=0) / of_sensor
    prior = PRIOR_ROWS * np.maximum(others.var(axis=0), 1e-300)
    others -= mean
    around = others * observed
    slope = ((around * readings).sum(axis=0) + prior) / ((around**2).sum(axis=0) + prior)
    return np.asarray(readings.sum(axis=0) / of_sensor + slope * others)
