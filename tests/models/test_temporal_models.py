"""Temporal models: kernels against the papers and the transitions, gradients, rejections."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.naive import temporal

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.lags import MIN_LAGS_FOR_TABLE
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.sigmoid import Sigmoid
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection

STEP = Fraction(1, 10**25)  # of differences in exact arithmetic
WHOLE = st.lists(st.integers(0, 60).map(float), min_size=1, max_size=6).map(np.array)
ANY = st.lists(st.floats(0, 60), min_size=1, max_size=6).map(np.array)
TIMES = st.one_of(WHOLE, ANY)


@st.composite
def rates(draw):
    """Draw (epsilon, alpha): different, nearly equal, an ulp apart, equal, or at a bound."""
    epsilon = draw(st.one_of(st.floats(0.01, 0.999), st.sampled_from([0.0, 0.5, 0.99])))
    apart = draw(
        st.one_of(
            st.sampled_from([0.0, 2.0**-52, 1e-15, 1e-12, 1e-8, 1e-4, 1.0]),
            st.floats(-16, 0).map(lambda power: 10**power),
        )
    )
    return epsilon, max(min(epsilon - epsilon * apart, epsilon), 0.0)


TIME_VARYING = st.floats(0, 0.99).map(TimeVarying)
MOMENTUM = rates().map(lambda parameters: Momentum(*parameters))
SIGMOID = st.builds(Sigmoid, st.floats(-50, 150), st.floats(0.1, 50))
FITTABLE = st.one_of(TIME_VARYING, MOMENTUM, SIGMOID)
WIENER = st.floats(0, 10).map(UncertaintyInjection)
ANY_MODEL = st.one_of(FITTABLE, WIENER, st.just(Static()))


def assert_equals_twin(model, d, s, t):
    expected = np.array([[float(d(a, b)) for b in t] for a in s])
    np.testing.assert_allclose(model.kernel(s, t), expected, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(model.variance(t), [float(d(b, b)) for b in t], rtol=1e-12)


def eq_8_9(e, a, k):
    """[M24] lemma 8.2 as printed, for floats or fractions; symmetric in e and a."""
    if a == e:
        return e**k * (1 + k * (1 - e**2) / (1 + e**2))
    return ((e**2 - 1) * a ** (k + 1) + (1 - a**2) * e ** (k + 1)) / ((e - a) * (e * a + 1))


def eq_8_7(e, a, k):
    """[M24] eq. 8.7 as printed: the derivative by alpha for alpha ≠ epsilon."""
    inner = a**k * ((e * k - e) * a**2 + (1 - e**2) * k * a - e * k - e)
    outer = e ** (k + 1) * a**2 + e ** (k + 1)
    return -(e**2 - 1) * (inner + outer) / ((a - e) ** 2 * (e * a + 1) ** 2)


def central(function, values, i, step):
    up = [value + step * (i == j) for j, value in enumerate(values)]
    down = [value - step * (i == j) for j, value in enumerate(values)]
    return (function(*up) - function(*down)) / (2 * step)


# --- kernels ------------------------------------------------------------------------------------


@given(TIMES, TIMES)
def test_static_kernel_equals_its_twin(s, t):
    assert_equals_twin(Static(), temporal("static"), s, t)


@given(st.floats(0, 1), TIMES, TIMES)
def test_time_varying_kernel_equals_its_twin(epsilon, s, t):
    assert_equals_twin(TimeVarying(epsilon), temporal("tv", epsilon), s, t)


@given(st.floats(0, 10), TIMES, TIMES)
def test_uncertainty_injection_kernel_equals_its_twin(sigma_w2, s, t):
    assert_equals_twin(UncertaintyInjection(sigma_w2), temporal("ui", sigma_w2), s, t)


@given(rates(), WHOLE, WHOLE)
def test_momentum_kernel_equals_eq_8_9_in_exact_arithmetic(parameters, s, t):
    e, a = map(Fraction, parameters)
    assert_equals_twin(Momentum(*parameters), lambda x, y: eq_8_9(e, a, int(abs(x - y))), s, t)


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 0.5])
def test_momentum_kernel_without_alpha_is_a_power_at_each_lag(epsilon):
    """At ε = 0, a lag below 1 gave NaN."""
    lags = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 3.0])
    kernel = Momentum(epsilon, 0.0).kernel(np.zeros(1), lags)
    np.testing.assert_array_equal(kernel[0], epsilon**lags)


@given(SIGMOID, TIMES, TIMES)
def test_sigmoid_kernel_equals_the_printed_formula(model, s, t):
    def share(x):
        return 1 / (1 + math.exp(min((model.tau - x) / model.rho, 700)))

    expected = [[2 * share(a) * share(b) - share(a) - share(b) + 1 for b in t] for a in s]
    np.testing.assert_allclose(model.kernel(s, t), expected, atol=1e-14)


@given(rates(), st.integers(0, 60))
def test_momentum_kernel_is_the_covariance_of_its_transition(parameters, k):
    model = Momentum(*parameters)
    transition = model.transition()
    covariance = np.linalg.matrix_power(transition.matrix, k) @ transition.prior

    value = model.kernel(np.array([3.0]), np.array([3.0 + k]))[0, 0]

    assert value == pytest.approx(covariance[0, 0], rel=1e-9, abs=1e-12)


@given(st.one_of(TIME_VARYING, WIENER, st.just(Static())), st.integers(0, 60), st.integers(0, 60))
def test_one_component_kernel_is_the_covariance_of_its_transition(model, s, lag):
    """Cov(f_t, f_s) = retain^((t-s)/2) p_s with p_{s+1} = retain p_s + inject."""
    retain, inject = model.transition()
    prior = 1.0
    for _ in range(s):
        prior = retain * prior + inject

    value = model.kernel(np.array([float(s)]), np.array([float(s + lag)]))[0, 0]

    assert value == pytest.approx(retain ** (lag / 2) * prior, rel=1e-9, abs=1e-12)


@given(SIGMOID, st.integers(0, 60), st.integers(0, 60))
def test_sigmoid_kernel_is_the_covariance_of_its_transition(model, s, t):
    transition = model.transition()
    expected = np.array(transition.weights(s)) @ transition.prior @ np.array(transition.weights(t))

    assert model.kernel(np.array([s]), np.array([t]))[0, 0] == pytest.approx(expected, abs=1e-14)


@given(ANY_MODEL, WHOLE)
def test_a_kernel_is_symmetric_and_positive_semi_definite(model, t):
    D = model.kernel(t, t)

    np.testing.assert_array_equal(D, D.T)
    assert np.linalg.eigvalsh(D).min() > -1e-12 * D.max()
    np.testing.assert_allclose(np.diag(D), model.variance(t), rtol=1e-14)


@given(st.one_of(TIME_VARYING, MOMENTUM), WHOLE, st.integers(1, 10**9), st.booleans())
def test_the_table_of_lags_equals_one_lag_at_a_time(model, t, late, many):
    far = np.tile(t, MIN_LAGS_FOR_TABLE) + late if many else t + late
    far = far[:30]
    assert many == (len(far) ** 2 > MIN_LAGS_FOR_TABLE)
    for function in (model.kernel, model.kernel_gradient):
        single = [function(far[:1], far[i : i + 1])[..., 0, 0] for i in range(len(far))]
        first_row = function(far, far)[..., 0, :]
        np.testing.assert_allclose(first_row, np.stack(single, -1), rtol=1e-9, atol=1e-300)


def test_no_times_give_an_empty_kernel():
    none, two = np.empty(0), np.array([0.0, 1.0])
    for model in (TimeVarying(0.1), Momentum(0.9, 0.8), Sigmoid(3.0, 2.0)):
        assert model.kernel(none, two).shape == (0, 2)
        assert model.kernel_gradient(two, none).shape == (len(model.parameters), 2, 0)
        assert model.variance(none).shape == (0,)


def test_a_sigmoid_never_overflows():
    t = np.array([0.0, 1.0, 1e9])
    for rho in (1e-310, 1e-3, 1e3, 1e300):
        assert np.isfinite(Sigmoid(0.5, rho).kernel(t, t)).all()
        assert np.isfinite(Sigmoid(0.5, rho).kernel_gradient(t, t)).all()


# --- gradients ----------------------------------------------------------------------------------


@given(rates(), WHOLE, WHOLE)
def test_momentum_gradient_is_exact_even_at_alpha_epsilon(parameters, s, t):
    values = [Fraction(value) for value in parameters]
    gradient = Momentum(*parameters).kernel_gradient(s, t)

    for (i, j), k in np.ndenumerate(np.abs(s[:, None] - t)):
        for p in (0, 1):
            slope = central(lambda e, a, k=int(k): eq_8_9(e, a, k), values, p, STEP)
            assert gradient[p, i, j] == pytest.approx(float(slope), rel=1e-10, abs=1e-11)


@given(rates(), st.integers(0, 80))
def test_momentum_gradient_is_eq_8_7_and_its_mirror(parameters, k):
    e, a = map(Fraction, parameters)
    assume(e != a)
    by_epsilon, by_alpha = Momentum(*parameters).kernel_gradient(np.zeros(1), np.array([float(k)]))

    assert by_alpha[0, 0] == pytest.approx(float(eq_8_7(e, a, k)), rel=1e-10, abs=1e-11)
    assert by_epsilon[0, 0] == pytest.approx(float(eq_8_7(a, e, k)), rel=1e-10, abs=1e-11)


@given(st.one_of(st.floats(0.01, 0.98).map(TimeVarying), SIGMOID), TIMES, TIMES)
def test_a_gradient_is_the_central_difference(model, s, t):
    gradient = model.kernel_gradient(s, t)

    def kernel_at(*values):
        return model.with_parameters(np.array(values)).kernel(s, t)

    assert gradient.shape == (len(model.parameters), len(s), len(t))
    for p in range(len(model.parameters)):
        slope = central(kernel_at, model.parameters, p, 1e-6)
        np.testing.assert_allclose(gradient[p], slope, rtol=1e-5, atol=1e-6)


@given(st.floats(0.05, 0.98), st.floats(0.02, 0.99), st.floats(0, 60))
def test_momentum_gradient_holds_between_whole_lags(epsilon, share, lag):
    model = Momentum(epsilon, epsilon * share)
    gradient = model.kernel_gradient(np.zeros(1), np.array([lag]))[:, 0, 0]
    for p in (0, 1):
        slope = central(lambda e, a: eq_8_9(e, a, lag), model.parameters, p, 1e-6)
        assert gradient[p] == pytest.approx(slope, rel=1e-3, abs=1e-3)


def test_a_gradient_is_finite_at_the_smallest_parameters():
    t = np.arange(5.0)
    for model in (TimeVarying(0.0), Momentum(0.0, 0.0)):
        assert np.isfinite(model.kernel_gradient(t, t)).all()


# --- coordinates of the search ------------------------------------------------------------------


@given(FITTABLE)
def test_parameters_and_coordinates_round_trip(model):
    assert model.with_parameters(model.parameters) == model
    back = model.at_coordinates(model.coordinates())
    np.testing.assert_allclose(back.parameters, model.parameters, rtol=1e-9, atol=1e-12)


@given(
    st.one_of(
        st.floats(1e-5, 0.9).map(TimeVarying),
        st.builds(lambda e, w: Momentum(e, e * w), st.floats(0.1, 0.9), st.floats(0.1, 0.9)),
        SIGMOID,
    )
)
def test_the_jacobian_is_the_central_difference(model):
    place = model.coordinates()
    for j in range(len(place)):
        slope = central(lambda *z: model.at_coordinates(np.array(z)).parameters, place, j, 1e-6)
        np.testing.assert_allclose(model.jacobian()[:, j], slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [TimeVarying, Momentum, Sigmoid])
@given(seed=st.integers(0, 2**32), horizon=st.floats(0, 1e5))
def test_random_models_lie_within_the_bounds(kind, seed, horizon):
    model = kind.random(np.random.default_rng(seed), horizon)
    bounds = kind.bounds(horizon)
    corners = np.array([model.with_parameters(corner).coordinates() for corner in bounds.T])

    assert model == kind.random(np.random.default_rng(seed), horizon)
    assert (bounds[:, 0] <= model.parameters).all() and (model.parameters <= bounds[:, 1]).all()
    if kind is Momentum:  # its box ends just below alpha = epsilon
        return
    assert (corners.min(axis=0) <= model.coordinates()).all()
    assert (model.coordinates() <= corners.max(axis=0)).all()


def test_random_models_cover_the_documented_ranges():
    rng = np.random.default_rng(0)
    epsilons = [TimeVarying.random(rng, 100.0).epsilon for _ in range(2000)]
    taus = [Sigmoid.random(rng, 100.0).tau for _ in range(2000)]

    assert 1e-4 <= min(epsilons) < 2e-4 and 0.4 < max(epsilons) <= 0.5
    assert np.median(epsilons) == pytest.approx(math.sqrt(1e-4 * 0.5), rel=0.3)
    assert 0 <= min(taus) < 2 and 98 < max(taus) <= 100


# --- rejections and snapshots -------------------------------------------------------------------


def test_parameters_out_of_range_are_rejected():
    for model, arguments, message in (
        (TimeVarying, (-0.1,), "epsilon is -0.1"),
        (TimeVarying, (1.1,), "epsilon is 1.1"),
        (TimeVarying, (math.nan,), "epsilon is nan"),
        (UncertaintyInjection, (-1.0,), "sigma_w2 is -1.0"),
        (UncertaintyInjection, (math.inf,), "sigma_w2 is inf"),
        (Momentum, (1.0, 0.5), "epsilon is 1.0, alpha 0.5"),
        (Momentum, (0.5, 0.6), "alpha <= epsilon"),
        (Momentum, (0.5, -0.1), "0 <= alpha"),
        (Sigmoid, (5.0, 0.0), "rho must be above 0"),
        (Sigmoid, (math.inf, 1.0), "tau is inf"),
    ):
        with pytest.raises(ConfigError, match=message):
            model(*arguments)


def test_snapshot_keys_are_those_of_format_1():
    """Files on disk hold them, so they outlive renames of the classes."""
    keys = {
        Static(): "StaticKernel()",
        UncertaintyInjection(0.03): "WienerKernel(sigma_w2=0.03)",
        TimeVarying(0.1): "TimeVaryingKernel(epsilon=0.1)",
        Momentum(0.95, 0.9): "MomentumKernel(epsilon=0.95, alpha=0.9)",
        Sigmoid(5, 2.0): "SigmoidKernel(tau=5, rho=2.0)",
    }
    assert [model.snapshot_key for model in keys] == list(keys.values())
    assert Momentum(0.95, 0.9).transition().snapshot_kind == "mtv 0.95 0.9"
    assert Sigmoid(5, 2.0).transition().snapshot_kind == "ttv 5 2.0"
