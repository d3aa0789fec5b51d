"""The exact posterior of fields that two hidden components make up, each as large as the field.

The state is (z_0, z_1), 2M numbers, and f = w_0 z_0 + w_1 z_1. One interval turns z into
A z + noise, with A of 2 x 2 numbers, and the noise's covariance Q times K. A Kalman filter as in
`state_space`, at four times its cost: O(M²) an interval for ever. It calls no kernel of that
file: numba's cache would not notice when the other file changes.
"""

from math import sqrt

from edge_tvbo.numerics.jit import Matrix, Vector, kernel


@kernel("void(f8[::1], f8[:, ::1], f8, f8, i8, f8, f8, f8[::1])")
def condition(
    m: Vector,
    C: Matrix,
    w0: float,
    w1: float,
    arm: int,
    y: float,
    noise_variance: float,
    g: Vector,
) -> None:
    """Take one reading of w0 z_0 + w1 z_1 into the posterior, in place.

    Parameters
    ----------
    m : float64[2 M]
        Posterior mean of z_0, then of z_1.
    C : float64[2 M, 2 M], C order, symmetric
        Posterior covariance; it stays symmetric to the last bit, as in `state_space.condition`.
    arm, y, noise_variance
        Whose reading, in model units, and its noise.
    g : float64[2 M]
        Workspace.
    """
    N = m.shape[0]
    other = arm + N // 2
    for i in range(N):
        g[i] = w0 * C[arm, i] + w1 * C[other, i]
    scale = 1.0 / sqrt(max(w0 * g[arm] + w1 * g[other], 0.0) + noise_variance)
    surprise = (y - w0 * m[arm] - w1 * m[other]) * scale
    for i in range(N):
        g[i] *= scale
    for i in range(N):
        gi = g[i]
        m[i] += gi * surprise
        for j in range(N):
            C[i, j] -= gi * g[j]
        if C[i, i] < 0.0:
            C[i, i] = 0.0


@kernel("void(f8[::1], f8[:, ::1], f8[:, ::1], f8[:, ::1], f8[:, ::1])")
def evolve(m: Vector, C: Matrix, K: Matrix, A: Matrix, Q: Matrix) -> None:
    """Move the posterior on by one interval: m <- A m, C <- A C Aᵀ + Q K, block by block.

    Parameters
    ----------
    m, C : float64[2 M], float64[2 M, 2 M]
        As for `condition`.
    K : float64[M, M]
        Spatial prior covariance.
    A, Q : float64[2, 2]
        Transition of the components, and covariance of what is new.
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
def forget(m: Vector, C: Matrix, K: Matrix, P: Matrix) -> None:
    """Return to the prior, in place: mean 0, covariance of the components P (2 x 2) times K."""
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
def predict(m: Vector, C: Matrix, w0: float, w1: float, mean: Vector, variance: Vector) -> None:
    """Fill `mean` and `variance` (float64[M]) of w0 z_0 + w1 z_1."""
    M = mean.shape[0]
    for i in range(M):
        mean[i] = w0 * m[i] + w1 * m[M + i]
        spread = w0 * w0 * C[i, i] + 2.0 * w0 * w1 * C[i, M + i] + w1 * w1 * C[M + i, M + i]
        variance[i] = max(spread, 0.0)
