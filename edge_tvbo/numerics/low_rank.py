"""The posterior of a smooth field of very many arms, by the few components that make it up.

K = Bᵀ B + R: r rows of B carry what the arms share, and of the small remainder R only the diagonal
is kept, as what no reading tells and each arm has for itself. The state is the covariance of the
r components, whose prior is the identity, beside mean and variance of all arms. What an interval
does is as in `state_space`: O(r² + rM) for ever, where that is O(M²).
"""

from math import sqrt

from edge_tvbo.numerics.jit import Matrix, Vector, kernel


@kernel("i8(f8[:, ::1], f8, f8[:, ::1], f8[::1])")
def factor(K: Matrix, most: float, B: Matrix, rest: Vector) -> int:
    """Give how many rows of B it takes until no arm's remainder is above `most`.

    Parameters
    ----------
    K : float64[M, M]
        Prior covariance.
    most : float
        Of a variance, > 0.
    B : float64[r, M], C order
        Receives the components, as many as there is room for.
    rest : float64[M]
        Receives the diagonal of K - Bᵀ B, none below 0.

    Returns
    -------
    int
        The rows written; r where they were not enough, and `rest` says by how much.

    Notes
    -----
    r²M/2 multiply-adds. The Cholesky factor of K by rows, those with the largest pivot first;
    what is left is positive semi-definite after each (Harbrecht, Peters & Schneider 2012, Appl.
    Numer. Math. 62, algorithm 1).
    """
    M = K.shape[0]
    for i in range(M):
        rest[i] = K[i, i]
    for n in range(B.shape[0]):
        arm = 0
        for i in range(1, M):
            if rest[i] > rest[arm]:
                arm = i
        if rest[arm] <= most:
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
    mean: Vector,
    variance: Vector,
    C: Matrix,
    B: Matrix,
    rest: Vector,
    prior: float,
    arm: int,
    y: float,
    noise_variance: float,
    h: Vector,
    g: Vector,
) -> None:
    """Take one reading into the posterior, in place.

    Parameters
    ----------
    mean, variance : float64[M]
        Of every arm.
    C : float64[r, r], C order, symmetric
        Covariance of the components; it stays symmetric to the last bit, as in
        `state_space.condition`.
    B, rest
        As `factor` gave them.
    prior : float
        Scale of K in the prior now: `prior` times `rest` is what no reading tells of an arm.
    arm, y, noise_variance
        Whose reading, in model units, and its noise.
    h, g : float64[r], float64[M]
        Workspace.

    Notes
    -----
    rM + 2r² multiply-adds, no allocation; sums run over rows, which the compiler may do in
    parallel without reordering any. Quiñonero-Candela & Rasmussen 2005, JMLR 6, section 6.
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
    surprise = (y - mean[arm]) * scale
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
        mean[i] += g[i] * surprise
        variance[i] = max(variance[i] - g[i] * g[i], prior * rest[i])


@kernel("void(f8[::1], f8[::1], f8[:, ::1], f8[:, ::1], f8, f8)")
def evolve(
    mean: Vector, variance: Vector, C: Matrix, K: Matrix, retain: float, inject: float
) -> None:
    """Move the posterior on by one interval, as `state_space.evolve` does, in r² + M steps."""
    shrink = sqrt(retain)
    for i in range(mean.shape[0]):
        mean[i] *= shrink
        variance[i] = retain * variance[i] + inject * K[i, i]
    for i in range(C.shape[0]):
        for j in range(C.shape[0]):
            C[i, j] *= retain
        C[i, i] += inject


@kernel("void(f8[::1], f8[::1], f8[:, ::1], f8[:, ::1], f8)")
def forget(mean: Vector, variance: Vector, C: Matrix, K: Matrix, prior: float) -> None:
    """Return to the prior, in place: mean 0, covariance `prior` times K."""
    for i in range(mean.shape[0]):
        mean[i] = 0.0
        variance[i] = prior * K[i, i]
    for i in range(C.shape[0]):
        for j in range(C.shape[0]):
            C[i, j] = 0.0
        C[i, i] = prior
