"""Traffic (E8), small; needs the METR-LA file."""

import numpy as np
import pytest
from support.recordings import data_source

from edge_tvbo.research.experiments import load
from edge_tvbo.research.experiments.e08_traffic import POLICIES, Traffic
from edge_tvbo.research.experiments.statistics import summarise

DAYS = ("2012-03-06", "2012-03-07")


def small(recordings):
    return Traffic(data_source(recordings), horizon=12, sensors=8)


def test_run_has_a_row_for_each_policy_and_day(recordings):
    rows = small(recordings).measure(range(2), 1)

    cases = [(row.run, row.case["day"], row.case["policy"]) for row in rows]
    assert cases == [(run, day, each) for run in range(2) for day in DAYS for each in POLICIES]
    assert rows == small(recordings).measure(range(2), 1)
    assert rows[len(rows) // 2 :] == small(recordings).measure(range(1, 2), 1)


def test_regret_is_never_negative_and_given_in_both_units(recordings):
    for row in small(recordings).measure(range(2), 0):
        assert min(row.curves["R_t/t"]) >= 0
        assert len(row.curves["R_t/t"]) == 12
        in_mph = row.numbers["R_T/T, mph"]
        assert in_mph >= row.numbers["R_T/T"]
        assert in_mph < 70.0


def test_expectations_are_for_each_day_and_the_figure_is_drawn(recordings):
    figures = pytest.importorskip("matplotlib.figure")
    experiment = small(recordings)
    rows = experiment.measure(range(1), 0)
    results = summarise(rows)

    experiment.draw(figures.Figure(), results)

    assert len(experiment.expectations(results)) == 8
    assert experiment.published() == []
    assert "METR-LA" in experiment.title


def test_mornings_are_84_readings_from_six_on(recordings):
    experiment = Traffic(data_source(recordings))
    mornings = experiment._mornings

    assert mornings.values.shape == (7, 84, 207)
    assert mornings.labels[-2:] == DAYS
    assert np.isfinite(mornings.values).all()


@pytest.mark.parametrize("name", ["E4", "E8", "AUTO", "COLD"])
def test_experiments_on_recordings_identify_their_data(recordings, name):
    data = data_source(recordings)

    found = load(name, data).data_fingerprints()

    for dataset in {"intel-lab", "metr-la"} & found.keys():
        assert found[dataset] == data.load(dataset, "paper").fingerprint()
    assert found.keys() & {"intel-lab", "metr-la"}
