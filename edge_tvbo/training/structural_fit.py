"""Training of a structural model: course, season, spread, correlation and rates of change.

The fit tries each period (a day, a week or a year) that the rows contain at least twice. It keeps
the period whose model predicts the training rows best. The prediction of a season uses the course
that was learned from the other seasons. A course that is only due to chance is shrunk to the mean.
A model without a season is also tried if two conditions hold:

- The rows contain the shortest of the tried periods at least eight times.
- No course predicts the readings better than the mean does. For this comparison, the readings of
  each season are predicted by the course that was learned from the other seasons.

Rows in which no sensor was read, such as nights when the sensors are off, are NaN. These rows are
left out, but count as elapsed time.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from edge_tvbo.models.posteriors.low_rank_covariance import with_low_rank_state
from edge_tvbo.models.posteriors.select import MAX_EXACT_SENSORS
from edge_tvbo.models.structural_model import (
    LIVELINESS_BINS,
    Component,
    Components,
    StructuralModel,
    component_table,
    cycle_of,
    harmonics_for,
    part_of,
    phase_of,
)
from edge_tvbo.models.trained_state import TrainedState
from edge_tvbo.numerics import structural
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.training.course import learn_course
from edge_tvbo.training.periods import (
    checked_period,
    cycles_of,
    on_grid,
    parts_of,
    possible_periods,
    seasons_in,
)

FitProgress = Callable[[int, int], None]  # called with the numbers of completed and of all steps
MIN_SEASONS_FOR_NONE = 8  # with fewer seasons in the rows, a model without season is not tried
MIN_ROWS = 8
SHORT_SEASON = 300  # parts; for shorter seasons, the first time constants depend on the season
MIN_REST_SHARE = 1e-6  # smallest share of variance that a course leaves; a simulation can leave 0
OWN_SHARE = 0.7  # weight of a sensor's own spread; the mean of all sensors has the rest
SHRINKAGE = 0.02  # share by which correlations are moved towards 0
MIN_EIGENVALUE = 1e-6
MIN_SHARE = 0.05  # smallest squared liveliness
MAX_SEARCH_ROWS = 4032  # the search uses the newest recorded rows: four weeks of 10 min
MAX_SEARCH_SPAN = 10 * MAX_SEARCH_ROWS  # limit of all rows of the search, recorded or not
MAX_SEARCH_SERIES = 500  # largest number of series that the search uses
BURN_IN = 0.1  # share of the recorded rows, at the beginning, that do not count for the score
SEARCH_SWEEPS = 3  # number of sweeps; each uses the square root of the previous sweep's factor
SEARCH_FACTOR = 4.0
MIN_GAIN = 0.5  # smallest gain in log score for which a parameter is changed
LIMITS = (1e-5, 1e5)  # limits of variances, and of time constants in intervals


def no_progress(done: int, total: int) -> None:
    """Ignore the progress of a structural fit."""


class Fitted(NamedTuple):
    """A fitted structural model, and how well it predicted the training rows."""

    model: StructuralModel
    log_density: float  # mean log density of the judged rows, in model units
    judged: int  # number of the newest rows that are judged, including rows without readings
    course_predicts: bool  # whether the course predicts seasons that it was not fitted to


def fit_structure(
    readings: Array,
    interval: float,
    start: float,
    progress: FitProgress = no_progress,
    *,
    period: float | None = None,
) -> StructuralModel | None:
    """Return the structural model of training readings, or None if none can be fitted.

    The parameters are those of `best_fit`.
    """
    best = best_fit(readings, interval, start, progress, period=period)
    return None if best is None else best.model


def best_fit(
    readings: Array,
    interval: float,
    start: float,
    progress: FitProgress = no_progress,
    *,
    period: float | None = None,
) -> Fitted | None:
    """Return the best fit of a structural model to training readings, or None if there is none.

    No model can be fitted to fewer than 8 rows, to readings that never change, or to more sensors
    than `StructuralPosterior` supports.

    Parameters
    ----------
    readings : (T, M) array
        Training readings in model units; a row in which no sensor was read is NaN.
    interval, start : float
        Time between rows in s, and time of the first row in s since 1970, UTC.
    progress : callable
        Called after each tried period, with the number of tried periods and of all periods.
    period : float or None
        Length of the season in s, 0 for no season; None to find it from the readings.

    Raises
    ------
    DataError
        If the rows do not cover `period` twice, or if a period has too few or too many rows.
    """
    T, M = readings.shape
    recorded = rows_without_nan(readings)
    known = readings[recorded]
    if len(known) < MIN_ROWS or harmonics_for(M) is None or not np.ptp(known, axis=0).any():
        return None
    periods = (
        possible_periods(T, interval) if period is None else [checked_period(T, interval, period)]
    )
    filled = _filled(readings, recorded)
    fits = []
    for done, each in enumerate(periods, 1):
        fits.append(_fitted(*on_grid(filled, recorded, interval, start, each), each))
        progress(done, len(periods))
    if period is None and _may_have_none(fits, T, interval):
        fits.append(_fitted(filled, recorded, interval, start, 0.0))
    best = max(fits, key=lambda fit: fit.log_density)
    return best if M <= MAX_EXACT_SENSORS else best._replace(model=with_low_rank_state(best.model))


def rows_without_nan(readings: Array) -> Mask:
    """Return a mask (T,) of the rows of `readings` without NaN, for the structural fit."""
    return np.asarray(~np.isnan(readings).any(axis=1))


def _may_have_none(fits: list[Fitted], T: int, interval: float) -> bool:
    """Return whether the structural fit may also try a model without a season.

    `fits` contains the fitted models with a season. A model without a season may be tried if two
    conditions hold:

    - The `T` rows contain enough seasons.
    - No course predicts the readings better than the mean does. For this comparison, the readings
      of each season are predicted by the course that was learned from the other seasons.

    Otherwise the model has a season, even if the log density would be higher without a season. The
    reason: the log density is computed from readings of all sensors. A daemon reads few sensors, so
    the course matters more to a daemon than the log density shows.
    """
    shortest = fits[0].model.period
    if not shortest or any(fit.course_predicts for fit in fits):
        return False
    return seasons_in(T, interval, shortest) >= MIN_SEASONS_FOR_NONE


def _filled(readings: Array, recorded: Mask) -> Array:
    """Return all rows for the structural fit; rows without readings are interpolated."""
    rows = np.arange(len(readings))
    columns = [np.interp(rows, rows[recorded], column[recorded]) for column in readings.T]
    return readings if recorded.all() else np.stack(columns, axis=1)


def _fitted(
    readings: Array, recorded: Mask, interval: float, start: float, period: float
) -> Fitted:
    """Return the result of the structural fit for one `period` in s; 0 for no season."""
    fit = _Fit(readings, recorded, interval, start, period)
    fit.search()
    return Fitted(fit.model(), fit.log_density(), fit.judged(), fit.course_predicts)


class _Parameters(NamedTuple):
    """The parameters of the structural fit: variances, and time constants in intervals."""

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
        """Return the parameters with which the structural fit begins.

        `parts` is the number of rows in a season; 0 for no season.
        """
        if 0 < parts < SHORT_SEASON:
            fast, slow, level = max(2.0, parts / 11), float(parts), 20.0 * parts
        else:
            fast, slow, level = 3.0, 30.0, 400.0
        plain = cls(0.05, 0.5, fast, 0.3, slow, 1.0, level)
        return plain._replace(season=1.0, season_time=14.0 * parts, offset=0.3) if parts else plain

    def changed(self, name: str, factor: float) -> "_Parameters | None":
        """Return the structural fit's parameters with `name` multiplied by `factor`.

        Returns None if the product is outside the `LIMITS`, or if there is no season and `name` is
        a parameter of the season.
        """
        if name in ("season_time", "decay") and not self.season:
            return None
        value = getattr(self, name) * factor
        return self._replace(**{name: value}) if LIMITS[0] < value < LIMITS[1] else None

    def components(self, interval: float) -> Components:
        """Return the fitted parameters as a structural model's components; `interval` is in s."""
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
    """Independent series of residuals, from which the structural fit computes its score."""

    rows: Array  # (T, m)
    eigenvalues: Array  # (m,), variance of each series
    loads: Array  # (T, n), weight of each of the model's components in each row
    skipped: int = 0  # rows at the beginning that do not count for the score


