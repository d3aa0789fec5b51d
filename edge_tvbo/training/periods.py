"""Periods of a season (day, week or year), and resampling of training rows to a period."""

from math import ceil

import numpy as np

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import interval_text, season_text
from edge_tvbo.models.seasons import has_days
from edge_tvbo.models.structural_model import DAY, MAX_DRIFT, WEEK, YEAR, cycle_of
from edge_tvbo.numerics.types import Array, Mask

MIN_SEASONS = 2  # whole seasons that are needed to learn a course
MAX_ERROR = 1e-6  # largest relative error of a day or week that is rounded to whole rows: 30 s/year
MIN_PARTS, MAX_PARTS = 4, 2016  # rows in a season; a week of 5-minute rows has 2016


def possible_periods(T: int, interval: float) -> list[float]:
    """Return the periods in s that `T` rows cover at least twice; [0.0] if there is none.

    >>> possible_periods(287, 600.0), possible_periods(288, 600.0), possible_periods(800, 86400.0)
    ([0.0], [86400.0], [31536000.0])
    """
    found = []
    for period in (DAY, WEEK) if has_days(interval) else (YEAR,):
        season = _whole(period, interval)
        if season is not None and seasons_in(T, interval, season) >= MIN_SEASONS:
            found.append(season)
    return found or [0.0]


def checked_period(T: int, interval: float, period: float) -> float:
    """Return `period` in s, rounded to whole rows if the rounding changes the period very little.

    Raises `DataError` if the period has too few or too many rows, or if the `T` training rows do
    not cover the period twice.
    """
    if not period:
        return 0.0
    season = _whole(period, interval)
    if season is None:
        longer = f" Set a longer interval, such as {_interval_option(period)}."
        raise DataError(
            f"The period is {season_text(period)}, which is {period / interval:.0f} rows of "
            f"{interval_text(interval)}; allowed: {MIN_PARTS} to {MAX_PARTS} rows in a period."
            f"{longer if parts_of(period, interval) > MAX_PARTS else ''}"
        )
    if (seasons := seasons_in(T, interval, season)) < MIN_SEASONS:
        raise DataError(
            f"The period is {season_text(period)}. The training rows cover {seasons:.1f} periods; "
            f"they must cover at least {MIN_SEASONS}."
        )
    return season


def untried_day_text(T: int, interval: float) -> str:
    """Return a text which says that a day has too many intervals to be tried as the period.

    The text is "" if a day has few enough intervals, or if the `T` rows do not cover two days.
    """
    parts = parts_of(DAY, interval)
    if parts <= MAX_PARTS or seasons_in(T, interval, DAY) < MIN_SEASONS:
        return ""
    return (
        f"no season of a day was tried: a day has {parts} intervals of {interval_text(interval)}, "
        f"and a season can have at most {MAX_PARTS}. To learn the course of a day, fit the model "
        f"with {_interval_option(DAY)}"
    )


def _interval_option(period: float) -> str:
    """Return the option ``--interval`` with the shortest interval that suits the `period`.

    The interval is in whole minutes, and so long that a period has at most `MAX_PARTS` rows.
    """
    return f"--interval {ceil(period / MAX_PARTS / 60.0)}min"


def parts_of(period: float, interval: float) -> int:
    """Return the number of rows in a period, rounded so that all cycles have equally many rows."""
    cycles = cycles_of(period, interval)
    return cycles * round(period / cycles / interval)


def cycles_of(period: float, interval: float) -> int:
    """Return the number of cycles in a period, such as seven days in a week."""
    cycle = cycle_of(period, interval)
    return round(period / cycle) if cycle else 1


def _whole(period: float, interval: float) -> float | None:
    """Return `period` in s, rounded to whole rows if possible.

    The result is None if the period has too few or too many rows. A year is rounded to whole rows,
    such as 365 days or 52 weeks. Any other period is rounded only if its relative change is at most
    `MAX_ERROR`. The reason: after a hundred days, an error of 0.1 % in the length of a day would
    shift the course by two hours.
    """
    parts = parts_of(period, interval)
    if not MIN_PARTS <= parts <= MAX_PARTS:
        return None
    whole = parts * interval
    is_year = abs(period - YEAR) <= MAX_DRIFT * YEAR
    largest = MAX_DRIFT if is_year else MAX_ERROR
    return whole if abs(whole - period) <= largest * period else period


def seasons_in(T: int, interval: float, period: float) -> float:
    """Return the number of periods that `T` rows cover; the number need not be whole."""
    return _rows_on_grid(T, interval, period) / parts_of(period, interval)


def _rows_on_grid(T: int, interval: float, period: float) -> int:
    """Return the number of rows that `on_grid` returns for `T` rows and this `period`."""
    step = period / parts_of(period, interval)
    return int((T - 1) * interval / step + 1e-9) + 1


def on_grid(
    readings: Array, recorded: Mask, interval: float, start: float, period: float
) -> tuple[Array, Mask, float, float]:
    """Return the training readings at times that divide a `period` into equal parts.

    If the recorded times do not divide the period into equal parts, the readings are interpolated.

    Returns
    -------
    readings, recorded : (T', M) array, (T',) bool array
        The readings at the times of the grid; and for each time, whether the nearest row was
        recorded.
    interval, start : float
        Time between two rows in s, and time of the first row in s since 1970, UTC.
    """
    if not period:
        return readings, recorded, interval, start
    step = period / parts_of(period, interval)
    if abs(step - interval) <= 1e-6 * interval:
        return readings, recorded, interval, start
    last = (len(readings) - 1) * interval
    times = last - step * np.arange(_rows_on_grid(len(readings), interval, period))[::-1]
    rows = np.arange(len(readings)) * interval
    columns = [np.interp(times, rows, readings[:, arm]) for arm in range(readings.shape[1])]
    near = recorded[np.rint(times / interval).astype(np.intp)]
    return np.stack(columns, axis=1), near, step, start + float(times[0])
