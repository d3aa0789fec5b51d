"""Training of a sensor field from the mean, scale and covariance of recorded readings."""

from concurrent.futures import Executor
from typing import Literal

import numpy as np

from edge_tvbo.errors import DataError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import empirical_covariance
from edge_tvbo.numerics.types import Array
from edge_tvbo.training.daily_profile_fit import Progress, fit_daily_profile, no_progress

NOISE_VARIANCE = 0.01  # share of the training variance, as in [ET] section 6 for temperature data


def train(
    readings: Array,
    sensors: tuple[str, ...],
    *,
    unit: str = "",
    objective: Literal["max", "min"] = "max",
    noise_variance: float = NOISE_VARIANCE,
    shrinkage: float = 0.0,
    positions: Array | None = None,
) -> SensorField:
    """Return the sensor field whose kernel is the covariance of training readings.

    Parameters
    ----------
    readings : (T, M) array
        Readings of M sensors in T training intervals, without gaps, in the sensors' unit.
    sensors, unit, objective, positions
        As for `SensorField`.
    noise_variance : float
        Noise variance of a reading, as a share of the variance of all training readings.
    shrinkage : float
        Shrinkage of the covariance, 0 to 1, as for `empirical_covariance`.

    Raises
    ------
    DataError
        If there are fewer than two intervals, or all readings are equal.
    ConfigError
        If the covariance is not positive definite.

    Notes
    -----
    Readings are normalised by the common mean and standard deviation of all sensors, so that the
    order of the sensors does not change ([B16] section 5, [ET] appendix A.2).
    """
    if readings.shape[0] < 2:
        raise DataError(
            f"Training needs at least two intervals; the training days contain {readings.shape[0]}."
        )
    center, scale = float(readings.mean()), float(readings.std())
    if not scale > 0:
        raise DataError("All training readings are equal, so no covariance can be computed.")
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


def with_daily_profile(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    progress: Progress = no_progress,
    executor: Executor | None = None,
) -> SensorField:
    """Return a trained field with the daily profile of its readings, if one can be fitted.

    Parameters
    ----------
    field : SensorField
        Field that `train` returned, without a daily profile.
    readings : (T, M) array
        The same training readings, in the sensors' unit.
    interval, start : float
        Time between rows in s, and time of the first row in s since 1970, UTC.
    progress, executor
        As for `fit_daily_profile`.
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
        daily_profile=fit_daily_profile(field, modelled, interval, start, progress, executor),
    )
