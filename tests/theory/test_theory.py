"""Regret bounds against the bounded quantities, each other, and the numbers the papers print."""

import math
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.examples import max_examples
from support.naive import se

from edge_tvbo import theory
from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import SensorField
from edge_tvbo.theory import Domain, bogunovic2016, brunzema

HORIZONS = st.integers(2, 5000)
EPSILONS = st.floats(1e-6, 1.0)
NOISES = st.floats(1e-3, 2.0)
DELTAS = st.floats(1e-4, 0.999)
GAINS = st.floats(0.01, 1e4)
DOMAINS = st.builds(
    Domain, st.integers(1, 4), st.floats(0.1, 10), st.floats(0.1, 20), st.floats(0.1, 20)
)
PLACES = st.lists(st.floats(0, 1), min_size=1, max_size=3)


def field_at(places, noise_variance=0.1, length=0.3, **options):
    x = np.array(places, dtype=float)[:, None]
    names = [f"s{i}" for i in range(len(x))]
    return SensorField(names, se(x, length), noise_variance, **options)


def log_gain(K, noise_variance):
    return 0.5 * np.linalg.slogdet(np.eye(len(K)) + K / noise_variance)[1]


# --- information gain ---------------------------------------------------------------------------


def best_gain(field, n):
    """The exact maximum over all multisets."""
    choices = combinations_with_replacement(range(len(field)), n)
    return max(log_gain(field.kernel[np.ix_(A, A)], field.noise_variance) for A in choices)


@given(PLACES, st.floats(0.01, 2), st.integers(1, 4))
def test_greedy_gain_and_ceiling_enclose_the_best_gain(p, noise, n):
    field = field_at(p, noise)
    best = best_gain(field, n)
    assert theory.greedy_gain(field, n)[-1] <= best * (1 + 1e-9)
    assert theory.greedy_gain(field, n)[-1] >= (1 - 1 / math.e) * best
    assert theory.gain_ceiling(field, n)[-1] >= best * (1 - 1e-9)


def test_the_ceiling_holds_where_the_greedy_gain_is_not_optimal():
    field = field_at([0.5, 0.0, 1.0], 0.05, length=0.5)
    assert theory.greedy_gain(field, 2)[-1] < best_gain(field, 2) * 0.99
    assert theory.gain_ceiling(field, 2)[-1] >= best_gain(field, 2)


@given(PLACES, st.floats(0.01, 2))
def test_each_reading_gains_less_than_the_one_before(places, noise):
    steps = np.diff(theory.greedy_gain(field_at(places, noise), 12), prepend=0.0)
    assert (steps > 0).all()
    assert (np.diff(steps) <= 1e-12).all()


@given(st.floats(0.01, 5), NOISES)
def test_regret_constant_bounds_squared_widths_by_the_gain(share, noise):
    """[M24] lemma 4.6: 4 σ² <= C1 ½ ln(1 + σ²/noise) for σ² in [0, 1]."""
    width = min(share, 1.0)
    gain = 0.5 * math.log1p(width / noise)
    assert 4 * width <= theory.regret_constant(noise) * gain * (1 + 1e-12)


@given(st.integers(1, 4), st.floats(0.6, 10))
def test_a_rougher_field_has_a_larger_gain_rate(d, nu):
    rough, smooth = (theory.matern_exponent(dimension=d, nu=v) for v in (nu, nu + 1))
    assert 1 > rough > smooth > 0


# --- [B16] --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "printed"), [(0.01, 38), (0.03, 29), (0.05, 26), (0.001, 68), (0.2, 18)]
)
def test_block_lengths_equal_et_table_5(epsilon, printed):
    """Table 5 says 17 for .2, but 12 · .2^(-1/4) = 17.94, and its other four are rounded up."""
    assert theory.block_length_se(epsilon, horizon=400) == printed


def test_matern_block_length_by_hand():
    """D = 2, ν = 3: c = 6/12, so 24 · .01^(-1/3.5) = 89.46."""
    assert theory.block_length_matern(0.01, horizon=400, dimension=2, nu=3) == 90


@given(EPSILONS, EPSILONS, HORIZONS, st.integers(1, 4), st.floats(0.6, 10))
def test_faster_change_gives_shorter_blocks(one, other, T, d, nu):
    slow, fast = sorted((one, other))
    for length in (
        lambda e: theory.block_length_se(e, horizon=T),
        lambda e: theory.block_length_matern(e, horizon=T, dimension=d, nu=nu),
    ):
        assert 1 <= length(fast) <= length(slow) <= length(0.0) == T


@given(HORIZONS, st.integers(1, 500), DELTAS)
def test_beta_on_arms_fails_with_probability_delta(T, arms, delta):
    for beta, events in (
        (theory.resetting_beta_on_arms(T, arms=arms, delta=delta), 4),
        (theory.varying_beta_on_arms(T, arms=arms, delta=delta), 3),
    ):
        at_t = events * arms * math.exp(-beta / 2)  # union over arms and events at interval T
        assert at_t * math.pi**2 * T**2 / 6 == pytest.approx(delta, rel=1e-9)


