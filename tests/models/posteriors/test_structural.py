"""Structural posterior: it agrees with Gaussian-process regression, and learns scale and season."""

import math
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import max_examples
from support.naive import se
from support.structural_fields import draw_values

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.facts import LearnedVariation, SeasonAndRates
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.component_covariance import DenseCovariance
from edge_tvbo.models.posteriors.structural import StructuralPosterior
from edge_tvbo.models.posteriors.variation_learner import (
    COVERAGE_STEP,
    MAX_LIVELINESS,
    MIN_TRAINED_SCALE,
)
from edge_tvbo.models.spatial_kernels import exchangeable
from edge_tvbo.models.structural_model import (
    DAY,
    LIVELINESS_BINS,
    WEEK,
    YEAR,
    Component,
    Components,
    StructuralModel,
    component_table,
    harmonics_for,
    mirrored,
    phase_of,
    prior_structure,
)
from edge_tvbo.models.trained_state import TrainedState
from edge_tvbo.policy import make_policy

PLACES = np.array([[0.0, 0.0], [0.3, 0.1], [0.9, 0.4], [0.2, 0.8]])
M, P, HOUR = len(PLACES), 6, 3600.0
NAMES = ("a", "b", "c", "d")
RNG = np.random.default_rng(0)
COMPONENTS = Components(
    level=Component(1.5, 20 * DAY, 0.4),
    slow=Component(0.3, DAY, 0.2),
    fast=Component(0.5, 2 * HOUR, 0.6),
    offset=Component(0.1, 20 * DAY),
    season=Component(0.8, 14 * DAY, 0.3),
    decay=2.0,
    noise_variance=0.05,
)
MODEL = StructuralModel(
    period=DAY,
    interval=HOUR,
    course=RNG.normal(size=(P, M)),
    spread=np.array([0.5, 1.0, 2.0, 0.7]),
    liveliness=np.linspace(0.5, 1.5, LIVELINESS_BINS),
    correlation=se(PLACES, 0.5),
    components=COMPONENTS,
    rows=10,
)
steps = st.lists(
    st.tuples(st.integers(0, M - 1), st.floats(-2, 2)) | st.sampled_from([1, 1, 3]), max_size=25
)


def field_of(model):
    return SensorField(NAMES, np.eye(M), 0.01, structure=model)


@dataclass
class Twin:
    """Gaussian-process regression with the covariance of the components, over the whole history."""

    model: StructuralModel
    history: list = field(default_factory=list)  # (at, arm, y)

    def loading(self, at):
        h = phase_of(at, self.model.period)
        s = self.model.liveliness[int(h * LIVELINESS_BINS + 1e-6) % LIVELINESS_BINS]
        season = [f(2 * math.pi * k * h) for k in (1, 2, 3) for f in (math.cos, math.sin)]
        return np.array([1.0, s, s, s, *season])

    def covariance(self, i, s, j, t):
        c = self.model.components
        weights = np.array([k**-c.decay for k in (1, 2, 3)])
        weights /= weights.sum()
        parts = [c.level, c.slow, c.fast, c.offset] + [c.season] * 6
        variances = [each.variance for each in parts[:4]]
        variances += [c.season.variance * w for w in weights for _ in range(2)]
        total = 0.0
        loadings = zip(self.loading(s), self.loading(t), strict=True)
        for part, variance, (here, there) in zip(parts, variances, loadings, strict=True):
            over = part.common + (1.0 - part.common) * self.model.correlation[i, j]
            total += here * there * variance * over * math.exp(-abs(s - t) / part.time)
        return total

    def course(self, arm, at):
        return self.model.course[int(phase_of(at, self.model.period) * P + 1e-6) % P, arm]

    def predict(self, arm, at):
        """Return mean and variance of the value of `arm` at the time `at`, in model units."""
        spread, noise = self.model.spread, self.model.components.noise_variance
        prior = self.covariance(arm, at, arm, at)
        if not self.history:
            return self.course(arm, at), spread[arm] ** 2 * prior
        K = np.array([[self.covariance(i, s, j, t) for t, j, _ in self.history]
                      for s, i, _ in self.history])  # fmt: skip
        k = np.array([self.covariance(arm, at, j, t) for t, j, _ in self.history])
        x = np.array([(y - self.course(i, s)) / spread[i] for s, i, y in self.history])
        inverse = np.linalg.inv(K + noise * np.eye(len(K)))
        mean = self.course(arm, at) + spread[arm] * (k @ inverse @ x)
        return mean, spread[arm] ** 2 * (prior - k @ inverse @ k)


