"""The daily rhythm of a field, learned from training days, and how much to explore around it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.daily_profile import DAY, DailyProfile
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.mixture import MixturePosterior
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import UpperConfidence

Array = NDArray[np.float64]
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Progress = Callable[[int, int], None]  # told how much is done, and of how much
EXPLORATIONS = (0.8, 0.4, 0.2, 0.1, 0.05, 0.02)  # c1 of β_t = c1 ln(.4 t)
NOISES = (0.03, 0.01, 0.003, 0.001)  # of a reading, by training variance
UNKNOWN = (0.4, 0.01)  # c1 and noise where there are too few days to find them
FEW_DAYS = 3.0  # fewer cannot be held out one by one
SMOOTHED = 40.0 / 1440.0  # of a day: standard deviation of the window the scale is averaged over
STEADY = 0.05  # of the scale's square: how much of it does not go by the time of day
SHRINKAGE = 0.02  # of correlations to 0
JITTER = 1e-4


def untold(done: int, total: int) -> None:
    """Tell nobody."""


def held_out_coverage(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    share: float = 0.9,
    progress: Progress = untold,
    executor: Executor | None = None,
) -> tuple[float, ...]:
    """Give, day by day, which share of what was read the predictive intervals hold.

    Each training day is replayed with what the others teach; nothing where they are too few.
    The arguments are those of `learn`, but that the field has its rhythm.
    """
    rhythm = field.rhythm
    if rhythm is None or len(readings) < FEW_DAYS * len(rhythm.scale):
        return ()
    P = len(rhythm.scale)
    phases, days = _calendar(len(readings), P, interval, start)
    held = list(_held_out(field, readings, phases, days, P))
    covered = partial(
        _covered, c1=rhythm.exploration, noise_variance=rhythm.noise_variance, share=share
    )
    return tuple(_map(executor, covered, held, progress))


def learn(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    progress: Progress = untold,
    executor: Executor | None = None,
) -> DailyProfile | None:
    """Give the rhythm of training days; None where they are not two, or a day has no rhythm.

    Parameters
    ----------
    field : SensorField
        M arms, without a rhythm; its kernel and noise go into the replays.
    readings : (T, M) array
        Training intervals without gaps, in model units.
    interval, start : float
        Seconds between rows, and the time of the first, s since 1970, UTC.
    progress : callable
        Told after each of the days that are replayed, twice each.
    executor : Executor, optional
        Where the days are replayed, which changes no result; this process by default.
    """
    P = round(DAY / interval)
    if abs(P * interval - DAY) > 1e-6 or P < 4 or len(readings) < 2 * P:
        return None
    phases, days = _calendar(len(readings), P, interval, start)
    rhythm = _rhythm(readings, phases, P)
    if len(readings) < FEW_DAYS * P:
        return rhythm
    held = list(_held_out(field, readings, phases, days, P))
    densities = _map(executor, _densities, held, partial(_of_two, progress, 0))
    noise = NOISES[int(np.sum(densities, axis=0).argmax())]
    regrets = _map(executor, partial(_regrets, noise), held, partial(_of_two, progress, 1))
    explored = EXPLORATIONS[_first_near_best(np.array(regrets))]
    return replace(rhythm, exploration=explored, noise_variance=noise)


def _rhythm(readings: Array, phases: NDArray[np.intp], P: int) -> DailyProfile:
    """Give mean, scale and covariance by the time of day."""
    T, M = readings.shape
    counts = np.bincount(phases, minlength=P).astype(np.float64)
    mean = np.zeros((P, M))
    np.add.at(mean, phases, readings)
    mean = np.where(counts[:, None] > 0, mean / np.maximum(counts, 1)[:, None], readings.mean(0))
    rest = readings - mean[phases]
    scale = _scale(rest, phases, counts)
    unscaled = rest / scale[phases, None]
    K = unscaled.T @ unscaled / T
    K = (1.0 - SHRINKAGE) * K + (SHRINKAGE + JITTER) * np.diag(np.diag(K)) + JITTER * np.eye(M)
    return DailyProfile(mean, scale, np.ascontiguousarray((K + K.T) / 2), T / P, *UNKNOWN)


def _scale(rest: Array, phases: NDArray[np.intp], counts: Array) -> Array:
    """Give the standard deviation of all sensors together by the time of day, smoothed."""
    P = len(counts)
    squares = np.zeros(P)
    np.add.at(squares, phases, (rest**2).mean(axis=1))
    away = np.minimum(np.arange(P), P - np.arange(P)) / P
    weights = np.fft.rfft(np.exp(-0.5 * (away / SMOOTHED) ** 2))
    around = np.fft.irfft(np.fft.rfft(squares) * weights, P)
    number = np.fft.irfft(np.fft.rfft(counts) * weights, P)
    total = float((rest**2).mean())
    local = np.where(number > 0.1, around / np.maximum(number, 0.1), total)
    return np.asarray(np.sqrt((1.0 - STEADY) * np.maximum(local, 0.0) + STEADY * total + JITTER))


def _calendar(
    T: int, P: int, interval: float, start: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Give the interval of the day, and the number of the day, of each row."""
    phases = (np.arange(T) + round((start % DAY) / interval)) % P
    return phases, np.cumsum(np.r_[0, np.diff(phases) < 0])


