"""Experiments on synthetic fields, small: rows, published values, expectations, figures."""

import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from support.recordings import data_source

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import grid
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.policy import make_policy
from edge_tvbo.research import random_fields
from edge_tvbo.research.experiments import (
    e01_within_model,
    e02_trigger_sensitivity,
    e03_reset_times,
    e04_temperature,
    e07_synthetic,
    e09_constant_beta,
    e10_model_mismatch,
)
from edge_tvbo.research.experiments.base import run_generator
from edge_tvbo.research.experiments.experiment_report import check_expectations, comparison_table
from edge_tvbo.research.experiments.inverse_gamma import fit_inverse_gamma
from edge_tvbo.research.experiments.monte_carlo import run_resetting_policy
from edge_tvbo.research.experiments.result_table import Cell, PublishedValue, Row
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.statistics import standard_errors_apart, summarise

SHORT = 40  # intervals
EXPERIMENTS = {  # module, class, rows per run
    "E1": (e01_within_model, e01_within_model.WithinModel, 37),
    "E2": (e02_trigger_sensitivity, e02_trigger_sensitivity.TriggerSensitivity, 30),
    "E3": (e03_reset_times, e03_reset_times.ResetTimes, 34),
    "E7": (e07_synthetic, e07_synthetic.Synthetic, 30),
    "E9": (e09_constant_beta, e09_constant_beta.ConstantBetas, 71),
    "E10": (e10_model_mismatch, e10_model_mismatch.ModelMismatch, 16),
}


@pytest.fixture(scope="module", params=EXPERIMENTS)
def small(request):
    """An experiment on 6 x 6 places with few intervals, and the rows of a run."""
    module, experiment_class, _ = EXPERIMENTS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HORIZON", SHORT)
        single_start = {
            label: data._replace(restarts=1) for label, data in e10_model_mismatch.DATA.items()
        }
        patch.setattr(e10_model_mismatch, "DATA", single_start)
        experiment = experiment_class(side=6)
        yield experiment, experiment.measure(range(1), 0)


def test_run_has_a_row_for_each_case(small):
    experiment, rows = small

    cases = [tuple(sorted(row.case.items())) for row in rows]
    assert len(rows) == len(set(cases)) == EXPERIMENTS[experiment.name][2]
    assert {row.run for row in rows} == {0}
    assert all(math.isfinite(value) for row in rows for value in row.numbers.values())


@pytest.mark.slow
def test_run_is_reproducible_and_depends_on_the_seed(small):
    experiment, rows = small

    assert type(experiment)(side=6).measure(range(1), 0) == rows
    if experiment.name != "E10":  # which is slow
        others = experiment.measure(range(1), 1)
        assert [row.case for row in others] == [row.case for row in rows]
        assert [row.numbers for row in others] != [row.numbers for row in rows]


def test_published_values_have_cells_in_the_table(small):
    experiment, rows = small
    results = summarise(rows)

    for each in experiment.published():
        assert results.cell(each.number, each.case).runs == 1
    text = comparison_table(experiment, results).splitlines()
    assert len(text) == 1 + len(results.cells)
    assert ("published" in text[0]) and all(len(line) <= len(text[0]) + 20 for line in text)


def test_expectations_are_checked_one_per_line(small):
    experiment, rows = small
    expectations = experiment.expectations(summarise(rows))

    assert expectations
    assert all(each.holds in (True, False, None) for each in expectations)
    lines = check_expectations(experiment, summarise(rows)).splitlines()
    assert len(lines) == len(expectations)
    assert all(line.startswith("open ") and line.endswith("are needed)") for line in lines)


def test_enough_runs_decide_whether_an_expectation_holds(small):
    experiment, rows = small
    needed = max(each.runs_needed for each in experiment.expectations(summarise(rows)))
    runs = range(min(needed, experiment.runs))
    many = [msgspec.structs.replace(row, run=run) for row in rows for run in runs]
    results = summarise(many)

    lines = check_expectations(experiment, results).splitlines()

    words = {True: "holds", False: "FAILS", None: "open"}
    expected = [words[each.holds] for each in experiment.expectations(results)]
    assert [line.split()[0] for line in lines] == expected


def test_figure_is_drawn(small):
    figures = pytest.importorskip("matplotlib.figure")
    experiment, rows = small

    for draw in experiment.pictures().values():
        figure = figures.Figure()
        draw(figure, summarise(rows))

        assert figure.axes
        assert all(axes.has_data() for axes in figure.axes)
        assert figure.get_suptitle()


