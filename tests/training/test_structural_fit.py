"""Training of structural models: courses, seasons, correlations, rates, and the report."""

import dataclasses
import re

import numpy as np
import pytest
from edge_tvbo_adapters.datasets.grid import fill_gaps
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import max_examples

from edge_tvbo.errors import DataError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.likelihood import fit_temporal_model
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.posteriors.structural import StructuralPosterior
from edge_tvbo.models.structural_model import DAY, WEEK, YEAR, component_table
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.policy import make_policy
from edge_tvbo.training import structural_fit, training_report
from edge_tvbo.training.covariance import train, with_structure
from edge_tvbo.training.periods import checked_period, on_grid, possible_periods
from edge_tvbo.training.structural_fit import best_fit, fit_structure
from edge_tvbo.training.training_report import held_out_coverage, make_training_report

HOUR = 3600.0
NAMES = ("a", "b", "c")


def days(number, *, seed=0, noise=0.1, rows=None, per_day=24):
    """Readings (T, 3): each sensor peaks at its own hour, and mornings vary more."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows or number * per_day) * 24 / per_day
    profile = np.stack([np.sin(2 * np.pi * (hours - peak) / 24) for peak in (3, 9, 15)], axis=1)
    spread = np.where(hours % 24 < 12, 3.0, 1.0)[:, None]
    return 5.0 * profile + noise * spread * rng.standard_normal((len(hours), 3))


@given(start=st.integers(0, 10**6).map(lambda k: k * HOUR), extra=st.integers(0, 23))
@max_examples(15)
def test_the_course_is_that_of_the_time_of_day(start, extra):
    readings = days(4, rows=4 * 24 + extra)
    model = fit_structure(readings, HOUR, start)
    assert model.period == DAY
    hour = int(start / HOUR) % 24
    truth = days(1, noise=0.0)
    for row in (0, 7, 23):
        np.testing.assert_allclose(model.course[(row + hour) % 24], truth[row], atol=0.5)


def test_an_interval_that_does_not_divide_the_day_is_interpolated():
    interval = 7000.0
    at = np.arange(100) * interval
    readings = np.stack([np.sin(2 * np.pi * at / DAY + i) for i in range(3)], axis=1)
    readings += 0.01 * np.random.default_rng(0).standard_normal(readings.shape)
    model = fit_structure(readings, interval, 0.0)
    assert model.period == DAY
    assert model.interval == pytest.approx(DAY / 12)
    assert abs(model.course[3, 0] - 1.0) < 0.15  # at 6 h


@given(
    T=st.integers(2, 90),
    interval=st.sampled_from([3600.0, 7000.0, 20_000.0, 43_200.0, DAY, 7 * DAY]),
    start=st.floats(0, 2e9),
    kind=st.sampled_from(["noise", "equal", "jump", "one sensor moves"]),
)
@max_examples(60)
@pytest.mark.filterwarnings("error")
def test_any_rows_have_a_finite_model_or_none(T, interval, start, kind):
    rng = np.random.default_rng(T)
    readings = rng.standard_normal((T, 2))
    if kind == "equal":
        readings[:] = 0.1  # the mean of which is rounded
    elif kind == "jump":
        readings[:] = np.where(np.arange(T) < T // 2, 0.0, 1e6)[:, None]
    elif kind == "one sensor moves":
        readings[:, 1] = 7.0
    model = fit_structure(readings, interval, start)
    assert (model is None) == (T < 8 or kind == "equal")
    if model is None:
        return
    policy = make_policy("auto", SensorField(("a", "b"), np.eye(2), 0.01, structure=model))
    for t in range(3):
        policy.set_time(start + (T + t) * interval)
        policy.observe(policy.select().arm, 1.0)
        policy.advance()
    assert np.isfinite(policy.posterior()).all()


@pytest.mark.filterwarnings("error")
def test_readings_that_repeat_exactly_have_a_finite_model():
    readings = np.tile([18.0, 20.0, 24.0, 21.0], 4)[:, None] + np.array([0.0, 2.0])
    model = fit_structure(readings, 6 * HOUR, 0.0)
    assert model is not None and np.isfinite(model.liveliness).all()


@pytest.mark.parametrize("days", [(), (5, 6), (2, 3, 4, 5)])
def test_days_without_readings_do_not_change_the_course(days):
    rng = np.random.default_rng(1)
    course = 3.0 * np.sin(np.arange(24) * np.pi / 12)
    readings = 20.0 + np.tile(course, 10)[:, None] + 0.3 * rng.standard_normal((240, 3))
    for day in days:
        readings[24 * day : 24 * (day + 1)] = np.nan
    model = fit_structure(readings, HOUR, 0.0)
    error = model.course - model.course.mean(axis=0) - course[:, None]
    assert np.sqrt((error**2).mean()) < 0.15


def test_a_course_that_is_chance_is_shrunk_to_the_mean():
    rng = np.random.default_rng(3)
    readings = np.array([0.0, 5.0, -5.0]) + rng.standard_normal((10 * 24, 3))
    model = fit_structure(readings, HOUR, 0.0)
    assert np.ptp(model.course, axis=0).max() < 0.5  # the raw means differ by about 1.3
    np.testing.assert_allclose(model.course.mean(axis=0), [0.0, 5.0, -5.0], atol=0.2)


def test_possible_seasons_fit_twice_into_the_rows():
    assert possible_periods(100, 600.0) == [0.0]
    assert possible_periods(14 * 24, HOUR) == [DAY, WEEK]
    assert possible_periods(729, DAY) == [0.0]
    assert possible_periods(730, DAY) == [365 * DAY]
    assert possible_periods(200, WEEK) == [52 * WEEK]


def test_a_week_is_found_where_working_days_differ():
    rng = np.random.default_rng(5)
    t = np.arange(6 * 7 * 24)
    working = (t // 24) % 7 < 5
    course = np.where(working, np.sin(2 * np.pi * t / 24), 0.0)
    readings = course[:, None] * [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal((len(t), 3))
    assert fit_structure(readings, HOUR, 0.0).period == WEEK


def test_the_course_of_a_week_is_a_day_and_what_differs_between_its_days():
    """Where only Sundays differ, the other days have the same course."""
    rng = np.random.default_rng(6)
    t = np.arange(5 * 7 * 24)
    sunday = (t // 24) % 7 == 6
    clean = np.where(sunday, -1.0, np.sin(2 * np.pi * t / 24))[:, None] * [1.0, 2.0, 3.0]
    readings = clean + 0.3 * rng.standard_normal(clean.shape)
    model = fit_structure(readings, HOUR, 0.0)
    assert (model.period, model.cycle) == (WEEK, DAY)
    errors, raw = (
        course - clean[: 7 * 24] for course in (model.course, readings.reshape(5, 168, 3).mean(0))
    )
    assert (errors**2).mean() < 0.8 * (raw**2).mean()


def season_of(period, interval, T, *, seed, noise=0.3):
    """Readings (T, 4) of sensors with a season of this period and its second harmonic."""
    rng = np.random.default_rng(seed)
    phase = 2 * np.pi * np.arange(T) * interval / period
    at, at2 = rng.uniform(0, 2 * np.pi, (2, 4))
    course = np.sin(phase[:, None] + at) + 0.4 * np.sin(2 * phase[:, None] + at2)
    return course + noise * rng.standard_normal((T, 4)) + rng.normal(size=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("period", "interval", "T"),
    [(DAY, HOUR, 10 * 24), (DAY, 7000.0, 150), (YEAR, DAY, 5 * 365), (YEAR, WEEK, 6 * 52)],
)
@given(seed=st.integers(0, 2**32))
@max_examples(3)
def test_a_known_season_is_found(period, interval, T, seed):
    model = fit_structure(season_of(period, interval, T, seed=seed), interval, 1e9)
    assert model.period == pytest.approx(period, rel=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "T"), [(HOUR, 10 * 24), (DAY, 9 * 365), (WEEK, 470)])
def test_a_season_is_seldom_found_in_white_noise(interval, T):
    noises = [np.random.default_rng(seed).standard_normal((T, 4)) for seed in range(12)]
    found = [fit_structure(noise, interval, 0.0).period for noise in noises]
    assert found.count(0.0) >= 10


@pytest.mark.parametrize(
    ("period", "interval", "T"),
    [(0.0, HOUR, 200), (WEEK, HOUR, 400), (12 * HOUR, HOUR, 200), (WEEK, DAY, 100)],
)
def test_a_named_period_is_used(period, interval, T):
    readings = season_of(DAY, interval, T, seed=1)
    model = fit_structure(readings, interval, 0.0, period=period)
    assert model.period == period
    assert model.cycle == (DAY if (period, interval) == (WEEK, HOUR) else None)


@given(interval=st.floats(60.0, 21_000.0))
def test_a_day_or_a_week_is_exact_if_the_interval_nearly_divides_it(interval):
    """If a day had 24 intervals of 3605 s, the course would be 2 h late after 60 days."""
    found = possible_periods(int(15 * DAY / interval), interval)
    assert [round(period) for period in found] in ([DAY], [DAY, WEEK])
    assert found == pytest.approx([DAY, WEEK][: len(found)], rel=1e-6, abs=0.0)


def test_a_week_of_intervals_that_nearly_divide_the_day_is_one_of_days():
    readings = season_of(DAY, 3605.0, 3 * 7 * 24, seed=2)
    model = fit_structure(readings, 3605.0, 0.0, period=WEEK)
    assert (model.period, model.cycle) == (WEEK, DAY)


@given(interval=st.sampled_from([60.0, 300.0, 600.0, 900.0, 3600.0]), error=st.floats(-1e-7, 1e-7))
def test_an_interval_that_divides_the_day_up_to_its_rounding_is_not_interpolated(interval, error):
    measured = interval * (1.0 + error)
    day = possible_periods(int(3 * DAY / interval), measured)[0]
    readings, recorded = np.zeros((9, 1)), np.ones(9, bool)
    assert on_grid(readings, recorded, measured, 0.0, day)[0] is readings


@pytest.mark.parametrize(
    ("period", "text"),
    [
        (WEEK, "The period is a week. The training rows cover 1.1 periods"),
        (2 * HOUR, "The period is 2 h, which is 2 rows of 60 min; allowed: 4 to 2016"),
    ],
)
def test_a_named_period_that_does_not_fit_the_rows_is_rejected(period, text):
    with pytest.raises(DataError, match=text):
        fit_structure(days(8), HOUR, 0.0, period=period)


@given(
    period=st.sampled_from([12 * HOUR, DAY, WEEK, 10 * DAY]),
    interval=st.floats(0.5, 20.0),
)
def test_the_interval_that_is_named_for_a_period_of_too_many_rows_is_allowed(period, interval):
    with pytest.raises(DataError, match=r"--interval \d+min") as caught:
        checked_period(int(3 * period / interval), interval, period)
    proposed = 60.0 * int(re.search(r"--interval (\d+)min", str(caught.value))[1])
    T = int(3 * period / proposed)
    assert checked_period(T, proposed, period) == pytest.approx(period, rel=1e-6)


def test_nights_without_readings_are_not_trained_on():
    """Whatever stands in for the night, the model and its rates are those of the day."""
    readings = days(10, noise=0.4)
    night = (np.arange(len(readings)) % 24 < 6) | (np.arange(len(readings)) % 24 >= 20)
    model = fit_structure(np.where(night[:, None], np.nan, readings), HOUR, 0.0)
    assert model.period == DAY
    assert model.rows == 10 * 14
    whole = fit_structure(readings, HOUR, 0.0)
    np.testing.assert_allclose(model.course[7:19], whole.course[7:19], atol=0.6)
    assert model.state.end == whole.state.end


@given(after=st.integers(1, 30), rows=st.sampled_from([48, 96]))
@max_examples(5)
def test_days_without_readings_at_the_end_do_not_change_the_rates(after, rows):
    """The rates are searched on the newest rows with readings, however long ago these were."""
    readings = days(8, noise=0.3)
    silent = np.full((24 * after, 3), np.nan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structural_fit, "MAX_SEARCH_ROWS", rows)
        known, later = (
            best_fit(each, HOUR, 0.0, period=DAY)
            for each in (readings, np.concatenate([readings, silent]))
        )
    assert later.model.components == known.model.components
    assert later.log_density == pytest.approx(known.log_density)
    assert later.judged == known.judged + len(silent)


def test_rates_of_rows_before_a_long_gap_are_used_if_few_rows_follow(monkeypatch):
    monkeypatch.setattr(structural_fit, "MAX_SEARCH_ROWS", 96)
    readings = days(20, noise=0.3)
    gap = readings.copy()
    gap[8 * 24 : -12] = np.nan
    known, later = (
        fit_structure(each, HOUR, 0.0, period=DAY).components for each in (readings[: 8 * 24], gap)
    )
    assert later.noise_variance == pytest.approx(known.noise_variance, rel=0.5)
    assert later.level.time == pytest.approx(known.level.time, rel=0.5)


def test_nothing_is_fitted_without_variation_or_for_too_many_sensors():
    assert fit_structure(np.ones((50, 3)), HOUR, 0.0) is None
    assert fit_structure(np.zeros((50, 1)), HOUR, 0.0) is None
    assert fit_structure(np.full((50, 3), [0.1, 0.2, 0.3]), HOUR, 0.0) is None
    assert fit_structure(np.random.default_rng(0).normal(size=(7, 3)), HOUR, 0.0) is None
    assert fit_structure(np.random.default_rng(0).normal(size=(9, 2001)), HOUR, 0.0) is None


@pytest.mark.parametrize("log1p_scale", [None, 2.0])
@pytest.mark.parametrize("value", [0.0, 0.1, 20.0])
def test_nothing_is_trained_on_readings_that_are_all_equal(value, log1p_scale):
    with pytest.raises(DataError, match="All training readings are equal"):
        train(np.full((24, 1), value), ("a",), log1p_scale=log1p_scale)


@given(exponent=st.one_of(st.integers(-320, -52), st.integers(52, 307)))
@max_examples(30)
def test_readings_of_an_impossible_size_are_named(exponent):
    """An example is 1.8e+308, which some programs write instead of a missing reading."""
    readings = np.array([[1.0, 1.2], [1.1, 1.4], [1.3, 1.1]]) * float(f"1e{exponent}")
    with pytest.raises(DataError, match=r"training readings (are equal|differ too)"):
        train(readings, ("a", "b"))


def test_more_sensors_than_series_are_fitted_with_a_state_of_each(monkeypatch):
    """The rates come from some sensors; course, spread and state from all."""
    monkeypatch.setattr(structural_fit, "MAX_SEARCH_SERIES", 20)
    rng, T, M = np.random.default_rng(4), 96, 60
    x = 0.5 * np.sin(2 * np.pi * np.arange(T + 1) / 24)[:, None] + np.zeros((T + 1, M))
    slow = np.zeros(M)
    for row in x:
        slow = 0.9 * slow + 0.4 * rng.standard_normal() + 0.2 * rng.standard_normal(M)
        row += slow
    x, next_row = x[:-1], x[-1]
    some = fit_structure(x, HOUR, 0.0, period=86_400.0)
    monkeypatch.setattr(structural_fit, "MAX_SEARCH_SERIES", 500)
    every = fit_structure(x, HOUR, 0.0, period=86_400.0)
    assert some.state.covariances.shape == every.state.covariances.shape == (M, 10, 10)
    assert (np.diagonal(some.state.covariances, axis1=1, axis2=2) > 0).all()
    for model in (some, every):
        field = SensorField([f"s{i}" for i in range(M)], np.eye(M), 0.01, structure=model)
        posterior = StructuralPosterior(field)
        posterior.set_time(T * HOUR)
        assert np.abs(posterior.mean - next_row).mean() < 0.5 * x.std()


def test_noise_is_found_although_there_are_more_sensors_than_rows():
    """Along most eigenvectors of their correlation, the rows are zero."""
    rng, T, M = np.random.default_rng(1), 80, 150
    x, slow = np.empty((T, M)), np.zeros(M)
    for t in range(T):
        slow = 0.95 * slow + 0.3 * rng.standard_normal() + 0.1 * rng.standard_normal(M)
        x[t] = slow + 0.5 * rng.standard_normal(M)
    model = fit_structure(x, 12 * HOUR, 0.0)
    noise = model.components.noise_variance * model.spread**2
    fast = component_table(model.components, 0).retain(12 * HOUR) < 0.1
    noise += component_table(model.components, 0).variance[fast].sum() * model.spread**2
    assert 0.1 < noise.mean() < 0.6


def test_a_sensor_that_never_changes_does_not_spoil_the_model_of_the_others():
    readings = days(4)
    readings[:, 1] = 2.0
    model = fit_structure(readings, HOUR, 0.0)
    assert (model.spread > 0).all()
    np.testing.assert_array_equal(model.correlation[1], [0.0, 1.0, 0.0])
    np.testing.assert_allclose(model.course[:, 1], 2.0)
    alone = fit_structure(days(4)[:, [0, 2]], HOUR, 0.0)
    np.testing.assert_allclose(model.course[:, [0, 2]], alone.course, atol=0.1)


def test_a_simulation_without_chance_leaves_some_uncertainty():
    hours = np.arange(6 * 24)
    readings = 20.0 + np.sin(2 * np.pi * (hours[:, None] - [3, 9, 15]) / 24)
    model = fit_structure(readings, HOUR, 0.0)
    assert 5e-4 < model.spread.min() < 1e-2


def test_rates_of_a_long_recording_come_from_its_newest_rows():
    rng = np.random.default_rng(11)
    x = np.zeros((3 * structural_fit.MAX_SEARCH_ROWS, 2))
    for t in range(1, len(x)):
        phi = 0.99 if t < 2 * structural_fit.MAX_SEARCH_ROWS else 0.3
        x[t] = phi * x[t - 1] + (1 - phi**2) ** 0.5 * rng.standard_normal(2)
    model = fit_structure(x, 12 * HOUR, 0.0)
    table = component_table(model.components, 0)
    later = float(table.variance @ table.retain(12 * HOUR))
    assert later / float(table.variance.sum() + model.components.noise_variance) < 0.6


def test_rates_are_found():
    """The correlation of a sensor with itself an interval later is that of the field."""
    rng = np.random.default_rng(7)
    for phi in (0.3, 0.7, 0.98):
        x = np.zeros((600, 3))
        for t in range(1, len(x)):
            x[t] = phi * x[t - 1] + (1 - phi**2) ** 0.5 * rng.standard_normal(3)
        model = fit_structure(x, DAY, 0.0)
        c, table = model.components, component_table(model.components, 0)
        later = float(table.variance @ table.retain(DAY))
        total = float(table.variance.sum()) + c.noise_variance
        assert later / total == pytest.approx(phi, abs=0.2)


@pytest.mark.parametrize("off", [(), (0, 1, 2, 3, 21, 22, 23)])
def test_training_is_a_replay_of_the_rows(off):
    """The state after the training rows is that of a posterior that observed each reading.

    The readings are those that the fit used: the course of a day is computed from other days. In
    the hours `off`, no sensor is read.
    """
    readings = days(3, noise=0.3)
    recorded = ~np.isin(np.arange(len(readings)) % 24, off)
    fit = structural_fit._Fit(readings, recorded, HOUR, 0.0, DAY)
    fit.search()
    model = fit.model()
    used = (fit._rows @ fit._vectors.T) * model.spread
    trained, again = (
        StructuralPosterior(SensorField(NAMES, np.eye(3), 0.01, structure=each))
        for each in (model, replace(model, state=None))
    )
    for t in np.flatnonzero(recorded):
        again.set_time(t * HOUR)
        again.variation.liveliness[:] = model.liveliness
        again._refresh()
        for arm, rest in enumerate(used[t]):
            again.variation.scale = 100.0  # so that no reading counts as far away
            again.observe(arm, float(again._course[arm] + rest))
        again.advance()
    again.set_time(len(readings) * HOUR)
    np.testing.assert_allclose(again._state, trained._state, atol=1e-6)
    covariances = [each._covariance.arrays()["covariance"] for each in (again, trained)]
    np.testing.assert_allclose(*covariances, atol=1e-6)


@pytest.mark.parametrize("away", [0.0, 5 * HOUR])
def test_intervals_before_the_clock_is_set_count_once(away):
    """The readings of these intervals say nothing about the time of day, so there are none here."""
    field = with_structure(train(days(4), NAMES), days(4), HOUR, 0.0)
    known, unknown = (make_policy("auto", field) for _ in range(2))
    known.set_time(4 * DAY + away)
    for policy in (known, unknown):
        for _ in range(12):
            policy.advance()
        policy.set_time(4 * DAY + away + 12 * HOUR)
    for one, other in zip(known.posterior(), unknown.posterior(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_trained_model_starts_later_with_less_certainty():
    field = with_structure(train(days(4), NAMES), days(4), HOUR, 0.0)
    now, later = make_policy("auto", field), make_policy("auto", field)
    now.set_time(4 * DAY)
    later.set_time(40 * DAY)
    assert (later.posterior()[1] > now.posterior()[1]).all()


def test_report_says_what_was_learned():
    readings = 20.0 + days(6)
    field = with_structure(train(readings, NAMES, unit="°C"), readings, HOUR, 0.0)
    report = make_training_report(field, readings, HOUR, 0.0)
    text = "\n".join(report.lines())
    assert "the course of a day explains" in text
    assert report.explained > 0.9
    assert 0.8 <= report.coverage <= 1.0
    assert "the 90 % intervals contained" in text


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        ((0.9748, 0.9747), "epsilon = 0.975, alpha = 0.975"),
        ((0.99999, 0.99998), "epsilon = 0.99999, alpha = 0.99998"),
        ((0.981, 0.893), "epsilon = 0.981, alpha = 0.89"),
        ((0.0612, 0.0), "epsilon = 0.06, alpha = 0"),
    ],
)
def test_rates_of_the_report_are_accepted_by_the_policy(quick_report, rates, text):
    readings = 20.0 + days(2)
    field = with_structure(train(readings, NAMES), readings, HOUR, 0.0)
    report = dataclasses.replace(
        quick_report(field, readings, HOUR, 0.0), rates=(TimeVarying(0.1), Momentum(*rates))
    )

    line = next(each for each in report.lines() if "mtv-gp-ucb" in each)

    assert line.endswith(text)
    printed = dict(re.findall(r"(epsilon|alpha) = ([0-9.]+)", line))
    make_policy("mtv-gp-ucb", field, **{name: float(value) for name, value in printed.items()})


@pytest.fixture
def quick_report(monkeypatch):
    """Leave out the coverage and the rates of the report, which take the longest."""
    monkeypatch.setattr(training_report, "held_out_coverage", lambda *_, **__: None)
    monkeypatch.setattr(training_report, "_rates", lambda *_: None)
    return make_training_report


@pytest.mark.parametrize(
    ("interval", "rows", "period", "is_said"),
    [
        (30.0, 2 * 2880, None, True),
        (30.0, 2 * 2880, 0.0, False),  # no season was requested
        (30.0, 2879, None, False),  # less than two days
        (60.0, 2 * 1440, None, False),
    ],
)
def test_report_says_that_a_day_has_too_many_intervals(
    quick_report, interval, rows, period, is_said
):
    readings = 20.0 + days(0, rows=rows)
    known = readings[:96]
    field = with_structure(train(known, NAMES), known, HOUR, 0.0, period=0.0, transform="none")
    lines = quick_report(field, readings, interval, 0.0, period=period).lines()
    text = (
        "no season of a day was tried: a day has 2880 intervals of 30 s, and a season can have at "
        "most 2016. To learn the course of a day, fit the model with --interval 1min"
    )
    assert (text in lines) == is_said


def test_a_course_that_predicts_worse_than_the_mean_explains_nothing(quick_report):
    """The course was learned from other days, on which each sensor peaked 12 hours earlier."""
    readings = 20.0 + days(4)
    field = with_structure(train(readings, NAMES), readings, HOUR, 0.0, transform="none")
    report = quick_report(field, readings, HOUR, 12 * HOUR)
    assert report.explained == 0.0
    assert "the course of a day explains 0 % of the variance" in report.lines()


def test_a_value_that_fills_a_gap_does_not_count_for_the_coverage():
    """In each interval, 4 of 10 sensors are silent."""
    rng, rows = np.random.default_rng(0), 8 * 144
    rest = np.zeros((rows, 10))
    for t in range(1, rows):
        rest[t] = 0.97 * rest[t - 1] + rng.normal(0, 0.24, 10)
    truth = 20.0 + rest + 0.5 * rng.standard_normal((rows, 10))
    observed = rng.permuted(np.tile(np.arange(10) < 6, (rows, 1)), axis=1)
    filled = fill_gaps(np.where(observed, truth, 0.0), observed)
    field = with_structure(train(filled, tuple("abcdefghij")), filled, 600.0, 0.0)
    modelled, misled = field.to_model(filled), field.to_model(np.where(observed, filled, 99.0))
    misled[: int(0.75 * rows)] = modelled[: int(0.75 * rows)]
    found = [
        held_out_coverage(field, each, 600.0, 0.0, observed=observed) for each in (modelled, misled)
    ]
    assert found[0] == found[1] == pytest.approx(0.9, abs=0.03)


def steady_only(start, *data, **options):
    return start if isinstance(start, Momentum) else fit_temporal_model(start, *data, **options)


@pytest.mark.slow
@pytest.mark.parametrize("off", [0, 86, 108])
def test_rates_of_the_report_count_the_time_of_silent_rows(off, monkeypatch):
    """Every day, nothing is recorded in the first `off` of 144 intervals.

    The coverage, and the rate with momentum, which is fitted last, are not computed.
    """
    monkeypatch.setattr(training_report, "held_out_coverage", lambda *_, **__: None)
    monkeypatch.setattr(training_report, "fit_temporal_model", steady_only)
    rates, correlations = [], []
    for seed in range(6):
        rng, T = np.random.default_rng(seed), 8 * 144
        common = np.zeros(T)
        for t in range(1, T):
            common[t] = np.sqrt(0.97) * common[t - 1] + np.sqrt(0.03) * rng.normal()
        readings = 20.0 + 2.0 * (common[:, None] + 0.1 * rng.normal(size=(T, 4)))
        readings[np.arange(T) % 144 < off] = np.nan
        field = train(readings, ("a", "b", "c", "d"))
        report = make_training_report(field, readings, 600.0, 0.0)
        rates.append(report.rates[0].epsilon)
        correlations.append(report.autocorrelation[[11, 35, 60]])
    assert np.median(rates) == pytest.approx(0.03, abs=0.01)
    lags = np.array([12, 36, 61])
    truth = 0.97 ** (lags / 2)
    found = np.mean(correlations, axis=0)
    known = lags < 144 - off  # no two recorded rows are 61 intervals apart if 36 a day are recorded
    assert np.abs(found - truth)[known].max() < 0.2
    assert np.isnan(found[~known]).all()


@pytest.mark.parametrize(
    ("sensors", "few"),
    [
        (1, "the sensor was not read"),
        (2, "at most one of the two sensors was read"),
        (3, "fewer than half of the sensors were read"),
    ],
)
def test_report_says_in_which_intervals_nothing_was_learned(quick_report, sensors, few):
    """Of two sensors, both must be read in an interval, and one sensor is half of two."""
    readings = days(2)[:, :sensors]
    readings[::4] = np.nan
    report = quick_report(train(readings, NAMES[:sensors]), readings, HOUR, 0.0)
    assert f"in 25 % of the intervals, such as at night, {few}; " in "\n".join(report.lines())


def test_report_without_a_season():
    readings = np.random.default_rng(0).normal(size=(30, 3))
    field = with_structure(train(readings, NAMES), readings, DAY, 0.0)
    text = "\n".join(make_training_report(field, readings, DAY, 0.0).lines())
    assert "there is no season" in text


def test_the_shorter_time_is_named_first():
    rng = np.random.default_rng(0)
    readings = rng.standard_normal((40, 2)).cumsum(axis=0)
    model = fit_structure(readings, DAY, 0.0)
    swapped = replace(
        model,
        components=replace(
            model.components, fast=model.components.slow, slow=model.components.fast
        ),
    )
    facts = [
        make_policy("auto", SensorField(("a", "b"), np.eye(2), 0.01, structure=each)).facts()
        for each in (model, swapped)
    ]
    assert facts[0] == facts[1]
    assert facts[0][0].shorter <= facts[0][0].longer


def lognormal(T, *, seed=0, spread=0.8):
    """Readings (T, 3) whose logarithms follow the time of day and an autoregression."""
    rng = np.random.default_rng(seed)
    z = np.zeros((T, 3))
    for t in range(1, T):
        z[t] = 0.8 * z[t - 1] + 0.6 * rng.standard_normal(3)
    return 10.0 * np.exp(spread * z + 0.5 * np.sin(2 * np.pi * np.arange(T) / 24)[:, None])


@pytest.mark.parametrize("transform", ["auto", "none", "log1p"])
def test_the_progress_of_a_fit_rises_to_its_end_once(transform):
    readings, steps = lognormal(10 * 24), []
    field = train(readings, NAMES)
    with_structure(
        field, readings, HOUR, 0.0, lambda *step: steps.append(step), transform=transform
    )
    assert steps == [(n, len(steps)) for n in range(1, len(steps) + 1)]


def test_report_shows_the_mean_of_readings_with_a_large_offset():
    readings = 101_325.0 + 50.0 * np.random.default_rng(0).standard_normal((6 * 24, 3))
    field = with_structure(train(readings, NAMES), readings, HOUR, 0.0)
    text = "\n".join(make_training_report(field, readings, HOUR, 0.0).lines())
    assert f"{readings.mean():.0f} on average, standard deviation {readings.std():.1f}" in text


def test_heavy_tailed_readings_are_modelled_on_a_log_scale():
    readings = lognormal(10 * 24)
    field = with_structure(train(readings, NAMES), readings, HOUR, 0.0)
    assert field.log1p_scale == pytest.approx(readings.std())
    values = field.to_model(readings)
    assert values.mean() == pytest.approx(0.0, abs=1e-9)
    assert values.std() == pytest.approx(1.0)
    np.testing.assert_allclose(np.cov(values.T, bias=True).trace() / 3, 1.0, atol=0.2)
    text = "\n".join(make_training_report(field, readings, HOUR, 0.0).lines())
    assert "the model works on a log scale, log(1 + reading / " in text
    assert f"{readings.mean():.4g} on average, standard deviation {readings.std():.3g}" in text


@given(seed=st.integers(0, 2**32))
@max_examples(5)
def test_readings_without_heavy_tails_stay_on_their_scale(seed):
    rng = np.random.default_rng(seed)
    readings = 20.0 + days(6, noise=0.5, seed=seed) + rng.normal(size=3)
    assert with_structure(train(readings, NAMES), readings, HOUR, 0.0).log1p_scale is None


def test_a_log_scale_needs_readings_of_at_least_0():
    readings = lognormal(5 * 24)
    readings[7, 1] = -3.25
    field = train(readings, NAMES)
    assert with_structure(field, readings, HOUR, 0.0).log1p_scale is None
    with pytest.raises(DataError, match=r"of at least 0; the lowest is -3.25"):
        with_structure(field, readings, HOUR, 0.0, transform="log1p")


def test_a_named_transform_is_used():
    readings = lognormal(5 * 24)
    field = train(readings, NAMES)
    assert with_structure(field, readings, HOUR, 0.0, transform="none").log1p_scale is None
    calm = 20.0 + days(5)
    field = with_structure(train(calm, NAMES), calm, HOUR, 0.0, transform="log1p")
    assert field.log1p_scale == pytest.approx(calm.std())


def test_intervals_on_a_log_scale_hold_as_many_readings_as_they_say():
    readings = lognormal(20 * 24, seed=3)
    field = with_structure(train(readings, NAMES), readings, HOUR, 0.0)
    assert 0.83 <= held_out_coverage(field, field.to_model(readings), HOUR, 0.0) <= 0.97
