"""Training rows: gaps are filled from the training days only, long gaps from the other sensors."""

import re

import numpy as np
import pytest
from edge_tvbo_adapters.datasets.grid import fill_gaps
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.recordings import small_recording

from edge_tvbo.errors import DataError
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.row_range import RowRange
from edge_tvbo.simulation.training_rows import trainable_sensors, training_rows

T, M, TRAINED = 400, 4, 300
NAMES = ("a", "b", "c", "d")


def recording(values, observed, **more):
    filled = fill_gaps(np.where(observed, values, 0.0), observed)
    return small_recording(sensors=NAMES, values=filled, observed=observed, **more)


def course():
    """Return readings with a course of 144 rows; each sensor has its own level."""
    daily = 3.0 * np.sin(np.arange(T) * 2 * np.pi / 144)
    return 20.0 + daily[:, None] + np.arange(M) + np.random.default_rng(0).normal(0, 0.1, (T, M))


@pytest.mark.filterwarnings("error")
@given(st.integers(0, T - 1), st.integers(0, M - 1), st.sampled_from([1.797e308, -1e200]))
@max_examples(30)
def test_a_reading_of_an_impossible_size_is_named_whatever_the_gaps_are(row, arm, size):
    values, observed = course(), np.ones((T, M), np.bool_)
    observed[20:TRAINED, 3] = False
    values[row, arm], observed[row, arm] = size, True
    own = recording(values, observed)
    if row >= TRAINED:
        assert np.isfinite(training_rows(own, RowRange(0, TRAINED))).all()
        return
    with pytest.raises(
        DataError, match=re.escape(f"small: {NAMES[arm]} has the reading {size:.4g}")
    ):
        training_rows(own, RowRange(0, TRAINED))


@given(st.integers(0, 2**31))
@max_examples(30)
def test_readings_of_the_test_days_change_no_training_row(seed):
    rng = np.random.default_rng(seed)
    values, observed = rng.normal(size=(T, M)), rng.random((T, M)) < 0.7
    observed[rng.integers(TRAINED) : TRAINED + 9, 2] = False
    observed[[0, TRAINED + 10], 2] = True
    other = values.copy()
    other[TRAINED:] += 25.0
    rows = [
        training_rows(recording(each, observed), RowRange(0, TRAINED)) for each in (values, other)
    ]
    np.testing.assert_array_equal(*rows)


@given(st.integers(0, 2**31))
@max_examples(30)
def test_short_gaps_between_training_readings_are_interpolated(seed):
    rng = np.random.default_rng(seed)
    observed = rng.random((T, M)) < 0.7
    observed[:, 3] = True
    observed[[0, TRAINED - 1]] = True
    filled = recording(rng.normal(size=(T, M)), observed)
    rows = training_rows(filled, RowRange(0, TRAINED))
    np.testing.assert_array_equal(rows, filled.values[:TRAINED])


def test_the_values_in_gaps_of_a_recording_are_not_trained_on():
    """A dataset may set them to any number (docs/adapters.md)."""
    observed = np.ones((T, M), bool)
    observed[10:20, 1] = False
    values = course()
    values[10:20, 1] = 1e6
    rows = training_rows(
        small_recording(sensors=NAMES, values=values, observed=observed), RowRange(0, TRAINED)
    )
    assert rows.max() < 30.0


def test_a_long_gap_follows_the_other_sensors():
    values, observed = course(), np.ones((T, M), bool)
    observed[100:250, 2] = False
    rows = training_rows(recording(values, observed), RowRange(0, TRAINED))
    np.testing.assert_allclose(rows, values[:TRAINED], atol=0.6)


def test_a_long_gap_of_a_sensor_that_changes_more_than_others_does_so_too():
    values, observed = course(), np.ones((T, M), bool)
    values[:, 2] = 22.0 + 3.0 * (values[:, 0] - 20.0)
    observed[150:250, 2] = False
    rows = training_rows(recording(values, observed), RowRange(0, TRAINED))
    np.testing.assert_allclose(rows, values[:TRAINED], atol=2.5)
    assert np.sqrt(((rows - values[:TRAINED])[150:250, 2] ** 2).mean()) < 1.0


def test_one_wrong_reading_before_a_long_gap_is_not_spread_over_it():
    values, observed = course(), np.ones((T, M), bool)
    values[100, 2], observed[101:TRAINED, 2] = 85.0, False
    rows = training_rows(recording(values, observed), RowRange(0, TRAINED))
    assert abs(np.delete(rows[:, 2], 100).mean() - 22.0) < 1.5
    assert np.delete(rows[:, 2], 100).max() < 28.0


def test_a_filled_gap_is_within_the_readings_of_its_sensor():
    values, observed = course(), np.ones((T, M), bool)
    values[:, 1] = 5.0 + (np.arange(T) % 2)
    observed[100:250, 1] = False
    rows = training_rows(recording(values, observed), RowRange(0, TRAINED))
    assert rows[:, 1].min() >= 5.0 and rows[:, 1].max() <= 6.0


def test_a_sensor_without_a_training_reading_is_rejected_and_can_be_left_out():
    values, observed = course(), np.ones((T, M), bool)
    observed[:TRAINED, 3] = False
    late = recording(values, observed, names={"d": "Door"}, positions=np.zeros((M, 2)))
    spans = RowRange(0, TRAINED), RowRange(TRAINED, T)
    with pytest.raises(DataError, match="no reading from Door on the training days"):
        Backtest(late, *spans)
    others = trainable_sensors(late, spans[0])
    assert (others.sensors, others.positions.shape) == (("a", "b", "c"), (3, 2))
    assert Backtest(others, *spans).run("static", {}, 1).settings == {"sensor": "c"}


def test_textbook_baseline_is_fitted_to_two_training_rows():
    recorded = recording(course(), np.ones((T, M), bool))
    backtest = Backtest(recorded, RowRange(0, 2), RowRange(2, 3))
    assert np.isfinite(backtest.run("kalman-ucb", {}, 1).regret).all()
