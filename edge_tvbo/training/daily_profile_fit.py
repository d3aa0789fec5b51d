"""Training of a daily profile: mean and spread by the time of day, exploration and noise."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.daily_profile import DAY, DailyProfile
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.mixture import MixturePosterior
from edge_tvbo.models.triggers import Never
from edge_tvbo.numerics.types import Array, Indices
from edge_tvbo.policy.base import UpperConfidence

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]  # called with the numbers of completed steps and of all steps
EXPLORATIONS = (0.8, 0.4, 0.2, 0.1, 0.05, 0.02)  # candidates for c1 of β_t = c1 ln(.4 t)
NOISES = (0.03, 0.01, 0.003, 0.001)  # candidate noise variances, as shares of the training variance
DEFAULT_EXPLORATION, DEFAULT_NOISE = 0.4, 0.01  # used if there are too few days
MIN_DAYS = 3.0  # fewest days with which each can be held out once
SMOOTHING = 40.0 / 1440.0  # std of the window that smooths the scale, as a share of a day
CONSTANT_SHARE = 0.05  # share of the squared scale that is the same at all times of day
SHRINKAGE = 0.02  # share by which correlations are shrunk to 0
JITTER = 1e-4


def no_progress(done: int, total: int) -> None:
    """Ignore the progress of the training."""


def held_out_coverage(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    share: float = 0.9,
    progress: Progress = no_progress,
    executor: Executor | None = None,
) -> tuple[float, ...]:
    """Return the coverage of the predictive intervals on each training day.

    Each training day is held out: it is replayed with the daily profile of the other days.

    Parameters
    ----------
    field : SensorField
        M arms, with their daily profile.
    readings, interval, start, progress, executor
        As for `fit_daily_profile`.
    share : float
        Nominal coverage of the intervals, 0 to 1.

    Returns
    -------
    tuple of float
        Share of the readings inside their predictive interval, one number per day. The tuple is
        empty if there are fewer than three days, or if the field has no daily profile.
    """
    profile = field.daily_profile
    if profile is None or len(readings) < MIN_DAYS * len(profile.scale):
        return ()
    P = len(profile.scale)
    phases, days = _calendar(len(readings), P, interval, start)
    held = list(_held_out_days(field, readings, phases, days, P))
    covered = partial(
        _coverage, c1=profile.exploration, noise_variance=profile.noise_variance, share=share
    )
    return tuple(_map(executor, covered, held, progress))


def fit_daily_profile(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    progress: Progress = no_progress,
    executor: Executor | None = None,
) -> DailyProfile | None:
    """Return the daily profile of training readings, or None if none can be fitted.

    None can be fitted if the readings cover less than two days, or if a day is not a whole number
    of intervals, 4 or more. With three or more days, exploration and noise variance are chosen by
    replaying each day with the profile of the other days. With fewer days, the exploration is 0.4
    and the noise variance is 0.01.

    Parameters
    ----------
    field : SensorField
        M arms, without a daily profile; its kernel and noise variance are used in the replays.
    readings : (T, M) array
        Training readings without gaps, in model units.
    interval, start : float
        Time between rows in s, and time of the first row in s since 1970, UTC.
    progress : callable
        Function that is called after each replayed day. Each day is replayed twice.
    executor : Executor, optional
        Executor in which the days are replayed, by default this process. The result does not depend
        on it.
    """
    P = round(DAY / interval)
    if abs(P * interval - DAY) > 1e-6 or P < 4 or len(readings) < 2 * P:
        return None
    phases, days = _calendar(len(readings), P, interval, start)
    profile = _profile_of(readings, phases, P)
    if len(readings) < MIN_DAYS * P:
        return profile
    held = list(_held_out_days(field, readings, phases, days, P))
    densities = _map(executor, _densities, held, partial(_half_progress, progress, 0))
    noise = NOISES[int(np.sum(densities, axis=0).argmax())]
    regrets = _map(executor, partial(_regrets, noise), held, partial(_half_progress, progress, 1))
    explored = EXPLORATIONS[_first_near_best(np.array(regrets))]
    return replace(profile, exploration=explored, noise_variance=noise)


def _profile_of(readings: Array, phases: Indices, P: int) -> DailyProfile:
    """Return the daily profile of `readings` with default exploration and noise variance."""
    T, M = readings.shape
    counts = np.bincount(phases, minlength=P).astype(np.float64)
    mean = np.zeros((P, M))
    np.add.at(mean, phases, readings)
    mean = np.where(counts[:, None] > 0, mean / np.maximum(counts, 1)[:, None], readings.mean(0))
    rest = readings - mean[phases]
    scale = _smoothed_scale(rest, phases, counts)
    unscaled = rest / scale[phases, None]
    K = unscaled.T @ unscaled / T
    K = (1.0 - SHRINKAGE) * K + (SHRINKAGE + JITTER) * np.diag(np.diag(K)) + JITTER * np.eye(M)
    kernel = np.ascontiguousarray((K + K.T) / 2)
    return DailyProfile(mean, scale, kernel, T / P, DEFAULT_EXPLORATION, DEFAULT_NOISE)


def _smoothed_scale(rest: Array, phases: Indices, counts: Array) -> Array:
    """Return the smoothed standard deviation of all sensors for each time of day."""
    P = len(counts)
    squares = np.zeros(P)
    np.add.at(squares, phases, (rest**2).mean(axis=1))
    away = np.minimum(np.arange(P), P - np.arange(P)) / P
    weights = np.fft.rfft(np.exp(-0.5 * (away / SMOOTHING) ** 2))
    around = np.fft.irfft(np.fft.rfft(squares) * weights, P)
    number = np.fft.irfft(np.fft.rfft(counts) * weights, P)
    total = float((rest**2).mean())
    local = np.where(number > 0.1, around / np.maximum(number, 0.1), total)
    return np.asarray(
        np.sqrt((1.0 - CONSTANT_SHARE) * np.maximum(local, 0.0) + CONSTANT_SHARE * total + JITTER)
    )


def _calendar(T: int, P: int, interval: float, start: float) -> tuple[Indices, Indices]:
    """Return, for each row, the number of its interval in the day and the number of its day."""
    phases = (np.arange(T) + round((start % DAY) / interval)) % P
    return phases, np.cumsum(np.r_[0, np.diff(phases) < 0])


class _HeldOutDay(NamedTuple):
    """A training day, and the field with the daily profile of the other days."""

    field: SensorField
    readings: Array
    at: float  # start, s since midnight


def _held_out_days(
    field: SensorField, readings: Array, phases: Indices, days: Indices, P: int
) -> Iterator[_HeldOutDay]:
    """Yield each training day that is at least half complete, if two more days remain."""
    for day in np.unique(days):
        held = days == day
        if held.sum() < P / 2 or (~held).sum() < 2 * P:
            continue
        others = _profile_of(readings[~held], phases[~held], P)
        known = SensorField(field.sensors, field.kernel, field.noise_variance, daily_profile=others)
        yield _HeldOutDay(known, readings[held], float(phases[held][0]) * DAY / P)


def _map(
    executor: Executor | None,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Progress,
) -> list[Result]:
    """Apply `function` to each held-out day; return the results in the order of the days."""
    results = []
    for result in (executor.map if executor else map)(function, items):
        results.append(result)
        progress(len(results), len(items))
    return results


def _half_progress(progress: Progress, before: int, done: int, total: int) -> None:
    """Report the progress of two passes over the days; `before` passes are complete."""
    progress(before * total + done, 2 * total)


def _densities(day: _HeldOutDay) -> list[float]:
    return [_replay(day, DEFAULT_EXPLORATION, noise).density for noise in NOISES]


def _regrets(noise_variance: float, day: _HeldOutDay) -> list[float]:
    return [_replay(day, c1, noise_variance).regret for c1 in EXPLORATIONS]


def _coverage(day: _HeldOutDay, *, c1: float, noise_variance: float, share: float) -> float:
    return _replay(day, c1, noise_variance, share).covered


class _ReplayResult(NamedTuple):
    """The result of replaying a held-out day."""

    regret: float  # sum over the day, in model units
    density: float  # sum of the log densities of the readings
    covered: float  # share of the readings inside their predictive interval


def _replay(
    day: _HeldOutDay, c1: float, noise_variance: float, share: float | None = None
) -> _ReplayResult:
    """Replay a held-out day; predictive intervals are computed only if `share` is given."""
    field = day.field
    assert field.daily_profile is not None
    profile = replace(field.daily_profile, exploration=c1, noise_variance=noise_variance)
    known = SensorField(field.sensors, field.kernel, field.noise_variance, daily_profile=profile)
    posterior = MixturePosterior(known)
    posterior.set_time(day.at)
    policy = UpperConfidence("auto", known, posterior, LogBeta(c1), Never())
    regret = density = covered = 0.0
    for row in day.readings:
        arm = policy.select().arm
        if share is not None:
            low, high = (posterior.quantile(arm, 0.5 + side * share / 2) for side in (-1, 1))
            covered += low <= row[arm] <= high
        policy.observe(arm, float(row[arm]))
        density += posterior.log_density
        policy.advance()
        regret += float(row.max() - row[arm])
    return _ReplayResult(regret, density, covered / len(day.readings))


def _first_near_best(regrets: Array) -> int:
    """Return the number of the first column within one standard error of the best column.

    `regrets` has a row for each day and a column for each exploration, the largest first. Too much
    exploration costs a little each day, but too little costs a lot on the first unusual day. So the
    largest exploration that is not clearly worse than the best is chosen.
    """
    best = int(regrets.mean(axis=0).argmin())
    behind = regrets - regrets[:, best : best + 1]
    error = behind.std(axis=0, ddof=1) / len(regrets) ** 0.5
    return int(np.flatnonzero(behind.mean(axis=0) <= error)[0])
