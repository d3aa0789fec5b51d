"""Training of the textbook baseline `kalman-ucb`: raw means, covariance, one rate, one width."""

from math import log

import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structure import (
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

SHRINKAGE = 0.02  # share of the covariance that is shrunk to its diagonal
NOISE_SHARE = 0.01  # noise variance of a reading, as a share of the mean variance
MAX_PHI = 0.9999
WIDTHS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of the bound, in standard deviations
TRAINED_SHARE = 0.75  # share of the rows that are trained on before the widths are compared
NEVER = 1e9  # time constant of components with variance 0, in s
NONE = Component(0.0, NEVER)


def fit_textbook(readings: Array, interval: float, start: float) -> StructuralModel:
    """Return the structural model of the textbook baseline.

    The course is the mean of each sensor at each time of day. If the rows cover less than two days,
    or if a day is not a whole number of intervals, the course is the plain mean of each sensor.

    Parameters
    ----------
    readings : (T, M) array
        Training readings without gaps, in model units.
    interval, start : float
        Time between rows in s, and time of the first row in s since 1970, UTC.
    """
    T, M = readings.shape
    parts = round(DAY / interval)
    is_daily = parts > 1 and abs(parts * interval - DAY) < 1e-6 and 2 * parts <= T
    period = DAY if is_daily else 0.0
    rows = np.zeros(T, np.int64)
    if is_daily:
        phases = [phase_of(start + t * interval, DAY) for t in range(T)]
        rows = np.array([part_of(phase, parts) for phase in phases])
    counts = np.bincount(rows)
    course = np.zeros((len(counts), M))
    np.add.at(course, rows, readings)
    course /= counts[:, None]
    rest = readings - course[rows]
    inflation = T / (T - parts) if is_daily else 1.0
    spread = np.sqrt(np.maximum(inflation * (rest**2).mean(axis=0), 1e-12))
    correlation = inflation * (rest.T @ rest / T) / np.outer(spread, spread)
    correlation = (1.0 - SHRINKAGE) * correlation + SHRINKAGE * np.eye(M)
    np.fill_diagonal(correlation, 1.0)
    return StructuralModel(
        period=period,
        interval=interval,
        course=course,
        spread=spread,
        liveliness=np.ones(LIVELINESS_BINS),
        correlation=(correlation + correlation.T) / 2,
        components=Components(
            level=NONE,
            slow=NONE,
            fast=Component(1.0, _time_constant(rest, interval)),
            offset=NONE,
            season=NONE,
            decay=2.0,
            noise_variance=NOISE_SHARE,
        ),
        rows=T,
    )


def best_width(field: SensorField, readings: Array, interval: float, start: float) -> float:
    """Return the width among `WIDTHS` with which the textbook baseline has the least regret.

    The regret is measured on the last quarter of the rows, after training on the other rows.
    `readings` are in model units of `field`.
    """
    first = int(TRAINED_SHARE * len(readings))
    trained = SensorField(
        field.sensors,
        field.kernel,
        field.noise_variance,
        structure=fit_textbook(readings[:first], interval, start),
    )
    begin = start + first * interval
    regrets = [_regret(trained, width, readings[first:], interval, begin) for width in WIDTHS]
    return WIDTHS[int(np.argmin(regrets))]


def _time_constant(rest: Array, interval: float) -> float:
    """Return the time constant of the textbook baseline, in s.

    One autoregression is fitted to all sensors.
    """
    before = float((rest[:-1] ** 2).sum()) or 1.0
    phi = float((rest[1:] * rest[:-1]).sum()) / before
    return -interval / log(min(max(phi, 1e-6), MAX_PHI))


def _regret(
    field: SensorField, width: float, readings: Array, interval: float, start: float
) -> float:
    policy = make_policy("kalman-ucb", field, width=width)
    regret = 0.0
    for t, row in enumerate(readings):
        policy.set_time(start + t * interval)
        arm = policy.select().arm
        policy.observe(arm, float(row[arm]))
        policy.advance()
        regret += float(row.max() - row[arm])
    return regret
