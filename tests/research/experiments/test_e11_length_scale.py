"""E11 made small, and the parts that only it has."""

from math import log

import numpy as np
import pytest

from edge_tvbo.errors import DataError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy.unknown_length_scale.candidates import Growth, Hypothesis
from edge_tvbo.policy.unknown_length_scale.posterior import Readings
from edge_tvbo.research.experiments.e11_length_scale import (
    BERKENKAMP,
    NOISE_VARIANCE,
    NU,
    POLICIES,
    Balanced,
    LengthScale,
    Standardised,
    climb,
)
from edge_tvbo.research.experiments.report import summarise, table

CASES = {"Berkenkamp": 4, "Michalewicz": 8}  # growths are tried on the latter


def small(*data_dirs, problems=("Berkenkamp", "Michalewicz", "CrossedBarrel", "AGNP")):
    return LengthScale(tuple(map(str, data_dirs)), horizon=10, problems=problems)


def of(values, *, kind=Standardised, places=None):
    field = BoxField([0.0], [1.0], SpatialKernel(NU), NOISE_VARIANCE, candidates=16)
    readings = kind("test", field, 20, NU)
    places = np.linspace(0.0, 1.0, len(values)) if places is None else places
    for place, value in zip(places, values, strict=True):
        readings.add((float(place),), float(value))
    return readings


@pytest.fixture(scope="module")
def rows():
    return small().measure(range(1), 5)


def test_each_policy_plays_each_function(rows):
    for name, cases in CASES.items():
        assert sum(row.case["function"] == name for row in rows) == cases
    assert {row.case["policy"] for row in rows} == set(POLICIES)


def test_the_same_arguments_give_the_same_rows_and_another_run_others(rows):
    toy = [row for row in rows if row.case["function"] == "Berkenkamp"]
    experiment = small(problems=("Berkenkamp",))

    assert experiment.measure(range(1), 5) == toy
    assert [row.numbers for row in experiment.measure(range(1, 2), 5)] != [r.numbers for r in toy]


def test_regret_adds_up_and_the_best_only_falls(rows):
    for row in rows:
        so_far, best = row.curves["R_t"], row.curves["best"]
        assert len(so_far) == len(best) == 2
        assert 0.0 <= so_far[0] <= so_far[1] == pytest.approx(row.numbers["R_T"], abs=1e-5)
        assert best[0] >= best[1] == pytest.approx(row.numbers["best regret"], abs=1e-6)
        assert -1e-9 <= row.numbers["best regret"] <= BERKENKAMP.maximum or "M" in str(row.case)
        assert sum(row.curves["length scales"]) == 10


def test_the_ten_runs_of_michalewicz_end_before_the_twenty_of_the_toy():
    assert small(problems=("Michalewicz",)).measure(range(10, 20), 0) == []


def test_claims_and_tables_and_figures_are_of_what_was_played(rows):
    figures = pytest.importorskip("matplotlib.figure")
    experiment = small()
    toy = [row for row in rows if row.case["function"] == "Berkenkamp"]
    for some, claims, panels in ((rows, 16, 6), (toy, 7, 3)):
        summary = summarise(some)
        figure = figures.Figure()
        experiment.draw(figure, some, summary)
        assert len(experiment.claims(summary)) == claims
        assert len(figure.axes) == panels
        assert len(table(experiment, summary).splitlines()) == 1 + 3 * len(some)


def test_readings_are_standardised_for_each_fit_whatever_their_unit():
    values = np.array([1.0, 3.0, 2.0, 2.5])

    plain = of((values - values.mean()) / values.std(ddof=1), kind=Readings)
    for readings in (of(values), of(1000.0 * values - 7.0)):
        ours, theirs = readings.fit(0.3).log_likelihood(), plain.fit(0.3).log_likelihood()
        assert ours == pytest.approx(theirs, abs=1e-9)
    assert of(values).spread == pytest.approx(values.std(ddof=1))
    assert [of(each).spread for each in ([], [2.0], [2.0, 2.0])] == [1.0, 1.0, 1.0]


def test_a_climb_ends_where_no_length_scale_near_it_is_likelier():
    readings = of(BERKENKAMP.evaluate(np.linspace(0.0, 1.0, 15)[:, None]))

    found = climb(readings)

    around = [readings.fit(found * ratio).log_likelihood() for ratio in (0.9, 1.0, 1.1)]
    assert max(around) == around[1]
    assert 0.05 < found < 0.5


def test_a_climb_on_the_smooth_end_of_the_toy_misses_its_peak():
    places = np.array([0.5, 0.7, 0.95])

    assert climb(of(BERKENKAMP.evaluate(places[:, None]), places=places)) > 0.3


def test_balancing_counts_what_it_hopes_for_in_the_unit_of_the_readings():
    readings = of([10.0, 20.0, 30.0])
    balance = Balanced(readings, Hypothesis(0.5, 1.0), Growth(log(2.0), 0.5))

    balance.update(20.0, 0.3)

    assert balance.arrays()["bonuses"][0] == pytest.approx(3.0)
    assert balance.arrays()["sums"][0] == 20.0


# --- materials ----------------------------------------------------------------------------------


def materials(directory, name="agnp.csv", *, rows=14):
    rng = np.random.default_rng(0)
    lines = ["a,b,loss"]
    for i in range(rows):
        a, b = rng.uniform(0, 100, 2)
        lines += [f"{a},{b},{i}", f"{a},{b},{i + 0.5}", f"{a},{b},{i}"]
    (directory / name).write_text("\n".join(lines) + "\n")


def test_a_table_of_materials_is_played_where_there_is_one(tmp_path):
    materials(tmp_path)
    experiment = small(tmp_path, problems=("AGNP", "CrossedBarrel"))

    rows = experiment.measure(range(1), 0)

    assert [row.case["policy"] for row in rows] == list(POLICIES)
    assert {row.case["function"] for row in rows} == {"AGNP"}
    assert rows == experiment.measure(range(1), 0)
    claims = experiment.claims(summarise(rows))
    assert [claim.text.split(":")[0] for claim in claims] == ["AGNP"] * 6


def test_the_loss_of_agnp_is_made_small_and_the_toughness_of_barrels_large(tmp_path):
    materials(tmp_path)
    materials(tmp_path, "crossed_barrel.csv")
    problems = small(tmp_path)._problems

    loss, toughness = problems["AGNP"], problems["CrossedBarrel"]

    assert loss.maximum == -0.25  # of 0 and .5, each different value once
    assert toughness.maximum == 13.25
    assert loss.value(0) == -toughness.value(0)
    assert loss.field.positions.min() == 0.0
    assert loss.field.positions.max() == 1.0


@pytest.mark.parametrize("text", ["a,b\n1,x\n", "a,b\n1,2\n", ""])
def test_a_file_that_is_no_such_table_is_named(tmp_path, text):
    (tmp_path / "agnp.csv").write_text(text)

    with pytest.raises(DataError, match=r"agnp\.csv"):
        small(tmp_path).measure(range(1), 0)
