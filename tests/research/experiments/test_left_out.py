"""Experiment LEFTOUT, small."""

import numpy as np
import pytest
from support.recordings import data_source

from edge_tvbo.research.experiments import left_out
from edge_tvbo.research.experiments.left_out import DESIGNS, TEXTBOOK, LeftOut
from edge_tvbo.research.experiments.result_table import Row, case_labels
from edge_tvbo.research.experiments.split_experiment import TrainTestSplit
from edge_tvbo.research.experiments.statistics import summarise

GROUPS = {"one": ("a", "b"), "two": ("c",)}


def results(regrets):
    rows = [
        Row(0, case_labels(place=place, design=design), {"R_T/T": regrets(place, design)})
        for place in ("a", "b", "c")
        for design in (*DESIGNS, TEXTBOOK)
    ]
    return summarise(rows)


def test_design_is_chosen_without_the_group_it_is_judged_on(recordings, monkeypatch):
    monkeypatch.setattr(left_out, "GROUPS", GROUPS)
    first, *_, last = DESIGNS
    best = {"a": first, "b": first, "c": last}
    found = results(lambda place, design: 0.1 if design == best[place] else 0.5)
    one, two, mean = LeftOut(data_source(recordings)).expectations(found)
    assert last in one.text
    assert first in two.text
    assert "1.00 times" in mean.text
    assert not mean.holds


def test_figure_has_a_title(recordings, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    monkeypatch.setattr(left_out, "GROUPS", GROUPS)
    LeftOut(data_source(recordings)).draw(figure, results(lambda place, design: 0.5))
    assert figure.get_suptitle()


def test_run_has_a_row_for_each_design(recordings, monkeypatch):
    hours = np.arange(6 * 24)
    values = np.sin(2 * np.pi * hours / 24)[:, None] * [1.0, 0.5, -0.5] + 2.0
    values += 0.1 * np.random.default_rng(0).standard_normal(values.shape)
    split = TrainTestSplit(values[:96], values[96:], 3600.0, 0.0, None)
    monkeypatch.setattr(LeftOut, "_drawn_streets", lambda *_: {"small": split})
    rows = LeftOut(data_source(recordings)).measure(range(1, 2), 0)
    assert {row.case["design"] for row in rows} == {*DESIGNS, TEXTBOOK}
    assert len(rows) == len(DESIGNS) + 1
    assert all(0 <= row.numbers["R_T/T"] < 2 for row in rows)
    by_design = {row.case["design"]: row.numbers["R_T/T"] for row in rows}
    assert by_design["width 0.5, season, transform none"] < 0.5
