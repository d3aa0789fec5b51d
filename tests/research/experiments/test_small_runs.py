"""Every experiment on synthetic fields, made small: it measures, compares, claims and draws."""

import math
from itertools import pairwise

import numpy as np
import pytest
from support.paths import SHARED

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments import (
    e01_within_model,
    e02_trigger_sensitivity,
    e03_reset_times,
    e04_temperature,
    e07_synthetic,
    e09_constant_beta,
    e10_model_mismatch,
    sample_fields,
)
from edge_tvbo.research.experiments.base import Cell, PublishedValue, Row
from edge_tvbo.research.experiments.inverse_gamma import likelier_than_gamma
from edge_tvbo.research.experiments.monte_carlo import follow
from edge_tvbo.research.experiments.report import errors_apart, summarise, table, verdicts
from edge_tvbo.research.experiments.run_policy import play, rng

SHORT = 40  # intervals
KINDS = {
    "E1": (e01_within_model, e01_within_model.WithinModel, 36),
    "E2": (e02_trigger_sensitivity, e02_trigger_sensitivity.Sensitivity, 30),
    "E3": (e03_reset_times, e03_reset_times.ResetTimes, 34),
    "E7": (e07_synthetic, e07_synthetic.Synthetic, 30),
    "E9": (e09_constant_beta, e09_constant_beta.ConstantBetas, 55),
    "E10": (e10_model_mismatch, e10_model_mismatch.Mismatch, 16),
}


@pytest.fixture(scope="module", params=KINDS)
def small(request):
    """One experiment on 6 x 6 places, its intervals cut short, and the rows of a run."""
    module, kind, _ = KINDS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HORIZON", SHORT)
        eager = {
            label: data._replace(restarts=1) for label, data in e10_model_mismatch.DATA.items()
        }
        patch.setattr(e10_model_mismatch, "DATA", eager)
        experiment = kind(side=6)
        yield experiment, experiment.measure(range(1), 0)


def test_a_run_gives_all_its_cases_once(small):
    experiment, rows = small

    cases = [tuple(sorted(row.case.items())) for row in rows]
    assert len(rows) == len(set(cases)) == KINDS[experiment.name][2]
    assert {row.run for row in rows} == {0}
    assert all(math.isfinite(value) for row in rows for value in row.numbers.values())


def test_measured_again_a_run_is_the_same_and_another_seed_is_another_field(small):
    experiment, rows = small

    assert type(experiment)(side=6).measure(range(1), 0) == rows
    if experiment.name != "E10":  # for its price
        others = experiment.measure(range(1), 1)
        assert [row.case for row in others] == [row.case for row in rows]
        assert [row.numbers for row in others] != [row.numbers for row in rows]


def test_what_is_printed_finds_its_cell(small):
    experiment, rows = small
    summary = summarise(rows)

    for each in experiment.printed():
        assert summary.cell(each.number, each.case).runs == 1
    text = table(experiment, summary).splitlines()
    assert len(text) == 1 + len(summary.cells)
    assert ("printed" in text[0]) and all(len(line) <= len(text[0]) + 20 for line in text)


def test_claims_are_computed_and_said_line_by_line(small):
    experiment, rows = small
    claims = experiment.claims(summarise(rows))

    assert claims
    assert all(type(claim.holds) is bool for claim in claims)
    assert len(verdicts(claims).splitlines()) == len(claims)


def test_the_figure_is_drawn(small):
    figures = pytest.importorskip("matplotlib.figure")
    experiment, rows = small
    figure = figures.Figure()

    experiment.draw(figure, rows, summarise(rows))

    assert figure.axes
    assert all(axes.has_data() for axes in figure.axes)


# --- the lab ------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not (SHARED / "intel_lab_10min.csv.gz").is_file(), reason=f"no intel-lab dataset in {SHARED}"
)
def test_the_lab_is_played_by_every_policy_on_both_pairs_of_days():
    figures = pytest.importorskip("matplotlib.figure")
    experiment = e04_temperature.Temperature((str(SHARED),))

    rows = experiment.measure(range(1), 0)

    summary = summarise(rows)
    assert len(rows) == len(e04_temperature.POLICIES) * len(e04_temperature.DAYS)
    assert summary.mean("R_T/T", policy="random", days="7-8") == pytest.approx(0.968, abs=0.15)
    assert summary.mean("R_T/T", policy="r-gp-ucb", days="7-8") == pytest.approx(0.34, abs=0.01)
    assert len(experiment.claims(summary)) == 2
    experiment.draw(figures.Figure(), rows, summary)


# --- what E3 is computed with -------------------------------------------------------------------


