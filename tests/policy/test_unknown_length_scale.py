"""Length scales learned from the readings: against a plain twin of the paper, and by what they owe.

[LB] Ziomek, Adachi & Osborne 2024, Bayesian optimisation with unknown hyperparameters.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import se

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel, matern
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.unknown_length_scale.candidates import (
    MOST,
    Growth,
    Hypothesis,
    ShrinkingSchedule,
)

NAMES = ("a-gp-ucb", "lb-gp-ucb", "lnb-gp-ucb", "mle-gp-ucb", "mcmc-gp-ucb")
BALANCED = ("lb-gp-ucb", "lnb-gp-ucb")
PLACES = np.array([[0.0, 0.1], [0.4, 0.0], [0.9, 0.3], [0.5, 0.8], [0.1, 0.9], [1.0, 1.0]])
every_policy = pytest.mark.parametrize("name", NAMES)


def line(M=12, noise_variance=0.01, variance=1.0):
    """Sensors on a line from 0 to 1; a policy takes no more than the variance from the kernel."""
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


def lived(policy, values, steps, noise=0.0, seed=0):
    """Let a policy choose; return its length scales."""
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
    """[LB] algorithms 1 and 3 as printed, with lists, but where their proofs need something else.

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

    def end(self, t, u, answers):
        self.S[u] += answers
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


def assert_follows(policy, twin, history):
    """Each interval's play, answers, and survivors are those of the twin."""
    for t, readings in enumerate(history, start=1):
        u, answers = twin.choose(), []
        play = policy.scales.plays(t)[0]
        assert play == pytest.approx((u[0], twin.norm(u)))
        for arm, y in readings:
            choice = policy.select()
            mean, beta, std = twin.ucb(u)
            assert choice.ucb == pytest.approx(np.max(mean + beta * std), rel=1e-5, abs=1e-5)
            arm, y = choice.arm if arm is None else arm, y / 100
            if arm == choice.arm:
                answers.append((y, beta * std[arm]))
            policy.observe(arm, y)
            twin.D.append((arm, y))
        policy.advance()
        twin.end(t, u, answers)
        survivors = policy.scales.candidates
        assert [tuple(play) for play in survivors] == [
            pytest.approx((theta, twin.norm((theta, N)))) for theta, N in twin.U
        ]
        assert list(policy.scales.answers().values()) == [len(twin.S[u]) for u in twin.U]


@pytest.mark.parametrize("nu", [2.5, math.inf])
@given(history=histories)
@settings(max_examples=20)
def test_lb_plays_and_eliminates_as_algorithm_1_does(nu, history):
    field = plane()
    policy = make_policy("lb-gp-ucb", field, length_scale=0.8, nu=nu, bound=0.3, delta=0.2)
    twin = PlainBalancing(field, 0.8, 0.3, nu=nu, delta=0.2, growth=0.5)
    assert_follows(policy, twin, history)


@given(history=histories)
@settings(max_examples=20)
def test_lnb_plays_and_eliminates_as_algorithm_3_does(history):
    field = plane()
    settings = {"growth": 0.9, "norm_growth": 0.7}
    policy = make_policy("lnb-gp-ucb", field, length_scale=0.8, bound=0.2, delta=0.2, **settings)
    twin = PlainBalancing(field, 0.8, 0.2, nu=2.5, delta=0.2, **settings)
    assert_follows(policy, twin, history)


@pytest.mark.parametrize(("name", "norm"), [("lb-gp-ucb", 0.0), ("lnb-gp-ucb", 0.5)])
def test_over_a_long_life_with_eliminations_they_do_so_too(name, norm):
    field = plane(noise_variance=1e-3)
    more = {"norm_growth": norm} if norm else {}
    policy = make_policy(name, field, length_scale=2.0, bound=0.01, delta=0.1, growth=0.75, **more)
    twin = PlainBalancing(field, 2.0, 0.01, nu=2.5, delta=0.1, growth=0.75, norm_growth=norm)
    rng = np.random.default_rng(1)
    history = [[(None, int(rng.integers(-300, 300)))] for _ in range(120)]
    assert_follows(policy, twin, history)
    assert len(twin.U) < twin.introduced  # some were dropped, or this showed nothing


