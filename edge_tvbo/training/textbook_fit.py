"""Training of the textbook baseline `kalman-ucb`: its model, and the width of its bound."""

from math import log

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import (
    DAY,
    LIVELINESS_BINS,
    Component,
    Components,
    StructuralModel,
    part_of,
    phase_of,
)
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.training.course import mean_season
from edge_tvbo.training.structural_fit import rows_without_nan

SHRINKAGE = 0.02  # share by which covariances of different sensors are reduced
NOISE_SHARE = 0.01  # noise variance of a reading, as a share of the mean variance
MAX_PHI = 0.9999
WIDTHS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of the bound, in standard deviations
TRAINED_SHARE = 0.75  # share of the rows that train the model before the widths are compared
NEVER = 1e9  # time constant of components with variance 0, in s
NONE = Component(0.0, NEVER)


def fit_textbook(readings: Array, interval: float, start: float) -> StructuralModel:
    """Return the structural model of the textbook baseline.

    The course is the mean of each sensor at each time of day. At times of day at which nothing was
    recorded, the course is interpolated. In three cases, the course is the mean of each sensor over
    all rows:

    - A day is not a whole number of intervals.
    - The rows cover less than two days.
    - On average, each time of day was recorded fewer than two times.

    Parameters
    ----------
    readings : (T, M) array
        Training readings in model units; a row in which no sensor was read is NaN, and is left out.
    interval, start : float
        Time between rows in s, and time of the first row in s since 1970, UTC.
    """
    at = np.flatnonzero(rows_without_nan(readings))
    T, M = len(at), readings.shape[1]
    parts = round(DAY / interval)
    is_daily = parts > 1 and abs(parts * interval - DAY) < 1e-6 and 2 * parts <= len(readings)
    phases = np.zeros(T, np.int64)
    if is_daily:
        phases = np.array([part_of(phase_of(start + t * interval, DAY), parts) for t in at])
    used = len(np.unique(phases))
    if is_daily and 2 * used > T:  # on average, fewer than two rows for each of these times
        is_daily, phases, used = False, np.zeros(T, np.int64), 1
    counts = np.bincount(phases, minlength=parts if is_daily else 1)
    sums = np.zeros((len(counts), M))
    np.add.at(sums, phases, readings[at])
    course = mean_season(sums, counts)
    rest = readings[at] - course[phases]
    inflation = T / (T - used) if is_daily else 1.0
    spread = np.sqrt(np.maximum(inflation * (rest**2).mean(axis=0), 1e-12))
    correlation = inflation * (rest.T @ rest / T) / np.outer(spread, spread)
    correlation = (1.0 - SHRINKAGE) * correlation + SHRINKAGE * np.eye(M)
    np.fill_diagonal(correlation, 1.0)
    return StructuralModel(
        period=DAY if is_daily else 0.0,
        interval=interval,
        course=course,
        spread=spread,
        liveliness=np.ones(LIVELINESS_BINS),
        correlation=(correlation + correlation.T) / 2,
        components=Components(
            level=NONE,
            slow=NONE,
            fast=Component(1.0, _time_constant(rest, at, interval)),
            offset=NONE,
            season=NONE,
            decay=2.0,
            noise_variance=NOISE_SHARE,
        ),
        rows=T,
    )


def best_width(field: SensorField, readings: Array, interval: float, start: float) -> float:
    """Return the width from `WIDTHS` with which the textbook baseline has the least regret.

    The regret is measured on the last quarter of the rows, after training on the other rows.
    `readings` are in model units of `field`. A row in which no sensor was read is NaN; in such a
    row, no sensor is selected.
    """
    recorded = np.flatnonzero(rows_without_nan(readings))
    first = int(recorded[int(TRAINED_SHARE * len(recorded))])
    trained = SensorField(
        field.sensors,
        field.kernel,
        field.noise_variance,
        structure=fit_textbook(readings[:first], interval, start),
    )
    begin = start + first * interval
    regrets = [_regret(trained, width, readings[first:], interval, begin) for width in WIDTHS]
    return WIDTHS[int(np.argmin(regrets))]


def _time_constant(rest: Array, at: NDArray[np.intp], interval: float) -> float:
    """Return the time constant of the textbook baseline, in s.

    One autoregression of order 1 is fitted to the residuals `rest` of all sensors. `at` contains
    the row number of each row of `rest`, because rows may be missing. The fit uses successive rows
    whose numbers differ by the most common step, which is usually 1.
    """
    steps = np.diff(at)
    lag = int(np.bincount(steps, minlength=2).argmax()) or 1
    pairs = np.flatnonzero(steps == lag)
    before = float((rest[pairs] ** 2).sum()) or 1.0
    phi = float((rest[pairs + 1] * rest[pairs]).sum()) / before
    return -lag * interval / log(min(max(phi, 1e-6), MAX_PHI))


def _regret(
    field: SensorField, width: float, readings: Array, interval: float, start: float
) -> float:
    policy = make_policy("kalman-ucb", field, width=width)
    regret = 0.0
    for t, row in enumerate(readings):
        if not np.isnan(row).any():
            policy.set_time(start + t * interval)
            arm = policy.select().arm
            policy.observe(arm, float(row[arm]))
            regret += float(row.max() - row[arm])
        policy.advance()
    return regret
