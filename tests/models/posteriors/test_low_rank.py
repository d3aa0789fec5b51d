"""Low-rank posteriors: the algebra is exact to rounding, the approximation within its bound.

The algebra is compared with the slow twin under K̃ = Bᵀ B + diag(R), over the histories of
``support.histories``; K̃ is compared with K by the bound in the docstring of `LowRankPosterior`.
"""

import dataclasses

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
    Case,
    assert_equals_twin,
    assert_same,
    kernel,
    long_readings,
    random_history,
)
from support.naive import NaivePosterior, components, se, temporal

from edge_tvbo import make_policy
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.facts import LowRankApproximation
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.posteriors import select
from edge_tvbo.models.posteriors.low_rank import MAX_NOISE_SHARE, KernelComponents, LowRankPosterior
from edge_tvbo.models.posteriors.select import make_posterior
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection
from edge_tvbo.numerics import low_rank

SMOOTH = se(np.random.default_rng(4).uniform(0, 1, (24, 2)), 0.5)


def factored(K, max_rest, room=None):
    B, rest = np.empty((len(K) if room is None else room, len(K))), np.empty(len(K))
    rank = low_rank.pivoted_cholesky(K, max_rest, B, rest)
    return KernelComponents(B[:rank].copy(), rest)


@dataclasses.dataclass(frozen=True)
class LowRankCase(Case):
    """A `Case` whose components leave out at most `max_rest` of each arm's variance."""

    max_rest: float = 1e-3

    def components(self):
        return factored(self.K, self.max_rest)

    def posterior(self):
        names = tuple(f"n{i}" for i in range(len(self.K)))
        field = SensorField(names, self.K, self.noise_variance)
        transition = MODELS[self.kind](self.parameter).transition()
        return LowRankPosterior(field, transition, self.components())

    def twin(self):
        B, rest = self.components()
        d = temporal(self.kind, self.parameter)
        return NaivePosterior(B.T @ B, self.noise_variance, d, own=rest)


@st.composite
def cases(draw):
    M = draw(st.integers(1, 12))
    K = kernel(draw(st.sampled_from(KERNELS)), M, np.random.default_rng(draw(SEEDS)))
    kind, parameter = draw(TEMPORAL_MODELS)
    noise_variance, max_rest = 10.0 ** draw(st.floats(-3, 0)), 10.0 ** draw(st.floats(-8, 0.5))
    return LowRankCase(K, noise_variance, kind, parameter, max_rest=max_rest)


@st.composite
def runs(draw):
    case = draw(cases())
    rng = np.random.default_rng(draw(SEEDS))
    return case, random_history(len(case.K), draw(st.integers(0, 200)), rng)


# --- the algebra --------------------------------------------------------------------------------


@given(cases(), st.integers(0, 12))
def test_components_equal_those_of_the_plain_factorisation(case, room):
    B, rest = factored(case.K, case.max_rest, room)
    assert (rest >= 0).all()
    assert_allclose(B.T @ B + np.diag(rest), np.where(np.eye(len(B.T)), case.K, B.T @ B), atol=1e-9)
    plain, left = components(case.K, case.max_rest, room)
    assert len(B) <= room
    assert len(B) == room or rest.max() <= case.max_rest
    if case.max_rest > 1e-6 and len(plain) == len(B):  # else rounding breaks ties between pivots
        assert rest.max() == pytest.approx(left.max(), abs=1e-7)


def test_rows_are_chosen_by_the_largest_remainder():
    K = np.diag([1.0, 4.0, 2.25])
    B, rest = factored(K, 1.5)
    np.testing.assert_array_equal(B, [[0.0, 2.0, 0.0], [0.0, 0.0, 1.5]])
    np.testing.assert_array_equal(rest, [1.0, 0.0, 0.0])
    assert len(factored(K, 5.0).B) == 0
    assert factored(K, 0.5, room=1).rest.max() == 2.25


@given(runs())
def test_posterior_under_the_components_equals_its_twin(run):
    assert_equals_twin(*run)


@pytest.mark.parametrize(("kind", "parameter"), [("static", 0.0), ("tv", 0.05), ("ui", 1e-4)])
@pytest.mark.slow
def test_after_100_000_readings_rounding_has_not_piled_up(kind, parameter):
    case = LowRankCase(SMOOTH, 0.02, kind, parameter, max_rest=1e-4)
    posterior = case.posterior()
    steps = 100_000 if COMPILED else 4_000
    arms, y = long_readings(SMOOTH + 1e-9 * np.eye(24), 0.02, steps)
    for arm, value in zip(arms.tolist(), y.tolist(), strict=True):
        posterior.observe(arm, value)
        posterior.advance()
    B, rest = case.components()
    C = posterior._covariance
    assert np.array_equal(C, C.T)
    explained = (B * (C @ B)).sum(axis=0)
    assert_allclose(posterior.variance, explained + posterior.prior * rest, rtol=1e-6, atol=1e-12)
    if kind == "tv":  # readings more than 2000 intervals old have no weight
        twin = case.twin()
        for arm, value in zip(arms[-2000:].tolist(), y[-2000:].tolist(), strict=True):
            twin.observe(arm, value)
            twin.advance()
        assert_same(posterior, twin)


# --- the approximation --------------------------------------------------------------------------


def weights(K, own, d, readings, now, noise_variance):
    """Weights (n, M) of the readings in the mean of each arm."""
    times = np.array([time for time, _, _ in readings])
    arms = [arm for _, arm, _ in readings]
    D = d(times[:, None], times)
    noise = noise_variance + own[arms] * np.diag(D)
    k = K[arms] * d(times, now)[:, None]
    return np.linalg.solve(K[np.ix_(arms, arms)] * D + np.diag(noise), k)


