"""Structural model of a field: its course and season, and parts that change at different rates.

A structural time-series model (Harvey 1989, *Forecasting, Structural Time Series Models and the
Kalman Filter*) is a sum of components that change at different rates. In this module, the reading
of sensor i at time t is

    y_i(t) = course_i(h) + spread_i · x_i(t) + noise
    x_i(t) = level_i + s(h) (offset_i + slow_i + fast_i) + season_i(h)

h is the phase: the share of the period (a day, a week or a year) that has passed. s(h) is the
liveliness: how much the field varies at this phase, as a multiple of its usual variation. The
season of a sensor is a sum of K harmonics, whose amplitudes change with time. If the period of the
course is a week, the season and the liveliness depend only on the time of day. Each component
(level, offset, slow, fast, season) is an Ornstein-Uhlenbeck process. The covariance of a component
over the sensors is variance · (common · 11ᵀ + (1 - common) · correlation), where 1 is the vector of
ones.
"""

from hashlib import sha256
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.fingerprint import AsBytes, exact
from edge_tvbo.models.seasons import has_days
from edge_tvbo.models.spatial_kernels import ALLOWED_RANGE, MAX_NUMBER, MIN_NUMBER
from edge_tvbo.models.trained_state import TrainedState
from edge_tvbo.numerics.types import Array, Indices, Int64Array

DAY = 86_400.0  # s
WEEK = 7 * DAY
YEAR = 365.25 * DAY
MAX_DRIFT = 0.005  # largest relative difference of two periods that count as the same
LIVELINESS_BINS = 24
MAX_ROWS = 2**40
HARMONICS = ((64, 3), (200, 1), (500, 0), (2000, 1))  # (largest number of sensors, harmonics)
NAMES = ("level", "slow", "fast", "offset", "season")
CONSTANT, SCALED, COSINE, SINE = range(4)  # kinds of loadings, as in `numerics.structural`


class Component(msgspec.Struct, frozen=True):
    """One component of a structural model.

    Parameters
    ----------
    variance : float
        Variance, as a multiple of the squared `spread` of `StructuralModel`. The variance of the
        season is the variance of all its harmonics together.
    time : float
        Time constant in s, after which the correlation with the past is 1/e.
    common : float
        Share of the variance that all sensors have in common, 0 to 1.
    """

    variance: float
    time: float
    common: float = 0.0


class Components(msgspec.Struct, frozen=True):
    """The components of a structural model, and the noise of a reading.

    Parameters
    ----------
    level, slow, fast, offset, season : Component
        As in the module's docstring. `offset` has the time constant of `level`.
    decay : float
        The variance of harmonic k is proportional to k to the power of minus `decay`.
    noise_variance : float
        Noise variance of a reading, as a multiple of the squared `spread` of `StructuralModel`.
    """

    level: Component
    slow: Component
    fast: Component
    offset: Component
    season: Component
    decay: float
    noise_variance: float

    def __post_init__(self) -> None:
        numbers = [self.decay, self.noise_variance]
        numbers += [number for name in NAMES for number in msgspec.structs.astuple(self.part(name))]
        if not all(0.0 <= number <= MAX_NUMBER for number in numbers):
            raise ConfigError(f"Every number in the components must be from 0 to {MAX_NUMBER:g}.")
        if not self.noise_variance >= MIN_NUMBER:
            raise ConfigError(f"The components' noise_variance must be {ALLOWED_RANGE}.")
        if not all(self.part(name).time > 0.0 and self.part(name).common <= 1.0 for name in NAMES):
            raise ConfigError("In each component, 'time' must be above 0, and 'common' at most 1.")

    def part(self, name: str) -> Component:
        """Return the structural component called `name`."""
        component: Component = getattr(self, name)
        return component


def _prior_components(interval: float | None, cycle: float) -> Components:
    """Return a structural model's components for a field without training readings.

    The values were found by hand on the first days of the Intel lab's readings (docs/auto.md).
    """
    slow, fast = (DAY, DAY / 11) if has_days(interval) else (30 * DAY, 3 * DAY)
    return Components(
        level=Component(4.5, 20.0 * cycle, 0.9),
        slow=Component(0.28, slow, 0.7),
        fast=Component(0.5, fast, 0.6),
        offset=Component(0.03, 20.0 * cycle),
        season=Component(1.85, 14.0 * cycle, 0.8),
        decay=2.0,
        noise_variance=0.005,
    )


class ComponentTable(NamedTuple):
    """The n components of a sensor's state, as arrays with one entry for each component."""

    kind: Int64Array  # kind of the loading
    harmonic: Array  # cycles in a season
    variance: Array
    time: Array  # s
    common: Array

    def retain(self, interval: float) -> Array:
        """Return the factors φ by which structural components shrink in `interval` seconds."""
        return np.exp(-interval / self.time)