# --- what they owe ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BALANCED)
@given(
    readings=st.lists(st.floats(-3, 3), max_size=60),
    growth=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.5]),
    ratio=st.sampled_from([None, 1.2, 2.0]),
)
@settings(max_examples=25)
def test_candidates_lie_between_the_first_and_what_growth_allows_and_one_survives(
    name, readings, growth, ratio
):
    policy = make_policy(name, line(), length_scale=0.7, growth=growth, ratio=ratio, bound=0.1)
    step = 1.0 if ratio is None else math.log(ratio)
    for t, y in enumerate(readings, start=1):
        policy.observe(policy.select().arm, y)
        policy.advance()
        scales = [play.length_scale for play in policy.scales.candidates]
        assert 1 <= len(scales) <= MOST
        assert max(scales) <= 0.7
        assert min(scales) >= 0.7 * math.exp(-Growth(step, growth).log(t)) * (1 - 1e-12)
        assert policy.length_scale in scales


@pytest.mark.parametrize("name", BALANCED)
def test_suspected_regrets_are_in_balance_to_within_a_play(name):
    """The last play of any was the cheapest then, and the others have only become dearer since."""
    more = {"norm_growth": 0.0} if name == "lnb-gp-ucb" else {}
    policy = make_policy(name, line(), growth=0.0, bound=3.0, **more)  # five candidates, no more
    lived(policy, lambda arm: 0.1 * arm, 150)
    answers, suspected = policy.scales.answers(), policy.scales.suspected
    assert len(answers) == 5
    assert sum(answers.values()) == 150
    for one, n in answers.items():
        for other, m in answers.items():
            assert suspected(one, n) <= suspected(other, m + 1) or n == 1


def test_the_longest_candidates_are_played_most():
    policy = make_policy("lb-gp-ucb", line(), growth=0.0, bound=3.0)
    lived(policy, lambda arm: 0.0, 150)
    answers = list(policy.scales.answers().values())
    assert answers == sorted(answers, reverse=True)


def test_five_candidates_are_in_after_four_intervals():
    policy = make_policy("lb-gp-ucb", plane(), growth=0.0)
    for _ in range(9):
        policy.advance()
    scales = [play.length_scale for play in policy.scales.candidates]
    assert scales == pytest.approx([math.exp(-i / 2) for i in range(5)])


def test_a_length_scale_that_finds_much_less_is_dropped():
    """The long scale, told to be sure of itself, stays with 0 where the short ones find 3."""
    policy = make_policy("lb-gp-ucb", line(noise_variance=1e-4), bound=0.01, growth=0.0)
    for _ in range(40):
        choice = policy.select()
        policy.observe(choice.arm, 0.0 if policy.length_scale == 1.0 else 3.0)
        policy.advance()
    assert 1.0 not in [play.length_scale for play in policy.scales.candidates]


def test_only_answers_are_credited_and_everything_is_learned_from():
    policy = make_policy("lb-gp-ucb", line())
    asked = policy.select().arm
    policy.observe((asked + 1) % 12, 1.0)
    assert sum(policy.scales.answers().values()) == 0
    policy.observe(asked, 1.0)
    policy.observe(asked, 1.0)  # not asked for a second time
    assert sum(policy.scales.answers().values()) == 1
    assert policy.observations == 3


def test_all_that_are_asked_for_together_are_credited_to_the_same_length_scale():
    policy = make_policy("lb-gp-ucb", line())
    lived(policy, lambda arm: 0.0, 6)
    play = policy.scales.plays(7)[0]
    before = policy.scales.answers()[play]
    for choice in policy.select_many(3):
        policy.observe(choice.arm, 0.0)
    assert policy.scales.plays(7)[0] == play
    assert policy.scales.answers()[play] == before + 3


@given(growth=st.floats(0, 1), step=st.floats(0.01, 1), norm=st.floats(0, 1))
def test_a_gp_shortens_the_length_scale_and_widens_the_norm(growth, step, norm):
    shrinking = ShrinkingSchedule(Hypothesis(2.0, 0.5), Growth(step, growth), 3, norm)
    plays = [shrinking.plays(t)[0] for t in range(1, 400, 7)]
    for earlier, later in pairwise(plays):
        assert later.length_scale <= earlier.length_scale < 2.0
        assert later.norm >= earlier.norm > 0.5
    t, g = 393, max(math.exp(4 * step), 393**growth)
    assert plays[-1] == pytest.approx((2.0 / g, t**norm * g**3 * 0.5))