@given(cases(), SEEDS, st.integers(1, 60))
def test_error_is_within_the_documented_bound(case, seed, n):
    rng = np.random.default_rng(seed)
    B, rest = case.components()
    d = temporal(case.kind, case.parameter)
    approximate, exact = case.posterior(), NaivePosterior(case.K, case.noise_variance, d)
    for _ in range(n):
        arm, y = int(rng.integers(len(case.K))), float(rng.normal())
        for each in (approximate, exact):
            each.observe(arm, y)
            each.advance()
    one = weights(B.T @ B, rest, d, exact.history, exact.time, case.noise_variance)
    other = weights(case.K, 0 * rest, d, exact.history, exact.time, case.noise_variance)
    W = 1.0 + np.maximum(np.abs(one).sum(axis=0), np.abs(other).sum(axis=0))
    R = rest.max() * max(d(t, t) for t in range(n + 1))
    size = np.linalg.norm([y for _, _, y in exact.history])
    (mean, std), (true_mean, true_std) = approximate.mean_std(), exact.mean_std()
    assert (np.abs(std**2 - true_std**2) <= W**2 * R + 1e-9).all()
    assert (np.abs(mean - true_mean) <= size * W * np.sqrt(R / case.noise_variance) + 1e-7).all()


def test_error_decreases_with_the_remainder():
    off = []
    for max_rest in (1e-1, 1e-2, 1e-3, 1e-5, 1e-7):
        case = LowRankCase(SMOOTH, 0.02, "tv", 0.03, max_rest=max_rest)
        approximate, exact = case.posterior(), NaivePosterior(SMOOTH, 0.02, temporal("tv", 0.03))
        rng = np.random.default_rng(0)
        for _ in range(200):
            arm, y = int(rng.integers(24)), float(rng.normal())
            for each in (approximate, exact):
                each.observe(arm, y)
                each.advance()
        off.append(np.abs(np.subtract(approximate.mean_std(), exact.mean_std())).max())
    assert off == sorted(off, reverse=True)
    assert off[0] > 1e-2 > 1e-5 > off[-1]


# --- selection ----------------------------------------------------------------------------------


def line(M, length_scale):
    X = np.linspace(0, 1, M)[:, None]
    K = SpatialKernel(length_scale=length_scale)(X, X)
    return SensorField([f"s{i}" for i in range(M)], K, 0.01)


@pytest.mark.parametrize("model", [Static(), TimeVarying(0.1)], ids=repr)
def test_many_sensors_of_a_smooth_field_get_a_low_rank_posterior(model):
    M = select.MAX_EXACT_SENSORS
    assert type(make_posterior(line(M, 0.2), model)) is StateSpacePosterior
    approximate = make_posterior(line(M + 1, 0.2), model)
    assert type(approximate) is LowRankPosterior
    assert approximate._rest.max() <= MAX_NOISE_SHARE * 0.01
    unrelated = line(M + 1, 1e-6)
    assert type(make_posterior(unrelated, model)) is StateSpacePosterior


def test_a_growing_prior_gets_the_exact_posterior():
    """The error of the components would grow with the prior."""
    field = line(select.MAX_EXACT_SENSORS + 1, 0.2)
    assert type(make_posterior(field, UncertaintyInjection(0.03))) is StateSpacePosterior


def test_the_approximation_is_among_the_facts_of_a_policy(monkeypatch):
    field = grid(7, SpatialKernel(length_scale=0.7), 0.05)
    assert make_policy("tv-gp-ucb", field).facts() == ()
    monkeypatch.setattr(select, "MAX_EXACT_SENSORS", 20)
    assert make_policy("tv-gp-ucb", field).facts() == (LowRankApproximation(14, 49, 0.01),)


@pytest.mark.parametrize("name", ["gp-ucb", "tv-gp-ucb", "et-gp-ucb", "r-gp-ucb"])
def test_low_rank_policy_chooses_almost_like_the_exact_one(name, monkeypatch):
    field = grid(8, SpatialKernel(length_scale=0.6), 0.05)
    settings = {"period": 9} if name == "r-gp-ucb" else {}
    exact = make_policy(name, field, seed=3, **settings)
    monkeypatch.setattr(select, "MAX_EXACT_SENSORS", 20)
    approximate, other = (make_policy(name, field, seed=3, **settings) for _ in range(2))
    rng, same = np.random.default_rng(5), 0
    for _ in range(60):
        choice, truth = approximate.select(), exact.select()
        same += choice.arm == truth.arm
        assert choice.ucb == pytest.approx(truth.ucb, abs=0.1)
        y = float(rng.normal())
        for each in (approximate, exact):
            each.observe(truth.arm, y)
            each.advance()
        other.restore(approximate.snapshot())
        assert other.select() == approximate.select()
    assert same >= 50
    assert other.snapshot() == approximate.snapshot()


# --- snapshots ----------------------------------------------------------------------------------


def test_snapshot_whose_variance_does_not_match_is_rejected():
    case = LowRankCase(SMOOTH, 0.02, "tv", 0.03)
    posterior = case.posterior()
    posterior.observe(3, 1.0)
    kind, fingerprint = posterior._kind(), posterior._field.fingerprint()
    before = posterior.snapshot()
    for spoil in (lambda v: v * 1.1, lambda v: v - 10.0):
        state = decode_snapshot(kind, fingerprint, before)
        state["variance"] = spoil(state["variance"])
        with pytest.raises(SnapshotError, match="variance"):
            posterior.restore(encode_snapshot(kind, fingerprint, state))
    fewer = dataclasses.replace(case, max_rest=0.1).posterior()
    with pytest.raises(SnapshotError, match="low-rank"):
        posterior.restore(fewer.snapshot())
    assert posterior.snapshot() == before
