"""Unknown length scales (E11), small, with its readings and its materials."""

from math import log

import numpy as np
import pytest
from support.recordings import data_source

from edge_tvbo.errors import DataError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy.unknown_length_scale.candidates import Growth, Hypothesis
from edge_tvbo.policy.unknown_length_scale.posterior import Readings
from edge_tvbo.research.experiments.benchmark_functions import BERKENKAMP
from edge_tvbo.research.experiments.e11_length_scale import UnknownLengthScale
from edge_tvbo.research.experiments.e11_objectives import NOISE_VARIANCE, NU
from edge_tvbo.research.experiments.e11_policies import (
    POLICIES,
    ActiveNorm,
    ScaledRegretBalancing,
    Standardised,
    most_likely_nearby,
)
from edge_tvbo.research.experiments.experiment_report import comparison_table
from edge_tvbo.research.experiments.statistics import summarise

CASES = {"Berkenkamp": 5, "Michalewicz": 9}  # the latter with several growths


def small(*data_dirs, functions=("Berkenkamp", "Michalewicz", "CrossedBarrel", "AGNP")):
    return UnknownLengthScale(data_source(*data_dirs), horizon=10, functions=functions)


def readings_of(values, *, kind=Standardised, places=None):
    field = BoxField([0.0], [1.0], SpatialKernel(NU), NOISE_VARIANCE, candidates=16)
    readings = kind("test", field, 20, NU)
    places = np.linspace(0.0, 1.0, len(values)) if places is None else places
    for place, value in zip(places, values, strict=True):
        readings.add((float(place),), float(value))
    return readings


@pytest.fixture(scope="module")
def rows():
    return small().measure(range(1), 5)


@pytest.mark.slow
def test_run_has_rows_for_each_policy_and_function(rows):
    for name, cases in CASES.items():
        assert sum(row.case["function"] == name for row in rows) == cases
    assert {row.case["policy"] for row in rows} == set(POLICIES)


@pytest.mark.slow
def test_rows_are_reproducible_and_differ_between_runs(rows):
    toy = [row for row in rows if row.case["function"] == "Berkenkamp"]
    experiment = small(functions=("Berkenkamp",))

    assert experiment.measure(range(1), 5) == toy
    assert [row.numbers for row in experiment.measure(range(1, 2), 5)] != [r.numbers for r in toy]


@pytest.mark.slow
def test_cumulative_regret_grows_and_best_regret_falls(rows):
    for row in rows:
        so_far, best = row.curves["R_t"], row.curves["best"]
        assert len(so_far) == len(best) == 2
        assert 0.0 <= so_far[0] <= so_far[1] == pytest.approx(row.numbers["R_T"], abs=1e-5)
        assert best[0] >= best[1] == pytest.approx(row.numbers["best regret"], abs=1e-6)
        assert -1e-9 <= row.numbers["best regret"] <= BERKENKAMP.maximum or "M" in str(row.case)
        assert sum(row.curves["length scales"]) == 10


def test_michalewicz_has_ten_runs_only():
    assert small(functions=("Michalewicz",)).measure(range(10, 20), 0) == []


@pytest.mark.slow
def test_expectations_table_and_figure_are_of_the_measured_functions(rows):
    figures = pytest.importorskip("matplotlib.figure")
    experiment = small()
    toy = [row for row in rows if row.case["function"] == "Berkenkamp"]
    for some, expectations, panels in ((rows, 18, 6), (toy, 9, 3)):
        results = summarise(some)
        figure = figures.Figure()
        experiment.draw(figure, results)
        for draw in experiment.pictures().values():
            draw(figures.Figure(), results)
        assert len(experiment.expectations(results)) == expectations
        assert len(figure.axes) == panels
        assert len(comparison_table(experiment, results).splitlines()) == 1 + 3 * len(some)


def test_standardised_likelihood_does_not_depend_on_the_unit():
    values = np.array([1.0, 3.0, 2.0, 2.5])

    plain = readings_of((values - values.mean()) / values.std(ddof=1), kind=Readings)
    for readings in (readings_of(values), readings_of(1000.0 * values - 7.0)):
        ours, theirs = readings.fit(0.3).log_likelihood(), plain.fit(0.3).log_likelihood()
        assert ours == pytest.approx(theirs, abs=1e-9)
    assert readings_of(values).spread == pytest.approx(values.std(ddof=1))
    assert [readings_of(each).spread for each in ([], [2.0], [2.0, 2.0])] == [1.0, 1.0, 1.0]


