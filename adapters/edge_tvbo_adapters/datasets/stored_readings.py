"""Stored readings: a `Recording` made of the readings that a daemon stored for a field."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import listed, named, rfc3339
from edge_tvbo.messages.readings import RecordedReadings
from edge_tvbo.simulation.recording import Recording
from edge_tvbo_adapters.datasets.grid import bin_means, fill_gaps, grid_index, grid_start, spacing

NO_NAMES: Mapping[str, str] = {}
MEAN_DIGITS = 12
MAX_EXACT_POWER = 22  # 10**22 is the largest power of ten that a float represents exactly


def own_recording(
    name: str,
    readings: RecordedReadings,
    sensors: Sequence[str],
    interval: float | None,
    *,
    unit: str = "",
    objective: str = "max",
    names: Mapping[str, str] = NO_NAMES,
) -> Recording:
    """Return the stored readings of a field as a recording on a grid; gaps are filled.

    Parameters
    ----------
    name : str
        Name of the field, for the recording and for messages.
    readings : RecordedReadings
        The readings of the field.
    sensors : sequence of str
        The configured sensors; readings of other sensors are left out.
    interval : float or None
        Interval of the grid in s; None to use the interval of the readings.
    unit, objective, names
        As for `Recording`.

    Raises
    ------
    DataError
        If the `sensors` have no readings, or too few readings to find the interval, or if the grid
        would be too large.
    """
    times, arms, values = _columns(readings, sensors)
    if not len(times):
        raise DataError(
            f"{name}: no reading of the sensors {listed(sensors)} is recorded in this period."
        )
    step = interval or spacing(Path(name), times, arms)
    start = grid_start(times, step)
    first, last = rfc3339(float(times.min())), rfc3339(float(times.max()))
    fix = (
        f"The readings are from {first} to {last}. If the clock was wrong at one of these times, "
        "select a period with --from and --to; or choose a longer --interval."
    )
    rows, T = grid_index(Path(name), times, start, step, len(sensors), fix)
    means, observed = bin_means(rows, arms, values, (T, len(sensors)))
    for column, has in zip(means.T, observed.T, strict=True):
        column[has] = without_rounding_error(column[has])
    has_reading = np.asarray(observed.any(axis=0))
    silent = [sensor for sensor, has in zip(sensors, has_reading, strict=True) if not has]
    left_out = [
        f"Sensors without readings are left out: {listed(named(silent, names))}." if silent else "",
        unlisted_text(unlisted(readings, sensors)),
    ]
    return Recording(
        name=name,
        unit=unit,
        objective=objective,
        sensors=tuple(np.array(sensors)[has_reading].tolist()),
        start=start,
        interval=step,
        values=fill_gaps(means[:, has_reading], observed[:, has_reading]),
        observed=np.ascontiguousarray(observed[:, has_reading]),
        names=names,
        source=" ".join([f"{len(times)} recorded readings of {name}.", *filter(None, left_out)]),
    )


def unlisted(readings: RecordedReadings, sensors: Sequence[str]) -> dict[str, int]:
    """Return the number of stored readings of each sensor that is not one of `sensors`."""
    known = set(sensors)
    counts = np.bincount(readings.sensor, minlength=len(readings.sensors)).tolist()
    by_sensor = zip(readings.sensors, counts, strict=True)
    return {sensor: count for sensor, count in by_sensor if count and sensor not in known}


def unlisted_text(sensors: Collection[str]) -> str:
    """Return a sentence that names the sensors whose stored readings are left out, or ""."""
    if not sensors:
        return ""
    return f"Readings of sensors that `sensors` does not list are left out: {listed(sensors)}."


def _columns(
    readings: RecordedReadings, sensors: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
    """Return the times, the sensor numbers and the values of the stored readings.

    A sensor number is an index of `sensors`; readings of other sensors are left out.
    """
    index = {sensor: arm for arm, sensor in enumerate(sensors)}
    arm_of = np.array([index.get(sensor, -1) for sensor in readings.sensors], np.intp)
    arms = arm_of[readings.sensor]
    known = arms >= 0
    if known.all():
        return readings.at, arms, readings.value
    return readings.at[known], arms[known], readings.value[known]


def without_rounding_error(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round the `means` of recorded readings to 12 digits, which removes their rounding errors.

    Means with an absolute value below 1e-11 are not rounded, because the power of ten would not be
    exact.

    >>> import numpy as np
    >>> without_rounding_error(np.array([(11.77 + 11.79 + 11.78) / 3, 0.0])).tolist()
    [11.78, 0.0]
    """
    size = np.where(means == 0.0, 1.0, np.abs(means))
    decimals = np.maximum(MEAN_DIGITS - 1 - np.floor(np.log10(size)), 0)
    scale = 10.0 ** np.minimum(decimals, MAX_EXACT_POWER)
    return np.where(decimals > MAX_EXACT_POWER, means, np.rint(means * scale) / scale)