RESETTING = {"gain": 5.0, "beta": 12.0, "noise_variance": 0.1, "delta": 0.1}


def test_resetting_regret_equals_corrected_eq_17_by_hand():
    """T = 100, N = 10, ε = .001, σ² = 1, β = 4, δ = .1, a0 = b0 = 1, γ = 2."""
    psi = math.sqrt(4 * 4 * 1.0) + 2 * 1.0 * 3 * math.sqrt(math.log(4 * math.pi**2 * 1e4 / 0.3))
    first = math.sqrt(8 / math.log(2) * 100 * 4 * 11 * 2)
    bound = theory.resetting_regret(
        100, 0.001, 10, gain=2.0, beta=4.0, noise_variance=1.0, delta=0.1
    )
    assert bound == pytest.approx(first + 2 + 2 * 100 * psi, rel=1e-12)


@given(HORIZONS, EPSILONS, st.integers(1, 100))
def test_resetting_regret_grows_with_horizon_and_rate(T, epsilon, block):
    assume(block <= T)
    bound = theory.resetting_regret(T, epsilon, block, **RESETTING)
    assert theory.resetting_regret(T + 1, epsilon, block, **RESETTING) > bound
    assert theory.resetting_regret(T, epsilon / 2, block, **RESETTING) < bound


@given(HORIZONS, st.integers(1, 1000))
def test_resetting_regret_of_a_static_field_has_no_mismatch(T, block):
    assume(block <= T)
    learning = (T / block + 1) * RESETTING["gain"]
    regret = theory.varying_regret(T, gain=learning, beta=12.0, noise_variance=0.1)
    assert theory.resetting_regret(T, 0.0, block, **RESETTING) == pytest.approx(regret)


@given(HORIZONS, EPSILONS, st.integers(1, 12), st.floats(0.05, 1), st.integers(0, 2**32 - 1))
@max_examples(200)
def test_mismatch_bounds_the_error_of_a_static_model(T, epsilon, n, noise, seed):
    """[B16] lemma D.1, (82): the width term of ψ is at least the error of the width."""
    assume(n <= T)
    rng = np.random.default_rng(seed)
    K = se(rng.random((n + 1, 2)), 0.4)
    D = (1 - epsilon) ** (np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1))) / 2)
    stds = []
    for C in (K, K * D):
        k = C[:n, n]
        held = np.linalg.solve(C[:n, :n] + noise * np.eye(n), k)
        stds.append(math.sqrt(max(0.0, C[n, n] - k @ held)))
    allowed = bogunovic2016.resetting_mismatch(
        max(T, n), epsilon, n, beta=1.0, noise_variance=noise, delta=0.5
    )
    assert abs(stds[0] - stds[1]) <= allowed


@given(HORIZONS, st.floats(1e-3, 100.0), DELTAS, st.floats(1.0, 50.0), st.floats(0.1, 5.0))
@example(T=200, noise=8.0, delta=0.1, a0=46.0, b0=2**0.5)
def test_mismatch_bounds_every_reading_whatever_the_noise_variance(T, noise, delta, a0, b0):
    """[B16] (65): |f| > b0 s has the probability a0 exp(-s²), so |z| > rest needs exp(-s²)."""
    psi = bogunovic2016.resetting_mismatch(
        T, 1.0, 1, beta=0.0, noise_variance=noise, delta=delta, a0=a0, b0=b0
    )
    s = math.sqrt(math.log(2 * (1 + a0) * math.pi**2 * T**2 / (3 * delta)))
    rest = psi / (1 / noise + 1 / noise**2) - b0 * s
    assert rest**2 / (2 * noise) >= s**2 * (1 - 1e-9)


@given(HORIZONS, EPSILONS)
def test_upper_regret_rates_are_above_the_lower_bound(T, epsilon):
    least = theory.regret_lower_bound(T, epsilon)
    assert least == T * epsilon
    assert theory.regret_rate_se(T, epsilon, epsilon, epsilon) >= least


# --- [M24]: information gain of a changing field ------------------------------------------------


def changing_gain(places, chosen, epsilon, noise):
    K = se(np.array(places, dtype=float)[:, None], 0.3)[np.ix_(chosen, chosen)]
    t = np.arange(len(chosen))
    return log_gain(K * (1 - epsilon) ** (np.abs(t[:, None] - t) / 2), noise)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=3),
    st.lists(st.integers(0, 2), min_size=1, max_size=12),
    EPSILONS,
    st.floats(0.01, 1),
    st.data(),
)
def test_no_path_gains_more_than_theorem_3_2_allows(p, path, eps, noise, data):
    chosen = [i % len(p) for i in path]
    block = data.draw(st.integers(1, len(chosen)))
    gain = float(theory.gain_ceiling(field_at(p, noise), block)[-1])
    bound = theory.varying_gain(len(chosen), eps, block, gain=gain, noise_variance=noise)
    assert changing_gain(p, chosen, eps, noise) <= bound * (1 + 1e-9)


