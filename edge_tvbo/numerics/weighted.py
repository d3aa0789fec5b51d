"""The posterior of a still field from readings of unequal weight, computed at once.

Readings of one arm say together what one reading says: their mean by weight, with the noise that
belongs to the sum of their weights. So n, the order of the factor, is at most M.
"""

from math import exp, sqrt

from edge_tvbo.numerics.jit import Indices, Matrix, Vector, kernel

LEAST = 1e-12  # of a reading's weight: it is as good as forgotten


@kernel(
    "void(f8[:, ::1], i8[::1], f8[::1], i8[::1], i8, i8, f8, f8,"
    " f8[::1], f8[::1], f8[:, ::1], f8[::1], f8[::1], f8[::1])"
)
def predict(
    K: Matrix,
    arms: Indices,
    y: Vector,
    times: Indices,
    readings: int,
    now: int,
    fading: float,
    noise_variance: float,
    weights: Vector,
    sums: Vector,
    V: Matrix,
    z: Vector,
    mean: Vector,
    variance: Vector,
) -> None:
    """Fill `mean` and `variance` (float64[M]) of all arms, by one regression on the arms read.

    Parameters
    ----------
    K : float64[M, M]
        Prior covariance.
    arms, y, times : int64[W], float64[W], int64[W]
        Of each of the first `readings`: arm, value, interval.
    now, fading, noise_variance
        A reading has the weight exp(-fading (now - time)), and the noise over its weight.
    weights, sums : float64[M], V : float64[n, M], z : float64[n]
        Workspace; n is the lesser of W and M.

    Notes
    -----
    n³/3 + n²M multiply-adds for n arms that were read. Rasmussen & Williams, algorithm 2.1; twin:
    ``KernelPosterior``.
    """
    M = K.shape[0]
    weights[:] = 0.0
    sums[:] = 0.0
    for r in range(readings):
        weight = max(exp(-fading * (now - times[r])), LEAST)
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
            entry = V[i, arm]  # of the lower factor
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
