"""Course: the mean of each sensor at each time of the season, with less influence of chance."""

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.structure import part_of
from edge_tvbo.numerics.types import Array, Int64Array, Mask

FULL = 0.5  # of the rows of the fullest season; seasons with fewer rows do not count for shares


def learn_course(
    readings: Array, parts: int, cycles: int, phases: Array, recorded: Mask
) -> tuple[Array, Array]:
    """Return the course of each sensor, (P, M), and the residuals of the readings, (T, M).

    The residuals of a season are its readings minus the course that is learned from the other
    seasons.

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
    whole = rest[first:].reshape(seasons, parts, -1).copy()
    known = recorded[first:].reshape(seasons, parts)
    rows = known.sum(axis=1)
    full = rows > FULL * rows.max()
    if full.sum() < 2:
        full[:] = True
    shares = _harmonic_shares(whole[full], cycles)
    course = _smoothed(_mean_season(whole, known), shares)
    for season in range(seasons):
        left = np.arange(seasons) != season
        others, kept = whole[left], whole[left & full]
        used = _harmonic_shares(kept, cycles) if len(kept) > 1 else shares
        begin = first + season * parts
        rest[begin : begin + parts] -= _smoothed(_mean_season(others, known[left]), used)
    before = np.arange(first) - first
    rest[:first] -= course[before % parts]
    return mean + course[_columns(parts, phases, first)], rest


def _mean_season(seasons: Array, known: Mask) -> Array:
    """Return the mean season of a course, (P, M): the mean over the recorded rows of each part.

    A part that was never recorded is interpolated.
    """
    parts, counts = np.arange(known.shape[1]), known.sum(axis=0)
    there = np.flatnonzero(counts)
    if not len(there):
        return np.asarray(seasons.mean(axis=0))
    sums = (seasons * known[:, :, None]).sum(axis=0)
    mean = sums[there] / counts[there, None]
    columns = [np.interp(parts, there, each, period=len(parts)) for each in mean.T]
    return np.stack(columns, axis=1)


def _columns(parts: int, phases: Array, first: int) -> Int64Array:
    """Return, for each of the `parts` parts of the course, the index of its row in the mean season.

    The course begins at phase 0, but the mean season begins with row `first` of the readings.
    """
    begins_at = part_of(float(phases[first]), parts)
    return (np.arange(parts) - begins_at) % parts


def _harmonic_shares(seasons: Array, cycles: int) -> Array:
    """Return, for each harmonic of the mean season, the share (0 to 1) that is not due to chance.

    If a season has several cycles, such as the seven days of a week, some harmonics are the same in
    all cycles. The shares of these harmonics are computed by comparing the cycles, and not the
    seasons. So the course of a week is the sum of two parts: the course of a day, and the
    differences between the days of the week, as far as these differences are not due to chance.
    """
    amplitudes = np.fft.rfft(seasons, axis=1)
    shares = np.empty(amplitudes.shape[1])
    n, parts, M = seasons.shape
    each = np.fft.rfft(seasons.reshape(n * cycles, parts // cycles, M), axis=1)
    in_common = np.arange(len(shares)) % cycles == 0
    shares[in_common] = _shares(each)
    if cycles > 1:
        shares[~in_common] = _shares(amplitudes[:, ~in_common])
    shares[0] = 1.0
    return shares


def _shares(amplitudes: NDArray[np.complex128]) -> Array:
    """Return, for each harmonic of the course, the share of its power that is not due to chance.

    The power of a harmonic is computed from the mean over n seasons. The part due to chance follows
    from the variance between the seasons (James & Stein 1961). Both are averaged over all sensors
    and over neighbouring harmonics.

    Parameters
    ----------
    amplitudes : complex array (n, harmonics, M)
        Amplitudes of the harmonics in each season.
    """
    mean = amplitudes.mean(axis=0)
    between = (np.abs(amplitudes - mean) ** 2).sum(axis=0) / (len(amplitudes) - 1)
    chance = between.mean(axis=1) / len(amplitudes)
    power = (np.abs(mean) ** 2).mean(axis=1)
    shares = np.empty(len(power))
    for k in range(len(power)):
        beside = slice(max(0, k - max(1, k // 4)), k + max(1, k // 4) + 1)
        noise, signal = float(chance[beside].mean()), float(power[beside].mean())
        shares[k] = 1.0 - noise / signal if signal > noise else 0.0
    return shares


def _smoothed(course: Array, shares: Array) -> Array:
    """Return a course (P, M) with each harmonic multiplied by its share."""
    shrunk = np.fft.rfft(course, axis=0) * shares[:, None]
    return np.asarray(np.fft.irfft(shrunk, len(course), axis=0))
