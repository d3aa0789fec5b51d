"""Unknown length scale: regret balancing and fits agree with a plain twin of the paper.

[LB] Ziomek, Adachi & Osborne 2024, Bayesian optimisation with unknown hyperparameters.
"""

import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.naive import se
from support.policy_snapshots import opened, resealed

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.snapshot import encode_snapshot
from edge_tvbo.models.spatial_kernels import SpatialKernel, matern
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.registry import settings_class
from edge_tvbo.policy.unknown_length_scale.candidates import (
    MAX_CANDIDATES,
    Growth,
    Hypothesis,
    ShrinkingSchedule,
)

NAMES = ("a-gp-ucb", "lb-gp-ucb", "lnb-gp-ucb", "mle-gp-ucb", "mcmc-gp-ucb")
BALANCED = ("lb-gp-ucb", "lnb-gp-ucb")
PLACES = np.array([[0.0, 0.1], [0.4, 0.0], [0.9, 0.3], [0.5, 0.8], [0.1, 0.9], [1.0, 1.0]])
every_policy = pytest.mark.parametrize("name", NAMES)


def line(M=12, noise_variance=0.01, variance=1.0):
    """Return sensors on a line from 0 to 1; the policies use only the variance of the kernel."""
    places = np.linspace(0.0, 1.0, M)[:, None]
    return SensorField(
        tuple(f"n{i}" for i in range(M)),
        variance * np.eye(M),
        noise_variance * variance,
        positions=places,
    )


def plane(noise_variance=0.04, variance=2.25):
    names = tuple("abcdef")
    return SensorField(names, variance * se(PLACES, 0.5), noise_variance, positions=PLACES)


def run(policy, values, steps, noise=0.0, seed=0):
    """Run some intervals of a policy and return its length scales."""
    rng = np.random.default_rng(seed)
    scales = []
    for _ in range(steps):
        choice = policy.select()
        scales.append(policy.length_scale)
        policy.observe(choice.arm, float(values(choice.arm) + noise * rng.normal()))
        policy.advance()
    return scales


# --- the twin -----------------------------------------------------------------------------------


