"""Pruned posteriors against twins that leave each reading out, and against the authors' code."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.examples import max_examples
from support.naive import se

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.pruned import PrunedPosterior, PrunedWindowPosterior, relevance
from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import TimeVarying

M = 5
K = 1.7 * se(np.random.default_rng(0).uniform(0, 1, (M, 2)), 0.5)
NOISE = 0.05
FIELD = SensorField([f"n{i}" for i in range(M)], K, NOISE)
BOX = BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16)


# --- slow twins ---------------------------------------------------------------------------------


def horizon(epsilon):
    """Return the number of intervals after which (1-ε)^n, the share of today, is 1e-18."""
    return math.ceil(math.log(1e-18) / math.log(1 - epsilon))


def predictions(history, now, epsilon):
    """Mean and variance of each arm in each of the next intervals, given the readings.

    ``history`` has (time, arm, y); Rasmussen & Williams eq. 2.25-2.26, each (n * M,) for
    the next n = ``horizon(epsilon)`` intervals.
    """
    times = np.array([time for time, _, _ in history])
    arms = [arm for _, arm, _ in history]
    y = np.array([y for *_, y in history])
    A = K[np.ix_(arms, arms)] * (1 - epsilon) ** (abs(times[:, None] - times) / 2)
    A += NOISE * np.eye(len(y))
    later = now + np.arange(horizon(epsilon))
    fade = (1 - epsilon) ** ((later - times[:, None]) / 2)  # (readings, n)
    k = (K[arms][:, None, :] * fade[:, :, None]).reshape(len(y), -1)
    prior = np.tile(np.diag(K), horizon(epsilon))
    return k.T @ np.linalg.solve(A, y), prior - np.sum(k * np.linalg.solve(A, k), axis=0)


def distances(history, now, epsilon):
    """Bound and exact 2-Wasserstein distance, over the future, of leaving each reading out.

    The distance of two normal distributions is √((μ - μ')² + (σ - σ')²), and
    (σ - σ')² <= |σ² - σ'²|. Both are relative to the bound of leaving all out.
    """
    mean, variance = predictions(history, now, epsilon)
    prior = np.tile(np.diag(K), horizon(epsilon))
    whole = np.sum(mean**2 + prior - variance)
    bounds, exact = [], []
    for i in range(len(history)):
        rest = history[:i] + history[i + 1 :]
        if rest:
            other_mean, other_variance = predictions(rest, now, epsilon)
        else:
            other_mean, other_variance = np.zeros(len(mean)), prior
        moved = (mean - other_mean) ** 2
        spread = np.sqrt(np.maximum(variance, 0)) - np.sqrt(np.maximum(other_variance, 0))
        bounds.append(math.sqrt(np.sum(moved + abs(other_variance - variance)) / whole))
        exact.append(math.sqrt(np.sum(moved + spread**2) / whole))
    return np.array(bounds), np.array(exact)


class NaivePruned:
    """Algorithm 1 of W-DBO without its choice of the next query: the readings it holds.

    The budget is 1 at first and grows by (1+α)^(Δt / l_t) with exp(-Δt / l_t) = (1-ε)^(Δt / 2).
    While two readings are left, it is at most 1+α, unlike in W-DBO.
    """

    def __init__(self, epsilon, alpha, window):
        self.epsilon, self.alpha, self.window = epsilon, alpha, window
        self.time, self.budget, self.history = 0, 1.0, []

    def least_relevant(self):
        relevances, _ = distances(self.history, self.time, self.epsilon)
        return int(np.argmin(relevances)), float(np.min(relevances))

    def observe(self, arm, y):
        if len(self.history) == self.window:
            del self.history[self.least_relevant()[0]]
        self.history.append((self.time, arm, y))

    def advance(self):
        self.time += 1
        self.budget *= (1 + self.alpha) ** (-math.log(1 - self.epsilon) / 2)
        while len(self.history) > 2:
            index, value = self.least_relevant()
            if 1 + value >= self.budget:
                break
            self.budget /= 1 + value
            del self.history[index]
        if len(self.history) <= 2:
            self.budget = min(self.budget, 1 + self.alpha)


def matrices(history, now, epsilon):
    """Arguments of `relevance`: the inverse, the readings, covariances with the next interval."""
    times = np.array([float(time) for time, _, _ in history])
    arms = [arm for _, arm, _ in history]
    A = K[np.ix_(arms, arms)] * (1 - epsilon) ** (abs(times[:, None] - times) / 2)
    fade = (1 - epsilon) ** ((now - times) / 2)
    P = np.linalg.inv(A + NOISE * np.eye(len(arms)))
    return P, np.array([y for *_, y in history]), K[arms] * fade[:, None]


@st.composite
def histories(draw, most=12):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, most))
    times = np.sort(rng.integers(0, 15, n))
    size = draw(st.sampled_from([0.1, 1.0, 5.0]))
    return [(int(t), int(rng.integers(M)), float(size * rng.normal())) for t in times]


EPSILON = st.sampled_from([0.1, 0.3, 0.7])


# --- the criterion ------------------------------------------------------------------------------


@given(history=histories(), epsilon=EPSILON, wait=st.integers(0, 9))
@max_examples(60)
def test_relevance_is_the_change_from_leaving_a_reading_out(history, epsilon, wait):
    now = history[-1][0] + wait
    bounds, exact = distances(history, now, epsilon)
    found = relevance(*matrices(history, now, epsilon))
    assert_allclose(found**2, bounds**2, rtol=1e-6, atol=1e-10)  # the twin's are differences
    assert (found >= exact - 1e-5).all()


@given(history=histories(), epsilon=EPSILON)
@max_examples(30)
def test_relative_relevance_does_not_change_with_time(history, epsilon):
    now = history[-1][0]
    assert_allclose(
        relevance(*matrices(history, now, epsilon)),
        relevance(*matrices(history, now + 20, epsilon)),
        rtol=1e-9,
    )


def test_a_single_reading_has_relevance_1():
    assert relevance(*matrices([(0, 1, 2.0)], 3, 0.1)) == pytest.approx([1.0])


def test_relevance_equals_the_authors_code():
    """wdbo-criterion 2.2.1, normalised, t0 = 6: Matérn-5/2 of l = .5 in space, Matérn-1/2 in time.

    Their code integrates over the whole line, here 1201 places on [-6, 6]; it raises distances
    below 1e-5 to 1e-5.
    """
    places = np.array([0.0, 0.3, -0.5, 0.3, 0.9, 0.1])
    times = np.array([0.0, 1.0, 1.0, 3.0, 4.0, 6.0])
    y = np.array([0.5, 1.2, -0.3, -0.8, 0.4, 1.0])
    theirs = [0.1266734, 0.2140459, 0.4138451, 0.3289410, 0.5440455, 0.7642117]

    def k(a, b):
        r = math.sqrt(5) * abs(a[:, None] - b) / 0.5
        return (1 + r + r**2 / 3) * np.exp(-r)

    l_t = -2 / math.log(0.9)
    A = k(places, places) * np.exp(-abs(times[:, None] - times) / l_t) + 0.05 * np.eye(6)
    F = k(places, np.linspace(-6, 6, 1201)) * np.exp(-(6 - times) / l_t)[:, None]
    assert_allclose(relevance(np.linalg.inv(A), y, F), theirs, rtol=1e-5)


@given(
    history=histories(),
    epsilon=EPSILON,
    wait=st.integers(0, 9),
    gone=st.lists(st.integers(0, 11), max_size=5),
)
@max_examples(60, deadline=None)
def test_compiled_relevance_equals_its_twin_after_removals(history, epsilon, wait, gone):
    history = list(history)
    posterior = PrunedWindowPosterior(FIELD, TimeVarying(epsilon), 12, alpha=0.0)
    for t in range(history[-1][0] + wait + 1):
        for arm, y in [(arm, y) for time, arm, y in history if time == t]:
            posterior.observe(arm, y)
        if t < history[-1][0] + wait:
            posterior.advance()
    for index in gone:
        if index < len(history) - 1:
            del history[index]
            posterior.remove(index)
    twins = relevance(*matrices(history, history[-1][0] + wait, epsilon))
    posterior.least_relevant()
    assert_allclose(posterior._found[: len(history)], twins, rtol=1e-6, atol=1e-9)


# --- removal ------------------------------------------------------------------------------------


def by_regression(epsilon, window, alpha):
    return PrunedPosterior(FIELD, TimeVarying(epsilon), window, alpha=alpha)


def compiled(epsilon, window, alpha):
    return PrunedWindowPosterior(FIELD, TimeVarying(epsilon), window, alpha=alpha)


both = pytest.mark.parametrize("make", [by_regression, compiled])


def held(posterior):
    """Readings that a posterior holds, as (time, arm, y)."""
    n = posterior.observations
    compiled = isinstance(posterior, PrunedWindowPosterior)
    arms = posterior._arms[:n] if compiled else posterior._places[:n, 0].astype(int)
    arms = arms.tolist()
    times, y = posterior._times[:n].tolist(), posterior._y[:n].tolist()
    return list(zip(times, arms, y, strict=True))


@pytest.mark.slow
@both
@given(
    seed=st.integers(0, 2**32 - 1),
    epsilon=EPSILON,
    alpha=st.sampled_from([0.0, 0.25, 3.0]),
    window=st.sampled_from([1, 4, 64]),
    share=st.sampled_from([0.3, 1.0]),
)
@max_examples(30)
def test_the_readings_held_are_those_of_the_papers_algorithm(
    make, seed, epsilon, alpha, window, share
):
    rng = np.random.default_rng(seed)  # continuous readings, so that no two are equally relevant
    pruned = make(epsilon, window, alpha)
    twin = NaivePruned(epsilon, alpha, window)
    for _ in range(12):
        for _ in range(rng.integers(0, 3) if rng.uniform() < share else 0):
            arm, y = int(rng.integers(M)), float(2 * rng.normal())
            pruned.observe(arm, y)
            twin.observe(arm, y)
        pruned.advance()
        twin.advance()
        assert held(pruned) == twin.history
        if twin.history:
            mean, variance = predictions(twin.history, twin.time, epsilon)
            assert_allclose(pruned.mean, mean[:M], rtol=1e-6, atol=1e-6)
            assert_allclose(pruned.variance, variance[:M], rtol=1e-6, atol=1e-6)


@both
def test_without_a_budget_only_a_full_window_drops_readings(make):
    pruned = make(0.1, 8, 0.0)
    unpruned = RegressionPosterior(FIELD, TimeVarying(0.1), 8)
    for t in range(8):
        for posterior in (pruned, unpruned):
            posterior.observe(t % M, float(t))
            posterior.advance()
    assert_allclose(pruned.mean, unpruned.mean, rtol=1e-8)
    assert pruned.observations == 8


@both
def test_an_older_reading_of_the_same_arm_is_dropped_first(make):
    pruned = make(0.3, 3, 0.0)
    for arm, y in ((0, 1.0), (3, 1.0), (3, 1.1)):
        pruned.observe(arm, y)
        pruned.advance()
    pruned.observe(1, 0.5)
    assert [arm for _, arm, _ in held(pruned)] == [0, 3, 1]
    assert [time for time, arm, _ in held(pruned) if arm == 3] == [2]


@both
def test_snapshots_and_readings_do_not_grow_with_time(make):
    for alpha in (0.0, 0.25):
        rng = np.random.default_rng(1)
        pruned = make(0.05, 24, alpha)
        sizes = []
        for _ in range(400):
            pruned.observe(int(rng.integers(M)), float(rng.normal()))
            pruned.advance()
            sizes.append(len(pruned.snapshot()))
        assert max(sizes) - min(sizes) <= 16  # msgpack encodes larger counters in more bytes
        assert pruned.observations <= 24


@both
def test_a_larger_budget_removes_more_readings(make):
    counts = []
    for alpha in (0.0, 0.1, 0.5, 2.0):
        rng = np.random.default_rng(2)
        pruned = make(0.1, 64, alpha)
        for _ in range(60):
            pruned.observe(int(rng.integers(M)), float(rng.normal()))
            pruned.advance()
        counts.append(pruned.observations)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 60
    assert counts[-1] < 15


@both
def test_after_a_long_silence_two_readings_remain(make):
    pruned = make(0.5, 8, 0.25)
    for arm in range(4):
        pruned.observe(arm, 1.0)
    for _ in range(5000):  # 0.5^2500 is 0
        pruned.advance()
    assert pruned.observations == 2
    assert_allclose(pruned.variance, np.diag(K))
    pruned.observe(1, 2.0)
    pruned.advance()
    assert np.isfinite(pruned.mean).all()


@both
def test_after_a_long_silence_new_readings_are_kept_at_once(make):
    """The budget that was saved in the silence removed all new readings for hours."""
    silent, fresh = make(0.03, 16, 0.25), make(0.03, 16, 0.25)
    for arm in range(2):
        silent.observe(arm, 1.0)
    for _ in range(4320):  # 30 days of 10-minute intervals
        silent.advance()
    for t in range(10):
        for posterior in (silent, fresh):
            posterior.observe(t % M, float(t))
            posterior.advance()
    assert fresh.observations > 4
    assert silent.observations >= fresh.observations - 2


@both
def test_a_reset_drops_the_saved_budget_too(make):
    one, other = (make(0.1, 8, 0.25) for _ in range(2))
    one.observe(1, 1.0)
    for _ in range(9):
        one.advance()
        other.advance()
    one.reset()
    other.reset()
    for t in range(20):
        for posterior in (one, other):
            posterior.observe(t % M, float(t % 3))
            posterior.advance()
    assert held(one) == held(other)


def test_readings_are_removed_in_a_box_too():
    rng = np.random.default_rng(3)
    pruned = PrunedPosterior(BOX, TimeVarying(0.3), 64, alpha=0.5)
    for _ in range(40):
        pruned.observe((float(rng.uniform(-1, 3)),), float(rng.normal()))
        pruned.advance()
    assert 2 <= pruned.observations < 30


# --- rejected parameters and snapshots ----------------------------------------------------------


@both
def test_parameters_out_of_range_are_rejected(make):
    for wrong in (
        {"epsilon": 1.0},
        {"alpha": -0.1},
        {"alpha": math.nan},
        {"alpha": math.inf},
        {"window": 0},
    ):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            make(**{"epsilon": 0.1, "alpha": 0.25, "window": 8, **wrong})


@both
def test_an_invalid_budget_in_a_snapshot_is_rejected(make):
    pruned = make(0.1, 8, 0.25)
    pruned.observe(1, 1.0)
    pruned.advance()
    before = pruned.snapshot()
    kind, fingerprint = pruned._kind(), FIELD.fingerprint()
    for budget in (None, -0.1, math.nan, math.inf, "1", True):
        state = {**decode_snapshot(kind, fingerprint, before), "budget": budget}
        with pytest.raises(SnapshotError, match="budget"):
            pruned.restore(encode_snapshot(kind, fingerprint, state))
        assert pruned.snapshot() == before
