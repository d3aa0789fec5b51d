"""Many arms as few components: the algebra to rounding, and the approximation to its bound.

The algebra is held against the slow twin under K̃ = Bᵀ B + diag(R), over the histories of
``test_posterior``; K̃ is held against K by what the docstring of `LowRankPosterior` promises.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models.posteriors.test_state_space import (
    CHANGES,
    KERNELS,
    MODELS,
    SEEDS,
    Case,
    assert_follows_its_twin,
    assert_same,
    kernel,
    long_readings,
    random_history,
)
from naive import NaivePosterior, components, se, temporal
from numpy.testing import assert_allclose

from edge_tvbo import make_policy
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.posteriors import select as engines
from edge_tvbo.models.posteriors.low_rank import SHARE, Components, LowRankPosterior
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.snapshot import seal, unseal
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import StaticKernel, TimeVaryingKernel, WienerKernel
from edge_tvbo.numerics import low_rank

SMOOTH = se(np.random.default_rng(4).uniform(0, 1, (24, 2)), 0.5)


def factored(K, most, room=None):
    B, rest = np.empty((len(K) if room is None else room, len(K))), np.empty(len(K))
    rank = low_rank.factor(K, most, B, rest)
    return Components(B[:rank].copy(), rest)


@dataclasses.dataclass(frozen=True)
class LowRankCase(Case):
    """As a `Case`; of each arm at most `most` is left out."""

    most: float = 1e-3

    def components(self):
        return factored(self.K, self.most)

    def engine(self):
        names = tuple(f"n{i}" for i in range(len(self.K)))
        field = SensorField(names, self.K, self.noise_variance)
        return LowRankPosterior(field, MODELS[self.kind](self.parameter), self.components())

    def twin(self):
        B, rest = self.components()
        d = temporal(self.kind, self.parameter)
        return NaivePosterior(B.T @ B, self.noise_variance, d, own=rest)


@st.composite
def cases(draw):
    M = draw(st.integers(1, 12))
    K = kernel(draw(st.sampled_from(KERNELS)), M, np.random.default_rng(draw(SEEDS)))
    kind, parameter = draw(CHANGES)
    noise_variance, most = 10.0 ** draw(st.floats(-3, 0)), 10.0 ** draw(st.floats(-8, 0.5))
    return LowRankCase(K, noise_variance, kind, parameter, most=most)


@st.composite
def runs(draw):
    case = draw(cases())
    rng = np.random.default_rng(draw(SEEDS))
    return case, random_history(len(case.K), draw(st.integers(0, 200)), rng)


# --- the algebra --------------------------------------------------------------------------------


@given(cases(), st.integers(0, 12))
def test_the_components_are_those_of_the_plain_factorisation(case, room):
    B, rest = factored(case.K, case.most, room)
    assert (rest >= 0).all()
    assert_allclose(B.T @ B + np.diag(rest), np.where(np.eye(len(B.T)), case.K, B.T @ B), atol=1e-9)
    plain, left = components(case.K, case.most, room)
    assert len(B) <= room
    assert len(B) == room or rest.max() <= case.most
    if case.most > 1e-6 and len(plain) == len(B):  # else rounding chooses among equal pivots
        assert rest.max() == pytest.approx(left.max(), abs=1e-7)


def test_rows_are_taken_by_the_largest_remainder():
    K = np.diag([1.0, 4.0, 2.25])
    B, rest = factored(K, 1.5)
    np.testing.assert_array_equal(B, [[0.0, 2.0, 0.0], [0.0, 0.0, 1.5]])
    np.testing.assert_array_equal(rest, [1.0, 0.0, 0.0])
    assert len(factored(K, 5.0).B) == 0
    assert factored(K, 0.5, room=1).rest.max() == 2.25


@given(runs())
def test_it_is_the_posterior_under_the_components_over_any_history(run):
    assert_follows_its_twin(*run)


@pytest.mark.parametrize(("kind", "parameter"), [("static", 0.0), ("tv", 0.05), ("ui", 1e-4)])
def test_after_a_hundred_thousand_readings_rounding_has_not_piled_up(kind, parameter):
    case = LowRankCase(SMOOTH, 0.02, kind, parameter, most=1e-4)
    engine = case.engine()
    arms, y = long_readings(SMOOTH + 1e-9 * np.eye(24), 0.02, 100_000)
    for arm, value in zip(arms.tolist(), y.tolist(), strict=True):
        engine.observe(arm, value)
        engine.advance()
    B, rest = case.components()
    C = engine._covariance
    assert np.array_equal(C, C.T)
    explained = (B * (C @ B)).sum(axis=0)
    assert_allclose(engine.variance, explained + engine.prior * rest, rtol=1e-6, atol=1e-12)
    if kind == "tv":  # what lies 2000 intervals back weighs nothing
        twin = case.twin()
        for arm, value in zip(arms[-2000:].tolist(), y[-2000:].tolist(), strict=True):
            twin.observe(arm, value)
            twin.advance()
        assert_same(engine, twin)


# --- the approximation --------------------------------------------------------------------------


def weights(K, own, d, readings, now, noise_variance):
    """Weights (n, M) of the readings in each arm's mean."""
    times, arms = zip(*((time, arm) for time, arm, _ in readings), strict=True)
    D = np.array([[d(s, t) for t in times] for s in times])
    noise = noise_variance + own[list(arms)] * np.diag(D)
    k = K[list(arms)] * np.array([d(s, now) for s in times])[:, None]
    return np.linalg.solve(K[np.ix_(arms, arms)] * D + np.diag(noise), k)


