"""W-DBO on a box with fitted parameters: likelihood, predictions, removals and snapshots."""

import math

import numpy as np
import pytest

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.posteriors.fitted_pruned import FIRST_FIT_READINGS, FittedPrunedPosterior
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.policy import make_policy

SPATIAL = SpatialKernel(2.5, (0.5, 1.0))
BOX = BoxField([0.0, 0.0], [1.0, 2.0], SPATIAL, 0.05, candidates=16, length_scales="fitted")
TRUE = {"factor": 0.6, "time_scale": 25.0, "variance": 4.0, "noise": 0.04}


def kernel_of(factor, time_scale, variance, places, times):
    """Return variance · k(x / factor) · exp(-|t - t'| / l_t), (n, n)."""
    space = SpatialKernel(2.5, (0.5 * factor, 1.0 * factor), variance)(places, places)
    return space * np.exp(-abs(times[:, None] - times) / time_scale)


def readings(n, seed=0, level=30.0):
    rng = np.random.default_rng(seed)
    places, times = rng.uniform(0, 1, (n, 2)) * [1.0, 2.0], np.arange(n, dtype=float)
    K = kernel_of(TRUE["factor"], TRUE["time_scale"], TRUE["variance"], places, times)
    y = rng.multivariate_normal(np.zeros(n), K + TRUE["noise"] * np.eye(n)) + level
    return places, times, y


def posterior_of(n, alpha=0.0, seed=0):
    posterior = FittedPrunedPosterior(BOX, TimeVarying(0.3), 256, alpha=alpha)
    places, times, y = readings(n, seed)
    for place, value in zip(places, y, strict=True):
        posterior.observe(tuple(place), float(value))
        posterior.advance()
    return posterior, places, times, y


def log_likelihood(K, noise, y):
    A = K + noise * np.eye(len(y))
    _, log_det = np.linalg.slogdet(A)
    return -0.5 * (y @ np.linalg.solve(A, y) + log_det)


def fitted_numbers(posterior):
    factor, time_scale, variance, noise = np.exp(posterior._logs)
    return factor, time_scale, variance * posterior._level[1] ** 2, noise * posterior._level[1] ** 2


@pytest.mark.slow
def test_fit_is_at_least_as_likely_as_the_parameters_that_drew_the_readings():
    posterior, places, times, y = posterior_of(120)
    factor, time_scale, variance, noise = fitted_numbers(posterior)
    residuals = y - y.mean()
    ours = log_likelihood(kernel_of(factor, time_scale, variance, places, times), noise, residuals)
    truth = kernel_of(TRUE["factor"], TRUE["time_scale"], TRUE["variance"], places, times)
    assert ours > log_likelihood(truth, TRUE["noise"], residuals) - 0.5
    assert 0.3 < factor < 1.2
    assert 8 < time_scale < 80


def test_predictions_are_those_of_the_fitted_model():
    posterior, places, times, y = posterior_of(40)
    factor, time_scale, variance, noise = fitted_numbers(posterior)
    K = kernel_of(factor, time_scale, variance, places, times)
    x = np.array([0.3, 0.7])
    kernel = SpatialKernel(2.5, (0.5 * factor, factor), variance)
    k = kernel(places, x[None])[:, 0] * np.exp(-(40 - times) / time_scale)
    weights = np.linalg.solve(K + noise * np.eye(40), np.column_stack([y - y.mean(), k]))
    found = posterior.at(tuple(x))
    assert found.mean == pytest.approx(y.mean() + k @ weights[:, 0], abs=1e-6)
    assert found.std**2 == pytest.approx(variance - k @ weights[:, 1], abs=1e-6)
    np.testing.assert_allclose(posterior.length_scales, [0.5 * factor, factor])