def gain_as_printed(T, epsilon, block, *, gain):
    """Return the bound of [B16] eq. 46, which is too small if N < σ^-4."""
    return (T / block + 1) * (gain + block**3 * epsilon)


def test_the_gain_printed_in_b16_can_be_exceeded():
    """One arm, σ² = .01, T = N = 12, ε = .02: eq. 46 is too small without its σ^-2."""
    gain = changing_gain([0.5], [0] * 12, 0.02, 1e-4)
    still = log_gain(np.ones((12, 12)), 1e-4)
    # one block that covers the horizon counts once: the "+ 1" is for a broken last block
    printed = gain_as_printed(12, 0.02, 12, gain=still) / 2
    corrected = theory.varying_gain(12, 0.02, 12, gain=still, noise_variance=1e-4) / 2
    assert gain < corrected
    assert printed - still == pytest.approx(12**3 * 0.02)
    assert corrected - still == pytest.approx(1e4 * 12**2.5 * 0.02)
    sharp = log_gain(np.ones((3, 3)), 1e-6)
    changed = changing_gain([0.5], [0] * 3, 0.1, 1e-6)
    assert changed > gain_as_printed(3, 0.1, 3, gain=sharp) / 2
    assert changed < theory.varying_gain(3, 0.1, 3, gain=sharp, noise_variance=1e-6) / 2


@given(HORIZONS, EPSILONS, st.integers(2, 5000), NOISES, GAINS)
def test_printed_gain_is_too_small_for_blocks_below_sigma_minus_4(T, epsilon, block, noise, gain):
    assume(block <= T and not math.isclose(block, noise**-2, rel_tol=1e-6))
    assume(block**2.5 * epsilon > 1e-6 * gain)
    printed = gain_as_printed(T, epsilon, block, gain=gain)
    corrected = theory.varying_gain(T, epsilon, block, gain=gain, noise_variance=noise)
    assert (printed < corrected) == (block < noise**-2)


@given(HORIZONS, EPSILONS, NOISES, GAINS)
def test_block_of_one_interval_contains_no_change(T, epsilon, noise, gain):
    bound = theory.varying_gain(T, epsilon, 1, gain=gain, noise_variance=noise)
    assert bound == (T + 1) * gain
    momentum = theory.momentum_gain(T, 1.0, 0.0, 1, gain=gain, noise_variance=noise)
    assert bound == momentum


@given(PLACES, EPSILONS, st.floats(0.01, 1), st.integers(2, 40), st.data())
def test_no_block_has_a_smaller_bound_than_the_best_one(places, epsilon, noise, T, data):
    gains = theory.gain_ceiling(field_at(places, noise), T)
    best = theory.best_varying_gain(T, epsilon, gains=gains, noise_variance=noise)
    block = data.draw(st.integers(1, T))
    other = theory.varying_gain(
        T, epsilon, block, gain=float(gains[block - 1]), noise_variance=noise
    )
    assert best.gain <= other
    slower = theory.best_varying_gain(T, epsilon * 0.9, gains=gains, noise_variance=noise)
    assert slower.gain <= best.gain


# --- [M24]: the best constant β -----------------------------------------------------------------


def test_theorem_4_1_by_hand():
    """T = 10, γ̃ = 8, d = 1, r = b = 1, a = 2, δ = .5, τ = 4, σ² = 1."""
    beta = 2 * (math.log(3) + math.log(4))
    learning = math.sqrt(8 / math.log(2) * 10 * beta * 8)
    grid = math.sqrt(math.log(12)) / 4
    tail = math.sqrt(math.log(4)) + math.sqrt(math.pi) / (2 * math.sqrt(math.log(4)))
    bound = 0.5 * (learning + 10 * grid) + 10 * 0.5 * tail
    got = theory.expected_regret(
        10, gain=8.0, delta=0.5, tau=4, domain=Domain(1, a1=2.0), noise_variance=1.0
    )
    assert got == pytest.approx(bound, rel=1e-12)
    assert theory.constant_beta(0.5, 4, dimension=1) == pytest.approx(beta, rel=1e-12)


@pytest.mark.slow
@given(HORIZONS, GAINS, DOMAINS, NOISES, st.floats(1e-6, 0.9999), st.integers(1, 10**6))
@max_examples(300)
def test_no_delta_and_tau_have_a_smaller_bound_than_the_best(T, gain, domain, noise, delta, tau):
    best = theory.best_constant_beta(T, gain=gain, domain=domain, noise_variance=noise)
    assume(delta < domain.a1 * domain.dimension)
    other = theory.expected_regret(
        T, gain=gain, delta=delta, tau=tau, domain=domain, noise_variance=noise
    )
    assert best.bound <= other * (1 + 1e-6)