@given(history=steps, start=st.integers(0, 10**5))
@max_examples(40)
def test_it_is_gaussian_process_regression(history, start):
    posterior, twin = StructuralPosterior(field_of(MODEL)), Twin(MODEL)
    at = start * HOUR
    posterior.set_time(at)
    for step in history:
        if isinstance(step, int):  # some intervals end, of which the posterior receives only one
            at += step * HOUR
            posterior.advance()
            posterior.set_time(at)
            posterior.variation.liveliness[:] = MODEL.liveliness  # the twin does not learn it
            posterior._refresh()
            continue
        arm, z = step
        mean, variance = twin.predict(arm, at)
        total = variance + MODEL.spread[arm] ** 2 * COMPONENTS.noise_variance
        y = mean + z * math.sqrt(total) * min(1.0, math.sqrt(posterior.variation.scale))
        posterior.observe(arm, y)  # within the distance that has its full weight
        twin.history.append((at, arm, y))
    for arm in range(M):
        mean, variance = twin.predict(arm, at)
        assert posterior.mean[arm] == pytest.approx(mean, abs=1e-7)
        assert posterior.variance[arm] == pytest.approx(
            posterior.variation.scale * variance, abs=1e-7
        )


@given(
    history=st.lists(st.tuples(st.integers(0, M - 1), st.floats(-2, 2)), max_size=8),
    start=st.integers(0, 10**5),
    pieces=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    advances=st.integers(0, 4),
)
@max_examples(40)
def test_a_gap_is_the_same_in_one_piece_in_several_and_in_intervals(
    history, start, pieces, advances
):
    whole, parts, ticks = (StructuralPosterior(field_of(MODEL)) for _ in range(3))
    at = start * HOUR
    for posterior in (whole, parts, ticks):
        posterior.set_time(at)
        for arm, y in history:
            posterior.observe(arm, y)
    whole.set_time(at + sum(pieces) * HOUR)
    for piece in pieces:
        at += piece * HOUR
        parts.set_time(at)
    for _ in range(min(advances, sum(pieces))):
        ticks.advance()
    ticks.set_time(at)
    for other in (parts, ticks):
        np.testing.assert_allclose(other.mean, whole.mean, atol=1e-9)
        np.testing.assert_allclose(other.variance, whole.variance, atol=1e-9)
        np.testing.assert_allclose(
            other.variation.liveliness, whole.variation.liveliness, atol=1e-12
        )


def test_a_course_of_a_week_has_the_season_and_liveliness_of_a_day():
    rng = np.random.default_rng(4)
    model = replace(MODEL, period=WEEK, cycle=DAY, course=rng.normal(size=(7 * P, M)))
    weekly, daily = StructuralPosterior(field_of(model)), StructuralPosterior(field_of(MODEL))
    for at in (DAY / P, 3.5 * DAY, 100 * WEEK + DAY):
        weekly.set_time(at)
        daily.set_time(at)
        np.testing.assert_allclose(weekly.variance, daily.variance)
        part = round(at % WEEK / DAY * P)
        np.testing.assert_allclose(weekly.mean, model.course[part])


