"""Experiment LOSS, small."""

import numpy as np
import pytest
from support.recordings import data_source

from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.events import DeadlineElapsed, Reading
from edge_tvbo.research.experiments import lost_replies
from edge_tvbo.research.experiments.lost_replies import Disturbance, LostReplies, run_disturbed
from edge_tvbo.research.experiments.split_experiment import TrainTestSplit
from edge_tvbo.research.experiments.statistics import summarise
from edge_tvbo.training.covariance import train


def small():
    """Return the field of three sensors, of which the last is the hottest, and 40 test rows."""
    generator = np.random.default_rng(5)
    values = np.array([1.0, 2.0, 4.0]) + 0.3 * generator.standard_normal((240, 3))
    split = TrainTestSplit(values[:200], values[200:], 600.0, 0.0, None)
    return train(split.training, ("a", "b", "c")), split


def disturbed(**changes):
    field, split = small()
    generator = np.random.default_rng(1)
    return run_disturbed(field, split, Disturbance(**changes), generator)


@pytest.fixture
def handled(monkeypatch):
    """Return the list of the events that the controller of the experiment handles."""
    events = []

    class RecordingController(Controller):
        def handle(self, event):
            events.append(event)
            return super().handle(event)

    monkeypatch.setattr(lost_replies, "Controller", RecordingController)
    return events


@pytest.mark.parametrize(("lost", "least", "most"), [(0.0, 0, 0), (0.2, 3, 13), (1.0, 40, 40)])
def test_the_share_of_the_lost_replies_is_their_probability(handled, lost, least, most):
    disturbed(lost=lost)
    timeouts = sum(isinstance(event, DeadlineElapsed) for event in handled)
    assert least <= timeouts <= most
    assert sum(isinstance(event, Reading) for event in handled) == 40 - timeouts


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_the_noise_of_the_readings_has_its_standard_deviation(handled, noise):
    disturbed(noise=noise)
    field, split = small()
    readings = [event for event in handled if isinstance(event, Reading)]
    true = [
        values[field.sensors.index(each.sensor)]
        for each, values in zip(readings, split.test, strict=True)
    ]
    errors = (np.array([each.value for each in readings]) - true) / field.scale
    assert errors.std() == pytest.approx(noise, rel=0.3, abs=1e-12)


def test_lost_replies_cost_nothing_if_one_sensor_is_always_the_best():
    clean, _ = disturbed()
    lossy, lost = disturbed(lost=0.2)
    assert lost == 0.0
    assert lossy[5:].max() == clean[5:].max() == pytest.approx(0.0, abs=1e-12)


def test_regret_with_a_dead_sensor_is_that_to_the_best_other_one():
    regret, lost = disturbed(dead=2)
    field, split = small()
    z = (split.test - field.center) / field.scale
    wasted = z[:, :2].max(axis=1) - z[:, :2].mean(axis=1)
    died = np.isclose(regret, wasted) & (regret > 0)
    assert 0 < lost <= died.mean()
    assert lost < 0.35


def test_run_has_a_row_for_each_place_and_disturbance(recordings, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    monkeypatch.setattr(lost_replies, "PLACES", ("soil",))
    experiment = LostReplies(data_source(recordings))
    rows = experiment.measure(range(1), 0)
    assert rows == experiment.measure(range(1), 0)
    results = summarise(rows)
    experiment.draw(figure, results)
    assert "lost replies" in figure.get_suptitle()
    kinds = [row.case["disturbance"] for row in rows]
    assert kinds == ["none", "20 %", "noise", "dead", "absent"]
    expectations = experiment.expectations(results)
    assert len(expectations) == 2
    assert all(row.numbers["R_T/T"] >= 0 for row in rows)