def followed(field, f, noise, widths, *, period=0, lower=1, upper=0, keep_last=True, seed=0):
    """Give regrets and reset times of the compiled policy."""
    T, M = f.shape
    regret, ages = np.empty(T), np.empty(T, np.int64)
    work = np.empty((T, M)), *np.empty((3, M))
    resets = follow(
        f, noise, field.kernel, field.noise_variance, widths, period, lower, upper, 0.1,
        keep_last, seed, *work, regret, ages,
    )  # fmt: skip
    return regret, ages[:resets].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_the_compiled_policies_are_the_public_ones_choice_for_choice(seed):
    T, beta = 150, LogBeta(0.4, 4.0)
    field = grid(8, SpatialKernel(math.inf, 0.2), 0.02)
    generator = rng("E3", seed, 0)
    f = sample_fields.drifting(
        sample_fields.draws(sample_fields.factor(field.kernel), T, generator), 0.05
    )
    noise = generator.standard_normal(T) * 0.02**0.5
    widths = np.array([beta.width(t, 0) for t in range(1, T + 1)])

    policy = make_policy("r-gp-ucb", field, period=26, window=T, beta=beta, seed=seed)
    regret, _ = followed(field, f, noise, widths, period=26, seed=seed)
    np.testing.assert_array_equal(regret, play(policy, f, noise).regret)

    for keep_last in (True, False):
        policy = make_policy(
            "et-gp-ucb", field, delta_b=0.1, n_lower=5, n_upper=60, keep_last=keep_last, window=T,
            beta=beta, seed=seed,
        )  # fmt: skip
        regret, ages = followed(
            field, f, noise, widths, lower=5, upper=60, keep_last=keep_last, seed=seed
        )
        played = play(policy, f, noise)
        np.testing.assert_array_equal(regret, played.regret)
        assert len(ages) == played.resets > 0
        assert all(5 <= age <= 60 for age in ages)


@pytest.mark.parametrize(("shape", "scale"), [(2.0, 60.0), (5.0, 200.0)])
def test_the_fit_of_an_inverse_gamma_recovers_what_samples_were_drawn_with(shape, scale):
    drawn = scale / np.random.default_rng(0).gamma(shape, 1.0, 100_000)
    counts = np.bincount(np.maximum(np.rint(drawn[drawn < 1e5]), 1).astype(int)).astype(float)

    inverse, fitted_shape, fitted_scale = likelier_than_gamma(counts)

    assert inverse
    assert fitted_shape == pytest.approx(shape, rel=0.03)
    assert fitted_scale == pytest.approx(scale, rel=0.03)


def test_a_gamma_is_not_taken_for_an_inverse_gamma():
    drawn = np.random.default_rng(0).gamma(4.0, 10.0, 50_000)
    counts = np.bincount(np.maximum(np.rint(drawn), 1).astype(int)).astype(float)

    assert not likelier_than_gamma(counts)[0]


# --- sums by hand -------------------------------------------------------------------------------


def test_a_summary_gives_mean_spread_and_error_by_hand():
    rows = [Row(run, {"a": "x"}, {"n": value}) for run, value in enumerate((1.0, 2.0, 6.0))]

    cell = summarise(rows).cell("n", {"a": "x"})

    assert (cell.mean, cell.sd, cell.runs) == (3.0, pytest.approx(7.0**0.5), 3)
    assert cell.error == pytest.approx((7.0 / 3.0) ** 0.5)


def test_the_distance_from_print_counts_both_errors():
    cell = Cell({}, "n", 5.0, 3.0, 1)

    assert errors_apart(cell, PublishedValue({}, "n", 0.0, 8.0, 4)) == pytest.approx(1.0)
    assert errors_apart(cell, PublishedValue({}, "n", 0.0, None, 4)) is None


def test_fields_of_the_truth_keep_their_variance_and_their_memory():
    g = np.random.default_rng(0).standard_normal((400, 500))

    drifting, moving = sample_fields.drifting(g, 0.1), sample_fields.with_momentum(g, 0.95, 0.9)

    for f, memory in ((drifting, 0.9**0.5), (moving, None)):
        assert f.var() == pytest.approx(1.0, abs=0.05)
        one = float((f[1:] * f[:-1]).mean())
        assert memory is None or one == pytest.approx(memory, abs=0.02)
    assert len(moving) == len(g) - 1
    turned = sample_fields.turning(g, 200, 100.0, 5.0)
    np.testing.assert_allclose(turned[0], g[0], atol=1e-6)
    np.testing.assert_allclose(turned[-1], g[1], atol=1e-6)


def test_generators_differ_by_experiment_seed_and_run():
    drawn = [
        rng(*each).random() for each in (("E1", 0, 0), ("E1", 0, 1), ("E1", 1, 0), ("E10", 0, 0))
    ]

    assert all(a != b for a, b in pairwise(sorted(drawn)))
    assert rng("E1", 0, 0).random() == drawn[0]