def test_without_a_season_the_time_of_day_has_no_effect():
    posterior = StructuralPosterior(field_of(prior_structure(np.eye(M), HOUR, 0.0)))
    posterior.set_time(0.0)
    variance = posterior.variance.copy()
    posterior.set_time(HOUR * 7)
    np.testing.assert_allclose(posterior.variance, variance)
    assert posterior.facts()[0].period == 0.0


def normal_quantile(posterior, sensor, share):
    total = posterior.variance[sensor] + posterior._noise_of(sensor)
    return NormalDist(posterior.mean[sensor], math.sqrt(total)).inv_cdf(share)


def test_density_and_quantiles_are_those_of_the_normal_distribution():
    posterior = StructuralPosterior(field_of(MODEL))
    posterior.set_time(0.0)
    total = posterior.variance[1] + COMPONENTS.noise_variance
    mean = posterior.mean[1]
    assert posterior.quantile(1, 0.5) == pytest.approx(mean)
    assert posterior.quantile(1, 0.95) == pytest.approx(mean + 1.644854 * math.sqrt(total))
    posterior.observe(1, mean + 2 * math.sqrt(total))
    assert posterior.log_density == pytest.approx(-0.5 * (math.log(2 * math.pi * total) + 4.0))


def test_absurd_reading_counts_like_one_at_three_deviations():
    far, near = (StructuralPosterior(field_of(MODEL)) for _ in range(2))
    total = math.sqrt(near.variance[0] + MODEL.spread[0] ** 2 * COMPONENTS.noise_variance)
    near.observe(0, near.mean[0] + 3 * total)
    far.observe(0, 1e6)
    np.testing.assert_allclose(far.mean, near.mean, atol=1e-3)
    assert far.variation.scale == near.variation.scale


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_scale_follows_the_size_of_the_errors(factor):
    posterior, rng = StructuralPosterior(field_of(MODEL)), np.random.default_rng(1)
    for t in range(2000):
        posterior.set_time(t * HOUR)
        arm = int(rng.integers(M))
        std = math.sqrt(
            posterior.variance[arm] / posterior.variation.scale
            + MODEL.spread[arm] ** 2 * COMPONENTS.noise_variance
        )
        posterior.observe(arm, posterior.mean[arm] + factor * std * rng.normal())
        posterior.advance()
    assert posterior.variation.scale == pytest.approx(factor**2, rel=0.3)
    learned = LearnedVariation(2000, math.sqrt(posterior.variation.scale), MODEL.rows)
    fitted = SeasonAndRates(DAY, 2 * HOUR, DAY, MODEL.rows)
    assert posterior.facts() == ((fitted,) if factor == 1.0 else (fitted, learned))


def test_facts_of_a_cold_model_state_the_variation_after_each_reading():
    posterior, factors = StructuralPosterior(field_of(replace(MODEL, rows=0))), set()
    assumed = SeasonAndRates(0.0, 2 * HOUR, DAY, 0)
    assert posterior.facts() == (assumed,)
    for n, y in enumerate((0.0, 0.0, 9.0, 9.0), 1):
        posterior.observe(n % M, y)
        factors.add(factor := math.sqrt(posterior.variation.scale))
        assert posterior.facts() == (assumed, LearnedVariation(n, factor, 0))
    assert len(factors) == n
    posterior.reset()
    assert posterior.facts() == (assumed,)


def test_constant_readings_leave_some_uncertainty():
    """σ² stops at a lower limit, so that the model follows the first change within hours."""
    posterior = StructuralPosterior(field_of(MODEL))
    for t in range(60 * 24):
        posterior.set_time(t * HOUR)
        for arm in range(M):
            posterior.observe(arm, float(posterior.mean[arm]))
        posterior.advance()
    assert posterior.variation.scale == MIN_TRAINED_SCALE