def test_the_given_parameters_are_used_before_the_first_fit_and_nothing_is_removed():
    posterior, *_ = posterior_of(FIRST_FIT_READINGS - 1, alpha=5.0)
    assert posterior.observations == FIRST_FIT_READINGS - 1
    np.testing.assert_allclose(posterior.length_scales, [0.5, 1.0])
    assert posterior.prior_std((0.1, 0.1)) == 1.0
    fitted, *_ = posterior_of(FIRST_FIT_READINGS, alpha=5.0)
    assert fitted.prior_std((0.1, 0.1)) != 1.0


@pytest.mark.parametrize(("window", "first"), [(2, 2), (14, 14), (15, 15), (16, 15)])
def test_the_first_fit_runs_when_a_small_window_is_full(window, first):
    """With a window below 15, all points were drawn at random for ever."""
    posterior = FittedPrunedPosterior(BOX, TimeVarying(0.3), window, alpha=0.0)
    places, _, y = readings(first)
    for n, (place, value) in enumerate(zip(places, y, strict=True), 1):
        assert posterior.prior_std((0.1, 0.1)) == 1.0
        posterior.observe(tuple(place), float(value))
        posterior.advance()
        assert posterior._fits == (n == first)


def test_points_before_the_first_fit_are_drawn():
    posterior = FittedPrunedPosterior(BOX, TimeVarying(0.3), 256, alpha=0.0)
    eligible = np.arange(16) % 4 == 1
    drawn = {posterior.highest(1.0, eligible, 0, counter).arm for counter in range(50)}
    assert drawn == {BOX.arm(i) for i in (1, 5, 9, 13)}
    assert posterior.highest(1.0, np.zeros(16, np.bool_), 0, 0) is None


@pytest.mark.slow
def test_stale_readings_are_removed_and_more_of_them_with_a_larger_alpha():
    few, *_ = posterior_of(100, alpha=1.0)
    many, *_ = posterior_of(100, alpha=0.1)
    assert few.observations < many.observations < 100


@pytest.mark.parametrize("cut", [5, 20, 33])
def test_restored_anywhere_it_continues_bit_for_bit(cut):
    posterior, *_ = posterior_of(cut, alpha=0.5)
    other, *_ = posterior_of(22, alpha=0.5, seed=1)
    other.restore(posterior.snapshot())
    assert other.snapshot() == posterior.snapshot()
    for each in (posterior, other):
        for t in range(5):
            each.observe((0.1 * t, 0.3), math.sin(t))
            each.advance()
    assert other.snapshot() == posterior.snapshot()
    np.testing.assert_array_equal(other.mean, posterior.mean)


@pytest.mark.parametrize(
    ("key", "value"),
    [("logs", np.full(4, 99.0)), ("level", np.array([0.0, 0.0])), ("fits", -1), ("fresh", "no")],
)
def test_impossible_states_are_rejected(key, value):
    posterior, *_ = posterior_of(20)
    blob = posterior.snapshot()
    state = decode_snapshot(posterior._kind(), None, blob)
    damaged = encode_snapshot(posterior._kind(), BOX.fingerprint(), {**state, key: value})
    with pytest.raises(SnapshotError):
        posterior.restore(damaged)
    assert posterior.snapshot() == blob


@pytest.mark.slow
def test_policy_on_a_box_finds_a_moving_maximum_with_wrong_parameters():
    wrong = SpatialKernel(2.5, 2.0, 0.2)
    regret = {}
    for length_scales in ("given", "fitted"):
        box = BoxField(
            [0.0], [1.0], wrong, 0.5, candidates=32, length_scales=length_scales, scale=2.0
        )
        policy, sums = make_policy("w-dbo", box, epsilon=0.5), 0.0
        for t in range(80):
            (x,) = policy.select().arm
            value = 6.0 * math.exp(-((x - 0.5 - 0.3 * math.sin(t / 15)) ** 2) / 0.02)
            policy.observe((x,), value)
            policy.advance()
            sums += 6.0 - value
        regret[length_scales] = sums / 80
    assert regret["fitted"] < 0.7 * regret["given"]