@given(HORIZONS, GAINS, DOMAINS, NOISES)
def test_best_beta_and_its_bound_are_consistent(T, gain, domain, noise):
    best = theory.best_constant_beta(T, gain=gain, domain=domain, noise_variance=noise)
    d = domain.dimension
    assert best.beta == pytest.approx(theory.constant_beta(best.delta, best.tau, dimension=d))
    assert best.bound == pytest.approx(
        theory.expected_regret(
            T, gain=gain, delta=best.delta, tau=best.tau, domain=domain, noise_variance=noise
        )
    )
    for tau in {best.tau - 1, best.tau + 1} - {0}:
        neighbour = theory.expected_regret(
            T, gain=gain, delta=best.delta, tau=tau, domain=domain, noise_variance=noise
        )
        assert best.bound <= neighbour * (1 + 1e-9)


@given(PLACES, st.floats(0.05, 1), st.integers(10, 60), st.floats(1, 20))
@example([0.1, 0.5, 0.9], 0.1, 50, 5.0)
def test_best_beta_decreases_with_the_rate_of_change(places, noise, T, slope):
    gains = theory.gain_ceiling(field_at(places, noise), T)
    domain = Domain(2, b1=slope)
    betas, bounds = [], []
    for epsilon in (1e-6, 1e-3, 0.01, 0.1, 0.5, 1.0):
        gain = theory.best_varying_gain(T, epsilon, gains=gains, noise_variance=noise).gain
        best = theory.best_constant_beta(T, gain=gain, domain=domain, noise_variance=noise)
        betas.append(best.beta)
        bounds.append(best.bound)
    assert all(fast <= slow + 1e-3 for slow, fast in pairwise(betas))
    assert all(fast >= slow * (1 - 1e-9) for slow, fast in pairwise(bounds))


def test_best_beta_can_decrease_by_more_than_1():
    gains = theory.gain_ceiling(field_at([0.1, 0.5, 0.9], 0.1), 300)
    betas = [
        theory.best_constant_beta(
            300,
            gain=theory.best_varying_gain(300, epsilon, gains=gains, noise_variance=0.1).gain,
            domain=Domain(2, b1=5.0),
            noise_variance=0.1,
        ).beta
        for epsilon in (1e-6, 0.5)
    ]
    assert betas[0] > betas[1] + 1


@given(st.floats(0.5, 6), st.floats(1, 20))
def test_tail_of_theorem_4_1_is_at_least_the_true_one(odds, a):
    """C3 >= (1/δ) ∫_0^δ √ln(ad/ρ) dρ, which is √L + (√π/2) (ad/δ) erfc(√L), L = ln(ad/δ)."""
    delta = a * math.exp(-odds)
    assume(delta < 1)
    root = math.sqrt(odds)
    true = root + math.sqrt(math.pi) / 2 * (a / delta) * math.erfc(root)
    huge = theory.expected_regret(
        1, gain=1e-300, delta=delta, tau=10**9, domain=Domain(1, a1=a), noise_variance=1.0
    )
    assert huge >= delta * true * (1 - 1e-9)


# --- [M24]: deviation from the mean -------------------------------------------------------------


@given(st.integers(1, 60), st.floats(0, 1), st.floats(0.01, 0.99), st.floats(0.1, 20))
def test_deviation_is_chebyshevs_bound_on_the_double_sum(T, c, omega, variance):
    total = sum(c ** abs(i - j) for i in range(T) for j in range(T))
    got = theory.regret_deviation(T, c, omega=omega, variance=variance)
    assert got == pytest.approx(math.sqrt(variance * total / omega), rel=1e-9)


@given(st.integers(1, 2000), st.floats(1e-3, 1), st.floats(0.01, 0.99))
def test_corrected_deviation_is_below_the_printed_one(T, epsilon, omega):
    c = math.sqrt(1 - epsilon)
    corrected = theory.likely_regret(0.0, T, epsilon, omega=omega)
    sums = T * (1 + c) / (1 - c) + 2 * c / (c - 1) ** 2 * (c ** (T + 1) + 1)  # eq. 4.40
    assert corrected <= math.sqrt(9 * sums / omega) * (1 + 1e-9)
    assert corrected <= 3 * T / math.sqrt(omega) * (1 + 1e-9)


def momentum_correlation(k, epsilon, alpha):
    """[M24] eq. 8.9."""
    top = (epsilon**2 - 1) * alpha ** (k + 1) + (1 - alpha**2) * epsilon ** (k + 1)
    return top / ((epsilon - alpha) * (epsilon * alpha + 1))


MOMENTA = st.tuples(st.floats(0.1, 0.999), st.floats(0, 0.95)).map(lambda p: (p[0], p[0] * p[1]))


@given(MOMENTA, st.integers(2, 12), st.floats(0.01, 1))
def test_no_path_gains_more_than_theorem_8_2_allows(momentum, T, noise):
    epsilon, alpha = momentum
    lag = np.abs(np.subtract.outer(np.arange(T), np.arange(T)))
    gain = log_gain(momentum_correlation(lag, epsilon, alpha), noise)  # one arm
    gains = np.array([log_gain(np.ones((n, n)), noise) for n in range(1, T + 1)])
    best = theory.best_momentum_gain(T, epsilon, alpha, gains=gains, noise_variance=noise)
    assert gain <= best.gain * (1 + 1e-9)
    at_best = theory.momentum_gain(
        T, epsilon, alpha, best.block, gain=float(gains[best.block - 1]), noise_variance=noise
    )
    assert at_best == best.gain