def test_a_hallucinated_reading_changes_the_state_but_no_parameter():
    real, hallucinated = (StructuralPosterior(field_of(MODEL)) for _ in range(2))
    for posterior in (real, hallucinated):
        posterior.set_time(0.0)
    scale = real.variation.scale
    real.observe(1, float(real.mean[1]))
    hallucinated.hallucinate(1, float(hallucinated.mean[1]))
    assert real.variation.scale < scale
    assert hallucinated.variation.scale == scale
    assert (hallucinated.variation._counts == 0).all()
    np.testing.assert_allclose(
        hallucinated.variance * real.variation.scale, real.variance, rtol=1e-12
    )


def test_training_state_has_the_correlations_of_its_eigenvectors():
    n = len(component_table(COMPONENTS, harmonics_for(M)).kind)
    roots = np.random.default_rng(3).normal(size=(M, n, n))
    covariances = roots @ roots.swapaxes(1, 2)
    covariance = DenseCovariance(MODEL, component_table(COMPONENTS, harmonics_for(M)))
    covariance.load_training(covariances)
    _, U = np.linalg.eigh(MODEL.correlation)
    expected = np.einsum("ik,kab,jk->aibj", U, covariances, U).reshape(n * M, n * M)
    np.testing.assert_allclose(covariance.arrays()["covariance"], expected, atol=1e-12)


@pytest.mark.parametrize("days", [0.2, 3.0, 60.0])
def test_training_state_is_as_uncertain_before_its_end_as_after_it(days):
    """With the test days before the training days, or a clock that is behind the training days."""
    n = len(component_table(COMPONENTS, harmonics_for(M)).kind)
    trained = TrainedState(100 * DAY, np.full((n, M), 0.5), np.zeros((M, n, n)))
    model = replace(MODEL, period=0.0, course=np.zeros((1, M)), state=trained)
    before, after = (StructuralPosterior(field_of(model)) for _ in range(2))
    before.set_time((100 - days) * DAY)
    after.set_time((100 + days) * DAY)
    np.testing.assert_allclose(before.mean, after.mean)
    np.testing.assert_allclose(before.variance, after.variance)
    assert (before.variance > 0.0).all()


def test_liveliness_follows_the_time_of_day():
    model = replace(MODEL, liveliness=np.ones(LIVELINESS_BINS), rows=0)
    posterior, rng = StructuralPosterior(field_of(model)), np.random.default_rng(2)
    for t in range(20 * 24):
        posterior.set_time(t * HOUR)
        posterior.observe(t % M, (3.0 if t % 24 < 12 else 0.3) * rng.normal())
        posterior.advance()
    morning, evening = (
        posterior.variation.liveliness[2:10].mean(),
        posterior.variation.liveliness[14:22].mean(),
    )
    assert morning > 3 * evening
    most, least = posterior.facts()[1].hours
    assert most < 12 <= least


def test_extreme_hours_are_stated_if_each_hour_is_learned_and_they_differ_clearly():
    posterior = StructuralPosterior(field_of(prior_structure(np.eye(M), HOUR)))
    posterior.set_time(0.0)
    posterior.observe(0, 1.0)
    posterior.variation.liveliness[:] = np.linspace(2.4, 0.5, LIVELINESS_BINS)
    assert posterior.facts()[1].hours == (0, 23)
    posterior.variation.liveliness[4] = 1.0  # the assumed value
    assert posterior.facts()[1].hours is None
    posterior.variation.liveliness[:] = np.linspace(1.8, 0.5, LIVELINESS_BINS)
    assert posterior.facts()[1].hours is None


def test_liveliness_of_a_steady_field_stays_near_1_for_months():
    """When parts raised their neighbours, every second part reached the limit within weeks."""
    model = prior_structure(exchangeable(M, 0.5), HOUR)
    policy = make_policy("auto", field_of(model))
    highest, errors, hours = 1.0, [], set()
    values = draw_values(model, np.random.default_rng(1))
    for t, truth in zip(range(120 * 24), values, strict=False):
        policy.set_time(t * HOUR)
        arm = policy.select().arm
        errors.append(policy._posterior.mean - truth)
        policy.observe(arm, float(truth[arm]))
        policy.advance()
        highest = max(highest, policy._posterior.variation.liveliness.max())
        hours.add(policy.facts()[1].hours)
    assert highest < 2.5
    assert hours == {None}
    assert np.sqrt(np.mean(np.square(errors[60 * 24 :]))) < 1.5


