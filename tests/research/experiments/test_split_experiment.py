"""Base class of the experiments on recordings with training rows and test rows."""

import numpy as np
import pytest
from support.recordings import data_source, small_recording
from support.splits import split_with_gaps

from edge_tvbo.errors import DataError
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments import split_experiment
from edge_tvbo.research.experiments.auto import AutoExperiment
from edge_tvbo.research.experiments.split_experiment import FIELDS, regret_and_coverage
from edge_tvbo.training.covariance import train, with_structure


def test_time_passes_in_rows_without_a_reading_but_they_are_not_scored():
    split = split_with_gaps()
    field = train(split.training, tuple("abcde"))
    structured = with_structure(field, split.training, split.interval, split.start)
    policy = make_policy("auto", structured, seed=0)
    steps = []
    policy.advance = lambda advance=policy.advance: steps.append(advance())

    regret, covered = regret_and_coverage(policy, split)

    assert len(steps) == 48
    assert len(regret) == policy.observations == 32
    assert np.isfinite(regret).all()
    assert 0.5 < covered <= 1.0


def test_days_without_trade_are_no_readings(monkeypatch):
    observed = np.ones((1193, 3), np.bool_)
    observed[5::7] = observed[6::7] = False
    observed[0, 0] = False  # a gap of one sensor is filled
    values = np.random.default_rng(0).standard_normal(observed.shape)
    recording = small_recording(values=values, observed=observed)
    monkeypatch.setattr(AutoExperiment, "_recording", lambda *_: recording)
    monkeypatch.setattr(split_experiment, "FIELDS", {"shares": FIELDS["shares"]})

    split = AutoExperiment(data_source())._fields["shares"]

    rows = np.concatenate((split.training, split.test))
    assert np.isnan(rows).any(axis=1).tolist() == (~observed.any(axis=1)).tolist()
    assert np.nanmax(rows) == values[observed.any(axis=1)].max()


def test_error_of_a_missing_recording_names_the_searched_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGE_TVBO_DATA", str(tmp_path))

    with pytest.raises(DataError, match=rf"wind.csv.gz is not in:\n  {tmp_path}\n(.*\n)*Name its"):
        AutoExperiment(data_source())._recording("wind.csv.gz")
