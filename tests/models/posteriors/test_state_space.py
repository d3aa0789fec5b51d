"""State-space and window posteriors against their slow twin, over random histories.

A history is a list of operations: ``("observe", arm, y)``, ``("advance",)``, ``("reset",)`` and
``("reload",)``, which continues with a new posterior restored from a snapshot. The twin
(``tests/naive.py``) takes the same list and ignores reloads. Variances are compared instead of
standard deviations, because a square root near 0 magnifies rounding.
"""

import os
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import NaivePosterior, se, temporal
from numpy.testing import assert_allclose

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.posteriors.window import WindowPosterior
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")

MODELS = {"static": lambda _: Static(), "tv": TimeVarying, "ui": UncertaintyInjection}


@dataclass(frozen=True)
class Case:
    """A field, a temporal model and perhaps a window: enough to make a posterior and its twin."""

    K: np.ndarray
    noise_variance: float
    kind: str
    parameter: float = 0.0
    window: int | None = None

    def posterior(self):
        names = tuple(f"n{i}" for i in range(len(self.K)))
        field = SensorField(sensors=names, kernel=self.K, noise_variance=self.noise_variance)
        transition = MODELS[self.kind](self.parameter).transition()
        if self.window is None:
            return StateSpacePosterior(field, transition)
        return WindowPosterior(field, transition, self.window)

    def twin(self):
        d = temporal(self.kind, self.parameter)
        return NaivePosterior(self.K, self.noise_variance, d, self.window)


# --- strategies ---------------------------------------------------------------------------------


