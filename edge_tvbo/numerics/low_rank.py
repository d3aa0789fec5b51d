"""Low-rank posterior kernels: a smooth field of very many arms as a sum of few components.

The prior covariance is K = Bᵀ B + R. The r rows of B hold the covariance that the arms share. Only
the diagonal of the small remainder R is stored: the part of each arm's variance that no reading
reduces. The state consists of the covariance of the r components, whose prior is the identity, and
of the mean and variance of all arms. An interval costs O(r² + rM), compared with O(M²) in
`state_space`.
"""

from math import sqrt

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array


@kernel("i8(f8[:, ::1], f8, f8[:, ::1], f8[::1])")
def pivoted_cholesky(K: Array, max_rest: float, B: Array, rest: Array) -> int:
    """Factor K into Bᵀ B + R until no diagonal entry of R is above `max_rest`.

    Parameters
    ----------
    K : float64[M, M]
        Prior covariance.
    max_rest : float
        Largest remaining variance allowed, > 0.
    B : float64[r, M], C order
        Receives at most r components, one in each row.
    rest : float64[M]
        Receives the diagonal of K - Bᵀ B; every entry is >= 0.

    Returns
    -------
    int
        Number of rows of B that were written. If r rows were not enough, the result is r, and
        `rest` still has entries above `max_rest`.

    Notes
    -----
    The kernel computes the Cholesky factor of K row by row, with the largest pivot first, in r²M/2
    multiply-adds. The remainder is positive semi-definite after each row (Harbrecht, Peters &
    Schneider 2012, Appl. Numer. Math. 62, algorithm 1). The tests compare the kernel with
    ``components`` in ``tests/support/naive.py``.
    """
    M = K.shape[0]
    for i in range(M):
        rest[i] = K[i, i]
    for n in range(B.shape[0]):
        arm = 0
        for i in range(1, M):
            if rest[i] > rest[arm]:
                arm = i
        if rest[arm] <= max_rest:
            return n
        for i in range(M):
            B[n, i] = K[arm, i]
        for k in range(n):
            share = B[k, arm]
            for i in range(M):
                B[n, i] -= share * B[k, i]
        root = sqrt(rest[arm])
        for i in range(M):
            B[n, i] /= root
            rest[i] = max(rest[i] - B[n, i] * B[n, i], 0.0)
        rest[arm] = 0.0
    return len(B)


@kernel("void(f8[::1], f8[::1], f8[:, ::1], f8[:, ::1], f8[::1], f8, i8, f8, f8, f8[::1], f8[::1])")
def condition(
    mean: Array,
    variance: Array,
    C: Array,
    B: Array,
    rest: Array,
    prior: float,
    arm: int,
    y: float,
    noise_variance: float,
    h: Array,
    g: Array,
) -> None:
    """Update the low-rank posterior with one reading, in place.

    Parameters
    ----------
    mean, variance : float64[M]
        Posterior mean and variance of every arm.
    C : float64[r, r], C order, symmetric
        Covariance of the components; it stays symmetric to the last bit, as in
        `state_space.condition`.
    B, rest : float64[r, M], float64[M]
        As filled by `pivoted_cholesky`.
    prior : float
        Scale of K in the prior of the current interval. The part `prior` · `rest` of an arm's
        variance is never reduced.
    arm, y, noise_variance
        Arm that was read, the reading in model units, and its noise variance.
    h, g : float64[r], float64[M]
        Workspace.

    Notes
    -----
    The update takes rM + 2r² multiply-adds and allocates nothing. Sums run over rows, so that the
    compiler can vectorise them without changing the order of any sum. Source: Quiñonero-Candela &
    Rasmussen 2005, JMLR 6, section 6.
    """
    r, M = B.shape
    total = prior * rest[arm] + noise_variance
    for i in range(r):
        h[i] = 0.0
    for k in range(r):
        share = B[k, arm]
        for i in range(r):
            h[i] += share * C[k, i]
    for k in range(r):
        total += B[k, arm] * h[k]
    scale = 1.0 / sqrt(max(total, noise_variance))
    scaled_error = (y - mean[arm]) * scale
    for i in range(r):
        h[i] *= scale
    for i in range(M):
        g[i] = 0.0
    for k in range(r):
        hk = h[k]
        for i in range(r):
            C[k, i] -= hk * h[i]
        if C[k, k] < 0.0:
            C[k, k] = 0.0
        for i in range(M):
            g[i] += hk * B[k, i]
    for i in range(M):
        mean[i] += g[i] * scaled_error
        variance[i] = max(variance[i] - g[i] * g[i], prior * rest[i])


@kernel("void(f8[::1], f8[::1], f8[:, ::1], f8[:, ::1], f8, f8)")
def evolve(mean: Array, variance: Array, C: Array, K: Array, retain: float, inject: float) -> None:
    """Advance the low-rank posterior by one interval, in place, in r² + M steps.

    As in `state_space.evolve`, means are multiplied by sqrt(`retain`). The variance of arm i is
    replaced by `retain` · variance + `inject` · K[i, i].
    """
    shrink = sqrt(retain)
    for i in range(mean.shape[0]):
        mean[i] *= shrink
        variance[i] = retain * variance[i] + inject * K[i, i]
    for i in range(C.shape[0]):
        for j in range(C.shape[0]):
            C[i, j] *= retain
        C[i, i] += inject


@kernel("void(f8[::1], f8[::1], f8[:, ::1], f8[:, ::1], f8)")
def reset_to_prior(mean: Array, variance: Array, C: Array, K: Array, prior: float) -> None:
    """Reset the low-rank posterior to the prior, in place: mean 0, covariance `prior` · K."""
    for i in range(mean.shape[0]):
        mean[i] = 0.0
        variance[i] = prior * K[i, i]
    for i in range(C.shape[0]):
        for j in range(C.shape[0]):
            C[i, j] = 0.0
        C[i, i] = prior
