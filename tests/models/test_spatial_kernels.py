"""Spatial kernels against the textbook's formulas, and what an empirical covariance keeps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import distances as naive_distances
from naive import empirical, se
from naive import linear as naive_linear
from naive import matern as naive_matern
from numpy.testing import assert_allclose

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.spatial_kernels import (
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
    grid = st.integers(0, 40).map(lambda cell: cell / 20)  # repeats welcome; none nearly equal
    row = st.lists(grid, min_size=d, max_size=d)
    return np.array(draw(st.lists(row, min_size=M, max_size=M)))


LENGTHS = st.floats(0.1, 10)


# --- closed forms -------------------------------------------------------------------------------


@given(places(), LENGTHS)
def test_the_squared_exponential_is_the_textbooks(X, length):
    assert_allclose(squared_exponential(X, length), se(X, length), **TIGHT)


@given(places(), LENGTHS, NUS)
def test_matern_of_any_smoothness_is_the_textbooks(X, length, nu):
    assert_allclose(matern(X, length, nu), naive_matern(X, length, nu), **TIGHT)


@given(places(), LENGTHS, st.sampled_from([0.5, 1.5, 2.5]))
def test_the_closed_forms_meet_the_general_one_beside_them(X, length, nu):
    assert_allclose(matern(X, length, nu), matern(X, length, nu + 1e-9), atol=1e-7)


@given(places(), LENGTHS)
def test_a_matern_that_is_very_smooth_is_nearly_squared_exponential(X, length):
    assert_allclose(matern(X, length, 100.0), se(X, length), atol=0.01)


@pytest.mark.parametrize("nu", [150.0, 200.0, 500.0])
def test_smoothness_far_beyond_use_still_falls_off_with_distance(nu):
    X = [[0.0], [0.2], [1.0], [1000.0]]
    assert_allclose(matern(X, 1.0, nu), se(np.array(X), 1.0), atol=0.01)


@given(places())
def test_the_linear_kernel_is_the_inner_product_with_the_largest_variance_1(X):
    plain = naive_linear(X)
    if not plain.any():
        with pytest.raises(ConfigError, match="origin"):
            linear(X)
    else:
        assert_allclose(linear(X), plain / np.diag(plain).max(), **TIGHT)


@given(places(), LENGTHS)
def test_distances_are_in_length_scales_and_symmetric_to_the_last_bit(X, length):
    r = distances(X, length)
    assert_allclose(r, naive_distances(X) / length, **TIGHT)
    assert np.array_equal(r, r.T)
    assert not np.diag(r).any()


@given(places(), NUS)
def test_every_kernel_is_1_at_home_and_symmetric(X, nu):
    for K in (squared_exponential(X, 0.5), matern(X, 0.5, nu)):
        assert np.array_equal(np.diag(K), np.ones(len(X)))
        assert np.array_equal(K, K.T)
        assert (K >= 0).all()
        assert (K <= 1 + 1e-12).all()


def test_a_row_of_numbers_is_places_on_a_line():
    assert np.array_equal(matern([0.0, 1.0], 2.0, 1.5), matern([[0.0], [1.0]], 2.0, 1.5))


def test_each_dimension_may_have_a_length_scale_of_its_own():
    K = squared_exponential([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]], [3.0, 30.0])
    assert_allclose(K[0], [1.0, np.exp(-0.5), np.exp(-0.005)], **TIGHT)


def test_matern_half_at_one_length_scale_is_1_over_e():
    assert matern([0.0, 2.0], 2.0, 0.5)[0, 1] == pytest.approx(np.exp(-1), rel=1e-15)


def test_without_scipy_an_unusual_smoothness_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.special", None)
    assert matern([0.0, 1.0], 1.0, 1.5)[0, 1] < 1
    with pytest.raises(MissingExtra, match=r"edge-tvbo\[science\]"):
        matern([0.0, 1.0], 1.0, 1.7)


@pytest.mark.parametrize("length", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0]])
def test_a_length_scale_that_is_none_is_refused(length):
    with pytest.raises(ConfigError, match="length_scale"):
        squared_exponential([[0.0, 0.0], [1.0, 1.0]], length)


@pytest.mark.parametrize("nu", [0.0, -1.0, np.nan])
def test_a_smoothness_that_is_none_is_refused(nu):
    with pytest.raises(ConfigError, match="nu is"):
        matern([0.0, 1.0], 1.0, nu)


@pytest.mark.parametrize("X", [[np.nan, 1.0], [[0.0], [np.inf]], np.zeros((2, 2, 2)), 1.0])
def test_places_that_are_none_are_refused(X):
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
@settings(max_examples=60)
def test_an_empirical_covariance_is_that_of_the_data_but_for_jitter_on_the_diagonal(Y):
    K, plain = empirical_covariance(Y), empirical(Y)
    lift = K - plain
    size = np.abs(plain).max()
    assert_allclose(lift - np.diag(np.diag(lift)), 0, atol=1e-12 * size)
    assert_allclose(np.diag(lift), np.diag(lift)[0], atol=1e-12 * size)
    assert np.diag(lift)[0] <= max(0.01 * size, 1e-6) * (1 + 1e-9)
    np.linalg.cholesky(K)


@given(training_data(rows=st.integers(30, 60), sizes=st.just(1.0)))
def test_data_in_general_position_get_the_smallest_jitter_alone(Y):
    assert_allclose(empirical_covariance(Y), empirical(Y) + 1e-6 * np.eye(Y.shape[1]), **TIGHT)


@given(training_data(), st.floats(0, 1))
@settings(max_examples=60)
def test_shrinkage_pulls_the_correlations_and_leaves_the_variances(Y, shrinkage):
    K, plain = empirical_covariance(Y, shrinkage=shrinkage), empirical(Y)
    off = ~np.eye(len(plain), dtype=bool)
    size = np.abs(plain).max()
    assert_allclose(K[off], (1 - shrinkage) * plain[off], atol=1e-12 * size)
    assert (np.diag(K) >= np.diag(plain)).all()
    assert_allclose(np.diag(K), np.diag(plain), atol=max(0.01 * size, 1e-6) * 1.01)


@given(training_data(sizes=st.just(1.0)), st.sampled_from([2.0, 8.0]))
def test_readings_twice_as_wide_give_four_times_the_covariance(Y, factor):
    K = empirical_covariance(Y, jitter=1e-6)
    assert_allclose(empirical_covariance(factor * Y, jitter=1e-6 * factor**2), factor**2 * K)


def test_a_sensor_that_repeats_another_gets_jitter_only():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(50, 3))
    Y[:, 2] = Y[:, 0]
    assert np.linalg.matrix_rank(empirical(Y)) == 2
    assert_allclose(empirical_covariance(Y), empirical(Y) + 1e-6 * np.eye(3), **TIGHT)


def test_fewer_days_than_sensors_get_jitter_only():
    Y = np.random.default_rng(1).normal(size=(4, 20))
    lift = empirical_covariance(Y) - empirical(Y)
    assert_allclose(lift, 1e-6 * np.eye(20), atol=1e-12)


def test_two_rows_by_hand():
    K = empirical_covariance([[1.0, 0.0], [3.0, -2.0]], jitter=0.5, shrinkage=0.5)
    assert_allclose(K, [[2.5, -1.0], [-1.0, 2.5]], **TIGHT)


def test_jitter_grows_tenfold_until_the_matrix_is_definite():
    K = np.diag([1.0, -5e-5])
    assert_allclose(positive_definite(K, 1e-6), K + 1e-4 * np.eye(2), rtol=1e-12)


def test_what_one_percent_of_the_variance_cannot_mend_is_refused():
    with pytest.raises(ConfigError, match="1 %"):
        positive_definite(np.diag([1.0, -0.5]), 1e-6)


@pytest.mark.parametrize("Y", [[[1.0, 2.0]], [1.0, 2.0], [[1.0], [np.nan]], [[1.0], [np.inf]]])
def test_data_with_gaps_or_a_single_row_are_refused(Y):
    with pytest.raises(ConfigError, match="two or more rows"):
        empirical_covariance(Y)


@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, np.nan])
def test_a_shrinkage_out_of_range_is_refused(shrinkage):
    with pytest.raises(ConfigError, match="shrinkage"):
        empirical_covariance([[1.0], [2.0]], shrinkage=shrinkage)