class _Fit:
    """The search for the structural model of one possible season."""

    def __init__(
        self, readings: Array, recorded: Mask, interval: float, start: float, period: float
    ) -> None:
        T, M = readings.shape
        self._recorded, self._interval = recorded, interval
        self._start, self.period = start, period
        self._cycle = cycle_of(period, interval)
        season = self._cycle or period
        self._parts = parts_of(season, interval) if season else 0
        self._harmonics = (harmonics_for(M) or 0) if season else 0
        self._phases = _phases(T, interval, start, season)
        self.course, rest = learn_course(
            readings,
            parts_of(period, interval) if period else 0,
            cycles_of(period, interval),
            _phases(T, interval, start, period),
            recorded,
        )
        variances = readings[recorded].var(axis=0)
        self.course_predicts = bool((rest[recorded] ** 2).mean(axis=0).sum() < variances.sum())
        own = np.maximum(rest[recorded].var(axis=0), MIN_REST_SHARE * variances.mean())
        self.spread = np.sqrt(OWN_SHARE * own + (1.0 - OWN_SHARE) * own.mean())
        scaled = np.divide(rest, self.spread, out=rest)
        self.liveliness = _liveliness(scaled[recorded], self._phases[recorded])
        self.correlation = _correlation(scaled[recorded])
        eigenvalues, self._vectors = np.linalg.eigh(self.correlation)
        self._eigenvalues = np.maximum(eigenvalues, MIN_EIGENVALUE)
        self._rows = np.ascontiguousarray(scaled @ self._vectors)
        self._rows[~recorded] = np.nan
        n = 4 + 2 * self._harmonics
        self._mean, self._covariances = np.zeros((M, n)), np.zeros((M, n, n))
        self._loads = self._loadings()
        self._parameters = _Parameters.first(self._parts)
        self._all = _Series(self._rows, self._eigenvalues, self._loads)
        newest = _newest_recorded(recorded)
        self._first_judged: int = newest.start + _burn_in(recorded[newest])
        self._searched = self._series_to_search(scaled, newest)
        self._score = self._score_of(self._parameters, self._searched)

    def search(self) -> None:
        """Change one parameter of the structural fit at a time, as long as the score improves."""
        step = SEARCH_FACTOR
        for _ in range(SEARCH_SWEEPS):
            for name in _Parameters._fields:
                for factor in (step, 1.0 / step):
                    if self._follow(name, factor):
                        break
            step = step**0.5

    def log_density(self) -> float:
        """Return the structural fit's mean log density of the scored rows, in model units."""
        counted = max(1, int(self._recorded[-self.judged() :].sum()))
        return self._score / counted - float(np.log(self.spread).sum())

    def judged(self) -> int:
        """Return how many of the newest rows count for the structural fit's score."""
        return len(self._rows) - self._first_judged

    def model(self) -> StructuralModel:
        """Return the fitted structural model, with its state after the training rows."""
        self._score_of(self._parameters, self._all)
        (T, M), n = self._rows.shape, self._mean.shape[1]
        whole = 4 + 2 * (harmonics_for(M) or 0)
        mean, covariances = np.zeros((whole, M)), np.zeros((M, whole, whole))
        mean[:n], covariances[:, :n, :n] = (self._vectors @ self._mean).T, self._covariances
        return StructuralModel(
            period=self.period,
            interval=self._interval,
            course=self.course,
            spread=self.spread,
            liveliness=self.liveliness,
            correlation=self.correlation,
            components=self._parameters.components(self._interval),
            rows=int(self._recorded.sum()),
            state=TrainedState(
                end=self._start + T * self._interval,
                mean=mean,
                covariances=covariances,
            ),
            cycle=self._cycle,
        )

    def _follow(self, name: str, factor: float) -> bool:
        """Multiply a parameter of the structural fit by `factor` as long as the score improves.

        Return whether the parameter was changed.
        """
        improved = False
        while changed := self._parameters.changed(name, factor):
            score = self._score_of(changed, self._searched)
            if score <= self._score + MIN_GAIN:
                break
            self._parameters, self._score, improved = changed, score, True
        return improved

    def _series_to_search(self, scaled: Array, newest: slice) -> "_Series":
        """Return the rows `newest` of the series to which the fit's parameters are fitted.

        Usually there is one series for each eigenvector of the correlation. If there are more than
        `MAX_SEARCH_SERIES` sensors, or at least as many sensors as recorded rows, each series
        consists of the readings of one sensor (a composite likelihood, Varin, Reid & Firth 2011).
        The reason: with so few rows, many series of eigenvectors would be zero, and the fitted
        noise would vanish.
        """
        M = scaled.shape[1]
        loads, skipped = self._loads[newest], self._first_judged - newest.start
        if self._recorded.sum() > M and M <= MAX_SEARCH_SERIES:
            return _Series(self._rows[newest], self._eigenvalues, loads, skipped)
        some = scaled[newest, :: -(-M // MAX_SEARCH_SERIES)].copy()
        some[~self._recorded[newest]] = np.nan
        return _Series(some, np.ones(some.shape[1]), loads, skipped)

    def _score_of(self, parameters: _Parameters, series: "_Series") -> float:
        """Return the structural fit's log score over the `series`.

        The score is computed by Kalman filters; the last state of each filter is stored. If there
        are fewer series than sensors, the score is scaled up to the number of sensors.
        """
        table = component_table(parameters.components(self._interval), self._harmonics)
        score = structural.filter_training(
            series.rows,
            series.eigenvalues,
            table.variance,
            table.retain(self._interval),
            parameters.noise,
            series.loads,
            series.skipped,
            self._mean,
            self._covariances,
        )
        return float(score * (self._rows.shape[1] / series.rows.shape[1]))

    def _loadings(self) -> Array:
        table = component_table(self._first_components(), self._harmonics)
        loads = np.empty((len(self._rows), len(table.kind)))
        for row, phase in zip(loads, self._phases, strict=True):
            lively = float(self.liveliness[part_of(float(phase), LIVELINESS_BINS)])
            structural.loadings(table.harmonic, table.kind, float(phase), lively, row)
        return loads

    def _first_components(self) -> Components:
        return _Parameters.first(self._parts).components(self._interval)


def _newest_recorded(recorded: Mask) -> slice:
    """Return the rows with which the structural fit searches its parameters.

    The slice ends with the last recorded row, and contains the newest `MAX_SEARCH_ROWS` recorded
    rows. If this slice would be longer than `MAX_SEARCH_SPAN` rows, the slice begins later.
    """
    rows = np.flatnonzero(recorded)
    end = int(rows[-1]) + 1
    return slice(max(int(rows[-MAX_SEARCH_ROWS:][0]), end - MAX_SEARCH_SPAN), end)


def _burn_in(recorded: Mask) -> int:
    """Return the number of rows at the beginning that do not count for the structural fit's score.

    `recorded` is the mask of the searched rows; it ends with a recorded row.
    """
    rows = np.flatnonzero(recorded)
    return int(rows[int(BURN_IN * len(rows))])


def _phases(T: int, interval: float, start: float, period: float) -> Array:
    """Return the phase (0 to 1) of each training row of a structural fit; -1 without a season."""
    return np.array([phase_of(start + t * interval, period) for t in range(T)])


def _correlation(scaled: Array) -> Array:
    """Return the shrunk correlation of the sensors for the structural model.

    A sensor that never changes has the correlation 0 with all others.
    """
    M = scaled.shape[1]
    deviations = scaled.std(axis=0)
    products = (scaled - scaled.mean(axis=0)).T @ (scaled - scaled.mean(axis=0)) / len(scaled)
    scales = np.where(deviations > 0, deviations, np.inf)
    correlation = (1.0 - SHRINKAGE) * products / np.outer(scales, scales)
    np.fill_diagonal(correlation, 1.0)
    return np.ascontiguousarray((correlation + correlation.T) / 2).reshape(M, M)


def _liveliness(scaled: Array, phases: Array) -> Array:
    """Return the fitted liveliness of each part of the season.

    The liveliness of a part is the root mean square of the `scaled` residuals of this part. It is
    smoothed over neighbouring parts, and scaled to about 1 on average.
    """
    bins = np.array([part_of(float(phase), LIVELINESS_BINS) for phase in phases])
    if (phases < 0.0).all():
        return np.ones(LIVELINESS_BINS)
    counts = np.bincount(bins, minlength=LIVELINESS_BINS)
    sums = np.bincount(bins, (scaled**2).mean(axis=1), LIVELINESS_BINS)
    squares = np.where(counts > 0, sums / np.maximum(counts, 1), (scaled**2).mean())
    smooth = (np.roll(squares, -1) + squares + np.roll(squares, 1)) / 3.0
    mean = smooth.mean()
    relative = smooth / mean if mean > 0.0 else np.ones(LIVELINESS_BINS)  # 0: no residuals
    return np.asarray(np.sqrt(np.maximum(relative, MIN_SHARE)))
