"""Course: the mean of each sensor at each time of the season, with random changes smoothed out."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.structural_model import part_of
from edge_tvbo.numerics.types import Array, Int64Array, Mask

MIN_FULL_SHARE = 0.5  # of the rows of the fullest season; seasons with less give no shares
CACHED_HARMONICS = 4  # harmonics that are computed at a time


def learn_course(
    readings: Array, parts: int, cycles: int, phases: Array, recorded: Mask
) -> tuple[Array, Array]:
    """Return the course of each sensor, (P, M), and the residuals of the readings, (T, M).

    The residuals of a season are the readings of that season minus a course that is learned from
    the other seasons.

    Parameters
    ----------
    readings : (T, M) array
        Readings without NaN; a season has a whole number of rows.
    parts : int
        Number of rows of a season, P; 0 for no season, so that the course is the mean.
    cycles : int
        Number of cycles in a season, such as seven days in a week.
    phases : (T,) array
        Phase of each row in the season, 0 to 1.
    recorded : (T,) bool array
        Rows that were recorded. The other rows, such as those of nights or of a weekend without
        readings, are interpolated, and do not count.
    """
    mean = readings[recorded].mean(axis=0)
    rest = readings - mean
    if not parts:
        return mean[None, :], rest
    seasons = len(readings) // parts
    first = len(readings) - seasons * parts
    whole = rest[first:].reshape(seasons, parts, -1)
    known = recorded[first:].reshape(seasons, parts)
    rows = known.sum(axis=1)
    full = rows > MIN_FULL_SHARE * rows.max()
    if full.sum() < 2:
        full[:] = True
    shares, without_each = _harmonic_shares(whole if full.all() else whole[full], cycles)
    used = np.where(full[:, None], without_each[np.cumsum(full) - 1], shares)
    counts, sums = known.sum(axis=0), whole * known[:, :, None]
    course = _smoothed(mean_season(sums.sum(axis=0), counts), shares)
    for season, others in enumerate(_sums_without_each(sums)):
        begin = first + season * parts
        seen = mean_season(others, counts - known[season])
        rest[begin : begin + parts] -= _smoothed(seen, used[season])
    before = np.arange(first) - first
    rest[:first] -= course[before % parts]
    return mean + course[_columns(parts, phases, first)], rest


def _sums_without_each(seasons: Array) -> Iterator[Array]:
    """Yield, for each season of a course, the sum of all other seasons, (P, M).

    The array `seasons`, (n, P, M), is overwritten: each season is replaced by the sum of all
    previous seasons. So the seasons are always added in the same order, and no sum needs a copy of
    the other seasons.
    """
    before = np.zeros(seasons.shape[1:])
    for number in range(len(seasons)):
        season = seasons[number].copy()
        seasons[number] = before
        yield seasons[number:].sum(axis=0)
        before += season


def mean_season(sums: Array, counts: Int64Array) -> Array:
    """Return the mean season of a course, (P, M), from the sums of the recorded rows of each part.

    `counts`, (P,), has the number of recorded rows of each part. A part that was never recorded is
    interpolated. Without any recorded row, the mean season is 0.
    """
    there = np.flatnonzero(counts)
    if not len(there):
        return sums
    mean = sums[there] / counts[there, None]
    if len(there) == len(counts):
        return np.asarray(mean)
    parts = np.arange(len(counts))
    columns = [np.interp(parts, there, each, period=len(parts)) for each in mean.T]
    return np.stack(columns, axis=1)


def _columns(parts: int, phases: Array, first: int) -> Int64Array:
    """Return, for each part of the course, the index of the same part in the mean season.

    `parts` is the number of parts. The course begins at phase 0, but the mean season begins with
    row `first` of the readings.
    """
    begins_at = part_of(float(phases[first]), parts)
    return (np.arange(parts) - begins_at) % parts


def _harmonic_shares(seasons: Array, cycles: int) -> tuple[Array, Array]:
    """Return, for each harmonic of the mean season, which share of its power is not due to chance.

    A share is between 0 and 1. If a season has several cycles, such as the seven days of a week,
    some harmonics are the same in all cycles. The shares of these harmonics are computed by
    comparing the cycles, and not the seasons. So the course of a week is the sum of two parts: the
    course of a day, and the differences between the days of the week, as far as these differences
    are not due to chance.

    Returns
    -------
    shares : (harmonics,) array
        The shares of the mean of all n seasons.
    without_each : (n, harmonics) array
        Row i has the shares of the mean of all seasons except season i. If there are fewer than
        three seasons, each row is equal to `shares`.
    """
    n, parts, M = seasons.shape
    shares = np.empty((1 + n, parts // 2 + 1))
    in_common = np.arange(shares.shape[1]) % cycles == 0
    by_cycle = seasons.reshape(n * cycles, parts // cycles, M)
    shares[:, in_common] = _shares(np.fft.rfft(by_cycle, axis=1), cycles)
    if cycles > 1:
        shares[:, ~in_common] = _shares(np.fft.rfft(seasons, axis=1)[:, ~in_common], 1)
    shares[:, 0] = 1.0
    return shares[0], shares[1:] if n > 2 else np.repeat(shares[:1], n, axis=0)


def _shares(amplitudes: NDArray[np.complex128], cycles: int) -> Array:
    """Return, for each harmonic of the course, the share of its power that is not due to chance.

    The power of a harmonic is computed from the mean over n seasons. The part due to chance follows
    from the variance between the seasons (James & Stein 1961). The whole power and the part due to
    chance are both averaged over all sensors and over neighbouring harmonics.

    Parameters
    ----------
    amplitudes : complex array (n cycles, harmonics, M)
        Amplitudes of the harmonics in each cycle of n seasons.
    cycles : int
        Number of cycles in a season.

    Returns
    -------
    (1 + n, harmonics) array
        Row 0 has the shares of all seasons. Row 1 has the shares without the first season, row 2
        the shares without the second season, and so on.
    """
    chance, power = _chance_and_power(amplitudes, cycles)
    shares = np.empty(power.shape)
    for k in range(power.shape[1]):
        beside = slice(max(0, k - max(1, k // 4)), k + max(1, k // 4) + 1)
        noise, signal = chance[:, beside].mean(axis=1), power[:, beside].mean(axis=1)
        part = np.divide(noise, signal, out=np.ones(len(noise)), where=signal > noise)
        shares[:, k] = 1.0 - part
    return shares


def _chance_and_power(amplitudes: NDArray[np.complex128], cycles: int) -> tuple[Array, Array]:
    """Return the power of the course's harmonics: the part due to chance, and the whole power.

    Both arrays have the shape (1 + n, harmonics), like the result of `_shares`. A few harmonics are
    computed at a time, so that their amplitudes fit into the processor's cache.
    """
    n, harmonics = len(amplitudes) // cycles, amplitudes.shape[1]
    chance, power = np.empty((2, 1 + n, harmonics))
    borders = np.linspace(0, harmonics, 1 + max(1, harmonics // CACHED_HARMONICS)).astype(int)
    for first, last in pairwise(borders.tolist()):
        some = amplitudes[:, first:last]
        for season in range(-1, n):
            left_out = slice(max(0, season * cycles), (season + 1) * cycles)
            others = np.delete(some, left_out, axis=0)
            mean, count = others.mean(axis=0), len(others)
            between = (np.abs(others - mean) ** 2).sum(axis=0) / max(1, count - 1)
            chance[1 + season, first:last] = between.mean(axis=1) / count
            power[1 + season, first:last] = (np.abs(mean) ** 2).mean(axis=1)
    return chance, power


def _smoothed(course: Array, shares: Array) -> Array:
    """Return a course (P, M) whose harmonics are multiplied by the `shares`."""
    shrunk = np.fft.rfft(course, axis=0) * shares[:, None]
    return np.asarray(np.fft.irfft(shrunk, len(course), axis=0))