def test_restored_liveliness_is_limited():
    posterior = StructuralPosterior(field_of(MODEL))
    posterior.variation.liveliness[:] = 1e20  # as versions before 0.2.0 could store
    other = StructuralPosterior(field_of(MODEL))
    other.restore(posterior.snapshot())
    assert other.variation.liveliness.max() == MAX_LIVELINESS


@given(history=steps, cut=st.integers(0, 25))
@max_examples(30)
def test_restored_it_continues_bit_for_bit(history, cut):
    def run(posterior, part, at):
        for step in part:
            if isinstance(step, int):
                at += step * 7 * HOUR
                posterior.advance()
                posterior.set_time(at)
            else:
                posterior.observe(*step)
        return at

    posterior, other = (StructuralPosterior(field_of(MODEL)) for _ in range(2))
    posterior.set_time(5 * HOUR)
    at = run(posterior, history[:cut], 5 * HOUR)
    other.restore(posterior.snapshot())
    run(posterior, history[cut:], at)
    run(other, history[cut:], at)
    assert other.snapshot() == posterior.snapshot()
    assert other.mean.tobytes() == posterior.mean.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 0.0},
        {"weight": -1.0},
        {"waited": -1},
        {"liveliness": None},
        {"interval_factor": 0.0},
        {"interval_factor": None},
        {"unset_time": -1.0},
    ],
)
def test_impossible_snapshot_is_rejected_and_changes_nothing(change, monkeypatch):
    posterior = StructuralPosterior(field_of(MODEL))
    posterior.observe(0, 1.0)
    before = posterior.snapshot()
    module = "edge_tvbo.models.posteriors.structural.decode_snapshot"
    from edge_tvbo.models import snapshot

    monkeypatch.setattr(module, lambda *a: {**snapshot.decode_snapshot(*a), **change})
    with pytest.raises(SnapshotError):
        posterior.restore(before)
    assert posterior.snapshot() == before


def test_a_snapshot_without_an_interval_factor_has_normal_intervals(monkeypatch):
    posterior, old = (StructuralPosterior(field_of(MODEL)) for _ in range(2))
    for value in (1.0, 9.0, -9.0):
        posterior.observe(0, value)
    module = "edge_tvbo.models.posteriors.structural.decode_snapshot"
    from edge_tvbo.models import snapshot

    def decode(*args):
        state = snapshot.decode_snapshot(*args)
        del state["interval_factor"]
        return state

    monkeypatch.setattr(module, decode)
    old.restore(posterior.snapshot())
    np.testing.assert_array_equal(old.mean, posterior.mean)
    assert old.quantile(0, 0.95) < posterior.quantile(0, 0.95)
    assert old.quantile(0, 0.95) == pytest.approx(normal_quantile(old, 0, 0.95))


@given(
    errors=st.lists(st.sampled_from([0.5, 1.0, 2.0, 5.0]), min_size=200, max_size=300),
    spread=st.sampled_from([0.5, 1.0, 1.5]),
)
@max_examples(10)
def test_intervals_contain_nine_of_ten_readings_whatever_their_distribution(errors, spread):
    posterior = StructuralPosterior(field_of(MODEL))
    inside = 0
    for k, error in enumerate(errors):
        low, high = posterior.quantile(0, 0.05), posterior.quantile(0, 0.95)
        half = (normal_quantile(posterior, 0, 0.95) - normal_quantile(posterior, 0, 0.05)) / 2
        reading = float(posterior.mean[0]) + (-1) ** k * error * spread * half
        inside += low <= reading <= high
        posterior.observe(0, reading)
        posterior.advance()
    # The sum of all steps, .2 (.9 - share inside) for each reading, is the logarithm of the factor.
    most = math.log(5.0 * 1.5) + COVERAGE_STEP
    assert abs(inside / len(errors) - 0.9) <= most / (COVERAGE_STEP * len(errors))