def test_theorem_8_2_as_printed_can_be_exceeded():
    """One arm, ε = .5, α = 0, N = 1: without (T/N + 1) ten readings count as one."""
    lag = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    gain = log_gain(momentum_correlation(lag, 0.5, 0.0), 0.1)
    one = log_gain(np.ones((1, 1)), 0.1)
    assert gain > one
    assert theory.momentum_gain(10, 0.5, 0.0, 1, gain=one, noise_variance=0.1) > gain


@given(MOMENTA, st.integers(0, 200))
def test_momentum_covariance_decays_as_corrected_theorem_8_1(momentum, k):
    epsilon, alpha = momentum
    p = (1 - alpha**2) * epsilon / ((epsilon - alpha) * (epsilon * alpha + 1))
    assert momentum_correlation(k, epsilon, alpha) <= p * epsilon**k * (1 + 1e-9)


def test_a_slow_momentum_field_exceeds_the_printed_deviation():
    slow = theory.momentum_likely_regret(0.0, 100, 0.99, 0.5, omega=0.1)
    p = 0.75 * 0.99 / (0.49 * 1.495)
    assert slow == pytest.approx(theory.regret_deviation(100, 0.99, omega=0.1, variance=9 * p))
    assert slow > theory.regret_deviation(100, math.sqrt(1 - 0.99), omega=0.1)


# --- [ET] ---------------------------------------------------------------------------------------


@given(HORIZONS, EPSILONS, st.integers(1, 200), st.integers(1, 200))
def test_wider_block_bounds_give_a_larger_regret_bound(T, epsilon, one, other):
    lower, upper = sorted((min(one, T), min(other, T)))
    at = theory.triggered_regret(T, epsilon, theory.BlockBounds(upper, upper), **RESETTING)
    wide = theory.triggered_regret(T, epsilon, theory.BlockBounds(lower, upper), **RESETTING)
    assert wide > at or lower == upper


@given(HORIZONS, EPSILONS, st.integers(1, 200))
def test_fixed_blocks_give_the_bound_of_r_gp_ucb(T, epsilon, N):
    assume(N <= T)
    rest = {k: v for k, v in RESETTING.items() if k != "gain"}
    et = theory.triggered_regret(T, epsilon, theory.BlockBounds(N, N), **RESETTING)
    b16 = theory.resetting_regret(T, epsilon, N, **RESETTING)
    gap = brunzema.triggered_mismatch(T, epsilon, N, **rest) - 2 * bogunovic2016.resetting_mismatch(
        T, epsilon, N, **rest
    )
    assert et - b16 == pytest.approx(T * gap, rel=1e-6, abs=1e-6 * b16)


@given(HORIZONS, st.floats(1e-6, 0.9), st.floats(0.01, 1), st.floats(1, 10))
def test_regret_rate_grows_with_horizon_and_uncertainty(T, epsilon, below, above):
    lower, upper = epsilon * below, min(1.0, epsilon * above)
    known = theory.regret_rate_se(T, epsilon, epsilon, epsilon)
    assert known == pytest.approx(max(math.sqrt(T), T * epsilon**0.125, T * epsilon**0.25))
    assert theory.regret_rate_se(T, epsilon, lower, upper) >= known * (1 - 1e-12)
    assert theory.regret_rate_se(T + 1, epsilon, lower, upper) > known
    rough = theory.regret_rate_matern(T, epsilon, lower, upper, dimension=2, nu=2.5)
    assert rough >= theory.regret_rate_matern(T, epsilon, lower, upper, dimension=2, nu=50)


def test_terms_of_corollary_1_by_hand():
    """Each term is the largest for some arguments: T = 16, ε = 2^-8, with λ2 = 2^8, λ1 = 2^-8."""
    slow, fast = 2.0**-16, 1.0
    assert theory.regret_rate_se(16, 2.0**-8, 2.0**-8, fast) == pytest.approx(16.0)
    assert theory.regret_rate_se(16, 2.0**-8, slow, 2.0**-8) == pytest.approx(2.0**4 * 2**4)
    tiny, tinier = 2.0**-32, 2.0**-36  # λ1^(-3/8) ε^(1/8) = 2^-2.5, its square 2^-5
    assert theory.regret_rate_se(4096, tiny, tinier, tiny) == pytest.approx(4096 * 2**-2.5)


def test_limits_of_the_matern_regret_rate():
    se_rate = theory.regret_rate_se(400, 0.03, 0.01, 0.1)
    smooth = theory.regret_rate_matern(400, 0.03, 0.01, 0.1, dimension=1, nu=1e9)
    assert smooth == pytest.approx(se_rate, rel=1e-6)
    c = theory.matern_exponent(dimension=2, nu=3)
    static = theory.regret_rate_matern(400, 1e-30, 1e-30, 1e-30, dimension=2, nu=3)
    assert static == pytest.approx(math.sqrt(400 ** (1 + c)))