def kernel(kind, M, rng):
    """Prior covariance of M arms; all kinds but the identity are close to singular."""
    if kind == "identity":
        return np.eye(M)
    if kind == "rank one":
        v = rng.uniform(-1.0, 1.0, M)
        return np.outer(v, v) + 1e-6 * np.eye(M)
    X = rng.uniform(0.0, 1.0, (M, 1 if kind == "se on a line" else 2))
    if kind == "se with repeats":
        X = X[rng.integers(0, (M + 1) // 2, M)]
    return se(X, 50.0 if kind == "se, very smooth" else rng.uniform(0.05, 1.0))


KERNELS = [
    "identity",
    "rank one",
    "se on a line",
    "se in the plane",
    "se with repeats",
    "se, very smooth",
]
SEEDS = st.integers(0, 2**32 - 1)
TEMPORAL_MODELS = st.one_of(
    st.just(("static", 0.0)),
    st.tuples(st.just("tv"), st.sampled_from([0.0, 0.001, 0.03, 0.3, 1.0]) | st.floats(0, 1)),
    st.tuples(st.just("ui"), st.sampled_from([0.0, 0.001, 0.03, 0.1]) | st.floats(0, 0.1)),
)


@st.composite
def cases(draw, *, windowed):
    M = draw(st.integers(1, 12))
    K = kernel(draw(st.sampled_from(KERNELS)), M, np.random.default_rng(draw(SEEDS)))
    noise_variance = 10.0 ** draw(st.floats(-3, 0))
    kind, parameter = draw(TEMPORAL_MODELS)
    window = draw(st.integers(1, 40)) if windowed else None
    return Case(K, noise_variance, kind, parameter, window)


def random_history(M, length, rng):
    """Operations in the proportions of a busy network: 6 readings to 3 intervals, few resets."""
    kinds = rng.choice(
        ["observe", "advance", "reset", "reload"], size=length, p=[0.63, 0.32, 0.01, 0.04]
    )
    return [
        ("observe", int(rng.integers(M)), float(rng.normal(0.0, 2.0)))
        if kind == "observe"
        else (str(kind),)
        for kind in kinds
    ]


@st.composite
def short_runs(draw, *, windowed):
    """Draw a case and at most 40 operations one by one, which shrink to a readable few."""
    case = draw(cases(windowed=windowed))
    arms = st.integers(0, len(case.K) - 1)
    observe = st.tuples(st.just("observe"), arms, st.floats(-5, 5))
    others = st.sampled_from([("advance",), ("advance",), ("reset",), ("reload",)])
    return case, draw(st.lists(observe | others, max_size=40))


@st.composite
def long_runs(draw, *, windowed):
    """Draw a case and a seed, from which up to 300 operations follow."""
    case = draw(cases(windowed=windowed))
    rng = np.random.default_rng(draw(SEEDS))
    return case, random_history(len(case.K), draw(st.integers(0, 300)), rng)


def runs(*, windowed):
    return short_runs(windowed=windowed) | long_runs(windowed=windowed)


ANY_RUN = runs(windowed=False) | runs(windowed=True)


# --- running a history --------------------------------------------------------------------------


def apply(case, posterior, operation):
    """Carry one operation out; return the posterior to continue with."""
    match operation:
        case ("observe", arm, y):
            posterior.observe(arm, y)
        case ("advance",):
            posterior.advance()
        case ("reset",):
            posterior.reset()
        case ("reload",):
            return restored(case, posterior.snapshot())
    return posterior


def restored(case, blob):
    posterior = case.posterior()
    posterior.restore(blob)
    return posterior


def assert_same(posterior, twin):
    mean, std = posterior.mean_std()
    naive_mean, naive_std = twin.mean_std()
    assert mean.dtype == std.dtype == np.float64
    assert_allclose(mean, naive_mean, **TOLERANCE)
    assert_allclose(std**2, naive_std**2, **TOLERANCE)


def assert_equals_twin(case, history):
    posterior, twin = case.posterior(), case.twin()
    checked = {len(history) // 4, len(history) // 2, 3 * len(history) // 4}
    for i, operation in enumerate(history):
        if i in checked:
            assert_same(posterior, twin)
        posterior = apply(case, posterior, operation)
        if operation != ("reload",):
            apply(case, twin, operation)
    assert_same(posterior, twin)


def prediction(posterior):
    """Copy of mean and standard deviation as one array."""
    return np.array(posterior.mean_std())


# --- agreement ----------------------------------------------------------------------------------


@given(runs(windowed=False))
def test_state_space_posterior_equals_product_kernel_formula(run):
    assert_equals_twin(*run)


@given(runs(windowed=True))
def test_window_posterior_equals_formula_over_last_readings(run):
    assert_equals_twin(*run)


@given(long_runs(windowed=False))
def test_window_that_holds_all_readings_equals_state_space(run):
    case, history = run
    wide = Case(case.K, case.noise_variance, case.kind, case.parameter, window=301)
    exact, windowed = case.posterior(), wide.posterior()
    for operation in history:
        exact, windowed = apply(case, exact, operation), apply(wide, windowed, operation)
    (mean, std), (wide_mean, wide_std) = exact.mean_std(), windowed.mean_std()
    assert_allclose(mean, wide_mean, **TOLERANCE)
    assert_allclose(std**2, wide_std**2, **TOLERANCE)


def test_without_readings_the_posterior_is_the_prior():
    for kind in MODELS:
        for window in (None, 1, 3):
            case = Case(se([[0.0], [0.3], [0.3]], 0.5), 0.01, kind, 0.05, window)
            posterior, twin = case.posterior(), case.twin()
            for _ in range(5):
                assert_same(posterior, twin)
                posterior.advance()
                twin.advance()


# --- snapshots ----------------------------------------------------------------------------------


@given(ANY_RUN, st.data())
def test_restored_posterior_continues_bit_for_bit(run, data):
    case, history = run
    history = [operation for operation in history if operation != ("reload",)]
    cut = data.draw(st.integers(0, len(history)), label="cut")
    posterior = case.posterior()
    for operation in history[:cut]:
        apply(case, posterior, operation)
    other = restored(case, posterior.snapshot())
    assert np.array_equal(prediction(other), prediction(posterior))
    for operation in history[cut:]:
        apply(case, posterior, operation)
        apply(case, other, operation)
        assert np.array_equal(prediction(other), prediction(posterior))


@given(ANY_RUN, st.data())
def test_taking_a_snapshot_changes_neither_posterior_nor_bytes(run, data):
    case, history = run
    cut = data.draw(st.integers(0, len(history)), label="cut")
    posterior, unsaved = case.posterior(), case.posterior()
    for operation in history[:cut]:
        posterior, unsaved = apply(case, posterior, operation), apply(case, unsaved, operation)
    blob, then = posterior.snapshot(), prediction(posterior)
    assert isinstance(blob, bytes)
    for operation in history[cut:]:
        posterior, unsaved = apply(case, posterior, operation), apply(case, unsaved, operation)
    assert np.array_equal(prediction(posterior), prediction(unsaved))
    assert np.array_equal(prediction(restored(case, blob)), then)


# --- side effects -------------------------------------------------------------------------------


@given(ANY_RUN)
def test_the_kernel_passed_in_is_not_modified(run):
    case, history = run
    before = case.K.copy()
    posterior = case.posterior()
    for operation in history:
        posterior = apply(case, posterior, operation)
    posterior.mean_std()
    assert np.array_equal(case.K, before)


@given(ANY_RUN)
def test_reading_the_prediction_changes_nothing(run):
    case, history = run
    read, unread = case.posterior(), case.posterior()
    for operation in history:
        read, unread = apply(case, read, operation), apply(case, unread, operation)
        assert np.array_equal(prediction(read), prediction(read))
    assert np.array_equal(prediction(read), prediction(unread))


# --- long runs ----------------------------------------------------------------------------------

M_LONG = 8
INTERPRETED_STEPS = 10_000  # where the kernels are not compiled


def long_readings(K, noise_variance, steps):
    """Arms drawn uniformly, and noisy readings of one field drawn from the prior."""
    rng = np.random.default_rng(20240301)
    f = np.linalg.cholesky(K + 1e-12 * np.eye(len(K))) @ rng.standard_normal(len(K))
    arms = rng.integers(len(K), size=steps)
    y = f[arms] + np.sqrt(noise_variance) * rng.standard_normal(steps)
    return arms, y


def kernel_of_long_runs():
    return se(np.random.default_rng(8).uniform(0.0, 1.0, (M_LONG, 2)), 0.3)


def assert_is_covariance(C):
    assert C.shape == (M_LONG, M_LONG)
    assert np.array_equal(C, C.T)
    assert np.all(np.diag(C) >= 0.0)


def test_after_a_million_intervals_tv_equals_the_formula():
    """At ε = 0.05 the weight of a reading 2000 intervals old is 0.95¹⁰⁰⁰ ≈ 5e-23: left out here."""
    steps = 10**6 if COMPILED else INTERPRETED_STEPS
    case = Case(kernel_of_long_runs(), 0.02, "tv", 0.05)
    arms, y = long_readings(case.K, case.noise_variance, steps)
    posterior, twin = case.posterior(), case.twin()
    for arm, value in zip(arms.tolist(), y.tolist(), strict=True):
        posterior.observe(arm, value)
        posterior.advance()
    for arm, value in zip(arms[-2000:].tolist(), y[-2000:].tolist(), strict=True):
        twin.observe(arm, value)
        twin.advance()
    assert_same(posterior, twin)
    assert_is_covariance(posterior.covariance)


def test_after_a_million_readings_static_equals_the_formula():
    """The mean of n readings of one arm is equivalent to one reading with noise σ²/n.

    All arms are read, so the posterior covariance is K - K(K + N)⁻¹K = K(K + N)⁻¹N with
    N = diag(σ²/n); the last form has no difference that would lose digits.
    """
    steps = 10**6 if COMPILED else INTERPRETED_STEPS
    case = Case(kernel_of_long_runs(), 0.02, "static")
    arms, y = long_readings(case.K, case.noise_variance, steps)
    posterior = case.posterior()
    for arm, value in zip(arms.tolist(), y.tolist(), strict=True):
        posterior.observe(arm, value)
        posterior.advance()
    n = np.bincount(arms, minlength=M_LONG)
    average = np.bincount(arms, weights=y, minlength=M_LONG) / n
    N = np.diag(case.noise_variance / n)
    covariance = np.linalg.solve(case.K + N, case.K).T @ N
    mean, std = posterior.mean_std()
    assert_allclose(mean, case.K @ np.linalg.solve(case.K + N, average), **TOLERANCE)
    assert_allclose(std**2, np.diag(covariance), **TOLERANCE)
    assert_allclose(std**2, np.diag(covariance), rtol=1e-6)  # the variances are near 1e-7 by now
    assert_is_covariance(posterior.covariance)


@pytest.mark.parametrize(("kind", "parameter"), [("static", 0.0), ("tv", 0.03), ("ui", 1e-4)])
def test_after_100_000_readings_the_window_equals_the_formula(kind, parameter):
    steps = 10**5 if COMPILED else INTERPRETED_STEPS
    case = Case(kernel_of_long_runs(), 0.02, kind, parameter, window=16)
    arms, y = long_readings(case.K, case.noise_variance, steps)
    posterior, twin = case.posterior(), case.twin()
    for i, (arm, value) in enumerate(zip(arms.tolist(), y.tolist(), strict=True)):
        posterior.observe(arm, value)
        posterior.advance()
        twin.observe(arm, value)
        twin.advance()
        if i % (steps // 10) == 0:
            assert_same(posterior, twin)
    assert_same(posterior, twin)
