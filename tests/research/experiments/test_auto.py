"""Experiment AUTO, small."""

import numpy as np
import pytest
from support.recordings import data_source
from support.splits import split_with_gaps

from edge_tvbo.research.experiments import auto, auto_goals
from edge_tvbo.research.experiments.auto import RECORDED_RUNS, AutoExperiment, _rows_on_recording
from edge_tvbo.research.experiments.auto_cases import (
    ABRUPT_PERIODS,
    BEHIND,
    BEST_SENSOR,
    LATE,
    OVER_BLOCKS,
    PUBLISHED,
    RATES,
    REFERENCES,
)
from edge_tvbo.research.experiments.base import PolicyCase
from edge_tvbo.research.experiments.result_table import Row, case_labels
from edge_tvbo.research.experiments.split_experiment import PLACES, ROOMS
from edge_tvbo.research.experiments.statistics import summarise


def test_policies_are_trained_on_the_rows_with_a_reading_and_drawn_by_the_seed():
    first, second = (list(_rows_on_recording(3, seed, "lab", split_with_gaps())) for seed in (0, 1))

    baselines = ["kalman-ucb", "static", "random"]
    labels = ["auto", *(each.label for each in PUBLISHED), *baselines, *REFERENCES]
    assert [row.case["policy"] for row in first] == labels
    assert all(np.isfinite(list(row.numbers.values())).all() for row in first)
    assert first[0].numbers["R_T/T"] < 0.5
    assert [row.numbers for row in first] != [row.numbers for row in second]


def test_references_use_the_previous_row_and_the_means_of_the_test_rows():
    nan = np.full(3, np.nan)
    training = np.array([[0.0, 9.0, 0.0], [0.0, 0.0, 1.0], nan])
    test = np.array([nan, [5.0, 0.0, 4.0], [1.0, 0.0, 4.0], nan, [0.0, 3.0, 2.0]])
    assert auto._reference_regrets(training, test) == {
        LATE: pytest.approx((1 + 3 + 1) / 3),
        BEST_SENSOR: pytest.approx((1 + 0 + 1) / 3),
    }


def results_of(ours, places=PLACES):
    """Return results in which `auto` has the regret `ours` at `places`, and all others have 1."""
    policies = [*(each.label for each in PUBLISHED), "kalman-ucb", "static", "random"]
    rows = []
    for place in PLACES:
        regrets = dict.fromkeys(policies, 1.0) | dict.fromkeys(REFERENCES, 0.0)
        regrets["auto"] = ours if place in places else 0.5
        for policy, regret in regrets.items():
            numbers = {"R_T/T": regret, OVER_BLOCKS: 0.001, "covered": 0.9}
            rows.append(Row(0, case_labels(place=place, policy=policy), numbers))
    return summarise(rows)


@pytest.mark.parametrize(("ours", "holds"), [(0.8, True), (1.0, True), (1.1, False)])
def test_a_street_is_judged_like_all_other_fields(monkeypatch, ours, holds):
    monkeypatch.setattr(auto_goals, "kinds_of_change", dict)
    goals = AutoExperiment(data_source()).expectations(results_of(ours, ["METR-LA"]))
    (goal,) = (each for each in goals if each.text.startswith("METR-LA: R_T/T"))
    assert goal.holds is holds


def test_figure_has_a_title(monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    monkeypatch.setattr(auto, "kinds_of_change", dict)
    AutoExperiment(data_source()).draw(figure, results_of(0.5))
    assert figure.get_suptitle()
    assert [axes.get_title() for axes in figure.axes] == ["recorded", "synthetic"]


@pytest.mark.parametrize(
    ("place", "reached"), [("Intel 7-8", 0.141), ("Intel 5-6", 0.097), ("Intel 3-4", 0.063)]
)
def test_goal_of_a_room_is_the_regret_of_an_earlier_auto(place, reached):
    assert auto_goals._room_goal(results_of(reached), place).holds
    assert not auto_goals._room_goal(results_of(reached + 0.001), place).holds


@pytest.mark.parametrize(("ours", "holds"), [(0.74, True), (0.76, False)])
def test_auto_is_compared_with_the_best_policy_of_the_papers(ours, holds):
    goal = auto_goals._published_goal(results_of(ours))
    assert f"chosen for each recording from {len(PUBLISHED)} cases" in goal.text
    assert goal.holds is holds


def test_auto_is_compared_with_random_on_each_recording():
    assert auto_goals._random_goal(results_of(0.9)).holds
    goal = auto_goals._random_goal(results_of(1.2, ["soil"]))
    assert "highest on soil: 1.20" in goal.text
    assert not goal.holds


def test_differences_to_other_policies_are_within_the_same_run():
    experiment = AutoExperiment(data_source(), horizon=30)
    rows = experiment.measure(range(RECORDED_RUNS, RECORDED_RUNS + 2), 0)
    assert rows == experiment.measure(range(RECORDED_RUNS, RECORDED_RUNS + 2), 0)
    assert len({row.case["place"] for row in rows}) == len(RATES) + len(ABRUPT_PERIODS)
    ours = {(row.run, row.case["place"]): row for row in rows if row.case["policy"] == "auto"}
    others = [row for row in rows if row.case["policy"] != "auto"]
    assert len(ours) == 2 * (len(RATES) + len(ABRUPT_PERIODS))
    assert others
    for row in others:
        auto = ours[row.run, row.case["place"]].numbers["R_T/T"]
        assert row.numbers[BEHIND] == auto - row.numbers["R_T/T"]
    assert all(row.numbers["R_T/T"] >= 0 for row in rows)


def test_run_has_rooms_and_streets(recordings, monkeypatch):
    for module in (auto, auto_goals):
        monkeypatch.setattr(module, "PUBLISHED", (PolicyCase("gp-ucb", "gp-ucb"),))
    experiment = AutoExperiment(data_source(recordings), horizon=20)
    rows = experiment.measure(range(1), 0)
    expectations = experiment.expectations(summarise(rows))
    expected = 2 * len(PLACES) + len(ROOMS) + 3 + len(RATES) + len(ABRUPT_PERIODS)
    assert len(expectations) == expected
    textbook, published = (each for each in expectations if each.text.startswith("geometric mean"))
    assert textbook.holds
    assert published.holds
    late = [row.numbers["R_T/T"] for row in rows if row.case["policy"] == LATE]
    assert len(late) == len(PLACES)
    assert late[0] < 0.02
    covered = [row.numbers["covered"] for row in rows if "covered" in row.numbers]
    assert np.all((np.array(covered) > 0.5) & (np.array(covered) <= 1.0))