@given(EPSILONS, EPSILONS, HORIZONS)
def test_block_bounds_are_block_lengths_of_both_rates(one, other, T):
    lower, upper = sorted((one, other))
    bounds = theory.BlockBounds.from_rates(lower, upper, horizon=T)
    assert bounds.n_upper == theory.block_length_se(lower, horizon=T)
    assert bounds.n_lower == theory.block_length_se(upper, horizon=T)


# --- [ZS21] -------------------------------------------------------------------------------------


@given(HORIZONS, GAINS, st.floats(0.01, 100), st.floats(1.01, 10))
def test_a_larger_variation_gives_a_shorter_restart_interval(T, gain, variation, more):
    H = theory.restart_interval(T, gain=gain, variation=variation)
    assert 1 <= theory.restart_interval(T, gain=gain, variation=variation * more) <= H <= T
    assert theory.restart_interval(T, gain=gain, variation=0.0) == T
    assert theory.restart_interval(T, gain=gain) == theory.restart_interval(
        T, gain=gain, variation=1.0
    )


def regret_rate(T, H, variation, *, gain, beta):
    """Return the rate of [ZS21] theorems 1 and 2, without constants."""
    return math.sqrt(gain) * H**1.5 * variation + beta * T * math.sqrt(gain / H)


def test_rate_at_the_restart_interval_equals_remark_2():
    """γ_H = γ_T = 16, P = 4, T = 10 000, β = √γ: each term is γ^(7/8) P^(1/4) T^(3/4)."""
    H = theory.restart_interval(10_000, gain=16.0, variation=4.0)
    assert H == 100
    rate = regret_rate(10_000, H, 4.0, gain=16.0, beta=4.0)
    assert rate == pytest.approx(2 * 16**0.875 * 4**0.25 * 1000)


@given(HORIZONS, st.integers(1, 5000), st.floats(0, 100), GAINS, st.floats(0.1, 100), NOISES)
def test_bound_with_constants_is_at_least_the_rate(T, H, variation, gain, beta, lam):
    assume(H <= T)
    full = theory.dynamic_regret(T, H, variation, gain=gain, beta=beta, regularization=lam)
    rate = regret_rate(T, H, variation, gain=gain, beta=beta)
    assert full >= rate * min(1.0, 2 * math.sqrt(2 / math.log1p(1 / lam)))
    assert theory.dynamic_regret(
        T + H, H, variation, gain=gain, beta=beta, regularization=lam
    ) > full  # fmt: skip


@given(HORIZONS, GAINS, DELTAS, st.floats(0.1, 10), st.floats(0.01, 1), NOISES)
def test_window_beta_is_larger_than_restart_beta(T, gain, delta, bound, noise, lam):
    shared = {"bound": bound, "noise": noise, "regularization": lam, "delta": delta}
    restart = theory.restart_beta(gain, **shared)
    assert restart > bound
    assert theory.window_beta(T, gain, **shared) > restart
    assert theory.window_beta(1, gain, **shared) == restart


# --- [LB] ---------------------------------------------------------------------------------------


@given(st.integers(3, 10**6), st.floats(0.05, 1), st.floats(0.1, 0.99), st.integers(1, 4))
def test_a_shorter_length_scale_has_more_suspected_regret(n, scale, shorter, d):
    for rate in (
        lambda s: theory.rbf_gain_rate(n, s, dimension=d),
        lambda s: theory.matern_gain_rate(n, s, dimension=d, nu=2.5),
    ):
        assert rate(scale * shorter) == pytest.approx(rate(scale) * shorter**-d, rel=1e-9)
        regrets = [
            theory.suspected_regret(n, gain=rate(s), bound=1.0) for s in (scale, scale * shorter)
        ]
        assert regrets[1] > regrets[0]


@given(st.integers(3, 10**6), st.integers(2, 4), st.floats(0.6, 10))
def test_proposition_2_2_as_proved_is_below_the_statement(n, d, nu):
    stated = n ** theory.matern_exponent(dimension=d, nu=nu) * math.log(n) ** (
        2 * nu / (2 * nu + d)
    )
    assert theory.matern_gain_rate(n, 1.0, dimension=d, nu=nu) < stated


@given(st.floats(1, 50), st.integers(1, 4), st.sampled_from([0.25, 0.5, 0.75]))
def test_at_the_first_good_interval_a_candidate_is_suitable(ratio, d, power):
    def growth(t):
        return t**power

    t0 = theory.first_good_interval(growth, ratio, dimension=d, horizon=10**5)
    assume(t0 < 10**5)
    shortest = 1 / growth(t0)  # θ0 = 1: every candidate down to here is in
    fitting = next(q for q in (math.exp(-i / d) for i in range(1000)) if q <= 1 / ratio)
    assert shortest <= fitting * (1 + 1e-9)
    if t0 > 1:
        assert growth(t0 - 1) < ratio * math.exp(1 / d)


