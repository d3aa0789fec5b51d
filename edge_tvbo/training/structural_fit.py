"""Training of a structural model: course, season, spread, correlation and rates of change.

Each season that the rows contain twice (a day, a week or a year) is tried, and the season whose
model predicted the training rows best is kept. A course that is only chance is shrunk to the mean,
and each season is judged with the course of the other seasons.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from edge_tvbo.models.structure import (
    DAY,
    LIVELINESS_BINS,
    MAX_DAILY_INTERVAL,
    WEEK,
    YEAR,
    Component,
    Components,
    StructuralModel,
    TrainedState,
    harmonics_for,
    part_of,
    phase_of,
    state_table,
)
from edge_tvbo.numerics import structural
from edge_tvbo.numerics.types import Array, Int64Array

Progress = Callable[[int, int], None]  # called with the numbers of completed steps and of all steps
MIN_SEASONS = 2  # whole seasons that are needed to learn a course
MIN_ROWS = 8
MAX_DRIFT = 0.005  # share of a season by which the rows' season may differ from it
MIN_PARTS, MAX_PARTS = 4, 2016  # parts of a season: a week of 5 minutes
SHORT_SEASON = 300  # parts; the rates of longer seasons begin with numbers of intervals
OWN_SHARE = 0.7  # of a sensor's spread that is its own; the rest is that of all sensors
SHRINKAGE = 0.02  # share by which correlations are shrunk to 0
MIN_EIGENVALUE = 1e-6
MIN_SHARE = 0.05  # smallest squared liveliness
MAX_SEARCH_ROWS = 4032  # newest rows from which the parameters are found: four weeks of 10 min
MAX_SEARCH_SERIES = 500  # of more sensors, at most so many count for the search
BURN_IN = 0.1  # share of the rows that do not count for the score
SWEEPS = 3  # of the search; each halves the step, as a power of the factor
FACTOR = 4.0
MIN_GAIN = 0.5  # of the log score, for which a parameter is changed
LIMITS = (1e-5, 1e5)  # of variances, and of time constants in intervals


def no_progress(done: int, total: int) -> None:
    """Ignore the progress of the training."""


def fit_structure(
    readings: Array, interval: float, start: float, progress: Progress = no_progress
) -> StructuralModel | None:
    """Return the structural model of training readings, or None if none can be fitted.

    None can be fitted for fewer than 8 rows, if no sensor ever changes, or for more sensors than
    `StructuralPosterior` supports.

    Parameters
    ----------
    readings : (T, M) array
        Training readings without gaps, in model units.
    interval, start : float
        Time between rows in s, and time of the first row in s since 1970, UTC.
    progress : callable
        Function that is called after each season that was tried.
    """
    T, M = readings.shape
    if T < MIN_ROWS or harmonics_for(M) is None or not (readings.std(axis=0) > 0).any():
        return None
    periods = possible_periods(T, interval)
    fits = []
    for done, period in enumerate(periods, 1):
        fits.append(_Fit(*_on_grid(readings, interval, start, period), period))
        fits[-1].search()
        progress(done, len(periods))
    return max(fits, key=lambda fit: fit.log_density()).model()


def possible_periods(T: int, interval: float) -> list[float]:
    """Return the seasons, in s, that `T` rows contain at least twice; 0 if there is none.

    >>> possible_periods(287, 600.0), possible_periods(288, 600.0), possible_periods(800, 86400.0)
    ([0.0], [86400.0], [31536000.0])
    """
    possible = (DAY, WEEK) if interval <= MAX_DAILY_INTERVAL else (YEAR,)
    found = []
    for period in possible:
        parts = round(period / interval)
        if not MIN_PARTS <= parts <= MAX_PARTS:
            continue
        whole = parts * interval
        season = whole if abs(whole - period) <= MAX_DRIFT * period else period
        if _rows_on_grid(T, interval, season) >= MIN_SEASONS * parts:
            found.append(season)
    return found or [0.0]


def _rows_on_grid(T: int, interval: float, period: float) -> int:
    """Return how many rows `_on_grid` makes of `T` rows."""
    step = period / round(period / interval)
    return int((T - 1) * interval / step + 1e-9) + 1


def _on_grid(
    readings: Array, interval: float, start: float, period: float
) -> tuple[Array, float, float]:
    """Return readings, interval and start on a grid that divides the season, by interpolation."""
    if not period:
        return readings, interval, start
    step = period / round(period / interval)
    if abs(step - interval) <= 1e-6 * interval:
        return readings, interval, start
    last = (len(readings) - 1) * interval
    times = last - step * np.arange(_rows_on_grid(len(readings), interval, period))[::-1]
    rows = np.arange(len(readings)) * interval
    columns = [np.interp(times, rows, readings[:, arm]) for arm in range(readings.shape[1])]
    return np.stack(columns, axis=1), step, start + float(times[0])


class _Parameters(NamedTuple):
    """The parameters that are searched: variances, and time constants in intervals."""

    noise: float
    fast: float
    fast_time: float
    slow: float
    slow_time: float
    level: float
    level_time: float
    season: float = 0.0
    season_time: float = 1.0
    decay: float = 2.0
    offset: float = 0.0

    @classmethod
    def first(cls, parts: int) -> "_Parameters":
        """Return the parameters with which the search begins; `parts` is 0 for no season."""
        if 0 < parts < SHORT_SEASON:
            fast, slow, level = max(2.0, parts / 11), float(parts), 20.0 * parts
        else:
            fast, slow, level = 3.0, 30.0, 400.0
        plain = cls(0.05, 0.5, fast, 0.3, slow, 1.0, level)
        return plain._replace(season=1.0, season_time=14.0 * parts, offset=0.3) if parts else plain

    def changed(self, name: str, factor: float) -> "_Parameters | None":
        """Return the parameters with one of them multiplied, or None if it is beyond its limit."""
        value = getattr(self, name) * factor
        return self._replace(**{name: value}) if LIMITS[0] < value < LIMITS[1] else None

    def components(self, interval: float) -> Components:
        """Return the components of a structural model for intervals of this length, in s."""
        return Components(
            level=Component(self.level, self.level_time * interval),
            slow=Component(self.slow, self.slow_time * interval),
            fast=Component(self.fast, self.fast_time * interval),
            offset=Component(self.offset, self.level_time * interval),
            season=Component(self.season, self.season_time * interval),
            decay=self.decay,
            noise_variance=self.noise,
        )


class _Series(NamedTuple):
    """Independent series with their variances, and the loadings in each row."""

    rows: Array  # (T, m)
    eigenvalues: Array  # (m,)
    loads: Array  # (T, n)


class _Fit:
    """The search for the structural model of one possible season."""

    def __init__(self, readings: Array, interval: float, start: float, period: float) -> None:
        T, M = readings.shape
        self._interval, self._start, self._period = interval, start, period
        self._parts = round(period / interval) if period else 0
        self._harmonics = harmonics_for(M) or 0
        self._phases = _phases(T, interval, start, period)
        self.course, rest = _course(readings, self._parts, self._phases)
        own = rest.var(axis=0)
        self.spread = np.sqrt(OWN_SHARE * own + (1.0 - OWN_SHARE) * own.mean())
        scaled = rest / self.spread
        self.liveliness = _liveliness(scaled, self._phases)
        self.correlation = _correlation(scaled)
        eigenvalues, self._vectors = np.linalg.eigh(self.correlation)
        self._eigenvalues = np.maximum(eigenvalues, MIN_EIGENVALUE)
        self._rows = np.ascontiguousarray(scaled @ self._vectors)
        n = 4 + 2 * self._harmonics
        self._mean, self._covariances = np.zeros((M, n)), np.zeros((M, n, n))
        self._loads = self._loadings()
        self._parameters = _Parameters.first(self._parts)
        self._all = _Series(self._rows, self._eigenvalues, self._loads)
        self._searched = self._series_to_search(scaled)
        self._score = self._score_of(self._parameters, self._searched)

    def search(self) -> None:
        """Change one parameter at a time, as long as that improves the score."""
        step = FACTOR
        for _ in range(SWEEPS):
            for name in _Parameters._fields:
                for factor in (step, 1.0 / step):
                    if self._follow(name, factor):
                        break
            step = step**0.5

    def log_density(self) -> float:
        """Return the mean log density of the training rows, in model units."""
        T = len(self._searched.rows)
        return self._score / (T - int(BURN_IN * T)) - float(np.log(self.spread).sum())

    def model(self) -> StructuralModel:
        """Return the structural model that was found, with its state after the training rows."""
        self._score_of(self._parameters, self._all)
        T = len(self._rows)
        return StructuralModel(
            period=self._period,
            interval=self._interval,
            course=self.course,
            spread=self.spread,
            liveliness=self.liveliness,
            correlation=self.correlation,
            components=self._parameters.components(self._interval),
            rows=T,
            state=TrainedState(
                end=self._start + T * self._interval,
                mean=np.ascontiguousarray((self._vectors @ self._mean).T),
                covariances=self._covariances.copy(),
            ),
        )

    def _follow(self, name: str, factor: float) -> bool:
        """Multiply a parameter by `factor` while the score improves; return whether it did."""
        improved = False
        while changed := self._parameters.changed(name, factor):
            score = self._score_of(changed, self._searched)
            if score <= self._score + MIN_GAIN:
                break
            self._parameters, self._score, improved = changed, score, True
        return improved

    def _series_to_search(self, scaled: Array) -> "_Series":
        """Return the newest rows of the series from which the parameters are found.

        These are the series along all eigenvectors. With more sensors than rows, many of them are
        zero, which would make the noise vanish; then these are the readings of each sensor by
        itself (a composite likelihood, Varin, Reid & Firth 2011).
        """
        T, M = scaled.shape
        newest = slice(max(0, T - MAX_SEARCH_ROWS), None)
        if M < T and M <= MAX_SEARCH_SERIES:
            return _Series(self._rows[newest], self._eigenvalues, self._loads[newest])
        some = np.ascontiguousarray(scaled[newest, :: -(-M // MAX_SEARCH_SERIES)])
        return _Series(some, np.ones(some.shape[1]), self._loads[newest])

    def _score_of(self, parameters: _Parameters, series: "_Series") -> float:
        """Filter some series, and keep their state after the last row.

        Return the score of all series, as if the others had the mean score of these.
        """
        table = state_table(parameters.components(self._interval), self._harmonics)
        score = structural.filter_training(
            series.rows,
            series.eigenvalues,
            table.variance,
            table.retain(self._interval),
            parameters.noise,
            series.loads,
            int(BURN_IN * len(series.rows)),
            self._mean,
            self._covariances,
        )
        return float(score * (self._rows.shape[1] / series.rows.shape[1]))

    def _loadings(self) -> Array:
        table = state_table(self._first_components(), self._harmonics)
        loads = np.empty((len(self._rows), len(table.kind)))
        for row, phase in zip(loads, self._phases, strict=True):
            lively = float(self.liveliness[part_of(float(phase), LIVELINESS_BINS)])
            structural.loadings(table.harmonic, table.kind, float(phase), lively, row)
        return loads

    def _first_components(self) -> Components:
        return _Parameters.first(self._parts).components(self._interval)


def _phases(T: int, interval: float, start: float, period: float) -> Array:
    """Return the phase of each row, 0 to 1; -1 if there is no season."""
    if not period:
        return np.full(T, -1.0)
    return np.array([phase_of(start + t * interval, period) for t in range(T)])


def _course(readings: Array, parts: int, phases: Array) -> tuple[Array, Array]:
    """Return the course (P, M), and the rows minus the course of the other seasons (T, M)."""
    mean = readings.mean(axis=0)
    rest = readings - mean
    if not parts:
        return mean[None, :], rest
    seasons = len(readings) // parts
    first = len(readings) - seasons * parts
    whole = rest[first:].reshape(seasons, parts, -1).copy()
    shares = _harmonic_shares(whole)
    course = _smoothed(whole.mean(axis=0), shares)
    for season in range(seasons):
        others = np.delete(whole, season, axis=0)
        used = _harmonic_shares(others) if seasons > 2 else shares
        begin = first + season * parts
        rest[begin : begin + parts] -= _smoothed(others.mean(axis=0), used)
    before = np.arange(first) - first
    rest[:first] -= course[before % parts]
    return mean + course[_columns(parts, phases, first)], rest


def _columns(parts: int, phases: Array, first: int) -> Int64Array:
    """Return for each part of the season the column of `course`, which begins with row `first`."""
    begins_at = part_of(float(phases[first]), parts)
    return (np.arange(parts) - begins_at) % parts


def _harmonic_shares(seasons: Array) -> Array:
    """Return for each harmonic the share of its mean over the seasons that is no chance.

    The mean of a harmonic is shrunk by its variance between seasons (James & Stein 1961), with the
    powers averaged over all sensors and over neighbouring harmonics.
    """
    amplitudes = np.fft.rfft(seasons, axis=1)
    mean = amplitudes.mean(axis=0)
    between = (np.abs(amplitudes - mean) ** 2).sum(axis=0) / (len(seasons) - 1)
    chance = between.mean(axis=1) / len(seasons)
    power = (np.abs(mean) ** 2).mean(axis=1)
    shares = np.empty(len(power))
    for k in range(len(power)):
        beside = slice(max(0, k - max(1, k // 4)), k + max(1, k // 4) + 1)
        noise, signal = float(chance[beside].mean()), float(power[beside].mean())
        shares[k] = 1.0 - noise / signal if signal > noise else 0.0
    shares[0] = 1.0
    return shares


def _smoothed(course: Array, shares: Array) -> Array:
    """Return a course (P, M) with each harmonic multiplied by its share."""
    shrunk = np.fft.rfft(course, axis=0) * shares[:, None]
    return np.asarray(np.fft.irfft(shrunk, len(course), axis=0))


def _correlation(scaled: Array) -> Array:
    """Return the correlation of the sensors, shrunk; a sensor that never changes has none."""
    M = scaled.shape[1]
    deviations = scaled.std(axis=0)
    products = (scaled - scaled.mean(axis=0)).T @ (scaled - scaled.mean(axis=0)) / len(scaled)
    scales = np.where(deviations > 0, deviations, np.inf)
    correlation = (1.0 - SHRINKAGE) * products / np.outer(scales, scales)
    np.fill_diagonal(correlation, 1.0)
    return np.ascontiguousarray((correlation + correlation.T) / 2).reshape(M, M)


def _liveliness(scaled: Array, phases: Array) -> Array:
    """Return the root mean square of the rows in each part of the season, about 1 on average."""
    bins = np.array([part_of(float(phase), LIVELINESS_BINS) for phase in phases])
    if (phases < 0.0).all():
        return np.ones(LIVELINESS_BINS)
    counts = np.bincount(bins, minlength=LIVELINESS_BINS)
    sums = np.bincount(bins, (scaled**2).mean(axis=1), LIVELINESS_BINS)
    squares = np.where(counts > 0, sums / np.maximum(counts, 1), (scaled**2).mean())
    smooth = (np.roll(squares, -1) + squares + np.roll(squares, 1)) / 3.0
    return np.asarray(np.sqrt(np.maximum(smooth / smooth.mean(), MIN_SHARE)))
