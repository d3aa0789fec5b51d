"""Training of a sensor field from the mean, scale and covariance of recorded readings."""

from typing import Literal

import numpy as np

from edge_tvbo.errors import DataError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import MAX_NUMBER, MIN_NUMBER, empirical_covariance
from edge_tvbo.models.structural_model import StructuralModel
from edge_tvbo.numerics.types import Array
from edge_tvbo.training.structural_fit import (
    FitProgress,
    Fitted,
    best_fit,
    no_progress,
    rows_without_nan,
)

Transform = Literal["auto", "none", "log1p"]
MIN_LOG_GAIN = 0.1  # smallest gain in log density for which the model works on a log scale
NOISE_VARIANCE = 0.01  # share of the training variance, as in [ET] table 6 for temperature data


def train(
    readings: Array,
    sensors: tuple[str, ...],
    *,
    unit: str = "",
    objective: Literal["max", "min"] = "max",
    noise_variance: float = NOISE_VARIANCE,
    positions: Array | None = None,
    log1p_scale: float | None = None,
) -> SensorField:
    """Return the sensor field whose kernel is the covariance of training readings.

    Parameters
    ----------
    readings : (T, M) array
        Readings of M sensors in T training intervals, in the sensors' unit. Rows that are NaN are
        left out.
    sensors, unit, objective, positions, log1p_scale
        As for `SensorField`.
    noise_variance : float
        Noise variance of a reading, as a share of the variance of all training readings.

    Raises
    ------
    DataError
        If there are fewer than two intervals, if all readings are equal, or if they differ too
        little or too much.
    ConfigError
        If the covariance is not positive definite.

    Notes
    -----
    All sensors are normalised by the same mean and the same standard deviation, which are computed
    from all readings. So the order of the sensors by their readings does not change. [ET] appendix
    A.2 normalises the readings too, but does not state whether each sensor has its own mean and
    standard deviation. [B16] section 5 does not mention a normalisation.
    """
    known = readings[rows_without_nan(readings)]
    if len(known) < 2:
        raise DataError(
            f"Training needs at least two intervals; the training days contain {len(known)}."
        )
    values = known if log1p_scale is None else np.log1p(known / log1p_scale)
    with np.errstate(over="ignore", invalid="ignore"):
        center, scale = float(values.mean()), float(values.std())
    if known.min() == known.max():
        raise DataError(
            "All training readings are equal, so no covariance can be computed. Train on days on "
            "which the readings change."
        )
    if not MIN_NUMBER <= scale <= MAX_NUMBER:
        raise DataError(
            f"The training readings differ too {'little' if scale < MIN_NUMBER else 'much'}: they "
            f"are {known.min():.4g} to {known.max():.4g}, and their standard deviation must be "
            f"{MIN_NUMBER:g} to {MAX_NUMBER:g}. Look for a wrong reading, or use another unit."
        )
    kernel = empirical_covariance((values - center) / scale)
    if log1p_scale is not None:
        scale *= log1p_scale * np.exp(center)
        center = log1p_scale * np.expm1(center)
    return SensorField(
        sensors,
        kernel,
        noise_variance,
        unit=unit,
        center=center,
        scale=scale,
        log1p_scale=log1p_scale,
        objective=objective,
        positions=positions,
    )


def with_structure(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    progress: FitProgress = no_progress,
    *,
    period: float | None = None,
    transform: Transform = "auto",
) -> SensorField:
    """Return a field with a trained covariance, and with a structural model if one can be fitted.

    Parameters
    ----------
    field : SensorField
        Field that `train` returned.
    readings : (T, M) array
        The same training readings, in the sensors' unit.
    interval, start, progress, period
        As for `best_fit`.
    transform : "auto", "none" or "log1p"
        "log1p": the model works on a log scale. "none": it does not. "auto": it works on a log
        scale if the log scale raises the log density of a row by more than `MIN_LOG_GAIN` per
        sensor.

    Raises
    ------
    DataError
        If a reading is below 0 and `transform` is "log1p", or if `best_fit` rejects `period`.
    """
    lowest = float(np.nanmin(readings))
    if transform == "log1p" and lowest < 0.0:
        raise DataError(
            f'The transform "log1p" needs readings of at least 0; the lowest is {lowest:.4g}. '
            'Use the transform "none".'
        )

    def fitted(to: SensorField, first: int = 1, last: int = 1) -> Fitted | None:
        """Return the best fit of a structural model to the readings, in model units of `to`.

        `last` is the number of fits that are made in all, and `first` is the number of this fit.
        `progress` is called with the steps of all fits.
        """

        def step(done: int, total: int) -> None:
            progress((first - 1) * total + done, last * total)

        return best_fit(to.to_model(readings), interval, start, step, period=period)

    if transform == "none" or lowest < 0.0:
        return _with_fit(field, fitted(field))
    log_field = _on_log_scale(field, readings)
    if transform == "log1p":
        return _with_fit(log_field, fitted(log_field))
    plain, log = fitted(field, 1, 2), fitted(log_field, 2, 2)
    if plain is None or log is None:
        return field
    gain = _log_density(log_field, log, readings) - _log_density(field, plain, readings)
    if gain > MIN_LOG_GAIN * len(field):
        return _with_fit(log_field, log)
    return _with_fit(field, plain)


def _on_log_scale(field: SensorField, readings: Array) -> SensorField:
    """Return `field` with mean, scale and covariance trained on the logarithms of the readings."""
    return train(
        readings,
        field.sensors,
        unit=field.unit,
        objective=field.objective,
        noise_variance=field.noise_variance,
        positions=field.positions,
        log1p_scale=float(np.nanstd(readings)),
    )


def _with_fit(field: SensorField, fit: Fitted | None) -> SensorField:
    return field if fit is None else with_model(field, fit.model)


def _log_density(field: SensorField, fit: Fitted, readings: Array) -> float:
    """Return the mean log density of a row under the field with the trained covariance.

    The density refers to readings in the sensors' unit.
    """
    slopes = field.log_slope(readings[-fit.judged :]).sum(axis=1)
    return fit.log_density + float(np.nanmean(slopes))


def with_model(field: SensorField, structure: StructuralModel | None) -> SensorField:
    """Return a copy of the trained `field` that has the structural model `structure`."""
    return SensorField(
        field.sensors,
        field.kernel,
        field.noise_variance,
        unit=field.unit,
        center=field.center,
        scale=field.scale,
        log1p_scale=field.log1p_scale,
        objective=field.objective,
        positions=field.positions,
        structure=structure,
    )