@given(HORIZONS, st.integers(1, 4), st.floats(0.01, 1), DELTAS)
def test_noise_margin_equals_lemma_b_5_with_half_of_delta(t, d, noise, delta):
    margin = theory.noise_margin(
        t, growth=math.e**3, dimension=d, noise_variance=noise, delta=delta
    )
    lemma = 2 * noise * math.log(3 * d * math.pi**2 * t**2 / (6 * (delta / 2)))
    assert margin == pytest.approx(lemma, rel=1e-9)


def test_theorem_4_1_of_lb_by_hand():
    """(5 + 2) 3 + (10 + √(4·9)) (2·ln 2 + 2) with d = 1, g = e², θ0/θ* = 2."""
    got = theory.balancing_regret(
        4, suspected=10.0, first=5, ratio=2.0, growth=math.e**2, margin=9.0, bound=3.0, dimension=1
    )
    assert got == pytest.approx(21 + 16 * (2 * math.log(2) + 2))


# --- bound summary ------------------------------------------------------------------------------

FIELD = field_at(np.linspace(0, 1, 8), 0.05, unit="°C", scale=2.0)


def values(lines):
    return {line.name: line.value for line in lines}


def test_summary_has_the_lengths_of_the_functions():
    table = values(
        theory.summary(FIELD, horizon=400, epsilon=0.01, epsilon_range=(0.001, 0.05), variation=4.0)
    )
    assert table["N, R-GP-UCB, SE"] == 38
    assert (table["N_lo, ET-GP-UCB"], table["N_hi, ET-GP-UCB"]) == (26, 68)
    gain = float(theory.gain_ceiling(FIELD, 400)[-1])
    assert table["H, BR-GP-UCB"] == theory.restart_interval(400, gain=gain, variation=4.0)
    assert table["w, SW-GP-UCB"] == table["H, BR-GP-UCB"]
    assert table["gain of 38 readings"] == theory.greedy_gain(FIELD, 38)[-1]


def test_summary_has_bounds_in_the_readings_unit():
    """A model unit is 2 °C, and the largest prior variance is 1."""
    T = 100
    table = {
        (line.name, line.source[:6].strip()): line.value
        for line in theory.summary(FIELD, horizon=T, epsilon=0.03, variation=4.0)
    }
    gains = theory.gain_ceiling(FIELD, T)
    moving = theory.best_varying_gain(T, 0.03, gains=gains, noise_variance=0.05).gain
    beta = theory.varying_beta_on_arms(T, arms=8, delta=0.1)
    regret = theory.varying_regret(T, gain=moving, beta=beta, noise_variance=0.05)
    assert table["TV-GP-UCB", "[B16]"] == pytest.approx(2 * regret / T)
    H = theory.restart_interval(T, gain=float(gains[-1]), variation=4.0)
    gain = float(gains[H - 1])
    shared = {"bound": 1, "noise": 0.05**0.5, "regularization": 0.05}
    for name, beta in (
        ("BR-GP-UCB", theory.restart_beta(gain, delta=0.1 / math.ceil(T / H), **shared)),
        ("SW-GP-UCB", theory.window_beta(T, gain, delta=0.1, **shared)),
    ):
        regret = theory.dynamic_regret(T, H, 4.0, gain=gain, beta=beta, regularization=0.05)
        assert table[name, "[ZS21]"] == pytest.approx(2 * regret / T)


@pytest.mark.slow
def test_bounds_above_the_largest_loss_are_called_vacuous():
    field = field_at([0.2, 0.8], 1.0, length=2.0)
    lines = theory.summary(field, horizon=100_000, epsilon=0.0, variation=0.0, dimension=1)
    vacuous = {line.name: "vacuous" in line.meaning for line in lines}
    assert not vacuous["TV-GP-UCB"]
    assert not vacuous["R-GP-UCB"]
    fast = theory.summary(field, horizon=100, epsilon=1.0, variation=100.0, dimension=1)
    vacuous = {line.name: "vacuous" in line.meaning for line in fast}
    assert vacuous["R-GP-UCB"]
    assert vacuous["BR-GP-UCB"]


@pytest.mark.parametrize("norm", [1.0, 7.5])
def test_bounds_that_assume_a_norm_state_it(norm):
    lines = theory.summary(FIELD, horizon=100, epsilon=0.03, variation=4.0, bound=norm)
    assumed = {line.name for line in lines if f"norm is at most {norm:g}: " in line.meaning}
    assert assumed == {"GP-UCB, static field", "BR-GP-UCB", "SW-GP-UCB"}


def test_best_beta_that_does_not_affect_its_bound_is_not_recommended():
    """The field of slope 0.1 differs by so little that learning costs more than it gains."""
    flat, steep = (
        {
            line.name: line.meaning
            for line in theory.summary(FIELD, horizon=100, epsilon=0.03, slope=b)
        }
        for b in (0.1, 20.0)
    )
    assert "the same for every β" in flat["best constant β"]
    assert "δ = " not in flat["best constant β"]
    assert "vacuous" in flat["best β, on average"]
    assert "δ = " in steep["best constant β"]