class PlainBalancing:
    """[LB] algorithms 1 and 3 as printed, with lists, except where their proofs need a correction.

    Line 14 admits q(l+1) that is not below θ0/g(t) (section 3), counted so that no length scale
    is left out; line 12 has +√(ξ/n) on the left (lemma B.2). Readings are in model units.
    """

    def __init__(self, field, theta0, B0, *, nu, delta, growth, norm_growth=0.0):
        self.X = field.positions
        self.d = self.X.shape[1]
        self.V = max(np.diag(field.kernel))
        self.noise_variance = field.noise_variance
        self.extent = max(self.X.max(axis=0) - self.X.min(axis=0))
        self.theta0, self.B0, self.nu, self.delta = theta0, B0, nu, delta
        t0 = math.exp(4 / self.d)  # five candidates at once: e^0 to e^(-4/d)
        self.g = lambda t: max(t0, t**growth)
        self.b = lambda t: t**norm_growth
        self.scales, self.norms = [theta0], [B0]
        self.U = [(theta0, B0)]
        self.introduced = 1
        self.S = {self.U[0]: []}  # u -> [(y, β σ)]
        self.D = []  # (arm, y)

    def q(self, i):
        return self.theta0 * math.exp(-i / self.d)

    def v(self, j):
        return self.B0 * math.exp(j)

    def norm(self, u):
        theta, N = u
        return (self.theta0 / theta) ** (self.d / 2) * N

    def regret(self, u, n):
        d, nu = self.d, self.nu
        share = u[0] / self.extent
        if math.isinf(nu):
            gamma = share**-d * math.log(n) ** (d + 1)
        else:
            gamma = share**-d * n ** (d / (2 * nu + d)) * math.log(n) ** (2 * nu / (2 * nu + d))
        return math.sqrt(n) * (self.norm(u) * math.sqrt(gamma) + gamma)

    def choose(self):
        return min(self.U, key=lambda u: self.regret(u, len(self.S[u]) + 1))  # of equals the first

    def ucb(self, u):
        """Mean, β and σ of every arm."""
        k = self.V * matern(self.X, u[0], self.nu)
        arms = [arm for arm, _ in self.D]
        y = np.array([y for _, y in self.D])
        K = k[np.ix_(arms, arms)]
        A = K + self.noise_variance * np.eye(len(arms))
        inverse = np.linalg.inv(A)
        mean = k[:, arms] @ inverse @ y
        variance = self.V - np.sum(k[:, arms] @ inverse * k[:, arms], axis=1)
        gamma = 0.5 * np.linalg.slogdet(np.eye(len(arms)) + K / self.noise_variance)[1]
        noise = math.sqrt(self.noise_variance / self.V)
        beta = self.norm(u) + noise * math.sqrt(2 * (gamma + 1 + math.log(1 / self.delta)))
        return mean, beta, np.sqrt(np.maximum(variance, 0.0))

    def end(self, t, u, replies):
        self.S[u] += replies
        if all(len(self.S[each]) for each in self.U):
            xi = 2 * self.noise_variance
            xi *= math.log(self.introduced * math.pi**2 * t**2 / (6 * self.delta))
            mean = {each: np.mean([y for y, _ in self.S[each]]) for each in self.U}
            bonus = {each: 2 * np.mean([b for _, b in self.S[each]]) for each in self.U}
            margin = {each: math.sqrt(xi / len(self.S[each])) for each in self.U}
            best = max(mean[each] - margin[each] for each in self.U)
            self.U = [e for e in self.U if mean[e] + margin[e] + bonus[e] >= best]
        theta = self.q(len(self.scales))
        if theta * (1 + 1e-12) >= self.theta0 / self.g(t):
            self.scales.append(theta)
            self.admit([(theta, N) for N in self.norms])
        N = self.v(len(self.norms))
        if self.B0 * self.b(t) >= N:
            self.norms.append(N)
            self.admit([(theta, N) for theta in self.scales])

    def admit(self, pairs):
        self.U += pairs
        self.introduced += len(pairs)
        self.S.update({pair: [] for pair in pairs})


histories = st.lists(
    st.lists(st.tuples(st.integers(0, 5) | st.none(), st.integers(-300, 300)), max_size=3),
    max_size=25,
)


def assert_agrees(policy, twin, history):
    """Check hypothesis, replies and candidates of each interval against the twin."""
    for t, readings in enumerate(history, start=1):
        u, replies = twin.choose(), []
        hypothesis = policy.selector.hypotheses(t)[0]
        assert hypothesis == pytest.approx((u[0], twin.norm(u)))
        for arm, y in readings:
            choice = policy.select()
            mean, beta, std = twin.ucb(u)
            assert choice.ucb == pytest.approx(np.max(mean + beta * std), rel=1e-5, abs=1e-5)
            arm, y = choice.arm if arm is None else arm, y / 100
            if arm == choice.arm:
                replies.append((y, beta * std[arm]))
            policy.observe(arm, y)
            twin.D.append((arm, y))
        policy.advance()
        twin.end(t, u, replies)
        candidates = policy.selector.candidates
        assert [tuple(each) for each in candidates] == [
            pytest.approx((theta, twin.norm((theta, N)))) for theta, N in twin.U
        ]
        assert list(policy.selector.replies().values()) == [len(twin.S[u]) for u in twin.U]


@pytest.mark.parametrize("nu", [2.5, math.inf])
@given(history=histories)
@max_examples(20)
def test_lb_selects_and_eliminates_like_algorithm_1(nu, history):
    field = plane()
    policy = make_policy("lb-gp-ucb", field, length_scale=0.8, nu=nu, bound=0.3, delta=0.2)
    twin = PlainBalancing(field, 0.8, 0.3, nu=nu, delta=0.2, growth=0.5)
    assert_agrees(policy, twin, history)


