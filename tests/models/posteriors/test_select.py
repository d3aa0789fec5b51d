"""Which engine carries a model, and what a window costs in truth."""

import math
import subprocess
import sys

import numpy as np
import pytest
from naive import NaivePosterior, se, temporal

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior, KernelPosterior
from edge_tvbo.models.posteriors.select import FIT_WINDOW, WINDOW, engine, fitted_engine
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.posteriors.two_component import TwoComponentPosterior
from edge_tvbo.models.posteriors.window import WindowPosterior
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import (
    MomentumKernel,
    SigmoidKernel,
    StaticKernel,
    TimeVaryingKernel,
    WienerKernel,
)

M = 6
K = se(np.random.default_rng(0).uniform(0, 1, (M, 2)), 0.4)
FIELD = SensorField([f"n{i}" for i in range(M)], K, 0.05)
BOX = BoxField([0.0], [1.0], SpatialKernel(math.inf, 0.3), 0.05, candidates=8)
KERNELS = {
    StaticKernel(): (StateSpacePosterior, WindowPosterior),
    TimeVaryingKernel(0.1): (StateSpacePosterior, WindowPosterior),
    WienerKernel(0.1): (StateSpacePosterior, WindowPosterior),
    MomentumKernel(0.95, 0.5): (TwoComponentPosterior, KernelPosterior),
    SigmoidKernel(20.0, 5.0): (TwoComponentPosterior, KernelPosterior),
}
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@kernels
def test_the_fastest_exact_engine_is_taken(kernel):
    exact, windowed = KERNELS[kernel]
    assert type(engine(FIELD, kernel)) is exact
    assert type(engine(FIELD, kernel, 7)) is windowed
    assert type(engine(BOX, kernel)) is KernelPosterior
    assert type(engine(BOX, kernel, 7)) is KernelPosterior


def held(posterior, arm, n=300):
    for _ in range(n):
        posterior.observe(arm, 0.1)
    return posterior.observations


@kernels
def test_a_window_is_how_many_readings_are_held(kernel):
    assert held(engine(FIELD, kernel, 7), 0, 9) == 7
    assert held(engine(FIELD, kernel), 0, 9) == 9
    assert held(engine(BOX, kernel, 7), (0.5,), 9) == 7


def test_where_nobody_says_how_many_a_box_and_a_fit_hold_enough():
    assert held(engine(BOX, StaticKernel()), (0.5,)) == WINDOW == 256
    fitted = fitted_engine(FIELD, TimeVaryingKernel(0.1), None, 0)
    assert type(fitted) is FittedPosterior
    assert held(fitted, 0) == FIT_WINDOW == 200
    assert held(fitted_engine(BOX, TimeVaryingKernel(0.1), 3, 0), (0.5,), 9) == 3


@pytest.mark.parametrize("field", [FIELD, BOX], ids=["sensors", "box"])
def test_a_window_of_nothing_is_refused(field):
    for kernel in KERNELS:
        with pytest.raises(ConfigError, match="window"):
            engine(field, kernel, 0)
    with pytest.raises(ConfigError, match="window"):
        fitted_engine(field, TimeVaryingKernel(0.1), 0, 0)


# --- what a window costs ------------------------------------------------------------------------

T = 64
FADING = [TimeVaryingKernel(0.1), MomentumKernel(0.9, 0.6)]


def error(kernel, window, seed):
    """How far mean and variance are off after T readings, root mean square over the arms."""
    approximate, exact = engine(FIELD, kernel, window), engine(FIELD, kernel)
    rng = np.random.default_rng(seed)
    for _ in range(T):
        arm, y = int(rng.integers(M)), float(rng.normal())
        for posterior in (approximate, exact):
            posterior.advance()
            posterior.observe(arm, y)
    (mean, std), (true_mean, true_std) = approximate.mean_std(), exact.mean_std()
    off = np.array([mean - true_mean, std**2 - true_std**2])
    return np.sqrt((off**2).mean(axis=1))


@pytest.mark.parametrize("kernel", FADING, ids=repr)
def test_the_error_of_a_band_falls_as_the_window_grows_and_is_none_when_it_holds_all(kernel):
    """[M24] section 11.1: what lies further back than the band is taken for 0."""
    windows = (1, 2, 4, 8, 16, 32, T)
    errors = [np.mean([error(kernel, w, s) for s in range(20)], axis=0) for w in windows]
    for wide, narrow in zip(errors[1:], errors, strict=False):
        assert (wide < narrow).all()
    assert (errors[0] > 0.1).all()  # else there is nothing to fall
    assert (errors[-2] < 0.02).all()
    assert (errors[-1] < 1e-9).all()


@pytest.mark.parametrize("kernel", [StaticKernel(), WienerKernel(0.1), SigmoidKernel(20.0, 5.0)])
def test_a_window_that_holds_all_is_exact_for_models_that_never_forget_too(kernel):
    assert (error(kernel, T, 0) < 1e-9).all()
    assert (error(kernel, 8, 0) > 1e-4).all()


@pytest.mark.parametrize("window", [2, 5])
def test_a_window_forgets_all_that_lies_beyond_it_and_nothing_else(window):
    posterior = engine(FIELD, TimeVaryingKernel(0.1), window)
    twin = NaivePosterior(K, 0.05, temporal("tv", 0.1), window)
    for t in range(20):
        for each in (posterior, twin):
            each.observe(t % M, math.sin(t))
            each.advance()
    (mean, std), (expected, spread) = posterior.mean_std(), twin.mean_std()
    np.testing.assert_allclose(mean, expected, atol=1e-9)
    np.testing.assert_allclose(std**2, spread**2, atol=1e-9)


@pytest.mark.parametrize("policy", ["tv-gp-ucb", "et-gp-ucb", "r-gp-ucb"])
def test_a_start_loads_the_kernels_of_its_own_engine_alone(policy):
    script = f"""
import sys, numpy
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy
make_policy({policy!r}, SensorField(("a", "b"), numpy.eye(2), 0.1))
print(*sorted(each for each in sys.modules if each.startswith("edge_tvbo.numerics.")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {each.rpartition(".")[2] for each in done.stdout.split()}
    assert loaded == {"acquisition", "compiled", "jit", "state_space"}