@given(DOMAINS)
def test_mean_loss_is_the_integral_of_the_tail(domain):
    L = np.linspace(0.0, 12.0, 200_001)
    tail = np.minimum(1.0, domain.a1 * domain.dimension * np.exp(-(L**2)))
    assert domain.mean_loss == pytest.approx(domain.reach * float(np.trapezoid(tail, L)), rel=1e-6)


@given(st.floats(0.1, 10), st.floats(0.1, 10))
@max_examples(25)
def test_summary_does_not_depend_on_model_units(stretch, scale):
    """Multiplying the field by c and its scale by 1/c changes no reading."""
    names = [f"s{i}" for i in range(len(FIELD))]
    other = SensorField(
        names,
        FIELD.kernel * stretch**2,
        FIELD.noise_variance * stretch**2,
        unit="°C",
        scale=scale / stretch,
    )
    plain = SensorField(names, FIELD.kernel, FIELD.noise_variance, unit="°C", scale=scale)
    options = {"horizon": 60, "epsilon": 0.03, "variation": 2.0}
    one = values(theory.summary(plain, slope=2.0, **options))
    two = values(theory.summary(other, slope=2.0 * stretch, **options))
    assert two == pytest.approx(one, rel=1e-4)


def test_every_summary_line_has_a_source_and_is_unique():
    lines = theory.summary(FIELD, horizon=50, epsilon=0.03, variation=1.0)
    assert all(line.source and line.meaning and math.isfinite(line.value) for line in lines)
    assert len({(line.name, line.source) for line in lines}) == len(lines)
    unknown = theory.summary(FIELD, horizon=50, epsilon=0.03)
    assert len(unknown) == len(lines) - 2  # without P_T, [ZS21] has no bounds in numbers
    assert len(theory.summary(FIELD, horizon=1, epsilon=0.03)) > 10


# --- rejected arguments -------------------------------------------------------------------------

BLOCKED = {"gain": 1.0, "noise_variance": 0.1}


def test_arguments_out_of_range_are_rejected_by_name():
    for call, name in (
        (lambda: theory.greedy_gain(FIELD, 0), "readings"),
        (lambda: theory.regret_constant(0.0), "noise_variance"),
        (lambda: theory.matern_exponent(dimension=0, nu=1), "dimension"),
        (lambda: theory.block_length_se(1.5, horizon=10), "epsilon"),
        (lambda: theory.block_length_se(0.1, horizon=0), "horizon"),
        (lambda: theory.BlockBounds.from_rates(0.2, 0.1, horizon=10), "epsilon"),
        (lambda: theory.resetting_beta_on_arms(10, arms=3, delta=1.0), "delta"),
        (lambda: theory.resetting_regret(10, 0.1, 11, **RESETTING), "block"),
        (lambda: theory.resetting_regret(10, 0.1, 5, **(RESETTING | {"gain": 0.0})), "gain"),
        (lambda: theory.triggered_regret(9, 0.1, theory.BlockBounds(3, 2), **RESETTING), "n_lower"),
        (lambda: theory.regret_rate_se(10, 0.5, 0.1, 0.2), "epsilon"),
        (lambda: theory.regret_rate_matern(9, 0.1, 0.1, 0.1, dimension=1, nu=2), "nu"),
        (lambda: theory.varying_gain(10, -0.1, 5, **BLOCKED), "epsilon"),
        (lambda: theory.momentum_gain(10, 0.5, 0.5, 5, **BLOCKED), "alpha is 0.5; this bound"),
        (lambda: theory.constant_beta(0.5, 0, dimension=1), "tau"),
        (
            lambda: theory.expected_regret(
                9, delta=0.5, tau=1, domain=Domain(1, a1=0.4), **BLOCKED
            ),
            "delta",
        ),
        (
            lambda: theory.best_varying_gain(3, 0.1, gains=np.ones(4), noise_variance=0.1),
            "gains",
        ),
        (lambda: theory.regret_deviation(10, 0.5, omega=0.0), "omega"),
        (lambda: theory.restart_interval(10, gain=1.0, variation=-1.0), "variation"),
        (lambda: theory.suspected_regret(10, gain=-1.0, bound=1.0), "gain"),
        (lambda: theory.summary(FIELD, horizon=0, epsilon=0.1), "horizon"),
        (
            lambda: theory.summary(FIELD, horizon=9, epsilon=0.1, epsilon_range=(0.2, 0.3)),
            "epsilon is 0.1; it must be within its range",
        ),
        (
            lambda: theory.summary(FIELD, horizon=9, epsilon=0.25, epsilon_range=(0.3, 0.2)),
            "epsilon has bounds 0.3 and 0.2",
        ),
        (lambda: replace(Domain(), a1=math.inf), "a1"),
        (lambda: Domain(dimension=math.nan), "dimension"),
    ):
        with pytest.raises(ConfigError, match=rf"^{name}"):
            call()
