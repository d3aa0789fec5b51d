"""Low-rank covariance of the components: exact where it claims to be, and close elsewhere."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.closeness import assert_close
from support.examples import max_examples
from support.naive import se

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.facts import FactorApproximation, SeasonAndRates
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors import component_covariance, low_rank_covariance
from edge_tvbo.models.posteriors.component_covariance import DenseCovariance
from edge_tvbo.models.posteriors.low_rank_covariance import (
    LowRankCovariance,
    correlation_factors,
    largest_error,
    with_low_rank_state,
)
from edge_tvbo.models.posteriors.structural import StructuralPosterior
from edge_tvbo.models.spatial_kernels import exchangeable
from edge_tvbo.models.structural_model import (
    DAY,
    LIVELINESS_BINS,
    Component,
    Components,
    StructuralModel,
    component_table,
    harmonics_for,
    prior_structure,
)
from edge_tvbo.models.trained_state import LowRankState, TrainedState

M, HOUR = 5, 3600.0
PLACES = np.array([[0.0, 0.0], [0.3, 0.1], [0.9, 0.4], [0.2, 0.8], [0.5, 0.5]])
COMPONENTS = Components(
    level=Component(1.5, 20 * DAY, 0.4),
    slow=Component(0.3, DAY, 0.2),
    fast=Component(0.5, 2 * HOUR, 0.6),
    offset=Component(0.1, 20 * DAY),
    season=Component(0.8, 14 * DAY, 0.3),
    decay=2.0,
    noise_variance=0.05,
)
LOADS = np.array([1.0, 0.7, 0.7, 0.7, 0.6, -0.8])
steps = st.lists(
    st.tuples(st.integers(0, M - 1), st.floats(-2, 2)) | st.sampled_from([1.0, 0.9, 0.5]),
    max_size=25,
)


def model_of(correlation, **changes):
    sensors = len(correlation)
    model = StructuralModel(
        period=DAY,
        interval=HOUR,
        course=np.zeros((1, sensors)),
        spread=np.ones(sensors),
        liveliness=np.ones(LIVELINESS_BINS),
        correlation=correlation,
        components=COMPONENTS,
        rows=0,
    )
    return replace(model, **changes)


def covariance_of(kind, correlation):
    return kind(model_of(correlation), component_table(COMPONENTS, harmonics=1))


def few_factors(monkeypatch, number):
    monkeypatch.setattr(low_rank_covariance, "MAX_FACTORS", number)


class Filter:
    """A state and its covariance, with the loadings of one moment."""

    def __init__(self, covariance, sensors=M):
        self.covariance, self.sensors = covariance, sensors
        self.m = np.zeros(len(LOADS) * sensors)

    def step(self, step, retain):
        if isinstance(step, tuple):
            self.covariance.condition(self.m, LOADS, *step, COMPONENTS.noise_variance, 1.0)
        else:
            self.covariance.evolve(self.m, retain**step)

    def moments(self):
        mean, variance = np.zeros(self.sensors), np.zeros(self.sensors)
        self.covariance.moments(self.m, LOADS, mean, variance)
        return mean, variance


class Twin:
    """The same filter in plain numpy: a joint covariance of all factors and all components.

    After each step, the joint covariance is replaced by that of the assumed form: given the
    factors, the sensors are independent, and each depends on its own combination of them only.
    """

    def __init__(self, correlation):
        self.G = np.vstack((np.ones(len(correlation)), correlation_factors(correlation)))
        self.table = table = component_table(COMPONENTS, harmonics=1)
        self.n, (self.R, self.M) = len(table.kind), self.G.shape
        self.select = [np.kron(np.eye(self.n), g[None, :]) for g in self.G.T]
        prior = [v * np.r_[c, np.full(self.R - 1, 1 - c)] for v, c in self.components()]
        Z = np.diag(np.concatenate(prior))
        S = [L @ Z @ L.T for L in self.select]
        own = [v * (c + (1 - c)) for v, c in self.components()]
        X = [s + np.diag(own - np.diag(s)) for s in S]
        self.prior = self.J = self.joint(Z, S, S, X)
        self.mean = np.zeros(len(self.J))

    def components(self):
        return zip(self.table.variance, self.table.common, strict=True)

    def joint(self, Z, S, T, X):
        given_z = [t @ np.linalg.pinv(s) @ L for s, t, L in zip(S, T, self.select, strict=True)]
        A = np.vstack([np.eye(len(Z)), *given_z])
        J = A @ Z @ A.T
        for i, own in enumerate(X):
            J[self.block(i), self.block(i)] = own
        return J

    def block(self, i):
        first = self.n * (self.R + i)
        return slice(first, first + self.n)

    def project(self):
        Z = self.J[: self.n * self.R, : self.n * self.R]
        S = [L @ Z @ L.T for L in self.select]
        T = [self.J[self.block(i), : len(Z)] @ L.T for i, L in enumerate(self.select)]
        X = [self.J[self.block(i), self.block(i)] for i in range(self.M)]
        self.J = self.joint(Z, S, T, X)

    def step(self, step, retain):
        if isinstance(step, tuple):
            arm, y = step
            h = np.zeros(len(self.J))
            h[self.block(arm)] = LOADS
            total = h @ self.J @ h + COMPONENTS.noise_variance
            error = y - h @ self.mean
            if abs(error) > 3 * math.sqrt(total):
                total *= abs(error) / (3 * math.sqrt(total))
            gain = self.J @ h / total
            self.mean += gain * error
            self.J = self.J - total * np.outer(gain, gain)
        else:
            phi = np.r_[np.repeat(retain**step, self.R), np.tile(retain**step, self.M)]
            self.mean *= phi
            self.J = phi[:, None] * self.J * phi + self.prior * (1 - np.outer(phi, phi))
        self.project()

    def moments(self):
        blocks = [self.block(i) for i in range(self.M)]
        mean = [LOADS @ self.mean[each] for each in blocks]
        return np.array(mean), np.array([LOADS @ self.J[each, each] @ LOADS for each in blocks])


def run_both(one, other, history, retain, tolerance=1e-7):
    for step in history:
        one.step(step, retain)
        other.step(step, retain)
        for ours, theirs in zip(one.moments(), other.moments(), strict=True):
            assert_close(ours, theirs, atol=tolerance)


@pytest.mark.parametrize("factors", [0, 1, 2])
@given(history=steps)
@max_examples(30)
def test_it_is_the_assumed_density_filter(factors, history):
    with pytest.MonkeyPatch.context() as patch:
        few_factors(patch, factors)
        kernel, twin = covariance_of(LowRankCovariance, se(PLACES, 0.5)), Twin(se(PLACES, 0.5))
    run_both(Filter(kernel), twin, history, twin.table.retain(3 * HOUR))


@given(history=steps)
@max_examples(30)
def test_with_as_many_factors_as_sensors_it_is_exact(history):
    B = se(PLACES, 0.5)
    low_rank, dense = (covariance_of(kind, B) for kind in (LowRankCovariance, DenseCovariance))
    assert low_rank.facts()[0].factors == M
    retain = component_table(COMPONENTS, 1).retain(3 * HOUR)
    run_both(Filter(low_rank), Filter(dense), history, retain, 1e-5)


@given(history=steps, weights=st.lists(st.floats(-0.9, 0.9), min_size=M, max_size=M))
@max_examples(30)
def test_it_is_exact_for_factors_that_do_not_change(history, weights):
    f = np.array(weights)
    B = np.outer(f, f) + np.diag(1 - f**2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(low_rank_covariance, "correlation_factors", lambda B: f[None, :])
        low_rank = covariance_of(LowRankCovariance, B)
    dense = covariance_of(DenseCovariance, B)
    run_both(Filter(low_rank), Filter(dense), history, np.ones(len(LOADS)), 1e-6)


def test_it_stays_close_to_the_exact_covariance_while_components_change(monkeypatch):
    """All sensors are equally correlated: one factor holds that, and only the change is inexact."""
    few_factors(monkeypatch, 1)
    rng, sensors = np.random.default_rng(0), 100
    B = exchangeable(sensors, 0.5)
    low_rank, dense = (
        Filter(covariance_of(kind, B), sensors) for kind in (LowRankCovariance, DenseCovariance)
    )
    retain, apart, stds = component_table(COMPONENTS, 1).retain(600.0), [], []
    for _ in range(500):
        step = int(rng.integers(sensors)), float(rng.normal())
        for each in (low_rank, dense):
            each.step(step, retain)
            each.step(1.0, retain)
        (ours, our_variance), (mean, variance) = low_rank.moments(), dense.moments()
        apart.append((ours - mean) / np.sqrt(variance))
        stds.append(np.sqrt(our_variance / variance))
    assert np.sqrt(np.mean(np.square(apart))) < 0.2
    np.testing.assert_allclose(stds, 1.0, atol=0.25)
    assert abs(np.mean(stds) - 1.0) < 0.03


@pytest.mark.parametrize("correlation", [0.0, 0.05, 0.5, 0.99])
def test_one_factor_holds_what_all_sensors_have_in_common(correlation):
    B = exchangeable(501, correlation)
    F = correlation_factors(B)
    assert len(F) == (1 if correlation else 0)
    assert largest_error(B, F) < 0.002


def test_factors_of_near_sensors_are_as_exact_as_stated():
    rng = np.random.default_rng(0)
    B = se(rng.uniform(size=(600, 2)), 0.2)
    F = correlation_factors(B)
    difference = B - F.T @ F
    assert (np.diag(difference) >= -1e-9).all()
    np.fill_diagonal(difference, 0.0)
    assert largest_error(B, F) == pytest.approx(np.abs(difference).max(), rel=1e-12)
    assert len(F) < 64
    assert np.linalg.norm(difference) <= 0.003 * np.linalg.norm(B - np.eye(600))


def test_training_state_has_the_variances_of_the_exact_one():
    rng, n = np.random.default_rng(3), len(LOADS)
    A = rng.normal(size=(60, 20)) @ rng.normal(size=(20, 60)) + rng.normal(size=(60, 60))
    B = np.corrcoef(A)
    roots = rng.normal(size=(60, n, n))
    covariances = np.einsum("kab,kcb,k->kac", roots, roots, np.linalg.eigvalsh(B)) / n
    low_rank, dense = (
        Filter(covariance_of(kind, B), 60) for kind in (LowRankCovariance, DenseCovariance)
    )
    for each in (low_rank, dense):
        each.covariance.load_training(covariances)
    np.testing.assert_allclose(low_rank.moments()[1], dense.moments()[1], rtol=1e-9)
    for each in (low_rank, dense):
        each.step((7, 1.0), np.ones(n))
    mean, exact = low_rank.moments()[0], dense.moments()[0]
    assert np.abs(mean - exact).max() < 0.1 * np.abs(exact).max()


def test_low_rank_state_is_the_projected_training_state():
    rng = np.random.default_rng(3)
    B = np.corrcoef(rng.normal(size=(60, 20)) @ rng.normal(size=(20, 60)))
    model = model_of(B)
    n = 4 + 2 * harmonics_for(60)
    roots = rng.normal(size=(60, n, n))
    covariances = np.einsum("kab,kcb,k->kac", roots, roots, np.linalg.eigvalsh(B)) / n
    trained = replace(model, rows=9, state=TrainedState(0.0, np.zeros((n, 60)), covariances))
    reduced = with_low_rank_state(trained)
    assert isinstance(reduced.state.covariances, LowRankState)
    table = component_table(model.components, harmonics_for(60))
    projected, loaded = (LowRankCovariance(each, table) for each in (trained, reduced))
    for covariance, each in ((projected, trained), (loaded, reduced)):
        covariance.load_training(each.state.covariances)
    for name, array in projected.arrays().items():
        np.testing.assert_allclose(loaded.arrays()[name], array, atol=1e-12, err_msg=name)


def test_model_without_a_state_has_no_low_rank_state():
    model = model_of(np.eye(3))
    assert with_low_rank_state(model) is model


# --- as the covariance of a posterior ---------------------------------------------------------


@pytest.fixture
def low_rank(monkeypatch):
    """Use the low-rank covariance for every field, with two factors."""
    monkeypatch.setattr(component_covariance, "MAX_EXACT_SENSORS", 0)
    few_factors(monkeypatch, 2)


def posterior_of(names, places):
    kernel = se(places, 0.5)
    structure = prior_structure(kernel, HOUR)
    sensors = tuple(map(str, names))
    return StructuralPosterior(SensorField(sensors, kernel, 0.01, structure=structure))


def lived(posterior, intervals=40):
    rng, M = np.random.default_rng(5), len(posterior.mean)
    for t in range(intervals):
        posterior.set_time(t * HOUR)
        posterior.observe(t % M, float(rng.normal() + t % M))
        posterior.advance()
    return posterior


def test_restored_it_continues_bit_for_bit(low_rank):
    posterior = lived(posterior_of("abcde", PLACES))
    other = posterior_of("abcde", PLACES)
    other.restore(posterior.snapshot())
    assert other.snapshot() == posterior.snapshot()
    for each in (posterior, other):
        for t in range(40, 60):
            each.set_time(t * HOUR)
            each.observe(t % 3, 1.0)
            each.advance()
    assert other.snapshot() == posterior.snapshot()


@pytest.mark.parametrize(
    "change",
    [
        {"factors": np.full((3, M), 1.0)},
        {"factors": np.zeros((3, M))},
        {"factors": None},
        {"factors": np.array(1.0)},
        {"factors": np.ones((0, M))},
        {"shared": None},
        {"cross": np.full((M, 10, 10), 9.0)},
        {"covariance": -np.ones((M, 10, 10))},
        {"factor_covariance": np.ones((3, 3))},
    ],
)
def test_impossible_snapshot_is_rejected_and_changes_nothing(change, low_rank, monkeypatch):
    posterior = lived(posterior_of("abcde", PLACES))
    before = posterior.snapshot()
    module = "edge_tvbo.models.posteriors.structural.decode_snapshot"
    from edge_tvbo.models import snapshot

    monkeypatch.setattr(module, lambda *a: {**snapshot.decode_snapshot(*a), **change})
    with pytest.raises(SnapshotError):
        posterior.restore(before)
    with pytest.raises(SnapshotError):
        posterior.restore_sensors(before)
    assert posterior.snapshot() == before


def test_snapshot_of_an_exact_covariance_is_not_loaded(monkeypatch):
    exact = lived(posterior_of("abcde", PLACES))
    monkeypatch.setattr(component_covariance, "MAX_EXACT_SENSORS", 0)
    with pytest.raises(SnapshotError):
        posterior_of("abcde", PLACES).restore(exact.snapshot())


@pytest.mark.parametrize("chosen", [[4, 2, 0, 1, 3], [0, 1, 3, 4], [3, 4]])
def test_what_is_known_of_sensors_is_kept_when_others_come_and_go(chosen, low_rank):
    old = lived(posterior_of("abcde", PLACES))
    names = ["abcde"[arm] for arm in chosen]
    places = np.vstack((PLACES[chosen], [[0.6, 0.1]]))
    new = posterior_of([*names, "new"], places)
    assert new.restore_sensors(old.snapshot()) == list(range(len(chosen)))
    new.set_time(40 * HOUR)
    old.set_time(40 * HOUR)
    np.testing.assert_allclose(new.mean[:-1], old.mean[chosen], atol=1e-9)
    prior = posterior_of([*names, "new"], places).variance
    assert (new.variance[:-1] < 0.7 * new.variation.scale * prior[:-1]).all()
    assert (new.variance > 0.0).all()
    lived(new)
    assert np.isfinite(new.mean).all()
    assert (new.variance > 0.0).all()


def test_the_same_sensors_in_another_order_keep_their_variances(low_rank):
    old = lived(posterior_of("abcde", PLACES))
    order = [4, 2, 0, 1, 3]
    new = posterior_of(["abcde"[arm] for arm in order], PLACES[order])
    new.restore_sensors(old.snapshot())
    np.testing.assert_allclose(new.mean, old.mean[order], atol=1e-9)
    np.testing.assert_allclose(new.variance, old.variance[order], rtol=1e-6)


def test_facts_say_how_exact_it_is(low_rank):
    structure, approximation = posterior_of("abcde", PLACES).facts()
    assert isinstance(structure, SeasonAndRates)
    assert isinstance(approximation, FactorApproximation)
    assert (approximation.factors, approximation.sensors) == (2, M)
    assert 0.0 < approximation.error < 1.0


def test_trained_state_is_where_it_starts(low_rank):
    rng, n = np.random.default_rng(0), 10
    state = TrainedState(0.0, rng.normal(size=(n, M)), np.tile(0.1 * np.eye(n), (M, 1, 1)))
    model = model_of(se(PLACES, 0.5), rows=10, state=state)
    posterior = StructuralPosterior(SensorField(tuple("abcde"), np.eye(M), 0.01, structure=model))
    posterior.set_time(0.0)
    np.testing.assert_array_equal(posterior._state, state.mean.reshape(-1))
    np.testing.assert_allclose(posterior.variance, 0.1 * (posterior._load**2).sum())
