"""Budget of change (E6), small: rows, the variation, and a user's share prices."""

import gzip

import numpy as np
import pytest
from support.recordings import data_source

pytest.importorskip("scipy")

from edge_tvbo.models.spatial_kernels import squared_exponential
from edge_tvbo.research.experiments.benchmark_functions import abrupt, random_function
from edge_tvbo.research.experiments.e06_variation_budget import (
    KINDS,
    POLICIES,
    STOCKS,
    VariationBudget,
    _variation,
)
from edge_tvbo.research.experiments.statistics import summarise

LINE = np.linspace(0.0, 1.0, 100)
K = squared_exponential(LINE, 0.2)


def small(*data_dirs):
    return VariationBudget(data_source(*data_dirs), horizon=15)


def prices(directory):
    """Write ten working days and a Sunday of three shares."""
    rng = np.random.default_rng(0)
    lines = ["date,A,B,C"]
    for day in range(1, 12):
        cells = ["", "", ""] if day == 6 else [f"{x:.2f}" for x in rng.uniform(19, 250, 3)]
        lines.append(",".join([f"2020-06-{day:02}", *cells]))
    (directory / "stocks.csv").write_text("\n".join(lines) + "\n")
    return directory


def test_run_has_a_row_for_each_policy_and_function():
    rows = small().measure(range(2), 3)

    cases = [(row.run, row.case["function"], row.case["policy"]) for row in rows]
    expected = [(run, kind, each) for run in range(2) for kind in KINDS for each in POLICIES]
    assert [case for case in cases if case[1] != STOCKS] == expected
    assert rows == small().measure(range(2), 3)


def test_regret_is_never_negative_and_is_the_sum_of_the_curve():
    for row in small().measure(range(1), 0):
        steps = np.diff([0.0, *row.curves["R_t"]])
        assert (steps >= -1e-9).all()
        assert row.numbers["R_T"] == pytest.approx(row.curves["R_t"][-1], abs=1e-3)


def test_expectations_name_the_order_and_published_values_have_cells():
    figures = pytest.importorskip("matplotlib.figure")
    experiment = small()
    rows = experiment.measure(range(1), 0)
    results = summarise(rows)

    experiment.draw(figures.Figure(), results)

    assert len(experiment.expectations(results)) >= 4
    for published in experiment.published():
        results.cell(published.number, published.case)
    assert "with our own functions" in experiment.source


def test_variation_is_the_norm_of_the_jumps_of_an_abrupt_function():
    f, g, h = (random_function(LINE, 4, number) for number in range(3))
    A = K + 1e-6 * np.eye(100)
    expected = sum(float(np.sqrt(d @ np.linalg.inv(A) @ d)) for d in (g - f, h - g))

    assert _variation(K, abrupt(4)) == pytest.approx(expected, rel=1e-4)
    assert _variation(K, np.tile(f, (5, 1))) == 0.0


def test_share_prices_of_a_user_are_used_on_days_with_prices(tmp_path):
    rows = small(prices(tmp_path)).measure(range(1), 0)

    shares = [row for row in rows if row.case["function"] == STOCKS]
    assert [row.case["policy"] for row in shares] == list(POLICIES)
    assert {len(row.curves["R_t"]) for row in shares} == {10}
    assert all(row.numbers["R_T, as in the file"] > row.numbers["R_T"] for row in shares)
    experiment = small(tmp_path)
    assert len(experiment.expectations(summarise(rows))) == 7


def test_tests_of_share_prices_use_blocks_of_time_because_the_runs_are_the_same(tmp_path):
    experiment = small(prices(tmp_path))
    rows = experiment.measure(range(10), 0)
    results = summarise(rows)

    shares = experiment.expectations(results)[-1]
    errors = {
        cell.number: experiment.error(results, cell)
        for cell in results.cells
        if cell.case == {"policy": "igp-ucb", "function": STOCKS}
    }

    assert shares.text.startswith(STOCKS)
    assert "t(9) = " in shares.test
    assert abs(float(shares.test.split("t(9) = ")[1].split(",")[0])) < 20
    assert errors["R_T, as in the file"] > errors["R_T"] > 0.01
    assert errors["resets"] == 0.0


def test_fingerprint_of_share_prices_changes_with_a_price(tmp_path):
    before = small(prices(tmp_path)).data_fingerprints()
    file = tmp_path / "stocks.csv"
    file.write_text(file.read_text() + "2020-06-12,20,30,40\n")

    after = small(tmp_path).data_fingerprints()

    assert before.keys() == after.keys() == {"shares"}
    assert before != after


def test_file_of_share_prices_can_be_named_itself(tmp_path):
    rows = small(prices(tmp_path) / "stocks.csv").measure(range(1), 0)

    assert any(row.case["function"] == STOCKS for row in rows)


def test_other_shares_take_the_place_of_missing_prices_of_the_user(tmp_path):
    other, own = tmp_path / "other", tmp_path / "own"
    for directory in (other, own):
        directory.mkdir()
    (prices(other) / "stocks.csv").rename(other / "stocks.txt")
    text = (other / "stocks.txt").read_text() + "2020-06-12,20,30,40\n"
    (other / "djia29_daily.csv.gz").write_bytes(gzip.compress(text.encode()))
    prices(own)

    assert small(other).data_fingerprints().keys() == {"shares"}
    assert small(other).data_fingerprints() != small(own).data_fingerprints()
    assert small(other, own).data_fingerprints() == small(own).data_fingerprints()


@pytest.mark.parametrize("prefix", ["", "~/"])
def test_file_of_share_prices_that_is_named_itself_is_used(tmp_path, monkeypatch, prefix):
    """Even if another directory of the search has a `stocks.csv`."""
    named = tmp_path / "djia29_daily.csv.gz"
    named.write_bytes(gzip.compress(b"date,A,B\n2020-06-01,20,30\n2020-06-02,21,32\n"))
    (own := tmp_path / "own").mkdir()
    alone = small(named).data_fingerprints()
    monkeypatch.setenv("EDGE_TVBO_DATA", str(prices(own)))
    monkeypatch.setenv("HOME", str(tmp_path))

    assert small(f"{prefix or f'{tmp_path}/'}{named.name}").data_fingerprints() == alone
    assert small(own, named).data_fingerprints() == alone


def test_days_without_trade_are_left_out_of_the_other_shares(recordings):
    shares = small(recordings)._stocks

    assert shares.values.shape == (823, 29)
    assert np.isfinite(shares.values).all()