def test_ascent_ends_at_a_local_maximum_of_the_likelihood():
    readings = readings_of(BERKENKAMP.evaluate(np.linspace(0.0, 1.0, 15)[:, None]))

    found = most_likely_nearby(readings)

    around = [readings.fit(found * ratio).log_likelihood() for ratio in (0.9, 1.0, 1.1)]
    assert max(around) == around[1]
    assert 0.05 < found < 0.5


def test_ascent_from_readings_on_the_slope_gives_a_long_scale():
    places = np.array([0.5, 0.7, 0.95])

    assert (
        most_likely_nearby(readings_of(BERKENKAMP.evaluate(places[:, None]), places=places)) > 0.3
    )


def test_regret_balancing_uses_the_unit_of_the_readings():
    readings = readings_of([10.0, 20.0, 30.0])
    balance = ScaledRegretBalancing(readings, Hypothesis(0.5, 1.0), Growth(log(2.0), 0.5))

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


def test_table_of_materials_is_used_if_it_exists(tmp_path):
    materials(tmp_path)
    experiment = small(tmp_path, functions=("AGNP", "CrossedBarrel"))

    rows = experiment.measure(range(1), 0)

    assert [row.case["policy"] for row in rows] == list(POLICIES)
    assert {row.case["function"] for row in rows} == {"AGNP"}
    assert rows == experiment.measure(range(1), 0)
    expectations = experiment.expectations(summarise(rows))
    assert [each.text.split(":")[0] for each in expectations] == ["AGNP"] * 6 + ["CrossedBarrel"]


def test_missing_materials_are_open_and_say_where_to_get_them(tmp_path):
    experiment = small(tmp_path, functions=("Berkenkamp", "AGNP"))

    missing = experiment.expectations(summarise(experiment.measure(range(1), 0)))[-1]

    assert missing.text.startswith("AGNP") and missing.holds is None
    assert "--data-dir" in missing.test and "PV-Lab/Benchmarking" in missing.test


def test_files_are_found_under_the_names_of_the_public_repository(tmp_path):
    materials(tmp_path, "AgNP_dataset.csv")
    materials(tmp_path, "Crossed barrel_dataset.csv")

    assert set(small(tmp_path)._objectives) == {
        "Berkenkamp", "Michalewicz", "CrossedBarrel", "AGNP"
    }  # fmt: skip


def test_width_of_lnb_is_the_norm_of_the_active_candidate():
    readings = readings_of([1.0, 2.0])
    first = Hypothesis(0.5, 1.0)
    balance = ScaledRegretBalancing(readings, first, Growth(0.5, 0.5), 1.0)
    width = ActiveNorm(balance, first, 1)

    seen = set()
    for t in range(1, 60):
        seen.add(round(log(width.width(t, 0)), 9))
        balance.update(1.0, 100.0)
        balance.advance(t)

    assert seen == {0.0, 1.0, 2.0, 3.0, 4.0}  # norms e^j up to t, for all length scales


def test_fingerprint_of_materials_changes_with_the_file(tmp_path):
    materials(tmp_path)
    before = UnknownLengthScale(data_source(tmp_path)).data_fingerprints()
    materials(tmp_path, rows=15)

    after = UnknownLengthScale(data_source(tmp_path)).data_fingerprints()

    assert before.keys() == after.keys() == {"AGNP"}
    assert before != after


def test_loss_of_agnp_is_minimised_and_toughness_maximised(tmp_path):
    materials(tmp_path)
    materials(tmp_path, "crossed_barrel.csv")
    objectives = small(tmp_path)._objectives

    loss, toughness = objectives["AGNP"], objectives["CrossedBarrel"]

    assert loss.maximum == -0.25  # mean of the distinct values 0 and .5
    assert toughness.maximum == 13.25
    assert loss.value(0) == -toughness.value(0)
    assert loss.field.positions.min() == 0.0
    assert loss.field.positions.max() == 1.0


@pytest.mark.parametrize("text", ["a,b\n1,x\n", "a,b\n1,2\n", ""])
def test_invalid_table_of_materials_is_named(tmp_path, text):
    (tmp_path / "agnp.csv").write_text(text)

    with pytest.raises(DataError, match=r"agnp\.csv"):
        small(tmp_path).measure(range(1), 0)
