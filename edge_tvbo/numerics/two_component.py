"""Two-component posterior kernels: the field is a weighted sum of two hidden components.

The state is z = (z_0, z_1), which has 2M numbers. The field is f = w_0 z_0 + w_1 z_1. One interval
turns z into A z + noise, where A is a 2 x 2 matrix and the noise has covariance Q ⊗ K. The
posterior is a Kalman filter as in `state_space`, at four times the cost: O(M²) per interval,
however long the history is. The kernels here call no kernel of another file, because numba's cache
does not notice changes in other files.
"""

from math import sqrt

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array


@kernel("void(f8[::1], f8[:, ::1], f8, f8, i8, f8, f8, f8[::1])")
def condition(
    m: Array,
    C: Array,
    w0: float,
    w1: float,
    arm: int,
    y: float,
    noise_variance: float,
    g: Array,
) -> None:
    """Update the two-component posterior with one reading of w0 z_0 + w1 z_1, in place.

    Parameters
    ----------
    m : float64[2 M]
        Posterior mean of z_0, then of z_1.
    C : float64[2 M, 2 M], C order, symmetric
        Posterior covariance; it stays symmetric to the last bit, as in `state_space.condition`.
    w0, w1 : float
        Weights of the components in the field at the current interval.
    arm, y, noise_variance
        Arm that was read, the reading in model units, and its noise variance.
    g : float64[2 M]
        Workspace.
    """
    N = m.shape[0]
    other = arm + N // 2
    for i in range(N):
        g[i] = w0 * C[arm, i] + w1 * C[other, i]
    scale = 1.0 / sqrt(max(w0 * g[arm] + w1 * g[other], 0.0) + noise_variance)
    scaled_error = (y - w0 * m[arm] - w1 * m[other]) * scale
    for i in range(N):
        g[i] *= scale
    for i in range(N):
        gi = g[i]
        m[i] += gi * scaled_error
        for j in range(N):
            C[i, j] -= gi * g[j]
        if C[i, i] < 0.0:
            C[i, i] = 0.0


@kernel("void(f8[::1], f8[:, ::1], f8[:, ::1], f8[:, ::1], f8[:, ::1])")
def evolve(m: Array, C: Array, K: Array, A: Array, Q: Array) -> None:
    """Advance the two-component posterior by one interval, in place.

    m <- A m and C <- A C Aᵀ + Q ⊗ K, block by block.

    Parameters
    ----------
    m, C : float64[2 M], float64[2 M, 2 M]
        Posterior mean and covariance, as for `condition`.
    K : float64[M, M]
        Spatial prior covariance.
    A, Q : float64[2, 2]
        Transition matrix of the components, and covariance of their innovation.
    """
    M = K.shape[0]
    a, b, c, d = A[0, 0], A[0, 1], A[1, 0], A[1, 1]
    for i in range(M):
        first, second = m[i], m[M + i]
        m[i] = a * first + b * second
        m[M + i] = c * first + d * second
        for j in range(M):
            c00, c01, c10, c11 = C[i, j], C[i, M + j], C[M + i, j], C[M + i, M + j]
            C[i, j] = a * a * c00 + a * b * (c01 + c10) + b * b * c11 + Q[0, 0] * K[i, j]
            C[M + i, M + j] = c * c * c00 + c * d * (c01 + c10) + d * d * c11 + Q[1, 1] * K[i, j]
            C[i, M + j] = a * c * c00 + a * d * c01 + b * c * c10 + b * d * c11 + Q[0, 1] * K[i, j]
    for i in range(M):
        for j in range(M):
            C[M + j, i] = C[i, M + j]


@kernel("void(f8[::1], f8[:, ::1], f8[:, ::1], f8[:, ::1])")
def reset_to_prior(m: Array, C: Array, K: Array, P: Array) -> None:
    """Reset the two-component posterior to the prior, in place: mean 0, covariance P ⊗ K.

    `P` (float64[2, 2]) is the prior covariance of the components, and `K` (float64[M, M]) is the
    prior covariance of the arms.
    """
    M = K.shape[0]
    for i in range(M):
        m[i] = 0.0
        m[M + i] = 0.0
        for j in range(M):
            C[i, j] = P[0, 0] * K[i, j]
            C[i, M + j] = P[0, 1] * K[i, j]
            C[M + i, j] = P[0, 1] * K[i, j]
            C[M + i, M + j] = P[1, 1] * K[i, j]


@kernel("void(f8[::1], f8[:, ::1], f8, f8, f8[::1], f8[::1])")
def predict(m: Array, C: Array, w0: float, w1: float, mean: Array, variance: Array) -> None:
    """Fill `mean` and `variance` (float64[M]) of the two-component field w0 z_0 + w1 z_1."""
    M = mean.shape[0]
    for i in range(M):
        mean[i] = w0 * m[i] + w1 * m[M + i]
        spread = w0 * w0 * C[i, i] + 2.0 * w0 * w1 * C[i, M + i] + w1 * w1 * C[M + i, M + i]
        variance[i] = max(spread, 0.0)
