"""What training days teach of the time of day, and what they must not be told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_tvbo.models.daily_profile import DAY
from edge_tvbo.training import daily_profile_fit as learning
from edge_tvbo.training.covariance import train, with_rhythm
from edge_tvbo.training.daily_profile_fit import EXPLORATIONS, UNKNOWN, held_out_coverage, learn
from edge_tvbo.training.training_report import lessons

P = 24
HOUR = DAY / P
NAMES = ("a", "b", "c")


def days(number, *, seed=0, noise=0.1, rows=None):
    """Readings (T, 3): each sensor peaks at an hour of its own, mornings are livelier."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows or number * P)
    course = np.stack([np.sin(2 * np.pi * (hours - peak) / P) for peak in (3, 9, 15)], axis=1)
    lively = np.where((hours % P) < P // 2, 3.0, 1.0)[:, None]
    return 20.0 + 5.0 * course + noise * lively * rng.standard_normal((len(hours), 3))


def field_of(readings):
    return train(readings, NAMES, unit="°C")


def modelled(field, readings):
    return (readings - field.center) / field.scale


@given(start=st.integers(0, 10**6).map(lambda k: k * HOUR), extra=st.integers(0, P - 1))
@settings(max_examples=25)
def test_the_mean_is_that_of_the_same_hour_whenever_the_record_begins(start, extra):
    readings = days(2, rows=2 * P + extra)
    field = field_of(readings)
    rhythm = learn(field, modelled(field, readings), HOUR, start)
    hour = int(start / HOUR) % P
    rows = np.arange(len(readings))
    for phase in (0, 7, P - 1):
        same = modelled(field, readings)[(rows + hour) % P == phase]
        np.testing.assert_allclose(rhythm.mean[phase], same.mean(axis=0), atol=1e-12)
    assert rhythm.phase(start) == hour


def test_lively_hours_have_the_larger_scale():
    readings = days(6)
    field = field_of(readings)
    rhythm = learn(field, modelled(field, readings), HOUR, 0.0)
    assert rhythm.scale[P // 4] > 1.8 * rhythm.scale[3 * P // 4]
    assert np.linalg.eigvalsh(rhythm.kernel)[0] > 0


@pytest.mark.parametrize(
    ("rows", "interval"), [(P, HOUR), (2 * P - 1, HOUR), (3 * P, 7000.0), (6, DAY / 3)]
)
def test_without_two_days_of_regular_intervals_there_is_no_rhythm(rows, interval):
    readings = days(1, rows=rows)
    field = field_of(readings)
    assert learn(field, modelled(field, readings), interval, 0.0) is None


def test_of_two_days_none_is_held_out_and_what_cannot_be_known_is_taken_as_stated():
    readings = days(2)
    field = field_of(readings)
    rhythm = learn(field, modelled(field, readings), HOUR, 0.0)
    assert (rhythm.exploration, rhythm.noise_variance) == UNKNOWN
    assert held_out_coverage(with_rhythm(field, readings, HOUR, 0.0), readings, HOUR, 0.0) == ()


def test_a_day_is_foretold_by_the_others_alone():
    """Whatever a day was, what the others teach of it stays the same."""
    readings = days(4)
    field = field_of(readings)
    there = modelled(field, readings)
    spoiled = there.copy()
    spoiled[P : 2 * P] = 1e3
    phases, numbers = learning._calendar(len(there), P, HOUR, 0.0)
    taught = [
        list(learning._held_out(field, each, phases, numbers, P)) for each in (there, spoiled)
    ]
    honest, lied = taught[0][1].field.rhythm, taught[1][1].field.rhythm
    assert honest.fingerprint() == lied.fingerprint()
    assert taught[0][2].field.rhythm.fingerprint() != taught[1][2].field.rhythm.fingerprint()


def test_more_noise_on_the_same_weather_is_found_to_be_more():
    rng = np.random.default_rng(5)
    weather = np.zeros(8 * P)
    for t in range(1, len(weather)):
        weather[t] = 0.97 * weather[t - 1] + 0.25 * rng.standard_normal()
    found = []
    for noise in (0.02, 1.2):
        readings = days(8, noise=0.0) + weather[:, None]
        readings += noise * rng.standard_normal(readings.shape)
        field = field_of(readings)
        found.append(learn(field, modelled(field, readings), HOUR, 0.0).noise_variance)
    assert found[0] < found[1]


def test_of_explorations_that_do_as_well_the_largest_is_taken():
    level = np.ones((5, len(EXPLORATIONS)))
    assert learning._first_near_best(level) == 0
    clear = level + np.arange(len(EXPLORATIONS))[::-1]
    assert learning._first_near_best(clear) == len(EXPLORATIONS) - 1
    doubtful = level.copy()
    doubtful[:, 0] += [1.0, -0.9, 1.0, -0.9, 0.1]  # worse on average, by less than it varies
    assert learning._first_near_best(doubtful) == 0


def test_the_lessons_say_what_was_learned_in_words():
    readings = days(5)
    field = with_rhythm(field_of(readings), readings, HOUR, 0.0)
    learned = lessons(field, readings, HOUR, 0.0)
    text = "\n".join(learned.lines())
    assert "3 sensors over 5.0 days" in text
    assert learned.explained > 0.95
    assert len(learned.coverage) == 5
    assert all(0.6 < share <= 1.0 for share in learned.coverage)
    assert "90 % intervals held" in text


def test_a_field_without_rhythm_has_its_lessons_too():
    readings = days(1)
    field = field_of(readings)
    learned = lessons(field, readings, HOUR, 0.0)
    assert learned.explained == 0.0
    assert "no daily rhythm" in learned.lines()[-1]