@pytest.mark.parametrize("small", ["E1"], indirect=True)
def test_label_of_the_resets_counts_the_runs_that_are_drawn(small):
    figures = pytest.importorskip("matplotlib.figure")
    experiment, rows = small

    for runs, text in ((1, "1 run"), (25, "20 runs")):
        many = [msgspec.structs.replace(row, run=run) for row in rows for run in range(runs)]
        experiment.draw(figure := figures.Figure(), summarise(many))

        assert f"resets in {text}" in [axes.get_ylabel() for axes in figure.axes]


def test_large_numbers_are_printed_without_an_exponent():
    experiment = e02_trigger_sensitivity.TriggerSensitivity(side=2)
    rows = [Row(run, {"policy": "opkb"}, {"R_T": 10_170.0 + 1000 * run}) for run in range(2)]

    assert comparison_table(experiment, summarise(rows)).splitlines()[1].split() == [
        *("opkb", "R_T", "10670", "500"),
    ]


# --- the lab ------------------------------------------------------------------------------------


def test_temperature_experiment_runs_every_policy_on_both_pairs_of_days(recordings):
    figures = pytest.importorskip("matplotlib.figure")
    experiment = e04_temperature.Temperature(data_source(recordings))

    rows = experiment.measure(range(1), 0)

    results = summarise(rows)
    assert len(rows) == sum(len(split.cases) for split in e04_temperature.DAYS.values())
    assert results.mean("R_T/T", policy="random", days="7-8") == pytest.approx(0.968, abs=0.15)
    assert results.mean("R_T/T", policy="r-gp-ucb", days="7-8") == pytest.approx(0.34, abs=0.01)
    assert len(experiment.expectations(results)) == 11
    for draw in experiment.pictures().values():
        draw(figures.Figure(), results)
    regret = results.cell("R_T/T", {"policy": "random", "days": "7-8"})
    assert regret.error == 0.0 < experiment.error(results, regret)  # over blocks of time


# --- compiled policies and distributions of E3 --------------------------------------------------


def compiled_run(field, f, noise, widths, *, period=0, lower=1, upper=0, keep_last=True, seed=0):
    """Return regrets and reset times of the compiled policy."""
    T, M = f.shape
    regret, ages = np.empty(T), np.empty(T, np.int64)
    work = np.empty((T, M)), *np.empty((3, M))
    resets = run_resetting_policy(
        f, noise, field.kernel, field.noise_variance, widths, period, lower, upper, 0.1,
        keep_last, seed, *work, regret, ages,
    )  # fmt: skip
    return regret, ages[:resets].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_compiled_policies_choose_as_the_public_ones(seed):
    T, beta = 150, LogBeta(0.4, 4.0)
    field = grid(8, SpatialKernel(math.inf, 0.2), 0.02)
    generator = run_generator("E3", seed, 0)
    f = random_fields.drifting(
        random_fields.draws(random_fields.factor(field.kernel), T, generator), 0.05
    )
    noise = generator.standard_normal(T) * 0.02**0.5
    widths = np.array([beta.width(t, 0) for t in range(1, T + 1)])

    policy = make_policy("r-gp-ucb", field, period=26, window=T, beta=beta, seed=seed)
    regret, _ = compiled_run(field, f, noise, widths, period=26, seed=seed)
    np.testing.assert_array_equal(regret, run_policy(policy, f, noise).regret)

    for keep_last in (True, False):
        policy = make_policy(
            "et-gp-ucb", field, delta_b=0.1, n_lower=5, n_upper=60, keep_last=keep_last, window=T,
            beta=beta, seed=seed,
        )  # fmt: skip
        regret, ages = compiled_run(
            field, f, noise, widths, lower=5, upper=60, keep_last=keep_last, seed=seed
        )
        result = run_policy(policy, f, noise)
        np.testing.assert_array_equal(regret, result.regret)
        assert len(ages) == result.resets > 0
        assert all(5 <= age <= 60 for age in ages)