class _Held(NamedTuple):
    """A training day, and the field as the other days teach it."""

    field: SensorField
    readings: Array
    at: float  # s since midnight


def _held_out(
    field: SensorField, readings: Array, phases: NDArray[np.intp], days: NDArray[np.intp], P: int
) -> Iterator[_Held]:
    """Give each training day that is at least half there, where two others remain."""
    for day in np.unique(days):
        held = days == day
        if held.sum() < P / 2 or (~held).sum() < 2 * P:
            continue
        others = _rhythm(readings[~held], phases[~held], P)
        known = SensorField(field.sensors, field.kernel, field.noise_variance, rhythm=others)
        yield _Held(known, readings[held], float(phases[held][0]) * DAY / P)


def _map(
    executor: Executor | None,
    function: Callable[[Item], Outcome],
    items: Sequence[Item],
    progress: Progress,
) -> list[Outcome]:
    """Return `function` of each item, in their order; call `progress` after each."""
    outcomes = []
    for outcome in (executor.map if executor else map)(function, items):
        outcomes.append(outcome)
        progress(len(outcomes), len(items))
    return outcomes


def _of_two(progress: Progress, before: int, done: int, total: int) -> None:
    """Tell how far it is where all days come twice, `before` times already."""
    progress(before * total + done, 2 * total)


def _densities(held: _Held) -> list[float]:
    return [_replayed(held, UNKNOWN[0], noise).density for noise in NOISES]


def _regrets(noise_variance: float, held: _Held) -> list[float]:
    return [_replayed(held, c1, noise_variance).regret for c1 in EXPLORATIONS]


def _covered(held: _Held, *, c1: float, noise_variance: float, share: float) -> float:
    return _replayed(held, c1, noise_variance, share).covered


class _Replay(NamedTuple):
    """How a held-out day went."""

    regret: float  # in all
    density: float  # log density of what was read, in all
    covered: float  # share of what was read within the predictive intervals


def _replayed(held: _Held, c1: float, noise_variance: float, share: float | None = None) -> _Replay:
    """Follow a held-out day with such settings; the intervals are looked at only for a `share`."""
    field = held.field
    assert field.rhythm is not None
    rhythm = replace(field.rhythm, exploration=c1, noise_variance=noise_variance)
    known = SensorField(field.sensors, field.kernel, field.noise_variance, rhythm=rhythm)
    posterior = MixturePosterior(known)
    posterior.set_time(held.at)
    policy = UpperConfidence("auto", known, posterior, LogBeta(c1), Never())
    regret = density = covered = 0.0
    for row in held.readings:
        arm = policy.select().arm
        if share is not None:
            low, high = (posterior.quantile(arm, 0.5 + side * share / 2) for side in (-1, 1))
            covered += low <= row[arm] <= high
        policy.observe(arm, float(row[arm]))
        density += posterior.log_density
        policy.advance()
        regret += float(row.max() - row[arm])
    return _Replay(regret, density, covered / len(held.readings))


def _first_near_best(regrets: Array) -> int:
    """Give the first column of `regrets` (days, n) that is within a standard error of the best.

    To explore too much costs a little each day; to explore too little costs much on the first
    day that is unlike the others. So the most exploration that did not do clearly worse is taken.
    """
    best = int(regrets.mean(axis=0).argmin())
    behind = regrets - regrets[:, best : best + 1]
    error = behind.std(axis=0, ddof=1) / len(regrets) ** 0.5
    return int(np.flatnonzero(behind.mean(axis=0) <= error)[0])
