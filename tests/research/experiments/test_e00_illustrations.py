"""Illustrations (E0): each picture has the property that the paper states."""

import pytest

from edge_tvbo.research.experiments.e00_illustrations import STEPS, Illustrations
from edge_tvbo.research.experiments.statistics import summarise


def test_each_illustration_shows_what_the_paper_says():
    experiment = Illustrations()
    results = summarise(experiment.measure(range(1), 0))

    assert all(each.holds for each in experiment.expectations(results))


def test_rates_of_lb_are_those_of_its_table_1():
    results = summarise(Illustrations().measure(range(1), 0))

    T = STEPS[-1]  # g(T)² / (2 ln g(T)) with g(T) = T^.25, and T = 10^5
    assert results.mean("A / LB, unknown θ", of=f"T = {T}") == pytest.approx(54.93, abs=0.01)


def test_every_picture_is_drawn_with_a_title_and_labels():
    figures = pytest.importorskip("matplotlib.figure")
    experiment = Illustrations()
    rows = experiment.measure(range(1), 0)

    for draw in experiment.pictures().values():
        figure = figures.Figure()
        draw(figure, summarise(rows))
        assert figure.axes
        assert all(axes.get_title() or axes.get_ylabel() for axes in figure.axes)