@given(history=histories)
@max_examples(20)
def test_lnb_selects_and_eliminates_like_algorithm_3(history):
    field = plane()
    settings = {"growth": 0.9, "norm_growth": 0.7}
    policy = make_policy("lnb-gp-ucb", field, length_scale=0.8, bound=0.2, delta=0.2, **settings)
    twin = PlainBalancing(field, 0.8, 0.2, nu=2.5, delta=0.2, **settings)
    assert_agrees(policy, twin, history)


@pytest.mark.parametrize(("name", "norm"), [("lb-gp-ucb", 0.0), ("lnb-gp-ucb", 0.5)])
def test_many_intervals_with_eliminations_agree_too(name, norm):
    field = plane(noise_variance=1e-3)
    more = {"norm_growth": norm} if norm else {}
    policy = make_policy(name, field, length_scale=2.0, bound=0.01, delta=0.1, growth=0.75, **more)
    twin = PlainBalancing(field, 2.0, 0.01, nu=2.5, delta=0.1, growth=0.75, norm_growth=norm)
    rng = np.random.default_rng(1)
    history = [[(None, int(rng.integers(-300, 300)))] for _ in range(120)]
    assert_agrees(policy, twin, history)
    assert len(twin.U) < twin.introduced  # otherwise no elimination was compared


# --- properties ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BALANCED)
@given(
    readings=st.lists(st.floats(-3, 3), max_size=60),
    growth=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.5]),
    ratio=st.sampled_from([None, 1.2, 2.0]),
)
@max_examples(25)
def test_candidates_stay_within_the_growth_and_one_survives(name, readings, growth, ratio):
    policy = make_policy(name, line(), length_scale=0.7, growth=growth, ratio=ratio, bound=0.1)
    step = 1.0 if ratio is None else math.log(ratio)
    for t, y in enumerate(readings, start=1):
        policy.observe(policy.select().arm, y)
        policy.advance()
        scales = [each.length_scale for each in policy.selector.candidates]
        assert 1 <= len(scales) <= MAX_CANDIDATES
        assert max(scales) <= 0.7
        assert min(scales) >= 0.7 * math.exp(-Growth(step, growth).log(t)) * (1 - 1e-12)
        assert policy.length_scale in scales


@pytest.mark.parametrize("name", BALANCED)
def test_suspected_regrets_are_balanced_to_within_one_reply(name):
    """Each was the lowest when it was selected last, and the others have only grown since."""
    more = {"norm_growth": 0.0} if name == "lnb-gp-ucb" else {}
    policy = make_policy(name, line(), growth=0.0, bound=3.0, **more)  # five candidates, no more
    run(policy, lambda arm: 0.1 * arm, 150)
    replies, bound = policy.selector.replies(), policy.selector.regret_bound
    assert len(replies) == 5
    assert sum(replies.values()) == 150
    for one, n in replies.items():
        for other, m in replies.items():
            assert bound(one, n) <= bound(other, m + 1) or n == 1


@pytest.mark.parametrize("name", BALANCED)
@given(st.lists(st.one_of(st.none(), st.floats(-3, 3)), max_size=40))
@max_examples(25)
def test_intervals_without_replies_choose_as_if_all_bounds_were_computed(name, history):
    """A restored policy computes all bounds; the other one keeps them while nothing changes."""
    options = {"bound": 0.1, "growth": 0.75}
    policy, other = (make_policy(name, line(), **options) for _ in range(2))
    for y in history:
        for each in (policy, other):
            if y is not None:
                each.observe(each.select().arm, y)
        again = make_policy(name, line(), **options)
        again.restore(other.snapshot())
        other = again
        for each in (policy, other):
            each.advance()
        assert policy.snapshot() == other.snapshot()