def component_table(components: Components, harmonics: int) -> ComponentTable:
    """Return the structural components as arrays, in the order of the state.

    The order is level, slow, fast, offset, and then two components for each harmonic.
    """
    orders = np.repeat(np.arange(1.0, harmonics + 1.0), 2)
    shares = orders**-components.decay
    shares *= 2.0 / shares.sum() if harmonics else 1.0
    parts = [components.part(name) for name in NAMES[:4]]
    season = components.season
    season_parts = np.ones(2 * harmonics)
    return ComponentTable(
        np.array([CONSTANT, SCALED, SCALED, SCALED, *(COSINE, SINE) * harmonics], np.int64),
        np.append(np.zeros(4), orders),
        np.append([part.variance for part in parts], season.variance * shares),
        np.append([part.time for part in parts], season.time * season_parts),
        np.append([part.common for part in parts], season.common * season_parts),
    )


class StructuralModel(msgspec.Struct, frozen=True, eq=False):
    """The structural model of a field: learned from training readings, or only a prior.

    Parameters
    ----------
    period : float
        Period of the course in s; 0 if there is no season.
    interval : float
        Length of an interval in s; 0 if the lengths differ. For 0, the posterior computes the
        length of each interval from the times of the intervals.
    course : (P, M) array
        Mean of each sensor in each of P parts of the period, in model units; P is 1 without a
        season.
    spread : (M,) array
        Standard deviation of each sensor's readings around the sensor's course, in model units,
        > 0.
    liveliness : (LIVELINESS_BINS,) array
        s(h): how much the field varies in each part of the cycle, as a multiple of its usual
        variation; > 0, about 1 on average.
    correlation : (M, M) array
        Correlation between the deviations of the sensors from their courses.
    components : Components
        Variances and rates of the components.
    rows : int
        Number of training rows; 0 for a prior.
    state : TrainedState, optional
        State after the training rows; None to start from the prior.
    cycle : float, optional
        Period in s of the season's harmonics and of the liveliness: a day if `period` is a week.
        None means `period`.

    Raises
    ------
    ConfigError
        If the shapes do not match, or a number is not finite or out of range.
    """

    period: float
    interval: float
    course: Array
    spread: Array
    liveliness: Array
    correlation: Array
    components: Components
    rows: int
    state: TrainedState | None = None
    cycle: float | None = None

    def __post_init__(self) -> None:
        P, M = self.course.shape if self.course.ndim == 2 else (0, 0)
        shapes = (self.spread.shape, self.liveliness.shape, self.correlation.shape)
        if not P or shapes != ((M,), (LIVELINESS_BINS,), (M, M)):
            raise ConfigError(
                "The arrays course, spread, liveliness and correlation of the structure have the "
                f"shapes {self.course.shape}, {', '.join(map(str, shapes))}. For M sensors, these "
                f"shapes must be (P, M), (M,), ({LIVELINESS_BINS},), (M, M)."
            )
        arrays = [self.course, self.spread, self.liveliness, self.correlation]
        if self.state is not None:
            n = 4 + 2 * (harmonics_for(M) or 0)
            if not self.state.matches(n, M):
                raise ConfigError("The structure's state does not match its number of sensors.")
            arrays += self.state.arrays()
        if not all((np.abs(each) <= MAX_NUMBER).all() for each in arrays):
            raise ConfigError(
                f"The structure holds values that are not finite, or beyond {MAX_NUMBER:g}."
            )
        if self.state is not None and not self.state.is_possible():
            raise ConfigError("The structure's state holds covariances that are impossible.")
        if not (self.spread >= MIN_NUMBER).all() or not (self.liveliness >= MIN_NUMBER).all():
            raise ConfigError(f"The structure's spread and liveliness must be {ALLOWED_RANGE}.")
        if not 0.0 <= self.period <= MAX_NUMBER or not 0.0 <= self.interval <= MAX_NUMBER:
            raise ConfigError("The structure's period or interval is out of range.")
        if self.cycle is not None and not 0.0 < self.cycle <= self.period:
            raise ConfigError("The structure's cycle must be above 0, and at most its period.")
        if not 0 <= self.rows <= MAX_ROWS:
            raise ConfigError(f"The structure's rows are {self.rows}; allowed: 0 to {MAX_ROWS}.")

    @property
    def season_period(self) -> float:
        """Period in s of the season's harmonics and of the liveliness; 0 if there is no season."""
        return self.period if self.cycle is None else self.cycle

    def digest(self, as_bytes: AsBytes) -> bytes:
        """Return a 32-byte digest of a trained structural model, or no bytes for a prior.

        The function `as_bytes` converts the arrays of the model to bytes. If the function is
        `fingerprint.exact`, the digest contains the length of an interval, as in version 0.1.0.
        Otherwise the digest does not contain the length, so that snapshots stay valid if the user
        configures another length. A posterior that computes its rates from the length has these
        rates in the kind of its snapshots, and so rejects the snapshots of another length.
        """
        if self.rows == 0:
            return b""
        arrays = [self.course, self.spread, self.liveliness, self.correlation]
        interval = [self.interval] if as_bytes is exact else []
        numbers: list[object] = [self.period, *interval, self.components, self.rows]
        if self.state is not None:
            arrays += self.state.arrays()
            numbers.append(self.state.end)
        if self.cycle is not None:
            numbers.append(self.cycle)
        digest = sha256(repr(numbers).encode())
        for each in chain.from_iterable(map(as_bytes, arrays)):
            digest.update(each)
        return digest.digest()

    def of_sensors(self, arms: Indices | list[int]) -> "StructuralModel":
        """Return the structural model of the sensors with the indices `arms`.

        The result keeps its state only if `arms` lists all sensors in their original order.
        Otherwise the result has no state, because the covariances in the state are valid only for
        the correlation of all sensors.
        """
        chosen = np.asarray(arms, np.intp)
        if np.array_equal(chosen, np.arange(len(self.spread))):
            return self
        return replace(
            self,
            course=np.ascontiguousarray(self.course[:, chosen]),
            spread=self.spread[chosen],
            correlation=np.ascontiguousarray(self.correlation[np.ix_(chosen, chosen)]),
            state=None,
        )