@given(cases(), SEEDS, st.integers(1, 60))
def test_it_is_off_by_no_more_than_what_was_left_out_allows(case, seed, n):
    rng = np.random.default_rng(seed)
    B, rest = case.components()
    d = temporal(case.kind, case.parameter)
    close, exact = case.engine(), NaivePosterior(case.K, case.noise_variance, d)
    for _ in range(n):
        arm, y = int(rng.integers(len(case.K))), float(rng.normal())
        for each in (close, exact):
            each.observe(arm, y)
            each.advance()
    one = weights(B.T @ B, rest, d, exact.history, exact.time, case.noise_variance)
    other = weights(case.K, 0 * rest, d, exact.history, exact.time, case.noise_variance)
    W = 1.0 + np.maximum(np.abs(one).sum(axis=0), np.abs(other).sum(axis=0))
    R = rest.max() * max(d(t, t) for t in range(n + 1))
    size = np.linalg.norm([y for _, _, y in exact.history])
    (mean, std), (true_mean, true_std) = close.mean_std(), exact.mean_std()
    assert (np.abs(std**2 - true_std**2) <= W**2 * R + 1e-9).all()
    assert (np.abs(mean - true_mean) <= size * W * np.sqrt(R / case.noise_variance) + 1e-7).all()


def test_the_less_is_left_out_the_closer_it_is():
    off = []
    for most in (1e-1, 1e-2, 1e-3, 1e-5, 1e-7):
        case = LowRankCase(SMOOTH, 0.02, "tv", 0.03, most=most)
        close, exact = case.engine(), NaivePosterior(SMOOTH, 0.02, temporal("tv", 0.03))
        rng = np.random.default_rng(0)
        for _ in range(200):
            arm, y = int(rng.integers(24)), float(rng.normal())
            for each in (close, exact):
                each.observe(arm, y)
                each.advance()
        off.append(np.abs(np.subtract(close.mean_std(), exact.mean_std())).max())
    assert off == sorted(off, reverse=True)
    assert off[0] > 1e-2 > 1e-5 > off[-1]


# --- the choice ---------------------------------------------------------------------------------

KERNELS_IN_TIME = [StaticKernel(), TimeVaryingKernel(0.1)]


def line(M, length_scale):
    X = np.linspace(0, 1, M)[:, None]
    K = SpatialKernel(length_scale=length_scale)(X, X)
    return SensorField([f"s{i}" for i in range(M)], K, 0.01)


@pytest.mark.parametrize("kernel", KERNELS_IN_TIME, ids=repr)
def test_beyond_the_crossing_a_smooth_field_is_carried_by_its_components(kernel):
    M = engines.CROSSING
    assert type(engines.engine(line(M, 0.2), kernel)) is StateSpacePosterior
    few = engines.engine(line(M + 1, 0.2), kernel)
    assert type(few) is LowRankPosterior
    assert few._rest.max() <= SHARE * 0.01
    assert type(engines.engine(line(M + 1, 1e-6), kernel)) is StateSpacePosterior  # unrelated arms


def test_a_prior_that_grows_is_carried_exactly_for_what_is_left_out_would_grow_with_it():
    field = line(engines.CROSSING + 1, 0.2)
    assert type(engines.engine(field, WienerKernel(0.03))) is StateSpacePosterior


def test_the_crossing_can_be_read_from_what_moves_the_policy(monkeypatch):
    field = grid(7, SpatialKernel(length_scale=0.7), 0.05)
    assert make_policy("tv-gp-ucb", field).account() == ()
    monkeypatch.setattr(engines, "CROSSING", 20)
    (said,) = make_policy("tv-gp-ucb", field).account()
    assert said == "14 components stand for 49 sensors, to 1% of a reading's noise"


@pytest.mark.parametrize("name", ["gp-ucb", "tv-gp-ucb", "et-gp-ucb", "r-gp-ucb"])
def test_a_policy_on_components_chooses_as_on_the_exact_posterior_and_goes_on_restored(
    name, monkeypatch
):
    field = grid(8, SpatialKernel(length_scale=0.6), 0.05)
    settings = {"period": 9} if name == "r-gp-ucb" else {}
    exact = make_policy(name, field, seed=3, **settings)
    monkeypatch.setattr(engines, "CROSSING", 20)
    close, other = (make_policy(name, field, seed=3, **settings) for _ in range(2))
    rng, same = np.random.default_rng(5), 0
    for _ in range(60):
        choice, truth = close.select(), exact.select()
        same += choice.arm == truth.arm
        assert choice.ucb == pytest.approx(truth.ucb, abs=0.1)
        y = float(rng.normal())
        for each in (close, exact):
            each.observe(truth.arm, y)
            each.advance()
        other.restore(close.snapshot())
        assert other.select() == close.select()
    assert same >= 50
    assert other.snapshot() == close.snapshot()


# --- snapshots ----------------------------------------------------------------------------------


def test_what_does_not_follow_from_its_components_is_refused_and_changes_nothing():
    case = LowRankCase(SMOOTH, 0.02, "tv", 0.03)
    engine = case.engine()
    engine.observe(3, 1.0)
    kind, place = engine._kind(), engine._field.fingerprint()
    before = engine.snapshot()
    for spoil in (lambda v: v * 1.1, lambda v: v - 10.0):
        state = unseal(kind, place, before)
        state["variance"] = spoil(state["variance"])
        with pytest.raises(SnapshotError, match="variance"):
            engine.restore(seal(kind, place, state))
    fewer = dataclasses.replace(case, most=0.1).engine()
    with pytest.raises(SnapshotError, match="low-rank"):
        engine.restore(fewer.snapshot())
    assert engine.snapshot() == before