@every_policy
def test_the_width_is_the_agnostic_one(name):
    field = plane(noise_variance=0.09, variance=2.25)
    policy = make_policy(name, field, bound=0.7, delta=0.05)
    policy.observe(0, 1.0)
    choice = policy.select()
    theta, norm = policy.scales.plays(1)[0]
    assert (theta, norm) == (1.0, 0.7) or name == "a-gp-ucb"
    gain = 0.5 * math.log(1 + 2.25 / 0.09)
    width = norm + 0.2 * math.sqrt(2 * (gain + 1 + math.log(20)))
    assert choice.ucb == pytest.approx(choice.mean + width * choice.std, rel=1e-6)


@every_policy
def test_any_other_width_can_be_given(name):
    policy = make_policy(name, plane(), beta=4.0)
    policy.observe(0, 1.0)
    choice = policy.select()
    assert choice.ucb == pytest.approx(choice.mean + 2.0 * choice.std)


# --- learning from the readings -----------------------------------------------------------------


def simulated(length_scale, seed, n=120):
    """A box, and readings at random places of a field drawn with a length scale."""
    box = BoxField([0.0, 0.0], [2.0, 1.0], SpatialKernel(2.5, 1.0, 4.0), 0.04)
    rng = np.random.default_rng(seed)
    X = rng.uniform(box.lower, box.upper, (n, 2))
    K = 4.0 * matern(X, length_scale, 2.5) + 0.04 * np.eye(n)
    y = np.linalg.cholesky(K) @ rng.normal(size=n)
    return box, [(tuple(map(float, x)), float(value)) for x, value in zip(X, y, strict=True)]


