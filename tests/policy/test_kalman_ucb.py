"""The textbook baseline: it equals the two dozen lines of its recipe."""

import numpy as np
import pytest

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structure import DAY, prior_structure
from edge_tvbo.policy import make_policy
from edge_tvbo.training.textbook_fit import WIDTHS, best_width, fit_textbook

P, M = 24, 5
INTERVAL = DAY / P


def recording(days, seed=0):
    rng = np.random.default_rng(seed)
    course = rng.normal(size=(P, M))
    x, rows = np.zeros(M), []
    for t in range(days * P):
        x = 0.8 * x + 0.3 * rng.standard_normal(M)
        rows.append(course[t % P] + x)
    return np.array(rows)


def recipe(training, test, width):
    """Return the sensors that the textbook recipe of shared/data/README.md selects."""
    days = len(training) // P
    course = np.array([training[np.arange(len(training)) % P == k].mean(0) for k in range(P)])
    rest = training - course[np.arange(len(training)) % P]
    K = rest.T @ rest / len(rest) * days / (days - 1)
    K = 0.98 * K + 0.02 * np.diag(np.diag(K))
    phi = (rest[1:] * rest[:-1]).sum() / (rest[:-1] ** 2).sum()
    noise = 0.01 * np.diag(K).mean()
    m, C, chosen = np.zeros(M), K.copy(), []
    for t, row in enumerate(test):
        mean = course[t % P] + m
        arm = int((mean + width * np.sqrt(np.diag(C))).argmax())
        gain = C[:, arm] / (C[arm, arm] + noise)
        m, C = m + gain * (row[arm] - mean[arm]), C - np.outer(gain, C[arm])
        m, C = phi * m, phi**2 * C + (1 - phi**2) * K
        chosen.append(arm)
    return chosen


@pytest.mark.parametrize("width", WIDTHS)
def test_it_selects_what_the_recipe_selects(width):
    rows = recording(8)
    training, test = rows[: 6 * P], rows[6 * P :]
    structure = fit_textbook(training, INTERVAL, 0.0)
    field = SensorField([f"s{i}" for i in range(M)], np.eye(M), 0.01, structure=structure)
    policy, chosen = make_policy("kalman-ucb", field, width=width), []
    for t, row in enumerate(test):
        policy.set_time((6 * P + t) * INTERVAL)
        chosen.append(policy.select().arm)
        policy.observe(chosen[-1], float(row[chosen[-1]]))
        policy.advance()
    assert chosen == recipe(training, test, width)


def test_the_width_is_the_best_on_the_last_quarter():
    rows = recording(8)
    field = SensorField([f"s{i}" for i in range(M)], np.eye(M), 0.01)
    regrets = []
    first = 6 * P
    for width in WIDTHS:
        chosen = recipe(rows[:first], rows[first:], width)
        regrets.append(
            sum(row.max() - row[arm] for row, arm in zip(rows[first:], chosen, strict=True))
        )
    assert best_width(field, rows, INTERVAL, 0.0) == WIDTHS[int(np.argmin(regrets))]


@pytest.mark.parametrize("on", [(0.0, 0.7), (0.3, 0.7)])
def test_rows_in_which_nothing_was_recorded_teach_nothing(on):
    rng, days, per_day = np.random.default_rng(0), 30, 48
    rest = np.zeros((days * per_day, M))
    for t in range(1, len(rest)):
        rest[t] = 0.9 * rest[t - 1] + np.sqrt(0.19) * rng.standard_normal(M)
    time = np.arange(len(rest)) % per_day / per_day
    rows = rest + 3.0 * np.sin(2 * np.pi * time)[:, None]
    rows[(time < on[0]) | (time >= on[1])] = np.nan
    structure = fit_textbook(rows, 1800.0, 0.0)
    assert np.isfinite(structure.course).all()
    assert structure.rows == (~np.isnan(rows[:, 0])).sum()
    assert structure.components.fast.time == pytest.approx(-1800.0 / np.log(0.9), rel=0.15)
    assert structure.spread == pytest.approx(np.ones(M), rel=0.15)
    field = SensorField([f"s{i}" for i in range(M)], np.eye(M), 0.01)
    assert best_width(field, rows, 1800.0, 0.0) in WIDTHS


def test_rows_that_were_recorded_every_hour_have_the_time_constant_of_hours():
    rng = np.random.default_rng(0)
    rest = np.zeros((3000, M))
    for t in range(1, len(rest)):
        rest[t] = 0.97 * rest[t - 1] + np.sqrt(1 - 0.97**2) * rng.standard_normal(M)
    rest[np.arange(3000) % 6 > 0] = np.nan
    structure = fit_textbook(rest, 600.0, 0.0)
    assert structure.components.fast.time == pytest.approx(-600.0 / np.log(0.97), rel=0.2)


def test_less_than_two_whole_days_have_a_plain_mean():
    for rows, interval in ((2 * P - 1, INTERVAL), (50, DAY), (60, 7000.0)):
        structure = fit_textbook(recording(3)[:rows], interval, 0.0)
        assert structure.course.shape == (1, M)
        assert structure.period == 0.0


@pytest.mark.parametrize("interval", [600.0, None])
def test_without_training_days_the_field_changes_around_a_constant(interval):
    """A prior structure of intervals that differ has no rate for it."""
    kernel = 0.5 * np.eye(M) + 0.5
    names = [f"s{i}" for i in range(M)]
    plain = make_policy("kalman-ucb", SensorField(names, kernel, 0.01))
    prior = prior_structure(kernel, interval)
    cold = make_policy("kalman-ucb", SensorField(names, kernel, 0.01, structure=prior))
    for policy in (plain, cold):
        policy.observe(1, 2.0)
        policy.advance()
    np.testing.assert_array_equal(cold.posterior(), plain.posterior())
    assert 0 < plain.posterior()[0][1] < 1.99
