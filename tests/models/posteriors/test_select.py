"""Selection of a posterior by field and temporal model, and the accuracy of a window."""

import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from support.naive import NaivePosterior, se, temporal

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior, RegressionPosterior
from edge_tvbo.models.posteriors.select import (
    DEFAULT_BOX_WINDOW,
    DEFAULT_FIT_WINDOW,
    make_fitted_posterior,
    make_posterior,
    make_pruned_posterior,
)
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.posteriors.two_component import TwoComponentPosterior
from edge_tvbo.models.posteriors.window import WindowPosterior
from edge_tvbo.models.sigmoid import Sigmoid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection

M = 6
K = se(np.random.default_rng(0).uniform(0, 1, (M, 2)), 0.4)
FIELD = SensorField([f"n{i}" for i in range(M)], K, 0.05)
BOX = BoxField([0.0], [1.0], SpatialKernel(math.inf, 0.3), 0.05, candidates=8)
SELECTED = {  # for sensors: without a window, and with one
    Static(): (StateSpacePosterior, WindowPosterior),
    TimeVarying(0.1): (StateSpacePosterior, WindowPosterior),
    UncertaintyInjection(0.1): (StateSpacePosterior, WindowPosterior),
    Momentum(0.95, 0.5): (TwoComponentPosterior, RegressionPosterior),
    Sigmoid(20.0, 5.0): (TwoComponentPosterior, RegressionPosterior),
}


def test_the_fastest_exact_posterior_is_selected():
    for model, (exact, windowed) in SELECTED.items():
        assert type(make_posterior(FIELD, model)) is exact
        assert type(make_posterior(FIELD, model, 7)) is windowed
        assert type(make_posterior(BOX, model)) is RegressionPosterior
        assert type(make_posterior(BOX, model, 7)) is RegressionPosterior


def held(posterior, arm, n=300):
    """Number of readings that a posterior holds after n of them."""
    for _ in range(n):
        posterior.observe(arm, 0.1)
    return posterior.observations


def test_a_window_limits_the_readings_held():
    for model in SELECTED:
        assert held(make_posterior(FIELD, model, 7), 0, 9) == 7
        assert held(make_posterior(FIELD, model), 0, 9) == 9
        assert held(make_posterior(BOX, model, 7), (0.5,), 9) == 7


def test_boxes_and_fits_have_a_default_window():
    assert held(make_posterior(BOX, Static()), (0.5,)) == DEFAULT_BOX_WINDOW == 256
    fitted = make_fitted_posterior(FIELD, TimeVarying(0.1), None, 0)
    assert type(fitted) is FittedPosterior
    assert held(fitted, 0) == DEFAULT_FIT_WINDOW == 200
    assert held(make_fitted_posterior(BOX, TimeVarying(0.1), 3, 0), (0.5,), 9) == 3


def test_a_window_of_0_readings_is_rejected():
    for field in (FIELD, BOX):
        for model in SELECTED:
            with pytest.raises(ConfigError, match="window is 0"):
                make_posterior(field, model, 0)
        with pytest.raises(ConfigError, match="window is 0"):
            make_fitted_posterior(field, TimeVarying(0.1), 0, 0)


# --- the error of a window ----------------------------------------------------------------------

T = 64
FADING = [TimeVarying(0.1), Momentum(0.9, 0.6)]


def error(model, window, seed):
    """Root mean square error of mean and variance over the arms, after T readings."""
    approximate, exact = make_posterior(FIELD, model, window), make_posterior(FIELD, model)
    rng = np.random.default_rng(seed)
    for _ in range(T):
        arm, y = int(rng.integers(M)), float(rng.normal())
        for posterior in (approximate, exact):
            posterior.advance()
            posterior.observe(arm, y)
    (mean, std), (true_mean, true_std) = approximate.mean_std(), exact.mean_std()
    off = np.array([mean - true_mean, std**2 - true_std**2])
    return np.sqrt((off**2).mean(axis=1))


@pytest.mark.parametrize("model", FADING, ids=repr)
def test_a_wider_window_has_a_smaller_error_down_to_0(model):
    """[M24] section 11.1: covariances beyond the band count as 0."""
    windows = (1, 2, 4, 8, 16, 32, T)
    errors = [np.mean([error(model, w, s) for s in range(20)], axis=0) for w in windows]
    for wide, narrow in zip(errors[1:], errors, strict=False):
        assert (wide < narrow).all()
    assert (errors[0] > 0.1).all()  # otherwise there is no error to reduce
    assert (errors[-2] < 0.02).all()
    assert (errors[-1] < 1e-9).all()


def test_a_window_that_holds_all_readings_is_exact():
    for model in (Static(), UncertaintyInjection(0.1), Sigmoid(20.0, 5.0)):
        assert (error(model, T, 0) < 1e-9).all()
        assert (error(model, 8, 0) > 1e-4).all()


def test_a_window_drops_exactly_the_readings_beyond_it():
    for window in (2, 5):
        posterior = make_posterior(FIELD, TimeVarying(0.1), window)
        twin = NaivePosterior(K, 0.05, temporal("tv", 0.1), window)
        for t in range(20):
            for each in (posterior, twin):
                each.observe(t % M, math.sin(t))
                each.advance()
        (mean, std), (expected, spread) = posterior.mean_std(), twin.mean_std()
        np.testing.assert_allclose(mean, expected, atol=1e-9)
        np.testing.assert_allclose(std**2, spread**2, atol=1e-9)


def test_a_policy_loads_only_the_kernels_of_its_own_posterior():
    script = """
import sys, numpy
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy
for policy in ("tv-gp-ucb", "et-gp-ucb", "r-gp-ucb"):
    make_policy(policy, SensorField(("a", "b"), numpy.eye(2), 0.1))
    print(*sorted(each for each in sys.modules if each.startswith("edge_tvbo.numerics.")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        loaded = {each.rpartition(".")[2] for each in line.split()}
        assert loaded == {"acquisition", "compiled", "jit", "state_space", "types"}


def test_a_box_whose_candidates_are_known_reports_a_missing_scipy_when_it_is_built(monkeypatch):
    """A box that is sent to another machine brings its candidates along."""
    box = BoxField([0.0], [1.0], SpatialKernel(), 0.05, candidates=8, length_scales="fitted")
    assert len(box.positions) == 8
    monkeypatch.setitem(sys.modules, "scipy", None)
    for make in (make_posterior, partial(make_pruned_posterior, alpha=0.5)):
        with pytest.raises(MissingExtra, match="scipy, which is needed for fitted kernels and box"):
            make(box, TimeVarying(0.1), 20)
