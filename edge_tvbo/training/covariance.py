"""Training of a sensor field from the mean, scale and covariance of recorded readings."""

from typing import Literal

import numpy as np

from edge_tvbo.errors import DataError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import empirical_covariance
from edge_tvbo.models.structure import StructuralModel
from edge_tvbo.numerics.types import Array
from edge_tvbo.training.structural_fit import Progress, fit_structure, no_progress

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


def with_structure(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    progress: Progress = no_progress,
) -> SensorField:
    """Return a trained field with the structural model of its readings, if one can be fitted.

    Parameters
    ----------
    field : SensorField
        Field that `train` returned.
    readings : (T, M) array
        The same training readings, in the sensors' unit.
    interval, start, progress
        As for `fit_structure`.
    """
    modelled = np.vectorize(field.to_model)(readings)
    return with_model(field, fit_structure(modelled, interval, start, progress))


def with_model(field: SensorField, structure: StructuralModel | None) -> SensorField:
    """Return the same sensor field with another structural model."""
    return SensorField(
        field.sensors,
        field.kernel,
        field.noise_variance,
        unit=field.unit,
        center=field.center,
        scale=field.scale,
        objective=field.objective,
        positions=field.positions,
        structure=structure,
    )
