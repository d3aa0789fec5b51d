"""Training of daily profiles: means, scales, held-out days, and the training report."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_tvbo.models.daily_profile import DAY
from edge_tvbo.training import daily_profile_fit
from edge_tvbo.training.covariance import train, with_daily_profile
from edge_tvbo.training.daily_profile_fit import (
    DEFAULT_EXPLORATION,
    DEFAULT_NOISE,
    EXPLORATIONS,
    fit_daily_profile,
    held_out_coverage,
)
from edge_tvbo.training.training_report import make_training_report

P = 24
HOUR = DAY / P
NAMES = ("a", "b", "c")


def days(number, *, seed=0, noise=0.1, rows=None):
    """Readings (T, 3): each sensor peaks at its own hour, and mornings vary more."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows or number * P)
    profile = np.stack([np.sin(2 * np.pi * (hours - peak) / P) for peak in (3, 9, 15)], axis=1)
    spread = np.where((hours % P) < P // 2, 3.0, 1.0)[:, None]
    return 20.0 + 5.0 * profile + noise * spread * rng.standard_normal((len(hours), 3))


def field_of(readings):
    return train(readings, NAMES, unit="°C")


def modelled(field, readings):
    return (readings - field.center) / field.scale


@given(start=st.integers(0, 10**6).map(lambda k: k * HOUR), extra=st.integers(0, P - 1))
@settings(max_examples=25)
def test_the_profile_mean_is_that_of_the_same_hour(start, extra):
    readings = days(2, rows=2 * P + extra)
    field = field_of(readings)
    profile = fit_daily_profile(field, modelled(field, readings), HOUR, start)
    hour = int(start / HOUR) % P
    rows = np.arange(len(readings))
    for phase in (0, 7, P - 1):
        same = modelled(field, readings)[(rows + hour) % P == phase]
        np.testing.assert_allclose(profile.mean[phase], same.mean(axis=0), atol=1e-12)
    assert profile.phase(start) == hour


def test_hours_that_vary_more_have_a_larger_scale():
    readings = days(6)
    field = field_of(readings)
    profile = fit_daily_profile(field, modelled(field, readings), HOUR, 0.0)
    assert profile.scale[P // 4] > 1.8 * profile.scale[3 * P // 4]
    assert np.linalg.eigvalsh(profile.kernel)[0] > 0


def test_less_than_two_regular_days_give_no_daily_profile():
    for rows, interval in ((P, HOUR), (2 * P - 1, HOUR), (3 * P, 7000.0), (6, DAY / 3)):
        readings = days(1, rows=rows)
        field = field_of(readings)
        assert fit_daily_profile(field, modelled(field, readings), interval, 0.0) is None


def test_two_days_give_default_exploration_and_noise():
    readings = days(2)
    field = field_of(readings)
    profile = fit_daily_profile(field, modelled(field, readings), HOUR, 0.0)
    assert profile.exploration == DEFAULT_EXPLORATION
    assert profile.noise_variance == DEFAULT_NOISE
    trained = with_daily_profile(field, readings, HOUR, 0.0)
    assert held_out_coverage(trained, readings, HOUR, 0.0) == ()


def test_a_held_out_day_does_not_influence_its_own_profile():
    readings = days(4)
    field = field_of(readings)
    original = modelled(field, readings)
    changed = original.copy()
    changed[P : 2 * P] = 1e3
    phases, numbers = daily_profile_fit._calendar(len(original), P, HOUR, 0.0)

    def profiles(rows):
        held_out = daily_profile_fit._held_out_days(field, rows, phases, numbers, P)
        return [day.field.daily_profile.fingerprint() for day in held_out]

    assert profiles(original)[1] == profiles(changed)[1]
    assert profiles(original)[2] != profiles(changed)[2]


def test_more_noise_gives_a_larger_noise_variance():
    rng = np.random.default_rng(5)
    weather = np.zeros(8 * P)
    for t in range(1, len(weather)):
        weather[t] = 0.97 * weather[t - 1] + 0.25 * rng.standard_normal()
    found = []
    for noise in (0.02, 1.2):
        readings = days(8, noise=0.0) + weather[:, None]
        readings += noise * rng.standard_normal(readings.shape)
        field = field_of(readings)
        profile = fit_daily_profile(field, modelled(field, readings), HOUR, 0.0)
        found.append(profile.noise_variance)
    assert found[0] < found[1]


def test_the_largest_exploration_near_the_best_is_chosen():
    level = np.ones((5, len(EXPLORATIONS)))
    assert daily_profile_fit._first_near_best(level) == 0
    clear = level + np.arange(len(EXPLORATIONS))[::-1]
    assert daily_profile_fit._first_near_best(clear) == len(EXPLORATIONS) - 1
    doubtful = level.copy()
    doubtful[:, 0] += [1.0, -0.9, 1.0, -0.9, 0.1]  # worse on average, by less than it varies
    assert daily_profile_fit._first_near_best(doubtful) == 0


def test_the_training_report_is_worded():
    readings = days(5)
    field = with_daily_profile(field_of(readings), readings, HOUR, 0.0)
    report = make_training_report(field, readings, HOUR, 0.0)
    text = "\n".join(report.lines())
    assert "3 sensors over 5.0 days" in text
    assert report.explained > 0.95
    assert len(report.coverage) == 5
    assert all(0.6 < share <= 1.0 for share in report.coverage)
    assert "share of readings inside the 90 % intervals on each held-out day: " in text


def test_a_field_without_daily_profile_has_a_report():
    readings = days(1)
    field = field_of(readings)
    report = make_training_report(field, readings, HOUR, 0.0)
    assert report.explained == 0.0
    assert "no daily profile" in report.lines()[-1]
