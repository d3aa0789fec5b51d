"""A sensor field learned from recorded days: scale, mean and covariance."""

from concurrent.futures import Executor
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import empirical_covariance
from edge_tvbo.training.daily_profile_fit import Progress, learn, untold

NOISE_VARIANCE = 0.01  # of training variance: [ET] section 6, temperature data


def train(
    readings: NDArray[np.float64],
    sensors: tuple[str, ...],
    *,
    unit: str = "",
    objective: Literal["max", "min"] = "max",
    noise_variance: float = NOISE_VARIANCE,
    shrinkage: float = 0.0,
    positions: NDArray[np.float64] | None = None,
) -> SensorField:
    """Give the field whose kernel is the covariance of the training days.

    Parameters
    ----------
    readings : (T, M) array
        Training intervals without gaps, in the sensors' unit.
    sensors, unit, objective, positions
        As for `SensorField`.
    noise_variance : float
        Of a reading, as a share of the variance of all training readings.
    shrinkage : float
        0 to 1, as for `empirical_covariance`.

    Notes
    -----
    Readings are normalised by the mean and standard deviation of all sensors together, which keeps
    the arg max ([B16] section 5, [ET] appendix A.2).

    Raises
    ------
    DataError
        Where there are fewer than two intervals, or all readings are the same.
    """
    if readings.shape[0] < 2:
        raise DataError(f"Training needs two intervals or more; there are {readings.shape[0]}.")
    center, scale = float(readings.mean()), float(readings.std())
    if not scale > 0:
        raise DataError("All training readings are the same: there is nothing to learn from them.")
    return SensorField(
        sensors,
        empirical_covariance((readings - center) / scale, shrinkage=shrinkage),
        noise_variance,
        unit=unit,
        center=center,
        scale=scale,
        objective=objective,
        positions=positions,
    )


def with_rhythm(
    field: SensorField,
    readings: NDArray[np.float64],
    interval: float,
    start: float,
    progress: Progress = untold,
    executor: Executor | None = None,
) -> SensorField:
    """Give a field that `train` gave with the daily rhythm of the same `readings`, if it has one.

    `interval` is the seconds between rows, `start` the time of the first, s since 1970, UTC;
    `progress` is called with the days replayed and their number; `executor` replays them, in this
    process where it is None.
    """
    modelled = np.vectorize(field.to_model)(readings)
    return SensorField(
        field.sensors,
        field.kernel,
        field.noise_variance,
        unit=field.unit,
        center=field.center,
        scale=field.scale,
        objective=field.objective,
        positions=field.positions,
        rhythm=learn(field, modelled, interval, start, progress, executor),
    )
