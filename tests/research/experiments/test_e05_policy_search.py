"""Search for a controller (E5), small, and the posterior with fitted length scales."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples

pytest.importorskip("scipy")

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.posteriors.fitted_length_scales import (
    MAX_LENGTH_SCALE,
    MIN_LENGTH_SCALE,
    ArdMapPosterior,
    _Density,
)
from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import Static, TimeVarying
from edge_tvbo.research.experiments.e05_policy_search import POLICIES, PolicySearch
from edge_tvbo.research.experiments.statistics import summarise

PRIOR = {"shape": 15.0, "rate": 10.0 / 3.0}
UNITS = (0.5, 3.0)


def box(nu=math.inf):
    kernel = SpatialKernel(nu, (4.2 * 0.5, 4.2 * 3.0))
    return BoxField((0.0, -30.0), (4.0, 0.0), kernel, 0.02, candidates=32)


def posterior(window=20, temporal=Static(), **changes):
    return ArdMapPosterior(box(), temporal, window, **{"units": UNITS, **PRIOR, **changes})


def feed(target, n, seed=0, height=1.0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        arm = (float(rng.uniform(0, 4)), float(rng.uniform(-30, 0)))
        target.observe(arm, height * math.sin(2.0 * arm[0]))  # constant along the second input
        target.advance()
    return target


class TestExperiment:
    experiment = PolicySearch(horizon=6, candidates=16)

    @pytest.mark.slow
    def test_run_has_a_row_for_each_policy_and_is_reproducible(self):
        rows = self.experiment.measure(range(2), 5)

        assert [row.case["policy"] for row in rows] == [*POLICIES, *POLICIES]
        again = PolicySearch(horizon=6, candidates=16).measure(range(1, 2), 5)
        assert rows[len(POLICIES) :] == again

    def test_regret_is_never_negative_and_phases_are_means_of_the_curve(self):
        for row in self.experiment.measure(range(1), 0):
            curve = np.array(row.curves["r_t"])
            assert (curve >= 0).all()
            assert row.numbers["R_T/T"] == pytest.approx(curve.mean(), abs=1e-4)
            assert row.numbers["r, t < 100"] == pytest.approx(curve[:2].mean(), abs=1e-4)
            assert row.numbers["r, t >= 150"] == pytest.approx(curve[3:].mean(), abs=1e-4)

    def test_expectations_are_checked_and_the_figure_is_drawn(self):
        figures = pytest.importorskip("matplotlib.figure")
        rows = self.experiment.measure(range(1), 0)
        results = summarise(rows)

        expectations = self.experiment.expectations(results)
        self.experiment.draw(figures.Figure(), results)

        assert len(expectations) == 2 * (len(POLICIES) - 1)
        assert self.experiment.published() == []


class TestArdMapPosterior:
    @given(st.lists(st.floats(-0.6, 2.4), min_size=2, max_size=2), st.integers(0, 9))
    @max_examples(20)
    def test_gradient_of_the_density_equals_finite_differences(self, logs, seed):
        rng = np.random.default_rng(seed)
        X = rng.uniform(0.0, 8.0, (9, 2))
        apart = (X.T[:, :, None] - X.T[:, None, :]) ** 2
        known = TimeVarying(0.03).kernel(np.arange(9.0), np.arange(9.0))
        density = _Density(apart, known, 0.02, rng.standard_normal(9), (15.0, 10.0 / 3.0))
        at = np.array(logs)

        _, slope = density.cost(at)

        for i, step in enumerate(1e-5 * np.eye(2)):
            difference = (density.cost(at + step)[0] - density.cost(at - step)[0]) / 2e-5
            assert slope[i] == pytest.approx(difference, rel=1e-4, abs=1e-4)

    def test_density_is_likelihood_times_prior(self):
        rng = np.random.default_rng(3)
        X, y = rng.uniform(0.0, 8.0, (6, 2)), rng.standard_normal(6)
        apart = (X.T[:, :, None] - X.T[:, None, :]) ** 2
        density = _Density(apart, np.ones((6, 6)), 0.02, y, (15.0, 10.0 / 3.0))

        def naive(scales):
            A = SpatialKernel(math.inf, tuple(scales))(X, X) + 0.02 * np.eye(6)
            likelihood = -0.5 * y @ np.linalg.solve(A, y) - 0.5 * np.linalg.slogdet(A)[1]
            return likelihood + sum(14.0 * math.log(l) - 10.0 / 3.0 * l for l in scales)  # noqa: E741

        a, b = np.array([2.0, 5.0]), np.array([4.0, 3.0])
        found = density.cost(np.log(b))[0] - density.cost(np.log(a))[0]
        assert found == pytest.approx(naive(a) - naive(b), abs=1e-9)

    def test_length_scales_start_at_the_mode_of_the_prior(self):
        assert posterior().length_scales.tolist() == pytest.approx([4.2 * 0.5, 4.2 * 3.0])

    def test_equals_the_kernel_posterior_of_the_same_length_scales(self):
        scaled, plain = posterior(), RegressionPosterior(box(), Static(), 20)
        for target in (scaled, plain):
            target.observe((1.0, -3.0), 0.7)
            target.observe((2.0, -20.0), -0.4)
        for mine, theirs in zip(scaled.mean_std(), plain.mean_std(), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-7)

    def test_relevant_dimension_gets_the_shorter_length_scale(self):
        scales = feed(posterior(window=40), 40).length_scales / UNITS

        assert MIN_LENGTH_SCALE <= scales[0] < 3.0 < 4.0 < scales[1] <= MAX_LENGTH_SCALE

    def test_length_scales_are_fitted_each_interval_then_each_fifth(self):
        target = posterior(window=60)
        seen = [feed(target, 1, seed).length_scales[0] for seed in range(45)]

        changed = [t for t, (a, b) in enumerate(itertools.pairwise(seen), 1) if a != b]

        assert {*range(1, 25)} - {*changed} <= {*range(15, 25)}  # a fit may find nothing better
        assert all((t + 1) % 5 == 0 for t in changed if t >= 30)

    def test_continues_from_a_snapshot_bit_for_bit(self):
        first = feed(posterior(temporal=TimeVarying(0.03)), 8)
        second = posterior(temporal=TimeVarying(0.03))
        second.restore(first.snapshot())

        for target in (first, second):
            feed(target, 5, seed=1)

        assert first.snapshot() == second.snapshot()
        np.testing.assert_array_equal(first.mean, second.mean)

    def test_snapshot_of_other_units_is_rejected(self):
        with pytest.raises(SnapshotError):
            posterior(units=(1.0, 3.0)).restore(posterior().snapshot())

    @pytest.mark.parametrize(
        "changes", [{"units": (1.0,)}, {"units": (1.0, 0.0)}, {"shape": 1.0}, {"rate": 0.0}]
    )
    def test_invalid_parameters_are_rejected(self, changes):
        with pytest.raises(ConfigError):
            posterior(**changes)

    def test_other_kernels_are_rejected(self):
        with pytest.raises(ConfigError):
            ArdMapPosterior(box(2.5), Static(), 9, units=UNITS, **PRIOR)