@pytest.mark.parametrize("name", BALANCED)
def test_a_downtime_computes_bounds_only_for_new_candidates(name, monkeypatch):
    """With LNB-GP-UCB, the intervals of a month took 6 s."""
    policy = make_policy(name, line())
    run(policy, lambda arm: 0.1 * arm, 30)
    bound, calls = policy.selector.regret_bound, []
    monkeypatch.setattr(
        policy.selector, "regret_bound", lambda *each: (calls.append(1), bound(*each))[1]
    )
    for _ in range(3000):
        policy.advance()
    assert len(calls) <= len(policy.selector.candidates) ** 2


def test_longest_candidates_are_selected_most():
    policy = make_policy("lb-gp-ucb", line(), growth=0.0, bound=3.0)
    run(policy, lambda arm: 0.0, 150)
    replies = list(policy.selector.replies().values())
    assert replies == sorted(replies, reverse=True)


def test_five_candidates_are_admitted_after_four_intervals():
    policy = make_policy("lb-gp-ucb", plane(), growth=0.0)
    for _ in range(9):
        policy.advance()
    scales = [each.length_scale for each in policy.selector.candidates]
    assert scales == pytest.approx([math.exp(-i / 2) for i in range(5)])


def test_length_scale_with_much_lower_readings_is_eliminated():
    """The longest one, with a small bound, reads 0 where the shorter ones read 3."""
    policy = make_policy("lb-gp-ucb", line(noise_variance=1e-4), bound=0.01, growth=0.0)
    for _ in range(40):
        choice = policy.select()
        policy.observe(choice.arm, 0.0 if policy.length_scale == 1.0 else 3.0)
        policy.advance()
    assert 1.0 not in [each.length_scale for each in policy.selector.candidates]


@pytest.mark.parametrize("name", BALANCED)
def test_reset_restores_eliminated_candidates_and_discards_their_replies(name):
    policy = make_policy(name, line(noise_variance=1e-4), bound=0.01, growth=0.0)
    admitted = set()
    for _ in range(40):
        admitted |= set(policy.selector.candidates)
        policy.observe(policy.select().arm, 0.0 if policy.length_scale == 1.0 else 3.0)
        policy.advance()
    assert admitted - set(policy.selector.candidates)
    policy.reset()
    assert policy.selector.replies() == dict.fromkeys(admitted, 0)
    arrays = policy.selector.arrays()
    assert not arrays["sums"].any()
    assert not arrays["bonuses"].any()
    run(policy, lambda arm: 3.0, 5)
    assert set(policy.selector.candidates) == admitted


def test_only_replies_update_the_selector():
    policy = make_policy("lb-gp-ucb", line())
    selected = policy.select().arm
    policy.observe((selected + 1) % 12, 1.0)
    assert sum(policy.selector.replies().values()) == 0
    policy.observe(selected, 1.0)
    policy.observe(selected, 1.0)  # a second reading is no reply
    assert sum(policy.selector.replies().values()) == 1
    assert policy.observations == 3


def test_replies_of_several_arms_update_the_same_hypothesis():
    policy = make_policy("lb-gp-ucb", line())
    run(policy, lambda arm: 0.0, 6)
    hypothesis = policy.selector.hypotheses(7)[0]
    before = policy.selector.replies()[hypothesis]
    for choice in policy.select_many(3):
        policy.observe(choice.arm, 0.0)
    assert policy.selector.hypotheses(7)[0] == hypothesis
    assert policy.selector.replies()[hypothesis] == before + 3


@given(growth=st.floats(0, 1), step=st.floats(0.01, 1), norm=st.floats(0, 1))
def test_schedule_shortens_the_length_scale_and_raises_the_norm(growth, step, norm):
    shrinking = ShrinkingSchedule(Hypothesis(2.0, 0.5), Growth(step, growth), 3, norm)
    hypotheses = [shrinking.hypotheses(t)[0] for t in range(1, 400, 7)]
    for earlier, later in pairwise(hypotheses):
        assert later.length_scale <= earlier.length_scale < 2.0
        assert later.norm >= earlier.norm > 0.5
    t, g = 393, max(math.exp(4 * step), 393**growth)
    assert hypotheses[-1] == pytest.approx((2.0 / g, t**norm * g**3 * 0.5))


