"""A bank of state-space models side by side, one compiled step for all of them.

Each model k has the state (z_0, z_1) of `pair_space`, or z_0 alone where its transition leaves z_1
out, over one of several kernels. Readings reach a model shifted and scaled: y = shift + scale z_0.
It calls no kernel of another file: numba's cache would not notice when that changes.
"""

from math import log, pi, sqrt

import numpy as np

from edge_tvbo.numerics.jit import Array3, Indices, Mask, Matrix, Vector, kernel

LIMIT = 3.0  # standard deviations of surprise beyond which a reading counts for less


@kernel("void(f8[:, ::1], f8[:, :, ::1], f8[:, :, ::1], i8[::1], f8[:, :, ::1], f8[:, :, ::1])")
def evolve_pairs(m: Matrix, C: Array3, K: Array3, which: Indices, A: Array3, Q: Array3) -> None:
    """Move models of two components on by one interval: C <- A C Aᵀ + Q K, block by block.

    Parameters
    ----------
    m : float64[B, 2 M], C : float64[B, 2 M, 2 M]
        Posterior means and covariances.
    K : float64[k, M, M], which : int64[B]
        Prior covariances, and the one of each model.
    A, Q : float64[B, 2, 2]
        Transitions, and covariances of what is new.
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
def evolve(m: Matrix, C: Array3, K: Array3, which: Indices, retain: Vector, inject: Vector) -> None:
    """Move models of one component on by one interval, as `state_space.evolve` does."""
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


@kernel("void(f8[:, ::1], f8[:, :, ::1], i8, f8, f8[::1], f8[::1], f8, f8[::1], f8[::1])")
def condition(
    m: Matrix,
    C: Array3,
    arm: int,
    y: float,
    shift: Vector,
    scale: Vector,
    noise_variance: float,
    log_density: Vector,
    g: Vector,
) -> None:
    """Take one reading into every model, in place, after weighing how well each foresaw it.

    Parameters
    ----------
    m : float64[B, N], C : float64[B, N, N]
        Posterior means and covariances; N is M, or 2 M for models of two components.
    arm, y, noise_variance
        Whose reading, in model units, and its noise.
    shift, scale : float64[B]
        y = shift + scale z_0[arm] + noise, model by model.
    log_density : float64[B]
        Receives ln p(y) before it is taken in.
    g : float64[N]
        Workspace.

    Notes
    -----
    A reading more than LIMIT standard deviations off is taken for one with more noise, by as much
    as brings its pull down to that of one LIMIT off, and its density falls off with the distance
    and no longer with its square (Huber 1964): rooms have heavy tails, and sensors err.
    """
    N = m.shape[1]
    for b in range(m.shape[0]):
        mean = m[b]
        cov = C[b]
        total = max(cov[arm, arm], 0.0) + noise_variance / (scale[b] * scale[b])
        surprise = (y - shift[b]) / scale[b] - mean[arm]
        square = surprise * surprise / total
        far = sqrt(square)
        loss = square if far <= LIMIT else LIMIT * (2.0 * far - LIMIT)
        log_density[b] = -0.5 * (log(2.0 * pi * total) + loss) - log(scale[b])
        if far > LIMIT:
            total *= far / LIMIT
        root = 1.0 / sqrt(total)
        for i in range(N):
            g[i] = cov[arm, i] * root
        for i in range(N):
            gi = g[i]
            mean[i] += gi * surprise * root
            for j in range(N):
                cov[i, j] -= gi * g[j]
            if cov[i, i] < 0.0:
                cov[i, i] = 0.0


@kernel(
    "void(f8[:, ::1], f8[:, :, ::1], f8[:, ::1], f8[:, :, ::1],"
    " f8[::1], b1[::1], f8[::1], f8[::1], f8, f8[::1], f8[::1])"
)
def mix(
    m: Matrix,
    C: Array3,
    m2: Matrix,
    C2: Array3,
    weight: Vector,
    daily: Mask,
    level: Vector,
    course: Vector,
    scale: float,
    mean: Vector,
    variance: Vector,
) -> None:
    """Compute what the models believe of z_0 together.

    Parameters
    ----------
    m : float64[b, M], C : float64[b, M, M], m2 : float64[B - b, 2 M], C2 : float64[B - b, 2 M, 2 M]
        Posterior means and covariances of models of one component, and of two.
    weight : float64[B]
        Weights of all of them, which add up to 1.
    daily : bool[B]
        Which of them are shifted by `course` (float64[M]) and scaled by `scale`; the others are
        shifted by `level` (float64[M]) alone.
    mean, variance : float64[M]
        Receive the mixture's moments.
    """
    b = m.shape[0]
    M = mean.shape[0]
    mean[:] = 0.0
    variance[:] = 0.0
    for k in range(weight.shape[0]):
        own = m[k] if k < b else m2[k - b]
        shift, s = (course, scale) if daily[k] else (level, 1.0)
        for i in range(M):
            mean[i] += weight[k] * (shift[i] + s * own[i])
    for k in range(weight.shape[0]):
        own, cov = (m[k], C[k]) if k < b else (m2[k - b], C2[k - b])
        shift, s = (course, scale) if daily[k] else (level, 1.0)
        for i in range(M):
            off = shift[i] + s * own[i] - mean[i]
            variance[i] += weight[k] * (off * off + s * s * max(cov[i, i], 0.0))


@kernel("void(f8[::1], f8[::1], f8[::1], f8[:, ::1], f8, f8)")
def follow(
    course: Vector, mean: Vector, variance: Vector, K: Matrix, square: float, rate: float
) -> None:
    """Move `course` to the mixture's mean by `rate`, as far as the arm is known.

    `square` times the diagonal of `K` is the variance of an arm of which nothing is known.
    """
    for i in range(course.shape[0]):
        known = min(max(1.0 - variance[i] / (square * K[i, i]), 0.0), 1.0)
        course[i] += rate * known * (mean[i] - course[i])


def prior_pairs(K: Array3, which: Indices, P: Array3) -> Array3:
    """Give the covariances (B, 2 M, 2 M) of models that know nothing: P (B, 2, 2) times K."""
    N = 2 * K.shape[1]
    blocks = [np.kron(P[b], K[which[b]]) for b in range(len(which))]
    return np.ascontiguousarray(blocks, dtype=np.float64).reshape(-1, N, N)
