"""Training of courses: each season against the course of the others, in little memory."""

import tracemalloc

import numpy as np
import pytest

from edge_tvbo.training.course import learn_course

DAY_ROWS = 24


def made_of(rng, days, M=3):
    """Return readings with a daily course, and the rows that were recorded."""
    t = np.arange(DAY_ROWS * days)
    course = 2.0 * np.sin(2 * np.pi * t / DAY_ROWS)
    readings = 20.0 + course[:, None] + rng.standard_normal((len(t), M))
    return readings, rng.random(len(t)) < 0.9


def learned(readings, cycles, recorded):
    phases = np.arange(len(readings)) / (DAY_ROWS * cycles) % 1.0
    return learn_course(readings, DAY_ROWS * cycles, cycles, phases, recorded)


@pytest.mark.parametrize(("cycles", "seasons"), [(1, 8), (7, 4)])
def test_a_season_is_compared_with_the_course_of_the_others(cycles, seasons):
    """It does not depend on the season's own readings, if the mean of all readings is the same."""
    rng = np.random.default_rng(cycles)
    readings, recorded = made_of(rng, seasons * cycles)
    subtracted = readings - learned(readings, cycles, recorded)[1]
    for rows in np.split(np.arange(len(readings)), seasons):
        change = rng.normal(0.0, 10.0, (len(rows), 3))
        changed = readings.copy()
        changed[rows] += change - change[recorded[rows]].mean(axis=0)
        again = changed - learned(changed, cycles, recorded)[1]
        np.testing.assert_allclose(again[rows], subtracted[rows], atol=1e-9)


def test_a_season_is_compared_with_the_mean_if_no_other_was_recorded():
    readings, recorded = made_of(np.random.default_rng(1), days=2)
    recorded[DAY_ROWS:] = False
    readings[DAY_ROWS:] = readings[DAY_ROWS - 1]
    _, rest = learned(readings, 1, recorded)
    known = readings[recorded]
    np.testing.assert_allclose(rest[recorded], known - known.mean(axis=0), atol=1e-9)


def test_a_year_is_learned_in_little_memory():
    """The result has the size of the readings; copies of all other days had five times as much."""
    readings, recorded = made_of(np.random.default_rng(1), days=365, M=20)
    tracemalloc.start()
    try:
        learned(readings, 1, recorded)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3.5 * readings.nbytes
