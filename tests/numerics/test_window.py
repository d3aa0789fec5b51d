"""Kernels of the sliding window."""

from math import sqrt

import numpy as np
import pytest

from edge_tvbo.numerics import window
from edge_tvbo.numerics.jit import kernel

NOISE = 0.1
RETAIN = 0.97


@kernel("void(f8[:, ::1], f8[::1], f8[:, ::1])")
def factor_by_rows(covariance, y, LVz):
    """Fill the columns of `LVz` with L, V and z, one row after the other.

    `covariance` has a row for each reading, and columns for the readings and for the arms.
    """
    n = len(y)
    for r in range(n):
        LVz[r] = 0.0
        LVz[r, n:-1] = covariance[r, n:]
        LVz[r, -1] = y[r]
        for i in range(r):
            s = covariance[r, i]
            for k in range(i):
                s -= LVz[r, k] * LVz[i, k]
            LVz[r, i] = s / LVz[i, i]
            for j in range(n, LVz.shape[1]):
                LVz[r, j] -= LVz[r, i] * LVz[i, j]
        rest = covariance[r, r] + NOISE
        for k in range(r):
            rest -= LVz[r, k] * LVz[r, k]
        LVz[r, r] = sqrt(max(rest, NOISE))
        LVz[r, n:] /= LVz[r, r]


@pytest.mark.parametrize("panel_rows", [1, 3, 32])
@pytest.mark.parametrize("n", [0, 1, 3, 32, 33, 70])
def test_factor_of_a_window_is_that_of_a_row_wise_factorization_to_the_last_bit(n, panel_rows):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(5, 5))
    K = A @ A.T
    W, M, now = n + 2, len(K), 2 * n
    arms, y = rng.integers(0, M, W), rng.normal(size=W)
    times, priors = np.sort(rng.integers(0, now + 1, W)), rng.uniform(0.5, 2.0, W)
    L, V, z = np.zeros((W, W)), np.zeros((W, M)), np.zeros(W)
    panel = np.full((W, panel_rows), np.nan)

    window.refactor(L, V, z, n, K, arms, y, times, priors, now, RETAIN, NOISE, panel)

    covariance = np.zeros((n, n + M))
    for r in range(n):
        for i in range(r + 1):
            retained = 1.0 if i == r else RETAIN ** (0.5 * (times[r] - times[i]))
            covariance[r, i] = priors[i] * retained * K[arms[r], arms[i]]
        covariance[r, n:] = priors[r] * RETAIN ** (0.5 * (now - times[r])) * K[arms[r]]
    expected = np.zeros((n, n + M + 1))
    factor_by_rows(covariance, y[:n], expected)
    assert np.array_equal(np.column_stack([L[:n, :n], V[:n], z[:n]]), expected)
    assert not L[n:].any() and not L[:, n:].any() and not V[n:].any() and not z[n:].any()
