"""The textbook baseline: it equals the two dozen lines of its recipe."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import DAY, prior_structure
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


def fitted_policy(*, interval):
    """Return `kalman-ucb` with a model of a recording, and this model; None: unequal intervals."""
    structure = fit_textbook(recording(8), INTERVAL, 0.0)
    structure = replace(structure, interval=interval or 0.0)
    field = SensorField([f"s{i}" for i in range(M)], np.eye(M), 0.01, structure=structure)
    return make_policy("kalman-ucb", field), structure


class Textbook:
    """A Kalman filter in continuous time: an Ornstein-Uhlenbeck process around the course."""

    def __init__(self, structure):
        self._structure = structure
        self._tau = structure.components.fast.time
        spread = structure.spread
        self._K = structure.correlation * np.outer(spread, spread)
        self._noise = structure.components.noise_variance * (spread**2).mean()
        self._m, self._C = np.zeros(M), self._K.copy()
        self._readings = 0

    def course(self, at):
        course = self._structure.course
        return course.mean(axis=0) if at is None else course[int(at // INTERVAL) % P]

    def observe(self, arm, y, at):
        gain = self._C[:, arm] / (self._C[arm, arm] + self._noise)
        self._m = self._m + gain * (y - self.course(at)[arm] - self._m[arm])
        self._C = self._C - np.outer(gain, self._C[arm])

    def wait(self, seconds):
        phi = np.exp(-seconds / self._tau)
        self._m, self._C = phi * self._m, phi**2 * self._C + (1 - phi**2) * self._K

    def posterior(self, at):
        return self.course(at) + self._m, np.sqrt(np.diag(self._C))


WAITS = st.floats(0.01, 2 * DAY)  # s


@given(
    steps=st.lists(
        st.tuples(
            WAITS,
            st.integers(0, M - 1),
            st.floats(-5.0, 5.0),
            st.sampled_from(["", "the clock is not set", "restart", "the clock is set back"]),
        ),
        max_size=8,
    )
)
def test_in_intervals_that_differ_in_length_the_deviations_age_by_the_real_time(steps):
    policy, structure = fitted_policy(interval=None)
    twin, now, behind = Textbook(structure), 30 * DAY, 0.0
    policy.set_time(now)
    for seconds, arm, y, event in steps:
        at = None if behind else now
        policy.observe(arm, y)
        twin.observe(arm, y, at)
        policy.advance()
        if event == "restart":
            blob = policy.snapshot()
            policy, _ = fitted_policy(interval=None)
            policy.restore(blob)
        if event == "the clock is set back":
            policy.set_time(now - 1.0)  # no time has passed, as far as the clock shows
            policy.set_time(now)
            twin.wait(1.0)
        now += seconds
        twin.wait(seconds)
        behind = event == "the clock is not set"
        if behind:
            policy.set_time(None)
            policy.pass_time(seconds)
        else:
            policy.set_time(now)
        known = twin.posterior(None if behind else now)
        np.testing.assert_allclose(policy.posterior(), known, rtol=1e-6, atol=1e-8)


def test_the_same_time_in_few_or_many_intervals_has_the_same_effect():
    few, _ = fitted_policy(interval=None)
    many, _ = fitted_policy(interval=None)
    for policy, count in ((few, 2), (many, 500)):
        policy.set_time(0.0)
        policy.observe(1, 2.0)
        for at in np.linspace(0.0, 6 * 3600.0, count + 1)[1:]:
            policy.advance()
            policy.set_time(float(at))
    np.testing.assert_allclose(few.posterior(), many.posterior(), rtol=1e-9, atol=1e-9)


def test_a_snapshot_of_equal_intervals_is_continued_with_measured_intervals():
    """The daemon of earlier versions counted intervals with interval = "on-reading", too."""
    equal, _ = fitted_policy(interval=INTERVAL)
    equal.set_time(0.0)
    equal.observe(1, 2.0)
    measured, structure = fitted_policy(interval=None)
    measured.restore(equal.snapshot())
    np.testing.assert_array_equal(measured.posterior(), equal.posterior())
    measured.set_time(structure.components.fast.time)
    assert measured.posterior()[1][1] > 1.5 * equal.posterior()[1][1]
    with pytest.raises(SnapshotError, match="The snapshot is of 'state-space"):
        equal.restore(measured.snapshot())
    other = make_policy("kalman-ucb", SensorField(["s"], np.eye(1), 0.01)).snapshot()
    with pytest.raises(SnapshotError):
        measured.restore(other)


def test_time_that_passes_between_two_equal_intervals_has_no_effect():
    """The number of intervals counts, which the controller makes up for after a downtime."""
    policy, _ = fitted_policy(interval=INTERVAL)
    policy.set_time(0.0)
    policy.observe(1, 2.0)
    before = policy.posterior()
    policy.pass_time(DAY)
    policy.set_time(DAY)
    np.testing.assert_array_equal(policy.posterior(), before)


def test_readings_before_the_clock_is_first_set_age_by_the_time_since_then():
    """A gateway without a battery-backed clock starts with a time long before the present."""
    policy, structure = fitted_policy(interval=None)
    twin = Textbook(structure)
    policy.set_time(None)
    policy.observe(1, 2.0)
    twin.observe(1, 2.0, None)
    policy.advance()
    policy.pass_time(600.0)
    twin.wait(600.0)
    policy.set_time(30 * DAY)
    np.testing.assert_allclose(policy.posterior(), twin.posterior(30 * DAY), rtol=1e-9)


def test_the_course_continues_if_the_clock_loses_its_time():
    """It stood still until the clock was set again, unlike that of `auto`."""
    (policy, _), (measured, _), (restarted, _) = (fitted_policy(interval=None) for _ in range(3))
    policy.set_time(30 * DAY)
    measured.set_time(30 * DAY)
    before = policy.posterior()[0]
    policy.pass_time(DAY / 4)
    measured.set_time(30 * DAY + DAY / 4)
    restarted.restore(policy.snapshot())
    assert not np.allclose(policy.posterior()[0], before)
    np.testing.assert_array_equal(policy.posterior(), measured.posterior())
    np.testing.assert_array_equal(restarted.posterior(), policy.posterior())


def test_skipped_intervals_take_no_time_if_their_lengths_are_measured():
    policy, _ = fitted_policy(interval=None)
    policy.set_time(0.0)
    policy.observe(1, 2.0)
    before = policy.posterior()
    policy.skip(5000)
    np.testing.assert_array_equal(policy.posterior(), before)
