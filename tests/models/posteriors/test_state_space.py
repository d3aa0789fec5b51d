"""The fast posteriors against their slow twin, over histories nobody chose.

A history is a list of operations: ``("observe", arm, y)``, ``("advance",)``, ``("reset",)`` and
``("reload",)``, which saves the engine and goes on with a new one restored from the bytes. The
twin (``tests/naive.py``) takes the same list and has no use for a reload. Variances are compared,
not deviations: a square root near 0 would blow rounding up.
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
from edge_tvbo.models.transitions import Static, TimeVarying, UncertaintyInjection

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")  # else a long run is shortened

MODELS = {"static": lambda _: Static(), "tv": TimeVarying, "ui": UncertaintyInjection}


@dataclass(frozen=True)
class Case:
    """A field, a model of its change and perhaps a window: all an engine or a twin is made of."""

    K: np.ndarray
    noise_variance: float
    kind: str
    parameter: float = 0.0
    window: int | None = None

    def engine(self):
        names = tuple(f"n{i}" for i in range(len(self.K)))
        field = SensorField(sensors=names, kernel=self.K, noise_variance=self.noise_variance)
        change = MODELS[self.kind](self.parameter)
        if self.window is None:
            return StateSpacePosterior(field, change)
        return WindowPosterior(field, change, self.window)

    def twin(self):
        d = temporal(self.kind, self.parameter)
        return NaivePosterior(self.K, self.noise_variance, d, self.window)


# --- what histories are made of -----------------------------------------------------------------


def kernel(kind, M, rng):
    """Prior covariance of M arms; all but the identity and wide spacings are close to singular."""
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
CHANGES = st.one_of(
    st.just(("static", 0.0)),
    st.tuples(st.just("tv"), st.sampled_from([0.0, 0.001, 0.03, 0.3, 1.0]) | st.floats(0, 1)),
    st.tuples(st.just("ui"), st.sampled_from([0.0, 0.001, 0.03, 0.1]) | st.floats(0, 0.1)),
)


@st.composite
def cases(draw, *, windowed):
    M = draw(st.integers(1, 12))
    K = kernel(draw(st.sampled_from(KERNELS)), M, np.random.default_rng(draw(SEEDS)))
    noise_variance = 10.0 ** draw(st.floats(-3, 0))
    kind, parameter = draw(CHANGES)
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
    """Draw a case and at most 40 operations, one by one: these shrink to a readable few."""
    case = draw(cases(windowed=windowed))
    arms = st.integers(0, len(case.K) - 1)
    observe = st.tuples(st.just("observe"), arms, st.floats(-5, 5))
    others = st.sampled_from([("advance",), ("advance",), ("reset",), ("reload",)])
    return case, draw(st.lists(observe | others, max_size=40))


@st.composite
def long_runs(draw, *, windowed):
    """Draw a case, a seed and from it up to 300 operations, which cost nothing to draw."""
    case = draw(cases(windowed=windowed))
    rng = np.random.default_rng(draw(SEEDS))
    return case, random_history(len(case.K), draw(st.integers(0, 300)), rng)


def runs(*, windowed):
    return short_runs(windowed=windowed) | long_runs(windowed=windowed)


ANY_RUN = runs(windowed=False) | runs(windowed=True)


# --- how they are told --------------------------------------------------------------------------


def tell(case, engine, operation):
    """Carry one operation out; return the engine that goes on from there."""
    match operation:
        case ("observe", arm, y):
            engine.observe(arm, y)
        case ("advance",):
            engine.advance()
        case ("reset",):
            engine.reset()
        case ("reload",):
            return restored(case, engine.snapshot())
    return engine


def restored(case, blob):
    engine = case.engine()
    engine.restore(blob)
    return engine


def assert_same(engine, twin):
    mean, std = engine.mean_std()
    plain_mean, plain_std = twin.mean_std()
    assert mean.dtype == std.dtype == np.float64
    assert_allclose(mean, plain_mean, **TOLERANCE)
    assert_allclose(std**2, plain_std**2, **TOLERANCE)


def assert_follows_its_twin(case, history):
    engine, twin = case.engine(), case.twin()
    looks = {len(history) // 4, len(history) // 2, 3 * len(history) // 4}
    for i, operation in enumerate(history):
        if i in looks:
            assert_same(engine, twin)
        engine = tell(case, engine, operation)
        if operation != ("reload",):
            tell(case, twin, operation)
    assert_same(engine, twin)


def answer(engine):
    """Mean and deviation as one array of its own."""
    return np.array(engine.mean_std())


# --- agreement ----------------------------------------------------------------------------------


@given(runs(windowed=False))
def test_the_state_space_engine_equals_the_product_kernel_formula(run):
    assert_follows_its_twin(*run)


@given(runs(windowed=True))
def test_the_window_engine_equals_the_formula_over_the_last_observations(run):
    assert_follows_its_twin(*run)


@given(long_runs(windowed=False))
def test_the_two_engines_agree_while_the_window_holds_everything(run):
    case, history = run
    wide = Case(case.K, case.noise_variance, case.kind, case.parameter, window=301)
    engine, buffer = case.engine(), wide.engine()
    for operation in history:
        engine, buffer = tell(case, engine, operation), tell(wide, buffer, operation)
    (mean, std), (wide_mean, wide_std) = engine.mean_std(), buffer.mean_std()
    assert_allclose(mean, wide_mean, **TOLERANCE)
    assert_allclose(std**2, wide_std**2, **TOLERANCE)


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("kind", list(MODELS))
def test_before_any_observation_it_answers_with_the_prior(kind, window):
    case = Case(se([[0.0], [0.3], [0.3]], 0.5), 0.01, kind, 0.05, window)
    engine, twin = case.engine(), case.twin()
    for _ in range(5):
        assert_same(engine, twin)
        engine.advance()
        twin.advance()


# --- saving and loading -------------------------------------------------------------------------


@given(ANY_RUN, st.data())
def test_saved_and_loaded_anywhere_it_goes_on_bit_for_bit(run, data):
    case, history = run
    history = [operation for operation in history if operation != ("reload",)]
    cut = data.draw(st.integers(0, len(history)), label="cut")
    engine = case.engine()
    for operation in history[:cut]:
        tell(case, engine, operation)
    other = restored(case, engine.snapshot())
    assert np.array_equal(answer(other), answer(engine))
    for operation in history[cut:]:
        tell(case, engine, operation)
        tell(case, other, operation)
        assert np.array_equal(answer(other), answer(engine))


@given(ANY_RUN, st.data())
def test_taking_a_snapshot_changes_nothing_and_the_bytes_stay_what_they_were(run, data):
    case, history = run
    cut = data.draw(st.integers(0, len(history)), label="cut")
    engine, unsaved = case.engine(), case.engine()
    for operation in history[:cut]:
        engine, unsaved = tell(case, engine, operation), tell(case, unsaved, operation)
    blob, then = engine.snapshot(), answer(engine)
    assert isinstance(blob, bytes)
    for operation in history[cut:]:
        engine, unsaved = tell(case, engine, operation), tell(case, unsaved, operation)
    assert np.array_equal(answer(engine), answer(unsaved))
    assert np.array_equal(answer(restored(case, blob)), then)


# --- manners ------------------------------------------------------------------------------------


@given(ANY_RUN)
def test_the_kernel_it_was_given_stays_untouched(run):
    case, history = run
    before = case.K.copy()
    engine = case.engine()
    for operation in history:
        engine = tell(case, engine, operation)
    engine.mean_std()
    assert np.array_equal(case.K, before)


@given(ANY_RUN)
def test_asking_twice_gives_the_same_answer_and_asking_changes_nothing(run):
    case, history = run
    asked, silent = case.engine(), case.engine()
    for operation in history:
        asked, silent = tell(case, asked, operation), tell(case, silent, operation)
        assert np.array_equal(answer(asked), answer(asked))
    assert np.array_equal(answer(asked), answer(silent))


# --- long runs ----------------------------------------------------------------------------------

M_LONG = 8
PLAIN_STEPS = 10_000  # without numba


def long_readings(K, noise_variance, steps):
    """Arms drawn evenly and readings of one field drawn from the prior, with noise."""
    rng = np.random.default_rng(20240301)
    f = np.linalg.cholesky(K + 1e-12 * np.eye(len(K))) @ rng.standard_normal(len(K))
    arms = rng.integers(len(K), size=steps)
    y = f[arms] + np.sqrt(noise_variance) * rng.standard_normal(steps)
    return arms, y


def field_of_the_long_runs():
    return se(np.random.default_rng(8).uniform(0.0, 1.0, (M_LONG, 2)), 0.3)


def assert_a_covariance(C):
    assert C.shape == (M_LONG, M_LONG)
    assert np.array_equal(C, C.T)
    assert np.all(np.diag(C) >= 0.0)


def test_after_a_million_intervals_tv_still_equals_the_formula():
    """At ε = 0.05 what lies 2000 intervals back weighs 0.95¹⁰⁰⁰ ≈ 5e-23 and may be left out."""
    steps = 10**6 if COMPILED else PLAIN_STEPS
    case = Case(field_of_the_long_runs(), 0.02, "tv", 0.05)
    arms, y = long_readings(case.K, case.noise_variance, steps)
    engine, twin = case.engine(), case.twin()
    for arm, value in zip(arms.tolist(), y.tolist(), strict=True):
        engine.observe(arm, value)
        engine.advance()
    for arm, value in zip(arms[-2000:].tolist(), y[-2000:].tolist(), strict=True):
        twin.observe(arm, value)
        twin.advance()
    assert_same(engine, twin)
    assert_a_covariance(engine.covariance)


def test_after_a_million_readings_static_still_equals_the_formula():
    """Readings of one arm may be averaged: n of them are one with noise σ²/n.

    All arms are read, so the posterior covariance is K - K(K + N)⁻¹K = K(K + N)⁻¹N with
    N = diag(σ²/n), and the last form has no difference in it that would lose digits.
    """
    steps = 10**6 if COMPILED else PLAIN_STEPS
    case = Case(field_of_the_long_runs(), 0.02, "static")
    arms, y = long_readings(case.K, case.noise_variance, steps)
    engine = case.engine()
    for arm, value in zip(arms.tolist(), y.tolist(), strict=True):
        engine.observe(arm, value)
        engine.advance()
    n = np.bincount(arms, minlength=M_LONG)
    average = np.bincount(arms, weights=y, minlength=M_LONG) / n
    N = np.diag(case.noise_variance / n)
    covariance = np.linalg.solve(case.K + N, case.K).T @ N
    mean, std = engine.mean_std()
    assert_allclose(mean, case.K @ np.linalg.solve(case.K + N, average), **TOLERANCE)
    assert_allclose(std**2, np.diag(covariance), **TOLERANCE)
    assert_allclose(std**2, np.diag(covariance), rtol=1e-6)  # it is near 1e-7 by now
    assert_a_covariance(engine.covariance)


@pytest.mark.parametrize(("kind", "parameter"), [("static", 0.0), ("tv", 0.03), ("ui", 1e-4)])
def test_after_a_hundred_thousand_readings_the_window_still_equals_the_formula(kind, parameter):
    steps = 10**5 if COMPILED else PLAIN_STEPS
    case = Case(field_of_the_long_runs(), 0.02, kind, parameter, window=16)
    arms, y = long_readings(case.K, case.noise_variance, steps)
    engine, twin = case.engine(), case.twin()
    for i, (arm, value) in enumerate(zip(arms.tolist(), y.tolist(), strict=True)):
        engine.observe(arm, value)
        engine.advance()
        twin.observe(arm, value)
        twin.advance()
        if i % (steps // 10) == 0:
            assert_same(engine, twin)
    assert_same(engine, twin)
