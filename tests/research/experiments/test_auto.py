"""Experiment AUTO, small."""

import numpy as np
import pytest
from support.recordings import data_source

from edge_tvbo.research.experiments.auto import (
    ABRUPT_PERIODS,
    BEHIND,
    FIELDS,
    RATES,
    RECORDED_RUNS,
    ROOMS,
    STREETS,
    AutoPolicy,
)
from edge_tvbo.research.experiments.statistics import summarise


def test_differences_to_other_policies_are_within_the_same_run():
    experiment = AutoPolicy(data_source(), horizon=30)
    rows = experiment.measure(range(RECORDED_RUNS, RECORDED_RUNS + 2), 0)
    assert rows == experiment.measure(range(RECORDED_RUNS, RECORDED_RUNS + 2), 0)
    assert len({row.case["place"] for row in rows}) == len(RATES) + len(ABRUPT_PERIODS)
    results = summarise(rows)
    for cell in results.cells:
        if cell.number != BEHIND:
            continue
        auto = results.mean("R_T/T", place=cell.case["place"], policy="auto")
        assert cell.mean == pytest.approx(auto - results.mean("R_T/T", **cell.case))
    assert all(row.numbers["R_T/T"] >= 0 for row in rows)


def test_run_has_rooms_and_streets(recordings):
    experiment = AutoPolicy(data_source(recordings), horizon=20)
    rows = experiment.measure(range(1), 0)
    expectations = experiment.expectations(summarise(rows))
    places = len(ROOMS) + len(STREETS) + len(FIELDS)
    assert len(expectations) == 2 * places + 1 + len(RATES) + len(ABRUPT_PERIODS)
    (textbook,) = (each for each in expectations if each.text.startswith("geometric mean"))
    assert textbook.holds
    covered = [row.numbers["covered"] for row in rows if "covered" in row.numbers]
    assert np.all((np.array(covered) > 0.5) & (np.array(covered) <= 1.0))
