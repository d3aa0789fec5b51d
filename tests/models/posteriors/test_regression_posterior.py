"""Regression posteriors against their slow twins: for sensors, in boxes, weighted and fitted."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.closeness import assert_close
from support.examples import max_examples
from support.naive import NaivePosterior, se, temporal

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.posteriors import regression_posterior
from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior, RegressionPosterior
from edge_tvbo.models.posteriors.two_component import TwoComponentPosterior
from edge_tvbo.models.posteriors.weighted import WeightedPosterior
from edge_tvbo.models.regression import JITTER
from edge_tvbo.models.sigmoid import Sigmoid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
M = 5
K = 1.7 * se(np.random.default_rng(0).uniform(0, 1, (M, 2)), 0.5)
FIELD = SensorField([f"n{i}" for i in range(M)], K, 0.05)
BOX = BoxField([-1.0, 0.0], [1.0, 4.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16)
ALL = np.ones(16, np.bool_)

READING = st.tuples(st.integers(0, M - 1), st.floats(-5, 5))
HISTORIES = st.lists(READING | st.sampled_from(["advance", "advance", "reset"]), max_size=40)


def apply(posterior, history):
    for step in history:
        match step:
            case "advance":
                posterior.advance()
            case "reset":
                posterior.reset()
            case arm, y:
                posterior.observe(arm, y)
    return posterior


def assert_equal(posterior, other, **tolerance):
    (mean, std), (expected, spread) = posterior.mean_std(), other.mean_std()
    assert_close(mean, expected, **(tolerance or CLOSE))
    assert_close(std**2, spread**2, **(tolerance or CLOSE))


# --- sensors ------------------------------------------------------------------------------------

TWINS = [
    (Static(), temporal("static")),
    (TimeVarying(0.0), temporal("tv", 0.0)),
    (TimeVarying(0.1), temporal("tv", 0.1)),
    (TimeVarying(1.0), temporal("tv", 1.0)),
    (UncertaintyInjection(0.2), temporal("ui", 0.2)),
]


@pytest.mark.parametrize(("model", "d"), TWINS, ids=[repr(model) for model, _ in TWINS])
@given(history=HISTORIES, window=st.sampled_from([1, 3, 64]))
@max_examples(40)
def test_posterior_equals_the_textbook_formula(model, d, history, window):
    posterior = apply(RegressionPosterior(FIELD, model, window), history)
    twin = apply(NaivePosterior(K, 0.05, d, window), history)
    used = twin.history[-window:]
    twin.noise_variance += JITTER * max((K[a, a] * d(t, t) for t, a, _ in used), default=0.0)
    assert_equal(posterior, twin, rtol=1e-9, atol=1e-9)
    assert posterior.observations == min(len(twin.history), window)
    for arm in range(M):
        prediction = posterior.at(arm)
        assert prediction.arm == arm
        assert prediction.mean == pytest.approx(posterior.mean[arm], abs=1e-12)
        assert prediction.std**2 == pytest.approx(posterior.variance[arm], abs=1e-12)
        prior = K[arm, arm] * d(twin.time, twin.time)
        assert posterior.prior_std(arm) == pytest.approx(math.sqrt(prior), rel=1e-12)


TWO_COMPONENT_MODELS = [Momentum(0.9, 0.6), Momentum(0.9, 0.9), Sigmoid(6.0, 2.0)]


@pytest.mark.parametrize("model", TWO_COMPONENT_MODELS, ids=repr)
@given(history=HISTORIES)
@max_examples(40)
def test_posterior_equals_the_two_component_posterior(model, history):
    history = [step for step in history if step != "reset"]
    posterior = apply(RegressionPosterior(FIELD, model, 64), history)
    other = apply(TwoComponentPosterior(FIELD, model.transition()), history)
    assert_equal(posterior, other, rtol=1e-7, atol=1e-7)  # jitter / noise
    for arm in range(M):
        assert posterior.prior_std(arm) == pytest.approx(other.prior_std(arm), rel=1e-12)


def by_regression(window, gamma):
    return RegressionPosterior(FIELD, Static(), window, gamma=gamma)


def compiled(window, gamma):
    return WeightedPosterior(FIELD, window, gamma)


weighted = pytest.mark.parametrize("make", [by_regression, compiled])


@weighted
@given(history=HISTORIES, gamma=st.sampled_from([0.3, 0.9, 1.0]))
@max_examples(60)
def test_noise_of_a_weighted_reading_grows_with_age(make, history, gamma):
    posterior = make(64, gamma)
    plain = NaivePosterior(K, 0.05, temporal("static"))
    apply(posterior, history)
    apply(plain, history)
    arms = [arm for _, arm, _ in plain.history]
    y = np.array([y for *_, y in plain.history])
    noise = [0.05 * gamma ** -(plain.time - time) for time, *_ in plain.history]
    A = K[np.ix_(arms, arms)] + np.diag(noise)
    k = K[arms, :]
    mean = k.T @ np.linalg.solve(A, y) if arms else np.zeros(M)
    variance = np.diag(K) - (np.sum(k * np.linalg.solve(A, k), axis=0) if arms else 0.0)
    assert_allclose(posterior.mean, mean, rtol=1e-7, atol=1e-7)  # jitter / noise
    assert_allclose(posterior.variance, variance, rtol=1e-7, atol=1e-7)


@given(history=HISTORIES, window=st.sampled_from([1, 3, 64]))
@max_examples(40)
def test_compiled_weighted_posterior_equals_regression(history, window):
    plain, other = by_regression(window, 0.7), compiled(window, 0.7)
    for posterior in (plain, other):
        apply(posterior, history)
    assert_equal(other, plain, rtol=1e-7, atol=1e-7)  # jitter / noise
    assert other.observations == plain.observations


@weighted
def test_a_very_old_weighted_reading_has_no_influence(make):
    posterior = make(8, 0.5)
    posterior.observe(2, 3.0)
    for _ in range(1100):  # 2^1100 overflows a float
        posterior.advance()
    assert_allclose(posterior.mean, 0.0, atol=1e-9)
    assert_allclose(posterior.variance, np.diag(K), rtol=1e-9)


@weighted
def test_window_or_gamma_out_of_range_is_rejected(make):
    for wrong in (
        {"window": 0},
        {"window": -1},
        {"gamma": 0.0},
        {"gamma": 1.1},
        {"gamma": math.nan},
    ):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            make(**{"window": 4, "gamma": 1.0, **wrong})


# --- boxes --------------------------------------------------------------------------------------


def in_box(seed, n=8, window=64):
    rng = np.random.default_rng(seed)
    posterior = RegressionPosterior(BOX, TimeVarying(0.1), window)
    readings = []
    for t in range(n):
        arm = tuple(float(x) for x in rng.uniform(BOX.lower, BOX.upper))
        y = float(rng.normal())
        posterior.observe(arm, y)
        posterior.advance()
        readings.append((t, arm, y))
    return posterior, readings, rng


def formula(readings, now, arm, epsilon=0.1):
    """[B16] eq. 7-8 with covariance 2 exp(-r²/(2·0.6²)) (1-ε)^(lag/2), written out."""

    def k(a, s, b, t):
        squared = sum((p - q) ** 2 for p, q in zip(a, b, strict=True))
        return 2.0 * math.exp(-squared / (2 * 0.6**2)) * (1 - epsilon) ** (abs(s - t) / 2)

    A = np.array([[k(a, s, b, t) for t, b, _ in readings] for s, a, _ in readings])
    A += (0.05 + 2.0 * JITTER) * np.eye(len(readings))
    c = np.array([k(a, s, arm, now) for s, a, _ in readings])
    y = np.array([y for *_, y in readings])
    return c @ np.linalg.solve(A, y), 2.0 - c @ np.linalg.solve(A, c)


def test_predictions_in_a_box_equal_the_formula():
    for seed in range(10):
        posterior, readings, rng = in_box(seed)
        for place in [*rng.uniform(BOX.lower, BOX.upper, (5, 2)), BOX.lower, BOX.upper]:
            arm = tuple(float(x) for x in place)
            mean, variance = formula(readings, len(readings), arm)
            prediction = posterior.at(arm)
            assert prediction.arm == arm
            assert prediction.mean == pytest.approx(mean, rel=1e-9, abs=1e-9)
            assert prediction.std**2 == pytest.approx(variance, rel=1e-9, abs=1e-9)
            assert posterior.prior_std(arm) == pytest.approx(math.sqrt(2.0))
        means = [formula(readings, len(readings), BOX.arm(i))[0] for i in range(16)]
        assert_allclose(posterior.mean, means, **CLOSE)


@given(seed=st.integers(0, 10**6), n=st.integers(0, 10), width=st.sampled_from([0.0, 0.5, 3.0]))
@max_examples(30)
def test_the_search_is_never_worse_than_the_best_candidate(seed, n, width):
    posterior, _, _ = in_box(seed, n)
    best = posterior.highest(width, ALL, 0, 0)
    candidates = posterior.mean + width * np.sqrt(posterior.variance)
    assert best.mean + width * best.std >= candidates.max() - 1e-12
    assert BOX.contains(np.array([best.arm]))
    assert best == posterior.at(best.arm)


def test_the_search_finds_higher_bounds_between_candidates():
    found, candidates, dense = [], [], []
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 21), np.linspace(0, 4, 41)), -1).reshape(-1, 2)
    for seed in range(8):
        posterior, _, _ = in_box(seed)
        best = posterior.highest(1.0, ALL, 0, 0)
        found.append(best.mean + best.std)
        candidates.append((posterior.mean + np.sqrt(posterior.variance)).max())
        dense.append(max(b.mean + b.std for b in map(posterior.at, map(tuple, grid))))
    gap = np.array(dense) - candidates
    assert gap.mean() > 0.02  # otherwise there is nothing to find
    assert (np.array(dense) - found).mean() < 0.25 * gap.mean()


def test_with_ineligible_candidates_the_box_is_not_searched():
    posterior, _, _ = in_box(3)
    scores = posterior.mean + 2.0 * np.sqrt(posterior.variance)
    eligible = np.arange(16) % 2 == 0
    best = posterior.highest(2.0, eligible, 0, 0)
    assert best.arm == BOX.arm(int(np.where(eligible, scores, -np.inf).argmax()))
    assert posterior.highest(2.0, ~ALL, 0, 0) is None


# --- fits ---------------------------------------------------------------------------------------


def fitted(**more):
    return FittedPosterior(FIELD, TimeVarying(0.03), 40, **more)


def unrelated_readings(n=12, seed=0):
    rng = np.random.default_rng(seed)
    return [(int(rng.integers(M)), float(rng.normal(0, 2))) for _ in range(n)]


def test_unrelated_readings_raise_the_fitted_rate_of_change():
    restless, steady = fitted(), fitted()
    for arm, y in unrelated_readings():
        apply(restless, [(arm, y), "advance"])
        apply(steady, [(2, 1.0), "advance"])
    assert restless.temporal.epsilon > 0.2
    assert steady.temporal.epsilon < 0.01


def test_between_fits_the_last_fitted_model_is_used():
    posterior = fitted()
    history = [step for reading in unrelated_readings() for step in (reading, "advance")]
    for step in history:
        apply(posterior, [step]).mean_std()  # computed with the model before a fit, too
    assert_equal(posterior, apply(RegressionPosterior(FIELD, posterior.temporal, 40), history))


def test_each_interval_with_readings_has_one_fit_to_all_of_them(monkeypatch):
    calls = []

    def recorded(start, K, times, y, noise_variance, *, restarts, rng):
        calls.append((times.tolist(), y.tolist(), noise_variance, restarts))
        assert_allclose(K, FIELD.kernel[np.ix_([1] * len(y), [1] * len(y))])
        return start

    monkeypatch.setattr(regression_posterior, "fit_temporal_model", recorded)
    posterior = fitted(restarts=3)
    apply(posterior, ["advance", (1, 0.5), (1, 0.6), "advance", "advance", (1, 0.7), "advance"])
    assert calls == [([1, 1], [0.5, 0.6], 0.05, 2), ([1, 1, 3], [0.5, 0.6, 0.7], 0.05, 2)]


def test_a_fit_has_200_over_n_starts_and_at_least_one(monkeypatch):
    """[M24] algorithm 3: min(10, 200/t) starts, one of them warm."""
    seen = []

    def recorded(start, *_, restarts, rng):
        seen.append(restarts)
        return start

    monkeypatch.setattr(regression_posterior, "fit_temporal_model", recorded)
    for n in (20, 40, 100, 101, 201):
        posterior = FittedPosterior(FIELD, TimeVarying(0.03), 300)
        posterior.observations = n  # readings of 0, all of arm 0
        posterior._fresh = True
        posterior.advance()
    assert seen == [9, 4, 1, 0, 0]


def test_after_a_reset_there_is_nothing_to_fit():
    posterior = apply(fitted(), [(1, 0.5), "reset", "advance"])
    assert posterior.temporal == TimeVarying(0.03)


def test_a_snapshot_holds_the_fit_and_whether_one_is_due():
    for cut in range(2, 9):
        history = [step for reading in unrelated_readings() for step in (reading, "advance")]
        posterior, other = apply(fitted(), history[:cut]), apply(fitted(), [(0, 3.0), "advance"])
        other.restore(posterior.snapshot())
        assert other.snapshot() == posterior.snapshot()
        assert other.temporal == posterior.temporal
        apply(posterior, history[cut:10])
        apply(other, history[cut:10])
        assert other.snapshot() == posterior.snapshot()
        assert np.array_equal(other.mean_std(), posterior.mean_std())


def test_a_snapshot_of_another_search_is_rejected():
    posterior = apply(fitted(), [(1, 0.5), "advance"])
    before = posterior.snapshot()
    for other in (fitted(seed=1), fitted(restarts=2)):
        with pytest.raises(SnapshotError, match="is of"):
            posterior.restore(other.snapshot())
        assert posterior.snapshot() == before
