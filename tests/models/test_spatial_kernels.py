"""Spatial kernels against the textbook formulas, and empirical covariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.examples import max_examples
from support.naive import distances as naive_distances
from support.naive import empirical, se
from support.naive import linear as naive_linear
from support.naive import matern as naive_matern

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.spatial_kernels import (
    SpatialKernel,
    distances,
    empirical_covariance,
    linear,
    matern,
    positive_definite,
    squared_exponential,
)

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
NUS = st.sampled_from([0.5, 1.5, 2.5]) | st.floats(0.1, 30)


@st.composite
def places(draw):
    M, d = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    grid = st.integers(0, 40).map(lambda cell: cell / 20)  # with repeats, but none nearly equal
    row = st.lists(grid, min_size=d, max_size=d)
    return np.array(draw(st.lists(row, min_size=M, max_size=M)))


LENGTHS = st.floats(0.1, 10)


# --- closed forms -------------------------------------------------------------------------------


@given(places(), LENGTHS)
def test_squared_exponential_equals_the_textbook(X, length):
    assert_allclose(squared_exponential(X, length), se(X, length), **TIGHT)


@given(places(), LENGTHS, NUS)
def test_matern_of_any_smoothness_equals_the_textbook(X, length, nu):
    assert_allclose(matern(X, length, nu), naive_matern(X, length, nu), **TIGHT)


@given(places(), LENGTHS, st.sampled_from([0.5, 1.5, 2.5]))
def test_matern_closed_forms_equal_the_general_form(X, length, nu):
    assert_allclose(matern(X, length, nu), matern(X, length, nu + 1e-9), atol=1e-7)


@given(places(), LENGTHS)
def test_a_very_smooth_matern_is_almost_squared_exponential(X, length):
    assert_allclose(matern(X, length, 100.0), se(X, length), atol=0.01)


def test_matern_above_100_is_the_squared_exponential():
    X = [[0.0], [0.2], [1.0], [1000.0]]
    for nu in (150.0, 200.0, 500.0):
        assert_allclose(matern(X, 1.0, nu), se(np.array(X), 1.0), atol=0.01)


@pytest.mark.parametrize("nu", [0.01, 2.0, 60.0, 80.0, 100.0])
def test_far_places_are_not_correlated_and_near_places_are(nu):
    """A large smoothness correlated places that are 1000 length scales apart by 1."""
    X = [[0.0], [1e-9], *([10.0**power] for power in range(2, 11))]
    K = matern(X, 1.0, nu)[0]
    assert_allclose(K[2:], 0.0, atol=1e-6)
    assert K[0] == 1.0
    assert K[1] > 0.3


@given(places())
def test_linear_kernel_is_the_scaled_inner_product(X):
    plain = naive_linear(X)
    if not plain.any():
        with pytest.raises(ConfigError, match="origin"):
            linear(X)
    else:
        assert_allclose(linear(X), plain / np.diag(plain).max(), **TIGHT)


@pytest.mark.parametrize("d", range(1, 11))
def test_distances_are_those_of_the_formula_to_the_last_bit(d):
    rng = np.random.default_rng(d)
    X, Y, scale = rng.normal(size=(7, d)), rng.normal(size=(30, d)), rng.uniform(0.1, 2.0, d)
    expected = np.sqrt((((X[:, None, :] - Y) / scale) ** 2).sum(axis=2))
    assert distances(X, scale, others=Y).tolist() == expected.tolist()


@given(places(), LENGTHS)
def test_distances_are_in_length_scales_and_symmetric(X, length):
    r = distances(X, length)
    assert_allclose(r, naive_distances(X) / length, **TIGHT)
    assert np.array_equal(r, r.T)
    assert not np.diag(r).any()


@given(places(), NUS)
def test_kernels_are_symmetric_with_variance_1(X, nu):
    for K in (squared_exponential(X, 0.5), matern(X, 0.5, nu)):
        assert np.array_equal(np.diag(K), np.ones(len(X)))
        assert np.array_equal(K, K.T)
        assert (K >= 0).all()
        assert (K <= 1 + 1e-12).all()


def test_a_row_of_numbers_stands_for_places_on_a_line():
    assert np.array_equal(matern([0.0, 1.0], 2.0, 1.5), matern([[0.0], [1.0]], 2.0, 1.5))


def test_each_dimension_can_have_its_own_length_scale():
    K = squared_exponential([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]], [3.0, 30.0])
    assert_allclose(K[0], [1.0, np.exp(-0.5), np.exp(-0.005)], **TIGHT)


def test_matern_half_is_1_over_e_at_one_length_scale():
    assert matern([0.0, 2.0], 2.0, 0.5)[0, 1] == pytest.approx(np.exp(-1), rel=1e-15)


def test_without_scipy_other_smoothness_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.special", None)
    assert matern([0.0, 1.0], 1.0, 1.5)[0, 1] < 1
    with pytest.raises(MissingExtra, match=r"edge-tvbo\[science\]"):
        matern([0.0, 1.0], 1.0, 1.7)


def test_invalid_length_scales_are_rejected():
    for length in (0.0, -1.0, np.nan, np.inf, [1.0, 0.0]):
        with pytest.raises(ConfigError, match="length_scale is .*; it must be finite and above 0"):
            squared_exponential([[0.0, 0.0], [1.0, 1.0]], length)


def test_places_and_length_scales_of_different_dimensions_are_rejected():
    """A single coordinate was repeated for each dimension; three length scales failed in numpy."""
    with pytest.raises(ConfigError, match="Some places have 2 coordinates, and others 1"):
        SpatialKernel()([[0.0, 1.0]], [[0.0]])
    with pytest.raises(ConfigError, match="length_scale has 3 numbers"):
        SpatialKernel(2.5, (1.0, 2.0, 3.0))([[0.0, 1.0]], [[1.0, 2.0]])
    one = SpatialKernel(2.5, 0.5)([[0.0, 1.0]], [[1.0, 2.0]])
    assert SpatialKernel(2.5, (0.5,))([[0.0, 1.0]], [[1.0, 2.0]]) == one


def test_invalid_smoothness_is_rejected():
    for nu in (0.0, -1.0, np.nan):
        with pytest.raises(ConfigError, match="nu is"):
            matern([0.0, 1.0], 1.0, nu)


def test_invalid_places_are_rejected():
    for X in ([np.nan, 1.0], [[0.0], [np.inf]], np.zeros((2, 2, 2)), 1.0):
        with pytest.raises(ConfigError, match="Places"):
            linear(X)


# --- from data ----------------------------------------------------------------------------------


@st.composite
def training_data(draw, *, rows=st.integers(2, 40), sizes=st.sampled_from([1e-2, 1.0, 1e3])):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    M = draw(st.integers(1, 8))
    mixing = rng.normal(size=(M, M))
    return draw(sizes) * (rng.normal(size=(draw(rows), M)) @ mixing + rng.normal(size=M))


@given(training_data())
@max_examples(60)
def test_empirical_covariance_differs_only_by_jitter(Y):
    K, plain = empirical_covariance(Y), empirical(Y)
    lift = K - plain
    size = np.abs(plain).max()
    assert_allclose(lift - np.diag(np.diag(lift)), 0, atol=1e-12 * size)
    assert_allclose(np.diag(lift), np.diag(lift)[0], atol=1e-12 * size)
    assert np.diag(lift)[0] <= max(0.01 * size, 1e-6) * (1 + 1e-9)
    np.linalg.cholesky(K)


@given(training_data(rows=st.integers(30, 60), sizes=st.just(1.0)))
def test_regular_data_get_the_smallest_jitter(Y):
    assert_allclose(empirical_covariance(Y), empirical(Y) + 1e-6 * np.eye(Y.shape[1]), **TIGHT)


@given(training_data(), st.floats(0, 1))
@max_examples(60)
def test_shrinkage_reduces_correlations_and_keeps_variances(Y, shrinkage):
    K, plain = empirical_covariance(Y, shrinkage=shrinkage), empirical(Y)
    off = ~np.eye(len(plain), dtype=bool)
    size = np.abs(plain).max()
    assert_allclose(K[off], (1 - shrinkage) * plain[off], atol=1e-12 * size)
    assert (np.diag(K) >= np.diag(plain)).all()
    assert_allclose(np.diag(K), np.diag(plain), atol=max(0.01 * size, 1e-6) * 1.01)


@given(training_data(sizes=st.just(1.0)), st.sampled_from([2.0, 8.0]))
def test_covariance_scales_with_the_square_of_the_readings(Y, factor):
    K = empirical_covariance(Y, jitter=1e-6)
    assert_allclose(empirical_covariance(factor * Y, jitter=1e-6 * factor**2), factor**2 * K)


def test_two_equal_sensors_get_only_jitter():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(50, 3))
    Y[:, 2] = Y[:, 0]
    assert np.linalg.matrix_rank(empirical(Y)) == 2
    assert_allclose(empirical_covariance(Y), empirical(Y) + 1e-6 * np.eye(3), **TIGHT)


def test_fewer_intervals_than_sensors_get_only_jitter():
    Y = np.random.default_rng(1).normal(size=(4, 20))
    lift = empirical_covariance(Y) - empirical(Y)
    assert_allclose(lift, 1e-6 * np.eye(20), atol=1e-12)


def test_empirical_covariance_of_two_rows_by_hand():
    K = empirical_covariance([[1.0, 0.0], [3.0, -2.0]], jitter=0.5, shrinkage=0.5)
    assert_allclose(K, [[2.5, -1.0], [-1.0, 2.5]], **TIGHT)


def test_jitter_grows_tenfold_until_the_matrix_is_definite():
    K = np.diag([1.0, -5e-5])
    assert_allclose(positive_definite(K, 1e-6), K + 1e-4 * np.eye(2), rtol=1e-12)


def test_a_covariance_that_jitter_cannot_fix_is_rejected():
    with pytest.raises(ConfigError, match="1 %"):
        positive_definite(np.diag([1.0, -0.5]), 1e-6)


def test_data_with_gaps_or_a_single_row_are_rejected():
    for Y in ([[1.0, 2.0]], [1.0, 2.0], [[1.0], [np.nan]], [[1.0], [np.inf]]):
        with pytest.raises(ConfigError, match="two or more rows"):
            empirical_covariance(Y)


def test_shrinkage_out_of_range_is_rejected():
    for shrinkage in (-0.1, 1.1, np.nan):
        with pytest.raises(ConfigError, match="shrinkage"):
            empirical_covariance([[1.0], [2.0]], shrinkage=shrinkage)