@pytest.mark.parametrize(("shape", "scale"), [(2.0, 60.0), (5.0, 200.0)])
def test_fit_of_an_inverse_gamma_recovers_its_parameters(shape, scale):
    drawn = scale / np.random.default_rng(0).gamma(shape, 1.0, 100_000)
    counts = np.bincount(np.maximum(np.rint(drawn[drawn < 1e5]), 1).astype(int)).astype(float)

    fitted = fit_inverse_gamma(counts)

    assert fitted.is_better_than_gamma
    assert fitted.shape == pytest.approx(shape, rel=0.03)
    assert fitted.scale == pytest.approx(scale, rel=0.03)
    times = np.linspace(1.0, 50.0, 7)
    density = scale**shape / math.gamma(shape) * times ** (-shape - 1) * np.exp(-scale / times)
    np.testing.assert_allclose(fitted.density(times), density, atol=1e-3)


def test_gamma_samples_are_not_taken_for_an_inverse_gamma():
    drawn = np.random.default_rng(0).gamma(4.0, 10.0, 50_000)
    counts = np.bincount(np.maximum(np.rint(drawn), 1).astype(int)).astype(float)

    assert not fit_inverse_gamma(counts).is_better_than_gamma


# --- computed by hand ---------------------------------------------------------------------------


def test_summary_has_mean_sd_and_standard_error():
    rows = [Row(run, {"a": "x"}, {"n": value}) for run, value in enumerate((1.0, 2.0, 6.0))]

    cell = summarise(rows).cell("n", {"a": "x"})

    assert (cell.mean, cell.sd, cell.runs) == (3.0, pytest.approx(7.0**0.5), 3)
    assert cell.error == pytest.approx((7.0 / 3.0) ** 0.5)


def test_difference_to_published_value_uses_both_errors():
    cell = Cell({}, "n", 5.0, 6.0, 4)

    assert standard_errors_apart(cell, PublishedValue({}, "n", 0.0, 8.0, 4)) == pytest.approx(1.0)
    assert standard_errors_apart(cell, PublishedValue({}, "n", 0.0, None, 4)) is None


def test_one_run_has_no_difference_in_standard_errors():
    """Its own error is unknown, and not 0."""
    cell = Cell({}, "n", 1.3, 0.0, 1)

    assert standard_errors_apart(cell, PublishedValue({}, "n", 1.0, 0.3, 50)) is None


def test_random_fields_have_unit_variance_and_the_right_memory():
    g = np.random.default_rng(0).standard_normal((400, 500))

    drifting, moving = random_fields.drifting(g, 0.1), random_fields.with_momentum(g, 0.95, 0.9)

    for f, model in ((drifting, TimeVarying(0.1)), (moving, Momentum(0.95, 0.9))):
        assert f.var() == pytest.approx(1.0, abs=0.05)
        for lag, tolerance in ((1, 0.002), (10, 0.05)):
            correlation = float((f[lag:] * f[:-lag]).mean() / f.var())
            expected = float(model.kernel(np.zeros(1), np.full(1, lag))[0, 0])
            assert correlation == pytest.approx(expected, abs=tolerance)
    assert len(moving) == len(g) - 1
    turned = random_fields.turning(g, 200, 100.0, 5.0)
    np.testing.assert_allclose(turned[0], g[0], atol=1e-6)
    np.testing.assert_allclose(turned[-1], g[1], atol=1e-6)


def test_generators_differ_by_experiment_seed_and_run():
    drawn = [
        run_generator(*each).random()
        for each in (("E1", 0, 0), ("E1", 0, 1), ("E1", 1, 0), ("E10", 0, 0))
    ]

    assert all(a != b for a, b in pairwise(sorted(drawn)))
    assert run_generator("E1", 0, 0).random() == drawn[0]


def test_claim_of_e9_states_the_rise_of_the_regret_even_if_the_best_beta_does_not_fall():
    slow, fast = e09_constant_beta.FIGURES["5.4"][:0:-1]
    noise = 0.01 * np.random.default_rng(0).standard_normal(20)
    rows = [
        Row(run, setting.case(f"{beta:g}"), {"R_T/T": rise * beta + noise[run] * rise * beta})
        for setting, rise in ((slow, 0.01), (fast, 0.02))
        for beta in setting.betas
        for run in range(20)
    ]

    claim = e09_constant_beta._best_falls(summarise(rows), slow, fast)

    assert claim.holds
    assert claim.text == (
        "from β = 1.5 to β = 5, the regret rises less at ε = 0.003 (the best β is 1) "
        "than at ε = 0.03 (the best β is 1)"
    )