@pytest.mark.parametrize("name", ["mle-gp-ucb", "mcmc-gp-ucb"])
@pytest.mark.parametrize("length_scale", [0.15, 0.4, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_length_scale_of_a_simulated_field_is_found(name, length_scale, seed):
    box, readings = simulated(length_scale, seed)
    policy = make_policy(name, box, prior=None)
    for arm, y in readings:
        policy.observe(arm, y)
    for _ in range(3):
        policy.advance()
    assert length_scale / 1.6 < policy.length_scale < 1.6 * length_scale


def test_a_fit_is_no_worse_than_any_on_a_fine_grid():
    box, readings = simulated(0.3, 5, n=60)
    policy = make_policy("mle-gp-ucb", box)
    for arm, y in readings:
        policy.observe(arm, y)
    policy.advance()
    held = policy._believed.readings
    grid_of = [held.fit(theta).log_likelihood() for theta in np.geomspace(0.01, 10, 300)]
    assert held.fit(policy.length_scale).log_likelihood() > max(grid_of) - 0.02


def test_a_prior_pulls_the_fit_towards_itself():
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


def test_without_readings_samples_are_the_prior():
    policy = make_policy("mcmc-gp-ucb", line(), samples=500)
    policy.advance()
    shares = [play.length_scale for play in policy.scales.plays(2)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)  # Γ(3, 6)
    assert np.std(shares) == pytest.approx(math.sqrt(3) / 6, abs=0.05)


def test_samples_follow_the_posterior_that_a_grid_gives():
    box, readings = simulated(0.4, 3, n=15)
    policy = make_policy("mcmc-gp-ucb", box, samples=800)
    for arm, y in readings:
        policy.observe(arm, y)
    policy.advance()
    places = np.linspace(np.log(0.01), np.log(10.0), 600)  # ln θ
    held = policy._believed.readings
    log_weights = [held.fit(math.exp(s)).log_likelihood() + 3 * s - 3 * math.exp(s) for s in places]
    weights = np.exp(np.array(log_weights) - max(log_weights))
    mean = np.sum(weights * places) / weights.sum()
    std = math.sqrt(np.sum(weights * (places - mean) ** 2) / weights.sum())
    samples = np.log([play.length_scale for play in policy.scales.plays(2)])
    assert np.mean(samples) == pytest.approx(mean, abs=0.2 * std)
    assert np.std(samples) == pytest.approx(std, rel=0.2)


def test_mcmc_is_a_function_of_its_seed():
    def scales(seed):
        return lived(make_policy("mcmc-gp-ucb", plane(), seed=seed), lambda arm: 0.2 * arm, 8)

    assert scales(3) == scales(3)
    assert scales(3) != scales(4)


def test_the_bound_of_mcmc_is_the_mean_of_its_samples_bounds():
    field = plane()
    policy = make_policy("mcmc-gp-ucb", field, samples=5, beta=4.0)
    lived(policy, lambda arm: 0.3 * arm, 4)
    held = policy._believed.readings
    bounds = []
    for theta, _ in policy.scales.plays(5):
        apart = held.to_candidates()
        mean, variance = held.fit(theta).predict(held.alike(apart, theta), np.ones(len(field)))
        bounds.append(1.5 * (mean + 2.0 * np.sqrt(variance)))
    assert policy.select().ucb == pytest.approx(np.max(np.mean(bounds, axis=0)))


# --- where they live ----------------------------------------------------------------------------

FIELDS = {
    "sensors": plane(),
    "line": line(),
    "one sensor": SensorField(("a",), [[1.0]], 0.01, positions=[[3.0, 4.0]]),
    "grid": grid(6, SpatialKernel(length_scale=0.2), 0.01),
    "box 1-d": BoxField([-1.0], [1.0], SpatialKernel(2.5, 0.3), 0.01, candidates=64),
    "box 2-d": BoxField([0.0, 5.0], [1.0, 7.0], SpatialKernel(2.5, 0.3), 0.01, candidates=64),
}


@every_policy
@pytest.mark.parametrize("field", FIELDS.values(), ids=list(FIELDS))
def test_they_work_on_sensors_grids_and_boxes(name, field):
    policy, other = make_policy(name, field, window=8), make_policy(name, field, window=8)

    def value(arm):
        place = np.array(arm) if isinstance(arm, tuple) else field.positions[arm]
        return float(np.sin(3 * place).sum())

    lived(policy, value, 12)
    other.restore(policy.snapshot())
    assert policy.observations == min(12, 8)
    assert lived(policy, value, 4) == lived(other, value, 4)
    assert policy.snapshot() == other.snapshot()
    mean, std = policy.posterior()
    assert mean.shape == std.shape == (len(field),)
    assert field.contains(np.atleast_2d(np.array(policy.select().arm, np.float64)))


@pytest.mark.parametrize("name", NAMES)
def test_the_best_place_of_a_smooth_function_in_a_box_is_found(name):
    box = BoxField([0.0], [1.0], SpatialKernel(2.5, 0.3), 1e-4)
    policy = make_policy(name, box, beta=1.0, ratio=1.2) if name in NAMES[:3] else None
    policy = policy or make_policy(name, box, beta=1.0)
    lived(policy, lambda arm: math.sin(5 * arm[0]), 25)
    mean, _ = policy.posterior()
    best = box.arm(int(mean.argmax()))[0]
    assert best == pytest.approx(math.pi / 10, abs=0.02)


def test_the_readings_in_a_full_ring_are_the_last_ones():
    policy, late = make_policy("mle-gp-ucb", line(), window=4), make_policy("mle-gp-ucb", line())
    for arm in range(11):
        policy.observe(arm, 0.1 * arm)
    for arm in range(7, 11):
        late.observe(arm, 0.1 * arm)
    np.testing.assert_allclose(policy.posterior(), late.posterior(), atol=1e-9)


@every_policy
def test_sensors_without_positions_are_refused_with_what_to_do(name):
    field = SensorField(("a", "b"), np.eye(2), 0.01)
    with pytest.raises(ConfigError, match=f"(?s){name}.*positions=.*gp-ucb"):
        make_policy(name, field)


@every_policy
def test_a_snapshot_of_sensors_that_were_moved_is_refused(name):
    policy = make_policy(name, plane())
    moved = PLACES + np.array([1.0, 0.0])
    field = SensorField(tuple("abcdef"), plane().kernel, plane().noise_variance, positions=moved)
    with pytest.raises(SnapshotError):
        make_policy(name, field).restore(policy.snapshot())


@every_policy
@pytest.mark.parametrize(
    "wrong",
    [
        {"length_scale": 0.0},
        {"length_scale": math.inf},
        {"length_scale": "long"},
        {"nu": 0.0},
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
    ],
    ids=repr,
)
def test_a_setting_out_of_range_is_refused_by_its_name(name, wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        make_policy(name, plane(), **wrong)
