"""Kernels of the structural model: they use one triangle of the covariance."""

import numpy as np

from edge_tvbo.numerics import structural

COMPONENTS, SENSORS = 3, 4
SIZE = COMPONENTS * SENSORS
LOAD = np.array([1.0, -0.7, 0.4])
RETAIN, INJECT, COMMON = np.array([0.9, 0.5, 0.99]), np.array([0.2, 0.6, 0.01]), np.full(3, 0.3)
CORRELATION = 0.25 + 0.75 * np.eye(SENSORS)


def state_after_readings(P):
    """Return the mean of a state after readings of all sensors, and the moments of the sensors.

    `P` is the covariance of the state, and is updated.
    """
    m, workspace = np.zeros(SIZE), np.zeros(SIZE)
    mean, variance = np.zeros(SENSORS), np.zeros(SENSORS)
    for arm in (0, 2, 1, 3, 3):
        structural.condition(m, P, LOAD, arm, 1.0 + arm, 0.1, 1.0, workspace)
        structural.evolve(m, P, RETAIN, INJECT, COMMON, CORRELATION)
    structural.moments(m, P, LOAD, mean, variance)
    return m, mean, variance


def test_kernels_neither_read_nor_write_the_upper_triangle_of_the_covariance():
    A = np.random.default_rng(0).normal(size=(SIZE, SIZE))
    whole, upper = A @ A.T, np.triu_indices(SIZE, 1)
    lower = whole.copy()
    lower[upper] = np.nan

    results = state_after_readings(lower)

    for ours, expected in zip(results, state_after_readings(whole), strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert np.isnan(lower[upper]).all()
    structural.mirror(lower)
    structural.mirror(whole)
    np.testing.assert_array_equal(lower, whole)
    np.testing.assert_array_equal(lower, lower.T)
