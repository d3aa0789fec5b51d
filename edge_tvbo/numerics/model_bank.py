"""Model bank kernels: many state-space models side by side, updated in one compiled step.

Each model of the bank has the state z_0 of `state_space` or the state (z_0, z_1) of
`two_component`. Each model uses one of several prior covariances. The field is z_0. The kernels
here call no kernel of another file, because numba's cache does not notice changes in other files.
"""

from math import log, pi, sqrt

import numpy as np

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array, Int64Array

MAX_ERROR_STDS = 3.0  # prediction error beyond which a reading gets less weight


@kernel("void(f8[:, ::1], f8[:, :, ::1], f8[:, :, ::1], i8[::1], f8[:, :, ::1], f8[:, :, ::1])")
def evolve_two_component(
    m: Array, C: Array, K: Array, which: Int64Array, A: Array, Q: Array
) -> None:
    """Advance the model bank's two-component models by one interval, in place.

    m <- A m and C <- A C Aᵀ + Q ⊗ K, block by block.

    Parameters
    ----------
    m : float64[B, 2 M], C : float64[B, 2 M, 2 M]
        Posterior means and covariances.
    K : float64[k, M, M], which : int64[B]
        Prior covariances, and the index of the covariance that each model uses.
    A, Q : float64[B, 2, 2]
        Transition matrices, and covariances of the innovations.
    """
    M = K.shape[1]
    for b in range(m.shape[0]):
        a00, a01, a10, a11 = A[b, 0, 0], A[b, 0, 1], A[b, 1, 0], A[b, 1, 1]
        q00, q01, q11 = Q[b, 0, 0], Q[b, 0, 1], Q[b, 1, 1]
        prior = K[which[b]]
        mean = m[b]
        cov = C[b]
        for i in range(M):
            first, second = mean[i], mean[M + i]
            mean[i] = a00 * first + a01 * second
            mean[M + i] = a10 * first + a11 * second
            for j in range(M):
                c00, c01, c10, c11 = cov[i, j], cov[i, M + j], cov[M + i, j], cov[M + i, M + j]
                k = prior[i, j]
                cov[i, j] = a00 * a00 * c00 + a00 * a01 * (c01 + c10) + a01 * a01 * c11 + q00 * k
                cov[M + i, M + j] = (
                    a10 * a10 * c00 + a10 * a11 * (c01 + c10) + a11 * a11 * c11 + q11 * k
                )
                cov[i, M + j] = (
                    a00 * a10 * c00 + a00 * a11 * c01 + a01 * a10 * c10 + a01 * a11 * c11 + q01 * k
                )
        for i in range(M):
            for j in range(M):
                cov[M + j, i] = cov[i, M + j]


@kernel("void(f8[:, ::1], f8[:, :, ::1], f8[:, :, ::1], i8[::1], f8[::1], f8[::1])")
def evolve_one_component(
    m: Array, C: Array, K: Array, which: Int64Array, retain: Array, inject: Array
) -> None:
    """Advance the bank's one-component models by one interval, as `state_space.evolve` does."""
    M = K.shape[1]
    for b in range(m.shape[0]):
        if retain[b] == 1.0 and inject[b] == 0.0:
            continue
        shrink = sqrt(retain[b])
        prior = K[which[b]]
        for i in range(M):
            m[b, i] *= shrink
            for j in range(M):
                C[b, i, j] = retain[b] * C[b, i, j] + inject[b] * prior[i, j]


@kernel("void(f8[:, ::1], f8[:, :, ::1], i8, f8, f8, f8[::1], f8[::1])")
def condition(
    m: Array,
    C: Array,
    arm: int,
    y: float,
    noise_variance: float,
    log_density: Array,
    g: Array,
) -> None:
    """Update every model of the bank with one reading, in place; fill the reading's log densities.

    Parameters
    ----------
    m : float64[B, N], C : float64[B, N, N]
        Posterior means and covariances; N is M, or 2 M for two-component models.
    arm, y, noise_variance
        Arm that was read, the reading in model units, and its noise variance.
    log_density : float64[B]
        Receives ln p(y) under each model before the update.
    g : float64[N]
        Workspace.

    Notes
    -----
    The influence of an error is limited to MAX_ERROR_STDS predictive standard deviations. If the
    error of a reading is larger, the noise variance is increased. The reading then moves the mean
    only as far as a reading with an error at the limit. Beyond the limit, the log density decreases
    linearly with the error, not quadratically (Huber 1964). The reasons: indoor temperatures have
    heavy tails, and sensors fail.
    """
    N = m.shape[1]
    for b in range(m.shape[0]):
        mean = m[b]
        cov = C[b]
        total = max(cov[arm, arm], 0.0) + noise_variance
        error = y - mean[arm]
        square = error * error / total
        far = sqrt(square)
        loss = square if far <= MAX_ERROR_STDS else MAX_ERROR_STDS * (2.0 * far - MAX_ERROR_STDS)
        log_density[b] = -0.5 * (log(2.0 * pi * total) + loss)
        if far > MAX_ERROR_STDS:
            total *= far / MAX_ERROR_STDS
        root = 1.0 / sqrt(total)
        for i in range(N):
            g[i] = cov[arm, i] * root
        for i in range(N):
            gi = g[i]
            mean[i] += gi * error * root
            for j in range(N):
                cov[i, j] -= gi * g[j]
            if cov[i, i] < 0.0:
                cov[i, i] = 0.0


@kernel("void(f8[:, ::1], f8[:, :, ::1], f8[:, ::1], f8[:, :, ::1], f8[::1], f8[::1], f8[::1])")
def mixture_moments(
    m: Array,
    C: Array,
    m2: Array,
    C2: Array,
    weight: Array,
    mean: Array,
    variance: Array,
) -> None:
    """Compute the field's mean and variance under the weighted mixture of the bank's models.

    Parameters
    ----------
    m : float64[b, M], C : float64[b, M, M], m2 : float64[B - b, 2 M], C2 : float64[B - b, 2 M, 2 M]
        Posterior means `m` and covariances `C` of the bank's b one-component models, and `m2` and
        `C2` of its two-component models.
    weight : float64[B]
        Weights of all models, which add up to 1.
    mean, variance : float64[M]
        Receive the moments of the mixture.
    """
    b = m.shape[0]
    M = mean.shape[0]
    mean[:] = 0.0
    variance[:] = 0.0
    for k in range(weight.shape[0]):
        own = m[k] if k < b else m2[k - b]
        for i in range(M):
            mean[i] += weight[k] * own[i]
    for k in range(weight.shape[0]):
        own, cov = (m[k], C[k]) if k < b else (m2[k - b], C2[k - b])
        for i in range(M):
            off = own[i] - mean[i]
            variance[i] += weight[k] * (off * off + max(cov[i, i], 0.0))


def prior_covariances(K: Array, which: Int64Array, P: Array) -> Array:
    """Return the prior covariances P ⊗ K of a bank of two-component models, (B, 2 M, 2 M).

    `K` (k, M, M) holds covariances of the arms. `which` (B,) holds for each model the index of the
    covariance that it uses. `P` (B, 2, 2) holds the prior covariances of the components.
    """
    N = 2 * K.shape[1]
    blocks = [np.kron(P[b], K[which[b]]) for b in range(len(which))]
    return np.ascontiguousarray(blocks, dtype=np.float64).reshape(-1, N, N)
