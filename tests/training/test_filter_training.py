"""Filter of the training rows: the same numbers as a textbook Kalman filter of each series."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.numerics.structural import MAX_ERROR_STDS, filter_training


def textbook(x, eigenvalue, variance, retain, noise, loads, skipped):
    """Return log score, mean (n,) and covariance (n, n) of one series after its last row."""
    prior = np.diag(variance * eigenvalue)
    mean, P, score = np.zeros(len(variance)), prior.copy(), 0.0
    for t, (y, h) in enumerate(zip(x, loads, strict=True)):
        if not np.isnan(y):
            error, total = y - h @ mean, h @ P @ h + noise
            z = abs(error) / np.sqrt(total)
            square = z**2 if z <= MAX_ERROR_STDS else MAX_ERROR_STDS * (2 * z - MAX_ERROR_STDS)
            score -= 0.5 * (np.log(total) + square) if t >= skipped else 0.0
            gain = P @ h / total
            mean, P = mean + gain * error, P - np.outer(gain, P @ h)
        F = np.diag(retain)
        mean, P = F @ mean, F @ P @ F + prior - F @ prior @ F
    return score, mean, P


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 30),
    st.integers(0, 10),
)
def test_all_series_are_filtered_like_single_ones(seed, M, n, T, skipped):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, M)) * rng.choice([1.0, 5.0], (T, 1))
    X[rng.random(T) < 0.2] = np.nan
    eigenvalues, variance = rng.uniform(0.1, 3.0, M), rng.uniform(0.1, 2.0, n)
    retain, loads = rng.uniform(0.0, 1.0, n), rng.standard_normal((T, n))
    m, P = np.empty((M, n)), np.empty((M, n, n))
    score = filter_training(X, eigenvalues, variance, retain, 0.1, loads, skipped, m, P)
    twins = [
        textbook(X[:, j], eigenvalues[j], variance, retain, 0.1, loads, skipped) for j in range(M)
    ]
    assert score == pytest.approx(sum(each for each, *_ in twins), rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(m, [mean for _, mean, _ in twins], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(P, [C for *_, C in twins], rtol=1e-8, atol=1e-9)
