"""Statistics of experiments: paired tests, verdicts, and the page of results."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.tiny_experiment import TinyExperiment

from edge_tvbo.research.confidence import block_means
from edge_tvbo.research.experiments.result_table import Row, Table
from edge_tvbo.research.experiments.results_page import section
from edge_tvbo.research.experiments.statistics import (
    SIGNIFICANCE_LEVEL,
    expect_all_less,
    expect_less,
    paired_test,
    standard_error,
    summarise,
    with_error,
)

SAMPLES = st.lists(st.floats(-10, 10), min_size=3, max_size=40).map(np.array)


@given(SAMPLES)
def test_paired_test_equals_the_t_test_of_scipy(differences):
    from scipy import stats  # its import takes half a second

    assume(differences.std() > 1e-6)

    ours, theirs = paired_test(differences), stats.ttest_1samp(differences, 0.0)

    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-6, abs=1e-9)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
    assert (ours.pairs, ours.difference) == (len(differences), pytest.approx(differences.mean()))


@pytest.mark.parametrize(
    "differences", [[-3.0], *([each] * 10 for each in (-3.0, -0.3, -0.0123, 0.0))]
)
def test_differences_that_do_not_vary_show_nothing(differences):
    assert paired_test(np.array(differences)).p == 1.0
    assert expect_less("less", np.array(differences)).holds is None


@given(SAMPLES, SAMPLES)
def test_less_and_more_are_never_both_expected(a, b):
    less = expect_all_less("less", {"a": a, "b": b}).holds
    more = expect_all_less("more", {"a": -a, "b": -b}).holds

    assert less is not True or more is False
    assert more is not True or less is False


def test_verdict_depends_on_the_weakest_of_several_comparisons():
    clear = np.random.default_rng(0).normal(-1.0, 0.1, 30)
    unclear = np.random.default_rng(1).normal(0.0, 1.0, 30)

    assert expect_all_less("less", {"a": clear, "b": clear - 1.0}).holds is True
    assert expect_all_less("less", {"a": clear, "b": -clear}).holds is False
    some = expect_all_less("less", {"a": clear, "b": unclear})
    assert some.holds is None
    assert some.test.startswith('not significant; weakest of 2 comparisons, "b": difference ')


def test_level_is_divided_by_the_number_of_comparisons():
    from scipy import stats

    # In a two-sided test, p = SIGNIFICANCE_LEVEL / 2.
    scale = stats.t.isf(SIGNIFICANCE_LEVEL / 4, 19)
    differences = np.linspace(-1.0, 1.0, 20)
    differences -= scale * 1.001 * standard_error(differences)

    alone, among_three = (
        expect_all_less("less", {str(at): differences - at for at in range(count)})
        for count in (1, 3)
    )

    assert (alone.holds, among_three.holds) == (True, None)


def test_blocks_of_time_cover_the_curve():
    assert block_means(np.arange(30.0)).tolist() == [3.0 * block + 1.0 for block in range(10)]
    assert len(block_means(np.zeros(288))) == 10


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [(0.5, 0.1, "0.50 ± 0.10"), (704.6, 53.4, "705 ± 53"), (3.0, 0.0, "3")],
)
def test_error_is_stated_with_two_digits(mean, error, text):
    assert with_error(mean, error) == text


def test_differences_are_those_of_runs_that_have_both_cases():
    rows = [Row(run, {"policy": "a"}, {"R": 2.0 + run}) for run in range(3)]
    rows += [Row(run, {"policy": "b"}, {"R": 1.0}) for run in (2, 0)]

    assert summarise(rows).differences("R", {"policy": "a"}, {"policy": "b"}).tolist() == [1.0, 3.0]


def test_page_has_the_number_of_runs_the_numbers_and_the_claims():
    class Tabulated(TinyExperiment):
        tables = (Table("mean", "sd", "number"), Table("", "number", "sd", {"sd": ("2",)}))
        notes = "Three numbers."

    rows = Tabulated().measure(range(4), 0)
    results = summarise(rows)

    page = section(Tabulated(), results, 4, 130.0)

    assert page.startswith(
        "## E99: tiny\n\nSource: nowhere.\n\n"
        "The command `edge-tvbo experiment E99 --runs 4` made 4 runs in 2 min. "
        "Without `--runs`, it makes 6 runs, which take about 3 min.\n"
    )
    assert "Three numbers." in page
    assert "| mean | mean |\n| --- | --- |\n| 1 | " in page
    assert "| sd 2 | 2 |\n| --- | --- |\n| mean | " in page
    assert "| open | the mean is near 0 | too few runs: 4; 6 are needed |" in page
    cell = results.cell("mean", {"sd": "1"})
    assert f"| {with_error(cell.mean, cell.error)} / 0 |" in page
    assert (
        "4 runs in 80 min. Without `--runs`, it makes 6 runs, which take about 2.0 h."
        in section(Tabulated(), results, 4, 4800.0)
    )
    assert "`edge-tvbo experiment E99` made 6 runs in 2 min.\n" in section(
        Tabulated(), results, 6, 130.0
    )
