"""Weighted posterior kernel: estimates a static field; readings lose weight with age.

All readings of one arm are equivalent to a single reading: their weighted mean, with the noise
variance divided by the sum of their weights. The order n of the Cholesky factor is therefore at
most M, the number of arms.
"""

from math import exp, sqrt

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array, Int64Array

MIN_WEIGHT = 1e-12  # smallest weight of a reading; such a reading has no noticeable effect


@kernel(
    "void(f8[:, ::1], i8[::1], f8[::1], i8[::1], i8, i8, f8, f8,"
    " f8[::1], f8[::1], f8[:, ::1], f8[::1], f8[::1], f8[::1])"
)
def predict(
    K: Array,
    arms: Int64Array,
    y: Array,
    times: Int64Array,
    readings: int,
    now: int,
    fading: float,
    noise_variance: float,
    weights: Array,
    sums: Array,
    V: Array,
    z: Array,
    mean: Array,
    variance: Array,
) -> None:
    """Fill the posterior `mean` and `variance` (float64[M]) given weighted readings.

    Parameters
    ----------
    K : float64[M, M]
        Prior covariance.
    arms, y, times : int64[W], float64[W], int64[W]
        Arm, value in model units, and interval of each reading. Only the first `readings` entries
        are used.
    now, fading, noise_variance
        A reading has the weight exp(-fading (now - time)), and the noise variance `noise_variance`
        / weight.
    weights, sums : float64[M], V : float64[n, M], z : float64[n]
        Workspace; n is the smaller of W and M.

    Notes
    -----
    If the readings are of n different arms, the cost is n³/3 + n²M multiply-adds. Source: Rasmussen
    & Williams, algorithm 2.1. Tests compare the results with a `RegressionPosterior` that has
    a ``gamma``.
    """
    M = K.shape[0]
    weights[:] = 0.0
    sums[:] = 0.0
    for r in range(readings):
        weight = max(exp(-fading * (now - times[r])), MIN_WEIGHT)
        weights[arms[r]] += weight
        sums[arms[r]] += weight * y[r]
    for j in range(M):
        mean[j] = 0.0
        variance[j] = K[j, j]
    n = 0
    for arm in range(M):
        if weights[arm] == 0.0:
            continue
        noise = noise_variance / weights[arm]
        rest = K[arm, arm] + noise
        residual = sums[arm] / weights[arm]
        for j in range(M):
            V[n, j] = K[arm, j]
        for i in range(n):
            entry = V[i, arm]  # entry of the lower factor
            rest -= entry * entry
            residual -= entry * z[i]
            for j in range(M):
                V[n, j] -= entry * V[i, j]
        pivot = sqrt(max(rest, noise))
        z[n] = residual / pivot
        for j in range(M):
            V[n, j] /= pivot
            mean[j] += V[n, j] * z[n]
            variance[j] -= V[n, j] * V[n, j]
        n += 1
    for j in range(M):
        variance[j] = max(variance[j], 0.0)
