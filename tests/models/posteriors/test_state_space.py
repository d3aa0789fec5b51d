"""State-space and window posteriors against their slow twin, over random histories."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.histories import (
    COMPILED,
    KERNELS,
    MODELS,
    SEEDS,
    TEMPORAL_MODELS,
    TOLERANCE,
    Case,
    apply,
    assert_equals_twin,
    assert_same,
    kernel,
    long_readings,
    random_history,
    restored,
)
from support.naive import se

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot


@st.composite
def cases(draw, *, windowed):
    M = draw(st.integers(1, 12))
    K = kernel(draw(st.sampled_from(KERNELS)), M, np.random.default_rng(draw(SEEDS)))
    noise_variance = 10.0 ** draw(st.floats(-3, 0))
    kind, parameter = draw(TEMPORAL_MODELS)
    window = draw(st.integers(1, 40)) if windowed else None
    return Case(K, noise_variance, kind, parameter, window)


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


def test_a_snapshot_holds_only_the_rows_of_the_readings():
    """The W x W factor of a wide window filled the state file, which then could not be read."""
    case = Case(np.eye(3), 0.1, "static", window=4096)
    posterior = case.posterior()
    for arm in range(3):
        posterior.observe(arm, 0.5)
    assert len(posterior.snapshot()) < 1000


def test_restoring_a_wide_window_needs_one_further_factor():
    """Four further ones needed more memory than the service is allowed, at each restart."""
    case = Case(np.eye(3), 0.1, "static", window=600)
    posterior, other = case.posterior(), case.posterior()
    for n in range(600):
        posterior.observe(n % 3, 0.5)
    blob, factor = posterior.snapshot(), 8 * 600**2
    tracemalloc.start()
    try:
        other.restore(blob)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * factor  # the decoded triangle, the factor, and the recomputed factor


@given(runs(windowed=True))
def test_a_snapshot_of_version_0_1_0_with_all_rows_of_the_window_is_read(run):
    case, history = run
    posterior = case.posterior()
    for operation in history:
        posterior = apply(case, posterior, operation)
    blob = posterior.snapshot()
    kind, fingerprint = posterior._kind(), posterior._field.fingerprint()
    state = decode_snapshot(kind, fingerprint, blob) | posterior._arrays()
    assert restored(case, encode_snapshot(kind, fingerprint, state)).snapshot() == blob


@given(st.integers(0, 2**53), st.integers(0, 9))
def test_a_window_with_another_number_of_readings_is_rejected_before_memory_is_used(n, size):
    case = Case(np.eye(3), 0.1, "static", window=3)
    posterior = case.posterior()
    posterior.observe(0, 0.5)
    kind, fingerprint = posterior._kind(), posterior._field.fingerprint()
    state = decode_snapshot(kind, fingerprint, posterior.snapshot())
    damaged = encode_snapshot(kind, fingerprint, {**state, "observations": n, "L": np.ones(size)})
    if n != 1 or size != 1:
        with pytest.raises(SnapshotError):
            posterior.restore(damaged)


@given(ANY_RUN, st.data())
def test_undo_equals_restore_bit_for_bit(run, data):
    case, history = run
    history = [operation for operation in history if operation != ("reload",)]
    cut = data.draw(st.integers(0, len(history)), label="cut")
    posterior = case.posterior()
    for operation in history[:cut]:
        apply(case, posterior, operation)
    before, then = posterior.snapshot(), prediction(posterior)
    for operation in history[cut:]:
        apply(case, posterior, operation)
    posterior.undo(before)
    assert posterior.snapshot() == before
    assert np.array_equal(prediction(posterior), then)


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


def kernel_of_long_runs():
    return se(np.random.default_rng(8).uniform(0.0, 1.0, (M_LONG, 2)), 0.3)


def assert_is_covariance(C):
    assert C.shape == (M_LONG, M_LONG)
    assert np.array_equal(C, C.T)
    assert np.all(np.diag(C) >= 0.0)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