def mirrored(model: StructuralModel) -> StructuralModel:
    """Return the structural model of the negated field, for the opposite objective.

    Only the course, and the mean of the state after the training rows, change their sign.
    """
    state = None if model.state is None else replace(model.state, mean=-model.state.mean)
    return replace(model, course=-model.course, state=state)


def cycle_of(period: float, interval: float | None) -> float | None:
    """Return `cycle` of a `StructuralModel` in s: a day if `period` is a week, otherwise None.

    The result is also None if the intervals are too long for a daily season; see `has_days`.
    """
    is_week = abs(period - WEEK) <= MAX_DRIFT * WEEK
    return period / 7 if is_week and has_days(interval) else None


def phase_of(at: float, period: float) -> float:
    """Return the share of the season's `period` that has passed at the Unix time `at`, 0 to 1.

    A week begins on Thursday, because the Unix time began on a Thursday. The result is -1 if
    `period` is 0, which means that there is no season.
    """
    return (at % period) / period if period else -1.0


def part_of(phase: float, parts: int) -> int:
    """Return the index of the part of a structural season that contains the `phase`.

    All `parts` parts of the season are equally long. A phase below 0 means that there is no season;
    the result is then 0.

    >>> part_of(0.5, 24), part_of(0.3333333333333333, 3), part_of(-1.0, 24)
    (12, 1, 0)
    """
    return int(max(phase, 0.0) * parts + 1e-6) % parts


def harmonics_for(sensors: int) -> int | None:
    """Return the number of harmonics in a structural model; None for too many sensors.

    Up to 500 sensors, the number of harmonics falls as the number of sensors grows. The reason: an
    interval costs O((n M)²) for M sensors with n components each, and the number of components
    grows with the number of harmonics. Above 500 sensors, the posterior has low rank, and the cost
    is linear in M.

    >>> harmonics_for(46), harmonics_for(200), harmonics_for(500), harmonics_for(501)
    (3, 1, 0, 1)
    >>> harmonics_for(2001) is None
    True
    """
    return next((harmonics for limit, harmonics in HARMONICS if sensors <= limit), None)


def prior_structure(
    kernel: Array, interval: float | None, period: float | None = None
) -> StructuralModel | None:
    """Return the structural model of a field without training readings.

    Parameters
    ----------
    kernel : (M, M) array
        Prior covariance of the field, in model units².
    interval : float or None
        Length of an interval in s; None for intervals of different lengths.
    period : float or None
        Length of the season in s; 0 for no season. None means a day, or a year if intervals are
        longer than six hours. If `period` is a week and intervals are at most six hours long, the
        season is one day long. The reason: only training readings can show a weekly course.

    Returns
    -------
    StructuralModel or None
        The structural model; None for more sensors than a structural posterior supports.
    """
    M = len(kernel)
    if harmonics_for(M) is None:
        return None
    spread = np.sqrt(np.diag(kernel))
    usual = DAY if has_days(interval) else YEAR
    season = usual if period is None else cycle_of(period, interval) or period
    return StructuralModel(
        period=season,
        interval=interval or 0.0,
        course=np.zeros((1, M)),
        spread=spread,
        liveliness=np.ones(LIVELINESS_BINS),
        correlation=(
            np.ascontiguousarray(kernel, np.float64)  # for 2000 sensors, a copy takes 32 MB
            if (spread == 1.0).all()
            else kernel / np.outer(spread, spread)
        ),
        components=_prior_components(interval, season or usual),
        rows=0,
    )