@every_policy
def test_default_width_is_the_agnostic_one(name):
    field = plane(noise_variance=0.09, variance=2.25)
    policy = make_policy(name, field, bound=0.7, delta=0.05)
    policy.observe(0, 1.0)
    choice = policy.select()
    theta, norm = policy.selector.hypotheses(1)[0]
    assert (theta, norm) == (1.0, 0.7) or name == "a-gp-ucb"
    gain = 0.5 * math.log(1 + 2.25 / 0.09)
    width = norm + 0.2 * math.sqrt(2 * (gain + 1 + math.log(20)))
    assert choice.width == pytest.approx(width, rel=1e-6)
    assert choice.ucb == pytest.approx(choice.mean + width * choice.std, rel=1e-6)


@every_policy
def test_beta_replaces_the_agnostic_width(name):
    policy = make_policy(name, plane(), beta=4.0)
    policy.observe(0, 1.0)
    choice = policy.select()
    assert choice.ucb == pytest.approx(choice.mean + 2.0 * choice.std)


# --- fitting and sampling -----------------------------------------------------------------------


def simulated(length_scale, seed, n=120):
    """Return a box, and readings at random places of a field drawn with a length scale."""
    box = BoxField([0.0, 0.0], [2.0, 1.0], SpatialKernel(2.5, 1.0, 4.0), 0.04, candidates=16)
    rng = np.random.default_rng(seed)
    X = rng.uniform(box.lower, box.upper, (n, 2))
    K = 4.0 * matern(X, length_scale, 2.5) + 0.04 * np.eye(n)
    y = np.linalg.cholesky(K) @ rng.normal(size=n)
    return box, [(tuple(map(float, x)), float(value)) for x, value in zip(X, y, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mle-gp-ucb", "mcmc-gp-ucb"])
@pytest.mark.parametrize("length_scale", [0.15, 0.4, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_length_scale_of_a_simulated_field_is_found(name, length_scale, seed):
    box, readings = simulated(length_scale, seed)
    policy = make_policy(name, box, prior=None)
    for arm, y in readings:
        policy.observe(arm, y)
    for _ in range(3):
        policy.advance()
    assert length_scale / 1.6 < policy.length_scale < 1.6 * length_scale


def test_fit_is_as_probable_as_the_best_of_a_fine_grid():
    box, readings = simulated(0.3, 5, n=60)
    policy = make_policy("mle-gp-ucb", box)
    for arm, y in readings:
        policy.observe(arm, y)
    policy.advance()
    readings = policy._policy._posterior.readings
    on_grid = [readings.fit(theta).log_likelihood() for theta in np.geomspace(0.01, 10, 300)]
    assert readings.fit(policy.length_scale).log_likelihood() > max(on_grid) - 0.02


def test_prior_pulls_the_fit_towards_its_mode():
    box, readings = simulated(0.3, 2, n=4)
    fits = []
    for prior in (None, (300.0, 600.0)):
        policy = make_policy("mle-gp-ucb", box, prior=prior)
        for arm, y in readings:
            policy.observe(arm, y)
        policy.advance()
        fits.append(policy.length_scale)
    assert fits[1] == pytest.approx(2.0 * 299 / 600, rel=0.1)  # the mode, in shares of the side
    assert fits[0] != pytest.approx(fits[1], rel=0.05)


def count_densities(policy, intervals):
    """Return how often intervals without readings evaluate the density of a length scale."""
    readings, calls = policy._posterior.readings, []
    fit = readings.fit
    readings.fit = lambda theta: (calls.append(theta), fit(theta))[1]
    for _ in range(intervals):
        policy.advance()
    del readings.fit
    return len(calls)


@pytest.mark.parametrize("name", ["mle-gp-ucb", "mcmc-gp-ucb"])
@given(pauses=st.lists(st.integers(0, 50), max_size=5))
@max_examples(5)
def test_length_scale_is_fitted_again_only_to_other_readings(name, pauses):
    """After a long downtime, the daemon ends up to 10,000 intervals at once."""
    policy = make_policy(name, plane(), window=4)
    for pause in pauses:
        policy.observe(pause % 6, 0.1 * pause)
        assert count_densities(policy, 1)
        assert not count_densities(policy, pause)
        restored = make_policy(name, plane(), window=4)
        restored.restore(policy.snapshot())
        assert not count_densities(restored, pause)
    before = policy.length_scale
    policy.reset()
    policy.advance()
    assert (policy.length_scale == before) == (name == "mle-gp-ucb")  # samples follow the prior


@pytest.mark.parametrize("name", ["mle-gp-ucb", "mcmc-gp-ucb"])
def test_snapshot_that_does_not_say_whether_the_length_scale_was_fitted_fits_again(name):
    policy = make_policy(name, plane())
    policy.observe(1, 0.3)
    policy.advance()
    kind, field, state = opened(opened(policy.snapshot())[2]["posterior"])
    assert state.pop("changed") == 0
    old = make_policy(name, plane())
    old.restore(resealed(policy.snapshot(), posterior=encode_snapshot(kind, field, state)))
    assert count_densities(old, 1)


def test_samples_without_readings_follow_the_prior():
    policy = make_policy("mcmc-gp-ucb", line(), samples=500)
    policy.advance()
    shares = [each.length_scale for each in policy.selector.hypotheses(2)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)  # Γ(3, 6)
    assert np.std(shares) == pytest.approx(math.sqrt(3) / 6, abs=0.05)


@pytest.mark.slow
def test_samples_follow_the_posterior_on_a_grid():
    box, readings = simulated(0.4, 3, n=15)
    policy = make_policy("mcmc-gp-ucb", box, samples=800)
    for arm, y in readings:
        policy.observe(arm, y)
    policy.advance()
    log_scales = np.linspace(np.log(0.01), np.log(10.0), 600)
    readings = policy._policy._posterior.readings
    log_weights = [
        readings.fit(math.exp(s)).log_likelihood() + 3 * s - 3 * math.exp(s) for s in log_scales
    ]
    weights = np.exp(np.array(log_weights) - max(log_weights))
    mean = np.sum(weights * log_scales) / weights.sum()
    std = math.sqrt(np.sum(weights * (log_scales - mean) ** 2) / weights.sum())
    samples = np.log([each.length_scale for each in policy.selector.hypotheses(2)])
    assert np.mean(samples) == pytest.approx(mean, abs=0.2 * std)
    assert np.std(samples) == pytest.approx(std, rel=0.2)


def test_mcmc_samples_depend_on_the_seed():
    def scales(seed):
        return run(make_policy("mcmc-gp-ucb", plane(), seed=seed), lambda arm: 0.2 * arm, 8)

    assert scales(3) == scales(3)
    assert scales(3) != scales(4)


def test_mcmc_bound_is_the_mean_of_its_samples_bounds():
    field = plane()
    policy = make_policy("mcmc-gp-ucb", field, samples=5, beta=4.0)
    run(policy, lambda arm: 0.3 * arm, 4)
    readings = policy._posterior.readings
    bounds = []
    for theta, _ in policy.selector.hypotheses(5):
        distances = readings.candidate_distances()
        k = readings.correlations(distances, theta)
        mean, variance = readings.fit(theta).predict(k, np.ones(len(field)))
        bounds.append(1.5 * (mean + 2.0 * np.sqrt(variance)))
    assert policy.select().ucb == pytest.approx(np.max(np.mean(bounds, axis=0)))


# --- kinds of field -----------------------------------------------------------------------------

FIELDS = {
    "sensors": plane(),
    "line": line(),
    "one sensor": SensorField(("a",), [[1.0]], 0.01, positions=[[3.0, 4.0]]),
    "grid": grid(6, SpatialKernel(length_scale=0.2), 0.01),
    "box 1-d": BoxField([-1.0], [1.0], SpatialKernel(2.5, 0.3), 0.01, candidates=64),
    "box 2-d": BoxField([0.0, 5.0], [1.0, 7.0], SpatialKernel(2.5, 0.3), 0.01, candidates=64),
}


@pytest.mark.slow
@every_policy
@pytest.mark.parametrize("field", FIELDS.values(), ids=list(FIELDS))
def test_sensors_grids_and_boxes_work(name, field):
    policy, other = make_policy(name, field, window=8), make_policy(name, field, window=8)

    def value(arm):
        place = np.array(arm) if isinstance(arm, tuple) else field.positions[arm]
        return float(np.sin(3 * place).sum())

    run(policy, value, 12)
    other.restore(policy.snapshot())
    assert policy.observations == min(12, 8)
    assert run(policy, value, 4) == run(other, value, 4)
    assert policy.snapshot() == other.snapshot()
    mean, std = policy.posterior()
    assert mean.shape == std.shape == (len(field),)
    assert field.contains(np.atleast_2d(np.array(policy.select().arm, np.float64)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_maximum_of_a_smooth_function_in_a_box_is_found(name):
    box = BoxField([0.0], [1.0], SpatialKernel(2.5, 0.3), 1e-4)
    policy = make_policy(name, box, beta=1.0, ratio=1.2) if name in NAMES[:3] else None
    policy = policy or make_policy(name, box, beta=1.0)
    run(policy, lambda arm: math.sin(5 * arm[0]), 25)
    mean, _ = policy.posterior()
    best = box.arm(int(mean.argmax()))[0]
    assert best == pytest.approx(math.pi / 10, abs=0.02)


def test_full_window_holds_the_newest_readings():
    policy, late = make_policy("mle-gp-ucb", line(), window=4), make_policy("mle-gp-ucb", line())
    for arm in range(11):
        policy.observe(arm, 0.1 * arm)
    for arm in range(7, 11):
        late.observe(arm, 0.1 * arm)
    np.testing.assert_allclose(policy.posterior(), late.posterior(), atol=1e-9)


@every_policy
def test_sensors_without_positions_are_rejected_with_a_fix(name):
    field = SensorField(("a", "b"), np.eye(2), 0.01)
    with pytest.raises(ConfigError, match=f"(?s){name}.*positions=.*gp-ucb"):
        make_policy(name, field)


@every_policy
def test_snapshot_of_sensors_at_other_positions_is_rejected(name):
    policy = make_policy(name, plane())
    moved = PLACES + np.array([1.0, 0.0])
    field = SensorField(tuple("abcdef"), plane().kernel, plane().noise_variance, positions=moved)
    with pytest.raises(SnapshotError):
        make_policy(name, field).restore(policy.snapshot())


WRONG = [
    {"length_scale": 0.0},
    {"length_scale": math.inf},
    {"length_scale": "long"},
    {"nu": 0.0},
    {"nu": math.nan},
    {"bound": -1.0},
    {"delta": 0.0},
    {"delta": 1.0},
    {"window": 0},
    {"growth": -0.1},
    {"growth": True},
    {"norm_growth": math.nan},
    {"ratio": 1.0},
    {"prior": (1.0,)},
    {"prior": (0.0, 1.0)},
    {"prior": "gamma"},
    {"prior": 3.0},
    {"samples": 0},
]


@every_policy
def test_parameter_out_of_range_is_rejected_by_its_name(name):
    declared = msgspec.structs.fields(settings_class(name))
    for wrong in WRONG:
        (key,) = wrong
        known = key in {each.name for each in declared}
        match = f"{key} is .*; allowed: " if known else f"has no parameter '{key}'"
        with pytest.raises(ConfigError, match=match):
            make_policy(name, plane(), **wrong)
