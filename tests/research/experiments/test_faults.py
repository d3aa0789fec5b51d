"""Experiment FAULTS, small."""

import numpy as np
import pytest

from edge_tvbo.research.experiments import faults
from edge_tvbo.research.experiments.split_experiment import TrainTestSplit
from edge_tvbo.research.experiments.statistics import summarise

HOUR = 3600.0


@pytest.fixture(scope="module")
def split():
    """Six sensors with a day, and noise; the first three are the hottest in turn."""
    generator = np.random.default_rng(0)
    rows = np.arange(24 * 12)[:, None]
    day = 2.0 * np.sin(2 * np.pi * rows / 24 + np.arange(6))
    walk = np.cumsum(0.2 * generator.standard_normal((len(rows), 6)), axis=0)
    values = 20.0 + day + walk + 0.05 * generator.standard_normal((len(rows), 6))
    return TrainTestSplit(values[: 24 * 6], values[24 * 6 :], HOUR, 1e9, None)


def rows_of(split, run):
    generator = np.random.default_rng(run)
    return list(faults._rows_with_faults(run, run, "wind", split, generator))


@pytest.mark.slow
def test_every_fault_has_a_row_for_each_start_and_sensor(split):
    rows = rows_of(split, 0)
    assert rows == rows_of(split, 0)
    assert len({tuple(row.case.items()) for row in rows}) == len(rows) == 2 * 2 * 4
    for row in rows:
        assert all(np.isfinite(each) for each in row.numbers.values())
        assert 1 <= row.numbers["intervals"] <= 24 * 6
    results = summarise([*rows, *faults._false_alarms("wind", split)])
    experiment = faults.FaultySensors(None)
    goals = experiment.expectations(results)
    assert sum("false alarms" in goal.text for goal in goals) == 4
    assert sum("without the sensor" in goal.text for goal in goals) == len(rows)
    figure = pytest.importorskip("matplotlib.figure").Figure()
    experiment.draw(figure, results)
    assert "faulty" in figure.get_suptitle()
    labels = [each.get_text() for each in figure.axes[0].get_legend().get_texts()]
    assert labels[1:] == ["with fault detection", "without fault detection"]


def test_rows_without_readings_are_neither_trained_on_nor_replayed(split):
    """The same readings, with nights without any reading, count as less time of the sensors."""
    is_night = np.arange(len(split.training)) % 24 < 6
    training, test = (np.where(is_night[:, None], np.nan, each) for each in split[:2])
    rows = list(faults._false_alarms("wind", split._replace(training=training, test=test)))
    for row, whole in zip(rows, faults._false_alarms("wind", split), strict=True):
        assert np.isfinite(row.numbers["alarms"])
        years = whole.numbers["sensor-years"]
        assert row.numbers["sensor-years"] == pytest.approx(0.75 * years)
    start = faults._starts("wind", split._replace(training=training, test=test))["cold"]
    picks = start.replay(start.controller("exclude", 0), 0, len(start.values)).picks
    assert ((picks == -1) == np.concatenate([is_night, is_night])).all()


def test_regret_is_that_of_the_working_sensors(split):
    truth = np.array([[1.0, 5.0, 3.0], [1.0, 2.0, 3.0]])
    sequel = faults.Sequel(np.array([0, 1]), [])
    assert faults._regret(truth, sequel, faulty=1) == pytest.approx((2.0 + 1.0) / 2)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("stuck", [1.0, 1.0, 1.0]), ("drift", [1.0, 3.5, 6.0]), ("unit", [1.852, 3.704, 5.556])],
)
def test_faults_change_what_a_sensor_reports(fault, expected):
    values = np.array([1.0, 2.0, 3.0])
    generator = np.random.default_rng(0)
    reported = faults._reported(fault, "wind 1964", values, 2.0, 16, generator)
    np.testing.assert_allclose(reported, expected)


def test_a_fifth_of_the_readings_are_spikes():
    values = np.arange(1000.0)
    generator = np.random.default_rng(0)
    reported = faults._reported("spikes", "wind 1964", values, 2.0, 1000, generator)
    differs = reported != values
    assert 160 <= differs.sum() <= 240
    np.testing.assert_allclose((reported - values)[differs], faults.SPIKE * 2.0)
