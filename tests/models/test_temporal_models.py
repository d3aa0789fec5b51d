"""Temporal kernels against the papers' formulas, the state spaces, and exact differences."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from naive import temporal

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.posteriors import two_component
from edge_tvbo.models.temporal_models import (
    MANY,
    MomentumKernel,
    SigmoidKernel,
    StaticKernel,
    TimeVaryingKernel,
    WienerKernel,
)

HAIR = Fraction(1, 10**25)  # the step of differences taken in exact arithmetic
WHOLE = st.lists(st.integers(0, 60).map(float), min_size=1, max_size=6).map(np.array)
ANY = st.lists(st.floats(0, 60), min_size=1, max_size=6).map(np.array)
TIMES = st.one_of(WHOLE, ANY)


@st.composite
def rates(draw):
    """Give (epsilon, alpha): apart, a hair apart, an ulp apart, equal, or at an edge."""
    epsilon = draw(st.one_of(st.floats(0.01, 0.999), st.sampled_from([0.0, 0.5, 0.99])))
    apart = draw(
        st.one_of(
            st.sampled_from([0.0, 2.0**-52, 1e-15, 1e-12, 1e-8, 1e-4, 1.0]),
            st.floats(-16, 0).map(lambda power: 10**power),
        )
    )
    return epsilon, max(min(epsilon - epsilon * apart, epsilon), 0.0)


TIME_VARYING = st.floats(0, 0.99).map(TimeVaryingKernel)
MOMENTUM = rates().map(lambda two_component: MomentumKernel(*two_component))
SIGMOID = st.builds(SigmoidKernel, st.floats(-50, 150), st.floats(0.1, 50))
FITTABLE = st.one_of(TIME_VARYING, MOMENTUM, SIGMOID)
WIENER = st.floats(0, 10).map(WienerKernel)
EVERY = st.one_of(FITTABLE, WIENER, st.just(StaticKernel()))


def twin(kernel, d, s, t):
    expected = np.array([[float(d(a, b)) for b in t] for a in s])
    np.testing.assert_allclose(kernel.matrix(s, t), expected, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(kernel.variance(t), [float(d(b, b)) for b in t], rtol=1e-12)


def eq_8_9(e, a, k):
    """[M24] lemma 8.2 as printed, in whatever numbers it is given; symmetric in e and a."""
    if a == e:
        return e**k * (1 + k * (1 - e**2) / (1 + e**2))
    return ((e**2 - 1) * a ** (k + 1) + (1 - a**2) * e ** (k + 1)) / ((e - a) * (e * a + 1))


def eq_8_7(e, a, k):
    """[M24] eq. 8.7 as printed: the derivative by alpha where it is not epsilon."""
    inner = a**k * ((e * k - e) * a**2 + (1 - e**2) * k * a - e * k - e)
    outer = e ** (k + 1) * a**2 + e ** (k + 1)
    return -(e**2 - 1) * (inner + outer) / ((a - e) ** 2 * (e * a + 1) ** 2)


def central(function, values, i, step):
    up = [value + step * (i == j) for j, value in enumerate(values)]
    down = [value - step * (i == j) for j, value in enumerate(values)]
    return (function(*up) - function(*down)) / (2 * step)


# --- values -------------------------------------------------------------------------------------


@given(TIMES, TIMES)
def test_static_is_its_twin(s, t):
    twin(StaticKernel(), temporal("static"), s, t)


@given(st.floats(0, 1), TIMES, TIMES)
def test_time_varying_is_its_twin(epsilon, s, t):
    twin(TimeVaryingKernel(epsilon), temporal("tv", epsilon), s, t)


@given(st.floats(0, 10), TIMES, TIMES)
def test_wiener_is_its_twin(sigma_w2, s, t):
    twin(WienerKernel(sigma_w2), temporal("ui", sigma_w2), s, t)


@given(rates(), WHOLE, WHOLE)
def test_momentum_is_the_printed_formula_in_exact_arithmetic(parameters, s, t):
    e, a = map(Fraction, parameters)
    twin(MomentumKernel(*parameters), lambda x, y: eq_8_9(e, a, int(abs(x - y))), s, t)


@given(SIGMOID, TIMES, TIMES)
def test_sigmoid_is_the_printed_formula(kernel, s, t):
    def share(x):
        return 1 / (1 + math.exp(min((kernel.tau - x) / kernel.rho, 700)))

    expected = [[2 * share(a) * share(b) - share(a) - share(b) + 1 for b in t] for a in s]
    np.testing.assert_allclose(kernel.matrix(s, t), expected, atol=1e-14)


@given(rates(), st.integers(0, 60))
def test_momentum_is_the_state_spaces_covariance(parameters, k):
    dynamics = two_component.Momentum(*parameters)
    moved = np.linalg.matrix_power(dynamics.transition, k) @ dynamics.prior

    given_ = MomentumKernel(*parameters).matrix(np.array([3.0]), np.array([3.0 + k]))[0, 0]

    assert given_ == pytest.approx(moved[0, 0], rel=1e-9, abs=1e-12)


@given(SIGMOID, st.integers(0, 60), st.integers(0, 60))
def test_sigmoid_is_the_state_spaces_covariance(kernel, s, t):
    dynamics = two_component.Sigmoid(kernel.tau, kernel.rho)
    expected = np.array(dynamics.weights(s)) @ dynamics.prior @ np.array(dynamics.weights(t))

    assert kernel.matrix(np.array([s]), np.array([t]))[0, 0] == pytest.approx(expected, abs=1e-14)


@given(EVERY, WHOLE)
def test_a_matrix_is_symmetric_and_has_no_negative_eigenvalue(kernel, t):
    D = kernel.matrix(t, t)

    np.testing.assert_array_equal(D, D.T)
    assert np.linalg.eigvalsh(D).min() > -1e-12 * D.max()
    np.testing.assert_allclose(np.diag(D), kernel.variance(t), rtol=1e-14)


@given(st.one_of(TIME_VARYING, MOMENTUM), WHOLE, st.integers(1, 10**9), st.booleans())
def test_whole_times_give_what_one_at_a_time_gives_however_late_or_many(kernel, t, late, many):
    far = np.tile(t, MANY) + late if many else t + late
    far = far[:30]
    assert many == (len(far) ** 2 > MANY)
    for of in (kernel.matrix, kernel.gradient):
        single = np.stack([of(far[:1], far[i : i + 1])[..., 0, 0] for i in range(len(far))], -1)
        np.testing.assert_allclose(of(far, far)[..., 0, :], single, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    "kernel", [TimeVaryingKernel(0.1), MomentumKernel(0.9, 0.8), SigmoidKernel(3.0, 2.0)]
)
def test_no_times_give_an_empty_matrix(kernel):
    none, two = np.empty(0), np.array([0.0, 1.0])

    assert kernel.matrix(none, two).shape == (0, 2)
    assert kernel.gradient(two, none).shape == (len(kernel.values), 2, 0)
    assert kernel.variance(none).shape == (0,)


@pytest.mark.parametrize("rho", [1e-310, 1e-3, 1e3, 1e300])
def test_a_sigmoid_never_overflows(rho):
    kernel = SigmoidKernel(0.5, rho)
    t = np.array([0.0, 1.0, 1e9])

    assert np.isfinite(kernel.matrix(t, t)).all()
    assert np.isfinite(kernel.gradient(t, t)).all()


# --- derivatives --------------------------------------------------------------------------------


@given(rates(), WHOLE, WHOLE)
def test_momentums_gradient_is_the_exact_difference_even_at_alpha_epsilon(parameters, s, t):
    values = [Fraction(value) for value in parameters]
    gradient = MomentumKernel(*parameters).gradient(s, t)

    for (i, j), k in np.ndenumerate(np.abs(s[:, None] - t)):
        for p in (0, 1):
            slope = central(lambda e, a, k=int(k): eq_8_9(e, a, k), values, p, HAIR)
            assert gradient[p, i, j] == pytest.approx(float(slope), rel=1e-10, abs=1e-11)


@given(rates(), st.integers(0, 80))
def test_momentums_gradient_is_eq_8_7_and_its_mirror(parameters, k):
    e, a = map(Fraction, parameters)
    assume(e != a)
    by_epsilon, by_alpha = MomentumKernel(*parameters).gradient(np.zeros(1), np.array([float(k)]))

    assert by_alpha[0, 0] == pytest.approx(float(eq_8_7(e, a, k)), rel=1e-10, abs=1e-11)
    assert by_epsilon[0, 0] == pytest.approx(float(eq_8_7(a, e, k)), rel=1e-10, abs=1e-11)


@given(st.one_of(st.floats(0.01, 0.98).map(TimeVaryingKernel), SIGMOID), TIMES, TIMES)
def test_a_gradient_is_the_central_difference(kernel, s, t):
    gradient = kernel.gradient(s, t)

    assert gradient.shape == (len(kernel.values), len(s), len(t))
    for p in range(len(kernel.values)):
        slope = central(
            lambda *values: kernel.replaced(np.array(values)).matrix(s, t), kernel.values, p, 1e-6
        )
        np.testing.assert_allclose(gradient[p], slope, rtol=1e-5, atol=1e-6)


@given(st.floats(0.05, 0.98), st.floats(0.02, 0.99), st.floats(0, 60))
def test_momentums_gradient_holds_between_whole_lags(epsilon, share, lag):
    kernel, origin, then = MomentumKernel(epsilon, epsilon * share), np.zeros(1), np.array([lag])

    for p in (0, 1):
        slope = central(lambda e, a: eq_8_9(e, a, lag), kernel.values, p, 1e-6)
        assert kernel.gradient(origin, then)[p, 0, 0] == pytest.approx(slope, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("kernel", [TimeVaryingKernel(0.0), MomentumKernel(0.0, 0.0)])
def test_a_gradient_is_finite_at_the_least_parameters(kernel):
    t = np.arange(5.0)
    assert np.isfinite(kernel.gradient(t, t)).all()


# --- where a search moves -----------------------------------------------------------------------


@given(FITTABLE)
def test_values_and_coordinates_both_lead_back(kernel):
    assert kernel.replaced(kernel.values) == kernel
    back = kernel.located(kernel.coordinates())
    np.testing.assert_allclose(back.values, kernel.values, rtol=1e-9, atol=1e-12)


@given(
    st.one_of(
        st.floats(1e-5, 0.9).map(TimeVaryingKernel),
        st.builds(lambda e, w: MomentumKernel(e, e * w), st.floats(0.1, 0.9), st.floats(0.1, 0.9)),
        SIGMOID,
    )
)
def test_the_jacobian_is_the_central_difference(kernel):
    place = kernel.coordinates()
    for j in range(len(place)):
        slope = central(lambda *z: kernel.located(np.array(z)).values, place, j, 1e-6)
        np.testing.assert_allclose(kernel.jacobian()[:, j], slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [TimeVaryingKernel, MomentumKernel, SigmoidKernel])
@given(seed=st.integers(0, 2**32), horizon=st.floats(0, 1e5))
def test_what_is_drawn_lies_within_the_bounds_in_both_tongues(kind, seed, horizon):
    kernel = kind.drawn(np.random.default_rng(seed), horizon)
    bounds = kind.bounds(horizon)
    corners = np.array([kernel.replaced(corner).coordinates() for corner in bounds.T])

    assert kernel == kind.drawn(np.random.default_rng(seed), horizon)
    assert (bounds[:, 0] <= kernel.values).all() and (kernel.values <= bounds[:, 1]).all()
    if kind is MomentumKernel:  # its box ends a hair below alpha = epsilon
        return
    assert (corners.min(axis=0) <= kernel.coordinates()).all()
    assert (kernel.coordinates() <= corners.max(axis=0)).all()


def test_draws_cover_what_they_promise():
    rng = np.random.default_rng(0)
    epsilons = [TimeVaryingKernel.drawn(rng, 100.0).epsilon for _ in range(2000)]
    taus = [SigmoidKernel.drawn(rng, 100.0).tau for _ in range(2000)]

    assert 1e-4 <= min(epsilons) < 2e-4 and 0.4 < max(epsilons) <= 0.5
    assert np.median(epsilons) == pytest.approx(math.sqrt(1e-4 * 0.5), rel=0.3)
    assert 0 <= min(taus) < 2 and 98 < max(taus) <= 100


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "arguments", "named"),
    [
        (TimeVaryingKernel, (-0.1,), "epsilon is -0.1"),
        (TimeVaryingKernel, (1.1,), "epsilon is 1.1"),
        (TimeVaryingKernel, (math.nan,), "epsilon is nan"),
        (WienerKernel, (-1.0,), "sigma_w2 is -1.0"),
        (WienerKernel, (math.inf,), "sigma_w2 is inf"),
        (MomentumKernel, (1.0, 0.5), "epsilon is 1.0, alpha 0.5"),
        (MomentumKernel, (0.5, 0.6), "alpha <= epsilon"),
        (MomentumKernel, (0.5, -0.1), "0 <= alpha"),
        (SigmoidKernel, (5.0, 0.0), "rho must be above 0"),
        (SigmoidKernel, (math.inf, 1.0), "tau is inf"),
    ],
)
def test_parameters_that_cannot_be_are_refused(make, arguments, named):
    with pytest.raises(ConfigError, match=named):
        make(*arguments)