def test_times_before_1970_are_times():
    posteriors = [StructuralPosterior(field_of(MODEL)) for _ in range(2)]
    for posterior, first in zip(posteriors, (-9 * DAY, 0.0), strict=True):
        for k in range(5):
            posterior.set_time(first + k * 7 * HOUR)
            posterior.observe(k % M, 1.0 + k)
            posterior.advance()
    np.testing.assert_allclose(posteriors[0].mean, posteriors[1].mean)
    np.testing.assert_allclose(posteriors[0].variance, posteriors[1].variance)
    assert posteriors[0].facts()[0].period == MODEL.period


def test_reset_forgets_the_readings_but_not_the_time():
    posterior, fresh = (StructuralPosterior(field_of(MODEL)) for _ in range(2))
    for each in (posterior, fresh):
        each.set_time(3 * HOUR)
    posterior.observe(2, 4.0)
    posterior.reset()
    assert posterior.observations == 0
    np.testing.assert_array_equal(posterior.mean, fresh.mean)
    np.testing.assert_array_equal(posterior.variance, fresh.variance)


def test_without_a_time_there_is_no_season():
    posterior = StructuralPosterior(field_of(replace(MODEL, course=np.zeros((1, M)))))
    before = posterior.variance.copy()
    posterior.advance()
    np.testing.assert_allclose(posterior.variance, before, rtol=1e-12)
    assert posterior.facts() == (SeasonAndRates(0.0, 2 * HOUR, DAY, 10),)


def test_without_a_time_the_course_is_its_mean():
    course = np.arange(24.0)[:, None] + np.arange(M)
    posterior = StructuralPosterior(field_of(replace(MODEL, course=course)))
    np.testing.assert_allclose(posterior.mean, course.mean(axis=0))
    posterior.set_time(12 * HOUR)
    np.testing.assert_allclose(posterior.mean, course[12])


def test_prior_assumes_a_day_or_a_year():
    kernel = np.eye(2)
    assert prior_structure(kernel, 600.0).period == DAY
    assert prior_structure(kernel, None).interval == 0.0
    assert prior_structure(kernel, DAY).period == YEAR
    assert prior_structure(np.eye(501), 600.0).period == DAY
    assert prior_structure(np.eye(2001), 600.0) is None
    assert harmonics_for(2001) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"spread": np.ones(3)}, "must be"),
        ({"course": np.full((P, M), np.nan)}, "finite"),
        ({"spread": np.zeros(M)}, "spread"),
        ({"period": -1.0}, "period"),
    ],
)
def test_impossible_model_is_rejected(change, text):
    with pytest.raises(ConfigError, match=text):
        replace(MODEL, **change)


def test_model_of_some_sensors_has_their_parts():
    some = MODEL.of_sensors([2, 0])
    np.testing.assert_array_equal(some.spread, MODEL.spread[[2, 0]])
    np.testing.assert_array_equal(some.correlation, MODEL.correlation[np.ix_([2, 0], [2, 0])])
    assert some.state is None


def test_mirrored_model_estimates_the_negative_values():
    model = replace(MODEL, correlation=np.eye(M))
    one, other = (
        StructuralPosterior(field_of(model)),
        StructuralPosterior(field_of(mirrored(model))),
    )
    for posterior, sign in ((one, 1.0), (other, -1.0)):
        for t in range(30):
            posterior.set_time(t * HOUR)
            posterior.observe(t % M, sign * math.sin(t))
            posterior.advance()
    np.testing.assert_allclose(other.mean, -one.mean)
    np.testing.assert_allclose(other.variance, one.variance)
